//! The rows that are committed and not yet in the index, as a small index in memory.
//!
//! Invariant: it has the same tables, documents and tokens as the file's index would have, so that
//! every question to one can be asked of the other, and no document is in both.

use rusqlite::Connection;

use super::find::Range;
use super::index::{self, Index};
use crate::StoreError;
use crate::db::Doing as _;
use crate::rows::SEQ_BITS;

const DOING: &str = "searching what was said last";

/// The newest rows that are looked at. A process leaves a thousand at most; more wait only where the
/// index cannot be written: then it is to be made anew (`hermes sessions repair`).
const MOST: usize = 10_000;

/// The tail of the documents in `range`; None if the index has them all, which is the usual case.
pub(super) fn of(connection: &Connection, range: Range) -> Result<Option<Connection>, StoreError> {
    let sessions = (range.0 >> SEQ_BITS, range.1 >> SEQ_BITS);
    let mut waiting = index::tail(connection, sessions, MOST)?;
    if waiting.is_empty() {
        return Ok(None);
    }
    waiting.sort_by_key(|document| (document.session_no, document.seq));
    let tail = Connection::open_in_memory().doing(DOING)?;
    for index in Index::BOTH {
        tail.execute_batch(&index::definition(connection, index)?).doing(DOING)?;
    }
    tail.execute_batch("BEGIN").doing(DOING)?;
    index::add_all(connection, &tail, &waiting)?;
    tail.execute_batch("COMMIT").doing(DOING)?;
    Ok(Some(tail))
}
