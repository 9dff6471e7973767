//! The plugins of this process: what they are started with, and what is asked before they run for
//! the first time.
//!
//! Invariant: a home without an enabled plugin, shell hook or webhook gets none of this: nothing is
//! looked for and no process is started.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use hermes_agent::{AgentError, Conversation, PluginSurface, Services, deliver_events, plugins_of};
use hermes_home::{Config, Loaded};
use hermes_plugins::{PluginOptions, Plugins};
use hermes_store::Store;

use crate::app::App;
use crate::commands::plugins::consent::{self, Agreements};
use crate::commands::{chat, hooks, upkeep};
use crate::{out, repl};

/// What this surface is called.
pub const PLATFORM: &str = "cli";

/// What plugins are told of the command line.
pub fn surface(app: &App, config: &Config, folder: Option<&str>) -> PluginSurface {
    let stored = folder.map(PathBuf::from).filter(|folder| folder.is_dir());
    let cwd = stored.map_or_else(|| app.cwd(&config.terminal.cwd, None), Ok);
    let names = |command: &'static repl::commands::Command| {
        std::iter::once(command.name).chain(command.aliases.iter().copied())
    };
    PluginSurface {
        platform: PLATFORM.to_owned(),
        cwd: cwd.unwrap_or_else(|_| app.home.root().to_owned()),
        cli: std::env::current_exe().ok(),
        commands: repl::commands::TABLE
            .iter()
            .flat_map(names)
            .filter(|name| !repl::commands::is_yielded(name, config))
            .map(|name| (name.to_owned(), format!("/{name} is a command of this program")))
            .collect(),
        accept_hooks: app.talk.accept_hooks,
        gateway: false,
        takes_messages: false,
    }
}

/// Runs the conversations of these services with the plugins that the settings enable. `folder` is
/// that of a stored session; `takes_messages` says whether what a plugin puts into the conversation
/// is said there.
pub fn plug_in(app: &App, services: &mut Services, folder: Option<&str>, takes_messages: bool) {
    let surface = PluginSurface { takes_messages, ..surface(app, &services.config, folder) };
    services.plug_in(&surface);
    if let Some(plugins) = services.plugins() {
        introduce(app, plugins, &services.config);
    }
}

/// The plugins that the settings enable; None, at no cost, where there is nothing of the kind.
pub fn enabled(app: &App, loaded: &Loaded) -> Option<Plugins> {
    let surface = surface(app, &loaded.config, None);
    plugins_of(&app.home, &loaded.config, &loaded.vars, &loaded.redactor(), &surface)
}

/// The same for commands that also speak of plugins that are off.
pub fn plugins(app: &App, loaded: &Loaded) -> Plugins {
    enabled(app, loaded).unwrap_or_else(|| {
        let surface = surface(app, &loaded.config, None);
        let (home, config) = (app.home.clone(), loaded.config.plugins.clone());
        Plugins::new(PluginOptions::new(home, config, loaded.vars.clone(), surface.cwd))
    })
}

/// Tells of plugins that were switched on by hand and run for the first time: what a look at their
/// files found. Whoever used `hermes plugins enable` has seen it. At a terminal it is also asked
/// about shell hooks that nobody agreed to yet.
fn introduce(app: &App, plugins: &Plugins, config: &Config) {
    let mut agreements = Agreements::of(&app.home);
    if !config.plugins.enabled.iter().all(|id| agreements.has(id)) {
        introduce_plugins(app, plugins, &mut agreements);
    }
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        ask_about_hooks(app, plugins);
    }
}

fn introduce_plugins(app: &App, plugins: &Plugins, agreements: &mut Agreements) {
    let mut changed = false;
    for found in plugins.enabled() {
        if agreements.has(&found.key) {
            continue;
        }
        let scan = plugins.scan(&found);
        out::note(format!(
            "note: the plugin {} runs for the first time; a look at its files found: {}\nhint: \
             `hermes plugins show {}` shows what; `hermes plugins disable {}` switches it off",
            found.key,
            consent::in_short(&scan),
            found.key,
            found.key
        ));
        agreements.add(&found, &scan, "settings", &app.env.now().to_string());
        changed = true;
    }
    if changed && let Err(error) = agreements.keep() {
        tracing::warn!(%error, "what was shown of plugins cannot be kept");
    }
}

/// What plugins are told before a process ends that held a conversation: that the session is left,
/// and what must be heard and was not yet. Then their processes end.
///
/// # Errors
/// If the system gives no runtime.
pub fn farewell(
    services: &Services,
    conversation: &Conversation,
    reason: &str,
) -> anyhow::Result<()> {
    if services.plugins().is_some() {
        chat::runtime()?.block_on(leave(services, conversation, reason));
    }
    over(services)
}

/// Delivers what must be heard before a process ends; with no plugin the events are over at once.
///
/// # Errors
/// If the system gives no runtime.
pub fn over(services: &Services) -> anyhow::Result<()> {
    // The usual case costs nothing.
    if services.plugins().is_none() && services.store.pending_events().unwrap_or(1) == 0 {
        return Ok(());
    }
    chat::runtime()?.block_on(async {
        if let Err(error) = services.deliver_events(None).await {
            tell_undelivered(&error);
        }
        if let Some(plugins) = services.plugins() {
            plugins.close().await;
        }
    });
    Ok(())
}

/// The same for a command that has changed the store and holds no conversation.
///
/// # Errors
/// If the system gives no runtime.
pub fn deliver(app: &App, store: &Store) -> anyhow::Result<()> {
    // Without an event no plugin is started.
    if store.pending_events().unwrap_or(1) == 0 {
        return Ok(());
    }
    let plugins = app.config().ok().and_then(|loaded| {
        let plugins = enabled(app, &loaded)?;
        introduce(app, &plugins, &loaded.config);
        Some(plugins)
    });
    chat::runtime()?.block_on(async {
        if let Err(error) = deliver_events(store, plugins.as_ref(), None).await {
            tell_undelivered(&error);
        }
        if let Some(plugins) = &plugins {
            plugins.close().await;
        }
    });
    Ok(())
}

/// Plugins hear of it at the next start: it stays in the store.
pub fn tell_undelivered(error: &AgentError) {
    out::note(format!(
        "warning: plugins could not be told what happened: {error}\nhint: they hear of it at the \
         next start"
    ));
}

/// Asks once about each shell hook that nobody agreed to; a no leaves it out, and it is asked again
/// at the next start.
fn ask_about_hooks(app: &App, plugins: &Plugins) {
    let mut asked: Vec<String> = Vec::new();
    for hook in plugins.shell_hooks().into_iter().filter(|hook| !hook.consented) {
        if asked.contains(&hook.command) {
            continue;
        }
        let question = format!("Let the shell hook {} run for {}?", hook.command, hook.event);
        asked.push(hook.command.clone());
        let kept = match upkeep::ask(&question, "running it") {
            Ok(true) => hooks::agree(app, plugins, &hook.command).map(drop),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            out::error(&error);
        }
    }
}

/// Starts what is enabled, and tells of what could not be loaded. It never stands in the way of a
/// turn: what is not there is told, and the conversation goes on.
pub async fn start(services: &Services) {
    let Some(plugins) = services.plugins() else { return };
    plugins.ready().await;
    for (plugin, why) in plugins.not_loaded() {
        let why = why.lines().next().unwrap_or_default();
        out::note(format!(
            "warning: the plugin {plugin} is not loaded: {why}\nhint: `hermes plugins doctor \
             {plugin}` says more; `hermes plugins disable {plugin}` switches it off"
        ));
    }
    for problem in plugins.problems() {
        out::note(format!("warning: {problem}"));
    }
}

/// Tells plugins that a session is left for good, and the person what they answer.
pub async fn leave(services: &Services, conversation: &Conversation, reason: &str) {
    for (plugin, message) in conversation.finalize(services, reason).await {
        out::note(format!("{plugin}: {message}"));
    }
}
