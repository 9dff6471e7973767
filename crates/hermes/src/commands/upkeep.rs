//! `hermes sessions`: keeping house. Deleting, archiving, branches and titles, checks, repair,
//! backups. All that is deleted goes through the store's one delete function.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use hermes_core::{DeleteReason, Seq, SessionId};
use hermes_home::SessionsConfig;
use hermes_store::{
    ArchiveRequest, DeleteReceipt, DeleteRequest, OpenMode, ParentKind, RemovedSession, Selection,
    SessionInfo, SessionInit, Store, TitleSource,
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

/// The store to delete from; what only looks also looks at one that cannot be written.
///
/// # Errors
/// If it cannot be opened.
pub fn opened(app: &App, dry_run: bool) -> anyhow::Result<Store> {
    match app.store(OpenMode::ReadWrite) {
        Err(_) if dry_run => app.store(OpenMode::ReadOnly),
        other => other,
    }
}

/// What is to be deleted.
struct Wanted {
    ids: Vec<SessionId>,
    reason: DeleteReason,
    /// What chose them, where they were not named; those in use are left then.
    chosen_by: Option<String>,
}

/// Deletes sessions by name or by what they are.
///
/// # Errors
/// If one is unknown or in use, or nobody can be asked.
pub fn delete(app: &App, flags: &Delete) -> anyhow::Result<Exit> {
    let store = opened(app, flags.how.dry_run)?;
    let selection = selection(app, &flags.choice)?;
    match (flags.sessions.is_empty(), selection.is_narrow()) {
        (false, false) => {
            let ids = replayable(app, &store, &flags.sessions, flags.how.request_id.is_some())?;
            let wanted = Wanted { ids, reason: DeleteReason::Delete, chosen_by: None };
            remove(app, &store, &wanted, &flags.how)
        }
        (true, true) => {
            let ids = ids_of(&store.select(&selection)?);
            let chosen_by = Some(serde_json::to_string(&flags.choice)?);
            remove(
                app,
                &store,
                &Wanted { ids, reason: DeleteReason::Delete, chosen_by },
                &flags.how,
            )
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
    let store = opened(app, flags.how.dry_run)?;
    let mut choice = flags.choice.clone();
    if !selection(app, &choice)?.is_narrow() {
        choice.older_than = Some(RETENTION.to_owned());
    }
    let ids = ids_of(&store.select(&selection(app, &choice)?)?);
    let chosen_by = Some(serde_json::to_string(&choice)?);
    remove(app, &store, &Wanted { ids, reason: DeleteReason::Prune, chosen_by }, &flags.how)
}

/// Deletes old sessions by itself, where the settings ask for it. `open` is the conversation that
/// is left. What goes wrong waits for the next time.
pub fn retain(app: &App, store: &Store, settings: &SessionsConfig, open: &SessionId) {
    if settings.auto_prune
        && let Err(error) = retain_now(app, store, settings, open)
    {
        out::note(format!("note: old sessions are not removed ({error:#})"));
    }
}

fn retain_now(
    app: &App,
    store: &Store,
    settings: &SessionsConfig,
    open: &SessionId,
) -> anyhow::Result<()> {
    const HOUR: i64 = 3_600_000;
    if !store.is_due("prune", i64::from(settings.min_interval_hours) * HOUR)? {
        return Ok(());
    }
    let days = settings.retention_days;
    let idle_since = Some(app.env.now().plus_millis(-i64::from(days) * 24 * HOUR));
    let old = Selection { idle_since, ..Selection::default() };
    // One that is looked at now is in use, though nothing was said in it.
    let takes_open = |ids: Vec<SessionId>| {
        let mut look = DeleteRequest::new(ids, DeleteReason::Prune);
        (look.dry_run, look.skip_held) = (true, true);
        let plan = store.delete_session(look);
        plan.is_ok_and(|plan| plan.removed.iter().any(|removed| removed.id == *open))
    };
    let mut ids = ids_of(&store.select(&old)?);
    if !ids.is_empty() && takes_open(ids.clone()) {
        ids.retain(|id| !takes_open(vec![id.clone()]));
    }
    let chosen_by = Some("auto_prune".to_owned());
    let wanted = Wanted { ids, reason: DeleteReason::Prune, chosen_by };
    let how = How { yes: true, ..How::default() };
    if wanted.ids.is_empty() {
        return Ok(());
    }
    let mut receipt = store.delete_session(request(app, &wanted, &how, false))?;
    scrubbed(app, store, &mut receipt)?;
    out::note(format!(
        "note: {} sessions not used for {days} days were removed (sessions.auto_prune)",
        receipt.removed.len()
    ));
    Ok(())
}

/// Deletes sessions that never held a message.
///
/// # Errors
/// If the store cannot be written, or nobody can be asked.
pub fn sweep(app: &App, flags: &Sweep) -> anyhow::Result<Exit> {
    let store = opened(app, flags.how.dry_run)?;
    let (selection, reason) = if flags.ghosts {
        let idle_since = app.env.now().plus_millis(-GHOST_MILLIS);
        (Selection::ghosts(idle_since), DeleteReason::GhostPrune)
    } else {
        let ended = Selection { empty: true, ended: true, ..Selection::default() };
        (ended, DeleteReason::EmptySweep)
    };
    let ids = ids_of(&store.select(&selection)?);
    let chosen_by = Some(reason.as_str().to_owned());
    remove(app, &store, &Wanted { ids, reason, chosen_by }, &flags.how)
}

/// The ids of these sessions.
pub fn ids_of(sessions: &[SessionInfo]) -> Vec<SessionId> {
    sessions.iter().map(|info| info.id.clone()).collect()
}

/// The ids that names stand for. In a request with an id of its own, a name that is gone may be a
/// repetition.
///
/// # Errors
/// If one is unknown.
pub fn replayable(
    app: &App,
    store: &Store,
    names: &[String],
    may_be_gone: bool,
) -> anyhow::Result<Vec<SessionId>> {
    names
        .iter()
        .map(|name| match app.own_session(store, name) {
            Ok(info) => Ok(info.id),
            Err(_) if may_be_gone => Ok(SessionId::new(name.as_str())),
            Err(error) => Err(error),
        })
        .collect()
}

/// Deletes, and tells plugins of it.
fn remove(app: &App, store: &Store, wanted: &Wanted, how: &How) -> anyhow::Result<Exit> {
    let exit = erase(app, store, wanted, how)?;
    plugged::deliver(app, store)?;
    Ok(exit)
}

/// The folder of session files, where there is one.
pub fn sessions_dir(app: &App) -> Option<PathBuf> {
    Some(app.home.root().join("sessions")).filter(|folder| folder.is_dir())
}

fn request(app: &App, wanted: &Wanted, how: &How, dry_run: bool) -> DeleteRequest<'static> {
    DeleteRequest {
        profile: app.home.profile().to_owned(),
        request_id: how.request_id.clone(),
        sessions_dir: sessions_dir(app).map(|folder| folder.display().to_string()),
        outputs_dir: Some(app.home.outputs_dir()),
        typed_lines: Some(app.home.history_path()),
        with_derived: how.with_derived,
        skip_held: wanted.chosen_by.is_some(),
        chosen_by: wanted.chosen_by.clone(),
        dry_run,
        ..DeleteRequest::new(wanted.ids.clone(), wanted.reason)
    }
}

fn erase(app: &App, store: &Store, wanted: &Wanted, how: &How) -> anyhow::Result<Exit> {
    if how.dry_run || !how.yes {
        let plan = store.delete_session(request(app, wanted, how, true))?;
        if how.dry_run {
            return shown(&plan, "would be deleted:", how.json);
        }
        let asks = !plan.replayed && !plan.removed.is_empty();
        if asks && !confirm(store, &plan)? {
            out::note("nothing was deleted");
            return Ok(Exit::Ok);
        }
    }
    let receipt = store.delete_session(request(app, wanted, how, false))?;
    finish(app, store, receipt, how.json)
}

/// What follows a deletion: capsules, bytes, the receipt.
///
/// # Errors
/// If the receipt cannot be read or printed.
pub fn finish(
    app: &App,
    store: &Store,
    mut receipt: DeleteReceipt,
    json: bool,
) -> anyhow::Result<Exit> {
    scrubbed(app, store, &mut receipt)?;
    shown(&receipt, "deleted", json)
}

/// Has what was deleted leave the folder of capsules and the store's file, and notes when.
///
/// # Errors
/// If the receipt cannot be read.
pub fn scrubbed(app: &App, store: &Store, receipt: &mut DeleteReceipt) -> anyhow::Result<()> {
    // A capsule goes with the session that it is about.
    handoff::reconcile(&handoff::handoffs(app, store));
    if receipt.removed.is_empty() {
        return Ok(());
    }
    if let Err(error) = store.scrub() {
        out::note(format!("note: the bytes leave the file when this process ends ({error})"));
    } else if let Some(scrubbed) = store.receipt(&receipt.request_id)? {
        receipt.scrubbed_at = scrubbed.scrubbed_at;
    }
    Ok(())
}

/// Deletes the session of a conversation that is left. Its plugins run still and are told of it at
/// the end.
///
/// # Errors
/// If another process holds it, or the store cannot be written.
pub fn delete_at_exit(app: &App, store: &Store, ids: &[SessionId]) -> anyhow::Result<Exit> {
    delete_here(app, store, ids, &How::default())
}

/// Deletes sessions in a conversation, whose plugins are told of it by the caller.
///
/// # Errors
/// If another process holds one, or the store cannot be written.
pub fn delete_here(app: &App, store: &Store, ids: &[SessionId], how: &How) -> anyhow::Result<Exit> {
    let wanted = Wanted { ids: ids.to_vec(), reason: DeleteReason::Delete, chosen_by: None };
    erase(app, store, &wanted, &How { yes: true, ..how.clone() })
}

/// What a deletion of named sessions would remove.
///
/// # Errors
/// If one is unknown or in use.
pub fn plan(
    app: &App,
    store: &Store,
    ids: &[SessionId],
    how: &How,
) -> anyhow::Result<DeleteReceipt> {
    let wanted = Wanted { ids: ids.to_vec(), reason: DeleteReason::Delete, chosen_by: None };
    Ok(store.delete_session(request(app, &wanted, how, true))?)
}

fn shown(receipt: &DeleteReceipt, word: &str, json: bool) -> anyhow::Result<Exit> {
    if json {
        out::json(receipt)?;
        return Ok(Exit::Ok);
    }
    if receipt.removed.is_empty() && receipt.skipped.is_empty() {
        out::note("no session is to be deleted");
        return Ok(Exit::Ok);
    }
    list_receipt(receipt, word, "still there:", |rows, requests| {
        format!(": {rows} messages; {requests} ledger rows keep digests and counts only")
    })?;
    hint_derived(receipt);
    Ok(Exit::Ok)
}

/// Lists what went, each session with what `counts` says of its messages and requests, and what did
/// not.
pub fn list_receipt(
    receipt: &DeleteReceipt,
    word: &str,
    stays: &str,
    counts: impl Fn(u64, u64) -> String,
) -> anyhow::Result<()> {
    for RemovedSession { id, rows, requests, .. } in &receipt.removed {
        out::line(format!("{word} {id}{}", counts(*rows, *requests)))?;
    }
    for path in &receipt.files {
        out::line(format!("{word} {path}"))?;
    }
    for id in &receipt.skipped {
        out::line(format!("left, because it is in use: {id}"))?;
    }
    for remaining in &receipt.remaining {
        out::line(format!("{stays} {} {}", remaining.kind, remaining.id))?;
    }
    Ok(())
}

/// What can be done about what stays.
fn hint_derived(receipt: &DeleteReceipt) {
    let has = |kind: &str| receipt.remaining.iter().any(|remaining| remaining.kind == kind);
    if ["branch", "capsule", "backup"].into_iter().any(has) {
        out::note(
            "hint: with --with-derived branches, the text of received capsules and copies in \
             backups go as well",
        );
    }
}

/// Shows what would go and what would stay.
///
/// # Errors
/// If the store cannot be read.
pub fn show_plan(store: &Store, plan: &DeleteReceipt) -> anyhow::Result<()> {
    for removed in &plan.removed {
        let info = store.session(&removed.id)?;
        let parent = info.as_ref().and_then(|info| info.parent.as_ref());
        let with = match parent {
            Some((parent, ParentKind::Delegate)) => format!(", handed on by {parent}"),
            Some((parent, ParentKind::Compaction)) => format!(", goes on from {parent}"),
            _ => String::new(),
        };
        let title = info.as_ref().and_then(|info| info.title.as_deref()).unwrap_or("untitled");
        out::note(format!("{} ({title}, {} messages{with})", removed.id, removed.rows));
    }
    if let [_, _, ..] = plan.removed.as_slice() {
        let rows: u64 = plan.removed.iter().map(|removed| removed.rows).sum();
        out::note(format!(
            "{} sessions with {rows} messages, compaction chains and delegated work included",
            plan.removed.len()
        ));
    }
    for path in &plan.files {
        out::note(format!("file: {path}"));
    }
    for id in &plan.skipped {
        out::note(format!("stays, because it is in use: {id}"));
    }
    for remaining in &plan.remaining {
        out::note(format!("stays: {} {}", remaining.kind, remaining.id));
    }
    hint_derived(plan);
    Ok(())
}

/// Asks at the terminal; without one the flag is needed.
fn confirm(store: &Store, plan: &DeleteReceipt) -> anyhow::Result<bool> {
    show_plan(store, plan)?;
    ask("Delete for good?", "deleting")
}

/// Whether an answer is a yes.
pub fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
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
    Ok(is_yes(&answer))
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
        owner: None,
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
    let store = opened(app, flags.dry_run)?;
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
    let changed = store.archive(ArchiveRequest {
        profile: app.home.profile().to_owned(),
        sessions_dir: sessions_dir(app).map(|folder| folder.display().to_string()),
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
    names.iter().map(|name| app.own_session(store, name).map(|info| info.id)).collect()
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
    let info = app.own_session(&store, session)?;
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
    let from = app.own_session(&store, &flags.session)?;
    let history = store.history(&from.id)?;
    let cut = flags.at.map_or(history.last_seq, Seq);
    if let (Some(at), Some(first)) = (flags.at, history.rows.first().map(|row| row.seq))
        && !(first..=history.last_seq).contains(&cut)
    {
        let text = format!(
            "session {} has no row {at}, but {first} to {}; hint: `hermes sessions show {}` prints the \
             numbers",
            from.id, history.last_seq, from.id
        );
        return Err(Failure::new(Exit::NotFound, text).into());
    }
    // The view as it was then: generations that came later are not taken along.
    let reaches = |generation: &hermes_core::Generation| {
        generation.ops.iter().all(|op| match op {
            hermes_core::Op::Cover { to, by, .. } => *to <= cut && *by <= cut,
            hermes_core::Op::Hide { to, .. } => *to <= cut,
            hermes_core::Op::Swap { part, by } => *part <= cut && *by <= cut,
            hermes_core::Op::Revoke { .. } => true,
        })
    };
    let base = history.generations.iter().rev().find(|generation| reaches(generation));
    let Some(at) = base.filter(|_| !history.rows.is_empty()) else {
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
    let findings = hermes_store::check_at(&app.store_paths(), &app.env)?;
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
    let report = hermes_store::repair(&app.store_paths(), &app.env)?;
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
    for (table, rows) in &report.made_anew {
        out::line(format!("{table}: {rows} rows were made anew from what is left of them"))?;
    }
    for finding in &report.lost {
        let place = finding.session.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
        out::line(format!("lost: {place}{}", finding.what))?;
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
    app.home.ensure()?;
    if !yes && !ask("Replace the store by this backup?", "restoring")? {
        out::note("nothing was changed");
        return Ok(Exit::Ok);
    }
    let restored = hermes_store::restore(&app.store_paths(), &app.env, file)?;
    out::line(format!("restored from {}", file.display()))?;
    if let Some(kept) = restored.kept {
        out::line(format!("the former store is kept as {}", kept.display()))?;
    }
    if restored.deletions_unknown {
        out::note(
            "warning: the former store was too damaged to tell what was deleted since the backup was \
             made; it may be back",
        );
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
