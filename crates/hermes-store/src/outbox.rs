//! Events that must be heard, and what was learned about endpoints.

use hermes_core::{OutboxEvent, SessionId, Timestamp, WireProfile};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::db::Doing as _;
use crate::rows::unreadable;
use crate::store::Store;
use crate::{ClaimedEvent, EventNo, StoreError, apply};

/// How long a claim is good: more than the budget of one event's callbacks.
const CLAIM_MILLIS: i64 = 120_000;

/// Events older than this are dropped with a log line.
const KEEP_MILLIS: i64 = 30 * 24 * 3600 * 1000;

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
    let now = inner.now();
    let token = inner.holder().token.clone();
    let session = session.map(|session| session.as_str().to_owned());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let wait = inner.options().busy_timeout;
    inner.write(move |side| {
        side.transaction(wait, |tx| {
            drop_old(tx, now)?;
            let mut claimed = Vec::new();
            {
                const DOING: &str = "claiming events";
                let mut statement = tx
                    .prepare_cached(
                        "SELECT event_no, payload, created_at, attempts FROM outbox
                         WHERE delivered_at IS NULL
                           AND (lease_token IS NULL OR lease_expires <= ?1)
                           AND (?2 IS NULL OR session_id = ?2)
                         ORDER BY event_no LIMIT ?3",
                    )
                    .doing(DOING)?;
                let mut found = statement.query(params![now.0, session, limit]).doing(DOING)?;
                while let Some(row) = found.next().doing(DOING)? {
                    let no: i64 = row.get(0).doing(DOING)?;
                    let payload: String = row.get(1).doing(DOING)?;
                    let event: OutboxEvent = serde_json::from_str(&payload)
                        .map_err(|error| unreadable(format!("event {no}"), error.to_string()))?;
                    claimed.push(ClaimedEvent {
                        no: EventNo(no),
                        event,
                        created_at: Timestamp(row.get(2).doing(DOING)?),
                        redelivered: row.get::<_, i64>(3).doing(DOING)? > 0,
                    });
                }
            }
            for event in &claimed {
                tx.execute(
                    "UPDATE outbox SET attempts = attempts + 1, lease_token = ?2,
                         lease_expires = ?3
                     WHERE event_no = ?1",
                    params![event.no.0, token, now.plus_millis(CLAIM_MILLIS).0],
                )
                .doing("claiming an event")?;
            }
            Ok(claimed)
        })
    })
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
    })
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
