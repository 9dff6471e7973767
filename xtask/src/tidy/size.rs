//! Files a reader can hold in mind: their length, and the header that says what they are.

use crate::finding::{Finding, Report};
use crate::repo::{Repo, TextFile};

/// A file of this many lines has a seam somewhere.
const LONG: usize = 700;
/// A file of more lines than this is refused.
const CEILING: usize = 1_000;

/// Rust and Python files have a ceiling.
pub fn check_length(repo: &Repo, report: &mut Report) {
    for file in repo.files.iter().filter(|file| file.is("rs") || file.is("py")) {
        let lines = file.text.lines().count();
        if lines > CEILING {
            report.findings.push(Finding::file(
                &file.path,
                format!("{lines} lines; the ceiling is {CEILING}"),
                "look for the seam and make it two modules",
            ));
        } else if lines > LONG {
            report.warnings.push(Finding::file(
                &file.path,
                format!("{lines} lines; above {LONG} there usually is a seam"),
                "move one subject, or the tests, into a module of its own",
            ));
        }
    }
}

/// Every source file opens with what it is. `tests.rs` beside a module is part of that module.
pub fn check_headers(repo: &Repo, findings: &mut Vec<Finding>) {
    for file in repo.ending("rs").filter(|file| file.path.contains("/src/")) {
        if !has_header(file) && !file.path.ends_with("/tests.rs") {
            findings.push(Finding::at(
                &file.path,
                1,
                "The file does not say what it is",
                "begin with a //! comment: what it is, what it is not, what must always hold",
            ));
        }
    }
}

/// The first line that is neither blank nor an inner attribute is a header comment with words.
fn has_header(file: &TextFile) -> bool {
    file.text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!["))
        .and_then(|line| line.strip_prefix("//!"))
        .is_some_and(|words| !words.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(path: &str, lines: usize) -> (usize, usize) {
        let repo = Repo::of(&[(path, &"x\n".repeat(lines))]);
        let mut report = Report::default();
        check_length(&repo, &mut report);
        (report.findings.len(), report.warnings.len())
    }

    #[test]
    fn a_file_is_warned_about_above_700_lines_and_refused_above_1000() {
        assert_eq!(length("crates/a/src/lib.rs", 700), (0, 0));
        assert_eq!(length("crates/a/src/lib.rs", 701), (0, 1));
        assert_eq!(length("crates/a/src/lib.rs", 1_000), (0, 1));
        assert_eq!(length("crates/a/src/lib.rs", 1_001), (1, 0));
        assert_eq!(length("bench/compare/driver.py", 1_001), (1, 0));
        assert_eq!(length("docs/guide/index.md", 5_000), (0, 0));
    }

    #[test]
    fn a_source_file_without_a_header_is_found() {
        let check = |text: &str| {
            let repo = Repo::of(&[("crates/a/src/lib.rs", text)]);
            let mut findings = Vec::new();
            check_headers(&repo, &mut findings);
            findings.len()
        };
        assert_eq!(check("//! The words that everyone shares.\n"), 0);
        assert_eq!(check("#![expect(missing_docs, reason = \"x\")]\n\n//! Words.\n"), 0);
        assert_eq!(check("//!\nuse std::fmt;\n"), 1);
        assert_eq!(check("// A comment.\nuse std::fmt;\n"), 1);
        assert_eq!(check("use std::fmt;\n//! Too late.\n"), 1);
        assert_eq!(check(""), 1);
        let repo = Repo::of(&[("crates/a/src/view/tests.rs", "use super::*;\n")]);
        let mut findings = Vec::new();
        check_headers(&repo, &mut findings);
        assert!(findings.is_empty());
    }
}
