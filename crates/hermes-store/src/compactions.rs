//! Attempts at compacting a session, and what it remembers about them.
//!
//! Invariant: an attempt, once stored, is never changed; what its log means is known to the crate
//! that compacts.

use std::sync::Arc;

use hermes_core::{GenerationNo, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::db::Doing as _;
use crate::spool::SpoolContents;
use crate::{Record, StoreError};

/// One attempt at a compaction, whether it took effect or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionAttempt {
    /// Its number in the session: 1, 2, 3, ...
    pub no: u32,
    /// When it was asked for.
    pub at: Timestamp,
    /// The generation that it made; None if it came to nothing.
    pub generation: Option<GenerationNo>,
    /// The record of it, JSON.
    pub log: Arc<str>,
}

/// What a session knows of its compactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compactions {
    /// The attempts, oldest first.
    pub attempts: Vec<CompactionAttempt>,
    /// What it remembers for the next one, JSON.
    pub state: Option<Arc<str>>,
}

pub(crate) fn store_attempt(
    tx: &Transaction<'_>,
    session_no: i64,
    attempt: &CompactionAttempt,
) -> Result<(), StoreError> {
    let generation = attempt.generation.map(|n| n.0);
    tx.prepare_cached(
        "INSERT OR IGNORE INTO compaction (session_no, no, at, generation, log)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )
    .and_then(|mut statement| {
        statement.execute(params![session_no, attempt.no, attempt.at.0, generation, &*attempt.log])
    })
    .doing("storing an attempt at a compaction")
    .map(drop)
}

pub(crate) fn store_state(
    tx: &Transaction<'_>,
    session_no: i64,
    state: &str,
) -> Result<(), StoreError> {
    tx.prepare_cached("INSERT OR REPLACE INTO compaction_state (session_no, state) VALUES (?1, ?2)")
        .and_then(|mut statement| statement.execute(params![session_no, state]))
        .doing("storing what a session remembers about compactions")
        .map(drop)
}

fn attempt_of(row: &Row<'_>) -> rusqlite::Result<CompactionAttempt> {
    Ok(CompactionAttempt {
        no: row.get(0)?,
        at: Timestamp(row.get(1)?),
        generation: row.get::<_, Option<u32>>(2)?.map(GenerationNo),
        log: row.get::<_, String>(3)?.into(),
    })
}

pub(crate) fn of_session(
    connection: &Connection,
    id: &SessionId,
) -> Result<Compactions, StoreError> {
    const DOING: &str = "reading a session's compactions";
    let mut statement = connection
        .prepare_cached(
            "SELECT c.no, c.at, c.generation, c.log FROM compaction c
             JOIN sessions s ON s.session_no = c.session_no WHERE s.id = ?1 ORDER BY c.no",
        )
        .doing(DOING)?;
    let attempts = statement
        .query_map([id.as_str()], attempt_of)
        .doing(DOING)?
        .collect::<Result<Vec<_>, _>>()
        .doing(DOING)?;
    let state: Option<String> = connection
        .prepare_cached(
            "SELECT c.state FROM compaction_state c
             JOIN sessions s ON s.session_no = c.session_no WHERE s.id = ?1",
        )
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing(DOING)?;
    Ok(Compactions { attempts, state: state.map(Arc::from) })
}

/// Adds what waits in the side file.
pub(crate) fn merge(compactions: &mut Compactions, spool: &SpoolContents) {
    for record in spool.records() {
        match record {
            Record::CompactionAttempt(attempt)
                if compactions.attempts.iter().all(|known| known.no != attempt.no) =>
            {
                compactions.attempts.push(attempt.clone());
            }
            Record::CompactionState { state } => compactions.state = Some(state.clone()),
            _ => {}
        }
    }
    compactions.attempts.sort_by_key(|attempt| attempt.no);
}

/// The newest attempt of each session that has any, where it came to nothing, newest first.
pub(crate) fn failing(
    connection: &Connection,
    since: Timestamp,
) -> Result<Vec<(SessionId, CompactionAttempt)>, StoreError> {
    const DOING: &str = "looking for failed compactions";
    let mut statement = connection
        .prepare(
            "SELECT c.no, c.at, c.generation, c.log, s.id FROM compaction c
             JOIN sessions s ON s.session_no = c.session_no
             WHERE c.at >= ?1 AND c.generation IS NULL
               AND c.no = (SELECT max(no) FROM compaction o WHERE o.session_no = c.session_no)
             ORDER BY c.at DESC LIMIT 50",
        )
        .doing(DOING)?;
    statement
        .query_map([since.0], |row| {
            Ok((SessionId::new(row.get::<_, String>(4)?), attempt_of(row)?))
        })
        .doing(DOING)?
        .collect::<Result<Vec<_>, _>>()
        .doing(DOING)
}
