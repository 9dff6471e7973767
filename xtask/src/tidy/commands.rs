//! Every command that a document, hint or comment names exists: someone who types it at three in
//! the morning must not be told that it is unknown.

use std::collections::BTreeSet;

use super::tables::Generator;
use crate::finding::Finding;
use crate::repo::Repo;

/// Commands that exist and are not shown.
const UNLISTED: &[&str] = &["internal", "help"];
/// Commands that are spoken of as coming later, or by crates that no turn uses yet. Each is taken
/// out when it is there.
const PLANNED: &[&str] = &["gateway"];
const OWN: &str = "xtask/src/tidy/commands.rs";
/// Small words that are arguments rather than commands.
const ARGUMENTS: &[&str] = &["latest", "bash", "zsh", "fish", "elvish", "powershell"];

/// Compares what is named between backquotes with the table of commands.
pub fn check(repo: &Repo, generator: &Generator, findings: &mut Vec<Finding>) {
    match generator.table("commands") {
        Ok(table) => check_against(repo, &table, findings),
        Err(why) => findings.push(Finding::file(
            "docs",
            format!("The commands cannot be listed: {why}"),
            "see hermes internal tables commands",
        )),
    }
}

fn check_against(repo: &Repo, table: &str, findings: &mut Vec<Finding>) {
    let known: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `hermes ")?.split('`').next())
        .collect();
    for planned in PLANNED.iter().filter(|planned| known.contains(**planned)) {
        let what = format!("`hermes {planned}` is there and still among the planned commands");
        findings.push(Finding::file(OWN, what, "take it out of PLANNED"));
    }
    for file in repo.files.iter().filter(|file| file.is("md") || file.is("rs")) {
        // This module's own tests name commands that do not exist.
        if file.path == OWN {
            continue;
        }
        for (number, line) in file.lines() {
            let spans = line.split('`').skip(1).step_by(2);
            for words in spans.filter_map(|span| span.strip_prefix("hermes ")) {
                if let Some(unknown) = first_unknown(words, &known) {
                    findings.push(Finding::at(
                        &file.path,
                        number,
                        format!("There is no command `hermes {unknown}`"),
                        "name one that cargo run -- --help lists; arguments are in capitals",
                    ));
                }
            }
        }
    }
}

/// The shortest beginning of the words that is no command, if there is one.
fn first_unknown(words: &str, known: &BTreeSet<&str>) -> Option<String> {
    let mut path = String::new();
    let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let flag = |word: &&str| word.starts_with('-');
    for word in words.split_whitespace().take_while(|word| plain(word) && !flag(word)) {
        if path.is_empty() && UNLISTED.contains(&word) || ARGUMENTS.contains(&word) {
            return None;
        }
        if !path.is_empty() {
            path.push(' ');
        }
        path.push_str(word);
        if PLANNED.contains(&path.as_str()) {
            return None;
        }
        if !known.contains(path.as_str()) {
            return Some(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| command | what it does |\n|---|---|\n\
                         | `hermes chat` | a |\n\
                         | `hermes context` | b |\n\
                         | `hermes sessions` | c |\n\
                         | `hermes sessions list` | d |\n";

    fn found(line: &str) -> Vec<String> {
        found_with(line, TABLE)
    }

    fn found_with(line: &str, table: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_against(&Repo::of(&[("docs/guide/index.md", line)]), table, &mut findings);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_planned_command_may_be_named_until_it_is_there() {
        let planned = PLANNED[0];
        assert!(found(&format!("later `hermes {planned} list`")).is_empty());
        let there = format!("{TABLE}| `hermes {planned}` | e |\n");
        assert_eq!(
            found_with("", &there),
            [format!("`hermes {planned}` is there and still among the planned commands")]
        );
    }

    #[test]
    fn a_command_that_does_not_exist_is_found() {
        assert_eq!(found("try `hermes chatt`"), ["There is no command `hermes chatt`"]);
        assert_eq!(
            found("run `hermes sessions check ID`"),
            ["There is no command `hermes sessions check`"]
        );
        assert_eq!(
            found("see `hermes context sources`"),
            ["There is no command `hermes context sources`"]
        );
    }

    #[test]
    fn commands_that_exist_and_their_arguments_are_left_alone() {
        for line in [
            "`hermes`, `hermes chat -q hello`, `hermes --resume latest`",
            "`hermes sessions list --json` and `hermes context latest`",
            "`hermes context ID`, `hermes context {session}`",
            "`hermes internal tables sources`, hermes chatt without marks",
        ] {
            assert!(found(line).is_empty(), "{line}");
        }
    }
}
