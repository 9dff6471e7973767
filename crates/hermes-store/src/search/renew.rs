//! Documents that an older program put into the index are made anew, a few at a time.
//!
//! The index notes which tokens it holds: [`TOKENS`] of the program that made it. A program whose
//! tokens are newer renews document by document while nothing else is to be done; until then what
//! is not renewed yet is found by its older tokens.
//!
//! Invariants: the note, the place that was reached and the documents change in one transaction;
//! every document up to that place has the tokens of this program.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::index::{self, Index, Texts};
use super::tokens::TOKENS;
use crate::StoreError;
use crate::db::Doing as _;
use crate::rows::{SEQ_BITS, key, seq_of};

const DOING: &str = "renewing the search index";

/// Documents renewed at once, and the text after which it is enough.
const STEP: i64 = 512;
const MOST_TEXT: usize = 1 << 20;

fn note(connection: &Connection, name: &str) -> Result<Option<String>, StoreError> {
    connection
        .prepare_cached("SELECT CAST(value AS TEXT) FROM state_meta WHERE key = ?1")
        .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
        .doing(DOING)
}

fn set_note(connection: &Connection, name: &str, value: &str) -> Result<(), StoreError> {
    connection
        .execute("INSERT OR REPLACE INTO state_meta (key, value) VALUES (?1, ?2)", [name, value])
        .doing(DOING)?;
    Ok(())
}

/// Whether the index holds older tokens than this program makes. One without a note does.
pub(crate) fn is_due(connection: &Connection) -> Result<bool, StoreError> {
    let has = note(connection, "index_tokens")?.and_then(|value| value.parse::<u32>().ok());
    Ok(has.unwrap_or_default() < TOKENS)
}

/// Every document is of this program.
pub(super) fn done(connection: &Connection) -> Result<(), StoreError> {
    connection.execute("DELETE FROM state_meta WHERE key = 'index_renewed'", []).doing(DOING)?;
    set_note(connection, "index_tokens", &TOKENS.to_string())
}

/// The document that was reached; 0 if it was on the way to other tokens.
fn reached(connection: &Connection) -> Result<i64, StoreError> {
    let value = note(connection, "index_renewed")?;
    let reached = value.as_deref().and_then(|value| {
        let (tokens, document) = value.split_once(' ')?;
        (tokens.parse() == Ok(TOKENS)).then(|| document.parse().ok())?
    });
    Ok(reached.unwrap_or_default())
}

/// Renews the next documents; whether those were all.
pub(crate) fn step(connection: &Connection) -> Result<bool, StoreError> {
    if !is_due(connection)? {
        return Ok(true);
    }
    let after = reached(connection)?;
    let (session_no, seq) = (after >> SEQ_BITS, seq_of(after));
    let next = index::listed(
        connection,
        "SELECT id, session_no, seq FROM row WHERE (session_no, seq) > (?1, ?2)
         ORDER BY session_no, seq LIMIT ?3",
        params![session_no, seq.0 as i64, STEP],
    )?;
    let mark = index::mark(connection)?;
    let mut whole = (next.len() as i64) < STEP;
    let mut titled = session_no;
    let mut last = after;
    let mut bytes = 0;
    let mut texts = Texts::default();
    for document in next {
        if bytes >= MOST_TEXT {
            whole = false;
            break;
        }
        titles(connection, titled, document.session_no)?;
        titled = document.session_no;
        last = key(document.session_no, document.seq);
        if document.id <= mark {
            bytes += index::renew(connection, &mut texts, last, &Index::BOTH)?;
        }
    }
    if whole {
        titles(connection, titled, i64::MAX)?;
        done(connection)?;
    } else {
        set_note(connection, "index_renewed", &format!("{TOKENS} {last}"))?;
    }
    Ok(whole)
}

/// Renews the titles of the sessions after one, up to another.
fn titles(connection: &Connection, after: i64, last: i64) -> Result<(), StoreError> {
    if after == last {
        return Ok(());
    }
    let sessions = {
        let mut statement = connection
            .prepare_cached(
                "SELECT session_no FROM sessions WHERE session_no > ?1 AND session_no <= ?2
                 ORDER BY session_no",
            )
            .doing(DOING)?;
        let found = statement.query_map([after, last], |row| row.get(0)).doing(DOING)?;
        found.collect::<Result<Vec<i64>, _>>().doing(DOING)?
    };
    sessions.into_iter().try_for_each(|session_no| index::title_changed(connection, session_no))
}
