//! The handoff in a session: who writes a capsule, how the next session's first turn receives one,
//! how a session that was handed over ends.
//!
//! Invariants: every attempt of the writer is in the ledger of the session that it is about before
//! its bytes leave; a build holds that session for single records only, so that the person may go
//! on; a turn never fails because of a capsule; what a provider says about a confidential session
//! is not logged.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_context::{RENDERER, Workspace, estimate_tokens};
use hermes_core::{
    Attempt, AttemptEnd, AttemptRecorder, Env, EventSink, Lane, NoticeLevel, RecordError, Row, Seq,
    SessionId, WireProfile,
};
use hermes_handoff::lane::{PerUser, Place, lane};
use hermes_handoff::prepass::Prepass;
use hermes_handoff::scrub::Mechanical;
use hermes_handoff::writer::{Prompt, Writer, WriterError, WriterFault, Written};
use hermes_handoff::{
    Build, BuildResult, Confidential, HandoffError, Handoffs, Offer, Policy, build, carried_over,
    check_writer, without_capsule,
};
use hermes_home::redact::Redactor;
use hermes_provider::{
    Backoff, Candidate, Client, Finish, Job, JobError, JobPlace, JobPrompt, PlaceFailure,
};
use hermes_store::{Ended, Record, SessionPatch, SessionWriter, Store, StoreError};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use crate::conversation::Conversation;
use crate::{AgentError, Services, notice};

/// Whose settings say who writes.
const TASK: &str = "compression";
/// How a session ends that was handed over.
pub const END_REASON: &str = "handoff";
/// For how long a record waits while another turn holds the session.
const HELD_WAIT: Duration = Duration::from_secs(20);
/// For how long a turn waits while a record beside it is stored.
const OWN_WAIT: Duration = Duration::from_millis(500);
/// Between two looks at it.
const HELD_LOOK: Duration = Duration::from_millis(10);

/// The conversation that a workspace stands for on the command line.
pub fn lane_of(workspace: &Workspace) -> Option<Lane> {
    let place = Place::Cli { git_root: workspace.git_root.as_deref(), cwd: &workspace.cwd };
    lane(&place, PerUser::default())
}

impl Services {
    /// The handoffs of this home.
    pub fn handoffs(&self) -> Handoffs {
        Handoffs::new(self.store.clone(), self.home.handoffs_dir(), self.env.clone())
    }

    /// A build, ready to run on any thread.
    pub fn hand_off(&self, session: &SessionId, focus: Option<&str>) -> HandoffJob {
        let handoffs = self.handoffs();
        let confidential = handoffs.is_confidential(self.confidential_variable());
        let names = ["USER", "LOGNAME"].iter().filter_map(|name| self.variables.get(name));
        HandoffJob {
            pass: Policy::of(&self.config).pass(),
            redactor: self.redactor.clone(),
            focus: focus.map(str::to_owned),
            names: names.filter(|name| name.len() > 2).map(str::to_owned).collect(),
            helper: self.capsule_writer(Some(session), confidential),
            session: session.clone(),
            confidential,
            handoffs,
        }
    }

    /// Tries everyone who may write with a tiny request. It holds nothing of any session and is in
    /// no session's ledger.
    ///
    /// # Errors
    /// How it failed.
    pub async fn try_capsule_writer(&self) -> Result<String, WriterError> {
        check_writer(&self.capsule_writer(None, false)).await
    }

    /// The value of the switch for confidential lanes.
    pub fn confidential_variable(&self) -> Option<&str> {
        self.variables.get("HANDOFF_CONFIDENTIAL")
    }

    fn capsule_writer(&self, session: Option<&SessionId>, confidential: bool) -> Helper {
        let config = &self.config;
        let timeout =
            config.auxiliary.timeout(TASK).max(config.compression.context_timeout_seconds).max(1);
        Helper {
            candidates: self.candidates(TASK, None),
            // Connections belong to the runtime that made them, and a build has its own.
            client: self.fresh_client(),
            store: self.store.clone(),
            env: self.env.clone(),
            session: session.cloned(),
            retries: config.auxiliary.transient_retries,
            backoff: self.backoff,
            timeout: Duration::from_secs(timeout),
            confidential,
        }
    }
}

/// A build with all that it needs.
pub struct HandoffJob {
    handoffs: Handoffs,
    session: SessionId,
    focus: Option<String>,
    pass: Box<dyn Prepass>,
    redactor: Redactor,
    confidential: bool,
    names: Vec<String>,
    helper: Helper,
}

impl HandoffJob {
    /// Builds the capsule and leaves it pending.
    pub async fn run(self) -> BuildResult {
        let confidential = self
            .confidential
            .then_some(Confidential { scrubber: Some(&Mechanical), names: &self.names });
        let wanted = Build {
            session: &self.session,
            lane: None,
            focus: self.focus.as_deref(),
            prepass: &*self.pass,
            redactor: &self.redactor,
            confidential,
        };
        build(&self.handoffs, wanted, &self.helper).await
    }
}

/// Ends a session that was handed over. The first reason wins.
///
/// # Errors
/// If another process holds it, or the store cannot be written.
pub fn close_session(store: &Store, env: &dyn Env, session: &SessionId) -> Result<(), StoreError> {
    let ended = Ended { at: env.now(), reason: END_REASON.to_owned() };
    let patch = SessionPatch { ended: Some(ended), ..SessionPatch::default() };
    with_session(store, session, vec![Record::Patch(patch)])
}

/// Adds to a capsule what was said since, and ends its session: the capsule comes first.
///
/// # Errors
/// If the session cannot be ended; the capsule is there.
pub fn finish(services: &Services, result: BuildResult) -> Result<BuildResult, HandoffError> {
    let handoffs = services.handoffs();
    let newer = match &result.capsule {
        Some(id) => handoffs.add_what_was_said_since(id, &services.redactor)?,
        None => None,
    };
    let result = match newer {
        Some(newer) => BuildResult { hint: result.hint, ..newer },
        None => result,
    };
    close_session(&services.store, &*services.env, &result.session_id)?;
    Ok(result)
}

/// Opens a session. What this process itself does beside its turns (a capsule, a title) holds it for
/// single records, and is waited for.
///
/// # Errors
/// If it is held, or the store refuses.
pub(crate) fn open_session(
    store: &Store,
    session: &SessionId,
    seen: Seq,
) -> Result<SessionWriter, StoreError> {
    let until = Instant::now() + OWN_WAIT;
    loop {
        match store.open_known(session, seen) {
            Err(StoreError::Held { by, .. })
                if by.pid == std::process::id() && Instant::now() < until =>
            {
                std::thread::sleep(HELD_LOOK);
            }
            opened => return opened,
        }
    }
}

/// Stores records of a session that may be in use for a moment.
fn with_session(
    store: &Store,
    session: &SessionId,
    records: Vec<Record>,
) -> Result<(), StoreError> {
    let until = Instant::now() + HELD_WAIT;
    let mut writer = loop {
        match store.open_session(session) {
            Ok(writer) => break writer,
            Err(StoreError::Held { .. }) if Instant::now() < until => {
                std::thread::sleep(HELD_LOOK);
            }
            Err(error) => return Err(error),
        }
    };
    let _where = writer.commit(records)?;
    writer.release()
}

/// The auxiliary client as a writer of capsules.
struct Helper {
    candidates: Result<Vec<Candidate>, JobError>,
    client: Client,
    store: Store,
    env: Arc<dyn Env>,
    /// Whose ledger the attempts go to.
    session: Option<SessionId>,
    retries: u32,
    backoff: Backoff,
    timeout: Duration,
    confidential: bool,
}

impl Writer for Helper {
    async fn write(&self, prompt: &Prompt) -> Result<Written, WriterError> {
        // A call cannot move between threads, so it gets one. The build waits for nothing else.
        std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| other(&error.to_string()))?
                    .block_on(self.ask(prompt))
            });
            call.join().unwrap_or_else(|_| Err(other("the writer's thread ended early")))
        })
    }
}

impl Helper {
    async fn ask(&self, prompt: &Prompt) -> Result<Written, WriterError> {
        let candidates = self.candidates.as_ref().map_err(failed)?;
        let unknown = SessionId::new("none");
        let mut place = JobPlace {
            session: self.session.as_ref().unwrap_or(&unknown),
            turn: hermes_core::TurnNo(0),
            generation: hermes_core::GenerationNo(0),
            cut: Seq(0),
            compactions: 0,
            renderer: RENDERER,
        };
        if let Some(session) = &self.session {
            let unreadable = |error: StoreError| other(&error.to_string());
            let history = self.store.history(session).map_err(unreadable)?;
            let info = self.store.session(session).map_err(unreadable)?;
            place.turn = history.rows.iter().map(|row| row.turn).max().unwrap_or_default();
            place.generation = history.head.unwrap_or_default();
            place.cut = history.last_seq;
            place.compactions = info.map_or(0, |info| info.compactions);
        }
        let fitting = |candidate: &Candidate| JobPrompt {
            system: prompt.system.clone(),
            user: fitted(&prompt.user, candidate.window),
        };
        let job = Job {
            task: TASK,
            candidates,
            prompt: &fitting,
            place,
            retries: self.retries,
            backoff: self.backoff,
            timeout: self.timeout,
            env: &*self.env,
        };
        let mut recorder = Beside { store: &self.store, session: self.session.as_ref() };
        let call = self.client.job(&job, &mut recorder);
        let answer = if self.confidential {
            // A provider's message may quote what it was sent.
            call.with_subscriber(NoSubscriber::default()).await
        } else {
            call.await
        };
        let answer = answer.map_err(|error| failed(&error))?;
        match answer.finish {
            Finish::Length => Err(WriterError::bare(WriterFault::CutOff)),
            Finish::ContentFilter => Err(WriterError::bare(WriterFault::Refused)),
            Finish::Stop | Finish::ToolCalls | Finish::Other(_) => {
                Ok(Written { text: answer.text, model: answer.model.to_string() })
            }
        }
    }
}

/// What a failed job means for a capsule.
fn failed(error: &JobError) -> WriterError {
    let detail = error.to_string();
    match error {
        JobError::NoCandidate(_) | JobError::Disabled(_) => {
            WriterError { fault: WriterFault::NoCandidate, detail }
        }
        JobError::NotRecorded(_) => other(&detail),
        JobError::Failed(failures) => failures.last().map_or_else(
            || other(&detail),
            |PlaceFailure { class, status, .. }| {
                WriterError::of_class(*class, *status, detail.as_str())
            },
        ),
    }
}

fn other(detail: &str) -> WriterError {
    WriterError { fault: WriterFault::Other, detail: detail.to_owned() }
}

/// The message, cut in its middle where a window is too small for it.
fn fitted(user: &str, window: Option<u64>) -> String {
    let Some(window) = window else { return user.to_owned() };
    // A tenth is left for what an estimate is wrong by, and room for instructions and answer.
    let room = (window / 10 * 9).saturating_sub(4_000).max(1_000);
    let tokens = estimate_tokens(user);
    if tokens <= room {
        return user.to_owned();
    }
    let chars = user.chars().count() as u64;
    let half = usize::try_from(chars.saturating_mul(room) / tokens / 2).unwrap_or(usize::MAX);
    let start: String = user.chars().take(half).collect();
    let all: Vec<char> = user.chars().collect();
    let end: String = all[all.len().saturating_sub(half)..].iter().collect();
    format!("{start}\n[... the middle is left out: it does not fit the model's window ...]\n{end}")
}

/// A ledger of a session that others may write to meanwhile.
pub(crate) struct Beside<'a> {
    pub(crate) store: &'a Store,
    pub(crate) session: Option<&'a SessionId>,
}

impl Beside<'_> {
    fn record(&self, records: Vec<Record>) -> Result<(), RecordError> {
        let Some(session) = self.session else { return Ok(()) };
        with_session(self.store, session, records).map_err(|error| RecordError(error.to_string()))
    }
}

impl AttemptRecorder for Beside<'_> {
    fn started(&mut self, attempt: Attempt, profile: &WireProfile) -> Result<(), RecordError> {
        self.record(vec![Record::Profile(profile.clone()), Record::AttemptStarted(attempt)])
    }

    fn failed(&mut self, end: AttemptEnd) -> Result<(), RecordError> {
        self.record(vec![Record::AttemptEnded(end)])
    }
}

/// Which capsule a session is to have.
enum Wanted<'a> {
    ById(&'a str),
    OfLane(Lane),
}

impl Conversation {
    /// The capsule that this session's first turn is to receive. One that cannot be given now
    /// stays for the next session, and the person is told.
    pub(crate) fn offered(&self, services: &Services, sink: &dyn EventSink) -> Option<Offer> {
        let handoffs = services.handoffs();
        let offer = match self.wanted_capsule(services)? {
            Wanted::ById(id) => handoffs.offer_by_id(id, &self.id),
            Wanted::OfLane(lane) => handoffs.offer(&lane, &self.id, self.options.start),
        };
        offer.unwrap_or_else(|error| {
            tracing::warn!(session = %self.id, %error, "no capsule could be offered");
            let text = format!("the capsule that waits cannot be given to this session: {error}");
            notice(sink, NoticeLevel::Warning, text);
            None
        })
    }

    /// The capsule that the first turn would receive if it were said now. Nothing is changed.
    pub fn waiting_capsule(&self, services: &Services) -> Option<Offer> {
        let handoffs = services.handoffs();
        let waiting = match self.wanted_capsule(services)? {
            Wanted::ById(id) => handoffs.waiting_by_id(id, &self.id),
            Wanted::OfLane(lane) => handoffs.waiting(&lane, &self.id, self.options.start),
        };
        waiting.unwrap_or_default()
    }

    /// Where a capsule for this session would come from; None if it is to have none.
    fn wanted_capsule(&self, services: &Services) -> Option<Wanted<'_>> {
        if self.is_stored() || self.options.child_of.is_some() {
            return None;
        }
        match &self.options.capsule {
            Some(id) => Some(Wanted::ById(id)),
            None if !Policy::of(&services.config).delivers() => None,
            None => lane_of(self.workspace()).map(Wanted::OfLane),
        }
    }

    /// Puts a capsule into a user row: the one that is offered, or the one that this session was
    /// given with a row that was taken back since.
    pub(crate) fn add_capsule(
        &self,
        row: &mut Row,
        offer: Option<&Offer>,
        last: &mut Seq,
    ) -> Result<(), AgentError> {
        let (seq, now) = (last.next(), row.created_at);
        let part = match offer {
            Some(offer) => Some(offer.part(row.seq, seq, now)),
            None if self.is_stored() => carried_over(&self.rows, &self.view()?)
                .map(|capsule| capsule.part(row.seq, seq, now)),
            None => None,
        };
        if let Some(part) = part {
            *last = seq;
            row.parts.push(part);
            row.parts.sort_by_key(|part| (part.slot, part.seq));
        }
        Ok(())
    }

    /// Stores the first user row with the capsule in it; without, if it cannot be given any more.
    pub(crate) fn commit_with_capsule(
        &mut self,
        services: &Services,
        mut records: Vec<Record>,
        row: &mut Row,
        offer: &Offer,
        sink: &dyn EventSink,
    ) -> Result<(), AgentError> {
        records.push(offer.record(row.seq));
        let unsaved = self.unsaved.clone();
        match self.commit(services, records.clone(), sink) {
            Err(AgentError::Store(error @ StoreError::CapsuleNotClaimed { .. })) => {
                tracing::info!(session = %self.id, %error, "the turn goes on without a capsule");
                self.unsaved = unsaved;
                row.parts.retain(|part| part.origin != hermes_core::Origin::Capsule);
                return self.commit(services, without_capsule(records), sink);
            }
            other => other?,
        }
        let handoffs = services.handoffs();
        let id = &offer.record.id;
        if let Err(error) = handoffs.delivered(id) {
            // The next look at the folder removes the note.
            tracing::warn!(capsule = id, %error, "the note of a delivered capsule stays");
        }
        let path = handoffs.capsule_path(&offer.record);
        notice(sink, NoticeLevel::Info, offer.sentence(Path::new(&path)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hermes_core::ErrorClass;

    use super::*;

    fn place(class: ErrorClass, status: Option<u16>) -> PlaceFailure {
        PlaceFailure {
            provider: "mine".into(),
            model: "small".into(),
            class,
            status,
            message: "it did not go".to_owned(),
            tries: 1,
            retry_after: None,
        }
    }

    #[test]
    fn what_became_of_a_job_is_told_as_a_fault_of_the_writer() {
        let fault = |error: &JobError| failed(error).fault;
        let of = |class, status| fault(&JobError::Failed(vec![place(class, status)]));
        for (found, wanted) in [
            (fault(&JobError::NoCandidate(Vec::new())), WriterFault::NoCandidate),
            (fault(&JobError::Disabled(TASK.to_owned())), WriterFault::NoCandidate),
            (fault(&JobError::NotRecorded("held".to_owned())), WriterFault::Other),
            (of(ErrorClass::Auth, Some(401)), WriterFault::Unauthorized),
            (of(ErrorClass::Quota, Some(402)), WriterFault::PaymentRequired),
            (of(ErrorClass::RateLimit, Some(429)), WriterFault::RateLimited),
            (of(ErrorClass::Timeout, None), WriterFault::Timeout),
            (of(ErrorClass::Disconnected, None), WriterFault::ConnectionLost),
            (of(ErrorClass::Malformed, Some(200)), WriterFault::Empty),
        ] {
            assert_eq!(found, wanted);
        }
        let told = failed(&JobError::Failed(vec![place(ErrorClass::Auth, Some(401))]));
        assert!(told.detail.contains("mine/small answered 401"), "{}", told.detail);
    }

    #[test]
    fn a_dialogue_that_does_not_fit_a_window_keeps_its_beginning_and_its_end() {
        let dialogue = format!("first {} last", "word ".repeat(20_000));
        assert_eq!(fitted(&dialogue, None), dialogue);
        assert_eq!(fitted(&dialogue, Some(1_000_000)), dialogue);
        let cut = fitted(&dialogue, Some(8_000));
        assert!(cut.starts_with("first ") && cut.ends_with(" last"), "{}", cut.len());
        assert!(estimate_tokens(&cut) < 8_000, "{}", estimate_tokens(&cut));
    }
}
