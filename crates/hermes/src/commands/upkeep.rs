//! `hermes sessions`: keeping house. Deleting, archiving, branches and titles, checks, repair,
//! backups. All that is deleted goes through the store's one delete function.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use hermes_core::{DeleteReason, Seq, SessionId};
use hermes_store::{
    ArchiveRequest, DeleteReceipt, DeleteRequest, OpenMode, ParentKind, Selection, SessionInfo,
    SessionInit, Store, StorePaths, TitleSource,
};

use crate::app::App;
use crate::cli::stored::{Archive, Branch, Choice, Delete, How, Prune, Sweep};
use crate::commands::handoff;
use crate::commands::search::when;
use crate::exit::{Exit, Failure};
use crate::{out, plugged};

/// Days without use after which `prune` takes a session, where nothing is said.
const RETENTION: &str = "90d";
/// A ghost is left alone for so long.
const GHOST_MILLIS: i64 = 24 * 3600 * 1000;

/// Deletes sessions by name or by what they are.
///
/// # Errors
/// If one is unknown or in use, or nobody can be asked.
pub fn delete(app: &App, flags: &Delete) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let selection = selection(app, &flags.choice)?;
    match (flags.sessions.is_empty(), selection.is_narrow()) {
        (false, false) => {
            let ids = replayable(app, &store, &flags.sessions, &flags.how)?;
            remove(app, &store, &ids, DeleteReason::Delete, &flags.how, false)
        }
        (true, true) => {
            let ids = ids_of(&store.select(&selection)?);
            remove(app, &store, &ids, DeleteReason::Delete, &flags.how, true)
        }
        _ => Err(Failure::new(
            Exit::Usage,
            "which sessions? hint: name them, or give a filter such as --older-than 30d; not both",
        )
        .into()),
    }
}

/// Deletes old sessions.
///
/// # Errors
/// If the store cannot be written, or nobody can be asked.
pub fn prune(app: &App, flags: &Prune) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let mut choice = flags.choice.clone();
    if !selection(app, &choice)?.is_narrow() {
        choice.older_than = Some(RETENTION.to_owned());
    }
    let ids = ids_of(&store.select(&selection(app, &choice)?)?);
    remove(app, &store, &ids, DeleteReason::Prune, &flags.how, true)
}

/// Deletes sessions that never held a message.
///
/// # Errors
/// If the store cannot be written, or nobody can be asked.
pub fn sweep(app: &App, flags: &Sweep) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let (selection, reason) = if flags.ghosts {
        let idle_since = app.env.now().plus_millis(-GHOST_MILLIS);
        (Selection::ghosts(idle_since), DeleteReason::GhostPrune)
    } else {
        let ended = Selection { empty: true, ended: true, ..Selection::default() };
        (ended, DeleteReason::EmptySweep)
    };
    let ids = ids_of(&store.select(&selection)?);
    remove(app, &store, &ids, reason, &flags.how, true)
}

fn ids_of(sessions: &[SessionInfo]) -> Vec<SessionId> {
    sessions.iter().map(|info| info.id.clone()).collect()
}

/// The ids that names stand for. With a request id, a name that is gone may be a repetition.
fn replayable(
    app: &App,
    store: &Store,
    names: &[String],
    how: &How,
) -> anyhow::Result<Vec<SessionId>> {
    names
        .iter()
        .map(|name| match app.session(store, name) {
            Ok(info) => Ok(info.id),
            Err(_) if how.request_id.is_some() => Ok(SessionId::new(name.as_str())),
            Err(error) => Err(error),
        })
        .collect()
}

/// Deletes, and tells plugins of it.
fn remove(
    app: &App,
    store: &Store,
    ids: &[SessionId],
    reason: DeleteReason,
    how: &How,
    skip_held: bool,
) -> anyhow::Result<Exit> {
    let exit = erase(app, store, ids, reason, how, skip_held)?;
    plugged::deliver(app, store)?;
    Ok(exit)
}

fn erase(
    app: &App,
    store: &Store,
    ids: &[SessionId],
    reason: DeleteReason,
    how: &How,
    skip_held: bool,
) -> anyhow::Result<Exit> {
    if ids.is_empty() {
        out::note("no session is to be deleted");
        return Ok(Exit::Ok);
    }
    let sessions_dir = app.home.root().join("sessions");
    let request = |dry_run: bool| DeleteRequest {
        profile: app.home.profile().to_owned(),
        request_id: how.request_id.clone(),
        sessions_dir: sessions_dir.is_dir().then(|| sessions_dir.display().to_string()),
        with_derived: how.with_derived,
        skip_held,
        dry_run,
        ..DeleteRequest::new(ids.to_vec(), reason)
    };
    if how.dry_run {
        let plan = store.delete_session(request(true))?;
        return shown(&plan, "would be deleted:", how.json);
    }
    if !how.yes {
        let plan = store.delete_session(request(true))?;
        if !plan.replayed && !confirm(store, &plan)? {
            out::note("nothing was deleted");
            return Ok(Exit::Ok);
        }
    }
    let mut receipt = store.delete_session(request(false))?;
    // A capsule goes with the session that it is about.
    handoff::reconcile(&handoff::handoffs(app, store));
    if let Err(error) = store.scrub() {
        out::note(format!("note: the bytes leave the file when this process ends ({error})"));
    } else if let Some(scrubbed) = store.receipt(&receipt.request_id)? {
        receipt.scrubbed_at = scrubbed.scrubbed_at;
    }
    shown(&receipt, "deleted", how.json)
}

/// Deletes the session of a conversation that is left. Its plugins run still and are told of it at
/// the end.
///
/// # Errors
/// If another process holds it, or the store cannot be written.
pub fn delete_at_exit(app: &App, store: &Store, ids: &[SessionId]) -> anyhow::Result<Exit> {
    let how = How { yes: true, ..How::default() };
    erase(app, store, ids, DeleteReason::Delete, &how, false)
}

fn shown(receipt: &DeleteReceipt, word: &str, json: bool) -> anyhow::Result<Exit> {
    if json {
        out::json(receipt)?;
        return Ok(Exit::Ok);
    }
    for removed in &receipt.removed {
        let (id, rows, requests) = (&removed.id, removed.rows, removed.requests);
        out::line(format!(
            "{word} {id}: {rows} messages; {requests} ledger rows keep digests and counts only"
        ))?;
    }
    for path in &receipt.files {
        out::line(format!("{word} {path}"))?;
    }
    for id in &receipt.skipped {
        out::line(format!("left, because it is in use: {id}"))?;
    }
    for remaining in &receipt.remaining {
        out::line(format!("still there: {} {}", remaining.kind, remaining.id))?;
    }
    if !receipt.remaining.is_empty() {
        out::note("hint: --with-derived removes branches, received capsules and backup copies too");
    }
    Ok(Exit::Ok)
}

/// Asks at the terminal; without one the flag is needed.
fn confirm(store: &Store, plan: &DeleteReceipt) -> anyhow::Result<bool> {
    for removed in &plan.removed {
        let info = store.session(&removed.id)?;
        let title = info.and_then(|info| info.title).unwrap_or_else(|| "untitled".to_owned());
        out::note(format!("{} ({title}, {} messages)", removed.id, removed.rows));
    }
    ask("Delete for good?", "deleting")
}

/// Asks for a yes at the terminal.
///
/// # Errors
/// If there is no terminal to ask on.
pub fn ask(question: &str, doing: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let text =
            format!("{doing} needs a yes, and there is no terminal to ask on; hint: add --yes");
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// What the filters say; a bare number is days.
fn selection(app: &App, choice: &Choice) -> anyhow::Result<Selection> {
    let age = |flag: &str, text: &Option<String>| {
        let days = text.as_ref().map(|text| match text.parse::<u32>() {
            Ok(days) => format!("{days}d"),
            Err(_) => text.clone(),
        });
        when(app, flag, days.as_deref())
    };
    Ok(Selection {
        idle_since: age("--older-than", &choice.older_than)?,
        used_since: age("--newer-than", &choice.newer_than)?,
        started_before: when(app, "--before", choice.before.as_deref())?,
        started_after: when(app, "--after", choice.after.as_deref())?,
        source: choice.source.clone(),
        title: choice.title.clone(),
        end_reason: choice.end_reason.clone(),
        cwd: choice.in_folder.clone(),
        model: choice.with_model.clone(),
        provider: None,
        branch: choice.branch.clone(),
        min_messages: choice.min_messages,
        max_messages: choice.max_messages,
        archived: choice.include_archived,
        pinned: choice.include_pinned,
        empty: false,
        ended: false,
    })
}

/// Archives sessions, or takes them out.
///
/// # Errors
/// If one is unknown.
pub fn archive(app: &App, flags: &Archive, archived: bool) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let mut selection = selection(app, &flags.choice)?;
    let ids = match (flags.sessions.is_empty(), selection.is_narrow()) {
        (false, false) => named(app, &store, &flags.sessions)?,
        (true, true) => {
            selection.archived |= !archived;
            ids_of(&store.select(&selection)?)
        }
        _ => {
            let text = "which sessions? hint: name them, or give a filter; not both";
            return Err(Failure::new(Exit::Usage, text).into());
        }
    };
    let sessions_dir = app.home.root().join("sessions");
    let changed = store.archive(ArchiveRequest {
        profile: app.home.profile().to_owned(),
        sessions_dir: sessions_dir.is_dir().then(|| sessions_dir.display().to_string()),
        dry_run: flags.dry_run,
        ..ArchiveRequest::new(ids, archived)
    })?;
    plugged::deliver(app, &store)?;
    if flags.json {
        out::json(&changed)?;
        return Ok(Exit::Ok);
    }
    let word = match (flags.dry_run, archived) {
        (true, _) => "would change",
        (false, true) => "archived",
        (false, false) => "back in the lists",
    };
    for id in &changed {
        out::line(format!("{word} {id}"))?;
    }
    if changed.is_empty() {
        out::note("nothing changed");
    }
    Ok(Exit::Ok)
}

fn named(app: &App, store: &Store, names: &[String]) -> anyhow::Result<Vec<SessionId>> {
    names.iter().map(|name| app.session(store, name).map(|info| info.id)).collect()
}

/// Pins or unpins sessions.
///
/// # Errors
/// If one is unknown.
pub fn pin(app: &App, names: &[String], pinned: bool) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let ids = named(app, &store, names)?;
    store.set_pinned(&ids, pinned)?;
    for id in ids {
        out::line(format!("{} {id}", if pinned { "pinned" } else { "no longer pinned" }))?;
    }
    Ok(Exit::Ok)
}

/// Gives a session a title, or takes it away.
///
/// # Errors
/// If the session is unknown or the title is taken.
pub fn rename(app: &App, session: &str, title: &[String]) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let info = app.session(&store, session)?;
    let title = title.join(" ");
    let wanted = Some(title.as_str()).filter(|title| !title.trim().is_empty());
    let now = store.set_title(&info.id, wanted, TitleSource::User)?;
    out::line(format!("{}: {}", info.id, now.as_deref().unwrap_or("untitled")))?;
    Ok(Exit::Ok)
}

/// Copies a session up to a point.
///
/// # Errors
/// If the session is unknown, or holds nothing that can be gone on with.
pub fn branch(app: &App, flags: &Branch) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let from = app.session(&store, &flags.session)?;
    let history = store.history(&from.id)?;
    let cut = flags.at.map_or(history.last_seq, Seq);
    // The view as it was then: generations that came later are not taken along.
    let reaches = |generation: &hermes_core::Generation| {
        generation.ops.iter().all(|op| match op {
            hermes_core::Op::Cover { to, by, .. } => *to <= cut && *by <= cut,
            hermes_core::Op::Hide { to, .. } => *to <= cut,
            hermes_core::Op::Swap { part, by } => *part <= cut && *by <= cut,
            hermes_core::Op::Revoke { .. } => true,
        })
    };
    let Some(at) = history.generations.iter().rev().find(|generation| reaches(generation)) else {
        let text =
            format!("session {} has no history to go on from; hint: say something in it", from.id);
        return Err(Failure::new(Exit::Failure, text).into());
    };
    let init = SessionInit {
        id: SessionId::generate(&*app.env),
        source: from.source.clone(),
        lane: from.lane.clone(),
        cwd: from.cwd.clone(),
        git_root: from.git_root.clone(),
        git_branch: from.git_branch.clone(),
        model: from.model.clone(),
        provider: from.provider.clone(),
        base_url: from.base_url.clone(),
        parent: Some((from.id.clone(), ParentKind::Branch)),
        title: flags.title.clone().or_else(|| from.title.clone()),
        started_at: app.env.now(),
    };
    let writer = store.branch(&from.id, at.n, cut, init)?;
    let id = writer.id().clone();
    writer.release()?;
    if flags.json {
        let rows = store.history(&id)?.rows.len();
        out::json(&serde_json::json!({ "id": id, "from": from.id, "rows": rows }))?;
    } else {
        out::line(format!("{id} goes on from {}", from.id))?;
        out::note(format!("hint: hermes --resume {id}"));
    }
    Ok(Exit::Ok)
}

/// Checks the store.
///
/// # Errors
/// If it cannot be read.
pub fn check(app: &App, json: bool) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadOnly)?;
    let findings = store.check()?;
    if json {
        out::json(&findings)?;
    } else {
        for finding in &findings {
            let place = finding.session.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
            out::line(format!("{place}{}", finding.what))?;
        }
        if findings.is_empty() {
            out::line("nothing is wrong")?;
        } else {
            out::note("hint: hermes sessions repair works on a copy and keeps the original");
        }
    }
    Ok(if findings.is_empty() { Exit::Ok } else { Exit::Unproven })
}

/// Repairs the store.
///
/// # Errors
/// If it is in use, or nothing of it can be read.
pub fn repair(app: &App, json: bool) -> anyhow::Result<Exit> {
    let paths = StorePaths {
        db: app.home.store_path(),
        spool_dir: app.home.spool_dir(),
        drafts_dir: app.home.drafts_dir(),
    };
    let report = hermes_store::repair(&paths, &app.env)?;
    let exit = if report.left.is_empty() { Exit::Ok } else { Exit::Unproven };
    if json {
        out::json(&report)?;
        return Ok(exit);
    }
    if report.found.is_empty() {
        out::line("nothing is wrong, so nothing was done")?;
        return Ok(exit);
    }
    for finding in &report.found {
        out::line(format!("found: {}", finding.what))?;
    }
    if report.index_only {
        out::line("the search index was made anew; nothing else was wrong")?;
    }
    for (table, places) in &report.unreadable {
        out::line(format!("{table}: {places} places could not be read"))?;
    }
    if let Some(kept) = &report.kept {
        out::line(format!("the original is kept as {}", kept.display()))?;
    }
    for finding in &report.left {
        out::line(format!("still wrong: {}", finding.what))?;
    }
    Ok(exit)
}

/// Copies the store.
///
/// # Errors
/// If there is none, or no room.
pub fn backup(app: &App, file: Option<&Path>) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let path = store.backup(file)?;
    out::line(path.display().to_string())?;
    Ok(Exit::Ok)
}

/// Puts a backup in the place of the store.
///
/// # Errors
/// If the backup is damaged, or a session is in use.
pub fn restore(app: &App, file: &Path, yes: bool) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    if !yes && !ask("Replace the store by this backup?", "restoring")? {
        out::note("nothing was changed");
        return Ok(Exit::Ok);
    }
    let kept = store.restore(file)?;
    out::line(format!("restored from {}", file.display()))?;
    if let Some(kept) = kept {
        out::line(format!("the former store is kept as {}", kept.display()))?;
    }
    Ok(Exit::Ok)
}

/// Gives room back.
///
/// # Errors
/// If the store is in use.
pub fn optimize(app: &App) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let (before, after) = store.optimize()?;
    out::line(format!("{before} bytes before, {after} now"))?;
    Ok(Exit::Ok)
}
