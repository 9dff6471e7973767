//! What this session has seen of files, and locks so that two writers of one file take turns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::Digest;

/// What was seen of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// The content at that time.
    digest: Digest,
    /// Lines seen from the first on, without a gap.
    lines: usize,
    /// Whether that was all.
    whole: bool,
}

/// Why a file must not be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// It was never read.
    Never,
    /// Only so many lines were read.
    Part(usize),
    /// It changed since it was read.
    Changed,
}

/// What this session has seen, by real path.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<HashMap<PathBuf, Seen>>);

impl Reads {
    /// Lines `first..=last` (from 1) were shown; `end` says that nothing comes after them. Lines
    /// that were shown cut do not count as seen.
    pub(crate) fn saw(&self, path: &Path, digest: Digest, first: usize, last: usize, end: bool) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = map.get(path).filter(|seen| seen.digest == digest).copied();
        let known = before.map_or(0, |seen| seen.lines);
        let joins = first <= known + 1;
        let lines = if joins { known.max(last) } else { known };
        let whole = before.is_some_and(|seen| seen.whole) || (joins && end);
        map.insert(path.to_owned(), Seen { digest, lines, whole });
    }

    /// The session itself wrote the whole content.
    pub(crate) fn wrote(&self, path: &Path, digest: Digest) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert(path.to_owned(), Seen { digest, lines: 0, whole: true });
    }

    /// The session changed a part of content that it had seen as `before`: what it knows of the
    /// rest stays as good as it was.
    pub(crate) fn patched(&self, path: &Path, before: Digest, after: Digest) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = map.get_mut(path).filter(|seen| seen.digest == before) {
            seen.digest = after;
        }
    }

    /// Whether content with this digest may be replaced.
    pub(crate) fn check(&self, path: &Path, now: Digest) -> Result<(), Unseen> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match map.get(path) {
            None => Err(Unseen::Never),
            Some(seen) if seen.digest != now => Err(Unseen::Changed),
            Some(seen) if !seen.whole => Err(Unseen::Part(seen.lines)),
            Some(_) => Ok(()),
        }
    }
}

/// One lock a path, for calls that run side by side in this process.
#[derive(Debug, Default)]
pub(crate) struct PathLocks(Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>);

impl PathLocks {
    /// The lock of a path. Locks that nobody holds are forgotten.
    pub(crate) fn of(&self, path: &Path) -> Arc<Mutex<()>> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(map.entry(path.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_as_seen_only_when_its_pages_join_up() {
        let reads = Reads::default();
        let path = Path::new("/a");
        let (one, two) = (Digest::of("1"), Digest::of("2"));
        assert_eq!(reads.check(path, one), Err(Unseen::Never));
        reads.saw(path, one, 1, 10, false);
        assert_eq!(reads.check(path, one), Err(Unseen::Part(10)));
        reads.saw(path, one, 21, 30, true);
        assert_eq!(reads.check(path, one), Err(Unseen::Part(10)));
        reads.saw(path, one, 11, 30, true);
        assert_eq!(reads.check(path, one), Ok(()));
        assert_eq!(reads.check(path, two), Err(Unseen::Changed));
        reads.patched(path, one, two);
        assert_eq!(reads.check(path, two), Ok(()));
        reads.saw(path, one, 1, 5, false);
        assert_eq!(reads.check(path, one), Err(Unseen::Part(5)));
        reads.wrote(path, two);
        assert_eq!(reads.check(path, two), Ok(()));
    }
}
