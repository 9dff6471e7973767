//! `hermes handoff`: capsules that carry a conversation from one session to the next.

use hermes_agent::Services;
use hermes_agent::handoff::finish;
use hermes_core::SessionId;
use hermes_handoff::capsule::referenced;
use hermes_handoff::section::{self, Section};
use hermes_handoff::trigger::WrapUp;
use hermes_handoff::{BuildResult, HandoffError, Handoffs, Policy, Status, Verified};
use hermes_home::Loaded;
use hermes_store::{CapsuleRecord, CapsuleState, OpenMode, SessionInfo, Store};
use serde_json::{Value, json};

use crate::app::{App, LATEST};
use crate::cli::Handoff;
use crate::commands::{chat, nightly};
use crate::exit::{Exit, Failure};
use crate::{out, plugged};

/// Carries out one of the commands.
///
/// # Errors
/// If the store cannot be used, or what is named does not exist.
pub fn run(app: &App, command: Handoff) -> anyhow::Result<Exit> {
    match command {
        Handoff::Build { session_id, focus, json } => {
            build(app, &session_id, focus.as_deref(), json)
        }
        Handoff::List { all, json } => list(app, all, json),
        Handoff::Show { capsule, json } => show(app, &capsule, json),
        Handoff::Verify { capsule, json } => verify(app, &capsule, json),
        Handoff::Deliver { capsule, say } => deliver(app, &capsule, &say),
        Handoff::Discard { capsule } => discard(app, &capsule),
        Handoff::Check { json } => check(app, json),
        Handoff::Nightly { dry_run, limit, json } => nightly::run(app, dry_run, limit, json),
    }
}

/// The handoffs of a home.
pub fn handoffs(app: &App, store: &Store) -> Handoffs {
    Handoffs::new(store.clone(), app.home.handoffs_dir(), app.env.clone())
}

/// Brings store and folder into agreement; says what was done.
pub fn reconcile(handoffs: &Handoffs) {
    match handoffs.reconcile() {
        Ok(fixes) => {
            for fix in fixes {
                out::note(format!("note: capsule {}: {}", fix.capsule, fix.what));
            }
        }
        Err(error) => out::note(format!("warning: {error}")),
    }
}

/// What a build comes to for a script.
const fn exit_of(status: Status) -> Exit {
    match status {
        Status::Ok => Exit::Ok,
        Status::Fallback => Exit::Fallback,
        Status::NoSession => Exit::NotFound,
        _ => Exit::Failure,
    }
}

/// The services that ask a writer, of a session's model; they store nothing.
///
/// # Errors
/// If configuration or store cannot be used.
pub fn services(app: &App, session: Option<&SessionId>) -> anyhow::Result<Services> {
    open(app, app.reader()?, session, App::services)
}

/// The services for a build of a session, with the plugins that are enabled, for it may end one.
///
/// # Errors
/// As [`services`].
pub fn plugged_services(app: &App, session: Option<&SessionId>) -> anyhow::Result<Services> {
    open(app, app.store(OpenMode::ReadWrite)?, session, App::plugged_services)
}

type Open = fn(&App, Loaded, Store, Option<&SessionInfo>) -> anyhow::Result<Services>;

fn open(
    app: &App,
    store: Store,
    session: Option<&SessionId>,
    open: Open,
) -> anyhow::Result<Services> {
    let loaded = app.config()?;
    let info = match session {
        Some(id) => store.session(id)?,
        None => None,
    };
    open(app, loaded, store, info.as_ref())
}

fn build(app: &App, reference: &str, focus: Option<&str>, as_json: bool) -> anyhow::Result<Exit> {
    let result = match app.store(OpenMode::ReadWrite) {
        Ok(store) => {
            // A session that is not there is a result of its own.
            let session = app.own_session(&store, reference).map(|info| info.id);
            store.close();
            let session = session.unwrap_or_else(|error| {
                if reference == LATEST {
                    out::note(format!("{error}"));
                }
                SessionId::new(reference)
            });
            let services = plugged_services(app, Some(&session))?;
            let result = chat::runtime()?.block_on(services.hand_off(&session, focus).run());
            plugged::over(&services)?;
            services.store.close();
            result
        }
        Err(error) => {
            let why = format!("{error:#}");
            BuildResult::none(SessionId::new(reference), Status::WriteFailed, Some(why))
        }
    };
    if as_json {
        out::json(&result)?;
    } else if result.status == Status::Ok {
        out::line(result.sentence())?;
    } else {
        out::note(result.sentence());
    }
    Ok(exit_of(result.status))
}

/// The handoff that a message of one process asks for: the same as in a conversation at a terminal.
///
/// # Errors
/// If no session is named, or the store cannot be used.
pub fn wrap_up(app: &App, wanted: &WrapUp) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let session = app.wanted_session(&store)?;
    store.close();
    let Some(session) = session else {
        let text = "there is nothing to hand over, for this would be a new session; hint: `hermes -c \
                    chat -q handoff` hands over the latest one here";
        return Err(Failure::new(Exit::NotFound, text).into());
    };
    out::note(format!("Writing the handoff of session {}.", session.id));
    let services = plugged_services(app, Some(&session.id))?;
    let focus = wanted.focus.as_deref();
    let result = chat::runtime()?.block_on(services.hand_off(&session.id, focus).run());
    let result = if result.status.is_built() && Policy::of(&services.config).close {
        finished(&services, result).0
    } else {
        result
    };
    plugged::over(&services)?;
    services.store.close();
    out::note(result.sentence());
    Ok(exit_of(result.status))
}

/// Adds to a capsule what was said since and ends its session, or says why that stays open; whether
/// it ended.
pub fn finished(services: &Services, result: BuildResult) -> (BuildResult, bool) {
    match finish(services, result.clone()) {
        Ok(newer) => (newer, true),
        Err(error) => {
            out::note(format!("warning: session {} stays open: {error}", result.session_id));
            (result, false)
        }
    }
}

fn list(app: &App, all: bool, as_json: bool) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let handoffs = handoffs(app, &store);
    reconcile(&handoffs);
    let listed = handoffs.list()?;
    if as_json {
        out::json(&listed)?;
        return Ok(Exit::Ok);
    }
    let rows = listed
        .into_iter()
        .filter(|it| all || it.record.state == CapsuleState::Pending)
        .map(|it| {
            let CapsuleRecord { id, state, status, reason, session, created_at, lane, .. } =
                it.record;
            let writer = it.facts.map(|facts| facts.writer).unwrap_or_default();
            vec![
                id,
                state.as_str().to_owned(),
                status,
                session.to_string(),
                created_at.to_string(),
                writer,
                lane.map_or_else(|| "by id".to_owned(), |lane| lane.key().to_owned()),
                reason.unwrap_or_default(),
            ]
        })
        .collect();
    let empty =
        if all { "no capsule was ever built" } else { "no capsule waits (--all lists all)" };
    let head = ["capsule", "state", "status", "session", "built (UTC)", "writer", "lane", "cause"];
    out::table(&head, rows, empty)?;
    Ok(Exit::Ok)
}

/// A capsule by its reference.
fn capsule(handoffs: &Handoffs, reference: &str) -> anyhow::Result<CapsuleRecord> {
    match handoffs.resolve(reference) {
        Err(error @ (HandoffError::NotFound { .. } | HandoffError::Ambiguous { .. })) => {
            Err(Failure::new(Exit::NotFound, error.to_string()).into())
        }
        other => Ok(other?),
    }
}

fn show(app: &App, reference: &str, as_json: bool) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let handoffs = handoffs(app, &store);
    let record = capsule(&handoffs, reference)?;
    let text = handoffs.show(&record)?;
    if as_json {
        let facts: Value = serde_json::from_str(&record.facts).unwrap_or_default();
        let body = section::read(text.as_deref().unwrap_or_default()).body;
        let sections: Vec<Value> = Section::ALL
            .into_iter()
            .map(|section| json!({ "heading": section.heading(), "text": body.get(section) }))
            .collect();
        out::json(&json!({
            "record": record, "facts": facts, "sections": sections,
            "references": referenced(&body), "text": text
        }))?;
        return Ok(Exit::Ok);
    }
    match text {
        Some(text) => out::line(text.trim_end())?,
        None => out::note(format!(
            "the text of capsule {} is gone: it is {}",
            record.id,
            record.state.as_str()
        )),
    }
    Ok(Exit::Ok)
}

fn verify(app: &App, reference: &str, as_json: bool) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let handoffs = handoffs(app, &store);
    let record = capsule(&handoffs, reference)?;
    let verified = handoffs.verify(&record)?;
    if as_json {
        out::json(&json!({ "capsule": record.id, "text": verified, "state": record.state }))?;
    } else {
        let what = match verified {
            Verified::AsWritten => "stands as it was written, byte for byte",
            Verified::Edited => "was changed by a person; its sections are there",
            Verified::EditedBeyondForm => "was changed by a person; its sections are not all there",
            Verified::Gone => "has no text any more",
        };
        out::line(format!("capsule {} {what}", record.id))?;
    }
    Ok(if verified == Verified::AsWritten { Exit::Ok } else { Exit::Unproven })
}

fn deliver(app: &App, reference: &str, say: &str) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let handoffs = handoffs(app, &store);
    reconcile(&handoffs);
    let record = capsule(&handoffs, reference)?;
    if record.state != CapsuleState::Pending {
        let text = format!(
            "capsule {} is {} and is given only once; hint: build a new one with `hermes handoff \
             build`",
            record.id,
            record.state.as_str()
        );
        return Err(Failure::new(Exit::Failure, text).into());
    }
    store.close();
    chat::with_capsule(app, record.id, say)
}

fn discard(app: &App, reference: &str) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let handoffs = handoffs(app, &store);
    let record = capsule(&handoffs, reference)?;
    let was = handoffs.discard(&record, "discarded by a person")?;
    store.close();
    if was {
        out::line(format!("capsule {} is discarded and will not be given", record.id))?;
        return Ok(Exit::Ok);
    }
    let text = format!("capsule {} is {} already", record.id, record.state.as_str());
    Err(Failure::new(Exit::Failure, text).into())
}

fn check(app: &App, as_json: bool) -> anyhow::Result<Exit> {
    let services = services(app, None)?;
    let tried = chat::runtime()?.block_on(services.try_capsule_writer());
    services.store.close();
    match tried {
        Ok(model) => {
            if as_json {
                out::json(&json!({ "status": "ok", "model": model }))?;
            } else {
                out::line(format!("{model} wrote a capsule of the right shape"))?;
            }
            Ok(Exit::Ok)
        }
        Err(error) => {
            let hint = error.fault.hint();
            let why = services.redactor.redact(&error.to_string()).into_owned();
            if as_json {
                out::json(&json!({
                    "status": "failed", "fault": error.fault, "reason": why, "hint": hint
                }))?;
                return Ok(Exit::Provider);
            }
            let text = format!("no capsule could be written now: {why}; hint: {hint}");
            Err(Failure::new(Exit::Provider, text).into())
        }
    }
}
