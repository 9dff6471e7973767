//! What a repair makes anew because the page that held it is lost, while what hangs on it is there:
//! sessions whose messages are left, rows whose text is left, generations of sessions that have none.
//!
//! Invariant: nothing that a person or a model said is thrown away because the row above it is lost.

use std::collections::BTreeMap;

use hermes_core::{Cause, Digest, Generation, GenerationNo, Op, Seq};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::db::Doing as _;
use crate::rows::{self, key, seq_of};
use crate::{StoreError, codes};

const DOING: &str = "making anew what was lost";

/// What an index still says of rows that are lost. It ends at the first place that cannot be read.
fn from_index<T>(
    source: &Connection,
    sql: &str,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut found = Vec::new();
    for order in ["ASC", "DESC"] {
        let Ok(mut statement) = source.prepare(&format!("{sql} {order}")) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            found.extend(read(row).ok());
        }
    }
    found
}

/// Sessions that are lost and whose messages are not. Their ids are those that the index names, else
/// `recovered-N`.
pub(crate) fn sessions(source: &Connection, tx: &Transaction<'_>) -> Result<u64, StoreError> {
    let lost: Vec<i64> = column(
        tx,
        "SELECT no FROM (SELECT session_no AS no FROM row UNION SELECT row_key >> 32 FROM part)
         WHERE no NOT IN (SELECT session_no FROM sessions)
           AND no NOT IN (SELECT session_no FROM tombstone)",
    )?;
    if lost.is_empty() {
        return Ok(0);
    }
    let names: BTreeMap<i64, String> = from_index(
        source,
        "SELECT session_no, id FROM sessions INDEXED BY sqlite_autoindex_sessions_1
         WHERE id >= '' ORDER BY id",
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
    .into_iter()
    .collect();
    for no in &lost {
        let id = names.get(no).cloned().unwrap_or_else(|| format!("recovered-{no}"));
        tx.execute(
            "INSERT OR IGNORE INTO sessions (session_no, id, source, started_at, last_activity_at)
             SELECT ?1, ?2, 'recovered', ifnull(min(created_at), 0) / 1e6,
                 ifnull(max(created_at), 0) / 1e6
             FROM row WHERE session_no = ?1",
            params![no, id],
        )
        .doing(DOING)?;
    }
    Ok(lost.len() as u64)
}

fn column<T: rusqlite::types::FromSql>(tx: &Connection, sql: &str) -> Result<Vec<T>, StoreError> {
    let mut statement = tx.prepare(sql).doing(DOING)?;
    let found = statement.query_map([], |row| row.get(0)).doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}

/// Rows that are lost and whose parts are not. Who said it follows from the parts.
pub(crate) fn rows(source: &Connection, tx: &Transaction<'_>) -> Result<u64, StoreError> {
    let lost: Vec<(i64, i64, i64)> = {
        let mut statement = tx
            .prepare(
                "SELECT row_key, min(origin), max(kind = 3) FROM part
                 WHERE NOT EXISTS (SELECT 1 FROM row r
                     WHERE r.session_no = part.row_key >> 32 AND r.seq = part.row_key & 4294967295)
                   AND row_key >> 32 IN (SELECT session_no FROM sessions)
                 GROUP BY row_key ORDER BY row_key",
            )
            .doing(DOING)?;
        let found = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .doing(DOING)?;
        found.collect::<Result<_, _>>().doing(DOING)?
    };
    if lost.is_empty() {
        return Ok(0);
    }
    let ids: BTreeMap<i64, i64> = from_index(
        source,
        "SELECT session_no, seq, id FROM row INDEXED BY row_seq WHERE session_no >= 0
         ORDER BY session_no",
        |row| Ok((key(row.get(0)?, Seq(row.get::<_, i64>(1)? as u64)), row.get(2)?)),
    )
    .into_iter()
    .collect();
    let mut generations: BTreeMap<i64, Vec<Generation>> = BTreeMap::new();
    for (row_key, origin, calls) in &lost {
        let (no, seq) = (*row_key >> rows::SEQ_BITS, seq_of(*row_key));
        let stands = is_summary(
            generations
                .entry(no)
                .or_insert_with(|| rows::load_generations(tx, no).unwrap_or_default()),
            seq,
        );
        let role = match codes::origin_of(*origin) {
            Some(hermes_core::Origin::Tool) => hermes_core::Role::Tool,
            Some(hermes_core::Origin::Model) => hermes_core::Role::Assistant,
            _ if *calls != 0 => hermes_core::Role::Assistant,
            _ => hermes_core::Role::User,
        };
        let id = match ids.get(row_key) {
            Some(id) => Some(*id),
            None => free_id(tx, no, seq)?,
        };
        let tool = (role == hermes_core::Role::Tool).then_some("unknown");
        tx.execute(
            "INSERT OR IGNORE INTO row (id, session_no, seq, turn, role, standing, status, active,
                 compacted, created_at, call_id, tool_name)
             VALUES (?1, ?2, ?3,
                 ifnull((SELECT turn FROM row WHERE session_no = ?2 AND seq < ?3
                     ORDER BY seq DESC LIMIT 1), 0),
                 ?4, ?5, 0, 1, 0,
                 coalesce((SELECT created_at FROM part WHERE row_key = ?6
                         AND created_at IS NOT NULL LIMIT 1),
                     (SELECT created_at FROM row WHERE session_no = ?2 AND seq < ?3
                         ORDER BY seq DESC LIMIT 1),
                     (SELECT min(created_at) FROM row WHERE session_no = ?2),
                     (SELECT cast(started_at * 1e6 AS INTEGER) FROM sessions WHERE session_no = ?2)),
                 ?7, ?7)",
            params![
                id.unwrap_or(rows::next_id(tx)?),
                no,
                seq.0 as i64,
                codes::role_code(role),
                i64::from(stands),
                row_key,
                tool,
            ],
        )
        .doing(DOING)?;
    }
    Ok(lost.len() as u64)
}

/// Whether an operation brings this row in.
fn is_summary(generations: &[Generation], seq: Seq) -> bool {
    generations
        .iter()
        .flat_map(|generation| &generation.ops)
        .any(|op| matches!(op, Op::Cover { by, .. } if *by == seq))
}

/// The id behind the row before this one, which belongs to the same session, if it is free.
fn free_id(tx: &Connection, session_no: i64, seq: Seq) -> Result<Option<i64>, StoreError> {
    let before: Option<i64> = tx
        .query_row(
            "SELECT id FROM row WHERE session_no = ?1 AND seq < ?2 AND standing = 0
             ORDER BY seq DESC LIMIT 1",
            params![session_no, seq.0 as i64],
            |row| row.get(0),
        )
        .optional()
        .doing(DOING)?;
    let Some(id) = before.map(|id| id + 1).filter(|id| id % rows::ID_STEP != 0) else {
        return Ok(None);
    };
    let is_taken = tx
        .prepare("SELECT 1 FROM row WHERE id = ?1")
        .and_then(|mut it| it.exists([id]))
        .doing(DOING)?;
    Ok((!is_taken).then_some(id))
}

/// A first generation for sessions that have messages and none: what the session's own row says of
/// its prompt and tools, and every message in view.
pub(crate) fn generations(tx: &Transaction<'_>) -> Result<u64, StoreError> {
    let lost: Vec<(i64, Option<String>, Option<String>, f64)> = {
        let mut statement = tx
            .prepare(
                "SELECT session_no, system_prompt_hash, tool_names, started_at FROM sessions s
                 WHERE NOT EXISTS (SELECT 1 FROM gen g WHERE g.session_no = s.session_no)
                   AND EXISTS (SELECT 1 FROM row r WHERE r.session_no = s.session_no)",
            )
            .doing(DOING)?;
        let found = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .doing(DOING)?;
        found.collect::<Result<_, _>>().doing(DOING)?
    };
    for (no, prompt, tools, started_at) in &lost {
        let digest = |name: &Option<String>, otherwise: &str| -> Result<Digest, StoreError> {
            match name.as_deref().and_then(|name| name.parse().ok()) {
                Some(digest) => Ok(digest),
                None => text(tx, otherwise),
            }
        };
        let generation = Generation {
            n: GenerationNo(0),
            parent: None,
            cause: Cause::Start,
            created_at: crate::read::time_of(*started_at),
            prompt: digest(prompt, "")?,
            tools: digest(tools, "[]")?,
            ops: Vec::new(),
        };
        rows::insert_generation(tx, *no, &generation)?;
        for digest in [generation.prompt, generation.tools] {
            tx.execute(
                "INSERT OR IGNORE INTO text_use (session_no, text_no)
                 SELECT ?1, text_no FROM text WHERE digest = ?2",
                params![no, digest.as_bytes()],
            )
            .doing(DOING)?;
        }
        tx.execute(
            "UPDATE sessions SET system_prompt_hash = ?2, tool_names = ?3 WHERE session_no = ?1",
            params![no, generation.prompt.to_string(), generation.tools.to_string()],
        )
        .doing(DOING)?;
    }
    Ok(lost.len() as u64)
}

fn text(tx: &Connection, text: &str) -> Result<Digest, StoreError> {
    let digest = Digest::of(text);
    tx.execute(
        "INSERT OR IGNORE INTO text (digest, body) VALUES (?1, ?2)",
        params![digest.as_bytes(), text],
    )
    .doing(DOING)?;
    Ok(digest)
}
