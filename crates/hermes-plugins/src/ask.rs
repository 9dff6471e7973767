//! Asks the callbacks of one event, in order: those of a process in one frame, a native plugin's one
//! by one, shell hooks and webhooks in their place.
//!
//! Invariants: every callback has its own time limit; one that failed is counted and told of once;
//! those behind it are asked all the same, after a new start if it took its process with it.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::dispatch::{Event, Results};
use crate::environ::For;
use crate::host::{CallError, FanItem, Fault, Link, Runs, call_json};
use crate::outcome::{CallbackResult, Said};
use crate::plugins::{Inner, locked};
use crate::registry::Owner;
use crate::shell;

impl Inner {
    /// Asks them all; gives the results one by one.
    pub(crate) async fn run(self: &Arc<Self>, event: &Event, results: Results) {
        let mut at = 0;
        while at < event.subscribers.len() {
            let owner = event.subscribers[at].owner;
            let end = event.subscribers[at..]
                .iter()
                .position(|other| other.owner != owner)
                .map_or(event.subscribers.len(), |length| at + length);
            match owner {
                Owner::Host(host) => self.run_host(event, host, at..end, &results).await,
                Owner::Shell(_) | Owner::Webhook(_) => {
                    for index in at..end {
                        self.run_other(event, index, &results).await;
                    }
                }
            }
            at = end;
        }
    }

    fn tell(
        &self,
        event: &Event,
        index: usize,
        said: Said,
        millis: f64,
        mutations: Option<Value>,
        results: &Results,
    ) {
        let subscriber = &event.subscribers[index];
        let failed = !matches!(said, Said::Value(_) | Said::Nothing);
        locked(&self.registry).count(subscriber.id, millis, failed);
        if failed {
            let (kind, text) = match &said {
                Said::Raised(fault) => (fault.kind.as_str(), fault.message.clone()),
                Said::TimedOut => ("timeout", "it did not return in time".to_owned()),
                Said::Skipped(why) => ("skipped", why.clone()),
                Said::Gone(why) => ("gone", why.clone()),
                Said::Value(_) | Said::Nothing => ("", String::new()),
            };
            let text: String = text.chars().take(200).collect();
            self.warn_once(
                format!("{}\n{}\n{kind}\n{text}", event.hook, subscriber.callback),
                &format!(
                    "hook {} of plugin {}: {} failed ({kind}): {text}",
                    event.hook, subscriber.plugin, subscriber.callback
                ),
            );
        }
        let result = CallbackResult {
            plugin: Arc::clone(&subscriber.plugin),
            callback: Arc::clone(&subscriber.callback),
            said,
            mutations,
            millis,
        };
        // The caller may have gone on without the rest.
        drop(results.send((index, result)));
    }

    /// Asks the callbacks of one process, in order. If it dies in one of them, that one has failed
    /// and the rest is asked after a new start.
    async fn run_host(
        self: &Arc<Self>,
        event: &Event,
        number: usize,
        range: std::ops::Range<usize>,
        results: &Results,
    ) {
        let Some(host) = self.host(number) else { return };
        let mut todo = Vec::new();
        for index in range {
            let id = event.subscribers[index].id;
            let why = locked(&self.suppress).check(
                id,
                &event.identity,
                Instant::now(),
                event.must_be_heard,
            );
            match why {
                Some(why) => self.tell(event, index, Said::Skipped(why), 0.0, None, results),
                None => todo.push(index),
            }
        }
        while !todo.is_empty() {
            let link = match host.link(&self.watch(number), event.nested).await {
                Ok(link) => link,
                Err(why) => {
                    for index in todo {
                        self.tell(event, index, Said::Gone(why.clone()), 0.0, None, results);
                    }
                    return;
                }
            };
            // Numbers are asked for now: a process that was started again has new ones.
            let mut refs = Vec::new();
            let mut ids = Vec::new();
            let mut asked = Vec::new();
            for index in std::mem::take(&mut todo) {
                let id = event.subscribers[index].id;
                let number = {
                    let registry = locked(&self.registry);
                    registry
                        .get(id)
                        .filter(|entry| !entry.stale)
                        .and_then(|entry| entry.calls.get("call").copied())
                };
                if let Some(number) = number {
                    refs.push(number);
                    ids.push(id);
                    asked.push(index);
                } else {
                    let why = "its plugin is not loaded any more".to_owned();
                    self.tell(event, index, Said::Gone(why), 0.0, None, results);
                }
            }
            if asked.is_empty() {
                return;
            }
            if host.runs == Runs::Native {
                todo = self.one_by_one(event, &link, (&refs, &ids, &asked), results).await;
                continue;
            }
            todo = self.fan(event, &link, &host, (&refs, &ids, &asked), results).await;
        }
    }

    /// One frame for several callbacks; gives back those that were not asked because the process
    /// ended.
    async fn fan(
        self: &Arc<Self>,
        event: &Event,
        link: &Link,
        host: &crate::host::Host,
        (refs, ids, asked): (&[u64], &[u64], &[usize]),
        results: &Results,
    ) -> Vec<usize> {
        let call = call_json(&event.payload.call, &event.hook);
        let hook = Value::from(&*event.hook);
        let head = format!(r#"{{"hook":{hook},"refs":{refs:?},"ids":{ids:?},"call":{call}"#);
        let sent = {
            // Held while the frame is put in line, so that differences arrive in order.
            let mut mirror = locked(&host.mirror);
            let (body, changes) = mirror.encode(&event.payload);
            link.fan(&[&head, r#","payload":"#, &body, r#","mirror":"#, &changes, "}"])
        };
        let Ok((number, mut items)) = sent else { return asked.to_vec() };
        let mut ended = link.ended();
        let mut left = Vec::new();
        for (place, index) in asked.iter().enumerate() {
            let id = ids[place];
            let began = Instant::now();
            locked(&self.suppress).begin(id, &event.identity);
            let limit = self.timeout.map(|limit| tokio::time::Instant::now() + limit);
            let item = loop {
                let waited = async {
                    match limit {
                        Some(limit) => tokio::time::sleep_until(limit).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    item = items.recv() => match item {
                        Some(item) if item.index == place => break Some(Ok(item)),
                        Some(_) => {}
                        // Nothing more comes from a process that has ended.
                        None => break Some(Err(link.why_ended())),
                    },
                    why = async {
                        ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone())
                    } => {
                        break Some(Err(why.unwrap_or_default()));
                    }
                    () = waited => break None,
                }
            };
            let millis = began.elapsed().as_secs_f64() * 1000.0;
            match item {
                Some(Ok(item)) => {
                    locked(&self.suppress).end(id, &event.identity);
                    let (said, millis, mutations) = read_item(item);
                    self.tell(event, *index, said, millis, mutations, results);
                }
                Some(Err(why)) => {
                    locked(&self.suppress).end(id, &event.identity);
                    self.tell(event, *index, Said::Gone(why), millis, None, results);
                    left = asked[place + 1..].to_vec();
                    break;
                }
                None => {
                    locked(&self.suppress).gave_up(id, &event.identity, Instant::now());
                    link.notify("skip", &format!(r#"{{"call":{number},"index":{place}}}"#));
                    self.tell(event, *index, Said::TimedOut, millis, None, results);
                }
            }
        }
        link.close_fan(number);
        left
    }

    /// Asks the callbacks of a native plugin, a request each; gives back those that were not asked
    /// because the process ended.
    async fn one_by_one(
        self: &Arc<Self>,
        event: &Event,
        link: &Link,
        (refs, ids, asked): (&[u64], &[u64], &[usize]),
        results: &Results,
    ) -> Vec<usize> {
        let body = event.payload.to_json();
        let (call, hook) = (call_json(&event.payload.call, &event.hook), Value::from(&*event.hook));
        for (place, index) in asked.iter().enumerate() {
            let (id, began) = (ids[place], Instant::now());
            let params =
                format!(r#"{{"ref":{},"hook":{hook},"kwargs":{body},"call":{call}}}"#, refs[place]);
            locked(&self.suppress).begin(id, &event.identity);
            let answer = link.call("invoke", &params, self.timeout).await;
            let millis = began.elapsed().as_secs_f64() * 1000.0;
            if matches!(answer, Err(CallError::TimedOut(_))) {
                locked(&self.suppress).gave_up(id, &event.identity, Instant::now());
            } else {
                locked(&self.suppress).end(id, &event.identity);
            }
            let (said, gone) = match answer {
                Ok(raw) => (read_answer(&raw), false),
                Err(CallError::Raised(fault)) => (Said::Raised(fault), false),
                Err(CallError::TimedOut(_)) => (Said::TimedOut, false),
                Err(CallError::Gone(why)) => (Said::Gone(why), true),
                Err(CallError::Odd(why)) => (Said::Raised(Fault::new("ValueError", why)), false),
            };
            self.tell(event, *index, said, millis, None, results);
            if gone {
                return asked[place + 1..].to_vec();
            }
        }
        Vec::new()
    }

    /// Asks a shell hook, or puts the event in a webhook's queue.
    async fn run_other(self: &Arc<Self>, event: &Event, index: usize, results: &Results) {
        let began = Instant::now();
        let said = match event.subscribers[index].owner {
            Owner::Shell(number) => {
                let Some(hook) = self.shell_hook(number) else { return };
                if !hook.wants(&event.payload) {
                    return;
                }
                let cwd = &self.options.cwd;
                let input = hook.input(
                    &event.payload,
                    &cwd.display().to_string(),
                    self.options.home.profile(),
                );
                let env = self.environment(For::ShellHook(&hook.env));
                let ran = shell::run(&hook.argv, &input, cwd, &env, hook.timeout).await;
                hook.judge(&ran)
            }
            Owner::Webhook(number) => {
                if let Some(sender) = self.webhook(number) {
                    let body = shell::webhook_body(
                        &event.hook,
                        &event.payload,
                        &self.options.cwd.display().to_string(),
                        self.options.home.profile(),
                    );
                    sender.send(&event.hook, &event.payload, &body, &self.run_id);
                }
                Said::Nothing
            }
            Owner::Host(_) => return,
        };
        let millis = began.elapsed().as_secs_f64() * 1000.0;
        self.tell(event, index, said, millis, None, results);
    }
}

fn read_answer(raw: &RawValue) -> Said {
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(answer) => match answer.get("value") {
            None | Some(Value::Null) => Said::Nothing,
            Some(value) => Said::Value(value.clone()),
        },
        Err(error) => Said::Raised(Fault::new("ValueError", error.to_string())),
    }
}

fn read_item(item: FanItem) -> (Said, f64, Option<Value>) {
    let mutations = item.mutations.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let said = match (item.error, item.value) {
        (Some(fault), _) => Said::Raised(fault),
        (None, None) => Said::Nothing,
        (None, Some(raw)) => match serde_json::from_str::<Value>(raw.get()) {
            Ok(Value::Null) => Said::Nothing,
            Ok(value) => Said::Value(value),
            Err(error) => Said::Raised(Fault::new("ValueError", error.to_string())),
        },
    };
    (said, item.ms, mutations)
}
