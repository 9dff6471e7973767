//! Events that must be heard, from the outbox to the callbacks.
//!
//! An event counts as delivered when every callback returned, raised or ran out of time. With no
//! subscriber it is delivered at once. One that was claimed before and not finished is marked
//! `redelivered`.

use hermes_core::{OutboxEvent, PostCompaction, SessionDelete, SessionId};
use hermes_store::{Store, StoreError};

use crate::payload::{CallContext, Payload};
use crate::plugins::Plugins;

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
    /// Delivers what waits in the outbox, of one session or of all, the oldest first; gives how many
    /// events were delivered. To be called before a session's `pre_llm_call`, after a deletion, at
    /// the start, and before a one-shot process ends.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn deliver(
        &self,
        store: &Store,
        session: Option<&SessionId>,
    ) -> Result<usize, DeliverError> {
        let mut delivered = 0;
        while store.pending_events()? > 0 {
            let claimed = store.claim_events(session, BATCH)?;
            let full = claimed.len() == BATCH;
            for event in claimed {
                let (hook, payload) = payload(&event.event, event.redelivered);
                let outcome = self.dispatch(hook, payload).await;
                if outcome.unfinished {
                    // The rest goes on in the background: the conversation does not wait for it.
                    tracing::warn!(hook, "callbacks used up the time of an event");
                }
                store.event_delivered(event.no)?;
                delivered += 1;
            }
            if !full {
                break;
            }
        }
        Ok(delivered)
    }
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
