//! Paths as the model writes them: where they lead, how they are shown, what may be read and
//! written there.
//!
//! Invariants: rules are applied to where a path really leads, symbolic links followed, as well as
//! to how it is written; a write never leaves the working directory through a link.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Where relative paths start and which folders have rules of their own.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    cwd: PathBuf,
    real_cwd: PathBuf,
    user_home: Option<PathBuf>,
    homes: Vec<PathBuf>,
}

/// A path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    /// Absolute, as written; for receipts and nested project files.
    pub written: PathBuf,
    /// Where it leads; for opening and for rules.
    pub real: PathBuf,
    /// For results: relative where it is inside the working directory.
    pub shown: String,
}

/// Systems' own folders: never written to.
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/sbin",
    "/sys",
    "/usr/bin",
    "/usr/lib",
    "/usr/sbin",
    "/System",
    "/private/etc",
    "/var/spool/cron",
    "/private/var/at",
];

/// Folders of the system that may hold a person's work: written to only below the working directory.
const SHARED: &[&str] = &["/usr", "/var", "/opt", "/run", "/Library", "/private/var", "/srv"];

/// What looks like a file and makes its reader wait for ever.
const ENDLESS: &[&str] = &["proc/kmsg", "tracing/trace_pipe"];

/// Exceptions from both.
const SCRATCH: &[&str] =
    &["/dev/shm", "/var/tmp", "/var/folders", "/private/var/folders", "/private/var/tmp"];

/// Folders that hold keys, wherever they are. Neither written nor read.
const KEY_FOLDERS: &[&str] = &[".ssh", ".gnupg"];

/// Files in a key folder that hold no secret.
const OPEN_KEY_FILES: &[&str] = &["known_hosts", "config", "authorized_keys"];

/// Files of the person's home that hold secrets. Neither written nor read.
const SECRET_FILES: &[&str] = &[
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".aws/credentials",
    ".docker/config.json",
    ".kube/config",
    ".config/gh/hosts.yml",
    ".config/gcloud/application_default_credentials.json",
    ".config/gcloud/credentials.db",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".vault-token",
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".azure/msal_token_cache.json",
];

/// Files of the person's home that run code at the next login. Not written.
const START_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".xinitrc",
    ".xprofile",
    ".gitconfig",
    ".config/fish/config.fish",
    ".config/autostart",
    "Library/LaunchAgents",
    ".config/systemd",
];

/// What belongs to this program in its home: changed through commands, not through files.
const OWN_FILES: &[&str] = &[
    "config.yaml",
    ".env",
    "auth.json",
    "state.db",
    "history.txt",
    "spool",
    "drafts",
    "logs",
    "outputs",
    "locks",
    "handoffs",
    "plugins",
    "hooks",
];

/// Of these, what a model must not read.
const OWN_SECRETS: &[&str] = &[".env", "auth.json"];

/// Of a home of this program, what is there to be read and edited as it stands. Everything else in
/// it may repeat a key (settings, their copies, logs, hooks) and is shown masked.
const OWN_OPEN: &[&str] = &["soul.md", "memories", "skills", "outputs"];

impl Paths {
    /// Paths seen from `cwd`.
    pub(crate) fn new(cwd: &Path, user_home: Option<&Path>, hermes_home: &Path) -> Self {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let user_home = user_home.map(real);
        let mut homes = vec![real(hermes_home)];
        for name in [".hermes", ".hermes-rs"] {
            homes.extend(user_home.as_ref().map(|home| real(&home.join(name))));
        }
        Self { cwd: cwd.to_owned(), real_cwd: real(cwd), user_home, homes }
    }

    /// The working directory.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Finds out where `text` leads.
    pub(crate) fn locate(&self, text: &str) -> Result<Located, String> {
        if text.trim().is_empty() {
            return Err("the path is empty".to_owned());
        }
        if text.contains('\0') {
            return Err("the path holds a NUL character".to_owned());
        }
        let expanded = match (text.strip_prefix('~'), &self.user_home) {
            (Some(""), Some(home)) => home.clone(),
            (Some(rest), Some(home)) if rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(text),
        };
        let joined = self.cwd.join(expanded);
        let real = real_path(&joined)?;
        Ok(Located { written: fold(&joined), shown: self.shown(&real), real })
    }

    /// A path as results show it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let inside =
            [&self.real_cwd, &self.cwd].into_iter().find_map(|cwd| path.strip_prefix(cwd).ok());
        match inside {
            Some(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Some(rest) => rest.display().to_string(),
            None => path.display().to_string(),
        }
    }

    /// Why the model must not read this; None if it may.
    pub(crate) fn read_refusal(&self, real: &Path) -> Option<&'static str> {
        if self.is_secret(real) {
            return Some("it holds secrets (keys, tokens or passwords)");
        }
        if ENDLESS.iter().any(|path| real.ends_with(path)) {
            return Some("reading it never ends");
        }
        let text = real.to_string_lossy();
        let in_proc = text.strip_prefix("/proc/").is_some_and(|rest| {
            ["/environ", "/mem", "/auxv"].iter().any(|end| rest.ends_with(end))
        });
        in_proc.then_some("it shows the memory or environment of a process")
    }

    /// Why nothing may be written here; None if it may.
    pub(crate) fn write_refusal(&self, at: &Located) -> Option<&'static str> {
        let real = at.real.as_path();
        let below = |folders: &[&str]| folders.iter().any(|folder| real.starts_with(folder));
        let in_cwd = real.starts_with(&self.real_cwd);
        if self.is_secret(real) || has_component(real, KEY_FOLDERS) {
            return Some("it holds keys or secrets");
        }
        if !below(SCRATCH) && (below(SYSTEM) || (below(SHARED) && !in_cwd)) {
            return Some("it is a folder of the system");
        }
        if self.in_user_home(real, START_FILES) {
            return Some("it runs code when the person logs in or uses git");
        }
        if self.in_own_home(real, OWN_FILES) {
            return Some("it belongs to this program; use the `hermes` commands");
        }
        let mut parts = real.components().map(|part| lower(part.as_os_str()));
        if parts.any(|part| part == ".git")
            && parts.next().is_some_and(|part| part == "hooks" || part == "config")
        {
            return Some("it makes git run code");
        }
        let written_inside =
            at.written.starts_with(&self.cwd) || at.written.starts_with(&self.real_cwd);
        if written_inside && !in_cwd {
            return Some("a symbolic link leads out of the working directory");
        }
        None
    }

    /// Whether secrets in this file are masked before the model sees it.
    pub(crate) fn is_masked(&self, real: &Path) -> bool {
        let in_home = self.homes.iter().any(|home| real.starts_with(home));
        // A project may lie in the home; what belongs to the home itself is masked even then.
        let in_work = real.starts_with(&self.real_cwd)
            && !self
                .homes
                .iter()
                .any(|home| home.starts_with(&self.real_cwd) || *home == self.real_cwd);
        in_home
            && !self.in_own_home(real, OWN_OPEN)
            && (!in_work || self.in_own_home(real, OWN_FILES))
    }

    fn is_secret(&self, real: &Path) -> bool {
        let name = real.file_name().map(lower).unwrap_or_default();
        let open = OPEN_KEY_FILES.contains(&name.as_str())
            || Path::new(&name).extension().is_some_and(|end| end == "pub");
        (has_component(real, KEY_FOLDERS) && !open && !is_key_folder(&name))
            || self.in_user_home(real, SECRET_FILES)
            || self.in_own_home(real, OWN_SECRETS)
    }

    fn in_user_home(&self, real: &Path, names: &[&str]) -> bool {
        let rest = self.user_home.as_ref().and_then(|home| real.strip_prefix(home).ok());
        rest.is_some_and(|rest| names.iter().any(|name| begins(rest, name)))
    }

    /// In a home of this program, or in a profile below one.
    fn in_own_home(&self, real: &Path, names: &[&str]) -> bool {
        self.homes.iter().filter_map(|home| real.strip_prefix(home).ok()).any(|rest| {
            let mut parts = rest.components();
            let profile = parts.next().is_some_and(|part| part.as_os_str() == "profiles");
            let inner = if profile {
                parts.next();
                parts.as_path()
            } else {
                rest
            };
            let first = inner.components().next().map(|part| lower(part.as_os_str()));
            first.is_some_and(|first| {
                // `state.db-wal` and `config.yaml.bak` belong to their files.
                names.iter().any(|name| {
                    first == *name
                        || first.strip_prefix(name).is_some_and(|r| r.starts_with(['-', '.', '~']))
                })
            })
        })
    }
}

fn is_key_folder(name: &str) -> bool {
    KEY_FOLDERS.contains(&name)
}

fn lower(name: &std::ffi::OsStr) -> String {
    name.to_string_lossy().to_lowercase()
}

fn has_component(path: &Path, names: &[&str]) -> bool {
    path.components().any(|part| names.contains(&lower(part.as_os_str()).as_str()))
}

/// Whether `path` is `name` or below it, letter case aside (some systems do not tell it apart).
fn begins(path: &Path, name: &str) -> bool {
    PathBuf::from(lower(path.as_os_str())).starts_with(name.to_lowercase())
}

/// The path without `.` and `..`, by its text.
fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                folded.pop();
            }
            Component::CurDir => {}
            part => folded.push(part),
        }
    }
    folded
}

/// Where the path leads: the part that exists with its links followed, then the rest.
fn real_path(path: &Path) -> Result<PathBuf, String> {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match std::fs::canonicalize(there) {
            Ok(real) => {
                let rest: PathBuf = missing.iter().rev().collect();
                return Ok(fold(&real.join(rest)));
            }
            Err(error) => {
                let is_link = std::fs::symlink_metadata(there).is_ok_and(|m| m.is_symlink());
                if is_link && error.kind() == ErrorKind::NotFound {
                    return Err(format!(
                        "{} is a symbolic link that leads nowhere",
                        there.display()
                    ));
                }
                let (Some(parent), Some(last)) = (there.parent(), there.components().next_back())
                else {
                    return Ok(fold(path));
                };
                missing.push(last.as_os_str().to_owned());
                there = parent;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rig() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["user/.ssh", "user/work/.git/hooks", "user/.hermes/profiles/two", "out"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let paths = Paths::new(
            &root.join("user/work"),
            Some(&root.join("user")),
            &root.join("user/.hermes"),
        );
        (dir, paths)
    }

    #[test]
    fn paths_are_found_and_shown_from_the_working_directory() {
        let (dir, paths) = rig();
        let root = dir.path().canonicalize().unwrap();
        for (text, shown) in [
            ("a.txt", "a.txt".to_owned()),
            ("./new/deep/../b", "new/b".to_owned()),
            (".", ".".to_owned()),
            ("~/x", root.join("user/x").display().to_string()),
            ("../y", root.join("user/y").display().to_string()),
            ("~", root.join("user").display().to_string()),
        ] {
            assert_eq!(paths.locate(text).unwrap().shown, shown, "{text}");
        }
        for text in ["", "  ", "a\0b"] {
            assert!(paths.locate(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn secrets_are_neither_read_nor_written() {
        let (_dir, paths) = rig();
        for text in [
            "~/.ssh/id_ed25519",
            "~/.SSH/id_rsa",
            "~/.hermes/.env",
            "~/.hermes/auth.json",
            "~/.hermes/.env.bak",
            "~/.hermes/profiles/two/.env",
            "~/.aws/credentials",
            "~/.netrc",
            "deep/.gnupg/secring",
            "../.hermes/.env",
        ] {
            let at = paths.locate(text).unwrap();
            assert!(paths.read_refusal(&at.real).is_some(), "read {text}");
            assert!(paths.write_refusal(&at).is_some(), "write {text}");
        }
        assert!(paths.read_refusal(Path::new("/proc/1/environ")).is_some());
    }

    #[test]
    fn some_places_may_be_read_but_not_written() {
        let (_dir, paths) = rig();
        for text in [
            "/etc/hosts",
            "/usr/bin/env",
            "/usr/share/x",
            "/var/lib/x",
            "/dev/sda",
            "~/.bashrc",
            "~/.zshrc",
            "~/.ssh/config",
            "~/.ssh/key.pub",
            "~/.hermes/config.yaml",
            "~/.hermes/state.db-wal",
            "~/.hermes/profiles/two/config.yaml",
            ".git/hooks/pre-commit",
            ".git/config",
            "~/.config/fish/config.fish",
        ] {
            let at = paths.locate(text).unwrap();
            assert_eq!(paths.read_refusal(&at.real), None, "read {text}");
            assert!(paths.write_refusal(&at).is_some(), "write {text}");
        }
        for text in [
            "a",
            "../b",
            ".env",
            ".gitignore",
            ".github/config",
            "~/.hermes/SOUL.md",
            "~/.hermes/memories/MEMORY.md",
            "~/.hermes/skills/x/SKILL.md",
            "/var/tmp/x",
        ] {
            let at = paths.locate(text).unwrap();
            assert_eq!(paths.write_refusal(&at), None, "write {text}");
            assert_eq!(paths.read_refusal(&at.real), None, "read {text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_judged_by_where_they_lead() {
        let (dir, paths) = rig();
        let root = dir.path().canonicalize().unwrap();
        let link = |to: &str, from: &str| {
            std::os::unix::fs::symlink(root.join(to), root.join("user/work").join(from)).unwrap();
        };
        link("out", "exit");
        link("user/.hermes/.env", "innocent");
        std::fs::write(root.join("user/.hermes/.env"), "X=1").unwrap();
        link("user/work/inside", "fine");
        std::fs::create_dir(root.join("user/work/inside")).unwrap();
        link("nowhere", "dangling");
        let refused = |text: &str| paths.write_refusal(&paths.locate(text).unwrap());
        assert_eq!(
            refused("exit/new.txt"),
            Some("a symbolic link leads out of the working directory")
        );
        assert!(refused("innocent").is_some());
        assert!(paths.read_refusal(&paths.locate("innocent").unwrap().real).is_some());
        assert_eq!(refused("fine/new.txt"), None);
        assert!(paths.locate("dangling").unwrap_err().contains("leads nowhere"));
        assert!(paths.locate("dangling/x").unwrap_err().contains("leads nowhere"));
    }
}
