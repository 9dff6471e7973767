//! What can stop an import or an export as a whole.

use std::io;
use std::path::PathBuf;

/// An import or export that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Nothing that is known.
    #[error(
        "{} is nothing that can be imported; hint: name a home of the Python Hermes Agent (with a \
         state.db), a folder of Codex or Claude Code sessions, or a .jsonl export; --from says which",
        path.display()
    )]
    Unknown {
        /// The source.
        path: PathBuf,
    },
    /// A file of the source.
    #[error("{}: {source}; hint: check that it exists and may be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
    /// The store of the source.
    #[error("{} cannot be read as a store of Hermes Agent: {what}; hint: {hint}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// The store here.
    #[error(transparent)]
    Store(#[from] hermes_store::StoreError),
    /// A session that is to be written out.
    #[error("session {session} cannot be written out: {what}; hint: run `hermes sessions check`")]
    Write {
        /// The session.
        session: String,
        /// What is wrong.
        what: String,
    },
}

impl ImportError {
    /// Adds the path to a fault.
    pub(crate) fn at(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
