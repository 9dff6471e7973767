//! The one delete function.
//!
//! One transaction removes everything of the sessions, their compaction chains and their delegated
//! children, leaves a tombstone of digests and counts for each, and writes the event. Branches
//! stay. The ledger keeps its rows; their texts and bodies go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hermes_core::{DeleteReason, Digest, Hasher, Origin, OutboxEvent, SessionDelete, SessionId};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::db::Doing as _;
use crate::files::SessionFiles;
use crate::lease::{self, Claim};
use crate::rows::{key_range, unreadable};
use crate::store::Store;
use crate::{
    DeleteReceipt, DeleteRequest, MovedTo, Remaining, RemovedSession, StoreError, StorePaths,
    apply, backup, capsules, codes, draft, engage, files, outputs, point, scrub, search, spool,
};

const DOING: &str = "deleting sessions";

/// The request as the writing side needs it.
struct Job {
    ids: Vec<SessionId>,
    reason: DeleteReason,
    profile: String,
    request_id: String,
    digest: Digest,
    sessions_dir: Option<String>,
    /// Leases of the caller: session and epoch.
    held: BTreeMap<SessionId, i64>,
    /// Sessions that have a writer in this process.
    held_here: BTreeSet<SessionId>,
    claim: Claim,
    dry_run: bool,
    skip_held: bool,
    with_derived: bool,
    /// Something else than a list of names chose the sessions.
    chosen: bool,
    /// The caller named the request himself.
    named: bool,
    moved: Option<MovedTo>,
    /// It was told when it happened first.
    quiet: bool,
    outputs_dir: Option<PathBuf>,
    typed_lines: Option<PathBuf>,
    db: PathBuf,
}

pub(crate) fn delete(
    store: &Store,
    request: DeleteRequest<'_>,
) -> Result<DeleteReceipt, StoreError> {
    let inner = store.inner();
    if !request.dry_run {
        inner.ensure_writable()?;
    }
    if request.ids.is_empty() && request.chosen_by.is_none() {
        return Err(StoreError::Refused {
            what: "no session was named".to_owned(),
            hint: "name at least one session",
        });
    }
    if request.reason == DeleteReason::Archive {
        return Err(StoreError::Refused {
            what: "archiving removes nothing".to_owned(),
            hint: "delete with another reason",
        });
    }
    match take_in_first(store, &request) {
        Err(error) if !request.dry_run => return Err(error),
        _ => {}
    }
    let job = job_of(store, request)?;
    if job.dry_run {
        return planned(store, &job);
    }
    let wait = inner.options().busy_timeout;
    let with_derived = job.with_derived;
    let receipt = inner.write(move |side| {
        side.connection()?.execute_batch("PRAGMA secure_delete = ON").doing(DOING)?;
        let receipt = side.transaction(wait, |tx| run(tx, &job));
        scrub::back_to_ordinary(side.connection()?)?;
        receipt
    })?;
    point::reach("delete: committed");
    for removed in &receipt.removed {
        remove_files(inner.paths(), &removed.id);
    }
    point::reach("delete: own files gone");
    for path in &receipt.files {
        if let Err(error) = files::remove(Path::new(path)) {
            tracing::warn!(%error, path, "a file of a deleted session stays");
        }
    }
    if with_derived && !receipt.replayed {
        backup::forget(store, &receipt)?;
    }
    point::reach("delete: all files gone");
    scrub::later(store);
    Ok(receipt)
}

/// What it would do, found out by reading alone: nobody is waited for, and nothing is made.
fn planned(store: &Store, job: &Job) -> Result<DeleteReceipt, StoreError> {
    let plan = store.inner().read(|connection| {
        let transaction = connection.unchecked_transaction().doing(DOING)?;
        let plan = run(&transaction, job);
        transaction.finish().doing(DOING)?;
        plan
    })?;
    match plan {
        Some(plan) => Ok(plan),
        None if job.chosen => Ok(empty(job)),
        None => Err(unknown(&job.ids)),
    }
}

/// Side files of sessions that nobody holds are taken in, so that the tombstone counts them.
fn take_in_first(store: &Store, request: &DeleteRequest<'_>) -> Result<(), StoreError> {
    for id in &request.ids {
        let waiting = store.inner().spool_path(id).exists();
        let by_caller = request.held.iter().any(|lease| lease.session == *id);
        if waiting && !by_caller {
            match store.open_session(id) {
                Ok(writer) => writer.release()?,
                Err(StoreError::Deleted { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn job_of(store: &Store, request: DeleteRequest<'_>) -> Result<Job, StoreError> {
    let inner = store.inner();
    let named = request.request_id.is_some();
    let (ids, reason, profile) = (&request.ids, request.reason, &request.profile);
    let identity = match (&request.chosen_by, &request.moved) {
        (Some(choice), _) if named => serde_json::to_vec(&(choice, reason, profile)),
        (_, Some(moved)) => serde_json::to_vec(&(ids, reason, profile, &moved.profile)),
        _ if request.with_derived => serde_json::to_vec(&(ids, reason, profile, true)),
        _ => serde_json::to_vec(&(ids, reason, profile)),
    };
    let identity = identity.map_err(|error| unreadable("delete request", error.to_string()))?;
    let digest = Digest::of(identity);
    Ok(Job {
        chosen: request.chosen_by.is_some(),
        named,
        moved: request.moved,
        quiet: request.quiet,
        outputs_dir: request.outputs_dir,
        typed_lines: request.typed_lines,
        request_id: request.request_id.unwrap_or_else(|| format!("same-{}", digest.short())),
        digest,
        reason: request.reason,
        profile: request.profile,
        sessions_dir: request.sessions_dir,
        held: request
            .held
            .iter()
            .filter_map(|lease| Some((lease.session.clone(), lease.epoch?)))
            .collect(),
        held_here: inner.held(),
        claim: if request.dry_run { inner.onlooker() } else { inner.claim() },
        dry_run: request.dry_run,
        skip_held: request.skip_held,
        with_derived: request.with_derived,
        db: inner.paths().db.clone(),
        ids: request.ids,
    })
}

fn run(tx: &Transaction<'_>, job: &Job) -> Result<DeleteReceipt, StoreError> {
    // What a choice would take by now is no part of a retry.
    if job.chosen
        && job.named
        && let Some(receipt) = replay(tx, job)?
    {
        return Ok(receipt);
    }
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for id in &job.ids {
        match engage::number_of(tx, id)? {
            Some(session_no) => known.push((id.clone(), session_no)),
            None => unknown.push(id.clone()),
        }
    }
    if known.is_empty() && !job.chosen {
        return replay(tx, job)?.map_or_else(|| Err(none_of(tx, job)), Ok);
    }
    let skipped = if job.skip_held { take_out_held(tx, job, &mut known)? } else { Vec::new() };
    let mut all = with_relatives(tx, &known)?;
    if job.with_derived {
        let mut branches = branches_of(tx, &all)?;
        while !branches.is_empty() {
            known.append(&mut branches);
            all = with_relatives(tx, &known)?;
            branches = branches_of(tx, &all)?;
        }
    }
    for (id, session_no) in &all {
        check_held(tx, job, id, *session_no)?;
        check_moved(job, id)?;
    }
    let mut files = session_files(job, &all);
    let mut remaining = remaining(tx, job, &all)?;
    let outputs = match &job.outputs_dir {
        Some(folder) => outputs::owned(tx, folder, &all)?,
        None => Vec::new(),
    };
    let outputs = outputs.iter().map(|path| path.display().to_string());
    if job.moved.is_some() {
        // The results that name them name them by their place.
        remaining.extend(outputs.map(|id| Remaining { kind: "output".to_owned(), id }));
    } else {
        files.extend(outputs);
    }
    let mut receipt = DeleteReceipt { remaining, unknown, skipped, files, ..empty(job) };
    if all.is_empty() {
        return Ok(receipt);
    }
    let root = known.first().map_or_else(|| SessionId::new(""), |(id, _)| id.clone());
    for (id, session_no) in &all {
        receipt.removed.push(remove(tx, job, id, *session_no, &root)?);
        point::reach("delete: removed");
    }
    if job.dry_run {
        return Ok(receipt);
    }
    search::index::rows_removed(tx)?;
    let deleted: Vec<SessionId> =
        receipt.removed.iter().map(|removed| removed.id.clone()).collect();
    let event = OutboxEvent::OnSessionDelete(SessionDelete {
        session_id: root,
        reason: job.reason,
        profile: job.profile.clone(),
        deleted_ids: if deleted.len() > 1 { deleted } else { Vec::new() },
        sessions_dir: job.sessions_dir.clone(),
    });
    if !job.quiet {
        apply::store_event(tx, &event, job.claim.now)?;
    }
    keep_receipt(tx, job, &receipt)?;
    scrub::is_due(tx)?;
    Ok(receipt)
}

/// Takes those that are in use, or whose relatives are, out of the list.
fn take_out_held(
    tx: &Transaction<'_>,
    job: &Job,
    known: &mut Vec<(SessionId, i64)>,
) -> Result<Vec<SessionId>, StoreError> {
    let mut skipped = Vec::new();
    let mut free = Vec::new();
    for (id, session_no) in std::mem::take(known) {
        let mut held = false;
        for (relative, no) in with_relatives(tx, &[(id.clone(), session_no)])? {
            match check_held(tx, job, &relative, no) {
                Ok(()) => {}
                Err(StoreError::Held { .. }) => held = true,
                Err(error) => return Err(error),
            }
        }
        if held { skipped.push(id) } else { free.push((id, session_no)) }
    }
    *known = free;
    Ok(skipped)
}

/// Branches of these sessions that are not among them.
fn branches_of(
    tx: &Transaction<'_>,
    all: &[(SessionId, i64)],
) -> Result<Vec<(SessionId, i64)>, StoreError> {
    let mut branches = Vec::new();
    let mut statement = tx
        .prepare_cached(
            "SELECT id, session_no FROM sessions
             WHERE parent_session_id = ?1 AND parent_kind = 'branch' ORDER BY session_no",
        )
        .doing(DOING)?;
    for (id, _) in all {
        let found = statement
            .query_map([id.as_str()], |row| {
                Ok((SessionId::new(row.get::<_, String>(0)?), row.get::<_, i64>(1)?))
            })
            .doing(DOING)?
            .collect::<Result<Vec<_>, _>>()
            .doing(DOING)?;
        branches.extend(found.into_iter().filter(|branch| !all.contains(branch)));
    }
    Ok(branches)
}

/// Files of these sessions in the caller's folder.
fn session_files(job: &Job, all: &[(SessionId, i64)]) -> Vec<String> {
    let Some(folder) = &job.sessions_dir else { return Vec::new() };
    all.iter()
        .filter_map(|(id, _)| SessionFiles::of(id))
        .flat_map(|names| names.find(Path::new(folder)))
        .map(|path| path.display().to_string())
        .collect()
}

/// The receipt of an identical request, if the sessions were not made anew since.
fn replay(tx: &Transaction<'_>, job: &Job) -> Result<Option<DeleteReceipt>, StoreError> {
    let stored: Option<(String, String)> = tx
        .query_row(
            "SELECT epochs, json FROM receipt WHERE request_id = ?1 AND request_digest = ?2
             ORDER BY receipt_no DESC LIMIT 1",
            params![job.request_id, job.digest.as_bytes()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
        .doing(DOING)?;
    let Some((then, json)) = stored else { return Ok(None) };
    let receipt: DeleteReceipt =
        serde_json::from_str(&json).map_err(|error| unreadable("receipt", error.to_string()))?;
    if job.chosen {
        for gone in &receipt.removed {
            if engage::number_of(tx, &gone.id)?.is_some() || epoch_of(tx, &gone.id)? != gone.epoch {
                return Ok(None);
            }
        }
    } else if then != epochs(tx, &job.ids)? {
        return Ok(None);
    }
    Ok(Some(DeleteReceipt { replayed: true, ..receipt }))
}

fn none_of(tx: &Transaction<'_>, job: &Job) -> StoreError {
    let first = job.ids.first().cloned().unwrap_or_else(|| SessionId::new(""));
    match engage::tombstone_of(tx, &first) {
        Ok(Some((_, at))) => StoreError::Deleted { session: first, at },
        Ok(None) => unknown(&job.ids),
        Err(error) => error,
    }
}

fn unknown(ids: &[SessionId]) -> StoreError {
    StoreError::NotFound {
        what: "session",
        reference: ids.first().map(SessionId::to_string).unwrap_or_default(),
        hint: "list them with `hermes sessions list`".to_owned(),
    }
}

/// The receipt of a request that removed nothing.
fn empty(job: &Job) -> DeleteReceipt {
    DeleteReceipt {
        request_id: job.request_id.clone(),
        deleted_at: job.claim.now,
        reason: job.reason,
        removed: Vec::new(),
        remaining: Vec::new(),
        unknown: Vec::new(),
        skipped: Vec::new(),
        files: Vec::new(),
        scrubbed_at: None,
        moved: job.moved.clone(),
        replayed: false,
    }
}

/// How often each session was deleted, as JSON.
fn epochs(tx: &Transaction<'_>, ids: &[SessionId]) -> Result<String, StoreError> {
    let epochs: Vec<u32> = ids.iter().map(|id| epoch_of(tx, id)).collect::<Result<_, _>>()?;
    serde_json::to_string(&epochs).map_err(|error| unreadable("receipt", error.to_string()))
}

pub(crate) fn epoch_of(tx: &Transaction<'_>, id: &SessionId) -> Result<u32, StoreError> {
    tx.query_row(
        "SELECT ifnull(max(epoch), 0) FROM tombstone WHERE session_id = ?1",
        [id.as_str()],
        |row| row.get(0),
    )
    .doing(DOING)
}

fn keep_receipt(
    tx: &Transaction<'_>,
    job: &Job,
    receipt: &DeleteReceipt,
) -> Result<(), StoreError> {
    let json =
        serde_json::to_string(receipt).map_err(|error| unreadable("receipt", error.to_string()))?;
    tx.execute(
        "INSERT INTO receipt (request_id, request_digest, epochs, created_at, json)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            job.request_id,
            job.digest.as_bytes(),
            epochs(tx, &job.ids)?,
            job.claim.now.0,
            json
        ],
    )
    .doing(DOING)?;
    Ok(())
}

/// The sessions with their compaction chains, up and down, and all delegated children.
pub(crate) fn with_relatives(
    tx: &Connection,
    named: &[(SessionId, i64)],
) -> Result<Vec<(SessionId, i64)>, StoreError> {
    let mut all: Vec<(SessionId, i64)> = Vec::new();
    let mut seen: BTreeSet<i64> = BTreeSet::new();
    let mut next: Vec<(SessionId, i64)> = named.iter().rev().cloned().collect();
    let mut statement = tx
        .prepare_cached(
            "SELECT c.id, c.session_no FROM sessions c
             WHERE c.parent_session_id = ?1 AND c.parent_kind IN ('compaction', 'delegate')
             UNION
             SELECT p.id, p.session_no FROM sessions c JOIN sessions p ON p.id = c.parent_session_id
             WHERE c.id = ?1 AND c.parent_kind = 'compaction'
             ORDER BY 2",
        )
        .doing(DOING)?;
    while let Some((id, session_no)) = next.pop() {
        if !seen.insert(session_no) {
            continue;
        }
        let relatives = statement
            .query_map([id.as_str()], |row| {
                Ok((SessionId::new(row.get::<_, String>(0)?), row.get::<_, i64>(1)?))
            })
            .doing(DOING)?
            .collect::<Result<Vec<_>, _>>()
            .doing(DOING)?;
        all.push((id, session_no));
        // The named ones come first, so their relatives wait behind them.
        next.splice(0..0, relatives.into_iter().rev());
    }
    Ok(all)
}

fn check_held(
    tx: &Transaction<'_>,
    job: &Job,
    id: &SessionId,
    session_no: i64,
) -> Result<(), StoreError> {
    let claim = Claim { held_here: job.held_here.contains(id), ..job.claim.clone() };
    match lease::check_free(tx, session_no, id, &claim) {
        Err(StoreError::Held { session, by, since }) => {
            let epoch: i64 = tx
                .query_row("SELECT epoch FROM lease WHERE session_no = ?1", [session_no], |row| {
                    row.get(0)
                })
                .doing(DOING)?;
            let is_caller = by.token == job.claim.me.token && job.held.get(id) == Some(&epoch);
            if is_caller { Ok(()) } else { Err(StoreError::Held { session, by, since }) }
        }
        other => other.map(drop),
    }
}

/// What was not copied is not deleted: it came to the others after they were looked at.
fn check_moved(job: &Job, id: &SessionId) -> Result<(), StoreError> {
    let moved = job.moved.as_ref().filter(|_| !job.dry_run);
    if moved.is_none_or(|moved| moved.sessions.iter().any(|copy| copy.id == *id)) {
        return Ok(());
    }
    Err(StoreError::Refused {
        what: format!("session {id} belongs to those that are moved since a moment ago"),
        hint: "move them again; nothing was deleted",
    })
}

/// Branches of what is deleted, and capsules about it that others received: they hold text of it
/// and stay.
fn remaining(
    tx: &Transaction<'_>,
    job: &Job,
    all: &[(SessionId, i64)],
) -> Result<Vec<Remaining>, StoreError> {
    let mut remaining = Vec::new();
    for (branch, _) in branches_of(tx, all)? {
        remaining.push(Remaining { kind: "branch".to_owned(), id: branch.to_string() });
    }
    for (id, _) in all {
        let received = capsules::session_deleted(tx, id, job.dry_run, job.claim.now)?;
        for (capsule, by) in received {
            if all.iter().any(|(id, _)| *id == by) {
                continue;
            }
            if job.with_derived {
                if !job.dry_run {
                    capsules::blank(tx, &capsule, &by)?;
                }
            } else {
                remaining.push(Remaining { kind: "capsule".to_owned(), id: capsule });
            }
        }
    }
    if !job.with_derived {
        for path in backup::list(&job.db) {
            let id = path.display().to_string();
            remaining.push(Remaining { kind: "backup".to_owned(), id });
        }
    }
    if let Some(path) = &job.typed_lines
        && were_typed(tx, path, all)?
    {
        let id = path.display().to_string();
        remaining.push(Remaining { kind: "typed_lines".to_owned(), id });
    }
    // What was kept of a damaged or replaced file cannot be gone through session by session.
    for path in backup::kept_aside(&job.db) {
        let id = path.display().to_string();
        remaining.push(Remaining { kind: "kept_file".to_owned(), id });
    }
    Ok(remaining)
}

/// Whether a file of typed lines has something that was said in these sessions.
fn were_typed(
    tx: &Transaction<'_>,
    path: &Path,
    all: &[(SessionId, i64)],
) -> Result<bool, StoreError> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: BTreeSet<&str> = text.lines().collect();
    let mut statement = tx
        .prepare_cached(
            "SELECT value FROM part WHERE key BETWEEN ?1 AND ?2 AND kind = 0 AND origin = ?3",
        )
        .doing(DOING)?;
    let user = codes::origin_code(Origin::User);
    for (_, session_no) in all.iter().filter(|_| !lines.is_empty()) {
        let (first, last) = key_range(*session_no);
        let mut found = statement.query(params![first, last, user]).doing(DOING)?;
        while let Some(row) = found.next().doing(DOING)? {
            let said = row.get_ref(0).doing(DOING)?.as_str().unwrap_or_default();
            if lines.contains(&*said.replace('\n', "<\\n>")) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn remove(
    tx: &Transaction<'_>,
    job: &Job,
    id: &SessionId,
    session_no: i64,
    root: &SessionId,
) -> Result<RemovedSession, StoreError> {
    let count = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> Result<u64, StoreError> {
        tx.query_row(sql, params, |row| row.get::<_, i64>(0)).doing(DOING).map(|n| n as u64)
    };
    let (first, last) = key_range(session_no);
    let mut removed = RemovedSession {
        id: id.clone(),
        epoch: epoch_of(tx, id)? + 1,
        rows: count("SELECT count(*) FROM row WHERE session_no = ?1", &[&session_no])?,
        parts: count("SELECT count(*) FROM part WHERE key BETWEEN ?1 AND ?2", &[&first, &last])?,
        requests: count("SELECT count(*) FROM request WHERE session_no = ?1", &[&session_no])?,
        contents: 0,
    };
    if job.dry_run {
        return Ok(removed);
    }
    let content = content_digest(tx, session_no)?;
    search::index::remove_session(tx, session_no)?;
    tx.execute(
        "INSERT INTO tombstone (session_no, session_id, epoch, deleted_at, reason, root_id,
             parent_session_id, parent_kind, source, rows, parts, requests, content_digest)
         SELECT session_no, id, ?2, ?3, ?4, ?5, parent_session_id, parent_kind, source, ?6, ?7, ?8,
             ?9
         FROM sessions WHERE session_no = ?1",
        params![
            session_no,
            removed.epoch,
            job.claim.now.0,
            job.reason.as_str(),
            root.as_str(),
            removed.rows as i64,
            removed.parts as i64,
            removed.requests as i64,
            content.as_bytes(),
        ],
    )
    .doing(DOING)?;
    tx.execute("DELETE FROM part WHERE key BETWEEN ?1 AND ?2", [first, last]).doing(DOING)?;
    removed.contents = remove_contents(tx, session_no)?;
    for sql in [
        "DELETE FROM row WHERE session_no = ?1",
        "DELETE FROM gen WHERE session_no = ?1",
        "DELETE FROM manifest WHERE session_no = ?1",
        "DELETE FROM lease WHERE session_no = ?1",
        "DELETE FROM compaction WHERE session_no = ?1",
        "DELETE FROM compaction_state WHERE session_no = ?1",
        "DELETE FROM body WHERE request_no IN
             (SELECT request_no FROM request WHERE session_no = ?1)",
        "UPDATE request SET error = NULL WHERE session_no = ?1 AND error IS NOT NULL",
        "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id =
             (SELECT id FROM sessions WHERE session_no = ?1)",
        "DELETE FROM sessions WHERE session_no = ?1",
    ] {
        tx.execute(sql, [session_no]).doing(DOING)?;
    }
    Ok(removed)
}

/// Removes texts and blobs that only this session used.
fn remove_contents(tx: &Transaction<'_>, session_no: i64) -> Result<u64, StoreError> {
    let mut removed = 0;
    for (uses, content, no) in [("text_use", "text", "text_no"), ("blob_use", "blob", "blob_no")] {
        let mut statement = tx
            .prepare(&format!(
                "SELECT u.{no} FROM {uses} u WHERE u.session_no = ?1 AND NOT EXISTS
                     (SELECT 1 FROM {uses} o WHERE o.{no} = u.{no} AND o.session_no <> ?1)"
            ))
            .doing(DOING)?;
        let alone = statement
            .query_map([session_no], |row| row.get::<_, i64>(0))
            .doing(DOING)?
            .collect::<Result<Vec<_>, _>>()
            .doing(DOING)?;
        tx.execute(&format!("DELETE FROM {uses} WHERE session_no = ?1"), [session_no])
            .doing(DOING)?;
        for number in alone {
            tx.execute(&format!("DELETE FROM {content} WHERE {no} = ?1"), [number]).doing(DOING)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Digest of everything that was said, to compare by with a backup.
fn content_digest(tx: &Transaction<'_>, session_no: i64) -> Result<Digest, StoreError> {
    let (first, last) = key_range(session_no);
    let mut statement = tx
        .prepare("SELECT value FROM part WHERE key BETWEEN ?1 AND ?2 ORDER BY key")
        .doing(DOING)?;
    let mut found = statement.query([first, last]).doing(DOING)?;
    let mut hasher = Hasher::default();
    while let Some(row) = found.next().doing(DOING)? {
        let value = row.get_ref(0).doing(DOING)?;
        let bytes = value.as_bytes().unwrap_or_default();
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    Ok(hasher.finish())
}

/// Removes side files and drafts of a session that is gone.
pub(crate) fn remove_files(paths: &StorePaths, session: &SessionId) {
    let spool_path = spool::path_of(&paths.spool_dir, session);
    let mut gone = vec![spool::lock_path(&spool_path), spool_path];
    gone.extend(spool::conflicts_of(&paths.spool_dir, session));
    gone.extend(draft::left_over(&paths.drafts_dir, session).into_iter().map(|draft| draft.path));
    for path in gone {
        if let Err(error) = files::remove(&path) {
            tracing::warn!(%error, path = %path.display(), "a file of a deleted session stays");
        }
    }
}
