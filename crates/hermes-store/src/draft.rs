//! Drafts: what a model has streamed so far, kept before it is shown.
//!
//! One file an answer, one write a piece, no sync: the kernel has it when the process is killed.
//! Layout: one JSON line that says which row the answer will be, then pieces of kind (one byte),
//! length (4 bytes, little endian), text. A piece that is cut off counts as far as it goes.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hermes_core::{
    Origin, Part, PartBody, REASONING_CONTENT, Role, Row, RowStatus, Seq, SessionId, Standing,
    Timestamp, TurnNo, slot,
};
use serde::{Deserialize, Serialize};

use crate::files::{self, io_at};
use crate::{Batch, Holder, Record, StoreError};

/// What a piece of a draft is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DraftKind {
    /// Text of the answer.
    Text,
    /// Reasoning.
    Reasoning,
}

impl DraftKind {
    const fn byte(self) -> u8 {
        match self {
            Self::Text => b't',
            Self::Reasoning => b'r',
        }
    }
}

/// Which row the answer will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DraftHeader {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnNo,
    pub(crate) row: Seq,
    /// Random; marks the draft as taken in.
    pub(crate) token: String,
    pub(crate) started_at: Timestamp,
}

/// The draft of a streaming answer. Dropping it keeps the file: it is what a crash would leave,
/// and the session's next opening makes an interrupted row of it.
#[derive(Debug)]
pub struct Draft {
    row: Seq,
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl Draft {
    pub(crate) fn create(folder: &Path, header: &DraftHeader) -> Result<Self, StoreError> {
        files::private_dir(folder)?;
        let path = path_of(folder, &header.session, header.row);
        let mut file = files::private_options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(io_at(&path))?;
        let mut line = serde_json::to_vec(header).map_err(|error| io_at(&path)(error.into()))?;
        line.push(b'\n');
        file.write_all(&line).map_err(io_at(&path))?;
        Ok(Self { row: header.row, path, file, buffer: Vec::new() })
    }

    /// The seq that the answer's row takes.
    pub fn row(&self) -> Seq {
        self.row
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a piece: one write, before it is shown.
    pub fn append(&mut self, kind: DraftKind, text: &str) -> Result<(), StoreError> {
        if text.is_empty() {
            return Ok(());
        }
        self.buffer.clear();
        self.buffer.push(kind.byte());
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(text.as_bytes());
        self.file.write_all(&self.buffer).map_err(io_at(&self.path))
    }

    /// Removes the draft. The commit of its row does it too.
    pub fn discard(self) -> Result<(), StoreError> {
        files::remove(&self.path).map_err(io_at(&self.path))
    }
}

/// The draft file of one row.
pub(crate) fn path_of(folder: &Path, session: &SessionId, row: Seq) -> PathBuf {
    folder.join(format!("{}-{row}.draft", files::stem(session)))
}

/// A draft that was left over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOver {
    pub(crate) path: PathBuf,
    pub(crate) header: DraftHeader,
    /// Pieces in order, joined where their kind is the same.
    pub(crate) pieces: Vec<(DraftKind, String)>,
}

impl LeftOver {
    /// The interrupted row that holds what was shown; None if nothing was.
    pub(crate) fn into_row(self, seq: Seq, mut next: impl FnMut() -> Seq) -> Option<Row> {
        if self.pieces.is_empty() {
            return None;
        }
        let mut first = Some(seq);
        let part = |(kind, text): (DraftKind, String)| {
            let text: Arc<str> = text.into();
            let (slot, body) = match kind {
                DraftKind::Text => (slot::BODY, PartBody::Text { text }),
                DraftKind::Reasoning => {
                    (slot::REASONING, PartBody::Reasoning { field: REASONING_CONTENT.into(), text })
                }
            };
            Part {
                seq: first.take().unwrap_or_else(&mut next),
                row: seq,
                slot,
                origin: Origin::Model,
                standing: Standing::InOrder,
                created_at: self.header.started_at,
                label: None,
                body,
            }
        };
        let mut row = Row {
            seq,
            turn: self.header.turn,
            role: Role::Assistant,
            standing: Standing::InOrder,
            status: RowStatus::Interrupted,
            created_at: self.header.started_at,
            tool: None,
            finish_reason: None,
            parts: merge(self.pieces).into_iter().map(part).collect(),
        };
        row.sort_parts();
        Some(row)
    }
}

/// One piece a kind, reasoning first: as the answer would have been stored.
fn merge(pieces: Vec<(DraftKind, String)>) -> Vec<(DraftKind, String)> {
    let mut reasoning = String::new();
    let mut text = String::new();
    for (kind, piece) in pieces {
        match kind {
            DraftKind::Text => text.push_str(&piece),
            DraftKind::Reasoning => reasoning.push_str(&piece),
        }
    }
    [(DraftKind::Reasoning, reasoning), (DraftKind::Text, text)]
        .into_iter()
        .filter(|(_, piece)| !piece.is_empty())
        .collect()
}

/// Reads a draft; None if not even its first line is whole.
pub(crate) fn read(path: &Path) -> Option<LeftOver> {
    let bytes = fs::read(path).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = bytes.split_at_checked(end)?;
    let header = serde_json::from_slice(line).ok()?;
    Some(LeftOver { path: path.to_owned(), header, pieces: pieces(rest.get(1..)?) })
}

fn pieces(mut rest: &[u8]) -> Vec<(DraftKind, String)> {
    let mut pieces: Vec<(DraftKind, String)> = Vec::new();
    while let Some((head, after)) = rest.split_at_checked(5) {
        let [byte, length @ ..] = head else { break };
        let kind = match byte {
            b't' => DraftKind::Text,
            b'r' => DraftKind::Reasoning,
            _ => break,
        };
        let Ok(length) = <[u8; 4]>::try_from(length) else { break };
        let length = u32::from_le_bytes(length) as usize;
        let (text, after) = after.split_at_checked(length).unwrap_or((after, &[]));
        // A piece that is cut off in the middle of a character ends before it.
        let text = match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        };
        match pieces.last_mut() {
            Some((last, joined)) if *last == kind => joined.push_str(text),
            _ if text.is_empty() => {}
            _ => pieces.push((kind, text.to_owned())),
        }
        rest = after;
    }
    pieces
}

/// The drafts left over by `session`, by row.
pub(crate) fn left_over(folder: &Path, session: &SessionId) -> Vec<LeftOver> {
    let prefix = format!("{}-", files::stem(session));
    let mut found: Vec<LeftOver> = drafts(folder)
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with(&prefix))
        })
        .filter_map(|path| read(&path))
        .filter(|draft| draft.header.session == *session)
        .collect();
    found.sort_by_key(|draft| draft.header.row);
    found
}

/// Every draft in the folder whose first line can be read.
pub(crate) fn scan(folder: &Path) -> Vec<LeftOver> {
    drafts(folder).filter_map(|path| read(&path)).collect()
}

fn drafts(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "draft"))
}

/// A mark of a draft or side file that is never used twice.
pub(crate) fn token(holder: &Holder) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", holder.token, COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Removes the drafts whose rows are in `batch`.
pub(crate) fn settle(folder: &Path, session: &SessionId, open: &mut Vec<Seq>, batch: &Batch) {
    if open.is_empty() {
        return;
    }
    for record in batch {
        let Record::Row(row) = record else { continue };
        let Some(at) = open.iter().position(|seq| *seq == row.seq) else { continue };
        open.swap_remove(at);
        let path = path_of(folder, session, row.seq);
        if let Err(error) = files::remove(&path) {
            // It is recognised by its row when the session is opened next.
            tracing::debug!(%error, path = %path.display(), "a settled draft stays");
        }
    }
}
