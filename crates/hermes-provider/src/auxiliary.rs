//! Jobs beside the conversation: a summary, a capsule, a title. One question, one answer, no
//! tools; its own places to ask, its own time, every attempt in the ledger under its task.
//!
//! Invariants: every attempt is recorded with its body before its bytes leave, and ended; a job
//! without an answer says why for each place that was asked; a place that takes too long is not
//! asked again; a refused credential of a place that the task's own settings name is answered by
//! nobody but the task's own places.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_core::{
    Assembled, Attempt, AttemptEnd, AttemptOutcome, AttemptRecorder, Digest, Env, ErrorClass,
    GenerationNo, Message, Piece, Provenance, RecordError, RequestId, Role, Seq, SessionId,
    Snapshot, Task, Timestamp, ToolSet, TurnNo, Usage, WireProfile,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Answered, Backoff, Client, ConverseError, ConverseInput, Endpoint, Finish, LedgerFacts,
};

/// A place where a job may be sent.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where.
    pub endpoint: Endpoint,
    /// The model's window in tokens, where known.
    pub window: Option<u64>,
    /// Whether the task's own settings name it.
    pub explicit: bool,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPrompt {
    /// The instructions.
    pub system: String,
    /// The message.
    pub user: String,
}

/// A job.
pub struct Job<'a> {
    /// Its name in the configuration and the ledger, such as `compression`.
    pub task: &'a str,
    /// The places, in the order in which they are asked.
    pub candidates: &'a [Candidate],
    /// What is asked of a place, which may have its own window.
    pub prompt: &'a (dyn Fn(&Candidate) -> JobPrompt + Sync),
    /// What the ledger says beside that.
    pub place: JobPlace<'a>,
    /// Further tries at one place after a passing fault.
    pub retries: u32,
    /// Delays between them.
    pub backoff: Backoff,
    /// How long one try may take.
    pub timeout: Duration,
    /// Clock, ids and chance.
    pub env: &'a dyn Env,
}

/// Where in a session the job belongs.
#[derive(Clone, Copy, Debug)]
pub struct JobPlace<'a> {
    /// Whose conversation.
    pub session: &'a SessionId,
    /// Which turn.
    pub turn: TurnNo,
    /// The generation that it looks at.
    pub generation: GenerationNo,
    /// The highest seq that it looks at.
    pub cut: Seq,
    /// Compactions of the session so far.
    pub compactions: u32,
    /// Version of the renderer, for the ledger.
    pub renderer: u32,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAnswer {
    /// The text.
    pub text: String,
    /// Why the model stopped.
    pub finish: Finish,
    /// Who answered, by its index among the candidates.
    pub candidate: usize,
    /// The provider that answered.
    pub provider: Arc<str>,
    /// The model that answered.
    pub model: Arc<str>,
    /// The attempt in the ledger.
    pub request: RequestId,
    /// Tokens as reported.
    pub usage: Usage,
    /// The places that were asked before and did not answer.
    pub failures: Vec<PlaceFailure>,
}

/// A place that did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceFailure {
    /// The provider.
    pub provider: Arc<str>,
    /// The model.
    pub model: Arc<str>,
    /// The class of the last failure.
    pub class: ErrorClass,
    /// The last HTTP status.
    pub status: Option<u16>,
    /// What happened, in words.
    pub message: String,
    /// How often it was asked.
    pub tries: u32,
    /// How long it asks to wait, where that is longer than a retry may wait.
    pub retry_after: Option<Duration>,
}

/// Why a job has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// There is no place to ask: why, for each that could not be used.
    #[error("{}", no_candidate(.0))]
    NoCandidate(Vec<String>),
    /// The task is switched off.
    #[error("the task is switched off; hint: auxiliary.{0}.enabled: true")]
    Disabled(String),
    /// Nobody answered.
    #[error("{}", nobody(.0))]
    Failed(Vec<PlaceFailure>),
    /// The ledger cannot be written, so nothing may be sent.
    #[error("{0}")]
    NotRecorded(String),
}

impl JobError {
    /// The class of the last failure, where a provider failed.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Failed(failures) => failures.last().map(|failure| failure.class),
            Self::NoCandidate(_) | Self::Disabled(_) | Self::NotRecorded(_) => None,
        }
    }

    /// The longest wait that a provider asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed(failures) => failures.iter().filter_map(|it| it.retry_after).max(),
            Self::NoCandidate(_) | Self::Disabled(_) | Self::NotRecorded(_) => None,
        }
    }
}

fn no_candidate(problems: &[String]) -> String {
    if problems.is_empty() {
        return "no model is configured for it; hint: run `hermes setup`".to_owned();
    }
    format!("no usable model: {}", problems.join("; "))
}

fn nobody(failures: &[PlaceFailure]) -> String {
    let what = |failure: &PlaceFailure| match failure.status {
        Some(status) => status.to_string(),
        None => failure.class.as_str().replace('_', " "),
    };
    let who = |failure: &PlaceFailure| format!("{}/{}", failure.provider, failure.model);
    let Some(first) = failures.first() else { return "nobody was asked".to_owned() };
    let same = failures.iter().all(|failure| what(failure) == what(first));
    let names: Vec<String> = failures.iter().map(who).collect();
    let mut out = match (failures.len(), same) {
        (1, _) => format!("{} answered {}", who(first), what(first)),
        (_, true) => format!("every candidate answered {} ({})", what(first), names.join(", ")),
        _ => {
            let each: Vec<String> =
                failures.iter().map(|it| format!("{} answered {}", who(it), what(it))).collect();
            each.join(", ")
        }
    };
    if first.status.is_none() {
        out = out.replace(" answered ", ": ");
    }
    if let Some(last) = failures.last() {
        out.push_str("; the last said: ");
        out.push_str(&last.message);
    }
    out
}

/// Bounds how many jobs of one task run at once.
#[derive(Debug, Default)]
pub struct JobSlots(Mutex<HashMap<String, Arc<Semaphore>>>);

impl JobSlots {
    /// Waits for a slot of `task`, of which there are `limit`; None where they are not bounded.
    pub async fn take(&self, task: &str, limit: Option<usize>) -> Option<OwnedSemaphorePermit> {
        let limit = limit?.max(1);
        let slots = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(task.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(limit))).clone()
        };
        slots.acquire_owned().await.ok()
    }
}

impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("task", &self.task)
            .field("candidates", &self.candidates)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Does a job: asks one place after the other until one answers.
    ///
    /// A passing fault is tried again at the same place, a time-out is not; a credential, a quota,
    /// a request that is refused go to the next place at once.
    ///
    /// Dropping the future cancels the job; the attempt that was started last is then the
    /// caller's to end.
    ///
    /// # Errors
    /// With what each place answered.
    pub async fn job(
        &self,
        job: &Job<'_>,
        recorder: &mut (dyn AttemptRecorder + Send),
    ) -> Result<JobAnswer, JobError> {
        self.job_after(job, &[], recorder).await
    }

    /// The same after messages that went before, oldest first.
    ///
    /// # Errors
    /// With what each place answered.
    pub async fn job_after(
        &self,
        job: &Job<'_>,
        before: &[(Role, String)],
        recorder: &mut (dyn AttemptRecorder + Send),
    ) -> Result<JobAnswer, JobError> {
        if job.candidates.is_empty() {
            return Err(JobError::NoCandidate(Vec::new()));
        }
        let mut failures: Vec<PlaceFailure> = Vec::new();
        let mut numbered =
            Numbered { inner: recorder, made: 0, last: None, open: None, refusal: None };
        let mut own_only = false;
        for (index, candidate) in job.candidates.iter().enumerate() {
            if own_only && !candidate.explicit {
                continue;
            }
            match self.at_candidate(job, before, (index, candidate), &mut numbered).await? {
                Ok(mut answer) => {
                    answer.failures = failures;
                    return Ok(answer);
                }
                Err(failure) => {
                    own_only |= candidate.explicit && failure.class == ErrorClass::Auth;
                    tracing::info!(task = job.task, provider = %failure.provider, model = %failure.model, why = %failure.message, "a job was not done here");
                    failures.push(failure);
                }
            }
        }
        Err(JobError::Failed(failures))
    }

    /// All tries at one place. The outer error ends the job.
    async fn at_candidate(
        &self,
        job: &Job<'_>,
        before: &[(Role, String)],
        (index, candidate): (usize, &Candidate),
        recorder: &mut Numbered<'_>,
    ) -> Result<Result<JobAnswer, PlaceFailure>, JobError> {
        let prompt = (job.prompt)(candidate);
        let assembled = assembled(&prompt, before);
        let mut endpoint = candidate.endpoint.clone();
        // The job's own time is the bound.
        endpoint.timeouts.first_byte = endpoint.timeouts.first_byte.max(job.timeout);
        let mut tries = 0;
        loop {
            tries += 1;
            let input = ConverseInput {
                endpoints: std::slice::from_ref(&endpoint),
                assemble: &|_: &WireProfile| Ok(assembled.clone()),
                ledger: LedgerFacts {
                    session: job.place.session,
                    turn: job.place.turn,
                    retries: None,
                    task: Task::Auxiliary(job.task.into()),
                    generation: job.place.generation,
                    cut: job.place.cut,
                    compactions: job.place.compactions,
                    renderer: job.place.renderer,
                },
                // Tried again here, where a broken stream may be too: nobody saw it.
                retries: 0,
                backoff: job.backoff,
                env: job.env,
                keep_body: true,
            };
            let mut on = |_: crate::Delta<'_>| {};
            let call = tokio::time::timeout(job.timeout, self.converse(input, recorder, &mut on));
            let error = match call.await {
                Ok(Ok(answered)) => {
                    return finished(index, candidate, answered, recorder, tries);
                }
                Ok(Err(error)) => error,
                Err(_) => timed_out(job, recorder)?,
            };
            if let Some(why) = recorder.refusal.take() {
                return Err(JobError::NotRecorded(why));
            }
            let wait = delay(job, &error, tries);
            let Some(wait) = wait else {
                return Ok(Err(PlaceFailure {
                    provider: candidate.endpoint.provider.clone(),
                    model: candidate.endpoint.model.clone(),
                    class: error.class,
                    status: error.http_status,
                    message: error.message,
                    tries,
                    retry_after: error.retry_after,
                }));
            };
            tokio::time::sleep(wait).await;
        }
    }
}

/// Ends the attempt that answered.
fn finished(
    index: usize,
    candidate: &Candidate,
    answered: Answered,
    recorder: &mut Numbered<'_>,
    tries: u32,
) -> Result<Result<JobAnswer, PlaceFailure>, JobError> {
    let Answered { reply, end, attempt, .. } = answered;
    let Some(mut end) = end else {
        return Err(JobError::NotRecorded("it was answered without a request".to_owned()));
    };
    let blank = reply.text.trim().is_empty();
    if blank {
        end.outcome = AttemptOutcome::Error;
        end.error_class = Some(ErrorClass::Malformed);
        end.error = Some("the answer has no text".into());
    }
    let status = end.http_status;
    let usage = end.usage;
    let model = end.served_model.clone().unwrap_or_else(|| candidate.endpoint.model.clone());
    recorder.failed(end).map_err(|error| JobError::NotRecorded(error.to_string()))?;
    if blank {
        return Ok(Err(PlaceFailure {
            provider: candidate.endpoint.provider.clone(),
            model: candidate.endpoint.model.clone(),
            class: ErrorClass::Malformed,
            status,
            message: "the answer has no text".to_owned(),
            tries,
            retry_after: None,
        }));
    }
    Ok(Ok(JobAnswer {
        text: reply.text,
        finish: reply.finish,
        candidate: index,
        provider: candidate.endpoint.provider.clone(),
        model,
        request: attempt.id,
        usage,
        failures: Vec::new(),
    }))
}

/// Ends the attempt that took too long.
fn timed_out(job: &Job<'_>, recorder: &mut Numbered<'_>) -> Result<ConverseError, JobError> {
    let message = format!("no whole answer within {} s", job.timeout.as_secs_f32());
    let mut ends = Vec::new();
    if let Some(id) = recorder.open.take() {
        let end = cut_off(id, ErrorClass::Timeout, &message, job.env.now());
        recorder
            .inner
            .failed(end.clone())
            .map_err(|error| JobError::NotRecorded(error.to_string()))?;
        ends.push(end);
    }
    Ok(ConverseError {
        class: ErrorClass::Timeout,
        message,
        attempts: 1,
        partial: None,
        http_status: None,
        retry_after: None,
        limits: crate::Limits::default(),
        attempt_ends: ends,
        endpoint_index: 0,
        profile: WireProfile::default(),
    })
}

fn cut_off(id: RequestId, class: ErrorClass, message: &str, now: Timestamp) -> AttemptEnd {
    AttemptEnd {
        id,
        outcome: AttemptOutcome::Error,
        first_byte_at: None,
        ended_at: now,
        http_status: None,
        error_class: Some(class),
        error: Some(message.into()),
        usage: Usage::default(),
        served_model: None,
        finish_reason: None,
        response: None,
    }
}

/// How long to wait before the next try at this place; None if there is none.
fn delay(job: &Job<'_>, error: &ConverseError, tries: u32) -> Option<Duration> {
    let again = error.class.is_transient() && error.class != ErrorClass::Timeout;
    if !again || tries > job.retries {
        return None;
    }
    let own = job.backoff.delay(tries, job.env);
    match error.retry_after {
        Some(wait) if wait > job.backoff.longest_retry_after => None,
        Some(wait) => Some(wait.max(own)),
        None => Some(own),
    }
}

fn assembled(prompt: &JobPrompt, before: &[(Role, String)]) -> Assembled {
    let message = |role: Role, text: &str| Message {
        role,
        tool_call_id: None,
        pieces: vec![Piece::Text { text: text.into(), from: Provenance::Filler("job") }],
    };
    let mut messages: Vec<Message> =
        before.iter().map(|(role, text)| message(*role, text)).collect();
    messages.push(message(Role::User, &prompt.user));
    let snapshot = Snapshot {
        text: prompt.system.as_str().into(),
        digest: Digest::of(&prompt.system),
        blocks: Vec::new(),
    };
    Assembled { snapshot: Arc::new(snapshot), tools: Arc::new(ToolSet::new(Vec::new())), messages }
}

/// Numbers the attempts of a job through, over all places and tries.
struct Numbered<'a> {
    inner: &'a mut (dyn AttemptRecorder + Send),
    made: u32,
    last: Option<RequestId>,
    open: Option<RequestId>,
    /// Why the ledger refused.
    refusal: Option<String>,
}

impl Numbered<'_> {
    fn keep(&mut self, result: Result<(), RecordError>) -> Result<(), RecordError> {
        if let Err(error) = &result {
            self.refusal.get_or_insert_with(|| error.to_string());
        }
        result
    }
}

impl AttemptRecorder for Numbered<'_> {
    fn started(&mut self, mut attempt: Attempt, profile: &WireProfile) -> Result<(), RecordError> {
        self.made += 1;
        attempt.attempt = self.made;
        attempt.retries.clone_from(&self.last);
        let id = attempt.id.clone();
        let started = self.inner.started(attempt, profile);
        self.keep(started)?;
        self.last = Some(id.clone());
        self.open = Some(id);
        Ok(())
    }

    fn failed(&mut self, end: AttemptEnd) -> Result<(), RecordError> {
        self.open = None;
        let ended = self.inner.failed(end);
        self.keep(ended)
    }
}
