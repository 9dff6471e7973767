//! Taking in whole sessions from elsewhere: each in one transaction, so that an import that is
//! interrupted goes on where it stopped.

use hermes_core::{SessionId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Transaction, params};

use crate::apply::{self, Applier, Care};
use crate::db::Doing as _;
use crate::store::Store;
use crate::{Batch, SessionInit, StoreError, engage, point};

const DOING: &str = "importing a session";

/// Columns of `sessions` that travel with a session. The others are worked out here, name texts
/// that are stored under their digests, or belong to a running process.
const TRAVELLING: [&str; 32] = [
    "created_source",
    "user_id",
    "session_key",
    "chat_id",
    "chat_type",
    "thread_id",
    "display_name",
    "origin_json",
    "model_config",
    "ended_at",
    "end_reason",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "billing_mode",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "cost_source",
    "pricing_version",
    "title_source",
    "last_activity_at",
    "last_activity_description",
    "last_activity_provenance",
    "api_call_count",
    "profile_name",
    "rewind_count",
    "archived",
    "pinned",
    "hidden",
];

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum FactValue {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
}

/// A session from elsewhere.
#[derive(Clone, Debug)]
pub struct ImportedSession {
    /// What it is created with.
    pub init: SessionInit,
    /// Columns of `sessions` by name; those that do not travel are left out.
    pub facts: Vec<(String, FactValue)>,
    /// Compactions so far.
    pub compactions: u32,
    /// Its texts, blobs, rows and generations.
    pub records: Batch,
    /// Take it in although a session of this id was deleted here.
    pub again: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It is stored.
    Imported,
    /// A session of this id is there already.
    AlreadyThere,
    /// A session of this id was deleted here.
    WasDeleted(Timestamp),
}

impl Store {
    /// Stores a session from elsewhere, whole or not at all.
    ///
    /// # Errors
    /// If its records contradict each other, or the store cannot be written.
    pub fn import_session(&self, session: &ImportedSession) -> Result<ImportOutcome, StoreError> {
        let inner = self.inner();
        let (wait, now) = (inner.options().busy_timeout, inner.now());
        inner.write(|side| {
            let outcome = side.transaction(wait, |tx| import(tx, session, now))?;
            if outcome == ImportOutcome::Imported {
                side.wrote(&session.records);
            }
            Ok(outcome)
        })
    }

    /// Whether [`Store::import_session`] would store a session of this id.
    pub fn would_import(&self, id: &SessionId, again: bool) -> Result<ImportOutcome, StoreError> {
        let found = self.inner().read(|connection| standing(connection, id, again))?;
        Ok(found.unwrap_or(ImportOutcome::Imported))
    }
}

fn standing(
    connection: &rusqlite::Connection,
    id: &SessionId,
    again: bool,
) -> Result<ImportOutcome, StoreError> {
    if engage::number_of(connection, id)?.is_some() {
        return Ok(ImportOutcome::AlreadyThere);
    }
    Ok(match engage::tombstone_of(connection, id)? {
        Some((_, at)) if !again => ImportOutcome::WasDeleted(at),
        _ => ImportOutcome::Imported,
    })
}

fn import(
    tx: &Transaction<'_>,
    session: &ImportedSession,
    now: Timestamp,
) -> Result<ImportOutcome, StoreError> {
    let id = &session.init.id;
    let outcome = standing(tx, id, session.again)?;
    if outcome != ImportOutcome::Imported {
        return Ok(outcome);
    }
    let session_no = apply::create_session(tx, &session.init)?;
    point::reach("import: session made");
    Applier::new(tx, session_no, id, now, Care::Lenient).apply(&session.records)?;
    point::reach("import: records in");
    for (name, value) in &session.facts {
        let Some(column) = TRAVELLING.iter().find(|known| *known == name) else { continue };
        let value = match value {
            FactValue::Text(text) => Value::Text(text.clone()),
            FactValue::Integer(number) => Value::Integer(*number),
            FactValue::Real(number) if number.is_finite() => Value::Real(*number),
            FactValue::Real(_) => continue,
        };
        tx.execute(
            &format!("UPDATE sessions SET {column} = ?2 WHERE session_no = ?1"),
            params![session_no, value],
        )
        .doing(DOING)?;
    }
    tx.execute(
        "UPDATE sessions SET compactions = max(compactions, ?2) WHERE session_no = ?1",
        params![session_no, session.compactions],
    )
    .doing(DOING)?;
    Ok(ImportOutcome::Imported)
}
