//! Project files at the start of a session: which type wins, which files of it, how much of each.
//!
//! Types in order: the nearest `.hermes.md` or `HERMES.md` from the working directory up to the
//! git root; the chain of `AGENTS.md` from the git root down; `CLAUDE.md` in the working
//! directory; Cursor rules there. The first type with usable content wins, and every other file
//! that was there is reported with the winner's name.
//!
//! Invariant: nothing that was considered disappears without a verdict.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_core::{Digest, Verdict};

use crate::source_text::{self, SourceProblem, SourceText};
use crate::{Workspace, cut, threat};

/// Characters for project files when nothing is known of the model's window: what a window of
/// 128,000 tokens gives.
pub const DEFAULT_LIMIT: usize = 30_720;

/// One file that was considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its path as it is shown, relative to the git root.
    pub label: String,
    /// Digest of its bytes; of the empty text where it could not be read.
    pub digest: Digest,
    /// The text for the prompt, empty if it is out.
    pub text: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What the person should know, whole sentences.
    pub warnings: Vec<String>,
}

/// Characters for all project files together: 6 % of the window at four characters a token,
/// between 20,000 and 500,000.
pub fn limit(configured: Option<usize>, context_window: Option<u64>) -> usize {
    configured.unwrap_or_else(|| match context_window {
        None => DEFAULT_LIMIT,
        Some(window) => {
            usize::try_from(window / 25 * 6).unwrap_or(usize::MAX).clamp(20_000, 500_000)
        }
    })
}

/// Reads the project files of `workspace`: those in the prompt first, in prompt order, then those
/// that are out.
pub fn load(workspace: &Workspace, limit: usize) -> Vec<ProjectFile> {
    let mut winners: Vec<ProjectFile> = Vec::new();
    let mut out: Vec<ProjectFile> = Vec::new();
    for family in families(workspace) {
        let mut read: Vec<Candidate> = Vec::new();
        for group in family {
            read.extend(first_usable(workspace, group, &mut out));
        }
        if let Some(winner) = winners.first() {
            let by = winner.label.clone();
            out.extend(read.into_iter().map(|candidate| shadowed(candidate, &by)));
        } else {
            winners = render(drop_copies(read, &mut out), limit);
        }
    }
    winners.append(&mut out);
    winners
}

/// Whether a file at `path` is one that [`load`] considers.
pub fn is_start_file(workspace: &Workspace, path: &Path) -> bool {
    families(workspace).iter().flatten().flatten().any(|candidate| candidate == path)
}

const AGENTS: [&str; 3] = ["AGENTS.override.md", "AGENTS.md", "agents.md"];

/// The types in order; of each type groups of which the first usable file counts.
fn families(workspace: &Workspace) -> Vec<Vec<Vec<PathBuf>>> {
    let cwd = &workspace.cwd;
    let root = workspace.root();
    let mut chain: Vec<&Path> =
        cwd.ancestors().take_while(|folder| folder.starts_with(root)).collect();
    let names = |folder: &Path, names: &[&str]| -> Vec<PathBuf> {
        names.iter().map(|name| folder.join(name)).collect()
    };
    let own = chain.iter().flat_map(|folder| names(folder, &[".hermes.md", "HERMES.md"])).collect();
    chain.reverse();
    let agents = chain.iter().map(|folder| names(folder, &AGENTS)).collect();
    let claude = vec![names(cwd, &["CLAUDE.md", "claude.md"])];
    let mut cursor = vec![names(cwd, &[".cursorrules"])];
    cursor.extend(cursor_rules(cwd).into_iter().map(|rule| vec![rule]));
    vec![vec![own], agents, claude, cursor]
}

/// The Cursor rules in `cwd`, by name.
fn cursor_rules(cwd: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(cwd.join(".cursor/rules")) else { return Vec::new() };
    let mut rules: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "mdc"))
        .collect();
    rules.sort();
    // A folder of thousands of rules is no set of rules for a prompt.
    rules.truncate(100);
    rules
}

struct Candidate {
    path: PathBuf,
    label: String,
    source: SourceText,
}

/// The first file of `group` that has content; the others that exist go to `out`.
fn first_usable(
    workspace: &Workspace,
    group: Vec<PathBuf>,
    out: &mut Vec<ProjectFile>,
) -> Option<Candidate> {
    let mut chosen: Option<Candidate> = None;
    for path in group {
        let label = workspace.label(&path);
        let source = match source_text::read_inside(&path, workspace.root()) {
            Ok(source) => source,
            Err(SourceProblem::Missing) if fs::symlink_metadata(&path).is_err() => continue,
            Err(problem) => {
                out.push(blocked(path, label, &problem));
                continue;
            }
        };
        let candidate = Candidate { path, label, source };
        match &chosen {
            // A file system that folds case shows one file under two names.
            Some(first)
                if fs::canonicalize(&first.path).ok() == fs::canonicalize(&candidate.path).ok() => {
            }
            Some(first) => out.push(shadowed(candidate, &first.label)),
            None if candidate.source.text.trim().is_empty() => out.push(empty(candidate)),
            None => chosen = Some(candidate),
        }
    }
    chosen
}

/// Of files with equal content the first, which is nearest to the root, counts.
fn drop_copies(read: Vec<Candidate>, out: &mut Vec<ProjectFile>) -> Vec<Candidate> {
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in read {
        match kept.iter().find(|other| other.source.text == candidate.source.text) {
            Some(other) => {
                let by = other.label.clone();
                out.push(shadowed(candidate, &by));
            }
            None => kept.push(candidate),
        }
    }
    kept
}

/// The winners' texts. The nearest file, which is the last, takes what it needs of the limit
/// first.
fn render(read: Vec<Candidate>, limit: usize) -> Vec<ProjectFile> {
    let mut left = limit;
    let mut files: Vec<ProjectFile> = read
        .into_iter()
        .rev()
        .map(|candidate| {
            let file = rendered(candidate, left);
            left = left.saturating_sub(file.text.chars().count());
            file
        })
        .collect();
    files.reverse();
    files
}

fn rendered(candidate: Candidate, limit: usize) -> ProjectFile {
    let Candidate { path, label, source } = candidate;
    let mut warnings: Vec<String> =
        source.notes.iter().map(|note| format!("{}: {note}", path.display())).collect();
    let body = without_frontmatter(&path, &source.text);
    let screened = threat::screen(body);
    warnings.extend(threat_warnings(&path, &screened));
    let text = screened.text.trim().to_owned();
    let (text, verdict) = match cut::cut(&text, limit, &label) {
        Some(cut) => {
            warnings.push(format!(
                "{}: {} of {} characters are in the prompt (limit {limit} for the project's \
                 files), lines {} to {} are not; hint: shorten it or raise \
                 `context_file_max_chars`",
                path.display(),
                cut.kept,
                cut.total,
                cut.lines.0,
                cut.lines.1,
            ));
            (cut.text, Verdict::Truncated { kept: cut.kept, total: cut.total })
        }
        None if screened.removed.is_empty() => (text, Verdict::Loaded),
        None => (text, flagged(&screened)),
    };
    ProjectFile { path, label, digest: source.digest, text, verdict, warnings }
}

/// The verdict for a text of which spans were taken out.
pub(crate) fn flagged(screened: &threat::Screened) -> Verdict {
    let spans = screened.removed.iter();
    let spans = spans.map(|f| (f.characters.0, f.characters.1, f.rule.to_owned())).collect();
    Verdict::Flagged { spans }
}

/// What the person is told of a scan.
pub(crate) fn threat_warnings(path: &Path, screened: &threat::Screened) -> Vec<String> {
    let removed = screened.removed.iter().map(|finding| {
        format!(
            "{}:{}: taken out of the prompt by the threat scan ({}); the rest is loaded; hint: \
             look at the line, and put it in quotes if it is an example",
            path.display(),
            finding.line,
            finding.rule
        )
    });
    removed.collect()
}

/// Own files and Cursor rules may start with a YAML header, which is not for the model.
fn without_frontmatter<'a>(path: &Path, text: &'a str) -> &'a str {
    let is_own = path.file_name().is_some_and(|name| name == ".hermes.md" || name == "HERMES.md");
    let has_header = is_own || path.extension().is_some_and(|extension| extension == "mdc");
    match crate::skills::frontmatter::split(text) {
        Ok((_, body)) if has_header => body,
        _ => text,
    }
}

fn blocked(path: PathBuf, label: String, problem: &SourceProblem) -> ProjectFile {
    let warnings = vec![format!("{}: not loaded: {problem}", path.display())];
    let verdict = Verdict::Blocked { why: problem.to_string() };
    ProjectFile { path, label, digest: Digest::of(""), text: String::new(), verdict, warnings }
}

fn shadowed(candidate: Candidate, by: &str) -> ProjectFile {
    out(candidate, Verdict::Shadowed { by: by.to_owned() })
}

fn empty(candidate: Candidate) -> ProjectFile {
    out(candidate, Verdict::Empty)
}

fn out(candidate: Candidate, verdict: Verdict) -> ProjectFile {
    let Candidate { path, label, source } = candidate;
    let digest = source.digest;
    ProjectFile { path, label, digest, text: String::new(), verdict, warnings: Vec::new() }
}
