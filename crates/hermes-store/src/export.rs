//! A session as one JSON line: the columns that other programs know, then everything else under
//! one key.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use base64::Engine as _;
use hermes_core::{Digest, Generation, PartBody, Role, Row, Seq, SessionId, Standing};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::db::Doing as _;
use crate::flags::{self, Flags};
use crate::messages::{Message, message_of};
use crate::rows::ID_STEP;
use crate::store::Store;
use crate::{History, SessionInfo, StoreError, engage};

/// Version of what stands under `_hermes`.
const EXTRAS_VERSION: u32 = 1;

/// Columns that are this project's own.
const OWN: [&str; 6] =
    ["session_no", "lane", "parent_kind", "compactions", "op_reach", "cut_reach"];

#[derive(Serialize)]
struct Extras<'a> {
    version: u32,
    session: &'a SessionInfo,
    rows: &'a [Row],
    generations: &'a [Generation],
    /// Prompts and tool arrays of older generations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    texts: Vec<std::sync::Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blobs: Vec<ExportedBlob>,
}

/// Binary content as it travels.
#[derive(Serialize)]
struct ExportedBlob {
    media_type: String,
    base64: String,
}

/// Texts of generations that are not those of the newest one, and all blobs.
fn contents(
    store: &Store,
    history: &History,
) -> Result<(Vec<std::sync::Arc<str>>, Vec<ExportedBlob>), StoreError> {
    let head = history.generations.last();
    let mut wanted: BTreeSet<Digest> =
        history.generations.iter().flat_map(|g| [g.prompt, g.tools]).collect();
    wanted.retain(|digest| head.is_none_or(|head| head.prompt != *digest && head.tools != *digest));
    let mut texts = Vec::new();
    for digest in wanted {
        texts.extend(store.text(&digest)?);
    }
    let mut blobs = Vec::new();
    let mut seen: BTreeSet<Digest> = BTreeSet::new();
    for part in history.rows.iter().flat_map(|row| &row.parts) {
        if let PartBody::Blob { digest, media_type, .. } = &part.body
            && seen.insert(*digest)
            && let Some(bytes) = store.blob(digest)?
        {
            let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
            blobs.push(ExportedBlob { media_type: media_type.to_string(), base64 });
        }
    }
    Ok((texts, blobs))
}

pub(crate) fn jsonl(
    store: &Store,
    id: &SessionId,
    out: &mut dyn io::Write,
) -> Result<(), StoreError> {
    let history = store.history(id)?;
    let Some(info) = store.session(id)? else {
        return Err(StoreError::NotFound {
            what: "session",
            reference: id.to_string(),
            hint: "list them with `hermes sessions list`".to_owned(),
        });
    };
    let messages = messages(store, id, &history)?;
    let mut columns = store
        .inner()
        .read(|connection| session_columns(connection, id))?
        .flatten()
        .unwrap_or_else(|| columns_of(&info));
    if let Some(head) = history.generations.last() {
        for (column, digest) in [("system_prompt", &head.prompt), ("tool_names", &head.tools)] {
            let text = store.text(digest)?.map(|text| text.to_string());
            columns.insert(column.to_owned(), text.into());
        }
    }
    let (texts, blobs) = contents(store, &history)?;
    write_line(
        out,
        &columns,
        &messages,
        &Extras {
            version: EXTRAS_VERSION,
            session: &info,
            rows: &history.rows,
            generations: &history.generations,
            texts,
            blobs,
        },
    )
    .map_err(|source| StoreError::Io { path: "the export".into(), source })
}

fn write_line(
    out: &mut dyn io::Write,
    columns: &Map<String, Value>,
    messages: &[Message],
    extras: &Extras<'_>,
) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 * 1024, out);
    io::Write::write_all(&mut out, b"{")?;
    for (column, value) in columns {
        serde_json::to_writer(&mut out, column)?;
        io::Write::write_all(&mut out, b":")?;
        serde_json::to_writer(&mut out, value)?;
        io::Write::write_all(&mut out, b",")?;
    }
    io::Write::write_all(&mut out, b"\"messages\":[")?;
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            io::Write::write_all(&mut out, b",")?;
        }
        serde_json::to_writer(&mut out, message)?;
    }
    io::Write::write_all(&mut out, b"],\"timings\":")?;
    serde_json::to_writer(&mut out, &timings(messages))?;
    io::Write::write_all(&mut out, b",\"_hermes\":")?;
    serde_json::to_writer(&mut out, extras)?;
    io::Write::write_all(&mut out, b"}\n")?;
    io::Write::flush(&mut out)
}

/// The messages of a history in the order people see.
pub(crate) fn messages(
    store: &Store,
    id: &SessionId,
    history: &History,
) -> Result<Vec<Message>, StoreError> {
    let ids = store.inner().read(|connection| stored_ids(connection, id))?.unwrap_or_default();
    let standings: Vec<(Seq, Standing)> =
        history.rows.iter().map(|row| (row.seq, row.standing)).collect();
    // A broken ancestry shows every row as it was born; `check` reports it.
    let flags = flags::flags(&standings, &history.generations, history.head).unwrap_or_default();
    let mut next = ids.values().max().copied().unwrap_or(0) / ID_STEP * ID_STEP;
    let mut messages: Vec<Message> = history
        .rows
        .iter()
        .map(|row| {
            let message_id = ids.get(&row.seq).copied().unwrap_or_else(|| {
                next += ID_STEP;
                next
            });
            let flags = flags.get(&row.seq).copied().unwrap_or_else(|| Flags::born(row.standing));
            message_of(id.as_str(), message_id, row, flags)
        })
        .collect();
    messages.sort_by_key(|message| message.id);
    Ok(messages)
}

fn stored_ids(connection: &Connection, id: &SessionId) -> Result<BTreeMap<Seq, i64>, StoreError> {
    const DOING: &str = "reading message ids";
    let Some(session_no) = engage::number_of(connection, id)? else {
        return Ok(BTreeMap::new());
    };
    let mut statement =
        connection.prepare_cached("SELECT seq, id FROM row WHERE session_no = ?1").doing(DOING)?;
    let found = statement
        .query_map([session_no], |row| Ok((Seq(row.get::<_, i64>(0)? as u64), row.get(1)?)))
        .doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}

/// The columns of `sessions` that other programs know.
fn session_columns(
    connection: &Connection,
    id: &SessionId,
) -> Result<Option<Map<String, Value>>, StoreError> {
    const DOING: &str = "reading a session";
    let mut statement =
        connection.prepare_cached("SELECT * FROM sessions WHERE id = ?1").doing(DOING)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    statement
        .query_row([id.as_str()], |row| {
            let mut columns = Map::new();
            for (at, name) in names.iter().enumerate() {
                if OWN.contains(&name.as_str()) {
                    continue;
                }
                let value = match row.get_ref(at)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(number) => number.into(),
                    ValueRef::Real(number) => number.into(),
                    ValueRef::Text(text) | ValueRef::Blob(text) => {
                        String::from_utf8_lossy(text).into_owned().into()
                    }
                };
                columns.insert(name.clone(), value);
            }
            Ok(columns)
        })
        .optional()
        .doing(DOING)
}

/// The same for a session that is only in a side file.
fn columns_of(info: &SessionInfo) -> Map<String, Value> {
    let seconds = |at: hermes_core::Timestamp| Value::from(at.as_seconds_f64());
    let columns: [(&str, Value); 20] = [
        ("id", info.id.as_str().into()),
        ("source", info.source.clone().into()),
        ("model", info.model.clone().into()),
        ("parent_session_id", info.parent.as_ref().map(|(id, _)| id.to_string()).into()),
        ("started_at", seconds(info.started_at)),
        ("ended_at", info.ended_at.map(seconds).into()),
        ("end_reason", info.end_reason.clone().into()),
        ("message_count", info.message_count.into()),
        ("tool_call_count", info.tool_call_count.into()),
        ("input_tokens", info.usage.input.into()),
        ("output_tokens", info.usage.output.into()),
        ("cache_read_tokens", info.usage.cache_read.into()),
        ("cache_write_tokens", info.usage.cache_write.into()),
        ("reasoning_tokens", info.usage.reasoning.into()),
        ("cwd", info.cwd.clone().into()),
        ("git_branch", info.git_branch.clone().into()),
        ("git_repo_root", info.git_root.clone().into()),
        ("billing_provider", info.provider.clone().into()),
        ("billing_base_url", info.base_url.clone().into()),
        ("title", info.title.clone().into()),
    ];
    columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[derive(Serialize)]
struct Timings {
    source: &'static str,
    available: bool,
    complete: bool,
    unavailable_reason: Option<&'static str>,
    message_timestamps: Counted,
    first_message_at: Option<f64>,
    last_message_at: Option<f64>,
    wall_clock_ms: Option<i64>,
    largest_gap_ms: Option<i64>,
    role_counts: BTreeMap<&'static str, u64>,
    tool_result_count: u64,
    tool_calls_emitted: u64,
    intervals: Vec<Interval>,
}

#[derive(Serialize)]
struct Counted {
    available: usize,
    missing: usize,
}

#[derive(Serialize)]
struct Interval {
    from_message_id: i64,
    to_message_id: i64,
    from_role: &'static str,
    to_role: &'static str,
    gap_ms: i64,
}

fn timings(messages: &[Message]) -> Timings {
    let gap =
        |from: &Message, to: &Message| ((to.timestamp - from.timestamp) * 1000.0).round() as i64;
    let intervals: Vec<Interval> = messages
        .windows(2)
        .filter_map(|pair| match pair {
            [from, to] => Some(Interval {
                from_message_id: from.id,
                to_message_id: to.id,
                from_role: from.role,
                to_role: to.role,
                gap_ms: gap(from, to),
            }),
            _ => None,
        })
        .collect();
    let mut role_counts = BTreeMap::new();
    for message in messages {
        *role_counts.entry(message.role).or_insert(0) += 1;
    }
    let ends = messages.first().zip(messages.last());
    Timings {
        source: "message_timestamps",
        available: !messages.is_empty(),
        complete: false,
        unavailable_reason: messages.is_empty().then_some("no_messages"),
        message_timestamps: Counted { available: messages.len(), missing: 0 },
        first_message_at: ends.map(|(first, _)| first.timestamp),
        last_message_at: ends.map(|(_, last)| last.timestamp),
        wall_clock_ms: ends.map(|(first, last)| gap(first, last)),
        largest_gap_ms: intervals.iter().map(|interval| interval.gap_ms).max(),
        tool_result_count: role_counts.get(Role::Tool.as_str()).copied().unwrap_or(0),
        role_counts,
        tool_calls_emitted: messages
            .iter()
            .filter_map(|message| message.tool_calls.as_ref())
            .map(|calls| calls.len() as u64)
            .sum(),
        intervals,
    }
}
