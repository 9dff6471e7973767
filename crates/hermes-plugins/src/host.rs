//! Plugin processes: started on first need, watched, started again within a budget.
//!
//! Invariants: a process is never started for nothing; while one that holds guards is down or still
//! loading, whoever needs it waits or is told that it is gone, never let through; a plugin that took
//! its process with it while loading is not loaded again.

mod frame;
mod link;
mod mirror;
pub mod python;
mod source;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) use frame::Framing;
pub(crate) use link::{Answer, FanItem, Inbound, Launch, Link};
pub use link::{CallError, Fault};
pub(crate) use mirror::{Mirror, call_json};
pub(crate) use source::unpack;

use crate::discover::Found;
use crate::manifest::COMPATIBLE_VERSION;
use crate::table;

/// Starts of one process that are allowed within [`BUDGET_TIME`], the first not counted.
pub const RESTARTS: usize = 3;
/// See [`RESTARTS`].
pub const BUDGET_TIME: Duration = Duration::from_mins(10);
/// How long a process may take to say that it is there.
const START: Duration = Duration::from_secs(30);

/// What a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// Python plugins.
    Python,
    /// One native plugin.
    Native,
}

/// A plugin in a process, and how loading it went.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) found: Found,
    pub(crate) params: Value,
    /// What the process said of it.
    pub(crate) report: Value,
    /// Why it is not loaded.
    pub(crate) error: Option<String>,
    /// It must not be loaded again.
    pub(crate) given_up: bool,
}

struct State {
    link: Option<Arc<Link>>,
    /// When it was started.
    starts: VecDeque<Instant>,
    why_down: Option<String>,
}

/// One plugin process, alive or not.
pub(crate) struct Host {
    pub(crate) number: usize,
    pub(crate) runs: Runs,
    launch: Box<dyn Fn() -> Result<Launch, String> + Send + Sync>,
    settings: Value,
    load_limit: Option<Duration>,
    pub(crate) plugins: Mutex<Vec<Loaded>>,
    state: Mutex<State>,
    starting: tokio::sync::Mutex<()>,
    loading: watch::Sender<bool>,
    /// The plugin whose `register` runs now.
    pub(crate) registering: Mutex<Option<String>>,
    pub(crate) mirror: Mutex<Mirror>,
    stopped: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a host tells its owner while it starts.
pub(crate) trait Watch: Inbound {
    /// A plugin was loaded, or was not; its registrations count, or are to be dropped.
    fn loaded(&self, plugin: &str, ok: bool);
    /// A plugin named what it registers in its answer to being loaded.
    fn registers(&self, plugin: &str, registrations: &[Value]);
}

/// What a host is made of.
pub(crate) struct HostSpec {
    pub(crate) number: usize,
    pub(crate) runs: Runs,
    pub(crate) launch: Box<dyn Fn() -> Result<Launch, String> + Send + Sync>,
    pub(crate) settings: Value,
    pub(crate) load_limit: Option<Duration>,
    pub(crate) plugins: Vec<(Found, Value)>,
}

impl Host {
    pub(crate) fn new(spec: HostSpec) -> Self {
        let plugins = spec
            .plugins
            .into_iter()
            .map(|(found, params)| Loaded {
                found,
                params,
                report: Value::Null,
                error: Some("not loaded yet".to_owned()),
                given_up: false,
            })
            .collect();
        Self {
            number: spec.number,
            runs: spec.runs,
            launch: spec.launch,
            settings: spec.settings,
            load_limit: spec.load_limit,
            plugins: Mutex::new(plugins),
            state: Mutex::new(State { link: None, starts: VecDeque::new(), why_down: None }),
            starting: tokio::sync::Mutex::new(()),
            loading: watch::Sender::new(false),
            registering: Mutex::new(None),
            mirror: Mutex::new(Mirror::default()),
            stopped: AtomicBool::new(false),
        }
    }

    /// The living process, if there is one. It may still be loading.
    pub(crate) fn current(&self) -> Option<Arc<Link>> {
        locked(&self.state).link.clone().filter(|link| link.lives())
    }

    /// Why it is down, if it is.
    pub(crate) fn why_down(&self) -> Option<String> {
        locked(&self.state).why_down.clone()
    }

    /// The process, started and loaded if it is not there. A call from inside the process
    /// (`nested`) does not wait for the loading it is part of.
    pub(crate) async fn link(
        self: &Arc<Self>,
        watch: &Arc<dyn Watch>,
        nested: bool,
    ) -> Result<Arc<Link>, String> {
        if nested && let Some(link) = self.current() {
            return Ok(link);
        }
        if !*self.loading.borrow()
            && let Some(link) = self.current()
        {
            return Ok(link);
        }
        let _one = self.starting.lock().await;
        if let Some(link) = self.current() {
            return Ok(link);
        }
        self.start(watch).await
    }

    async fn start(self: &Arc<Self>, watch: &Arc<dyn Watch>) -> Result<Arc<Link>, String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err("the program is ending".to_owned());
        }
        self.allowed()?;
        self.loading.send_replace(true);
        let result = self.start_and_load(watch).await;
        self.loading.send_replace(false);
        if let Err(why) = &result {
            tracing::warn!(host = self.number, why, "a plugin process is down");
            locked(&self.state).why_down = Some(why.clone());
        }
        result
    }

    fn allowed(&self) -> Result<(), String> {
        let now = Instant::now();
        let mut state = locked(&self.state);
        while state.starts.front().is_some_and(|at| now.duration_since(*at) > BUDGET_TIME) {
            state.starts.pop_front();
        }
        if state.starts.len() > RESTARTS {
            let why = format!(
                "it ended {} times within {} minutes and is not started again for now",
                state.starts.len(),
                BUDGET_TIME.as_secs() / 60
            );
            state.why_down = Some(why.clone());
            return Err(why);
        }
        state.starts.push_back(now);
        Ok(())
    }

    async fn start_and_load(self: &Arc<Self>, watch: &Arc<dyn Watch>) -> Result<Arc<Link>, String> {
        let launch = (self.launch)()?;
        *locked(&self.mirror) = Mirror::default();
        let inbound: Arc<dyn Inbound> = Arc::clone(watch) as Arc<dyn Inbound>;
        let link = Link::start(&launch, inbound)
            .map_err(|error| format!("{} cannot be started: {error}", launch.program.display()))?;
        {
            let mut state = locked(&self.state);
            state.link = Some(Arc::clone(&link));
            state.why_down = None;
        }
        let mut settings = self.settings.clone();
        if let Some(fields) = settings.as_object_mut() {
            fields.insert("protocol".into(), 1.into());
            fields.insert("hermes_version".into(), COMPATIBLE_VERSION.into());
            let names: Vec<&str> = table::HOOKS.iter().map(|hook| hook.name).collect();
            fields.insert("valid_hooks".into(), names.into());
        }
        if let Err(error) = link.call("initialize", &settings.to_string(), Some(START)).await {
            let log = link.log().join("\n");
            link.kill();
            return Err(format!("it did not start: {error}\n{log}").trim_end().to_owned());
        }
        let count = locked(&self.plugins).len();
        for index in 0..count {
            self.load(&link, index, watch).await;
        }
        if !link.lives() {
            return Err("it ended while its plugins were loaded".to_owned());
        }
        Ok(link)
    }

    async fn load(self: &Arc<Self>, link: &Arc<Link>, index: usize, watch: &Arc<dyn Watch>) {
        let (key, params, given_up) = {
            let plugins = locked(&self.plugins);
            let plugin = &plugins[index];
            (plugin.found.key.clone(), plugin.params.to_string(), plugin.given_up)
        };
        if given_up || !link.lives() {
            return;
        }
        *locked(&self.registering) = Some(key.clone());
        let answer = link.call("load", &params, self.load_limit).await;
        *locked(&self.registering) = None;
        let (report, error, given_up) = match answer {
            Ok(raw) => {
                let report: Value = serde_json::from_str(raw.get()).unwrap_or_default();
                let error = report.get("error").and_then(Value::as_str).map(ToOwned::to_owned);
                if let Some(items) = report.get("registrations").and_then(Value::as_array) {
                    watch.registers(&key, items);
                }
                (report, error, false)
            }
            Err(error @ CallError::Gone(_)) => {
                (Value::Null, Some(format!("{error} while the plugin was loaded")), true)
            }
            Err(CallError::TimedOut(limit)) => (
                Value::Null,
                Some(format!(
                    "loading took longer than {} s (plugins.load_timeout_seconds)",
                    limit.as_secs()
                )),
                true,
            ),
            Err(error) => (Value::Null, Some(error.to_string()), false),
        };
        watch.loaded(&key, error.is_none());
        if let Some(why) = &error {
            tracing::warn!(plugin = key, why, "a plugin is not loaded");
        }
        let mut plugins = locked(&self.plugins);
        plugins[index].report = report;
        plugins[index].error = error;
        plugins[index].given_up = given_up;
    }

    /// Asks the process to end and makes sure that it does.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.stopped.store(true, Ordering::Relaxed);
        let Some(link) = locked(&self.state).link.take() else { return };
        link.notify("shutdown", "{}");
        let mut ended = link.ended();
        // Whether it went by itself or not, it is gone after this.
        drop(tokio::time::timeout(grace, ended.wait_for(Option::is_some)).await);
        link.kill();
    }

    /// Ends the process by force, for instance because too much hangs in it. The next need starts
    /// it again.
    pub(crate) fn kill(&self) {
        if let Some(link) = self.current() {
            link.kill();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a native plugin is told to load.
pub(crate) fn native_params(found: &Found) -> Value {
    json!({
        "key": found.key,
        "name": found.name,
        "folder": found.folder.as_ref().map(|folder| folder.display().to_string()),
        "manifest": found.manifest.fields,
    })
}

/// The command of a native plugin.
pub(crate) fn native_command(found: &Found) -> Option<(PathBuf, Vec<String>, Framing)> {
    let native = found.native.as_ref()?;
    let (program, args) = native.command.split_first()?;
    let folder = found.folder.clone().unwrap_or_default();
    let inside = folder.join(program);
    let program = if inside.is_file() { inside } else { PathBuf::from(program) };
    let framing = if native.lines { Framing::Lines } else { Framing::Headers };
    Some((program, args.to_vec(), framing))
}
