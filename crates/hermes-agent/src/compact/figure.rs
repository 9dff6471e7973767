//! How large the next request is, and how far that is known.

use hermes_compaction::{Policy, Sizes, view_tokens};
use hermes_context::estimate_tokens;
use hermes_core::{GenerationNo, Seq, TokenKind, Tokens, Usage, View, fold_view};
use hermes_store::{Record, RequestFilter};

use super::State;
use crate::conversation::Conversation;
use crate::ledger::seen;
use crate::{AgentError, Services};

/// The window of a model of which nothing is known, in tokens.
const UNKNOWN_WINDOW: u64 = 256_000;
/// The least that a delegated task's own threshold may be.
const LEAST_CHILD_THRESHOLD: u64 = 16_000;
/// Below this share of the threshold, in percent, nothing is looked up.
const FAR_BELOW: u64 = 50;

/// The provider's figure for one request, and our estimate for the same one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    exact: u64,
    estimate: u64,
}

impl Conversation {
    /// The person's settings for this session.
    pub(super) fn policy(&self, services: &Services) -> Policy {
        let config = &services.config;
        let own = match config.compression.on_failure.as_str() {
            "" => None,
            "fallback" => Some(hermes_compaction::OnFailure::Fallback),
            _ => Some(hermes_compaction::OnFailure::Abort),
        };
        let mut policy = Policy::from_config(&config.compression, own);
        let child = config.delegation.compression_threshold_tokens;
        if self.options.child_of.is_some() && child > 0 {
            policy.threshold_tokens = Some(child.max(LEAST_CHILD_THRESHOLD));
        }
        policy
    }

    /// The window's sizes for this session's model.
    pub(super) fn sizes(&self, services: &Services, policy: &Policy) -> Sizes {
        let known = services.context_window.unwrap_or(UNKNOWN_WINDOW);
        let window = self.compaction.kept.named_window.map_or(known, |named| named.min(known));
        let reserved = services.endpoints.first().and_then(|endpoint| {
            let caps = ["max_tokens", "max_completion_tokens"];
            let cap = endpoint.params.0.iter().find(|(name, _)| caps.contains(&&**name));
            cap.and_then(|(_, json)| json.parse().ok())
        });
        policy.sizes(window, reserved.unwrap_or(0).min(window / 2))
    }

    /// Estimated tokens of a request with this view.
    pub(super) fn estimate(&mut self, view: &View) -> u64 {
        let key = (self.snapshot.digest, self.tools.digest);
        let overhead = match self.compaction.overhead {
            Some((prompt, tools, tokens)) if (prompt, tools) == key => tokens,
            _ => {
                let tokens =
                    estimate_tokens(&self.snapshot.text) + estimate_tokens(&self.tools.json());
                self.compaction.overhead = Some((key.0, key.1, tokens));
                tokens
            }
        };
        overhead + view_tokens(view)
    }

    /// The size of the next request as well as it is known.
    pub(super) fn figure(
        &mut self,
        services: &Services,
        view: &View,
        sizes: Sizes,
    ) -> Result<Tokens, AgentError> {
        let estimate = self.estimate(view);
        if self.compaction.anchor.is_none() && estimate * 100 >= sizes.threshold * FAR_BELOW {
            self.compaction.anchor = self.stored_anchor(services)?;
        }
        Ok(match self.compaction.anchor {
            None => Tokens::estimated(estimate),
            Some(Anchor { exact, estimate: then }) if then == estimate => Tokens::exact(exact),
            Some(Anchor { exact, estimate: then }) => {
                Tokens { count: (exact + estimate).saturating_sub(then), kind: TokenKind::Anchored }
            }
        })
    }

    /// The newest figure in the ledger, with the estimate for the request it is of.
    fn stored_anchor(&mut self, services: &Services) -> Result<Option<Anchor>, AgentError> {
        if !self.is_stored() {
            return Ok(None);
        }
        let newest = services.store.requests(&RequestFilter {
            session: Some(self.id.clone()),
            main_only: true,
            newest_first: true,
            limit: Some(3),
            ..RequestFilter::default()
        });
        let newest = seen(newest, "the newest requests")?.unwrap_or_default();
        let found = newest.iter().find_map(|request| {
            let input = request.end.as_ref()?.usage.input?;
            Some((input, request.attempt.generation, request.attempt.cut))
        });
        let Some((exact, generation, cut)) = found else { return Ok(None) };
        let Some(view) = self.view_at(generation, cut) else { return Ok(None) };
        Ok(Some(Anchor { exact, estimate: self.estimate(&view) }))
    }

    fn view_at(&self, generation: GenerationNo, cut: Seq) -> Option<View> {
        fold_view(&self.rows, &self.generations, generation, cut).ok()
    }

    /// A request with this view is about to be made.
    pub(crate) fn note_request(&mut self, view: &View) {
        self.compaction.asked = Some(self.estimate(view));
    }

    /// A request was answered; the record of what that means for later compactions.
    pub(crate) fn note_usage(&mut self, services: &Services, usage: &Usage) -> Option<Record> {
        let policy = self.policy(services);
        let sizes = self.sizes(services, &policy);
        let state: &mut State = &mut self.compaction;
        if let (Some(exact), Some(estimate)) = (usage.input, state.asked.take()) {
            state.anchor = Some(Anchor { exact, estimate });
        }
        state.kept.memory.answered(usage.input, sizes);
        state.changed()
    }
}
