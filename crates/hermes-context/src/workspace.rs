//! Where a session works: its directory, the git root above it and the branch.
//!
//! Invariant: no process is started; `.git` is read as a folder or, in a worktree or submodule, as
//! the file that points to one.

use std::fs;
use std::path::{Path, PathBuf};

/// Identity of a workspace. State of the session, compared as columns on resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The nearest folder upward that holds `.git`.
    pub git_root: Option<PathBuf>,
    /// The branch that is checked out; of a detached head the first twelve digits of its commit.
    pub git_branch: Option<String>,
}

impl Workspace {
    /// Looks at `cwd` and the folders above it.
    pub fn discover(cwd: &Path) -> Self {
        let cwd = std::path::absolute(cwd).unwrap_or_else(|_| cwd.to_owned());
        let found = cwd.ancestors().find_map(|folder| {
            let git = git_dir(folder)?;
            Some((folder.to_owned(), git))
        });
        let (git_root, git_branch) = match found {
            Some((root, git)) => (Some(root), branch(&git)),
            None => (None, None),
        };
        Self { cwd, git_root, git_branch }
    }

    /// The git root, or the working directory where there is none.
    pub fn root(&self) -> &Path {
        self.git_root.as_deref().unwrap_or(&self.cwd)
    }

    /// `path` as it is shown to people and models: relative to the root where it lies inside.
    pub fn label(&self, path: &Path) -> String {
        let shown = path.strip_prefix(self.root()).unwrap_or(path);
        shown.display().to_string().replace('\\', "/")
    }
}

/// The git folder that `folder/.git` is or points to.
fn git_dir(folder: &Path) -> Option<PathBuf> {
    let dot_git = folder.join(".git");
    let kind = fs::metadata(&dot_git).ok()?;
    if kind.is_dir() {
        return Some(dot_git);
    }
    if !kind.is_file() || kind.len() > 4096 {
        return None;
    }
    let text = fs::read_to_string(&dot_git).ok()?;
    let target = text.trim_end().strip_prefix("gitdir:")?.trim();
    Some(folder.join(target))
}

fn branch(git: &Path) -> Option<String> {
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let head = head.trim();
    match head.strip_prefix("ref:") {
        Some(name) => {
            let name = name.trim();
            Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned())
        }
        None => head.get(..12).map(ToOwned::to_owned),
    }
}
