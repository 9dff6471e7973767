//! Taking in whole sessions from elsewhere: each in one transaction, so that an import that is
//! interrupted goes on where it stopped.

use hermes_core::{SessionId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Transaction, params};

use crate::apply::{self, Applier, Care};
use crate::db::Doing as _;
use crate::store::Store;
use crate::{Batch, SessionInit, StoreError, check, engage, point};

const DOING: &str = "importing a session";

/// What a column of `sessions` holds.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A count, or a flag.
    Count,
    /// Money.
    Number,
    /// Seconds since the epoch.
    Moment,
}

/// Columns of `sessions` that travel with a session. The others are worked out here, name texts
/// that are stored under their digests, or belong to a running process.
const TRAVELLING: [(&str, Kind); 32] = [
    ("created_source", Kind::Text),
    ("user_id", Kind::Text),
    ("session_key", Kind::Text),
    ("chat_id", Kind::Text),
    ("chat_type", Kind::Text),
    ("thread_id", Kind::Text),
    ("display_name", Kind::Text),
    ("origin_json", Kind::Text),
    ("model_config", Kind::Text),
    ("ended_at", Kind::Moment),
    ("end_reason", Kind::Text),
    ("input_tokens", Kind::Count),
    ("output_tokens", Kind::Count),
    ("cache_read_tokens", Kind::Count),
    ("cache_write_tokens", Kind::Count),
    ("reasoning_tokens", Kind::Count),
    ("billing_mode", Kind::Text),
    ("estimated_cost_usd", Kind::Number),
    ("actual_cost_usd", Kind::Number),
    ("cost_status", Kind::Text),
    ("cost_source", Kind::Text),
    ("pricing_version", Kind::Text),
    ("title_source", Kind::Text),
    ("last_activity_at", Kind::Moment),
    ("last_activity_description", Kind::Text),
    ("last_activity_provenance", Kind::Text),
    ("api_call_count", Kind::Count),
    ("profile_name", Kind::Text),
    ("rewind_count", Kind::Count),
    ("archived", Kind::Count),
    ("pinned", Kind::Count),
    ("hidden", Kind::Count),
];

/// A value as its column holds it; None for one that nobody could read there.
fn fitting(kind: Kind, value: &FactValue) -> Option<Value> {
    /// The year 2100: later ones are a fault of some clock.
    const LATEST: f64 = 4_102_444_800.0;
    let number = match value {
        FactValue::Text(text) => text.trim().parse().ok(),
        FactValue::Integer(number) => Some(*number as f64),
        FactValue::Real(number) => Some(*number),
    };
    let number = number.filter(|number| number.is_finite());
    match (kind, value) {
        (Kind::Text, FactValue::Text(text)) => Some(Value::Text(text.clone())),
        (Kind::Text, FactValue::Integer(number)) => Some(Value::Text(number.to_string())),
        (Kind::Text, FactValue::Real(number)) => Some(Value::Text(number.to_string())),
        (Kind::Count, FactValue::Integer(number)) => {
            (*number >= 0).then_some(Value::Integer(*number))
        }
        (Kind::Count, _) => {
            number.filter(|number| *number >= 0.0).map(|number| Value::Integer(number as i64))
        }
        (Kind::Number, _) => number.map(Value::Real),
        (Kind::Moment, _) => {
            number.filter(|at| (0.0..LATEST).contains(at) && *at > 0.0).map(Value::Real)
        }
    }
}

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
    /// Its records come from outside as they are: they are held against everything that is promised
    /// of a session before they stay.
    pub proven: bool,
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
        let Some((column, kind)) = TRAVELLING.iter().find(|(known, _)| known == name) else {
            continue;
        };
        let Some(value) = fitting(*kind, value) else { continue };
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
    if session.proven
        && let Some(finding) = check::of_session(tx, session_no, id)?.into_iter().next()
    {
        return Err(StoreError::Invalid { session: id.clone(), what: finding.what });
    }
    Ok(ImportOutcome::Imported)
}
