//! Stopping a turn from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks the running turn to stop. Clones share one request.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    asked: AtomicBool,
    wake: Notify,
}

impl Cancel {
    /// Asks for the stop. Asking twice is the same as once.
    pub fn cancel(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.0.wake.notify_waiters();
    }

    /// Forgets an earlier request, before a new turn.
    pub fn reset(&self) {
        self.0.asked.store(false, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Waits until a stop is asked for.
    pub async fn cancelled(&self) {
        loop {
            // Registered before the flag is read, so that a request in between is not missed.
            let mut woken = std::pin::pin!(self.0.wake.notified());
            woken.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            woken.await;
        }
    }
}
