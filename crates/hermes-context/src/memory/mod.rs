//! Memory files: `MEMORY.md`, the model's own notes, and `USER.md`, what is known of the person.
//!
//! A file is a list of entries between lines of `§`; a file without such a line is one entry. Who
//! wrote an entry, and when, is kept in a side file, so that the format stays a person's to edit.
//!
//! Invariants: bytes of entries that an edit does not name are written back as they were, valid
//! UTF-8 or not; an edit works on what is on the disk now, under a lock, and a change by somebody
//! else meanwhile is taken in or the edit is refused, never overwritten; a batch of edits is
//! applied whole or not at all.

mod edit;
mod entries;
mod fold;
mod notes;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_core::{Digest, SessionId, Source, Timestamp};
use hermes_home::fsio::{Privacy, write_atomic};
use hermes_home::{Config, FileLock, Home, fsio};

use self::edit::apply_edits;
use self::entries::Entries;
use crate::source_text::MAX_FILE_BYTES;
use crate::{WriteReceipt, source_kind};

pub use self::edit::{Change, Edit};
pub use self::entries::Entry;
pub use self::notes::EntryNote;

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// The model's notes, `MEMORY.md`.
    Memory,
    /// What is known of the person, `USER.md`.
    User,
}

impl MemoryKind {
    /// Its id in the manifest and in the table of sources.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::User => "user",
        }
    }
}

/// A memory file: where it is and how much it may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFile {
    /// Which file.
    pub kind: MemoryKind,
    /// Its path.
    pub path: PathBuf,
    /// Characters it may hold, separators included.
    pub limit: usize,
}

/// A memory file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryText {
    /// The entries in order.
    pub entries: Vec<Entry>,
    /// Digest of the file's bytes; of the empty text if there is none.
    pub digest: Digest,
    /// Characters used, separators included.
    pub used: usize,
    /// What the person should know, whole sentences.
    pub warnings: Vec<String>,
}

/// Who makes an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// `model`, `person`, or the job that does it.
    pub name: String,
    /// The session it happens in.
    pub session: Option<SessionId>,
    /// Where the text comes from, if it was not said by the person: `read from report.txt`. It is
    /// shown with the entry for ever.
    pub source: Option<String>,
}

/// What an edit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Whether the file changed and when the model will see it.
    pub receipt: WriteReceipt,
    /// One change for each edit, in their order.
    pub changes: Vec<Change>,
    /// The entries now.
    pub entries: Vec<String>,
    /// Characters used now.
    pub used: usize,
    /// Characters there may be.
    pub limit: usize,
    /// What the person should know.
    pub warnings: Vec<String>,
}

/// An edit that was not made. The file is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// No edit was given.
    #[error("there is nothing to do; hint: give at least one edit")]
    NoEdits,
    /// The text of an entry is empty.
    #[error("edit {edit}: the text is empty; hint: use remove to take an entry out")]
    EmptyText {
        /// Which edit, from 1.
        edit: usize,
    },
    /// The text would be read as two entries.
    #[error(
        "edit {edit}: the text holds a line of §, which separates entries; hint: add two entries"
    )]
    Separator {
        /// Which edit, from 1.
        edit: usize,
    },
    /// The text tries to instruct its reader.
    #[error(
        "edit {edit}: the text looks like an attack ({rule}); hint: if the person wants it kept, \
         they can write it into {path}"
    )]
    Suspicious {
        /// Which edit, from 1.
        edit: usize,
        /// The rule that found it.
        rule: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// No entry has the text.
    #[error("edit {edit}: no entry holds that text; hint: give an entry's exact text; closest: {}", listed(.closest))]
    NotFound {
        /// Which edit, from 1.
        edit: usize,
        /// Entries that are most like it.
        closest: Vec<String>,
    },
    /// Several entries have the text.
    #[error("edit {edit}: the text is in more than one place; hint: give a whole entry; candidates: {}", listed(.candidates))]
    Ambiguous {
        /// Which edit, from 1.
        edit: usize,
        /// The entries.
        candidates: Vec<String>,
    },
    /// A part of a longer entry would take the whole entry with it.
    #[error(
        "edit {edit}: the text is only a part of an entry of several lines; hint: give the whole \
         entry to remove it, or replace the part: {}", listed(std::slice::from_ref(.entry))
    )]
    PartOfEntry {
        /// Which edit, from 1.
        edit: usize,
        /// The entry.
        entry: String,
    },
    /// A batch would leave nothing.
    #[error(
        "the edits would empty the file; hint: remove the last entry by itself if that is meant"
    )]
    WouldEmpty,
    /// It does not fit.
    #[error(
        "{used} characters do not fit into the {limit} of {path}; hint: shorten or remove \
         entries in the same batch"
    )]
    OverLimit {
        /// Characters there would be.
        used: usize,
        /// Characters there may be.
        limit: usize,
        /// The file.
        path: PathBuf,
    },
    /// It was changed again and again while the edit was made.
    #[error("{path} keeps changing, so the edit was not made; hint: try again")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It is in an encoding that is read but not written.
    #[error("{path} is in UTF-16 and was not changed; hint: save it as UTF-8")]
    Encoding {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{path}: {message}; hint: check that it is a file that you may write")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's words.
        message: String,
    },
}

fn listed(texts: &[String]) -> String {
    if texts.is_empty() {
        return "(none)".to_owned();
    }
    let short = |text: &String| {
        let mut line: String = text.chars().take(100).collect();
        if line.len() < text.len() {
            line.push('…');
        }
        format!("\"{}\"", line.replace('\n', " "))
    };
    texts.iter().map(short).collect::<Vec<_>>().join(", ")
}

impl MemoryFile {
    /// The file of a home, with the limit of its configuration.
    pub fn of(home: &Home, config: &Config, kind: MemoryKind) -> Self {
        let (path, limit) = match kind {
            MemoryKind::Memory => (home.memory_path(), config.memory.memory_char_limit),
            MemoryKind::User => (home.user_path(), config.memory.user_char_limit),
        };
        Self { kind, path, limit }
    }

    /// Reads it. A file that is not there has no entries.
    ///
    /// # Errors
    /// If it is there but cannot be read.
    pub fn read(&self) -> Result<MemoryText, MemoryError> {
        let bytes = self.bytes()?;
        let entries = Entries::parse(&bytes);
        let mut warnings: Vec<String> = Vec::new();
        if let Some(line) = entries.bad_line {
            let path = self.path.display();
            warnings.push(format!(
                "{path}:{line}: not valid UTF-8, shown as \u{fffd}; the bytes are kept; hint: save \
                 the file as UTF-8"
            ));
        }
        let mut notes = notes::Notes::read(&self.path);
        warnings.append(&mut notes.warnings);
        let used = entries.used();
        if used > self.limit {
            let path = self.path.display();
            let limit = self.limit;
            warnings.push(format!(
                "{path}: {used} characters, more than the {limit} that reach the prompt; hint: \
                 shorten it, or separate its entries by lines of § so that they can be edited"
            ));
        }
        let digest = Digest::of(&bytes);
        let entries = entries.list.into_iter().map(|entry| notes.attach(entry)).collect();
        Ok(MemoryText { entries, digest, used, warnings })
    }

    /// Makes `edits` in order, all or none.
    ///
    /// # Errors
    /// If one of them cannot be made; the file is then as it was.
    pub fn apply(
        &self,
        edits: &[Edit],
        author: &Author,
        now: Timestamp,
    ) -> Result<Applied, MemoryError> {
        self.apply_watched(edits, author, now, &mut || {})
    }

    /// As [`Self::apply`]; `before_swap` runs when the new text is ready and not yet in place.
    fn apply_watched(
        &self,
        edits: &[Edit],
        author: &Author,
        now: Timestamp,
        before_swap: &mut dyn FnMut(),
    ) -> Result<Applied, MemoryError> {
        /// A file that changes this often is being written all the time.
        const TRIES: usize = 4;
        /// An edit takes milliseconds.
        const LOCK_WAIT: Duration = Duration::from_secs(5);
        if edits.is_empty() {
            return Err(MemoryError::NoEdits);
        }
        if let Some(folder) = self.path.parent() {
            fsio::create_private_dir(folder).map_err(|error| self.io(&error))?;
        }
        let _lock = FileLock::acquire(&beside(&self.path, ".lock"), LOCK_WAIT)
            .map_err(|error| self.io(&error))?;
        for _ in 0..TRIES {
            let bytes = self.bytes()?;
            let before = Digest::of(&bytes);
            let mut parsed = Entries::parse(&bytes);
            let used_before = parsed.used();
            let changes = apply_edits(&mut parsed, edits, &self.path)?;
            let used = parsed.used();
            let differs = changes.iter().any(Change::is_change);
            if used > self.limit && used >= used_before && differs {
                return Err(MemoryError::OverLimit {
                    used,
                    limit: self.limit,
                    path: self.path.clone(),
                });
            }
            let after = if differs { parsed.to_bytes() } else { bytes };
            if differs {
                if parsed.utf16 {
                    return Err(MemoryError::Encoding { path: self.path.clone() });
                }
                before_swap();
                // Somebody without the lock, such as an editor, may have written meanwhile.
                if Digest::of(self.bytes()?) != before {
                    continue;
                }
                write_atomic(&self.path, &after, Privacy::Private)
                    .map_err(|error| self.io(&error))?;
            }
            let warnings = notes::record(&self.path, &changes, &parsed, author, now);
            return Ok(Applied {
                receipt: self.receipt(before, Digest::of(&after)),
                changes,
                entries: parsed.list.into_iter().map(|entry| entry.text).collect(),
                used,
                limit: self.limit,
                warnings,
            });
        }
        Err(MemoryError::Busy { path: self.path.clone() })
    }

    fn receipt(&self, before: Digest, after: Digest) -> WriteReceipt {
        let source = Source::File { path: self.path.display().to_string() };
        match source_kind(self.kind.id()) {
            Some(kind) => WriteReceipt::new(kind, source, before, after),
            None => WriteReceipt {
                source,
                before,
                after,
                changed: before != after,
                reaches_model: hermes_core::Refresh::Compaction,
                sentence: String::new(),
            },
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, MemoryError> {
        // Looked at before it is opened: opening a pipe waits for its writer.
        match fs::metadata(&self.path) {
            Ok(meta) if !meta.is_file() => Err(self.io(&io::Error::other("not a regular file"))),
            Ok(meta) if meta.len() > MAX_FILE_BYTES => {
                Err(self.io(&io::Error::other(format!("too large with {} bytes", meta.len()))))
            }
            Ok(_) => fs::read(&self.path).map_err(|error| self.io(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.io(&error)),
        }
    }

    fn io(&self, error: &io::Error) -> MemoryError {
        MemoryError::Io { path: self.path.clone(), message: error.to_string() }
    }
}

/// `path` with `suffix` behind its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
