//! The words of a compaction: what kind, why, by which method, and how an attempt ended.

use std::fmt;

use hermes_core::{Generation, GenerationNo, PostCompaction, Seq, Timestamp, Tokens};
use serde::{Deserialize, Serialize};

/// What a compaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A range of rows is replaced by a summary.
    Summarize,
    /// The work of one finished exchange is replaced by a short summary, between turns.
    MicroSummarize,
    /// Long tool results, images and skill bodies are replaced by pointers, without a model.
    PruneToolResults,
    /// The provider compacted on its side.
    ProviderNative,
}

impl Kind {
    /// The word in events, ledger and lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Summarize => "summarize",
            Self::MicroSummarize => "micro_summarize",
            Self::PruneToolResults => "prune_tool_results",
            Self::ProviderNative => "provider_native",
        }
    }
}

/// What made it necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The person asked.
    Manual,
    /// At the start of a turn or before a request.
    PreApi,
    /// After a tool's result.
    PostTool,
    /// The provider refused the request as too large.
    Overflow,
    /// A gateway found the session too large before a turn.
    GatewayHygiene,
    /// Between turns, or while nothing happened.
    BetweenTurns,
    /// Pruning ahead of need.
    ProactivePrune,
    /// The provider's own.
    Provider,
    /// Not known.
    Unknown,
}

impl Reason {
    /// The word in events, ledger and lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::PreApi => "pre_api",
            Self::PostTool => "post_tool",
            Self::Overflow => "overflow",
            Self::GatewayHygiene => "gateway_hygiene",
            Self::BetweenTurns => "between_turns",
            Self::ProactivePrune => "proactive_prune",
            Self::Provider => "provider",
            Self::Unknown => "unknown",
        }
    }

    /// Whether nobody asked for it: cooldowns and strikes then apply.
    pub const fn is_automatic(self) -> bool {
        !matches!(self, Self::Manual)
    }
}

/// How the summary came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Written by a model, checked, and completed from the rows.
    Model,
    /// Derived from the rows alone because the model's summary failed.
    DeterministicFallback,
    /// No summary: results were replaced by pointers.
    Deterministic,
}

impl Method {
    /// The word in lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::DeterministicFallback => "deterministic_fallback",
            Self::Deterministic => "deterministic",
        }
    }
}

/// Why an attempt came to nothing. None of these is a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Rejection {
    /// There is nothing that may be taken out.
    NothingToDo {
        /// What keeps it, in words.
        kept: String,
    },
    /// What may be taken out cannot pay for a summary.
    TooLittle {
        /// Tokens that would be saved at best.
        certain: u64,
        /// Tokens that had to be saved.
        wanted: u64,
    },
    /// No summary came from any candidate.
    NoSummary {
        /// Every candidate's answer, in words.
        error: String,
    },
    /// The summary's stream ended before the summary did.
    Truncated,
    /// The answer has none of a summary's sections.
    NotASummary {
        /// Which are missing.
        missing: Vec<String>,
    },
    /// The summary says nothing about most of what it should replace.
    DoesNotCover {
        /// Shares of the range it speaks of, in percent.
        percent: u8,
    },
    /// It holds less than the summary it would replace.
    EmptierThanPredecessor {
        /// Items now.
        items: usize,
        /// Items before.
        before: usize,
    },
    /// The request would not become smaller.
    NotSmaller {
        /// Tokens before.
        before: u64,
        /// Tokens after.
        after: u64,
    },
    /// The history changed after the plan was made.
    Superseded {
        /// What changed.
        what: String,
    },
    /// Another worker holds the session.
    NotTheHolder,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToDo { kept } => write!(f, "nothing can be compacted: {kept}"),
            Self::TooLittle { certain, wanted } => write!(
                f,
                "compacting would save at most {certain} tokens where {wanted} are wanted"
            ),
            Self::NoSummary { error } => write!(f, "no summary could be had: {error}"),
            Self::Truncated => f.write_str("the summary broke off before its end"),
            Self::NotASummary { missing } => {
                write!(f, "the answer is no summary: it lacks {}", missing.join(", "))
            }
            Self::DoesNotCover { percent } => {
                write!(f, "the summary speaks of {percent} % of what it should replace")
            }
            Self::EmptierThanPredecessor { items, before } => {
                write!(f, "the summary has {items} items where the one before it had {before}")
            }
            Self::NotSmaller { before, after } => {
                write!(f, "the request would not shrink: {before} tokens before, {after} after")
            }
            Self::Superseded { what } => write!(f, "the history changed meanwhile: {what}"),
            Self::NotTheHolder => f.write_str("the session is held by another process"),
        }
    }
}

/// Why an attempt was put off or is not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "until", rename_all = "snake_case")]
pub enum Deferral {
    /// Calls are running; their results must be stored first.
    CallsInFlight {
        /// How many.
        calls: usize,
    },
    /// Only an estimate says that the history is too long; the provider's figure is awaited.
    ProviderFigure {
        /// The estimate.
        estimate: u64,
    },
    /// The last failure is too recent.
    Cooldown {
        /// When it is over.
        at: Timestamp,
        /// What failed.
        why: String,
    },
    /// The last passes did not help.
    Ineffective {
        /// How many in a row.
        passes: u32,
    },
}

impl fmt::Display for Deferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallsInFlight { calls } => {
                write!(f, "compaction waits for the results of {calls} running tool calls")
            }
            Self::ProviderFigure { estimate } => write!(
                f,
                "compaction waits for the provider's token figure (the estimate is ~{estimate})"
            ),
            Self::Cooldown { at, why } => {
                write!(f, "compaction is paused until {at}: {why}; hint: /compress tries at once")
            }
            Self::Ineffective { passes } => write!(
                f,
                "automatic compaction stopped after {passes} passes that did not bring the \
                 request below its threshold; hint: /compress here 1, a larger context window, or \
                 a new session"
            ),
        }
    }
}

/// Where one attempt stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Asked for.
    Requested,
    /// It is known what would be taken out and what that saves; nothing is paid yet.
    Planned,
    /// A model is asked.
    Generating,
    /// The summary passed every check.
    Validated,
    /// It took effect.
    Committed,
    /// It came to nothing; the history is as it was.
    Rejected(Rejection),
    /// It is not made now.
    Deferred(Deferral),
}

impl Stage {
    /// Whether `next` may follow.
    pub const fn may_become(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Requested, Self::Planned | Self::Rejected(_) | Self::Deferred(_))
            // Pruning needs no model and goes from its plan to its commit.
            | (
                Self::Planned,
                Self::Generating | Self::Validated | Self::Rejected(_) | Self::Deferred(_),
            )
            | (Self::Generating, Self::Validated | Self::Rejected(_) | Self::Deferred(_))
            | (Self::Validated, Self::Committed | Self::Rejected(_)) => true,
            _ => false,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It took effect in this generation.
    Committed {
        /// The generation.
        generation: GenerationNo,
        /// The summary row, where there is one.
        summary: Option<Seq>,
    },
    /// It came to nothing.
    Rejected(Rejection),
    /// It was put off.
    Deferred(Deferral),
}

/// How much of what was covered the writer of the summary saw and spoke of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Rows covered.
    pub rows: u64,
    /// Rows that the writer saw, whole or in part.
    pub rows_seen: u64,
    /// Characters of the covered rows.
    pub chars: u64,
    /// Characters that the writer saw.
    pub chars_seen: u64,
    /// Shares of the range that the summary speaks of, in percent.
    pub spoken_percent: u8,
}

/// The record of one attempt, committed or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Log {
    /// When it was asked for.
    pub at: Timestamp,
    /// What it was to do.
    pub kind: Kind,
    /// Why.
    pub reason: Reason,
    /// By which method, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Rows in the view before.
    pub rows_before: u64,
    /// Rows in the view after; equal where nothing took effect.
    pub rows_after: u64,
    /// Tokens before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Tokens>,
    /// Tokens after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Tokens>,
    /// The model that wrote the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How long it took.
    pub millis: u64,
    /// What the summary rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// Why a fallback summary took the place of the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_because: Option<Rejection>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Log {
    /// Whether it is a compaction: it took effect.
    pub const fn is_compaction(&self) -> bool {
        matches!(self.outcome, Outcome::Committed { .. })
    }

    /// The event of a compaction; None for what is none.
    pub fn event(&self, session: &hermes_core::SessionId) -> Option<PostCompaction> {
        self.is_compaction().then(|| PostCompaction {
            session_id: session.clone(),
            old_session_id: None,
            kind: self.kind.as_str().to_owned(),
            reason: self.reason.as_str().to_owned(),
            before_tokens: self.before.map(|tokens| tokens.count),
            after_tokens: self.after.map(|tokens| tokens.count),
            messages_removed: Some(self.rows_before.saturating_sub(self.rows_after)),
        })
    }

    /// One line for a person.
    pub fn line(&self) -> String {
        let tokens = |tokens: Option<Tokens>| tokens.map_or("?".to_owned(), |t| t.to_string());
        match &self.outcome {
            Outcome::Committed { generation, .. } => format!(
                "{} ({}, {}): {} -> {} rows, {} -> {} tokens, generation {generation}",
                self.kind.as_str(),
                self.reason.as_str(),
                self.method.map_or("?", Method::as_str),
                self.rows_before,
                self.rows_after,
                tokens(self.before),
                tokens(self.after),
            ),
            Outcome::Rejected(why) => {
                format!("{} ({}) rejected: {why}", self.kind.as_str(), self.reason.as_str())
            }
            Outcome::Deferred(why) => {
                format!("{} ({}) put off: {why}", self.kind.as_str(), self.reason.as_str())
            }
        }
    }
}

/// Whether the generation came from a compaction.
pub(crate) const fn is_compaction(generation: &Generation) -> bool {
    matches!(generation.cause, hermes_core::Cause::Compaction | hermes_core::Cause::Prune)
}
