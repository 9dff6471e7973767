//! Which crate may use which: one ordered list, each crate only those before it.

use crate::finding::Finding;
use crate::repo::{Repo, TextFile};

/// The crates in order. A crate may depend on those above it, in tests too. Crates that are planned
/// have their place already.
pub const ORDER: &[&str] = &[
    "hermes-core",
    "hermes-home",
    "hermes-store",
    "hermes-context",
    "hermes-provider",
    "hermes-compaction",
    "hermes-tools",
    "hermes-plugins",
    "hermes-handoff",
    "hermes-agent",
    "hermes-gateway",
    "hermes-import",
    "hermes-lab",
    "hermes",
];

/// Packages that stand beside the order: they use no crate of it and none uses them.
const BESIDE: &[&str] = &["xtask"];

const MAP: &str = "ARCHITECTURE.md";

/// Dependencies point up the list; every crate has its place in it and in the code map.
pub fn check(repo: &Repo, findings: &mut Vec<Finding>) {
    check_with(repo, ORDER, findings);
}

fn check_with(repo: &Repo, order: &[&str], findings: &mut Vec<Finding>) {
    let known = |name: &str| order.contains(&name) || BESIDE.contains(&name);
    let map = repo.file(MAP).map_or("", |file| &file.text);
    for manifest in repo.manifests() {
        let Some((line, name)) = package_name(manifest) else {
            findings.push(Finding::file(
                &manifest.path,
                "The package has no name of its own",
                "write name = \"...\" in [package]",
            ));
            continue;
        };
        if !known(&name) {
            findings.push(Finding::at(
                &manifest.path,
                line,
                format!("{name} is not in the ordered list of crates"),
                "give it its place in ORDER in xtask/src/tidy/direction.rs and in ARCHITECTURE.md",
            ));
        }
        if order.contains(&name.as_str()) && !map.contains(&format!("### `crates/{name}`\n")) {
            findings.push(Finding::at(
                &manifest.path,
                line,
                format!("{name} is not in the code map"),
                "give it a section in ARCHITECTURE.md: what it owns and what must always hold",
            ));
        }
        let own = order.iter().position(|each| *each == name);
        for (line, used) in dependencies(manifest) {
            let Some(place) = order.iter().position(|each| *each == used) else { continue };
            if own.is_none_or(|own| place >= own) {
                findings.push(Finding::at(
                    &manifest.path,
                    line,
                    format!("{name} uses {used}, which does not come before it"),
                    "turn the dependency round with a trait in hermes-core, or move the code up",
                ));
            }
        }
    }
}

/// The package's name and its line.
fn package_name(manifest: &TextFile) -> Option<(usize, String)> {
    let mut section = "";
    for (number, line) in manifest.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        } else if section == "[package]"
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "name"
        {
            return Some((number, value.trim().trim_matches('"').to_owned()));
        }
    }
    None
}

/// Every dependency with its line: normal, for tests, for the build and for one platform alike.
pub fn dependencies(manifest: &TextFile) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in manifest.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            inside = header.ends_with("dependencies");
            // [dependencies.NAME] is a table of its own.
            if let Some((before, name)) = header.rsplit_once('.')
                && before.ends_with("dependencies")
            {
                found.push((number, name.trim_matches('"').to_owned()));
            }
            continue;
        }
        if inside && let Some((key, value)) = line.split_once('=') {
            let key = key.trim().split('.').next().unwrap_or_default();
            let name = renamed(value).unwrap_or(key);
            found.push((number, name.trim_matches('"').to_owned()));
        } else if let Some((key, value)) = line.split_once('=')
            && key.trim() == "package"
            && let Some(last) = found.last_mut()
        {
            last.1 = value.trim().trim_matches('"').into();
        }
    }
    found
}

/// The real name in `alias = { package = "name", .. }`.
fn renamed(value: &str) -> Option<&str> {
    let after = value.split_once("package")?.1.trim_start().strip_prefix('=')?;
    after.trim_start().strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &[&str] = &["a", "b", "c"];

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n\n{rest}")
    }

    fn found(b: &str, order: &[&str]) -> Vec<String> {
        let (a, b, c) = (manifest("a", ""), manifest("b", b), manifest("c", ""));
        let repo = Repo::of(&[
            ("crates/a/Cargo.toml", &a),
            ("crates/b/Cargo.toml", &b),
            ("crates/c/Cargo.toml", &c),
            (MAP, "### `crates/a`\n### `crates/b`\n### `crates/c`\n"),
        ]);
        let mut findings = Vec::new();
        check_with(&repo, order, &mut findings);
        findings.iter().map(|f| format!("{}:{}: {}", f.path, f.line.unwrap_or(0), f.what)).collect()
    }

    #[test]
    fn a_crate_may_use_those_before_it() {
        assert!(found("[dependencies]\na.workspace = true\nserde = \"1\"\n", ABC).is_empty());
    }

    #[test]
    fn a_crate_may_not_use_one_behind_it_in_any_kind_of_dependency() {
        let upward = ["crates/b/Cargo.toml:5: b uses c, which does not come before it"];
        for section in [
            "[dependencies]\nc.workspace = true",
            "[dev-dependencies]\nc = { path = \"../c\" }",
            "[build-dependencies]\nc = \"1\"",
            "[target.'cfg(unix)'.dependencies]\nc = \"1\"",
            "[dependencies]\nsee = { package = \"c\", path = \"../c\" }",
        ] {
            assert_eq!(found(section, ABC), upward, "{section}");
        }
        let table = "[dev-dependencies.c]\npath = \"../c\"";
        assert_eq!(
            found(table, ABC),
            ["crates/b/Cargo.toml:4: b uses c, which does not come before it"]
        );
        let alias = "[dependencies.see]\npackage = \"c\"";
        assert_eq!(
            found(alias, ABC),
            ["crates/b/Cargo.toml:4: b uses c, which does not come before it"]
        );
    }

    #[test]
    fn a_crate_without_a_place_in_the_list_or_the_code_map_is_found() {
        assert_eq!(
            found("", &["a", "c"]),
            ["crates/b/Cargo.toml:2: b is not in the ordered list of crates"]
        );
        let repo = Repo::of(&[("crates/a/Cargo.toml", &manifest("a", ""))]);
        let mut findings = Vec::new();
        check_with(&repo, ABC, &mut findings);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].what, "a is not in the code map");
    }

    #[test]
    fn a_crate_outside_the_list_may_use_none_of_it() {
        let b = "[dependencies]\na.workspace = true\n";
        assert!(
            found(b, &["a", "c"])
                .contains(&"crates/b/Cargo.toml:5: b uses a, which does not come before it".into())
        );
    }
}
