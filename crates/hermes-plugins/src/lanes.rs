//! Events that are told in order by themselves, one after the other in each lane.
//!
//! A lane is a session's, or a session's and a plugin's. Invariants: the events of a lane are told in
//! the order in which they came, each when the one before it is through; whoever waits for one waits
//! no longer than one time limit after its start, and nobody waits for it again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::plugins::locked;

/// How far an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Told(Instant),
    Through,
}

/// An event in a lane.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Whose callbacks are asked.
    plugins: Vec<Arc<str>>,
    state: watch::Sender<State>,
    /// Somebody waited for it as long as one may.
    spent: AtomicBool,
    dropped: AtomicBool,
}

impl Pending {
    /// Whether a callback of one of these plugins is asked.
    pub(crate) fn asks(&self, plugins: &[Arc<str>]) -> bool {
        self.plugins.iter().any(|plugin| plugins.contains(plugin))
    }

    /// Waits until it is through, at most until `limit` after its start; whether it is.
    async fn wait(&self, limit: Option<Duration>) -> bool {
        if self.spent.load(Ordering::Relaxed) {
            return *self.state.borrow() == State::Through;
        }
        let mut state = self.state.subscribe();
        let from = match *state.borrow() {
            State::Told(at) => at,
            State::Queued | State::Through => Instant::now(),
        };
        let through = state.wait_for(|state| *state == State::Through);
        let done = match limit {
            None => through.await.is_ok(),
            Some(limit) => tokio::time::timeout_at(from + limit, through).await.is_ok(),
        };
        if !done {
            self.spent.store(true, Ordering::Relaxed);
        }
        done
    }
}

type Queue = VecDeque<Arc<Pending>>;

/// All lanes.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Mutex<HashMap<String, Queue>>);

/// An event's place in a lane; dropped, the next one's turn comes.
pub(crate) struct Turn {
    lanes: Arc<Lanes>,
    lane: String,
    before: Option<Arc<Pending>>,
    me: Arc<Pending>,
}

impl Turn {
    /// Waits for the events before; whether this one is still to be told.
    pub(crate) async fn begin(&mut self) -> bool {
        if let Some(before) = self.before.take() {
            let mut state = before.state.subscribe();
            // An error means that it is gone, which is through as well.
            drop(state.wait_for(|state| *state == State::Through).await);
        }
        self.me.state.send_replace(State::Told(Instant::now()));
        !self.me.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut lanes = locked(&self.lanes.0);
            if let Some(queue) = lanes.get_mut(&self.lane) {
                queue.retain(|pending| !Arc::ptr_eq(pending, &self.me));
                if queue.is_empty() {
                    lanes.remove(&self.lane);
                }
            }
        }
        self.me.state.send_replace(State::Through);
    }
}

impl Lanes {
    /// Puts an event at the end of a lane. More than `most` that wait make the oldest one fall out.
    pub(crate) fn push(
        self: &Arc<Self>,
        lane: &str,
        plugins: Vec<Arc<str>>,
        most: Option<usize>,
    ) -> Turn {
        let me = Arc::new(Pending {
            plugins,
            state: watch::Sender::new(State::Queued),
            spent: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
        });
        let mut lanes = locked(&self.0);
        let queue = lanes.entry(lane.to_owned()).or_default();
        if most.is_some_and(|most| queue.len() >= most) {
            let waits = |pending: &&Arc<Pending>| {
                *pending.state.borrow() == State::Queued && !pending.dropped.load(Ordering::Relaxed)
            };
            if let Some(oldest) = queue.iter().find(waits) {
                oldest.dropped.store(true, Ordering::Relaxed);
            }
        }
        let before = queue.back().cloned();
        queue.push_back(Arc::clone(&me));
        Turn { lanes: Arc::clone(self), lane: lane.to_owned(), before, me }
    }

    /// How many events of a lane are not through.
    pub(crate) fn len(&self, lane: &str) -> usize {
        locked(&self.0).get(lane).map_or(0, VecDeque::len)
    }

    /// Waits for the events of a lane up to the last one that `matters`; whether they are through.
    pub(crate) async fn wait(
        &self,
        lane: &str,
        limit: Option<Duration>,
        matters: impl Fn(&Pending) -> bool,
    ) -> bool {
        let queue: Vec<Arc<Pending>> = {
            let lanes = locked(&self.0);
            let Some(queue) = lanes.get(lane) else { return true };
            let count = queue.iter().rposition(|pending| matters(pending)).map_or(0, |at| at + 1);
            queue.iter().take(count).cloned().collect()
        };
        for pending in queue {
            if !pending.wait(limit).await {
                return false;
            }
        }
        true
    }

    /// Waits for the oldest event of a lane; whether it is through.
    pub(crate) async fn wait_first(&self, lane: &str, limit: Option<Duration>) -> bool {
        let first = locked(&self.0).get(lane).and_then(|queue| queue.front().cloned());
        match first {
            Some(first) => first.wait(limit).await,
            None => true,
        }
    }

    /// Waits until there is nothing in any lane, even what was waited for before.
    pub(crate) async fn wait_empty(&self, limit: Duration) -> bool {
        let all: Vec<Arc<Pending>> = locked(&self.0).values().flatten().cloned().collect();
        let through = async {
            for pending in all {
                let mut state = pending.state.subscribe();
                drop(state.wait_for(|state| *state == State::Through).await);
            }
        };
        tokio::time::timeout(limit, through).await.is_ok()
    }

    /// Waits for everything; whether it is through. All lanes are waited for at the same time.
    pub(crate) async fn wait_all(&self, limit: Option<Duration>) -> bool {
        let lanes: Vec<String> = locked(&self.0).keys().cloned().collect();
        let end = limit.map(|limit| Instant::now() + limit);
        let mut all = true;
        for lane in lanes {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            all &= match left {
                None => self.wait(&lane, None, |_| true).await,
                Some(left) => {
                    tokio::time::timeout(left, self.wait(&lane, limit, |_| true)).await == Ok(true)
                }
            };
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_mins(10));

    #[tokio::test(start_paused = true)]
    async fn events_of_a_lane_are_told_in_order_and_each_holds_nobody_twice() {
        let lanes = Arc::new(Lanes::default());
        let mut first = lanes.push("s", vec!["a".into()], None);
        let mut second = lanes.push("s", vec!["b".into()], None);
        assert!(first.begin().await);
        let waiting = tokio::time::timeout(Duration::from_secs(5), second.begin()).await;
        assert!(waiting.is_err(), "the first is not through");
        let limit = Some(Duration::from_secs(30));
        // Another plugin's event does not matter; nor does another session.
        assert!(lanes.wait("s", limit, |p| p.asks(&["c".into()])).await);
        assert!(lanes.wait("t", limit, |_| true).await);
        let began = Instant::now();
        assert!(!lanes.wait("s", limit, |p| p.asks(&["b".into()])).await);
        assert_eq!(began.elapsed(), Duration::from_secs(25), "30 s after its start");
        assert!(!lanes.wait("s", limit, |_| true).await);
        assert_eq!(began.elapsed(), Duration::from_secs(25), "waited for once only");
        drop(first);
        drop(second);
        assert!(lanes.wait_all(LONG).await);
        assert_eq!(lanes.len("s"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_event_that_waits_falls_out_of_a_full_lane() {
        let lanes = Arc::new(Lanes::default());
        let mut told = lanes.push("s", Vec::new(), Some(2));
        assert!(told.begin().await);
        let mut oldest = lanes.push("s", Vec::new(), Some(2));
        let mut newest = lanes.push("s", Vec::new(), Some(2));
        drop(told);
        assert!(!oldest.begin().await);
        drop(oldest);
        assert!(newest.begin().await);
    }
}
