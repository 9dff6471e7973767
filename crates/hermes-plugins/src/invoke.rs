//! Calls of single callables: tools, commands, prompt sections, checks, subscribers, providers.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::host::{CallError, Fault, call_json};
use crate::payload::CallContext;
use crate::plugins::{Inner, locked};
use crate::registry::{Entry, Owner};
use crate::services::ModelCall;

/// A call of one callable.
pub(crate) struct Invocation<'a> {
    /// Which of an entry's callables.
    pub(crate) callable: &'a str,
    /// Positional arguments.
    pub(crate) args: Value,
    /// Arguments by name; the callable gets those it declares.
    pub(crate) kwargs: Value,
    /// How its payload's objects are made.
    pub(crate) hook: &'a str,
    /// Where it belongs.
    pub(crate) call: &'a CallContext,
    /// How long it may take.
    pub(crate) limit: Option<Duration>,
    /// The chain that `next_call` goes on with.
    pub(crate) chain: Option<u64>,
}

impl<'a> Invocation<'a> {
    pub(crate) fn new(hook: &'a str, call: &'a CallContext) -> Self {
        Self {
            callable: "call",
            args: json!([]),
            kwargs: json!({}),
            hook,
            call,
            limit: None,
            chain: None,
        }
    }
}

impl Inner {
    /// The entry of a kind under a key; of several the one registered last.
    pub(crate) fn entry_of(&self, kind: &str, key: &str) -> Option<Entry> {
        locked(&self.registry).under(kind, key).last().cloned()
    }

    /// Calls one callable of an entry and counts it.
    pub(crate) async fn invoke(
        self: &Arc<Self>,
        entry: &Entry,
        invocation: Invocation<'_>,
    ) -> Result<Value, CallError> {
        let Owner::Host(number) = entry.owner else {
            return Err(CallError::Odd("it is no plugin's".to_owned()));
        };
        let began = std::time::Instant::now();
        let result = self.invoke_in(number, entry.id, invocation).await;
        let millis = began.elapsed().as_secs_f64() * 1000.0;
        locked(&self.registry).count(entry.id, millis, result.is_err());
        result
    }

    async fn invoke_in(
        self: &Arc<Self>,
        number: usize,
        id: u64,
        invocation: Invocation<'_>,
    ) -> Result<Value, CallError> {
        let gone = |why: &str| CallError::Gone(why.to_owned());
        let host = self.host(number).ok_or_else(|| gone("no process"))?;
        let link = host
            .link(&self.watch(number), invocation.call.depth > 0)
            .await
            .map_err(CallError::Gone)?;
        let reference = locked(&self.registry)
            .get(id)
            .filter(|entry| !entry.stale)
            .and_then(|entry| entry.calls.get(invocation.callable).copied())
            .ok_or_else(|| gone("its plugin is not loaded any more"))?;
        let call = call_json(invocation.call, invocation.hook);
        let mut params = format!(
            r#"{{"ref":{reference},"hook":{},"args":{},"kwargs":{},"call":{call}"#,
            Value::from(invocation.hook),
            invocation.args,
            invocation.kwargs
        );
        if let Some(chain) = invocation.chain {
            let _ = write!(params, r#","chain":{chain}"#);
        }
        params.push('}');
        let raw = link.call("invoke", &params, invocation.limit).await?;
        let answer: Value =
            serde_json::from_str(raw.get()).map_err(|error| CallError::Odd(error.to_string()))?;
        Ok(answer.get("value").cloned().unwrap_or_default())
    }

    /// Runs a plugin's tool; None if no plugin has it.
    pub(crate) async fn call_tool(
        self: &Arc<Self>,
        name: &str,
        arguments: &Value,
        call: &CallContext,
    ) -> Option<Result<String, Fault>> {
        let entry = self.entry_of("tool", name)?;
        let mut invocation = Invocation::new("tool", call);
        invocation.args = json!([arguments]);
        invocation.kwargs = json!({
            "task_id": call.session_id,
            "session_id": call.session_id,
            "user_task": "",
        });
        Some(Ok(match self.invoke(&entry, invocation).await {
            Ok(Value::String(text)) => text,
            Ok(value) if value.get("_multimodal").and_then(Value::as_bool) == Some(true) => {
                value.to_string()
            }
            Ok(other) => failed(&format!(
                "the tool {name} of plugin {} gave {} instead of text",
                entry.plugin,
                kind_of(&other)
            )),
            Err(CallError::Raised(fault)) => {
                let text = self.redactor.redact(&fault.to_string()).into_owned();
                failed(&text.chars().take(2000).collect::<String>())
            }
            Err(error) => failed(&format!("the tool {name} of plugin {}: {error}", entry.plugin)),
        }))
    }

    /// Sends a plugin's event to those who subscribed; gives their number.
    pub(crate) fn emit(
        self: &Arc<Self>,
        event: &str,
        payload: Option<&Value>,
        call: &CallContext,
    ) -> usize {
        let entries: Vec<Entry> =
            locked(&self.registry).under("subscription", event).cloned().collect();
        let count = entries.len();
        let Some(background) = self.background().filter(|_| count > 0) else { return 0 };
        let inner = Arc::clone(self);
        let payload = payload.cloned().unwrap_or_else(|| json!({}));
        let call = call.clone();
        drop(background.spawn(async move {
            for entry in entries {
                let mut invocation = Invocation::new("subscription", &call);
                invocation.kwargs = payload.clone();
                invocation.limit = inner.timeout;
                if let Err(error) = inner.invoke(&entry, invocation).await {
                    tracing::warn!(plugin = %entry.plugin, event = %entry.key, %error, "a subscriber failed");
                }
            }
        }));
        count
    }

    /// Whether a plugin may ask a model in this way.
    pub(crate) fn trusted(&self, call: &ModelCall) -> Result<(), Fault> {
        if call.auxiliary {
            return Ok(());
        }
        let options = call.options.as_object().cloned().unwrap_or_default();
        let entry = self.entry(&call.plugin);
        let denied = |what: &str| Fault {
            kind: "PluginLlmTrustError".to_owned(),
            kinds: vec!["PluginLlmTrustError".to_owned(), "PermissionError".to_owned()],
            message: format!(
                "the plugin {0} may not choose the {what}: set plugins.entries.{0}.llm.allow_{what}_override",
                call.plugin
            ),
        };
        for what in ["provider", "model", "agent_id", "profile"] {
            let Some(wanted) = options.get(what).and_then(Value::as_str).filter(|t| !t.is_empty())
            else {
                continue;
            };
            if !self.granted(&call.plugin, &format!("llm.{what}_override")) {
                return Err(denied(what));
            }
            let list = entry.pointer(&format!("/llm/allowed_{what}s")).and_then(Value::as_array);
            let allowed = list.is_none_or(|list| {
                list.iter().filter_map(Value::as_str).any(|name| name == "*" || name == wanted)
            });
            if !allowed {
                return Err(denied(what));
            }
        }
        if let Some(task) = options.get("task").and_then(Value::as_str).filter(|t| !t.is_empty()) {
            let own = locked(&self.registry)
                .under("aux_task", task)
                .any(|entry| *entry.plugin == *call.plugin);
            if !own && !self.granted(&call.plugin, "llm.task_override") {
                return Err(denied("task"));
            }
        }
        Ok(())
    }

    /// Writes a setting for a plugin.
    pub(crate) fn set_config(&self, params: &Value) -> Result<Value, Fault> {
        let path: Vec<&str> = params
            .get("path")
            .and_then(Value::as_array)
            .map(|path| path.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let value = params.get("value").cloned().unwrap_or_default();
        let fault = |error: &dyn std::fmt::Display| Fault::new("RuntimeError", error.to_string());
        let file = self.options.home.config_path();
        let _lock = hermes_home::FileLock::acquire(
            &file.with_extension("yaml.lock"),
            Duration::from_secs(10),
        )
        .map_err(|error| fault(&error))?;
        let text = match hermes_home::fsio::read_text(&file, 4 * 1024 * 1024) {
            Ok(read) => read.text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(fault(&error)),
        };
        let path: Vec<String> = path.into_iter().map(ToOwned::to_owned).collect();
        let datum = datum(&value);
        let changed =
            hermes_home::yaml::set_value(&text, &path, &datum).map_err(|error| fault(&error))?;
        hermes_home::fsio::write_atomic(
            &file,
            changed.as_bytes(),
            hermes_home::fsio::Privacy::Private,
        )
        .map_err(|error| fault(&error))?;
        Ok(Value::Null)
    }
}

fn datum(value: &Value) -> hermes_home::yaml::Datum {
    use hermes_home::yaml::Datum;
    match value {
        Value::Null => Datum::Null,
        Value::Bool(value) => Datum::Bool(*value),
        Value::Number(number) => Datum::Number(number.to_string()),
        Value::String(text) => Datum::Text(text.clone()),
        Value::Array(items) => Datum::List(items.iter().map(datum).collect()),
        Value::Object(fields) => {
            Datum::Map(fields.iter().map(|(name, value)| (name.clone(), datum(value))).collect())
        }
    }
}

/// An error result as tools give it.
pub(crate) fn failed(text: &str) -> String {
    let mut fields = Map::new();
    fields.insert("error".to_owned(), text.into());
    Value::Object(fields).to_string()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
