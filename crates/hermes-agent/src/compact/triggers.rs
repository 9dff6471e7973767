//! When compaction is considered: before each request, after an overflow, after quiet, between
//! turns.

use hermes_compaction::{
    Decision, Keep, Kind, Log, Outcome, PlanInput, Planned, Policy, Reason, Rejection, Situation,
    Sizes, decide, plan, plan_micro, plan_prune,
};
use hermes_core::{EventSink, Timestamp, Tokens, View};
use hermes_provider::Limits;

use super::attempt::Ask;
use crate::conversation::Conversation;
use crate::{AgentError, Cancel, Services};

/// What a provider's overflow says about our own figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overflow {
    pub limits: Limits,
    /// How many there were in this turn, this one included.
    pub number: u32,
}

/// The situation, gathered once.
struct Seen {
    view: View,
    policy: Policy,
    sizes: Sizes,
    tokens: Tokens,
}

impl Conversation {
    fn look(&mut self, services: &Services) -> Result<Seen, AgentError> {
        self.load_compactions(services)?;
        let view = self.view()?;
        let policy = self.policy(services);
        let sizes = self.sizes(services, &policy);
        let tokens = self.figure(services, &view, sizes)?;
        Ok(Seen { view, policy, sizes, tokens })
    }

    fn plan_input<'a>(&self, seen: &'a Seen, reason: Reason, keep: Keep) -> PlanInput<'a> {
        PlanInput {
            view: &seen.view,
            policy: &seen.policy,
            sizes: seen.sizes,
            before: seen.tokens,
            reason,
            keep,
            base: self.head(),
            cut: self.last_seq(),
            turn: self.turn,
        }
    }

    /// Considers compaction before a request: at the start of a turn, before a request, or after
    /// a tool's result.
    pub(crate) async fn before_request(
        &mut self,
        services: &Services,
        reason: Reason,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<(), AgentError> {
        let seen = self.look(services)?;
        let now = services.env.now();
        let memory = &self.compaction.kept.memory;
        let prune = decide(memory, Reason::ProactivePrune, seen.situation(now));
        let decision = decide(memory, reason, seen.situation(now));
        if let (Decision::Start { .. }, Decision::Nothing) = (&prune, &decision) {
            let planned = plan_prune(self.plan_input(&seen, Reason::ProactivePrune, Keep::Tail));
            let ask = seen.ask(Reason::ProactivePrune, Kind::PruneToolResults, now);
            self.attempt(services, planned, &ask, sink, cancel).await?;
            return Ok(());
        }
        self.follow(services, seen, decision, reason, sink, cancel).await?;
        Ok(())
    }

    /// Does what was decided. None if there was nothing to do.
    async fn follow(
        &mut self,
        services: &Services,
        seen: Seen,
        decision: Decision,
        reason: Reason,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<Option<Log>, AgentError> {
        let now = services.env.now();
        let mut ask = seen.ask(reason, Kind::Summarize, now);
        let model = match decision {
            Decision::Nothing => return Ok(None),
            Decision::Deferred(why) => {
                let ended = self.ended(services, &ask, Outcome::Deferred(why), sink)?;
                return Ok(Some(ended));
            }
            Decision::Start { model, .. } => model,
        };
        let input = self.plan_input(&seen, reason, Keep::Tail);
        let planned = if model {
            plan(input)
        } else {
            let why = self.compaction.kept.memory.cooldown.as_ref().map_or_else(
                || "earlier passes did not help".to_owned(),
                |cooldown| format!("no model is asked before {}: {}", cooldown.until, cooldown.why),
            );
            let planned = match seen.policy.on_failure {
                hermes_compaction::OnFailure::Fallback => plan(input),
                // Pointers need no model; a summary that nobody wrote is not wanted.
                hermes_compaction::OnFailure::Abort => match plan_prune(input) {
                    Planned::Rejected(_) => {
                        Planned::Rejected(Rejection::NoSummary { error: why.clone() })
                    }
                    planned => planned,
                },
            };
            ask.no_model = Some(why);
            planned
        };
        Ok(Some(self.attempt(services, planned, &ask, sink, cancel).await?))
    }

    /// The provider refused the request as too large. Whether it may be sent again, made smaller.
    pub(crate) async fn after_overflow(
        &mut self,
        services: &Services,
        overflow: Overflow,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<Result<(), String>, AgentError> {
        let most = services.config.compression.max_attempts.clamp(1, 10);
        if overflow.number > most {
            return Ok(Err(format!("{most} passes in this turn did not make it fit")));
        }
        self.load_compactions(services)?;
        if let Some(window) = overflow.limits.window.filter(|window| *window >= 1_000) {
            self.compaction.kept.named_window = Some(window);
        }
        let mut seen = self.look(services)?;
        self.compaction.kept.memory.overflowed(seen.sizes);
        seen.believe(overflow);
        let decision = decide(
            &self.compaction.kept.memory,
            Reason::Overflow,
            seen.situation(services.env.now()),
        );
        let log = self.follow(services, seen, decision, Reason::Overflow, sink, cancel).await?;
        Ok(match log.map(|log| log.outcome) {
            Some(Outcome::Committed { .. }) => Ok(()),
            Some(Outcome::Rejected(why)) => Err(why.to_string()),
            Some(Outcome::Deferred(why)) => Err(why.to_string()),
            None => Err("compaction is switched off".to_owned()),
        })
    }

    /// Considers compaction after quiet, before a new turn begins.
    pub(crate) async fn after_quiet(
        &mut self,
        services: &Services,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<(), AgentError> {
        let seconds = services.config.compression.idle_compact_after_seconds;
        let Some(last) = self.rows.last().filter(|_| seconds > 0) else { return Ok(()) };
        let quiet = services.env.now().millis_since(last.created_at) / 1000;
        if quiet < i64::try_from(seconds).unwrap_or(i64::MAX) {
            return Ok(());
        }
        self.tidy(services, Reason::BetweenTurns, sink, cancel).await?;
        Ok(())
    }

    /// Compacts between turns for an automatic reason, if the history has grown too long. None if
    /// there was nothing to do.
    ///
    /// # Errors
    /// If the store refuses.
    pub async fn tidy(
        &mut self,
        services: &Services,
        reason: Reason,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<Option<Log>, AgentError> {
        self.acquire(services)?;
        if self.writer.is_none() {
            return Ok(None);
        }
        let seen = self.look(services)?;
        let now = services.env.now();
        let decision = decide(&self.compaction.kept.memory, reason, seen.situation(now));
        self.follow(services, seen, decision, reason, sink, cancel).await
    }

    /// After a turn: the work of an old exchange becomes a note, if that is switched on.
    pub(crate) async fn after_turn(
        &mut self,
        services: &Services,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<(), AgentError> {
        let config = &services.config.compression;
        if !config.enabled || !config.micro_compact {
            return Ok(());
        }
        self.compaction.turns += 1;
        if self.compaction.turns < config.micro_compact_every_n_turns.max(1) {
            return Ok(());
        }
        self.compaction.turns = 0;
        let seen = self.look(services)?;
        let now = services.env.now();
        let cooling = self.compaction.kept.memory.cooldown.as_ref();
        if cooling.is_some_and(|cooldown| now < cooldown.until) {
            return Ok(());
        }
        let planned = plan_micro(self.plan_input(&seen, Reason::BetweenTurns, Keep::Tail));
        // Nothing to do is the usual case and no attempt.
        if let Planned::Plan(_) = planned {
            let ask = seen.ask(Reason::BetweenTurns, Kind::MicroSummarize, now);
            self.attempt(services, planned, &ask, sink, cancel).await?;
        }
        Ok(())
    }

    /// The person's own wish: planned, not carried out.
    pub(super) fn wished(
        &mut self,
        services: &Services,
        keep: Option<usize>,
    ) -> Result<(Planned, Ask<'static>), AgentError> {
        let seen = self.look(services)?;
        let keep = keep.map_or(Keep::Tail, Keep::Exchanges);
        let planned = plan(self.plan_input(&seen, Reason::Manual, keep));
        let ask = seen.ask(Reason::Manual, Kind::Summarize, services.env.now());
        Ok((planned, ask))
    }
}

impl Seen {
    fn situation(&self, now: Timestamp) -> Situation<'_> {
        Situation {
            policy: &self.policy,
            sizes: self.sizes,
            tokens: self.tokens,
            calls_in_flight: 0,
            now,
        }
    }

    fn ask(&self, reason: Reason, kind: Kind, now: Timestamp) -> Ask<'static> {
        Ask {
            reason,
            kind,
            focus: None,
            no_model: None,
            policy: self.policy.clone(),
            sizes: self.sizes,
            before: self.tokens,
            asked_at: now,
        }
    }

    /// The provider's word against our estimate: sizes are scaled down by as much as the estimate
    /// was too low, and further with each refusal.
    fn believe(&mut self, overflow: Overflow) {
        let ours = self.tokens.count.max(1);
        let theirs = overflow.limits.input.unwrap_or(0).max(self.sizes.window + 1).max(ours);
        let again = 0.75_f64.powi(i32::try_from(overflow.number.saturating_sub(1)).unwrap_or(0));
        let share = ours as f64 / theirs as f64 * again;
        let scaled = |it: u64| ((it as f64 * share) as u64).max(1);
        self.sizes = Sizes {
            window: scaled(self.sizes.window),
            threshold: scaled(self.sizes.threshold),
            tail: scaled(self.sizes.tail),
            tail_ceiling: scaled(self.sizes.tail_ceiling),
        };
    }
}
