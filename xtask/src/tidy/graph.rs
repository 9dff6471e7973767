//! What the program is built from: how many packages, one TLS provider, one HTTP stack.
//!
//! The limits keep a first build short and the list of strangers whose code runs here readable.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::finding::{Finding, Report};
use crate::repo::Repo;

const LOCK: &str = "Cargo.lock";
/// Packages in the lock file: every platform, tests included.
const LOCKED_LIMIT: usize = 500;
/// Packages compiled for the default binary on this platform, build scripts included.
const COMPILED_LIMIT: usize = 340;

/// Packages that would be a second one of something there must be one of.
const REFUSED: &[(&str, &str)] = &[
    ("openssl-sys", "TLS is rustls on ring"),
    ("openssl", "TLS is rustls on ring"),
    ("native-tls", "TLS is rustls on ring"),
    ("aws-lc-sys", "TLS is rustls on ring"),
    ("aws-lc-rs", "TLS is rustls on ring"),
    ("boring-sys", "TLS is rustls on ring"),
    ("mbedtls", "TLS is rustls on ring"),
    ("ureq", "HTTP is hyper, by way of reqwest"),
    ("curl-sys", "HTTP is hyper, by way of reqwest"),
    ("isahc", "HTTP is hyper, by way of reqwest"),
    ("attohttpc", "HTTP is hyper, by way of reqwest"),
    ("minreq", "HTTP is hyper, by way of reqwest"),
    ("actix-http", "HTTP is hyper, by way of reqwest"),
    ("async-std", "the runtime is tokio"),
    ("smol", "the runtime is tokio"),
];

/// Packages of which two versions would be two stacks.
const ONCE: &[&str] = &["http", "hyper", "reqwest", "ring", "rustls", "tokio", "rusqlite"];

/// The lock file's rules.
pub fn check_lock(repo: &Repo, findings: &mut Vec<Finding>) {
    let Some(lock) = repo.file(LOCK) else {
        findings.push(Finding::file(LOCK, "There is no lock file", "commit it"));
        return;
    };
    let packages: Vec<(usize, &str)> = lock
        .lines()
        .filter_map(|(number, line)| Some((number, line.strip_prefix("name = \"")?)))
        .map(|(number, name)| (number, name.trim_end_matches('"')))
        .collect();
    if packages.len() > LOCKED_LIMIT {
        findings.push(Finding::file(
            LOCK,
            format!("{} packages are locked; the limit is {LOCKED_LIMIT}", packages.len()),
            "find what brought them with cargo tree --invert, and turn its default features off",
        ));
    }
    for (number, name) in &packages {
        if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| refused == name) {
            findings.push(Finding::at(
                LOCK,
                *number,
                format!("{name} is not wanted: {instead}"),
                "find what brought it with cargo tree --invert, and turn that feature off",
            ));
        }
    }
    for name in ONCE {
        let mut places = packages.iter().filter(|(_, each)| each == name).map(|(line, _)| *line);
        if let (Some(_), Some(second)) = (places.next(), places.next()) {
            findings.push(Finding::at(
                LOCK,
                second,
                format!("{name} is locked in more than one version"),
                "move what uses the older one to the newer one",
            ));
        }
    }
}

/// What `cargo tree` says is compiled for the default binary.
pub fn compiled(root: &Path) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--prefix", "none", "--edges", "normal,build"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo tree could not be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree failed: {}", said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The compiled packages have a limit.
pub fn check_compiled(tree: &str, report: &mut Report) {
    let packages: BTreeSet<Vec<&str>> = tree
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>())
        .filter(|words| words.len() == 2)
        .collect();
    report.figures.push(format!("{} packages are compiled by default", packages.len()));
    if packages.len() > COMPILED_LIMIT {
        report.findings.push(Finding::file(
            LOCK,
            format!("{} packages are compiled; the limit is {COMPILED_LIMIT}", packages.len()),
            "see cargo tree --edges normal,build for what brought them",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(names: &[&str]) -> Vec<(Option<usize>, String)> {
        let entry =
            |name: &&str| format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n\n");
        let text = names.iter().map(entry).collect::<Vec<_>>().concat();
        let mut findings = Vec::new();
        check_lock(&Repo::of(&[(LOCK, &text)]), &mut findings);
        findings.into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn a_second_tls_provider_or_http_stack_is_found_with_its_line() {
        assert!(lock(&["hyper", "ring", "rustls"]).is_empty());
        assert_eq!(
            lock(&["ring", "aws-lc-sys", "ureq"]),
            [
                (Some(6), "aws-lc-sys is not wanted: TLS is rustls on ring".to_owned()),
                (Some(10), "ureq is not wanted: HTTP is hyper, by way of reqwest".to_owned()),
            ]
        );
        assert_eq!(
            lock(&["hyper", "hyper"]),
            [(Some(6), "hyper is locked in more than one version".to_owned())]
        );
    }

    #[test]
    fn too_many_locked_packages_are_found() {
        let names: Vec<String> = (0..=LOCKED_LIMIT).map(|n| format!("p{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert!(lock(&names[..LOCKED_LIMIT]).is_empty());
        assert_eq!(lock(&names), [(None, "501 packages are locked; the limit is 500".to_owned())]);
    }

    #[test]
    fn a_missing_lock_file_is_found() {
        let mut findings = Vec::new();
        check_lock(&Repo::of(&[]), &mut findings);
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn compiled_packages_are_counted_once_and_limited() {
        let check = |tree: &str| {
            let mut report = Report::default();
            check_compiled(tree, &mut report);
            (report.figures.concat(), report.findings.len())
        };
        let tree = "hermes v0.1.0 (path)\nserde v1.0.1\nserde v1.0.1 (*)\nserde v2.0.0\n\n";
        assert_eq!(check(tree), ("3 packages are compiled by default".to_owned(), 0));
        let lines: Vec<_> = (0..=COMPILED_LIMIT).map(|n| format!("p{n} v1.0.0")).collect();
        assert_eq!(
            check(&lines.join("\n")),
            ("341 packages are compiled by default".to_owned(), 1)
        );
    }
}
