//! What the store is asked with and what it answers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hermes_core::{
    Attempt, AttemptEnd, DeleteReason, Generation, GenerationNo, Lane, OutboxEvent, RequestId, Row,
    Seq, SessionId, Timestamp, Usage,
};
use serde::{Deserialize, Serialize};

use crate::{MovedTo, SessionLease};

/// Where the store and its side files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePaths {
    /// The database.
    pub db: PathBuf,
    /// Side files of records that the database could not take.
    pub spool_dir: PathBuf,
    /// Drafts of streaming answers and the lock files of live holders.
    pub drafts_dir: PathBuf,
}

/// Whether the store may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Read and write.
    ReadWrite,
    /// Read only: never creates, migrates or changes anything.
    ReadOnly,
}

/// Bounds of the store's waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// How long a write waits for a lock before it goes to the side file.
    pub busy_timeout: Duration,
    /// The same while the last write of that session already went to the side file.
    pub busy_timeout_spooling: Duration,
    /// How long a lease is good where it cannot be seen whether its holder lives.
    pub lease_ttl: Duration,
    /// After a deletion a file up to this size, in bytes, is rewritten beside the conversation:
    /// about a second's work. A larger one is when the store is closed.
    pub rewritten_beside: u64,
    /// Upper bound of pages in the database; for tests of a full disk.
    pub max_page_count: Option<u32>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(2),
            busy_timeout_spooling: Duration::from_millis(100),
            lease_ttl: Duration::from_secs(30),
            rewritten_beside: 128 << 20,
            max_page_count: None,
        }
    }
}

/// A new session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionInit {
    /// Its id.
    pub id: SessionId,
    /// The surface, such as `cli`.
    pub source: String,
    /// The conversation it belongs to.
    pub lane: Option<Lane>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git root.
    pub git_root: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// The endpoint, credentials removed.
    pub base_url: Option<String>,
    /// The session it comes from.
    pub parent: Option<(SessionId, ParentKind)>,
    /// Its title.
    pub title: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
}

/// What ties a session to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentKind {
    /// It goes on after a compaction that rotated; deleted with its parent.
    Compaction,
    /// Work handed to a child; deleted with its parent.
    Delegate,
    /// A copy that stands for itself.
    Branch,
    /// A new start in the same conversation.
    Reset,
}

impl ParentKind {
    /// The word in the store.
    pub const fn as_str(self) -> &'static str {
        crate::codes::parent_word(self)
    }
}

/// The facts of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// The surface.
    pub source: String,
    /// The conversation it belongs to.
    pub lane: Option<Lane>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git root.
    pub git_root: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// The endpoint.
    pub base_url: Option<String>,
    /// The session it comes from.
    pub parent: Option<(SessionId, ParentKind)>,
    /// Its title.
    pub title: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended; None while it is open.
    pub ended_at: Option<Timestamp>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// The last row or request.
    pub last_activity_at: Timestamp,
    /// Rows in the present view.
    pub message_count: u64,
    /// Tool calls in the present view.
    pub tool_call_count: u64,
    /// Requests that were answered.
    pub api_calls: u64,
    /// Sum of the tokens that providers reported.
    pub usage: Usage,
    /// Compactions so far.
    pub compactions: u32,
    /// Whether it is archived.
    pub archived: bool,
    /// Whether some of it waits in the side file.
    pub spooled: bool,
}

/// Which sessions to list; the most recently used come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Only these surfaces; empty for all.
    pub sources: Vec<String>,
    /// Only this workspace (git root, else working directory).
    pub workspace: Option<String>,
    /// Only this conversation.
    pub lane: Option<Lane>,
    /// Archived ones too.
    pub archived: bool,
    /// Delegated children too.
    pub delegates: bool,
    /// Only those that a person goes on with: with a message in them, and of no run without a person.
    pub to_go_on: bool,
    /// At most this many.
    pub limit: Option<usize>,
}

/// All rows and generations of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The rows by seq, each with all its parts in order.
    pub rows: Vec<Row>,
    /// The generations by number.
    pub generations: Vec<Generation>,
    /// The newest generation; None before the first.
    pub head: Option<GenerationNo>,
    /// The highest seq in use.
    pub last_seq: Seq,
}

/// Which ledger rows to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Only this session.
    pub session: Option<SessionId>,
    /// Only these requests; empty for all.
    pub ids: Vec<RequestId>,
    /// Only the conversation's own requests, no auxiliary ones.
    pub main_only: bool,
    /// At most this many.
    pub limit: Option<usize>,
    /// The newest first; else the oldest first.
    pub newest_first: bool,
}

/// A ledger row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestRecord {
    /// What was sent; the kept body is not in it (see [`crate::Store::kept_body`]).
    pub attempt: Attempt,
    /// Whether the body itself is kept.
    pub has_kept_body: bool,
    /// How it ended; None while it runs, or if its process died.
    pub end: Option<AttemptEnd>,
    /// Whether its session was deleted since.
    pub session_deleted: bool,
}

/// Where a batch went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Committed {
    /// Into the database, synced.
    Database,
    /// Into the side file, synced; taken in by the next commit that succeeds.
    Spooled {
        /// The side file.
        path: PathBuf,
        /// Why.
        why: crate::Unavailable,
        /// Whether this is the first time that the caller hears of it since the database could be
        /// written, so that the person is told once. (The creation of a session says nothing.)
        first: bool,
    },
}

/// A request to delete sessions.
#[derive(Clone, Debug)]
pub struct DeleteRequest<'a> {
    /// The sessions.
    pub ids: Vec<SessionId>,
    /// Why.
    pub reason: DeleteReason,
    /// The profile, `default` for the root home.
    pub profile: String,
    /// The caller's id of this request: an exact retry gets the same receipt. Without one, the
    /// same sessions and reason count as the same request.
    pub request_id: Option<String>,
    /// A folder of the caller's that holds files of the sessions.
    pub sessions_dir: Option<String>,
    /// Leases of the caller; a session held by anyone else is refused.
    pub held: Vec<&'a SessionLease>,
    /// Report what would be removed and change nothing.
    pub dry_run: bool,
    /// Leave sessions in use where they are and name them, instead of refusing all.
    pub skip_held: bool,
    /// Also what was derived from them: branches, the text of capsules that others received,
    /// copies in backups.
    pub with_derived: bool,
    /// What chose the sessions, where it was no list of names. A retry with the same request id is
    /// known by it, whatever it would choose by now.
    pub chosen_by: Option<String>,
    /// They were copied to another profile.
    pub moved: Option<MovedTo>,
    /// A folder with whole outputs of commands, which tool results name: those that only these
    /// sessions name go along.
    pub outputs_dir: Option<PathBuf>,
    /// A file with lines that were typed at a prompt, one each, a line's own breaks as `<\n>`. It is
    /// named as remaining if it has any of what was said.
    pub typed_lines: Option<PathBuf>,
    /// Write no event: it was told when it happened first.
    pub quiet: bool,
}

impl DeleteRequest<'_> {
    /// A request for these sessions with nothing else to it.
    pub fn new(ids: Vec<SessionId>, reason: DeleteReason) -> Self {
        Self {
            ids,
            reason,
            profile: "default".to_owned(),
            request_id: None,
            sessions_dir: None,
            held: Vec::new(),
            dry_run: false,
            skip_held: false,
            with_derived: false,
            chosen_by: None,
            moved: None,
            outputs_dir: None,
            typed_lines: None,
            quiet: false,
        }
    }
}

/// What a deletion removed and what remains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteReceipt {
    /// The caller's request id, or the one derived from the request.
    pub request_id: String,
    /// When it was committed.
    pub deleted_at: Timestamp,
    /// Why.
    pub reason: DeleteReason,
    /// Every session removed, the first asked for first.
    pub removed: Vec<RemovedSession>,
    /// What was derived from them and is still there.
    pub remaining: Vec<Remaining>,
    /// Asked for, but unknown.
    pub unknown: Vec<SessionId>,
    /// Asked for, but in use.
    #[serde(default)]
    pub skipped: Vec<SessionId>,
    /// Files that went with them.
    #[serde(default)]
    pub files: Vec<String>,
    /// When the bytes were gone from file, index and log; None while that is under way.
    #[serde(default)]
    pub scrubbed_at: Option<Timestamp>,
    /// The profile that they were moved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<MovedTo>,
    /// Whether this is the receipt of an earlier, identical request.
    #[serde(skip)]
    pub replayed: bool,
}

/// A session that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedSession {
    /// Its id.
    pub id: SessionId,
    /// How many sessions of this id were deleted, this one included.
    pub epoch: u32,
    /// Rows removed.
    pub rows: u64,
    /// Parts removed.
    pub parts: u64,
    /// Ledger rows that stay, with digests and counts only.
    pub requests: u64,
    /// Texts and blobs removed because nothing else used them.
    pub contents: u64,
}

/// Something derived from a deleted session that is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// `branch`, ...
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// An event of the outbox, claimed for delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedEvent {
    /// Its number.
    pub no: EventNo,
    /// The event.
    pub event: OutboxEvent,
    /// When it became true.
    pub created_at: Timestamp,
    /// Whether a delivery was begun before and not finished.
    pub redelivered: bool,
}

/// The number of an event in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventNo(pub(crate) i64);

/// Who holds a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// Random, so that two holders are never taken for one.
    pub token: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)
    }
}

/// What a kept draft or a side file left by a dead process gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The session.
    pub session: SessionId,
    /// What became of it.
    pub outcome: RecoveredOutcome,
}

/// What became of left-over files of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveredOutcome {
    /// Taken into the database.
    TakenIn {
        /// Batches of the side file.
        batches: usize,
        /// Interrupted answers made of drafts.
        answers: usize,
    },
    /// The session is in use; its holder will take it in.
    InUse,
    /// It could not be taken in.
    Failed(String),
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The session, where it belongs to one.
    pub session: Option<SessionId>,
    /// What is wrong.
    pub what: String,
}

impl Finding {
    /// What an error says, without its hint.
    pub(crate) fn of(error: &crate::StoreError) -> Self {
        let text = error.to_string();
        let what = text.split("; hint:").next().unwrap_or_default();
        Self { session: None, what: what.to_owned() }
    }
}
