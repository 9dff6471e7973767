//! Everything that can go wrong with the store, each with the next step.

use std::io;
use std::path::PathBuf;

use hermes_core::{Digest, SessionId, Timestamp};

use crate::Holder;

/// A fault of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file is a database of the Python program.
    #[error(
        "{} was written by the Python Hermes Agent and is not opened; hint: use another home \
         (HERMES_HOME=DIR), or copy the conversations with `hermes import`",
        path.display()
    )]
    PythonStore {
        /// The file.
        path: PathBuf,
    },
    /// The file is a database of some other program, or no database.
    #[error("{} is no Hermes store ({why}); hint: move the file away or set HERMES_HOME", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "{} has schema version {found}, this program knows up to {known}; hint: update hermes",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Our version.
        known: u32,
    },
    /// The file has an older schema and was opened for reading only.
    #[error(
        "{} has schema version {found}, wanted {known}; hint: any command that writes brings it \
         up to date",
        path.display()
    )]
    NeedsMigration {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Our version.
        known: u32,
    },
    /// The database cannot be written (or read) at present.
    #[error("the store is not available ({doing}): {why}; hint: {}", why.hint())]
    Unavailable {
        /// What was done.
        doing: &'static str,
        /// Why.
        why: Unavailable,
    },
    /// Another process holds the session.
    #[error(
        "session {session} is in use by {by} since {since}; hint: close it there, or read it with \
         `hermes sessions show {session}`; a branch can be made at any time"
    )]
    Held {
        /// The session.
        session: SessionId,
        /// Who holds it.
        by: Holder,
        /// Since when.
        since: Timestamp,
    },
    /// Another process took the session over; nothing of this batch was stored.
    #[error(
        "session {session} was taken over by {by}, so this process may no longer write to it; \
         hint: open the session again"
    )]
    Fenced {
        /// The session.
        session: SessionId,
        /// Who holds it now.
        by: String,
    },
    /// The session was deleted, and stays deleted.
    #[error("session {session} was deleted at {at}; hint: start a new session")]
    Deleted {
        /// The session.
        session: SessionId,
        /// When.
        at: Timestamp,
    },
    /// The session is in another profile.
    #[error(
        "session {session} was moved to profile {profile}; hint: hermes -p {profile} --resume \
         {session}"
    )]
    Moved {
        /// The session.
        session: SessionId,
        /// The profile.
        profile: String,
    },
    /// Nothing answers to the reference.
    #[error("no {what} \"{reference}\"; hint: {hint}")]
    NotFound {
        /// `session`, `request`, ...
        what: &'static str,
        /// What was asked for.
        reference: String,
        /// What to do.
        hint: String,
    },
    /// Several answer to the reference.
    #[error("\"{reference}\" names several: {}; hint: give more of the id", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        reference: String,
        /// The first of those that match.
        candidates: Vec<String>,
    },
    /// The title belongs to another session.
    #[error("the title \"{title}\" belongs to session {holder}; hint: choose another title")]
    TitleTaken {
        /// The title.
        title: String,
        /// Whose it is.
        holder: SessionId,
    },
    /// A record does not fit what is stored. A fault of the caller; nothing was stored.
    #[error("session {session}: {what}; nothing of the batch was stored; hint: report this fault")]
    Invalid {
        /// The session.
        session: SessionId,
        /// What does not fit.
        what: String,
    },
    /// A capsule cannot be given to this session (any more); nothing of the batch was stored. The
    /// caller stores the batch again without it.
    #[error(
        "capsule {capsule} was not handed over: {why}; hint: `hermes handoff list` tells what \
         became of it"
    )]
    CapsuleNotClaimed {
        /// The capsule.
        capsule: String,
        /// Why not.
        why: String,
    },
    /// A request for the store that it cannot fulfil.
    #[error("{what}; hint: {hint}")]
    Refused {
        /// What.
        what: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// Neither the database nor the side file could be written: nothing was stored.
    #[error(
        "nothing could be stored: the database says \"{database}\", the side file {} says \
         \"{source}\"; hint: free some disk space or check the permissions of the home",
        spool.display()
    )]
    NotDurable {
        /// Why the database refused.
        database: Unavailable,
        /// The side file.
        spool: PathBuf,
        /// Why it refused.
        source: io::Error,
    },
    /// A content-addressed text or blob is missing or does not have the bytes its digest names.
    #[error("{what} {} is missing or damaged; hint: run `hermes sessions check`", digest.short())]
    Damaged {
        /// `prompt text`, `blob`, ...
        what: &'static str,
        /// Its digest.
        digest: Digest,
    },
    /// A stored value cannot be read.
    #[error("{place}: {what}; hint: run `hermes sessions check`")]
    Unreadable {
        /// Table and key.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// The store was opened for reading only.
    #[error("the store was opened for reading only; hint: this is a fault of the program")]
    ReadOnly,
    /// The writer is gone.
    #[error("the store's writer has stopped; hint: start hermes again")]
    WriterGone,
    /// A file beside the database.
    #[error("{}: {source}; hint: check that it may be read and written, and that there is room", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: io::Error,
    },
    /// Any other fault of SQLite.
    #[error("the store failed while {doing}: {source}; hint: run `hermes sessions check`")]
    Sqlite {
        /// What was done.
        doing: &'static str,
        /// The fault.
        source: rusqlite::Error,
    },
}

/// Why the database cannot be written at present. In all of these a turn goes on: its records go
/// to the side file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// Another process holds the write lock for longer than the bounded wait.
    #[error("another process has locked it")]
    Locked,
    /// No space.
    #[error("the disk is full")]
    Full,
    /// The file or its file system cannot be written.
    #[error("it cannot be written (read-only)")]
    ReadOnly,
    /// It cannot be opened.
    #[error("it cannot be opened")]
    CannotOpen,
    /// Reading or writing failed.
    #[error("input or output failed")]
    Io,
    /// The file is damaged.
    #[error("the file is damaged")]
    Damaged,
    /// The file was deleted while it was in use. It was put back from what this process had open.
    #[error("its file was deleted while in use, and put back from what this process had open")]
    Deleted,
    /// Another file is in its place. What this process had open was saved beside it.
    #[error("another file was put in its place; what was there is saved beside it as *.rescued-*")]
    Replaced,
}

impl Unavailable {
    /// What the person can do.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Locked => "wait for the other process, or end it",
            Self::Full => "free some disk space",
            Self::ReadOnly | Self::CannotOpen => "check the permissions of the home folder",
            Self::Io => "check the disk",
            Self::Damaged => {
                "run `hermes sessions repair`, or restore a backup: hermes sessions restore FILE"
            }
            Self::Deleted => "look for the program that removes files of the home",
            Self::Replaced => {
                "end every hermes, then choose the right file (hermes sessions restore FILE)"
            }
        }
    }

    /// Whether a new conversation can be held beside a database that cannot be opened for this reason.
    pub const fn can_be_waited_for(&self) -> bool {
        matches!(self, Self::Locked | Self::Damaged | Self::Io)
    }

    /// The class of a fault of SQLite, if it is one of these.
    pub(crate) fn of(error: &rusqlite::Error) -> Option<Self> {
        use rusqlite::ErrorCode as Code;
        match error.sqlite_error_code()? {
            Code::DatabaseBusy | Code::DatabaseLocked | Code::FileLockingProtocolFailed => {
                Some(Self::Locked)
            }
            Code::DiskFull => Some(Self::Full),
            Code::ReadOnly | Code::PermissionDenied => Some(Self::ReadOnly),
            Code::CannotOpen => Some(Self::CannotOpen),
            Code::SystemIoFailure => Some(Self::Io),
            Code::DatabaseCorrupt | Code::NotADatabase => Some(Self::Damaged),
            _ => None,
        }
    }
}
