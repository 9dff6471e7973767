//! Headers read earlier, by path, size and time of change, so that a session start with hundreds
//! of skills reads one file.
//!
//! Invariant: it is a copy; without it everything is read anew, and a skill is always loaded from
//! its own file.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use hermes_core::Digest;
use hermes_home::fsio::{Privacy, create_private_dir, write_atomic};
use serde::{Deserialize, Serialize};

use super::SkillHeader;

/// Raised when what is read of a header changes.
const VERSION: u32 = 1;

/// What a `SKILL.md` said when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Read {
    /// Size and time of change, the latter in nanoseconds.
    pub(super) stamp: (u64, u64),
    pub(super) name: Option<String>,
    pub(super) description: String,
    pub(super) header: SkillHeader,
    pub(super) digest: Digest,
    pub(super) broken: Option<String>,
    pub(super) warnings: Vec<String>,
}

impl Read {
    pub(super) fn of(meta: &Metadata, digest: Digest) -> Self {
        Self {
            stamp: stamp(meta),
            name: None,
            description: String::new(),
            header: SkillHeader::default(),
            digest,
            broken: None,
            warnings: Vec::new(),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    version: u32,
    files: BTreeMap<PathBuf, Read>,
}

/// The cache of one discovery: what was there, and what was used.
pub(super) struct Cache<'a> {
    path: Option<&'a Path>,
    old: BTreeMap<PathBuf, Read>,
    used: BTreeMap<PathBuf, Read>,
    changed: bool,
}

impl<'a> Cache<'a> {
    pub(super) fn open(path: Option<&'a Path>) -> Self {
        let stored = path
            .and_then(|path| std::fs::read(path).ok())
            .and_then(|bytes| serde_json::from_slice::<Stored>(&bytes).ok())
            .filter(|stored| stored.version == VERSION);
        let old = stored.unwrap_or_default().files;
        Self { path, old, used: BTreeMap::new(), changed: false }
    }

    /// What the file at `path` says, read with `read` unless it is known.
    pub(super) fn get(
        &mut self,
        path: &Path,
        meta: &Metadata,
        read: impl FnOnce() -> Read,
    ) -> Read {
        let known = self.old.remove(path).filter(|known| known.stamp == stamp(meta));
        let value = known.unwrap_or_else(|| {
            self.changed = true;
            read()
        });
        self.used.insert(path.to_owned(), value.clone());
        value
    }

    /// Keeps what was used, if it differs from what was there.
    pub(super) fn close(self) {
        let Some(path) = self.path else { return };
        if !self.changed && self.old.is_empty() {
            return;
        }
        let stored = Stored { version: VERSION, files: self.used };
        let written =
            serde_json::to_vec(&stored).map_err(std::io::Error::other).and_then(|bytes| {
                if let Some(folder) = path.parent() {
                    create_private_dir(folder)?;
                }
                write_atomic(path, &bytes, Privacy::Private)
            });
        if let Err(error) = written {
            tracing::debug!(path = %path.display(), %error, "skill headers could not be kept");
        }
    }
}

fn stamp(meta: &Metadata) -> (u64, u64) {
    let changed = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    // 2554 is far enough for nanoseconds in 64 bits.
    (meta.len(), changed.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0)))
}
