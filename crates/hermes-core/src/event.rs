//! What surfaces hear of a turn. Events go out; nothing below the agent calls back up.

use std::sync::Arc;

use crate::{RequestId, RowStatus, Seq, Usage};

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Something is not as the person expects.
    Warning,
    /// Something failed.
    Error,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// With an answer.
    Answered,
    /// The person stopped it.
    Interrupted,
    /// It failed, for the reason given.
    Failed(String),
    /// The limit of model calls in one turn was reached.
    LimitReached(u32),
}

/// Something happened in a turn. Text deltas are in the draft before they are sent out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The user row is stored.
    TurnStarted {
        /// The row.
        row: Seq,
    },
    /// A request's ledger row is committed and its bytes are leaving.
    RequestStarted {
        /// The request.
        id: RequestId,
    },
    /// More of the answer.
    Text(Arc<str>),
    /// More of the reasoning.
    Reasoning(Arc<str>),
    /// The answer of one request is complete and stored.
    AnswerStored {
        /// The row.
        row: Seq,
    },
    /// A tool is about to run.
    ToolStarted {
        /// The call's id.
        call_id: Arc<str>,
        /// The tool.
        name: Arc<str>,
        /// A one-line description for the person.
        summary: String,
    },
    /// Output of a running tool.
    ToolOutput {
        /// The call's id.
        call_id: Arc<str>,
        /// The text.
        text: String,
    },
    /// A tool's result is stored.
    ToolFinished {
        /// The call's id.
        call_id: Arc<str>,
        /// The tool.
        name: Arc<str>,
        /// How it went.
        status: RowStatus,
        /// The result as it is stored.
        text: Arc<str>,
        /// The row.
        row: Seq,
    },
    /// An attempt failed and will be made again.
    Retrying {
        /// Why, in words.
        why: String,
        /// The next attempt's number.
        attempt: u32,
        /// Milliseconds until then.
        delay_ms: u64,
    },
    /// Tokens of one request as reported.
    Usage(Usage),
    /// Something the person should know.
    Notice {
        /// How much it matters.
        level: NoticeLevel,
        /// The text, with a hint where one helps.
        text: String,
    },
    /// The turn is over.
    TurnEnded(TurnOutcome),
}

/// Takes the events of a turn, in order.
pub trait EventSink: Send + Sync {
    /// One event. Must return quickly; never blocks the turn.
    fn event(&self, event: Event);
}

/// Drops every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl EventSink for NullSink {
    fn event(&self, _event: Event) {}
}
