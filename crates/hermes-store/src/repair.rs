//! Repair: what can be read of a damaged store is copied into a new one; the original is kept.
//!
//! A damaged search index is made anew in place, for it holds nothing of its own. Everything else
//! is done on a copy, checked, and put in place by renaming; if anything fails on the way the store
//! is as it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hermes_core::SessionId;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use serde::Serialize;

use crate::db::{self, Doing as _};
use crate::files::{self, io_at};
use crate::store::Store;
use crate::{
    Finding, OpenMode, StoreError, StoreOptions, StorePaths, Unavailable, apply, backup, check,
    lease, point, reclaim, search,
};

const DOING: &str = "repairing the store";

/// Originals kept; the oldest goes first.
const KEEP: usize = 3;

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RepairReport {
    /// What was wrong.
    pub found: Vec<Finding>,
    /// Only the search index was made anew.
    pub index_only: bool,
    /// Where the original is now.
    pub kept: Option<PathBuf>,
    /// Rows copied, by table.
    pub copied: BTreeMap<String, u64>,
    /// Places that could not be read, by table.
    pub unreadable: BTreeMap<String, u64>,
    /// Rows made anew from what hung on them, by table.
    pub made_anew: BTreeMap<String, u64>,
    /// What could not be saved. The store is sound without it, and `check` does not tell it again.
    pub lost: Vec<Finding>,
    /// What is still wrong.
    pub left: Vec<Finding>,
}

/// Repairs the store at these paths; does nothing where nothing is wrong.
///
/// # Errors
/// If another process has the store open, there is no room for a copy, or so little can be read
/// that a copy would be worth nothing.
pub fn repair(
    paths: &StorePaths,
    env: &std::sync::Arc<dyn hermes_core::Env>,
) -> Result<RepairReport, StoreError> {
    if !paths.db.exists() {
        return Err(StoreError::Refused {
            what: format!("there is no store at {}", paths.db.display()),
            hint: "restore a backup with `hermes sessions restore FILE`",
        });
    }
    refuse_in_use(paths)?;
    log_back(&paths.db)?;
    let open = || {
        let options = StoreOptions::default();
        Store::open_with(paths.clone(), std::sync::Arc::clone(env), OpenMode::ReadWrite, options)
    };
    let mut report = RepairReport { found: of_database(open()), ..RepairReport::default() };
    if report.found.is_empty() {
        return Ok(report);
    }
    if report.found.iter().all(|finding| is_of_index(&finding.what)) && renew_index(open()).is_ok()
    {
        report.left = findings(open());
        if report.left.is_empty() {
            report.index_only = true;
            return Ok(report);
        }
    }
    let fresh = paths.db.with_extension("repairing");
    let outcome = rebuild(paths, &fresh, &mut report);
    point::reach("repair: copy closed");
    if outcome.is_ok()
        && report.unreadable.is_empty()
        && report.made_anew.is_empty()
        && report.lost == report.found
    {
        // The copy is no better. Another one each time would push the first original out.
        remove_with_side_files(&fresh)?;
        report.lost = Vec::new();
        report.left = findings(open());
        return Ok(report);
    }
    let put = outcome.and_then(|()| put_in_place(paths, &fresh, env.now()));
    if put.is_err() {
        remove_with_side_files(&fresh)?;
    }
    report.kept = Some(put?);
    report.left = findings(open());
    Ok(report)
}

/// Fails if another process has the store open to write to it.
pub(crate) fn refuse_in_use(paths: &StorePaths) -> Result<(), StoreError> {
    match lease::other_process(&paths.drafts_dir) {
        None => Ok(()),
        Some(other) => Err(StoreError::Refused {
            what: format!("the store is in use by {other}"),
            hint: "end the other process first",
        }),
    }
}

fn findings(store: Result<Store, StoreError>) -> Vec<Finding> {
    match store.and_then(|store| store.check()) {
        Ok(findings) => findings,
        Err(error) => vec![Finding::of(&error)],
    }
}

/// The same without what waits beside the database, which no copy makes better.
fn of_database(store: Result<Store, StoreError>) -> Vec<Finding> {
    match store.and_then(|store| check::of_database(&store)) {
        Ok(findings) => findings,
        Err(error) => vec![Finding::of(&error)],
    }
}

/// Checks the store at these paths without writing to it, also one that cannot be opened for what is
/// wrong with it.
///
/// # Errors
/// If it cannot be looked at: locked, not readable, no store of this program.
pub fn check_at(
    paths: &StorePaths,
    env: &std::sync::Arc<dyn hermes_core::Env>,
) -> Result<Vec<Finding>, StoreError> {
    let opened = Store::open(paths.clone(), std::sync::Arc::clone(env), OpenMode::ReadOnly);
    match opened.and_then(|store| store.check()) {
        Err(error @ StoreError::Unavailable { why: Unavailable::Damaged, .. }) => {
            Ok(vec![Finding::of(&error)])
        }
        other => other,
    }
}

fn is_of_index(what: &str) -> bool {
    search::index::Index::BOTH.iter().any(|index| what.contains(index.table()))
}

fn renew_index(store: Result<Store, StoreError>) -> Result<(), StoreError> {
    store?.rebuild_index()
}

/// Copies what can be read into a new file.
fn rebuild(paths: &StorePaths, fresh: &Path, report: &mut RepairReport) -> Result<(), StoreError> {
    remove_with_side_files(fresh)?;
    if paths.db.metadata().is_ok_and(|meta| meta.len() == 0) {
        return Err(nothing_readable());
    }
    let source = Connection::open_with_flags(&paths.db, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .doing("opening the damaged store")?;
    // With this, SQLite reads what is left of a file that was cut.
    source
        .set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)
        .doing("opening the damaged store")?;
    let mut target = db::open_writer(fresh, &StoreOptions::default())?;
    target.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = NORMAL;").doing(DOING)?;
    let tables: Vec<String> = {
        let mut statement = target
            .prepare(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'
                   AND name NOT LIKE '%\\_index\\_%' ESCAPE '\\' AND name <> 'lease'
                   AND (name NOT LIKE 'sqlite\\_%' ESCAPE '\\' OR name = 'sqlite_sequence')
                 ORDER BY name",
            )
            .doing(DOING)?;
        let found = statement.query_map([], |row| row.get(0)).doing(DOING)?;
        found.collect::<Result<_, _>>().doing(DOING)?
    };
    let transaction = target.transaction().doing(DOING)?;
    for table in tables {
        let salvage = Salvage::of(&source, &transaction, &table)?;
        let (copied, unreadable) = salvage.run()?;
        point::reach("repair: table copied");
        report.copied.insert(table.clone(), copied);
        if unreadable > 0 {
            report.unreadable.insert(table, unreadable);
        }
    }
    let sessions = reclaim::sessions(&source, &transaction)?;
    if report.copied.get("sessions").copied().unwrap_or(0) + sessions == 0 {
        return Err(nothing_readable());
    }
    for (table, made) in [
        ("sessions", sessions),
        ("row", reclaim::rows(&source, &transaction)?),
        ("gen", reclaim::generations(&transaction)?),
    ] {
        if made > 0 {
            report.made_anew.insert(table.to_owned(), made);
        }
    }
    tidy(&transaction)?;
    report.lost = check::note_lost(&transaction)?;
    transaction.commit().doing(DOING)?;
    point::reach("repair: copied");
    crate::scrub::truncate_log(&target)?;
    target.close().map_err(|(_, error)| error).doing(DOING)?;
    let damage = backup::damage(fresh)?;
    for suffix in ["-wal", "-shm"] {
        // What was looked at last leaves them behind, empty.
        let side = with_suffix(fresh, suffix);
        files::remove(&side).map_err(io_at(&side))?;
    }
    match damage {
        None => Ok(()),
        Some(what) => Err(StoreError::Refused {
            what: format!("the copy came out damaged ({what}), so the store is left as it is"),
            hint: "check the disk",
        }),
    }
}

fn nothing_readable() -> StoreError {
    StoreError::Refused {
        what: "no session can be read in the damaged store, so it is left as it is".to_owned(),
        hint: "restore a backup with `hermes sessions restore FILE`",
    }
}

/// Takes out what lost the thing it belongs to, and works out anew what follows from the rest.
fn tidy(tx: &rusqlite::Transaction<'_>) -> Result<(), StoreError> {
    tx.execute_batch(
        "INSERT OR IGNORE INTO text_use (session_no, text_no)
             SELECT g.session_no, t.text_no FROM gen g JOIN text t ON t.digest = g.prompt
             UNION SELECT g.session_no, t.text_no FROM gen g JOIN text t ON t.digest = g.tools;
         INSERT OR IGNORE INTO blob_use (session_no, blob_no)
             SELECT p.key >> 32, b.blob_no FROM part p JOIN blob b ON b.digest = p.value
             WHERE p.kind = 4;
         UPDATE sqlite_sequence SET seq = max(seq, ifnull((SELECT max(session_no) FROM tombstone), 0),
             ifnull((SELECT max(session_no) FROM request), 0)) WHERE name = 'sessions';
         DELETE FROM row WHERE session_no NOT IN (SELECT session_no FROM sessions);
         DELETE FROM part WHERE NOT EXISTS (SELECT 1 FROM row r
             WHERE r.session_no = part.row_key >> 32 AND r.seq = part.row_key & 4294967295);
         DELETE FROM gen WHERE session_no NOT IN (SELECT session_no FROM sessions);
         DELETE FROM manifest WHERE session_no NOT IN (SELECT session_no FROM sessions);
         DELETE FROM text_use WHERE session_no NOT IN (SELECT session_no FROM sessions)
             OR text_no NOT IN (SELECT text_no FROM text);
         DELETE FROM blob_use WHERE session_no NOT IN (SELECT session_no FROM sessions)
             OR blob_no NOT IN (SELECT blob_no FROM blob);
         DELETE FROM text WHERE text_no NOT IN (SELECT text_no FROM text_use);
         DELETE FROM blob WHERE blob_no NOT IN (SELECT blob_no FROM blob_use);
         DELETE FROM body WHERE request_no NOT IN (SELECT request_no FROM request);",
    )
    .doing(DOING)?;
    let sessions: Vec<(i64, String)> = {
        let mut statement = tx.prepare("SELECT session_no, id FROM sessions").doing(DOING)?;
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).doing(DOING)?;
        found.collect::<Result<_, _>>().doing(DOING)?
    };
    for (session_no, id) in sessions {
        apply::renew_session(tx, session_no, &SessionId::new(id))?;
    }
    search::index::rebuild(tx)
}

pub(crate) fn remove_with_side_files(path: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm"] {
        let file = with_suffix(path, suffix);
        files::remove(&file).map_err(io_at(&file))?;
    }
    Ok(())
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Keeps the original with its log under another name, and puts the new file in its place. At no
/// moment is there no store: the original stays under its name until the new one replaces it.
pub(crate) fn put_in_place(
    paths: &StorePaths,
    fresh: &Path,
    now: hermes_core::Timestamp,
) -> Result<PathBuf, StoreError> {
    let stamp = now.civil(0).strftime("%Y%m%d-%H%M%S").to_string();
    let kept = (0_u32..1000)
        .map(|n| with_suffix(&paths.db, &format!(".damaged-{stamp}-{n}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| with_suffix(&paths.db, ".damaged"));
    let log = with_suffix(&paths.db, "-wal");
    if log.exists() {
        let copy = with_suffix(&kept, "-wal");
        whole_copy(&log, &copy)?;
    }
    point::reach("repair: log kept");
    if std::fs::hard_link(&paths.db, &kept).is_err() {
        whole_copy(&paths.db, &kept)?;
    }
    if let Some(folder) = paths.db.parent() {
        files::sync_dir(folder).map_err(io_at(folder))?;
    }
    point::reach("repair: original kept");
    // The log goes first: the new file must never be read with the log of the old one. A process
    // that dies between the two is made good by `log_back`.
    for suffix in ["-wal", "-shm"] {
        let side = with_suffix(&paths.db, suffix);
        files::remove(&side).map_err(io_at(&side))?;
    }
    point::reach("repair: log gone");
    std::fs::rename(fresh, &paths.db).map_err(io_at(fresh))?;
    point::reach("repair: in place");
    if let Some(folder) = paths.db.parent() {
        files::sync_dir(folder).map_err(io_at(folder))?;
        let mut originals = kept_originals(folder, &paths.db);
        while originals.len() > KEEP {
            let oldest = originals.remove(0);
            remove_with_side_files(&oldest)?;
        }
    }
    Ok(kept)
}

/// Copies a file and syncs the copy; leaves nothing behind if there is no room.
fn whole_copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let copied = std::fs::copy(from, to)
        .and_then(|_| std::fs::File::open(to))
        .and_then(|file| file.sync_all());
    if copied.is_err() {
        files::remove(to).map_err(io_at(to))?;
    }
    copied.map_err(io_at(to))
}

/// Puts back the log of a store whose repair was killed after the log was removed and before the
/// new file was in place: the kept original is still the same file then.
#[cfg(unix)]
fn log_back(db: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt as _;
    let number = |path: &Path| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let log = with_suffix(db, "-wal");
    let Some(folder) = db.parent().filter(|_| !log.exists()) else { return Ok(()) };
    for kept in kept_originals(folder, db) {
        let copy = with_suffix(&kept, "-wal");
        if number(&kept) == number(db) && copy.exists() {
            std::fs::copy(&copy, &log).map_err(io_at(&log))?;
        }
    }
    Ok(())
}

/// Elsewhere the original is kept as a copy, which cannot be recognised by its number.
#[cfg(not(unix))]
fn log_back(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Originals of earlier repairs, the oldest first.
fn kept_originals(folder: &Path, db: &Path) -> Vec<PathBuf> {
    let prefix = format!("{}.damaged-", db.file_name().unwrap_or_default().to_string_lossy());
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .filter(|path| !path.to_string_lossy().ends_with("-wal"))
        .collect();
    found.sort();
    found
}

/// The copying of one table.
struct Salvage<'a> {
    source: &'a Connection,
    target: &'a Connection,
    table: &'a str,
    columns: Vec<String>,
    /// The column that is the row's number, where there is one.
    number: Option<String>,
}

impl<'a> Salvage<'a> {
    fn of(
        source: &'a Connection,
        target: &'a Connection,
        table: &'a str,
    ) -> Result<Self, StoreError> {
        let mut statement = target.prepare(&format!("PRAGMA table_info({table})")).doing(DOING)?;
        let found: Vec<(String, String, i64)> = statement
            .query_map([], |row| Ok((row.get(1)?, row.get(2)?, row.get(5)?)))
            .doing(DOING)?
            .collect::<Result<_, _>>()
            .doing(DOING)?;
        let keys = found.iter().filter(|(.., key)| *key > 0).count();
        let number = found
            .iter()
            .find(|(_, kind, key)| *key == 1 && keys == 1 && kind == "INTEGER")
            .map(|(name, ..)| name.clone());
        let columns = found.into_iter().map(|(name, ..)| name).collect();
        Ok(Self { source, target, table, columns, number })
    }

    /// Rows copied, places that could not be read.
    fn run(&self) -> Result<(u64, u64), StoreError> {
        let Some(number) = &self.number else { return self.in_order() };
        let (mut copied, mut unreadable) = (0, 0);
        let mut after = i64::MIN;
        loop {
            let (rows, last, whole) = self.above(number, after)?;
            copied += rows;
            after = last;
            if whole {
                return Ok((copied, unreadable));
            }
            unreadable += 1;
            match self.next_readable(number, after) {
                Some(next) => after = next - 1,
                None => return Ok((copied, unreadable)),
            }
        }
    }

    fn select(&self, tail: &str) -> String {
        format!("SELECT {} FROM {} {tail}", self.columns.join(", "), self.table)
    }

    fn insert(&self, values: Vec<Value>) -> Result<u64, StoreError> {
        let marks: Vec<String> = (1..=values.len()).map(|n| format!("?{n}")).collect();
        let sql = format!(
            "INSERT OR IGNORE INTO {} ({}) VALUES ({})",
            self.table,
            self.columns.join(", "),
            marks.join(", ")
        );
        self.target
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(params_from_iter(values)))
            .doing(DOING)
            .map(|changed| changed as u64)
    }

    /// Copies rows with a higher number; stops where one cannot be read.
    fn above(&self, number: &str, after: i64) -> Result<(u64, i64, bool), StoreError> {
        let place = self.columns.iter().position(|column| column == number).unwrap_or(0);
        let sql = self.select(&format!("WHERE {number} > ?1 ORDER BY {number}"));
        let Ok(mut statement) = self.source.prepare(&sql) else { return Ok((0, after, true)) };
        let (mut copied, mut last) = (0, after);
        let Ok(mut rows) = statement.query([after]) else { return Ok((0, after, false)) };
        loop {
            match rows.next() {
                Ok(None) => return Ok((copied, last, true)),
                Err(_) => return Ok((copied, last, false)),
                Ok(Some(row)) => {
                    let values: rusqlite::Result<Vec<Value>> =
                        (0..self.columns.len()).map(|at| row.get(at)).collect();
                    let Ok(values) = values else { return Ok((copied, last, false)) };
                    if let Some(Value::Integer(n)) = values.get(place) {
                        last = *n;
                    }
                    copied += self.insert(values)?;
                }
            }
        }
    }

    /// The lowest number above the gap that can be read, by doubling and then halving the step.
    fn next_readable(&self, number: &str, after: i64) -> Option<i64> {
        let sql = self.select(&format!("WHERE {number} > ?1 ORDER BY {number} LIMIT 1"));
        let place = self.columns.iter().position(|column| column == number)?;
        let probe = |from: i64| -> Option<Option<i64>> {
            let mut statement = self.source.prepare_cached(&sql).ok()?;
            let mut rows = statement.query([from]).ok()?;
            match rows.next() {
                Ok(Some(row)) => {
                    (0..self.columns.len())
                        .try_for_each(|at| row.get::<_, Value>(at).map(drop))
                        .ok()?;
                    Some(row.get(place).ok())
                }
                Ok(None) => Some(None),
                Err(_) => None,
            }
        };
        let mut low = after.max(0);
        let mut step = 1_i64;
        let mut high = loop {
            let at = low.checked_add(step)?;
            match probe(at) {
                Some(found) => break (at, found),
                None => step = step.checked_mul(2)?,
            }
        };
        low += step / 2;
        while high.0 - low > 1 {
            let middle = low + (high.0 - low) / 2;
            match probe(middle) {
                Some(found) => high = (middle, found),
                None => low = middle,
            }
        }
        high.1
    }

    /// A table without row numbers, from its beginning and then from its end.
    fn in_order(&self) -> Result<(u64, u64), StoreError> {
        let mut copied = 0;
        for tail in ["", "ORDER BY 1 DESC"] {
            let Ok(mut statement) = self.source.prepare(&self.select(tail)) else {
                return Ok((0, 0));
            };
            let Ok(mut rows) = statement.query([]) else { continue };
            loop {
                match rows.next() {
                    Ok(None) if tail.is_empty() => return Ok((copied, 0)),
                    Ok(None) | Err(_) => break,
                    Ok(Some(row)) => {
                        let values: rusqlite::Result<Vec<Value>> =
                            (0..self.columns.len()).map(|at| row.get(at)).collect();
                        let Ok(values) = values else { break };
                        copied += self.insert(values)?;
                    }
                }
            }
        }
        Ok((copied, 1))
    }
}

impl Store {
    /// Makes the search index anew from the rows.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn rebuild_index(&self) -> Result<(), StoreError> {
        let wait = self.inner().options().busy_timeout;
        self.inner().write(move |side| side.transaction(wait, |tx| search::index::rebuild(tx)))
    }

    /// Merges the search index, gives unused room back and truncates the log.
    ///
    /// # Errors
    /// If readers or writers are in the way.
    pub fn optimize(&self) -> Result<(u64, u64), StoreError> {
        let db = self.inner().paths().db.clone();
        let size = move || std::fs::metadata(&db).map_or(0, |meta| meta.len());
        let before = size();
        self.inner().forget_readers();
        let wait = self.inner().options().busy_timeout;
        self.inner().write(move |side| {
            side.catch_up(wait)?;
            let connection = side.connection()?;
            for index in search::index::Index::BOTH {
                crate::scrub::merge(connection, index.table())?;
            }
            connection.execute_batch("ANALYZE; VACUUM;").doing("giving room back")?;
            crate::scrub::truncate_log(connection)
        })?;
        Ok((before, size()))
    }

    /// Pins sessions, which keeps them out of sweeps and retention, or unpins them.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if one is not there.
    pub fn set_pinned(&self, ids: &[SessionId], pinned: bool) -> Result<(), StoreError> {
        for id in ids {
            if self.session(id)?.is_none() {
                return Err(self.missing(id)?);
            }
        }
        let ids = ids.to_vec();
        let wait = self.inner().options().busy_timeout;
        self.inner().write(move |side| {
            side.transaction(wait, |tx| {
                for id in &ids {
                    tx.execute(
                        "UPDATE sessions SET pinned = ?2 WHERE id = ?1",
                        rusqlite::params![id.as_str(), pinned],
                    )
                    .doing("pinning a session")?;
                }
                Ok(())
            })
        })
    }
}
