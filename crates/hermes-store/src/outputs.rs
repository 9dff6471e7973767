//! Whole outputs of commands: files beside the store that the results of tools name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hermes_core::{Origin, SessionId};
use rusqlite::{Connection, params};

use crate::db::Doing as _;
use crate::rows::key_range;
use crate::{StoreError, codes};

const DOING: &str = "looking for outputs";

/// How each of their names ends.
const ENDING: &str = ".log";

/// The files in a folder that these sessions name and no other one does.
pub(crate) fn owned(
    connection: &Connection,
    folder: &Path,
    sessions: &[(SessionId, i64)],
) -> Result<Vec<PathBuf>, StoreError> {
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(ENDING) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            files.insert(name, entry.path());
        }
    }
    let mut named: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (_, session_no) in sessions.iter().filter(|_| !files.is_empty()) {
        let (first, last) = key_range(*session_no);
        each_name(connection, (first, last), |name, _| {
            named
                .extend(files.get_key_value(name).map(|(name, path)| (name.clone(), path.clone())));
        })?;
    }
    if !named.is_empty() {
        // A branch names what its origin does. Seldom enough to look through all results.
        let own = |key: i64| {
            sessions.iter().any(|(_, no)| (key_range(*no).0..=key_range(*no).1).contains(&key))
        };
        each_name(connection, (i64::MIN, i64::MAX), |name, key| {
            if !own(key) {
                named.remove(name);
            }
        })?;
    }
    Ok(named.into_values().collect())
}

/// Calls `each` with every file name in tool results that may be one of an output, and the key of
/// the part.
fn each_name(
    connection: &Connection,
    (first, last): (i64, i64),
    mut each: impl FnMut(&str, i64),
) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached(
            "SELECT key, value FROM part WHERE key BETWEEN ?2 AND ?3
             AND kind = 0 AND origin = ?1 AND instr(value, '.log') > 0",
        )
        .doing(DOING)?;
    let tool = codes::origin_code(Origin::Tool);
    let mut found = statement.query(params![tool, first, last]).doing(DOING)?;
    while let Some(row) = found.next().doing(DOING)? {
        let key: i64 = row.get(0).doing(DOING)?;
        let text = row.get_ref(1).doing(DOING)?.as_str().unwrap_or_default();
        for (at, _) in text.match_indices(ENDING) {
            let before = &text[..at];
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let begin = before.rfind(|c: char| !is_name(c)).map_or(0, |at| at + 1);
            // A sign of several bytes before it is none of the name.
            let begin = (begin..at).find(|at| text.is_char_boundary(*at)).unwrap_or(at);
            each(&text[begin..at + ENDING.len()], key);
        }
    }
    Ok(())
}
