//! The whole of it: what was found, what runs, what is registered.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hermes_home::yaml::Datum;
use hermes_home::{Home, PluginsConfig, Vars};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc};

use crate::discover::{self, Found, Gates, PluginSource};
use crate::host::{
    Framing, Host, HostSpec, Launch, RESTARTS, Runs, Watch, native_command, native_params, python,
    unpack,
};
use crate::inbound::HostInbound;
use crate::manifest::PluginKind;
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
    /// Hides secrets in what observers get and in messages.
    pub redactor: Option<hermes_home::redact::Redactor>,
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
        }
    }
}

/// How long the end waits for webhooks.
const FLUSH: Duration = Duration::from_secs(5);

fn run_id() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{:x}-{:x}", since.map_or(0, |since| since.as_micros()), std::process::id())
}

/// Runs futures on a thread of its own, so that callbacks go on while the caller's runtime sleeps.
struct Background {
    handle: tokio::runtime::Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Background {
    fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        std::thread::Builder::new().name("plugins".to_owned()).spawn(move || {
            // Ends when the sender says so or is dropped.
            drop(runtime.block_on(stopped));
        })?;
        Ok(Self { handle, stop: Some(stop) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended.
            let _ = stop.send(());
        }
    }
}

pub(crate) struct Inner {
    pub(crate) options: PluginOptions,
    pub(crate) timeout: Option<Duration>,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) suppress: Mutex<Suppress>,
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
    closed: AtomicBool,
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
            .unwrap_or_else(|| hermes_home::redact::Redactor::new(options.vars.secrets()));
        Self(Arc::new(Inner {
            timeout: callback_timeout(options.config.hook_callback_timeout),
            registry: Mutex::new(registry),
            suppress: Mutex::new(Suppress::default()),
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

    /// Ends every process, each with a grace.
    pub async fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        let webhooks = self.0.webhooks.read().unwrap_or_else(PoisonError::into_inner).clone();
        for webhook in webhooks {
            webhook.flush(FLUSH).await;
        }
        for host in self.0.all_hosts() {
            host.stop(Duration::from_secs(3)).await;
        }
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

    fn safe_mode(&self) -> bool {
        self.options.vars.get("HERMES_SAFE_MODE").is_some_and(|value| value == "1")
    }

    pub(crate) fn any(&self) -> bool {
        !self.safe_mode() && (self.any_plugin() || self.any_other())
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

    fn make_hosts(self: &Arc<Self>) {
        let enabled: Vec<&Found> = self.found().iter().filter(|plugin| plugin.enabled).collect();
        let mut specs: Vec<(Runs, Vec<(Found, Value)>)> = Vec::new();
        let apart = self.options.config.isolation == "per_plugin";
        let mut shared = None;
        let mut python: Vec<(Found, Value)> = Vec::new();
        for plugin in enabled {
            if plugin.native.is_some() {
                specs.push((Runs::Native, vec![(plugin.clone(), native_params(plugin))]));
            } else {
                python.push((plugin.clone(), python_params(plugin)));
            }
        }
        python.extend(self.lanes());
        python.extend(self.gateway_folders().into_iter().map(|found| {
            let mut params = python_params(&found);
            params["lane"] = "gateway-hook".into();
            params["events"] = found.manifest.list("events").into();
            (found, params)
        }));
        for plugin in python {
            match shared {
                Some(at) if !apart => {
                    let (_, plugins): &mut (Runs, Vec<(Found, Value)>) = &mut specs[at];
                    plugins.push(plugin);
                }
                _ => {
                    shared = Some(specs.len());
                    specs.push((Runs::Python, vec![plugin]));
                }
            }
        }
        let hosts = specs
            .into_iter()
            .enumerate()
            .map(|(number, (runs, plugins))| {
                let weak = Arc::downgrade(self);
                let native = plugins.first().map(|(found, _)| found.clone());
                Arc::new(Host::new(HostSpec {
                    number,
                    runs,
                    launch: Box::new(move || {
                        let inner = weak.upgrade().ok_or("the program is ending")?;
                        match (runs, &native) {
                            (Runs::Native, Some(found)) => inner.launch_native(found),
                            _ => inner.launch_python(),
                        }
                    }),
                    settings: self.settings(),
                    load_limit: callback_timeout(self.options.config.load_timeout_seconds),
                    plugins,
                }))
            })
            .collect();
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    fn gateway_folders(&self) -> Vec<Found> {
        if self.options.gateway && !self.safe_mode() {
            discover::gateway_hooks(&self.options.home.root().join("hooks"))
        } else {
            Vec::new()
        }
    }

    /// Plugins that hold a single place and are chosen by a setting.
    fn lanes(&self) -> Vec<(Found, Value)> {
        let mut out = Vec::new();
        for (lane, name) in [
            ("memory", &self.options.memory_provider),
            ("context-engine", &self.options.context_engine),
        ] {
            if name.is_empty() || self.found().iter().any(|p| p.enabled && p.key == *name) {
                continue;
            }
            match self.lane(lane, name) {
                Some(found) => {
                    let mut params = python_params(&found);
                    params["lane"] = lane.into();
                    params["provider"] = name.as_str().into();
                    params["key"] = format!("{lane}/{name}").into();
                    let found = Found { key: format!("{lane}/{name}"), ..found };
                    out.push((found, params));
                }
                None if lane == "memory" => locked(&self.problems).push(format!(
                    "memory.provider is {name:?}, and no plugin of that name is installed\nhint: install it with `hermes plugins install`"
                )),
                None => {}
            }
        }
        out
    }

    fn lane(&self, lane: &str, name: &str) -> Option<Found> {
        let home = self.options.home.root().join("plugins");
        let own = home.join(lane.replace('-', "_")).join(name);
        let folders = if lane == "memory" { vec![home.join(name), own] } else { vec![own] };
        for folder in folders {
            if folder.join("__init__.py").is_file() {
                return discover::from_folder(&folder, None, PluginSource::User).or_else(|| {
                    let point = discover::EntryPoint::bare(name);
                    let mut found = discover::from_entry_point(&point, &[]);
                    found.entry_point = None;
                    found.folder = Some(folder.clone());
                    found.source = PluginSource::User;
                    Some(found)
                });
            }
        }
        let interpreter = self.interpreter().ok()?;
        let site = self.site(&interpreter);
        // A package may bring its provider as a module of the original's own package.
        let module = format!("plugins.{}.{name}", lane.replace('-', "_"));
        if discover::module_file(&site, &module).is_some() {
            let mut found = discover::from_entry_point(&discover::EntryPoint::bare(name), &site);
            found.entry_point = Some(module);
            return Some(found);
        }
        if lane != "memory" {
            return None;
        }
        discover::entry_points(&site)
            .iter()
            .find(|point| point.group == discover::GROUPS[1] && point.name == name)
            .map(|point| discover::from_entry_point(point, &site))
    }

    fn settings(&self) -> Value {
        json!({
            "home": self.options.home.root().display().to_string(),
            "profile": self.options.home.profile(),
            "platform": self.options.platform,
            "cwd": self.options.cwd.display().to_string(),
            "gateway": self.options.gateway,
            "cli_folder": self.cli_folder().map(|folder| folder.display().to_string()),
            "commands": self.options.commands.keys().collect::<Vec<_>>(),
            "store": self.options.home.store_path().display().to_string(),
        })
    }

    fn cli_folder(&self) -> Option<&Path> {
        self.options.cli.as_deref()?.parent()
    }

    /// The environment of plugin processes: what the person set, the home folder, and this program
    /// first on the path.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let mut vars: BTreeMap<String, String> = self
            .options
            .vars
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        vars.insert("HERMES_HOME".into(), self.options.home.root().display().to_string());
        if let Some(cli) = &self.options.cli {
            vars.insert("HERMES_CLI".into(), cli.display().to_string());
        }
        if let Some(folder) = self.cli_folder() {
            let old = vars.get("PATH").cloned().unwrap_or_default();
            let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&old));
            if let Ok(path) = std::env::join_paths(folders) {
                vars.insert("PATH".into(), path.to_string_lossy().into_owned());
            }
        }
        vars.into_iter().collect()
    }

    fn launch_python(&self) -> Result<Launch, String> {
        let interpreter = self.interpreter().map_err(|error| error.to_string())?;
        let folder = unpack(self.options.home.root())
            .map_err(|error| format!("the host's files cannot be unpacked: {error}"))?;
        let mut args: Vec<String> =
            self.options.config.host.launcher.iter().skip(1).cloned().collect();
        args.extend(["-X".to_owned(), "utf8".to_owned()]);
        args.push(folder.join("start.py").display().to_string());
        let mut env = self.environment();
        env.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
        Ok(Launch {
            program: interpreter.path,
            args,
            env,
            cwd: self.options.cwd.clone(),
            framing: Framing::Headers,
        })
    }

    fn launch_native(&self, found: &Found) -> Result<Launch, String> {
        let (program, args, framing) =
            native_command(found).ok_or("its manifest names no command")?;
        let cwd = found.folder.clone().unwrap_or_else(|| self.options.cwd.clone());
        Ok(Launch { program, args, env: self.environment(), cwd, framing })
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

fn python_params(found: &Found) -> Value {
    let lane = match found.kind {
        PluginKind::ModelProvider => "model-provider",
        _ => "plugin",
    };
    json!({
        "key": found.key,
        "name": found.name,
        "lane": lane,
        "folder": found.folder.as_ref().map(|folder| folder.display().to_string()),
        "entry_point": found.entry_point,
        "manifest": found.manifest.fields,
    })
}
