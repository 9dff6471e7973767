//! What can go wrong with the home folder and its settings. Every message names the place and
//! what to do next; none of them holds a secret's value.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The home folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither `HERMES_HOME` nor a home folder of the person is known.
    #[error(
        "no home folder: neither HERMES_HOME nor {variable} is set\nhint: set HERMES_HOME to a folder of your own"
    )]
    Unknown {
        /// The variable that names the person's home folder on this platform.
        variable: &'static str,
    },
    /// The variable that names the folder is no Unicode.
    #[error(
        "{variable} is no valid UTF-8, and paths are kept as text\nhint: rename that folder, or set HERMES_HOME to another one"
    )]
    NotUnicode {
        /// The variable.
        variable: &'static str,
    },
    /// `HERMES_HOME` names a folder whose store belongs to the Python program.
    #[error(
        "{} belongs to the Python Hermes Agent (its state.db was written by it) and is never written to\nhint: set HERMES_HOME to another folder, or unset it to use ~/.hermes-rs; `hermes import FOLDER` copies it",
        root.display()
    )]
    PythonHome {
        /// The folder.
        root: PathBuf,
    },
    /// The path of the home folder is something else than a folder.
    #[error("{} is not a folder\nhint: move it away or set HERMES_HOME to another folder", root.display())]
    NotAFolder {
        /// The path.
        root: PathBuf,
    },
    /// The name cannot be one of a profile.
    #[error(
        "\"{name}\" is no name for a profile\nhint: small letters, digits, - and _, at most 64, beginning with a letter or digit"
    )]
    ProfileName {
        /// The name.
        name: String,
    },
    /// There is no such profile.
    #[error(
        "no profile \"{name}\"; there are: {known}\nhint: make it with `hermes profile create {name}`"
    )]
    NoProfile {
        /// The name.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// The name is taken.
    #[error(
        "there is a profile \"{name}\" already\nhint: choose another name, or see `hermes profile list`"
    )]
    ProfileExists {
        /// The name.
        name: String,
    },
    /// The root home is no profile that can go.
    #[error(
        "the profile default is the home itself and cannot be {what}\nhint: name another profile"
    )]
    RootProfile {
        /// What was wanted.
        what: &'static str,
    },
    /// The operating system refused.
    #[error("cannot use the home folder: {}: {source}\nhint: check that you may write there, or set HERMES_HOME", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A place in a text file; lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Something wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file and the place in it; None for a variable or a flag.
    pub at: Option<(PathBuf, Place)>,
    /// The dotted key, or the name of the variable.
    pub key: String,
    /// What is wrong: what was found, what is wanted.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl Problem {
    /// A problem at a place in a file.
    pub(crate) fn at(
        file: &Path,
        place: Place,
        key: impl Into<String>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            at: Some((file.to_owned(), place)),
            key: key.into(),
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// A problem of a variable or of the settings as a whole.
    pub(crate) fn general(
        key: impl Into<String>,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { at: None, key: key.into(), what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            // The file as a whole.
            Some((file, place)) if *place == Place::default() => write!(f, "{}: ", file.display())?,
            Some((file, place)) => write!(f, "{}:{place}: ", file.display())?,
            None => {}
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        if !self.hint.is_empty() {
            write!(f, "\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// The settings cannot be read, understood or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read or written.
    #[error("cannot {doing} {}: {source}\nhint: {hint}", path.display())]
    Io {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
        /// What to do.
        hint: String,
    },
    /// The file is not YAML that can be trusted. Nothing was changed.
    #[error("{}:{place}: {what}\nhint: {hint}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Where.
        place: Place,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// One or more values cannot be understood.
    #[error("{}", join(.0))]
    Invalid(Vec<Problem>),
    /// The settings name no usable endpoint.
    #[error("{what}\nhint: {hint}")]
    Route {
        /// What is missing.
        what: String,
        /// What to do.
        hint: String,
    },
    /// A key command failed.
    #[error(
        "the key command of {owner} failed: {what}\nhint: run it yourself and see that it prints the key, and only the key"
    )]
    KeyCommand {
        /// The provider or key that it belongs to.
        owner: String,
        /// What happened; never its output.
        what: String,
    },
    /// There is no such key.
    #[error("no setting \"{key}\"{}", suggestion(nearest.as_deref()))]
    NoSuchKey {
        /// The key asked for.
        key: String,
        /// The nearest known key.
        nearest: Option<String>,
    },
    /// There is no such variable.
    #[error(
        "{name} is not set, neither in the home's .env nor in the environment\nhint: `hermes config set {name} VALUE` writes it to .env"
    )]
    NoSuchVariable {
        /// The name asked for.
        name: String,
    },
    /// The change cannot be made without risk to the rest of the file. Nothing was changed.
    #[error("cannot set {key} in {}: {why}\nhint: {hint}", path.display())]
    Refused {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
        /// What to do.
        hint: String,
    },
    /// Another process is writing the file.
    #[error("{} is being changed by another process\nhint: try again in a moment", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn suggestion(nearest: Option<&str>) -> String {
    let hint = nearest.map_or_else(
        || "`hermes config show --json` lists every setting".to_owned(),
        |near| format!("did you mean {near}?"),
    );
    format!("\nhint: {hint}")
}
