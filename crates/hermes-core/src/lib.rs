//! The words that every crate shares: ids, rows and their parts, generations and the view they
//! fold into, neutral messages, ledger entries, hook payloads, and the traits that turn
//! dependencies round.
//!
//! Invariant: this crate is pure. No file, network, clock, process or global state; the same
//! inputs give the same outputs on every platform.

mod digest;
mod env;
mod event;
mod generation;
mod hook;
mod id;
mod lane;
mod message;
mod prompt;
mod request;
mod row;
mod secret;
mod time;
mod tokens;
mod tool;
mod view;
mod wire;

pub use digest::{Digest, DigestParseError, Hasher};
pub use env::{Env, ScriptedEnv};
pub use event::{Event, EventSink, NoticeLevel, NullSink, TurnOutcome};
pub use generation::{Cause, Generation, Op, OpRef};
pub use hook::{DeleteReason, OutboxEvent, PostCompaction, SessionDelete};
pub use id::{GenerationNo, RequestId, Seq, SessionId, TurnNo};
pub use lane::Lane;
pub use message::{Assembled, Message, Piece, Provenance};
pub use prompt::{Block, ByteRange, Refresh, Snapshot, Source, Tier, Verdict};
pub use request::{
    Attempt, AttemptEnd, AttemptOutcome, AttemptRecorder, ErrorClass, Params, RecordError, Task,
    Usage,
};
pub use row::{
    Origin, Part, PartBody, REASONING_CONTENT, Role, Row, RowStatus, Standing, ToolLink, slot,
};
pub use secret::secret_forms;
pub use time::Timestamp;
pub use tokens::{TokenKind, Tokens};
pub use tool::{ToolCall, ToolDef, ToolOutcome, ToolRegistry, ToolSet, ToolSink};
pub use view::{View, ViewError, ViewRow, effective_ops, fold_view};
pub use wire::{ApiMode, ReasoningReplay, WireProfile};
