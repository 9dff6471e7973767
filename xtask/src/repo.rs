//! The repository as text: every file that a rule may want to read, by its relative path.
//!
//! Read once, so that a check is a function from texts to findings and its test needs no folder.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing written by hand.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "__pycache__", ".venv"];

/// Kinds of files that rules read.
const READ: &[&str] = &["rs", "py", "toml", "lock", "md", "sh", "sql"];

/// Files without such an ending that rules read.
const READ_NAMES: &[&str] = &["run"];

/// One text file.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Path relative to the root, with forward slashes on every platform.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl TextFile {
    /// Whether its name ends in `.` and this.
    pub fn is(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == ending)
    }

    /// Its lines with their numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// All text files of the repository.
#[derive(Clone, Debug)]
pub struct Repo {
    /// Where it is; empty in tests.
    pub root: PathBuf,
    /// Its files in order of their paths.
    pub files: Vec<TextFile>,
}

impl Repo {
    /// Finds the repository that this was started in and reads it.
    pub fn find() -> Result<Self, String> {
        let start = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(std::env::current_dir, |dir| Ok(PathBuf::from(dir)))
            .map_err(|error| format!("the current folder cannot be read: {error}"))?;
        let root = start
            .ancestors()
            .find(|dir| dir.join("Cargo.lock").is_file())
            .ok_or_else(|| format!("no Cargo.lock in {} or above it", start.display()))?;
        Self::read(root)
    }

    /// Reads the repository at this root.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
            for entry in fs::read_dir(&folder).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if path.is_symlink() {
                    continue;
                }
                if path.is_dir() {
                    if !SKIPPED.contains(&name) {
                        folders.push(path);
                    }
                } else if wanted(&path, name) {
                    let text = fs::read(&path)
                        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                    files.push(TextFile {
                        path: relative(root, &path),
                        text: String::from_utf8_lossy(&text).into_owned(),
                    });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root: root.to_path_buf(), files })
    }

    /// The file at this path.
    pub fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files whose names end in `.` and this.
    pub fn ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = &'a TextFile> {
        self.files.iter().filter(move |file| file.is(ending))
    }

    /// The manifests of the workspace's packages.
    pub fn manifests(&self) -> impl Iterator<Item = &TextFile> {
        self.files
            .iter()
            .filter(|file| file.path.ends_with("/Cargo.toml") && file.text.contains("[package]"))
    }

    /// Files as a test writes them down.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| TextFile { path: (*path).into(), text: (*text).into() })
            .collect();
        Self { root: PathBuf::new(), files }
    }
}

fn wanted(path: &Path, name: &str) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.map_or_else(|| READ_NAMES.contains(&name), |ending| READ.contains(&ending))
}

fn relative(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_found_and_its_build_folder_is_not_read() {
        let repo = Repo::find().unwrap();
        assert!(repo.file("xtask/src/repo.rs").is_some());
        assert!(repo.file("Cargo.lock").is_some());
        assert!(repo.manifests().any(|file| file.path == "xtask/Cargo.toml"));
        assert!(!repo.files.iter().any(|file| file.path.starts_with("target/")));
    }
}
