//! Compaction in a session: when it is considered, what it asks of a helper model, the one commit
//! that makes it true, its undoing, and what can be said about it afterwards.
//!
//! What is decided, planned, written and checked is `hermes-compaction`'s, which is pure. Here are
//! the lease, the ledger, the store, and the person's ear.
//!
//! Invariants: nothing starts between a call and its result; an attempt that came to nothing leaves
//! rows and generations as they were and is recorded with its reason; summary, generation, prompt,
//! count, record and event are one commit; what a session remembers (a cooldown, passes that did
//! not help) is stored with it and outlives the process.

mod attempt;
mod command;
mod figure;
mod jobs;
mod recall;
mod status;
mod triggers;

pub use command::{CompactionPreview, CompressOptions, Undone};
pub use jobs::HelperPlace;
pub(crate) use jobs::Places;
pub(crate) use recall::{NAME as RECALL, definition as recall_definition};
pub use status::{AttemptRecord, CompactionStatus, compaction_status, session_views};
pub(crate) use triggers::Overflow;

use hermes_compaction::{Log, Memory, Outcome};
use hermes_core::Digest;
use hermes_store::{CompactionAttempt, Record};
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::ledger::seen;
use crate::{AgentError, Services};

/// What a session knows of its compactions while it is held.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether the stored part was read since the lease was taken.
    loaded: bool,
    kept: Kept,
    /// The stored part as it is stored.
    stored: Option<String>,
    /// The number of the newest attempt.
    attempts: u32,
    /// How the newest attempt ended.
    last: Option<Outcome>,
    /// The provider's newest figure and the estimate for the same request.
    anchor: Option<figure::Anchor>,
    /// The estimate for the request that is being made.
    asked: Option<u64>,
    /// Estimated tokens of prompt and tools, by their digests.
    overhead: Option<(Digest, Digest, u64)>,
    /// Turns since the last single exchange was summarised.
    turns: u32,
}

/// What is stored with the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    #[serde(flatten)]
    memory: Memory,
    /// The window that the provider named when it refused a request as too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    named_window: Option<u64>,
}

impl State {
    /// The lease is given back: another process may compact.
    pub(crate) const fn forget(&mut self) {
        self.loaded = false;
    }

    /// The stored part as a record, if it changed.
    fn changed(&mut self) -> Option<Record> {
        let json = serde_json::to_string(&self.kept).ok()?;
        if self.stored.as_deref() == Some(json.as_str())
            || (self.stored.is_none() && self.kept == Kept::default())
        {
            return None;
        }
        self.stored = Some(json.clone());
        Some(Record::CompactionState { state: json.into() })
    }

    /// The record of an attempt.
    fn attempt(&mut self, log: &Log) -> Record {
        self.attempts += 1;
        self.last = Some(log.outcome.clone());
        let generation = match &log.outcome {
            Outcome::Committed { generation, .. } => Some(*generation),
            Outcome::Rejected(_) | Outcome::Deferred(_) => None,
        };
        Record::CompactionAttempt(CompactionAttempt {
            no: self.attempts,
            at: log.at,
            generation,
            log: serde_json::to_string(log).unwrap_or_default().into(),
        })
    }
}

impl Conversation {
    /// Reads what is stored about this session's compactions, once for each lease.
    fn load_compactions(&mut self, services: &Services) -> Result<(), AgentError> {
        if std::mem::replace(&mut self.compaction.loaded, true) || !self.is_stored() {
            return Ok(());
        }
        let found = services.store.compactions(&self.id);
        let Some(found) = seen(found, "compactions")? else { return Ok(()) };
        let state = &mut self.compaction;
        state.attempts = found.attempts.last().map_or(0, |attempt| attempt.no);
        state.last = found
            .attempts
            .last()
            .and_then(|attempt| serde_json::from_str::<Log>(&attempt.log).ok())
            .map(|log| log.outcome);
        if let Some(json) = found.state {
            match serde_json::from_str(&json) {
                Ok(kept) => state.kept = kept,
                Err(error) => {
                    tracing::warn!(session = %self.id, %error, "what is stored about compactions cannot be read");
                }
            }
            state.stored = Some(json.to_string());
        }
        Ok(())
    }
}
