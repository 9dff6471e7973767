//! `cargo xtask tidy`: the rules of the house as data and small functions.
//!
//! Each check is a function from the repository's text to findings; nothing here changes a file
//! but [`tables::refresh`]. A rule that needs judgement does not belong here.

mod commands;
mod direction;
mod documents;
mod graph;
mod manifest;
mod patterns;
mod size;
pub mod tables;

use crate::finding::{Finding, Report};
use crate::repo::Repo;
use tables::Generator;

/// The checks that need nothing but the files.
const CHECKS: &[fn(&Repo, &mut Vec<Finding>)] = &[
    direction::check,
    manifest::check,
    patterns::check,
    size::check_headers,
    graph::check_lock,
    documents::check,
];

/// Runs every check.
pub fn run(repo: &Repo, generator: &Generator) -> Result<Report, String> {
    let mut report = without_tables(repo)?;
    tables::check(repo, generator, &mut report.findings);
    commands::check(repo, generator, &mut report.findings);
    Ok(report)
}

/// Runs every check that needs no built `hermes`.
fn without_tables(repo: &Repo) -> Result<Report, String> {
    let mut report = Report::default();
    for check in CHECKS {
        check(repo, &mut report.findings);
    }
    size::check_length(repo, &mut report);
    graph::check_compiled(&graph::compiled(&repo.root)?, &mut report);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules are part of `cargo test --workspace`. The generated tables need a built binary
    /// and are compared by `cargo xtask tidy`.
    #[test]
    fn this_repository_keeps_the_rules() {
        let report = without_tables(&Repo::find().unwrap()).unwrap();
        let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
