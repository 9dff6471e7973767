//! The writer thread: it alone owns the connection that writes.
//!
//! Started on first need, ended when the store is dropped. Callers wait for the answer to their
//! job, so the queue is short by nature; its bound is a guard.

use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::db::{self, Doing as _};
use crate::{StoreError, StoreOptions, Unavailable};

/// Jobs that may wait.
const QUEUE: usize = 64;

type Job = Box<dyn FnOnce(&mut WriteSide) + Send>;

/// What the writer thread owns.
pub(crate) struct WriteSide {
    path: PathBuf,
    options: StoreOptions,
    connection: Option<Connection>,
}

impl WriteSide {
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
            self.connection = None;
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
            self.connection = None;
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
        transaction.commit().doing("committing")?;
        Ok(value)
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
        let mut side = WriteSide { path, options, connection: None };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                for job in queue {
                    job(&mut side);
                }
            })
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
