//! What is known of each plugin, with the field names that published comparisons use: what it
//! registered, what was refused, what it looked for and did not find, what it cost.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::discover::Found;
use crate::host::Loaded;
use crate::manifest::COMPATIBLE_VERSION;
use crate::plugins::{Inner, Plugins, locked};
use crate::registry::{Entry, Stats};

/// One plugin as the doctor sees it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PluginReport {
    /// What it is called in settings.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// The installed package it belongs to.
    pub package: Option<String>,
    /// What it says it does.
    pub description: String,
    /// `user`, `project` or `entrypoint`.
    pub source: String,
    /// `standalone`, `exclusive`, ...
    pub kind: String,
    /// Whether the gates let it run.
    pub enabled: bool,
    /// Whether it is loaded.
    pub loaded: bool,
    /// Why not.
    pub error: Option<String>,
    /// Whether it looked for something of the original that is not here.
    pub degraded: bool,
    /// Hooks and how many callbacks each.
    pub hooks: BTreeMap<String, u64>,
    /// Hooks that do not exist here.
    pub hooks_unknown_to_host: Vec<String>,
    /// Hooks that exist and are not fired by this program yet.
    pub hooks_not_fired_yet: Vec<String>,
    /// Middleware and how many callbacks each.
    pub middleware: BTreeMap<String, u64>,
    /// Tools.
    pub tools: Vec<Value>,
    /// Slash commands.
    pub commands: Vec<String>,
    /// Commands for the command line.
    pub cli_commands: Vec<String>,
    /// Skills.
    pub skills: Vec<String>,
    /// Sections of the prompt.
    pub prompt_sections: Vec<String>,
    /// Kinds of side calls.
    pub aux_tasks: Vec<String>,
    /// Chat platforms: registered, and waiting for a gateway.
    pub platforms: BTreeMap<String, Value>,
    /// Model providers.
    pub model_providers: BTreeMap<String, Value>,
    /// Memory providers.
    pub memory_providers: BTreeMap<String, Value>,
    /// The context engine.
    pub context_engine: Option<Value>,
    /// A context engine that was chosen by its setting.
    pub context_engine_lane: Option<Value>,
    /// Providers of other kinds, by kind.
    pub other_providers: BTreeMap<String, Vec<String>>,
    /// Members of the context object that it used.
    pub ctx_used: Vec<String>,
    /// Members that it looked for and the original does not have either.
    pub ctx_missing: Vec<String>,
    /// Modules of the original that it imported.
    pub imports: Vec<String>,
    /// Modules, and names in them, that are not here.
    pub import_failures: BTreeMap<String, Vec<String>>,
    /// Registrations that were refused, with the reason.
    pub refused: Vec<Value>,
    /// Threads it started while it was loaded.
    pub threads_started: Vec<String>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Calls, errors and time, over all of its callbacks.
    pub cost: Stats,
    /// The same by callback.
    pub callbacks: Vec<CallbackReport>,
}

/// One callback's cost.
#[derive(Clone, Debug, Serialize)]
pub struct CallbackReport {
    /// `hook`, `tool`, ...
    pub kind: String,
    /// Which.
    pub key: String,
    /// The callable.
    pub callback: String,
    /// What it cost.
    #[serde(flatten)]
    pub stats: Stats,
}

/// Kinds of providers that are listed by kind.
const PROVIDERS: [&str; 11] = [
    "image_gen_provider",
    "video_gen_provider",
    "web_search_provider",
    "browser_provider",
    "terminal_environment_provider",
    "tts_provider",
    "transcription_provider",
    "secret_source",
    "dashboard_auth_provider",
    "approval_transport",
    "context_reference",
];

impl Plugins {
    /// Every plugin that was found and what is known of it. Loads what is enabled.
    pub async fn doctor(&self) -> Vec<PluginReport> {
        self.ready().await;
        let inner = &self.0;
        let hosts = inner.all_hosts();
        let mut out: Vec<PluginReport> = Vec::new();
        for host in &hosts {
            // What plugins did after they were loaded counts too.
            let now = match inner.ask_host(host.number, "doctor", &json!({}), inner.timeout).await {
                Ok(now) => now,
                Err(error) => {
                    tracing::debug!(host = host.number, %error, "a plugin process gives no report");
                    Value::Null
                }
            };
            let plugins = locked(&host.plugins).clone();
            for loaded in plugins {
                let said = now
                    .get("plugins")
                    .and_then(Value::as_array)
                    .and_then(|all| {
                        all.iter().find(|one| one.get("key") == loaded.params.get("key"))
                    })
                    .unwrap_or(&loaded.report);
                let mut report = report(&loaded.found, inner);
                of_loaded(&mut report, &loaded, said, now.get("model_providers"));
                if let Some(why) = host.why_down().filter(|_| report.loaded) {
                    report.notes.push(format!("its process is down: {why}"));
                }
                out.push(report);
            }
        }
        for found in inner.discover(true) {
            if !out.iter().any(|report| report.key == found.key) {
                out.push(report(&found, inner));
            }
        }
        out.sort_by(|a, b| a.key.cmp(&b.key));
        out
    }

    /// Things that are wrong beside single plugins: no Python, a process that does not start.
    pub fn problems(&self) -> Vec<String> {
        let mut out = locked(&self.0.problems).clone();
        out.extend(self.0.all_hosts().iter().filter_map(|host| host.why_down()));
        out
    }

    /// The version of the interface that plugins see.
    pub fn compatible_version() -> &'static str {
        COMPATIBLE_VERSION
    }
}

fn report(found: &Found, inner: &Inner) -> PluginReport {
    let mut report = PluginReport {
        key: found.key.clone(),
        name: found.name.clone(),
        version: found.version.clone(),
        package: found.package.as_ref().map(|(name, _)| name.clone()),
        description: found.description.clone(),
        source: found.source.as_str().to_owned(),
        kind: found.kind.as_str().to_owned(),
        enabled: found.enabled,
        error: found.error.clone(),
        notes: found.manifest.notes.clone(),
        ..PluginReport::default()
    };
    let registry = locked(&inner.registry);
    report.notes.extend(
        registry.notes.iter().filter(|(key, _)| **key == *found.key).map(|(_, note)| note.clone()),
    );
    for entry in registry.all().iter().filter(|entry| *entry.plugin == *found.key) {
        of_entry(&mut report, entry);
    }
    for list in [
        &mut report.commands,
        &mut report.cli_commands,
        &mut report.skills,
        &mut report.prompt_sections,
        &mut report.aux_tasks,
    ] {
        list.sort();
    }
    report
}

fn of_entry(report: &mut PluginReport, entry: &Entry) {
    let key = entry.key.to_string();
    report.cost.calls += entry.stats.calls;
    report.cost.errors += entry.stats.errors;
    report.cost.millis += entry.stats.millis;
    if !entry.calls.is_empty() {
        report.callbacks.push(CallbackReport {
            kind: entry.kind.to_string(),
            key: key.clone(),
            callback: entry.callback.to_string(),
            stats: entry.stats,
        });
    }
    match &*entry.kind {
        "hook" => {
            match crate::table::find(&key) {
                Some(hook) if !hook.fired_now => report.hooks_not_fired_yet.push(key.clone()),
                _ => {}
            }
            *report.hooks.entry(key).or_default() += 1;
        }
        "middleware" => *report.middleware.entry(key).or_default() += 1,
        "tool" => report.tools.push(tool(entry)),
        "command" => report.commands.push(key),
        "cli_command" => report.cli_commands.push(key),
        "skill" => report.skills.push(key),
        "prompt_section" => report.prompt_sections.push(key),
        "aux_task" => report.aux_tasks.push(key),
        "platform" => {
            report.platforms.insert(key, (*entry.spec).clone());
        }
        "context_engine" => {
            let mut engine = (*entry.spec).clone();
            engine["name"] = key.into();
            report.context_engine = Some(engine);
        }
        kind if PROVIDERS.contains(&kind) => {
            report.other_providers.entry(kind.to_owned()).or_default().push(key);
        }
        _ => {}
    }
}

fn tool(entry: &Entry) -> Value {
    let spec = &entry.spec;
    let parameters = spec.pointer("/schema/parameters");
    let mut params: Vec<&str> = parameters
        .and_then(|parameters| parameters.get("properties")?.as_object())
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    params.sort_unstable();
    json!({
        "name": &*entry.key,
        "toolset": spec.get("toolset"),
        "params": params,
        "required": parameters.and_then(|parameters| parameters.get("required")).unwrap_or(&json!([])),
        "requires_env": spec.get("requires_env"),
        "is_async": spec.get("is_async"),
    })
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .map(|items| items.iter().filter_map(|item| item.as_str().map(ToOwned::to_owned)).collect())
        .unwrap_or_default()
}

fn of_loaded(
    report: &mut PluginReport,
    loaded: &Loaded,
    said: &Value,
    model_providers: Option<&Value>,
) {
    report.loaded = loaded.error.is_none();
    report.error.clone_from(&loaded.error);
    report.ctx_used = texts(said.get("ctx_used"));
    report.ctx_missing = texts(said.get("ctx_missing"));
    report.imports = texts(said.get("imports"));
    report.threads_started = texts(said.get("threads_started"));
    report.hooks_unknown_to_host = texts(said.get("hooks_unknown_to_host"));
    report.refused = said.get("refused").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(failures) = said.get("import_failures").and_then(Value::as_object) {
        report.import_failures =
            failures.iter().map(|(name, names)| (name.clone(), texts(Some(names)))).collect();
    }
    report.degraded = !report.import_failures.is_empty();
    let owned =
        |lane: &str| said.pointer(&format!("/lane/{lane}")).and_then(Value::as_object).cloned();
    report.memory_providers = owned("memory").into_iter().flatten().collect();
    if loaded.params.get("lane").and_then(Value::as_str) == Some("memory")
        && let Some(error) = &report.error
    {
        let name = loaded.params.get("provider").and_then(Value::as_str).unwrap_or_default();
        report.memory_providers.insert(name.to_owned(), json!({"error": error, "loaded": false}));
    }
    report.context_engine_lane = owned("context_engine").map(Value::Object);
    for (name, profile) in model_providers.and_then(Value::as_object).into_iter().flatten() {
        if profile.get("plugin").is_none_or(|plugin| plugin.as_str() == Some(&report.key)) {
            report.model_providers.insert(name.clone(), profile.clone());
        }
    }
}
