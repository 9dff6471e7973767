//! Connections: how a file is recognised, brought up to date and opened for reading or writing.
//!
//! Invariant: a file that is not this project's is never opened for writing.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use crate::files;
use crate::repair::with_suffix;
use crate::{StoreError, StoreOptions, Unavailable, backup, point};

/// Marks a database as this project's ("HRMS").
const APPLICATION_ID: i32 = 0x4852_4d53;

/// The numbered steps; a released one is never changed.
const MIGRATIONS: [&str; 6] = [
    include_str!("../migrations/0001_start.sql"),
    include_str!("../migrations/0002_capsules.sql"),
    include_str!("../migrations/0003_search.sql"),
    include_str!("../migrations/0004_compactions.sql"),
    include_str!("../migrations/0005_tail.sql"),
    include_str!("../migrations/0006_views.sql"),
];

/// The views, made anew after the steps.
const VIEWS: &str = include_str!("../migrations/views.sql");

/// The step that makes the search index, which is filled from the rows that are there.
const SEARCH_STEP: u32 = 3;

/// The schema version that this program writes.
pub(crate) const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Adds what was being done to a fault of SQLite.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for Result<T, rusqlite::Error> {
    fn doing(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| match Unavailable::of(&source) {
            Some(why) => StoreError::Unavailable { doing, why },
            None => StoreError::Sqlite { doing, source },
        })
    }
}

/// What a file was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing in it yet.
    Empty,
    /// Ours, with this schema version.
    Ours(u32),
}

/// Looks at a file in one read transaction: between two reads of its own another process may make
/// it a store.
fn recognise(connection: &Connection, path: &Path) -> Result<Found, StoreError> {
    if !connection.is_autocommit() {
        return look(connection, path);
    }
    connection.execute_batch("BEGIN").doing("reading the header")?;
    let found = look(connection, path);
    // It read only; whether it ends well or not changes nothing.
    connection.execute_batch("ROLLBACK").doing("reading the header")?;
    found
}

fn look(connection: &Connection, path: &Path) -> Result<Found, StoreError> {
    let not_ours = |why: &str| StoreError::NotOurs { path: path.to_owned(), why: why.to_owned() };
    let number = |pragma: &str| -> Result<i64, StoreError> {
        match connection.pragma_query_value(None, pragma, |row| row.get(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase)
                    && !has_whole_pages(path) =>
            {
                Err(not_ours("not a database"))
            }
            other => other.doing("reading the header"),
        }
    };
    let application = number("application_id")?;
    let version =
        u32::try_from(number("user_version")?).map_err(|_| not_ours("its version is negative"))?;
    if application == i64::from(APPLICATION_ID) {
        return if version > SCHEMA_VERSION {
            Err(StoreError::TooNew { path: path.to_owned(), found: version, known: SCHEMA_VERSION })
        } else {
            Ok(Found::Ours(version))
        };
    }
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .doing("reading the schema")?;
    if tables == 0 && version == 0 && application == 0 {
        return Ok(Found::Empty);
    }
    let python: Option<i64> = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'",
            [],
            |row| row.get(0),
        )
        .optional()
        .doing("reading the schema")?;
    Err(if python.is_some() {
        StoreError::PythonStore { path: path.to_owned() }
    } else {
        not_ours("it holds other tables")
    })
}

/// Whether a file that is no database has the length of one: its first page is damaged, then.
fn has_whole_pages(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.len() > 0 && meta.len() % 4096 == 0)
}

/// A file without a byte beside what only a store leaves was emptied. SQLite must not look at it, for
/// it would remove the log.
fn refuse_emptied(path: &Path) -> Result<(), StoreError> {
    const LOOKS: u32 = 20;
    // Before the length: a store that is just being made has bytes before it has a log.
    let had_log = ["-wal", "-shm"].iter().any(|suffix| with_suffix(path, suffix).exists());
    let is_empty = || path.metadata().is_ok_and(|meta| meta.len() == 0);
    if !is_empty() || !had_log && backup::list(path).is_empty() {
        return Ok(());
    }
    for _ in 0..LOOKS {
        // Another process may be making it this moment.
        std::thread::sleep(Duration::from_millis(10));
        if !is_empty() {
            return Ok(());
        }
    }
    Err(StoreError::Unavailable {
        doing: "opening the store, whose file is empty",
        why: Unavailable::Damaged,
    })
}

/// What opening for reading found.
pub(crate) enum ReaderState {
    /// A connection to a store that is up to date.
    Ready(Connection),
    /// There is no store yet.
    Absent,
    /// A store of an older version.
    Old(u32),
}

/// Opens the file for reading. With `aside`, a file whose log cannot be read in place (its folder
/// cannot be written) is read as it stands, or as a copy of file and log.
pub(crate) fn open_reader(
    path: &Path,
    options: &StoreOptions,
    aside: bool,
) -> Result<ReaderState, StoreError> {
    if !path.exists() {
        return Ok(ReaderState::Absent);
    }
    refuse_emptied(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).doing("opening the store for reading");
    match opened.and_then(|connection| prepare_reader(connection, path, options)) {
        Err(StoreError::Unavailable {
            why: Unavailable::CannotOpen | Unavailable::ReadOnly,
            ..
        }) if aside => prepare_reader(open_aside(path)?, path, options),
        other => other,
    }
}

/// The file by itself if nothing waits in its log, else a copy of both.
fn open_aside(path: &Path) -> Result<Connection, StoreError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    const DOING: &str = "reading a store whose folder cannot be written";
    let log = with_suffix(path, "-wal");
    if !log.metadata().is_ok_and(|meta| meta.len() > 0) {
        let name = path.display().to_string();
        let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        return Connection::open_with_flags(format!("file:{name}?immutable=1"), flags).doing(DOING);
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("hermes-read-{}-{count}", std::process::id()));
    files::private_dir(&folder)?;
    let copied = (|| {
        for (from, name) in [(path, "state.db"), (log.as_path(), "state.db-wal")] {
            std::fs::copy(from, folder.join(name)).map_err(files::io_at(from))?;
        }
        let connection = Connection::open(folder.join("state.db")).doing(DOING)?;
        // Reading once opens the log too; from then on the names are not needed.
        connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
            .doing(DOING)?;
        Ok(connection)
    })();
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        tracing::debug!(%error, "a copy that was read stays in the folder of temporary files");
    }
    copied
}

fn prepare_reader(
    connection: Connection,
    path: &Path,
    options: &StoreOptions,
) -> Result<ReaderState, StoreError> {
    connection.busy_timeout(options.busy_timeout).doing("setting the wait")?;
    plans_stay(&connection)?;
    let found = recognise(&connection, path)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -1024;")
        .doing("preparing a reader")?;
    match found {
        Found::Empty => Ok(ReaderState::Absent),
        Found::Ours(SCHEMA_VERSION) => {
            connection.set_prepared_statement_cache_capacity(32);
            Ok(ReaderState::Ready(connection))
        }
        Found::Ours(version) => Ok(ReaderState::Old(version)),
    }
}

/// Whether a file with a left-over rollback journal is ours to recover: it carries our mark, or it
/// is no larger than the one page that exists before the first table. Anybody else's database is
/// left as it is.
pub(crate) fn may_be_rolled_back(path: &Path) -> bool {
    const MARK: std::ops::Range<usize> = 68..72;
    const ONE_PAGE: u64 = 4096;
    let Ok(mut file) = std::fs::File::open(path) else { return false };
    if file.metadata().is_ok_and(|meta| meta.len() <= ONE_PAGE) {
        return true;
    }
    let mut header = [0; 100];
    std::io::Read::read_exact(&mut file, &mut header).is_ok()
        && header[MARK] == APPLICATION_ID.to_be_bytes()
}

/// Opens the file for writing; creates it and brings it up to date where needed.
pub(crate) fn open_writer(path: &Path, options: &StoreOptions) -> Result<Connection, StoreError> {
    refuse_emptied(path)?;
    create_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(path, flags).doing("opening the store for writing")?;
    connection.busy_timeout(options.busy_timeout).doing("setting the wait")?;
    plans_stay(&connection)?;
    let found = recognise(&connection, path)?;
    if found != Found::Ours(SCHEMA_VERSION) {
        migrate(&mut connection, path, found)?;
    }
    log_ahead(&connection)?;
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL;
             PRAGMA secure_delete = FAST;
             PRAGMA foreign_keys = ON;
             PRAGMA cache_size = -1024;
             PRAGMA temp_store = MEMORY;
             PRAGMA wal_autocheckpoint = 2000;
             PRAGMA journal_size_limit = 16777216;",
        )
        .doing("preparing the writer")?;
    if let Some(pages) = options.max_page_count {
        connection
            .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, i64>(0))
            .doing("bounding the store")?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A store that was put back from a copy has no write-ahead log until it is asked for again. Where
/// somebody reads it at this moment, the next writer asks.
fn log_ahead(connection: &Connection) -> Result<(), StoreError> {
    let switched = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
    match switched.doing("switching to the write-ahead log") {
        Ok::<String, _>(_) | Err(StoreError::Unavailable { why: Unavailable::Locked, .. }) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Creates an empty file that only its owner can read, if there is none. An existing file is not
/// touched: closing it outside SQLite would drop the locks that SQLite holds.
fn create_private(path: &Path) -> Result<(), StoreError> {
    if path.exists() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        crate::files::private_dir(folder)?;
    }
    // Whether it works or not: the database itself says what is wrong, in a way that lets the side
    // file take over; and another process may have been quicker.
    if let Err(error) = crate::files::private_options().write(true).create_new(true).open(path) {
        tracing::debug!(%error, path = %path.display(), "the store's file was not created");
    }
    Ok(())
}

/// Runs the missing steps in one transaction.
fn migrate(connection: &mut Connection, path: &Path, found: Found) -> Result<(), StoreError> {
    const DOING: &str = "bringing the schema up to date";
    if found == Found::Empty {
        // Both can only be set before there is a table. Incremental: so that the room of deleted
        // sessions can be given back in pieces.
        connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL;").doing(DOING)?;
        let mode: String = connection
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
            .doing("switching to the write-ahead log")?;
        point::reach("migrate: log made");
        if mode != "wal" {
            tracing::warn!(mode, "the store's file system offers no write-ahead log");
        }
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).doing(DOING)?;
    // Another process may have done it while this one waited for the lock.
    let have = match recognise(&transaction, path)? {
        Found::Empty => 0,
        Found::Ours(version) => version,
    };
    transaction
        .execute_batch(
            "DROP VIEW IF EXISTS messages; DROP VIEW IF EXISTS sessions_resolved;
             DROP VIEW IF EXISTS system_prompts;",
        )
        .doing(DOING)?;
    for (version, sql) in (1_u32..).zip(MIGRATIONS) {
        if version > have {
            transaction.execute_batch(sql).doing(DOING)?;
            point::reach("migrate: step");
        }
    }
    if have < SEARCH_STEP {
        crate::search::index::fill(&transaction)?;
    }
    transaction.execute_batch(VIEWS).doing(DOING)?;
    transaction
        .execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
        ))
        .doing(DOING)?;
    point::reach("migrate: before the commit");
    transaction.commit().doing(DOING)?;
    point::reach("migrate: committed");
    Ok(())
}

/// Keeps a statement as it was prepared, whatever is bound to it. Otherwise every statement with a
/// range is prepared anew each time it runs, which costs more than to run it.
fn plans_stay(connection: &Connection) -> Result<(), StoreError> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .doing("preparing a connection")?;
    Ok(())
}

/// Sets how long the connection waits for a lock.
pub(crate) fn set_wait(connection: &Connection, wait: Duration) -> Result<(), StoreError> {
    connection.busy_timeout(wait).doing("setting the wait")
}
