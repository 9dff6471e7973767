//! The whole of it: what was found, what runs, what is registered.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hermes_home::yaml::Datum;
use hermes_home::{Home, PluginsConfig, Vars};
use serde_json::Value;
use tokio::sync::{OnceCell, mpsc};

use crate::background::Background;
use crate::clean::Cleaner;
use crate::discover::{self, Found, Gates, PluginSource};
use crate::host::{Host, RESTARTS, Watch, python};
use crate::inbound::HostInbound;
use crate::lanes::Lanes;
use crate::middleware::NextCall;
use crate::registry::{Registry, Reserved};
use crate::services::{NoServices, Services};
use crate::shell::ShellHook;
use crate::suppress::Suppress;
use crate::webhook::Sender;

/// The longest time limit of a callback that a setting may ask for.
const MOST_TIMEOUT: f64 = 600.0;

/// What plugins are started with.
#[derive(Clone)]
pub struct PluginOptions {
    /// The home folder.
    pub home: Home,
    /// `plugins` of the settings.
    pub config: PluginsConfig,
    /// `hooks` of the settings.
    pub hooks: Datum,
    /// `memory.provider` of the settings; empty for none.
    pub memory_provider: String,
    /// `context.engine` of the settings; empty for the built-in one.
    pub context_engine: String,
    /// The variables in force; plugins read their keys from them.
    pub vars: Vars,
    /// The folder of the conversation.
    pub cwd: PathBuf,
    /// This program, for plugins that call it.
    pub cli: Option<PathBuf>,
    /// `cli`, a chat platform, ...
    pub platform: String,
    /// Slash commands of the program: name to why it is taken.
    pub commands: BTreeMap<String, String>,
    /// Tools of the program.
    pub tools: Vec<String>,
    /// Auxiliary tasks of the program.
    pub tasks: Vec<String>,
    /// Whether shell hooks run without having been consented to one by one
    /// (`hooks_auto_accept`, `--accept-hooks`).
    pub accept_hooks: bool,
    /// Whether this is a gateway, which also runs the folders below `<home>/hooks`.
    pub gateway: bool,
    /// Hides secrets in what observers get and in messages. None: that of `secrets`, else one
    /// that knows the values of the variables whose names say so.
    pub redactor: Option<hermes_home::redact::Redactor>,
    /// What shell hooks do not get to see. None: what variables' names say.
    pub secrets: Option<Arc<hermes_home::Secrets>>,
    /// `terminal.env_passthrough` of the settings: what shell hooks get to see all the same.
    pub env_passthrough: Vec<String>,
}

impl PluginOptions {
    /// Options of a home folder, everything else empty.
    pub fn new(home: Home, config: PluginsConfig, vars: Vars, cwd: PathBuf) -> Self {
        Self {
            home,
            config,
            hooks: Datum::Map(Vec::new()),
            memory_provider: String::new(),
            context_engine: String::new(),
            vars,
            cwd,
            cli: None,
            platform: "cli".to_owned(),
            commands: BTreeMap::new(),
            tools: Vec::new(),
            tasks: Vec::new(),
            accept_hooks: false,
            gateway: false,
            redactor: None,
            secrets: None,
            env_passthrough: Vec::new(),
        }
    }
}

/// How long the end waits for webhooks, and for events that are given back.
const FLUSH: Duration = Duration::from_secs(5);

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);

fn run_id() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}-{:x}", since.map_or(0, |since| since.as_micros()), std::process::id())
}

pub(crate) struct Inner {
    pub(crate) options: PluginOptions,
    pub(crate) timeout: Option<Duration>,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) suppress: Mutex<Suppress>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) cleaner: Mutex<Cleaner>,
    pub(crate) hosts: RwLock<Vec<Arc<Host>>>,
    pub(crate) found: OnceLock<Vec<Found>>,
    pub(crate) problems: Mutex<Vec<String>>,
    warned: Mutex<HashSet<String>>,
    /// What checks of tools said, and when.
    pub(crate) checks: Mutex<HashMap<u64, (Instant, bool)>>,
    ready: OnceCell<()>,
    services: RwLock<Arc<dyn Services>>,
    background: OnceLock<Option<Background>>,
    pub(crate) redactor: hermes_home::redact::Redactor,
    pub(crate) closed: AtomicBool,
    pub(crate) chains: Mutex<HashMap<u64, mpsc::UnboundedSender<NextCall>>>,
    next_chain: AtomicU64,
    pub(crate) shells: RwLock<Vec<Arc<ShellHook>>>,
    pub(crate) webhooks: RwLock<Vec<Arc<Sender>>>,
    /// Plugins that had a guard and are not loaded, with the reason.
    pub(crate) lost_guards: Mutex<Vec<(Arc<str>, String)>>,
    /// Different for every start, so that deliveries can be told apart.
    pub(crate) run_id: String,
}

/// Plugins of one profile. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(pub(crate) Arc<Inner>);

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugins").field("home", &self.0.options.home.root()).finish_non_exhaustive()
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `plugins.hook_callback_timeout` as a limit: 0 is none, nonsense is 30 s, more than 600 s is 600.
pub(crate) fn callback_timeout(seconds: f64) -> Option<Duration> {
    if seconds == 0.0 {
        return None;
    }
    let seconds = if seconds.is_finite() && seconds > 0.0 {
        seconds.min(MOST_TIMEOUT)
    } else {
        tracing::warn!(seconds, "plugins.hook_callback_timeout is no time; 30 s is used");
        30.0
    };
    Some(Duration::from_secs_f64(seconds))
}

impl Plugins {
    /// Takes the options. Nothing is read and no process is started until something is needed.
    pub fn new(options: PluginOptions) -> Self {
        let mut registry = Registry::default();
        registry.reserved = Reserved {
            commands: options.commands.clone(),
            tools: options.tools.clone(),
            tasks: options.tasks.clone(),
        };
        let redactor = options
            .redactor
            .clone()
            .or_else(|| options.secrets.as_ref().map(|secrets| secrets.redactor().clone()))
            .unwrap_or_else(|| hermes_home::redact::Redactor::new(options.vars.secrets()));
        Self(Arc::new(Inner {
            timeout: callback_timeout(options.config.hook_callback_timeout),
            registry: Mutex::new(registry),
            suppress: Mutex::new(Suppress::default()),
            lanes: Arc::new(Lanes::default()),
            cleaner: Mutex::new(Cleaner::default()),
            hosts: RwLock::new(Vec::new()),
            found: OnceLock::new(),
            problems: Mutex::new(Vec::new()),
            warned: Mutex::new(HashSet::new()),
            checks: Mutex::new(HashMap::new()),
            ready: OnceCell::new(),
            services: RwLock::new(Arc::new(NoServices)),
            background: OnceLock::new(),
            redactor,
            closed: AtomicBool::new(false),
            chains: Mutex::new(HashMap::new()),
            next_chain: AtomicU64::new(1),
            shells: RwLock::new(Vec::new()),
            webhooks: RwLock::new(Vec::new()),
            lost_guards: Mutex::new(Vec::new()),
            run_id: run_id(),
            options,
        }))
    }

    /// Says who serves what plugins ask for.
    pub fn bind(&self, services: Arc<dyn Services>) {
        *self.0.services.write().unwrap_or_else(PoisonError::into_inner) = services;
    }

    /// Every plugin there is, enabled or not. Starts no process of a plugin.
    pub fn found(&self) -> Vec<Found> {
        self.0.discover(true)
    }

    /// The interpreter that Python plugins run with.
    ///
    /// # Errors
    /// If there is none that is new enough.
    pub fn interpreter(&self) -> Result<python::Interpreter, python::PythonError> {
        self.0.interpreter()
    }

    /// A look at a plugin's files, for the person who is to consent.
    pub fn scan(&self, found: &Found) -> crate::scan::ScanReport {
        if let Some(folder) = &found.folder {
            return crate::scan::scan(folder);
        }
        let module = found.entry_point.as_deref().and_then(|value| value.split([':', '.']).next());
        let file = module.zip(self.0.interpreter().ok()).and_then(|(module, interpreter)| {
            discover::module_file(&self.0.site(&interpreter), module)
        });
        match file {
            Some(file) if file.ends_with("__init__.py") => {
                crate::scan::scan(file.parent().unwrap_or(&file))
            }
            Some(file) => crate::scan::scan(&file),
            None => crate::scan::ScanReport::default(),
        }
    }

    /// Whether any plugin, shell hook or webhook is enabled.
    pub fn any(&self) -> bool {
        self.0.any()
    }

    /// Starts what is enabled and waits until it is loaded. A second time does nothing.
    pub async fn ready(&self) {
        self.0.ready().await;
    }

    /// Whether something listens to a hook. Loads plugins if that has not been done.
    pub async fn listens(&self, hook: &str) -> bool {
        self.ready().await;
        locked(&self.0.registry).under("hook", hook).next().is_some()
    }

    /// The same for those that have been loaded so far; starts nothing and does not wait.
    pub fn hears(&self, hook: &str) -> bool {
        locked(&self.0.registry).under("hook", hook).next().is_some()
    }

    /// Whether a plugin is loaded and enabled, by key or name.
    pub fn has(&self, id: &str) -> bool {
        self.0.has(id)
    }

    /// Ends every process, each with a grace. What observers are still to be told they are told
    /// first, for at most one time limit; events that must be heard and were not told whole are given
    /// back to the store.
    pub async fn close(&self) {
        self.0.lanes.wait_all(self.0.timeout).await;
        self.0.closed.store(true, Ordering::Relaxed);
        let webhooks = self.0.webhooks.read().unwrap_or_else(PoisonError::into_inner).clone();
        for webhook in webhooks {
            webhook.flush(FLUSH).await;
        }
        // All at once: each may need its grace.
        let stops: Vec<_> = self
            .0
            .all_hosts()
            .into_iter()
            .map(|host| tokio::spawn(async move { host.stop(GRACE).await }))
            .collect();
        for stop in stops {
            // A stop that panicked has ended too.
            drop(stop.await);
        }
        self.0.lanes.wait_empty(FLUSH).await;
    }
}

impl Inner {
    pub(crate) fn services(&self) -> Arc<dyn Services> {
        Arc::clone(&self.services.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where work goes on by itself; None if the system gives no thread.
    pub(crate) fn background(&self) -> Option<tokio::runtime::Handle> {
        self.background
            .get_or_init(|| {
                Background::start()
                    .inspect_err(|error| tracing::error!(%error, "no thread for plugins"))
                    .ok()
            })
            .as_ref()
            .map(|background| background.handle.clone())
    }

    pub(crate) fn next_chain(&self) -> u64 {
        self.next_chain.fetch_add(1, Ordering::Relaxed)
    }

    /// Warns of something once; later it is a debug line.
    pub(crate) fn warn_once(&self, key: String, text: &str) {
        if locked(&self.warned).insert(key) {
            tracing::warn!("{text}");
        } else {
            tracing::debug!("{text}");
        }
    }

    pub(crate) fn safe_mode(&self) -> bool {
        self.options.vars.get("HERMES_SAFE_MODE").is_some_and(|value| value == "1")
    }

    pub(crate) fn any(&self) -> bool {
        !self.safe_mode() && (self.any_plugin() || self.any_other())
    }

    /// Whether everything that is enabled was loaded, or was tried.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.initialized()
    }

    fn any_plugin(&self) -> bool {
        !self.options.config.enabled.is_empty()
            || !self.options.memory_provider.is_empty()
            || !self.options.context_engine.is_empty()
            || (self.options.gateway && self.options.home.root().join("hooks").is_dir())
    }

    fn any_other(&self) -> bool {
        matches!(&self.options.hooks, Datum::Map(fields) if !fields.is_empty())
    }

    pub(crate) fn interpreter(&self) -> Result<python::Interpreter, python::PythonError> {
        let wanted = self
            .options
            .config
            .host
            .launcher
            .first()
            .cloned()
            .or_else(|| self.options.vars.get("HERMES_PYTHON").map(ToOwned::to_owned))
            .map(PathBuf::from);
        let path = self.options.vars.get("PATH");
        python::find(self.options.home.root(), wanted.as_deref(), path)
    }

    /// The plugins that matter for running; packages are only looked through if a plugin that is
    /// enabled is no folder.
    pub(crate) fn found(&self) -> &[Found] {
        self.found.get_or_init(|| self.discover(false))
    }

    pub(crate) fn discover(&self, everything: bool) -> Vec<Found> {
        let home = self.options.home.root();
        let mut roots = vec![(home.join("plugins"), PluginSource::User)];
        if self.options.vars.get("HERMES_ENABLE_PROJECT_PLUGINS").is_some_and(|v| v != "0") {
            roots.push((self.options.cwd.join(".hermes").join("plugins"), PluginSource::Project));
        }
        let mut found = discover::folders(&roots);
        let wanted = &self.options.config.enabled;
        let missing = wanted
            .iter()
            .any(|id| !found.iter().any(|plugin| plugin.key == *id || plugin.name == *id));
        let interpreter = (missing || everything).then(|| self.interpreter());
        match interpreter {
            Some(Ok(interpreter)) => {
                let site = self.site(&interpreter);
                for point in discover::entry_points(&site) {
                    let taken = found.iter().any(|plugin| plugin.key == point.name);
                    if point.group == discover::GROUPS[0] && !taken {
                        found.push(discover::from_entry_point(&point, &site));
                    }
                }
            }
            Some(Err(error)) if missing && !everything => {
                locked(&self.problems).push(error.to_string());
            }
            None | Some(Err(_)) => {}
        }
        let gates = Gates {
            enabled: self.options.config.enabled.clone(),
            disabled: self.options.config.disabled.clone(),
        };
        discover::judge(&mut found, &gates);
        discover::in_load_order(found)
    }

    /// Folders with packages, those of `PYTHONPATH` first.
    pub(crate) fn site(&self, interpreter: &python::Interpreter) -> Vec<PathBuf> {
        let mut site: Vec<PathBuf> = self
            .options
            .vars
            .get("PYTHONPATH")
            .map(|path| std::env::split_paths(path).collect())
            .unwrap_or_default();
        site.extend(interpreter.site.iter().cloned());
        site
    }

    pub(crate) async fn ready(self: &Arc<Self>) {
        if !self.any() {
            return;
        }
        self.ready
            .get_or_init(|| async {
                if self.any_plugin() {
                    self.make_hosts();
                    for host in self.all_hosts() {
                        // Why it is down is kept by the host and told where it matters.
                        let watch = self.watch(host.number);
                        // A plugin that takes the process with it is left out the next time.
                        for _ in 0..=RESTARTS {
                            if host.link(&watch, false).await.is_ok() {
                                break;
                            }
                        }
                    }
                }
                self.look_for_guards();
                self.register_others();
            })
            .await;
    }

    pub(crate) fn watch(self: &Arc<Self>, host: usize) -> Arc<dyn Watch> {
        Arc::new(HostInbound { inner: Arc::downgrade(self), host })
    }

    pub(crate) fn host(&self, number: usize) -> Option<Arc<Host>> {
        self.hosts.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }

    pub(crate) fn all_hosts(&self) -> Vec<Arc<Host>> {
        self.hosts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.all_hosts().iter().any(|host| {
            locked(&host.plugins).iter().any(|plugin| {
                plugin.error.is_none() && (plugin.found.key == id || plugin.found.name == id)
            })
        })
    }

    /// A plugin's entry in the settings, as data.
    pub(crate) fn entry(&self, plugin: &str) -> Value {
        let Datum::Map(entries) = &self.options.config.entries else { return Value::Null };
        entries
            .iter()
            .find(|(id, _)| id == plugin)
            .and_then(|(_, datum)| serde_json::from_str(&datum.to_json()).ok())
            .unwrap_or_default()
    }

    /// Whether a capability was granted to a plugin, or its older switch is on.
    pub(crate) fn granted(&self, plugin: &str, capability: &str) -> bool {
        let entry = self.entry(plugin);
        let listed = entry
            .get("granted_capabilities")
            .and_then(Value::as_array)
            .is_some_and(|granted| granted.iter().any(|name| name.as_str() == Some(capability)));
        let older = match capability {
            "tools.override" => "/allow_tool_override",
            "gateway.platform_actions" => "/allow_platform_actions",
            "llm.provider_override" => "/llm/allow_provider_override",
            "llm.model_override" => "/llm/allow_model_override",
            "llm.agent_id_override" => "/llm/allow_agent_id_override",
            "llm.profile_override" => "/llm/allow_profile_override",
            "llm.task_override" => "/llm/allow_task_override",
            _ => return listed,
        };
        listed || entry.pointer(older).and_then(Value::as_bool).unwrap_or(false)
    }

    /// What every process holds of a plugin's callbacks is gone.
    pub(crate) fn process_ended(&self, host: usize, why: &str) {
        let ids = locked(&self.registry).process_ended(host);
        locked(&self.suppress).process_ended(&ids);
        if !self.closed.load(Ordering::Relaxed) {
            tracing::warn!(host, why, "a plugin process has ended");
        }
    }
}
