//! Backups: whole copies beside the store, made while others write, and restored without bringing
//! back what was deleted since.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_core::{DeleteReason, Env, SessionId};
use rusqlite::backup::Backup;
use rusqlite::types::Value;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Transaction, params, params_from_iter,
};
use serde::Serialize;

use crate::db::{self, Doing as _, ReaderState};
use crate::files::{self, io_at};
use crate::store::Store;
use crate::{
    DeleteReceipt, DeleteRequest, OpenMode, StoreError, StoreOptions, StorePaths, Unavailable,
    lease, point, repair,
};

/// Pages copied at once, so that writers come in between.
const PAGES: i32 = 1024;
/// Backups kept; the oldest goes first.
const KEEP: usize = 10;

/// The folder of the backups of a store.
pub(crate) fn folder(db: &Path) -> PathBuf {
    db.parent().unwrap_or(Path::new(".")).join("backups")
}

/// The backups there are, the oldest first.
pub(crate) fn list(db: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder(db)) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
        .collect();
    found.sort();
    found
}

/// Files that were kept of a damaged or replaced store, by name.
pub(crate) fn kept_aside(db: &Path) -> Vec<PathBuf> {
    let Some((folder, name)) = db.parent().zip(db.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy().into_owned();
    let aside = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        file.strip_prefix(&name).is_some_and(|rest| {
            [".damaged", ".rescued-"].iter().any(|kind| rest.starts_with(kind))
                && !rest.ends_with("-shm")
        })
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(aside).collect();
    found.sort();
    found
}

/// Copies one database into another file, page by page.
pub(crate) fn copy(from: &Connection, to: &Path) -> Result<(), StoreError> {
    const DOING: &str = "copying the store";
    let fresh = files::private_options().write(true).create_new(true).open(to);
    drop(fresh.map_err(io_at(to))?);
    let copied = (|| {
        let mut target = Connection::open(to).doing(DOING)?;
        let backup = Backup::new(from, &mut target).doing(DOING)?;
        backup.run_to_completion(PAGES, Duration::ZERO, None).doing(DOING)?;
        drop(backup);
        // A copy carries no log of its own.
        let _mode: String =
            target.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).doing(DOING)?;
        target.close().map_err(|(_, error)| error).doing(DOING)
    })();
    if copied.is_err() {
        files::remove(to).map_err(io_at(to))?;
    }
    copied
}

/// What is wrong with the pages of a file, if anything is.
pub(crate) fn damage(path: &Path) -> Result<Option<String>, StoreError> {
    const DOING: &str = "checking a copy";
    if path.metadata().is_ok_and(|meta| meta.len() == 0) {
        // Not to be opened: SQLite would remove its log.
        return Ok(Some("its file is empty".to_owned()));
    }
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).doing(DOING)?;
    let answer = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match answer.doing(DOING) {
        Ok(answer) => Ok((answer != "ok").then_some(answer)),
        Err(StoreError::Unavailable { why: why @ Unavailable::Damaged, .. }) => {
            Ok(Some(why.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Fails unless the file is a sound store, of this version or an older one.
pub(crate) fn verify(path: &Path) -> Result<(), StoreError> {
    const HINT: &str = "choose another backup; they lie in the home's folder `backups`";
    let refused =
        |what: &str| StoreError::Refused { what: format!("{} {what}", path.display()), hint: HINT };
    if !path.is_file() {
        return Err(refused("is no file"));
    }
    let damaged = |what: &str| refused(&format!("is damaged: {what}"));
    match db::open_reader(path, &StoreOptions::default(), true) {
        Ok(ReaderState::Absent) => return Err(refused("holds no store")),
        Ok(ReaderState::Ready(_) | ReaderState::Old(_)) => {}
        Err(StoreError::Unavailable { why: why @ Unavailable::Damaged, .. }) => {
            return Err(damaged(&why.to_string()));
        }
        Err(error) => return Err(error),
    }
    damage(path)?.map_or(Ok(()), |what| Err(damaged(&what)))
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Where the former store is.
    pub kept: Option<PathBuf>,
    /// The former store was damaged, and what was deleted in it since the backup was made cannot be
    /// read: it may be back.
    pub deletions_unknown: bool,
}

/// Puts a backup in the place of the store, also of one that cannot be read any more.
///
/// # Errors
/// If the backup is damaged or no store, or the store is in use.
pub fn restore(
    paths: &StorePaths,
    env: &Arc<dyn Env>,
    from: &Path,
) -> Result<Restored, StoreError> {
    verify(from)?;
    let options = StoreOptions::default();
    let opened = Store::open_with(paths.clone(), Arc::clone(env), OpenMode::ReadWrite, options);
    let is_damaged = match &opened {
        Ok(_) => paths.db.exists() && damage(&paths.db)?.is_some(),
        Err(StoreError::Unavailable { why: Unavailable::Damaged, .. }) => true,
        Err(_) => false,
    };
    if !is_damaged {
        let kept = opened?.restore(from)?;
        return Ok(Restored { kept, deletions_unknown: false });
    }
    drop(opened);
    repair::refuse_in_use(paths)?;
    let fresh = paths.db.with_extension("restoring");
    let outcome = replace_damaged(paths, env, from, &fresh);
    if outcome.is_err() {
        repair::remove_with_side_files(&fresh)?;
    }
    outcome
}

/// The pages of a damaged store cannot be written over: the file as a whole is set aside.
fn replace_damaged(
    paths: &StorePaths,
    env: &Arc<dyn Env>,
    from: &Path,
    fresh: &Path,
) -> Result<Restored, StoreError> {
    repair::remove_with_side_files(fresh)?;
    copy_file(from, fresh)?;
    let known = Known::of_damaged(&paths.db);
    let deletions_unknown = known.is_err();
    known.unwrap_or_default().carry_over(env, fresh)?;
    let kept = repair::put_in_place(paths, fresh, env.now())?;
    Ok(Restored { kept: Some(kept), deletions_unknown })
}

fn copy_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .doing("opening the backup")?;
    copy(&source, to)
}

/// What is known of deletions: what was told of them and what was not, their receipts, and which
/// sessions are gone.
#[derive(Default)]
struct Known {
    /// Sessions that were deleted and are not there again.
    deleted: Vec<SessionId>,
    tables: Vec<Table>,
}

impl Known {
    fn read(connection: &Connection) -> Result<Self, StoreError> {
        const DOING: &str = "reading what was deleted";
        let mut statement = connection
            .prepare(
                "SELECT DISTINCT t.session_id FROM tombstone t
                 WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.session_id)",
            )
            .doing(DOING)?;
        let deleted = statement
            .query_map([], |row| row.get::<_, String>(0).map(SessionId::new))
            .doing(DOING)?
            .collect::<Result<Vec<_>, _>>()
            .doing(DOING)?;
        let tables =
            CARRIED.iter().map(|table| Table::read(connection, table)).collect::<Result<_, _>>()?;
        Ok(Self { deleted, tables })
    }

    /// Of a store that cannot be opened, as far as it can be read.
    fn of_damaged(db: &Path) -> Result<Self, StoreError> {
        const DOING: &str = "opening the damaged store";
        if db.metadata().is_ok_and(|meta| meta.len() == 0) {
            // Not to be opened: SQLite would remove its log.
            return Err(StoreError::Unavailable { doing: DOING, why: Unavailable::Damaged });
        }
        let connection =
            Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_ONLY).doing(DOING)?;
        Self::read(&connection)
    }

    /// Gives it to a copy that was made before.
    fn carry_over(self, env: &Arc<dyn Env>, fresh: &Path) -> Result<(), StoreError> {
        forget_in(env, fresh, &self.deleted, DeleteReason::Delete)?;
        let copy = opened(env, fresh)?;
        let wait = copy.inner().options().busy_timeout;
        let tables = self.tables;
        copy.inner().write(move |side| {
            side.transaction(wait, |tx| tables.iter().try_for_each(|table| table.write(tx)))
        })?;
        copy.close();
        done_with(fresh)
    }
}

/// The store in a file of its own, for work on backups.
fn opened(env: &Arc<dyn Env>, db: &Path) -> Result<Store, StoreError> {
    let beside = db.with_extension("side");
    let paths = StorePaths {
        db: db.to_owned(),
        spool_dir: beside.join("spool"),
        drafts_dir: beside.join("drafts"),
    };
    Store::open_with(paths, Arc::clone(env), OpenMode::ReadWrite, StoreOptions::default())
}

/// Removes deleted sessions from every backup, too.
pub(crate) fn forget(store: &Store, receipt: &DeleteReceipt) -> Result<(), StoreError> {
    for path in list(&store.inner().paths().db) {
        let ids: Vec<SessionId> = receipt.removed.iter().map(|gone| gone.id.clone()).collect();
        forget_in(store.inner().env(), &path, &ids, receipt.reason)?;
    }
    Ok(())
}

fn forget_in(
    env: &Arc<dyn Env>,
    path: &Path,
    ids: &[SessionId],
    reason: DeleteReason,
) -> Result<(), StoreError> {
    let copy = opened(env, path)?;
    // Whoever held a session when the copy was made holds nothing in it.
    let wait = copy.inner().options().busy_timeout;
    copy.inner().write(move |side| side.transaction(wait, lease::release_all))?;
    let known: Vec<SessionId> = ids
        .iter()
        .filter(|id| copy.session(id).is_ok_and(|found| found.is_some()))
        .cloned()
        .collect();
    if !known.is_empty() {
        copy.delete_session(DeleteRequest { quiet: true, ..DeleteRequest::new(known, reason) })?;
        copy.scrub()?;
    }
    copy.close();
    done_with(path)
}

/// Removes what work on a copy leaves beside it.
fn done_with(path: &Path) -> Result<(), StoreError> {
    let beside = path.with_extension("side");
    if beside.exists() {
        std::fs::remove_dir_all(&beside).map_err(io_at(&beside))?;
    }
    for suffix in ["-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let side = PathBuf::from(name);
        if side.metadata().is_ok_and(|meta| meta.len() == 0) {
            files::remove(&side).map_err(io_at(&side))?;
        }
    }
    Ok(())
}

/// What a restored copy has from the store that it replaces.
const CARRIED: [&str; 3] = ["outbox", "receipt", "tombstone"];

/// The rows of a table.
struct Table {
    name: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// The highest number that was given out.
    last: Option<i64>,
}

impl Table {
    fn read(connection: &Connection, name: &'static str) -> Result<Self, StoreError> {
        const DOING: &str = "reading what was deleted";
        let mut statement = connection.prepare(&format!("SELECT * FROM {name}")).doing(DOING)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let count = columns.len();
        let rows = statement
            .query_map([], |row| (0..count).map(|at| row.get(at)).collect())
            .doing(DOING)?
            .collect::<Result<_, _>>()
            .doing(DOING)?;
        // Numbers of deleted sessions are given to no other one.
        let counted = if name == "tombstone" { "sessions" } else { name };
        let last = connection
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = ?1", [counted], |row| {
                row.get(0)
            })
            .optional()
            .doing(DOING)?;
        Ok(Self { name, columns, rows, last })
    }

    fn write(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        const DOING: &str = "carrying over what was deleted";
        let name = self.name;
        let is_of_sessions = name == "tombstone";
        if !is_of_sessions {
            tx.execute(&format!("DELETE FROM {name}"), []).doing(DOING)?;
        }
        let marks: Vec<String> = (1..=self.columns.len()).map(|n| format!("?{n}")).collect();
        let (columns, marks) = (self.columns.join(", "), marks.join(", "));
        let sql = if is_of_sessions {
            // One that came back since is there under the number that it had when it was deleted.
            format!(
                "INSERT OR REPLACE INTO {name} ({columns}) SELECT {marks}
                 WHERE ?1 NOT IN (SELECT session_no FROM sessions)"
            )
        } else {
            format!("INSERT INTO {name} ({columns}) VALUES ({marks})")
        };
        let mut statement = tx.prepare(&sql).doing(DOING)?;
        for row in &self.rows {
            statement.execute(params_from_iter(row)).doing(DOING)?;
        }
        if let Some(last) = self.last {
            let counted = if is_of_sessions { "sessions" } else { name };
            tx.execute(
                "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1",
                params![counted, last],
            )
            .doing(DOING)?;
        }
        Ok(())
    }
}

impl Store {
    /// The backups there are, the oldest first.
    pub fn backups(&self) -> Vec<PathBuf> {
        list(&self.inner().paths().db)
    }

    /// Copies the store, while it is in use, to `to`, or to a dated file in the folder of backups,
    /// of which the newest ten are kept. Returns the file.
    ///
    /// # Errors
    /// If there is no store, the file exists already, or there is no room.
    pub fn backup(&self, to: Option<&Path>) -> Result<PathBuf, StoreError> {
        let db = &self.inner().paths().db;
        let path = if let Some(path) = to {
            path.to_owned()
        } else {
            let folder = folder(db);
            files::private_dir(&folder)?;
            let now = self.inner().now();
            let stamp = now.civil(0).strftime("%Y%m%d-%H%M%S").to_string();
            (0_u32..10_000)
                .map(|n| folder.join(format!("state-{stamp}-{n}.db")))
                .find(|path| !path.exists())
                .unwrap_or_else(|| folder.join(format!("state-{stamp}.db")))
        };
        // In one read transaction: a copy that is begun anew whenever somebody writes has no end.
        let copied = self.inner().read_at_once(|connection| copy(connection, &path))?;
        if copied.is_none() {
            return Err(StoreError::Refused {
                what: "there is no store yet".to_owned(),
                hint: "a first conversation makes one: hermes chat -q hello",
            });
        }
        if let Some(what) = damage(&path)? {
            files::remove(&path).map_err(io_at(&path))?;
            return Err(StoreError::Refused {
                what: format!("the store is damaged, so no copy of it was kept: {what}"),
                hint: "run `hermes sessions repair`, or restore an older backup",
            });
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            files::sync_dir(folder).map_err(io_at(folder))?;
        }
        if to.is_none() {
            let all = list(db);
            for old in all.iter().take(all.len().saturating_sub(KEEP)) {
                files::remove(old).map_err(io_at(old))?;
            }
        }
        Ok(path)
    }

    /// Puts a backup in the place of the store. The present store is kept as a backup first, and
    /// what was deleted since the backup was made stays deleted. Returns where the former store is.
    ///
    /// # Errors
    /// If the backup is damaged or not ours, or a session is in use.
    pub fn restore(&self, from: &Path) -> Result<Option<PathBuf>, StoreError> {
        verify(from)?;
        self.inner().ensure_writable()?;
        let db = self.inner().paths().db.clone();
        let fresh = db.with_extension("restoring");
        files::remove(&fresh).map_err(io_at(&fresh))?;
        copy_file(from, &fresh)?;
        point::reach("restore: copied");
        let prepared = self.prepare_restored(&fresh);
        let outcome = prepared.and_then(|()| {
            let kept = if db.exists() { Some(self.backup(None)?) } else { None };
            point::reach("restore: former kept");
            self.take_over(&fresh)?;
            point::reach("restore: in place");
            Ok(kept)
        });
        files::remove(&fresh).map_err(io_at(&fresh))?;
        outcome
    }

    /// Deletes from a copy what was deleted here since it was made.
    fn prepare_restored(&self, fresh: &Path) -> Result<(), StoreError> {
        let known = self.inner().read_at_once(Known::read)?;
        known.unwrap_or_default().carry_over(self.inner().env(), fresh)
    }

    /// Writes the pages of a checked file over the store, in one transaction of the writer, so
    /// that other processes see the one or the other.
    pub(crate) fn take_over(&self, from: &Path) -> Result<(), StoreError> {
        const DOING: &str = "putting the copy in place";
        let from = from.to_owned();
        let claim = lease::Claim { held_here: true, ..self.inner().claim() };
        let busy = self.inner().read(|connection| lease::any_held(connection, &claim))?.flatten();
        if let Some(session) = busy {
            return Err(StoreError::Refused {
                what: format!("session {session} is in use"),
                hint: "end the other process first",
            });
        }
        self.inner().forget_readers();
        self.inner().write(move |side| {
            let source = Connection::open_with_flags(&from, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .doing(DOING)?;
            let target = side.connection()?;
            let backup = Backup::new(&source, target).doing(DOING)?;
            backup.run_to_completion(i32::MAX, Duration::from_millis(50), None).doing(DOING)?;
            drop(backup);
            side.forget_connection();
            side.connection().map(drop)
        })
    }
}
