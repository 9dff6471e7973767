//! A home folder with plugins in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hermes_home::{Home, PluginsConfig, Vars};
use hermes_plugins::{CallContext, Payload, PluginOptions, Plugins};

pub struct Rig {
    pub folder: tempfile::TempDir,
    pub config: PluginsConfig,
    pub vars: BTreeMap<String, String>,
}

impl Rig {
    pub fn new() -> Self {
        let vars = std::env::vars()
            .filter(|(name, _)| ["PATH", "HOME", "LANG", "HERMES_PYTHON"].contains(&name.as_str()))
            .collect();
        Self { folder: tempfile::tempdir().unwrap(), config: PluginsConfig::default(), vars }
    }

    pub fn home(&self) -> &Path {
        self.folder.path()
    }

    /// A plugin in Python, enabled.
    pub fn plugin(mut self, name: &str, code: &str) -> Self {
        self.add(name, &format!("name: {name}\nversion: '1.0'\n"), code);
        self
    }

    pub fn add(&mut self, name: &str, manifest: &str, code: &str) {
        let folder = self.home().join("plugins").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("plugin.yaml"), manifest).unwrap();
        fs::write(folder.join("__init__.py"), code).unwrap();
        self.config.enabled.push(name.to_owned());
    }

    pub fn options(&self) -> PluginOptions {
        PluginOptions::new(
            Home::at(self.home()),
            self.config.clone(),
            Vars::of_process(&self.vars),
            self.home().to_owned(),
        )
    }

    pub fn start(&self) -> Plugins {
        Plugins::new(self.options())
    }

    /// What a plugin wrote into a file of the home folder.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home().join(name)).unwrap_or_default()
    }
}

pub fn session(id: &str) -> CallContext {
    CallContext { session_id: id.to_owned(), platform: "cli".to_owned(), ..CallContext::default() }
}

pub fn payload(id: &str) -> Payload {
    Payload::new(session(id)).text("session_id", id)
}
