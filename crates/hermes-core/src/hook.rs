//! Payloads of the events that must be heard: written to the outbox in the transaction that makes
//! them true.

use serde::{Deserialize, Serialize};

use crate::SessionId;

/// A compaction took effect (mission C1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostCompaction {
    /// The session that holds the compacted transcript now.
    pub session_id: SessionId,
    /// The session it started in if the compaction rotated.
    pub old_session_id: Option<SessionId>,
    /// `summarize`, `micro_summarize`, `prune_tool_results` or `provider_native`.
    pub kind: String,
    /// `manual`, `pre_api`, ... (mission B5).
    pub reason: String,
    /// Tokens before; None when unknown.
    pub before_tokens: Option<u64>,
    /// Tokens after; None when unknown.
    pub after_tokens: Option<u64>,
    /// Messages the next request no longer holds; None when unknown.
    pub messages_removed: Option<u64>,
}

/// Why sessions were deleted or archived (mission C2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeleteReason {
    /// Deleted by a person.
    Delete,
    /// Archived by a person.
    Archive,
    /// Swept because it never held a message.
    EmptySweep,
    /// Removed by retention.
    Prune,
    /// A row without content or owner, removed by maintenance.
    GhostPrune,
    /// Removed while a profile was repaired.
    ProfileRepair,
}

impl DeleteReason {
    /// The word in payloads and receipts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Archive => "archive",
            Self::EmptySweep => "empty_sweep",
            Self::Prune => "prune",
            Self::GhostPrune => "ghost_prune",
            Self::ProfileRepair => "profile_repair",
        }
    }
}

/// Sessions were deleted or archived (mission C2). One operation, one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDelete {
    /// The session the operation was about; of a bulk operation the first.
    pub session_id: SessionId,
    /// Why.
    pub reason: DeleteReason,
    /// `default` for the root home.
    pub profile: String,
    /// Every removed row, where there was more than one.
    pub deleted_ids: Vec<SessionId>,
    /// Where the caller has such a folder.
    pub sessions_dir: Option<String>,
}

/// An event in the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum OutboxEvent {
    /// See [`PostCompaction`].
    PostCompaction(PostCompaction),
    /// See [`SessionDelete`].
    OnSessionDelete(SessionDelete),
}
