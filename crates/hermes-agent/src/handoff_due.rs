//! When a session has been compacted enough, or cannot be compacted any more, and a handoff serves
//! better: what the settings say about that, held against what is stored of the compactions.

use std::fmt;

use hermes_compaction::{Deferral, Log, Outcome, Reason, Rejection};
use hermes_core::SessionId;
use hermes_handoff::Policy;

use crate::ledger::seen;
use crate::{AgentError, Services};

/// Why a handoff is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Why.
    pub why: DueBecause,
    /// The session's compactions, and whether a failure is the reason: as long as they are the
    /// same, so is the reason.
    pub at: (u32, bool),
}

/// What makes a handoff due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DueBecause {
    /// So many compactions.
    Compactions(u32),
    /// The newest attempt came to nothing, in its own words.
    Failure(String),
}

impl fmt::Display for DueBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compactions(1) => f.write_str("this session was compacted once"),
            Self::Compactions(count) => write!(f, "this session was compacted {count} times"),
            Self::Failure(why) => write!(f, "this session could not be compacted ({why})"),
        }
    }
}

/// Whether a handoff of `session` is due by the settings. None for a session that has ended.
///
/// # Errors
/// If the store cannot be read.
pub fn due(services: &Services, session: &SessionId) -> Result<Option<Due>, AgentError> {
    let policy = Policy::of(&services.config);
    let after = policy.after_compactions;
    if !policy.active || (after == 0 && !policy.on_compaction_failure) {
        return Ok(None);
    }
    let found = seen(services.store.session(session), "the session")?.flatten();
    let Some(info) = found else { return Ok(None) };
    if info.ended_at.is_some() {
        return Ok(None);
    }
    let found = seen(services.store.compactions(session), "compactions")?;
    let attempts = found.unwrap_or_default().attempts;
    if policy.on_compaction_failure
        && let Some(why) = attempts.last().and_then(|it| failure(&it.log))
    {
        let at = (info.compactions, true);
        return Ok(Some(Due { why: DueBecause::Failure(why), at }));
    }
    let enough = after > 0 && info.compactions >= after;
    let why = DueBecause::Compactions(info.compactions);
    Ok(enough.then_some(Due { why, at: (info.compactions, false) }))
}

/// Why an attempt left the session as large as it was; None if it took effect, or if nothing was
/// wrong.
fn failure(log: &str) -> Option<String> {
    let log: Log = serde_json::from_str(log).ok()?;
    match &log.outcome {
        Outcome::Committed { .. } => None,
        Outcome::Rejected(why) => {
            let harmless = matches!(
                why,
                Rejection::NothingToDo { .. }
                    | Rejection::TooLittle { .. }
                    | Rejection::Superseded { .. }
                    | Rejection::NotTheHolder
            );
            // The provider refused the request, and it cannot be made smaller.
            (!harmless || log.reason == Reason::Overflow).then(|| why.to_string())
        }
        Outcome::Deferred(why) => {
            let stuck = matches!(why, Deferral::Cooldown { .. } | Deferral::Ineffective { .. });
            stuck.then(|| why.to_string())
        }
    }
}
