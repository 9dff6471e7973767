//! The handoffs folder beside the store: a capsule's text and the note that it is pending.
//!
//! The store is the authority on what has become of a capsule; the file is the authority on its
//! text until it is delivered. Invariants: a pending note is removed only by whoever sees in the
//! store that its capsule is settled, or by a person, and the two are told apart because the store
//! knows whether the note was ever written; every step can be cut off and is finished by
//! [`Handoffs::reconcile`] or by the next offer; files are changed under one lock.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_core::{Digest, Env, Lane};
use hermes_home::FileLock;
use hermes_home::fsio::{self, Privacy};
use hermes_store::{CapsuleRecord, CapsuleState, Store};
use serde::{Deserialize, Serialize};

use crate::capsule::Facts;
use crate::{HandoffError, lane, section};

/// How long the folder's lock is waited for. It is held for a few file operations.
const LOCK_WAIT: Duration = Duration::from_secs(2);
/// How long a build waits for another's lock: a child process that is being started holds its
/// parent's open files for a moment, so one look is not enough to call a lane busy.
const BUILD_WAIT: Duration = Duration::from_millis(100);
/// Bytes that are read of a file.
pub(crate) const READ_LIMIT: u64 = 1 << 20;
/// Milliseconds for which a capsule waits.
pub const WAITS_MILLIS: i64 = 36 * 3600 * 1000;
/// The file that makes every lane confidential.
const CONFIDENTIAL_FILE: &str = "CONFIDENTIAL";

/// The note beside a capsule that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// When it was built.
    pub at: String,
    /// The lane's key; in a confidential lane what stands for it.
    pub lane: Option<String>,
    /// The session it is about.
    pub session_id: String,
    /// How the build went.
    pub status: String,
    /// Why.
    pub reason: Option<String>,
    /// Digest of the text as it was written.
    pub digest: Digest,
    /// The capsule's id.
    pub capsule: String,
}

/// What a reconciliation did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// The capsule.
    pub capsule: String,
    /// What was done.
    pub what: &'static str,
}

/// The handoffs of one home.
#[derive(Clone)]
pub struct Handoffs {
    pub(crate) store: Store,
    folder: PathBuf,
    pub(crate) env: Arc<dyn Env>,
}

impl Handoffs {
    /// The handoffs in `folder` (the home's `handoffs_dir`). Nothing is touched yet.
    pub fn new(store: Store, folder: impl Into<PathBuf>, env: Arc<dyn Env>) -> Self {
        Self { store, folder: folder.into(), env }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the rules for confidential lanes hold: by `HANDOFF_CONFIDENTIAL`, whose value is
    /// given, or by a file `CONFIDENTIAL` in the folder.
    pub fn is_confidential(&self, variable: Option<&str>) -> bool {
        // What cannot be looked at counts as confidential.
        variable.is_some_and(hermes_home::says_on)
            || self.folder.join(CONFIDENTIAL_FILE).try_exists().unwrap_or(true)
    }

    /// Whether a capsule of this lane is being built, in any process.
    pub fn is_building(&self, lane: &Lane) -> bool {
        [false, true].into_iter().any(|confidential| {
            let path = self.build_lock_path(&lane::stem(lane, confidential));
            path.exists() && FileLock::acquire(&path, BUILD_WAIT).is_err()
        })
    }

    /// The capsule's file.
    pub fn capsule_path(&self, record: &CapsuleRecord) -> PathBuf {
        self.capsule_file(&stem_of(record))
    }

    /// The note that it is pending.
    pub fn pending_path(&self, record: &CapsuleRecord) -> PathBuf {
        self.pending_file(&stem_of(record))
    }

    pub(crate) fn capsule_file(&self, stem: &str) -> PathBuf {
        self.folder.join(format!("handoff-{stem}.md"))
    }

    fn pending_file(&self, stem: &str) -> PathBuf {
        self.folder.join(format!("pending-{stem}.json"))
    }

    fn build_lock_path(&self, stem: &str) -> PathBuf {
        self.folder.join(format!(".build-{stem}.lock"))
    }

    /// Begins a build; None while another is running.
    pub(crate) fn begin(&self, stem: &str) -> Result<Option<FileLock>, HandoffError> {
        self.ensure_folder()?;
        let path = self.build_lock_path(stem);
        match FileLock::acquire(&path, BUILD_WAIT) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(HandoffError::io(path)(error)),
        }
    }

    fn ensure_folder(&self) -> Result<(), HandoffError> {
        fsio::create_private_dir(&self.folder).map_err(HandoffError::io(&self.folder))
    }

    pub(crate) fn lock(&self) -> Result<FileLock, HandoffError> {
        self.ensure_folder()?;
        let path = self.folder.join(".files.lock");
        FileLock::acquire(&path, LOCK_WAIT).map_err(HandoffError::io(path))
    }

    /// Writes a capsule's text beside its place, and takes room for its note, before the store
    /// hears of it: a full disk or a folder that cannot be written is found out while the lane's
    /// older capsule still waits.
    pub(crate) fn stage(&self, id: &str, text: &str) -> Result<Staged, HandoffError> {
        self.ensure_folder()?;
        let name = fsio::safe_file_name(id);
        let staged = Staged {
            text: self.folder.join(format!("{STAGED}{name}.md")),
            room: self.folder.join(format!("{STAGED}{name}.json")),
        };
        write(&staged.text, text.as_bytes())?;
        fs::write(&staged.room, [b' '; NOTE_ROOM]).map_err(HandoffError::io(&staged.room))?;
        Ok(staged)
    }

    /// Writes the files of a pending capsule and notes it. `lock` proves that nobody else does.
    pub(crate) fn publish(
        &self,
        record: &CapsuleRecord,
        staged: Option<Staged>,
        _lock: &FileLock,
    ) -> Result<(), HandoffError> {
        // Without its text it was settled meanwhile.
        let Some(text) = self.store.capsule_text(&record.id)? else { return Ok(()) };
        // The text last: where the note cannot be written, the file of the capsule before stands as a
        // person may have changed it.
        self.write_note(record)?;
        let path = self.capsule_path(record);
        let moved = staged.is_some_and(|staged| fs::rename(&staged.text, &path).is_ok());
        if !moved {
            write(&path, text.as_bytes())?;
        }
        if !self.store.capsule_published(&record.id)? {
            self.remove_note(record)?;
        }
        Ok(())
    }

    pub(crate) fn write_note(&self, record: &CapsuleRecord) -> Result<(), HandoffError> {
        let lane = record.lane.as_ref().map(|lane| {
            if record.confidential { lane::stem(lane, true) } else { lane.key().to_owned() }
        });
        let pending = Pending {
            at: record.created_at.to_string(),
            lane,
            session_id: record.session.to_string(),
            status: record.status.clone(),
            reason: record.reason.clone(),
            digest: record.digest,
            capsule: record.id.clone(),
        };
        let path = self.pending_path(record);
        let json = serde_json::to_string_pretty(&pending)
            .map_err(|error| HandoffError::io(&path)(io::Error::other(error)))?;
        write(&path, format!("{json}\n").as_bytes())
    }

    /// The note of the capsule's lane; None if there is none.
    fn note(&self, record: &CapsuleRecord) -> Result<Option<Note>, HandoffError> {
        read_note(&self.pending_path(record))
    }

    /// Whether a person took a pending capsule back by removing its note.
    pub(crate) fn is_taken_back(&self, record: &CapsuleRecord) -> Result<bool, HandoffError> {
        Ok(record.published && self.note(record)?.is_none())
    }

    /// Removes the note if it is this capsule's.
    pub(crate) fn remove_note(&self, record: &CapsuleRecord) -> Result<(), HandoffError> {
        let is_its =
            matches!(self.note(record)?, Some(Note::Ours(note)) if note.capsule == record.id);
        if is_its { remove(&self.pending_path(record)) } else { Ok(()) }
    }

    /// Removes what is left of a settled capsule. Its text goes unless it is the lane's archive.
    fn remove_files(&self, record: &CapsuleRecord) -> Result<(), HandoffError> {
        match self.note(record)? {
            Some(Note::Ours(note)) if note.capsule != record.id => return Ok(()),
            Some(Note::Ours(_)) => remove(&self.pending_path(record))?,
            Some(Note::Foreign) => return Ok(()),
            None => {}
        }
        // A newer capsule of the lane may stand there already.
        let newer = match &record.lane {
            Some(lane) => self.store.pending_capsule(lane)?.is_some(),
            None => false,
        };
        if newer { Ok(()) } else { remove(&self.capsule_path(record)) }
    }

    /// Removes the files of superseded capsules that have other names than those of `record`: the
    /// lane became confidential, or no longer is.
    pub(crate) fn remove_elsewhere(
        &self,
        superseded: &[String],
        record: &CapsuleRecord,
    ) -> Result<(), HandoffError> {
        for id in superseded {
            let Some(older) = self.store.capsule(id)? else { continue };
            if stem_of(&older) != stem_of(record) {
                remove(&self.pending_path(&older))?;
                remove(&self.capsule_path(&older))?;
            }
        }
        Ok(())
    }

    /// The text as it stands in the file; the stored one if there is no file, or it is still that of
    /// the capsule before.
    pub(crate) fn text(&self, record: &CapsuleRecord) -> Result<Option<String>, HandoffError> {
        if !record.published {
            return Ok(self.store.capsule_text(&record.id)?);
        }
        let path = self.capsule_path(record);
        match fsio::read_text(&path, READ_LIMIT) {
            Ok(read) => Ok(Some(read.text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(self.store.capsule_text(&record.id)?)
            }
            Err(error) => Err(HandoffError::io(path)(error)),
        }
    }

    /// Settles a pending capsule as no longer wanted and removes its files. Returns whether it was
    /// pending.
    ///
    /// # Errors
    /// If the store or the folder cannot be written.
    pub fn discard(&self, record: &CapsuleRecord, why: &str) -> Result<bool, HandoffError> {
        let _lock = self.lock()?;
        let was = self.store.settle_capsule(&record.id, CapsuleState::Discarded, why)?;
        if was {
            self.remove_files(record)?;
        }
        Ok(was)
    }

    /// Settles overdue capsules and removes their files, unread.
    ///
    /// # Errors
    /// If the store or the folder cannot be written.
    pub fn expire(&self) -> Result<Vec<CapsuleRecord>, HandoffError> {
        let expired = self.store.expire_capsules()?;
        if !expired.is_empty() {
            let _lock = self.lock()?;
            for record in &expired {
                tracing::info!(capsule = %record.id, "a capsule was not fetched in time and is deleted");
                self.remove_files(record)?;
            }
        }
        Ok(expired)
    }

    /// A capsule is delivered: its note goes. To be called after the commit; if it is not, the next
    /// reconciliation does it.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn delivered(&self, capsule: &str) -> Result<(), HandoffError> {
        let Some(record) = self.store.capsule(capsule)? else { return Ok(()) };
        if record.state == CapsuleState::Delivered {
            let _lock = self.lock()?;
            self.remove_note(&record)?;
        }
        Ok(())
    }

    /// Whether a pending capsule may still be given, its files brought in order on the way; settles
    /// one that a person took back by removing its note.
    pub(crate) fn settle_in(&self, record: &CapsuleRecord) -> Result<bool, HandoffError> {
        let lock = self.lock()?;
        // What was read before the lock may be old.
        let Some(record) = self.store.capsule(&record.id)? else { return Ok(false) };
        if record.state != CapsuleState::Pending {
            return Ok(false);
        }
        self.in_order(&record, &lock).map(|fix| fix != Some(TAKEN_BACK))
    }

    fn in_order(
        &self,
        record: &CapsuleRecord,
        lock: &FileLock,
    ) -> Result<Option<&'static str>, HandoffError> {
        if !record.published {
            self.publish(record, None, lock)?;
            return Ok(Some("its files were missing and are written"));
        }
        match self.note(record)? {
            Some(Note::Ours(note)) if note.capsule == record.id => Ok(None),
            // Damaged, or of a capsule that is settled: this one's is written again.
            Some(_) => {
                self.write_note(record)?;
                Ok(Some("its note was another's and is written again"))
            }
            None => {
                let why = "its note was removed by hand";
                self.store.settle_capsule(&record.id, CapsuleState::Discarded, why)?;
                Ok(Some(TAKEN_BACK))
            }
        }
    }

    /// Brings store and folder into agreement after any crash.
    ///
    /// # Errors
    /// If the store or the folder cannot be read or written; what was done until then holds.
    pub fn reconcile(&self) -> Result<Vec<Fix>, HandoffError> {
        let mut fixes: Vec<Fix> = self
            .expire()?
            .into_iter()
            .map(|record| Fix { capsule: record.id, what: "its time was over" })
            .collect();
        if !self.folder.exists() && self.store.capsules(Some(CapsuleState::Pending))?.is_empty() {
            return Ok(fixes);
        }
        let lock = self.lock()?;
        // What cannot be read of one lane keeps no other from being put in order.
        let mut broken = None;
        let mut done =
            |capsule: String, fixed: Result<Option<&'static str>, HandoffError>| match fixed {
                Ok(Some(what)) => fixes.push(Fix { capsule, what }),
                Ok(None) => {}
                Err(error) => drop(broken.get_or_insert(error)),
            };
        for note in self.notes()? {
            let Some(record) = self.store.capsule(&note.capsule)? else { continue };
            done(note.capsule, self.settled_note(&record));
        }
        for record in self.store.capsules(Some(CapsuleState::Pending))? {
            let brought = self.in_order(&record, &lock);
            done(record.id, brought);
        }
        self.remove_archives(&mut fixes)?;
        self.remove_staged();
        broken.map_or(Ok(fixes), Err)
    }

    /// Removes what is left of a settled capsule whose note is still there.
    fn settled_note(&self, record: &CapsuleRecord) -> Result<Option<&'static str>, HandoffError> {
        match record.state {
            CapsuleState::Pending => Ok(None),
            CapsuleState::Delivered | CapsuleState::Superseded => {
                self.remove_note(record)?;
                Ok(Some("its note is removed, as it is settled"))
            }
            CapsuleState::Expired | CapsuleState::Discarded => {
                self.remove_files(record)?;
                Ok(Some("its files are removed, as it is settled"))
            }
        }
    }

    /// Staged files of processes that died before they could use them.
    fn remove_staged(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let is_old = || {
                let changed = entry.metadata().and_then(|meta| meta.modified()).ok()?;
                Some(changed.elapsed().is_ok_and(|age| age > STAGED_FOR))
            };
            if entry.file_name().to_string_lossy().starts_with(STAGED) && is_old() == Some(true) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// The last capsule of a lane stays to be read, unless its session was deleted since.
    fn remove_archives(&self, fixes: &mut Vec<Fix>) -> Result<(), HandoffError> {
        let mut seen = BTreeSet::new();
        for record in self.store.capsules(None)? {
            let path = self.capsule_path(&record);
            // The newest comes first; the file is its.
            if seen.insert(path.clone())
                && record.state != CapsuleState::Pending
                && path.exists()
                && self.store.session(&record.session)?.is_none()
            {
                remove(&path)?;
                fixes.push(Fix { capsule: record.id, what: "its session was deleted" });
            }
        }
        Ok(())
    }

    /// The notes of this program in the folder.
    fn notes(&self) -> Result<Vec<Pending>, HandoffError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(HandoffError::io(&self.folder)(error)),
        };
        Ok(entries
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with("pending-") && name.ends_with(".json")
            })
            .filter_map(|entry| match read_note(&entry.path()) {
                Ok(Some(Note::Ours(note))) => Some(note),
                _ => None,
            })
            .collect())
    }

    /// Finds a capsule: by id or unique beginning of an id, or the newest of all (`latest`), of a
    /// session, or of the lane with this key.
    ///
    /// # Errors
    /// [`HandoffError::NotFound`], [`HandoffError::Ambiguous`].
    pub fn resolve(&self, reference: &str) -> Result<CapsuleRecord, HandoffError> {
        if let Some(found) = self.store.capsule(reference)? {
            return Ok(found);
        }
        // The newest comes first.
        let mut all = self.store.capsules(None)?;
        let is_meant = |record: &CapsuleRecord| {
            reference == "latest"
                || record.session.as_str() == reference
                || record.lane.as_ref().is_some_and(|lane| lane.key() == reference)
        };
        if let Some(at) = all.iter().position(is_meant) {
            return Ok(all.swap_remove(at));
        }
        all.retain(|record| reference.len() >= 3 && record.id.starts_with(reference));
        let reference = reference.to_owned();
        match (all.pop(), all.len()) {
            (Some(found), 0) => Ok(found),
            (Some(_), others) => Err(HandoffError::Ambiguous { reference, fitting: others + 1 }),
            (None, _) => Err(HandoffError::NotFound { reference }),
        }
    }

    /// All capsules with their facts, the newest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, HandoffError> {
        let listed = |record: CapsuleRecord| Listed {
            path: self.capsule_path(&record).exists().then(|| self.capsule_path(&record)),
            facts: serde_json::from_str(&record.facts).ok(),
            record,
        };
        Ok(self.store.capsules(None)?.into_iter().map(listed).collect())
    }

    /// The text of a capsule: the file's if it is (or was the last) of its lane, else the stored one,
    /// of a delivered one that of the row which received it; None once all are gone.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn show(&self, record: &CapsuleRecord) -> Result<Option<String>, HandoffError> {
        let newest = match &record.lane {
            Some(lane) => self
                .store
                .capsules(None)?
                .into_iter()
                .find(|other| other.lane.as_ref() == Some(lane))
                .is_none_or(|newest| newest.id == record.id),
            None => true,
        };
        let text = if newest { self.text(record)? } else { self.store.capsule_text(&record.id)? };
        Ok(match text {
            Some(text) => Some(text),
            None => self.store.delivered_capsule_text(record)?,
        })
    }

    /// Holds a capsule's text against what the store knows of it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn verify(&self, record: &CapsuleRecord) -> Result<Verified, HandoffError> {
        let Some(text) = self.show(record)? else { return Ok(Verified::Gone) };
        let read = section::read(&text);
        Ok(if Digest::of(&text) == record.digest {
            Verified::AsWritten
        } else if read.is_whole() {
            Verified::Edited
        } else {
            Verified::EditedBeyondForm
        })
    }
}

/// A capsule's files beside their places; gone when dropped.
pub(crate) struct Staged {
    text: PathBuf,
    room: PathBuf,
}

impl Drop for Staged {
    fn drop(&mut self) {
        for path in [&self.text, &self.room] {
            // What stays is removed by a later reconciliation.
            fs::remove_file(path).ok();
        }
    }
}

/// How the names of staged files begin.
const STAGED: &str = ".new-";
/// More bytes than a note has.
const NOTE_ROOM: usize = 8192;
/// A staged file this old was left by a process that died.
const STAGED_FOR: Duration = Duration::from_hours(1);

/// The outcome that takes a capsule out of delivery.
const TAKEN_BACK: &str = "it was taken back: its note was removed by hand";

/// A capsule in a list.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// What the store knows.
    pub record: CapsuleRecord,
    /// What its builder kept; None if that cannot be read.
    pub facts: Option<Facts>,
    /// Its file, if there is one.
    pub path: Option<PathBuf>,
}

/// How a capsule's text compares with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verified {
    /// Byte for byte.
    AsWritten,
    /// A person changed it; its sections are there.
    Edited,
    /// A person changed it; its sections are not all there. It is delivered as it stands.
    EditedBeyondForm,
    /// There is no text any more.
    Gone,
}

/// What stands for a capsule in the names of its files.
pub(crate) fn stem_of(record: &CapsuleRecord) -> String {
    match &record.lane {
        Some(lane) => lane::stem(lane, record.confidential),
        None => lane::stem_of_id(&record.id),
    }
}

enum Note {
    Ours(Pending),
    /// Another program's, or damaged.
    Foreign,
}

/// The note at a path; None if there is none. One that cannot be read was not removed.
fn read_note(path: &Path) -> Result<Option<Note>, HandoffError> {
    match fsio::read_text(path, READ_LIMIT) {
        Ok(read) => Ok(Some(serde_json::from_str(&read.text).map_or(Note::Foreign, Note::Ours))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HandoffError::io(path)(error)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), HandoffError> {
    fsio::write_atomic(path, bytes, Privacy::Private).map_err(HandoffError::io(path))
}

fn remove(path: &Path) -> Result<(), HandoffError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(HandoffError::io(path)(error)),
    }
}
