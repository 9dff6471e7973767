//! The row of what the person says: labels of what went unanswered, the text, images, references,
//! skills, and what the runtime has to tell with it.

use std::sync::Arc;

use hermes_core::{Digest, EventSink, Origin, Part, PartBody, Role, Row, Seq, Standing, slot};
use hermes_store::{Record, SessionPatch};

use crate::conversation::{ChildOf, Conversation};
use crate::{AgentError, Services, UserInput, unanswered};

/// What a message of the person becomes, before it is stored.
pub(crate) struct Said {
    /// Blobs that the row refers to.
    pub(crate) blobs: Vec<Record>,
    /// Labels of earlier messages that nothing answered.
    pub(crate) labels: Vec<Part>,
    /// The row.
    pub(crate) row: Row,
}

impl Conversation {
    /// Stores what the person said, and before it the labels of earlier messages that nothing
    /// answered.
    pub(crate) fn store_user_row(
        &mut self,
        services: &Services,
        input: UserInput,
        sink: &dyn EventSink,
    ) -> Result<Seq, AgentError> {
        self.sources.begin(&input.text);
        let mut seqs = self.last_seq();
        let mut said = self.compose(services, input, sink, &mut seqs)?;
        let offer = self.offered(services, sink);
        self.add_capsule(&mut said.row, offer.as_ref(), &mut seqs)?;
        // The counter is the store's; it gives the same numbers.
        while self.next_seq() < seqs {}
        self.turn = self.turn.next();
        self.pending_notices.clear();
        let mut records: Vec<Record> = Vec::new();
        for part in said.labels {
            self.adopt_part(&part);
            records.push(Record::Part(part));
        }
        records.append(&mut said.blobs);
        records.push(Record::Row(said.row.clone()));
        if self.ended {
            let reopened = SessionPatch { reopened: true, ..SessionPatch::default() };
            records.push(Record::Patch(reopened));
        }
        let seq = said.row.seq;
        match &offer {
            Some(offer) => {
                self.commit_with_capsule(services, records, &mut said.row, offer, sink)?;
            }
            None => self.commit(services, records, sink)?,
        }
        self.ended = false;
        self.rows.push(said.row);
        Ok(seq)
    }

    /// What `input` would be stored as. `last` is the highest seq in use and is moved on.
    pub(crate) fn compose(
        &self,
        services: &Services,
        input: UserInput,
        sink: &dyn EventSink,
        last: &mut Seq,
    ) -> Result<Said, AgentError> {
        let mut next_seq = || {
            *last = last.next();
            *last
        };
        // Whatever cannot be loaded stops the turn before anything is stored.
        let mut joining = self.reference_parts(&input.text, sink);
        joining.extend(self.skill_parts(services, &input.skills, sink)?);
        let refreshed = self.refresh_notice(services)?;

        let now = services.env.now();
        let labels = unanswered::labels(&self.view()?)
            .into_iter()
            .map(|(row, text)| unanswered::label_part(row, next_seq(), text, now))
            .collect();

        let seq = next_seq();
        let mut blobs = Vec::new();
        let mut parts = Vec::new();
        let mut add = |seq: Seq, slot: u16, origin: Origin, label: Option<Arc<str>>, body| {
            parts.push(Part {
                seq,
                row: parts.first().map_or(seq, |first: &Part| first.row),
                slot,
                origin,
                standing: Standing::InOrder,
                created_at: now,
                label,
                body,
            });
        };
        let from = self.options.child_of.as_ref().map(ChildOf::label);
        add(seq, slot::BODY, Origin::User, from, PartBody::text(input.text));
        for image in input.images {
            let digest = Digest::of(&image.bytes);
            let bytes = image.bytes.len() as u64;
            let media_type: Arc<str> = image.media_type.as_str().into();
            let body = PartBody::Blob { digest, media_type: media_type.clone(), bytes };
            add(next_seq(), slot::ATTACHMENT, Origin::User, None, body);
            blobs.push(Record::Blob { media_type, bytes: image.bytes.into() });
        }
        for part in joining {
            let body = PartBody::Text { text: part.text };
            add(next_seq(), part.slot, part.origin, part.label, body);
        }
        let notices = self.pending_notices.iter().map(|text| (None, text.clone()));
        let refreshed = refreshed.into_iter().map(|(label, text)| (Some(Arc::from(label)), text));
        for (label, text) in notices.chain(refreshed) {
            add(next_seq(), slot::LATE, Origin::Notice, label, PartBody::text(text));
        }
        let row = Row { turn: self.turn.next(), ..self.row(seq, Role::User, parts, now) };
        Ok(Said { blobs, labels, row })
    }
}
