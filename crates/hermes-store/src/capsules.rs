//! Capsules: what a session hands to the next one, and what became of each.
//!
//! Invariants: a lane has at most one pending capsule; a capsule leaves `pending` once and never
//! comes back, but for one whose successor could not be written; it is delivered in the transaction that stores the first user row of the session
//! that receives it, never to the session that it is about, and never through the side file, which
//! cannot tell whether somebody else was quicker.

use hermes_core::{Digest, Lane, Seq, SessionId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::db::Doing as _;
use crate::rows::{digest_of, key, unreadable};
use crate::store::Store;
use crate::{StoreError, codes, engage};

/// What became of a capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapsuleState {
    /// It waits for the next session.
    Pending,
    /// It is a part of a session's first user row.
    Delivered,
    /// Nobody fetched it in time.
    Expired,
    /// A person took it back, or its session was deleted.
    Discarded,
    /// A newer one of its lane took its place.
    Superseded,
}

impl CapsuleState {
    /// The word in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Expired => "expired",
            Self::Discarded => "discarded",
            Self::Superseded => "superseded",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        [Self::Pending, Self::Delivered, Self::Expired, Self::Discarded, Self::Superseded]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// A capsule to be stored as pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCapsule {
    /// Its id.
    pub id: String,
    /// The conversation it is for; None if it is handed on by its id.
    pub lane: Option<Lane>,
    /// The session it is about.
    pub session: SessionId,
    /// The first and last row it is about.
    pub rows: (Seq, Seq),
    /// The text.
    pub text: String,
    /// What its builder wants to keep, as JSON.
    pub facts: String,
    /// How the build went, in its builder's word.
    pub status: String,
    /// Why, where that is to be told.
    pub reason: Option<String>,
    /// Whether it was built under the rules for confidential lanes.
    pub confidential: bool,
    /// When it was built.
    pub created_at: Timestamp,
    /// When it is no longer delivered.
    pub expires_at: Timestamp,
}

/// A stored capsule, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CapsuleRecord {
    /// Its id.
    pub id: String,
    /// The conversation it is for.
    pub lane: Option<Lane>,
    /// The session it is about.
    pub session: SessionId,
    /// The first and last row it is about.
    pub rows: (Seq, Seq),
    /// Digest of the text as it was written.
    pub digest: Digest,
    /// What its builder keeps, as JSON.
    pub facts: String,
    /// How the build went.
    pub status: String,
    /// Why.
    pub reason: Option<String>,
    /// Whether it was built under the rules for confidential lanes.
    pub confidential: bool,
    /// When it was built.
    pub created_at: Timestamp,
    /// When it is no longer delivered.
    pub expires_at: Timestamp,
    /// Whether its files were written at least once: a missing one was then removed by hand.
    pub published: bool,
    /// What became of it.
    pub state: CapsuleState,
    /// Since when, if it is no longer pending.
    pub settled_at: Option<Timestamp>,
    /// Why it was settled, where that is to be told.
    pub settled_why: Option<String>,
    /// The session and row that received it.
    pub taken_by: Option<(SessionId, Seq)>,
    /// Digest of the text as it was delivered.
    pub taken_digest: Option<Digest>,
}

const COLUMNS: &str = "id, lane, session_id, from_seq, to_seq, digest, facts, status, reason, \
     confidential, created_at, expires_at, published, state, settled_at, settled_why, taken_by, \
     taken_row, taken_digest";

fn record(row: &Row<'_>) -> Result<CapsuleRecord, StoreError> {
    const DOING: &str = "reading a capsule";
    let id: String = row.get(0).doing(DOING)?;
    let word: String = row.get(13).doing(DOING)?;
    let state = CapsuleState::of_word(&word)
        .ok_or_else(|| unreadable(format!("capsule {id}"), format!("unknown state \"{word}\"")))?;
    let digest = |at: usize| -> Result<Option<Digest>, StoreError> {
        let bytes: Option<Vec<u8>> = row.get(at).doing(DOING)?;
        bytes.map(|bytes| digest_of(&bytes, "capsule")).transpose()
    };
    let seq = |at: usize| row.get::<_, i64>(at).doing(DOING).map(|seq| Seq(seq as u64));
    let taken_by: Option<String> = row.get(16).doing(DOING)?;
    let taken_row: Option<i64> = row.get(17).doing(DOING)?;
    Ok(CapsuleRecord {
        lane: row.get::<_, Option<String>>(1).doing(DOING)?.map(Lane::from_key),
        session: SessionId::new(row.get::<_, String>(2).doing(DOING)?),
        rows: (seq(3)?, seq(4)?),
        digest: digest(5)?.ok_or_else(|| unreadable(format!("capsule {id}"), "no digest"))?,
        facts: row.get(6).doing(DOING)?,
        status: row.get(7).doing(DOING)?,
        reason: row.get(8).doing(DOING)?,
        confidential: row.get(9).doing(DOING)?,
        created_at: Timestamp(row.get(10).doing(DOING)?),
        expires_at: Timestamp(row.get(11).doing(DOING)?),
        published: row.get(12).doing(DOING)?,
        state,
        settled_at: row.get::<_, Option<i64>>(14).doing(DOING)?.map(Timestamp),
        settled_why: row.get(15).doing(DOING)?,
        taken_by: taken_by
            .zip(taken_row)
            .map(|(session, row)| (SessionId::new(session), Seq(row as u64))),
        taken_digest: digest(18)?,
        id,
    })
}

fn select(
    connection: &Connection,
    tail: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<CapsuleRecord>, StoreError> {
    const DOING: &str = "reading capsules";
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM capsule {tail}")).doing(DOING)?;
    let mut found = statement.query(params).doing(DOING)?;
    let mut all = Vec::new();
    while let Some(row) = found.next().doing(DOING)? {
        all.push(record(row)?);
    }
    Ok(all)
}

impl Store {
    /// Stores a capsule as pending; an older pending one of its lane is superseded. Returns the
    /// ids of those.
    ///
    /// # Errors
    /// [`StoreError::Deleted`] if the session that it is about was deleted;
    /// [`StoreError::Unavailable`] if the database cannot be written: there is no side file for
    /// capsules, because they can be built again.
    pub fn create_capsule(&self, capsule: NewCapsule) -> Result<Vec<String>, StoreError> {
        let wait = self.inner().options().busy_timeout;
        self.inner().write(move |side| side.transaction(wait, |tx| create(tx, &capsule)))
    }

    /// Notes that the files of a capsule were written. Returns whether it is still pending.
    pub fn capsule_published(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        let wait = self.inner().options().busy_timeout;
        self.inner().write(move |side| {
            side.transaction(wait, |tx| {
                tx.execute(
                    "UPDATE capsule SET published = 1 WHERE id = ?1 AND state = 'pending'",
                    [&id],
                )
                .doing("noting a capsule's files")
                .map(|changed| changed > 0)
            })
        })
    }

    /// Settles a pending capsule as discarded or expired. Returns whether it was pending.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for any other state: those have their own ways.
    pub fn settle_capsule(
        &self,
        id: &str,
        state: CapsuleState,
        why: &str,
    ) -> Result<bool, StoreError> {
        if !matches!(state, CapsuleState::Discarded | CapsuleState::Expired) {
            return Err(StoreError::Refused {
                what: format!("a capsule is not made {} by hand", state.as_str()),
                hint: "discard it, or let a session receive it",
            });
        }
        let (id, why) = (id.to_owned(), why.to_owned());
        let wait = self.inner().options().busy_timeout;
        let now = self.inner().now();
        self.inner().write(move |side| {
            side.transaction(wait, |tx| settle(tx, "id = ?4", &id, state, &why, now))
        })
    }

    /// Takes back a pending capsule whose files cannot be written: it is discarded, and in the same
    /// transaction the one that it superseded, of which id and text are given, waits again. Returns
    /// whether that one does.
    pub fn withdraw_capsule(
        &self,
        id: &str,
        why: &str,
        older: Option<(&str, &str)>,
    ) -> Result<bool, StoreError> {
        let (id, why) = (id.to_owned(), why.to_owned());
        let older = older.map(|(older, text)| (older.to_owned(), text.to_owned()));
        let wait = self.inner().options().busy_timeout;
        let now = self.inner().now();
        self.inner().write(move |side| {
            side.transaction(wait, |tx| {
                let was = settle(tx, "id = ?4", &id, CapsuleState::Discarded, &why, now)?;
                match &older {
                    Some((older, text)) if was => reinstate(tx, older, text),
                    _ => Ok(false),
                }
            })
        })
    }

    /// Settles every pending capsule whose time is over. Returns them as they are now. Costs one
    /// read while there is none.
    pub fn expire_capsules(&self) -> Result<Vec<CapsuleRecord>, StoreError> {
        let now = self.inner().now();
        let overdue = self
            .inner()
            .read(|connection| {
                select(connection, "WHERE state = 'pending' AND expires_at <= ?1", [now.0])
            })?
            .unwrap_or_default();
        let mut expired = Vec::new();
        for capsule in overdue {
            if self.settle_capsule(&capsule.id, CapsuleState::Expired, "nobody fetched it")? {
                expired.extend(self.capsule(&capsule.id)?);
            }
        }
        Ok(expired)
    }

    /// The pending capsule of a lane, overdue or not.
    pub fn pending_capsule(&self, lane: &Lane) -> Result<Option<CapsuleRecord>, StoreError> {
        let found = self.inner().read(|connection| {
            select(connection, "WHERE lane = ?1 AND state = 'pending'", [lane.key()])
        })?;
        Ok(found.and_then(|mut found| found.pop()))
    }

    /// A capsule by its id.
    pub fn capsule(&self, id: &str) -> Result<Option<CapsuleRecord>, StoreError> {
        let found = self.inner().read(|connection| select(connection, "WHERE id = ?1", [id]))?;
        Ok(found.and_then(|mut found| found.pop()))
    }

    /// The text of a pending capsule as it was written.
    pub fn capsule_text(&self, id: &str) -> Result<Option<String>, StoreError> {
        let found = self.inner().read(|connection| {
            connection
                .query_row("SELECT body FROM capsule WHERE id = ?1", [id], |row| row.get(0))
                .optional()
                .doing("reading a capsule's text")
        })?;
        Ok(found.flatten().flatten())
    }

    /// The text of a delivered capsule as it stands in the row that received it; None if that is gone.
    pub fn delivered_capsule_text(
        &self,
        record: &CapsuleRecord,
    ) -> Result<Option<String>, StoreError> {
        let Some((session, row)) = &record.taken_by else { return Ok(None) };
        let found = self.inner().read(|connection| {
            let Some(session_no) = engage::number_of(connection, session)? else { return Ok(None) };
            let origin = codes::origin_code(hermes_core::Origin::Capsule);
            connection
                .query_row(
                    "SELECT value FROM part WHERE row_key = ?1 AND origin = ?2 AND label = ?3",
                    params![key(session_no, *row), origin, record.id],
                    |row| row.get(0),
                )
                .optional()
                .doing("reading a delivered capsule")
        })?;
        Ok(found.flatten().flatten())
    }

    /// All capsules, the newest first; only those in `state` if one is given.
    pub fn capsules(&self, state: Option<CapsuleState>) -> Result<Vec<CapsuleRecord>, StoreError> {
        let word = state.map(CapsuleState::as_str);
        let found = self.inner().read(|connection| {
            select(connection, "WHERE ?1 IS NULL OR state = ?1 ORDER BY capsule_no DESC", [word])
        })?;
        Ok(found.unwrap_or_default())
    }
}

fn create(tx: &Transaction<'_>, capsule: &NewCapsule) -> Result<Vec<String>, StoreError> {
    const DOING: &str = "storing a capsule";
    if engage::number_of(tx, &capsule.session)?.is_none()
        && let Some((_, at)) = engage::tombstone_of(tx, &capsule.session)?
    {
        return Err(StoreError::Deleted { session: capsule.session.clone(), at });
    }
    let lane = capsule.lane.as_ref().map(Lane::key);
    let older: Vec<String> = match lane {
        Some(lane) => select(tx, "WHERE lane = ?1 AND state = 'pending'", [lane])?
            .into_iter()
            .map(|older| older.id)
            .collect(),
        None => Vec::new(),
    };
    for id in &older {
        settle(
            tx,
            "id = ?4",
            id,
            CapsuleState::Superseded,
            "a newer one was built",
            capsule.created_at,
        )?;
    }
    tx.execute(
        "INSERT INTO capsule (id, lane, session_id, from_seq, to_seq, digest, body, facts, status,
             reason, confidential, created_at, expires_at, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 'pending')",
        params![
            capsule.id,
            lane,
            capsule.session.as_str(),
            capsule.rows.0.0 as i64,
            capsule.rows.1.0 as i64,
            Digest::of(&capsule.text).as_bytes(),
            capsule.text,
            capsule.facts,
            capsule.status,
            capsule.reason,
            capsule.confidential,
            capsule.created_at.0,
            capsule.expires_at.0,
        ],
    )
    .doing(DOING)?;
    Ok(older)
}

/// Settles the pending capsules that `which` (with `?4`) names.
fn settle(
    tx: &Transaction<'_>,
    which: &str,
    value: &str,
    state: CapsuleState,
    why: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    tx.execute(
        &format!(
            "UPDATE capsule SET state = ?1, settled_at = ?2, settled_why = ?3, body = NULL
             WHERE {which} AND state = 'pending'"
        ),
        params![state.as_str(), now.0, why, value],
    )
    .doing("settling a capsule")
    .map(|changed| changed > 0)
}

/// Makes a superseded capsule wait again, unless its session was deleted meanwhile.
fn reinstate(tx: &Transaction<'_>, id: &str, text: &str) -> Result<bool, StoreError> {
    tx.execute(
        "UPDATE capsule SET state = 'pending', settled_at = NULL, settled_why = NULL, body = ?2
         WHERE id = ?1 AND state = 'superseded'
           AND (EXISTS (SELECT 1 FROM sessions s WHERE s.id = capsule.session_id)
                OR NOT EXISTS (SELECT 1 FROM tombstone t WHERE t.session_id = capsule.session_id))",
        params![id, text],
    )
    .doing("taking a capsule back")
    .map(|changed| changed > 0)
}

/// Gives a capsule to a session, in the transaction that stores its first user row. Repeating it
/// changes nothing.
pub(crate) fn claim(
    tx: &Transaction<'_>,
    session_no: i64,
    session: &SessionId,
    claim: (&str, Seq, &Digest),
    now: Timestamp,
) -> Result<(), StoreError> {
    const DOING: &str = "claiming a capsule";
    let (id, row, digest) = claim;
    let refused =
        |why: &str| StoreError::CapsuleNotClaimed { capsule: id.to_owned(), why: why.to_owned() };
    let Some(capsule) = select(tx, "WHERE id = ?1", [id])?.pop() else {
        return Err(refused("there is none of this id"));
    };
    if capsule.taken_by.as_ref() == Some(&(session.clone(), row)) {
        return Ok(());
    }
    if capsule.state != CapsuleState::Pending {
        return Err(refused(&format!("it is {}", capsule.state.as_str())));
    }
    if capsule.expires_at <= now {
        return Err(refused("its time is over"));
    }
    if capsule.session == *session {
        return Err(refused("it is about this session"));
    }
    let parent: Option<String> = tx
        .query_row("SELECT parent_kind FROM sessions WHERE session_no = ?1", [session_no], |row| {
            row.get(0)
        })
        .doing(DOING)?;
    if parent.is_some_and(|kind| kind != crate::ParentKind::Reset.as_str()) {
        return Err(refused("this session goes on from another one"));
    }
    let exists = |sql: &str, params: &[&dyn rusqlite::ToSql]| {
        tx.prepare_cached(sql).and_then(|mut statement| statement.exists(params)).doing(DOING)
    };
    let other = "SELECT 1 FROM row WHERE session_no = ?1 AND role = ?2 AND seq <> ?3";
    let user = codes::role_code(hermes_core::Role::User);
    if exists(other, &[&session_no, &user, &(row.0 as i64)])? {
        return Err(refused("this session has begun already"));
    }
    let part = "SELECT 1 FROM part WHERE row_key = ?1 AND origin = ?2 AND label = ?3";
    let origin = codes::origin_code(hermes_core::Origin::Capsule);
    if !exists(part, &[&key(session_no, row), &origin, &id])? {
        return Err(StoreError::Invalid {
            session: session.clone(),
            what: format!("row {row} claims capsule {id} but has no part with its text"),
        });
    }
    tx.execute(
        "UPDATE capsule SET state = 'delivered', settled_at = ?2, body = NULL, taken_by = ?3,
             taken_row = ?4, taken_digest = ?5
         WHERE id = ?1",
        params![id, now.0, session.as_str(), row.0 as i64, digest.as_bytes()],
    )
    .doing(DOING)?;
    Ok(())
}

/// A session is being deleted: its pending capsule goes with it. Returns the capsules about it that
/// were delivered, each with the session that received it, as far as those exist.
pub(crate) fn session_deleted(
    tx: &Transaction<'_>,
    session: &SessionId,
    dry_run: bool,
    now: Timestamp,
) -> Result<Vec<(String, SessionId)>, StoreError> {
    if !dry_run {
        let why = "its session was deleted";
        settle(tx, "session_id = ?4", session.as_str(), CapsuleState::Discarded, why, now)?;
    }
    let delivered = select(
        tx,
        "WHERE session_id = ?1 AND state = 'delivered'
           AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = taken_by) ORDER BY capsule_no",
        [session.as_str()],
    )?;
    Ok(delivered
        .into_iter()
        .filter_map(|capsule| Some((capsule.id, capsule.taken_by?.0)))
        .collect())
}

/// A capsule that goes with the session that it is about into another store.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    id: String,
    lane: Option<String>,
    pending: bool,
    columns: Vec<(String, Value)>,
}

impl Carried {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// The capsules about a session that go with it: the one that waits, and those that one of `all`
/// received.
pub(crate) fn carried(
    connection: &Connection,
    session: &SessionId,
    all: &[SessionId],
) -> Result<Vec<Carried>, StoreError> {
    const DOING: &str = "reading capsules";
    let mut statement = connection
        .prepare_cached("SELECT * FROM capsule WHERE session_id = ?1 ORDER BY capsule_no")
        .doing(DOING)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = statement.query([session.as_str()]).doing(DOING)?;
    let mut carried = Vec::new();
    while let Some(row) = found.next().doing(DOING)? {
        let pending = row.get::<_, String>("state").doing(DOING)? == CapsuleState::Pending.as_str();
        let taken_by: Option<String> = row.get("taken_by").doing(DOING)?;
        if !pending && !taken_by.is_some_and(|by| all.iter().any(|id| id.as_str() == by)) {
            continue;
        }
        let mut columns = Vec::new();
        for (at, name) in names.iter().enumerate() {
            if !matches!(name.as_str(), "capsule_no" | "published") {
                columns.push((name.clone(), row.get::<_, Value>(at).doing(DOING)?));
            }
        }
        carried.push(Carried {
            id: row.get("id").doing(DOING)?,
            lane: row.get("lane").doing(DOING)?,
            pending,
            columns,
        });
    }
    Ok(carried)
}

/// Stores a capsule from another store. Whether it could be: a lane has one that waits.
pub(crate) fn take_in(tx: &Transaction<'_>, capsule: &Carried) -> Result<bool, StoreError> {
    const DOING: &str = "storing a capsule";
    // One that was here before and left with its session.
    tx.execute("DELETE FROM capsule WHERE id = ?1 AND state = 'discarded'", [&capsule.id])
        .doing(DOING)?;
    let exists = |sql: &str, value: &Option<String>| {
        tx.prepare_cached(sql).and_then(|mut statement| statement.exists([value])).doing(DOING)
    };
    if exists("SELECT 1 FROM capsule WHERE id = ?1", &Some(capsule.id.clone()))? {
        return Ok(true);
    }
    let waiting = "SELECT 1 FROM capsule WHERE lane = ?1 AND state = 'pending'";
    if capsule.pending && exists(waiting, &capsule.lane)? {
        return Ok(false);
    }
    let names: Vec<&str> = capsule.columns.iter().map(|(name, _)| name.as_str()).collect();
    let marks: Vec<String> = (1..=names.len()).map(|n| format!("?{n}")).collect();
    tx.execute(
        &format!("INSERT INTO capsule ({}) VALUES ({})", names.join(", "), marks.join(", ")),
        rusqlite::params_from_iter(capsule.columns.iter().map(|(_, value)| value)),
    )
    .doing(DOING)?;
    Ok(true)
}

/// What stands where the text of a capsule was removed with the session it came from.
const REMOVED: &str = "[the text of this capsule was removed with the session it came from]";

/// Takes the text of a capsule out of the session that received it. Requests that held it can no
/// longer be rebuilt: their text is what was to be removed.
pub(crate) fn blank(
    tx: &Transaction<'_>,
    capsule: &str,
    taken_by: &SessionId,
) -> Result<(), StoreError> {
    const DOING: &str = "removing the text of a capsule";
    let Some(session_no) = engage::number_of(tx, taken_by)? else { return Ok(()) };
    let (first, last) = crate::rows::key_range(session_no);
    let rows = {
        let mut statement = tx
            .prepare(
                "SELECT DISTINCT row_key FROM part
                 WHERE key BETWEEN ?1 AND ?2 AND origin = ?3 AND label = ?4",
            )
            .doing(DOING)?;
        let origin = codes::origin_code(hermes_core::Origin::Capsule);
        statement
            .query_map(params![first, last, origin, capsule], |row| row.get::<_, i64>(0))
            .doing(DOING)?
            .collect::<Result<Vec<_>, _>>()
            .doing(DOING)?
    };
    for row in rows {
        tx.execute(
            "UPDATE part SET value = ?4 WHERE row_key = ?1 AND origin = ?2 AND label = ?3",
            params![row, codes::origin_code(hermes_core::Origin::Capsule), capsule, REMOVED],
        )
        .doing(DOING)?;
        let seq = crate::rows::seq_of(row);
        let tool = [crate::search::index::Index::Tool];
        crate::search::index::renew_row(tx, session_no, seq, &tool)?;
    }
    tx.execute(
        "DELETE FROM body WHERE request_no IN
             (SELECT request_no FROM request WHERE session_no = ?1)",
        [session_no],
    )
    .doing(DOING)?;
    Ok(())
}
