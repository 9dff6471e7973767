//! Manifests: every package takes part in the workspace's lints and versions.

use crate::finding::Finding;
use crate::repo::Repo;

/// What each package's manifest must say, and why.
const WANTED: &[(&str, &str, &str)] = &[
    ("[lints]", "workspace = true", "end the manifest with [lints] and workspace = true"),
    ("[package]", "version.workspace = true", "take version from the workspace"),
    ("[package]", "edition.workspace = true", "take edition from the workspace"),
    ("[package]", "license.workspace = true", "take license from the workspace"),
];

/// Every package has each wanted line in its section.
pub fn check(repo: &Repo, findings: &mut Vec<Finding>) {
    for manifest in repo.manifests() {
        for (section, wanted, hint) in WANTED {
            let mut current = "";
            let holds = manifest.text.lines().map(str::trim).any(|line| {
                if line.starts_with('[') {
                    current = line;
                }
                current == *section && line == *wanted
            });
            if !holds {
                let what = format!("{section} does not say {wanted}");
                findings.push(Finding::file(&manifest.path, what, hint));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_outside_the_workspaces_lints_is_found() {
        let package = "[package]\nversion.workspace = true\nedition.workspace = true\n\
                       license.workspace = true\n";
        let check = |rest: &str| {
            let repo = Repo::of(&[("crates/a/Cargo.toml", &format!("{package}{rest}"))]);
            let mut findings = Vec::new();
            check(&repo, &mut findings);
            findings.into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        let missing = ["[lints] does not say workspace = true"];
        assert!(check("[lints]\nworkspace = true\n").is_empty());
        assert_eq!(check(""), missing);
        assert_eq!(check("[lints.rust]\nworkspace = true\n"), missing);
        assert_eq!(check("[features]\nworkspace = true\n[lints]\n"), missing);
    }
}
