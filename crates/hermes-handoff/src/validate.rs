//! The check of what the writer wrote, against the rows of the session.

use std::collections::HashSet;
use std::fmt::Write as _;

use hermes_compaction::identifiers::{identifiers, scan};
use hermes_compaction::requests::{Request, requests};
use hermes_core::Row;
use serde::{Deserialize, Serialize};

use crate::before::Previous;
use crate::references;
use crate::section::{Body, Section, legible, read};
use crate::source::Source;
use crate::trigger;
use crate::writer::WriterFault;

/// What the check found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Exact names and values that occur nowhere in the session; marked in the text.
    pub unverified: Vec<String>,
    /// References to rows that do not exist; taken out.
    pub false_references: usize,
    /// Open requests of the person that were missing; added to Next.
    pub added_requests: usize,
}

/// Behind a name or value that the session does not hold.
pub(crate) const UNVERIFIED: &str = " (unverified)";

/// A capsule that says less than this is not compared with its successor.
const COMPARABLE: usize = 400;
/// A successor must say at least this part of it.
const LEAST_SHARE: usize = 4;
/// Most open requests that are added.
const MOST_ADDED: usize = 8;

/// Reads and checks an answer.
///
/// # Errors
/// How the writer failed, if the answer is no capsule or a poorer one than `previous`.
pub(crate) fn read_answer(answer: &str, previous: Option<&Previous>) -> Result<Body, WriterFault> {
    if answer.trim().is_empty() {
        return Err(WriterFault::Empty);
    }
    let answer = read(answer);
    if answer.headings.is_empty() {
        return Err(if is_refusal(&answer.head) {
            WriterFault::Refused
        } else {
            WriterFault::NoCapsule
        });
    }
    if !answer.is_whole() {
        return Err(WriterFault::WrongHeadings);
    }
    let says = answer.body.content_chars();
    if says == 0 {
        return Err(WriterFault::NoCapsule);
    }
    if let Some(previous) = previous {
        let whole = previous.body.content_chars();
        // One that no model wrote fills its whole room with what was said, so its length is no measure.
        let before = if previous.written { whole } else { whole.min(COMPARABLE) };
        if before >= COMPARABLE && says * LEAST_SHARE < before {
            return Err(WriterFault::Emptier);
        }
    }
    Ok(answer.body)
}

/// Whether an answer without any heading opens as refusals do.
fn is_refusal(text: &str) -> bool {
    let start: String = text.chars().take(60).collect::<String>().to_lowercase();
    let start = start.replace('’', "'");
    [
        "i can't",
        "i cannot",
        "i'm sorry",
        "i am sorry",
        "sorry,",
        "i'm unable",
        "i am unable",
        "i won't",
    ]
    .iter()
    .any(|opening| start.trim_start().starts_with(opening))
}

/// Holds a body against its session: marks what the session does not hold, takes false references
/// out, adds open requests that are missing.
pub(crate) fn hold_against(
    body: &Body,
    source: &Source,
    previous: Option<&Body>,
) -> (Body, Verdict) {
    let known = Known::of(source, previous);
    let mut verdict = Verdict::default();
    let mut checked = body.map(|_, text| {
        let (text, dropped) = references::keep(text, |row| source.has_row(row));
        verdict.false_references += dropped;
        known.mark(&text, &mut verdict.unverified)
    });
    let rows: Vec<&Row> = source.rows.iter().collect();
    for request in missing_requests(&requests(&rows), &checked).into_iter().take(MOST_ADDED) {
        verdict.added_requests += 1;
        let mut line = String::from("- Asked by the person and still open: \"");
        line.push_str(&quote(&request.text, 240));
        let _ = write!(line, "\" [r{}]", request.row);
        checked.add_line(Section::Next, &line);
    }
    (checked, verdict)
}

/// What the session holds in exact names and values.
struct Known<'a> {
    names: HashSet<&'a str>,
    texts: Vec<&'a str>,
    previous: String,
}

impl<'a> Known<'a> {
    fn of(source: &'a Source, previous: Option<&Body>) -> Self {
        let texts: Vec<&str> = source.texts().collect();
        let mut names = HashSet::new();
        for text in &texts {
            scan(text, |found| {
                names.insert(found.text);
            });
        }
        Self { names, texts, previous: previous.map(Body::render).unwrap_or_default() }
    }

    fn holds(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.previous.contains(name)
            || self.texts.iter().any(|text| text.contains(name))
    }

    fn mark(&self, text: &str, unverified: &mut Vec<String>) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for found in identifiers(text) {
            let is_row = found.text.strip_prefix('r').is_some_and(|rest| {
                rest.split("-r").all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            });
            if is_row || self.holds(found.text) {
                continue;
            }
            let end = found.at + found.text.len();
            out.push_str(&text[at..end]);
            at = end;
            if !text[end..].starts_with(UNVERIFIED) {
                out.push_str(UNVERIFIED);
            }
            if !unverified.iter().any(|known| known == found.text) {
                unverified.push(found.text.to_owned());
            }
        }
        out.push_str(&text[at..]);
        out
    }
}

/// Open requests of which the body says nothing.
fn missing_requests<'a>(all: &'a [Request], body: &Body) -> Vec<&'a Request> {
    let said: HashSet<String> = telling_words(&body.render()).collect();
    all.iter()
        .filter(|request| request.status.is_open())
        .filter(|request| trigger::requested(&request.text).is_none())
        .filter(|request| {
            let start: String = request.text.chars().take(400).collect();
            let wanted: HashSet<String> = telling_words(&start).collect();
            let found = wanted.iter().filter(|word| said.contains(*word)).count();
            !wanted.is_empty() && found * 2 < wanted.len()
        })
        .collect()
}

fn telling_words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() > 3 || !word.is_ascii() && !word.is_empty())
        .map(str::to_lowercase)
}

/// A text on one line, at most `max` characters.
pub(crate) fn quote(text: &str, max: usize) -> String {
    let mut line = String::new();
    // No character has more than four bytes: what comes behind so many is cut anyway.
    for word in text.split_whitespace() {
        if line.len() > max.saturating_mul(4) {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let line = legible(&line);
    if line.char_indices().nth(max).is_none() {
        return line.into_owned();
    }
    let end = line.char_indices().nth(max.saturating_sub(1)).map_or(0, |(at, _)| at);
    format!("{}…", line[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_is_one_line_of_at_most_so_many_characters() {
        for (text, max, expected) in [
            ("  a\n b\tc ", 9, "a b c"),
            ("abc def", 7, "abc def"),
            ("abc def", 6, "abc d…"),
            ("漢字漢字", 3, "漢字…"),
            ("\u{1b}[1m\0a\r\nb", 20, "[1ma b"),
            ("", 3, ""),
        ] {
            assert_eq!(quote(text, max), expected, "{text:?}");
        }
        let long = "word ".repeat(5_000);
        assert_eq!(quote(&long, 12), "word word w…");
        assert_eq!(quote(&"x".repeat(5_000), 4), "xxx…");
    }
}
