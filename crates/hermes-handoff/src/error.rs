//! What can go wrong with handing over. A build that fails is no error but a result with a status.

use std::io;
use std::path::PathBuf;

use hermes_store::StoreError;

/// A fault of the handoff.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandoffError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file in the handoffs folder.
    #[error("{}: {source}; hint: {}", path.display(), what_to_do(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
    /// No capsule answers to the reference.
    #[error("no capsule \"{reference}\"; hint: list them with `hermes handoff list`")]
    NotFound {
        /// What was asked for.
        reference: String,
    },
    /// Several capsules answer to the reference.
    #[error("{fitting} capsules begin with \"{reference}\"; hint: give more of the id")]
    Ambiguous {
        /// What was asked for.
        reference: String,
        /// How many.
        fitting: usize,
    },
    /// The capsule is not in a state in which that can be done.
    #[error("capsule {id} is {state}; hint: {hint}")]
    State {
        /// Its id.
        id: String,
        /// What it is.
        state: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
}

fn what_to_do(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full: make room and try again"
        }
        _ => "check the permissions of the handoffs folder",
    }
}

impl HandoffError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_as_one() {
        let told = |kind: io::ErrorKind| HandoffError::io("h/f.md")(kind.into()).to_string();
        assert!(
            told(io::ErrorKind::StorageFull)
                .ends_with("hint: the disk is full: make room and try again")
        );
        assert!(told(io::ErrorKind::PermissionDenied).contains("permissions"));
    }
}
