//! Tables of the guide that are generated from code, and the comparison that keeps them equal.
//!
//! A document holds `<!-- generated:NAME -->`, the table, and `<!-- end:NAME -->`. What stands
//! between is what `hermes internal tables NAME` prints; `cargo xtask tables --write` puts it there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::finding::Finding;
use crate::repo::{Repo, TextFile};

/// Tables that must stand in some document.
const WANTED: &[&str] = &["commands", "exit-codes", "hooks", "slash-commands", "sources"];

const REWRITE: &str = "run cargo xtask tables --write and look at the difference";

/// Where generated text comes from.
pub struct Generator {
    root: PathBuf,
    hermes: Option<PathBuf>,
}

impl Generator {
    /// Asks this binary, or one that cargo builds.
    pub fn new(root: &Path, hermes: Option<PathBuf>) -> Self {
        Self { root: root.to_path_buf(), hermes }
    }

    /// The table of this name in Markdown.
    pub fn table(&self, name: &str) -> Result<String, String> {
        let mut command = self.hermes.as_ref().map_or_else(
            || {
                let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
                let mut command = Command::new(cargo);
                command.args(["run", "--quiet", "--package", "hermes", "--"]);
                command
            },
            |file| Command::new(self.root.join(file)),
        );
        let output = command
            .args(["internal", "tables", name])
            .current_dir(&self.root)
            .output()
            .map_err(|error| format!("hermes could not be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.lines().last().unwrap_or("hermes said nothing").trim().to_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// A generated part of a document.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    name: String,
    /// Line of the opening marker, from 1.
    line: usize,
    /// Byte range of what stands between the markers.
    range: std::ops::Range<usize>,
}

/// The generated parts of a text; an opening marker without its end is an error at its line.
fn places(text: &str) -> Result<Vec<Place>, (usize, String)> {
    let mut found = Vec::new();
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        offset += line.len();
        let Some(name) = line
            .trim()
            .strip_prefix("<!-- generated:")
            .and_then(|rest| rest.strip_suffix("-->"))
            .map(str::trim)
        else {
            continue;
        };
        let end = format!("<!-- end:{name} -->");
        let Some(length) = text[offset..].find(&end) else {
            return Err((
                index + 1,
                format!("The generated table {name} has no end; {end} closes it"),
            ));
        };
        let range = offset..offset + length;
        found.push(Place { name: name.to_owned(), line: index + 1, range });
    }
    Ok(found)
}

/// Every generated table equals what the code prints.
pub fn check(repo: &Repo, generator: &Generator, findings: &mut Vec<Finding>) {
    compare(repo, WANTED, &|name| generator.table(name), findings);
}

type Source<'a> = &'a dyn Fn(&str) -> Result<String, String>;

fn compare(repo: &Repo, wanted: &[&str], source: Source<'_>, findings: &mut Vec<Finding>) {
    let mut seen: BTreeMap<String, Result<String, String>> = BTreeMap::new();
    for document in repo.ending("md") {
        let places = match places(&document.text) {
            Ok(places) => places,
            Err((line, what)) => {
                findings.push(Finding::at(&document.path, line, what, "write the end marker"));
                continue;
            }
        };
        for place in places {
            let printed = seen.entry(place.name.clone()).or_insert_with(|| source(&place.name));
            let what = match printed {
                Ok(printed) if *printed == document.text[place.range].trim() => continue,
                Ok(_) => format!("The table {} differs from what the code says", place.name),
                Err(why) => format!("The table {} cannot be generated: {why}", place.name),
            };
            findings.push(Finding::at(&document.path, place.line, what, REWRITE));
        }
    }
    for name in wanted.iter().filter(|name| !seen.contains_key(**name)) {
        findings.push(Finding::file(
            "docs/guide",
            format!("No document holds the generated table {name}"),
            "put <!-- generated:NAME --> and <!-- end:NAME --> where it belongs",
        ));
    }
}

/// Says for each document with generated tables whether it is up to date; with `write`, brings it
/// up to date.
pub fn refresh(repo: &Repo, generator: &Generator, write: bool) -> Result<Vec<String>, String> {
    let mut said = Vec::new();
    for document in repo.ending("md") {
        let Some(text) = refreshed(document, &|name| generator.table(name))? else { continue };
        let state = match (text == document.text, write) {
            (true, _) => "up to date",
            (false, true) => {
                let file = repo.root.join(&document.path);
                fs::write(&file, text)
                    .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
                "rewritten"
            }
            (false, false) => "out of date; --write brings it up to date",
        };
        said.push(format!("{}: {state}", document.path));
    }
    Ok(said)
}

/// The document with every generated table as it should be; None if it has none.
fn refreshed(document: &TextFile, source: Source<'_>) -> Result<Option<String>, String> {
    let at = |line: usize, what: &str| format!("{}:{line}: {what}", document.path);
    let places = places(&document.text).map_err(|(line, what)| at(line, &what))?;
    let mut text = document.text.clone();
    // From the end, so that the ranges before stay right.
    for place in places.iter().rev() {
        let table = source(&place.name).map_err(|why| at(place.line, &why))?;
        text.replace_range(place.range.clone(), &format!("\n{table}\n\n"));
    }
    Ok((!places.is_empty()).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTED: &[&str] = &["commands", "exit-codes", "sources"];
    const PAGE: &str = "docs/guide/exit-codes.md";

    fn page(table: &str) -> String {
        let rest = "<!-- generated:commands -->\nc\n<!-- end:commands -->\n\
                    <!-- generated:sources -->\ns\n<!-- end:sources -->\n";
        format!(
            "# Codes\n\n<!-- generated:exit-codes -->\n{table}\n<!-- end:exit-codes -->\n{rest}"
        )
    }

    fn found(text: &str) -> Vec<String> {
        let source = |name: &str| match name {
            "exit-codes" => Ok("| 0 | well |".to_owned()),
            "commands" => Ok("c".to_owned()),
            "sources" => Ok("s".to_owned()),
            other => Err(format!("no table {other}")),
        };
        let mut findings = Vec::new();
        compare(&Repo::of(&[(PAGE, text)]), TESTED, &source, &mut findings);
        findings.iter().map(|f| format!("{}: {}", f.line.unwrap_or(0), f.what)).collect()
    }

    #[test]
    fn a_table_that_equals_the_code_is_left_alone() {
        assert!(found(&page("\n| 0 | well |\n")).is_empty());
    }

    #[test]
    fn a_table_that_differs_from_the_code_is_found_with_its_line() {
        assert_eq!(
            found(&page("| 0 | ill |")),
            ["3: The table exit-codes differs from what the code says"]
        );
    }

    #[test]
    fn a_table_that_nobody_makes_or_that_stands_nowhere_is_found() {
        let unknown = page("| 0 | well |") + "<!-- generated:moons -->\n<!-- end:moons -->\n";
        assert_eq!(found(&unknown), ["12: The table moons cannot be generated: no table moons"]);
        assert_eq!(found("# Codes\n").len(), TESTED.len());
    }

    #[test]
    fn a_marker_without_its_end_is_found() {
        let open = "# Codes\n<!-- generated:exit-codes -->\n| 0 | well |\n";
        assert_eq!(
            found(open)[0],
            "2: The generated table exit-codes has no end; <!-- end:exit-codes --> closes it"
        );
    }

    #[test]
    fn a_refreshed_document_is_equal_to_the_code_and_stays_so() {
        let source = |name: &str| Ok(format!("| {name} |"));
        let refresh = |text: &str| {
            let file = TextFile { path: PAGE.into(), text: text.into() };
            refreshed(&file, &source).unwrap()
        };
        let once = refresh(&page("")).unwrap();
        assert!(once.contains("-->\n\n| exit-codes |\n\n<!-- end"), "{once}");
        assert_eq!(refresh(&once), Some(once.clone()));
        let mut findings = Vec::new();
        compare(&Repo::of(&[(PAGE, &once)]), TESTED, &source, &mut findings);
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(refresh("# No tables\n"), None);
    }
}
