//! Records into tables, inside the caller's transaction.
//!
//! Invariant: applying a record a second time changes nothing; a record that contradicts what is
//! stored changes nothing and is an error.

use hermes_core::{
    AttemptEnd, Digest, Generation, Op, OutboxEvent, Part, PartBody, Row, Seq, SessionId, Standing,
    Timestamp,
};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::db::Doing as _;
use crate::flags::{self, Flags};
use crate::ledger::{self, Ending};
use crate::rows::{self, ID_STEP, key, key_range};
use crate::search::index;
use crate::title;
use crate::{Batch, Record, SessionInit, SessionPatch, StoreError, capsules, compactions};

/// Seqs above this do not fit into a part's key.
const LAST_SEQ: u64 = (1 << rows::SEQ_BITS) - 1;

/// How strictly a batch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// A commit: what it names must exist.
    Strict,
    /// A side file: it was acknowledged, so everything that can be kept is kept.
    Lenient,
}

/// Applies the records of one session.
pub(crate) struct Applier<'a> {
    tx: &'a Transaction<'a>,
    session_no: i64,
    session: &'a SessionId,
    now: Timestamp,
    care: Care,
    /// Changes to the session's row, written once.
    messages: i64,
    tool_calls: i64,
    last_activity: Option<Timestamp>,
    /// The flags of every row must be worked out anew.
    view_changed: bool,
    /// Covers of new generations: end of the range, summary row.
    covers: Vec<(Seq, Seq)>,
    op_reach: Option<i64>,
    cut_reach: Seq,
}

impl<'a> Applier<'a> {
    pub(crate) fn new(
        tx: &'a Transaction<'a>,
        session_no: i64,
        session: &'a SessionId,
        now: Timestamp,
        care: Care,
    ) -> Self {
        Self {
            tx,
            session_no,
            session,
            now,
            care,
            messages: 0,
            tool_calls: 0,
            last_activity: None,
            view_changed: false,
            covers: Vec::new(),
            op_reach: None,
            cut_reach: Seq(0),
        }
    }

    /// Applies a batch and brings the session's own row up to date.
    pub(crate) fn apply(mut self, batch: &Batch) -> Result<(), StoreError> {
        for record in batch {
            self.record(record)?;
        }
        if self.care == Care::Strict {
            for record in batch {
                if let Record::Generation(generation) = record {
                    self.check_references(generation)?;
                }
            }
        }
        let tx = self.tx;
        self.finish()?;
        index::applied(tx, batch)
    }

    fn record(&mut self, record: &Record) -> Result<(), StoreError> {
        match record {
            Record::Row(row) => self.row(row),
            Record::Part(part) => self.late_part(part),
            Record::Generation(generation) => self.generation(generation),
            Record::Manifest { generation, blocks } => {
                let json = serde_json::to_vec(blocks)
                    .map_err(|error| self.invalid(format!("manifest: {error}")))?;
                let packed = zstd::bulk::compress(&json, 3)
                    .map_err(|error| self.invalid(format!("manifest: {error}")))?;
                self.execute(
                    "INSERT OR IGNORE INTO manifest (session_no, n, blocks) VALUES (?1, ?2, ?3)",
                    params![self.session_no, generation.0, packed],
                    "storing a manifest",
                )?;
                Ok(())
            }
            Record::Text { text } => {
                let digest = Digest::of(text.as_bytes());
                self.execute(
                    "INSERT OR IGNORE INTO text (digest, body) VALUES (?1, ?2)",
                    params![digest.as_bytes(), &**text],
                    "storing a text",
                )?;
                self.use_text(&digest)
            }
            Record::Blob { media_type, bytes } => {
                let digest = Digest::of(bytes);
                self.execute(
                    "INSERT OR IGNORE INTO blob (digest, media_type, bytes) VALUES (?1, ?2, ?3)",
                    params![digest.as_bytes(), &**media_type, &**bytes],
                    "storing a blob",
                )?;
                self.use_blob(&digest)
            }
            Record::Profile(profile) => store_profile(self.tx, profile).map(drop),
            Record::AttemptStarted(attempt) => {
                if attempt.session != *self.session {
                    return Err(self.invalid(format!(
                        "request {} belongs to session {}",
                        attempt.id, attempt.session
                    )));
                }
                self.active_at(attempt.started_at);
                self.cut_reach = self.cut_reach.max(attempt.cut);
                if ledger::insert_attempt(self.tx, self.session_no, attempt)?
                    && let Some(body) = &attempt.kept_body
                {
                    ledger::keep_body(self.tx, &attempt.id, body)?;
                }
                Ok(())
            }
            Record::AttemptEnded(end) => self.attempt_ended(end),
            Record::Patch(patch) => self.patch(patch),
            Record::Event(event) => store_event(self.tx, event, self.now),
            Record::CompactionAttempt(attempt) => {
                compactions::store_attempt(self.tx, self.session_no, attempt)
            }
            Record::CompactionState { state } => {
                compactions::store_state(self.tx, self.session_no, state)
            }
            Record::CapsuleClaimed { capsule, row, digest } => {
                let claim = (&**capsule, *row, digest);
                capsules::claim(self.tx, self.session_no, self.session, claim, self.now)
            }
        }
    }

    fn row(&mut self, row: &Row) -> Result<(), StoreError> {
        self.check_seq(row.seq)?;
        let id = rows::next_id(self.tx)?;
        let flags = Flags::born(row.standing);
        let is_new = rows::insert_row(self.tx, self.session_no, id, row, flags.active)?;
        for part in &row.parts {
            if part.row != row.seq {
                return Err(self.invalid(format!(
                    "part {} of row {} says that it belongs to row {}",
                    part.seq, row.seq, part.row
                )));
            }
            self.part(part, Some(row.created_at), is_new)?;
        }
        if !is_new {
            return self.same_row(row);
        }
        self.active_at(row.created_at);
        if flags.active {
            self.messages += 1;
            self.tool_calls += row.tool_calls().count() as i64;
        }
        // A row that comes late may lie in a range that an operation names.
        self.view_changed |= row.seq.0 as i64 <= self.reach()?;
        Ok(())
    }

    /// The stored row must be the one that was given, late parts aside.
    fn same_row(&self, row: &Row) -> Result<(), StoreError> {
        let stored = rows::load_rows(self.tx, self.session_no, Some(row.seq))?;
        let same = stored.first().is_some_and(|stored| {
            let parts = |row: &Row| Row { parts: Vec::new(), ..row.clone() };
            parts(stored) == parts(row) && row.parts.iter().all(|part| stored.parts.contains(part))
        });
        if same {
            Ok(())
        } else {
            Err(self.invalid(format!("another row {} is stored already", row.seq)))
        }
    }

    fn late_part(&mut self, part: &Part) -> Result<(), StoreError> {
        let created_at: Option<i64> = self
            .tx
            .prepare_cached("SELECT created_at FROM row WHERE session_no = ?1 AND seq = ?2")
            .and_then(|mut statement| {
                statement
                    .query_row(params![self.session_no, part.row.0 as i64], |row| row.get(0))
                    .optional()
            })
            .doing("looking for a part's row")?;
        if created_at.is_none() && self.care == Care::Strict {
            return Err(self.invalid(format!(
                "part {} names row {}, which is not stored",
                part.seq, part.row
            )));
        }
        self.active_at(part.created_at);
        self.part(part, created_at.map(Timestamp), false)
    }

    fn part(
        &mut self,
        part: &Part,
        row_created_at: Option<Timestamp>,
        row_is_new: bool,
    ) -> Result<(), StoreError> {
        self.check_seq(part.seq)?;
        if let PartBody::Blob { digest, .. } = &part.body {
            self.use_blob(digest)?;
        }
        if rows::insert_part(self.tx, self.session_no, part, row_created_at)? {
            return if row_is_new {
                Ok(())
            } else {
                index::part_added(self.tx, self.session_no, part)
            };
        }
        if row_is_new {
            return Err(self.invalid(format!("another part {} is stored already", part.seq)));
        }
        let stored = rows::load_rows(self.tx, self.session_no, Some(part.row))?;
        if stored.iter().any(|row| row.parts.contains(part)) {
            Ok(())
        } else {
            Err(self.invalid(format!("another part {} is stored already", part.seq)))
        }
    }

    fn generation(&mut self, generation: &Generation) -> Result<(), StoreError> {
        if generation.parent.is_some_and(|parent| parent >= generation.n) {
            return Err(
                self.invalid(format!("generation {} is no later than its parent", generation.n))
            );
        }
        let reach = flags::reach(&generation.ops);
        self.check_seq(reach.max(Seq(1)))?;
        let is_new = rows::insert_generation(self.tx, self.session_no, generation)?;
        self.use_text(&generation.prompt)?;
        self.use_text(&generation.tools)?;
        if !is_new {
            let stored = rows::load_generations(self.tx, self.session_no)?;
            return if stored.contains(generation) {
                Ok(())
            } else {
                Err(self.invalid(format!("another generation {} is stored already", generation.n)))
            };
        }
        self.active_at(generation.created_at);
        self.execute(
            "UPDATE sessions SET system_prompt_hash = ?2, tool_names = ?3,
                 op_reach = max(op_reach, ?4),
                 rewind_count = rewind_count + ?5
             WHERE session_no = ?1",
            params![
                self.session_no,
                generation.prompt.to_string(),
                generation.tools.to_string(),
                reach.0 as i64,
                generation.cause == hermes_core::Cause::Rewind,
            ],
            "updating the session",
        )?;
        self.op_reach = None;
        self.view_changed = true;
        for op in &generation.ops {
            if let Op::Cover { to, by, .. } = *op {
                self.covers.push((to, by));
            }
        }
        Ok(())
    }

    fn check_references(&self, generation: &Generation) -> Result<(), StoreError> {
        for (what, digest) in [("prompt", &generation.prompt), ("tools", &generation.tools)] {
            if !self.exists("SELECT 1 FROM text WHERE digest = ?1", params![digest.as_bytes()])? {
                return Err(self.invalid(format!(
                    "generation {} names the {what} {}, whose text is not stored",
                    generation.n,
                    digest.short()
                )));
            }
        }
        if let Some(parent) = generation.parent
            && !self.exists(
                "SELECT 1 FROM gen WHERE session_no = ?1 AND n = ?2",
                params![self.session_no, parent.0],
            )?
        {
            return Err(self.invalid(format!(
                "generation {} builds on generation {parent}, which is not stored",
                generation.n
            )));
        }
        for op in &generation.ops {
            let (what, seq, found) = match *op {
                Op::Cover { by, .. } => (
                    "summary row",
                    by,
                    self.exists(
                        "SELECT 1 FROM row WHERE session_no = ?1 AND seq = ?2 AND standing = 1",
                        params![self.session_no, by.0 as i64],
                    )?,
                ),
                Op::Swap { by, .. } => (
                    "stub part",
                    by,
                    self.exists(
                        "SELECT 1 FROM part WHERE key = ?1 AND standing = 1",
                        [key(self.session_no, by)],
                    )?,
                ),
                Op::Hide { .. } | Op::Revoke { .. } => continue,
            };
            if !found {
                return Err(self.invalid(format!(
                    "generation {} names {what} {seq}, which is not stored as one",
                    generation.n
                )));
            }
        }
        Ok(())
    }

    fn attempt_ended(&mut self, end: &AttemptEnd) -> Result<(), StoreError> {
        match ledger::end_attempt(self.tx, end)? {
            Ending::Recorded => {
                let count = |count: Option<u64>| count.unwrap_or(0) as i64;
                self.active_at(end.ended_at);
                self.execute(
                    "UPDATE sessions SET
                         input_tokens = input_tokens + ?2, output_tokens = output_tokens + ?3,
                         cache_read_tokens = cache_read_tokens + ?4,
                         cache_write_tokens = cache_write_tokens + ?5,
                         reasoning_tokens = reasoning_tokens + ?6,
                         api_call_count = api_call_count + ?7
                     WHERE session_no = ?1",
                    params![
                        self.session_no,
                        count(end.usage.input),
                        count(end.usage.output),
                        count(end.usage.cache_read),
                        count(end.usage.cache_write),
                        count(end.usage.reasoning),
                        ledger::is_answered(end),
                    ],
                    "adding up tokens",
                )?;
                Ok(())
            }
            Ending::AlreadyEnded => Ok(()),
            Ending::UnknownAttempt if self.care == Care::Lenient => {
                tracing::warn!(request = %end.id, "the end of an unknown request is left out");
                Ok(())
            }
            Ending::UnknownAttempt => {
                Err(self.invalid(format!("request {} was never recorded", end.id)))
            }
        }
    }

    fn patch(&mut self, patch: &SessionPatch) -> Result<(), StoreError> {
        self.execute(
            "UPDATE sessions SET
                 model = coalesce(?2, model),
                 billing_provider = coalesce(?3, billing_provider),
                 billing_base_url = coalesce(?4, billing_base_url),
                 cwd = coalesce(?5, cwd),
                 git_repo_root = coalesce(?6, git_repo_root),
                 git_branch = coalesce(?7, git_branch),
                 compactions = coalesce(?8, compactions)
             WHERE session_no = ?1",
            params![
                self.session_no,
                patch.model,
                patch.provider,
                patch.base_url,
                patch.cwd,
                patch.git_root,
                patch.git_branch,
                patch.compactions,
            ],
            "updating the session",
        )?;
        if patch.reopened {
            self.execute(
                "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE session_no = ?1",
                [self.session_no],
                "reopening the session",
            )?;
        }
        if let Some(ended) = &patch.ended {
            self.execute(
                "UPDATE sessions SET ended_at = ?2, end_reason = ?3
                 WHERE session_no = ?1 AND ended_at IS NULL",
                params![self.session_no, ended.at.as_seconds_f64(), ended.reason],
                "ending the session",
            )?;
        }
        if let Some(title) = &patch.title {
            let source = patch.title_source.unwrap_or(crate::TitleSource::User);
            title::set_free(self.tx, self.session_no, title, source)?;
        }
        Ok(())
    }

    /// Writes what was added up, and works out flags and counts anew where the view changed.
    fn finish(self) -> Result<(), StoreError> {
        if self.view_changed {
            self.refresh_view()?;
        }
        let activity = self.last_activity.map(Timestamp::as_seconds_f64);
        let cut = self.cut_reach.0 as i64;
        if self.view_changed {
            let (first, last) = key_range(self.session_no);
            self.execute(
                "UPDATE sessions SET
                     message_count = (SELECT count(*) FROM row
                         WHERE session_no = ?1 AND active = 1),
                     tool_call_count = (SELECT count(*) FROM part p
                         WHERE p.key BETWEEN ?3 AND ?4 AND p.kind = 3 AND p.standing = 0
                           AND EXISTS (SELECT 1 FROM row r WHERE r.session_no = ?1
                               AND r.seq = p.row_key - ?3 AND r.active = 1)),
                     last_activity_at = max(last_activity_at, coalesce(?2, last_activity_at)),
                     cut_reach = max(cut_reach, ?5)
                 WHERE session_no = ?1",
                params![self.session_no, activity, first, last, cut],
                "counting messages",
            )?;
        } else if self.messages != 0 || self.tool_calls != 0 || activity.is_some() {
            self.execute(
                "UPDATE sessions SET message_count = message_count + ?2,
                     tool_call_count = tool_call_count + ?3,
                     last_activity_at = max(last_activity_at, coalesce(?4, last_activity_at)),
                     cut_reach = max(cut_reach, ?5)
                 WHERE session_no = ?1",
                params![self.session_no, self.messages, self.tool_calls, activity, cut],
                "counting messages",
            )?;
        }
        Ok(())
    }

    fn refresh_view(&self) -> Result<(), StoreError> {
        const DOING: &str = "working out which rows are active";
        let generations = rows::load_generations(self.tx, self.session_no)?;
        let mut stored: Vec<(Seq, Standing)> = Vec::new();
        let mut before: Vec<(i64, Flags)> = Vec::new();
        {
            let mut statement = self
                .tx
                .prepare_cached(
                    "SELECT seq, standing, active, compacted, id FROM row
                     WHERE session_no = ?1 ORDER BY seq",
                )
                .doing(DOING)?;
            let mut found = statement.query([self.session_no]).doing(DOING)?;
            while let Some(row) = found.next().doing(DOING)? {
                let standing: i64 = row.get(1).doing(DOING)?;
                let standing = if standing == 0 { Standing::InOrder } else { Standing::ByOp };
                stored.push((Seq(row.get::<_, i64>(0).doing(DOING)? as u64), standing));
                let flags =
                    Flags { active: row.get(2).doing(DOING)?, compacted: row.get(3).doing(DOING)? };
                before.push((row.get(4).doing(DOING)?, flags));
            }
        }
        let head = generations.last().map(|generation| generation.n);
        let now = match flags::flags(&stored, &generations, head) {
            Ok(now) => now,
            Err(error) if self.care == Care::Lenient => {
                tracing::warn!(%error, session = %self.session, "the view cannot be worked out");
                return Ok(());
            }
            Err(error) => return Err(self.invalid(error.to_string())),
        };
        for ((seq, _), (id, old)) in stored.iter().zip(&before) {
            let new = now.get(seq).copied().unwrap_or(Flags::HIDDEN);
            if new != *old {
                self.execute(
                    "UPDATE row SET active = ?2, compacted = ?3 WHERE id = ?1",
                    params![id, new.active, new.compacted],
                    DOING,
                )?;
            }
        }
        self.covers.iter().try_for_each(|(to, by)| self.place_summary(*to, *by))
    }

    /// Gives a summary the id that follows the last row above its tail, so that the order of ids
    /// is the order people see.
    fn place_summary(&self, to: Seq, by: Seq) -> Result<(), StoreError> {
        const DOING: &str = "placing a summary";
        let tail: Option<i64> = self
            .tx
            .query_row(
                "SELECT min(id) FROM row WHERE session_no = ?1 AND standing = 0 AND seq > ?2",
                params![self.session_no, to.0 as i64],
                |row| row.get(0),
            )
            .doing(DOING)?;
        let id: Option<i64> = self
            .tx
            .query_row(
                "SELECT id FROM row WHERE session_no = ?1 AND seq = ?2",
                params![self.session_no, by.0 as i64],
                |row| row.get(0),
            )
            .optional()
            .doing(DOING)?;
        let (Some(tail), Some(id)) = (tail, id) else { return Ok(()) };
        if id < tail {
            return Ok(());
        }
        let above: Option<i64> = self
            .tx
            .query_row(
                "SELECT max(id) FROM row WHERE session_no = ?1 AND id < ?2",
                params![self.session_no, tail],
                |row| row.get(0),
            )
            .doing(DOING)?;
        let Some(above) = above else { return Ok(()) };
        if above % ID_STEP == ID_STEP - 1 {
            tracing::warn!(session = %self.session, "no id is free below the tail");
            return Ok(());
        }
        self.execute("UPDATE row SET id = ?2 WHERE id = ?1", params![id, above + 1], DOING)?;
        index::row_moved(self.tx, self.session_no, by)
    }

    fn reach(&mut self) -> Result<i64, StoreError> {
        if let Some(reach) = self.op_reach {
            return Ok(reach);
        }
        let reach = self
            .tx
            .prepare_cached("SELECT op_reach FROM sessions WHERE session_no = ?1")
            .and_then(|mut statement| statement.query_row([self.session_no], |row| row.get(0)))
            .doing("reading the session")?;
        Ok(*self.op_reach.insert(reach))
    }

    fn use_text(&self, digest: &Digest) -> Result<(), StoreError> {
        self.execute(
            "INSERT OR IGNORE INTO text_use (session_no, text_no)
             SELECT ?1, text_no FROM text WHERE digest = ?2",
            params![self.session_no, digest.as_bytes()],
            "storing a text",
        )?;
        Ok(())
    }

    fn use_blob(&self, digest: &Digest) -> Result<(), StoreError> {
        let known = self.execute(
            "INSERT OR IGNORE INTO blob_use (session_no, blob_no)
             SELECT ?1, blob_no FROM blob WHERE digest = ?2",
            params![self.session_no, digest.as_bytes()],
            "storing a blob",
        )? > 0
            || self.exists("SELECT 1 FROM blob WHERE digest = ?1", [digest.as_bytes()])?;
        if !known && self.care == Care::Strict {
            return Err(self.invalid(format!(
                "a part names blob {}, which is not stored; a blob comes before its part",
                digest.short()
            )));
        }
        Ok(())
    }

    fn active_at(&mut self, at: Timestamp) {
        self.last_activity = self.last_activity.max(Some(at));
    }

    fn check_seq(&self, seq: Seq) -> Result<(), StoreError> {
        if (1..=LAST_SEQ).contains(&seq.0) {
            Ok(())
        } else {
            Err(self.invalid(format!("seq {seq} is not between 1 and {LAST_SEQ}")))
        }
    }

    fn execute(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        doing: &'static str,
    ) -> Result<usize, StoreError> {
        self.tx.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).doing(doing)
    }

    fn exists(&self, sql: &str, params: impl rusqlite::Params) -> Result<bool, StoreError> {
        self.tx
            .prepare_cached(sql)
            .and_then(|mut statement| statement.exists(params))
            .doing("checking a reference")
    }

    fn invalid(&self, what: String) -> StoreError {
        StoreError::Invalid { session: self.session.clone(), what }
    }
}

/// Stores a wire profile under its digest.
pub(crate) fn store_profile(
    tx: &Transaction<'_>,
    profile: &hermes_core::WireProfile,
) -> Result<Digest, StoreError> {
    let digest = profile.digest();
    tx.prepare_cached("INSERT OR IGNORE INTO wire_profile (digest, json) VALUES (?1, ?2)")
        .and_then(|mut statement| statement.execute(params![digest.as_bytes(), profile.json()]))
        .doing("storing a wire profile")?;
    Ok(digest)
}

/// Writes an event into the outbox.
pub(crate) fn store_event(
    tx: &Transaction<'_>,
    event: &OutboxEvent,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (name, session) = match event {
        OutboxEvent::PostCompaction(event) => ("post_compaction", &event.session_id),
        OutboxEvent::OnSessionDelete(event) => ("on_session_delete", &event.session_id),
    };
    let payload = serde_json::to_string(event)
        .map_err(|error| rows::unreadable("event", error.to_string()))?;
    tx.execute(
        "INSERT INTO outbox (event, session_id, payload, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![name, session.as_str(), payload, now.0],
    )
    .doing("writing an event")?;
    Ok(())
}

/// Creates the session's own row; returns its number.
pub(crate) fn create_session(tx: &Transaction<'_>, init: &SessionInit) -> Result<i64, StoreError> {
    let started = init.started_at.as_seconds_f64();
    tx.execute(
        "INSERT INTO sessions (id, source, created_source, session_key, model, parent_session_id,
             parent_kind, started_at, cwd, git_branch, git_repo_root, billing_provider,
             billing_base_url, last_activity_at, lane)
         VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?7, ?3)",
        params![
            init.id.as_str(),
            init.source,
            init.lane.as_ref().map(hermes_core::Lane::key),
            init.model,
            init.parent.as_ref().map(|(parent, _)| parent.as_str()),
            init.parent.as_ref().map(|(_, kind)| kind.as_str()),
            started,
            init.cwd,
            init.git_branch,
            init.git_root,
            init.provider,
            init.base_url,
        ],
    )
    .doing("creating a session")?;
    let session_no = tx.last_insert_rowid();
    if let Some(title) = &init.title {
        title::set_free(tx, session_no, title, crate::TitleSource::User)?;
    }
    Ok(session_no)
}

/// Works out anew what follows from a session's rows and generations: flags and counters.
pub(crate) fn renew_session(
    tx: &Transaction<'_>,
    session_no: i64,
    session: &SessionId,
) -> Result<(), StoreError> {
    let mut applier = Applier::new(tx, session_no, session, Timestamp(0), Care::Lenient);
    applier.view_changed = true;
    applier.finish()
}
