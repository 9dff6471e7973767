//! What must not be handed on: to commands that the model runs, and in files of the home that it
//! reads.
//!
//! Invariant: values are known from all places at once (settings, the home's `.env`, the process's
//! environment), so that the same key is masked wherever it was read.

use std::collections::BTreeSet;
use std::fmt;

use secrecy::ExposeSecret as _;

use crate::redact::{MIN_KNOWN, Redactor, is_secret_name, may_hold_secret};
use crate::vars::Vars;
use crate::{Config, Home, ProcessVars};

/// The secrets of a home and of this process.
pub struct Secrets {
    names: BTreeSet<String>,
    values: BTreeSet<String>,
    redactor: Redactor,
}

impl Secrets {
    /// Collects them. A `.env` that cannot be read has no names to add; the shapes of names hold
    /// without it.
    pub fn of(home: &Home, config: &Config, process: &ProcessVars) -> Self {
        let dotenv = crate::load::read_dotenv(&home.env_path()).unwrap_or_default().0;
        let vars = Vars::new(process, &dotenv);
        let mut redactor = Redactor::new(vars.secrets());
        let mut values = BTreeSet::new();
        for secret in config.secrets() {
            redactor.add_key(secret.expose_secret());
            values.insert(secret.expose_secret().to_owned());
        }
        let mut names: BTreeSet<String> = config.key_variables().map(str::to_owned).collect();
        for value in names.iter().filter_map(|name| vars.get(name)) {
            redactor.add_key(value);
        }
        for entry in &dotenv.entries {
            // What stands in `.env` is a secret unless its name says otherwise and it is short.
            if is_secret_name(&entry.name) {
                redactor.add_key(&entry.value);
            } else if entry.value.len() >= 2 * MIN_KNOWN && may_hold_secret(&entry.name) {
                redactor.add(&entry.value);
            }
            names.insert(entry.name.clone());
        }
        Self { names, values, redactor }
    }

    /// Whether a variable is kept from commands: the home's `.env` or a `key_env` names it, its
    /// name has the shape of a secret's, its value is a configured key or an address with a
    /// password (other than a proxy's, without which commands reach nothing).
    pub fn withholds(&self, name: &str, value: &str) -> bool {
        let proxy = name.to_ascii_lowercase().ends_with("_proxy");
        self.names.contains(name)
            || may_hold_secret(name)
            || self.values.contains(value.trim())
            || (!proxy && has_password(value))
    }

    /// Masks them, and what looks like a secret.
    pub const fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("names", &self.names).finish_non_exhaustive()
    }
}

/// `scheme://user:password@host`.
fn has_password(value: &str) -> bool {
    value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority
            .rsplit_once('@')
            .and_then(|(user, _)| user.split_once(':'))
            .is_some_and(|(_, password)| !password.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_seen() {
        assert!(has_password("postgres://me:pw@db/x"));
        for plain in ["postgres://me@db/x", "https://h:80/a@b:c", "a:b@c", ""] {
            assert!(!has_password(plain), "{plain}");
        }
    }
}
