//! E-mail addresses, links, phone, card and account numbers, IBANs and streets in a text.

use std::ops::Range;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Link,
    Mail,
    Iban,
    Card,
    Phone,
    Account,
    Street,
}

impl Kind {
    pub(super) const fn mark(self) -> &'static str {
        match self {
            Self::Link => "[link]",
            Self::Mail => "[e-mail]",
            Self::Iban => "[bank account]",
            Self::Card => "[card]",
            Self::Phone => "[phone]",
            Self::Account => "[number]",
            Self::Street => "[address]",
        }
    }
}

/// Everything found, in no order; finds may overlap.
pub(super) fn all(text: &str) -> Vec<(Kind, Range<usize>)> {
    let mut found = Vec::new();
    tokens(text, &mut found);
    numbers(text, &mut found);
    ibans(text, &mut found);
    streets(text, &mut found);
    found
}

/// Links and addresses with `@`, token by token.
fn tokens(text: &str, found: &mut Vec<(Kind, Range<usize>)>) {
    for (range, token) in
        pieces(text, |c| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '(' | ')' | ','))
    {
        let lower = token.to_lowercase();
        let host = lower.trim_start_matches(|c: char| !c.is_alphanumeric());
        if lower.contains("://") || host.starts_with("www.") || is_bare_host(host) {
            found.push((Kind::Link, range));
        } else if let Some((name, host)) = token.split_once('@')
            && !host.is_empty()
            && !name.is_empty()
        {
            found.push((Kind::Mail, range));
        } else if token.len() > 1 && token.starts_with('@') {
            found.push((Kind::Mail, range));
        }
    }
}

/// `example.com/path` and the like, whatever the host ends with; names of files look the same.
fn is_bare_host(token: &str) -> bool {
    let host = token.split(['/', ':', '?', '#']).next().unwrap_or_default();
    let host = host.trim_end_matches(|c: char| !c.is_alphanumeric());
    let Some((name, end)) = host.rsplit_once('.') else { return false };
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    };
    end.chars().count() >= 2
        && end.chars().all(char::is_alphabetic)
        && name.chars().count() >= 2
        && name.split('.').all(is_label)
}

/// Pieces of a text between separators, with their ranges.
fn pieces(
    text: &str,
    separates: impl Fn(char) -> bool,
) -> impl Iterator<Item = (Range<usize>, &str)> {
    let base = text.as_ptr() as usize;
    text.split(separates).filter(|piece| !piece.is_empty()).map(move |piece| {
        let start = piece.as_ptr() as usize - base;
        (start..start + piece.len(), piece)
    })
}

/// Runs of digits, with single separators between them: cards, phones, accounts, anything of three
/// digits or more.
fn numbers(text: &str, found: &mut Vec<(Kind, Range<usize>)>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let opens =
            matches!(bytes[at], b'+' | b'(') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        if !bytes[at].is_ascii_digit() && !opens {
            at += 1;
            continue;
        }
        let start = at;
        let mut end = at;
        let mut digits: Vec<u8> = Vec::new();
        let mut gap = 0;
        while at < bytes.len() {
            match bytes[at] {
                digit @ b'0'..=b'9' => {
                    digits.push(digit - b'0');
                    gap = 0;
                    at += 1;
                    end = at;
                }
                b' ' | b'-' | b'.' | b'/' | b'(' | b')' | b'+' if gap < 2 => {
                    gap += 1;
                    at += 1;
                }
                _ => break,
            }
        }
        let kind = match digits.len() {
            0..=2 => continue,
            13..=19 if luhn(&digits) => Kind::Card,
            7..=15 if matches!(bytes[start], b'+' | b'(') || digits[0] == 0 => Kind::Phone,
            _ => Kind::Account,
        };
        // Letters that are grown on belong to it.
        let from = text[..start]
            .rfind(|c: char| !c.is_alphanumeric())
            .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
        let to = text[end..]
            .find(|c: char| !c.is_alphanumeric())
            .map_or(text.len(), |after| end + after);
        found.push((kind, from..to));
        at = at.max(to);
    }
}

/// The check digit of cards (ISO/IEC 7812-1).
pub(super) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(*digit);
            match (place % 2, digit * 2) {
                (0, _) => digit,
                (_, doubled) if doubled > 9 => doubled - 9,
                (_, doubled) => doubled,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Two letters, two digits, then groups of letters and digits, whose check digits (ISO 13616) fit.
fn ibans(text: &str, found: &mut Vec<(Kind, Range<usize>)>) {
    let bytes = text.as_bytes();
    for start in 0..bytes.len() {
        let begins = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
        let head = bytes.get(start..start + 4);
        let fits = head.is_some_and(|head| {
            head[..2].iter().all(u8::is_ascii_alphabetic)
                && head[2..].iter().all(u8::is_ascii_digit)
        });
        if !begins || !fits {
            continue;
        }
        let mut signs: Vec<u8> = Vec::new();
        let mut best = None;
        let mut at = start;
        while at < bytes.len() && signs.len() < 34 {
            match bytes[at] {
                sign if sign.is_ascii_alphanumeric() => {
                    signs.push(sign.to_ascii_uppercase());
                    if signs.len() >= 15 && iban_checks(&signs) {
                        best = Some(at + 1);
                    }
                }
                b' ' | b'-' if bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) => {}
                _ => break,
            }
            at += 1;
        }
        if let Some(end) = best {
            found.push((Kind::Iban, start..end));
        }
    }
}

pub(super) fn iban_checks(signs: &[u8]) -> bool {
    let mut rest: u32 = 0;
    for sign in signs[4..].iter().chain(&signs[..4]) {
        let value = match sign {
            b'0'..=b'9' => u32::from(sign - b'0'),
            b'A'..=b'Z' => u32::from(sign - b'A') + 10,
            _ => return false,
        };
        rest = (rest * if value > 9 { 100 } else { 10 } + value) % 97;
    }
    rest == 1
}

/// Words that name a street when they stand alone.
const STREET_WORDS: [&str; 32] = [
    "street",
    "st",
    "road",
    "rd",
    "avenue",
    "ave",
    "lane",
    "drive",
    "boulevard",
    "blvd",
    "square",
    "court",
    "terrace",
    "close",
    "highway",
    "straße",
    "strasse",
    "str",
    "weg",
    "platz",
    "allee",
    "gasse",
    "rue",
    "calle",
    "via",
    "viale",
    "plaza",
    "piazza",
    "avenida",
    "rua",
    "ulica",
    "laan",
];
/// Ends of words that name a street.
const STREET_ENDS: [&str; 8] =
    ["straße", "strasse", "str", "weg", "platz", "allee", "gasse", "straat"];
/// Words around a street's name that may belong to it.
const REACH: usize = 3;

/// A street word with a house number near it, with the words between and the place behind it.
fn streets(text: &str, found: &mut Vec<(Kind, Range<usize>)>) {
    for (offset, line) in pieces(text, |c| c == '\n') {
        let words: Vec<(Range<usize>, &str)> =
            pieces(line, |c| !(c.is_alphanumeric() || matches!(c, '\'' | '-'))).collect();
        for (at, (_, word)) in words.iter().enumerate() {
            if !is_street(word) {
                continue;
            }
            let low = at.saturating_sub(REACH);
            let high = (at + REACH).min(words.len() - 1);
            let number = |index: &usize| {
                words[*index].1.starts_with(|c: char| c.is_numeric()) && words[*index].1.len() <= 5
            };
            let before = (low..at).find(|index| number(index));
            let behind = (at + 1..=high).rev().find(|index| number(index));
            if before.is_none() && behind.is_none() {
                continue;
            }
            let mut first = before.unwrap_or(at);
            // `Große Hamburger Straße`
            while before.is_none()
                && first > 0
                && at - first < REACH
                && starts_upper(words[first - 1].1)
            {
                first -= 1;
            }
            let mut last = behind.unwrap_or(at);
            // The name behind the kind (`Calle Mayor 3`), and the town behind the number.
            while last + 1 < words.len()
                && last - at <= REACH + 2
                && (starts_upper(words[last + 1].1)
                    || words[last + 1].1.starts_with(char::is_numeric))
            {
                last += 1;
            }
            let range = offset.start + words[first].0.start..offset.start + words[last].0.end;
            found.push((Kind::Street, range));
        }
    }
}

fn is_street(word: &str) -> bool {
    let lower = word.to_lowercase();
    STREET_WORDS.contains(&lower.as_str())
        || STREET_ENDS.iter().any(|end| lower.len() > end.len() + 2 && lower.ends_with(end))
}

fn starts_upper(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}
