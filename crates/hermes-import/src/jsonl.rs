//! JSON lines, one session each. Lines of this program carry everything under `_hermes` and come
//! back as they were; lines of the Python program are read by their columns.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use hermes_core::{Generation, Row, SessionId};
use hermes_store::{ImportedSession, ParentKind, Record};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{ImportError, Sink, message, python};

/// What this program puts under `_hermes`.
#[derive(Deserialize)]
struct Extras {
    session: SessionFacts,
    rows: Vec<Row>,
    generations: Vec<Generation>,
    #[serde(default)]
    texts: Vec<Arc<str>>,
    #[serde(default)]
    blobs: Vec<Blob>,
}

#[derive(Deserialize)]
struct SessionFacts {
    #[serde(default)]
    lane: Option<hermes_core::Lane>,
    #[serde(default)]
    parent: Option<(SessionId, ParentKind)>,
    #[serde(default)]
    compactions: u32,
    started_at: hermes_core::Timestamp,
}

#[derive(Deserialize)]
struct Blob {
    media_type: String,
    base64: String,
}

/// The newest form of `_hermes` that is understood.
const VERSION: u32 = 1;

pub(crate) fn import(source: &Path, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    for path in crate::transcript::session_files(source) {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if path != source => {
                let why = format!("it cannot be read: {error}");
                sink.report.skip(&SessionId::new(path.display().to_string()), why);
                continue;
            }
            Err(error) => return Err(ImportError::at(&path)(error)),
        };
        for (number, line) in (1_usize..).zip(BufReader::new(file).split(b'\n')) {
            let line = line.map_err(ImportError::at(&path))?;
            let place = || SessionId::new(format!("{}:{number}", path.display()));
            let line = match String::from_utf8(line) {
                Ok(line) => line,
                Err(error) => {
                    sink.report.skip(&place(), format!("it is no UTF-8: {error}"));
                    continue;
                }
            };
            let line = line.trim_start_matches('\u{feff}').trim();
            if line.is_empty() {
                continue;
            }
            let mut session: Map<String, Value> = match serde_json::from_str(line) {
                Ok(session) => session,
                Err(error) => {
                    sink.report.skip(&place(), format!("no JSON object: {error}"));
                    continue;
                }
            };
            let Some(id) = python::text(&session, "id").map(SessionId::new) else {
                sink.report.skip(&place(), "it has no id");
                continue;
            };
            if sink.is_from_elsewhere(&id, place().as_str()) {
                let first = sink.from.get(&id).cloned().unwrap_or_default();
                sink.report.skip(&place(), format!("session {id} was read from {first} already"));
                continue;
            }
            let started_at = python::moment(&session, "started_at");
            if !sink.wants(&id, started_at, || python::moment(&session, "last_activity_at"))? {
                continue;
            }
            let imported = match session.remove("_hermes") {
                Some(extras) => match own(&session, line, &extras) {
                    Ok(imported) => imported,
                    Err(why) => {
                        sink.report.skip(&id, why);
                        continue;
                    }
                },
                None => foreign(&session, sink),
            };
            sink.take(imported)?;
        }
    }
    Ok(())
}

fn foreign(session: &Map<String, Value>, sink: &mut Sink<'_>) -> ImportedSession {
    let rows: Vec<Map<String, Value>> = session
        .get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|row| row.as_object().cloned())
        .collect();
    python::imported(session, &rows, None, sink)
}

/// A line of this program: rows and generations as they were.
fn own(
    session: &Map<String, Value>,
    line: &str,
    extras: &Value,
) -> Result<ImportedSession, String> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "_hermes")]
        extras: Extras,
    }
    let version = extras.get("version").and_then(Value::as_u64).unwrap_or(0);
    if version > u64::from(VERSION) {
        return Err(format!("written by a newer version (form {version}); update hermes"));
    }
    if version != u64::from(VERSION) {
        return Err(format!("_hermes has the form {version}, wanted {VERSION}"));
    }
    // From the text, so that raw JSON inside it keeps its bytes.
    let Line { extras } =
        serde_json::from_str(line).map_err(|error| format!("_hermes cannot be read: {error}"))?;
    let mut records = Vec::new();
    for name in ["system_prompt", "tool_names"] {
        if let Some(Value::String(text)) = session.get(name) {
            records.push(Record::Text { text: text.as_str().into() });
        }
    }
    records.extend(extras.texts.into_iter().map(|text| Record::Text { text }));
    for blob in extras.blobs {
        let bytes = message::decode(&blob.base64).ok_or("a blob is no base64")?;
        records.push(Record::Blob { media_type: blob.media_type.into(), bytes: Arc::from(bytes) });
    }
    records.extend(extras.rows.into_iter().map(Record::Row));
    records.extend(extras.generations.into_iter().map(Record::Generation));
    let mut init = python::init(session, None, extras.session.started_at);
    init.parent = extras.session.parent;
    init.lane = extras.session.lane;
    Ok(ImportedSession {
        init,
        facts: python::facts(session),
        compactions: extras.session.compactions,
        records,
        again: false,
        proven: true,
    })
}
