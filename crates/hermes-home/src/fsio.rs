//! Reading and writing files so that nothing is lost and nothing leaves its folder.
//!
//! Invariants: a file is replaced whole or not at all; a private file is never readable by others,
//! not even for a moment; what could not be read as it stands is said.

mod encoding;
mod name;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

pub use encoding::{Encoding, decode};
pub(crate) use name::is_reserved_name;
pub use name::safe_file_name;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// Only its owner: 0600.
    Private,
    /// Whoever the person's settings allow; an existing file keeps its mode.
    Public,
}

/// Replaces a file's content: a temporary file beside it is written, synced and renamed, and the
/// folder is synced. A symbolic link is kept; the file it points to is replaced.
///
/// # Errors
/// If any step fails; the old content is then still there.
pub fn write_atomic(path: &Path, bytes: &[u8], privacy: Privacy) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let target = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => fs::canonicalize(path)?,
        _ => path.to_owned(),
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    // A long name is cut, so that the temporary one stays within what file systems allow.
    let short: String = name.chars().take(40).collect();
    let temporary = folder.join(format!(".{short}.{}-{number}.tmp", std::process::id()));
    let written = write_new(&temporary, bytes, privacy, &target)
        .and_then(|()| fs::rename(&temporary, &target));
    if let Err(error) = written {
        // The error that matters is the first one.
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    sync_dir(folder)
}

fn write_new(temporary: &Path, bytes: &[u8], privacy: Privacy, target: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let existing = fs::metadata(target).ok();
    if privacy == Privacy::Private || existing.is_some() {
        private(&mut options);
    }
    let mut file = options.open(temporary)?;
    file.write_all(bytes)?;
    if let (Privacy::Public, Some(meta)) = (privacy, existing) {
        file.set_permissions(meta.permissions())?;
    }
    file.sync_all()
}

/// Opens a private file for appending, making it if it is missing.
///
/// # Errors
/// What the system says.
pub fn open_private_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    private(&mut options);
    options.open(path)
}

/// Makes a folder (and its parents) for its owner alone: 0700.
///
/// # Errors
/// What the system says.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes files that these options create private.
pub(crate) fn private(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

/// The file's mode if others than its owner may read it.
#[cfg(unix)]
pub(crate) fn open_to_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(crate) fn open_to_others(_path: &Path) -> Option<u32> {
    None
}

/// Makes renames in a folder lasting. Does nothing where folders cannot be synced.
///
/// # Errors
/// What the system says.
pub fn sync_dir(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// A text as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadText {
    /// The text, without a byte order mark.
    pub text: String,
    /// How it was encoded.
    pub encoding: Encoding,
    /// Characters that stand for bytes which could not be read.
    pub replaced: usize,
    /// Whether the file goes on behind the limit.
    pub truncated: bool,
    /// The file's size in bytes.
    pub size: u64,
}

/// Reads at most `limit` bytes of a file as text.
///
/// # Errors
/// If it cannot be read or is no regular file (a pipe or device could block or never end).
pub fn read_text(path: &Path, limit: u64) -> io::Result<ReadText> {
    // Looked at before it is opened: opening a pipe waits for its writer.
    let meta = fs::metadata(path)?;
    if meta.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::open(path)?;
    let size = meta.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(limit)).unwrap_or_default());
    // One byte more tells a file of exactly the limit from a longer one.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let truncated = bytes.len() as u64 > limit;
    if truncated {
        bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let (text, encoding, replaced) = decode(bytes, truncated);
    Ok(ReadText { text, encoding, replaced, truncated, size })
}

/// Where a path leads that must stay in a folder.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    /// It leads out.
    #[error("{} leads out of {}\nhint: name a path inside that folder", path.display(), root.display())]
    Outside {
        /// The path asked for.
        path: PathBuf,
        /// The folder.
        root: PathBuf,
    },
    /// It cannot be followed.
    #[error("cannot follow {}: {source}", path.display())]
    Io {
        /// The path asked for.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The real path of `path` (relative to `root`, or absolute), symbolic links followed, if it lies
/// in `root`. What does not exist yet may be named; `..` is followed as the system would.
///
/// # Errors
/// If it leads out of the folder or cannot be followed.
pub fn resolve_inside(root: &Path, path: &Path) -> Result<PathBuf, InsideError> {
    let fail = |source| InsideError::Io { path: path.to_owned(), source };
    let root = fs::canonicalize(root).map_err(fail)?;
    let outside = || InsideError::Outside { path: path.to_owned(), root: root.clone() };
    let joined = root.join(path);
    // The longest part that exists, and the names behind it.
    let mut existing = joined.as_path();
    let mut missing = Vec::new();
    let mut real = loop {
        match fs::canonicalize(existing) {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A link to nothing would be followed once its target is made.
                if fs::symlink_metadata(existing).is_ok_and(|meta| meta.is_symlink()) {
                    return Err(outside());
                }
                match existing.components().next_back() {
                    Some(Component::Normal(name)) => missing.push(name),
                    // `missing/..` has no meaning that can be trusted.
                    _ => return Err(outside()),
                }
                existing = existing.parent().ok_or_else(outside)?;
            }
            Err(error) => return Err(fail(error)),
        }
    };
    for name in missing.iter().rev() {
        real.push(name);
    }
    if real.starts_with(&root) { Ok(real) } else { Err(outside()) }
}

#[cfg(test)]
mod tests;
