//! How a call ends: with an answer, or with one clear error.

use std::time::Duration;

use hermes_core::{Attempt, AttemptEnd, ErrorClass, WireProfile};

use crate::{Encoded, Limits, Reply};

/// A call that was answered.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The attempt that succeeded; not in the ledger, if nothing was sent.
    pub attempt: Attempt,
    /// What it sent.
    pub encoded: Encoded,
    /// What came back.
    pub reply: Reply,
    /// Who answered in the place of the model, or changed what it said.
    pub by: Option<std::sync::Arc<str>>,
    /// The end of the attempt, to be committed together with the response row (which is not in
    /// it yet). None if nothing was sent, or if the attempt failed and somebody else answered: then
    /// there is nothing to end.
    pub end: Option<AttemptEnd>,
    /// Which of the endpoints answered.
    pub endpoint_index: usize,
    /// The profile that it was encoded by, learnt quirks included.
    pub profile: WireProfile,
}

/// A call that was not answered. Every attempt is in the ledger already.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ConverseError {
    /// The class of the last failure.
    pub class: ErrorClass,
    /// What happened, where, and a hint.
    pub message: String,
    /// How many attempts were made, on all endpoints together.
    pub attempts: u32,
    /// What had been shown when the stream broke. There is no silent retry after the first
    /// delta, so the last attempt ends with it.
    pub partial: Option<Reply>,
    /// The last HTTP status.
    pub http_status: Option<u16>,
    /// How long the provider asks to wait, where it is longer than a retry may wait.
    pub retry_after: Option<Duration>,
    /// Sizes that the provider named, for an overflow.
    pub limits: Limits,
    /// The ends of all attempts, as they were recorded.
    pub attempt_ends: Vec<AttemptEnd>,
    /// The endpoint of the last attempt.
    pub endpoint_index: usize,
    /// The profile of the last attempt.
    pub profile: WireProfile,
}
