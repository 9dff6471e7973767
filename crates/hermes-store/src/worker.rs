//! The writer thread: it alone owns the connection that writes.
//!
//! Started on first need, ended when the store is dropped. Callers wait for the answer to their
//! job, so the queue is short by nature; its bound is a guard. Between jobs, when nobody waits, it
//! takes new rows into the search index.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::backup;
use crate::db::{self, Doing as _};
use crate::repair::with_suffix;
use crate::search::index;
use crate::{StoreError, StoreOptions, Unavailable, point};

/// Jobs that may wait.
const QUEUE: usize = 64;

/// The thread is idle when no job came for this long.
const IDLE: Duration = Duration::from_millis(100);
/// So many rows, or so much text in them, are taken into the index even if it is never idle: a
/// search reads them one by one until then.
const MOST_BEHIND: u64 = 512;
const MOST_TEXT_BEHIND: usize = 1 << 20;
/// Rows taken into the index in one transaction.
const STEP: usize = 512;

type Job = Box<dyn FnOnce(&mut WriteSide) + Send>;

/// What the writer thread owns.
pub(crate) struct WriteSide {
    path: PathBuf,
    options: StoreOptions,
    connection: Option<Connection>,
    /// The files that the connection was opened on.
    identity: Option<Identity>,
    /// What was open is saved already.
    rescued: bool,
    /// Something may have been written since the index was brought up to date.
    behind: bool,
    /// Text written since then.
    text_behind: usize,
}

/// Which files stand under the names of the store and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    store: Option<(u64, u64)>,
    log: Option<(u64, u64)>,
}

impl Identity {
    fn of(path: &Path) -> Self {
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

impl WriteSide {
    /// Notices that the store's file or its log is gone or another one, before anything is written
    /// to what nobody else sees.
    fn guard(&mut self) -> Result<(), StoreError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let now = Identity::of(&self.path);
        let Some(then) = self.identity else {
            self.identity = Some(now);
            return Ok(());
        };
        let fault =
            |why: Unavailable| StoreError::Unavailable { doing: "looking at the file", why };
        if then.store == now.store {
            if then.log.is_none() || then.log == now.log {
                self.identity = Some(now);
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
            let back = with_suffix(&self.path, ".restoring");
            crate::files::remove(&back).map_err(crate::files::io_at(&back))?;
            backup::copy(connection, &back)?;
            // Links do not replace: a file that somebody else made meanwhile stays.
            let put = std::fs::hard_link(&back, &self.path);
            crate::files::remove(&back).map_err(crate::files::io_at(&back))?;
            self.forget_connection();
            put.map_err(crate::files::io_at(&self.path))?;
            tracing::error!(path = %self.path.display(), "the store was deleted and is put back");
            return Err(fault(Unavailable::Deleted));
        }
        if !self.rescued {
            let aside = (0_u32..1000)
                .map(|n| with_suffix(&self.path, &format!(".rescued-{n}")))
                .find(|path| !path.exists());
            if let Some(aside) = aside {
                backup::copy(connection, &aside)?;
                tracing::error!(path = %aside.display(), "the store was replaced; what was open is saved");
            }
            self.rescued = true;
        }
        Err(fault(Unavailable::Replaced))
    }

    /// The connection, opened on first need.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            empty => Ok(empty.insert(db::open_writer(&self.path, &self.options)?)),
        }
    }

    /// Closes the connection; the next job opens another.
    pub(crate) fn forget_connection(&mut self) {
        self.connection = None;
        self.identity = None;
    }

    /// Notes that so many bytes of text were written.
    pub(crate) fn wrote_text(&mut self, bytes: usize) {
        self.text_behind = self.text_behind.saturating_add(bytes);
    }

    /// After a job: the index must not fall too far behind.
    fn worked(&mut self) {
        let Some(connection) = &self.connection else { return };
        self.behind = true;
        if self.text_behind >= MOST_TEXT_BEHIND
            || index::behind(connection).is_ok_and(|rows| rows >= MOST_BEHIND)
        {
            self.catch_up_quietly();
        }
    }

    /// Takes the new rows into the index if nobody else is writing; what stays is searched by itself
    /// and taken in later.
    fn catch_up_quietly(&mut self) {
        self.behind = false;
        self.text_behind = 0;
        // A file that was taken away or replaced is for the next job to notice and to tell.
        let untouched =
            self.identity.is_some_and(|then| then.store == Identity::of(&self.path).store);
        let waits = self.connection.as_ref().map(index::has_tail);
        let outcome = match waits {
            Some(Ok(true)) if untouched => self.catch_up(Duration::ZERO),
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "new rows are taken into the search index later");
        }
    }

    /// Takes all new rows into the index. Not synced by itself: a loss of power takes documents and
    /// mark together, and the rows stay.
    pub(crate) fn catch_up(&mut self, wait: Duration) -> Result<(), StoreError> {
        while !self.light_transaction(wait, |tx| index::catch_up(tx, STEP))? {}
        Ok(())
    }

    /// Runs `work` in one transaction that waits at most `wait` for the write lock.
    pub(crate) fn transaction<T>(
        &mut self,
        wait: Duration,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
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
        self.guard()?;
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
        self.guard()?;
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

/// Does jobs until nobody can send any more.
fn serve(queue: &Receiver<Job>, side: &mut WriteSide) {
    loop {
        let next = if side.behind {
            queue.recv_timeout(IDLE)
        } else {
            queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match next {
            Ok(job) => {
                job(side);
                side.worked();
            }
            Err(RecvTimeoutError::Timeout) => side.catch_up_quietly(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if side.behind {
        side.catch_up_quietly();
    }
}

/// The handle of the writer thread.
pub(crate) struct Worker {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread; the connection is opened by its first job.
    pub(crate) fn start(path: PathBuf, options: StoreOptions) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::sync_channel::<Job>(QUEUE);
        let mut side = WriteSide {
            path,
            options,
            connection: None,
            identity: None,
            rescued: false,
            behind: false,
            text_behind: 0,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || serve(&queue, &mut side))
            .map_err(|_| StoreError::WriterGone)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Whether the thread still takes jobs.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// A sender for one job.
    pub(crate) fn sender(&self) -> Option<JobSender> {
        self.jobs.clone().map(JobSender)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already seen by the caller of its job.
            let _panic = thread.join();
        }
    }
}

/// Sends jobs to the writer thread.
pub(crate) struct JobSender(SyncSender<Job>);

impl JobSender {
    /// Runs `job` on the writer thread and waits for its answer.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut WriteSide) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, wait) = mpsc::sync_channel(1);
        let boxed: Job = Box::new(move |side| {
            let value = job(side);
            // Nobody listens any more if the caller is gone.
            let _gone = answer.send(value);
        });
        self.0.send(boxed).map_err(|_| StoreError::WriterGone)?;
        wait.recv().map_err(|_| StoreError::WriterGone)
    }

    /// Runs `job` on the writer thread some time before the store is closed.
    pub(crate) fn post(&self, job: impl FnOnce(&mut WriteSide) + Send + 'static) {
        if self.0.send(Box::new(job)).is_err() {
            tracing::warn!("the store's writer has stopped");
        }
    }
}
