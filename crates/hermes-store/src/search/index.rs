//! The search index. Rows enter it after they are committed, many at once: a commit then changes few
//! pages, and the index is written in long runs instead of one small piece for each row.
//!
//! Invariants: a row at or below the mark that says something has one document in the index of what
//! was said, and one in the index of tool output if it carries any; a row above the mark, the *tail*,
//! has none; a deleted session has none. The mark moves in the transaction that moves the documents,
//! and whoever searches reads both in one transaction, so nothing is ever missed or found twice.
//! Titles are indexed when they are set. `check` holds the index against the rows.

use std::collections::BTreeSet;

use hermes_core::{Origin, Part, PartBody, Role, Row, Seq, Standing};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::renew;
use super::tokens::{Tokens, tokens_of};
use crate::db::Doing as _;
use crate::rows::{self, key, key_range};
use crate::{Record, StoreError, codes, point};

const DOING: &str = "updating the search index";

/// Rows taken into the index at once.
const STEP: usize = 512;
/// A batch of more rows than this is indexed in its own transaction, so that the tail stays short.
const LARGE: usize = 256;

/// The two indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    /// What person and model said, and titles.
    Talk,
    /// Tool output, tool calls, loaded documents.
    Tool,
}

impl Index {
    pub(crate) const BOTH: [Self; 2] = [Self::Talk, Self::Tool];

    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Talk => "talk_index",
            Self::Tool => "tool_index",
        }
    }

    const fn insert(self) -> &'static str {
        match self {
            Self::Talk => "INSERT INTO talk_index (rowid, t, w) VALUES (?1, ?2, ?3)",
            Self::Tool => "INSERT INTO tool_index (rowid, t, w) VALUES (?1, ?2, ?3)",
        }
    }

    const fn delete(self) -> &'static str {
        match self {
            Self::Talk => "DELETE FROM talk_index WHERE rowid = ?1",
            Self::Tool => "DELETE FROM tool_index WHERE rowid = ?1",
        }
    }
}

/// Which index the text of a part is in, in a row of this role.
pub(super) const fn index_of(part: &Part, role: Role) -> Option<Index> {
    match (part.standing, &part.body) {
        (Standing::ByOp, _) => None,
        (_, PartBody::ToolCall { .. }) => Some(Index::Tool),
        (_, PartBody::Text { .. }) => index_of_text(part.origin, role),
        _ => None,
    }
}

/// Which index text of this origin is in.
const fn index_of_text(origin: Origin, role: Role) -> Option<Index> {
    match origin {
        Origin::User | Origin::Model | Origin::Summary | Origin::Steer => Some(Index::Talk),
        // In an answer's place it is the answer.
        Origin::Hook if origin.is_said(role) => Some(Index::Talk),
        Origin::Tool | Origin::Hint | Origin::Skill | Origin::Capsule | Origin::Reference => {
            Some(Index::Tool)
        }
        Origin::Hook | Origin::Memory | Origin::Notice => None,
    }
}

/// The text of a row that one of the indexes holds; empty if it holds none.
pub(super) fn text_of(row: &Row, index: Index) -> String {
    let mut out = String::new();
    let mut add = |text: &str| {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(text);
    };
    for part in row.parts.iter().filter(|part| index_of(part, row.role) == Some(index)) {
        match &part.body {
            PartBody::Text { text } => add(text),
            PartBody::ToolCall { name, arguments, .. } => {
                add(name);
                add(arguments);
            }
            _ => {}
        }
    }
    out
}

fn put(
    connection: &Connection,
    index: Index,
    document: i64,
    tokens: &Tokens,
) -> Result<(), StoreError> {
    if tokens.words.is_empty() && tokens.wholes.is_empty() {
        return Ok(());
    }
    connection
        .prepare_cached(index.insert())
        .and_then(|mut statement| statement.execute(params![document, tokens.words, tokens.wholes]))
        .doing(DOING)?;
    Ok(())
}

fn take_out(connection: &Connection, index: Index, document: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached(index.delete())
        .and_then(|mut statement| statement.execute([document]))
        .doing(DOING)?;
    Ok(())
}

/// The id of the last row that is in the index.
pub(crate) fn mark(connection: &Connection) -> Result<i64, StoreError> {
    connection
        .prepare_cached(
            "SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = 'indexed_through'",
        )
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .doing(DOING)
        .map(Option::unwrap_or_default)
}

fn set_mark(connection: &Connection, mark: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO state_meta (key, value) VALUES ('indexed_through', ?1)",
        )
        .and_then(|mut statement| statement.execute([mark]))
        .doing(DOING)?;
    Ok(())
}

/// Whether a row is not in the index yet.
pub(crate) fn has_tail(connection: &Connection) -> Result<bool, StoreError> {
    let mark = mark(connection)?;
    connection
        .prepare_cached("SELECT ifnull(max(id), 0) > ?1 FROM row")
        .and_then(|mut statement| statement.query_row([mark], |row| row.get(0)))
        .doing(DOING)
}

/// The bytes of text that a batch adds to the index.
pub(crate) fn text_bytes(batch: &[Record]) -> usize {
    let bytes = |parts: &[Part], role: Role| -> usize {
        let texts = parts.iter().filter(|part| index_of(part, role).is_some());
        texts.map(|part| part.as_text().map_or(0, str::len)).sum()
    };
    let of_record = |record: &Record| match record {
        Record::Row(row) => bytes(&row.parts, row.role),
        Record::Part(part) => bytes(std::slice::from_ref(part), Role::User),
        _ => 0,
    };
    batch.iter().map(of_record).sum()
}

/// A row as a document.
pub(crate) struct Document {
    pub(super) id: i64,
    pub(crate) session_no: i64,
    pub(crate) seq: Seq,
}

/// The rows above the mark: those of one session or of all, the newest `limit` of them.
pub(crate) fn tail(
    connection: &Connection,
    sessions: (i64, i64),
    limit: usize,
) -> Result<Vec<Document>, StoreError> {
    listed(
        connection,
        "SELECT id, session_no, seq FROM row WHERE id > ?1 AND +session_no BETWEEN ?2 AND ?3
         ORDER BY id DESC LIMIT ?4",
        params![mark(connection)?, sessions.0, sessions.1, limit as i64],
    )
}

pub(super) fn listed(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<Document>, StoreError> {
    let mut statement = connection.prepare_cached(sql).doing(DOING)?;
    let found = statement
        .query_map(params, |row| {
            Ok(Document {
                id: row.get(0)?,
                session_no: row.get(1)?,
                seq: Seq(row.get::<_, i64>(2)? as u64),
            })
        })
        .doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}

/// Takes the next rows of the tail into the index; whether those were all.
pub(crate) fn catch_up(connection: &Connection) -> Result<bool, StoreError> {
    let mut next = listed(
        connection,
        "SELECT id, session_no, seq FROM row WHERE id > ?1 ORDER BY id LIMIT ?2",
        params![mark(connection)?, STEP as i64],
    )?;
    let Some(last) = next.last().map(|document| document.id) else { return Ok(true) };
    let whole = next.len() < STEP;
    // In the order of the index: it ends a run at every document that goes back.
    next.sort_by_key(|document| key(document.session_no, document.seq));
    add_all(connection, connection, &next)?;
    point::reach("index: added");
    set_mark(connection, last)?;
    Ok(whole)
}

/// After a batch: a large one comes into the index with its commit.
pub(crate) fn applied(connection: &Connection, batch: &[Record]) -> Result<(), StoreError> {
    let rows = batch.iter().filter(|record| matches!(record, Record::Row(_))).count();
    if rows > LARGE {
        while !catch_up(connection)? {}
    }
    Ok(())
}

/// Reads rows from one connection and adds them to the index in another.
pub(super) fn add_all(
    from: &Connection,
    to: &Connection,
    documents: &[Document],
) -> Result<(), StoreError> {
    let mut texts = Texts::default();
    for document in documents {
        let key = key(document.session_no, document.seq);
        texts.read(from, key)?;
        texts.put(to, key, &Index::BOTH)?;
    }
    Ok(())
}

/// The texts of one row, by index, as [`text_of`] gives them: read as they are indexed, without
/// making a row of them. Its room is used again from row to row.
#[derive(Default)]
pub(super) struct Texts {
    talk: String,
    tool: String,
}

impl Texts {
    fn of(&mut self, index: Index) -> &mut String {
        match index {
            Index::Talk => &mut self.talk,
            Index::Tool => &mut self.tool,
        }
    }

    /// Reads those of the row with this key.
    fn read(&mut self, connection: &Connection, key: i64) -> Result<(), StoreError> {
        self.talk.clear();
        self.tool.clear();
        let mut statement = connection
            .prepare_cached(
                "SELECT kind, origin, value, name, CASE origin WHEN 5 THEN
                     (SELECT role FROM row
                      WHERE session_no = row_key >> 32 AND seq = row_key & 0xffffffff) END
                 FROM part
                 WHERE row_key = ?1 AND standing = 0 AND kind IN (0, 3) ORDER BY slot, key",
            )
            .doing(DOING)?;
        let mut found = statement.query([key]).doing(DOING)?;
        while let Some(part) = found.next().doing(DOING)? {
            let is_call = part.get::<_, i64>(0).doing(DOING)? == 3;
            let index = if is_call {
                Some(Index::Tool)
            } else {
                // Where the role matters it was looked up.
                let role = part.get::<_, Option<i64>>(4).doing(DOING)?.and_then(codes::role_of);
                codes::origin_of(part.get(1).doing(DOING)?)
                    .and_then(|origin| index_of_text(origin, role.unwrap_or(Role::User)))
            };
            let Some(index) = index else { continue };
            let out = self.of(index);
            // A call's name, then its arguments.
            for column in if is_call { [3, 2].as_slice() } else { [2].as_slice() } {
                let text = part.get_ref(*column).doing(DOING)?.as_str().unwrap_or_default();
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        connection: &Connection,
        key: i64,
        indexes: &[Index],
    ) -> Result<(), StoreError> {
        for index in indexes {
            let text = self.of(*index);
            if !text.is_empty() {
                put(connection, *index, key, &tokens_of(text))?;
            }
        }
        Ok(())
    }
}

/// Brings a row up to date after this part was added to it.
pub(crate) fn part_added(
    connection: &Connection,
    session_no: i64,
    part: &Part,
) -> Result<(), StoreError> {
    // In some rows it is said, in others not; making its document anew is right in both.
    match index_of(part, Role::Assistant) {
        Some(index) => renew_row(connection, session_no, part.row, &[index]),
        None => Ok(()),
    }
}

/// Brings the index up to date after a row was given another, lower id.
pub(crate) fn row_moved(
    connection: &Connection,
    session_no: i64,
    seq: Seq,
) -> Result<(), StoreError> {
    renew_row(connection, session_no, seq, &Index::BOTH)
}

/// Brings the mark up to date after rows were removed: new rows take the ids above those that are
/// left.
pub(crate) fn rows_removed(connection: &Connection) -> Result<(), StoreError> {
    let next = rows::next_id(connection)?;
    if mark(connection)? >= next {
        set_mark(connection, next - 1)?;
    }
    Ok(())
}

/// Indexes a stored row anew, if it is not in the tail.
pub(crate) fn renew_row(
    connection: &Connection,
    session_no: i64,
    seq: Seq,
    indexes: &[Index],
) -> Result<(), StoreError> {
    let id: Option<i64> = connection
        .prepare_cached("SELECT id FROM row WHERE session_no = ?1 AND seq = ?2")
        .and_then(|mut statement| {
            statement.query_row(params![session_no, seq.0 as i64], |row| row.get(0)).optional()
        })
        .doing(DOING)?;
    let mark = mark(connection)?;
    if id.is_none_or(|id| id > mark) {
        return Ok(());
    }
    let key = key(session_no, seq);
    renew(connection, &mut Texts::default(), key, indexes).map(drop)
}

/// Makes the documents of a row anew; the bytes of text in them.
pub(super) fn renew(
    connection: &Connection,
    texts: &mut Texts,
    key: i64,
    indexes: &[Index],
) -> Result<usize, StoreError> {
    for index in indexes {
        take_out(connection, *index, key)?;
    }
    texts.read(connection, key)?;
    texts.put(connection, key, indexes)?;
    Ok(texts.talk.len() + texts.tool.len())
}

/// Brings a session's title up to date.
pub(crate) fn title_changed(connection: &Connection, session_no: i64) -> Result<(), StoreError> {
    let title: Option<String> = connection
        .query_row("SELECT title FROM sessions WHERE session_no = ?1", [session_no], |row| {
            row.get(0)
        })
        .doing(DOING)?;
    let document = key(session_no, Seq(0));
    take_out(connection, Index::Talk, document)?;
    match title {
        Some(title) => put(connection, Index::Talk, document, &tokens_of(&title)),
        None => Ok(()),
    }
}

/// Takes a session out, title included. Called while its rows are still there.
pub(crate) fn remove_session(connection: &Connection, session_no: i64) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT seq FROM row WHERE session_no = ?1 UNION ALL SELECT 0")
        .doing(DOING)?;
    let seqs = statement
        .query_map([session_no], |row| row.get::<_, i64>(0))
        .doing(DOING)?
        .collect::<Result<Vec<_>, _>>()
        .doing(DOING)?;
    for seq in seqs {
        for index in Index::BOTH {
            take_out(connection, index, key(session_no, Seq(seq as u64)))?;
        }
    }
    Ok(())
}

/// Makes both indexes anew from the rows.
pub(crate) fn rebuild(connection: &Connection) -> Result<(), StoreError> {
    for index in Index::BOTH {
        let table = index.table();
        // Not emptied but made again: a damaged one may not even be read.
        let sql = definition(connection, index)?;
        connection.execute_batch(&format!("DROP TABLE {table}; {sql};")).doing(DOING)?;
    }
    fill(connection)
}

/// How the table of an index is made.
pub(super) fn definition(connection: &Connection, index: Index) -> Result<String, StoreError> {
    connection
        .prepare_cached("SELECT sql FROM sqlite_schema WHERE name = ?1")
        .and_then(|mut statement| statement.query_row([index.table()], |row| row.get(0)))
        .doing(DOING)
}

/// Puts every row and title into empty indexes; then there is no tail.
pub(crate) fn fill(connection: &Connection) -> Result<(), StoreError> {
    let mut statement =
        connection.prepare("SELECT session_no FROM sessions ORDER BY session_no").doing(DOING)?;
    let sessions = statement
        .query_map([], |row| row.get::<_, i64>(0))
        .doing(DOING)?
        .collect::<Result<Vec<_>, _>>()
        .doing(DOING)?;
    for session_no in sessions {
        title_changed(connection, session_no)?;
        let rows = listed(
            connection,
            "SELECT id, session_no, seq FROM row WHERE session_no = ?1 ORDER BY seq",
            [session_no],
        )?;
        add_all(connection, connection, &rows)?;
    }
    renew::done(connection)?;
    set_mark(connection, rows::next_id(connection)? - 1)
}

/// The documents that an index holds of a session.
pub(crate) fn documents(
    connection: &Connection,
    index: Index,
    session_no: i64,
) -> Result<Vec<i64>, StoreError> {
    let (first, last) = key_range(session_no);
    let table = index.table();
    let mut statement = connection
        .prepare_cached(&format!(
            "SELECT id FROM {table}_docsize WHERE id BETWEEN ?1 AND ?2 ORDER BY id"
        ))
        .doing(DOING)?;
    let found = statement.query_map([first, last], |row| row.get(0)).doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}

/// The documents that it should hold of a session, `waiting` being its rows above the mark.
pub(crate) fn expected(
    session_no: i64,
    title: Option<&str>,
    rows: &[Row],
    waiting: &BTreeSet<Seq>,
    index: Index,
) -> Vec<i64> {
    let says = |text: &str| {
        let tokens = tokens_of(text);
        !tokens.words.is_empty() || !tokens.wholes.is_empty()
    };
    let title = title.filter(|title| index == Index::Talk && says(title)).map(|_| Seq(0));
    let rows = rows.iter().filter(|row| !waiting.contains(&row.seq));
    let rows = rows.filter(|row| says(&text_of(row, index))).map(|row| row.seq);
    title.into_iter().chain(rows).map(|seq| key(session_no, seq)).collect()
}
