//! The writer of capsules, and the ways in which it can fail.

use std::fmt;
use std::future::Future;

use hermes_core::ErrorClass;
use serde::{Deserialize, Serialize};

/// What is asked of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The system text.
    pub system: String,
    /// The message.
    pub user: String,
}

/// What a writer answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The text.
    pub text: String,
    /// The model that wrote it.
    pub model: String,
}

/// A model that writes. The auxiliary client stands behind it.
pub trait Writer: Send + Sync {
    /// One answer, with the client's own retries and fallbacks behind it.
    fn write(&self, prompt: &Prompt) -> impl Future<Output = Result<Written, WriterError>> + Send;
}

/// How a writer can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriterFault {
    /// Nothing is configured that could write.
    NoCandidate,
    /// The key was refused (401, 403).
    Unauthorized,
    /// The account has no credit (402).
    PaymentRequired,
    /// Too many requests, to the end of the retries (429).
    RateLimited,
    /// No answer in time.
    Timeout,
    /// The connection was lost.
    ConnectionLost,
    /// The answer had no text.
    Empty,
    /// The model, or its provider's filter, refused.
    Refused,
    /// The answer ended at the output limit.
    CutOff,
    /// The five headings are not there, or not in order.
    WrongHeadings,
    /// The answer is no capsule at all.
    NoCapsule,
    /// It says much less than the capsule before it.
    Emptier,
    /// Anything else.
    Other,
}

impl WriterFault {
    /// All of them, in order.
    pub const ALL: [Self; 13] = [
        Self::NoCandidate,
        Self::Unauthorized,
        Self::PaymentRequired,
        Self::RateLimited,
        Self::Timeout,
        Self::ConnectionLost,
        Self::Empty,
        Self::Refused,
        Self::CutOff,
        Self::WrongHeadings,
        Self::NoCapsule,
        Self::Emptier,
        Self::Other,
    ];

    /// What happened, for a person.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoCandidate => "no model is configured that could write it",
            Self::Unauthorized => "the writer's key was refused (401)",
            Self::PaymentRequired => "the writer's account has no credit (402)",
            Self::RateLimited => "the writer was busy to the last try (429)",
            Self::Timeout => "the writer did not answer in time",
            Self::ConnectionLost => "the connection to the writer was lost",
            Self::Empty => "the writer's answer was empty",
            Self::Refused => "the writer refused",
            Self::CutOff => "the writer's answer was cut off at its output limit",
            Self::WrongHeadings => "the writer's answer does not have the five headings in order",
            Self::NoCapsule => "the writer's answer is no capsule",
            Self::Emptier => "the writer's answer says much less than the capsule before it",
            Self::Other => "the writer failed",
        }
    }

    /// The next step, for a person.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NoCandidate => "set auxiliary.compression.model, or a provider with a key",
            Self::Unauthorized => "check the key with `hermes handoff check`",
            Self::PaymentRequired => "add credit, or name another auxiliary.compression.model",
            Self::RateLimited | Self::Timeout | Self::ConnectionLost | Self::Other => {
                "try `hermes handoff build` again"
            }
            Self::Empty | Self::Refused | Self::WrongHeadings | Self::NoCapsule | Self::Emptier => {
                "try again, or name another auxiliary.compression.model"
            }
            Self::CutOff => "raise the output limit of the auxiliary model",
        }
    }
}

/// A failed writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterError {
    /// How it failed.
    pub fault: WriterFault,
    /// What the client said about it; empty if nothing more is known. Never shown, stored or logged
    /// for a confidential lane, because a provider may quote the request.
    pub detail: String,
}

impl WriterError {
    /// From what the auxiliary client knows of a failed call.
    pub fn of_class(
        class: ErrorClass,
        http_status: Option<u16>,
        detail: impl Into<String>,
    ) -> Self {
        let fault = match (http_status, class) {
            (Some(402), _) | (_, ErrorClass::Quota) => WriterFault::PaymentRequired,
            (_, ErrorClass::Auth) => WriterFault::Unauthorized,
            (_, ErrorClass::RateLimit) => WriterFault::RateLimited,
            (_, ErrorClass::Timeout) => WriterFault::Timeout,
            (_, ErrorClass::Connect | ErrorClass::Disconnected) => WriterFault::ConnectionLost,
            (_, ErrorClass::ContentFilter) => WriterFault::Refused,
            (_, ErrorClass::Malformed) => WriterFault::Empty,
            (_, ErrorClass::OutputOverflow) => WriterFault::CutOff,
            _ => WriterFault::Other,
        };
        Self { fault, detail: detail.into() }
    }

    /// A fault of which no more is known.
    pub const fn bare(fault: WriterFault) -> Self {
        Self { fault, detail: String::new() }
    }
}

impl fmt::Display for WriterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.sentence())?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for WriterError {}
