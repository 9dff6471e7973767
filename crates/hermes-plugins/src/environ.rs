//! What programs that are started here get to see of the environment.
//!
//! Plugins get all of it, the home's `.env` with it: they were enabled by name, run with the
//! person's rights, and read their keys from there, as they did inside the original. A shell hook
//! gets no secret unless its entry names the variable (`env`) or `terminal.env_passthrough` does:
//! what a command of a model does not see, a script that watches it does not need to see either.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hermes_home::redact::may_hold_secret;

use crate::plugins::Inner;

/// Who the environment is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum For<'n> {
    /// A plugin's process.
    Plugin,
    /// A shell hook, with the variables that its entry names.
    ShellHook(&'n [String]),
}

impl Inner {
    pub(crate) fn cli_folder(&self) -> Option<&Path> {
        self.options.cli.as_deref()?.parent()
    }

    fn hands_down(&self, whose: For<'_>, name: &str, value: &str) -> bool {
        let For::ShellHook(wanted) = whose else { return true };
        let withheld = match &self.options.secrets {
            Some(secrets) => secrets.withholds(name, value),
            None => may_hold_secret(name),
        };
        let has = |names: &[String]| names.iter().any(|known| known == name);
        !withheld || has(&self.options.env_passthrough) || has(wanted)
    }

    /// The environment of a program: the home folder, this program by name and first on the path,
    /// and of the variables in force what is for it.
    pub(crate) fn environment(&self, whose: For<'_>) -> Vec<(String, String)> {
        let mut vars: BTreeMap<String, String> = self
            .options
            .vars
            .iter()
            .filter(|(name, value)| self.hands_down(whose, name, value))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        vars.insert("HERMES_HOME".into(), self.options.home.root().display().to_string());
        if let Some(cli) = &self.options.cli {
            vars.insert("HERMES_CLI".into(), cli.display().to_string());
        }
        if let Some(folder) = self.cli_folder() {
            let old = vars.get("PATH").cloned().unwrap_or_default();
            let others = std::env::split_paths(&old).filter(|other| other != folder);
            let folders: Vec<PathBuf> = std::iter::once(folder.to_owned()).chain(others).collect();
            match std::env::join_paths(folders) {
                Ok(path) => drop(vars.insert("PATH".into(), path.to_string_lossy().into_owned())),
                Err(error) => {
                    tracing::warn!(%error, folder = %folder.display(), "this program's folder cannot stand on a PATH");
                }
            }
        }
        vars.into_iter().collect()
    }
}
