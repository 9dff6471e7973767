//! Deleted text leaves the file, the search index and the log.
//!
//! A deletion marks the store as due. The writing side then merges the index (its old segments
//! still hold the words of deleted rows), rewrites the file as a whole (freed room inside pages
//! may hold what stood there before), truncates the log, and notes the time in the receipts. It
//! runs after the deletion, every few seconds for a minute while readers are in the way, and when the
//! store is closed. A large file waits for that: nobody may wait for a turn's commit while one is
//! rewritten.

use std::path::Path;
use std::time::Duration;

use hermes_core::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::db::Doing as _;
use crate::files::{self, io_at};
use crate::rows::unreadable;
use crate::search::index::Index;
use crate::store::Store;
use crate::worker::WriteSide;
use crate::{DeleteReceipt, StoreError, point};

const DOING: &str = "scrubbing what was deleted";
const DUE: &str = "scrub_due";

/// Pages of the index merged in one transaction, so that others come in between.
const STEP: i64 = 400;
/// Steps at most; an index of a million rows needs a few hundred.
const MOST_STEPS: u32 = 5_000;
/// How long readers may be waited for by whoever has nothing else to do.
const WAIT: Duration = Duration::from_secs(5);
/// The same beside a conversation, whose commits wait meanwhile.
const WAIT_BESIDE: Duration = Duration::from_millis(300);
/// Between two attempts beside a conversation, and how many follow the first: a minute of them.
const BETWEEN: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 29;

/// How much may be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What holds up a commit for a second at most.
    Quick,
    /// Everything: somebody waits for it, or the process ends.
    Whole,
}

/// The ordinary setting: freed cells are overwritten where that costs no further page.
pub(crate) fn back_to_ordinary(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("PRAGMA secure_delete = FAST").doing(DOING)
}

/// Marks the store, in the transaction that deletes. The mark is another one each time, so that
/// whoever scrubs sees whether more was deleted meanwhile.
pub(crate) fn is_due(connection: &Connection) -> Result<(), StoreError> {
    connection
        .execute(
            "INSERT OR REPLACE INTO state_meta (key, value) VALUES (?1, hex(randomblob(8)))",
            [DUE],
        )
        .doing(DOING)?;
    Ok(())
}

fn due(connection: &Connection) -> Result<Option<String>, StoreError> {
    connection
        .query_row("SELECT value FROM state_meta WHERE key = ?1", [DUE], |row| row.get(0))
        .optional()
        .doing(DOING)
}

/// Has it done by the writing side, without waiting for it; again if others were in the way.
pub(crate) fn later(store: &Store) {
    let now = store.inner().clock();
    store.inner().post(move |side| attempt(side, now, Progress::default(), ATTEMPTS));
}

fn attempt(
    side: &mut WriteSide,
    now: impl Fn() -> Timestamp + Send + 'static,
    mut progress: Progress,
    left: u32,
) {
    if let Err(error) = go_on(side, now().0, Extent::Quick, &mut progress) {
        tracing::debug!(%error, left, "what was deleted is scrubbed later");
        if left > 0 {
            side.again(BETWEEN, move |side| attempt(side, now, progress, left - 1));
        }
    }
}

/// What an earlier attempt did already.
#[derive(Default)]
struct Progress {
    /// The mark for which the file was rewritten.
    rewritten: Option<String>,
}

/// Does it, if it is due. What `extent` leaves stays due, and no receipt says otherwise.
pub(crate) fn if_due(side: &mut WriteSide, now: i64, extent: Extent) -> Result<(), StoreError> {
    go_on(side, now, extent, &mut Progress::default())
}

fn go_on(
    side: &mut WriteSide,
    now: i64,
    extent: Extent,
    progress: &mut Progress,
) -> Result<(), StoreError> {
    let rewritten_beside = side.options().rewritten_beside;
    let connection = side.connection()?;
    let Some(mark) = due(connection)? else { return Ok(()) };
    let (largest, wait) = match extent {
        Extent::Quick => (rewritten_beside, WAIT_BESIDE),
        Extent::Whole => (u64::MAX, WAIT),
    };
    connection.busy_timeout(wait).doing(DOING)?;
    connection.execute_batch("PRAGMA secure_delete = ON").doing(DOING)?;
    let outcome = scrub(connection, largest, &mark, progress);
    back_to_ordinary(connection)?;
    outcome?;
    if progress.rewritten.as_ref() == Some(&mark) { note(side, now, &mark) } else { Ok(()) }
}

/// Rewrites a file of at most `largest` bytes, if that was not done for this mark, and cuts the log.
fn scrub(
    connection: &Connection,
    largest: u64,
    mark: &str,
    progress: &mut Progress,
) -> Result<(), StoreError> {
    // The log grows by the file each time that it is rewritten while readers are in the way.
    if progress.rewritten.as_deref() != Some(mark) {
        for index in Index::BOTH {
            merge(connection, index.table())?;
        }
        point::reach("scrub: index merged");
        let size: i64 = connection
            .query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )
            .doing(DOING)?;
        if u64::try_from(size).unwrap_or(0) <= largest {
            connection.execute_batch("VACUUM").doing(DOING)?;
            progress.rewritten = Some(mark.to_owned());
        }
        point::reach("scrub: rewritten");
    }
    truncate_log(connection)?;
    point::reach("scrub: log cut");
    Ok(())
}

/// Merges all segments into one, step by step.
pub(crate) fn merge(connection: &Connection, table: &str) -> Result<(), StoreError> {
    let sql = format!("INSERT INTO {table}({table}, rank) VALUES ('merge', ?1)");
    let changes = || -> Result<i64, StoreError> {
        connection.query_row("SELECT total_changes()", [], |row| row.get(0)).doing(DOING)
    };
    // A negative number begins a merge of everything; positive ones go on with it.
    let mut pages = -STEP;
    for _ in 0..MOST_STEPS {
        let before = changes()?;
        connection.execute(&sql, [pages]).doing(DOING)?;
        pages = STEP;
        if changes()? - before < 2 {
            break;
        }
    }
    // One segment with deleted documents is not merged with itself.
    connection
        .execute_batch(&format!("INSERT INTO {table}({table}) VALUES ('optimize')"))
        .doing(DOING)
}

pub(crate) fn truncate_log(connection: &Connection) -> Result<(), StoreError> {
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .doing(DOING)?;
    if busy == 0 {
        return Ok(());
    }
    Err(StoreError::Unavailable { doing: DOING, why: crate::Unavailable::Locked })
}

/// Notes the time in every receipt that waits for it, unless more was deleted meanwhile.
fn note(side: &mut WriteSide, now: i64, mark: &str) -> Result<(), StoreError> {
    side.transaction(WAIT, |tx| {
        if due(tx)?.as_deref() != Some(mark) {
            return Ok(());
        }
        let waiting = {
            let mut statement = tx
                .prepare("SELECT receipt_no, json FROM receipt ORDER BY receipt_no DESC LIMIT 1000")
                .doing(DOING)?;
            statement
                .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
                .doing(DOING)?
                .collect::<Result<Vec<_>, _>>()
                .doing(DOING)?
        };
        for (no, json) in waiting {
            let mut receipt: DeleteReceipt = serde_json::from_str(&json)
                .map_err(|error| unreadable("receipt", error.to_string()))?;
            if receipt.scrubbed_at.is_some() {
                continue;
            }
            // Whoever deleted removes them at once, unless he was killed before.
            for path in &receipt.files {
                files::remove(Path::new(path)).map_err(io_at(Path::new(path)))?;
            }
            receipt.scrubbed_at = Some(Timestamp(now));
            let json = serde_json::to_string(&receipt)
                .map_err(|error| unreadable("receipt", error.to_string()))?;
            tx.execute("UPDATE receipt SET json = ?2 WHERE receipt_no = ?1", params![no, json])
                .doing(DOING)?;
        }
        tx.execute("DELETE FROM state_meta WHERE key = ?1", [DUE]).doing(DOING)?;
        Ok(())
    })
}

impl Store {
    /// Waits until what was deleted is gone from file, index and log.
    ///
    /// # Errors
    /// If readers are in the way for too long; it is tried again when the store is closed.
    pub fn scrub(&self) -> Result<(), StoreError> {
        let now = self.inner().clock();
        self.inner().write(move |side| if_due(side, now().0, Extent::Whole))
    }

    /// The receipt of a deletion, as it stands now.
    pub fn receipt(&self, request_id: &str) -> Result<Option<DeleteReceipt>, StoreError> {
        let json: Option<Option<String>> = self.inner().read(|connection| {
            connection
                .query_row(
                    "SELECT json FROM receipt WHERE request_id = ?1
                     ORDER BY receipt_no DESC LIMIT 1",
                    [request_id],
                    |row| row.get(0),
                )
                .optional()
                .doing("reading a receipt")
        })?;
        json.flatten()
            .map(|json| {
                serde_json::from_str(&json)
                    .map_err(|error| unreadable("receipt", error.to_string()))
            })
            .transpose()
    }
}
