//! `/refresh`: sources read anew in an open session, with the difference, what it costs in cache,
//! a generation that carries the new prompt, and a notice to the model.
//!
//! Invariant: whether the model was told of a refresh is read from stored rows, so the notice
//! comes once, whichever process made the refresh.

use hermes_context::{
    Built, Difference, SOURCES, build_snapshot, estimate_tokens, refresh_snapshot,
    snapshot_differences,
};
use hermes_core::{
    Cause, Digest, Generation, GenerationNo, NullSink, Origin, Part, Snapshot, Timestamp, ToolSet,
};
use hermes_store::Record;
use serde::Serialize;

use crate::conversation::{Conversation, generation_records};
use crate::{AgentError, Services};

/// The source that stands for the tool definitions.
const TOOLS: &str = "tools";

/// What a refresh did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefreshReport {
    /// The sources that were read anew; empty for all.
    pub sources: Vec<String>,
    /// What differs, in prompt order.
    pub differences: Vec<SourceChange>,
    /// Digest of the prompt before.
    pub prompt_before: Digest,
    /// Digest of the prompt after.
    pub prompt_after: Digest,
    /// Whether the tool definitions differ.
    pub tools_changed: bool,
    /// The generation that carries the new prompt; None if nothing changed or nothing was sent yet.
    pub generation: Option<GenerationNo>,
    /// Bytes at the start of the prompt that stay as they are.
    pub shared_prompt_bytes: usize,
    /// Tokens, estimated, of prompt and history that the provider reads anew in the next request.
    pub reread_tokens: u64,
    /// What the person should know of the sources.
    pub warnings: Vec<String>,
    /// The receipt in one sentence.
    pub sentence: String,
    /// The prompts, for a difference by lines.
    #[serde(skip)]
    pub texts: (std::sync::Arc<str>, std::sync::Arc<str>),
}

/// A source that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceChange {
    /// The block's id.
    pub id: String,
    /// The source.
    pub source: String,
    /// Digest of the source before.
    pub was: Option<Digest>,
    /// Digest of the source now.
    pub is: Option<Digest>,
    /// Whether the text in the prompt differs.
    pub in_prompt: bool,
}

impl From<Difference> for SourceChange {
    fn from(found: Difference) -> Self {
        let Difference { id, source, was, is, in_prompt } = found;
        Self { id, source: source.to_string(), was, is, in_prompt }
    }
}

impl Conversation {
    /// Reads `sources` (ids of the table of sources; all if empty) anew. Stored at once, or, in a
    /// session that has sent nothing, taken over into its start.
    ///
    /// # Errors
    /// If a name is no source of the prompt, or the store refuses.
    pub fn refresh(
        &mut self,
        services: &Services,
        sources: &[String],
    ) -> Result<RefreshReport, AgentError> {
        check_names(sources)?;
        self.acquire(services)?;
        let wants = |name: &str| sources.is_empty() || sources.iter().any(|source| source == name);
        let tools = if wants(TOOLS) {
            std::sync::Arc::new(ToolSet::new(self.live_definitions()))
        } else {
            self.tools.clone()
        };
        let built = self.fresh(services, &tools, sources);
        let before = std::mem::replace(&mut self.snapshot, std::sync::Arc::new(built.snapshot));
        let tools_changed = tools.digest != self.tools.digest;
        self.tools = tools;
        let changed = tools_changed || before.digest != self.snapshot.digest;
        let now = services.env.now();
        let mut generation = None;
        if !self.is_stored() {
            self.restart_unsaved(now);
        } else if changed {
            let next = self.next_generation(Cause::Refresh, now, Vec::new());
            let mut records = vec![Record::Text { text: self.tools.json().into() }];
            records.extend(generation_records(&next, &self.snapshot));
            self.commit(services, records, &NullSink)?;
            generation = Some(next.n);
            self.generations.push(next);
        }
        let differences = snapshot_differences(&before, &self.snapshot);
        let shared = shared_prefix(&before.text, &self.snapshot.text);
        let rest = estimate_tokens(self.snapshot.text.get(shared..).unwrap_or_default());
        let reread_tokens = if changed && self.is_stored() {
            let tools = if tools_changed { estimate_tokens(&self.tools.json()) } else { 0 };
            tools + rest + self.history_tokens()?
        } else {
            0
        };
        Ok(RefreshReport {
            sources: sources.to_vec(),
            sentence: sentence(changed, generation, reread_tokens),
            differences: differences.into_iter().map(SourceChange::from).collect(),
            prompt_before: before.digest,
            prompt_after: self.snapshot.digest,
            tools_changed,
            generation,
            shared_prompt_bytes: if tools_changed { 0 } else { shared },
            reread_tokens,
            warnings: built.warnings,
            texts: (before.text.clone(), self.snapshot.text.clone()),
        })
    }

    /// The prompt as the sources are now: all of them, or the named ones and the rest as it was.
    pub(crate) fn fresh(&self, services: &Services, tools: &ToolSet, sources: &[String]) -> Built {
        let kinds: Vec<&str> = sources.iter().map(String::as_str).collect();
        self.with_input(services, tools, |input| {
            if kinds.is_empty() {
                build_snapshot(input)
            } else {
                refresh_snapshot(&self.snapshot, input, &kinds)
            }
        })
    }

    fn history_tokens(&self) -> Result<u64, AgentError> {
        let view = self.view()?;
        let parts = view.rows.iter().flat_map(|shown| &shown.row.parts);
        Ok(parts.filter_map(Part::as_text).map(estimate_tokens).sum())
    }

    /// The notice of refreshes that the model was not told of yet, with its label.
    pub(crate) fn refresh_notice(
        &self,
        services: &Services,
    ) -> Result<Option<(String, String)>, AgentError> {
        let Some(newest) = self.generations.iter().rfind(|each| each.cause == Cause::Refresh)
        else {
            return Ok(None);
        };
        if self.was_told(newest.n) {
            return Ok(None);
        }
        let mut oldest: &Generation = newest;
        while let Some(parent) = self.parent_of(oldest) {
            oldest = parent;
            if parent.cause != Cause::Refresh || self.was_told(parent.n) {
                break;
            }
        }
        let before = services.store.snapshot(&self.id, oldest.n)?;
        let tools_changed = oldest.tools != newest.tools;
        let text = told(&before, &self.snapshot, tools_changed, newest.created_at);
        Ok(Some((label(newest.n), text)))
    }

    fn was_told(&self, n: GenerationNo) -> bool {
        let label = label(n);
        self.rows.iter().rev().flat_map(|row| &row.parts).any(|part| {
            part.origin == Origin::Notice && part.label.as_deref() == Some(label.as_str())
        })
    }

    fn parent_of(&self, generation: &Generation) -> Option<&Generation> {
        let parent = generation.parent?;
        self.generations.iter().find(|each| each.n == parent)
    }
}

fn label(n: GenerationNo) -> String {
    format!("refresh {n}")
}

fn told(before: &Snapshot, after: &Snapshot, tools_changed: bool, at: Timestamp) -> String {
    let differences = snapshot_differences(before, after);
    let mut changed: Vec<String> =
        differences.iter().filter(|found| found.in_prompt).map(|found| found.id.clone()).collect();
    if tools_changed {
        changed.push("the tool list".to_owned());
    }
    let changed =
        if changed.is_empty() { "nothing in their text".to_owned() } else { changed.join(", ") };
    format!(
        "The person had your instructions read anew at {at}. Changed: {changed}. What the system \
         prompt says now holds; earlier messages may speak of what it said before."
    )
}

fn sentence(changed: bool, generation: Option<GenerationNo>, reread: u64) -> String {
    match (changed, generation) {
        (false, _) => {
            "Nothing changed; the prompt and the provider's cache stay as they are.".to_owned()
        }
        (true, None) => "The prompt is new; nothing was sent yet, so it costs nothing.".to_owned(),
        (true, Some(n)) => format!(
            "The prompt is new (generation {n}) from the next request on; the model is told with \
             it, and about {reread} tokens are read without the provider's cache once."
        ),
    }
}

/// Bytes that both texts begin with.
fn shared_prefix(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    b.floor_char_boundary(same.min(b.len()))
}

fn check_names(sources: &[String]) -> Result<(), AgentError> {
    let known =
        || SOURCES.iter().filter(|kind| kind.enters.starts_with("prompt") || kind.id == TOOLS);
    for name in sources {
        if !known().any(|kind| kind.id == name) {
            let known = known().map(|kind| kind.id.to_owned()).collect();
            return Err(AgentError::NoSuchSource { name: name.clone(), known });
        }
    }
    Ok(())
}
