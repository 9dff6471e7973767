//! The row of what the person says: labels of what went unanswered, the text, images, references,
//! skills, and what the runtime has to tell with it.

use std::sync::Arc;

use hermes_core::{Digest, EventSink, Origin, Part, PartBody, Role, Seq, Standing, slot};
use hermes_store::Record;

use crate::conversation::Conversation;
use crate::{AgentError, Services, UserInput, unanswered};

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
        // Whatever cannot be loaded stops the turn before anything is stored.
        let mut joining = self.reference_parts(&input.text, sink);
        joining.extend(self.skill_parts(services, &input.skills, sink)?);
        let refreshed = self.refresh_notice(services)?;

        let now = services.env.now();
        let mut records = Vec::new();
        for (row, text) in unanswered::labels(&self.view()?) {
            let part = unanswered::label_part(row, self.next_seq(), text, now);
            self.adopt_part(&part);
            records.push(Record::Part(part));
        }

        self.turn = self.turn.next();
        let seq = self.next_seq();
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
        let from = self.options.child_of.as_ref().map(|parent| parent.label());
        add(seq, slot::BODY, Origin::User, from, PartBody::text(input.text));
        for image in input.images {
            let digest = Digest::of(&image.bytes);
            let bytes = image.bytes.len() as u64;
            let media_type: Arc<str> = image.media_type.as_str().into();
            let body = PartBody::Blob { digest, media_type: media_type.clone(), bytes };
            add(self.next_seq(), slot::ATTACHMENT, Origin::User, None, body);
            records.push(Record::Blob { media_type, bytes: image.bytes.into() });
        }
        for part in joining {
            let body = PartBody::Text { text: part.text };
            add(self.next_seq(), part.slot, part.origin, part.label, body);
        }
        let notices = std::mem::take(&mut self.pending_notices);
        let notices = notices.into_iter().map(|text| (None, text));
        let refreshed = refreshed.into_iter().map(|(label, text)| (Some(Arc::from(label)), text));
        for (label, text) in notices.chain(refreshed) {
            add(self.next_seq(), slot::LATE, Origin::Notice, label, PartBody::text(text));
        }
        let row = self.row(seq, Role::User, parts, now);
        records.push(Record::Row(row.clone()));
        self.commit(services, records, sink)?;
        self.rows.push(row);
        Ok(seq)
    }
}
