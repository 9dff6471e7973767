//! What a person asks for: compact, show what it would do, take it back.

use hermes_compaction::{Log, Planned, Preview, preview, undo};
use hermes_core::{Cause, EventSink, Generation, GenerationNo, NullSink, ViewError, effective_ops};
use hermes_store::{Record, SessionPatch};
use serde::Serialize;

use super::jobs::HelperPlace;
use crate::conversation::Conversation;
use crate::{AgentError, Cancel, Services};

/// How a person wants the conversation compacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressOptions {
    /// The newest exchanges stay as they are, exactly so many.
    pub keep: Option<usize>,
    /// What is to be kept above all.
    pub focus: Option<String>,
}

/// What compacting would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompactionPreview {
    /// The plan; None if there is nothing to do.
    pub plan: Option<Preview>,
    /// Why there is nothing to do.
    pub why_not: Option<String>,
    /// Who would be asked for the summary, in order.
    pub helpers: Vec<HelperPlace>,
}

/// A compaction that was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undone {
    /// The generation that no longer holds.
    pub generation: GenerationNo,
    /// Rows in the next request before and after.
    pub rows: (usize, usize),
    /// Whether the prompt of before is back, too.
    pub prompt_changed: bool,
}

impl Conversation {
    /// Compacts because the person wants it.
    ///
    /// # Errors
    /// If nothing was said yet, or the store refuses. An attempt that came to nothing is no error:
    /// the log says why.
    pub async fn compress(
        &mut self,
        services: &Services,
        options: &CompressOptions,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<Log, AgentError> {
        self.hold(services)?;
        let (planned, mut ask) = self.wished(services, options.keep)?;
        ask.focus = options.focus.as_deref();
        self.attempt(services, planned, &ask, sink, cancel).await
    }

    /// What [`Self::compress`] would do. Nothing is asked or stored.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn preview_compression(
        &mut self,
        services: &Services,
        options: &CompressOptions,
    ) -> Result<CompactionPreview, AgentError> {
        let (planned, _) = self.wished(services, options.keep)?;
        let helpers = services.helper_places(super::attempt::TASK).unwrap_or_default();
        Ok(match planned {
            Planned::Plan(plan) => CompactionPreview {
                plan: Some(preview(&plan)),
                why_not: None,
                helpers: if plan.ranges.is_empty() { Vec::new() } else { helpers },
            },
            Planned::Rejected(why) => {
                CompactionPreview { plan: None, why_not: Some(why.to_string()), helpers }
            }
            Planned::Deferred(why) => {
                CompactionPreview { plan: None, why_not: Some(why.to_string()), helpers }
            }
        })
    }

    /// Takes back the newest compaction in force, or the one of `target`. What was said, taken back
    /// or compacted since stays as it is.
    ///
    /// # Errors
    /// If there is none, or the store refuses.
    pub fn undo_compaction(
        &mut self,
        services: &Services,
        target: Option<GenerationNo>,
    ) -> Result<Undone, AgentError> {
        self.hold(services)?;
        let before = self.view()?.rows.len();
        let generation = undo(&self.generations, self.head(), target, services.env.now())?;
        let taken = generation.ops.iter().find_map(|op| match op {
            hermes_core::Op::Revoke { target } => Some(target.generation),
            _ => None,
        });
        let mut snapshot = self.snapshot.clone();
        if generation.prompt != snapshot.digest {
            let carrier = self.generations.iter().rfind(|it| it.prompt == generation.prompt);
            let carrier = carrier.map_or(generation.n, |it| it.n);
            snapshot = std::sync::Arc::new(services.store.snapshot(&self.id, carrier)?);
        }
        let prompt_changed = snapshot.digest != self.snapshot.digest;
        let manifest =
            Record::Manifest { generation: generation.n, blocks: snapshot.blocks.clone() };
        let mut generations = self.generations.clone();
        generations.push(generation.clone());
        let compactions = in_force(&generations, generation.n)
            .map_err(|source| AgentError::View { session: self.id.clone(), source })?;
        let patch = Record::Patch(SessionPatch {
            compactions: Some(compactions),
            ..SessionPatch::default()
        });
        let records = vec![Record::Generation(generation), manifest, patch];
        self.commit(services, records, &NullSink)?;
        self.generations = generations;
        self.compactions = compactions;
        self.snapshot = snapshot;
        let after = self.view()?.rows.len();
        Ok(Undone { generation: taken.unwrap_or_default(), rows: (before, after), prompt_changed })
    }

    /// Takes the lease of a session in which something was said.
    fn hold(&mut self, services: &Services) -> Result<(), AgentError> {
        self.acquire(services)?;
        if self.writer.is_none() {
            return Err(AgentError::NothingSaid);
        }
        self.load_compactions(services)
    }
}

/// How many compactions shape the history at this generation.
fn in_force(generations: &[Generation], at: GenerationNo) -> Result<u32, ViewError> {
    let ops = effective_ops(generations, at)?;
    let count = generations
        .iter()
        .filter(|it| matches!(it.cause, Cause::Compaction | Cause::Prune))
        .filter(|it| ops.iter().any(|(from, _)| from.generation == it.n))
        .count();
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}
