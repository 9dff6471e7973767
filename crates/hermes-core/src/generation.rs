//! Generations: how rows become the history that is sent, without changing a row.

use serde::{Deserialize, Serialize};

use crate::{Digest, GenerationNo, Seq, Timestamp};

/// One operation on the view of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Rows standing in `from..=to` are replaced by the summary row `by`, which stands at `from`.
    Cover {
        /// First position covered.
        from: Seq,
        /// Last position covered.
        to: Seq,
        /// The summary row; its standing is `ByOp`.
        by: Seq,
    },
    /// Rows standing in `from..=to` are left out.
    Hide {
        /// First position hidden.
        from: Seq,
        /// Last position hidden.
        to: Seq,
    },
    /// Part `part` is shown as part `by` of the same row.
    Swap {
        /// The part that is taken out.
        part: Seq,
        /// The stub that stands in its place; its standing is `ByOp`.
        by: Seq,
    },
    /// An operation of an ancestor no longer holds; what came after it stays.
    Revoke {
        /// The operation that is taken back.
        target: OpRef,
    },
}

/// Names one operation of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpRef {
    /// The generation that holds it.
    pub generation: GenerationNo,
    /// Its index in that generation's list, from 0.
    pub index: u32,
}

/// Why a generation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The session's first.
    Start,
    /// A compaction took effect.
    Compaction,
    /// A compaction was undone.
    UndoCompaction,
    /// Long tool results were replaced by stubs.
    Prune,
    /// The person took back one or more turns.
    Rewind,
    /// The person asked for fresh sources.
    Refresh,
    /// Model, provider or working directory changed.
    Identity,
    /// A branch of another session.
    Branch,
    /// An answer broke off and is asked for again; the broken one is hidden.
    Retry,
}

/// One immutable step in the life of a session's view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Its number in the session.
    pub n: GenerationNo,
    /// The generation it builds on; None for the first.
    pub parent: Option<GenerationNo>,
    /// Why it was made.
    pub cause: Cause,
    /// When.
    pub created_at: Timestamp,
    /// The prompt snapshot in force.
    pub prompt: Digest,
    /// The tool definitions in force (digest of their JSON array).
    pub tools: Digest,
    /// What it adds to its ancestors.
    pub ops: Vec<Op>,
}
