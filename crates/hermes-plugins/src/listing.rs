//! Who listens to what, for people: every hook with its callbacks in the order in which they run,
//! why a hook is silent, and a trial of shell hooks.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::discover::Found;
use crate::outcome::Said;
use crate::plugins::{Inner, Plugins, locked};
use crate::registry::{Owner, Stats};
use crate::shell::{self, Ran};
use crate::table::{HOOKS, HookSpec};

/// One callback of a hook.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HookCallback {
    /// `plugin`, `shell` or `webhook`.
    pub kind: &'static str,
    /// The plugin; for a shell hook its command, for a webhook its name.
    pub owner: String,
    /// The callable of a plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// What it cost so far in this process.
    #[serde(flatten)]
    pub stats: Stats,
}

/// One hook and who listens to it.
#[derive(Clone, Debug, Serialize)]
pub struct HookListing {
    /// Its name.
    pub hook: String,
    /// `observer`, `directive` or `transform`; empty for a name that is no hook.
    pub category: &'static str,
    /// When it fires.
    pub when: &'static str,
    /// What a callback may return.
    pub returns: &'static str,
    /// `open` or `closed`.
    pub fails: &'static str,
    /// Whether this program fires it.
    pub fired: bool,
    /// What it waits for, where it is not fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<&'static str>,
    /// The callbacks in the order in which they run.
    pub callbacks: Vec<HookCallback>,
}

/// What one shell hook did with an event that was made up for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShellTrial {
    /// The command.
    pub command: String,
    /// Whether its matcher is for the event; if not, it was not run.
    pub wanted: bool,
    /// Its exit code.
    pub code: Option<i32>,
    /// What it printed.
    pub out: String,
    /// What it printed as errors, or why it did not run.
    pub err: String,
    /// What its answer means: the value that counts, null for nothing.
    pub meaning: Value,
}

/// What a hook that is not fired waits for.
pub fn waits_for(hook: &HookSpec) -> Option<&'static str> {
    if hook.fired_now {
        return None;
    }
    let name = hook.name;
    Some(if name.contains("kanban") {
        "there is no task board yet"
    } else if name.contains("gateway") || name == "agent_loop_stopped" || name.contains("room") {
        "there is no gateway for chats yet"
    } else if name.contains("transcription") || name.contains("tts") {
        "there is no speech yet"
    } else {
        "the part that fires it is not built yet"
    })
}

impl Plugins {
    /// Every hook of the table, then names under which something is registered though they are no
    /// hooks. Loads what is enabled.
    pub async fn hooks(&self) -> Vec<HookListing> {
        self.ready().await;
        let mut out: Vec<HookListing> = HOOKS.iter().map(listing).collect();
        let registry = locked(&self.0.registry);
        for entry in registry.of_kind("hook") {
            let kind = match entry.owner {
                Owner::Host(_) => "plugin",
                Owner::Shell(_) => "shell",
                Owner::Webhook(_) => "webhook",
            };
            let (plugin, callback) = (entry.plugin.to_string(), entry.callback.to_string());
            let callback = match kind {
                "plugin" => HookCallback {
                    kind,
                    owner: plugin,
                    callback: Some(callback),
                    stats: entry.stats,
                },
                _ => HookCallback { kind, owner: callback, callback: None, stats: entry.stats },
            };
            match out.iter_mut().find(|listing| listing.hook == *entry.key) {
                Some(listing) => listing.callbacks.push(callback),
                None => out.push(HookListing {
                    hook: entry.key.to_string(),
                    waits_for: Some("there is no hook of that name"),
                    callbacks: vec![callback],
                    ..listing(&crate::table::UNKNOWN)
                }),
            }
        }
        out
    }

    /// The plugins that may run, as far as they are told without starting anything.
    pub fn enabled(&self) -> Vec<Found> {
        self.0.found().iter().filter(|plugin| plugin.enabled).cloned().collect()
    }

    /// The plugins that are enabled and could not be loaded, with the reason. To be asked when they
    /// are [`Self::ready`].
    pub fn not_loaded(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        for host in self.0.all_hosts() {
            for plugin in locked(&host.plugins).iter() {
                if let Some(error) = &plugin.error {
                    out.push((plugin.found.key.clone(), error.clone()));
                }
            }
        }
        let config = &self.0.options.config;
        for found in self.0.found() {
            let named = |id: &String| *id == found.key || *id == found.name;
            if config.enabled.iter().any(named)
                && !config.disabled.iter().any(named)
                && let Some(error) = &found.error
            {
                out.push((found.key.clone(), error.clone()));
            }
        }
        let there = |id: &&String| {
            !self.0.found().iter().any(|found| found.key == **id || found.name == **id)
        };
        for id in config.enabled.iter().filter(there) {
            out.push((id.clone(), "no plugin of that name is installed".to_owned()));
        }
        out
    }

    /// Runs every shell hook of an event with a payload, consented to or not: whoever asks for it
    /// means it. No other callback is called.
    pub async fn try_shell_hooks(
        &self,
        event: &str,
        fields: &Map<String, Value>,
    ) -> Vec<ShellTrial> {
        let mut out = Vec::new();
        for hook in self.0.hook_settings().hooks {
            if hook.event.name == event {
                out.push(self.0.try_shell_hook(&hook, fields).await);
            }
        }
        out
    }
}

impl Inner {
    async fn try_shell_hook(
        &self,
        hook: &shell::ShellHook,
        fields: &Map<String, Value>,
    ) -> ShellTrial {
        let mut trial = ShellTrial {
            command: hook.command.clone(),
            wanted: hook.fits(fields.get("tool_name").and_then(Value::as_str)),
            code: None,
            out: String::new(),
            err: String::new(),
            meaning: Value::Null,
        };
        if !trial.wanted {
            return trial;
        }
        let cwd: &Path = &self.options.cwd;
        let place = cwd.display().to_string();
        let profile = self.options.home.profile();
        let input = shell::body_of(hook.event.name, fields.clone(), &place, profile);
        let env = self.environment(crate::environ::For::ShellHook(&hook.env));
        let ran = shell::run(&hook.argv, &input, cwd, &env, hook.timeout).await;
        trial.meaning = match hook.judge(&ran) {
            Said::Value(value) => value,
            _ => Value::Null,
        };
        match ran {
            Ran::NotStarted(why) => trial.err = format!("it could not be started: {why}"),
            Ran::TimedOut => {
                trial.err = format!("it did not end within {} s", hook.timeout.as_secs());
            }
            Ran::Ended { code, out, err } => (trial.code, trial.out, trial.err) = (code, out, err),
        }
        trial
    }
}

fn listing(hook: &HookSpec) -> HookListing {
    HookListing {
        hook: hook.name.to_owned(),
        category: if hook.name.is_empty() { "" } else { hook.category.as_str() },
        when: hook.when,
        returns: hook.returns.as_str(),
        fails: hook.fails.as_str(),
        fired: hook.fired_now,
        waits_for: waits_for(hook),
        callbacks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_is_fired_waits_for_nothing_and_every_other_says_for_what() {
        for hook in HOOKS {
            assert_eq!(waits_for(hook).is_none(), hook.fired_now, "{}", hook.name);
        }
        let board = crate::table::find("kanban_task_claimed").unwrap();
        assert_eq!(waits_for(board), Some("there is no task board yet"));
    }
}
