//! What an import did and what it left out, and why.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _};
use std::path::Path;

use hermes_core::SessionId;
use serde::Serialize;

use crate::ImportError;

/// Where sessions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A home of the Python Hermes Agent.
    Hermes,
    /// Session files of Codex.
    Codex,
    /// Session files of Claude Code.
    Claude,
    /// JSON lines of any Hermes.
    Jsonl,
}

/// A session that was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedSession {
    /// Its id.
    pub id: String,
    /// Why.
    pub why: String,
}

/// A file that was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedFile {
    /// Its name below the home.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// A file that was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutFile {
    /// Its name below the home.
    pub path: String,
    /// Why.
    pub why: String,
}

/// The whole account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The source.
    pub source: String,
    /// What it was taken for.
    pub kind: SourceKind,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The schema version of the source's store.
    pub schema: Option<i64>,
    /// Sessions taken in.
    pub sessions: Vec<String>,
    /// Messages in them.
    pub messages: usize,
    /// Sessions that were here already.
    pub already_there: usize,
    /// Sessions that were not taken in.
    pub skipped: Vec<SkippedSession>,
    /// Parts of sessions that have no place here: what, how many.
    pub left_out: BTreeMap<String, usize>,
    /// Files copied.
    pub files: Vec<CopiedFile>,
    /// Files not copied.
    pub files_left_out: Vec<LeftOutFile>,
}

impl ImportReport {
    pub(crate) fn new(source: &Path, kind: SourceKind, dry_run: bool) -> Self {
        Self {
            source: source.display().to_string(),
            kind,
            dry_run,
            schema: None,
            sessions: Vec::new(),
            messages: 0,
            already_there: 0,
            skipped: Vec::new(),
            left_out: BTreeMap::new(),
            files: Vec::new(),
            files_left_out: Vec::new(),
        }
    }

    pub(crate) fn imported(&mut self, id: &SessionId, rows: usize) {
        self.sessions.push(id.to_string());
        self.messages += rows;
    }

    pub(crate) fn skip(&mut self, id: &SessionId, why: impl Into<String>) {
        self.skipped.push(SkippedSession { id: id.to_string(), why: why.into() });
    }

    /// Notes a thing without a place here.
    pub(crate) fn leave_out(&mut self, what: &str) {
        *self.left_out.entry(what.to_owned()).or_default() += 1;
    }
}

/// What a source is, by what lies in it.
pub(crate) fn recognise(source: &Path) -> Result<SourceKind, ImportError> {
    let is_database = || {
        let mut head = [0; 16];
        let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut head));
        read.is_ok() && head == *b"SQLite format 3\0"
    };
    if source.join("state.db").is_file() || source.is_file() && is_database() {
        return Ok(SourceKind::Hermes);
    }
    // Of a path that is not there, that is what is to be said.
    source.metadata().map_err(ImportError::at(source))?;
    let files = crate::transcript::session_files(source);
    for path in files.iter().take(20) {
        let Ok(file) = std::fs::File::open(path) else { continue };
        let lines = std::io::BufReader::new(file).split(b'\n').map_while(Result::ok);
        for line in lines.take(20) {
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_start_matches('\u{feff}');
            let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let has = |key: &str| value.get(key).is_some();
            if has("messages") && has("id") {
                return Ok(SourceKind::Jsonl);
            }
            if has("sessionId") || has("parentUuid") || has("leafUuid") {
                return Ok(SourceKind::Claude);
            }
            // Older files hold the items themselves, behind a line with the instructions.
            let is_item = has("type") && has("role") && has("content");
            let is_head = has("id") && has("timestamp") && has("instructions");
            if has("payload") || has("record_type") || is_item || is_head {
                return Ok(SourceKind::Codex);
            }
        }
    }
    Err(ImportError::Unknown { path: source.to_owned() })
}
