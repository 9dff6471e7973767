//! References in what a person writes: `@file:PATH`, `@file:PATH:10-20`, `@folder:PATH`, `@diff`,
//! `@staged`, `@url:..`. Each becomes a part of its own beside the message, which stays as it was
//! written.
//!
//! Invariants: only what the person writes is looked at; nothing outside the workspace and no file
//! that holds secrets is read; a reference that cannot be followed says why, to model and person.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::source_text;
use crate::{Workspace, cut};

/// Characters of one reference.
pub const MAX_CHARACTERS: usize = 40_000;
/// References of one message.
const MAX_REFERENCES: usize = 20;
/// Entries of a folder that are listed.
const MAX_ENTRIES: usize = 200;

/// What a reference turned into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The reference as it was written: the part's label.
    pub label: String,
    /// The text for the model: the content, or why there is none.
    pub text: String,
    /// For the person, if it could not be followed or was cut.
    pub problem: Option<String>,
    /// The file or folder it names.
    pub path: Option<PathBuf>,
}

/// Runs git for `@diff` and `@staged`: the arguments in, what it printed or why it failed out.
pub type RunGit<'a> = &'a dyn Fn(&[&str]) -> Result<String, String>;

/// Runs git in `cwd` for [`expand`], with a bound in time and nothing that a repository's own
/// settings could start.
pub fn git_in(cwd: &Path) -> impl Fn(&[&str]) -> Result<String, String> {
    /// A difference of a large repository takes a second.
    const BOUND: Duration = Duration::from_secs(5);
    let cwd = cwd.to_owned();
    move |arguments| {
        let (command, rest) = arguments.split_first().ok_or("git was given no command")?;
        let mut child = Command::new("git")
            .args(["--no-pager", "-c", "core.fsmonitor=false", "-c", "color.ui=never", command])
            .args(["--no-ext-diff", "--no-textconv"])
            .args(rest)
            .current_dir(&cwd)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("git could not be started: {error}"))?;
        let (sender, receiver) = mpsc::channel();
        let output = child.stdout.take();
        let limit = source_text::MAX_FILE_BYTES;
        // It ends with the process, whose end is bounded.
        drop(std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.map(|output| output.take(limit).read_to_end(&mut bytes));
            drop(sender.send(read.transpose().map(|_| bytes)));
        }));
        let printed = receiver.recv_timeout(BOUND);
        let is_whole = matches!(&printed, Ok(Ok(bytes)) if (bytes.len() as u64) < limit);
        if !is_whole {
            drop(child.kill());
        }
        let status = child.wait();
        match printed {
            Err(_) => Err(format!("git took longer than {} seconds", BOUND.as_secs())),
            Ok(Err(error)) => Err(format!("what git printed could not be read: {error}")),
            Ok(Ok(_)) if is_whole && !status.is_ok_and(|status| status.success()) => {
                Err("git failed; hint: is this a git repository?".to_owned())
            }
            Ok(Ok(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }
}

/// The references in `text`, followed.
pub fn expand(text: &str, workspace: &Workspace, run_git: RunGit<'_>) -> Vec<Reference> {
    let mut references: Vec<Reference> = Vec::new();
    for found in find(text) {
        if references.iter().any(|other| other.label == found.label) {
            continue;
        }
        if references.len() == MAX_REFERENCES {
            let problem = format!("more than {MAX_REFERENCES} references in one message");
            references.push(refused(&found.label, &problem));
            break;
        }
        references.push(follow(&found, workspace, run_git));
    }
    references
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    File { path: String, lines: Option<(usize, usize)> },
    Folder { path: String },
    Diff,
    Staged,
    Url,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    label: String,
    target: Target,
}

/// References stand at the start of a word.
fn find(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('@') {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| !(c.is_whitespace() || matches!(c, '(' | '[' | ',' | '"'))) {
            continue;
        }
        let after = &text[at + 1..];
        if let Some((target, length)) = target(after) {
            found.push(Found { label: text[at..=at + length].to_owned(), target });
        }
    }
    found
}

/// The target that `after` (what follows an `@`) begins with, and its length in bytes.
fn target(after: &str) -> Option<(Target, usize)> {
    for (word, target) in [("diff", Target::Diff), ("staged", Target::Staged)] {
        if let Some(rest) = after.strip_prefix(word)
            && !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':'))
        {
            return Some((target, word.len()));
        }
    }
    let (kind, rest) = after.split_once(':')?;
    let (value, length) = value(rest)?;
    let target = match kind {
        "file" => {
            let (path, lines) = with_lines(&value);
            Target::File { path, lines }
        }
        "folder" => Target::Folder { path: value },
        "url" => Target::Url,
        _ => return None,
    };
    Some((target, kind.len() + 1 + length))
}

/// A value in quotes, or up to white space without the punctuation of a sentence at its end.
fn value(rest: &str) -> Option<(String, usize)> {
    for quote in ['"', '`', '\''] {
        if let Some(inner) = rest.strip_prefix(quote) {
            let end = inner.find(quote)?;
            return (end > 0).then(|| (inner[..end].to_owned(), end + 2));
        }
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let value = rest[..end].trim_end_matches([',', ';', '!', '?', ')', ']', '.', ':', '"']);
    (!value.is_empty()).then(|| (value.to_owned(), value.len()))
}

/// `path:10` and `path:10-20` name lines.
fn with_lines(value: &str) -> (String, Option<(usize, usize)>) {
    let parsed = value.rsplit_once(':').and_then(|(path, lines)| {
        let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first > 0 && last >= first).then(|| (path.to_owned(), Some((first, last))))
    });
    parsed.unwrap_or_else(|| (value.to_owned(), None))
}

fn follow(found: &Found, workspace: &Workspace, run_git: RunGit<'_>) -> Reference {
    let label = &found.label;
    match &found.target {
        Target::Url => refused(label, "addresses are not fetched: there is no web tool"),
        Target::Diff => git(label, run_git(&["diff"]), "no changes that are not staged"),
        Target::Staged => git(label, run_git(&["diff", "--staged"]), "nothing is staged"),
        Target::File { path, lines } => match inside(workspace, path) {
            Err(problem) => refused(label, &problem),
            Ok(path) => file(label, &path, *lines),
        },
        Target::Folder { path } => match inside(workspace, path) {
            Err(problem) => refused(label, &problem),
            Ok(path) => folder(label, &path),
        },
    }
}

/// The path, if it exists inside the workspace and is no place for secrets.
fn inside(workspace: &Workspace, path: &str) -> Result<PathBuf, String> {
    let real = |path: &Path| fs::canonicalize(path);
    let path = workspace.cwd.join(path);
    let shown = path.display();
    let found = real(&path).map_err(|error| format!("{shown}: {error}"))?;
    let root = real(workspace.root()).map_err(|error| format!("{shown}: {error}"))?;
    if !found.starts_with(&root) {
        return Err(format!("{shown} is outside of {}", root.display()));
    }
    if found.components().any(|part| is_secret(&part.as_os_str().to_string_lossy())) {
        return Err(format!("{shown} commonly holds secrets, so it is not sent"));
    }
    Ok(found)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_env = name == ".env" || (name.starts_with(".env.") && !name.ends_with("example"));
    is_env
        || matches!(name.as_str(), ".ssh" | ".gnupg" | ".aws" | ".netrc" | ".pgpass" | ".npmrc")
        || ["id_rsa", "id_ed25519", "id_ecdsa"].contains(&name.as_str())
        || Path::new(&name).extension().is_some_and(|kind| kind == "pem" || kind == "key")
}

fn file(label: &str, path: &Path, lines: Option<(usize, usize)>) -> Reference {
    let source = match source_text::read(path) {
        Ok(source) => source,
        Err(problem) => return refused(label, &format!("{}: {problem}", path.display())),
    };
    let Some((first, last)) = lines else {
        return bounded(label, &source.text, Some(path.to_owned()));
    };
    let all: Vec<&str> = source.text.lines().collect();
    if first > all.len() {
        let count = all.len();
        return refused(label, &format!("{} has {count} lines", path.display()));
    }
    bounded(label, &all[first - 1..last.min(all.len())].join("\n"), Some(path.to_owned()))
}

fn folder(label: &str, path: &Path) -> Reference {
    let Ok(entries) = fs::read_dir(path) else {
        return refused(label, &format!("{} is no folder", path.display()));
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => format!("{name}/"),
                Ok(meta) => format!("{name} ({} bytes)", meta.len()),
                Err(_) => name,
            }
        })
        .collect();
    names.sort();
    let more = names.len().saturating_sub(MAX_ENTRIES);
    names.truncate(MAX_ENTRIES);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    let text = if names.is_empty() { "(empty)".to_owned() } else { names.join("\n") };
    bounded(label, &text, Some(path.to_owned()))
}

fn git(label: &str, output: Result<String, String>, nothing: &str) -> Reference {
    match output {
        Ok(text) if text.trim().is_empty() => bounded(label, &format!("({nothing})"), None),
        Ok(text) => bounded(label, &text, None),
        Err(problem) => refused(label, &problem),
    }
}

fn bounded(label: &str, text: &str, path: Option<PathBuf>) -> Reference {
    let label = label.to_owned();
    match cut::cut(text, MAX_CHARACTERS, label.trim_start_matches("@file:")) {
        None => Reference { label, text: text.to_owned(), problem: None, path },
        Some(cut) => {
            let problem = format!(
                "{label}: {} of {} characters are sent, lines {} to {} are not",
                cut.kept, cut.total, cut.lines.0, cut.lines.1
            );
            Reference { label, text: cut.text, problem: Some(problem), path }
        }
    }
}

fn refused(label: &str, problem: &str) -> Reference {
    Reference {
        label: label.to_owned(),
        text: format!("(not included: {problem})"),
        problem: Some(format!("{label}: {problem}")),
        path: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".git")).unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(folder.path().join("sub/b c.txt"), "spaced").unwrap();
        fs::write(folder.path().join(".env"), "KEY=value").unwrap();
        let workspace = Workspace::discover(folder.path());
        let git = |arguments: &[&str]| match arguments {
            ["diff"] => Ok("+added".to_owned()),
            _ => Ok(String::new()),
        };
        let found = expand(text, &workspace, &git);
        let root = fs::canonicalize(folder.path()).unwrap().display().to_string();
        let here = folder.path().display().to_string();
        let found: Vec<(String, String)> = found
            .into_iter()
            .map(|found| (found.label, found.text.replace(&root, "ROOT").replace(&here, "ROOT")))
            .collect();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(l, t)| (l.as_str(), t.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn files_lines_folders_and_differences_are_followed() {
        check("look at @file:a.txt, please", &[("@file:a.txt", "one\ntwo\nthree\n")]);
        check("(@file:a.txt:2-3).", &[("@file:a.txt:2-3", "two\nthree")]);
        check("@file:a.txt:3 @file:a.txt:3", &[("@file:a.txt:3", "three")]);
        check("@file:\"sub/b c.txt\"", &[("@file:\"sub/b c.txt\"", "spaced")]);
        check("@folder:sub", &[("@folder:sub", "b c.txt (6 bytes)")]);
        check("what is in @diff?", &[("@diff", "+added")]);
        check("@staged", &[("@staged", "(nothing is staged)")]);
    }

    #[test]
    fn what_is_no_reference_is_left_alone() {
        for text in ["me@file:a.txt", "@different", "@file:", "@someone: hello", "@file: a.txt"] {
            check(text, &[]);
        }
    }

    #[test]
    fn what_may_not_be_sent_is_refused_with_the_reason() {
        let refused = |text: &str, part: &str| {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(".env"), "KEY=value").unwrap();
            fs::write(folder.path().join("a.txt"), "one").unwrap();
            let workspace = Workspace::discover(folder.path());
            let found = expand(text, &workspace, &|_| Err("git is not installed".to_owned()));
            assert!(found[0].text.starts_with("(not included: "), "{found:?}");
            assert!(found[0].text.contains(part), "{found:?}");
            assert!(found[0].problem.is_some());
        };
        refused("@url:https://e.example", "there is no web tool");
        refused("@file:.env", "secrets");
        refused("@file:../../etc/passwd", "");
        refused("@file:/etc/hostname", "");
        refused("@file:none.txt", "none.txt");
        refused("@file:a.txt:7", "has 1 lines");
        refused("@diff", "git is not installed");
    }
}
