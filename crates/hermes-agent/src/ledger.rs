//! The ledger as the provider sees it: every attempt is committed before its bytes leave.

use hermes_core::{
    Attempt, AttemptEnd, AttemptRecorder, Event, EventSink, NoticeLevel, RecordError, WireProfile,
};
use hermes_store::{Committed, Record, SessionWriter, StoreError, Unavailable};

/// Writes attempts through the holder of the session's lease.
pub(crate) struct Ledger<'a> {
    writer: &'a mut SessionWriter,
    sink: &'a dyn EventSink,
    open: Option<Attempt>,
    spool_told: &'a mut Vec<Unavailable>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(
        writer: &'a mut SessionWriter,
        sink: &'a dyn EventSink,
        spool_told: &'a mut Vec<Unavailable>,
    ) -> Self {
        Self { writer, sink, open: None, spool_told }
    }

    /// The attempt that was started and has not ended yet.
    pub(crate) fn take_open(&mut self) -> Option<Attempt> {
        self.open.take()
    }
}

impl AttemptRecorder for Ledger<'_> {
    fn started(&mut self, attempt: Attempt, profile: &WireProfile) -> Result<(), RecordError> {
        let id = attempt.id.clone();
        let batch = vec![Record::Profile(profile.clone()), Record::AttemptStarted(attempt.clone())];
        commit(self.writer, batch, self.sink, self.spool_told)
            .map_err(|error| RecordError(error.to_string()))?;
        self.open = Some(attempt);
        self.sink.event(Event::RequestStarted { id });
        Ok(())
    }

    fn failed(&mut self, end: AttemptEnd) -> Result<(), RecordError> {
        self.open = None;
        commit(self.writer, vec![Record::AttemptEnded(end)], self.sink, self.spool_told)
            .map_err(|error| RecordError(error.to_string()))
    }
}

/// What a turn reads of the store and can do without: None where the store cannot be read at
/// present. The turn goes on, and its commits tell what is wrong.
pub(crate) fn seen<T>(
    read: Result<T, StoreError>,
    what: &'static str,
) -> Result<Option<T>, StoreError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error @ StoreError::Unavailable { .. }) => {
            tracing::warn!(%error, what, "cannot be read; the turn goes on without it");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Commits a batch; the person is told once per conversation and reason when it went to the spool.
pub(crate) fn commit(
    writer: &mut SessionWriter,
    batch: Vec<Record>,
    sink: &dyn EventSink,
    spool_told: &mut Vec<Unavailable>,
) -> Result<(), StoreError> {
    match writer.commit(batch)? {
        Committed::Database => {
            if let Some(why) = writer.untold()
                && !spool_told.contains(&why)
            {
                let text = format!(
                    "the session store was in trouble ({why}); nothing is lost; hint: {}",
                    why.hint()
                );
                spool_told.push(why);
                sink.event(Event::Notice { level: NoticeLevel::Warning, text });
            }
        }
        Committed::Spooled { path, why, .. } => {
            if !spool_told.contains(&why) {
                let text = format!(
                    "the session store cannot be written ({why}); what is said is kept in {} and \
                     taken in as soon as it can be; hint: {}",
                    path.display(),
                    why.hint()
                );
                spool_told.push(why);
                sink.event(Event::Notice { level: NoticeLevel::Warning, text });
            }
        }
    }
    Ok(())
}
