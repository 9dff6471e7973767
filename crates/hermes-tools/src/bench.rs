//! What every tool works with: settings taken out of the configuration once, and the session's
//! memory of files and approvals.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hermes_context::{Workspace, WriteReceipt, source_of_path};
use hermes_core::{Digest, Env, RowStatus, SessionId, Source, ToolOutcome};
use hermes_home::fsio::Privacy;
use hermes_home::{Config, FileLock, Home, ProcessVars, Secrets, fsio};
use hermes_store::Store;

use crate::capture::Limits;
use crate::guard::{Guard, Places};
use crate::outputs::OutputFolder;
use crate::paths::{Located, Paths};
use crate::provenance::TurnSources;
use crate::reads::{PathLocks, Reads};
use crate::registry::ToolContext;

/// How long another process may keep a file that is to be written.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Shared by all tools of a session.
pub(crate) struct Workbench {
    pub home: Home,
    pub config: Arc<Config>,
    pub env: Arc<dyn Env>,
    pub session: Option<SessionId>,
    pub platform: String,
    pub sources: TurnSources,
    pub paths: Paths,
    pub guard: Guard,
    pub reads: Reads,
    pub locks: PathLocks,
    /// Digests of the edits that were made, to recognise a repeat.
    pub edits: Mutex<HashSet<Digest>>,
    pub outputs: OutputFolder,
    vars: Arc<ProcessVars>,
    secrets: OnceLock<Secrets>,
    child_env: OnceLock<Vec<(String, String)>>,
    workspace: OnceLock<Workspace>,
    /// Past conversations, opened when they are first asked for.
    pub past: OnceLock<Store>,
}

impl Workbench {
    pub(crate) fn new(context: ToolContext) -> Self {
        let ToolContext { home, config, cwd, session, platform, sources, approver, env, vars } =
            context;
        let user_home = vars.get("HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
        let paths = Paths::new(&cwd, user_home.as_deref(), home.root());
        let guard = Guard::new(
            &config.approvals.allow,
            &config.approvals.deny,
            Places { user_home, hermes_home: home.root().to_owned() },
            approver,
            Duration::from_secs(config.approvals.timeout),
        );
        Self {
            outputs: OutputFolder::new(home.outputs_dir(), Arc::clone(&env)),
            home,
            config,
            env,
            session,
            platform,
            sources,
            paths,
            guard,
            reads: Reads::default(),
            locks: PathLocks::default(),
            edits: Mutex::default(),
            vars,
            secrets: OnceLock::new(),
            child_env: OnceLock::new(),
            workspace: OnceLock::new(),
            past: OnceLock::new(),
        }
    }

    /// Limits of a command's output.
    pub(crate) fn limits(&self) -> Limits {
        let limits = &self.config.tool_output;
        Limits {
            bytes: limits.max_bytes.max(1000),
            lines: limits.max_lines.max(10),
            line_length: limits.max_line_length.max(80),
        }
    }

    /// The secrets of the home and the process.
    pub(crate) fn secrets(&self) -> &Secrets {
        self.secrets.get_or_init(|| Secrets::of(&self.home, &self.config, &self.vars))
    }

    /// The environment of commands: this process's, without what may be a secret, unless
    /// `terminal.env_passthrough` has it.
    pub(crate) fn child_env(&self) -> &[(String, String)] {
        self.child_env.get_or_init(|| {
            let passed = &self.config.terminal.env_passthrough;
            let keep = |name: &str, value: &str| {
                passed.iter().any(|known| known == name) || !self.secrets().withholds(name, value)
            };
            let vars = self.vars.iter().filter(|(name, value)| keep(name, value));
            vars.map(|(name, value)| (name.clone(), value.clone())).collect()
        })
    }

    /// Takes the turn of writing this file: from other calls in this process, and from other
    /// processes of this home.
    ///
    /// # Errors
    /// If another process keeps it for too long.
    pub(crate) fn other_writers(&self, path: &Path) -> Result<Option<FileLock>, String> {
        // 256 locks for all paths: two paths of one lock merely wait for each other.
        let name: String =
            Digest::of(path.as_os_str().as_encoded_bytes()).short().chars().take(2).collect();
        let folder = self.home.root().join("locks");
        if fsio::create_private_dir(&folder).is_err() {
            // A home that cannot be written to must not stop work elsewhere.
            return Ok(None);
        }
        FileLock::acquire(&folder.join(format!("write-{name}.lock")), LOCK_WAIT)
            .map(Some)
            .map_err(|e| format!("another process is writing this file: {e}; hint: try again"))
    }

    /// Why this file is not to be written now: a memory file, in a turn in which the model has read
    /// what the person did not say. The `memory` tool keeps the source with the entry.
    pub(crate) fn memory_refusal(&self, at: &Located, text: &str) -> Option<String> {
        let is = |path: PathBuf| at.written == path || at.real == path;
        let source = self.sources.of(text)?;
        (is(self.home.memory_path()) || is(self.home.user_path())).then(|| {
            format!(
                "{} is not written as a file in a turn that read other texts ({source}); hint: use \
                 the memory tool, which keeps the source with the entry",
                at.shown
            )
        })
    }

    /// Asks the person before the identity (`SOUL.md`) is written: every later session obeys it,
    /// and a text that the model has read could have asked for the change.
    pub(crate) async fn may_write(&self, at: &Located) -> Result<(), String> {
        let soul = self.home.soul_path();
        let real = std::fs::canonicalize(&soul).ok();
        if at.written != soul && at.real != soul && real.as_ref() != Some(&at.real) {
            return Ok(());
        }
        let asked = format!("write {}", soul.display());
        let reason = "it says who the model is, in every later session";
        self.guard.ask(asked, self.paths.cwd(), reason).await.map_err(|why| {
            format!("{} was not written: {why}; hint: a person can edit the file", at.shown)
        })
    }

    /// Who may read a file that a tool writes: the person's own texts, directly in the home or in
    /// its memories, the person alone.
    pub(crate) fn privacy(&self, at: &Located) -> Privacy {
        let real = |folder: PathBuf| std::fs::canonicalize(&folder).unwrap_or(folder);
        let own = [self.home.root().to_owned(), self.home.memories_dir()].map(real);
        let folder = at.real.parent();
        if own.iter().any(|own| folder == Some(own)) { Privacy::Private } else { Privacy::Public }
    }

    /// The receipt of a write, if the file is a source of context.
    pub(crate) fn receipt(&self, at: &Located, before: Digest, after: Digest) -> Option<String> {
        let workspace = self.workspace();
        let kind = source_of_path(&self.home, workspace, &at.written)
            .or_else(|| source_of_path(&self.home, workspace, &at.real))?;
        let source = Source::File { path: at.written.display().to_string() };
        Some(WriteReceipt::new(kind, source, before, after).to_string())
    }

    /// Where the session works.
    pub(crate) fn workspace(&self) -> &Workspace {
        self.workspace.get_or_init(|| Workspace::discover(self.paths.cwd()))
    }

    /// Edits made so far.
    pub(crate) fn edits(&self) -> MutexGuard<'_, HashSet<Digest>> {
        self.edits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the paths that a call touched.
pub(crate) fn touching(mut outcome: ToolOutcome, path: &Path) -> ToolOutcome {
    outcome.touched.push(path.display().to_string());
    outcome
}

/// A result, or an error for the model.
pub(crate) fn outcome(result: Result<String, String>) -> ToolOutcome {
    match result {
        Ok(text) => ToolOutcome { status: RowStatus::Complete, ..ToolOutcome::ok(text) },
        Err(text) => ToolOutcome::failed(text),
    }
}
