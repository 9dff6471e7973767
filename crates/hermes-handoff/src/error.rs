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
    #[error("{}: {source}; hint: check the permissions of the handoffs folder", path.display())]
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

impl HandoffError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
