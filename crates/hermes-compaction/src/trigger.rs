//! Whether to compact now: thresholds, cooldowns and the stop after passes that do not help, as
//! pure functions over a small state that is stored with the session.
//!
//! Invariants: an estimate may defer, never force; nothing starts between a call and its result;
//! at most two ineffective passes in a row; a failure's cooldown survives a restart.

use hermes_core::{ErrorClass, Timestamp, TokenKind, Tokens};
use serde::{Deserialize, Serialize};

use crate::{Deferral, Kind, Policy, Reason, Rejection, Sizes};

/// What the session remembers about its compactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// No automatic summary is asked for before this time.
    pub cooldown: Option<Cooldown>,
    /// Failures in a row.
    pub failures: u32,
    /// Committed passes in a row after which the request was still too large.
    pub ineffective: u32,
    /// A compaction took effect and no request has shown its result yet.
    pub awaiting_figure: bool,
    /// After a proactive prune: tokens at which the next one may happen.
    pub prune_again_at: Option<u64>,
    /// The window that the last verdicts were given for.
    pub window: Option<u64>,
}

/// A pause after a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooldown {
    /// When it is over.
    pub until: Timestamp,
    /// What failed, in words.
    pub why: String,
}

/// The situation in which compaction is considered.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The person's settings.
    pub policy: &'a Policy,
    /// The window's sizes.
    pub sizes: Sizes,
    /// Tokens of the next request.
    pub tokens: Tokens,
    /// Calls that have no result yet.
    pub calls_in_flight: usize,
    /// The present.
    pub now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing: the request is small enough, or nobody wants it.
    Nothing,
    /// This.
    Start {
        /// What.
        kind: Kind,
        /// Whether a model may be asked; if not, only what needs none is done.
        model: bool,
    },
    /// Not now; the person is told.
    Deferred(Deferral),
}

/// Passes without effect after which automatic ones stop.
pub const MOST_INEFFECTIVE: u32 = 2;

/// Decides whether to compact.
pub fn decide(memory: &Memory, reason: Reason, at: Situation<'_>) -> Decision {
    if at.calls_in_flight > 0 {
        return Decision::Deferred(Deferral::CallsInFlight { calls: at.calls_in_flight });
    }
    let start = |model| Decision::Start { kind: Kind::Summarize, model };
    match reason {
        Reason::Manual => return start(true),
        // The provider has said that the request does not fit.
        Reason::Overflow => return start(blocked(memory, at).is_none()),
        Reason::ProactivePrune => return decide_prune(memory, at),
        _ if !at.policy.enabled => return Decision::Nothing,
        _ => {}
    }
    if at.tokens.count < at.sizes.threshold {
        return Decision::Nothing;
    }
    if at.tokens.kind == TokenKind::Estimated || memory.awaiting_figure {
        let estimate = at.tokens.count;
        return Decision::Deferred(Deferral::ProviderFigure { estimate });
    }
    match blocked(memory, at) {
        None => start(true),
        // Without it the request would not fit at all; pointers need no model.
        Some(_) if at.tokens.count > at.sizes.window => start(false),
        Some(deferral) => Decision::Deferred(deferral),
    }
}

fn blocked(memory: &Memory, at: Situation<'_>) -> Option<Deferral> {
    if let Some(cooldown) = &memory.cooldown
        && at.now < cooldown.until
    {
        return Some(Deferral::Cooldown { at: cooldown.until, why: cooldown.why.clone() });
    }
    let same_window = memory.window.is_none_or(|window| window == at.sizes.window);
    (memory.ineffective >= MOST_INEFFECTIVE && same_window)
        .then_some(Deferral::Ineffective { passes: memory.ineffective })
}

fn decide_prune(memory: &Memory, at: Situation<'_>) -> Decision {
    let from = at.policy.proactive_prune_tokens;
    let reached = from > 0 && at.tokens.count >= from;
    let again = memory.prune_again_at.is_none_or(|mark| at.tokens.count >= mark)
        || at.tokens.count >= at.sizes.threshold;
    if at.policy.enabled && reached && again {
        Decision::Start { kind: Kind::PruneToolResults, model: false }
    } else {
        Decision::Nothing
    }
}

/// What a provider's failure means for a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAction {
    /// A person has to mend it: everything stays, whatever the policy.
    Abort,
    /// The policy decides.
    Policy,
}

impl ErrorAction {
    /// For an error of this class.
    pub const fn of(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Auth
            | ErrorClass::Quota
            | ErrorClass::Connect
            | ErrorClass::Disconnected
            | ErrorClass::Local
            | ErrorClass::NotFound => Self::Abort,
            ErrorClass::Timeout
            | ErrorClass::RateLimit
            | ErrorClass::Server
            | ErrorClass::ContextOverflow
            | ErrorClass::OutputOverflow
            | ErrorClass::BadRequest
            | ErrorClass::ContentFilter
            | ErrorClass::Malformed => Self::Policy,
        }
    }
}

/// The longest pause that a server may ask for.
const MOST_RETRY_AFTER: i64 = 24 * 3_600;

impl Memory {
    /// A summary failed: `error` is the class of the provider's failure where one failed,
    /// `retry_after` the seconds it asked for.
    pub fn failed(
        &mut self,
        why: &Rejection,
        error: Option<ErrorClass>,
        retry_after: Option<u64>,
        now: Timestamp,
    ) {
        let ladder = |steps: [i64; 3]| steps[(self.failures as usize).min(2)];
        let own = match error {
            Some(
                ErrorClass::Auth | ErrorClass::Quota | ErrorClass::NotFound | ErrorClass::Local,
            ) => 600,
            Some(ErrorClass::Timeout) => ladder([60, 300, 900]),
            Some(_) => ladder([60, 120, 600]),
            None if *why == Rejection::Truncated => ladder([60, 300, 900]),
            None => ladder([60, 180, 540]),
        };
        let asked = retry_after.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0);
        let seconds = own.max(asked.min(MOST_RETRY_AFTER));
        self.failures = self.failures.saturating_add(1);
        self.cooldown =
            Some(Cooldown { until: now.plus_millis(seconds * 1_000), why: why.to_string() });
    }

    /// A pass would have made the request larger, or could not be planned to help.
    pub fn refused(&mut self, sizes: Sizes) {
        self.ineffective = self.ineffective.saturating_add(1);
        self.window = Some(sizes.window);
    }

    /// A compaction took effect. A manual one clears what stands in the way of automatic ones.
    pub fn committed(
        &mut self,
        kind: Kind,
        reason: Reason,
        after: Tokens,
        saved: u64,
        policy: &Policy,
    ) {
        self.awaiting_figure = true;
        match kind {
            Kind::PruneToolResults => {
                let growth = saved
                    .max(policy.proactive_prune_tokens)
                    .max(policy.proactive_prune_min_reclaim_tokens);
                self.prune_again_at = Some(after.count.saturating_add(growth));
            }
            Kind::Summarize | Kind::MicroSummarize | Kind::ProviderNative => {
                self.failures = 0;
                self.cooldown = None;
            }
        }
        if reason == Reason::Manual {
            self.ineffective = 0;
        }
    }

    /// A committed summary is a fallback: it took effect, but the model's failure still counts.
    pub fn committed_fallback(
        &mut self,
        why: &Rejection,
        error: Option<ErrorClass>,
        retry_after: Option<u64>,
        now: Timestamp,
    ) {
        self.failed(why, error, retry_after, now);
        self.awaiting_figure = true;
    }

    /// A request was answered, with the provider's own figure of its input where it gave one.
    pub fn answered(&mut self, input: Option<u64>, sizes: Sizes) {
        let judged = std::mem::take(&mut self.awaiting_figure);
        let Some(input) = input else { return };
        if input < sizes.threshold {
            self.ineffective = 0;
        } else if judged {
            self.ineffective = self.ineffective.saturating_add(1);
            self.window = Some(sizes.window);
        }
    }

    /// A request was refused as too large right after a compaction.
    pub fn overflowed(&mut self, sizes: Sizes) {
        if std::mem::take(&mut self.awaiting_figure) {
            self.refused(sizes);
        }
    }
}
