//! Events that must be heard: delivered before the next `pre_llm_call`, and before a command ends.

use hermes_core::{EventSink, NoticeLevel, SessionId};

use crate::conversation::Conversation;
use crate::{AgentError, Services, notice};

/// Events taken at once where nobody listens.
const BATCH: usize = 100;

impl Services {
    /// Delivers what waits in the outbox, of one session or of all: to the plugins, or to nobody
    /// where there are none. To be called after a deletion, an archive, a compaction outside of a
    /// turn, and before a process ends; gives how many events were delivered.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn deliver_events(&self, session: Option<&SessionId>) -> Result<usize, AgentError> {
        deliver_events(&self.store, self.plugins(), session).await
    }
}

/// The same for commands that have no services.
///
/// # Errors
/// If the store cannot be read or written.
pub async fn deliver_events(
    store: &hermes_store::Store,
    plugins: Option<&hermes_plugins::Plugins>,
    session: Option<&SessionId>,
) -> Result<usize, AgentError> {
    if let Some(plugins) = plugins {
        return plugins.deliver(store, session).await.map_err(|error| match error {
            hermes_plugins::DeliverError::Store(error) => AgentError::Store(error),
        });
    }
    let mut delivered = 0;
    loop {
        let events = store.claim_events(session, BATCH)?;
        if events.is_empty() {
            return Ok(delivered);
        }
        for event in events {
            store.event_delivered(event.no)?;
            delivered += 1;
        }
    }
}

impl Conversation {
    /// Delivers what waits, if there are plugins. A store that does not let it happen ends no turn.
    pub(crate) async fn tell_events(
        &self,
        services: &Services,
        session: Option<&SessionId>,
        sink: &dyn EventSink,
    ) {
        if services.plugins().is_none() {
            return;
        }
        if let Err(error) = services.deliver_events(session).await {
            let text = format!("plugins could not be told what happened: {error}");
            notice(sink, NoticeLevel::Warning, text);
        }
    }
}
