//! What every clone of a store shares: the writing side, the readers, who holds what.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hermes_core::{Env, SessionId, Timestamp};
use rusqlite::Connection;

use crate::db::{self, ReaderState};
use crate::lease::{self, Claim, HolderLock, Owed};
use crate::readers::Readers;
use crate::scrub::{self, Extent};
use crate::worker::{Jobs, Worker, WriteSide};
use crate::{EventNo, Holder, OpenMode, StoreError, StoreOptions, StorePaths, Unavailable};

pub(crate) struct Inner {
    paths: StorePaths,
    env: Arc<dyn Env>,
    mode: OpenMode,
    options: StoreOptions,
    /// The database is left alone: everything goes to side files.
    beside: Option<Unavailable>,
    holder: OnceLock<Holder>,
    held: Mutex<BTreeSet<SessionId>>,
    owed: Owed,
    // Dropped in this order: the writer is the last to close the file, so that it can fold the
    // log into it; the lock file goes when no lease is held any more.
    readers: Arc<Readers>,
    worker: Mutex<Option<Worker>>,
    lock: Mutex<Option<HolderLock>>,
}

/// A panic elsewhere leaves nothing half done behind these locks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn open(
        paths: StorePaths,
        env: Arc<dyn Env>,
        mode: OpenMode,
        options: StoreOptions,
        beside: Option<Unavailable>,
    ) -> Result<Self, StoreError> {
        let inner = Self {
            paths,
            env,
            mode,
            options,
            beside,
            holder: OnceLock::new(),
            held: Mutex::default(),
            owed: Owed::default(),
            readers: Arc::default(),
            worker: Mutex::default(),
            lock: Mutex::default(),
        };
        if inner.beside.is_some() {
            return Ok(inner);
        }
        let mut reader =
            db::open_reader(&inner.paths.db, &inner.options, mode == OpenMode::ReadOnly);
        if mode == OpenMode::ReadWrite
            && let Err(StoreError::Unavailable { why: crate::Unavailable::ReadOnly, .. }) = &reader
            && db::may_be_rolled_back(&inner.paths.db)
        {
            // A process was killed while it made the file: only a writer can take that back.
            inner.write(|side| side.connection().map(drop))?;
            reader = db::open_reader(&inner.paths.db, &inner.options, mode == OpenMode::ReadOnly);
        }
        match reader? {
            ReaderState::Ready(connection) => inner.readers.add(connection, &inner.paths.db),
            ReaderState::Absent => {}
            ReaderState::Old(found) if mode == OpenMode::ReadOnly => {
                return Err(StoreError::NeedsMigration {
                    path: inner.paths.db.clone(),
                    found,
                    known: db::SCHEMA_VERSION,
                });
            }
            // Opening the writer brings it up to date.
            ReaderState::Old(_) => inner.write(|side| side.connection().map(drop))?,
        }
        Ok(inner)
    }

    pub(crate) fn paths(&self) -> &StorePaths {
        &self.paths
    }

    pub(crate) fn options(&self) -> &StoreOptions {
        &self.options
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.env.now()
    }

    /// Time and chance.
    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// The clock, for posted jobs.
    pub(crate) fn clock(&self) -> impl Fn() -> Timestamp + Send + use<> {
        let env = Arc::clone(&self.env);
        move || env.now()
    }

    /// Closes the readers: the file is about to be written over.
    pub(crate) fn forget_readers(&self) {
        self.readers.forget();
    }

    pub(crate) fn holder(&self) -> &Holder {
        self.holder.get_or_init(|| lease::this_process(&*self.env))
    }

    pub(crate) fn ensure_writable(&self) -> Result<(), StoreError> {
        match self.mode {
            OpenMode::ReadWrite => Ok(()),
            OpenMode::ReadOnly => Err(StoreError::ReadOnly),
        }
    }

    /// A claim of this process that holds nothing: it only sees what others hold.
    pub(crate) fn onlooker(&self) -> Claim {
        Claim {
            me: self.holder().clone(),
            now: self.now(),
            ttl_millis: i64::try_from(self.options.lease_ttl.as_millis()).unwrap_or(i64::MAX),
            locks: self.paths.drafts_dir.clone(),
            held_here: false,
        }
    }

    /// A claim of this process, with its lock file in place.
    pub(crate) fn claim(&self) -> Claim {
        let me = self.holder();
        let mut lock = locked(&self.lock);
        if lock.is_none() {
            match HolderLock::take(&self.paths.drafts_dir, me, self.owed.clone()) {
                Ok(taken) => *lock = Some(taken),
                // A full or read-only disk: the lease's expiry decides instead.
                Err(error) => tracing::warn!(%error, "no lock file for this process"),
            }
        }
        drop(lock);
        self.onlooker()
    }

    /// Events were claimed for delivery.
    pub(crate) fn claimed(&self, events: impl IntoIterator<Item = EventNo>) {
        if let Some(lock) = locked(&self.lock).as_mut() {
            lock.claims.extend(events);
        }
    }

    /// An event is delivered, or was given back.
    pub(crate) fn unclaimed(&self, event: EventNo) {
        if let Some(lock) = locked(&self.lock).as_mut() {
            lock.claims.remove(&event);
        }
    }

    /// Marks a session as held by a writer of this store.
    pub(crate) fn hold(&self, session: &SessionId) -> Result<(), StoreError> {
        if locked(&self.held).insert(session.clone()) {
            Ok(())
        } else {
            Err(StoreError::Held {
                session: session.clone(),
                by: self.holder().clone(),
                since: self.now(),
            })
        }
    }

    pub(crate) fn let_go(&self, session: &SessionId) {
        locked(&self.held).remove(session);
    }

    /// The sessions that have a writer in this store.
    pub(crate) fn held(&self) -> BTreeSet<SessionId> {
        locked(&self.held).clone()
    }

    fn jobs(&self) -> Result<Jobs, StoreError> {
        self.ensure_writable()?;
        let mut worker = locked(&self.worker);
        // A fault in a posted job ends the thread; the next job starts another.
        if !worker.as_ref().is_some_and(Worker::is_alive) {
            *worker = Some(Worker::start(WriteSide::new(
                self.paths.db.clone(),
                self.options,
                self.beside.clone(),
                Arc::clone(&self.readers),
                self.owed.clone(),
            ))?);
        }
        worker.as_ref().map(Worker::jobs).ok_or(StoreError::WriterGone)
    }

    /// Runs `job` on the connection that writes.
    pub(crate) fn write<T>(
        &self,
        job: impl FnOnce(&mut WriteSide) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.jobs()?.run(job)
    }

    /// Has `job` run before the store is closed, without waiting.
    pub(crate) fn post(&self, job: impl FnOnce(&mut WriteSide) + Send + 'static) {
        if let Ok(jobs) = self.jobs() {
            jobs.post(job);
        }
    }

    /// Reads on a connection of the pool; None while there is no store.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        if self.beside.is_some() {
            return Ok(None);
        }
        let (epoch, pooled) = self.readers.take();
        let connection = match pooled {
            Some(connection) => connection,
            None => match db::open_reader(
                &self.paths.db,
                &self.options,
                self.mode == OpenMode::ReadOnly,
            )? {
                ReaderState::Ready(connection) => connection,
                ReaderState::Absent => return Ok(None),
                ReaderState::Old(found) => {
                    return Err(StoreError::NeedsMigration {
                        path: self.paths.db.clone(),
                        found,
                        known: db::SCHEMA_VERSION,
                    });
                }
            },
        };
        let value = work(&connection)?;
        self.readers.give(epoch, connection);
        Ok(Some(value))
    }

    /// Reads in one read transaction, so that everything is of one moment.
    pub(crate) fn read_at_once<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        use db::Doing as _;
        self.read(|connection| {
            let transaction = connection.unchecked_transaction().doing("beginning to read")?;
            let value = work(&transaction)?;
            transaction.finish().doing("ending a read")?;
            Ok(value)
        })
    }

    /// The side file of a session.
    pub(crate) fn spool_path(&self, session: &SessionId) -> PathBuf {
        crate::spool::path_of(&self.paths.spool_dir, session)
    }
}

impl Drop for Inner {
    /// What was deleted leaves the file before the process ends.
    fn drop(&mut self) {
        let runs = locked(&self.worker).is_some();
        if runs && self.mode == OpenMode::ReadWrite {
            self.readers.forget();
            let now = self.clock();
            self.post(move |side| {
                if let Err(error) = scrub::if_due(side, now().0, Extent::Whole) {
                    tracing::debug!(%error, "what was deleted is scrubbed by the next process");
                }
            });
        }
    }
}
