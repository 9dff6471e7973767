//! Leases: one process at a time writes to a session, or delivers an event.
//!
//! A lease has an epoch that goes up with every change of hands; each commit checks it, so a
//! holder that was replaced can store nothing more. Whether a holder lives is seen by a lock on
//! its lock file, which the system gives back however the process ends. Where no such file can be
//! seen the holder is gone if he was a process of this machine that is there no more; else (another
//! machine) the lease's expiry decides.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::{Env, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::db::Doing as _;
use crate::files;
use crate::{EventNo, Holder, StoreError};

/// The lock file of a live holder, held for as long as this value lives.
pub(crate) struct HolderLock {
    path: PathBuf,
    /// Events claimed and not delivered: with one left the file stays, unlocked, and proves that
    /// its holder has ended.
    pub(crate) claims: BTreeSet<EventNo>,
    /// Leases that are still to be given back: the same with one left.
    owed: Owed,
    _locked: File,
}

/// A lease at an epoch, under the token of its holder.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) session_no: i64,
    pub(crate) epoch: i64,
    pub(crate) token: String,
}

/// Leases that could not be given back because the store was locked or full. They go with a later
/// write; if the process ends first, its lock file stays and proves that they are free.
#[derive(Clone, Default)]
pub(crate) struct Owed(Arc<Mutex<Vec<Taken>>>);

impl Owed {
    pub(crate) fn add(&self, leases: Vec<Taken>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(leases);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes all of them out; whoever fails to give them back adds them again.
    pub(crate) fn take(&self) -> Vec<Taken> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HolderLock {
    /// Creates and locks the file of this holder.
    pub(crate) fn take(folder: &Path, holder: &Holder, owed: Owed) -> Result<Self, StoreError> {
        files::private_dir(folder)?;
        let path = lock_path(folder, &holder.token);
        // Locked under another name first, so that nobody ever sees it unlocked.
        let fresh = path.with_extension("new");
        let mut file = files::private_options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)
            .map_err(files::io_at(&fresh))?;
        if let Err(error) = file.try_lock() {
            // Without locks on this file system the leases' expiry decides.
            tracing::warn!(%error, path = %path.display(), "the holder's file cannot be locked");
        }
        // For people. On a full disk the file stays empty; its lock is what counts.
        if let Err(error) = writeln!(file, "{} {}", holder.pid, holder.host) {
            tracing::debug!(%error, path = %path.display(), "the holder's file does not name him");
        }
        if let Err(error) = std::fs::rename(&fresh, &path) {
            files::remove(&fresh).map_err(files::io_at(&fresh))?;
            return Err(files::io_at(&path)(error));
        }
        Ok(Self { path, claims: BTreeSet::new(), owed, _locked: file })
    }
}

impl Drop for HolderLock {
    fn drop(&mut self) {
        if self.claims.is_empty()
            && self.owed.is_empty()
            && let Err(error) = files::remove(&self.path)
        {
            tracing::debug!(%error, "the holder's lock file stays");
        }
    }
}

fn lock_path(folder: &Path, token: &str) -> PathBuf {
    folder.join(format!("holder-{token}.lock"))
}

/// What can be seen of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    Dead,
    Unknown,
}

fn life(folder: &Path, token: &str) -> Life {
    let Ok(file) = File::open(lock_path(folder, token)) else { return Life::Unknown };
    match file.try_lock() {
        Ok(()) => Life::Dead,
        Err(TryLockError::WouldBlock) => Life::Alive,
        Err(TryLockError::Error(_)) => Life::Unknown,
    }
}

/// Whether there is no such process on this machine, where that can be seen.
fn has_ended(pid: u32) -> bool {
    let processes = Path::new("/proc");
    processes.join("self").exists() && !processes.join(pid.to_string()).exists()
}

/// Removes the lock files of dead holders that hold no session and no event any more. Until then
/// the file is what proves that its holder is dead.
pub(crate) fn sweep(connection: &Connection, folder: &Path) -> Result<(), StoreError> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let token = name.to_str().and_then(|name| name.strip_prefix("holder-"));
        let Some(token) = token.and_then(|rest| rest.strip_suffix(".lock")) else { continue };
        let holds = connection
            .prepare_cached(
                "SELECT 1 FROM lease WHERE token = ?1
                 UNION ALL SELECT 1 FROM outbox WHERE delivered_at IS NULL AND lease_token = ?1",
            )
            .and_then(|mut statement| statement.exists([token]))
            .doing("looking for leases of a dead process")?;
        if !holds
            && life(folder, token) == Life::Dead
            && let Err(error) = files::remove(&entry.path())
        {
            tracing::debug!(%error, "a dead holder's lock file stays");
        }
    }
    Ok(())
}

/// This process as a holder.
pub(crate) fn this_process(env: &dyn Env) -> Holder {
    /// Two stores of one process are two holders.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut random = [0; 16];
    env.random(&mut random);
    let pid = std::process::id();
    let token = u128::from_be_bytes(random);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "this machine".to_owned());
    Holder { host, pid, token: format!("{pid:x}-{count:x}-{token:032x}") }
}

/// Who asks for a lease, and how it is decided whether another one is still good.
#[derive(Clone)]
pub(crate) struct Claim {
    pub(crate) me: Holder,
    pub(crate) now: Timestamp,
    pub(crate) ttl_millis: i64,
    pub(crate) locks: PathBuf,
    /// This store has a live writer of the session.
    pub(crate) held_here: bool,
}

impl Claim {
    /// Whether a holder's lease that ends at `expires` is still good.
    fn is_held(&self, by: &Holder, expires: Timestamp) -> bool {
        let gone = by.host == self.me.host && has_ended(by.pid);
        match life(&self.locks, &by.token) {
            Life::Unknown if gone => false,
            _ => self.is_good(&by.token, expires),
        }
    }

    /// Whether what was taken under a token, for a time that ends at `expires`, is still taken.
    pub(crate) fn is_good(&self, token: &str, expires: Timestamp) -> bool {
        match life(&self.locks, token) {
            Life::Alive => true,
            Life::Dead => false,
            Life::Unknown => expires > self.now,
        }
    }
}

struct Stored {
    epoch: i64,
    holder: Option<Holder>,
    since: Timestamp,
    expires: Timestamp,
}

fn stored(connection: &Connection, session_no: i64) -> Result<Option<Stored>, StoreError> {
    connection
        .prepare_cached(
            "SELECT epoch, token, host, pid, since, expires FROM lease WHERE session_no = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row([session_no], |row| {
                    let token: Option<String> = row.get(1)?;
                    Ok(Stored {
                        epoch: row.get(0)?,
                        holder: match token {
                            None => None,
                            Some(token) => {
                                Some(Holder { token, host: row.get(2)?, pid: row.get(3)? })
                            }
                        },
                        since: Timestamp(row.get::<_, Option<i64>>(4)?.unwrap_or(0)),
                        expires: Timestamp(row.get::<_, Option<i64>>(5)?.unwrap_or(0)),
                    })
                })
                .optional()
        })
        .doing("reading a lease")
}

/// Fails with `Held` if another holder's lease is good.
pub(crate) fn check_free(
    connection: &Connection,
    session_no: i64,
    session: &SessionId,
    claim: &Claim,
) -> Result<i64, StoreError> {
    let Some(lease) = stored(connection, session_no)? else { return Ok(0) };
    let Some(by) = lease.holder else { return Ok(lease.epoch) };
    let good = if by.token == claim.me.token {
        claim.held_here
    } else {
        claim.is_held(&by, lease.expires)
    };
    if good {
        return Err(StoreError::Held { session: session.clone(), by, since: lease.since });
    }
    Ok(lease.epoch)
}

/// A live process other than this one that holds, or held, a session of the store with this folder
/// of drafts: `process`, its number and machine.
pub fn other_process(folder: &Path) -> Option<String> {
    let own = format!("{:x}-", std::process::id());
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name();
        let token = name.to_str().and_then(|name| name.strip_prefix("holder-"));
        let Some(token) = token.and_then(|rest| rest.strip_suffix(".lock")) else { continue };
        if !token.starts_with(&own) && life(folder, token) == Life::Alive {
            let who = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let pid = token.split('-').next().and_then(|pid| u32::from_str_radix(pid, 16).ok());
            let who = match (who.trim(), pid) {
                ("", Some(pid)) => pid.to_string(),
                (who, _) => who.to_owned(),
            };
            return Some(format!("process {who}"));
        }
    }
    None
}

/// A session that somebody holds, if there is one.
pub(crate) fn any_held(
    connection: &Connection,
    claim: &Claim,
) -> Result<Option<SessionId>, StoreError> {
    const DOING: &str = "looking for sessions in use";
    let mut statement = connection
        .prepare(
            "SELECT l.session_no, s.id FROM lease l JOIN sessions s ON s.session_no = l.session_no
             WHERE l.token IS NOT NULL",
        )
        .doing(DOING)?;
    let found = statement
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .doing(DOING)?
        .collect::<Result<Vec<_>, _>>()
        .doing(DOING)?;
    for (session_no, id) in found {
        let id = SessionId::new(id);
        match check_free(connection, session_no, &id, claim) {
            Ok(_) => {}
            Err(StoreError::Held { .. }) => return Ok(Some(id)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Takes the lease; returns its new epoch.
pub(crate) fn take(
    transaction: &Transaction<'_>,
    session_no: i64,
    session: &SessionId,
    claim: &Claim,
) -> Result<i64, StoreError> {
    let epoch = check_free(transaction, session_no, session, claim)? + 1;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO lease (session_no, epoch, token, host, pid, since, expires)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                session_no,
                epoch,
                claim.me.token,
                claim.me.host,
                claim.me.pid,
                claim.now.0,
                claim.now.plus_millis(claim.ttl_millis).0,
            ])
        })
        .doing("taking a lease")?;
    Ok(epoch)
}

/// Fails with `Fenced` unless this holder still has the lease at `epoch`; renews it when a third
/// of its time is gone.
pub(crate) fn verify(
    transaction: &Transaction<'_>,
    session_no: i64,
    session: &SessionId,
    epoch: i64,
    claim: &Claim,
) -> Result<(), StoreError> {
    let fenced = |by: String| StoreError::Fenced { session: session.clone(), by };
    let Some(lease) = stored(transaction, session_no)? else {
        return Err(fenced("nobody".to_owned()));
    };
    let mine = lease.epoch == epoch
        && lease.holder.as_ref().is_some_and(|holder| holder.token == claim.me.token);
    if !mine {
        let by =
            lease.holder.map_or("another process that is gone".to_owned(), |by| by.to_string());
        return Err(fenced(by));
    }
    if lease.expires.millis_since(claim.now) * 3 < claim.ttl_millis * 2 {
        transaction
            .prepare_cached("UPDATE lease SET expires = ?2 WHERE session_no = ?1")
            .and_then(|mut statement| {
                statement.execute(params![session_no, claim.now.plus_millis(claim.ttl_millis).0])
            })
            .doing("renewing a lease")?;
    }
    Ok(())
}

/// Gives the lease back if it is still this holder's at `epoch`.
pub(crate) fn release(transaction: &Transaction<'_>, lease: &Taken) -> Result<(), StoreError> {
    transaction
        .execute(
            "UPDATE lease SET token = NULL, host = NULL, pid = NULL, since = NULL, expires = NULL
             WHERE session_no = ?1 AND epoch = ?2 AND token = ?3",
            params![lease.session_no, lease.epoch, lease.token],
        )
        .doing("giving a lease back")?;
    Ok(())
}

/// Gives every lease back, in a file that is a copy.
pub(crate) fn release_all(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    transaction
        .execute(
            "UPDATE lease SET token = NULL, host = NULL, pid = NULL, since = NULL, expires = NULL
             WHERE token IS NOT NULL",
            [],
        )
        .doing("giving leases back")?;
    Ok(())
}
