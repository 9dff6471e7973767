//! The session store: rows, parts, generations, ledger, outbox, side files.
//!
//! One SQLite database (WAL, synced at every commit) with one connection that writes and a small
//! pool of readers, both opened on first need. A session is written by the one process that holds its
//! lease; reading and exporting always work.
//!
//! Invariants:
//! - A row, part or generation is never changed once stored; only the flags that third-party
//!   readers see (`active`, `compacted`) and the session's counters are kept up to date.
//! - A commit that was acknowledged is durable: in the database, or, when that cannot be written,
//!   in a synced side file that is taken in later.
//! - Rows are referred to as (session, seq). Database ids never leave this crate, but for the
//!   `messages.id` that third-party readers see.

mod apply;
mod archive;
mod backup;
mod branch;
mod capsules;
mod check;
mod codes;
mod compactions;
mod db;
mod delete;
mod draft;
mod engage;
mod error;
mod export;
mod files;
mod find;
mod flags;
mod import;
mod inner;
mod lease;
mod ledger;
mod messages;
mod moving;
mod outbox;
mod outputs;
mod point;
mod read;
mod readers;
mod reclaim;
mod record;
mod repair;
mod rows;
mod scrub;
mod search;
mod select;
mod session;
mod spool;
mod store;
mod title;
mod types;
mod worker;

pub use archive::ArchiveRequest;
pub use backup::{Restored, restore};
pub use capsules::{CapsuleRecord, CapsuleState, NewCapsule};
pub use compactions::{CompactionAttempt, Compactions};
pub use draft::{Draft, DraftKind};
pub use error::{StoreError, Unavailable};
pub use files::SessionFiles;
pub use find::{Carrier, Frame, GenerationHit, RowHit, RowHits, TextHit};
pub use import::{FactValue, ImportOutcome, ImportedSession};
pub use lease::other_process;
pub use moving::{Copied, MoveRequest, MovedTo};
pub use record::{Batch, Ended, Record, SessionPatch, TitleSource};
pub use repair::{RepairReport, check_at, repair};
pub use search::{
    BrowseAnswer, BrowseEntry, ReadAnswer, ScrollAnswer, SearchAnswer, SearchRequest, SearchResult,
    SearchSort, SessionMeta, ShownMessage, parse_when,
};
pub use select::Selection;
pub use session::{SessionLease, SessionWriter};
pub use store::Store;
pub use types::{
    ClaimedEvent, Committed, DeleteReceipt, DeleteRequest, EventNo, Finding, History, Holder,
    OpenMode, ParentKind, Recovered, RecoveredOutcome, Remaining, RemovedSession, RequestFilter,
    RequestRecord, SessionFilter, SessionInfo, SessionInit, StoreOptions, StorePaths,
};
