//! The writing side: the one connection that writes, and the thread beside it.
//!
//! One job at a time has the connection. Whoever waits for the answer to a job runs it on his own
//! thread: handing it over and back costs about as much as the job. What nobody waits for is posted to
//! the thread, which is started on first need and ended when the store is dropped; when nothing was
//! written for a moment, it takes new rows into the search index.
//!
//! Invariant: jobs are done in the order in which they were given by one thread, posted or not.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::backup;
use crate::db::{self, Doing as _};
use crate::lease::{self, Owed, Taken};
use crate::readers::Readers;
use crate::repair::with_suffix;
use crate::search::{index, renew};
use crate::{Record, StoreError, StoreOptions, Unavailable, files, point};

/// Posted jobs that may wait; whoever posts more does it himself.
const QUEUE: usize = 64;

/// The index is brought up to date when nothing was written for this long.
const IDLE: Duration = Duration::from_millis(100);
/// Leases that could not be given back are tried again when nothing was written for so long more.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// So many rows, or so much text in them, are taken into the index even if it is never idle: a
/// search reads them one by one until then.
const MOST_BEHIND: usize = 512;
const MOST_TEXT_BEHIND: usize = 1 << 20;

type Job = Box<dyn FnOnce(&mut WriteSide) + Send>;

/// Puts a store that was deleted back from what is open of it.
fn put_back(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let back = with_suffix(path, ".restoring");
    files::remove(&back).map_err(files::io_at(&back))?;
    backup::copy(connection, &back)?;
    // Links do not replace: a file that somebody else made meanwhile stays.
    let put = std::fs::hard_link(&back, path);
    files::remove(&back).map_err(files::io_at(&back))?;
    put.map_err(files::io_at(path))?;
    tracing::error!(path = %path.display(), "the store was deleted and is put back");
    Ok(())
}

/// Saves what is open of a store that was replaced.
fn rescue(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let aside = (0_u32..1000)
        .map(|n| with_suffix(path, &format!(".rescued-{n}")))
        .find(|path| !path.exists());
    if let Some(aside) = aside {
        backup::copy(connection, &aside)?;
        tracing::error!(path = %aside.display(), "the store was replaced; what was open is saved");
    }
    Ok(())
}

/// What a job has.
pub(crate) struct WriteSide {
    path: PathBuf,
    options: StoreOptions,
    /// Why the database is left alone.
    beside: Option<Unavailable>,
    connection: Option<Connection>,
    /// The files that the connection was opened on.
    identity: Option<Identity>,
    /// How long the file was when it was last looked at.
    length: u64,
    /// What was open is saved already.
    rescued: bool,
    /// The file was deleted and put back, or the index is damaged, and nobody was told yet.
    untold: Option<Unavailable>,
    readers: Arc<Readers>,
    /// Rows written since the index was brought up to date, and the text in them.
    rows_behind: usize,
    text_behind: usize,
    /// A job that asked to be done again after some time.
    again: Option<(Duration, Job)>,
    owed: Owed,
}

/// Which files stand under the names of the store and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    store: Option<(u64, u64)>,
    log: Option<(u64, u64)>,
}

impl Identity {
    pub(crate) fn of(path: &Path) -> Self {
        Self { store: number_of(path), log: number_of(&with_suffix(path, "-wal")) }
    }
}

/// Device and number of a file; None if it is not there. Looking does not open it: closing a file
/// would drop the locks that SQLite holds on it.
#[cfg(unix)]
fn number_of(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Elsewhere an open file can be neither deleted nor replaced.
#[cfg(not(unix))]
fn number_of(_: &Path) -> Option<(u64, u64)> {
    None
}

fn length_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Whether the file lost pages that the store has: something else cut it. `before` is how long it
/// was. Anything that cannot be seen just now is no proof.
fn is_cut(connection: &Connection, path: &Path, before: u64) -> Result<bool, StoreError> {
    const PAGE: u64 = 4096;
    const FRAME: u64 = PAGE + 24;
    let count = connection
        .prepare_cached("PRAGMA page_count")
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, u32>(0)));
    let Ok(pages) = count else { return Ok(false) };
    let length = length_of(path);
    let missing = u64::from(pages).saturating_sub(length / PAGE);
    if missing == 0 {
        return Ok(false);
    }
    // The log holds pages that were never written back, but not the first, and no more than it has
    // frames.
    if length == 0 || missing > length_of(&with_suffix(path, "-wal")) / FRAME {
        return Ok(true);
    }
    // A file that became shorter may have given room back. A fresh look at all of it tells.
    Ok(length < before && backup::damage(path)?.is_some())
}

impl WriteSide {
    /// What the store was opened with.
    pub(crate) const fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Notices that the store's file or its log is gone or another one, before anything is written
    /// to what nobody else sees.
    fn guard(&mut self) -> Result<(), StoreError> {
        let fault =
            |why: Unavailable| StoreError::Unavailable { doing: "looking at the file", why };
        if let Some(why) = &self.beside {
            return Err(fault(why.clone()));
        }
        let Some(connection) = &self.connection else { return self.guard_unopened() };
        let now = Identity::of(&self.path);
        let Some(then) = self.identity else {
            self.identity = Some(now);
            return Ok(());
        };
        if then.store == now.store {
            if then.log.is_none() || then.log == now.log {
                self.identity = Some(now);
                let before = std::mem::replace(&mut self.length, length_of(&self.path));
                // Looked at twice: another process may give room back between the two looks.
                if is_cut(connection, &self.path, before)?
                    && is_cut(connection, &self.path, before)?
                {
                    self.length = before;
                    // What is in the log stays there for a repair.
                    connection
                        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
                        .doing("leaving the log as it is")?;
                    return Err(fault(Unavailable::Damaged));
                }
                return Ok(());
            }
            // The log was unlinked: what is in it goes into the file while it can still be read.
            tracing::error!(path = %self.path.display(), "the store's log was removed while in use");
            let folded: Result<i64, _> =
                connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0));
            tracing::info!(?folded, "what was in the log is in the file");
            self.forget_connection();
            return Err(fault(Unavailable::Deleted));
        }
        if now.store.is_none() {
            put_back(connection, &self.path)?;
            self.forget_connection();
            self.untold = Some(Unavailable::Deleted);
            return Err(fault(Unavailable::Deleted));
        }
        if !self.rescued {
            rescue(connection, &self.path)?;
            self.rescued = true;
        }
        Err(fault(Unavailable::Replaced))
    }

    /// The same while nothing was written yet: a reader has the file open.
    fn guard_unopened(&mut self) -> Result<(), StoreError> {
        let Some(then) = self.readers.first().filter(|then| then.store.is_some()) else {
            return Ok(());
        };
        let now = Identity::of(&self.path);
        if now.store == then.store {
            return Ok(());
        }
        let (epoch, reader) = self.readers.take();
        // All of them are in use just now: the next write looks again.
        let Some(reader) = reader else {
            let why = Unavailable::Locked;
            return Err(StoreError::Unavailable { doing: "looking at the file", why });
        };
        let why = if now.store.is_none() {
            put_back(&reader, &self.path)?;
            drop(reader);
            self.readers.forget();
            self.untold = Some(Unavailable::Deleted);
            Unavailable::Deleted
        } else {
            if !self.rescued {
                rescue(&reader, &self.path)?;
                self.rescued = true;
            }
            self.readers.give(epoch, reader);
            Unavailable::Replaced
        };
        Err(StoreError::Unavailable { doing: "looking at the file", why })
    }

    /// The connection, opened on first need.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        if self.connection.is_none() {
            self.guard()?;
        }
        match &mut self.connection {
            Some(connection) => Ok(connection),
            empty => Ok(empty.insert(db::open_writer(&self.path, &self.options)?)),
        }
    }

    /// Closes the connection, and the readers beside it; the next job opens another.
    pub(crate) fn forget_connection(&mut self) {
        self.connection = None;
        self.identity = None;
        self.readers.forget();
    }

    /// What befell the file and nobody was told yet.
    pub(crate) const fn untold(&mut self) -> Option<Unavailable> {
        self.untold.take()
    }

    /// Notes that these records were written.
    pub(crate) fn wrote(&mut self, batch: &[Record]) {
        let rows = batch.iter().filter(|record| matches!(record, Record::Row(_))).count();
        self.rows_behind += rows;
        self.text_behind = self.text_behind.saturating_add(index::text_bytes(batch));
    }

    /// Has `job` done after some time, if the store is still open then.
    pub(crate) fn again(&mut self, after: Duration, job: impl FnOnce(&mut Self) + Send + 'static) {
        self.again = Some((after, Box::new(job)));
    }

    /// Whether the index is so many times as far behind as it may be.
    fn is_far_behind(&self, times: usize) -> bool {
        self.rows_behind >= times * MOST_BEHIND || self.text_behind >= times * MOST_TEXT_BEHIND
    }

    /// Takes the new rows into the index if nobody else is writing; what stays is searched by itself
    /// and taken in later.
    fn catch_up_quietly(&mut self) {
        self.rows_behind = 0;
        self.text_behind = 0;
        let waits = self.connection.as_ref().map(index::has_tail);
        let outcome = match waits {
            Some(Ok(true)) if self.is_untouched() => self.catch_up(Duration::ZERO),
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "new rows are taken into the search index later");
            if let StoreError::Unavailable { why: why @ Unavailable::Damaged, .. } = error {
                // Nothing that is said is lost by it, but it is not found so fast.
                self.untold = Some(why);
            }
        }
    }

    /// Renews some of the documents that an older program put into the index, if nobody else is
    /// writing; whether more are left to do now.
    fn renew_quietly(&mut self) -> bool {
        let due = self.connection.as_ref().map(renew::is_due);
        let outcome = match due {
            Some(Ok(true)) if self.is_untouched() => {
                self.light_transaction(Duration::ZERO, |tx| renew::step(tx))
            }
            Some(Err(error)) => Err(error),
            _ => Ok(true),
        };
        outcome.is_ok_and(|whole| !whole)
    }

    /// Nothing is opened yet.
    pub(crate) fn new(
        path: PathBuf,
        options: StoreOptions,
        beside: Option<Unavailable>,
        readers: Arc<Readers>,
        owed: Owed,
    ) -> Self {
        Self {
            path,
            options,
            beside,
            connection: None,
            identity: None,
            length: 0,
            rescued: false,
            untold: None,
            readers,
            rows_behind: 0,
            text_behind: 0,
            again: None,
            owed,
        }
    }

    /// Gives a lease back, now or with a later write.
    pub(crate) fn give_back(&mut self, wait: Duration, lease: Taken) -> Result<(), StoreError> {
        let outcome = self.light_transaction(wait, |tx| lease::release(tx, &lease));
        if outcome.is_err() {
            self.owed.add(vec![lease]);
        }
        outcome
    }

    /// Gives back the leases that could not be given back before; whether none is left.
    fn pay_quietly(&mut self) -> bool {
        let leases = self.owed.take();
        if leases.is_empty() {
            return true;
        }
        if self.identity.is_some() && !self.is_untouched() {
            self.owed.add(leases);
            return false;
        }
        let outcome = self.light_transaction(Duration::ZERO, |tx| {
            leases.iter().try_for_each(|lease| lease::release(tx, lease))
        });
        if let Err(error) = &outcome {
            tracing::debug!(%error, "leases are given back later");
            self.owed.add(leases);
        }
        outcome.is_ok()
    }

    /// Whether the file is the one that was opened. One that was taken away or replaced is for the
    /// next job to notice and to tell.
    fn is_untouched(&self) -> bool {
        self.identity.is_some_and(|then| then.store == Identity::of(&self.path).store)
    }

    /// Takes all new rows into the index. Not synced by itself: a loss of power takes documents and
    /// mark together, and the rows stay.
    pub(crate) fn catch_up(&mut self, wait: Duration) -> Result<(), StoreError> {
        while !self.light_transaction(wait, |tx| index::catch_up(tx))? {}
        Ok(())
    }

    /// Runs `work` in one transaction that waits at most `wait` for the write lock.
    pub(crate) fn transaction<T>(
        &mut self,
        wait: Duration,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.guard()?;
        let outcome = self.try_transaction(wait, work);
        if let Err(StoreError::Unavailable {
            why: Unavailable::Io | Unavailable::Damaged | Unavailable::ReadOnly,
            ..
        }) = outcome
        {
            // The next try starts from a fresh handle: the cause may be gone by then.
            self.forget_connection();
        }
        outcome
    }

    /// As `transaction`, for changes that need not outlive a loss of power (every process that
    /// could hold a lease is gone then): the commit is not synced by itself, only by the next.
    pub(crate) fn light_transaction<T>(
        &mut self,
        wait: Duration,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        const DOING: &str = "setting how commits are synced";
        self.connection()?.execute_batch("PRAGMA synchronous = NORMAL").doing(DOING)?;
        let outcome = self.transaction(wait, work);
        if let Some(connection) = &self.connection
            && let Err(error) = connection.execute_batch("PRAGMA synchronous = FULL").doing(DOING)
        {
            // Never go on with commits that are not synced.
            self.forget_connection();
            return Err(error);
        }
        outcome
    }

    fn try_transaction<T>(
        &mut self,
        wait: Duration,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut options = self.options;
        options.busy_timeout = wait;
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(db::open_writer(&self.path, &options)?),
        };
        db::set_wait(connection, wait)?;
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .doing("beginning a transaction")?;
        let value = work(&transaction)?;
        point::reach("store: before a commit");
        transaction.commit().doing("committing")?;
        point::reach("store: after a commit");
        Ok(value)
    }
}

/// The writing side, shared by its thread and those who wait for an answer.
struct Shared {
    side: Mutex<WriteSide>,
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

/// What the thread is there for.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// When something was last written; None if the index is up to date.
    written: Option<Instant>,
    /// The index is too far behind to wait for an idle moment.
    hurry: bool,
    /// A job for later; whoever closes the store first does without it.
    later: Option<(Instant, Job)>,
    closing: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The writing side, once the jobs before this moment are done.
    fn side(&self) -> MutexGuard<'_, WriteSide> {
        let mut side = match self.side.lock() {
            Ok(side) => side,
            Err(poisoned) => {
                // A fault in one job: the next one starts with another connection.
                self.side.clear_poison();
                let mut side = poisoned.into_inner();
                side.forget_connection();
                side
            }
        };
        // The lock on the queue is not held while a job runs.
        while let Some(job) = { locked(&self.waiting).jobs.pop_front() } {
            job(&mut side);
            if let Some((after, job)) = side.again.take() {
                locked(&self.waiting).later = Some((Instant::now() + after, job));
                self.bell.notify_one();
            }
        }
        side
    }

    /// Does one job here and now.
    fn run<T>(&self, job: impl FnOnce(&mut WriteSide) -> T) -> T {
        let mut side = self.side();
        if side.is_far_behind(2) {
            // The thread did not get its turn.
            side.catch_up_quietly();
        }
        let value = job(&mut side);
        let hurry = side.is_far_behind(1);
        let open = side.connection.is_some();
        drop(side);
        if open {
            let mut waiting = locked(&self.waiting);
            let asleep = waiting.written.replace(Instant::now()).is_none();
            let hurried = hurry && !std::mem::replace(&mut waiting.hurry, hurry);
            drop(waiting);
            if asleep || hurried {
                self.bell.notify_one();
            }
        }
        value
    }

    /// Waits for the bell, or until some time is over.
    fn woken<'a>(
        &self,
        waiting: MutexGuard<'a, Waiting>,
        at_most: Duration,
    ) -> MutexGuard<'a, Waiting> {
        match self.bell.wait_timeout(waiting, at_most) {
            Ok((waiting, _)) => waiting,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    /// The thread: jobs that nobody waits for, and the index.
    fn serve(&self) {
        let mut waiting = locked(&self.waiting);
        loop {
            if let Some((_, job)) = waiting.later.take_if(|(at, _)| *at <= Instant::now()) {
                waiting.jobs.push_back(job);
            }
            if !waiting.jobs.is_empty() {
                drop(waiting);
                self.run(|_| ());
                waiting = locked(&self.waiting);
                continue;
            }
            let idle = waiting.written.map(|at| at.elapsed());
            let closing = waiting.closing;
            let later = waiting.later.as_ref().map(|(at, _)| at.duration_since(Instant::now()));
            match idle {
                Some(idle) if closing || waiting.hurry || idle >= IDLE => {
                    waiting.written = None;
                    waiting.hurry = false;
                    drop(waiting);
                    let mut side = self.side();
                    let paid = side.pay_quietly();
                    side.catch_up_quietly();
                    let more = side.renew_quietly();
                    drop(side);
                    waiting = locked(&self.waiting);
                    if (more || !paid) && !waiting.closing {
                        // Some more when it is idle again; nobody waits for it at the end.
                        let from = if paid { Duration::ZERO } else { TRY_AGAIN };
                        waiting.written.get_or_insert_with(|| Instant::now() + from);
                    }
                }
                _ if closing => return,
                Some(idle) => {
                    let left = IDLE.saturating_sub(idle);
                    waiting = self.woken(waiting, later.map_or(left, |later| left.min(later)));
                }
                None => match later {
                    Some(later) => waiting = self.woken(waiting, later),
                    None => {
                        waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                    }
                },
            }
        }
    }
}

/// The handle of the writing side and its thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread; the connection is opened by the first job.
    pub(crate) fn start(side: WriteSide) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            side: Mutex::new(side),
            waiting: Mutex::default(),
            bell: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || served.serve())
            .map_err(|_| StoreError::WriterGone)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Whether the thread is there.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Where jobs are given.
    pub(crate) fn jobs(&self) -> Jobs {
        Jobs(Arc::clone(&self.shared))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        locked(&self.shared.waiting).closing = true;
        self.shared.bell.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it came.
            let _panic = thread.join();
        }
    }
}

/// Gives jobs to the writing side.
pub(crate) struct Jobs(Arc<Shared>);

impl Jobs {
    /// Runs `job` on this thread, after those that were posted before it.
    pub(crate) fn run<T>(&self, job: impl FnOnce(&mut WriteSide) -> T) -> T {
        self.0.run(job)
    }

    /// Has `job` run some time before the store is closed.
    pub(crate) fn post(&self, job: impl FnOnce(&mut WriteSide) + Send + 'static) {
        let mut waiting = locked(&self.0.waiting);
        if waiting.jobs.len() >= QUEUE {
            drop(waiting);
            return self.0.run(job);
        }
        waiting.jobs.push_back(Box::new(job));
        drop(waiting);
        self.0.bell.notify_one();
    }
}
