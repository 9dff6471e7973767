//! A broken rule: where, what, and the next step. And the report that holds them.

use std::fmt;
use std::io::{self, Write};

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// File, relative to the root of the repository.
    pub path: String,
    /// Line, from 1; None where the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong: the value found and the value wanted.
    pub what: String,
    /// The next step.
    pub hint: &'static str,
}

impl Finding {
    /// A finding about a line.
    pub fn at(path: &str, line: usize, what: impl Into<String>, hint: &'static str) -> Self {
        Self { path: path.into(), line: Some(line), what: what.into(), hint }
    }

    /// A finding about a whole file.
    pub fn file(path: &str, what: impl Into<String>, hint: &'static str) -> Self {
        Self { path: path.into(), line: None, what: what.into(), hint }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}\n  hint: {}", self.what, self.hint)
    }
}

/// What a run of all checks came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Broken rules; one is enough to fail.
    pub findings: Vec<Finding>,
    /// What is not broken yet but on its way there.
    pub warnings: Vec<Finding>,
    /// Figures worth seeing on every run.
    pub figures: Vec<String>,
}

impl Report {
    /// Whether nothing is broken.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Writes it for a person.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for warning in &self.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        for finding in &self.findings {
            writeln!(out, "error: {finding}")?;
        }
        for figure in &self.figures {
            writeln!(out, "{figure}")?;
        }
        match self.findings.len() {
            0 => writeln!(out, "tidy: every rule holds"),
            1 => writeln!(out, "tidy: 1 rule is broken"),
            many => writeln!(out, "tidy: {many} rules are broken"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_its_place_and_the_next_step() {
        let finding = Finding::at("crates/a/src/lib.rs", 7, "It is so", "make it otherwise");
        assert_eq!(
            finding.to_string(),
            "crates/a/src/lib.rs:7: It is so\n  hint: make it otherwise"
        );
        let whole = Finding::file("Cargo.lock", "It is so", "make it otherwise");
        assert_eq!(whole.to_string(), "Cargo.lock: It is so\n  hint: make it otherwise");
    }

    #[test]
    fn a_warning_alone_does_not_fail() {
        let mut report = Report::default();
        report.warnings.push(Finding::file("a", "It is so", "look"));
        assert!(report.is_clean());
        report.findings.push(Finding::file("a", "It is so", "look"));
        assert!(!report.is_clean());
    }
}
