//! Checks the file and every invariant that the rest of this crate promises.

use std::collections::{BTreeMap, BTreeSet};

use hermes_core::{Digest, Generation, Op, Part, PartBody, Row, Seq, SessionId, Standing};
use rusqlite::{Connection, OptionalExtension as _};

use crate::db::Doing as _;
use crate::flags::{self, Flags};
use crate::messages::message_of;
use crate::rows::{self, digest_of, key, seq_of};
use crate::search::{index, renew};
use crate::store::Store;
use crate::{Finding, StoreError, Unavailable, spool};

const DOING: &str = "checking the store";

/// Under this key in `state_meta`: what a repair could not save, as findings.
const LOST: &str = "lost";

pub(crate) fn check(store: &Store) -> Result<Vec<Finding>, StoreError> {
    let inner = store.inner();
    let mut findings = of_database(store)?;
    for path in spool::conflicts(&inner.paths().spool_dir) {
        findings.push(Finding {
            session: None,
            what: format!("{} contradicted the store and was set aside", path.display()),
        });
    }
    Ok(findings)
}

/// What is wrong with the database, without what waits beside it.
pub(crate) fn of_database(store: &Store) -> Result<Vec<Finding>, StoreError> {
    let found = store.inner().read_at_once(|connection| {
        let mut found = check_database(connection)?;
        if !found.is_empty() {
            let lost = lost(connection)?;
            found.retain(|finding| !lost.contains(finding));
        }
        Ok(found)
    })?;
    Ok(found.unwrap_or_default())
}

/// What repairs could not save: it is known, and wrong no more.
fn lost(connection: &Connection) -> Result<Vec<Finding>, StoreError> {
    let json: Option<String> = connection
        .query_row("SELECT value FROM state_meta WHERE key = ?1", [LOST], |row| row.get(0))
        .optional()
        .doing(DOING)?;
    let parsed = json.map_or_else(|| Ok(Vec::new()), |json| serde_json::from_str(&json));
    parsed.map_err(|error| rows::unreadable("state_meta lost", error.to_string()))
}

/// Notes what a repaired file still lacks; returns it without what was known before.
pub(crate) fn note_lost(connection: &Connection) -> Result<Vec<Finding>, StoreError> {
    let now = check_database(connection)?;
    let before = lost(connection)?;
    let json = serde_json::to_string(&now)
        .map_err(|error| rows::unreadable("state_meta lost", error.to_string()))?;
    connection
        .execute("INSERT OR REPLACE INTO state_meta (key, value) VALUES (?1, ?2)", [LOST, &json])
        .doing(DOING)?;
    Ok(now.into_iter().filter(|finding| !before.contains(finding)).collect())
}

impl Store {
    /// What repairs of this store could not save.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn lost(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(self.inner().read(lost)?.unwrap_or_default())
    }
}

fn check_database(connection: &Connection) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Findings::default();
    let outcome = file(connection, &mut findings);
    findings.note(outcome)?;
    let outcome = contents(connection, &mut findings);
    findings.note(outcome)?;
    let outcome = ledger(connection, &mut findings);
    findings.note(outcome)?;
    let outcome = sessions(connection, &mut findings);
    findings.note(outcome)?;
    Ok(findings.list)
}

fn sessions(connection: &Connection, findings: &mut Findings) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare("SELECT session_no, id, message_count, tool_call_count FROM sessions")
        .doing(DOING)?;
    let sessions = statement
        .query_map([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                SessionId::new(row.get::<_, String>(1)?),
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
            ))
        })
        .doing(DOING)?
        .collect::<Result<Vec<_>, _>>()
        .doing(DOING)?;
    for (session_no, id, messages, calls) in sessions {
        findings.session = Some(id.clone());
        let outcome = session(connection, session_no, &id, (messages, calls), findings);
        findings.note(outcome)?;
    }
    Ok(())
}

#[derive(Default)]
struct Findings {
    session: Option<SessionId>,
    list: Vec<Finding>,
}

impl Findings {
    fn add(&mut self, what: impl Into<String>) {
        self.list.push(Finding { session: self.session.clone(), what: what.into() });
    }

    /// That something cannot be read is a finding, and the check goes on; that nobody can read just
    /// now is none.
    fn note(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        match outcome {
            Ok(()) => Ok(()),
            Err(StoreError::Unavailable { why, doing }) if why != Unavailable::Damaged => {
                Err(StoreError::Unavailable { why, doing })
            }
            Err(error) => {
                self.add(Finding::of(&error).what);
                Ok(())
            }
        }
    }
}

/// Has each index look again at how it is laid out. It keeps what it read for an earlier question,
/// and its check goes by that even if another connection merged the index since: only a question
/// makes it compare. A fault is not told here, the check will find it.
fn look_again(connection: &Connection) {
    for index in index::Index::BOTH {
        let sql = format!("SELECT count(*) FROM {} WHERE rowid = 0", index.table());
        if let Err(error) = connection.query_row(&sql, [], |row| row.get::<_, i64>(0)) {
            tracing::debug!(%error, "an index cannot be asked");
        }
    }
}

fn file(connection: &Connection, findings: &mut Findings) -> Result<(), StoreError> {
    look_again(connection);
    let mut statement = connection.prepare("PRAGMA integrity_check(20)").doing(DOING)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).doing(DOING)?;
    for line in lines {
        let line = line.doing(DOING)?;
        if line != "ok" {
            findings.add(format!("the file is damaged: {line}"));
        }
    }
    let mut statement = connection.prepare("PRAGMA foreign_key_check").doing(DOING)?;
    let broken = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(2)?)))
        .doing(DOING)?;
    for row in broken {
        let (table, parent) = row.doing(DOING)?;
        findings.add(format!("a row of table {table} refers to a missing row of {parent}"));
    }
    Ok(())
}

/// Texts and blobs have the bytes that their digests name, and somebody uses them.
fn contents(connection: &Connection, findings: &mut Findings) -> Result<(), StoreError> {
    for (what, sql) in [
        (
            "text",
            "SELECT digest, body, EXISTS (SELECT 1 FROM text_use u WHERE u.text_no = t.text_no)
             FROM text t",
        ),
        (
            "blob",
            "SELECT digest, bytes, EXISTS (SELECT 1 FROM blob_use u WHERE u.blob_no = b.blob_no)
             FROM blob b",
        ),
    ] {
        let mut statement = connection.prepare(sql).doing(DOING)?;
        let mut found = statement.query([]).doing(DOING)?;
        while let Some(row) = found.next().doing(DOING)? {
            let named =
                digest_of(row.get_ref(0).doing(DOING)?.as_blob().unwrap_or_default(), what)?;
            let bytes = row.get_ref(1).doing(DOING)?.as_bytes().unwrap_or_default();
            if Digest::of(bytes) != named {
                findings.add(format!("{what} {} does not have the bytes it names", named.short()));
            }
            if !row.get::<_, bool>(2).doing(DOING)? {
                findings.add(format!("{what} {} belongs to no session", named.short()));
            }
        }
    }
    Ok(())
}

fn ledger(connection: &Connection, findings: &mut Findings) -> Result<(), StoreError> {
    for (what, sql) in [
        (
            "belongs to a session that is neither there nor deleted",
            "SELECT id FROM request r
             WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.session_no = r.session_no)
               AND NOT EXISTS (SELECT 1 FROM tombstone t WHERE t.session_no = r.session_no)
             LIMIT 10000",
        ),
        (
            "was encoded by a wire profile that is not stored",
            "SELECT id FROM request r
             WHERE NOT EXISTS (SELECT 1 FROM wire_profile w WHERE w.digest = r.wire_profile)
               AND EXISTS (SELECT 1 FROM sessions s WHERE s.session_no = r.session_no)
             LIMIT 10000",
        ),
        (
            "was made from a generation that is not stored",
            "SELECT r.id FROM request r JOIN sessions s ON s.session_no = r.session_no
             WHERE NOT EXISTS (SELECT 1 FROM gen g
                 WHERE g.session_no = r.session_no AND g.n = r.generation)
             LIMIT 10000",
        ),
        (
            "has a body although its session is deleted",
            "SELECT r.id FROM request r JOIN body b ON b.request_no = r.request_no
             WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.session_no = r.session_no)
             LIMIT 10000",
        ),
    ] {
        let mut statement = connection.prepare(sql).doing(DOING)?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0)).doing(DOING)?;
        for id in ids {
            findings.add(format!("request {} {what}", id.doing(DOING)?));
        }
    }
    Ok(())
}

/// What is wrong with one session.
pub(crate) fn of_session(
    connection: &Connection,
    session_no: i64,
    id: &SessionId,
) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Findings { session: Some(id.clone()), list: Vec::new() };
    let counts = connection
        .query_row(
            "SELECT message_count, tool_call_count FROM sessions WHERE session_no = ?1",
            [session_no],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .doing(DOING)?;
    let outcome = session(connection, session_no, id, counts, &mut findings);
    findings.note(outcome)?;
    Ok(findings.list)
}

fn session(
    connection: &Connection,
    session_no: i64,
    id: &SessionId,
    counts: (i64, i64),
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let rows = rows::load_rows(connection, session_no, None)?;
    let generations = rows::load_generations(connection, session_no)?;
    orphans(connection, session_no, &rows, findings)?;
    generation_references(connection, &rows, &generations, findings)?;
    blobs(connection, &rows, findings)?;

    let standings: Vec<(Seq, Standing)> = rows.iter().map(|row| (row.seq, row.standing)).collect();
    let head = generations.last().map(|generation| generation.n);
    let flags = match flags::flags(&standings, &generations, head) {
        Ok(flags) => flags,
        Err(error) => {
            findings.add(error.to_string());
            return Ok(());
        }
    };
    let active: Vec<&Row> =
        rows.iter().filter(|row| flags.get(&row.seq).is_some_and(|flags| flags.active)).collect();
    let calls: usize = active
        .iter()
        .flat_map(|row| &row.parts)
        .filter(|part| {
            part.standing == Standing::InOrder && matches!(part.body, PartBody::ToolCall { .. })
        })
        .count();
    let wanted = (active.len() as i64, calls as i64);
    if counts != wanted {
        findings
            .add(format!("message_count and tool_call_count are {counts:?}, wanted {wanted:?}"));
    }
    compare_index(connection, session_no, &rows, findings)?;
    compare_view(connection, id, &rows, &flags, findings)
}

/// The search index has what the rows say, no more and no less. One that holds older tokens may lack
/// a document or have one more until it is renewed.
fn compare_index(
    connection: &Connection,
    session_no: i64,
    rows: &[Row],
    findings: &mut Findings,
) -> Result<(), StoreError> {
    if renew::is_due(connection)? {
        return Ok(());
    }
    let title: Option<String> = connection
        .query_row("SELECT title FROM sessions WHERE session_no = ?1", [session_no], |row| {
            row.get(0)
        })
        .doing(DOING)?;
    let waiting = index::tail(connection, (session_no, session_no), usize::MAX >> 1)?;
    let waiting: BTreeSet<Seq> = waiting.into_iter().map(|document| document.seq).collect();
    for which in index::Index::BOTH {
        let has = index::documents(connection, which, session_no)?;
        let wanted = index::expected(session_no, title.as_deref(), rows, &waiting, which);
        if has != wanted {
            findings.add(format!(
                "{} has {} documents, wanted {}",
                which.table(),
                has.len(),
                wanted.len()
            ));
        }
    }
    Ok(())
}

fn orphans(
    connection: &Connection,
    session_no: i64,
    rows: &[Row],
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let known: BTreeSet<Seq> = rows.iter().map(|row| row.seq).collect();
    let (first, last) = rows::key_range(session_no);
    let mut statement = connection
        .prepare_cached("SELECT key, row_key FROM part WHERE key BETWEEN ?1 AND ?2")
        .doing(DOING)?;
    let parts = statement
        .query_map([first, last], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .doing(DOING)?;
    for part in parts {
        let (part, row) = part.doing(DOING)?;
        if !known.contains(&seq_of(row)) || key(session_no, seq_of(row)) != row {
            findings.add(format!("part {} belongs to no row", seq_of(part)));
        }
    }
    Ok(())
}

fn generation_references(
    connection: &Connection,
    rows: &[Row],
    generations: &[Generation],
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let numbers: BTreeSet<_> = generations.iter().map(|generation| generation.n).collect();
    let summaries: BTreeSet<Seq> =
        rows.iter().filter(|row| row.standing == Standing::ByOp).map(|row| row.seq).collect();
    let parts: BTreeMap<Seq, &Part> =
        rows.iter().flat_map(|row| &row.parts).map(|part| (part.seq, part)).collect();
    // A branch keeps the operations of its origin, some of which may name what it was cut before.
    let end = rows.last().map(|row| row.seq).max(parts.keys().next_back().copied());
    let beyond = |seq: Seq| Some(seq) > end;
    for generation in generations {
        let n = generation.n;
        if generation.parent.is_some_and(|parent| !numbers.contains(&parent)) {
            findings.add(format!("generation {n} builds on one that is not stored"));
        }
        for (what, digest) in [("prompt", generation.prompt), ("tools", generation.tools)] {
            let stored: Option<i64> = connection
                .query_row("SELECT 1 FROM text WHERE digest = ?1", [digest.as_bytes()], |row| {
                    row.get(0)
                })
                .optional()
                .doing(DOING)?;
            if stored.is_none() {
                findings.add(format!("the {what} of generation {n} is not stored"));
            }
        }
        for op in &generation.ops {
            let fits = match *op {
                Op::Cover { by, .. } => summaries.contains(&by) || beyond(by),
                Op::Swap { part, by } => {
                    (parts.contains_key(&part) || beyond(part))
                        && (beyond(by)
                            || parts.get(&by).is_some_and(|by| by.standing == Standing::ByOp))
                }
                Op::Revoke { target } => generations
                    .iter()
                    .find(|generation| generation.n == target.generation)
                    .is_some_and(|generation| (target.index as usize) < generation.ops.len()),
                Op::Hide { .. } => true,
            };
            if !fits {
                findings.add(format!("generation {n} has an operation that names nothing: {op:?}"));
            }
        }
    }
    Ok(())
}

fn blobs(connection: &Connection, rows: &[Row], findings: &mut Findings) -> Result<(), StoreError> {
    for part in rows.iter().flat_map(|row| &row.parts) {
        if let PartBody::Blob { digest, .. } = &part.body {
            let stored: Option<i64> = connection
                .query_row("SELECT 1 FROM blob WHERE digest = ?1", [digest.as_bytes()], |row| {
                    row.get(0)
                })
                .optional()
                .doing(DOING)?;
            if stored.is_none() {
                findings.add(format!(
                    "part {} names blob {}, which is not stored",
                    part.seq,
                    digest.short()
                ));
            }
        }
    }
    Ok(())
}

/// The view `messages` shows what the records say.
fn compare_view(
    connection: &Connection,
    id: &SessionId,
    rows: &[Row],
    flags: &BTreeMap<Seq, Flags>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT id, role, content, tool_call_id, tool_calls, tool_name, timestamp,
                 finish_reason, reasoning, reasoning_content, active, compacted,
                 _compressed_summary, api_content, effect_disposition, reasoning_details,
                 codex_reasoning_items, codex_message_items, message_uid
             FROM messages WHERE session_id = ?1 ORDER BY id",
        )
        .doing(DOING)?;
    let mut found = statement.query([id.as_str()]).doing(DOING)?;
    let by_uid: BTreeMap<String, &Row> =
        rows.iter().map(|row| (format!("{id}:{}", row.seq), row)).collect();
    let mut seen = 0;
    while let Some(shown) = found.next().doing(DOING)? {
        seen += 1;
        let uid: String = shown.get(18).doing(DOING)?;
        let Some(row) = by_uid.get(&uid) else {
            findings.add(format!("messages shows {uid}, which is no row"));
            continue;
        };
        let message_id: i64 = shown.get(0).doing(DOING)?;
        let flags = flags.get(&row.seq).copied().unwrap_or(Flags::HIDDEN);
        let wanted = message_of(id.as_str(), message_id, row, flags);
        let text = |at: usize| shown.get::<_, Option<String>>(at).doing(DOING);
        let json = |text: Option<String>| {
            text.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default())
        };
        let decoded = |content: Option<String>| match content {
            Some(text) => match text.strip_prefix(crate::messages::STRUCTURED) {
                Some(structured) => json(Some(structured.to_owned())),
                None => Some(text.into()),
            },
            None => None,
        };
        let calls =
            wanted.tool_calls.as_ref().map(|calls| serde_json::to_value(calls).unwrap_or_default());
        let same = shown.get::<_, String>(1).doing(DOING)? == wanted.role
            && decoded(text(2)?) == decoded(wanted.content_column())
            && text(3)? == wanted.tool_call_id
            && json(text(4)?) == calls
            && text(5)? == wanted.tool_name
            && (shown.get::<_, f64>(6).doing(DOING)? - wanted.timestamp).abs() < 1e-6
            && text(7)? == wanted.finish_reason
            && text(8)? == wanted.reasoning
            && text(9)? == wanted.reasoning_content
            && shown.get::<_, u8>(10).doing(DOING)? == wanted.active
            && shown.get::<_, u8>(11).doing(DOING)? == wanted.compacted
            && shown.get::<_, u8>(12).doing(DOING)? == wanted.compressed_summary
            && text(13)? == wanted.api_content
            && text(14)?.as_deref() == wanted.effect_disposition
            && text(15)? == wanted.reasoning_details
            && text(16)? == wanted.codex_reasoning_items
            && text(17)? == wanted.codex_message_items;
        if !same {
            findings.add(format!("messages shows row {} differently from its record", row.seq));
        }
    }
    if seen != rows.len() {
        findings.add(format!("messages shows {seen} rows of {}", rows.len()));
    }
    Ok(())
}
