//! Stores of the Python Hermes Agent, schema 22 to 31 and whatever else has the same columns.
//!
//! The file is read where it lies if it has no log; else file and log are copied aside and the copy
//! is read, because opening a log in place would write beside it. It may be written meanwhile: a copy
//! is of one moment, and what was read in place is read again if the file changed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hermes_core::{Role, SessionId, Timestamp};
use hermes_store::{FactValue, ImportedSession, ParentKind, SessionInit};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value};

use crate::message::{self, Message};
use crate::{ImportError, Sink};

/// Schema versions that were seen.
const KNOWN: std::ops::RangeInclusive<i64> = 22..=31;

/// Marks a store of this program.
const OURS: i64 = 0x4852_4d53;

/// Columns that say something here has no place for, if they hold anything.
const WITHOUT_PLACE: [(&str, &str); 4] = [
    ("api_content", "text as it was sent, where it differed from what was said"),
    ("display_metadata", "display metadata of a message"),
    ("platform_message_id", "id of a message on its chat platform"),
    ("absorbed_message_uids", "ids of merged messages"),
];

/// How often a store that is being written is copied until a copy is of one moment.
const COPIES: u32 = 20;

/// The source's store, open for reading.
struct Source {
    path: PathBuf,
    connection: Connection,
    /// The folder of the copy, if one was made.
    copy: Option<tempfile::TempDir>,
    /// What the file was when it was opened in place.
    stamp: Option<Stamp>,
}

/// By which a change of a file shows.
type Stamp = (u64, Option<SystemTime>);

fn stamp(path: &Path) -> Option<Stamp> {
    path.metadata().ok().map(|meta| (meta.len(), meta.modified().ok()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The head of a log changes whenever the log begins anew.
fn log_head(path: &Path) -> Vec<u8> {
    let mut head = vec![0; 32];
    let read = File::open(beside(path, "-wal")).and_then(|mut file| file.read(&mut head));
    head.truncate(read.unwrap_or(0));
    head
}

impl Source {
    fn open(path: &Path) -> Result<Self, ImportError> {
        let fault = |error: rusqlite::Error| unreadable(path, &error);
        let waits = |suffix: &str| beside(path, suffix).metadata().is_ok_and(|meta| meta.len() > 0);
        let before = stamp(path);
        if !waits("-wal") && !waits("-journal") {
            let name = path.display().to_string();
            let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let uri = format!("file:{name}?mode=ro&immutable=1");
            let connection = Connection::open_with_flags(uri, flags).map_err(fault)?;
            return Ok(Self { path: path.to_owned(), connection, copy: None, stamp: before });
        }
        for _ in 0..COPIES {
            let folder = tempfile::tempdir().map_err(ImportError::at(path))?;
            let copy = folder.path().join("state.db");
            let (head, before) = (log_head(path), stamp(path));
            fs::copy(path, &copy).map_err(ImportError::at(path))?;
            for suffix in ["-wal", "-journal"] {
                let side = beside(path, suffix);
                match fs::copy(&side, beside(&copy, suffix)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(ImportError::at(&side)(error));
                    }
                    _ => {}
                }
            }
            // While the log only grows, it holds whatever was written back into the file meanwhile.
            let is_whole = !head.is_empty() && log_head(path) == head || stamp(path) == before;
            if is_whole {
                let connection = Connection::open(&copy).map_err(fault)?;
                return Ok(Self {
                    path: path.to_owned(),
                    connection,
                    copy: Some(folder),
                    stamp: None,
                });
            }
        }
        Err(ImportError::Source {
            path: path.to_owned(),
            what: "it changed whenever it was copied".to_owned(),
            hint: "end the program that writes it, then import again",
        })
    }

    /// Whether the file was written since it was opened in place, so that what was read may be of
    /// two moments.
    fn has_changed(&self) -> bool {
        self.copy.is_none() && stamp(&self.path) != self.stamp
    }

    fn fault(&self, error: &rusqlite::Error) -> ImportError {
        unreadable(&self.path, error)
    }

    /// The messages of a session. A file that was written meanwhile is opened again.
    fn messages(&mut self, id: &str) -> Result<Vec<Map<String, Value>>, ImportError> {
        const SQL: &str = "SELECT * FROM messages WHERE session_id = ?1 ORDER BY id";
        let rows = self.rows(SQL, Some(id));
        if !self.has_changed() {
            return rows;
        }
        *self = Self::open(&self.path)?;
        self.rows(SQL, Some(id))
    }

    /// When the last message of a session was stored.
    fn last_at(&self, id: &str) -> Option<Timestamp> {
        let sql = "SELECT max(timestamp) AS at FROM messages WHERE session_id = ?1";
        moment(self.rows(sql, Some(id)).ok()?.first()?, "at")
    }

    fn rows(&self, sql: &str, param: Option<&str>) -> Result<Vec<Map<String, Value>>, ImportError> {
        let run = || -> rusqlite::Result<Vec<Map<String, Value>>> {
            let mut statement = self.connection.prepare(sql)?;
            let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut found = match param {
                Some(param) => statement.query([param])?,
                None => statement.query([])?,
            };
            let mut rows = Vec::new();
            while let Some(row) = found.next()? {
                let mut columns = Map::new();
                for (at, name) in names.iter().enumerate() {
                    columns.insert(name.clone(), value(row.get_ref(at)?));
                }
                rows.push(columns);
            }
            Ok(rows)
        };
        run().map_err(|error| self.fault(&error))
    }

    /// A prompt or pinned tools by their hash.
    fn text(&self, hash: &str) -> Option<String> {
        self.connection
            .query_row("SELECT prompt FROM system_prompts WHERE hash = ?1", [hash], |row| {
                row.get(0)
            })
            .ok()
    }
}

fn unreadable(path: &Path, error: &rusqlite::Error) -> ImportError {
    ImportError::Source {
        path: path.to_owned(),
        what: error.to_string(),
        hint: "run the original's own `hermes sessions repair`, or import a backup of it",
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
    }
}

pub(crate) fn import(source: &Path, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let path = if source.is_dir() { source.join("state.db") } else { source.to_owned() };
    let mut source = Source::open(&path)?;
    let number = |sql: &str| -> rusqlite::Result<i64> {
        source
            .connection
            .query_row(sql, [], |row| row.get::<_, Option<i64>>(0).map(|n| n.unwrap_or(0)))
    };
    if number("PRAGMA application_id").map_err(|error| source.fault(&error))? == OURS {
        return Err(ImportError::Source {
            path,
            what: "it is a store of this program".to_owned(),
            hint: "write its sessions out with `hermes sessions export --format jsonl` and import those",
        });
    }
    let version =
        number("SELECT max(version) FROM schema_version").map_err(|error| source.fault(&error))?;
    sink.report.schema = Some(version);
    if !KNOWN.contains(&version) {
        sink.report.leave_out("whatever schema versions outside 22 to 31 hold beyond those");
    }
    let strays = "SELECT count(*) FROM messages WHERE session_id IS NULL
        OR session_id NOT IN (SELECT id FROM sessions WHERE id IS NOT NULL)";
    for _ in 0..number(strays).unwrap_or(0) {
        sink.report.leave_out("message of a session that is not there");
    }
    for session in source.rows("SELECT * FROM sessions ORDER BY started_at, id", None)? {
        let Some(id) = text(&session, "id") else {
            sink.report.leave_out("session without an id");
            continue;
        };
        let (id, started_at) = (SessionId::new(id), moment(&session, "started_at"));
        if !sink.wants(&id, started_at, || source.last_at(id.as_str()))? {
            continue;
        }
        match read(&mut source, session, sink) {
            Ok(session) => sink.take(session)?,
            // One damaged page costs the session that it is of.
            Err(ImportError::Source { what, .. }) => sink.report.skip(&id, what),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// One session with what belongs to it.
fn read(
    source: &mut Source,
    mut session: Map<String, Value>,
    sink: &mut Sink<'_>,
) -> Result<ImportedSession, ImportError> {
    let id = text(&session, "id").unwrap_or_default();
    let rows = source.messages(&id)?;
    let hashed = text(&session, "system_prompt_hash").and_then(|hash| source.text(&hash));
    if let Some(prompt) = hashed {
        session.insert("system_prompt".to_owned(), prompt.into());
    }
    if let Some(tools) = text(&session, "tool_names").and_then(|hash| source.text(&hash)) {
        session.insert("tool_names".to_owned(), tools.into());
    }
    let ended = text(&session, "parent_session_id").and_then(|parent| {
        source
            .connection
            .query_row("SELECT end_reason FROM sessions WHERE id = ?1", [parent], |row| {
                row.get::<_, Option<String>>(0)
            })
            .ok()
            .flatten()
    });
    Ok(imported(&session, &rows, ended.as_deref(), sink))
}

pub(crate) fn text(columns: &Map<String, Value>, name: &str) -> Option<String> {
    columns.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A moment, if it is one that can be true.
pub(crate) fn moment(columns: &Map<String, Value>, name: &str) -> Option<Timestamp> {
    /// The year 2100: later ones are a fault of some clock.
    const LATEST: f64 = 4_102_444_800.0;
    let seconds = columns.get(name)?.as_f64()?;
    (seconds > 0.0 && seconds < LATEST).then(|| Timestamp((seconds * 1e6).round() as i64))
}

/// A session and its messages by columns, as the database and the JSON lines have them.
pub(crate) fn imported(
    session: &Map<String, Value>,
    rows: &[Map<String, Value>],
    parent_ended: Option<&str>,
    sink: &mut Sink<'_>,
) -> ImportedSession {
    let started_at = moment(session, "started_at").unwrap_or_default();
    let mut messages: Vec<Message> = Vec::new();
    let mut before = started_at;
    for row in rows {
        if let Some(message) = message_of(row, before, sink) {
            before = message.at;
            messages.push(message);
        }
    }
    let prompt = text(session, "system_prompt").unwrap_or_default();
    let tools = tools_of(session.get("tool_names"));
    let built = message::build(messages, &prompt, &tools, started_at);
    ImportedSession {
        init: init(session, parent_ended, started_at),
        facts: facts(session),
        compactions: built.compactions,
        records: built.records,
        again: false,
        proven: false,
    }
}

/// The columns of a session as they travel.
pub(crate) fn facts(session: &Map<String, Value>) -> Vec<(String, FactValue)> {
    session
        .iter()
        .filter_map(|(name, value)| {
            let value = match value {
                Value::String(text) => FactValue::Text(text.clone()),
                Value::Bool(flag) => FactValue::Integer(i64::from(*flag)),
                Value::Number(number) => match number.as_i64() {
                    Some(number) => FactValue::Integer(number),
                    None => FactValue::Real(number.as_f64()?),
                },
                Value::Object(_) => FactValue::Text(value.to_string()),
                Value::Null | Value::Array(_) => return None,
            };
            Some((name.clone(), value))
        })
        .collect()
}

pub(crate) fn init(
    session: &Map<String, Value>,
    parent_ended: Option<&str>,
    started_at: Timestamp,
) -> SessionInit {
    let id = text(session, "id").unwrap_or_default();
    let source = text(session, "source").unwrap_or_else(|| "import".to_owned());
    let parent = text(session, "parent_session_id").filter(|parent| *parent != id);
    let kind = parent.as_deref().map(|parent| kind_of(session, parent, parent_ended, &source));
    SessionInit {
        id: SessionId::new(id),
        lane: None,
        cwd: text(session, "cwd"),
        git_root: text(session, "git_repo_root"),
        git_branch: text(session, "git_branch"),
        model: text(session, "model").unwrap_or_default(),
        provider: text(session, "billing_provider").unwrap_or_default(),
        base_url: text(session, "billing_base_url"),
        parent: parent.map(SessionId::new).zip(kind),
        title: text(session, "title"),
        source,
        started_at,
    }
}

/// What ties a session to its parent: the marker that names this parent, else how the parent
/// ended.
fn kind_of(
    session: &Map<String, Value>,
    parent: &str,
    parent_ended: Option<&str>,
    source: &str,
) -> ParentKind {
    let config = match session.get("model_config") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(other) => other.clone(),
        None => Value::Null,
    };
    let names = |marker: &str| {
        let inside = config.get(marker).and_then(Value::as_str);
        let lifted = session.get(marker).and_then(Value::as_str);
        inside == Some(parent) || lifted == Some(parent)
    };
    if names("_branched_from") {
        ParentKind::Branch
    } else if names("_delegate_from") || matches!(source, "subagent" | "tool") {
        ParentKind::Delegate
    } else if names("_reset_from") {
        ParentKind::Reset
    } else if parent_ended == Some("compression") {
        ParentKind::Compaction
    } else {
        ParentKind::Reset
    }
}

/// The pinned tool definitions; names alone are none.
fn tools_of(value: Option<&Value>) -> String {
    let none = || "[]".to_owned();
    let parsed = match value {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(other) => other.clone(),
        None => return none(),
    };
    let list = parsed.get("tools").unwrap_or(&parsed);
    match list.as_array() {
        Some(tools) if !tools.is_empty() && tools.iter().all(Value::is_object) => list.to_string(),
        _ => none(),
    }
}

fn message_of(row: &Map<String, Value>, before: Timestamp, sink: &mut Sink<'_>) -> Option<Message> {
    let report = &mut *sink.report;
    let role = match text(row, "role").as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        other => {
            let role = other.unwrap_or("no role");
            report.leave_out(&format!("row that is no message ({role})"));
            return None;
        }
    };
    let at = moment(row, "timestamp").unwrap_or_else(|| {
        report.leave_out("impossible time of a message");
        before
    });
    let mut message = Message::new(role, at);
    if let Some(value) = row.get("content") {
        message::content(value, &mut message, report);
    }
    let reasoning_content = text(row, "reasoning_content");
    match (reasoning_content, text(row, "reasoning")) {
        (Some(text), _) => message.reasoning.push((String::new(), text)),
        (None, Some(text)) => message.reasoning.push(("reasoning".to_owned(), text)),
        (None, None) => {}
    }
    for field in ["reasoning_details", "codex_reasoning_items", "codex_message_items"] {
        match row.get(field) {
            Some(Value::String(json)) if serde_json::from_str::<Value>(json).is_ok() => {
                message.raw.push((field.to_owned(), json.clone()));
            }
            Some(Value::Array(_) | Value::Object(_)) => {
                message.raw.push((field.to_owned(), row[field].to_string()));
            }
            Some(Value::String(json)) if !json.is_empty() => {
                report.leave_out(&format!("{field} that is no JSON"));
            }
            _ => {}
        }
    }
    if let Some(value) = row.get("tool_calls") {
        message.calls = message::calls(value, report);
    }
    if role == Role::Tool {
        let call_id = text(row, "tool_call_id").unwrap_or_default();
        let name = text(row, "tool_name").unwrap_or_else(|| "unknown".to_owned());
        message.tool = Some((call_id, name));
    }
    message.finish_reason = text(row, "finish_reason");
    if text(row, "effect_disposition").as_deref() == Some("unknown") {
        message.status = hermes_core::RowStatus::Interrupted;
    }
    let flag = |name: &str, otherwise: bool| match row.get(name) {
        Some(Value::Number(number)) => number.as_i64() != Some(0),
        Some(Value::Bool(flag)) => *flag,
        _ => otherwise,
    };
    message.summary = flag("_compressed_summary", false);
    // Older versions left it NULL, which means that the row is in view.
    message.active = flag("active", true);
    message.compacted = flag("compacted", false) && !message.active;
    for (column, what) in WITHOUT_PLACE {
        if text(row, column).is_some() {
            report.leave_out(what);
        }
    }
    Some(message)
}
