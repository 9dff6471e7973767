//! Events to callbacks: who is told, in what order, and how long the caller waits.
//!
//! An event runs on the plugins' own thread. The caller waits for directives and transforms one by
//! one, each with its own limit. Observers that are waited for share one limit an event: when it is
//! spent the caller goes on, and what is left goes on without it. Other observers are told behind the
//! caller's back, in order; the next event that is waited for comes after them for the plugins that
//! hear both, so that a plugin that counts in one hook and decides in another has counted.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::lanes::Turn;
use crate::outcome::{CallbackResult, HookOutcome, Said};
use crate::payload::{Payload, TELEMETRY_SCHEMA};
use crate::plugins::{Inner, Plugins, locked};
use crate::registry::{Entry, Owner};
use crate::table::{self, Category, HookSpec, ThreadRule};

/// Events of one session that may wait behind the caller's back. The next one then waits for the
/// oldest, so that nothing is lost and nothing grows without end.
const MOST_BEHIND: usize = 64;
/// Events of one session and plugin that may wait where old ones may be lost.
const MOST_QUEUED: usize = 1024;
/// Payloads above this many bytes are looked through for secrets on a thread of their own.
const LARGE: usize = 32 * 1024;

/// One subscriber of an event that is being dispatched.
#[derive(Clone, Debug)]
pub(crate) struct Subscriber {
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    pub(crate) plugin: Arc<str>,
    pub(crate) callback: Arc<str>,
}

impl Subscriber {
    fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id,
            owner: entry.owner,
            plugin: Arc::clone(&entry.plugin),
            callback: Arc::clone(&entry.callback),
        }
    }
}

/// An event on its way.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) hook: Arc<str>,
    pub(crate) spec: &'static HookSpec,
    pub(crate) payload: Payload,
    pub(crate) identity: String,
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) nested: bool,
    /// A callback that hung lately is asked all the same: no later event tells what this one does.
    pub(crate) must_be_heard: bool,
}

impl Event {
    /// Whose callbacks are asked, each plugin once.
    pub(crate) fn plugins(&self) -> Vec<Arc<str>> {
        let mut plugins: Vec<Arc<str>> = Vec::new();
        for subscriber in &self.subscribers {
            if !plugins.contains(&subscriber.plugin) {
                plugins.push(Arc::clone(&subscriber.plugin));
            }
        }
        plugins
    }

    fn of(&self, plugin: &str) -> Self {
        let mut subscribers = self.subscribers.clone();
        subscribers.retain(|subscriber| *subscriber.plugin == *plugin);
        Self { subscribers, ..self.clone() }
    }
}

pub(crate) type Results = mpsc::UnboundedSender<(usize, CallbackResult)>;

impl Plugins {
    /// Tells everyone who listens, in order, and gives what they said. Events that the table does
    /// not have waited for give nothing, at once, and `unfinished`.
    pub async fn dispatch(&self, hook: &str, payload: Payload) -> HookOutcome {
        self.0.dispatch(hook, payload).await
    }

    /// Tells everyone who listens without waiting: for events that come faster than they can be
    /// waited for.
    pub fn notify(&self, hook: &str, payload: Payload) {
        let inner = Arc::clone(&self.0);
        let hook = hook.to_owned();
        if !inner.any() {
            return;
        }
        let Some(background) = inner.background() else { return };
        drop(background.spawn(async move {
            inner.dispatch(&hook, payload).await;
        }));
    }
}

impl Inner {
    /// The event for those who listen; None if nobody does.
    pub(crate) async fn event(self: &Arc<Self>, hook: &str, payload: Payload) -> Option<Event> {
        let nested = payload.call.depth > 0;
        if !nested {
            self.ready().await;
        }
        let subscribers: Vec<Subscriber> =
            locked(&self.registry).under("hook", hook).map(Subscriber::of).collect();
        if subscribers.is_empty() {
            return None;
        }
        let payload = if hook == "gateway_platform_event" {
            payload
        } else {
            payload.text("telemetry_schema_version", TELEMETRY_SCHEMA)
        };
        Some(Event {
            hook: Arc::from(hook),
            spec: table::find(hook).unwrap_or(&table::UNKNOWN),
            identity: payload.identity(),
            payload,
            subscribers,
            nested,
            must_be_heard: false,
        })
    }

    pub(crate) async fn dispatch(self: &Arc<Self>, hook: &str, payload: Payload) -> HookOutcome {
        if !self.any() {
            return HookOutcome::default();
        }
        let Some(event) = self.event(hook, payload).await else {
            return HookOutcome { results: self.lost_guards(hook), unfinished: false };
        };
        let mut lost = self.lost_guards(hook);
        let Some(background) = self.background() else {
            // Nobody can be asked: for a guard that is as good as gone.
            let why = "the system gives no thread for plugins";
            lost.extend(event.subscribers.iter().map(|subscriber| CallbackResult {
                plugin: Arc::clone(&subscriber.plugin),
                callback: Arc::clone(&subscriber.callback),
                said: Said::Gone(why.to_owned()),
                mutations: None,
                millis: 0.0,
            }));
            return HookOutcome { results: lost, unfinished: false };
        };
        match event.spec.thread {
            ThreadRule::Worker => {
                let outcome = self.told(event, &background).await;
                let results = outcome.results.into_iter().chain(lost).collect();
                HookOutcome { results, ..outcome }
            }
            ThreadRule::Behind => {
                self.tell_behind(event, &background).await;
                HookOutcome { results: Vec::new(), unfinished: true }
            }
            ThreadRule::Queue => {
                let session = &event.payload.call.session_id;
                for plugin in event.plugins() {
                    let lane = format!("{session}\n{plugin}");
                    let turn = self.lanes.push(&lane, vec![Arc::clone(&plugin)], Some(MOST_QUEUED));
                    drop(background.spawn(self.behind(event.of(&plugin), turn)));
                }
                HookOutcome { results: Vec::new(), unfinished: true }
            }
        }
    }

    /// Tells an event and waits for what is said.
    async fn told(
        self: &Arc<Self>,
        event: Event,
        background: &tokio::runtime::Handle,
    ) -> HookOutcome {
        if !event.nested {
            // What these plugins are still to hear of what happened before, first.
            let plugins = event.plugins();
            let lane = &event.payload.call.session_id;
            self.lanes.wait(lane, self.timeout, |pending| pending.asks(&plugins)).await;
        }
        let observer = event.spec.category == Category::Observer;
        let end =
            self.timeout.filter(|_| observer).map(|limit| tokio::time::Instant::now() + limit);
        let mut results: Vec<Option<CallbackResult>> = vec![None; event.subscribers.len()];
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let inner = Arc::clone(self);
        drop(background.spawn(async move {
            let event = inner.for_observers(event).await;
            inner.run(&event, sender).await;
        }));
        let mut unfinished = false;
        loop {
            let next = match end {
                None => receiver.recv().await,
                Some(end) => {
                    let Ok(next) = tokio::time::timeout_at(end, receiver.recv()).await else {
                        unfinished = true;
                        break;
                    };
                    next
                }
            };
            let Some((index, result)) = next else { break };
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(result);
            }
        }
        HookOutcome { results: results.into_iter().flatten().collect(), unfinished }
    }

    /// Puts an event into its session's lane; waits only where too much is in it.
    async fn tell_behind(self: &Arc<Self>, event: Event, background: &tokio::runtime::Handle) {
        let lane = event.payload.call.session_id.clone();
        if self.lanes.len(&lane) >= MOST_BEHIND && !event.nested {
            self.lanes.wait_first(&lane, self.timeout).await;
        }
        let turn = self.lanes.push(&lane, event.plugins(), Some(MOST_QUEUED));
        drop(background.spawn(self.behind(event, turn)));
    }

    /// What runs an event when its turn has come.
    fn behind(
        self: &Arc<Self>,
        event: Event,
        mut turn: Turn,
    ) -> impl Future<Output = ()> + Send + use<> {
        let inner = Arc::clone(self);
        async move {
            if !turn.begin().await {
                return;
            }
            let event = inner.for_observers(event).await;
            let (sender, _nobody) = mpsc::unbounded_channel();
            inner.run(&event, sender).await;
            drop(turn);
        }
    }

    /// The event without secrets, if it is for observers.
    pub(crate) async fn for_observers(self: &Arc<Self>, event: Event) -> Event {
        if event.spec.category != Category::Observer {
            return event;
        }
        let clean = |inner: &Self, payload: &Payload| {
            locked(&inner.cleaner).payload(payload, &inner.redactor)
        };
        if event.payload.size() < LARGE {
            let payload = clean(self, &event.payload);
            return Event { payload, ..event };
        }
        // Not on the thread on which everything else waits.
        let (inner, payload) = (Arc::clone(self), event.payload.clone());
        let cleaned = tokio::task::spawn_blocking(move || clean(&inner, &payload)).await;
        let payload = cleaned.unwrap_or_else(|error| {
            tracing::error!(%error, hook = &*event.hook, "a payload cannot be redacted");
            Payload::new(event.payload.call.clone())
        });
        Event { payload, ..event }
    }

    /// Guards that should be there and are not, as callbacks whose process is gone.
    fn lost_guards(&self, hook: &str) -> Vec<CallbackResult> {
        if hook != "pre_tool_call" {
            return Vec::new();
        }
        let gone = |plugin: &Arc<str>, why: String| CallbackResult {
            plugin: Arc::clone(plugin),
            callback: Arc::clone(plugin),
            said: Said::Gone(why),
            mutations: None,
            millis: 0.0,
        };
        if !self.is_ready() && self.any() {
            // Asked from within a plugin that is being loaded: who guards is not known yet.
            return vec![gone(&Arc::from("plugins"), "they are still being loaded".to_owned())];
        }
        locked(&self.lost_guards)
            .iter()
            .map(|(plugin, why)| gone(plugin, format!("the plugin is not loaded: {why}")))
            .collect()
    }
}
