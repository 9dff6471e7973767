//! Files of a Python home: memories, identity, settings, skills, handoffs. Copied where nothing is
//! in their place; never overwritten; secrets are not copied.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_home::fsio::{self, Privacy};
use hermes_home::{DotEnv, Home, says_on};

use crate::report::{CopiedFile, LeftOutFile};
use crate::{ImportError, ImportReport};

/// Single files and folders that have the same place in both programs.
const SAME_PLACE: [&str; 6] =
    ["config.yaml", "SOUL.md", "memories/MEMORY.md", "memories/USER.md", "skills", "handoffs"];

/// Larger files are no skill and no note.
const LARGEST: u64 = 16 << 20;

/// What else lies in such a home, and why it is not copied. The store is read, not copied.
const NO_PLACE: [(&str, &str); 9] = [
    (".env", "secrets are not copied; hint: put the keys you need into this home's .env"),
    ("auth.json", "secrets are not copied; hint: hermes setup"),
    ("profiles", "each profile is a home of its own; hint: hermes -p NAME import FOLDER"),
    ("plugins", "plugins are not copied; hint: hermes plugins install FOLDER"),
    ("cron", "scheduled jobs have no place here"),
    ("sessions", "the messages are in the store; other files of sessions have no place here"),
    ("memories", "besides MEMORY.md and USER.md, memories have no place here"),
    ("logs", "logs are not copied"),
    ("backups", "backups are not copied"),
];

/// The mark of confidential lanes, in the folder of handoffs.
const MARK: &str = "handoffs/CONFIDENTIAL";

/// Keeps the mark that lanes are confidential, before anything else comes in: whatever the mark is (a
/// file, a link, a setting in `.env`), here it is a file.
pub(crate) fn keep_mark(
    source: &Path,
    home: &Home,
    dry_run: bool,
    report: &mut ImportReport,
) -> Result<(), ImportError> {
    let set = fs::read_to_string(source.join(".env")).is_ok_and(|text| sets_mark(&text));
    if !set && fs::symlink_metadata(source.join(MARK)).is_err() {
        return Ok(());
    }
    let target = home.root().join(MARK);
    if target.exists() {
        return Ok(());
    }
    if !dry_run {
        if let Some(folder) = target.parent() {
            fsio::create_private_dir(folder).map_err(ImportError::at(folder))?;
        }
        fsio::write_atomic(&target, b"", Privacy::Private).map_err(ImportError::at(&target))?;
    }
    report.files.push(CopiedFile { path: MARK.to_owned(), bytes: 0 });
    Ok(())
}

/// Whether a `.env` says that lanes are confidential.
fn sets_mark(text: &str) -> bool {
    let entries = DotEnv::parse(text).entries;
    let mark = entries.iter().find(|entry| entry.name == "HANDOFF_CONFIDENTIAL");
    mark.is_some_and(|mark| says_on(&mark.value))
}

/// Names what lies in the source and is not copied.
fn rest(source: &Path, report: &mut ImportReport) {
    let mut names: Vec<String> = fs::read_dir(source)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        let known = NO_PLACE.iter().find(|(place, _)| *place == name);
        let is_copied = SAME_PLACE.contains(&name.as_str()) || name.starts_with("state.db");
        let why = match known {
            Some(("memories", why)) if has_more_memories(source) => why,
            Some(("memories", _)) => continue,
            Some((_, why)) => why,
            None if is_copied => continue,
            None => "nothing here has a place for it",
        };
        report.files_left_out.push(LeftOutFile { path: name, why: why.to_owned() });
    }
}

fn has_more_memories(source: &Path) -> bool {
    fs::read_dir(source.join("memories"))
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name() != "MEMORY.md" && entry.file_name() != "USER.md")
}

pub(crate) fn copy(
    source: &Path,
    home: &Home,
    dry_run: bool,
    report: &mut ImportReport,
) -> Result<(), ImportError> {
    let mut found: Vec<PathBuf> = Vec::new();
    if !source.is_dir() {
        return Ok(());
    }
    for place in SAME_PLACE {
        collect(&source.join(place), &mut found, report, source);
    }
    found.sort();
    for path in found {
        let Ok(name) = path.strip_prefix(source) else { continue };
        let shown = name.display().to_string();
        let target = home.root().join(name);
        if let Some(why) = left_out(name, &path, &target) {
            report.files_left_out.push(LeftOutFile { path: shown, why });
            continue;
        }
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let why = format!("it cannot be read: {error}");
                report.files_left_out.push(LeftOutFile { path: shown, why });
                continue;
            }
        };
        if !dry_run {
            if let Some(folder) = target.parent() {
                fsio::create_private_dir(folder).map_err(ImportError::at(folder))?;
            }
            fsio::write_atomic(&target, &bytes, Privacy::Private)
                .map_err(ImportError::at(&target))?;
        }
        report.files.push(CopiedFile { path: shown, bytes: bytes.len() as u64 });
    }
    rest(source, report);
    Ok(())
}

fn left_out(name: &Path, path: &Path, target: &Path) -> Option<String> {
    let file = name.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let in_handoffs = name.starts_with("handoffs");
    if in_handoffs && file.starts_with("pending-") {
        return Some("which capsule waits is decided by the store that wrote it".to_owned());
    }
    if path.metadata().is_ok_and(|meta| meta.len() > LARGEST) {
        return Some(format!("larger than {} MiB", LARGEST >> 20));
    }
    if target.exists() {
        let same = fs::read(path).ok() == fs::read(target).ok();
        let why = if same { "it is here already" } else { "another one is here; compare them" };
        return Some(why.to_owned());
    }
    None
}

/// Files below a path; links are not followed.
fn collect(path: &Path, found: &mut Vec<PathBuf>, report: &mut ImportReport, source: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    if path == source.join(MARK) {
        // It is kept already.
    } else if meta.is_symlink() {
        let shown = path.strip_prefix(source).unwrap_or(path).display().to_string();
        let why = "it is a symbolic link".to_owned();
        report.files_left_out.push(LeftOutFile { path: shown, why });
    } else if meta.is_file() {
        found.push(path.to_owned());
    } else if meta.is_dir() {
        let hidden = path.file_name().is_some_and(|name| name == ".git" || name == "__pycache__");
        if hidden {
            return;
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), found, report, source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_confidential_where_the_handoff_takes_them_to_be() {
        let check = |text: &str, expected: bool| assert_eq!(sets_mark(text), expected, "{text:?}");
        check("A=b\nexport HANDOFF_CONFIDENTIAL=\"1\"\n", true);
        check("HANDOFF_CONFIDENTIAL=y", true);
        check("HANDOFF_CONFIDENTIAL=1 # since May", true);
        check("HANDOFF_CONFIDENTIAL=off", false);
        check("HANDOFF_CONFIDENTIAL=", false);
        check("# HANDOFF_CONFIDENTIAL=1", false);
    }
}
