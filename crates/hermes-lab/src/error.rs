//! What can go wrong around an experiment.

use std::path::PathBuf;

use hermes_agent::AgentError;
use hermes_agent::inspect::InspectError;
use hermes_home::{ConfigError, HomeError};
use hermes_store::StoreError;

/// An experiment that could not be carried out, or a receipt that cannot be read. A finding that
/// differs is no such error.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A turn could not be carried out.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// What was sent cannot be looked at.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The store of the experiment refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The settings of the experiment cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The home of the experiment cannot be made.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A file of the experiment cannot be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A model call failed, so there is nothing to find.
    #[error(
        "turn {turn} got no answer: {why}; hint: check the endpoint with `hermes chat -q hello`"
    )]
    NoAnswer {
        /// The turn, from 1.
        turn: u32,
        /// Why.
        why: String,
    },
    /// A made-up history does not fit together.
    #[error(transparent)]
    History(hermes_core::ViewError),
    /// There is nothing to hand over, or it could not be made.
    #[error("there is no capsule of session {session}: {why}")]
    NoCapsule {
        /// The session.
        session: String,
        /// Why.
        why: String,
    },
    /// The product's own search refused a question.
    #[error("the search for \"{query}\" failed: {why}")]
    Search {
        /// What was searched for.
        query: String,
        /// Why.
        why: String,
    },
    /// A model was named and nothing says where it is.
    #[error("there is no endpoint for the model {model}; hint: run `hermes setup`")]
    NoModel {
        /// The model.
        model: String,
    },
    /// A model of the exam did not answer, or not as it was asked.
    #[error("a model of the exam gave no usable answer: {why}")]
    Model {
        /// Why.
        why: String,
    },
    /// Two reports do not answer the same questions.
    #[error("the reports cannot be compared: {why}")]
    Incomparable {
        /// Why.
        why: String,
    },
    /// A receipt is none, or of a version that this program does not know.
    #[error("{}: {why}; hint: a receipt is the receipt.json that `hermes lab run` writes", path.display())]
    NotAReceipt {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}
