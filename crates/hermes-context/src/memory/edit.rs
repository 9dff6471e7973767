//! Edits of entries.
//!
//! One rule for finding the text to change: an entry that is exactly it; else the one entry that
//! holds it; else the same with typography folded. More than one place is refused with the
//! candidates. Replacing changes only what matched: the entry if all of it matched, else that
//! part. Removing takes the entry out, but for a part of an entry of several lines it is refused.

use std::ops::Range;
use std::path::Path;

use super::MemoryError;
use super::entries::{Entries, Entry, is_separator};
use super::fold::Folded;
use crate::threat;

/// A change that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Adds an entry at the end.
    Add {
        /// Its text.
        text: String,
    },
    /// Replaces what matches `old_text`.
    Replace {
        /// The text to find.
        old_text: String,
        /// The text to put in its place.
        new_text: String,
    },
    /// Removes the entry that `old_text` names.
    Remove {
        /// The text to find.
        old_text: String,
    },
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An entry was added.
    Added {
        /// Its text.
        text: String,
    },
    /// The entry was there already; nothing was changed.
    AlreadyThere {
        /// Its text.
        text: String,
    },
    /// An entry was changed.
    Replaced {
        /// The whole entry before.
        before: String,
        /// The whole entry after.
        after: String,
    },
    /// An entry was removed.
    Removed {
        /// Its text.
        text: String,
    },
}

impl Change {
    /// Whether the file differs for it.
    pub const fn is_change(&self) -> bool {
        !matches!(self, Self::AlreadyThere { .. })
    }
}

/// Makes `edits` in order on `entries`.
pub(super) fn apply_edits(
    entries: &mut Entries,
    edits: &[Edit],
    path: &Path,
) -> Result<Vec<Change>, MemoryError> {
    let had_entries = !entries.list.is_empty();
    let mut changes = Vec::with_capacity(edits.len());
    for (number, edit) in (1..).zip(edits) {
        let change = match edit {
            Edit::Add { text } => add(entries, &valid(text, number, path)?),
            Edit::Replace { old_text, new_text } => {
                let new = valid(new_text, number, path)?;
                replace(entries, &cleaned(old_text), &new, number)?
            }
            Edit::Remove { old_text } => remove(entries, &cleaned(old_text), number)?,
        };
        changes.push(change);
    }
    if edits.len() > 1 && had_entries && entries.list.is_empty() {
        return Err(MemoryError::WouldEmpty);
    }
    Ok(changes)
}

fn cleaned(text: &str) -> String {
    text.replace("\r\n", "\n").replace(['\0', '\u{feff}'], "").trim().to_owned()
}

/// The text of an entry as it may be written.
fn valid(text: &str, edit: usize, path: &Path) -> Result<String, MemoryError> {
    let text = cleaned(text);
    if text.is_empty() {
        return Err(MemoryError::EmptyText { edit });
    }
    if text.lines().any(|line| is_separator(line.as_bytes())) {
        return Err(MemoryError::Separator { edit });
    }
    if let Some(finding) = threat::screen(&text).removed.first() {
        return Err(MemoryError::Suspicious { edit, rule: finding.rule, path: path.to_owned() });
    }
    Ok(text)
}

fn add(entries: &mut Entries, text: &str) -> Change {
    let text = text.to_owned();
    if entries.list.iter().any(|entry| entry.text == text) {
        return Change::AlreadyThere { text };
    }
    entries.list.push(Entry::new(&text, entries.newline));
    Change::Added { text }
}

fn replace(
    entries: &mut Entries,
    old: &str,
    new: &str,
    edit: usize,
) -> Result<Change, MemoryError> {
    let Found { index, part, once } = find(&entries.list, old, edit)?;
    let newline = entries.newline;
    let entry = &mut entries.list[index];
    let before = entry.text.clone();
    let after = match part {
        None => new.to_owned(),
        Some(_) if !once => {
            return Err(MemoryError::Ambiguous { edit, candidates: vec![before] });
        }
        Some(part) => format!("{}{new}{}", &before[..part.start], &before[part.end..]),
    };
    if after == before {
        return Ok(Change::AlreadyThere { text: after });
    }
    *entry = Entry::new(&after, newline);
    Ok(Change::Replaced { before, after })
}

fn remove(entries: &mut Entries, old: &str, edit: usize) -> Result<Change, MemoryError> {
    let Found { index, part, .. } = find(&entries.list, old, edit)?;
    let text = entries.list[index].text.clone();
    if part.is_some() && text.contains('\n') {
        return Err(MemoryError::PartOfEntry { edit, entry: text });
    }
    entries.list.remove(index);
    Ok(Change::Removed { text })
}

struct Found {
    index: usize,
    /// The matching part of its text; None if all of it matched.
    part: Option<Range<usize>>,
    /// Whether the part occurs once in it.
    once: bool,
}

fn find(entries: &[Entry], old: &str, edit: usize) -> Result<Found, MemoryError> {
    if old.is_empty() {
        return Err(MemoryError::EmptyText { edit });
    }
    let texts: Vec<&str> = entries.iter().map(|entry| &*entry.text).collect();
    let plain = |_: usize, range: Range<usize>| Some(range);
    if let Some(found) = find_in(&texts, &texts, old, edit, &plain)? {
        return Ok(found);
    }
    let folded: Vec<Folded> = texts.iter().map(|text| Folded::of(text)).collect();
    let folded_texts: Vec<&str> = folded.iter().map(|folded| &*folded.text).collect();
    let back = |index: usize, range: Range<usize>| folded[index].original(&range);
    let old = Folded::of(old).text;
    match find_in(&texts, &folded_texts, &old, edit, &back)? {
        Some(found) => Ok(found),
        None => Err(MemoryError::NotFound { edit, closest: closest(&texts, &old) }),
    }
}

fn find_in(
    texts: &[&str],
    searched: &[&str],
    old: &str,
    edit: usize,
    back: &dyn Fn(usize, Range<usize>) -> Option<Range<usize>>,
) -> Result<Option<Found>, MemoryError> {
    if let Some(index) = searched.iter().position(|text| *text == old) {
        return Ok(Some(Found { index, part: None, once: true }));
    }
    let holding: Vec<usize> =
        (0..searched.len()).filter(|index| searched[*index].contains(old)).collect();
    match holding.as_slice() {
        [] => Ok(None),
        [index] => {
            let places: Vec<usize> =
                searched[*index].match_indices(old).map(|(at, _)| at).collect();
            let start = places.first().copied().unwrap_or_default();
            let part = back(*index, start..start + old.len());
            Ok(Some(Found { index: *index, part, once: places.len() == 1 }))
        }
        many => {
            let candidates = many.iter().map(|index| texts[*index].to_owned()).collect();
            Err(MemoryError::Ambiguous { edit, candidates })
        }
    }
}

/// Up to three entries that share most words with `old`.
fn closest(texts: &[&str], old: &str) -> Vec<String> {
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_lowercase).collect() };
    let wanted = words(old);
    let mut scored: Vec<(usize, &str)> = texts
        .iter()
        .map(|text| (words(text).iter().filter(|word| wanted.contains(word)).count(), *text))
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().take(3).map(|(_, text)| text.to_owned()).collect()
}
