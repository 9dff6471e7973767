//! Documents that cannot lie: the first commands are the ones CI runs, links lead somewhere, the
//! changelog has a place for what comes next.

use std::path::{Component, Path};

use crate::finding::Finding;
use crate::repo::{Repo, TextFile};

/// Commands that the README gives to a newcomer and CI runs letter for letter.
const FIRST_COMMANDS: &[&str] = &["cargo run --release -- tour", "cargo test --workspace"];
const README: &str = "README.md";
const CI: &str = ".ci/run";
const CHANGELOG: &str = "CHANGELOG.md";

/// All rules about documents.
pub fn check(repo: &Repo, findings: &mut Vec<Finding>) {
    check_first_commands(repo, findings);
    check_changelog(repo, findings);
    for document in repo.ending("md") {
        check_links(repo, document, findings);
    }
}

fn check_first_commands(repo: &Repo, findings: &mut Vec<Finding>) {
    for path in [README, CI] {
        let text = repo.file(path).map_or("", |file| &file.text);
        for command in FIRST_COMMANDS {
            if !text.lines().any(|line| line.trim().ends_with(command)) {
                findings.push(Finding::file(
                    path,
                    format!("There is no line `{command}`"),
                    "README.md and .ci/run must give the newcomer's commands in the same words",
                ));
            }
        }
    }
}

fn check_changelog(repo: &Repo, findings: &mut Vec<Finding>) {
    let text = repo.file(CHANGELOG).map_or("", |file| &file.text);
    if !text.lines().any(|line| matches!(line.trim(), "## Unreleased" | "## [Unreleased]")) {
        findings.push(Finding::file(
            CHANGELOG,
            "There is no section for what is not released yet",
            "add `## [Unreleased]` above the newest version",
        ));
    }
}

fn check_links(repo: &Repo, document: &TextFile, findings: &mut Vec<Finding>) {
    let mut in_code = false;
    for (number, line) in document.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in links(line) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains(':') {
                continue;
            }
            let folder = Path::new(&document.path).parent().unwrap_or(Path::new(""));
            if !repo.holds(&folder.join(file)) {
                findings.push(Finding::at(
                    &document.path,
                    number,
                    format!("The link to {target} leads nowhere"),
                    "links are relative to the document's own folder",
                ));
            }
        }
    }
}

/// The targets of the links on a line: what stands in `](..)`, outside code spans.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split('`')
        .step_by(2)
        .flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .map(str::trim)
}

impl Repo {
    /// Whether there is such a file or folder; `..` is followed in the path's text.
    fn holds(&self, path: &Path) -> bool {
        let mut parts: Vec<String> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
                Component::ParentDir if parts.pop().is_none() => return false,
                _ => {}
            }
        }
        let path = parts.join("/");
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
            || (!self.root.as_os_str().is_empty() && self.root.join(&path).exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], path: &str) -> Vec<(Option<usize>, String)> {
        let mut findings = Vec::new();
        check(&Repo::of(files), &mut findings);
        findings
            .into_iter()
            .filter(|finding| finding.path == path)
            .map(|finding| (finding.line, finding.what))
            .collect()
    }

    #[test]
    fn a_first_command_that_ci_does_not_run_is_found() {
        let both = "    cargo run --release -- tour\n    cargo test --workspace\n";
        let ci = "step cargo run --release -- tour\nstep cargo test --workspace --release\n";
        let files = [(README, both), (CI, ci)];
        assert!(found(&files, README).is_empty());
        assert_eq!(
            found(&files, CI),
            [(None, "There is no line `cargo test --workspace`".to_owned())]
        );
    }

    #[test]
    fn a_changelog_without_a_place_for_the_next_release_is_found() {
        assert!(found(&[(CHANGELOG, "# Changelog\n\n## [Unreleased]\n")], CHANGELOG).is_empty());
        assert_eq!(found(&[(CHANGELOG, "# Changelog\n\n## [0.1.0]\n")], CHANGELOG).len(), 1);
        assert_eq!(found(&[], CHANGELOG).len(), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_with_its_line() {
        let page = "docs/guide/index.md";
        let text = "See [the proof](proof.md#verify), [home](../../README.md), [code](../../crates/),\n\
                    [web](https://example.org) and [here](#below).\n\
                    `[not](a-link.md)`\n\
                    ```\n[nor](this.md)\n```\n\
                    But [this](missing.md) one.\n";
        let files = [
            (page, text),
            ("docs/guide/proof.md", ""),
            ("README.md", ""),
            ("crates/a/src/lib.rs", ""),
        ];
        assert_eq!(
            found(&files, page),
            [(Some(7), "The link to missing.md leads nowhere".to_owned())]
        );
    }
}
