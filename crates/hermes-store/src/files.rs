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
