//! The holder's side of a session: commits, the durability seam, drafts.
//!
//! Invariant: a commit that returned is durable, in the database or in the side file.

use std::path::Path;

use hermes_core::{Seq, SessionId, TurnNo};

use crate::apply::Care;
use crate::draft::{self, Draft, DraftHeader};
use crate::engage::{self, Engaged, Outcome, Plan};
use crate::lease::{self, Taken};
use crate::spool::{self, Spool, SpoolError, SpoolHeader};
use crate::store::Store;
use crate::{
    Batch, Committed, Record, RecoveredOutcome, SessionInit, StoreError, Unavailable, point,
};

/// Writes to one session while it holds its lease.
pub struct SessionWriter {
    store: Store,
    lease: SessionLease,
    /// The session's facts, until the database knows them.
    init: Option<SessionInit>,
    last: Seq,
    spool: Option<Spool>,
    /// The caller knows that the side file is in use.
    told: bool,
    /// What befell the store's file and the caller does not know.
    untold: Option<Unavailable>,
    /// Rows whose drafts are on disk.
    drafts: Vec<Seq>,
    care: Care,
    released: bool,
}

/// Proof that a session is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLease {
    pub(crate) session: SessionId,
    pub(crate) session_no: Option<i64>,
    pub(crate) epoch: Option<i64>,
}

impl SessionWriter {
    /// A writer that nothing was stored with yet. Marks the session as held by this store.
    fn begin(
        store: &Store,
        session: &SessionId,
        init: Option<SessionInit>,
    ) -> Result<Self, StoreError> {
        store.inner().ensure_writable()?;
        store.inner().hold(session)?;
        Ok(Self {
            store: store.clone(),
            lease: SessionLease { session: session.clone(), session_no: None, epoch: None },
            init,
            last: Seq(0),
            spool: None,
            told: false,
            untold: None,
            drafts: Vec::new(),
            care: Care::Strict,
            released: false,
        })
    }

    pub(crate) fn create(
        store: &Store,
        init: SessionInit,
        first: Batch,
    ) -> Result<Self, StoreError> {
        let mut writer = Self::begin(store, &init.id.clone(), Some(init))?;
        let _where = writer.commit(first)?;
        writer.told = false;
        Ok(writer)
    }

    /// As `create`, for records that may name what lies beyond a branch's cut.
    pub(crate) fn create_copy(
        store: &Store,
        init: SessionInit,
        records: Batch,
        cut: Seq,
    ) -> Result<Self, StoreError> {
        let mut writer = Self::begin(store, &init.id.clone(), Some(init))?;
        writer.care = Care::Lenient;
        let _where = writer.commit(records)?;
        writer.care = Care::Strict;
        writer.told = false;
        writer.last = writer.last.max(cut);
        Ok(writer)
    }

    /// Opens a session and says what was taken in. Who knows its last seq can go on with it in the
    /// side file even where the database cannot be read.
    pub(crate) fn open(
        store: &Store,
        session: &SessionId,
        known: Option<Seq>,
    ) -> Result<(Self, RecoveredOutcome), StoreError> {
        let mut writer = Self::begin(store, session, None)?;
        let paths = store.inner().paths();
        match Spool::open_existing(&paths.spool_dir, session) {
            Ok(found) => writer.spool = found.map(|(spool, _)| spool),
            Err(SpoolError::InUse(holder)) => return Err(writer.in_use(holder)),
            Err(SpoolError::Io(source)) => {
                let path = spool::path_of(&paths.spool_dir, session);
                return Err(StoreError::Io { path, source });
            }
        }
        let drafts = draft::left_over(&paths.drafts_dir, session);
        let had_spool = writer.spool.is_some();
        match writer.run(Vec::new(), drafts.clone())? {
            (Ok(engaged), _) => {
                if !drafts.is_empty() {
                    point::reach("draft: taken in");
                }
                draft_files_gone(&drafts);
                let outcome = RecoveredOutcome::TakenIn {
                    batches: engaged.batches,
                    answers: engaged.answers,
                };
                Ok((writer, outcome))
            }
            (Err(StoreError::Unavailable { why, .. }), _) => {
                writer.open_beside(why, had_spool, &drafts, known)?;
                Ok((writer, RecoveredOutcome::TakenIn { batches: 0, answers: 0 }))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Opens a session whose database cannot be written: its lease cannot be taken there, so the
    /// lock on the side file stands for it.
    fn open_beside(
        &mut self,
        why: Unavailable,
        had_spool: bool,
        drafts: &[draft::LeftOver],
        known: Option<Seq>,
    ) -> Result<(), StoreError> {
        let session = self.lease.session.clone();
        let claim = self.store.inner().claim();
        let stored = self.store.inner().read(|connection| {
            let Some(session_no) = engage::number_of(connection, &session)? else {
                return Ok(None);
            };
            lease::check_free(connection, session_no, &session, &claim)?;
            Ok(Some(session_no))
        });
        let history = stored.and_then(|stored| {
            if stored.flatten().is_none() && !had_spool {
                let why = why.clone();
                return Err(StoreError::Unavailable { doing: "opening a session", why });
            }
            self.store.history(&session)
        });
        let mut last = match (history, known) {
            (Ok(history), _) => history.last_seq,
            (Err(StoreError::Unavailable { .. }), Some(known)) => known,
            (Err(error), _) => return Err(error),
        };
        let mut batch = Batch::new();
        for draft in drafts {
            let seq = if draft.header.row > last { draft.header.row } else { last.next() };
            last = last.max(seq);
            let row = draft.clone().into_row(seq, || {
                last = last.next();
                last
            });
            batch.extend(row.map(Record::Row));
        }
        self.last = last;
        self.untold = Some(why.clone()).filter(|why| *why == Unavailable::Deleted);
        let _spooled = self.spool(&batch, why)?;
        self.told = false;
        draft_files_gone(drafts);
        Ok(())
    }

    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.lease.session
    }

    /// The lease, for [`crate::DeleteRequest::held`].
    pub fn lease(&self) -> &SessionLease {
        &self.lease
    }

    /// Gives out the next seq.
    pub fn next_seq(&mut self) -> Seq {
        self.last = self.last.next();
        self.last
    }

    /// The last seq given out. One that was taken for a draft counts, so a request's cut is to be
    /// read before its draft is begun.
    pub fn last_seq(&self) -> Seq {
        self.last
    }

    /// Stores a batch in one transaction, with whatever still waits in the side file before it.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if another process took the session over, [`StoreError::Deleted`]
    /// if it was deleted, [`StoreError::Invalid`] if a record does not fit, and
    /// [`StoreError::NotDurable`] if neither the database nor the side file can be written. In all
    /// of these nothing of the batch is stored, but for the requests of a deleted session.
    pub fn commit(&mut self, batch: Batch) -> Result<Committed, StoreError> {
        self.note_seqs(&batch);
        let (outcome, batch) = self.run(batch, Vec::new())?;
        let committed = match outcome {
            Ok(_) => Committed::Database,
            Err(StoreError::Unavailable { why, .. }) => {
                refuse_claims(&batch, &why)?;
                let committed = self.spool(&batch, why)?;
                self.untold = None;
                self.settle_drafts(&batch);
                return Ok(committed);
            }
            Err(error) => return Err(error),
        };
        self.settle_drafts(&batch);
        Ok(committed)
    }

    fn settle_drafts(&mut self, batch: &Batch) {
        if !self.drafts.is_empty() {
            point::reach("draft: before its end");
        }
        let folder = &self.store.inner().paths().drafts_dir;
        draft::settle(folder, &self.lease.session, &mut self.drafts, batch);
    }

    /// What befell the store's file without a batch having gone to the side file for it: it was
    /// deleted and put back, or its search index is damaged. Said once.
    pub const fn untold(&mut self) -> Option<Unavailable> {
        self.untold.take()
    }

    /// Renews the lease, and takes in the side file if there is one and the database can be
    /// written again.
    pub fn renew(&mut self) -> Result<(), StoreError> {
        match self.run(Batch::new(), Vec::new())?.0 {
            Ok(_) | Err(StoreError::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Begins the draft of an answer; takes a seq for its row.
    pub fn draft(&mut self, turn: TurnNo) -> Result<Draft, StoreError> {
        let inner = self.store.inner();
        let header = DraftHeader {
            session: self.lease.session.clone(),
            turn,
            row: self.last.next(),
            token: draft::token(inner.holder()),
            started_at: inner.now(),
        };
        let draft = Draft::create(&inner.paths().drafts_dir, &header)?;
        self.last = header.row;
        self.drafts.push(header.row);
        point::reach("draft: begun");
        Ok(draft)
    }

    /// Gives the lease back; where the store cannot be written, with a later write or when the
    /// process ends.
    pub fn release(mut self) -> Result<(), StoreError> {
        self.released = true;
        let Some(lease) = self.taken() else { return Ok(()) };
        let options = self.store.inner().options();
        let wait = match self.spool {
            Some(_) => options.busy_timeout_spooling,
            None => options.busy_timeout,
        };
        match self.store.inner().write(move |side| side.give_back(wait, lease)) {
            Err(error @ StoreError::Unavailable { .. }) => {
                tracing::debug!(%error, "the lease is given back later");
                Ok(())
            }
            released => released,
        }
    }

    /// What is to be given back.
    fn taken(&self) -> Option<Taken> {
        let (session_no, epoch) = self.lease.session_no.zip(self.lease.epoch)?;
        let token = self.store.inner().holder().token.clone();
        Some(Taken { session_no, epoch, token })
    }

    /// Runs one transaction and brings this writer up to date with it. The
    /// batch comes back, for the side file.
    fn run(
        &mut self,
        batch: Batch,
        drafts: Vec<draft::LeftOver>,
    ) -> Result<(Result<Engaged, StoreError>, Batch), StoreError> {
        let inner = self.store.inner();
        let plan = Plan {
            session: self.lease.session.clone(),
            session_no: self.lease.session_no,
            epoch: self.lease.epoch,
            init: self.init.clone(),
            claim: inner.claim(),
            care: self.care,
        };
        let spool_path = self.spool.as_ref().map(|spool| spool.path().to_owned());
        let wait = if spool_path.is_some() {
            inner.options().busy_timeout_spooling
        } else {
            inner.options().busy_timeout
        };
        let lease_only =
            spool_path.is_none() && plan.init.is_none() && drafts.is_empty() && batch.is_empty();
        let (outcome, batch, untold) = inner.write(move |side| {
            let load = || match &spool_path {
                Some(path) => spool::read(path)
                    .map_err(|source| StoreError::Io { path: path.clone(), source }),
                None => Ok(None),
            };
            let work =
                |tx: &rusqlite::Transaction<'_>| engage::engage(tx, &plan, load, &drafts, &batch);
            let outcome = if lease_only {
                side.light_transaction(wait, work)
            } else {
                side.transaction(wait, work)
            };
            if outcome.is_ok() {
                point::reach("append: committed");
                side.wrote(&batch);
            }
            Ok((outcome, batch, side.untold()))
        })?;
        self.untold = untold.or(self.untold.take());
        let outcome = match outcome {
            Ok(Outcome::Engaged(engaged)) => {
                self.engaged(&engaged);
                Ok(engaged)
            }
            Ok(Outcome::Deleted(at)) => {
                self.drop_spool();
                Err(StoreError::Deleted { session: self.lease.session.clone(), at })
            }
            Err(error) => Err(error),
        };
        Ok((outcome, batch))
    }

    fn engaged(&mut self, engaged: &Engaged) {
        self.lease.session_no = Some(engaged.session_no);
        self.lease.epoch = Some(engaged.epoch);
        self.last = self.last.max(engaged.last_seq);
        self.init = None;
        self.told = false;
        if self.spool.is_some() {
            point::reach("spool: taken in");
        }
        if engaged.conflict
            && let Some(spool) = self.spool.take()
        {
            if let Err(error) = spool.set_aside() {
                tracing::error!(%error, "the side file cannot be set aside");
            }
            return;
        }
        self.drop_spool();
    }

    fn drop_spool(&mut self) {
        if let Some(spool) = self.spool.take()
            && let Err(error) = spool.remove()
        {
            // It is known as taken in, so it does no harm.
            tracing::warn!(%error, "a side file that was taken in stays");
        }
    }

    /// The durability seam: the batch goes to the side file, synced.
    fn spool(&mut self, batch: &Batch, why: Unavailable) -> Result<Committed, StoreError> {
        let inner = self.store.inner();
        let session = self.lease.session.clone();
        let folder = &inner.paths().spool_dir;
        if self.spool.is_none() {
            let opened = Spool::open(folder, &session, || SpoolHeader {
                session: session.clone(),
                token: draft::token(inner.holder()),
                holder: inner.holder().clone(),
                init: self.init.clone(),
            });
            match opened {
                Ok(spool) => self.spool = Some(spool),
                Err(SpoolError::InUse(holder)) => return Err(self.in_use(holder)),
                Err(SpoolError::Io(source)) => {
                    let spool = spool::path_of(folder, &session);
                    return Err(StoreError::NotDurable { database: why, spool, source });
                }
            }
            tracing::warn!(session = %session, %why, "the store cannot be written; using the side file");
        }
        let Some(spool) = &mut self.spool else { return Err(StoreError::WriterGone) };
        let path = spool.path().to_owned();
        if !batch.is_empty()
            && let Err(source) = spool.append(batch)
        {
            return Err(StoreError::NotDurable { database: why, spool: path, source });
        }
        let first = !std::mem::replace(&mut self.told, true);
        Ok(Committed::Spooled { path, why, first })
    }

    fn in_use(&self, holder: Option<crate::Holder>) -> StoreError {
        let inner = self.store.inner();
        StoreError::Held {
            session: self.lease.session.clone(),
            by: holder.unwrap_or_else(|| inner.holder().clone()),
            since: inner.now(),
        }
    }

    fn note_seqs(&mut self, batch: &Batch) {
        for record in batch {
            match record {
                Record::Row(row) => {
                    let parts = row.parts.iter().map(|part| part.seq).max().unwrap_or_default();
                    self.last = self.last.max(row.seq).max(parts);
                }
                Record::Part(part) => self.last = self.last.max(part.seq),
                _ => {}
            }
        }
    }
}

impl Drop for SessionWriter {
    fn drop(&mut self) {
        let inner = self.store.inner();
        inner.let_go(&self.lease.session);
        if self.released {
            return;
        }
        if let Some(lease) = self.taken() {
            let wait = inner.options().busy_timeout;
            inner.post(move |side| {
                if let Err(error) = side.give_back(wait, lease) {
                    tracing::debug!(%error, "the lease is given back later");
                }
            });
        }
    }
}

/// The side file cannot tell whether another session was quicker, so no capsule is given by it.
fn refuse_claims(batch: &Batch, why: &Unavailable) -> Result<(), StoreError> {
    let claimed = batch.iter().find_map(|record| match record {
        Record::CapsuleClaimed { capsule, .. } => Some(capsule.to_string()),
        _ => None,
    });
    match claimed {
        Some(capsule) => {
            let why = format!("the store cannot be written at present ({why})");
            Err(StoreError::CapsuleNotClaimed { capsule, why })
        }
        None => Ok(()),
    }
}

fn draft_files_gone(drafts: &[draft::LeftOver]) {
    for draft in drafts {
        remove_quietly(&draft.path);
    }
}

fn remove_quietly(path: &Path) {
    if let Err(error) = crate::files::remove(path) {
        tracing::debug!(%error, path = %path.display(), "a draft that was taken in stays");
    }
}
