//! What the provider was sent: the bodies, and where the marker words stand in them.

use std::collections::BTreeMap;
use std::path::Path;

use hermes_agent::inspect::{Inspector, Verdict};
use hermes_core::{Digest, SessionId};
use hermes_store::{RequestFilter, Store};
use serde_json::Value;

use crate::world::MARKERS;
use crate::{LabError, RequestFacts};

/// A request as it was sent.
pub(crate) struct Seen {
    pub(crate) session: SessionId,
    /// Digest of the prompt as the ledger has it.
    pub(crate) prompt: Digest,
    /// Whether its bytes were made again and have the digest that was sent.
    pub(crate) verified: bool,
    pub(crate) cache_read: Option<u64>,
    pub(crate) facts: RequestFacts,
}

impl Seen {
    pub(crate) fn holds(&self, word: &str, place: &str) -> bool {
        self.facts.markers.get(word).is_some_and(|places| places.iter().any(|it| it == place))
    }

    pub(crate) fn holds_anywhere(&self, word: &str) -> bool {
        self.facts.markers.contains_key(word)
    }
}

/// The requests that were sent, in order; `turn_of` and `name_of` say where each belongs.
pub(crate) fn all(
    store: &Store,
    folder: &Path,
    turn_of: &dyn Fn(usize) -> u32,
    name_of: &dyn Fn(&SessionId) -> String,
) -> Result<Vec<Seen>, LabError> {
    let mut inspector = Inspector::new(store);
    let folder = folder.display().to_string();
    let records = store.requests(&RequestFilter::default())?;
    let mut seen = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let body = inspector.body(record)?;
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let messages = value["messages"].as_array().cloned().unwrap_or_default();
        let prompt = messages.first().map(text_of).unwrap_or_default();
        let prompt = prompt.replace(&folder, "LAB").replace(record.attempt.session.as_str(), "ID");
        let usage = record.end.as_ref().map(|end| end.usage).unwrap_or_default();
        seen.push(Seen {
            session: record.attempt.session.clone(),
            prompt: record.attempt.prompt,
            verified: inspector.verify(record) == Verdict::Verified,
            cache_read: usage.cache_read,
            facts: RequestFacts {
                session: name_of(&record.attempt.session),
                turn: turn_of(index),
                prompt: Digest::of(prompt).short(),
                messages: u32::try_from(messages.len()).unwrap_or(u32::MAX),
                input_tokens: usage.input,
                cache_read_tokens: usage.cache_read,
                cache_write_tokens: usage.cache_write,
                markers: markers(&messages),
            },
        });
    }
    Ok(seen)
}

/// Where each marker word stands: the system message is `prompt`, else the role.
fn markers(messages: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        let place = if matches!(role, "system" | "developer") { "prompt" } else { role };
        let text = message.to_string();
        for word in MARKERS.iter().filter(|word| text.contains(**word)) {
            let places = found.entry((*word).to_owned()).or_default();
            if !places.iter().any(|known| known == place) {
                places.push(place.to_owned());
            }
        }
    }
    found
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
