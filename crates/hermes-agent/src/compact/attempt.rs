//! One attempt, from its plan to its commit or its reason.

use std::time::Duration;

use hermes_compaction::{
    AnswerEnd, CommitInput, Coverage, Deferral, Kind, Log, Method, Outcome, Plan, Planned, Policy,
    Reason, Rejection, Sizes, Summary, Writing, apply, build,
};
use hermes_context::RENDERER;
use hermes_core::{
    AttemptEnd, AttemptOutcome, ErrorClass, EventSink, NoticeLevel, Timestamp, Tokens, Usage,
};
use hermes_provider::{Candidate, Finish, Job, JobAnswer, JobError, JobPlace, JobPrompt};

use crate::conversation::Conversation;
use crate::ledger::Ledger;
use crate::{AgentError, Cancel, Services, notice};

/// The task's name in configuration and ledger.
pub(super) const TASK: &str = "compression";

/// Tokens that texts which are to hold on may take beside a summary.
const HOLD_ON: u64 = 8_000;

/// What is attempted.
pub(super) struct Ask<'a> {
    pub reason: Reason,
    pub kind: Kind,
    /// What the person wants to have kept above all.
    pub focus: Option<&'a str>,
    /// Why no model may be asked, if none may.
    pub no_model: Option<String>,
    pub policy: Policy,
    pub sizes: Sizes,
    /// The size of the request before.
    pub before: Tokens,
    pub asked_at: Timestamp,
}

/// A summary that could not be had.
struct Failure {
    why: Rejection,
    class: Option<ErrorClass>,
    retry_after: Option<Duration>,
    /// The person stopped it: nothing is held against the model.
    stopped: bool,
}

impl From<Rejection> for Failure {
    fn from(why: Rejection) -> Self {
        Self { why, class: None, retry_after: None, stopped: false }
    }
}

/// What was written for a plan.
struct Written {
    summaries: Vec<Summary>,
    model: Option<String>,
    /// Why the model's summary was not used, where another one takes its place.
    failure: Option<Failure>,
}

impl Conversation {
    /// Carries out what planning found, and records how it ended.
    pub(super) async fn attempt(
        &mut self,
        services: &Services,
        planned: Planned,
        ask: &Ask<'_>,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<Log, AgentError> {
        let plan = match planned {
            Planned::Plan(plan) => plan,
            Planned::Rejected(why) => {
                if ask.reason.is_automatic() {
                    self.compaction.kept.memory.refused(ask.sizes);
                }
                return self.ended(services, ask, Outcome::Rejected(why), sink);
            }
            Planned::Deferred(why) => {
                return self.ended(services, ask, Outcome::Deferred(why), sink);
            }
        };
        let written = match self.write(services, &plan, ask, sink, cancel).await? {
            Ok(written) => written,
            Err(failure) => {
                let now = services.env.now();
                let memory = &mut self.compaction.kept.memory;
                match failure.why {
                    Rejection::NotSmaller { .. } => memory.refused(ask.sizes),
                    _ if failure.stopped => {}
                    _ => {
                        let wait = failure.retry_after.map(|wait| wait.as_secs());
                        memory.failed(&failure.why, failure.class, wait, now);
                    }
                }
                return self.ended(services, ask, Outcome::Rejected(failure.why), sink);
            }
        };
        let log = self.commit_compaction(services, &plan, ask, written, sink)?;
        if log.is_compaction() {
            // Whatever made it, plugins hear of it before anything else happens in the session.
            self.tell_events(services, Some(&self.id), sink).await;
        }
        Ok(log)
    }

    /// The summaries of a plan: by a model, or derived where the policy says so.
    async fn write(
        &mut self,
        services: &Services,
        plan: &Plan,
        ask: &Ask<'_>,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<Result<Written, Failure>, AgentError> {
        if plan.ranges.is_empty() {
            let written = Written { summaries: Vec::new(), model: None, failure: None };
            return Ok(Ok(written));
        }
        let session = self.id.clone();
        let view_error = |source| AgentError::View { session: session.clone(), source };
        let (head, last) = (self.head(), self.last_seq());
        let place = JobPlace {
            session: &session,
            turn: self.turn,
            generation: head,
            cut: last,
            compactions: self.compactions,
            renderer: RENDERER,
        };
        // The rows are looked at while the ledger is written: they are different fields.
        let Self { rows, generations, writer, spool_told, .. } = self;
        let writing = Writing::prepare(plan, rows, generations, &ask.policy).map_err(view_error)?;
        if let Some(why) = &ask.no_model {
            let why = Rejection::NoSummary { error: why.clone() };
            let derived = writing.derived(&why).map_err(Failure::from);
            return Ok(derived.map(|summaries| Written { summaries, model: None, failure: None }));
        }
        let Some(writer) = writer else {
            return Err(AgentError::Missing { session, what: "the session's lease".to_owned() });
        };
        let mut ledger = Ledger::new(writer, sink, spool_told);
        let asked = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            asked = summary(services, &writing, ask, place, &mut ledger) => Some(asked),
        };
        let Some(asked) = asked else {
            if let Some(open) = ledger.take_open() {
                hermes_core::AttemptRecorder::failed(
                    &mut ledger,
                    stopped(open.id, services.env.now()),
                )
                .map_err(|error| AgentError::NotRecorded(error.to_string()))?;
            }
            let why = Rejection::NoSummary { error: "stopped by the person".to_owned() };
            return Ok(Err(Failure { stopped: true, ..Failure::from(why) }));
        };
        let failure = match asked {
            Ok((answer, coverage)) => {
                let end = match answer.finish {
                    Finish::Length => AnswerEnd::Length,
                    Finish::ContentFilter => AnswerEnd::Refused,
                    Finish::Stop | Finish::ToolCalls | Finish::Other(_) => AnswerEnd::Complete,
                };
                match writing.answered(&answer.text, end, coverage) {
                    Ok(summaries) => {
                        let model = Some(format!("{}/{}", answer.provider, answer.model));
                        return Ok(Ok(Written { summaries, model, failure: None }));
                    }
                    Err(why) => Failure::from(why),
                }
            }
            Err(error) => Failure {
                class: error.class(),
                retry_after: error.retry_after(),
                why: Rejection::NoSummary { error: error.to_string() },
                stopped: false,
            },
        };
        Ok(match writing.failed(&failure.why, failure.class) {
            Ok(summaries) => Ok(Written { summaries, model: None, failure: Some(failure) }),
            Err(why) => Err(Failure { why, ..failure }),
        })
    }

    /// Makes it true: one transaction.
    fn commit_compaction(
        &mut self,
        services: &Services,
        plan: &Plan,
        ask: &Ask<'_>,
        written: Written,
        sink: &dyn EventSink,
    ) -> Result<Log, AgentError> {
        let Written { summaries, model, failure } = written;
        // Memory and profile are read again; nothing else is (mission A3).
        let built = self.fresh(services, &self.tools, &["memory".to_owned(), "user".to_owned()]);
        let snapshot = if built.snapshot.digest == self.snapshot.digest {
            self.snapshot.clone()
        } else {
            std::sync::Arc::new(built.snapshot)
        };
        let now = services.env.now();
        let head = self.head();
        let Self { rows, generations, writer, id, tools, compactions, .. } = self;
        let Some(writer) = writer else {
            let what = "the session's lease".to_owned();
            return Err(AgentError::Missing { session: id.clone(), what });
        };
        let input = CommitInput {
            session: id,
            plan,
            summaries: &summaries,
            rows,
            generations,
            head,
            snapshot: &snapshot,
            tools,
            compactions: *compactions,
            asked_at: ask.asked_at,
            now,
            model: model.as_deref(),
            hold_on: HOLD_ON.min(ask.sizes.threshold / 8),
        };
        let mut commit = match build(&input, &mut || writer.next_seq()) {
            Ok(commit) => commit,
            Err(why) => return self.ended(services, ask, Outcome::Rejected(why), sink),
        };
        if commit.log.after.zip(commit.log.before).is_some_and(|(a, b)| a.count >= b.count) {
            let (before, after) = (ask.before.count, commit.log.after.map_or(0, |it| it.count));
            let why = Rejection::NotSmaller { before, after };
            self.compaction.kept.memory.refused(ask.sizes);
            return self.ended(services, ask, Outcome::Rejected(why), sink);
        }
        let memory = &mut self.compaction.kept.memory;
        let after = commit.log.after.unwrap_or(plan.after);
        let saved = ask.before.count.saturating_sub(after.count);
        match &failure {
            Some(failure) => memory.committed_fallback(
                &failure.why,
                failure.class,
                failure.retry_after.map(|wait| wait.as_secs()),
                now,
            ),
            None => memory.committed(plan.kind, plan.reason, after, saved, &ask.policy),
        }
        let mut records = std::mem::take(&mut commit.records);
        records.push(self.compaction.attempt(&commit.log));
        records.extend(self.compaction.changed());
        self.commit(services, records, sink)?;
        apply(&commit, &mut self.rows, &mut self.generations);
        self.compactions += 1;
        self.snapshot = snapshot;
        self.warnings.extend(built.warnings.into_iter().filter(|_| commit.prompt_changed));
        tell_commit(&commit.log, commit.prompt_changed, sink);
        Ok(commit.log)
    }

    /// Records an attempt that came to nothing, and tells it.
    pub(super) fn ended(
        &mut self,
        services: &Services,
        ask: &Ask<'_>,
        outcome: Outcome,
        sink: &dyn EventSink,
    ) -> Result<Log, AgentError> {
        let rows = self.view()?.rows.len() as u64;
        let now = services.env.now();
        let log = Log {
            at: ask.asked_at,
            kind: ask.kind,
            reason: ask.reason,
            method: None::<Method>,
            rows_before: rows,
            rows_after: rows,
            before: Some(ask.before),
            after: None,
            model: None,
            millis: u64::try_from(now.millis_since(ask.asked_at)).unwrap_or_default(),
            coverage: None,
            fallback_because: None,
            outcome,
        };
        // The same pause, met again in each turn, is told each time and recorded once.
        let again = match (&log.outcome, &self.compaction.last) {
            (
                Outcome::Deferred(Deferral::ProviderFigure { .. }),
                Some(Outcome::Deferred(Deferral::ProviderFigure { .. })),
            ) => true,
            (Outcome::Deferred(_), Some(last)) => log.outcome == *last,
            _ => false,
        };
        if !again && self.writer.is_some() {
            let mut records = vec![self.compaction.attempt(&log)];
            records.extend(self.compaction.changed());
            self.commit(services, records, sink)?;
        }
        tell_nothing(&log, sink);
        Ok(log)
    }
}

/// Asks for the one summary of a plan.
async fn summary(
    services: &Services,
    writing: &Writing<'_>,
    ask: &Ask<'_>,
    place: JobPlace<'_>,
    ledger: &mut Ledger<'_>,
) -> Result<(JobAnswer, Coverage), JobError> {
    let candidates = services.candidates(TASK, None)?;
    let redact = |text: &str| services.redactor.redact(text).into_owned();
    let request = |candidate: &Candidate| {
        // Room for the answer, and for what an estimate is wrong by.
        let window = candidate.window.unwrap_or(ask.sizes.window);
        let room = (window / 10 * 9).saturating_sub(window / 10).max(512);
        writing.request(room, ask.focus, ask.asked_at, &redact)
    };
    let prompt = |candidate: &Candidate| {
        let made = request(candidate);
        made.map_or_else(
            || JobPrompt { system: String::new(), user: String::new() },
            |made| JobPrompt { system: made.system, user: made.user },
        )
    };
    let config = &services.config;
    let timeout =
        config.auxiliary.timeout(TASK).max(config.compression.context_timeout_seconds).max(1);
    let job = Job {
        task: TASK,
        candidates: &candidates,
        prompt: &prompt,
        place,
        retries: config.auxiliary.transient_retries,
        backoff: services.backoff,
        timeout: Duration::from_secs(timeout),
        env: &*services.env,
    };
    let limit = config.auxiliary.task(TASK).max_concurrency;
    let _slot = services.slots.take(TASK, limit).await;
    let answer = services.client.job(&job, ledger).await?;
    let coverage = candidates
        .get(answer.candidate)
        .and_then(request)
        .map_or_else(Coverage::default, |made| made.coverage);
    Ok((answer, coverage))
}

fn stopped(id: hermes_core::RequestId, now: Timestamp) -> AttemptEnd {
    AttemptEnd {
        id,
        outcome: AttemptOutcome::Cancelled,
        first_byte_at: None,
        ended_at: now,
        http_status: None,
        error_class: None,
        error: Some("stopped by the person".into()),
        usage: Usage::default(),
        served_model: None,
        finish_reason: None,
        response: None,
    }
}

fn tell_commit(log: &Log, prompt_changed: bool, sink: &dyn EventSink) {
    let tokens = |it: Option<Tokens>| it.map_or_else(|| "?".to_owned(), |it| it.to_string());
    let what = match log.kind {
        Kind::Summarize | Kind::MicroSummarize | Kind::ProviderNative => "compacted",
        Kind::PruneToolResults => "shortened by pointers in place of old results",
    };
    let refreshed = if prompt_changed {
        "; memory and profile were read again and the prompt is new"
    } else {
        ""
    };
    let mut text = format!(
        "the conversation was {what}: {} -> {} rows, {} -> {} tokens{refreshed}; nothing is lost, \
         /compress --undo takes it back",
        log.rows_before,
        log.rows_after,
        tokens(log.before),
        tokens(log.after),
    );
    let mut level = NoticeLevel::Info;
    if let Some(why) = &log.fallback_because {
        level = NoticeLevel::Warning;
        text = format!("{text}. No model wrote the summary: {why}; it was put together by rule");
    }
    notice(sink, level, text);
}

fn tell_nothing(log: &Log, sink: &dyn EventSink) {
    let (level, text) = match &log.outcome {
        Outcome::Committed { .. } => return,
        // Waiting for a figure or for results is no news.
        Outcome::Deferred(Deferral::ProviderFigure { .. } | Deferral::CallsInFlight { .. }) => {
            return;
        }
        Outcome::Deferred(why) => (NoticeLevel::Warning, why.to_string()),
        // The command says it to whoever gave it.
        Outcome::Rejected(_) if log.reason == Reason::Manual => return,
        Outcome::Rejected(why) if log.kind == Kind::PruneToolResults => {
            tracing::debug!(%why, "nothing was shortened");
            return;
        }
        Outcome::Rejected(why) => (
            NoticeLevel::Warning,
            format!("the conversation was not compacted and everything is kept: {why}"),
        ),
    };
    notice(sink, level, text);
}
