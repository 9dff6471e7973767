//! The isolated profile and repository of an experiment, with a marker word in every source.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hermes_agent::{Conversation, Services, StartOptions};
use hermes_context::Workspace;
use hermes_core::{Env, ScriptedEnv, Timestamp};
use hermes_home::{Home, Overrides, ProcessVars, SystemEnv, load, routes};
use hermes_store::{OpenMode, Store, StorePaths};
use hermes_tools::{BuiltinTools, DenyAll, ToolContext, TurnSources};
use tempfile::TempDir;

use crate::guard::Guarded;
use crate::{LabError, Target};

/// The old profile.
pub(crate) const AMBER: &str = "AMBER";
/// The new profile.
pub(crate) const COBALT: &str = "COBALT";
/// The rule in the root project file.
pub(crate) const GRANITE: &str = "GRANITE";
/// The rule in the nested project file.
pub(crate) const BASALT: &str = "BASALT";
/// The skill's description.
pub(crate) const WILLOW: &str = "WILLOW";
/// The skill's body.
pub(crate) const CEDAR: &str = "CEDAR";
/// The context of the delegated task.
pub(crate) const HERON: &str = "HERON";
/// Every marker.
pub(crate) const MARKERS: [&str; 7] = [AMBER, COBALT, GRANITE, BASALT, WILLOW, CEDAR, HERON];

/// A fixed point in time, so that ids and dates are the same in every rehearsed run.
const REHEARSED_NOW: Timestamp = Timestamp::from_seconds(1_796_032_560);

/// A profile and a repository of their own, gone when dropped.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) services: Services,
    guard: Arc<Guarded>,
}

impl World {
    pub(crate) fn new(target: &Target) -> Result<Self, LabError> {
        let folder = tempfile::Builder::new()
            .prefix("hermes-lab-")
            .tempdir()
            .map_err(|source| LabError::Io { path: std::env::temp_dir(), source })?;
        let root = folder.path();
        let config = match target {
            Target::Rehearsal => "model:\n  provider: rehearsal\n".to_owned(),
            Target::Endpoint { base_url, model, key_env } => format!(
                "model:\n  provider: custom\n  default: {}\n  base_url: {}\n{}",
                quoted(model),
                quoted(base_url),
                key_env
                    .as_ref()
                    .map_or_else(String::new, |name| { format!("  key_env: {}\n", quoted(name)) })
            ),
        };
        put(root, "home/config.yaml", &config)?;
        put(root, "home/memories/USER.md", &profile(AMBER))?;
        put(
            root,
            "home/skills/lab-skill/SKILL.md",
            &format!(
                "---\nname: lab-skill\ndescription: Says what the {WILLOW} is for.\n---\nThe word \
                 of this skill is {CEDAR}.\n"
            ),
        )?;
        put(root, "repo/.git/HEAD", "ref: refs/heads/main\n")?;
        put(root, "repo/AGENTS.md", &format!("The rule of this project is {GRANITE}.\n"))?;
        put(root, "repo/backend/AGENTS.md", &format!("The rule of the backend is {BASALT}.\n"))?;
        put(root, "repo/backend/probe.txt", "probe\n")?;

        let home = Home::at(root.join("home"));
        home.ensure()?;
        let vars = variables(target);
        let loaded = load(&home, &vars, &Overrides::default())?;
        let chain = routes(&loaded.config, &loaded.vars)?;
        let env: Arc<dyn Env> = match target {
            Target::Rehearsal => Arc::new(ScriptedEnv::new(REHEARSED_NOW, 1000, 7)),
            Target::Endpoint { .. } => Arc::new(SystemEnv::new("")),
        };
        let paths = StorePaths {
            db: home.store_path(),
            spool_dir: home.spool_dir(),
            drafts_dir: home.drafts_dir(),
        };
        let store = Store::open(paths, env.clone(), OpenMode::ReadWrite)?;
        let (config, vars) = (Arc::new(loaded.config), Arc::new(vars));
        let tools = BuiltinTools::new(ToolContext {
            home: home.clone(),
            config: config.clone(),
            cwd: root.join("repo"),
            session: None,
            platform: "cli".to_owned(),
            sources: TurnSources::default(),
            approver: Arc::new(DenyAll),
            env: env.clone(),
            vars: vars.clone(),
        });
        let services = Services::new(home, config, store, env, vars, &chain)?;
        let guard = Arc::new(Guarded { tools, refused: AtomicU32::new(0) });
        Ok(Self { folder, services, guard })
    }

    pub(crate) fn start(&self) -> Result<Conversation, LabError> {
        let workspace = Workspace::discover(&self.folder.path().join("repo"));
        let options = StartOptions {
            tools: Some(self.guard.clone()),
            delegates: true,
            ..StartOptions::new(workspace, "cli".to_owned(), Arc::new(DenyAll))
        };
        Ok(Conversation::start(&self.services, options)?)
    }

    /// Edits the profile as a person with an editor would.
    pub(crate) fn edit_profile(&self, word: &str) -> Result<(), LabError> {
        put(self.folder.path(), "home/memories/USER.md", &profile(word))
    }

    /// The folder, for taking it out of what is digested.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How often the model was kept from the profile.
    pub(crate) fn refused(&self) -> u32 {
        self.guard.refused.load(Ordering::Relaxed)
    }
}

fn profile(word: &str) -> String {
    format!("The person's favourite colour is {word}.\n")
}

/// Only the variable that holds the key is passed on.
fn variables(target: &Target) -> ProcessVars {
    let Target::Endpoint { key_env: Some(name), .. } = target else { return ProcessVars::new() };
    std::env::var(name).map(|value| (name.clone(), value)).into_iter().collect()
}

/// A YAML text in double quotes.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

fn put(root: &Path, path: &str, text: &str) -> Result<(), LabError> {
    let path: PathBuf = root.join(path);
    let io = |source| LabError::Io { path: path.clone(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    fs::write(&path, text).map_err(io)
}
