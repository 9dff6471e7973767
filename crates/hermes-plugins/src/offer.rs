//! What plugins offer to the rest of the program: tools, commands, skills, prompt sections,
//! providers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_core::{RowStatus, ToolCall, ToolDef, ToolOutcome, ToolRegistry, ToolSink};
use serde_json::{Map, Value, json};

use crate::host::CallError;
use crate::invoke::Invocation;
use crate::payload::CallContext;
use crate::plugins::{Inner, Plugins, locked};
use crate::registry::{Entry, telegram_note};
use crate::services::BoxFuture;

/// How long an answer of a tool's check is used again.
const CHECK_AGE: Duration = Duration::from_secs(30);
/// How long a check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// Limits of prompt sections, in characters.
const SECTION: usize = 4000;
const ALL_SECTIONS: usize = 8000;
/// Marks that would end the block in which sections stand.
const SECTION_MARK: &str = "hermes-plugin-sections:";

/// A tool of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginTool {
    /// The definition for the model.
    pub def: ToolDef,
    /// Whose it is.
    pub plugin: Arc<str>,
    /// Its toolset.
    pub toolset: String,
    /// Variables that it needs.
    pub requires_env: Vec<String>,
    /// Whether it takes the place of a tool of the program.
    pub overrides: bool,
}

/// A slash command of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What its arguments look like.
    pub args_hint: String,
    /// Whose it is.
    pub plugin: Arc<str>,
    /// What a chat platform cannot carry of it.
    pub note: Option<String>,
}

/// A command for the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCliCommand {
    /// Its name.
    pub name: String,
    /// What it does.
    pub help: String,
    /// Whose it is.
    pub plugin: Arc<str>,
}

/// How a command for the command line ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CliResult {
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it printed as errors.
    pub err: String,
}

/// A skill of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSkill {
    /// `plugin:name`.
    pub name: String,
    /// Its file or folder.
    pub path: PathBuf,
    /// What it is for.
    pub description: String,
    /// Whose it is.
    pub plugin: Arc<str>,
}

/// A section for the prompt of a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSection {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
    /// Whose it is.
    pub plugin: Arc<str>,
}

/// Anything else that was registered: providers, platforms, auxiliary tasks, ...
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    /// What it is called.
    pub key: String,
    /// Whose it is.
    pub plugin: Arc<str>,
    /// What was said of it.
    pub spec: Arc<Value>,
}

fn text(spec: &Value, name: &str) -> String {
    spec.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Names of commands with the two dashes made one.
pub fn normal_command(name: &str) -> String {
    name.trim().trim_start_matches('/').to_lowercase().replace(['_', ' '], "-")
}

fn tool(entry: &Entry) -> PluginTool {
    let spec = &entry.spec;
    let schema = spec.get("schema").cloned().unwrap_or_default();
    let mut function = Map::new();
    function.insert("name".into(), (&*entry.key).into());
    let description = text(spec, "description");
    function.insert("description".into(), description.into());
    let parameters = schema.get("parameters").filter(|value| value.is_object()).cloned();
    let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    function.insert("parameters".into(), parameters);
    let json = json!({"type": "function", "function": function}).to_string();
    let requires_env = spec.get("requires_env").and_then(Value::as_array).into_iter().flatten();
    PluginTool {
        def: ToolDef { name: Arc::clone(&entry.key), json: Arc::from(json) },
        plugin: Arc::clone(&entry.plugin),
        toolset: text(spec, "toolset"),
        requires_env: requires_env.filter_map(|v| v.as_str().map(ToOwned::to_owned)).collect(),
        overrides: spec.get("override").and_then(Value::as_bool).unwrap_or(false),
    }
}

/// Why a plugin's command gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No plugin has a command of that name.
    #[error("no plugin has the command /{0}\nhint: `hermes plugins list` shows what is enabled")]
    Unknown(String),
    /// It failed.
    #[error("/{name} of plugin {plugin} failed: {source}")]
    Failed {
        /// The command.
        name: String,
        /// Whose it is.
        plugin: Arc<str>,
        /// Why.
        source: CallError,
    },
}

impl Plugins {
    /// The tools of plugins, in order of registration, whether they can run now or not.
    pub fn tools(&self) -> Vec<PluginTool> {
        self.last_of("tool").iter().map(tool).collect()
    }

    /// The tools whose check says that they can run, or that have none.
    pub async fn available_tools(&self) -> Vec<PluginTool> {
        let mut out = Vec::new();
        for entry in self.last_of("tool") {
            if self.0.check(&entry).await {
                out.push(tool(&entry));
            }
        }
        out
    }

    /// Runs a plugin's tool; None if no plugin has it. Dropping the future cancels a coroutine.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        call: &CallContext,
    ) -> Option<Result<String, crate::Fault>> {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        self.0.call_tool(name, &arguments, call).await
    }

    /// The slash commands of plugins; of two with one name the later one.
    pub fn commands(&self) -> Vec<PluginCommand> {
        self.last_of("command")
            .into_iter()
            .map(|entry| PluginCommand {
                name: entry.key.to_string(),
                description: text(&entry.spec, "description"),
                args_hint: text(&entry.spec, "args_hint"),
                note: telegram_note(&entry.key),
                plugin: entry.plugin,
            })
            .collect()
    }

    /// The name under which a plugin's command is registered, hyphen or underscore. To be asked
    /// before any check of access.
    pub fn resolve_command(&self, typed: &str) -> Option<String> {
        let wanted = normal_command(typed);
        let commands = self.last_of("command");
        commands
            .iter()
            .find(|entry| normal_command(&entry.key) == wanted)
            .map(|entry| entry.key.to_string())
    }

    /// Runs a plugin's slash command. The handler gets `session_id`, `session_key`, `platform` and
    /// `source` if it declares them.
    ///
    /// # Errors
    /// If there is no such command, or it failed.
    pub async fn command(
        &self,
        name: &str,
        raw_args: &str,
        call: &CallContext,
        source: Option<&Value>,
    ) -> Result<Option<String>, CommandError> {
        let known = self.resolve_command(name);
        let entry = known.as_deref().and_then(|name| self.0.entry_of("command", name));
        let Some(entry) = entry else { return Err(CommandError::Unknown(normal_command(name))) };
        let mut invocation = Invocation::new("command", call);
        invocation.args = json!([raw_args]);
        invocation.kwargs = json!({
            "session_id": call.session_id,
            "session_key": call.session_key,
            "platform": call.platform,
            "source": source,
        });
        match self.0.invoke(&entry, invocation).await {
            Ok(Value::Null) => Ok(None),
            Ok(Value::String(text)) => Ok(Some(text)),
            Ok(other) => Ok(Some(other.to_string())),
            Err(source) => Err(CommandError::Failed {
                name: entry.key.to_string(),
                plugin: entry.plugin,
                source,
            }),
        }
    }

    /// The commands that plugins add to the command line.
    pub fn cli_commands(&self) -> Vec<PluginCliCommand> {
        self.last_of("cli_command")
            .into_iter()
            .map(|entry| PluginCliCommand {
                name: entry.key.to_string(),
                help: text(&entry.spec, "help"),
                plugin: entry.plugin,
            })
            .collect()
    }

    /// Runs one of them.
    ///
    /// # Errors
    /// If there is no such command, or its process is gone.
    pub async fn run_cli(&self, name: &str, argv: &[String]) -> Result<CliResult, CommandError> {
        let Some(entry) = self.0.entry_of("cli_command", name) else {
            return Err(CommandError::Unknown(name.to_owned()));
        };
        let failed = |source| CommandError::Failed {
            name: name.to_owned(),
            plugin: Arc::clone(&entry.plugin),
            source,
        };
        let crate::registry::Owner::Host(number) = entry.owner else {
            return Err(CommandError::Unknown(name.to_owned()));
        };
        let params = json!({
            "command": name,
            "argv": argv,
            "setup": entry.calls.get("setup"),
            "handler": entry.calls.get("call"),
            "help": text(&entry.spec, "help"),
            "plugin": entry.plugin,
        });
        let answer = self.0.ask_host(number, "cli", &params, None).await.map_err(failed)?;
        Ok(CliResult {
            code: answer.get("code").and_then(Value::as_i64).unwrap_or(0) as i32,
            out: text(&answer, "out"),
            err: text(&answer, "err"),
        })
    }

    /// The skills that plugins bring.
    pub fn skills(&self) -> Vec<PluginSkill> {
        self.last_of("skill")
            .into_iter()
            .map(|entry| PluginSkill {
                name: entry.key.to_string(),
                path: PathBuf::from(text(&entry.spec, "path")),
                description: text(&entry.spec, "description"),
                plugin: entry.plugin,
            })
            .collect()
    }

    /// The sections for the prompt of a new session, by id. `facts` is what a section that is
    /// computed is told: `session_id`, `model`, `provider`, `platform`, `profile_name`, `cwd`.
    pub async fn prompt_sections(&self, facts: &Value, call: &CallContext) -> Vec<PromptSection> {
        self.ready().await;
        let mut out = Vec::new();
        for entry in self.last_of("prompt_section") {
            let value = if entry.calls.contains_key("call") {
                let mut invocation = Invocation::new("prompt_section", call);
                invocation.args = json!([facts]);
                invocation.limit = self.0.timeout;
                match self.0.invoke(&entry, invocation).await {
                    Ok(value) => value,
                    Err(error) => {
                        tracing::warn!(plugin = %entry.plugin, section = %entry.key, %error, "a prompt section failed");
                        continue;
                    }
                }
            } else {
                entry.spec.get("content").cloned().unwrap_or_default()
            };
            let most = entry
                .spec
                .get("max_chars")
                .and_then(Value::as_u64)
                .map_or(SECTION, |most| usize::try_from(most).unwrap_or(SECTION).min(SECTION));
            match section_problem(&value, most) {
                None => out.push(PromptSection {
                    id: entry.key.to_string(),
                    text: value.as_str().unwrap_or_default().to_owned(),
                    plugin: entry.plugin,
                }),
                Some(why) => {
                    tracing::warn!(plugin = %entry.plugin, section = %entry.key, why, "a prompt section is left out");
                }
            }
        }
        out.sort_by(|a, b| a.id.cmp(&b.id));
        let mut total = 0;
        out.retain(|section| {
            total += section.text.chars().count() + section.id.len() + 32;
            total <= ALL_SECTIONS
        });
        out
    }

    /// Everything of a kind: `tts_provider`, `platform`, `aux_task`, `redaction`, ...
    pub fn registered(&self, kind: &str) -> Vec<Registered> {
        self.last_of(kind)
            .into_iter()
            .map(|entry| Registered {
                key: entry.key.to_string(),
                plugin: entry.plugin,
                spec: entry.spec,
            })
            .collect()
    }

    /// Calls a method of a provider that a plugin registered, or reads an attribute of it.
    ///
    /// # Errors
    /// If there is no such provider, it raised, hung, or its process is gone.
    pub async fn provider_call(
        &self,
        kind: &str,
        key: &str,
        method: &str,
        args: &[Value],
        limit: Option<Duration>,
    ) -> Result<Value, CallError> {
        let entry = self
            .0
            .entry_of(kind, key)
            .ok_or_else(|| CallError::Odd(format!("no plugin has the {kind} {key}")))?;
        let crate::registry::Owner::Host(number) = entry.owner else {
            return Err(CallError::Odd(format!("the {kind} {key} is no plugin's")));
        };
        let params = json!({
            "plugin": entry.plugin, "kind": kind, "key": key, "method": method, "args": args,
        });
        self.0.ask_host(number, "object", &params, limit).await
    }

    /// Tells the hook folders of a gateway of an event, exact names first, then `<base>:*`; gives
    /// what they returned. Only the decision about `command:` events counts.
    pub async fn gateway_event(
        &self,
        event: &str,
        context: &Value,
        call: &CallContext,
    ) -> Vec<Value> {
        self.ready().await;
        let base = format!("{}:*", event.split(':').next().unwrap_or_default());
        let entries: Vec<Entry> = {
            let registry = locked(&self.0.registry);
            let exact = registry.under("gateway_hook", event).cloned();
            exact.chain(registry.under("gateway_hook", &base).cloned()).collect()
        };
        let mut out = Vec::new();
        for entry in entries {
            let mut invocation = Invocation::new("gateway_hook", call);
            invocation.args = json!([event, context]);
            invocation.limit = self.0.timeout;
            match self.0.invoke(&entry, invocation).await {
                Ok(Value::Null) => {}
                Ok(value) => out.push(value),
                Err(error) => {
                    tracing::warn!(plugin = %entry.plugin, event, %error, "a hook folder failed");
                }
            }
        }
        out
    }

    fn last_of(&self, kind: &str) -> Vec<Entry> {
        let registry = locked(&self.0.registry);
        let mut out: Vec<Entry> = Vec::new();
        for entry in registry.of_kind(kind) {
            match out.iter_mut().find(|known| known.key == entry.key) {
                Some(known) => *known = entry.clone(),
                None => out.push(entry.clone()),
            }
        }
        out
    }
}

fn section_problem(value: &Value, most: usize) -> Option<String> {
    let Some(text) = value.as_str() else { return Some("it is no text".to_owned()) };
    if text.trim().is_empty() {
        return Some("it is empty".to_owned());
    }
    if text.contains(SECTION_MARK) {
        return Some(format!("it holds the mark {SECTION_MARK:?}"));
    }
    let length = text.chars().count();
    (length > most).then(|| format!("it has {length} characters, at most {most} are allowed"))
}

impl Inner {
    async fn check(self: &Arc<Self>, entry: &Entry) -> bool {
        if !entry.calls.contains_key("check") {
            return true;
        }
        let known = locked(&self.checks).get(&entry.id).copied();
        if let Some((at, answer)) = known
            && at.elapsed() < CHECK_AGE
        {
            return answer;
        }
        let call = CallContext::default();
        let mut invocation = Invocation::new("check", &call);
        invocation.callable = "check";
        invocation.limit = Some(CHECK_LIMIT);
        let answer = match self.invoke(entry, invocation).await {
            Ok(value) => truthy(&value),
            Err(error) => {
                tracing::debug!(tool = %entry.key, %error, "a tool's check failed");
                false
            }
        };
        locked(&self.checks).insert(entry.id, (Instant::now(), answer));
        answer
    }

    /// Asks a process by a method of its own.
    pub(crate) async fn ask_host(
        self: &Arc<Self>,
        number: usize,
        method: &str,
        params: &Value,
        limit: Option<Duration>,
    ) -> Result<Value, CallError> {
        let host = self.host(number).ok_or_else(|| CallError::Gone("no process".to_owned()))?;
        let link = host.link(&self.watch(number), false).await.map_err(CallError::Gone)?;
        let raw = link.call(method, &params.to_string(), limit).await?;
        serde_json::from_str(raw.get()).map_err(|error| CallError::Odd(error.to_string()))
    }
}

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        // A check may answer (whether, why).
        Value::Array(items) => items.first().is_some_and(truthy),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The program's tools and those of plugins as one registry. The definitions are those at the time
/// they are asked for, which is a session's start.
pub struct WithPlugins {
    builtin: Arc<dyn ToolRegistry>,
    plugins: Plugins,
    call: CallContext,
    offered: Vec<PluginTool>,
}

impl WithPlugins {
    /// Joins them; asks the checks of plugins' tools once.
    pub async fn new(builtin: Arc<dyn ToolRegistry>, plugins: Plugins, call: CallContext) -> Self {
        plugins.ready().await;
        let offered = plugins.available_tools().await;
        Self { builtin, plugins, call, offered }
    }
}

impl ToolRegistry for WithPlugins {
    fn definitions(&self) -> Vec<ToolDef> {
        let replaced =
            |name: &str| self.offered.iter().any(|tool| tool.overrides && *tool.def.name == *name);
        let mut out: Vec<ToolDef> = self.builtin.definitions();
        out.retain(|def| !replaced(&def.name));
        let taken: Vec<Arc<str>> = out.iter().map(|def| Arc::clone(&def.name)).collect();
        out.extend(
            self.offered
                .iter()
                .filter(|tool| !taken.contains(&tool.def.name))
                .map(|tool| tool.def.clone()),
        );
        out
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        sink: &'a dyn ToolSink,
    ) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let theirs = self.offered.iter().any(|tool| tool.def.name == call.name)
                && (self.offered.iter().any(|t| t.overrides && t.def.name == call.name)
                    || !self.builtin.definitions().iter().any(|def| def.name == call.name));
            if !theirs {
                return self.builtin.call(call, sink).await;
            }
            match self.plugins.call_tool(&call.name, &call.arguments, &self.call).await {
                Some(Ok(text)) => {
                    let failed = serde_json::from_str::<Value>(&text).is_ok_and(|value| {
                        value.get("error").is_some_and(|error| !error.is_null())
                    });
                    let status = if failed { RowStatus::Failed } else { RowStatus::Complete };
                    ToolOutcome { status, ..ToolOutcome::ok(text) }
                }
                Some(Err(fault)) => ToolOutcome::failed(fault.to_string()),
                None => {
                    ToolOutcome::failed(format!("the tool {} is not loaded any more", call.name))
                }
            }
        })
    }
}
