//! Plugins on a terminal: they load while the person reads the banner, their commands run and are
//! completed like those of this program, and what they put into the conversation is said there.
//!
//! Invariants: a command of this program is never a plugin's; the two dashes are one before a
//! command is looked up; a plugin that does not load keeps nobody from typing.

use std::sync::Arc;

use hermes_agent::{Cancel, Plugged, TypedCommand, UserInput};
use hermes_core::SessionId;
use hermes_plugins::Plugins;

use super::Repl;
use super::commands::Next;
use super::complete::{Offered, Offers};
use crate::commands::{chat, hooks};
use crate::{out, plugged};

/// Messages of plugins that are said one after the other before the prompt comes back; a plugin
/// that answers each turn with a message would otherwise never let the person speak.
const AT_ONCE: usize = 8;

/// Begins to load what is enabled, on a thread of its own.
pub(super) fn load(plugins: Option<&Plugins>) {
    let Some(plugins) = plugins.cloned() else { return };
    let loading = std::thread::Builder::new().name("plugins-load".to_owned()).spawn(move || {
        match chat::runtime() {
            Ok(runtime) => runtime.block_on(plugins.ready()),
            Err(error) => tracing::warn!(%error, "plugins load with the first turn"),
        }
    });
    if let Err(error) = loading {
        tracing::warn!(%error, "plugins load with the first turn");
    }
}

/// What Tab offers of plugins; nothing as long as they are not loaded.
pub(super) fn offers(plugins: Option<&Plugins>) -> Offers {
    let Some(plugins) = plugins.cloned() else { return Arc::new(Vec::new) };
    Arc::new(move || {
        let commands = plugins.commands().into_iter();
        commands
            .map(|command| Offered {
                name: command.name,
                arguments: command.args_hint,
                help: format!("{} ({})", command.description, command.plugin),
            })
            .collect()
    })
}

impl Repl<'_> {
    /// Waits until plugins are loaded, and tells once of those that could not be.
    pub(super) fn start_plugins(&mut self) {
        if self.services.plugins().is_some() && !std::mem::replace(&mut self.plugins_told, true) {
            self.runtime.block_on(plugged::start(&self.services));
        }
    }

    /// The plugin's command that was typed, under the name it was registered with.
    pub(super) fn plugin_command(&mut self, typed: &str) -> Option<String> {
        self.services.plugins()?;
        self.start_plugins();
        self.services.plugins()?.resolve_command(typed)
    }

    /// Runs a plugin's command. Ctrl-C leaves it; it may go on in its process.
    pub(super) fn run_plugin_command(
        &mut self,
        name: &str,
        typed: &str,
        argument: &str,
    ) -> anyhow::Result<Next> {
        self.before_command(name, typed, argument);
        let cancel = Cancel::default();
        let running = self.interrupts.during(cancel.clone());
        let call = self.conversation.command_call();
        let answer = self.runtime.block_on(async {
            tokio::select! {
                answer = self.services.plugin_command(name, argument, &call, None) => Some(answer?),
                () = cancel.cancelled() => None,
            }
        });
        drop(running);
        match answer {
            Some(Ok(Some(text))) => out::line(text.trim_end())?,
            Some(Ok(None)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => out::note(format!("/{name} was left; its plugin may go on with it")),
        }
        Ok(Next::Stay)
    }

    /// Tells plugins that a command is about to run.
    pub(super) fn before_command(&self, name: &str, typed: &str, args: &str) {
        let command = TypedCommand { name, typed, args };
        let call = self.conversation.command_call();
        let telling = self.services.tell_command(plugged::PLATFORM, command, &call);
        self.runtime.block_on(telling);
    }

    /// Tells plugins that the session is left.
    pub(super) fn tell_left(&self, reason: &str) {
        self.runtime.block_on(plugged::leave(&self.services, &self.conversation, reason));
    }

    /// Tells plugins what happened to stored sessions.
    pub(super) fn tell_events(&mut self) {
        self.start_plugins();
        if let Err(error) = self.runtime.block_on(self.services.deliver_events(None)) {
            plugged::tell_undelivered(&error);
        }
    }

    /// Tells plugins that this session took the place of another one.
    pub(super) fn tell_reset(&self, old: &SessionId, reason: &str) {
        let telling = self.conversation.takes_place_of(&self.services, old, reason);
        self.runtime.block_on(telling);
    }

    /// Says what plugins put into the conversation since the last turn.
    pub(super) fn say_injected(&mut self) -> anyhow::Result<Next> {
        for _ in 0..AT_ONCE {
            let message = self.services.plugged().and_then(Plugged::take_message);
            let Some(text) = message else { break };
            out::note(format!("> {text}"));
            if self.say(UserInput::text(text.as_str()))? == Next::Leave {
                return Ok(Next::Leave);
            }
        }
        Ok(Next::Stay)
    }
}

/// `/plugins`.
pub(super) fn list(repl: &mut Repl<'_>) -> anyhow::Result<Next> {
    repl.start_plugins();
    let Some(plugins) = repl.services.plugins() else {
        out::note("no plugin is switched on\nhint: `hermes plugins list` shows those there are");
        return Ok(Next::Stay);
    };
    let commands = plugins.commands();
    let tools = plugins.tools();
    let failed = plugins.not_loaded();
    let mut rows = Vec::new();
    for found in plugins.enabled() {
        let failure = failed.iter().find(|(key, _)| *key == found.key);
        let state = failure.map_or_else(
            || "loaded".to_owned(),
            |(_, why)| out::ellipsis(&format!("not loaded: {why}"), 60),
        );
        let own = commands.iter().filter(|command| *command.plugin == *found.key);
        let slash: Vec<String> = own.map(|command| format!("/{}", command.name)).collect();
        let tools = tools.iter().filter(|tool| *tool.plugin == *found.key);
        let tools: Vec<&str> = tools.map(|tool| &*tool.def.name).collect();
        rows.push(vec![found.key.clone(), state, slash.join(" "), tools.join(" ")]);
    }
    out::table(&["plugin", "state", "commands", "tools"], rows, "no plugin is switched on")?;
    Ok(Next::Stay)
}

/// `/hooks`.
pub(super) fn list_hooks(repl: &mut Repl<'_>) -> anyhow::Result<Next> {
    repl.start_plugins();
    let Some(plugins) = repl.services.plugins() else {
        out::note("nobody listens\nhint: `hermes hooks list` shows every hook there is");
        return Ok(Next::Stay);
    };
    let mut listed = repl.runtime.block_on(plugins.hooks());
    listed.retain(|hook| !hook.callbacks.is_empty());
    hooks::print(&listed)?;
    Ok(Next::Stay)
}
