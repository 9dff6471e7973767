//! The request ledger: one row an attempt, which outlives its session.

use std::sync::Arc;

use hermes_core::{
    Attempt, AttemptEnd, AttemptOutcome, GenerationNo, Params, RequestId, Seq, SessionId, Task,
    Timestamp, TurnNo, Usage,
};
use rusqlite::{Connection, OptionalExtension as _, ToSql, params};

use crate::codes::{error_class_of, outcome_of_word, outcome_word};
use crate::db::Doing as _;
use crate::rows::{digest_of, unreadable};
use crate::{Record, RequestFilter, RequestRecord, StoreError};

/// Level of kept bodies: JSON packs well at once.
const ZSTD_LEVEL: i32 = 3;

/// Inserts the row of an attempt; false if it is there already.
pub(crate) fn insert_attempt(
    connection: &Connection,
    session_no: i64,
    attempt: &Attempt,
) -> Result<bool, StoreError> {
    let params_json = serde_json::to_string(&attempt.params)
        .map_err(|error| unreadable("parameters", error.to_string()))?;
    let changed = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO request (id, session_no, turn, attempt, retries, task, wire,
                 provider, base_url, model, params, prompt, tools, history, body, body_bytes,
                 generation, cut, compactions, wire_profile, renderer, started_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19, ?20, ?21, ?22)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                attempt.id.as_str(),
                session_no,
                attempt.turn.0,
                attempt.attempt,
                attempt.retries.as_ref().map(RequestId::as_str),
                attempt.task.as_str(),
                &*attempt.wire,
                &*attempt.provider,
                &*attempt.base_url,
                &*attempt.model,
                params_json,
                attempt.prompt.as_bytes(),
                attempt.tools.as_bytes(),
                attempt.history.as_bytes(),
                attempt.body.as_bytes(),
                attempt.body_bytes as i64,
                attempt.generation.0,
                attempt.cut.0 as i64,
                attempt.compactions,
                attempt.wire_profile.as_bytes(),
                attempt.renderer,
                attempt.started_at.0,
            ])
        })
        .doing("recording a request")?;
    Ok(changed > 0)
}

/// Keeps the body of the attempt that was inserted last.
pub(crate) fn keep_body(
    connection: &Connection,
    id: &RequestId,
    body: &[u8],
) -> Result<(), StoreError> {
    let packed = zstd::bulk::compress(body, ZSTD_LEVEL)
        .map_err(|error| unreadable(format!("body of {id}"), error.to_string()))?;
    connection
        .execute(
            "INSERT OR IGNORE INTO body (request_no, bytes)
             SELECT request_no, ?2 FROM request WHERE id = ?1",
            params![id.as_str(), packed],
        )
        .doing("keeping a body")?;
    Ok(())
}

/// What became of an attempt's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Recorded,
    AlreadyEnded,
    UnknownAttempt,
}

/// Completes the row of an attempt that has not ended yet.
pub(crate) fn end_attempt(connection: &Connection, end: &AttemptEnd) -> Result<Ending, StoreError> {
    let count = |value: Option<u64>| value.map(|count| count as i64);
    let changed = connection
        .prepare_cached(
            "UPDATE request SET outcome = ?2, first_byte_at = ?3, ended_at = ?4, http_status = ?5,
                 error_class = ?6, error = ?7, input_tokens = ?8, output_tokens = ?9,
                 cache_read_tokens = ?10, cache_write_tokens = ?11, reasoning_tokens = ?12,
                 served_model = ?13, finish_reason = ?14, response = ?15
             WHERE id = ?1 AND outcome IS NULL",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                end.id.as_str(),
                outcome_word(end.outcome),
                end.first_byte_at.map(|at| at.0),
                end.ended_at.0,
                end.http_status,
                end.error_class.map(hermes_core::ErrorClass::as_str),
                end.error.as_deref(),
                count(end.usage.input),
                count(end.usage.output),
                count(end.usage.cache_read),
                count(end.usage.cache_write),
                count(end.usage.reasoning),
                end.served_model.as_deref(),
                end.finish_reason.as_deref(),
                end.response.map(|seq| seq.0 as i64),
            ])
        })
        .doing("recording the end of a request")?;
    if changed > 0 {
        return Ok(Ending::Recorded);
    }
    let known: Option<i64> = connection
        .query_row("SELECT 1 FROM request WHERE id = ?1", [end.id.as_str()], |row| row.get(0))
        .optional()
        .doing("looking for a request")?;
    Ok(if known.is_some() { Ending::AlreadyEnded } else { Ending::UnknownAttempt })
}

const COLUMNS: &str = "r.id, coalesce(s.id, t.session_id), s.session_no IS NULL, r.turn, r.attempt,
    r.retries, r.task, r.wire, r.provider, r.base_url, r.model, r.params, r.prompt, r.tools,
    r.history, r.body, r.body_bytes, r.generation, r.cut, r.compactions, r.wire_profile,
    r.renderer, r.started_at, EXISTS (SELECT 1 FROM body b WHERE b.request_no = r.request_no),
    r.outcome, r.first_byte_at, r.ended_at, r.http_status, r.error_class, r.error,
    r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens,
    r.reasoning_tokens, r.served_model, r.finish_reason, r.response";

const FROM: &str = "FROM request r
    LEFT JOIN sessions s ON s.session_no = r.session_no
    LEFT JOIN tombstone t ON t.session_no = r.session_no";

/// The ledger rows that match.
pub(crate) fn load(
    connection: &Connection,
    filter: &RequestFilter,
) -> Result<Vec<RequestRecord>, StoreError> {
    let mut wheres: Vec<String> = Vec::new();
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if let Some(session) = &filter.session {
        values.push(Box::new(session.as_str().to_owned()));
        let n = values.len();
        // The numbers first, so that the index by session serves.
        wheres.push(format!(
            "r.session_no IN (SELECT session_no FROM sessions WHERE id = ?{n}
             UNION ALL SELECT session_no FROM tombstone WHERE session_id = ?{n})"
        ));
    }
    if !filter.ids.is_empty() {
        let first = values.len() + 1;
        let marks: Vec<String> =
            (first..first + filter.ids.len()).map(|n| format!("?{n}")).collect();
        wheres.push(format!("r.id IN ({})", marks.join(",")));
        for id in &filter.ids {
            values.push(Box::new(id.as_str().to_owned()));
        }
    }
    if filter.main_only {
        wheres.push("r.task = 'main'".to_owned());
    }
    let wheres = if wheres.is_empty() { "1".to_owned() } else { wheres.join(" AND ") };
    let order = if filter.newest_first { "DESC" } else { "ASC" };
    let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let sql = format!("SELECT {COLUMNS} {FROM} WHERE {wheres} ORDER BY r.id {order} LIMIT {limit}");
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    collect(connection, &sql, &values)
}

/// The ledger rows whose id begins with `prefix`, at most `limit`.
pub(crate) fn load_by_prefix(
    connection: &Connection,
    prefix: &str,
    limit: u32,
) -> Result<Vec<RequestRecord>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} {FROM} WHERE r.id >= ?1 AND r.id < ?2 ORDER BY r.id LIMIT {limit}"
    );
    // Ids are ASCII; the last character of Unicode ends the range.
    collect(connection, &sql, &[&prefix, &format!("{prefix}\u{10ffff}")])
}

fn collect(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
) -> Result<Vec<RequestRecord>, StoreError> {
    const DOING: &str = "reading the ledger";
    let mut statement = connection.prepare_cached(sql).doing(DOING)?;
    let mut found = statement.query(values).doing(DOING)?;
    let mut records = Vec::new();
    while let Some(row) = found.next().doing(DOING)? {
        records.push(record_of(row)?);
    }
    Ok(records)
}

fn record_of(row: &rusqlite::Row<'_>) -> Result<RequestRecord, StoreError> {
    const DOING: &str = "reading a ledger row";
    fn get<T: rusqlite::types::FromSql>(
        row: &rusqlite::Row<'_>,
        at: usize,
    ) -> Result<T, StoreError> {
        row.get(at).doing(DOING)
    }
    let text = |at| get::<String>(row, at).map(Arc::<str>::from);
    let optional = |at| get::<Option<String>>(row, at).map(|text| text.map(Arc::<str>::from));
    let time = |at| get::<Option<i64>>(row, at).map(|at| at.map(Timestamp));
    let count = |at| get::<Option<i64>>(row, at).map(|count| count.map(|count| count as u64));
    let id = RequestId::new(text(0)?);
    let place = format!("request {id}");
    let digest =
        |at: usize| digest_of(row.get_ref(at).doing(DOING)?.as_blob().unwrap_or_default(), &place);
    let session: Option<String> = get(row, 1)?;
    let params: String = get(row, 11)?;
    let params: Params = serde_json::from_str(&params)
        .map_err(|error| unreadable(place.clone(), error.to_string()))?;
    let outcome: Option<String> = get(row, 24)?;
    let end = match outcome {
        None => None,
        Some(word) => Some(AttemptEnd {
            id: id.clone(),
            outcome: outcome_of_word(&word)
                .ok_or_else(|| unreadable(place.clone(), format!("an unknown outcome {word}")))?,
            first_byte_at: time(25)?,
            ended_at: time(26)?.unwrap_or_default(),
            http_status: get(row, 27)?,
            error_class: get::<Option<String>>(row, 28)?.as_deref().and_then(error_class_of),
            error: optional(29)?,
            usage: Usage {
                input: count(30)?,
                output: count(31)?,
                cache_read: count(32)?,
                cache_write: count(33)?,
                reasoning: count(34)?,
            },
            served_model: optional(35)?,
            finish_reason: optional(36)?,
            response: count(37)?.map(Seq),
        }),
    };
    let attempt = Attempt {
        session: SessionId::new(session.unwrap_or_default()),
        turn: TurnNo(get(row, 3)?),
        attempt: get(row, 4)?,
        retries: optional(5)?.map(RequestId::new),
        task: match get::<String>(row, 6)?.as_str() {
            "main" => Task::Main,
            name => Task::Auxiliary(name.into()),
        },
        wire: text(7)?,
        provider: text(8)?,
        base_url: text(9)?,
        model: text(10)?,
        params,
        prompt: digest(12)?,
        tools: digest(13)?,
        history: digest(14)?,
        body: digest(15)?,
        body_bytes: get::<i64>(row, 16)? as u64,
        generation: GenerationNo(get(row, 17)?),
        cut: Seq(get::<i64>(row, 18)? as u64),
        compactions: get(row, 19)?,
        wire_profile: digest(20)?,
        renderer: get(row, 21)?,
        started_at: Timestamp(get(row, 22)?),
        kept_body: None,
        id,
    };
    Ok(RequestRecord { attempt, has_kept_body: get(row, 23)?, end, session_deleted: get(row, 2)? })
}

/// The kept body of a request.
pub(crate) fn load_body(
    connection: &Connection,
    id: &RequestId,
) -> Result<Option<Vec<u8>>, StoreError> {
    let packed: Option<Vec<u8>> = connection
        .query_row(
            "SELECT b.bytes FROM body b JOIN request r ON r.request_no = b.request_no
             WHERE r.id = ?1",
            [id.as_str()],
            |row| row.get(0),
        )
        .optional()
        .doing("reading a kept body")?;
    packed
        .map(|packed| {
            zstd::stream::decode_all(packed.as_slice())
                .map_err(|error| unreadable(format!("body of {id}"), error.to_string()))
        })
        .transpose()
}

/// Whether tokens of this end count in the session's totals, and as a call that was answered.
pub(crate) fn is_answered(end: &AttemptEnd) -> bool {
    end.outcome == AttemptOutcome::Ok
}

/// Adds what waits in side files: attempts the database does not know, and ends it lacks.
pub(crate) fn merge<'a>(
    found: &mut Vec<RequestRecord>,
    records: impl Iterator<Item = &'a Record>,
    filter: &RequestFilter,
) {
    for record in records {
        match record {
            Record::AttemptStarted(attempt) => {
                let wanted = filter.session.as_ref().is_none_or(|id| *id == attempt.session)
                    && (filter.ids.is_empty() || filter.ids.contains(&attempt.id))
                    && (!filter.main_only || attempt.task == Task::Main)
                    && found.iter().all(|known| known.attempt.id != attempt.id);
                if wanted {
                    found.push(RequestRecord {
                        has_kept_body: attempt.kept_body.is_some(),
                        attempt: Attempt { kept_body: None, ..attempt.clone() },
                        end: None,
                        session_deleted: false,
                    });
                }
            }
            Record::AttemptEnded(end) => {
                if let Some(known) = found.iter_mut().find(|known| known.attempt.id == end.id) {
                    known.end.get_or_insert_with(|| end.clone());
                }
            }
            _ => {}
        }
    }
    found.sort_by(|a, b| a.attempt.id.cmp(&b.attempt.id));
    if filter.newest_first {
        found.reverse();
    }
    found.truncate(filter.limit.unwrap_or(usize::MAX));
}
