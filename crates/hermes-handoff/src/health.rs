//! What a person should know about capsules without asking: those nobody fetched, those that no
//! model wrote, lanes that were nearly met; and the trial of the writer beforehand.

use hermes_core::{Lane, SessionId};
use hermes_store::{CapsuleRecord, CapsuleState, SessionFilter};
use serde::Serialize;

use crate::handoffs::Handoffs;
use crate::prompt::{PromptInput, prompt};
use crate::validate;
use crate::writer::{Writer, WriterError};
use crate::{HandoffError, capsule};

/// For how long something is told.
const RECENT_MILLIS: i64 = 7 * 24 * 3600 * 1000;

/// The state of the handoffs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Capsules that wait.
    pub waiting: Vec<CapsuleRecord>,
    /// Capsules of the last week that nobody fetched.
    pub unfetched: Vec<CapsuleRecord>,
    /// Capsules of the last week that no model wrote.
    pub fallbacks: Vec<CapsuleRecord>,
    /// Sessions that may have been meant for a capsule that waits, but have another lane.
    pub near_misses: Vec<NearMiss>,
}

/// A session beside the lane of a capsule that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearMiss {
    /// The capsule.
    pub capsule: String,
    /// Its lane.
    pub lane: Lane,
    /// The session that started after it.
    pub session: SessionId,
    /// That session's lane.
    pub other: Lane,
}

impl Handoffs {
    /// What `doctor` tells.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn health(&self) -> Result<Health, HandoffError> {
        let since = self.env.now().plus_millis(-RECENT_MILLIS);
        let mut health = Health::default();
        for record in self.store.capsules(None)? {
            let recent = record.created_at >= since;
            match record.state {
                CapsuleState::Pending => health.waiting.push(record.clone()),
                CapsuleState::Expired if recent => health.unfetched.push(record.clone()),
                _ => {}
            }
            if recent && record.status == crate::Status::Fallback.word() {
                health.fallbacks.push(record);
            }
        }
        if health.waiting.is_empty() {
            return Ok(health);
        }
        let sessions = self.store.sessions(&SessionFilter::default())?;
        for record in &health.waiting {
            let Some(lane) = &record.lane else { continue };
            for info in sessions.iter().filter(|info| info.started_at >= record.created_at) {
                if let Some(other) = info.lane.as_ref().filter(|other| are_near(lane, other)) {
                    health.near_misses.push(NearMiss {
                        capsule: record.id.clone(),
                        lane: lane.clone(),
                        session: info.id.clone(),
                        other: other.clone(),
                    });
                }
            }
        }
        Ok(health)
    }
}

/// Whether two lanes differ so little that one may have been meant: a folder inside the other, the
/// same chat with another thread or participant, capital letters.
fn are_near(one: &Lane, other: &Lane) -> bool {
    let (one, other) = (one.key(), other.key());
    if one == other {
        return false;
    }
    let inside = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.starts_with(['/', '\\', ';']))
    };
    let chat = |key: &str| key.split(';').next().unwrap_or_default().to_lowercase();
    inside(one, other) || inside(other, one) || chat(one) == chat(other)
}

/// Tries a writer's whole chain with a tiny request. Returns the model that answered.
///
/// # Errors
/// How it failed; an answer that is no capsule is a failure too.
pub async fn check_writer<W: Writer>(writer: &W) -> Result<String, WriterError> {
    let asked = prompt(PromptInput {
        dialogue: "[r1] PERSON: Name the first prime number.\n[r2] MODEL: It is 2.\n\
                   [r3] PERSON: And the next?\n[r4] MODEL: It is 3.\n",
        previous: None,
        focus: None,
        limits: (80, capsule::ORDINARY.chars),
    });
    let written = writer.write(&asked).await?;
    validate::read_answer(&written.text, None).map_err(WriterError::bare)?;
    Ok(written.model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_may_have_been_meant_are_near() {
        let check = |one: &str, other: &str, near: bool| {
            assert_eq!(
                are_near(&Lane::from_key(one), &Lane::from_key(other)),
                near,
                "{one} {other}"
            );
        };
        check("cli:/w/p", "cli:/w/p/sub", true);
        check("cli:/w/p", "cli:/w/P", true);
        check("cli:/w/p", "cli:/w/q", false);
        check("cli:/w/p", "cli:/w/p", false);
        check("t:-100;user=7", "t:-100;thread=5", true);
        check("t:-100", "t:-1001", false);
    }
}
