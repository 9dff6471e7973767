//! Who agreed to which shell hook: pairs of event and exact command in a file of the home folder.

use std::path::PathBuf;

use hermes_home::fsio::{self, Privacy};
use serde_json::{Value, json};

use super::{ShellHook, script_time};

/// The file of consents.
#[derive(Clone, Debug)]
pub(crate) struct Consents {
    path: PathBuf,
}

impl Consents {
    pub(crate) fn of(home: &hermes_home::Home) -> Self {
        Self { path: home.root().join("shell-hooks-allowlist.json") }
    }

    fn read(&self) -> Vec<Value> {
        fsio::read_text(&self.path, 1 << 20)
            .ok()
            .and_then(|read| serde_json::from_str::<Value>(&read.text).ok())
            .and_then(|value| value.get("approvals")?.as_array().cloned())
            .unwrap_or_default()
    }

    fn entry(&self, hook: &ShellHook) -> Option<Value> {
        self.read().into_iter().find(|entry| {
            entry.get("event").and_then(Value::as_str) == Some(hook.event.name)
                && entry.get("command").and_then(Value::as_str) == Some(&hook.command)
        })
    }

    /// Whether somebody agreed, and whether the script was changed since.
    pub(crate) fn check(&self, hook: &ShellHook) -> (bool, bool) {
        match self.entry(hook) {
            None => (false, false),
            Some(entry) => {
                let then = entry.get("script_mtime_at_approval").and_then(Value::as_u64);
                (true, then.is_some() && then != script_time(&hook.argv))
            }
        }
    }

    /// Keeps an agreement.
    pub(crate) fn give(&self, hook: &ShellHook, now: &str) -> std::io::Result<()> {
        let mut approvals = self.read();
        approvals.retain(|entry| {
            entry.get("event").and_then(Value::as_str) != Some(hook.event.name)
                || entry.get("command").and_then(Value::as_str) != Some(&hook.command)
        });
        approvals.push(json!({
            "event": hook.event.name,
            "command": hook.command,
            "approved_at": now,
            "script_mtime_at_approval": script_time(&hook.argv),
        }));
        self.write(&approvals)
    }

    /// Takes back every agreement about a command; gives how many there were.
    pub(crate) fn revoke(&self, command: &str) -> std::io::Result<usize> {
        let mut approvals = self.read();
        let before = approvals.len();
        approvals.retain(|entry| entry.get("command").and_then(Value::as_str) != Some(command));
        let gone = before - approvals.len();
        if gone > 0 {
            self.write(&approvals)?;
        }
        Ok(gone)
    }

    fn write(&self, approvals: &[Value]) -> std::io::Result<()> {
        let text = format!("{:#}\n", json!({"approvals": approvals}));
        fsio::write_atomic(&self.path, text.as_bytes(), Privacy::Private)
    }
}
