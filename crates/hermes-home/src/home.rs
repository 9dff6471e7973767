//! The home folder: where it is and what lies where in it.
//!
//! Invariant: a folder whose store was written by the Python program is never chosen for writing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::HomeError;

/// The process's environment, captured once by the binary.
pub type ProcessVars = BTreeMap<String, String>;

/// The environment of this process. A value that is no Unicode is taken with its odd bytes
/// replaced; a name that is none is left out.
pub fn process_vars() -> ProcessVars {
    readable(std::env::vars_os())
}

fn readable(vars: impl Iterator<Item = (OsString, OsString)>) -> ProcessVars {
    vars.filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    })
    .collect()
}

/// SQLite's `application_id` of our own stores: the letters `HRMS`.
pub const STORE_APPLICATION_ID: u32 = 0x4852_4d53;

/// A home folder and the profile that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    profile: String,
}

/// A home folder and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeChoice {
    /// The folder.
    pub home: Home,
    /// Why.
    pub reason: HomeReason,
}

/// Why a home folder was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeReason {
    /// `HERMES_HOME` names it.
    Variable,
    /// It is the default, `~/.hermes`.
    Default,
    /// It is `~/.hermes-rs`, because the default belongs to the Python program. To be said once.
    BesidePython {
        /// The folder of the Python program.
        python_home: PathBuf,
    },
}

impl HomeReason {
    /// What the person should be told once, if anything.
    pub fn notice(&self, home: &Home) -> Option<String> {
        match self {
            Self::Variable | Self::Default => None,
            Self::BesidePython { python_home } => Some(format!(
                "{} belongs to the Python Hermes Agent and is left alone; {} is used\nhint: `hermes import FOLDER` copies the old home; HERMES_HOME names another folder",
                python_home.display(),
                home.root().display()
            )),
        }
    }
}

#[cfg(windows)]
const HOME_VARIABLE: &str = "USERPROFILE";
#[cfg(not(windows))]
const HOME_VARIABLE: &str = "HOME";

impl Home {
    /// The home at `root`. A folder `.../profiles/NAME` stands for the profile NAME.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let in_profiles = root.parent().and_then(Path::file_name).is_some_and(|n| n == "profiles");
        let profile = root
            .file_name()
            .filter(|_| in_profiles)
            .map_or_else(|| "default".to_owned(), |name| name.to_string_lossy().into_owned());
        Self { root, profile }
    }

    /// `HERMES_HOME`, else `~/.hermes`, else (if that one is the Python program's) `~/.hermes-rs`.
    ///
    /// # Errors
    /// If no folder is known, the variable that counts is no Unicode, or `HERMES_HOME` names a home of the Python program.
    pub fn resolve(vars: &ProcessVars) -> Result<HomeChoice, HomeError> {
        let named = |name: &str| vars.get(name).filter(|value| !value.trim().is_empty());
        // What `process_vars` puts in the place of bytes that are no Unicode. Another folder than
        // the one that was meant must not be made.
        let readable = |variable: &'static str, value: &str| {
            let odd = value.contains(char::REPLACEMENT_CHARACTER);
            if odd { Err(HomeError::NotUnicode { variable }) } else { Ok(()) }
        };
        let user_home = named(HOME_VARIABLE).map(PathBuf::from);
        if let Some(value) = named("HERMES_HOME") {
            readable("HERMES_HOME", value)?;
            let root = expand_tilde(value.trim(), user_home.as_deref());
            let root = std::path::absolute(&root).unwrap_or(root);
            if is_python_home(&root)? {
                return Err(HomeError::PythonHome { root });
            }
            return Ok(HomeChoice { home: Self::at(root), reason: HomeReason::Variable });
        }
        let user_home = user_home.ok_or(HomeError::Unknown { variable: HOME_VARIABLE })?;
        readable(HOME_VARIABLE, &user_home.to_string_lossy())?;
        let default = user_home.join(".hermes");
        if !is_python_home(&default)? {
            return Ok(HomeChoice { home: Self::at(default), reason: HomeReason::Default });
        }
        let beside = user_home.join(".hermes-rs");
        if is_python_home(&beside)? {
            return Err(HomeError::PythonHome { root: beside });
        }
        let reason = HomeReason::BesidePython { python_home: default };
        Ok(HomeChoice { home: Self::at(beside), reason })
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The profile's name; `default` for a root home.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// The settings.
    pub fn config_path(&self) -> PathBuf {
        self.root.join("config.yaml")
    }

    /// The secrets.
    pub fn env_path(&self) -> PathBuf {
        self.root.join(".env")
    }

    /// The store.
    pub fn store_path(&self) -> PathBuf {
        self.root.join("state.db")
    }

    /// The agent's identity.
    pub fn soul_path(&self) -> PathBuf {
        self.root.join("SOUL.md")
    }

    /// The folder of the memory files.
    pub fn memories_dir(&self) -> PathBuf {
        self.root.join("memories")
    }

    /// The agent's memory.
    pub fn memory_path(&self) -> PathBuf {
        self.memories_dir().join("MEMORY.md")
    }

    /// What is known of the person.
    pub fn user_path(&self) -> PathBuf {
        self.memories_dir().join("USER.md")
    }

    /// The skills.
    pub fn skills_dir(&self) -> PathBuf {
        self.root.join("skills")
    }

    /// The capsules of closed sessions.
    pub fn handoffs_dir(&self) -> PathBuf {
        self.root.join("handoffs")
    }

    /// Drafts of answers that are being streamed.
    pub fn drafts_dir(&self) -> PathBuf {
        self.root.join("drafts")
    }

    /// Batches that could not be written to the store yet.
    pub fn spool_dir(&self) -> PathBuf {
        self.root.join("spool")
    }

    /// Whole outputs of commands whose results left something out.
    pub fn outputs_dir(&self) -> PathBuf {
        self.root.join("outputs")
    }

    /// The logs.
    pub fn logs_dir(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The lines typed in the REPL.
    pub fn history_path(&self) -> PathBuf {
        self.root.join("history.txt")
    }

    /// Makes the root folder, private to its owner, if it is missing: one look when it exists.
    ///
    /// # Errors
    /// If the path is not a folder or cannot be made.
    pub fn ensure(&self) -> Result<(), HomeError> {
        match fs::metadata(&self.root) {
            Ok(meta) if meta.is_dir() => return self.check_folders(),
            Ok(_) => return Err(HomeError::NotAFolder { root: self.root.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(HomeError::Io { path: self.root.clone(), source }),
        }
        crate::fsio::create_private_dir(&self.root)
            .map_err(|source| HomeError::Io { path: self.root.clone(), source })
    }

    /// The folders that every turn writes to must not be files.
    fn check_folders(&self) -> Result<(), HomeError> {
        let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| !meta.is_dir());
        match [self.drafts_dir(), self.spool_dir()].into_iter().find(is_file) {
            Some(root) => Err(HomeError::NotAFolder { root }),
            None => Ok(()),
        }
    }
}

fn expand_tilde(value: &str, user_home: Option<&Path>) -> PathBuf {
    match (value.strip_prefix('~'), user_home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with(['/', '\\']) => {
            home.join(rest.trim_start_matches(['/', '\\']))
        }
        _ => PathBuf::from(value),
    }
}

/// Whether the folder's store was written by the Python program.
fn is_python_home(root: &Path) -> Result<bool, HomeError> {
    let path = root.join("state.db");
    is_python_store(&path).map_err(|source| HomeError::Io { path, source })
}

/// `application_id` of the Python program's newer stores; its older ones have none.
const PYTHON_APPLICATION_ID: u32 = 0x4c43_97b9;

/// Whether the file is an SQLite store of the Python program: its `application_id` says so, or is
/// not ours and the text of its schema, or of a write-ahead log that holds it still, names
/// `schema_version`.
///
/// # Errors
/// If the file is there but cannot be read.
pub fn is_python_store(path: &Path) -> io::Result<bool> {
    /// Bytes at the start that may hold the schema: 64 pages of SQLite's default size.
    const WINDOW: u64 = 64 * 4096;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut header = [0; 100];
    if let Err(error) = file.read_exact(&mut header) {
        // Shorter than a header: nothing was written yet, unless the log beside it holds it all.
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                names_schema_version(&with_suffix(path, "-wal"), WINDOW)
            }
            _ => Err(error),
        };
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Ok(false);
    }
    match u32::from_be_bytes([header[68], header[69], header[70], header[71]]) {
        STORE_APPLICATION_ID => return Ok(false),
        PYTHON_APPLICATION_ID => return Ok(true),
        _ => {}
    }
    Ok(names_schema_version(path, WINDOW)?
        || names_schema_version(&with_suffix(path, "-wal"), WINDOW)?)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn names_schema_version(path: &Path, window: u64) -> io::Result<bool> {
    const NEEDLE: &[u8] = b"schema_version";
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(window).read_to_end(&mut bytes)?;
    Ok(bytes.windows(NEEDLE.len()).any(|chunk| chunk == NEEDLE))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_variable_that_is_no_text_stops_nothing() {
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let vars = [(os(b"PATH"), os(b"/a:/b\xff")), (os(b"X\xff"), os(b"1"))];
        let expected = ProcessVars::from([("PATH".to_owned(), "/a:/b\u{fffd}".to_owned())]);
        assert_eq!(readable(vars.into_iter()), expected);
    }
}
