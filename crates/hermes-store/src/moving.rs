//! Moving sessions into the store of another profile: profile repair.
//!
//! Invariants: a session is deleted here only after everything that is stored of it was read back
//! there, from the file; it is held here meanwhile and in use by nobody there. A process that is
//! killed on the way leaves it here, and perhaps there too: the same call finds the copy, gives it
//! what it lacks, and goes on. A copy that says something else is never touched, and neither is the
//! original then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hermes_core::{DeleteReason, Row, Seq, SessionId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::apply::{self, Applier, Care};
use crate::db::Doing as _;
use crate::files::{self, SessionFiles, io_at};
use crate::lease::{self, Claim};
use crate::rows::{self, key_range};
use crate::store::Store;
use crate::{
    Batch, DeleteReceipt, DeleteRequest, ParentKind, Record, RequestFilter, SessionInfo,
    SessionInit, SessionLease, SessionWriter, StoreError, capsules, engage, ledger, point, read,
    spool,
};

const DOING: &str = "moving sessions";

/// Relatives that turn up while the sessions are being held are looked for so often.
const MOST_LOOKS: usize = 8;

/// Columns of `sessions` that a copy works out by itself, or that name something of this file or
/// profile. Every other one goes along.
const STAYING: [&str; 11] = [
    "id",
    "session_no",
    "parent_session_id",
    "parent_kind",
    "system_prompt",
    "system_prompt_hash",
    "tool_names",
    "message_count",
    "tool_call_count",
    "title",
    "profile_name",
];

/// A request to move sessions into the store of another profile.
#[derive(Clone, Debug)]
pub struct MoveRequest {
    /// The sessions; their compaction chains and delegated children go along.
    pub ids: Vec<SessionId>,
    /// The profile that they are in.
    pub profile: String,
    /// The profile that they go to.
    pub to: String,
    /// The caller's id of this request: an exact retry gets the same receipt.
    pub request_id: Option<String>,
    /// What chose the sessions, where it was no list of names; those in use are left then.
    pub chosen_by: Option<String>,
    /// A folder of the caller's that holds files of the sessions here.
    pub sessions_dir: Option<PathBuf>,
    /// Where those files go.
    pub sessions_dir_there: PathBuf,
    /// A folder with whole outputs of commands; those that tool results name stay where they are.
    pub outputs_dir: Option<PathBuf>,
    /// Report what would be moved and change nothing.
    pub dry_run: bool,
}

/// Where deleted sessions were moved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedTo {
    /// The profile.
    pub profile: String,
    /// What became of each of them there.
    pub sessions: Vec<Copied>,
}

/// A session as it is in the store that it was moved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Its id.
    pub id: SessionId,
    /// It was there already, perhaps in part, from a move that was broken off.
    pub was_there: bool,
    /// Its title there, where another session has the one it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The session that it came from, which stays behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untied_from: Option<SessionId>,
    /// Its capsule that waits here and cannot go along: another one waits there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capsule_left: Option<String>,
}

/// Everything that is stored of a session.
#[derive(Debug)]
struct Carried {
    info: SessionInfo,
    columns: Vec<(String, Value)>,
    /// Whether it says whose it is.
    has_owner: bool,
    records: Batch,
    capsules: Vec<capsules::Carried>,
}

impl Store {
    /// Moves sessions into the store of another profile: copies them with their requests, reads the
    /// copies back, and deletes them here by the one delete function. Repeating it after a crash
    /// ends with one of each.
    ///
    /// # Errors
    /// [`StoreError::Held`] if one is in use in either store; [`StoreError::Refused`] if it cannot
    /// be moved whole, or another session of its id is there. Nothing is deleted then.
    pub fn move_sessions(
        &self,
        to: &Self,
        request: &MoveRequest,
    ) -> Result<DeleteReceipt, StoreError> {
        let (here, there) = (&self.inner().paths().db, &to.inner().paths().db);
        if same_file(here, there) {
            return Err(StoreError::Refused {
                what: format!("{} and {} are the same store", here.display(), there.display()),
                hint: "name another profile",
            });
        }
        let plan = self.delete_session(deletion(request, Vec::new(), &[], true))?;
        if plan.replayed {
            // Done before; files that a killed process left are seen to again.
            return self.delete_session(deletion(request, Vec::new(), &[], request.dry_run));
        }
        let mut ids = removed(&plan);
        self.check_whole(&ids)?;
        if request.dry_run {
            let copies =
                ids.iter().map(|id| self.planned(to, id, &ids)).collect::<Result<_, _>>()?;
            return self.delete_session(deletion(request, copies, &[], true));
        }
        let mut held: BTreeMap<SessionId, SessionWriter> = BTreeMap::new();
        for _ in 0..MOST_LOOKS {
            for id in &ids {
                if !held.contains_key(id) {
                    held.insert(id.clone(), self.open_session(id)?);
                }
            }
            let leases: Vec<&SessionLease> = held.values().map(SessionWriter::lease).collect();
            ids = removed(&self.delete_session(deletion(request, Vec::new(), &leases, true))?);
            if ids.iter().all(|id| held.contains_key(id)) {
                break;
            }
        }
        for id in &ids {
            self.check_taken_in(id, held.get(id).map(SessionWriter::lease))?;
        }
        let mut copies = Vec::new();
        for family in self.families(&ids)? {
            copies.append(&mut self.copy(to, &family, &ids, request)?);
        }
        point::reach("move: copied");
        if let Some(folder) = &request.sessions_dir {
            copy_files(folder, &request.sessions_dir_there, &ids)?;
        }
        point::reach("move: files copied");
        let leases: Vec<&SessionLease> = held.values().map(SessionWriter::lease).collect();
        self.delete_session(deletion(request, copies, &leases, false))
    }

    /// A delegated child belongs to its parent and is moved with it only.
    fn check_whole(&self, ids: &[SessionId]) -> Result<(), StoreError> {
        for id in ids {
            if let Some(info) = self.session(id)?
                && let Some((parent, ParentKind::Delegate)) = info.parent
                && !ids.contains(&parent)
                && self.session(&parent)?.is_some()
            {
                return Err(StoreError::Refused {
                    what: format!("session {id} is work that session {parent} handed on"),
                    hint: "move that session; this one goes along",
                });
            }
        }
        Ok(())
    }

    /// What waits in a side file would be left behind.
    fn check_taken_in(
        &self,
        id: &SessionId,
        lease: Option<&SessionLease>,
    ) -> Result<(), StoreError> {
        let folder = &self.inner().paths().spool_dir;
        let whole = lease.is_some_and(|lease| lease.epoch.is_some())
            && !self.inner().spool_path(id).exists()
            && spool::conflicts_of(folder, id).is_empty();
        if whole {
            return Ok(());
        }
        Err(StoreError::Refused {
            what: format!("session {id} cannot be moved whole: some of it is in a side file"),
            hint: "run `hermes sessions check`; what waits is taken in when the store can be written",
        })
    }

    /// What is known of a copy before it is made.
    fn planned(&self, to: &Self, id: &SessionId, all: &[SessionId]) -> Result<Copied, StoreError> {
        let parent = self.session(id)?.and_then(|info| info.parent);
        let untied_from = match parent {
            Some((parent, _)) if !all.contains(&parent) && to.session(&parent)?.is_none() => {
                Some(parent)
            }
            _ => None,
        };
        let was_there = to.session(id)?.is_some();
        Ok(Copied { id: id.clone(), was_there, title: None, untied_from, capsule_left: None })
    }

    /// The sessions by what belongs together, so that each family is copied in one transaction.
    fn families(&self, ids: &[SessionId]) -> Result<Vec<Vec<SessionId>>, StoreError> {
        let mut parents: BTreeMap<SessionId, SessionId> = BTreeMap::new();
        for id in ids {
            if let Some(info) = self.session(id)?
                && let Some((parent, ParentKind::Compaction | ParentKind::Delegate)) = info.parent
                && ids.contains(&parent)
            {
                parents.insert(id.clone(), parent);
            }
        }
        let mut families: Vec<(SessionId, Vec<SessionId>)> = Vec::new();
        for id in ids {
            let mut root = id;
            // A ring of parents is no reason to turn for ever.
            for _ in 0..ids.len() {
                match parents.get(root) {
                    Some(parent) => root = parent,
                    None => break,
                }
            }
            match families.iter_mut().find(|(known, _)| known == root) {
                Some((_, family)) => family.push(id.clone()),
                None => families.push((root.clone(), vec![id.clone()])),
            }
        }
        Ok(families.into_iter().map(|(_, family)| family).collect())
    }

    /// Copies sessions into another store and reads the copies back.
    fn copy(
        &self,
        to: &Self,
        family: &[SessionId],
        all: &[SessionId],
        request: &MoveRequest,
    ) -> Result<Vec<Copied>, StoreError> {
        let load_from = |store: &Self, id: &SessionId| -> Result<Option<Carried>, StoreError> {
            Ok(store.inner().read_at_once(|connection| load(connection, id, all))?.flatten())
        };
        let mut carried = Vec::new();
        for id in family {
            match load_from(self, id)? {
                Some(found) => carried.push(found),
                None => return Err(self.missing(id)?),
            }
        }
        let inner = to.inner();
        let (wait, claim, held) = (inner.options().busy_timeout, inner.claim(), inner.held());
        let copies = inner.write(|side| {
            let copies = side.transaction(wait, |tx| {
                let one_by_one = carried.iter().map(|one| {
                    let held_here = held.contains(&one.info.id);
                    let claim = Claim { held_here, ..claim.clone() };
                    take_in(tx, one, all, &request.to, &claim)
                });
                one_by_one.collect()
            })?;
            for one in &carried {
                side.wrote(&one.records);
            }
            Ok::<Vec<Copied>, StoreError>(copies)
        })?;
        point::reach("move: taken in");
        for one in &carried {
            let id = &one.info.id;
            let lacks = match load_from(to, id)? {
                Some(copy) => lacks(&one.records, &copy.records),
                None => Some("everything".to_owned()),
            };
            if let Some(what) = lacks {
                return Err(StoreError::Refused {
                    what: format!(
                        "the session {id} in profile {} is not the one that is here: it lacks \
                         {what}; nothing was deleted here",
                        request.to
                    ),
                    hint: "compare the two with `hermes sessions show`, and delete the one that \
                           you do not want",
                });
            }
        }
        Ok(copies)
    }
}

fn deletion<'a>(
    request: &MoveRequest,
    sessions: Vec<Copied>,
    held: &[&'a SessionLease],
    dry_run: bool,
) -> DeleteRequest<'a> {
    DeleteRequest {
        profile: request.profile.clone(),
        request_id: request.request_id.clone(),
        sessions_dir: request.sessions_dir.as_ref().map(|folder| folder.display().to_string()),
        held: held.to_vec(),
        dry_run,
        moved: Some(MovedTo { profile: request.to.clone(), sessions }),
        outputs_dir: request.outputs_dir.clone(),
        skip_held: request.chosen_by.is_some(),
        chosen_by: request.chosen_by.clone(),
        ..DeleteRequest::new(request.ids.clone(), DeleteReason::ProfileRepair)
    }
}

/// The profile that a session was moved to.
pub(crate) fn moved_to(
    connection: &Connection,
    id: &SessionId,
) -> Result<Option<String>, StoreError> {
    let Some((session_no, _)) = engage::tombstone_of(connection, id)? else { return Ok(None) };
    // The receipt was written in the transaction that deleted it.
    let mut statement = connection
        .prepare_cached(
            "SELECT r.json FROM receipt r JOIN tombstone t ON t.deleted_at = r.created_at
             WHERE t.session_no = ?1 AND t.reason = ?2",
        )
        .doing(DOING)?;
    let reason = DeleteReason::ProfileRepair.as_str();
    let mut found = statement.query(params![session_no, reason]).doing(DOING)?;
    while let Some(row) = found.next().doing(DOING)? {
        let json: String = row.get(0).doing(DOING)?;
        let receipt: Option<DeleteReceipt> = serde_json::from_str(&json).ok();
        if let Some(receipt) = receipt
            && receipt.removed.iter().any(|removed| removed.id == *id)
        {
            return Ok(receipt.moved.map(|moved| moved.profile));
        }
    }
    Ok(None)
}

fn removed(receipt: &DeleteReceipt) -> Vec<SessionId> {
    receipt.removed.iter().map(|removed| removed.id.clone()).collect()
}

/// Whether two paths lead to one file. Two names of one file that are no links in the path are
/// noticed too, a little later: the session is in use there, by us.
fn same_file(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        path.canonicalize().ok().or_else(|| Some(folder?.join(path.file_name()?)))
    };
    a == b || real(a).zip(real(b)).is_some_and(|(a, b)| a == b)
}

/// Reads everything that is stored of a session.
fn load(
    connection: &Connection,
    id: &SessionId,
    all: &[SessionId],
) -> Result<Option<Carried>, StoreError> {
    let Some((info, session_no)) =
        read::session(connection, id)?.zip(engage::number_of(connection, id)?)
    else {
        return Ok(None);
    };
    let mut records = Batch::new();
    for_each(
        connection,
        "SELECT t.body FROM text_use u JOIN text t ON t.text_no = u.text_no
         WHERE u.session_no = ?1 ORDER BY t.digest",
        session_no,
        |row| {
            records.push(Record::Text { text: row.get::<_, String>(0)?.into() });
            Ok(())
        },
    )?;
    for_each(
        connection,
        "SELECT b.media_type, b.bytes FROM blob_use u JOIN blob b ON b.blob_no = u.blob_no
         WHERE u.session_no = ?1 ORDER BY b.digest",
        session_no,
        |row| {
            records.push(Record::Blob {
                media_type: row.get::<_, String>(0)?.into(),
                bytes: row.get::<_, Vec<u8>>(1)?.into(),
            });
            Ok(())
        },
    )?;
    let filter = RequestFilter { session: Some(id.clone()), ..RequestFilter::default() };
    let mut requests = ledger::load(connection, &filter)?;
    // Those of an earlier session of this id are digests and counts, and stay.
    requests.retain(|request| !request.session_deleted);
    let profiles: BTreeSet<_> = requests.iter().map(|it| it.attempt.wire_profile).collect();
    for digest in profiles {
        records.extend(read::profile(connection, &digest)?.map(Record::Profile));
    }
    let rows = rows::load_rows(connection, session_no, None)?;
    check_parts(connection, session_no, id, &rows)?;
    records.extend(rows.into_iter().map(Record::Row));
    for generation in rows::load_generations(connection, session_no)? {
        let n = generation.n;
        records.push(Record::Generation(generation));
        let blocks = read::manifest(connection, session_no, n)?;
        records.extend(blocks.map(|blocks| Record::Manifest { generation: n, blocks }));
    }
    for mut request in requests {
        if request.has_kept_body {
            request.attempt.kept_body = ledger::load_body(connection, &request.attempt.id)?;
        }
        records.push(Record::AttemptStarted(request.attempt));
        records.extend(request.end.map(Record::AttemptEnded));
    }
    let compactions = crate::compactions::of_session(connection, id)?;
    records.extend(compactions.attempts.into_iter().map(Record::CompactionAttempt));
    records.extend(compactions.state.map(|state| Record::CompactionState { state }));
    let (columns, has_owner) = columns(connection, session_no)?;
    let capsules = capsules::carried(connection, id, all)?;
    Ok(Some(Carried { info, columns, has_owner, records, capsules }))
}

fn for_each(
    connection: &Connection,
    sql: &str,
    session_no: i64,
    mut each: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<()>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).doing(DOING)?;
    let mut found = statement.query([session_no]).doing(DOING)?;
    while let Some(row) = found.next().doing(DOING)? {
        each(row).doing(DOING)?;
    }
    Ok(())
}

/// A part that belongs to no row would be left behind without a word.
fn check_parts(
    connection: &Connection,
    session_no: i64,
    id: &SessionId,
    rows: &[Row],
) -> Result<(), StoreError> {
    let (first, last) = key_range(session_no);
    let stored: i64 = connection
        .query_row("SELECT count(*) FROM part WHERE key BETWEEN ?1 AND ?2", [first, last], |row| {
            row.get(0)
        })
        .doing(DOING)?;
    if rows.iter().map(|row| row.parts.len()).sum::<usize>() as i64 == stored {
        return Ok(());
    }
    Err(StoreError::Refused {
        what: format!("session {id} cannot be moved whole: it has parts that belong to no row"),
        hint: "run `hermes sessions check`",
    })
}

/// The columns of a session that go along, and whether it says whose it is.
fn columns(
    connection: &Connection,
    session_no: i64,
) -> Result<(Vec<(String, Value)>, bool), StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM sessions WHERE session_no = ?1").doing(DOING)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    statement
        .query_row([session_no], |row| {
            let mut columns = Vec::new();
            for (at, name) in names.iter().enumerate() {
                if !STAYING.contains(&name.as_str()) {
                    columns.push((name.clone(), row.get::<_, Value>(at)?));
                }
            }
            Ok((columns, row.get::<_, Option<String>>("profile_name")?.is_some()))
        })
        .doing(DOING)
}

/// Stores a session, or what its copy lacks of it.
fn take_in(
    tx: &Transaction<'_>,
    carried: &Carried,
    all: &[SessionId],
    profile: &str,
    claim: &Claim,
) -> Result<Copied, StoreError> {
    let id = &carried.info.id;
    let mut copied = Copied {
        id: id.clone(),
        was_there: false,
        title: None,
        untied_from: None,
        capsule_left: None,
    };
    free_requests(tx, carried)?;
    if let Some(session_no) = engage::number_of(tx, id)? {
        lease::check_free(tx, session_no, id, claim)?;
        copied.was_there = true;
        add(tx, session_no, carried, claim.now, profile)?;
    } else {
        let info = &carried.info;
        let parent = match &info.parent {
            Some((parent, _))
                if !all.contains(parent) && engage::number_of(tx, parent)?.is_none() =>
            {
                copied.untied_from = Some(parent.clone());
                None
            }
            other => other.clone(),
        };
        let session_no = apply::create_session(tx, &init(info, parent))?;
        point::reach("move: session made");
        add(tx, session_no, carried, claim.now, profile)?;
        for (column, value) in &carried.columns {
            tx.execute(
                &format!("UPDATE sessions SET {column} = ?2 WHERE session_no = ?1"),
                params![session_no, value],
            )
            .doing(DOING)?;
        }
        let owner = carried.has_owner.then_some(profile);
        tx.execute(
            "UPDATE sessions SET profile_name = ?2 WHERE session_no = ?1",
            params![session_no, owner],
        )
        .doing(DOING)?;
    }
    let title: Option<String> = tx
        .query_row("SELECT title FROM sessions WHERE id = ?1", [id.as_str()], |row| row.get(0))
        .optional()
        .doing(DOING)?
        .flatten();
    copied.title = title.filter(|title| carried.info.title.as_ref() != Some(title));
    for capsule in &carried.capsules {
        if !capsules::take_in(tx, capsule)? {
            copied.capsule_left = Some(capsule.id().to_owned());
        }
    }
    Ok(copied)
}

fn init(info: &SessionInfo, parent: Option<(SessionId, ParentKind)>) -> SessionInit {
    SessionInit {
        id: info.id.clone(),
        source: info.source.clone(),
        lane: info.lane.clone(),
        cwd: info.cwd.clone(),
        git_root: info.git_root.clone(),
        git_branch: info.git_branch.clone(),
        model: info.model.clone(),
        provider: info.provider.clone(),
        base_url: info.base_url.clone(),
        parent,
        title: info.title.clone(),
        started_at: info.started_at,
    }
}

/// A session that was there before brings its requests back; the ledger there kept digests and
/// counts of them.
fn free_requests(tx: &Transaction<'_>, carried: &Carried) -> Result<(), StoreError> {
    let id = &carried.info.id;
    if engage::tombstone_of(tx, id)?.is_none() {
        return Ok(());
    }
    for record in &carried.records {
        if let Record::AttemptStarted(attempt) = record {
            tx.execute(
                "DELETE FROM request WHERE id = ?1 AND session_no IN
                     (SELECT session_no FROM tombstone WHERE session_id = ?2)",
                [attempt.id.as_str(), id.as_str()],
            )
            .doing(DOING)?;
        }
    }
    Ok(())
}

fn add(
    tx: &Transaction<'_>,
    session_no: i64,
    carried: &Carried,
    now: Timestamp,
    profile: &str,
) -> Result<(), StoreError> {
    let id = &carried.info.id;
    let added = Applier::new(tx, session_no, id, now, Care::Lenient).apply(&carried.records);
    match added {
        Err(StoreError::Invalid { what, .. }) => Err(StoreError::Refused {
            what: format!(
                "another session {id} is in profile {profile} already: {what}; nothing was changed"
            ),
            hint: "compare the two with `hermes sessions show`, and delete the one that you do \
                   not want",
        }),
        other => other,
    }?;
    tx.execute(
        "UPDATE sessions SET compactions = max(compactions, ?2) WHERE session_no = ?1",
        params![session_no, carried.info.compactions],
    )
    .doing(DOING)
    .map(drop)
}

/// What a copy lacks of these records, in a few words; None if nothing. It may have more: it may
/// have been gone on with.
fn lacks(records: &[Record], copy: &[Record]) -> Option<String> {
    if records == copy {
        return None;
    }
    let rows: BTreeMap<Seq, &Row> = copy
        .iter()
        .filter_map(|record| match record {
            Record::Row(row) => Some((row.seq, row)),
            _ => None,
        })
        .collect();
    let text = |record: &Record| serde_json::to_string(record).ok();
    let others: BTreeSet<Option<String>> =
        copy.iter().filter(|record| !matches!(record, Record::Row(_))).map(text).collect();
    records.iter().find_map(|record| match record {
        Record::Row(row) => {
            let bare = |row: &Row| Row { parts: Vec::new(), ..row.clone() };
            let same = rows.get(&row.seq).is_some_and(|copy| {
                bare(copy) == bare(row) && row.parts.iter().all(|part| copy.parts.contains(part))
            });
            (!same).then(|| format!("row {}", row.seq))
        }
        // What a session remembers for its next compaction changes as it goes on.
        Record::CompactionState { .. } => None,
        other => (!others.contains(&text(other))).then(|| match other {
            Record::AttemptStarted(attempt) => format!("request {}", attempt.id),
            Record::AttemptEnded(end) => format!("the end of request {}", end.id),
            Record::Generation(generation) => format!("generation {}", generation.n),
            Record::Manifest { generation, .. } => format!("the sources of {generation}"),
            Record::Blob { .. } => "an image".to_owned(),
            Record::CompactionAttempt(attempt) => format!("compaction {}", attempt.no),
            _ => "a text".to_owned(),
        }),
    })
}

/// Copies the files of sessions into another folder. One that is there with other bytes is left.
fn copy_files(from: &Path, to: &Path, ids: &[SessionId]) -> Result<(), StoreError> {
    for path in ids.iter().filter_map(SessionFiles::of).flat_map(|names| names.find(from)) {
        let Some(name) = path.file_name() else { continue };
        let bytes = std::fs::read(&path).map_err(io_at(&path))?;
        let target = to.join(name);
        if target.exists() {
            if std::fs::read(&target).map_err(io_at(&target))? == bytes {
                continue;
            }
            return Err(StoreError::Refused {
                what: format!("{} is there with other content", target.display()),
                hint: "move that file away first; nothing was deleted here",
            });
        }
        files::private_dir(to)?;
        let fresh = to.join(format!(".{}.moving", name.to_string_lossy()));
        let written = files::private_options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)
            .and_then(|mut file| {
                std::io::Write::write_all(&mut file, &bytes)?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&fresh, &target))
            .and_then(|()| files::sync_dir(to));
        written.map_err(io_at(&target))?;
    }
    Ok(())
}
