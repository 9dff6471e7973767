//! What can be said about a session's compactions from the store alone.

use hermes_compaction::views::{Class, Counts, classify, counts};
use hermes_compaction::{Log, Memory};
use hermes_core::{RequestId, Seq, SessionId, Usage};
use hermes_store::{RequestFilter, RequestRecord, Store};
use serde::Serialize;

use super::Kept;
use crate::AgentError;

/// One attempt as it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptRecord {
    /// Its number in the session.
    pub no: u32,
    /// What was recorded.
    #[serde(flatten)]
    pub log: Log,
    /// Whether it is in force: committed, and not taken back since.
    pub in_force: bool,
    /// The requests that were made for its summary.
    pub requests: Vec<RequestId>,
    /// What they cost, as reported.
    pub helper: Usage,
}

/// A session's compactions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompactionStatus {
    /// The session.
    pub session: SessionId,
    /// All attempts, oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// What it remembers for the next one.
    pub memory: Memory,
    /// The window that its provider named in a refusal.
    pub named_window: Option<u64>,
}

impl CompactionStatus {
    /// The attempts that took effect.
    pub fn compactions(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.attempts.iter().filter(|attempt| attempt.log.is_compaction())
    }

    /// What stands in the way now, in one line: the newest attempt if it came to nothing or was a
    /// fallback.
    pub fn trouble(&self) -> Option<String> {
        let last = self.attempts.last()?;
        match &last.log.fallback_because {
            Some(why) => Some(format!(
                "the newest summary ({}) was put together without a model: {why}",
                last.log.at
            )),
            None if last.log.is_compaction() => None,
            None => Some(last.log.line()),
        }
    }
}

/// Reads what is stored about a session's compactions.
///
/// # Errors
/// If the store cannot be read.
pub fn compaction_status(store: &Store, id: &SessionId) -> Result<CompactionStatus, AgentError> {
    let found = store.compactions(id)?;
    let kept: Kept =
        found.state.as_deref().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let history = store.history(id)?;
    let ops = match history.head {
        Some(head) => hermes_core::effective_ops(&history.generations, head)
            .map_err(|source| AgentError::View { session: id.clone(), source })?,
        None => Vec::new(),
    };
    let mut jobs = Vec::new();
    if !found.attempts.is_empty() {
        let filter = RequestFilter { session: Some(id.clone()), ..RequestFilter::default() };
        jobs = store.requests(&filter)?;
        jobs.retain(|job| job.attempt.task.as_str() == super::attempt::TASK);
    }
    let attempts = found
        .attempts
        .iter()
        .filter_map(|attempt| {
            let log: Log = serde_json::from_str(&attempt.log).ok()?;
            let in_force =
                attempt.generation.is_some_and(|n| ops.iter().any(|(at, _)| at.generation == n));
            let until = log.at.plus_millis(i64::try_from(log.millis).unwrap_or(i64::MAX) + 1);
            let made: Vec<&RequestRecord> = jobs
                .iter()
                .filter(|job| log.at <= job.attempt.started_at && job.attempt.started_at <= until)
                .collect();
            let mut helper = Usage::default();
            for usage in made.iter().filter_map(|job| job.end.as_ref()).map(|end| &end.usage) {
                crate::turn::add_usage(&mut helper, usage);
            }
            let requests = made.iter().map(|job| job.attempt.id.clone()).collect();
            Some(AttemptRecord { no: attempt.no, log, in_force, requests, helper })
        })
        .collect();
    Ok(CompactionStatus {
        session: id.clone(),
        attempts,
        memory: kept.memory,
        named_window: kept.named_window,
    })
}

/// The five views of a session (mission B3), by numbers and by row.
///
/// # Errors
/// If the store cannot be read or the history does not fit together.
pub fn session_views(
    store: &Store,
    id: &SessionId,
) -> Result<(Counts, Vec<(Seq, Class)>), AgentError> {
    let history = store.history(id)?;
    let newest = store.requests(&RequestFilter {
        session: Some(id.clone()),
        main_only: true,
        newest_first: true,
        limit: Some(1),
        ..RequestFilter::default()
    })?;
    let sent = newest.first().map(|it| (it.attempt.generation, it.attempt.cut));
    let head = history.head.unwrap_or_default();
    let (rows, generations, last) = (&history.rows, &history.generations, history.last_seq);
    let view = |source| AgentError::View { session: id.clone(), source };
    let counted = counts(rows, generations, head, last, sent).map_err(view)?;
    let classes = classify(rows, generations, head, last).map_err(view)?;
    Ok((counted, classes))
}
