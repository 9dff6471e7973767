//! Which plugins had a guard when they were last loaded.
//!
//! A guard that is silently missing is worse than none: whoever relies on it must hear of it. A
//! plugin that is enabled, had a guard the last time, and is not loaded now stands for a guard that
//! blocks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hermes_home::fsio::{self, Privacy};

/// The file that remembers.
#[derive(Debug)]
pub(crate) struct Guards {
    path: PathBuf,
}

impl Guards {
    pub(crate) fn of(home: &hermes_home::Home) -> Self {
        Self { path: home.root().join("plugins").join(".guards.json") }
    }

    fn read(&self) -> BTreeSet<String> {
        fsio::read_text(&self.path, 1 << 20)
            .ok()
            .and_then(|read| serde_json::from_str(&read.text).ok())
            .unwrap_or_default()
    }

    /// Takes what is known of each enabled plugin: whether it has a guard, None where it is not
    /// loaded. Gives those that had one.
    pub(crate) fn compare(&self, plugins: &[(String, Option<bool>)]) -> Vec<String> {
        let before = self.read();
        let mut now = before.clone();
        let mut lost = Vec::new();
        for (plugin, guard) in plugins {
            match guard {
                Some(true) => drop(now.insert(plugin.clone())),
                Some(false) => drop(now.remove(plugin)),
                None if before.contains(plugin) => lost.push(plugin.clone()),
                None => {}
            }
        }
        if now != before {
            let text = serde_json::to_string(&now).unwrap_or_default();
            let folder = self.path.parent().map(std::fs::create_dir_all);
            let written = fsio::write_atomic(&self.path, text.as_bytes(), Privacy::Private);
            if let (Some(Err(error)), _) | (_, Err(error)) = (folder, written) {
                tracing::warn!(path = %self.path.display(), %error, "guards cannot be remembered");
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_was_there_and_is_not_loaded_is_lost_until_it_is_known_again() {
        let home = tempfile::tempdir().unwrap();
        let guards = Guards::of(&hermes_home::Home::at(home.path()));
        let plugin = |guard| [("a".to_owned(), guard)];
        assert!(guards.compare(&plugin(None)).is_empty());
        assert!(guards.compare(&plugin(Some(true))).is_empty());
        assert_eq!(guards.compare(&plugin(None)), ["a"]);
        assert!(guards.compare(&plugin(Some(false))).is_empty());
        assert!(guards.compare(&plugin(None)).is_empty());
    }
}
