//! The readers that are kept open.
//!
//! Invariant: a reader of a file that was put back, replaced or written over is not used again.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::worker::Identity;

/// Readers kept open.
const MOST: usize = 4;

#[derive(Default)]
pub(crate) struct Readers(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    free: Vec<Connection>,
    /// Goes up whenever the readers are of a file that is there no more.
    epoch: u64,
    /// What the first one was opened on, until a writer knows better.
    first: Option<Identity>,
}

impl Readers {
    /// A panic elsewhere leaves nothing half done here.
    fn locked(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reader of the store at this path.
    pub(crate) fn add(&self, connection: Connection, path: &Path) {
        let mut pool = self.locked();
        pool.first = Some(Identity::of(path));
        pool.free.push(connection);
    }

    /// A reader, and what it is to be given back with.
    pub(crate) fn take(&self) -> (u64, Option<Connection>) {
        let mut pool = self.locked();
        (pool.epoch, pool.free.pop())
    }

    /// Keeps a reader for the next time.
    pub(crate) fn give(&self, epoch: u64, connection: Connection) {
        let mut pool = self.locked();
        if pool.epoch == epoch && pool.free.len() < MOST {
            pool.free.push(connection);
        }
    }

    /// Closes them; those in use are closed after use.
    pub(crate) fn forget(&self) {
        let mut pool = self.locked();
        pool.epoch += 1;
        pool.first = None;
        pool.free.clear();
    }

    /// What the first one was opened on.
    pub(crate) fn first(&self) -> Option<Identity> {
        self.locked().first
    }
}
