//! Exact identifiers of any shape: what must not be paraphrased.
//!
//! A hand-written scanner: one pass, no allocation, never panics. It prefers to find too much;
//! ranking sorts it out.

use serde::{Deserialize, Serialize};

/// What an identifier looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A path or file name.
    Path,
    /// A URL.
    Url,
    /// A hexadecimal digest or UUID.
    Hash,
    /// The name of an error.
    Error,
    /// Letters with digits: a ticket, an order, a code.
    Id,
    /// A date or time of day.
    Date,
    /// Money, a share, a quantity with its unit.
    Amount,
    /// A version.
    Version,
    /// A bare number.
    Number,
    /// An address or handle with `@`.
    Address,
    /// A name from code or configuration.
    Code,
    /// A command-line flag.
    Flag,
}

impl Shape {
    /// How likely it is to matter, compared with the others.
    pub(crate) const fn weight(self) -> f64 {
        match self {
            Self::Hash | Self::Error | Self::Id | Self::Url | Self::Address => 1.0,
            Self::Path | Self::Date | Self::Amount => 0.9,
            Self::Version => 0.8,
            Self::Number => 0.7,
            Self::Code => 0.6,
            Self::Flag => 0.5,
        }
    }
}

/// An identifier in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifier<'a> {
    /// The identifier.
    pub text: &'a str,
    /// What it looks like.
    pub shape: Shape,
    /// Where it begins, in bytes.
    pub at: usize,
}

/// Longer tokens are data, not names.
const LONGEST: usize = 300;

/// Calls `found` with every identifier of `text`, in order.
pub fn scan<'a>(text: &'a str, mut found: impl FnMut(Identifier<'a>)) {
    let bytes = text.as_bytes();
    let mut start = 0;
    let mut at = 0;
    // Whether the token holds anything but small letters; most do not, and none of those is one.
    let mut plain = true;
    while let Some(byte) = bytes.get(at) {
        let kind = KINDS[usize::from(*byte)];
        if kind <= OTHER {
            plain &= kind == SMALL;
            at += 1;
            continue;
        }
        let length = if kind == WIDE {
            let character = text[at..].chars().next().unwrap_or(' ');
            if !splits_wide(character) {
                plain = false;
                at += character.len_utf8();
                continue;
            }
            character.len_utf8()
        } else if kind == GROUPS && is_inside_number(bytes, at) {
            at += 1;
            continue;
        } else {
            1
        };
        if !plain {
            token(text, start, at, &mut found);
            plain = true;
        }
        at += length;
        start = at;
    }
    if !plain {
        token(text, start, text.len(), &mut found);
    }
}

/// Every identifier of `text`.
pub fn identifiers(text: &str) -> Vec<Identifier<'_>> {
    let mut all = Vec::new();
    scan(text, |identifier| all.push(identifier));
    all
}

/// What a byte does to a token: it is a small letter of it, another character of it, part of a
/// longer one, ends it if it does not group digits, or ends it.
const SMALL: u8 = 0;
const OTHER: u8 = 1;
const WIDE: u8 = 2;
const GROUPS: u8 = 3;
const SPLITS: u8 = 4;

const KINDS: [u8; 256] = {
    let mut table = [OTHER; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = match at as u8 {
            b'a'..=b'z' => SMALL,
            b',' | b'\'' => GROUPS,
            b'"' | b'`' | b';' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'|'
            | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPLITS,
            0x80.. => WIDE,
            _ => OTHER,
        };
        at += 1;
    }
    table
};

/// Other characters that end a token.
fn splits_wide(character: char) -> bool {
    matches!(
        character,
        '“' | '”'
            | '„'
            | '‘'
            | '’'
            | '«'
            | '»'
            | '、'
            | '。'
            | '，'
            | '「'
            | '」'
            | '（'
            | '）'
            | '：'
            | '；'
            | '…'
            | '—'
            | '–'
            | '！'
            | '？'
    ) || character.is_whitespace()
}

/// A comma or apostrophe between digits groups them.
fn is_inside_number(bytes: &[u8], at: usize) -> bool {
    at > 0
        && bytes[at - 1].is_ascii_digit()
        && bytes.get(at + 1..at + 4).is_some_and(|next| next.iter().all(u8::is_ascii_digit))
        && !bytes.get(at + 4).is_some_and(u8::is_ascii_digit)
}

fn token<'a>(text: &'a str, start: usize, end: usize, found: &mut impl FnMut(Identifier<'a>)) {
    let raw = &text[start..end];
    let bytes = raw.as_bytes();
    let front = |byte: &u8| matches!(byte, b'*' | b':' | b'!' | b'?' | b'=' | b'&');
    let skip = bytes.iter().take_while(|byte| front(byte)).count();
    let back = |byte: &u8| front(byte) || matches!(byte, b'.' | b'\\');
    let keep = bytes[skip..].iter().rev().skip_while(|byte| back(byte)).count();
    let at = start + skip;
    let core = &raw[skip..skip + keep];
    if core.len() < 2 || core.len() > LONGEST {
        return;
    }
    if let Some(shape) = shape_of(core) {
        found(Identifier { text: core, shape, at });
    }
}

/// What the bytes of a token are.
struct Tally {
    digits: usize,
    upper: usize,
    lower: usize,
    hex: usize,
    dots: usize,
    slashes: usize,
    dashes: usize,
    underscores: usize,
    colons: usize,
    at_signs: usize,
    other_ascii: usize,
    wide: usize,
    /// Lower case followed by upper case.
    humps: usize,
}

/// Counters of ten bits each, six to a number: a token is shorter than a counter is long.
const LANE: u32 = 10;

/// What a byte adds to the counters of [`tally`].
const ADDS: [[u64; 2]; 256] = {
    let mut table = [[0; 2]; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let (half, lane) = match byte {
            b'0'..=b'9' => (0, 0),
            b'A'..=b'Z' => (0, 1),
            b'a'..=b'z' => (0, 2),
            b'.' => (0, 3),
            b'/' | b'\\' => (0, 4),
            b'-' => (0, 5),
            b'_' => (1, 0),
            b':' => (1, 1),
            b'@' => (1, 2),
            0x80.. => (1, 3),
            _ => (1, 4),
        };
        table[at][half] = 1 << (LANE * lane);
        if byte.is_ascii_hexdigit() {
            table[at][1] += 1 << (LANE * 5);
        }
        at += 1;
    }
    table
};

fn tally(token: &str) -> Tally {
    let mut sums = [0u64; 2];
    let mut humps = 0;
    let mut before = 0u8;
    for byte in token.bytes() {
        let adds = ADDS[usize::from(byte)];
        sums[0] += adds[0];
        sums[1] += adds[1];
        humps += usize::from(byte.is_ascii_uppercase() && before.is_ascii_lowercase());
        before = byte;
    }
    let count = |half: usize, lane: u32| (sums[half] >> (LANE * lane)) as usize & 0x3ff;
    Tally {
        digits: count(0, 0),
        upper: count(0, 1),
        lower: count(0, 2),
        dots: count(0, 3),
        slashes: count(0, 4),
        dashes: count(0, 5),
        underscores: count(1, 0),
        colons: count(1, 1),
        at_signs: count(1, 2),
        wide: count(1, 3),
        other_ascii: count(1, 4),
        hex: count(1, 5),
        humps,
    }
}

fn shape_of(token: &str) -> Option<Shape> {
    let t = tally(token);
    let letters = t.upper + t.lower;
    // Most words end here.
    if t.lower + t.wide == token.len() || (t.upper == 1 && t.lower + 1 == token.len()) {
        return ends_like_an_error(token).then_some(Shape::Error);
    }
    if t.colons > 0 && t.slashes > 1 && token.contains("://") {
        return Some(Shape::Url);
    }
    if t.at_signs == 1 && letters >= 2 && token.len() >= 4 {
        return Some(Shape::Address);
    }
    if t.slashes > 0 && letters + t.wide > 0 {
        return is_path(token, &t).then_some(Shape::Path);
    }
    if let Some(rest) = token.strip_prefix("--")
        && rest.len() >= 2
        && letters > 0
    {
        return Some(Shape::Flag);
    }
    if ends_like_an_error(token) || is_errno(token, &t) {
        return Some(Shape::Error);
    }
    if t.digits > 0 && letters == 0 && t.wide == 0 {
        return numeric(token, &t);
    }
    if is_hash(token, &t) {
        return Some(Shape::Hash);
    }
    if t.digits > 0 {
        return with_digits(token, &t);
    }
    if is_file_name(token, &t) {
        return Some(Shape::Path);
    }
    if starts_with_currency(token) {
        return None;
    }
    let code = t.underscores > 0 && letters >= 3
        || t.colons > 1 && token.contains("::")
        || (t.humps > 0 && t.other_ascii == 0 && t.wide == 0 && t.dashes == 0);
    (code && t.other_ascii < 3).then_some(Shape::Code)
}

fn ends_like_an_error(token: &str) -> bool {
    token.len() > 7
        && ["Error", "Exception", "Fault", "Panic", "Warning"]
            .iter()
            .any(|end| token.ends_with(end))
}

/// `ENOENT`, `SIGKILL` and the like.
fn is_errno(token: &str, t: &Tally) -> bool {
    t.upper == token.len()
        && token.len() >= 5
        && (token.starts_with('E') || token.starts_with("SIG") || token.starts_with("ERR"))
}

fn is_hash(token: &str, t: &Tally) -> bool {
    let letters = t.hex - t.digits;
    let hex = t.hex + t.dashes == token.len() && t.upper * t.lower == 0;
    hex && t.digits > 0
        && letters > 0
        && ((t.dashes == 0 && (7..=128).contains(&token.len())) || (t.dashes == 4 && t.hex == 32))
}

fn is_path(token: &str, t: &Tally) -> bool {
    let first = token.as_bytes()[0];
    t.slashes > 1
        || matches!(first, b'/' | b'~' | b'.' | b'\\')
        || t.dots > 0
        || t.digits > 0
        || t.underscores > 0
        || token.ends_with('/')
}

fn is_file_name(token: &str, t: &Tally) -> bool {
    if t.dots == 0 || t.other_ascii > 1 {
        return false;
    }
    if token.starts_with('.') && t.dots == 1 {
        return token.len() >= 4;
    }
    let Some((stem, extension)) = token.rsplit_once('.') else { return false };
    (2..=5).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && stem.len() >= 2
        || (extension.len() == 1 && stem.len() >= 3 && t.lower > 2)
}

/// Digits and signs without letters.
fn numeric(token: &str, t: &Tally) -> Option<Shape> {
    if starts_with_currency(token) || token.ends_with('%') {
        return Some(Shape::Amount);
    }
    if t.slashes == 2 || t.dashes == 2 && t.digits >= 6 || t.dots == 2 && t.digits == 8 {
        return Some(Shape::Date);
    }
    if t.colons > 0 && t.digits >= 3 {
        // An address with a port, or a time.
        return Some(if t.dots == 3 { Shape::Address } else { Shape::Date });
    }
    if token.starts_with('#') {
        return Some(Shape::Id);
    }
    if t.dots == 3 {
        return Some(Shape::Address);
    }
    if t.dots >= 2 {
        return Some(Shape::Version);
    }
    (t.digits >= 2).then_some(if t.dashes > 1 { Shape::Id } else { Shape::Number })
}

fn starts_with_currency(token: &str) -> bool {
    token.starts_with(['$', '€', '£', '¥', '₹']) || token.ends_with(['$', '€', '£', '¥', '₹'])
}

/// Letters and digits together.
fn with_digits(token: &str, t: &Tally) -> Option<Shape> {
    if starts_with_currency(token) {
        return Some(Shape::Amount);
    }
    let letters = t.upper + t.lower;
    if let Some(rest) = token.strip_prefix(['v', 'V'])
        && t.dots > 0
        && letters == 1
        && rest.starts_with(|first: char| first.is_ascii_digit())
    {
        return Some(Shape::Version);
    }
    let first_letter = token.find(|character: char| character.is_ascii_alphabetic());
    let digits_first = first_letter.is_some_and(|at| at > 0 && at + letters == token.len());
    if digits_first && letters <= 4 && t.dashes == 0 && t.colons == 0 {
        // 250ms, 40kB, 3rd.
        return (t.digits > 1 || letters > 2).then_some(Shape::Amount);
    }
    if t.dashes >= 2 && t.digits >= 8 && token.contains('T') {
        return Some(Shape::Date);
    }
    if is_file_name(token, t) {
        return Some(Shape::Path);
    }
    (token.len() >= 3 && t.other_ascii < 4).then_some(Shape::Id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Shape)]) {
        let found: Vec<(&str, Shape)> =
            identifiers(text).iter().map(|found| (found.text, found.shape)).collect();
        assert_eq!(found, expected, "{text}");
        for found in identifiers(text) {
            assert_eq!(&text[found.at..found.at + found.text.len()], found.text);
        }
    }

    #[test]
    fn identifiers_of_every_shape_are_found_and_plain_words_are_not() {
        check("Please look at the well-known and/or simple thing. Thanks!", &[]);
        check(
            "see src/main.rs, ~/x and C:\\tmp\\a.",
            &[("src/main.rs", Shape::Path), ("~/x", Shape::Path), ("C:\\tmp\\a", Shape::Path)],
        );
        check("edit Cargo.toml or .env now", &[("Cargo.toml", Shape::Path), (".env", Shape::Path)]);
        check("at https://example.org/a?b=1#c.", &[("https://example.org/a?b=1#c", Shape::Url)]);
        check("commit 3fce3b5 fixes #482", &[("3fce3b5", Shape::Hash), ("#482", Shape::Id)]);
        check("on 2027-03-14 at 09:30", &[("2027-03-14", Shape::Date), ("09:30", Shape::Date)]);
        check(
            "due 14.03.2027: €1,250.50 or 12%",
            &[("14.03.2027", Shape::Date), ("€1,250.50", Shape::Amount), ("12%", Shape::Amount)],
        );
        check(
            "raise ValueError; ENOENT, E0433",
            &[("ValueError", Shape::Error), ("ENOENT", Shape::Error), ("E0433", Shape::Id)],
        );
        check(
            "{\"order\":\"INV-20441\",\"n\":42}",
            &[("INV-20441", Shape::Id), ("42", Shape::Number)],
        );
        check(
            "F01 = 37, v1.4.2 (1.4.2)",
            &[
                ("F01", Shape::Id),
                ("37", Shape::Number),
                ("v1.4.2", Shape::Version),
                ("1.4.2", Shape::Version),
            ],
        );
        check(
            "run --dry-run on 10.0.0.7:8080",
            &[("--dry-run", Shape::Flag), ("10.0.0.7:8080", Shape::Address)],
        );
        check(
            "mail ops@example.org about max_retries",
            &[("ops@example.org", Shape::Address), ("max_retries", Shape::Code)],
        );
        check("注文番号「AB-1234」を確認。", &[("AB-1234", Shape::Id)]);
    }

    #[test]
    fn any_bytes_are_scanned_without_a_panic() {
        for text in
            ["", "é", "'", "1,", "1,23", "1,2345", "€", "--", "...", "\\\\", "a\u{0}b", "1'"]
        {
            identifiers(text);
        }
    }
}
