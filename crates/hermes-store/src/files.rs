//! Files beside the database: private to their owner, with names that are safe on every platform.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use hermes_core::{Digest, SessionId};

use crate::StoreError;

/// Adds the path to a fault.
pub(crate) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    move |source| StoreError::Io { path: path.to_owned(), source }
}

/// Options that create files as 0600.
pub(crate) fn private_options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "permissions are set on Unix only"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// Creates a folder, and its missing parents, as 0700.
pub(crate) fn private_dir(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    #[cfg_attr(not(unix), expect(unused_mut, reason = "permissions are set on Unix only"))]
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path).map_err(io_at(path))
}

/// Makes the entries of a folder durable. Only Unix needs and can do it.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(path)?.sync_all() } else { Ok(()) }
}

/// Removes a file; that it is gone already is no fault.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A file name made of a session's id: the id where every character is harmless everywhere, else
/// its harmless characters and part of its digest.
pub(crate) fn stem(id: &SessionId) -> String {
    const LONGEST: usize = 80;
    let text = id.as_str();
    let harmless = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    if text.len() <= LONGEST && !text.is_empty() && text.chars().all(harmless) {
        return text.to_owned();
    }
    let kept: String = text.chars().filter(|c| harmless(*c)).take(40).collect();
    format!("{kept}.{}", &Digest::of(text).to_string()[..20])
}

/// The files that programs keep of one session in a folder of session files. The one place that
/// makes their names, for whoever writes them and for whoever removes them.
#[derive(Clone, Copy, Debug)]
pub struct SessionFiles<'a> {
    id: &'a SessionId,
}

impl<'a> SessionFiles<'a> {
    /// Of this session; None if its id is no safe file name, so that it has no such files.
    pub fn of(id: &'a SessionId) -> Option<Self> {
        let text = id.as_str();
        let safe = !text.is_empty()
            && !text.starts_with('.')
            && !text.contains(['/', '\\', '\0', ':'])
            && !text.contains("..");
        safe.then_some(Self { id })
    }

    /// The transcript as one JSON object.
    pub fn json(self) -> String {
        format!("{}.json", self.id)
    }

    /// The transcript as JSON lines.
    pub fn jsonl(self) -> String {
        format!("{}.jsonl", self.id)
    }

    /// The log of the session.
    pub fn log(self) -> String {
        format!("session_{}.json", self.id)
    }

    /// A dumped request.
    pub fn request_dump(self, stamp: &str) -> String {
        format!("request_dump_{}_{stamp}.json", self.id)
    }

    /// Whether a file is one of this session's. The stamp of a dump is digits and underscores, so
    /// that a session whose id begins with this one keeps its own.
    pub fn owns(self, name: &str) -> bool {
        let is_dump = || {
            name.strip_prefix(&format!("request_dump_{}_", self.id))
                .and_then(|rest| rest.strip_suffix(".json"))
                .is_some_and(|stamp| {
                    !stamp.is_empty() && stamp.chars().all(|c| c.is_ascii_digit() || c == '_')
                })
        };
        [self.json(), self.jsonl(), self.log()].iter().any(|own| own == name) || is_dump()
    }

    /// Those that are in the folder, by name.
    pub fn find(self, folder: &Path) -> Vec<std::path::PathBuf> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let mut found: Vec<std::path::PathBuf> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(|name| self.owns(name)))
            .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        found.sort();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_ids_keep_their_form_and_others_never_collide_or_leave_the_folder() {
        let name = |id: &str| stem(&SessionId::new(id));
        assert_eq!(name("20261130_095600_a1b2c3"), "20261130_095600_a1b2c3");
        assert_ne!(name("../../etc/passwd"), name("..-..-etc-passwd"));
        assert!(!name("../../etc/passwd").contains('/'));
        assert_ne!(name("ABC"), name("abc"));
        assert!(name(&"x".repeat(300)).len() < 80);
        assert_ne!(name(""), "");
    }
}
