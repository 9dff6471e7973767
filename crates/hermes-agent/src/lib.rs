//! A session's turn: open and resume, the loop of requests and tool calls, cancellation; and
//! `inspect`, which rebuilds and verifies what was sent.
//!
//! Invariants: a user row is stored before anything is asked of a model, a ledger row before its
//! bytes leave, a draft before its text is shown. Nothing below this crate calls back up; events
//! go out through [`hermes_core::EventSink`].

mod beside;
mod calls;
mod cancel;
pub mod compact;
mod conversation;
mod delegate;
mod error;
pub mod handoff;
mod handoff_due;
pub mod inspect;
mod ledger;
mod pinned;
mod plugins;
mod refresh;
mod rewind;
mod said;
mod services;
pub mod title;
mod turn;
mod unanswered;

pub use cancel::Cancel;
pub use compact::{CompactionPreview, CompressOptions, Undone};
pub use conversation::{ChildOf, Conversation, Image, ResumeReport, StartOptions, UserInput};
pub use error::AgentError;
pub use handoff_due::{Due, DueBecause, due};
pub use plugins::{Plugged, PluginSurface, TypedCommand, deliver_events, plugins_of};
pub use refresh::{RefreshReport, SourceChange};
pub use rewind::Rewound;
pub use services::{ModelChoice, Services, endpoint};
pub use turn::TurnReport;

/// Tells the person something.
pub(crate) fn notice(
    sink: &dyn hermes_core::EventSink,
    level: hermes_core::NoticeLevel,
    text: String,
) {
    sink.event(hermes_core::Event::Notice { level, text });
}
