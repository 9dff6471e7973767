//! How the plugins of a home come to a surface: one function that every surface calls.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_home::redact::Redactor;
use hermes_home::yaml::Datum;
use hermes_home::{AuxiliaryConfig, Config, Home, ProcessVars, Secrets, Vars};
use hermes_plugins::{PluginOptions, Plugins};

use super::api::Listener;
use super::serve::Served;
use crate::Services;

/// The built-in context engine, which is no plugin.
const BUILT_IN_ENGINE: &str = "compressor";

/// What plugins are told of the surface that they run on.
#[derive(Clone, Debug, Default)]
pub struct PluginSurface {
    /// `cli`, a chat platform, ...
    pub platform: String,
    /// The folder of the conversation.
    pub cwd: PathBuf,
    /// This program, for plugins that call it.
    pub cli: Option<PathBuf>,
    /// Slash commands of the surface: name to why it is taken.
    pub commands: BTreeMap<String, String>,
    /// Whether shell hooks run without having been consented to one by one.
    pub accept_hooks: bool,
    /// Whether this is a gateway.
    pub gateway: bool,
    /// Whether messages that a plugin puts into the conversation are taken up: somebody calls
    /// [`Plugged::take_message`].
    pub takes_messages: bool,
}

/// The plugins that a process runs with.
#[derive(Clone)]
pub struct Plugged {
    pub(crate) plugins: Plugins,
    pub(crate) served: Arc<Served>,
    pub(super) surface: PluginSurface,
}

impl std::fmt::Debug for Plugged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Plugged").field(&self.plugins).finish()
    }
}

/// The plugins that settings enable; None, at no cost, if there is no plugin, no shell hook and no
/// webhook.
pub fn plugins_of(
    home: &Home,
    config: &Config,
    vars: &Vars,
    redactor: &Redactor,
    surface: &PluginSurface,
) -> Option<Plugins> {
    let engine = Some(&config.context.engine).filter(|name| *name != BUILT_IN_ENGINE);
    let wanted = !config.plugins.enabled.is_empty()
        || !config.memory.provider.is_empty()
        || engine.is_some_and(|name| !name.is_empty())
        || matches!(&config.hooks, Datum::Map(fields) if !fields.is_empty())
        || surface.gateway;
    if !wanted {
        return None;
    }
    let process: ProcessVars =
        vars.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let plugins = Plugins::new(PluginOptions {
        hooks: config.hooks.clone(),
        memory_provider: config.memory.provider.clone(),
        context_engine: engine.cloned().unwrap_or_default(),
        cli: surface.cli.clone(),
        platform: surface.platform.clone(),
        commands: surface.commands.clone(),
        tools: built_in_tools(),
        tasks: AuxiliaryConfig::TASKS.iter().map(|task| (*task).to_owned()).collect(),
        accept_hooks: surface.accept_hooks || config.hooks_auto_accept,
        gateway: surface.gateway,
        redactor: Some(redactor.clone()),
        secrets: Some(Arc::new(Secrets::of(home, config, &process))),
        env_passthrough: config.terminal.env_passthrough.clone(),
        ..PluginOptions::new(
            home.clone(),
            config.plugins.clone(),
            vars.clone(),
            surface.cwd.clone(),
        )
    });
    plugins.any().then_some(plugins)
}

/// Names of tools that a plugin's tool may not take unasked.
fn built_in_tools() -> Vec<String> {
    let own = [crate::compact::RECALL, crate::delegate::NAME];
    hermes_tools::BuiltinTools::names().chain(own).map(str::to_owned).collect()
}

impl Services {
    /// Runs conversations with the plugins that the settings enable. To be called once, when
    /// everything else of the services is set.
    pub fn plug_in(&mut self, surface: &PluginSurface) {
        let Some(plugins) =
            plugins_of(&self.home, &self.config, &self.variables, &self.redactor, surface)
        else {
            return;
        };
        let served = Arc::new(Served::new(self, &plugins, surface));
        plugins.bind(served.clone());
        let listener = Listener::new(self, &plugins, &surface.platform, 0);
        self.client.attend(Arc::new(listener));
        self.plugged = Some(Plugged { plugins, served, surface: surface.clone() });
    }

    /// Takes over the running plugins of services whose place these take (another model, another
    /// session): their processes go on.
    pub fn keep_plugins(&mut self, before: &Self) {
        let Some(old) = before.plugged() else { return };
        let served = Arc::new(Served::taking_over(self, old));
        old.plugins.bind(served.clone());
        let listener = Listener::new(self, &old.plugins, &old.surface.platform, 0);
        self.client.attend(Arc::new(listener));
        self.plugged = Some(Plugged { served, ..old.clone() });
    }

    /// The plugins that conversations run with.
    pub fn plugins(&self) -> Option<&Plugins> {
        self.plugged.as_ref().map(|plugged| &plugged.plugins)
    }

    /// Ends what plugins run in, each process with a grace. To be called before a process ends.
    pub async fn close_plugins(&self) {
        if let Some(plugged) = self.plugged() {
            plugged.plugins.close().await;
            plugged.served.release().await;
        }
    }

    /// The same with what they ask of conversations.
    pub const fn plugged(&self) -> Option<&Plugged> {
        self.plugged.as_ref()
    }
}
