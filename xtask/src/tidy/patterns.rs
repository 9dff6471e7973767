//! Text that must not stand in the repository: silenced lints, unfinished code, skipped tests,
//! paths of one machine.

use crate::finding::Finding;
use crate::repo::Repo;

/// A piece of text that is refused in Rust files.
struct Pattern {
    text: &'static str,
    what: &'static str,
    hint: &'static str,
}

// Written in two halves, so that this file does not find itself.
const RUST: &[Pattern] = &[
    Pattern {
        text: concat!("#[", "allow("),
        what: "A lint is silenced for good",
        hint: "mend it, or use #[expect(.., reason = \"..\")], which fails once it is needless",
    },
    Pattern {
        text: concat!("#![", "allow("),
        what: "A lint is silenced for a whole module",
        hint: "mend it, or use #[expect(.., reason = \"..\")] at the place that needs it",
    },
    Pattern {
        text: concat!("to", "do!("),
        what: "The code is not finished",
        hint: "finish it, or leave the branch out and return an error that says so",
    },
    Pattern {
        text: concat!("unimple", "mented!("),
        what: "The code is not finished",
        hint: "finish it, or leave the branch out and return an error that says so",
    },
    Pattern {
        text: concat!("#[", "ignore"),
        what: "A test is never run",
        hint: "make it small enough to run always and put its full size behind a bench/ script",
    },
];

/// Where people's folders are, and names that are plainly examples.
const HOMES: &[&str] = &["/home/", "/Users/", "C:\\Users\\"];
const EXAMPLES: &[&str] =
    &["user", "me", "you", "name", "ada", "alice", "bob", "example", "runner"];

/// Nothing of the patterns stands anywhere.
pub fn check(repo: &Repo, findings: &mut Vec<Finding>) {
    let own_root = repo.root.to_string_lossy().into_owned();
    for file in &repo.files {
        for (number, line) in file.lines() {
            if file.is("rs") {
                for pattern in RUST.iter().filter(|pattern| line.contains(pattern.text)) {
                    findings.push(Finding::at(&file.path, number, pattern.what, pattern.hint));
                }
            }
            if let Some(path) = machine_path(line, &own_root) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    format!("{path} is a path of one machine"),
                    "use a path relative to the repository, a temporary folder or a placeholder",
                ));
            }
        }
    }
}

/// The path of one machine on this line: the checkout itself, the administrator's home, or a
/// person's home that is no example.
fn machine_path(line: &str, own_root: &str) -> Option<String> {
    // A checkout right below the root (`/src`) says nothing by its name.
    if own_root.matches(['/', '\\']).count() >= 2 && line.contains(own_root) {
        return Some(own_root.to_owned());
    }
    let root = concat!("/ro", "ot/");
    if line.match_indices(root).any(|(at, _)| begins_a_path(line, at)) {
        return Some(root.to_owned());
    }
    HOMES.iter().find_map(|homes| {
        line.match_indices(homes).filter(|(at, _)| begins_a_path(line, *at)).find_map(|(at, _)| {
            let rest = &line[at + homes.len()..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || "._-".contains(c)));
            let name = &rest[..end.unwrap_or(rest.len())];
            // One letter is nobody's name.
            let person = name.len() > 1 && !EXAMPLES.contains(&name);
            person.then(|| format!("{homes}{name}"))
        })
    })
}

/// Whether what stands at this byte is the beginning of a path rather than its middle.
fn begins_a_path(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "}>)._-~$/".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(Option<usize>, String)> {
        let mut repo = Repo::of(&[(path, text)]);
        repo.root = "/srv/checkouts/hermes".into();
        let mut findings = Vec::new();
        check(&repo, &mut findings);
        findings.into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn unfinished_silenced_and_skipped_code_is_found_with_its_line() {
        for pattern in RUST {
            let text = format!("//! Words.\n    {}x)]\n", pattern.text);
            let wanted = [(Some(2), pattern.what.to_owned())];
            assert_eq!(found("crates/a/src/lib.rs", &text), wanted, "{}", pattern.text);
            assert!(found("docs/guide/index.md", &text).is_empty(), "{}", pattern.text);
        }
        assert!(found("crates/a/src/lib.rs", "#[expect(x, reason = \"y\")]").is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_every_kind_of_file() {
        let slash = '/';
        for path in [
            "/srv/checkouts/hermes/crates".to_owned(),
            format!("{slash}root/.hermes"),
            format!("{slash}home/jdoe77/src"),
            format!("{slash}Users/jdoe77"),
        ] {
            for file in ["docs/guide/index.md", "bench/compare/run.sh", "crates/a/src/lib.rs"] {
                let found = found(file, &format!("read \"{path}\" first"));
                assert_eq!(found.len(), 1, "{file} {path}");
            }
        }
    }

    #[test]
    fn examples_and_relative_paths_are_left_alone() {
        for line in [
            "/home/ada/project/AGENTS.md",
            "/Users/me/.hermes",
            "crates/home/src/lib.rs",
            "$HERMES_HOME/home/x",
            "the url http://127.0.0.1:1/home/x",
            "~/.hermes/config.yaml",
            "/home/{user}/x",
            "/home/p/AGENTS.md",
        ] {
            assert!(found("docs/guide/index.md", line).is_empty(), "{line}");
        }
    }
}
