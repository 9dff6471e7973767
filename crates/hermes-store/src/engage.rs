//! One write transaction of a session's holder: find or create the session, take or check the
//! lease, take in what waits in the side file and in drafts, apply the batch.

use hermes_core::{Seq, SessionId, Timestamp};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::apply::{self, Applier, Care};
use crate::db::Doing as _;
use crate::draft::LeftOver;
use crate::lease::{self, Claim};
use crate::ledger;
use crate::rows::{key_range, seq_of};
use crate::spool::SpoolContents;
use crate::{Batch, Record, SessionInit, StoreError, point};

/// Who wants to write to which session.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) session: SessionId,
    /// Known once the database was reached.
    pub(crate) session_no: Option<i64>,
    /// Known once the lease was taken.
    pub(crate) epoch: Option<i64>,
    /// For a session that is to be created.
    pub(crate) init: Option<SessionInit>,
    pub(crate) claim: Claim,
    /// How strictly the batch is taken.
    pub(crate) care: Care,
}

/// What a transaction did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engaged {
    pub(crate) session_no: i64,
    pub(crate) epoch: i64,
    /// The highest seq that the database knew; 0 where nobody had to look.
    pub(crate) last_seq: Seq,
    /// Batches taken in from the side file.
    pub(crate) batches: usize,
    /// Interrupted answers made of drafts.
    pub(crate) answers: usize,
    /// The side file contradicts the database.
    pub(crate) conflict: bool,
}

/// How it went.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Engaged(Engaged),
    /// The session is gone; only its requests were recorded.
    Deleted(Timestamp),
}

/// The number of a session.
pub(crate) fn number_of(
    connection: &rusqlite::Connection,
    session: &SessionId,
) -> Result<Option<i64>, StoreError> {
    connection
        .prepare_cached("SELECT session_no FROM sessions WHERE id = ?1")
        .and_then(|mut statement| {
            statement.query_row([session.as_str()], |row| row.get(0)).optional()
        })
        .doing("looking for a session")
}

/// The newest deletion of a session: its number and when.
pub(crate) fn tombstone_of(
    connection: &rusqlite::Connection,
    session: &SessionId,
) -> Result<Option<(i64, Timestamp)>, StoreError> {
    connection
        .query_row(
            "SELECT session_no, deleted_at FROM tombstone WHERE session_id = ?1
             ORDER BY epoch DESC LIMIT 1",
            [session.as_str()],
            |row| Ok((row.get(0)?, Timestamp(row.get(1)?))),
        )
        .optional()
        .doing("looking for a deleted session")
}

/// The highest seq that is in use, or that a request or an operation already speaks of.
pub(crate) fn last_seq(
    connection: &rusqlite::Connection,
    session_no: i64,
) -> Result<Seq, StoreError> {
    let (from, to) = key_range(session_no);
    let (row, part, reach): (i64, Option<i64>, i64) = connection
        .prepare_cached(
            "SELECT ifnull((SELECT max(seq) FROM row WHERE session_no = ?1), 0),
                 (SELECT max(key) FROM part WHERE key BETWEEN ?2 AND ?3),
                 (SELECT max(op_reach, cut_reach) FROM sessions WHERE session_no = ?1)",
        )
        .and_then(|mut statement| {
            statement.query_row(params![session_no, from, to], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
        })
        .doing("finding the last seq")?;
    Ok(Seq(row.max(reach) as u64).max(part.map(seq_of).unwrap_or_default()))
}

/// Runs the whole transaction. `load` reads the side file, once the write lock is there.
pub(crate) fn engage(
    tx: &Transaction<'_>,
    plan: &Plan,
    load: impl FnOnce() -> Result<Option<SpoolContents>, StoreError>,
    drafts: &[LeftOver],
    batch: &Batch,
) -> Result<Outcome, StoreError> {
    let spool = load()?;
    point::reach("append: begun");
    let session_no = match find_or_create(tx, plan, spool.as_ref())? {
        Found::Session(session_no) => session_no,
        Found::Deleted { session_no, at } => {
            record_requests(tx, session_no, plan, spool.as_ref(), batch)?;
            return Ok(Outcome::Deleted(at));
        }
    };
    let epoch = match plan.epoch {
        Some(epoch) => {
            lease::verify(tx, session_no, &plan.session, epoch, &plan.claim)?;
            epoch
        }
        None => lease::take(tx, session_no, &plan.session, &plan.claim)?,
    };
    let mut engaged = Engaged { session_no, epoch, ..Engaged::default() };
    if let Some(spool) = &spool {
        take_in(tx, plan, spool, &mut engaged)?;
    }
    if !drafts.is_empty() {
        finish_drafts(tx, plan, drafts, &mut engaged)?;
    }
    if !batch.is_empty() {
        Applier::new(tx, session_no, &plan.session, plan.claim.now, plan.care).apply(batch)?;
    }
    // A holder that has written before knows what it gave out.
    if plan.epoch.is_none() || spool.is_some() || !drafts.is_empty() {
        engaged.last_seq = last_seq(tx, session_no)?;
    }
    point::reach("append: applied");
    Ok(Outcome::Engaged(engaged))
}

enum Found {
    Session(i64),
    Deleted { session_no: i64, at: Timestamp },
}

fn find_or_create(
    tx: &Transaction<'_>,
    plan: &Plan,
    spool: Option<&SpoolContents>,
) -> Result<Found, StoreError> {
    let found = number_of(tx, &plan.session)?;
    let tombstone = |at: Option<(i64, Timestamp)>| match at {
        Some((session_no, at)) => Ok(Found::Deleted { session_no, at }),
        None => Err(StoreError::NotFound {
            what: "session",
            reference: plan.session.to_string(),
            hint: "list them with `hermes sessions list`".to_owned(),
        }),
    };
    if let Some(wanted) = plan.session_no {
        // A session of this id that was made after ours was deleted is not ours.
        return if found == Some(wanted) {
            Ok(Found::Session(wanted))
        } else {
            tombstone(tombstone_of(tx, &plan.session)?)
        };
    }
    let taken = match spool {
        Some(spool) => frames_taken(tx, &spool.header.token)?,
        None => None,
    };
    if let Some(found) = found {
        if plan.init.is_some() && taken.is_none() {
            return Err(StoreError::Refused {
                what: format!("session {} exists already", plan.session),
                hint: "open it, or start one with another id",
            });
        }
        return Ok(Found::Session(found));
    }
    let init = plan.init.as_ref().or_else(|| spool.and_then(|spool| spool.header.init.as_ref()));
    match init {
        // A side file that was taken in before its session was deleted creates nothing.
        Some(init) if taken.is_none() => Ok(Found::Session(apply::create_session(tx, init)?)),
        _ => tombstone(tombstone_of(tx, &plan.session)?),
    }
}

/// Frames of this side file (or draft) that were taken in; None if none ever was.
fn frames_taken(tx: &Transaction<'_>, token: &str) -> Result<Option<usize>, StoreError> {
    tx.query_row("SELECT frames FROM intake WHERE token = ?1", [token], |row| row.get::<_, i64>(0))
        .optional()
        .doing("looking at what was taken in")
        .map(|frames| frames.map(|frames| frames as usize))
}

fn mark_taken(
    tx: &Transaction<'_>,
    session_no: i64,
    token: &str,
    frames: usize,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT OR REPLACE INTO intake (token, session_no, frames) VALUES (?1, ?2, ?3)",
        params![token, session_no, frames as i64],
    )
    .doing("marking what was taken in")?;
    Ok(())
}

/// Takes in the batches of the side file that were not taken in before. If one contradicts the
/// database, none is: the file is set aside as a whole, for a person to look at.
fn take_in(
    tx: &Transaction<'_>,
    plan: &Plan,
    spool: &SpoolContents,
    engaged: &mut Engaged,
) -> Result<(), StoreError> {
    let done = frames_taken(tx, &spool.header.token)?.unwrap_or(0);
    tx.execute_batch("SAVEPOINT intake").doing("taking in the side file")?;
    let mut outcome = Ok(());
    for batch in spool.batches.iter().skip(done) {
        let applier =
            Applier::new(tx, engaged.session_no, &plan.session, plan.claim.now, Care::Lenient);
        outcome = applier.apply(batch);
        if outcome.is_err() {
            break;
        }
    }
    match outcome {
        Ok(()) => {
            engaged.batches = spool.batches.len().saturating_sub(done);
            mark_taken(tx, engaged.session_no, &spool.header.token, spool.batches.len())?;
        }
        Err(StoreError::Invalid { what, .. }) => {
            tracing::error!(
                session = %plan.session,
                path = %spool.path.display(),
                what,
                "the side file contradicts the store and is set aside"
            );
            tx.execute_batch("ROLLBACK TO intake").doing("taking in the side file")?;
            engaged.conflict = true;
        }
        Err(other) => return Err(other),
    }
    tx.execute_batch("RELEASE intake").doing("taking in the side file")
}

/// Makes interrupted rows of left-over drafts.
fn finish_drafts(
    tx: &Transaction<'_>,
    plan: &Plan,
    drafts: &[LeftOver],
    engaged: &mut Engaged,
) -> Result<(), StoreError> {
    for draft in drafts {
        if frames_taken(tx, &draft.header.token)?.is_some() {
            continue;
        }
        let stored = tx
            .prepare_cached("SELECT 1 FROM row WHERE session_no = ?1 AND seq = ?2")
            .and_then(|mut statement| {
                statement.exists(params![engaged.session_no, draft.header.row.0 as i64])
            })
            .doing("looking for a draft's row")?;
        if stored {
            continue;
        }
        mark_taken(tx, engaged.session_no, &draft.header.token, 1)?;
        let last = last_seq(tx, engaged.session_no)?;
        // Nothing may come to stand before what a request already saw.
        let seq = if draft.header.row > last { draft.header.row } else { last.next() };
        let mut next = seq;
        let row = draft.clone().into_row(seq, || {
            next = next.next();
            next
        });
        if let Some(row) = row {
            let batch = vec![Record::Row(row)];
            Applier::new(tx, engaged.session_no, &plan.session, plan.claim.now, Care::Lenient)
                .apply(&batch)?;
            engaged.answers += 1;
        }
    }
    Ok(())
}

/// Of a deleted session only the ledger goes on.
fn record_requests(
    tx: &Transaction<'_>,
    session_no: i64,
    plan: &Plan,
    spool: Option<&SpoolContents>,
    batch: &Batch,
) -> Result<(), StoreError> {
    let spooled = spool.into_iter().flat_map(SpoolContents::records);
    for record in spooled.chain(batch) {
        match record {
            Record::AttemptStarted(attempt) if attempt.session == plan.session => {
                ledger::insert_attempt(tx, session_no, attempt)?;
            }
            Record::AttemptEnded(end) => {
                ledger::end_attempt(tx, end)?;
            }
            _ => {}
        }
    }
    Ok(())
}
