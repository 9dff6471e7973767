//! Records: what a session's holder commits, and what the side file carries when the database
//! cannot be written.
//!
//! Invariant: applying a record a second time changes nothing.

use std::sync::Arc;

use hermes_core::{
    Attempt, AttemptEnd, Block, Digest, Generation, GenerationNo, OutboxEvent, Part, Row, Seq,
    Timestamp, WireProfile,
};
use serde::{Deserialize, Serialize};

/// The records of one transaction, in order.
pub type Batch = Vec<Record>;

/// One thing to store for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A row with the parts it is born with.
    Row(Row),
    /// A late part of a stored row, or a stub that an operation will bring in.
    Part(Part),
    /// A step of the view. The texts it names, and the rows and parts its operations name, must be
    /// stored or in the same batch.
    Generation(Generation),
    /// The sources of the prompt of one generation.
    Manifest {
        /// The generation.
        generation: GenerationNo,
        /// Every source that was considered.
        blocks: Vec<Block>,
    },
    /// A prompt or an array of tool definitions, stored once under its digest.
    Text {
        /// The text.
        text: Arc<str>,
    },
    /// Binary content, stored once under its digest.
    Blob {
        /// Media type.
        media_type: Arc<str>,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A wire profile, stored once under its digest.
    Profile(WireProfile),
    /// The ledger row of a request that is about to be sent.
    AttemptStarted(Attempt),
    /// The rest of that ledger row.
    AttemptEnded(AttemptEnd),
    /// Changed facts of the session.
    Patch(SessionPatch),
    /// An event for the outbox. Applied once with its batch.
    Event(OutboxEvent),
    /// An attempt at a compaction, whether it took effect or not.
    CompactionAttempt(crate::CompactionAttempt),
    /// What the session remembers about its compactions, in place of what it remembered before.
    CompactionState {
        /// JSON of the crate that compacts.
        state: Arc<str>,
    },
    /// A capsule is given to this session: its text is a part of this row, the session's first
    /// user row, which comes before this record. Refused as a whole with its batch if the capsule
    /// cannot be given any more, and never spooled.
    CapsuleClaimed {
        /// The capsule, which the part names in its label.
        capsule: Arc<str>,
        /// The row.
        row: Seq,
        /// Digest of the text as it is delivered.
        digest: Digest,
    },
}

/// Changes to the session's own facts. What is None stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionPatch {
    /// A title. If another session has it, ` #2`, ` #3`, ... is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where the title came from; a lower rank never replaces a higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title_source: Option<TitleSource>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The endpoint, credentials removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The git root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_root: Option<String>,
    /// The git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The session ended; the first reason wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The session goes on after it had ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reopened: bool,
    /// Compactions that shape the history, all of them (so that applying it twice changes nothing).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compactions: Option<u32>,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// Why, such as `cli_close` or `handoff`.
    pub reason: String,
}

/// Where a title came from, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TitleSource {
    /// Cut from the first message.
    Derived,
    /// Written by a model.
    Llm,
    /// Given by the person.
    User,
}

impl TitleSource {
    /// The word in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Derived => "derived",
            Self::Llm => "llm",
            Self::User => "user",
        }
    }
}
