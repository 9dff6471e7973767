//! The search index, written in the transaction that writes the rows.
//!
//! Invariant: a row that says something has one document in the index of what was said, and one in
//! the index of tool output if it carries any; a deleted session has none. `check` holds the index
//! against the rows.

use hermes_core::{Origin, Part, PartBody, Row, Seq, Standing};
use rusqlite::{Connection, params};

use super::tokens::{Tokens, tokens_of};
use crate::StoreError;
use crate::db::Doing as _;
use crate::rows::{self, key, key_range};

const DOING: &str = "updating the search index";

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

/// Which index a part's text is in.
pub(super) const fn index_of(part: &Part) -> Option<Index> {
    if matches!(part.standing, Standing::ByOp) {
        return None;
    }
    if matches!(part.body, PartBody::ToolCall { .. }) {
        return Some(Index::Tool);
    }
    if !matches!(part.body, PartBody::Text { .. }) {
        return None;
    }
    match part.origin {
        Origin::User | Origin::Model | Origin::Summary | Origin::Steer => Some(Index::Talk),
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
    for part in row.parts.iter().filter(|part| index_of(part) == Some(index)) {
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

/// Adds a new row.
pub(crate) fn add_row(
    connection: &Connection,
    session_no: i64,
    row: &Row,
) -> Result<(), StoreError> {
    for index in Index::BOTH {
        let text = text_of(row, index);
        if !text.is_empty() {
            put(connection, index, key(session_no, row.seq), &tokens_of(&text))?;
        }
    }
    Ok(())
}

/// Brings a row up to date after this part was added to it.
pub(crate) fn part_added(
    connection: &Connection,
    session_no: i64,
    part: &Part,
) -> Result<(), StoreError> {
    match index_of(part) {
        Some(index) => renew_row(connection, session_no, part.row, &[index]),
        None => Ok(()),
    }
}

/// Indexes a stored row anew.
pub(crate) fn renew_row(
    connection: &Connection,
    session_no: i64,
    seq: Seq,
    indexes: &[Index],
) -> Result<(), StoreError> {
    for row in rows::load_rows(connection, session_no, Some(seq))? {
        let document = key(session_no, row.seq);
        for index in indexes {
            take_out(connection, *index, document)?;
            put(connection, *index, document, &tokens_of(&text_of(&row, *index)))?;
        }
    }
    Ok(())
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
        let sql: String = connection
            .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
            .doing(DOING)?;
        connection.execute_batch(&format!("DROP TABLE {table}; {sql};")).doing(DOING)?;
    }
    fill(connection)
}

/// Puts every row and title into empty indexes.
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
        for row in rows::load_rows(connection, session_no, None)? {
            add_row(connection, session_no, &row)?;
        }
    }
    Ok(())
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

/// The documents that it should hold.
pub(crate) fn expected(
    session_no: i64,
    title: Option<&str>,
    rows: &[Row],
    index: Index,
) -> Vec<i64> {
    let says = |text: &str| {
        let tokens = tokens_of(text);
        !tokens.words.is_empty() || !tokens.wholes.is_empty()
    };
    let title = title.filter(|title| index == Index::Talk && says(title)).map(|_| Seq(0));
    let rows = rows.iter().filter(|row| says(&text_of(row, index))).map(|row| row.seq);
    title.into_iter().chain(rows).map(|seq| key(session_no, seq)).collect()
}
