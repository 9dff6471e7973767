//! A home with plugins in it, and services that run with them.

use std::future::Future;
use std::sync::Arc;

use hermes_agent::inspect::{Inspector, Verdict};
use hermes_agent::{Conversation, PluginSurface, Services, StartOptions, TurnReport, UserInput};
use hermes_context::Workspace;
use hermes_core::{NullSink, SessionId};
use hermes_home::Vars;
use hermes_store::RequestFilter;
use hermes_tools::{Approver, DenyAll};
use serde_json::{Value, json};

use crate::bench::{Bench, say_to};

/// What every plugin of these tests begins with: `note` writes a line of JSON into the home.
const COMMON: &str = r#"
import json, os
HOME = os.environ["HERMES_HOME"]
def note(*what):
    with open(os.path.join(HOME, "heard"), "a") as out:
        out.write(json.dumps(what) + "\n")
"#;

pub struct Rig {
    pub bench: Bench,
    settings: String,
    limit: f64,
    enabled: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Rig {
    /// `script` holds what the model answers, one message of the chat completions API an item.
    pub fn new(script: &[Value]) -> Self {
        let entries: Vec<Value> = script.iter().map(entry).collect();
        let script = (!entries.is_empty()).then(|| Value::Array(entries).to_string());
        let bench = Bench::new(script.as_deref());
        Self {
            bench,
            settings: String::new(),
            limit: 30.0,
            enabled: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Enables a plugin in Python with this code.
    pub fn plugin(mut self, name: &str, code: &str) -> Self {
        let folder = self.bench.folder.path().join("plugins").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let manifest = format!("name: {name}\nversion: '1.0'\n");
        std::fs::write(folder.join("plugin.yaml"), manifest).unwrap();
        std::fs::write(folder.join("__init__.py"), format!("{COMMON}{code}")).unwrap();
        self.enabled.push(name.to_owned());
        self
    }

    /// Further settings, as they stand in `config.yaml`.
    pub fn settings(mut self, text: &str) -> Self {
        self.settings.push_str(text);
        self
    }

    /// A variable of the process.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How long a callback may take, in seconds.
    pub fn limit(mut self, seconds: f64) -> Self {
        self.limit = seconds;
        self
    }

    /// Gives the model a window of so many tokens.
    pub fn window(self, tokens: u64) -> Self {
        let path = self.path("config.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        let with = format!("model:\n  context_length: {tokens}\n");
        std::fs::write(path, text.replacen("model:\n", &with, 1)).unwrap();
        self
    }

    /// Enables a plugin as it stands in the conformance suite.
    pub fn conformance(mut self, name: &str) -> Self {
        let suite = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/conformance");
        let from = std::path::Path::new(suite).join(name);
        let to = self.path("plugins").join(name);
        std::fs::create_dir_all(&to).unwrap();
        for file in ["plugin.yaml", "__init__.py"] {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        self.enabled.push(name.to_owned());
        self
    }

    /// Replaces the code of a plugin.
    pub fn rewrite(&self, name: &str, code: &str) {
        let file = self.bench.folder.path().join("plugins").join(name).join("__init__.py");
        std::fs::write(file, format!("{COMMON}{code}")).unwrap();
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.bench.folder.path().join(name)
    }

    /// Services that run with the plugins.
    pub fn services(&self) -> Services {
        self.services_on(&PluginSurface { takes_messages: true, ..PluginSurface::default() })
    }

    pub fn services_on(&self, surface: &PluginSurface) -> Services {
        let path = self.bench.folder.path().join("config.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("\nplugins:") {
            let enabled = self.enabled.join(", ");
            let more = format!(
                "plugins:\n  enabled: [{enabled}]\n  hook_callback_timeout: {}\n{}",
                self.limit, self.settings
            );
            std::fs::write(&path, text + &more).unwrap();
        }
        let mut services = self.bench.services();
        let vars = std::env::vars()
            .filter(|(name, _)| ["PATH", "HOME", "LANG", "HERMES_PYTHON"].contains(&name.as_str()))
            .chain([("HERMES_ACCEPT_HOOKS".to_owned(), "1".to_owned())])
            .chain(self.variables.iter().cloned())
            .collect();
        services.variables = Vars::of_process(&vars);
        services.plug_in(&PluginSurface {
            platform: "cli".to_owned(),
            cwd: self.bench.folder.path().to_owned(),
            accept_hooks: true,
            ..surface.clone()
        });
        services
    }

    pub fn options(&self) -> StartOptions {
        self.options_asking(Arc::new(DenyAll))
    }

    pub fn options_asking(&self, approver: Arc<dyn Approver>) -> StartOptions {
        let workspace = Workspace::discover(self.bench.folder.path());
        StartOptions::new(workspace, "cli".to_owned(), approver)
    }

    pub fn start(&self, services: &Services) -> Conversation {
        Conversation::start(services, self.options()).unwrap()
    }

    pub fn resume(&self, services: &Services, id: &SessionId) -> Conversation {
        let info = services.store.session(id).unwrap().unwrap();
        Conversation::resume(services, &info, self.options()).unwrap()
    }

    /// What plugins wrote down, a list a line.
    pub fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.bench.folder.path().join("heard"));
        let text = text.unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The first word of each line that plugins wrote down.
    pub fn names(&self) -> Vec<String> {
        self.heard().iter().map(|line| line[0].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The bodies that the model received, as JSON.
    pub fn bodies(&self) -> Vec<Value> {
        let received = self.bench.server.received();
        received.iter().map(|body| serde_json::from_slice(body).unwrap()).collect()
    }
}

/// One turn.
pub fn say(services: &Services, conversation: &mut Conversation, text: &str) -> TurnReport {
    say_to(services, conversation, UserInput::text(text), &NullSink)
}

/// Every request of the store can be rebuilt from rows.
pub fn all_verify(services: &Services) {
    let mut inspector = Inspector::new(&services.store);
    let requests = services.store.requests(&RequestFilter::default()).unwrap();
    assert!(!requests.is_empty());
    for request in &requests {
        assert_eq!(inspector.verify(request), Verdict::Verified, "{}", request.attempt.id);
    }
}

/// Runs something that waits.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// An answer.
pub fn answer(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// A call of a tool.
pub fn calls(name: &str, arguments: &Value) -> Value {
    json!({"role": "assistant", "content": "", "tool_calls": [{
        "id": format!("call-{name}"), "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()},
    }]})
}

/// A refusal.
pub fn refuses(status: u16, message: &str) -> Value {
    json!({"status": status, "body": {"error": {"message": message}}})
}

fn entry(message: &Value) -> Value {
    if message.get("role").is_none() {
        return message.clone();
    }
    let finish = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    json!({"kind": "main", "body": {
        "id": "r", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    }})
}
