//! The registry that the agent sees.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use hermes_core::{Env, SessionId, ToolCall, ToolDef, ToolOutcome, ToolRegistry, ToolSink};
use hermes_home::{Config, Home, ProcessVars};

use crate::args::Args;
use crate::bench::Workbench;
use crate::guard::{Approver, SessionApproval};
use crate::provenance::TurnSources;
use crate::tools::{TOOLS, Tool};

/// What the tools of one session need.
#[derive(Clone)]
pub struct ToolContext {
    /// The home: memory, limits on paths, whole outputs.
    pub home: Home,
    /// The settings.
    pub config: Arc<Config>,
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The session, if it has an id yet; noted with what it writes to memory.
    pub session: Option<SessionId>,
    /// The surface, such as `cli`; some skills are for some surfaces only.
    pub platform: String,
    /// What was said and read in the present turn; noted with what is written to memory.
    pub sources: TurnSources,
    /// Asks the person about commands.
    pub approver: Arc<dyn Approver>,
    /// Time and chance.
    pub env: Arc<dyn Env>,
    /// The process's environment; commands get it without secrets.
    pub vars: Arc<ProcessVars>,
}

/// The built-in tools of one session. What it has read and what was allowed lasts as long as this
/// value. Calls need a tokio runtime with time and IO enabled, of either flavour.
pub struct BuiltinTools {
    bench: Arc<Workbench>,
}

impl BuiltinTools {
    /// The tools for one session.
    pub fn new(context: ToolContext) -> Self {
        Self { bench: Arc::new(Workbench::new(context)) }
    }

    /// The names of all built-in tools, offered or not.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TOOLS.iter().map(|tool| tool.name)
    }

    /// The definition of a built-in tool, offered or not.
    pub fn definition(name: &str) -> Option<ToolDef> {
        let tool = TOOLS.iter().find(|tool| tool.name == name)?;
        Some(ToolDef { name: tool.name.into(), json: tool.json.into() })
    }

    /// Commands that the person allowed until the session ends.
    pub fn session_approvals(&self) -> Vec<SessionApproval> {
        self.bench.guard.session_approvals()
    }

    /// Takes such a word back; false if it was not given.
    pub fn revoke(&self, approval: &SessionApproval) -> bool {
        self.bench.guard.revoke(approval)
    }

    fn offered(&self) -> impl Iterator<Item = &'static Tool> {
        TOOLS.iter().filter(|tool| (tool.offered)(&self.bench))
    }
}

impl ToolRegistry for BuiltinTools {
    fn definitions(&self) -> Vec<ToolDef> {
        self.offered()
            .map(|tool| ToolDef { name: tool.name.into(), json: tool.json.into() })
            .collect()
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        sink: &'a dyn ToolSink,
    ) -> Pin<Box<dyn Future<Output = ToolOutcome> + Send + 'a>> {
        Box::pin(async move {
            let Some(tool) = self.offered().find(|tool| *tool.name == *call.name) else {
                let known: Vec<&str> = self.offered().map(|tool| tool.name).collect();
                return ToolOutcome::failed(format!(
                    "there is no tool \"{}\"; known: {}",
                    call.name.chars().take(60).collect::<String>(),
                    known.join(", ")
                ));
            };
            match Args::parse(tool.name, tool.params, &call.arguments) {
                Ok(args) => (tool.run)(&self.bench, args, sink).await,
                Err(message) => ToolOutcome::failed(message),
            }
        })
    }
}
