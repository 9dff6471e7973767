//! Everything that plugins, shell hooks and webhooks registered, in one ordered sequence.
//!
//! A process that is started again registers again; its entries keep their places and numbers, so
//! that order does not change and a guard whose process is gone is still known to be one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::Fault;

/// Who answers for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A plugin process, by its number.
    Host(usize),
    /// A shell hook, by its number.
    Shell(usize),
    /// An outbound webhook, by its number.
    Webhook(usize),
}

/// What a plugin asks to be registered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    pub(crate) plugin: String,
    pub(crate) kind: String,
    pub(crate) key: String,
    pub(crate) spec: Value,
    pub(crate) calls: HashMap<String, u64>,
    pub(crate) names: HashMap<String, String>,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) phase: u8,
    pub(crate) plugin: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) owner: Owner,
    pub(crate) calls: HashMap<String, u64>,
    pub(crate) callback: Arc<str>,
    pub(crate) spec: Arc<Value>,
    /// Its process has ended and it has not been registered again.
    pub(crate) stale: bool,
    pub(crate) stats: Stats,
}

/// What a callback cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Calls.
    pub calls: u64,
    /// Calls that raised, hung or lost their process.
    pub errors: u64,
    /// Milliseconds spent.
    pub millis: f64,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Accepted(u64),
    Refused(String),
    Raise(Fault),
}

/// What a registry is told about the rest of the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved {
    /// Slash commands of the program: name to why it is taken.
    pub(crate) commands: BTreeMap<String, String>,
    /// Tools of the program.
    pub(crate) tools: Vec<String>,
    /// Auxiliary tasks of the program.
    pub(crate) tasks: Vec<String>,
}

/// Phases in the order of the sequence.
pub(crate) const PLUGINS: u8 = 0;
pub(crate) const SHELL: u8 = 1;
pub(crate) const WEBHOOKS: u8 = 2;

/// Limits of prompt sections.
const MOST_SECTIONS: usize = 32;
const BUILTIN_REFERENCES: [&str; 6] = ["diff", "staged", "file", "folder", "git", "url"];

/// The sequence.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Vec<Entry>,
    next: u64,
    pub(crate) reserved: Reserved,
    /// Notes for the doctor: plugin, text.
    pub(crate) notes: Vec<(Arc<str>, String)>,
}

impl Registry {
    /// Judges and takes a request.
    pub(crate) fn register(
        &mut self,
        request: Request,
        owner: Owner,
        phase: u8,
        may_override: bool,
    ) -> Verdict {
        if let Some(refusal) = self.judge(&request, may_override) {
            return refusal;
        }
        if request.kind == "command" {
            // Another plugin's command of the same name gives way; unloading brings it back.
            let note = telegram_note(&request.key);
            if let Some(note) = note {
                self.notes.push((Arc::from(&*request.plugin), note));
            }
        }
        let callback = request
            .names
            .get("call")
            .or_else(|| request.names.values().next())
            .cloned()
            .unwrap_or_else(|| request.plugin.clone());
        let place = self.entries.iter().position(|entry| {
            entry.stale
                && *entry.plugin == *request.plugin
                && *entry.kind == *request.kind
                && *entry.key == *request.key
                && *entry.callback == *callback
        });
        let id = if let Some(place) = place {
            self.entries[place].id
        } else {
            self.next += 1;
            self.next
        };
        let entry = Entry {
            id,
            phase,
            plugin: Arc::from(request.plugin),
            kind: Arc::from(request.kind),
            key: Arc::from(request.key),
            owner,
            calls: request.calls,
            callback: Arc::from(callback),
            spec: Arc::new(request.spec),
            stale: false,
            stats: place.map(|place| self.entries[place].stats).unwrap_or_default(),
        };
        if let Some(place) = place {
            self.entries[place] = entry;
        } else {
            let at = self.entries.partition_point(|known| known.phase <= phase);
            self.entries.insert(at, entry);
        }
        Verdict::Accepted(id)
    }

    fn others<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| {
            *entry.kind == *request.kind && *entry.key == *request.key && !entry.stale
        })
    }

    fn judge(&self, request: &Request, may_override: bool) -> Option<Verdict> {
        let refuse = |why: String| Some(Verdict::Refused(why));
        let raise = |kind: &str, why: String| Some(Verdict::Raise(Fault::new(kind, why)));
        let key = request.key.as_str();
        match request.kind.as_str() {
            "tool" => {
                let wants = request.spec.get("override").and_then(Value::as_bool).unwrap_or(false);
                if wants && !may_override {
                    let fault = Fault {
                        kind: "CapabilityError".to_owned(),
                        kinds: vec!["CapabilityError".to_owned(), "PermissionError".to_owned()],
                        message: format!(
                            "the plugin {} may not replace the tool {key}: grant tools.override first",
                            request.plugin
                        ),
                    };
                    return Some(Verdict::Raise(fault));
                }
                if wants {
                    return None;
                }
                if self.reserved.tools.iter().any(|tool| tool == key) {
                    return refuse(format!("{key} is a tool of this program"));
                }
                self.others(request).find(|entry| *entry.plugin != *request.plugin).and_then(
                    |entry| refuse(format!("{key} is a tool of the plugin {}", entry.plugin)),
                )
            }
            "command" => self
                .reserved
                .commands
                .get(key)
                .or_else(|| self.reserved.commands.get(&key.replace('_', "-")))
                .and_then(|why| refuse(why.clone())),
            "prompt_section" => {
                if self.others(request).next().is_some() {
                    return raise("ValueError", format!("the prompt section {key} exists already"));
                }
                let sections = self.of_kind("prompt_section").count();
                (sections >= MOST_SECTIONS).then(|| {
                    Verdict::Refused(format!("there are {MOST_SECTIONS} sections already"))
                })
            }
            "context_engine" => self
                .of_kind("context_engine")
                .next()
                .and_then(|entry| refuse(format!("the plugin {} holds that place", entry.plugin))),
            "approval_transport" => self
                .others(request)
                .next()
                .and_then(|_| raise("ValueError", format!("the transport {key} exists already"))),
            "aux_task" => {
                if self.reserved.tasks.iter().any(|task| task == key) {
                    return raise("ValueError", format!("{key} is a task of this program"));
                }
                self.others(request).find(|entry| *entry.plugin != *request.plugin).and_then(
                    |entry| {
                        raise(
                            "ValueError",
                            format!("{key} is a task of the plugin {}", entry.plugin),
                        )
                    },
                )
            }
            "context_reference" => BUILTIN_REFERENCES
                .contains(&key.trim_start_matches('@').trim_end_matches(':'))
                .then(|| Verdict::Refused(format!("@{key}: is a reference of this program"))),
            _ => None,
        }
    }

    /// Entries of a kind, in order, those of dead processes too.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| *entry.kind == *kind)
    }

    /// Entries of a kind under a key, in order.
    pub(crate) fn under<'a>(
        &'a self,
        kind: &'a str,
        key: &'a str,
    ) -> impl Iterator<Item = &'a Entry> {
        self.of_kind(kind).filter(move |entry| *entry.key == *key)
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Entry] {
        &self.entries
    }

    /// One of them.
    pub(crate) fn get(&self, id: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Adds to what a callback cost.
    pub(crate) fn count(&mut self, id: u64, millis: f64, failed: bool) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.stats.calls += 1;
            entry.stats.errors += u64::from(failed);
            entry.stats.millis += millis;
        }
    }

    /// Removes one.
    pub(crate) fn dispose(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Removes all of a plugin.
    pub(crate) fn forget(&mut self, plugin: &str) {
        self.entries.retain(|entry| *entry.plugin != *plugin);
    }

    /// A process has ended: its entries stay, marked. Their numbers are given back.
    pub(crate) fn process_ended(&mut self, host: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        for entry in &mut self.entries {
            if entry.owner == Owner::Host(host) {
                entry.stale = true;
                ids.push(entry.id);
            }
        }
        ids
    }

    /// A plugin has been loaded again: what it did not register again is gone.
    pub(crate) fn drop_stale(&mut self, plugin: &str) {
        self.entries.retain(|entry| !(entry.stale && *entry.plugin == *plugin));
    }
}

/// What Telegram's menu cannot carry of a command's name.
pub(crate) fn telegram_note(name: &str) -> Option<String> {
    let sanitized = name.replace('-', "_");
    let fits = sanitized.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !fits {
        return Some(format!("/{name} holds characters that Telegram's menu cannot carry"));
    }
    (sanitized.len() > 32)
        .then(|| format!("/{name} is longer than the 32 characters of Telegram's menu"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(plugin: &str, kind: &str, key: &str, spec: Value) -> Request {
        let names = HashMap::from([("call".to_owned(), format!("{plugin}.{key}"))]);
        Request {
            plugin: plugin.into(),
            kind: kind.into(),
            key: key.into(),
            spec,
            names,
            ..Request::default()
        }
    }

    fn take(registry: &mut Registry, plugin: &str, kind: &str, key: &str) -> Verdict {
        registry.register(request(plugin, kind, key, Value::Null), Owner::Host(0), PLUGINS, false)
    }

    fn order(registry: &Registry) -> Vec<String> {
        registry.under("hook", "pre_llm_call").map(|entry| entry.plugin.to_string()).collect()
    }

    #[test]
    fn shell_hooks_stand_behind_plugins_also_when_a_plugin_comes_later() {
        let mut registry = Registry::default();
        take(&mut registry, "a", "hook", "pre_llm_call");
        let shell = request("shell", "hook", "pre_llm_call", Value::Null);
        registry.register(shell, Owner::Shell(0), SHELL, false);
        take(&mut registry, "b", "hook", "pre_llm_call");
        assert_eq!(order(&registry), ["a", "b", "shell"]);
    }

    #[test]
    fn a_process_that_comes_back_keeps_the_places_of_its_callbacks() {
        let mut registry = Registry::default();
        let first = take(&mut registry, "a", "hook", "pre_llm_call");
        registry.register(
            request("b", "hook", "pre_llm_call", Value::Null),
            Owner::Host(1),
            PLUGINS,
            false,
        );
        assert_eq!(registry.process_ended(0).len(), 1);
        assert_eq!(order(&registry), ["a", "b"], "a guard whose process is gone is still known");
        assert_eq!(take(&mut registry, "a", "hook", "pre_llm_call"), first);
        assert_eq!(order(&registry), ["a", "b"]);
        registry.drop_stale("a");
        assert_eq!(order(&registry), ["a", "b"]);
    }

    #[test]
    fn names_of_the_program_are_refused_with_the_reason() {
        let mut registry = Registry::default();
        registry
            .reserved
            .commands
            .insert("set-up".into(), "/set-up is a command of this program".into());
        registry.reserved.tools.push("read_file".into());
        for (kind, key) in [("command", "set-up"), ("command", "set_up"), ("tool", "read_file")] {
            let verdict = take(&mut registry, "a", kind, key);
            assert!(matches!(&verdict, Verdict::Refused(why) if why.contains("of this program")));
        }
    }

    #[test]
    fn replacing_a_tool_without_a_grant_raises_a_permission_error() {
        let mut registry = Registry::default();
        let spec = json!({"override": true});
        let wanted = request("a", "tool", "read_file", spec);
        let verdict = registry.register(wanted.clone(), Owner::Host(0), PLUGINS, false);
        let Verdict::Raise(fault) = verdict else { panic!("{verdict:?}") };
        assert!(fault.kinds.contains(&"PermissionError".to_owned()));
        assert!(matches!(
            registry.register(wanted, Owner::Host(0), PLUGINS, true),
            Verdict::Accepted(_)
        ));
    }

    #[test]
    fn what_telegram_cannot_carry_is_noted() {
        assert_eq!(telegram_note("agent-metrics"), None);
        assert!(telegram_note("größe").is_some());
        assert!(telegram_note(&"a".repeat(33)).is_some());
    }
}
