//! Those who take part without a plugin: shell hooks and outbound webhooks, behind the plugins in
//! the sequence, and guards that should be there and are not.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use crate::guards::Guards;
use crate::plugins::{Inner, Plugins, locked};
use crate::registry::{Owner, Request, SHELL, WEBHOOKS};
use crate::shell::{self, Consents, ShellHook, ShellHookInfo};
use crate::webhook::Sender;

impl Plugins {
    /// The shell hooks of the settings, with what is known of each.
    pub fn shell_hooks(&self) -> Vec<ShellHookInfo> {
        let consents = Consents::of(&self.0.options.home);
        self.0
            .hook_settings()
            .hooks
            .iter()
            .map(|hook| {
                let (given, changed_since) = consents.check(hook);
                ShellHookInfo {
                    event: hook.event.name.to_owned(),
                    command: hook.command.clone(),
                    matcher: hook.matcher.as_ref().map(|m| m.as_str().to_owned()),
                    timeout: hook.timeout.as_secs(),
                    fail_closed: hook.fail_closed,
                    env: hook.env.clone(),
                    consented: given || self.0.accepts_hooks(),
                    returns: shell::answer_form(hook.event.returns),
                    changed_since,
                }
            })
            .collect()
    }

    /// What of `hooks` in the settings was refused, and why.
    pub fn hook_problems(&self) -> Vec<String> {
        self.0.hook_settings().problems
    }

    /// Keeps a person's consent to every shell hook with this command; gives how many there are.
    ///
    /// # Errors
    /// If the file of consents cannot be written.
    pub fn consent(&self, command: &str, now: &str) -> std::io::Result<usize> {
        let consents = Consents::of(&self.0.options.home);
        let hooks = self.0.hook_settings().hooks;
        let meant: Vec<_> = hooks.iter().filter(|hook| hook.command == command).collect();
        for hook in &meant {
            consents.give(hook, now)?;
        }
        Ok(meant.len())
    }

    /// Takes back the consent to a command; gives how many entries are gone.
    ///
    /// # Errors
    /// If the file of consents cannot be written.
    pub fn revoke(&self, command: &str) -> std::io::Result<usize> {
        Consents::of(&self.0.options.home).revoke(command)
    }
}

impl Inner {
    pub(crate) fn hook_settings(&self) -> shell::Settings {
        let vars = &self.options.vars;
        shell::parse(
            &self.options.hooks,
            vars.get("HOME").or_else(|| vars.get("USERPROFILE")),
            &|name| vars.get(name).map(ToOwned::to_owned),
        )
    }

    fn accepts_hooks(&self) -> bool {
        self.options.accept_hooks
            || self.options.vars.get("HERMES_ACCEPT_HOOKS").is_some_and(|value| value == "1")
    }

    pub(crate) fn shell_hook(&self, number: usize) -> Option<Arc<ShellHook>> {
        self.shells.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }

    pub(crate) fn webhook(&self, number: usize) -> Option<Arc<Sender>> {
        self.webhooks.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }

    /// Remembers which plugins have guards, and finds those that should have one and do not run.
    pub(crate) fn look_for_guards(&self) {
        let mut known = Vec::new();
        let mut why = HashMap::new();
        for host in self.all_hosts() {
            for plugin in locked(&host.plugins).iter() {
                let key = plugin.found.key.clone();
                let guard = plugin.error.is_none().then(|| {
                    locked(&self.registry)
                        .under("hook", "pre_tool_call")
                        .any(|entry| *entry.plugin == *key)
                });
                why.insert(key.clone(), plugin.error.clone().unwrap_or_default());
                known.push((key, guard));
            }
        }
        let lost = Guards::of(&self.options.home).compare(&known);
        let mut guards = locked(&self.lost_guards);
        for plugin in lost {
            let why = why.remove(&plugin).unwrap_or_default();
            tracing::warn!(plugin, why, "a guard is not loaded: tools are blocked");
            guards.push((Arc::from(plugin), why));
        }
    }

    /// Puts shell hooks and webhooks behind the plugins.
    pub(crate) fn register_others(&self) {
        let settings = self.hook_settings();
        locked(&self.problems).extend(settings.problems);
        let consents = Consents::of(&self.options.home);
        let mut shells = self.shells.write().unwrap_or_else(PoisonError::into_inner);
        for hook in settings.hooks {
            if !self.accepts_hooks() && !consents.check(&hook).0 {
                locked(&self.problems).push(format!(
                    "the shell hook {:?} for {} is not run: nobody consented to it\nhint: `hermes hooks list` shows it; HERMES_ACCEPT_HOOKS=1 consents to all",
                    hook.command, hook.event.name
                ));
                continue;
            }
            self.take(hook.event.name, "shell", &hook.command, Owner::Shell(shells.len()), SHELL);
            shells.push(Arc::new(hook));
        }
        let Some(background) = self.background().filter(|_| !settings.webhooks.is_empty()) else {
            return;
        };
        let mut webhooks = self.webhooks.write().unwrap_or_else(PoisonError::into_inner);
        for webhook in settings.webhooks {
            for event in &webhook.events {
                let owner = Owner::Webhook(webhooks.len());
                self.take(event.name, "webhook", &webhook.name, owner, WEBHOOKS);
            }
            webhooks.push(Arc::new(Sender::start(webhook, &background)));
        }
    }

    fn take(&self, event: &str, plugin: &str, name: &str, owner: Owner, phase: u8) {
        let request = Request {
            plugin: plugin.to_owned(),
            kind: "hook".to_owned(),
            key: event.to_owned(),
            names: HashMap::from([("call".to_owned(), name.to_owned())]),
            ..Request::default()
        };
        locked(&self.registry).register(request, owner, phase, false);
    }
}
