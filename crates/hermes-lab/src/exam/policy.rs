//! What the next session is given of a session: the capsule that is made without a model, the one
//! that the configured writer makes, the one that was made, and simpler ways to compare with.

use hermes_agent::Services;
use hermes_core::SessionId;
use hermes_handoff::capsule::{Limits, ORDINARY};
use hermes_handoff::extract;
use hermes_handoff::section::words;
use hermes_handoff::source::{Source, Speaker};
use hermes_home::redact::Redactor;
use hermes_store::Store;
use serde::{Deserialize, Serialize};

use super::world::World;
use crate::LabError;

/// A way of making what the next session is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapsulePolicy {
    /// The capsule without a model.
    Deterministic,
    /// The newest of the dialogue, as much as a capsule may have.
    Newest,
    /// The same method as without a model, in 400 words, from the last 24,000 characters.
    Digest,
    /// The capsule that the configured writer makes.
    Writer,
    /// The newest capsule that was made of the session.
    Stored,
}

/// Bounds of the digest: words and characters of its text, characters that are read.
const DIGEST: Limits = Limits { words: 400, chars: 4_000, read: 24_000 };

impl CapsulePolicy {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Deterministic, Self::Newest, Self::Digest, Self::Writer, Self::Stored];

    /// The word on the command line and in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Newest => "newest",
            Self::Digest => "digest",
            Self::Writer => "writer",
            Self::Stored => "stored",
        }
    }

    /// The policy of this name.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }
}

/// Where capsules are made and looked up.
pub(super) struct Shop<'a> {
    pub(super) world: &'a World,
    /// For the configured writer.
    pub(super) services: Option<&'a Services>,
    /// The person's own store, for capsules that were made.
    pub(super) own: Option<&'a Store>,
}

impl Shop<'_> {
    /// The text of a policy for a session. The Recovery block is the runtime's, whatever stands
    /// above it.
    pub(super) async fn text(
        &self,
        policy: CapsulePolicy,
        id: &SessionId,
    ) -> Result<String, LabError> {
        let above = match policy {
            CapsulePolicy::Deterministic => return self.world.capsule(id).await,
            CapsulePolicy::Writer => {
                let services = self.services.ok_or_else(|| LabError::NoCapsule {
                    session: id.to_string(),
                    why: "no model is configured that could write it".to_owned(),
                })?;
                return self.world.written(services, id).await;
            }
            CapsulePolicy::Stored => return self.stored(id),
            CapsulePolicy::Newest => newest(&self.source(id)?),
            CapsulePolicy::Digest => {
                let mut source = self.source(id)?;
                keep_last(&mut source, DIGEST.read);
                extract(&source, DIGEST).render()
            }
        };
        let whole = self.world.capsule(id).await?;
        let recovery = whole.find("\n## Recovery").map_or("", |at| &whole[at..]);
        Ok(format!("{above}\n{recovery}"))
    }

    fn source(&self, id: &SessionId) -> Result<Source, LabError> {
        Source::load(&self.world.store, id, &Redactor::default())?.ok_or_else(|| {
            LabError::NoCapsule {
                session: id.to_string(),
                why: "there is no such session".to_owned(),
            }
        })
    }

    fn stored(&self, id: &SessionId) -> Result<String, LabError> {
        let store = self.own.unwrap_or(&self.world.store);
        let all = store.capsules(None)?;
        let newest = all
            .iter()
            .filter(|record| record.session == *id && !record.confidential)
            .max_by_key(|record| record.created_at);
        let none = |why: String| LabError::NoCapsule { session: id.to_string(), why };
        let hint = "hint: `hermes handoff build --session-id ID`, or another policy";
        let record = newest.ok_or_else(|| none(format!("none was made; {hint}")))?;
        let text = match store.capsule_text(&record.id)? {
            Some(text) => Some(text),
            None => store.delivered_capsule_text(record)?,
        };
        let state = record.state.as_str();
        text.ok_or_else(|| {
            none(format!("the text of its newest is gone, for that is {state}; {hint}"))
        })
    }
}

/// The newest of the dialogue within the bounds of a capsule.
fn newest(source: &Source) -> String {
    let (mut left_words, mut left_chars) = (ORDINARY.words, ORDINARY.chars);
    let mut lines: Vec<String> = Vec::new();
    for turn in source.turns.iter().rev() {
        let who = match turn.speaker {
            Speaker::Person => "person",
            Speaker::Model => "model",
        };
        let line = format!("- {who}: {} [r{}]", turn.text, turn.row);
        let (count, chars) = (words(&line), line.chars().count() + 1);
        if count > left_words || chars > left_chars {
            break;
        }
        left_words -= count;
        left_chars -= chars;
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

/// Keeps the rows from the turn on with which the dialogue has at most `chars` characters.
fn keep_last(source: &mut Source, chars: usize) {
    let mut left = chars;
    let mut first = None;
    for turn in source.turns.iter().rev() {
        let Some(rest) = left.checked_sub(turn.text.chars().count()) else { break };
        left = rest;
        first = Some(turn.row);
    }
    if let Some(first) = first {
        source.rows.retain(|row| row.seq >= first);
        source.turns.retain(|turn| turn.row >= first);
    }
}
