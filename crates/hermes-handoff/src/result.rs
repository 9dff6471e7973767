//! What came of a build, for people and programs.

use std::path::PathBuf;

use hermes_core::SessionId;
use serde::{Deserialize, Serialize};

/// How a build went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A model wrote the capsule.
    Ok,
    /// The writer failed; the capsule was made without it.
    Fallback,
    /// There is too little to hand over.
    TooShort,
    /// There is no such session.
    NoSession,
    /// A capsule of this conversation is being built already.
    Busy,
    /// The session must not be handed over.
    Refused,
    /// The lane is confidential and a piece that guarantees it is missing.
    ConfidentialUnsupported,
    /// The lane is confidential and the scrubbed text still held something.
    ScrubFailed,
    /// The capsule could not be stored.
    WriteFailed,
}

impl Status {
    /// The word in results, files and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fallback => "fallback",
            Self::TooShort => "too_short",
            Self::NoSession => "no_session",
            Self::Busy => "busy",
            Self::Refused => "refused",
            Self::ConfidentialUnsupported => "confidential_unsupported",
            Self::ScrubFailed => "scrub_failed",
            Self::WriteFailed => "write_failed",
        }
    }

    /// Whether there is a capsule.
    pub const fn is_built(self) -> bool {
        matches!(self, Self::Ok | Self::Fallback)
    }

    /// The exit code of `hermes handoff build`: 0 for a capsule that a model wrote, 8 for one made
    /// without it, 1 for none.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Fallback => 8,
            _ => 1,
        }
    }
}

/// What came of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildResult {
    /// How it went.
    pub status: Status,
    /// Why, where it did not go well.
    pub reason: Option<String>,
    /// What stands for the conversation in file names.
    pub lane: Option<String>,
    /// The session.
    pub session_id: SessionId,
    /// Messages of its dialogue.
    pub messages: usize,
    /// Characters of the capsule's sections.
    pub chars: usize,
    /// Words of them.
    pub words: usize,
    /// The model, `deterministic` or `fixed`; None where nothing was written.
    pub writer: Option<String>,
    /// The marking pass.
    pub prepass: String,
    /// The capsule's file.
    pub path: Option<PathBuf>,
    /// The capsule's id.
    pub capsule: Option<String>,
    /// The next step, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
}

impl BuildResult {
    /// A build that came to no capsule.
    pub fn none(session_id: SessionId, status: Status, reason: Option<String>) -> Self {
        Self {
            status,
            reason,
            lane: None,
            session_id,
            messages: 0,
            chars: 0,
            words: 0,
            writer: None,
            prepass: "none".to_owned(),
            path: None,
            capsule: None,
            hint: None,
        }
    }

    /// What the person is told.
    pub fn sentence(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("the cause is not known");
        let hint = self.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        let facts = format!("{} messages, {} words", self.messages, self.words);
        let path = self.path.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        match self.status {
            Status::Ok => format!(
                "The handoff is written ({facts}): {path}. The next session of this conversation \
                 starts with it."
            ),
            Status::Fallback => format!(
                "The handoff was made WITHOUT a model ({facts}): {path}. Cause: {reason}{hint}."
            ),
            Status::Busy => crate::trigger::ALREADY_BUILDING.to_owned(),
            _ => format!("There is no handoff ({}): {reason}{hint}.", self.status.word()),
        }
    }
}
