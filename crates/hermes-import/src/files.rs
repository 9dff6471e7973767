//! Files of a Python home: memories, identity, settings, skills, handoffs. Copied where nothing is
//! in their place; never overwritten; secrets are not copied.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_home::Home;
use hermes_home::fsio::{self, Privacy};

use crate::report::{CopiedFile, LeftOutFile};
use crate::{ImportError, ImportReport};

/// Single files and folders that have the same place in both programs.
const SAME_PLACE: [&str; 6] =
    ["config.yaml", "SOUL.md", "memories/MEMORY.md", "memories/USER.md", "skills", "handoffs"];

/// Larger files are no skill and no note.
const LARGEST: u64 = 16 << 20;

pub(crate) fn copy(
    source: &Path,
    home: &Home,
    dry_run: bool,
    report: &mut ImportReport,
) -> Result<(), ImportError> {
    let mut found: Vec<PathBuf> = Vec::new();
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
        let bytes = fs::read(&path).map_err(ImportError::at(&path))?;
        if !dry_run {
            if let Some(folder) = target.parent() {
                fsio::create_private_dir(folder).map_err(ImportError::at(folder))?;
            }
            fsio::write_atomic(&target, &bytes, Privacy::Private)
                .map_err(ImportError::at(&target))?;
        }
        report.files.push(CopiedFile { path: shown, bytes: bytes.len() as u64 });
    }
    if source.join(".env").exists() {
        let why = "secrets are not copied; hint: put the keys you need into this home's .env";
        report.files_left_out.push(LeftOutFile { path: ".env".to_owned(), why: why.to_owned() });
    }
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
    if meta.is_symlink() {
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
