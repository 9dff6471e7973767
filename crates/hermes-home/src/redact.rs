//! Secrets in text, masked on the way into logs, exports and what observers receive.
//!
//! Three kinds are found: values that were registered, shapes that only keys have, and values
//! behind names that say what they are. Invariants: masking a text twice changes nothing more;
//! ids, digests and ordinary words stay as they are; a text without secrets is not copied.

mod name;
mod shape;

use std::borrow::Cow;
use std::ops::Range;

pub use name::{is_secret_name, may_hold_secret};

/// What stands in the place of a secret.
pub const MASK: &str = "[redacted]";

/// Shortest value that is masked wherever it occurs, and shortest piece of it.
pub const MIN_KNOWN: usize = 8;

/// The text with everything that looks like a secret masked.
pub fn redact(text: &str) -> Cow<'_, str> {
    apply(text, shape::find(text))
}

/// Masks known values besides what looks like a secret.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a value within another is not what is found.
    known: Vec<String>,
    off: bool,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor")
            .field("known", &self.known.len())
            .field("off", &self.off)
            .finish()
    }
}

impl Redactor {
    /// A redactor that knows some values. Values shorter than [`MIN_KNOWN`] are left out, because
    /// they could be words.
    pub fn new<'v>(known: impl IntoIterator<Item = &'v str>) -> Self {
        let mut redactor = Self::default();
        for value in known {
            redactor.add(value);
        }
        redactor
    }

    /// A redactor that masks nothing, for `security.redact_secrets: false`.
    pub const fn off() -> Self {
        Self { known: Vec::new(), off: true }
    }

    /// Registers a value; of several lines each one, and each in the form that it has in JSON.
    pub fn add(&mut self, value: &str) {
        for line in value.lines().map(str::trim).filter(|line| line.len() >= MIN_KNOWN) {
            let quoted = crate::yaml::Datum::Text(line.to_owned()).to_json();
            let escaped = quoted[1..quoted.len() - 1].to_owned();
            for form in [line.to_owned(), escaped] {
                if !self.known.contains(&form) {
                    self.known.push(form);
                }
            }
        }
        self.known.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// Registers the key of an endpoint or another value whose place alone says that it is a secret:
    /// in every form that it takes in text, also where it is shorter than [`MIN_KNOWN`].
    pub fn add_key(&mut self, value: &str) {
        self.add(value);
        for form in hermes_core::secret_forms(value) {
            if !self.known.contains(&form) {
                self.known.push(form);
            }
        }
        self.known.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }

    /// The text with known values and everything that looks like a secret masked. A piece of a
    /// known value at the start or end of the text is masked too, because a text may be part of a
    /// longer one.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.off {
            return Cow::Borrowed(text);
        }
        let mut spans = shape::find(text);
        for value in &self.known {
            spans.extend(text.match_indices(value.as_str()).map(|(at, _)| at..at + value.len()));
            spans.extend(piece_at_start(text, value));
            spans.extend(piece_at_end(text, value));
        }
        apply(text, spans)
    }

    /// For a text that arrives in pieces.
    pub const fn stream(&self) -> RedactStream<'_> {
        RedactStream { redactor: self, held: String::new() }
    }
}

/// The longest end of `value` that the text starts with, if it is long enough to matter.
fn piece_at_start(text: &str, value: &str) -> Option<Range<usize>> {
    let starts = value.char_indices().map(|(at, _)| at).skip(1);
    starts
        .take_while(|at| value.len() - at >= MIN_KNOWN)
        .find(|at| text.starts_with(&value[*at..]))
        .map(|at| 0..value.len() - at)
}

/// The longest start of `value` that the text ends with, if it is long enough to matter.
fn piece_at_end(text: &str, value: &str) -> Option<Range<usize>> {
    let ends = value.char_indices().map(|(at, _)| at).skip(1).collect::<Vec<_>>();
    ends.into_iter()
        .rev()
        .take_while(|at| *at >= MIN_KNOWN)
        .find(|at| text.ends_with(&value[..*at]))
        .map(|at| text.len() - at..text.len())
}

/// Masks a text that arrives in pieces: whole lines go out, the rest waits, so that a secret that
/// is split over two pieces is seen whole.
#[derive(Debug)]
pub struct RedactStream<'r> {
    redactor: &'r Redactor,
    held: String,
}

impl RedactStream<'_> {
    /// Most bytes that wait. A line that is longer goes out in parts, each masked by itself.
    const MOST_HELD: usize = 64 * 1024;

    /// Takes the next piece and returns what may go out.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut cut = self.held.rfind('\n').map_or(0, |at| at + 1);
        if let Some(open) = shape::open_block(&self.held[..cut]) {
            cut = open;
        }
        if cut == 0 && self.held.len() > Self::MOST_HELD {
            cut = self.held.rfind(char::is_whitespace).map_or(self.held.len(), |at| {
                at + self.held[at..].chars().next().map_or(0, char::len_utf8)
            });
        }
        let rest = self.held.split_off(cut);
        let out = std::mem::replace(&mut self.held, rest);
        self.redactor.redact(&out).into_owned()
    }

    /// Returns what still waits.
    pub fn finish(self) -> String {
        self.redactor.redact(&self.held).into_owned()
    }
}

/// Puts the mask in the place of every span; spans may overlap.
fn apply(text: &str, mut spans: Vec<Range<usize>>) -> Cow<'_, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        if span.end <= done {
            continue;
        }
        if span.start >= done {
            out.push_str(&text[done..span.start]);
            out.push_str(MASK);
        }
        // A span that begins inside the last one only makes that one longer.
        done = span.end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
