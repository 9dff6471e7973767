//! The store's public face: opening, and everything that reads.

use std::io;
use std::sync::Arc;

use hermes_core::{
    Block, Digest, Env, Generation, GenerationNo, RequestId, Seq, SessionId, Snapshot, Timestamp,
    WireProfile,
};

use crate::inner::Inner;
use crate::spool::{self, SpoolContents};
use crate::{
    Batch, ClaimedEvent, CompactionAttempt, Compactions, DeleteReceipt, DeleteRequest, EventNo,
    Finding, History, OpenMode, Record, Recovered, RecoveredOutcome, RequestFilter, RequestRecord,
    SessionFilter, SessionInfo, SessionInit, SessionWriter, StoreError, StoreOptions, StorePaths,
    TitleSource, Unavailable, branch, check, compactions, delete, draft, engage, export, lease,
    ledger, moving, outbox, read, rows,
};

/// A session store. Cheap to clone; the clones share one writer and one pool of readers.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

impl Store {
    /// Opens the store. A missing file is created by the first write; an older one is brought up
    /// to date, unless it is opened for reading only.
    ///
    /// # Errors
    /// If the file is not this project's, or too new, or (read-only) too old.
    pub fn open(paths: StorePaths, env: Arc<dyn Env>, mode: OpenMode) -> Result<Self, StoreError> {
        Self::open_with(paths, env, mode, StoreOptions::default())
    }

    /// As [`Store::open`], with other bounds.
    pub fn open_with(
        paths: StorePaths,
        env: Arc<dyn Env>,
        mode: OpenMode,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Inner::open(paths, env, mode, options, None)?)))
    }

    /// Opens a store whose database cannot be used: it is left alone, and everything goes to side
    /// files, which are taken in once it can be used again. Only those are seen.
    ///
    /// # Errors
    /// None at present.
    pub fn open_beside(
        paths: StorePaths,
        env: Arc<dyn Env>,
        why: Unavailable,
    ) -> Result<Self, StoreError> {
        let options = StoreOptions::default();
        Ok(Self(Arc::new(Inner::open(paths, env, OpenMode::ReadWrite, options, Some(why))?)))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Creates a session: its row, its lease and the first batch in one transaction. If the
    /// database cannot be written, all of it goes to the side file.
    pub fn create_session(
        &self,
        init: SessionInit,
        first: Batch,
    ) -> Result<SessionWriter, StoreError> {
        SessionWriter::create(self, init, first)
    }

    /// Takes the lease of a session, takes in its side file, and makes an interrupted row of an
    /// answer that a killed process left in its draft.
    ///
    /// # Errors
    /// [`StoreError::Held`] if another process (or writer) holds it, [`StoreError::Deleted`],
    /// [`StoreError::NotFound`].
    pub fn open_session(&self, id: &SessionId) -> Result<SessionWriter, StoreError> {
        SessionWriter::open(self, id, None).map(|(writer, _)| writer)
    }

    /// As [`Store::open_session`], for one who has the session in memory: it goes on in the side
    /// file even where the database cannot be read.
    ///
    /// # Errors
    /// As [`Store::open_session`].
    pub fn open_known(&self, id: &SessionId, last: Seq) -> Result<SessionWriter, StoreError> {
        SessionWriter::open(self, id, Some(last)).map(|(writer, _)| writer)
    }

    /// Copies what generation `at` of `from` is made of, up to `cut`, into a new session with the
    /// same seqs. The copy stands for itself.
    pub fn branch(
        &self,
        from: &SessionId,
        at: GenerationNo,
        cut: Seq,
        init: SessionInit,
    ) -> Result<SessionWriter, StoreError> {
        branch::branch(self, from, at, cut, init)
    }

    /// Takes in side files and drafts that dead processes left, of every session that nobody
    /// holds.
    pub fn recover_all(&self) -> Result<Vec<Recovered>, StoreError> {
        let paths = self.0.paths();
        let mut ids: Vec<SessionId> = spool::scan(&paths.spool_dir)
            .into_iter()
            .map(|spool| spool.header.session)
            .chain(draft::scan(&paths.drafts_dir).into_iter().map(|draft| draft.header.session))
            .collect();
        ids.sort();
        ids.dedup();
        self.0.ensure_writable()?;
        let recovered = ids.into_iter().map(|session| self.recover(session)).collect();
        self.0.read(|connection| lease::sweep(connection, &paths.drafts_dir))?;
        Ok(recovered)
    }

    fn recover(&self, session: SessionId) -> Recovered {
        let outcome = match SessionWriter::open(self, &session, None) {
            Ok((writer, outcome)) => match writer.release() {
                Ok(()) => outcome,
                Err(error) => RecoveredOutcome::Failed(error.to_string()),
            },
            Err(StoreError::Held { .. }) => RecoveredOutcome::InUse,
            Err(StoreError::Deleted { .. }) => {
                delete::remove_files(self.0.paths(), &session);
                RecoveredOutcome::TakenIn { batches: 0, answers: 0 }
            }
            Err(error) => RecoveredOutcome::Failed(error.to_string()),
        };
        Recovered { session, outcome }
    }

    fn spool_of(&self, session: &SessionId) -> Result<Option<SpoolContents>, StoreError> {
        let path = self.0.spool_path(session);
        let found = spool::read(&path).map_err(|source| StoreError::Io { path, source })?;
        Ok(found.filter(|spool| spool.header.session == *session))
    }

    /// The facts of a session.
    pub fn session(&self, id: &SessionId) -> Result<Option<SessionInfo>, StoreError> {
        let stored = self.0.read(|connection| read::session(connection, id))?.flatten();
        Ok(match self.spool_of(id)? {
            Some(spool) => read::merge_info(stored, &spool),
            None => stored,
        })
    }

    /// Finds a session: by id, unique beginning of an id, title, or `latest` (of `workspace` if one is
    /// given, else of all).
    pub fn resolve(
        &self,
        reference: &str,
        workspace: Option<&str>,
    ) -> Result<SessionId, StoreError> {
        if reference == "latest" {
            return self.latest(workspace);
        }
        let exact = SessionId::new(reference);
        if self.session(&exact)?.is_some() {
            return Ok(exact);
        }
        let (mut ids, titled) =
            self.0.read(|connection| read::candidates(connection, reference))?.unwrap_or_default();
        if let Some(titled) = titled {
            return Ok(titled);
        }
        for spool in spool::scan(&self.0.paths().spool_dir) {
            let session = spool.header.session;
            if session.as_str().starts_with(reference) && !ids.contains(&session) {
                ids.push(session);
            }
        }
        if reference.is_empty() {
            ids.clear();
        }
        match ids.as_slice() {
            [only] => Ok(only.clone()),
            [] if self.was_there(&exact)? => Err(self.gone(&exact)?),
            [] => Err(StoreError::NotFound {
                what: "session",
                reference: reference.to_owned(),
                hint: "list them with `hermes sessions list`; wanted is an id, the beginning of \
                       one, a title, or `latest`"
                    .to_owned(),
            }),
            several => Err(StoreError::Ambiguous {
                reference: reference.to_owned(),
                candidates: several.iter().map(SessionId::to_string).collect(),
            }),
        }
    }

    /// The session in which this one goes on, if a compaction made another one of it (the original
    /// program's did); else itself.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn tip(&self, id: &SessionId) -> Result<SessionId, StoreError> {
        let found = self.0.read(|connection| read::tip(connection, id))?;
        Ok(found.unwrap_or_else(|| id.clone()))
    }

    fn latest(&self, workspace: Option<&str>) -> Result<SessionId, StoreError> {
        let of = |workspace: Option<&str>| {
            let filter = SessionFilter {
                workspace: workspace.map(str::to_owned),
                to_go_on: true,
                limit: Some(1),
                ..SessionFilter::default()
            };
            self.sessions(&filter).map(|found| found.into_iter().next())
        };
        if let Some(info) = of(workspace)? {
            return Ok(info.id);
        }
        // That of another workspace would be the wrong one.
        let hint = match (workspace, of(None)?) {
            (Some(workspace), Some(info)) => format!(
                "no session of {workspace} is stored; the latest of all is {} of {}",
                info.id,
                info.git_root.or(info.cwd).unwrap_or_else(|| "no folder".to_owned())
            ),
            _ => "there is none yet; start one with `hermes`".to_owned(),
        };
        Err(StoreError::NotFound { what: "session", reference: "latest".to_owned(), hint })
    }

    /// Sessions that match, the most recently used first.
    pub fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>, StoreError> {
        let mut found =
            self.0.read(|connection| read::sessions(connection, filter))?.unwrap_or_default();
        let spools = spool::scan(&self.0.paths().spool_dir);
        if spools.is_empty() {
            return Ok(found);
        }
        for spool in spools {
            match found.iter().position(|info| info.id == spool.header.session) {
                Some(at) => {
                    let stored = found.remove(at);
                    found.extend(read::merge_info(Some(stored), &spool));
                }
                None => found.extend(
                    self.session(&spool.header.session)?
                        .filter(|info| read::passes(info, filter))
                        .filter(|info| filter.archived || !info.archived),
                ),
            }
        }
        found.sort_by_key(|info| std::cmp::Reverse(info.last_activity_at));
        found.truncate(filter.limit.unwrap_or(usize::MAX));
        Ok(found)
    }

    /// All rows and generations of a session.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such session, [`StoreError::Deleted`] if there was.
    pub fn history(&self, id: &SessionId) -> Result<History, StoreError> {
        let stored = self.0.read_at_once(|connection| read::history(connection, id))?.flatten();
        let spool = self.spool_of(id)?;
        match (stored, spool) {
            (Some(history), None) => Ok(history),
            (stored, Some(spool)) if stored.is_some() || spool.header.init.is_some() => {
                let mut history = stored.unwrap_or_default();
                read::merge(&mut history, &spool);
                Ok(history)
            }
            _ => Err(self.missing(id)?),
        }
    }

    /// What a session knows of its compactions; nothing for one that is not there.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn compactions(&self, id: &SessionId) -> Result<Compactions, StoreError> {
        let mut found =
            self.0.read(|connection| compactions::of_session(connection, id))?.unwrap_or_default();
        if let Some(spool) = self.spool_of(id)? {
            compactions::merge(&mut found, &spool);
        }
        Ok(found)
    }

    /// The newest attempt at a compaction of each session that tried one since then, where it came
    /// to nothing; newest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn failing_compactions(
        &self,
        since: Timestamp,
    ) -> Result<Vec<(SessionId, CompactionAttempt)>, StoreError> {
        Ok(self.0.read(|connection| compactions::failing(connection, since))?.unwrap_or_default())
    }

    fn was_there(&self, id: &SessionId) -> Result<bool, StoreError> {
        let found = self.0.read(|connection| engage::tombstone_of(connection, id))?;
        Ok(found.flatten().is_some())
    }

    /// What a person is told of a session that is no longer there.
    fn gone(&self, id: &SessionId) -> Result<StoreError, StoreError> {
        let moved = self.0.read(|connection| moving::moved_to(connection, id))?.flatten();
        match moved {
            Some(profile) => Ok(StoreError::Moved { session: id.clone(), profile }),
            None => self.missing(id),
        }
    }

    pub(crate) fn missing(&self, id: &SessionId) -> Result<StoreError, StoreError> {
        let tombstone = self.0.read(|connection| engage::tombstone_of(connection, id))?.flatten();
        Ok(match tombstone {
            Some((_, at)) => StoreError::Deleted { session: id.clone(), at },
            None => StoreError::NotFound {
                what: "session",
                reference: id.to_string(),
                hint: "list them with `hermes sessions list`".to_owned(),
            },
        })
    }

    /// The prompt of a generation with the manifest of its sources.
    pub fn snapshot(&self, id: &SessionId, g: GenerationNo) -> Result<Snapshot, StoreError> {
        let generations = self.generations(id)?;
        read::snapshot(
            &generations,
            g,
            |digest| self.text(digest),
            |generation| self.manifest_of(id, generation),
        )
    }

    fn generations(&self, id: &SessionId) -> Result<Vec<Generation>, StoreError> {
        if self.0.spool_path(id).exists() {
            return Ok(self.history(id)?.generations);
        }
        let stored = self.0.read(|connection| match engage::number_of(connection, id)? {
            Some(session_no) => rows::load_generations(connection, session_no).map(Some),
            None => Ok(None),
        })?;
        match stored.flatten() {
            Some(generations) => Ok(generations),
            None => Err(self.missing(id)?),
        }
    }

    /// The manifest that was stored with a generation.
    pub(crate) fn manifest_of(
        &self,
        id: &SessionId,
        generation: GenerationNo,
    ) -> Result<Option<Vec<Block>>, StoreError> {
        let stored = self.0.read(|connection| match engage::number_of(connection, id)? {
            Some(session_no) => read::manifest(connection, session_no, generation),
            None => Ok(None),
        })?;
        if let Some(blocks) = stored.flatten() {
            return Ok(Some(blocks));
        }
        let spool = self.spool_of(id)?;
        Ok(spool.iter().flat_map(SpoolContents::records).find_map(|record| match record {
            Record::Manifest { generation: n, blocks } if *n == generation => Some(blocks.clone()),
            _ => None,
        }))
    }

    /// A value that the database has, else the first that a side file has.
    fn stored_or_spooled<T>(
        &self,
        stored: impl FnOnce(&rusqlite::Connection) -> Result<Option<T>, StoreError>,
        mut spooled: impl FnMut(&Record) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        if let Some(found) = self.0.read(stored)?.flatten() {
            return Ok(Some(found));
        }
        let spools = spool::scan(&self.0.paths().spool_dir);
        Ok(spools.iter().flat_map(SpoolContents::records).find_map(&mut spooled))
    }

    /// A prompt or array of tool definitions.
    pub fn text(&self, digest: &Digest) -> Result<Option<Arc<str>>, StoreError> {
        self.stored_or_spooled(
            |connection| read::text(connection, digest),
            |record| match record {
                Record::Text { text } if Digest::of(text.as_bytes()) == *digest => {
                    Some(Arc::clone(text))
                }
                _ => None,
            },
        )
    }

    /// A wire profile.
    pub fn wire_profile(&self, digest: &Digest) -> Result<Option<WireProfile>, StoreError> {
        self.stored_or_spooled(
            |connection| read::profile(connection, digest),
            |record| match record {
                Record::Profile(profile) if profile.digest() == *digest => Some(profile.clone()),
                _ => None,
            },
        )
    }

    /// Binary content.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.stored_or_spooled(
            |connection| read::blob(connection, digest),
            |record| match record {
                Record::Blob { bytes, .. } if Digest::of(bytes) == *digest => {
                    Some(Arc::clone(bytes))
                }
                _ => None,
            },
        )
    }

    /// Ledger rows that match.
    pub fn requests(&self, filter: &RequestFilter) -> Result<Vec<RequestRecord>, StoreError> {
        let mut found =
            self.0.read(|connection| ledger::load(connection, filter))?.unwrap_or_default();
        let spools = spool::scan(&self.0.paths().spool_dir);
        if spools.is_empty() {
            return Ok(found);
        }
        ledger::merge(&mut found, spools.iter().flat_map(SpoolContents::records), filter);
        Ok(found)
    }

    /// One ledger row, by its id or the unique beginning of it.
    pub fn request(&self, id_or_unique_prefix: &str) -> Result<RequestRecord, StoreError> {
        let exact = RequestFilter {
            ids: vec![RequestId::new(id_or_unique_prefix)],
            ..RequestFilter::default()
        };
        if let Some(found) = self.requests(&exact)?.pop() {
            return Ok(found);
        }
        let mut found = match id_or_unique_prefix {
            "" => Vec::new(),
            prefix => self.requests_from(prefix)?,
        };
        match found.len() {
            0 => Err(StoreError::NotFound {
                what: "request",
                reference: id_or_unique_prefix.to_owned(),
                hint: "list them with `hermes requests list`".to_owned(),
            }),
            1 => Ok(found.remove(0)),
            _ => Err(StoreError::Ambiguous {
                reference: id_or_unique_prefix.to_owned(),
                candidates: found.iter().map(|record| record.attempt.id.to_string()).collect(),
            }),
        }
    }

    /// The first ledger rows whose id begins with `prefix`.
    fn requests_from(&self, prefix: &str) -> Result<Vec<RequestRecord>, StoreError> {
        let mut found = self
            .0
            .read(|connection| ledger::load_by_prefix(connection, prefix, 6))?
            .unwrap_or_default();
        let spools = spool::scan(&self.0.paths().spool_dir);
        let records = || spools.iter().flat_map(SpoolContents::records);
        let ids: Vec<RequestId> = records()
            .filter_map(|record| match record {
                Record::AttemptStarted(attempt) => Some(attempt.id.clone()),
                _ => None,
            })
            .filter(|id| id.as_str().starts_with(prefix))
            .collect();
        if !ids.is_empty() {
            ledger::merge(
                &mut found,
                records(),
                &RequestFilter { ids, ..RequestFilter::default() },
            );
        }
        Ok(found)
    }

    /// The kept body of a request; None if it is a function of stored rows, or was deleted with
    /// its session.
    pub fn kept_body(&self, id: &RequestId) -> Result<Option<Vec<u8>>, StoreError> {
        self.stored_or_spooled(
            |connection| ledger::load_body(connection, id),
            |record| match record {
                Record::AttemptStarted(attempt) if attempt.id == *id => attempt.kept_body.clone(),
                _ => None,
            },
        )
    }

    /// Writes a session as one JSON line with all its messages.
    pub fn export_jsonl(&self, id: &SessionId, out: &mut dyn io::Write) -> Result<(), StoreError> {
        export::jsonl(self, id, out)
    }

    /// Deletes sessions with their compaction chains and delegated children. The one delete
    /// function: every entry point calls it.
    ///
    /// # Errors
    /// [`StoreError::Held`] if one of them is in use by anyone but the caller,
    /// [`StoreError::NotFound`] if none of them exists and this is no repetition.
    pub fn delete_session(&self, request: DeleteRequest<'_>) -> Result<DeleteReceipt, StoreError> {
        delete::delete(self, request)
    }

    /// Gives a session a title; None takes it away. Returns the title it has now: a title of a
    /// lower rank does not replace one of a higher rank.
    ///
    /// # Errors
    /// [`StoreError::TitleTaken`] if another session has it.
    pub fn set_title(
        &self,
        id: &SessionId,
        title: Option<&str>,
        source: TitleSource,
    ) -> Result<Option<String>, StoreError> {
        let title = title.map(str::to_owned);
        let session = id.clone();
        let wait = self.0.options().busy_timeout;
        let outcome = self.0.write(move |side| {
            side.transaction(wait, |tx| match engage::number_of(tx, &session)? {
                Some(session_no) => {
                    crate::title::set_exact(tx, session_no, title.as_deref(), source).map(Some)
                }
                None => Ok(None),
            })
        })?;
        match outcome {
            Some(title) => Ok(title),
            None => Err(self.missing(id)?),
        }
    }

    /// Claims events that wait for delivery, the oldest first: of one session, or of all that no
    /// other process holds. A claim ends with its process (at once where its lock file can be seen,
    /// else after two minutes), so that an event whose deliverer died is delivered again. An event
    /// whose delivery was begun eight times is dropped with a log line.
    pub fn claim_events(
        &self,
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Vec<ClaimedEvent>, StoreError> {
        outbox::claim(self, session, limit)
    }

    /// Marks a claimed event delivered: every callback returned, raised or timed out.
    pub fn event_delivered(&self, no: EventNo) -> Result<(), StoreError> {
        outbox::delivered(self, no)
    }

    /// Gives the claim on an event back, which makes its next delivery a repeated one.
    pub fn release_event(&self, no: EventNo) -> Result<(), StoreError> {
        outbox::release(self, no)
    }

    /// How many events wait for delivery. Cheap: asked before every turn.
    pub fn pending_events(&self) -> Result<u64, StoreError> {
        Ok(self.0.read(outbox::pending)?.unwrap_or(0))
    }

    /// Keeps the wire profile that was learned for an endpoint.
    pub fn remember_profile(
        &self,
        endpoint_key: &str,
        profile: &WireProfile,
    ) -> Result<(), StoreError> {
        outbox::remember_profile(self, endpoint_key, profile)
    }

    /// The wire profile that was learned for an endpoint.
    pub fn learned_profile(&self, endpoint_key: &str) -> Result<Option<WireProfile>, StoreError> {
        Ok(self.0.read(|connection| outbox::learned_profile(connection, endpoint_key))?.flatten())
    }

    /// Checks the file, every reference between records, and that what third-party readers see
    /// equals the truth. An empty list is good news.
    pub fn check(&self) -> Result<Vec<Finding>, StoreError> {
        check::check(self)
    }

    /// Gives this handle up. The last one to go (a [`SessionWriter`] holds one too) waits for the
    /// writer, which folds its log into the database if no other process has it open.
    pub fn close(self) {}
}
