//! A temporary home and working folder, and the built binary run in them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer, Script};

/// A home and a working folder of their own, gone when dropped.
pub struct Rig {
    folder: tempfile::TempDir,
}

/// What a finished command left.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Rig {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder }
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn work(&self) -> PathBuf {
        // As the process sees it, links resolved.
        fs::canonicalize(self.folder.path().join("work")).unwrap()
    }

    pub fn config(&self, yaml: &str) -> &Self {
        fs::write(self.home().join("config.yaml"), yaml).unwrap();
        self
    }

    /// Configures `server` as the only provider; `more` is appended to the configuration.
    pub fn endpoint(&self, server: &RehearsalServer, more: &str) -> &Self {
        self.config(&format!(
            "model:\n  default: scripted\n  provider: custom\n  base_url: {}\n  api_key: \
             test-not-a-key\n  context_length: 200000\n{more}",
            server.base_url()
        ))
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("HERMES_HOME", self.home())
            .env("TZ", "UTC")
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Runs and demands success; the standard output.
    pub fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "stdout: {}\nstderr: {}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Runs with `--json` output.
    pub fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The rehearsal server in this process.
pub fn serve(script: Option<Script>) -> RehearsalServer {
    Rehearsal::start(RehearsalOptions { script, ..RehearsalOptions::default() }).unwrap()
}

/// A script from a case's folder under `tests/cases`.
pub fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}
