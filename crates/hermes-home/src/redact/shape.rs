//! Finding secrets by their shape or by the name before them, in one pass.

use std::ops::Range;

use super::{MASK, name::is_secret_name};

/// A key that begins in a known way.
struct Prefix {
    /// How it begins; this part stays visible.
    start: &'static str,
    /// Fewest characters behind it.
    least: usize,
    /// Which characters may follow.
    follows: fn(u8) -> bool,
    /// Whether one of them must be a digit or a capital, so that hyphenated words stay.
    mixed: bool,
}

const fn alnum(start: &'static str, least: usize) -> Prefix {
    Prefix { start, least, follows: |b| b.is_ascii_alphanumeric(), mixed: false }
}

const fn wordy(start: &'static str, least: usize) -> Prefix {
    Prefix { start, least, follows: is_token_byte, mixed: true }
}

/// Letters, digits, `-` and `_`.
fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')
}

/// Shapes from the documentation of the services that issue them.
const PREFIXES: &[Prefix] = &[
    wordy("sk-", 16),
    wordy("sk_live_", 10),
    wordy("sk_test_", 10),
    wordy("rk_live_", 10),
    wordy("rk_test_", 10),
    wordy("whsec_", 16),
    alnum("ghp_", 16),
    alnum("gho_", 16),
    alnum("ghu_", 16),
    alnum("ghs_", 16),
    alnum("ghr_", 16),
    wordy("github_pat_", 20),
    wordy("glpat-", 16),
    wordy("xoxa-", 10),
    wordy("xoxb-", 10),
    wordy("xoxe-", 10),
    wordy("xoxp-", 10),
    wordy("xoxr-", 10),
    wordy("xoxs-", 10),
    wordy("xapp-", 10),
    wordy("AIza", 30),
    wordy("GOCSPX-", 6),
    Prefix { start: "ya29.", least: 20, follows: |b| is_token_byte(b) || b == b'.', mixed: true },
    alnum("hf_", 20),
    alnum("npm_", 20),
    wordy("pypi-", 40),
    alnum("gsk_", 20),
    wordy("xai-", 20),
    wordy("pplx-", 20),
    wordy("tvly-", 16),
    wordy("nvapi-", 20),
    alnum("r8_", 20),
    alnum("dop_v1_", 32),
    alnum("shpat_", 16),
    alnum("lin_api_", 16),
    wordy("figd_", 20),
    Prefix { start: "SG.", least: 30, follows: |b| is_token_byte(b) || b == b'.', mixed: true },
    alnum("AGE-SECRET-KEY-1", 20),
];

/// Shortest key of the shapes above that holds no dot or colon.
const SHORTEST: usize = 13;

/// Headers whose value is a secret wherever they stand in a line.
const HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-auth-token",
    "cookie",
    "set-cookie",
];

/// Parameters of an address that are secrets, beside those with secret names.
const PARAMETERS: &[&str] =
    &["key", "sig", "signature", "x-amz-signature", "x-amz-credential", "auth", "pass"];

/// The byte ranges of everything that looks like a secret, in order.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut finder = Finder { text, bytes: text.as_bytes(), spans: Vec::new() };
    finder.run();
    finder.spans
}

/// Where a private key block begins that has not ended.
pub(super) fn open_block(text: &str) -> Option<usize> {
    let begin = text.rfind("-----BEGIN ")?;
    let label = &text[begin + 11..floor(text, begin + 80)];
    let is_private =
        label.split("-----").next().is_some_and(|label| label.ends_with("PRIVATE KEY"));
    (is_private && !text[begin..].contains("-----END ")).then_some(begin)
}

/// The last character border at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

struct Finder<'t> {
    text: &'t str,
    bytes: &'t [u8],
    spans: Vec<Range<usize>>,
}

impl Finder<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.bytes.len() {
            let byte = self.bytes[at];
            let found = match byte {
                b'-' => self.private_key(at),
                b':' => self.user_info(at),
                b'?' | b'&' => self.parameter(at),
                _ if byte.is_ascii_alphanumeric() || byte == b'_' => {
                    // Most words are too short to be a key and have nothing behind them.
                    let word = self.run_of(at, is_token_byte);
                    let shape = word >= SHORTEST
                        || matches!(self.rest(at + word).first(), Some(b'.' | b':'));
                    let found = if shape { self.key_shape(at) } else { None }
                        .or_else(|| self.named(at, word));
                    if found.is_none() {
                        // On to the end of the word.
                        at += self.run_of(at, |b| b.is_ascii_alphanumeric() || b == b'_');
                        continue;
                    }
                    found
                }
                _ => None,
            };
            match found {
                Some(span) if span.end > span.start => {
                    at = span.end;
                    if self.text[span.clone()] != *MASK {
                        self.spans.push(span);
                    }
                }
                _ => at += 1,
            }
        }
    }

    /// How many bytes from `at` on pass a test.
    fn run_of(&self, at: usize, test: impl Fn(u8) -> bool) -> usize {
        self.bytes[at..].iter().take_while(|b| test(**b)).count()
    }

    fn rest(&self, at: usize) -> &[u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// A private key block, up to its end line; without one, as far as it looks like a key.
    fn private_key(&self, at: usize) -> Option<Range<usize>> {
        /// Longest block.
        const MOST: usize = 32 * 1024;
        if !self.rest(at).starts_with(b"-----BEGIN ") {
            return None;
        }
        let limit = floor(self.text, at + MOST);
        let block = &self.text[at..limit];
        let label_end = 11 + block[11..].find("-----").filter(|end| *end < 64)?;
        if !block[..label_end].ends_with("PRIVATE KEY") {
            return None;
        }
        let body = label_end + 5;
        if let Some(end) = block[body..].find("-----END ") {
            let end = body + end;
            let tail = block[end + 9..].find("-----").map_or(end + 9, |at| end + 9 + at + 5);
            return Some(at..at + tail);
        }
        let length = self.run_of(at + body, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\\' | b'\r' | b'\n')
        });
        (length >= 16).then_some(at..at + body + length)
    }

    /// A key that can be told by itself. `at` is the start of a word.
    fn key_shape(&self, at: usize) -> Option<Range<usize>> {
        let rest = self.rest(at);
        for prefix in PREFIXES.iter().filter(|prefix| rest.starts_with(prefix.start.as_bytes())) {
            let from = at + prefix.start.len();
            let length = self.run_of(from, prefix.follows);
            let body = &self.bytes[from..from + length];
            let mixed = body.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
            if length >= prefix.least && (mixed || !prefix.mixed) {
                return Some(from..from + length);
            }
        }
        if rest.starts_with(b"eyJ") {
            return self.web_token(at);
        }
        if rest.starts_with(b"AKIA") || rest.starts_with(b"ASIA") {
            let length = self.run_of(at, |b| b.is_ascii_alphanumeric() || b == b'_');
            let whole = &self.bytes[at..at + length];
            let upper = whole.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
            return (length == 20 && upper).then_some(at + 4..at + length);
        }
        if rest.first().is_some_and(u8::is_ascii_digit) || rest.starts_with(b"bot") {
            return self.telegram(at);
        }
        None
    }

    /// A JSON web token: three parts, of which the last may be empty.
    fn web_token(&self, at: usize) -> Option<Range<usize>> {
        let first = self.run_of(at, is_token_byte);
        let dot = at + first;
        let second =
            self.rest(dot).starts_with(b".").then(|| self.run_of(dot + 1, is_token_byte))?;
        let end = dot + 1 + second;
        if first < 10 || second < 4 || !self.rest(end).starts_with(b".") {
            return None;
        }
        Some(at + 3..end + 1 + self.run_of(end + 1, is_token_byte))
    }

    /// A bot's token: eight to ten digits, a colon, about 35 characters.
    fn telegram(&self, at: usize) -> Option<Range<usize>> {
        let start = if self.rest(at).starts_with(b"bot") { at + 3 } else { at };
        let digits = self.run_of(start, |b| b.is_ascii_digit());
        let colon = start + digits;
        if !(8..=10).contains(&digits) || !self.rest(colon).starts_with(b":") {
            return None;
        }
        let length = self.run_of(colon + 1, is_token_byte);
        let body = &self.bytes[colon + 1..colon + 1 + length];
        let letters = body.iter().any(u8::is_ascii_alphabetic);
        ((33..=40).contains(&length) && letters).then_some(colon + 1..colon + 1 + length)
    }

    /// The password in an address. `at` is a colon.
    fn user_info(&self, at: usize) -> Option<Range<usize>> {
        if !self.rest(at).starts_with(b"://")
            || at == 0
            || !self.bytes[at - 1].is_ascii_alphanumeric()
        {
            return None;
        }
        let from = at + 3;
        let length = self.run_of(from, |b| {
            !b.is_ascii_whitespace()
                && !matches!(b, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`')
        });
        let sign = self.text.get(from..from + length)?.rfind('@')?;
        let user = &self.text[from..from + sign];
        let (start, secret) = match user.find(':') {
            Some(colon) => (from + colon + 1, &user[colon + 1..]),
            None if user.len() >= 16 && is_random(user) => (from, user),
            None => return None,
        };
        (!is_placeholder(secret)).then_some(start..from + sign)
    }

    /// The value of a secret parameter of an address. `at` is `?` or `&`.
    fn parameter(&self, at: usize) -> Option<Range<usize>> {
        let name_length = self.run_of(at + 1, is_token_byte);
        let equals = at + 1 + name_length;
        let touching = at > 0 && !self.bytes[at - 1].is_ascii_whitespace();
        if name_length == 0 || !touching || !self.rest(equals).starts_with(b"=") {
            return None;
        }
        let name = &self.text[at + 1..equals];
        let short = PARAMETERS.contains(&&*name.to_ascii_lowercase());
        if !short && !is_secret_name(name) {
            return None;
        }
        let from = equals + 1;
        let length = self.run_of(from, |b| {
            !b.is_ascii_whitespace()
                && !matches!(b, b'&' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`' | b')')
        });
        let value = &self.text[from..from + length];
        let likely = if short { value.len() >= 8 } else { value.len() >= 4 };
        (likely && !is_placeholder(value)).then_some(from..from + length)
    }

    /// The value behind a name that says that it is a secret. `at` is the start of a word of
    /// `length` bytes.
    fn named(&self, at: usize, length: usize) -> Option<Range<usize>> {
        let name = &self.text[at..at + length];
        let end = at + length;
        if name.eq_ignore_ascii_case("bearer") {
            return self.bearer(end);
        }
        // What cannot be followed by a value is most of a text: out quickly.
        let follows =
            self.rest(end).iter().find(|b| !matches!(b, b' ' | b'\t' | b'\\' | b'"' | b'\''))?;
        if !matches!(follows, b':' | b'=') {
            return None;
        }
        let header = HEADERS.contains(&&*name.to_ascii_lowercase());
        if !header && !is_secret_name(name) {
            return None;
        }
        // The quote that closes the name, with the backslashes before it (JSON within JSON).
        let slashes = self.run_of(end, |b| b == b'\\');
        let quoted = matches!(self.rest(end + slashes), [b'"' | b'\'', ..]);
        let mut next = if quoted { end + slashes + 1 } else { end };
        let gap = self.run_of(next, |b| matches!(b, b' ' | b'\t'));
        let sign = *self.rest(next + gap).first()?;
        next += gap + 1;
        let space = self.run_of(next, |b| matches!(b, b' ' | b'\t'));
        next += space;
        if header && sign == b':' && !quoted {
            return self.header(next);
        }
        if let Some(span) = self.quoted_value(next) {
            return Some(span);
        }
        match sign {
            // NAME=value without spaces, as shells and .env files have it.
            b'=' if gap == 0 && space == 0 && !quoted => {
                let length = self.run_of(next, |b| {
                    !b.is_ascii_whitespace()
                        && !matches!(b, b'"' | b'\'' | b'&' | b'`' | b'\\' | b'<')
                });
                let value = &self.text[next..next + length];
                likely_value(name, value).then_some(next..next + length)
            }
            // `name: value` alone in its line, as YAML has it.
            b':' if space > 0 && !quoted && self.starts_line(at) => {
                let line = self.run_of(next, |b| !matches!(b, b'\n' | b'\r'));
                let value = self.text[next..next + line].trim_end();
                let word = value.split(" #").next().unwrap_or(value).trim_end();
                let single = !word.contains(char::is_whitespace);
                (single && likely_value(name, word)).then_some(next..next + word.len())
            }
            _ => None,
        }
    }

    /// Whether nothing but white space, a dash or a quote mark of a mail stands before it.
    fn starts_line(&self, at: usize) -> bool {
        self.bytes[..at]
            .iter()
            .rev()
            .take_while(|b| **b != b'\n')
            .all(|b| matches!(b, b' ' | b'\t' | b'-' | b'>' | b'<' | b'+' | b'|'))
    }

    /// A value in quotes: what is inside.
    fn quoted_value(&self, at: usize) -> Option<Range<usize>> {
        let slashes = self.run_of(at, |b| b == b'\\');
        let quote = *self.rest(at + slashes).first().filter(|b| matches!(b, b'"' | b'\''))?;
        let from = at + slashes + 1;
        let mut end = from;
        // The quote that closes has as many backslashes before it as the one that opened.
        loop {
            let step = self.run_of(end, |b| b != quote && b != b'\\' && b != b'\n');
            end += step;
            let run = self.run_of(end, |b| b == b'\\');
            match self.rest(end + run).first() {
                Some(b) if *b == quote && run <= slashes => break,
                Some(b'\n') | None => return None,
                // An escape inside; the byte behind it is part of the value.
                Some(_) => end = floor_up(self.text, end + run + 1),
            }
        }
        let value = &self.text[from..end];
        (value.len() >= 3 && !is_placeholder(value)).then_some(from..end)
    }

    /// The credentials of a header, behind the word that names their kind.
    fn header(&self, at: usize) -> Option<Range<usize>> {
        let stop = |b: u8| matches!(b, b'\n' | b'\r' | b'"' | b'\'' | b'\\' | b'`');
        let length = self.run_of(at, |b| !stop(b));
        let value = self.text[at..at + length].trim_end();
        let (skip, secret) = match value.split_once(' ') {
            Some((kind, rest)) if kind.bytes().all(|b| b.is_ascii_alphabetic()) => {
                (value.len() - rest.trim_start().len(), rest.trim_start())
            }
            _ => (0, value),
        };
        let likely =
            if skip > 0 { secret.len() >= 6 && !secret.contains(' ') } else { is_random(secret) };
        let cookie = secret.contains('=');
        ((likely || cookie) && !is_placeholder(secret)).then_some(at + skip..at + value.len())
    }

    /// What follows the word `Bearer`.
    fn bearer(&self, at: usize) -> Option<Range<usize>> {
        let gap = self.run_of(at, |b| b == b' ');
        let from = at + gap;
        let length = self
            .run_of(from, |b| is_token_byte(b) || matches!(b, b'.' | b'~' | b'+' | b'/' | b'='));
        let value = self.text[from..from + length].trim_end_matches(['.', '/']);
        (gap > 0 && value.len() >= 8 && is_random(value)).then_some(from..from + value.len())
    }
}

/// The first character border at or behind `at`.
fn floor_up(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Whether a text is made like a key and not like a word: digits among letters, or small and
/// capital letters mixed.
fn is_random(text: &str) -> bool {
    let digit = text.bytes().any(|b| b.is_ascii_digit());
    let lower = text.bytes().any(|b| b.is_ascii_lowercase());
    let inner_upper = text.bytes().skip(1).any(|b| b.is_ascii_uppercase());
    text.len() >= 6 && !text.contains(' ') && (digit || (lower && inner_upper))
}

/// Whether a value without quotes could be a secret.
fn likely_value(name: &str, value: &str) -> bool {
    let call_or_type = value.contains(['(', '[', '{']) || value.ends_with([',', ';', ':']);
    let number = value.bytes().all(|b| b.is_ascii_digit());
    if value.len() < 4 || is_placeholder(value) || call_or_type || (number && value.len() < 6) {
        return false;
    }
    // `WORK_KEY=` may be anything; only what looks like a key is taken for one.
    let strict =
        name.to_ascii_lowercase().ends_with("key") && !name.to_ascii_lowercase().contains("api");
    !strict || (value.len() >= 8 && is_random(value))
}

/// Whether a value stands for another one or for nothing.
fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    value.is_empty()
        || value == MASK
        || value.ends_with(MASK)
        || value.starts_with(['$', '<', '%', '*'])
        || value.bytes().all(|b| matches!(b, b'.' | b'x' | b'X' | b'-' | b'_' | b'*'))
        || matches!(
            lower.as_str(),
            "true"
                | "false"
                | "null"
                | "none"
                | "nil"
                | "undefined"
                | "string"
                | "str"
                | "bytes"
                | "[set]"
                | "set"
        )
}
