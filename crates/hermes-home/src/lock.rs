//! A lock on a file, held by one process at a time, with a bound on the waiting.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// A lock that ends when it is dropped or its process ends.
#[derive(Debug)]
pub struct FileLock {
    // Closing the file gives the lock back.
    _file: File,
}

impl FileLock {
    /// Between two looks.
    const STEP: Duration = Duration::from_millis(10);

    /// Takes the lock on a file, which is made if it is missing, waiting at most `bound`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another holds it for longer; else what the system says.
    pub fn acquire(path: &Path, bound: Duration) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        crate::fsio::private(&mut options);
        let file = options.open(path)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if start.elapsed() >= bound => {
                    return Err(io::Error::from(io::ErrorKind::WouldBlock));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Self::STEP),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_refused_after_the_bound_and_free_after_the_drop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let first = FileLock::acquire(&path, Duration::ZERO).unwrap();
        let refused = FileLock::acquire(&path, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        FileLock::acquire(&path, Duration::ZERO).unwrap();
    }
}
