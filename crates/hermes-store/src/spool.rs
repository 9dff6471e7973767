//! The side file of a session whose database cannot be written: the same records, synced.
//!
//! Layout: a line that names the format, then frames of length (4 bytes, little endian), SHA-256
//! of the payload, payload. A payload is JSON, zstd-compressed. The first frame says whose file it
//! is; each further one is a batch. A frame that is cut off or does not match its digest ends the
//! file: everything before it holds, and it was never acknowledged.
//!
//! Its writer holds a lock on a file beside it, which stays: a lock on the side file itself would
//! keep others from reading it on some platforms, and removing a lock file lets two hold it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use hermes_core::{Digest, SessionId};
use serde::{Deserialize, Serialize};

use crate::files;
use crate::{Batch, Holder, Record, SessionInit, point};

const MAGIC: &[u8] = b"hermes spool 1\n";
const HEAD: usize = 4 + 32;

/// Whose file it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SpoolHeader {
    pub(crate) session: SessionId,
    /// Random; marks the file as taken in.
    pub(crate) token: String,
    pub(crate) holder: Holder,
    /// The session's facts, where it was created while the database could not be written.
    pub(crate) init: Option<SessionInit>,
}

/// What a side file holds.
#[derive(Clone, Debug)]
pub(crate) struct SpoolContents {
    pub(crate) path: PathBuf,
    pub(crate) header: SpoolHeader,
    pub(crate) batches: Vec<Batch>,
    /// Bytes up to the end of the last whole frame.
    whole: u64,
}

impl SpoolContents {
    /// The records in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.batches.iter().flatten()
    }
}

/// A side file that this process writes.
pub(crate) struct Spool {
    path: PathBuf,
    file: File,
    length: u64,
    _lock: File,
}

/// Why a side file could not be opened for writing.
pub(crate) enum SpoolError {
    /// Another live process writes it.
    InUse(Option<Holder>),
    Io(io::Error),
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The side file of a session.
pub(crate) fn path_of(folder: &Path, session: &SessionId) -> PathBuf {
    folder.join(format!("{}.spool", files::stem(session)))
}

impl Spool {
    /// Opens the session's side file and locks it; creates it with `header` if there is none or
    /// nothing of it is whole.
    pub(crate) fn open(
        folder: &Path,
        session: &SessionId,
        header: impl FnOnce() -> SpoolHeader,
    ) -> Result<Self, SpoolError> {
        files::private_dir(folder).map_err(|error| match error {
            crate::StoreError::Io { source, .. } => SpoolError::Io(source),
            other => SpoolError::Io(io::Error::other(other.to_string())),
        })?;
        let path = path_of(folder, session);
        let lock = lock(&path)?;
        let mut file = options().open(&path)?;
        let contents = parse(&path, &mut file)?;
        let mut spool = if let Some(contents) = contents {
            keep_damaged(&path, &file, Some(&contents))?;
            file.set_len(contents.whole)?;
            Self { path, file, length: contents.whole, _lock: lock }
        } else {
            keep_damaged(&path, &file, None)?;
            file.set_len(0)?;
            let mut spool = Self { path, file, length: 0, _lock: lock };
            let mut bytes = MAGIC.to_vec();
            frame(&mut bytes, &header())?;
            spool.write(&bytes)?;
            files::sync_dir(folder)?;
            spool
        };
        spool.file.seek(SeekFrom::Start(spool.length))?;
        Ok(spool)
    }

    /// Locks an existing side file; None if there is none.
    pub(crate) fn open_existing(
        folder: &Path,
        session: &SessionId,
    ) -> Result<Option<(Self, SpoolContents)>, SpoolError> {
        let path = path_of(folder, session);
        if !path.exists() {
            return Ok(None);
        }
        let lock = lock(&path)?;
        let mut file = options().open(&path)?;
        let contents = parse(&path, &mut file)?;
        keep_damaged(&path, &file, contents.as_ref())?;
        let Some(contents) = contents else {
            files::remove(&path)?;
            return Ok(None);
        };
        file.set_len(contents.whole)?;
        file.seek(SeekFrom::Start(contents.whole))?;
        let length = contents.whole;
        Ok(Some((Self { path, file, length, _lock: lock }, contents)))
    }

    /// Appends a batch and syncs it.
    pub(crate) fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame(&mut bytes, batch)?;
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes).and_then(|()| {
            point::reach("spool: written");
            self.file.sync_data()
        });
        if let Err(error) = written {
            // What was half written must not stand before the next frame.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            return Err(error);
        }
        self.length += bytes.len() as u64;
        point::reach("spool: synced");
        Ok(())
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file after it was taken in.
    pub(crate) fn remove(self) -> io::Result<()> {
        files::remove(&self.path)
    }

    /// Moves the file out of the way: its records contradict the database.
    pub(crate) fn set_aside(self) -> io::Result<PathBuf> {
        let aside = free_aside(&self.path);
        fs::rename(&self.path, &aside)?;
        Ok(aside)
    }
}

/// A name beside a side file that is not taken.
fn free_aside(path: &Path) -> PathBuf {
    (1_u32..1000)
        .map(|n| path.with_extension(format!("conflict-{n}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| path.with_extension("conflict"))
}

/// Keeps a copy of a side file of which something cannot be read. A tail that was cut off while it
/// was written was never acknowledged, but a damaged length looks the same; only a tail too short
/// for a frame's head is certain to hold nothing.
fn keep_damaged(path: &Path, file: &File, contents: Option<&SpoolContents>) -> io::Result<()> {
    let length = file.metadata()?.len();
    let read = contents.map_or(0, |contents| contents.whole);
    if read == length {
        return Ok(());
    }
    let bytes = fs::read(path)?;
    let rest = bytes.len().saturating_sub(read as usize);
    let head = if contents.is_none() { MAGIC.len() + HEAD } else { HEAD };
    if rest < head {
        return Ok(());
    }
    let aside = free_aside(path);
    fs::copy(path, &aside)?;
    tracing::warn!(path = %aside.display(), "records that cannot be read are kept aside");
    Ok(())
}

impl crate::Store {
    /// Files of a session's records that could not be taken in and were kept aside: they
    /// contradict the database, or cannot be read.
    pub fn set_aside(&self, session: &SessionId) -> Vec<PathBuf> {
        let stem = files::stem(session);
        conflicts(&self.inner().paths().spool_dir)
            .into_iter()
            .filter(|path| path.file_stem().is_some_and(|name| name == stem.as_str()))
            .collect()
    }
}

fn options() -> fs::OpenOptions {
    let mut options = files::private_options();
    options.read(true).write(true).create(true).truncate(false);
    options
}

/// The lock file of a side file.
pub(crate) fn lock_path(spool: &Path) -> PathBuf {
    spool.with_extension("spool-lock")
}

/// Takes the lock. A file system without locks is no reason to lose a turn.
fn lock(spool: &Path) -> Result<File, SpoolError> {
    let path = lock_path(spool);
    let file = options().open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = read(spool).ok().flatten().map(|contents| contents.header.holder);
            return Err(SpoolError::InUse(holder));
        }
        Err(TryLockError::Error(error)) => {
            tracing::warn!(%error, path = %path.display(), "the side file cannot be locked");
        }
    }
    Ok(file)
}

fn frame<T: Serialize>(out: &mut Vec<u8>, value: &T) -> io::Result<()> {
    let payload = zstd::bulk::compress(&serde_json::to_vec(value)?, 1)?;
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a batch of more than 4 GiB"))?;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(Digest::of(&payload).as_bytes());
    out.extend_from_slice(&payload);
    Ok(())
}

/// The next whole frame's payload, and the rest.
fn next_frame(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (length, digest) = head.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (payload, rest) = rest.split_at_checked(length)?;
    if Digest::of(payload).as_bytes() != digest {
        return None;
    }
    Some((zstd::stream::decode_all(payload).ok()?, rest))
}

/// Reads a side file up to its last whole frame; None if not even its header is whole.
pub(crate) fn read(path: &Path) -> io::Result<Option<SpoolContents>> {
    match File::open(path) {
        Ok(mut file) => parse(path, &mut file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(path: &Path, file: &mut File) -> io::Result<Option<SpoolContents>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(parse_bytes(path, &bytes))
}

fn parse_bytes(path: &Path, bytes: &[u8]) -> Option<SpoolContents> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (payload, mut rest) = next_frame(rest)?;
    let header: SpoolHeader = serde_json::from_slice(&payload).ok()?;
    let mut batches = Vec::new();
    while let Some((payload, after)) = next_frame(rest) {
        let Ok(batch) = serde_json::from_slice(&payload) else { break };
        batches.push(batch);
        rest = after;
    }
    let whole = (bytes.len() - rest.len()) as u64;
    Some(SpoolContents { path: path.to_owned(), header, batches, whole })
}

/// Every side file in the folder that can be read.
pub(crate) fn scan(folder: &Path) -> Vec<SpoolContents> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "spool"))
        .filter_map(|path| read(&path).ok().flatten())
        .collect()
}

/// Files whose records contradicted the database.
pub(crate) fn conflicts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .and_then(|extension| extension.to_str())
                .is_some_and(|extension| extension.starts_with("conflict"))
        })
        .collect()
}

/// Those that were set aside of one session.
pub(crate) fn conflicts_of(folder: &Path, session: &SessionId) -> Vec<PathBuf> {
    let own = path_of(folder, session);
    let mut found = conflicts(folder);
    found.retain(|path| path.file_stem() == own.file_stem());
    found
}
