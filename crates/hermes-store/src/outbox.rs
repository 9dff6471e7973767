//! Events that must be heard, and what was learned about endpoints.

use std::collections::BTreeSet;

use hermes_core::{OutboxEvent, SessionId, Timestamp, WireProfile};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::db::Doing as _;
use crate::lease::Claim;
use crate::rows::unreadable;
use crate::store::Store;
use crate::{ClaimedEvent, EventNo, StoreError, apply};

/// How long a claim is good whose holder cannot be seen. A holder that is seen to live keeps its
/// claims; one that is seen to be dead has none.
const CLAIM_MILLIS: i64 = 120_000;

/// Events older than this are dropped with a log line.
const KEEP_MILLIS: i64 = 30 * 24 * 3600 * 1000;

/// Deliveries of one event that may be begun: one that is never finished (its callbacks hang, or
/// end the process) would else be begun at every start.
const MOST_ATTEMPTS: i64 = 8;

pub(crate) fn pending(connection: &Connection) -> Result<u64, StoreError> {
    connection
        .prepare_cached("SELECT count(*) FROM outbox WHERE delivered_at IS NULL")
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .doing("counting events")
        .map(|count| count as u64)
}

pub(crate) fn claim(
    store: &Store,
    session: Option<&SessionId>,
    limit: usize,
) -> Result<Vec<ClaimedEvent>, StoreError> {
    let inner = store.inner();
    // Nearly always there is nothing, and a read costs no sync.
    if inner.read(pending)?.unwrap_or(0) == 0 {
        return Ok(Vec::new());
    }
    let claim = inner.claim();
    let session = session.map(|session| session.as_str().to_owned());
    let wait = inner.options().busy_timeout;
    let claimed = inner.write(move |side| {
        side.transaction(wait, |tx| {
            drop_old(tx, claim.now)?;
            let claimed = free(tx, &claim, session.as_deref(), limit)?;
            for event in &claimed {
                tx.execute(
                    "UPDATE outbox SET attempts = attempts + 1, lease_token = ?2,
                         lease_expires = ?3
                     WHERE event_no = ?1",
                    params![event.no.0, claim.me.token, claim.now.plus_millis(CLAIM_MILLIS).0],
                )
                .doing("claiming an event")?;
            }
            Ok(claimed)
        })
    })?;
    inner.claimed(claimed.iter().map(|event| event.no));
    Ok(claimed)
}

/// The events that may be claimed: nobody else delivers them, none that stands before them in the
/// same session is left out, and, unless the session is named, nobody else holds the session (who
/// holds it delivers before its next turn).
fn free(
    connection: &Connection,
    claim: &Claim,
    session: Option<&str>,
    limit: usize,
) -> Result<Vec<ClaimedEvent>, StoreError> {
    const DOING: &str = "claiming events";
    let mut claimed = Vec::new();
    let mut waiting: BTreeSet<String> = BTreeSet::new();
    let mut statement = connection
        .prepare_cached(
            "SELECT o.event_no, o.payload, o.created_at, o.attempts, o.session_id,
                 o.lease_token, o.lease_expires, l.token, l.expires
             FROM outbox o LEFT JOIN sessions s ON s.id = o.session_id
             LEFT JOIN lease l ON l.session_no = s.session_no
             WHERE o.delivered_at IS NULL AND (?1 IS NULL OR o.session_id = ?1)
             ORDER BY o.event_no",
        )
        .doing(DOING)?;
    let mut found = statement.query(params![session]).doing(DOING)?;
    while let Some(row) = found.next().doing(DOING)? {
        if claimed.len() == limit {
            break;
        }
        let taken = |token: usize| -> Result<Option<String>, StoreError> {
            let by: Option<String> = row.get(token).doing(DOING)?;
            let expires =
                Timestamp(row.get::<_, Option<i64>>(token + 1).doing(DOING)?.unwrap_or(0));
            Ok(by.filter(|by| claim.is_good(by, expires)))
        };
        let id: String = row.get(4).doing(DOING)?;
        let held = session.is_none() && taken(7)?.is_some_and(|by| by != claim.me.token);
        if held || waiting.contains(&id) || taken(5)?.is_some() {
            waiting.insert(id);
            continue;
        }
        let no: i64 = row.get(0).doing(DOING)?;
        let attempts: i64 = row.get(3).doing(DOING)?;
        if attempts >= MOST_ATTEMPTS {
            tracing::warn!(
                event = no,
                attempts,
                "an event was never delivered whole and is dropped"
            );
            give_up(connection, no, claim.now)?;
            continue;
        }
        let payload: String = row.get(1).doing(DOING)?;
        match serde_json::from_str::<OutboxEvent>(&payload) {
            Ok(event) => claimed.push(ClaimedEvent {
                no: EventNo(no),
                event,
                created_at: Timestamp(row.get(2).doing(DOING)?),
                redelivered: attempts > 0,
            }),
            // A newer version's, perhaps: left for it, and in nobody's way.
            Err(error) => tracing::warn!(event = no, %error, "an event is not understood"),
        }
    }
    Ok(claimed)
}

fn give_up(connection: &Connection, no: i64, now: Timestamp) -> Result<(), StoreError> {
    connection
        .execute(
            "UPDATE outbox SET delivered_at = ?2, lease_token = NULL, lease_expires = NULL
             WHERE event_no = ?1",
            params![no, now.0],
        )
        .doing("giving an event up")
        .map(drop)
}

/// Gives a claim back: the event is delivered again, by whoever comes next.
pub(crate) fn release(store: &Store, no: EventNo) -> Result<(), StoreError> {
    let inner = store.inner();
    let token = inner.holder().token.clone();
    let wait = inner.options().busy_timeout;
    inner.write(move |side| {
        side.transaction(wait, |tx| {
            tx.execute(
                "UPDATE outbox SET lease_token = NULL, lease_expires = NULL
                 WHERE event_no = ?1 AND lease_token = ?2 AND delivered_at IS NULL",
                params![no.0, token],
            )
            .doing("giving an event back")
            .map(drop)
        })
    })?;
    inner.unclaimed(no);
    Ok(())
}

fn drop_old(connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let dropped = connection
        .execute(
            "DELETE FROM outbox WHERE delivered_at IS NULL AND created_at < ?1",
            [now.plus_millis(-KEEP_MILLIS).0],
        )
        .doing("dropping old events")?;
    if dropped > 0 {
        tracing::warn!(dropped, "events older than 30 days were never delivered and are dropped");
    }
    Ok(())
}

pub(crate) fn delivered(store: &Store, no: EventNo) -> Result<(), StoreError> {
    let inner = store.inner();
    let now = inner.now();
    let wait = inner.options().busy_timeout;
    inner.write(move |side| {
        side.transaction(wait, |tx| {
            tx.execute(
                "UPDATE outbox SET delivered_at = ?2, lease_token = NULL, lease_expires = NULL
                 WHERE event_no = ?1 AND delivered_at IS NULL",
                params![no.0, now.0],
            )
            .doing("marking an event delivered")?;
            // Delivered ones are kept as long as undelivered ones would be.
            tx.execute(
                "DELETE FROM outbox WHERE delivered_at < ?1",
                [now.plus_millis(-KEEP_MILLIS).0],
            )
            .doing("dropping delivered events")?;
            Ok(())
        })
    })?;
    inner.unclaimed(no);
    Ok(())
}

pub(crate) fn remember_profile(
    store: &Store,
    endpoint: &str,
    profile: &WireProfile,
) -> Result<(), StoreError> {
    let inner = store.inner();
    let endpoint = endpoint.to_owned();
    let profile = profile.clone();
    let now = inner.now();
    let wait = inner.options().busy_timeout;
    inner.write(move |side| {
        side.transaction(wait, |tx| {
            let digest = apply::store_profile(tx, &profile)?;
            tx.execute(
                "INSERT OR REPLACE INTO learned_profile (endpoint, digest, learned_at)
                 VALUES (?1, ?2, ?3)",
                params![endpoint, digest.as_bytes(), now.0],
            )
            .doing("remembering a wire profile")?;
            Ok(())
        })
    })
}

pub(crate) fn learned_profile(
    connection: &Connection,
    endpoint: &str,
) -> Result<Option<WireProfile>, StoreError> {
    let json: Option<String> = connection
        .prepare_cached(
            "SELECT w.json FROM learned_profile l JOIN wire_profile w ON w.digest = l.digest
             WHERE l.endpoint = ?1",
        )
        .and_then(|mut statement| statement.query_row([endpoint], |row| row.get(0)).optional())
        .doing("reading a learned wire profile")?;
    json.map(|json| {
        serde_json::from_str(&json)
            .map_err(|error| unreadable(format!("wire profile of {endpoint}"), error.to_string()))
    })
    .transpose()
}
