//! Nested project files: found when a tool touches a path in their folder, and added to that
//! tool's row as parts of their own.
//!
//! Invariants: a function of the file system and what the session's snapshot and view hold, so that
//! a resumed session finds the same, and one whose hint was compacted away finds it again; files of the folders from the root to the working directory are the prompt's,
//! not hints; nothing is read outside the workspace or in folders of other people's code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hermes_core::{Digest, Origin, Part, Snapshot, Verdict, View};

use crate::source_text::{self, SourceProblem};
use crate::{Workspace, cut, project, threat};

/// Characters of one hint.
pub const MAX_CHARACTERS: usize = 32_000;
/// Folders looked at from a touched path upward.
const MAX_LEVELS: usize = 5;
/// Hints of one tool call.
const MAX_HINTS: usize = 8;

/// Names looked for in each folder, the first with content counts.
const NAMES: [&str; 6] =
    ["AGENTS.override.md", "AGENTS.md", "agents.md", "CLAUDE.md", "claude.md", ".cursorrules"];

/// Folders that hold other people's code, or results.
const EXCLUDED: &[&str] = &[
    ".git",
    ".hg",
    ".svn",
    "node_modules",
    "venv",
    ".venv",
    "site-packages",
    "dist-packages",
    "vendor",
    "third_party",
    "build",
    "dist",
    "target",
    "out",
    "coverage",
    ".next",
    ".turbo",
    ".archive",
    "cache",
    ".cache",
    "caches",
    "__pycache__",
    "backups",
];

/// A nested project file for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its path as it is shown, relative to the workspace's root: the part's label.
    pub label: String,
    /// The text for the model.
    pub text: String,
    /// Digest of its bytes.
    pub digest: Digest,
    /// The touched path in whose folder or above it was found.
    pub caused_by: PathBuf,
    /// Whether it is whole.
    pub verdict: Verdict,
    /// What the person should know.
    pub warnings: Vec<String>,
}

/// Digests of what the model has been given: the project files of the prompt, by their bytes, and
/// the hints that the view still shows, by their texts.
pub fn known_in(snapshot: &Snapshot, view: &View) -> BTreeSet<Digest> {
    let is_project = |id: &str| id.split(':').next() == Some("project");
    let blocks = snapshot.blocks.iter().filter(|block| is_project(&block.id));
    let mut known: BTreeSet<Digest> =
        blocks.filter(|block| block.verdict.is_in()).map(|block| block.source_digest).collect();
    let parts = view.rows.iter().flat_map(|shown| &shown.row.parts);
    let hints = parts.filter(|part| part.origin == Origin::Hint).filter_map(Part::as_text);
    known.extend(hints.map(Digest::of));
    known
}

/// Looks for nested project files in the folders of `touched` and above, up to the workspace's
/// root. `known` is what [`known_in`] says. Nothing is found in home-like folders.
pub fn discover(
    workspace: &Workspace,
    touched: &[impl AsRef<Path>],
    known: &BTreeSet<Digest>,
) -> Vec<Hint> {
    if is_home_like(workspace, std::env::home_dir().as_deref()) {
        return Vec::new();
    }
    let mut known = known.clone();
    let mut seen = BTreeSet::new();
    let mut hints = Vec::new();
    for cause in touched.iter().map(AsRef::as_ref) {
        for folder in folders(workspace, cause) {
            if hints.len() >= MAX_HINTS {
                return hints;
            }
            if !seen.insert(folder.clone()) {
                continue;
            }
            if let Some(hint) = hint_in(workspace, &folder, cause, &mut known) {
                hints.push(hint);
            }
        }
    }
    hints
}

/// The nested project files of the workspace, whether or not anything touched their folders, by
/// path; for people who look for a text. At most `entries` folder entries are looked at.
pub fn nested_files(workspace: &Workspace, entries: usize) -> Vec<PathBuf> {
    let mut left = entries;
    let mut found = Vec::new();
    let mut open = vec![workspace.root().to_owned()];
    while let Some(folder) = open.pop() {
        let Ok(inside) = fs::read_dir(&folder) else { continue };
        for entry in inside.flatten() {
            if left == 0 {
                break;
            }
            left -= 1;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if !EXCLUDED.iter().any(|name| entry.file_name() == *name) {
                    open.push(path);
                }
            } else if is_hint_name(&path) && !workspace.cwd.starts_with(&folder) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Whether hints are off here: without a repository, in a person's home folder, at the root of a
/// file system or in a folder that holds the homes or work of many.
pub fn is_home_like(workspace: &Workspace, home: Option<&Path>) -> bool {
    let cwd = &workspace.cwd;
    if home.is_some_and(|home| home == workspace.root()) {
        return true;
    }
    workspace.git_root.is_none()
        && (cwd.parent().is_none()
            || ["/home", "/root", "/Users", "/workspace", "/tmp", "/mnt", "/srv", "/opt"]
                .iter()
                .any(|name| cwd == Path::new(name)))
}

/// Whether a file of this name can be a hint.
pub(crate) fn is_hint_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| NAMES.iter().any(|hint| name == *hint))
}

/// The folders to look at for a touched path, nearest to the root first.
fn folders(workspace: &Workspace, touched: &Path) -> Vec<PathBuf> {
    let path = plain(&workspace.cwd.join(touched));
    let start = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
    let root = workspace.root();
    let mut folders: Vec<PathBuf> = start
        .into_iter()
        .flat_map(Path::ancestors)
        .take_while(|folder| folder.starts_with(root))
        // From here up to the root, they are in the prompt.
        .take_while(|folder| !workspace.cwd.starts_with(folder))
        .take(MAX_LEVELS)
        .map(Path::to_owned)
        .collect();
    let excluded = |folder: &PathBuf| {
        let inside = folder.strip_prefix(root).unwrap_or(folder);
        inside.components().any(|part| EXCLUDED.iter().any(|name| part.as_os_str() == *name))
    };
    folders.retain(|folder| !excluded(folder));
    folders.reverse();
    folders
}

/// `path` without `.` and `..`, by name alone.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

fn hint_in(
    workspace: &Workspace,
    folder: &Path,
    cause: &Path,
    known: &mut BTreeSet<Digest>,
) -> Option<Hint> {
    for name in NAMES {
        let path = folder.join(name);
        let label = workspace.label(&path);
        let source = match source_text::read_inside(&path, workspace.root()) {
            Ok(source) if source.text.trim().is_empty() => continue,
            Ok(source) => source,
            Err(SourceProblem::Missing) if fs::symlink_metadata(&path).is_err() => continue,
            Err(problem) => {
                tracing::info!(path = %path.display(), %problem, "nested project file not read");
                continue;
            }
        };
        let mut warnings: Vec<String> =
            source.notes.iter().map(|note| format!("{}: {note}", path.display())).collect();
        let screened = threat::screen(&source.text);
        warnings.extend(project::threat_warnings(&path, &screened));
        let verdict =
            if screened.removed.is_empty() { Verdict::Loaded } else { project::flagged(&screened) };
        let (text, verdict) = match cut::cut(screened.text.trim(), MAX_CHARACTERS, &label) {
            Some(cut) => (cut.text, Verdict::Truncated { kept: cut.kept, total: cut.total }),
            None => (screened.text.trim().to_owned(), verdict),
        };
        let digests = [source.digest, Digest::of(&text)];
        if digests.iter().any(|digest| known.contains(digest)) {
            return None;
        }
        known.extend(digests);
        let (digest, caused_by) = (source.digest, cause.to_owned());
        return Some(Hint { path, label, text, digest, caused_by, verdict, warnings });
    }
    None
}

/// The paths in a command line that a shell would be given: words with a slash or a dot in them,
/// and where it changes folder to. No flags, addresses or assignments.
pub fn paths_in_command(command: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut changes_folder = false;
    let separators =
        |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '<' | '>' | '(' | ')');
    for word in command.split(separators) {
        let word = word.trim_matches(['"', '\'', '`', ',']);
        if word.is_empty() {
            continue;
        }
        let takes = std::mem::replace(&mut changes_folder, matches!(word, "cd" | "pushd"));
        let is_path = (word.contains('/') || word.contains('.'))
            && !word.starts_with('-')
            && !word.contains("://")
            && !word.starts_with("git@")
            && !word.contains(['$', '*', '=']);
        if is_path || (takes && !word.starts_with(['-', '$', '~'])) {
            paths.push(PathBuf::from(word));
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        folder: tempfile::TempDir,
        workspace: Workspace,
    }

    /// A repository with the given files; the working directory is its root.
    fn fixture(files: &[(&str, &str)]) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".git")).unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let workspace = Workspace::discover(folder.path());
        Fixture { folder, workspace }
    }

    fn check(files: &[(&str, &str)], touched: &[&str], expected: &[(&str, &str)]) {
        let Fixture { folder: _folder, workspace } = fixture(files);
        let touched: Vec<PathBuf> = touched.iter().map(PathBuf::from).collect();
        let hints = discover(&workspace, &touched, &BTreeSet::new());
        let found: Vec<(&str, &str)> =
            hints.iter().map(|hint| (hint.label.as_str(), hint.text.as_str())).collect();
        assert_eq!(found, expected);
        // What is in the store of a delivered hint is its text.
        let known: BTreeSet<Digest> = hints.iter().map(|hint| Digest::of(&hint.text)).collect();
        assert_eq!(discover(&workspace, &touched, &known), []);
        let known: BTreeSet<Digest> = hints.iter().map(|hint| hint.digest).collect();
        assert_eq!(discover(&workspace, &touched, &known), []);
    }

    #[test]
    fn files_of_folders_below_the_working_directory_are_found_outer_first() {
        let files = [
            ("AGENTS.md", "root"),
            ("a/AGENTS.md", "outer\n"),
            ("a/b/CLAUDE.md", "inner"),
            ("a/b/c/x.rs", ""),
            ("copy/AGENTS.md", "outer\n"),
            ("empty/AGENTS.override.md", " \n"),
            ("empty/AGENTS.md", "used"),
            ("node_modules/m/AGENTS.md", "foreign"),
        ];
        check(&files, &["x.rs"], &[]);
        check(&files, &["a/b/c/x.rs"], &[("a/AGENTS.md", "outer"), ("a/b/CLAUDE.md", "inner")]);
        check(&files, &["a/new.rs", "copy/x"], &[("a/AGENTS.md", "outer")]);
        check(
            &files,
            &["a/../empty/./x", "a"],
            &[("empty/AGENTS.md", "used"), ("a/AGENTS.md", "outer")],
        );
        check(&files, &["node_modules/m/index.js", "../elsewhere/x"], &[]);
    }

    #[test]
    fn files_in_the_chain_of_the_prompt_and_links_out_of_it_are_no_hints() {
        let Fixture { folder, .. } = fixture(&[
            ("AGENTS.md", "root"),
            ("pkg/AGENTS.md", "pkg"),
            ("pkg/src/AGENTS.md", "src"),
            ("other/AGENTS.md", "other"),
        ]);
        let workspace = Workspace::discover(&folder.path().join("pkg"));
        let labels = |touched: &str| -> Vec<String> {
            let hints = discover(&workspace, &[PathBuf::from(touched)], &BTreeSet::new());
            hints.into_iter().map(|hint| hint.label).collect()
        };
        assert_eq!(labels("src/x.rs"), ["pkg/src/AGENTS.md"]);
        assert_eq!(labels("../other/x.rs"), ["other/AGENTS.md"]);
        assert_eq!(labels("x.rs"), [""; 0]);

        #[cfg(unix)]
        {
            let outside = tempfile::tempdir().unwrap();
            fs::write(outside.path().join("AGENTS.md"), "stolen").unwrap();
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(outside.path(), link).unwrap();
            assert_eq!(labels("../link/x"), [""; 0]);
        }
    }

    #[test]
    fn homes_have_no_hints_but_repositories_in_them_do() {
        let at = |cwd: &str, root: Option<&str>| Workspace {
            cwd: PathBuf::from(cwd),
            git_root: root.map(PathBuf::from),
            git_branch: None,
        };
        let home = Some(Path::new("/home/p"));
        assert!(is_home_like(&at("/home/p", None), home));
        assert!(is_home_like(&at("/home/p/x", Some("/home/p")), home));
        assert!(is_home_like(&at("/", None), home));
        assert!(is_home_like(&at("/tmp", None), home));
        assert!(!is_home_like(&at("/home/p/x", Some("/home/p/x")), home));
        assert!(!is_home_like(&at("/srv/app", None), home));
    }

    #[test]
    fn paths_are_found_in_command_lines() {
        let check = |command: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(paths_in_command(command), expected, "{command}");
        };
        check("cd backend && cargo test -p x", &["backend"]);
        check("cat a/b.txt | grep -n x > out.txt", &["a/b.txt", "out.txt"]);
        check("curl https://e.example/x git@h:x --file=a/b", &[]);
        check("ls \"my/dir\" $HOME/x *.rs", &["my/dir"]);
    }
}
