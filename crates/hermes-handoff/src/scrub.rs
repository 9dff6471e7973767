//! The mechanical scrub of a confidential lane's text.
//!
//! It prefers to take out too much. Invariant: what it gives back holds none of the names and exact
//! values that it was told or can see; if it cannot be sure of that, it refuses.

use std::collections::BTreeSet;

use hermes_compaction::identifiers::{Shape, identifiers};

mod find;
mod names;

pub use names::{declared_names, lone_names};

/// What a session holds that must not get out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Names of people and the like.
    pub names: Vec<String>,
    /// Exact values: links, addresses, file names, numbers.
    pub values: BTreeSet<String>,
}

/// A text that could not be made safe. Says nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} could not be taken out of the text for certain")]
pub struct ScrubError(pub &'static str);

/// Takes out of a text what must not leave a confidential session.
pub trait Scrubber: Send + Sync {
    /// The text without it.
    ///
    /// # Errors
    /// If something may be left.
    fn scrub(&self, text: &str, secrets: &Secrets) -> Result<String, ScrubError>;
}

/// The built-in scrubber.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mechanical;

impl Secrets {
    /// Adds what a text of the session holds.
    pub fn learn(&mut self, text: &str) {
        for name in declared_names(text) {
            self.add_name(&name);
        }
        let text = plain(text);
        for found in identifiers(&text) {
            if must_go(found.shape, found.text) {
                self.add_value(found.text);
            }
        }
        for (kind, range) in find::all(&text) {
            if kind == find::Kind::Street {
                // A street may be named without its number later.
                let named = text[range].split(|c: char| !c.is_alphabetic());
                for word in named.filter(|word| word.starts_with(char::is_uppercase)) {
                    self.add_value(word);
                }
                continue;
            }
            if kind == find::Kind::Mail {
                // Whose it is often stands in it.
                let whose = text[range.clone()].split('@').next().unwrap_or_default();
                let pieces = whose.split(|c: char| !c.is_alphabetic());
                pieces.filter(|it| it.chars().count() >= 3).for_each(|it| self.add_name(it));
            }
            self.add_value(&text[range]);
        }
    }

    /// Adds words that may be names although nothing introduces them: those that stand inside a
    /// sentence with a capital and never without. Not in a language that writes its nouns so.
    pub fn learn_lone_names<'t>(&mut self, texts: impl Iterator<Item = &'t str>) {
        for name in names::lone_names(texts) {
            self.add_name(&name);
        }
    }

    /// Adds a name.
    pub fn add_name(&mut self, name: &str) {
        let name = plain(name);
        let name = name.trim();
        if !name.is_empty() && !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    fn add_value(&mut self, value: &str) {
        let value = value.trim();
        if value.chars().count() < 4 || names::is_mark(&value.to_lowercase()) {
            return;
        }
        self.values.insert(value.to_lowercase());
        // A file name without its folder, and without its ending.
        let name = value.rsplit(['/', '\\']).next().unwrap_or(value);
        if name.len() >= 4 {
            self.values.insert(name.to_lowercase());
            if let Some((stem, ending)) = name.rsplit_once('.')
                && stem.chars().count() >= 5
                && ending.len() <= 5
                && !value.contains('@')
                && !stem.bytes().all(|b| b.is_ascii_digit())
                && !names::is_mark(&stem.to_lowercase())
            {
                self.values.insert(stem.to_lowercase());
            }
        }
    }
}

impl Scrubber for Mechanical {
    fn scrub(&self, text: &str, secrets: &Secrets) -> Result<String, ScrubError> {
        let mut text = plain(text);
        // What was taken out may have hidden something behind it.
        for _ in 0..4 {
            let before = text.clone();
            text = take_values(&text, &secrets.values);
            text = take_found(&text);
            text = take_identifiers(&text);
            text = names::take(&text, &secrets.names);
            if text == before {
                break;
            }
        }
        verify(&text, secrets)?;
        Ok(text)
    }
}

/// A text without invisible characters and without accents that are characters of their own, wide
/// forms made plain, other digits made ASCII.
fn plain(text: &str) -> String {
    text.chars()
        .filter_map(|character| match character {
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{300}'..='\u{36f}'
            | '\u{feff}'
            | '\u{ad}' => None,
            '\n' | '\t' => Some(character),
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => Some(' '),
            '\u{2010}'..='\u{2015}' => Some('-'),
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(character as u32 - 0xfee0),
            '\u{660}'..='\u{669}' => char::from_u32(character as u32 - 0x660 + 0x30),
            '\u{6f0}'..='\u{6f9}' => char::from_u32(character as u32 - 0x6f0 + 0x30),
            '\u{966}'..='\u{96f}' => char::from_u32(character as u32 - 0x966 + 0x30),
            other if other.is_control() => None,
            other => Some(other),
        })
        .collect()
}

/// Whether an exact name or value of this shape must not be told.
fn must_go(shape: Shape, text: &str) -> bool {
    let digits = text.chars().filter(|c| c.is_numeric()).count();
    match shape {
        Shape::Path | Shape::Url | Shape::Address | Shape::Hash | Shape::Id | Shape::Date => true,
        Shape::Number | Shape::Amount | Shape::Version => digits >= 3,
        Shape::Code | Shape::Error | Shape::Flag => digits >= 3 || text.contains('_'),
    }
}

fn take_identifiers(text: &str) -> String {
    let mut ranges = Vec::new();
    for found in identifiers(text) {
        if must_go(found.shape, found.text) {
            let mark = match found.shape {
                Shape::Path => "[file]",
                Shape::Url => "[link]",
                Shape::Address => "[address]",
                _ => "[number]",
            };
            ranges.push((found.at..found.at + found.text.len(), mark));
        }
    }
    replace(text, ranges)
}

fn take_found(text: &str) -> String {
    let ranges = find::all(text).into_iter().map(|(kind, range)| (range, kind.mark())).collect();
    replace(text, ranges)
}

/// Known values, whatever their case.
fn take_values(text: &str, values: &BTreeSet<String>) -> String {
    let lower = folded(text);
    let mut ranges = Vec::new();
    for value in values {
        let mut at = 0;
        while let Some(found) = lower.text[at..].find(value.as_str()) {
            let (start, end) = (at + found, at + found + value.len());
            if stands_alone(&lower.text, start, end) {
                ranges.push((lower.place(start)..lower.place(end), "[removed]"));
            }
            at = end;
        }
    }
    replace(text, ranges)
}

/// A value inside a longer word is another word, unless it has a shape that no word has.
fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let value = &text[start..end];
    if value.contains(|c: char| !c.is_alphanumeric()) || value.contains(|c: char| c.is_numeric()) {
        return true;
    }
    !text[..start].chars().next_back().is_some_and(char::is_alphanumeric)
        && !text[end..].chars().next().is_some_and(char::is_alphanumeric)
}

/// A text in small letters with the way back.
struct Folded {
    text: String,
    /// For each byte of `text` and its end, the byte in the original.
    places: Vec<usize>,
}

impl Folded {
    fn place(&self, at: usize) -> usize {
        self.places[at]
    }
}

fn folded(text: &str) -> Folded {
    let mut out = Folded { text: String::with_capacity(text.len()), places: Vec::new() };
    for (at, character) in text.char_indices() {
        for lower in character.to_lowercase() {
            out.text.push(lower);
            out.places.extend(std::iter::repeat_n(at, lower.len_utf8()));
        }
    }
    out.places.push(text.len());
    out
}

/// Puts marks in the place of ranges; ranges that touch become one.
fn replace(text: &str, mut ranges: Vec<(std::ops::Range<usize>, &'static str)>) -> String {
    ranges.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, mark) in ranges {
        if range.end <= at {
            continue;
        }
        if range.start >= at {
            out.push_str(&text[at..range.start]);
            out.push_str(mark);
        }
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

fn verify(text: &str, secrets: &Secrets) -> Result<(), ScrubError> {
    if take_values(text, &secrets.values) != text {
        return Err(ScrubError("a known value"));
    }
    if names::take(text, &secrets.names) != text {
        return Err(ScrubError("a name"));
    }
    if !find::all(text).is_empty() || take_identifiers(text) != text {
        return Err(ScrubError("a number or address"));
    }
    let mut run = 0;
    for character in text.chars() {
        run = if character.is_numeric() { run + 1 } else { 0 };
        if run >= 4 {
            return Err(ScrubError("a long number"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
