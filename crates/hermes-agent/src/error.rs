//! What can go wrong around a turn.

use hermes_context::AssembleError;
use hermes_core::{SessionId, ViewError};
use hermes_home::ConfigError;
use hermes_provider::rehearsal::RehearsalError;
use hermes_store::StoreError;

/// A turn, a start or a resume that could not be carried out. A failed model call is no such
/// error: the turn then ends with an outcome that says so.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The history does not fit together.
    #[error("session {session}: {source}")]
    View {
        /// The session.
        session: SessionId,
        /// What does not fit.
        source: ViewError,
    },
    /// The history cannot be turned into a request.
    #[error("session {session}: {source}")]
    Assemble {
        /// The session.
        session: SessionId,
        /// Why.
        source: AssembleError,
    },
    /// A text that the session refers to is gone.
    #[error("session {session}: {what} is not in the store; hint: run `hermes sessions check`")]
    Missing {
        /// The session.
        session: SessionId,
        /// What is missing.
        what: String,
    },
    /// The built-in rehearsal provider did not start.
    #[error("the rehearsal provider did not start: {0}")]
    Rehearsal(#[from] RehearsalError),
    /// A skill that the person wants to load cannot be loaded.
    #[error("{0}")]
    Skill(String),
    /// A source that a refresh names is none.
    #[error("there is no source \"{name}\" in the prompt; hint: one of {}", .known.join(", "))]
    NoSuchSource {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// What was sent cannot be looked at.
    #[error(transparent)]
    Inspect(Box<crate::inspect::InspectError>),
    /// A compaction cannot be taken back.
    #[error(transparent)]
    Undo(#[from] hermes_compaction::UndoError),
    /// There is nothing to compact.
    #[error("nothing was said in this session yet")]
    NothingSaid,
    /// No turn stands that could be taken back.
    #[error("no turn can be taken back{}", earlier(*.summarised))]
    NothingToTakeBack {
        /// Whether a summary stands for earlier ones.
        summarised: bool,
    },
    /// The end of a request cannot be recorded.
    #[error("{0}")]
    NotRecorded(String),
    /// There is nothing to say.
    #[error("the message is empty; hint: give a text, or pipe one in")]
    EmptyInput,
}

const fn earlier(are_summarised: bool) -> &'static str {
    if are_summarised {
        ": a summary stands for the earlier ones; hint: /compress --undo takes it back first"
    } else {
        ": nothing that was said here stands"
    }
}
