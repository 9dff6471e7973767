//! Events that must be heard, from the outbox to the callbacks.
//!
//! An event counts as delivered when every callback has been asked and returned, raised, ran out of
//! its own time, or took its process with it. With no subscriber that is at once. Until then it is
//! claimed by this process; if the process ends, however, the next one delivers it again, marked
//! `redelivered`.
//!
//! Events of one session are told in order, the next when the one before is through, and before the
//! session's next `pre_llm_call`. The caller waits for each at most one time limit, whatever its
//! callbacks do; what is left then goes on without it, is delivered when it is through, and nobody
//! waits for it or for the events behind it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_core::{OutboxEvent, PostCompaction, SessionDelete, SessionId};
use hermes_store::{ClaimedEvent, EventNo, Store, StoreError};
use tokio::sync::mpsc;

use crate::outcome::Said;
use crate::payload::{CallContext, Payload};
use crate::plugins::{Inner, Plugins};

/// Events taken at once.
const BATCH: usize = 32;

/// Events could not be delivered.
#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    /// The store refused.
    #[error("events cannot be delivered: {0}")]
    Store(#[from] StoreError),
}

impl Plugins {
    /// Delivers what waits in the outbox, of one session or of all that no other process holds, the
    /// oldest first; gives how many events were delivered in the time that was waited for them. To
    /// be called before a session's `pre_llm_call`, after a deletion, at the start, and before a
    /// one-shot process ends.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn deliver(
        &self,
        store: &Store,
        session: Option<&SessionId>,
    ) -> Result<usize, DeliverError> {
        let events = self.begin(store, session)?;
        // A session also waits for what was begun before, by whomever.
        let mut lanes: Vec<String> =
            session.map(|session| session.as_str().to_owned()).into_iter().collect();
        for event in &events {
            if !lanes.contains(&event.lane) {
                lanes.push(event.lane.clone());
            }
        }
        // One limit for all of them: who delivers for others waits no longer than for itself.
        let through = async {
            for lane in &lanes {
                self.0.lanes.wait(lane, self.0.timeout, |pending| pending.asks(&[heard()])).await;
            }
        };
        match self.0.timeout {
            None => through.await,
            // What is not through by then goes on without the caller.
            Some(limit) => drop(tokio::time::timeout(limit, through).await),
        }
        Ok(events.iter().filter(|event| event.delivered.load(Ordering::Relaxed)).count())
    }

    /// Begins to deliver what waits in the outbox of all sessions, without waiting for callbacks:
    /// for the start, which is nobody's turn yet. Gives how many events are being delivered.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn deliver_behind(&self, store: &Store) -> Result<usize, DeliverError> {
        Ok(self.begin(store, None)?.len())
    }

    fn begin(
        &self,
        store: &Store,
        session: Option<&SessionId>,
    ) -> Result<Vec<Delivery>, DeliverError> {
        let mut begun = Vec::new();
        while store.pending_events()? > 0 {
            let claimed = store.claim_events(session, BATCH)?;
            let full = claimed.len() == BATCH;
            for event in claimed {
                begun.push(self.0.tell_of(store, &event)?);
            }
            if !full {
                break;
            }
        }
        Ok(begun)
    }
}

/// An event that is being delivered.
struct Delivery {
    lane: String,
    delivered: Arc<AtomicBool>,
}

/// Stands among the plugins of an event that must be heard, so that deliveries find each other.
fn heard() -> Arc<str> {
    Arc::from("\n")
}

impl Inner {
    fn tell_of(
        self: &Arc<Self>,
        store: &Store,
        claimed: &ClaimedEvent,
    ) -> Result<Delivery, StoreError> {
        let (hook, payload) = payload(&claimed.event, claimed.redelivered);
        let lane = payload.call.session_id.clone();
        let delivered = Arc::new(AtomicBool::new(false));
        let delivery = Delivery { lane: lane.clone(), delivered: Arc::clone(&delivered) };
        let background = if self.any() { self.background() } else { None };
        let Some(background) = background else {
            // Nobody listens; or nobody can be asked, and then it is the next process's.
            if self.any() {
                store.release_event(claimed.no)?;
            } else {
                store.event_delivered(claimed.no)?;
                delivered.store(true, Ordering::Relaxed);
            }
            return Ok(delivery);
        };
        let mut turn = self.lanes.push(&lane, vec![heard()], None);
        let (inner, store, no) = (Arc::clone(self), store.clone(), claimed.no);
        drop(background.spawn(async move {
            turn.begin().await;
            let whole = inner.tell_whole(hook, payload).await;
            let marked = tokio::task::spawn_blocking(move || mark(&store, no, whole)).await;
            match marked {
                Ok(Ok(())) => delivered.store(whole, Ordering::Relaxed),
                Ok(Err(error)) => tracing::warn!(hook, %error, "an event cannot be marked"),
                Err(error) => tracing::error!(hook, %error, "an event cannot be marked"),
            }
            drop(turn);
        }));
        Ok(delivery)
    }

    /// Asks every callback and waits for each; whether that could be done before the end.
    async fn tell_whole(self: &Arc<Self>, hook: &str, payload: Payload) -> bool {
        let Some(mut event) = self.event(hook, payload).await else { return true };
        event.must_be_heard = true;
        let event = self.for_observers(event).await;
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.run(&event, sender).await;
        // Callbacks that were not asked because this program is ending were not told.
        let mut gone = false;
        while let Some((_, result)) = receiver.recv().await {
            gone |= matches!(result.said, Said::Gone(_));
        }
        !(gone && self.closed.load(Ordering::Relaxed))
    }
}

fn mark(store: &Store, no: EventNo, whole: bool) -> Result<(), StoreError> {
    if whole { store.event_delivered(no) } else { store.release_event(no) }
}

fn payload(event: &OutboxEvent, redelivered: bool) -> (&'static str, Payload) {
    let (hook, payload) = match event {
        OutboxEvent::PostCompaction(event) => ("post_compaction", compaction(event)),
        OutboxEvent::OnSessionDelete(event) => ("on_session_delete", deletion(event)),
    };
    (hook, if redelivered { payload.value("redelivered", true) } else { payload })
}

fn call(session: &SessionId) -> CallContext {
    CallContext { session_id: session.as_str().to_owned(), ..CallContext::default() }
}

fn compaction(event: &PostCompaction) -> Payload {
    Payload::new(call(&event.session_id))
        .text("session_id", event.session_id.as_str())
        .text("old_session_id", event.old_session_id.as_ref().map_or("", |id| id.as_str()))
        .text("kind", &event.kind)
        .text("reason", &event.reason)
        .value("before_tokens", event.before_tokens)
        .value("after_tokens", event.after_tokens)
        .value("messages_removed", event.messages_removed)
}

fn deletion(event: &SessionDelete) -> Payload {
    let ids: Vec<&str> = event.deleted_ids.iter().map(SessionId::as_str).collect();
    Payload::new(call(&event.session_id))
        .text("session_id", event.session_id.as_str())
        .text("reason", event.reason.as_str())
        .text("profile", &event.profile)
        .value("deleted_ids", if ids.len() > 1 { Some(ids) } else { None })
        .maybe("sessions_dir", event.sessions_dir.as_deref())
}
