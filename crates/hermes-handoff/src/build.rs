//! Building a capsule: read, ask, check or do without, scrub, store, write.
//!
//! Invariants: a build always comes to a result, and a result that had to do without its writer
//! says so; of a confidential lane nothing reaches the store, the folder or the log before it was
//! scrubbed; what a writer's client says about a failure is masked, and left out in a confidential
//! lane.

use hermes_core::{Digest, Lane, SessionId, Timestamp};
use hermes_home::FileLock;
use hermes_home::redact::Redactor;
use hermes_store::{CapsuleState, NewCapsule, SessionInfo, StoreError};

use crate::before::Previous;
use crate::capsule::{
    CONFIDENTIAL, Capsule, Coverage, Facts, Limits, ORDINARY, VERSION, fixed_body,
};
use crate::handoffs::{Handoffs, WAITS_MILLIS};
use crate::prepass::{self, Prepass};
use crate::prompt::{self, PromptInput};
use crate::result::{BuildResult, Status};
use crate::scrub::{Scrubber, Secrets};
use crate::section::{Body, Section};
use crate::source::{Source, Speaker, dialogue};
use crate::validate::{self, Verdict, quote};
use crate::writer::{Writer, WriterError, WriterFault, Written};
use crate::{HandoffError, deterministic, lane, references};

/// Fewer messages are not handed over.
pub const LEAST_MESSAGES: usize = 4;
/// Most characters of the explanation of a failure.
const LONGEST_REASON: usize = 300;
/// Characters of what was said after the cut-off: of one turn, and of all.
const SINCE_TURN: usize = 1_000;
const SINCE_ALL: usize = 3_000;

/// What is to be built.
pub struct Build<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// The conversation it is for, where it is not the session's own.
    pub lane: Option<&'a Lane>,
    /// What the person wants the capsule to dwell on.
    pub focus: Option<&'a str>,
    /// The marking pass.
    pub prepass: &'a dyn Prepass,
    /// Masks secrets in all that is read and written.
    pub redactor: &'a Redactor,
    /// The rules for a confidential lane, if it is one.
    pub confidential: Option<Confidential<'a>>,
}

/// What a confidential lane needs.
#[derive(Clone, Copy)]
pub struct Confidential<'a> {
    /// Takes out what must not leave the session; without one the build is refused.
    pub scrubber: Option<&'a dyn Scrubber>,
    /// Names that the surface knows: of the people who write, of the chat.
    pub names: &'a [String],
}

/// Builds a capsule and leaves it pending.
pub async fn build<W: Writer>(handoffs: &Handoffs, build: Build<'_>, writer: &W) -> BuildResult {
    let result = run(handoffs, &build, writer).await.unwrap_or_else(|ended| *ended);
    log(&result);
    result
}

/// One line a build. Nothing of the session but its id and its size.
fn log(result: &BuildResult) {
    let lane = result.lane.as_deref().unwrap_or("(none)");
    let (status, messages) = (result.status.word(), result.messages);
    let session = &result.session_id;
    let reason = result.reason.as_deref().unwrap_or("");
    if result.status.is_built() {
        tracing::info!(%session, lane, messages, status, reason, "capsule built");
    } else {
        tracing::warn!(%session, lane, messages, status, reason, "no capsule");
    }
}

/// What is known before the writer is asked.
struct Opened {
    source: Source,
    lane: Option<Lane>,
    stem: Option<String>,
    previous: Option<Previous>,
    limits: Limits,
    secrets: Secrets,
    seen: Seen,
}

/// By what it is told that nothing was said since: messages and moment.
type Seen = (u64, Timestamp);

const fn seen(info: &SessionInfo) -> Seen {
    (info.message_count, info.last_activity_at)
}

async fn run<W: Writer>(
    handoffs: &Handoffs,
    build: &Build<'_>,
    writer: &W,
) -> Result<BuildResult, Box<BuildResult>> {
    let opened = open(handoffs, build)?;
    let fail = |status, reason: &str| ended(build, Some(&opened), status, Some(reason));
    // Held to the end of the build.
    let stem = opened.stem.clone().unwrap_or_else(|| lane::stem_of_id(build.session.as_str()));
    let _building = match handoffs.begin(&stem) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Err(fail(Status::Busy, "a capsule of this lane is being built")),
        Err(error) => return Err(fail(Status::WriteFailed, &told(build, &error))),
    };
    let references = build.confidential.is_none();
    let marked = match build.confidential {
        Some(_) => Vec::new(),
        None => prepass::run(build.prepass, &opened.source.turns).await,
    };
    let read = dialogue(&opened.source.turns, opened.limits.read, &marked, references);
    let previous = opened.previous.as_ref().map(|it| without_references(&it.body).render());
    let input = PromptInput {
        dialogue: &read.text,
        previous: previous.as_deref(),
        focus: build.focus,
        limits: (opened.limits.words, opened.limits.chars),
    };
    let asked = if references { prompt::prompt(input) } else { prompt::confidential_prompt(input) };
    let answer = writer.write(&asked).await;
    let made = match build.confidential {
        None => Ok(ordinary(build, &opened, answer)),
        Some(confidential) => confidential_body(confidential, &opened, answer),
    };
    let made = match made {
        Ok(made) => made,
        Err(reason) => return Err(fail(Status::ScrubFailed, &reason)),
    };
    let coverage = Coverage {
        turns_read: read.turns,
        turns: opened.source.messages(),
        chars: read.total_chars,
    };
    store(handoffs, build, &opened, made, coverage).map_err(|error| match error {
        HandoffError::Store(StoreError::Deleted { .. }) => {
            fail(Status::NoSession, "the session was deleted meanwhile")
        }
        other => fail(Status::WriteFailed, &told(build, &other)),
    })
}

/// A body and where it is from.
struct Made {
    body: Body,
    verdict: Verdict,
    writer: String,
    fault: Option<(WriterFault, String)>,
}

fn open(handoffs: &Handoffs, build: &Build<'_>) -> Result<Opened, Box<BuildResult>> {
    let fail = |status, reason: &str| ended(build, None, status, Some(reason));
    let confidential = build.confidential.is_some();
    if build.confidential.is_some_and(|confidential| confidential.scrubber.is_none()) {
        return Err(fail(Status::ConfidentialUnsupported, "no_scrub"));
    }
    let no_session = || fail(Status::NoSession, "there is no such session");
    let unreadable = |error: StoreError| fail(Status::WriteFailed, &told(build, &error.into()));
    let info = handoffs.store.session(build.session).map_err(unreadable)?;
    let info = info.ok_or_else(no_session)?;
    let source = Source::load(&handoffs.store, build.session, build.redactor);
    let source = source.map_err(unreadable)?.ok_or_else(no_session)?;
    let lane = build.lane.or(source.lane.as_ref()).cloned();
    let stem = lane.as_ref().map(|lane| lane::stem(lane, confidential));
    let previous = handoffs.previous(lane.as_ref(), &source, confidential);
    let limits = if confidential { CONFIDENTIAL } else { ORDINARY };
    let secrets = match build.confidential {
        Some(confidential) => secrets(&source, &info, confidential),
        None => Secrets::default(),
    };
    let seen = seen(&info);
    let opened = Opened { source, lane, stem, previous, limits, secrets, seen };
    let fail = |status, reason: &str| ended(build, Some(&opened), status, Some(reason));
    if let Some(why) = not_handed_over(&info) {
        return Err(fail(Status::Refused, why));
    }
    let messages = opened.source.exchanged();
    if messages < LEAST_MESSAGES {
        let reason = format!("it has {messages} messages, wanted at least {LEAST_MESSAGES}");
        return Err(fail(Status::TooShort, &reason));
    }
    Ok(opened)
}

/// Sessions that no person goes on with.
fn not_handed_over(info: &SessionInfo) -> Option<&'static str> {
    if crate::nightly::is_scheduled(info) {
        return Some("it is a scheduled session");
    }
    match info.parent {
        Some((_, hermes_store::ParentKind::Delegate)) => Some("it is a delegated child"),
        _ => None,
    }
}

fn ordinary(build: &Build<'_>, opened: &Opened, answer: Result<Written, WriterError>) -> Made {
    let previous = opened.previous.as_ref();
    let before = previous.map(|previous| &previous.body);
    let checked = answer.and_then(|written| {
        validate::read_answer(&written.text, previous)
            .map(|body| (body, written.model))
            .map_err(WriterError::bare)
    });
    match checked {
        Ok((body, writer)) => {
            let (body, verdict) = validate::hold_against(&body, &opened.source, before);
            Made { body, verdict, writer, fault: None }
        }
        Err(error) => Made {
            // One about this session too holds nothing that its rows do not.
            body: deterministic::body(
                &opened.source,
                previous.filter(|it| it.about != *build.session).map(|it| &it.body),
                opened.limits,
            ),
            verdict: Verdict::default(),
            writer: "deterministic".to_owned(),
            fault: Some((error.fault, reason(build, &error))),
        },
    }
}

/// Why the writer failed, in a form that may be shown.
fn reason(build: &Build<'_>, error: &WriterError) -> String {
    quote(&build.redactor.redact(&error.to_string()), LONGEST_REASON)
}

fn confidential_body(
    confidential: Confidential<'_>,
    opened: &Opened,
    answer: Result<Written, WriterError>,
) -> Result<Made, String> {
    let checked = answer.and_then(|written| {
        // Compared with what was scrubbed before, an honest successor may look poorer.
        validate::read_answer(&written.text, None)
            .map(|body| (body, written.model))
            .map_err(WriterError::bare)
    });
    match checked {
        Ok((body, writer)) => {
            let scrubber = confidential.scrubber.ok_or("no_scrub")?;
            let mut failed = None;
            let body = body.map(|_, text| {
                let (text, _) = references::keep(text, |_| false);
                scrubber.scrub(&text, &opened.secrets).unwrap_or_else(|error| {
                    failed = Some(error.to_string());
                    String::new()
                })
            });
            match failed {
                Some(reason) => Err(reason),
                None => Ok(Made { body, verdict: Verdict::default(), writer, fault: None }),
            }
        }
        Err(error) => Ok(Made {
            body: fixed_body(),
            verdict: Verdict::default(),
            writer: "fixed".to_owned(),
            fault: Some((error.fault, error.fault.sentence().to_owned())),
        }),
    }
}

/// What the session and its surface hold that must not get out.
fn secrets(source: &Source, info: &SessionInfo, confidential: Confidential<'_>) -> Secrets {
    let mut secrets = Secrets::default();
    for name in confidential.names {
        secrets.add_name(name);
    }
    for text in source.texts().chain(info.title.as_deref()) {
        secrets.learn(text);
    }
    secrets.learn_lone_names(source.turns.iter().map(|turn| turn.text.as_str()));
    secrets
}

fn without_references(body: &Body) -> Body {
    body.map(|_, text| references::keep(text, |_| false).0)
}

fn store(
    handoffs: &Handoffs,
    build: &Build<'_>,
    opened: &Opened,
    made: Made,
    coverage: Coverage,
) -> Result<BuildResult, HandoffError> {
    let mut rows = opened.source.range();
    let mut messages = opened.source.messages();
    let mut body = made.body;
    let moved = || -> Result<bool, StoreError> {
        let info = handoffs.store.session(build.session)?;
        Ok(info.is_none_or(|info| seen(&info) != opened.seen))
    };
    if build.confidential.is_none()
        && moved()?
        && let Some(now) = Source::load(&handoffs.store, build.session, build.redactor)?
    {
        messages += add_since(&mut body, &now, rows.1);
        rows.1 = now.range().1.max(rows.1);
    }
    let (fault, reason) = made.fault.map_or((None, None), |(fault, why)| (Some(fault), Some(why)));
    let facts = Facts {
        version: VERSION,
        id: new_id(handoffs),
        lane: opened.lane.clone(),
        session: build.session.clone(),
        rows,
        messages,
        created_at: handoffs.env.now(),
        status: if fault.is_some() { Status::Fallback } else { Status::Ok },
        reason,
        writer: made.writer,
        prepass: pass_name(build).to_owned(),
        coverage,
        verdict: made.verdict,
        confidential: build.confidential.is_some(),
        words: 0,
        chars: 0,
        trimmed: 0,
    };
    let hint = fault.map(|fault| fault.hint().to_owned());
    keep(handoffs, facts, &body, build.redactor, hint)
}

/// Stores a capsule as pending and writes its files.
fn keep(
    handoffs: &Handoffs,
    facts: Facts,
    body: &Body,
    redactor: &Redactor,
    hint: Option<String>,
) -> Result<BuildResult, HandoffError> {
    let body = body.map(|_, text| redactor.redact(text).into_owned());
    let capsule = Capsule::new(facts, &body);
    let facts = &capsule.facts;
    let kept = serde_json::to_string(&facts)
        .map_err(|error| HandoffError::io(handoffs.folder())(std::io::Error::other(error)))?;
    let text = capsule.render();
    let staged = handoffs.stage(&facts.id, &text)?;
    let before = handoffs.before(facts.lane.as_ref())?;
    let superseded = handoffs.store.create_capsule(NewCapsule {
        id: facts.id.clone(),
        lane: facts.lane.clone(),
        session: facts.session.clone(),
        rows: facts.rows,
        text,
        facts: kept,
        status: facts.status.word().to_owned(),
        reason: facts.reason.clone(),
        confidential: facts.confidential,
        created_at: facts.created_at,
        expires_at: facts.created_at.plus_millis(WAITS_MILLIS),
    })?;
    let Some(record) = handoffs.store.capsule(&facts.id)? else {
        return Err(HandoffError::NotFound { reference: facts.id.clone() });
    };
    // Without files nobody could see or change it: as if it had not been built.
    let withdrawn = |error: HandoffError, lock: Option<&FileLock>| {
        if let Err(error) = handoffs.withdraw(&record, before.as_ref(), lock) {
            tracing::warn!(capsule = %record.id, %error, "the note of the capsule before is not back");
        }
        error
    };
    let lock = handoffs.lock().map_err(|error| withdrawn(error, None))?;
    handoffs
        .publish(&record, Some(staged), &lock)
        .map_err(|error| withdrawn(error, Some(&lock)))?;
    drop(lock);
    if let Err(error) = handoffs.remove_elsewhere(&superseded, &record) {
        tracing::warn!(capsule = %record.id, %error, "files of the capsule before it stay");
    }
    let stem = facts.lane.as_ref().map(|lane| lane::stem(lane, facts.confidential));
    Ok(BuildResult {
        status: facts.status,
        reason: facts.reason.clone(),
        lane: stem,
        session_id: facts.session.clone(),
        messages: facts.messages,
        chars: facts.chars,
        words: facts.words,
        writer: Some(facts.writer.clone()),
        prepass: facts.prepass.clone(),
        path: Some(handoffs.capsule_path(&record)),
        capsule: Some(facts.id.clone()),
        hint,
    })
}

/// Adds what was said after row `last`, as it stands, to Next. Returns how many turns that were.
fn add_since(body: &mut Body, now: &Source, last: hermes_core::Seq) -> usize {
    let mut lines = Vec::new();
    let mut left = SINCE_ALL;
    let said: Vec<_> = now.turns_after(last).collect();
    for turn in said.iter().rev() {
        let who = match turn.speaker {
            Speaker::Person => "person",
            Speaker::Model => "model",
        };
        let text = quote(&turn.text, SINCE_TURN.min(left));
        left = left.saturating_sub(text.chars().count());
        lines.push(format!("- Said after this was written, {who}: \"{text}\" [r{}]", turn.row));
        if left < 40 {
            break;
        }
    }
    if let (left_out @ 1.., Some(first)) = (said.len() - lines.len(), said.first()) {
        let line = format!(
            "- {left_out} messages said after this was written are left out [r{}]",
            first.row
        );
        body.add_line(Section::Next, &line);
    }
    for line in lines.iter().rev() {
        body.add_line(Section::Next, line);
    }
    said.len()
}

impl Handoffs {
    /// Adds to a pending capsule what was said since it was built: to be called before its session
    /// is closed. A new capsule takes the place of the old one, so that a crash leaves one of both.
    /// None if nothing was said, if it is no longer pending, or in a confidential lane.
    ///
    /// # Errors
    /// If the store or the folder cannot be read or written; the old capsule is then still there.
    pub fn add_what_was_said_since(
        &self,
        capsule: &str,
        redactor: &Redactor,
    ) -> Result<Option<BuildResult>, HandoffError> {
        let Some(record) = self.store.capsule(capsule)? else { return Ok(None) };
        let facts: Option<Facts> = serde_json::from_str(&record.facts).ok();
        let Some(facts) = facts.filter(|facts| !facts.confidential) else { return Ok(None) };
        if record.state != CapsuleState::Pending {
            return Ok(None);
        }
        let Some(now) = Source::load(&self.store, &record.session, redactor)? else {
            return Ok(None);
        };
        if now.turns_after(facts.rows.1).next().is_none() || !self.settle_in(&record)? {
            return Ok(None);
        }
        // A person may have changed it already.
        let Some(text) = self.text(&record)? else { return Ok(None) };
        let mut body = crate::section::read(&text).body;
        let added = add_since(&mut body, &now, facts.rows.1);
        let facts = Facts {
            id: new_id(self),
            rows: (facts.rows.0, now.range().1),
            messages: facts.messages + added,
            ..facts
        };
        keep(self, facts, &body, redactor, None).map(Some)
    }
}

fn new_id(handoffs: &Handoffs) -> String {
    let Timestamp(micros) = handoffs.env.now();
    let mut random = [0; 4];
    handoffs.env.random(&mut random);
    // Unlike the clock's part, the digest's cannot be guessed from the time alone.
    let tail = Digest::of(random).short();
    format!("c{:011x}{}", micros / 1000, &tail[..6])
}

fn pass_name(build: &Build<'_>) -> &'static str {
    if build.confidential.is_some() { "none" } else { build.prepass.name() }
}

/// A fault in a form that may be shown: of a confidential lane nothing that could quote a path.
fn told(build: &Build<'_>, error: &HandoffError) -> String {
    match build.confidential {
        Some(_) => "the store or the handoffs folder could not be used".to_owned(),
        None => quote(&build.redactor.redact(&error.to_string()), LONGEST_REASON),
    }
}

fn ended(
    build: &Build<'_>,
    opened: Option<&Opened>,
    status: Status,
    reason: Option<&str>,
) -> Box<BuildResult> {
    let none = BuildResult::none(build.session.clone(), status, reason.map(str::to_owned));
    Box::new(BuildResult {
        lane: opened.and_then(|opened| opened.stem.clone()),
        messages: opened.map_or(0, |opened| opened.source.messages()),
        prepass: pass_name(build).to_owned(),
        hint: match status {
            Status::ConfidentialUnsupported => {
                Some("this lane is confidential and nothing here can scrub a text".to_owned())
            }
            Status::ScrubFailed => {
                Some("try again, or start the next session without one".to_owned())
            }
            _ => None,
        },
        ..none
    })
}
