//! Delivery: a pending capsule is offered to a session's first turn, and given in the transaction
//! that stores that turn's user row.
//!
//! The caller puts [`Offer::part`] into the row and [`Offer::record`] behind it. If the store says
//! [`hermes_store::StoreError::CapsuleNotClaimed`], it stores the same batch without both: somebody
//! else was quicker, or the store cannot tell at present. What the model is told about the part
//! (earlier history, no new instruction) is the renderer's frame for its origin.

use std::sync::Arc;

use hermes_core::{
    Digest, Lane, Origin, Part, PartBody, Row, Seq, SessionId, Standing, Timestamp, View, slot,
};
use hermes_store::{CapsuleRecord, CapsuleState, Record};

use crate::handoffs::Handoffs;
use crate::{HandoffError, trim};

/// How a session comes to its first turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A person starts it.
    ByPerson,
    /// The scheduler.
    Scheduled,
    /// Another session hands work to it.
    Delegated,
    /// It serves an auxiliary call.
    Auxiliary,
    /// A script asked for an answer and nothing else.
    Quiet,
    /// It was there before.
    Resumed,
    /// It is a copy of another.
    Branched,
}

/// Most characters that are delivered of a file that a person made longer.
const MOST: usize = 24_000;

/// A capsule that may be given to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What the store knows of it.
    pub record: CapsuleRecord,
    /// The text as it stands in the file.
    pub text: Arc<str>,
    /// Whether a person changed it.
    pub edited: bool,
}

impl Handoffs {
    /// The capsule that the first turn of `session` in `lane` is to receive. Overdue and removed
    /// ones are settled on the way. Costs one read while there is none.
    ///
    /// # Errors
    /// If the store or the folder cannot be read. A turn goes on without a capsule then.
    pub fn offer(
        &self,
        lane: &Lane,
        session: &SessionId,
        start: Start,
    ) -> Result<Option<Offer>, HandoffError> {
        match self.due(lane, start)? {
            Some(record) => self.offer_of(&record, session),
            None => Ok(None),
        }
    }

    /// The same for a capsule that is handed on by its id, whatever its lane.
    ///
    /// # Errors
    /// [`HandoffError::State`] if it is not pending.
    pub fn offer_by_id(
        &self,
        id: &str,
        session: &SessionId,
    ) -> Result<Option<Offer>, HandoffError> {
        let record = self.resolve(id)?;
        if record.state != CapsuleState::Pending {
            return Err(HandoffError::State {
                id: record.id,
                state: record.state.as_str(),
                hint: "build a new one with `hermes handoff build`",
            });
        }
        self.offer_of(&record, session)
    }

    /// What [`Self::offer`] would give now. Nothing is settled or written.
    ///
    /// # Errors
    /// If the store or the folder cannot be read.
    pub fn waiting(
        &self,
        lane: &Lane,
        session: &SessionId,
        start: Start,
    ) -> Result<Option<Offer>, HandoffError> {
        match self.due(lane, start)? {
            Some(record) => self.waiting_of(&record, session),
            None => Ok(None),
        }
    }

    /// What [`Self::offer_by_id`] would give now. Nothing is settled or written.
    ///
    /// # Errors
    /// If the store or the folder cannot be read.
    pub fn waiting_by_id(
        &self,
        id: &str,
        session: &SessionId,
    ) -> Result<Option<Offer>, HandoffError> {
        self.waiting_of(&self.resolve(id)?, session)
    }

    /// The pending capsule of a lane, for a session that starts in this way.
    fn due(&self, lane: &Lane, start: Start) -> Result<Option<CapsuleRecord>, HandoffError> {
        if start != Start::ByPerson {
            return Ok(None);
        }
        Ok(self.store.pending_capsule(lane)?)
    }

    fn waiting_of(
        &self,
        record: &CapsuleRecord,
        session: &SessionId,
    ) -> Result<Option<Offer>, HandoffError> {
        let stands = record.state == CapsuleState::Pending
            && record.session != *session
            && record.expires_at > self.env.now()
            && !self.is_taken_back(record)?;
        Ok(if stands { self.text(record)?.and_then(|text| given(record, &text)) } else { None })
    }

    fn offer_of(
        &self,
        record: &CapsuleRecord,
        session: &SessionId,
    ) -> Result<Option<Offer>, HandoffError> {
        if record.session == *session {
            return Ok(None);
        }
        if record.expires_at <= self.env.now() {
            self.expire()?;
            return Ok(None);
        }
        if !self.settle_in(record)? {
            return Ok(None);
        }
        let Some(text) = self.text(record)? else { return Ok(None) };
        let offer = given(record, &text);
        if offer.is_none() {
            self.discard(record, "its file was emptied by hand")?;
        }
        Ok(offer)
    }
}

/// What a session receives of a file; None if the file was emptied.
fn given(record: &CapsuleRecord, text: &str) -> Option<Offer> {
    let edited = Digest::of(text) != record.digest;
    let text: Arc<str> = trim::cut_middle(text, MOST).into();
    (!text.trim().is_empty()).then(|| Offer { record: record.clone(), text, edited })
}

impl Offer {
    /// The part of the user row `row` that holds the capsule. `seq` is its own.
    pub fn part(&self, row: Seq, seq: Seq, now: Timestamp) -> Part {
        part(&self.record.id, &self.text, row, seq, now)
    }

    /// The record that gives it to the session; it comes after the row's.
    pub fn record(&self, row: Seq) -> Record {
        Record::CapsuleClaimed {
            capsule: self.record.id.as_str().into(),
            row,
            digest: Digest::of(&*self.text),
        }
    }

    /// What the person is told.
    pub fn sentence(&self, path: &std::path::Path) -> String {
        let how = match self.record.status.as_str() {
            "fallback" => ", which no model wrote",
            _ => "",
        };
        let edited = if self.edited { ", as you changed it" } else { "" };
        format!(
            "Going on from the handoff of session {}{how}{edited}: {}",
            self.record.session,
            path.display()
        )
    }
}

fn part(id: &str, text: &Arc<str>, row: Seq, seq: Seq, now: Timestamp) -> Part {
    Part {
        seq,
        row,
        slot: slot::CAPSULE,
        origin: Origin::Capsule,
        standing: Standing::InOrder,
        created_at: now,
        label: Some(id.into()),
        body: PartBody::Text { text: Arc::clone(text) },
    }
}

/// The batch without the capsule: what is stored when it could not be given.
#[must_use]
pub fn without_capsule(batch: Vec<Record>) -> Vec<Record> {
    batch
        .into_iter()
        .filter(|record| !matches!(record, Record::CapsuleClaimed { .. }))
        .map(|record| match record {
            Record::Row(mut row) => {
                row.parts.retain(|part| part.origin != Origin::Capsule);
                Record::Row(row)
            }
            other => other,
        })
        .collect()
}

/// A capsule that this session received and that its view no longer holds, because the row was
/// taken back (`/undo`, `/retry`): the next user row holds it again. It is not claimed again.
pub fn carried_over(rows: &[Row], view: &View) -> Option<CarriedOver> {
    let capsule = |part: &&Part| part.origin == Origin::Capsule;
    let in_view = view.rows.iter().any(|shown| shown.row.parts.iter().any(|part| capsule(&part)));
    // A summary of the row speaks for it.
    if in_view || view.rows.iter().any(|shown| shown.row.standing == Standing::ByOp) {
        return None;
    }
    let held = rows.iter().flat_map(|row| &row.parts).rfind(capsule)?;
    match (&held.body, &held.label) {
        (PartBody::Text { text }, Some(id)) => {
            Some(CarriedOver { id: Arc::clone(id), text: Arc::clone(text) })
        }
        _ => None,
    }
}

/// A capsule that the session's next user row holds again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedOver {
    id: Arc<str>,
    text: Arc<str>,
}

impl CarriedOver {
    /// The part of the user row `row`. `seq` is its own.
    pub fn part(&self, row: Seq, seq: Seq, now: Timestamp) -> Part {
        part(&self.id, &self.text, row, seq, now)
    }
}
