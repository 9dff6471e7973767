//! Rows, parts and generations as the tables hold them.

use std::sync::Arc;

use hermes_core::{
    Digest, Generation, GenerationNo, Part, PartBody, Row, Seq, Timestamp, ToolLink, TurnNo,
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};

use crate::StoreError;
use crate::codes::{
    cause_of_word, cause_word, origin_code, origin_of, role_code, role_of, standing_code,
    standing_of, status_code, status_of,
};
use crate::db::Doing as _;

/// Seqs take the lower half of a part's key.
pub(crate) const SEQ_BITS: u32 = 32;

/// Steps of `messages.id`; the ids between two steps belong to the session of the lower one.
pub(crate) const ID_STEP: i64 = 1024;

/// The key of a part or row inside the whole file.
pub(crate) fn key(session_no: i64, seq: Seq) -> i64 {
    (session_no << SEQ_BITS) + seq.0 as i64
}

/// The keys of all parts of a session: first, last.
pub(crate) fn key_range(session_no: i64) -> (i64, i64) {
    (session_no << SEQ_BITS, ((session_no + 1) << SEQ_BITS) - 1)
}

/// The seq in a key.
pub(crate) fn seq_of(key: i64) -> Seq {
    Seq((key & ((1 << SEQ_BITS) - 1)) as u64)
}

pub(crate) fn unreadable(place: impl Into<String>, what: impl Into<String>) -> StoreError {
    StoreError::Unreadable { place: place.into(), what: what.into() }
}

/// A digest column.
pub(crate) fn digest_of(bytes: &[u8], place: &str) -> Result<Digest, StoreError> {
    <[u8; 32]>::try_from(bytes)
        .map(Digest::from_bytes)
        .map_err(|_| unreadable(place, format!("a digest of {} bytes", bytes.len())))
}

/// Inserts a row without its parts; false if a row with this seq is there already.
pub(crate) fn insert_row(
    connection: &Connection,
    session_no: i64,
    id: i64,
    row: &Row,
    active: bool,
) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO row (id, session_no, seq, turn, role, standing, status, active,
                 compacted, created_at, call_id, tool_name, finish_reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                id,
                session_no,
                row.seq.0 as i64,
                row.turn.0,
                role_code(row.role),
                standing_code(row.standing),
                status_code(row.status),
                active,
                row.created_at.0,
                row.tool.as_ref().map(|tool| &*tool.call_id),
                row.tool.as_ref().map(|tool| &*tool.name),
                row.finish_reason.as_deref(),
            ])
        })
        .doing("storing a row")?;
    Ok(changed > 0)
}

/// The next free `messages.id`.
pub(crate) fn next_id(connection: &Connection) -> Result<i64, StoreError> {
    let last: i64 = connection
        .prepare_cached("SELECT ifnull(max(id), 0) FROM row")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing("finding a free message id")?;
    Ok((last / ID_STEP + 1) * ID_STEP)
}

/// Inserts a part; false if a part with this seq is there already.
pub(crate) fn insert_part(
    connection: &Connection,
    session_no: i64,
    part: &Part,
    row_created_at: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let (kind, name, reference, value): (i64, Option<&str>, ToSqlOutput<'_>, ToSqlOutput<'_>) =
        match &part.body {
            PartBody::Text { text } => (0, None, null(), borrowed(text)),
            PartBody::Reasoning { field, text } => (1, Some(field), null(), borrowed(text)),
            PartBody::Raw { field, json } => (2, Some(field), null(), borrowed(json)),
            PartBody::ToolCall { id, name, arguments } => {
                (3, Some(name), borrowed(id), borrowed(arguments))
            }
            PartBody::Blob { digest, media_type, bytes } => (
                4,
                Some(media_type),
                ToSqlOutput::from(*bytes as i64),
                ToSqlOutput::Borrowed(ValueRef::Blob(digest.as_bytes())),
            ),
        };
    let created_at = (row_created_at != Some(part.created_at)).then_some(part.created_at.0);
    let changed = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO part (key, row_key, slot, origin, standing, kind, created_at,
                 label, name, ref, value)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                key(session_no, part.seq),
                key(session_no, part.row),
                part.slot,
                origin_code(part.origin),
                standing_code(part.standing),
                kind,
                created_at,
                part.label.as_deref(),
                name,
                reference,
                value,
            ])
        })
        .doing("storing a part")?;
    Ok(changed > 0)
}

const fn null() -> ToSqlOutput<'static> {
    ToSqlOutput::Borrowed(ValueRef::Null)
}

const fn borrowed(text: &str) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
}

/// The rows of a session by seq, each with its parts in order; of one row if `only` is given.
pub(crate) fn load_rows(
    connection: &Connection,
    session_no: i64,
    only: Option<Seq>,
) -> Result<Vec<Row>, StoreError> {
    let (from, to) = match only {
        Some(seq) => (seq.0 as i64, seq.0 as i64),
        None => (0, i64::MAX),
    };
    let mut statement = connection
        .prepare_cached(
            "SELECT seq, turn, role, standing, status, created_at, call_id, tool_name,
                 finish_reason
             FROM row WHERE session_no = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq",
        )
        .doing("reading rows")?;
    let mut found = statement.query(params![session_no, from, to]).doing("reading rows")?;
    let mut rows: Vec<Row> = Vec::new();
    while let Some(row) = found.next().doing("reading rows")? {
        rows.push(row_of(row, 0)?);
    }
    let (sql, range) = match only {
        Some(seq) => ("row_key BETWEEN ?1 AND ?2", (key(session_no, seq), key(session_no, seq))),
        None => ("key BETWEEN ?1 AND ?2", key_range(session_no)),
    };
    load_parts(connection, sql, range, &mut rows)?;
    for row in &mut rows {
        row.sort_parts();
    }
    Ok(rows)
}

/// A row without its parts. Its columns (`seq, turn, role, standing, status, created_at, call_id,
/// tool_name, finish_reason`) begin at `from`.
pub(crate) fn row_of(row: &rusqlite::Row<'_>, from: usize) -> Result<Row, StoreError> {
    const DOING: &str = "reading a row";
    let seq = Seq(row.get::<_, i64>(from).doing(DOING)? as u64);
    let bad = |what: &str| unreadable(format!("row {seq}"), format!("an unknown {what}"));
    let call_id: Option<String> = row.get(from + 6).doing(DOING)?;
    let name: Option<String> = row.get(from + 7).doing(DOING)?;
    let tool = call_id
        .zip(name)
        .map(|(call_id, name)| ToolLink { call_id: call_id.into(), name: name.into() });
    Ok(Row {
        seq,
        turn: TurnNo(row.get(from + 1).doing(DOING)?),
        role: role_of(row.get(from + 2).doing(DOING)?).ok_or_else(|| bad("role"))?,
        standing: standing_of(row.get(from + 3).doing(DOING)?).ok_or_else(|| bad("standing"))?,
        status: status_of(row.get(from + 4).doing(DOING)?).ok_or_else(|| bad("status"))?,
        created_at: Timestamp(row.get(from + 5).doing(DOING)?),
        tool,
        finish_reason: row.get::<_, Option<String>>(from + 8).doing(DOING)?.map(Arc::from),
        parts: Vec::new(),
    })
}

/// Reads parts and puts them into their rows.
fn load_parts(
    connection: &Connection,
    which: &'static str,
    range: (i64, i64),
    rows: &mut [Row],
) -> Result<(), StoreError> {
    const DOING: &str = "reading parts";
    let sql = format!(
        "SELECT key, row_key, slot, origin, standing, kind, created_at, label, name, ref, value
         FROM part WHERE {which} ORDER BY key"
    );
    let mut statement = connection.prepare_cached(&sql).doing(DOING)?;
    let mut found = statement.query([range.0, range.1]).doing(DOING)?;
    while let Some(row) = found.next().doing(DOING)? {
        let owner = seq_of(row.get(1).doing(DOING)?);
        // A part without a row is left out; `check` reports it.
        if let Ok(at) = rows.binary_search_by_key(&owner, |row| row.seq) {
            let part = part_of(row, 0, &rows[at])?;
            if rows[at].parts.is_empty() {
                // Most rows have one part; the usual room for four is most of a history's memory.
                rows[at].parts.reserve_exact(1);
            }
            rows[at].parts.push(part);
        }
    }
    Ok(())
}

/// A part of the row `owner`. Its columns (`key, row_key, slot, origin, standing, kind, created_at,
/// label, name, ref, value`) begin at `from`.
pub(crate) fn part_of(
    row: &rusqlite::Row<'_>,
    from: usize,
    owner: &Row,
) -> Result<Part, StoreError> {
    const DOING: &str = "reading a part";
    let seq = seq_of(row.get(from).doing(DOING)?);
    let bad = |what: &str| unreadable(format!("part {seq}"), format!("an unknown {what}"));
    let text = |at: usize| -> Result<Arc<str>, StoreError> {
        row.get_ref(from + at)
            .doing(DOING)?
            .as_str()
            .map(Arc::from)
            .map_err(|_| unreadable(format!("part {seq}"), "no text where one must be"))
    };
    let kind: i64 = row.get(from + 5).doing(DOING)?;
    let body = match kind {
        0 => PartBody::Text { text: text(10)? },
        1 => PartBody::Reasoning { field: text(8)?, text: text(10)? },
        2 => PartBody::Raw { field: text(8)?, json: text(10)? },
        3 => PartBody::ToolCall { id: text(9)?, name: text(8)?, arguments: text(10)? },
        4 => PartBody::Blob {
            digest: digest_of(
                row.get_ref(from + 10).doing(DOING)?.as_blob().unwrap_or_default(),
                "part",
            )?,
            media_type: text(8)?,
            bytes: row.get::<_, i64>(from + 9).doing(DOING)? as u64,
        },
        _ => return Err(bad("kind")),
    };
    let created_at =
        row.get::<_, Option<i64>>(from + 6).doing(DOING)?.map_or(owner.created_at, Timestamp);
    Ok(Part {
        seq,
        row: owner.seq,
        slot: row.get(from + 2).doing(DOING)?,
        origin: origin_of(row.get(from + 3).doing(DOING)?).ok_or_else(|| bad("origin"))?,
        standing: standing_of(row.get(from + 4).doing(DOING)?).ok_or_else(|| bad("standing"))?,
        created_at,
        label: row.get::<_, Option<String>>(from + 7).doing(DOING)?.map(Arc::from),
        body,
    })
}

/// Inserts a generation; false if one with this number is there already.
pub(crate) fn insert_generation(
    connection: &Connection,
    session_no: i64,
    generation: &Generation,
) -> Result<bool, StoreError> {
    let ops = serde_json::to_string(&generation.ops)
        .map_err(|error| unreadable("generation", error.to_string()))?;
    let changed = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO gen (session_no, n, parent, cause, created_at, prompt, tools,
                 ops)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                session_no,
                generation.n.0,
                generation.parent.map(|n| n.0),
                cause_word(generation.cause),
                generation.created_at.0,
                generation.prompt.as_bytes(),
                generation.tools.as_bytes(),
                ops,
            ])
        })
        .doing("storing a generation")?;
    Ok(changed > 0)
}

/// The generations of a session by number.
pub(crate) fn load_generations(
    connection: &Connection,
    session_no: i64,
) -> Result<Vec<Generation>, StoreError> {
    const DOING: &str = "reading generations";
    let mut statement = connection
        .prepare_cached(
            "SELECT n, parent, cause, created_at, prompt, tools, ops
             FROM gen WHERE session_no = ?1 ORDER BY n",
        )
        .doing(DOING)?;
    let mut found = statement.query([session_no]).doing(DOING)?;
    let mut generations = Vec::new();
    while let Some(row) = found.next().doing(DOING)? {
        let n = GenerationNo(row.get(0).doing(DOING)?);
        let place = || format!("generation {n}");
        let cause: String = row.get(2).doing(DOING)?;
        let ops: String = row.get(6).doing(DOING)?;
        let digest = |at: usize| -> Result<Digest, StoreError> {
            digest_of(row.get_ref(at).doing(DOING)?.as_blob().unwrap_or_default(), "generation")
        };
        generations.push(Generation {
            n,
            parent: row.get::<_, Option<u32>>(1).doing(DOING)?.map(GenerationNo),
            cause: cause_of_word(&cause)
                .ok_or_else(|| unreadable(place(), format!("an unknown cause \"{cause}\"")))?,
            created_at: Timestamp(row.get(3).doing(DOING)?),
            prompt: digest(4)?,
            tools: digest(5)?,
            ops: serde_json::from_str(&ops)
                .map_err(|error| unreadable(place(), error.to_string()))?,
        });
    }
    Ok(generations)
}
