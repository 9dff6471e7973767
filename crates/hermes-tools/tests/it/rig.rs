//! A home, a working directory and the tools in them.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use hermes_core::{
    RowStatus, ScriptedEnv, Timestamp, ToolCall, ToolOutcome, ToolRegistry as _, ToolSink,
};
use hermes_home::{Config, Home, ProcessVars};
use hermes_tools::{ApprovalRequest, Approver, BuiltinTools, Decision, DenyAll, ToolContext};
use serde_json::{Value, json};

/// Collects what a tool prints while it runs.
#[derive(Default)]
pub struct Heard(Mutex<String>);

impl Heard {
    pub fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl ToolSink for Heard {
    fn output(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

pub struct Rig {
    pub tools: BuiltinTools,
    pub context: ToolContext,
    pub heard: Heard,
    root: PathBuf,
    folder: Option<tempfile::TempDir>,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Tools under other settings; nobody answers questions about commands.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mut rig = Self::at(&root, change);
        rig.folder = Some(folder);
        rig
    }

    /// Tools in a folder that is there already.
    pub fn at(root: &Path, change: impl FnOnce(&mut Config)) -> Self {
        for name in ["home/memories", "user", "work"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let mut config = Config::default();
        change(&mut config);
        let vars: ProcessVars = [
            ("HOME", root.join("user").display().to_string()),
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            ("PLAIN", "seen".to_owned()),
            ("ACME_API_KEY", "sk-test-not-a-key".to_owned()),
            ("FROM_DOTENV", "not-a-secret".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        let context = ToolContext {
            home: Home::at(root.join("home")),
            config: Arc::new(config),
            cwd: root.join("work"),
            session: None,
            platform: "cli".to_owned(),
            sources: hermes_tools::TurnSources::default(),
            approver: Arc::new(DenyAll),
            env: Arc::new(ScriptedEnv::new(Timestamp(1_796_032_560_000_000), 1, 7)),
            vars: Arc::new(vars),
        };
        Self {
            tools: BuiltinTools::new(context.clone()),
            context,
            heard: Heard::default(),
            root: root.to_owned(),
            folder: None,
        }
    }

    /// With a person who says yes to every question.
    pub fn approving(mut self) -> Self {
        self.context.approver = Arc::new(Yes);
        self.tools = BuiltinTools::new(self.context.clone());
        self
    }

    /// Allows these exact commands.
    pub fn allowing(commands: &[&str]) -> Self {
        Self::with(|config| {
            config.approvals.allow = commands.iter().map(|text| (*text).to_owned()).collect();
        })
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    pub fn put(&self, inside: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(inside);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn text(&self, inside: &str) -> String {
        String::from_utf8(std::fs::read(self.path(inside)).unwrap()).unwrap()
    }

    pub fn raw(&self, tool: &str, arguments: &str) -> ToolOutcome {
        block_on(self.start(tool, arguments))
    }

    pub async fn start(&self, tool: &str, arguments: &str) -> ToolOutcome {
        let call = ToolCall { id: "call_1".into(), name: tool.into(), arguments: arguments.into() };
        self.tools.call(&call, &self.heard).await
    }

    pub fn call(&self, tool: &str, arguments: Value) -> ToolOutcome {
        self.raw(tool, &arguments.to_string())
    }

    /// The text of a call that must succeed.
    pub fn ok(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.call(tool, arguments);
        assert_eq!(outcome.status, RowStatus::Complete, "{}", outcome.text);
        outcome.text
    }

    /// The text of a call that must fail, and name this.
    pub fn fails(&self, tool: &str, arguments: Value, with: &str) -> String {
        let outcome = self.call(tool, arguments);
        assert_eq!(outcome.status, RowStatus::Failed, "{}", outcome.text);
        assert!(outcome.text.contains(with), "wanted {with:?} in {:?}", outcome.text);
        outcome.text
    }

    pub fn read(&self, path: &str) -> String {
        self.ok("read_file", json!({ "path": path }))
    }
}

struct Yes;

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        Box::pin(std::future::ready(Decision::Once))
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub fn case(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(path)
}
