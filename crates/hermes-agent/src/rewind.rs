//! `/undo` and `/retry`: the last turns are taken out of what the next request holds.
//!
//! Invariants: nothing is deleted, only hidden by one operation of the view; prompt, tools and
//! summaries stay as they are; a capsule that a row taken back had received is in the next row
//! again (`handoff.rs`).

use hermes_core::{
    Cause, EventSink, GenerationNo, Op, Origin, PartBody, Role, Row, Seq, TurnNo, View,
};
use hermes_store::Record;
use serde::Serialize;

use crate::conversation::{Conversation, Image, UserInput};
use crate::{AgentError, Services};

/// Turns that were taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rewound {
    /// How many.
    pub turns: usize,
    /// Rows that the next request no longer holds.
    pub rows: usize,
    /// Results of tools among them.
    pub results: usize,
    /// What the person had said first in them.
    pub text: String,
    /// The generation that hides them.
    pub generation: GenerationNo,
}

impl Conversation {
    /// Takes the last `turns` turns back, or as many as there are. What their tools did to files
    /// and elsewhere stays done.
    ///
    /// # Errors
    /// [`AgentError::NothingToTakeBack`], or if the store refuses.
    pub fn rewind(
        &mut self,
        services: &Services,
        turns: usize,
        sink: &dyn EventSink,
    ) -> Result<Rewound, AgentError> {
        self.acquire(services)?;
        let view = self.view()?;
        let found = standing_turns(&view);
        let from = found.len().saturating_sub(turns);
        let nothing = AgentError::NothingToTakeBack { summarised: self.compactions > 0 };
        let Some(first) = found.get(from).filter(|_| turns > 0) else { return Err(nothing) };
        let to = self.last_seq();
        let taken = view.rows.iter().filter(|shown| shown.position >= first.row);
        let results = taken.clone().filter(|shown| shown.row.role == Role::Tool).count();
        let rows = taken.count();
        let ops = vec![Op::Hide { from: first.row, to }];
        let generation = self.next_generation(Cause::Rewind, services.env.now(), ops);
        let manifest =
            Record::Manifest { generation: generation.n, blocks: self.snapshot.blocks.clone() };
        self.commit(services, vec![Record::Generation(generation.clone()), manifest], sink)?;
        let n = generation.n;
        self.generations.push(generation);
        let (turns, text) = (found.len() - from, first.text.clone());
        Ok(Rewound { turns, rows, results, text, generation: n })
    }

    /// Takes the last turn back and returns what the person had said in it, with its images and
    /// skills, to be said again.
    ///
    /// # Errors
    /// [`AgentError::NothingToTakeBack`], or if the store refuses; nothing is taken back then.
    pub fn take_back_last(
        &mut self,
        services: &Services,
        sink: &dyn EventSink,
    ) -> Result<UserInput, AgentError> {
        self.acquire(services)?;
        let input = self.last_said(services)?;
        self.rewind(services, 1, sink)?;
        Ok(input.unwrap_or_default())
    }

    fn last_said(&self, services: &Services) -> Result<Option<UserInput>, AgentError> {
        let view = self.view()?;
        let Some(last) = standing_turns(&view).pop() else { return Ok(None) };
        let Some(row) = self.rows.iter().find(|row| row.seq == last.row) else { return Ok(None) };
        let mut input = UserInput::text(said(row));
        for part in &row.parts {
            match (&part.body, part.origin) {
                (PartBody::Blob { digest, media_type, .. }, Origin::User) => {
                    let bytes = services.store.blob(digest)?.ok_or_else(|| {
                        let what = format!("the image {}", digest.short());
                        AgentError::Missing { session: self.id.clone(), what }
                    })?;
                    let media_type = media_type.to_string();
                    input.images.push(Image { media_type, bytes: bytes.to_vec() });
                }
                (PartBody::Text { .. }, Origin::Skill) => {
                    input.skills.extend(crate::inspect::skill_name(part).map(str::to_owned));
                }
                _ => {}
            }
        }
        Ok(Some(input))
    }
}

/// A turn that begins with a row that stands in the view as itself.
struct Standing {
    row: Seq,
    turn: TurnNo,
    text: String,
}

/// The turns of the person that stand in the view, in order. What a summary covers is none.
fn standing_turns(view: &View) -> Vec<Standing> {
    let mut found: Vec<Standing> = Vec::new();
    for shown in &view.rows {
        let row = &shown.row;
        let by_person = row.role == Role::User
            && row.parts.iter().any(|part| matches!(part.origin, Origin::User | Origin::Steer));
        if !by_person || shown.position != row.seq {
            continue;
        }
        // What was put in while the turn ran belongs to it.
        if found.last().is_none_or(|last| last.turn != row.turn) {
            found.push(Standing { row: row.seq, turn: row.turn, text: said(row) });
        }
    }
    found
}

fn said(row: &Row) -> String {
    row.text_of(Origin::User)
}
