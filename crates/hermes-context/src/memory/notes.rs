//! Who wrote an entry and when: a side file, keyed by the digest of the entry's text.
//!
//! Invariant: losing it loses no entry; it never stops a read or a write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hermes_core::{Digest, SessionId, Timestamp};
use hermes_home::fsio::{Privacy, write_atomic};
use serde::{Deserialize, Serialize};

use super::edit::Change;
use super::entries::{Entries, Entry};
use super::{Author, beside};

/// Who wrote an entry and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryNote {
    /// `model`, `person`, or the job that did it.
    pub author: String,
    /// When.
    pub at: Timestamp,
    /// The session it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Where the text comes from, if it was not said by the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// An entry that was taken out: its digest, not its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Removed {
    digest: Digest,
    #[serde(flatten)]
    by: EntryNote,
}

/// Removals remembered at most.
const MAX_REMOVED: usize = 200;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Notes {
    entries: BTreeMap<Digest, EntryNote>,
    removed: Vec<Removed>,
    #[serde(skip)]
    pub(super) warnings: Vec<String>,
}

fn path_of(memory: &Path) -> PathBuf {
    beside(memory, ".notes.json")
}

impl Notes {
    pub(super) fn read(memory: &Path) -> Self {
        let path = path_of(memory);
        let Ok(text) = fs::read_to_string(&path) else { return Self::default() };
        serde_json::from_str(&text).unwrap_or_else(|error| Self {
            warnings: vec![format!(
                "{}: not readable ({error}), so authors and times of entries are unknown; hint: \
                 remove it",
                path.display()
            )],
            ..Self::default()
        })
    }

    pub(super) fn attach(&self, entry: Entry) -> Entry {
        let note = self.entries.get(&Digest::of(&entry.text)).cloned();
        Entry { note, ..entry }
    }
}

/// Writes down who made `changes`. What goes wrong is returned, for the person.
pub(super) fn record(
    memory: &Path,
    changes: &[Change],
    entries: &Entries,
    author: &Author,
    now: Timestamp,
) -> Vec<String> {
    if !changes.iter().any(Change::is_change) {
        return Vec::new();
    }
    let mut notes = Notes::read(memory);
    let note = EntryNote {
        author: author.name.clone(),
        at: now,
        session: author.session.clone(),
        source: author.source.clone(),
    };
    for change in changes {
        match change {
            Change::Added { text } => {
                notes.entries.insert(Digest::of(text), note.clone());
            }
            Change::Replaced { before, after } => {
                // What came from outside stays marked, whoever edits it.
                let old = notes.entries.remove(&Digest::of(before));
                let source = note.source.clone().or(old.and_then(|old| old.source));
                notes.entries.insert(Digest::of(after), EntryNote { source, ..note.clone() });
            }
            Change::Removed { text } => {
                let digest = Digest::of(text);
                notes.entries.remove(&digest);
                notes.removed.push(Removed { digest, by: note.clone() });
            }
            Change::AlreadyThere { .. } => {}
        }
    }
    let present: Vec<Digest> = entries.list.iter().map(|entry| Digest::of(&entry.text)).collect();
    notes.entries.retain(|digest, _| present.contains(digest));
    let excess = notes.removed.len().saturating_sub(MAX_REMOVED);
    notes.removed.drain(..excess);
    let path = path_of(memory);
    let mut warnings = std::mem::take(&mut notes.warnings);
    let written = serde_json::to_vec_pretty(&notes)
        .map_err(std::io::Error::other)
        .and_then(|bytes| write_atomic(&path, &bytes, Privacy::Private));
    if let Err(error) = written {
        warnings.push(format!("{}: authors could not be written: {error}", path.display()));
    }
    warnings
}
