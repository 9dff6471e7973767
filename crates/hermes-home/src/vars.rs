//! Variables: the home's `.env` over the process's environment.
//!
//! Invariant: values never appear in `Debug` output or messages.

use std::collections::BTreeMap;
use std::fmt;

use crate::ProcessVars;
use crate::dotenv::DotEnv;

/// Where a variable came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarSource {
    /// The home's `.env`, at a line.
    HomeEnv {
        /// The line.
        line: u32,
    },
    /// The process's environment.
    Process,
}

impl fmt::Display for VarSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HomeEnv { line } => write!(f, ".env line {line}"),
            Self::Process => f.write_str("the environment"),
        }
    }
}

/// The variables in force.
#[derive(Clone, Default)]
pub struct Vars {
    process: ProcessVars,
    home: BTreeMap<String, (String, u32)>,
}

/// Whether a value says "off", whatever its capitals.
pub fn says_off(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off")
}

/// Whether the value of a switch switches it on: everything does but nothing and what says "off".
pub fn says_on(value: &str) -> bool {
    !value.trim().is_empty() && !says_off(value)
}

impl Vars {
    /// Variables of the process alone.
    pub fn of_process(vars: &ProcessVars) -> Self {
        Self { process: vars.clone(), home: BTreeMap::new() }
    }

    /// Variables of the process under those of a `.env`.
    pub fn new(vars: &ProcessVars, home: &DotEnv) -> Self {
        let home = home
            .entries
            .iter()
            .map(|entry| (entry.name.clone(), (entry.value.clone(), entry.line)))
            .collect();
        Self { process: vars.clone(), home }
    }

    /// A variable's value. An empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lookup(name).map(|(value, _)| value)
    }

    /// A variable's value and where it came from.
    pub fn lookup(&self, name: &str) -> Option<(&str, VarSource)> {
        let home = self
            .home
            .get(name)
            .filter(|(value, _)| !value.is_empty())
            .map(|(value, line)| (value.as_str(), VarSource::HomeEnv { line: *line }));
        home.or_else(|| self.of_environment(name).map(|value| (value, VarSource::Process)))
    }

    /// The value in the process's environment, hidden or not.
    pub fn of_environment(&self, name: &str) -> Option<&str> {
        self.process.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names that both have with different values, so that `.env` hides the environment.
    pub fn hidden(&self) -> impl Iterator<Item = (&str, u32)> {
        self.home.iter().filter_map(|(name, (value, line))| {
            let hidden =
                !value.is_empty() && self.of_environment(name).is_some_and(|outer| outer != value);
            hidden.then_some((name.as_str(), *line))
        })
    }

    /// All variables in force, for commands that are started.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let outer = self
            .process
            .iter()
            .filter(|(name, _)| !self.home.contains_key(*name))
            .map(|(name, value)| (name.as_str(), value.as_str()));
        outer.chain(self.home.iter().map(|(name, (value, _))| (name.as_str(), value.as_str())))
    }

    /// The values of every variable whose name says that it is a secret.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.home
            .iter()
            .map(|(name, (value, _))| (name, value))
            .chain(&self.process)
            .filter(|(name, value)| {
                value.len() >= crate::redact::MIN_KNOWN && crate::redact::is_secret_name(name)
            })
            .map(|(_, value)| value.as_str())
    }

    /// The text with `${NAME}` references resolved, and the names that are not set; their
    /// references stay.
    pub fn expand(&self, text: &str) -> (String, Vec<String>) {
        let mut out = String::with_capacity(text.len());
        let mut missing = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let name = from[2..].split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
            let Some(name) = name else {
                out.push_str("${");
                rest = &from[2..];
                continue;
            };
            let whole = &from[..name.len() + 3];
            if let Some(value) = self.get(name) {
                out.push_str(value);
            } else {
                missing.push(name.to_owned());
                out.push_str(whole);
            }
            rest = &from[whole.len()..];
        }
        out.push_str(rest);
        (out, missing)
    }
}

/// Whether a text can name a variable.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl fmt::Debug for Vars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vars")
            .field("home", &self.home.keys().collect::<Vec<_>>())
            .field("process", &self.process.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_unless_it_is_empty_or_says_off() {
        for on in ["1", "true", "y", "2", " on ", "CONFIDENTIAL"] {
            assert!(says_on(on) && !says_off(on), "{on}");
        }
        for off in ["0", "No", " off ", "FALSE"] {
            assert!(says_off(off) && !says_on(off), "{off}");
        }
        assert!(!says_on(" ") && !says_off(" "));
    }
}
