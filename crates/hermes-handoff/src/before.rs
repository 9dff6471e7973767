//! The capsule before the one that is built: what it says, for the next writer to keep, and how it
//! comes to wait again where its successor cannot be written.

use hermes_core::{Lane, SessionId};
use hermes_home::{FileLock, fsio};
use hermes_store::CapsuleRecord;

use crate::capsule::{CONFIDENTIAL, ORDINARY};
use crate::handoffs::{Handoffs, READ_LIMIT};
use crate::result::Status;
use crate::section::{self, Body};
use crate::source::Source;
use crate::{HandoffError, lane, trim};

/// What the capsule before says.
#[derive(Clone, Debug)]
pub(crate) struct Previous {
    /// Its sections, cut to the cap.
    pub(crate) body: Body,
    /// The session it is about.
    pub(crate) about: SessionId,
    /// Whether a model wrote it.
    pub(crate) written: bool,
}

impl Previous {
    fn of(record: &CapsuleRecord, text: &str, cap: usize) -> Option<Self> {
        let read = section::read(text);
        let says = read.is_whole() && read.body.content_chars() > 0;
        says.then(|| Self {
            // A person may have made it longer than any capsule.
            body: section::read(&trim::trim(&read.body, cap).text).body,
            about: record.session.clone(),
            written: record.status == Status::Ok.word(),
        })
    }
}

/// A pending capsule with its text as it was written.
pub(crate) struct Before {
    record: CapsuleRecord,
    text: String,
}

impl Handoffs {
    /// The sections of the lane's last capsule, whatever became of it, as far as its file is there;
    /// else of the one that the session was given (it may come from another lane).
    pub(crate) fn previous(
        &self,
        lane: Option<&Lane>,
        source: &Source,
        confidential: bool,
    ) -> Option<Previous> {
        let cap = if confidential { CONFIDENTIAL.chars } else { ORDINARY.chars };
        lane.and_then(|lane| self.last_of(lane, confidential))
            .and_then(|(record, text)| Previous::of(&record, &text, cap))
            .or_else(|| {
                let (id, text) = source.given()?;
                Previous::of(&self.store.capsule(id).ok()??, text, cap)
            })
    }

    fn last_of(&self, lane: &Lane, confidential: bool) -> Option<(CapsuleRecord, String)> {
        let path = self.capsule_file(&lane::stem(lane, confidential));
        let text = fsio::read_text(&path, READ_LIMIT).ok()?.text;
        let newest = self.store.capsules(None).ok()?.into_iter().find(|record| {
            record.lane.as_ref() == Some(lane) && record.confidential == confidential
        })?;
        Some((newest, text))
    }

    /// What waits in a lane, to be put back if its successor cannot be written; None if a person took
    /// it back already.
    pub(crate) fn before(&self, lane: Option<&Lane>) -> Result<Option<Before>, HandoffError> {
        let Some(lane) = lane else { return Ok(None) };
        let Some(record) = self.store.pending_capsule(lane)? else { return Ok(None) };
        // What cannot be looked at was not removed.
        if self.is_taken_back(&record).unwrap_or(false) {
            return Ok(None);
        }
        let text = self.store.capsule_text(&record.id)?;
        Ok(text.map(|text| Before { record, text }))
    }

    /// Undoes a capsule whose files cannot be written: what waited before it waits again. Without the
    /// lock no file is touched.
    pub(crate) fn withdraw(
        &self,
        record: &CapsuleRecord,
        before: Option<&Before>,
        lock: Option<&FileLock>,
    ) -> Result<(), HandoffError> {
        let why = "its files could not be written";
        let older = before.map(|it| (it.record.id.as_str(), it.text.as_str()));
        let waits = self.store.withdraw_capsule(&record.id, why, older)?;
        if lock.is_none() {
            return Ok(());
        }
        if let (true, Some(before)) = (waits, before)
            && before.record.published
        {
            self.write_note(&before.record)?;
        }
        self.remove_note(record)
    }
}
