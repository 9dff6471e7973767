//! Renderer, version 1. Frozen: a change of its output for any input is a new version beside it.
//!
//! The frame of a text that did not come from the speaker of its message is a tag
//! `<hermes:kind ..>`; content cannot open or close one (see [`fence`]). Results of tools are
//! framed as `data` without exception, about a dozen tokens each: a list of trusted tools would
//! have to be kept right for ever, and even the result of a write may quote a file. What the
//! frames mean is said once, in the prompt.

pub(crate) mod fence;
mod pair;
mod parts;

use std::sync::Arc;

use hermes_core::{Message, Piece, Provenance, Role, Row, RowStatus, TurnNo, View, WireProfile};

use self::pair::{Call, Unit, pair};
use self::parts::{assistant_pieces, only_beside_result, tool_pieces, user_pieces};
use super::BlobSource;

/// Texts that the renderer puts in, with the names they go by in provenance.
mod filler {
    pub(super) const OPENING: (&str, &str) =
        ("opening", "(The conversation before this point is not shown.)");
    pub(super) const NO_RESULT: (&str, &str) = (
        "result_not_available",
        "[result not available: the outcome of this call was not recorded; it may or may not have \
         run]",
    );
    pub(super) const UNANSWERED: (&str, &str) = ("unanswered", "(No answer was recorded.)");
    pub(super) const SUMMARISED: (&str, &str) =
        ("summarised", "(What came of this is in the summary that follows.)");
    pub(super) const CONTINUED: (&str, &str) = ("continued", "(Continuing.)");
    pub(super) const TOOL_IMAGES: (&str, &str) =
        ("tool_images", "[images returned by the tools above]");
}

/// Renders `view` for `profile`.
pub(super) fn render(view: &View, profile: &WireProfile, blobs: &dyn BlobSource) -> Vec<Message> {
    let mut out = Renderer { profile, blobs, messages: Vec::new(), open: None, last_turn: None };
    for unit in pair(view) {
        match unit {
            Unit::User(row) => out.user(row, user_pieces(row, profile, blobs)),
            Unit::Leftover(row) => out.user(row, only_beside_result(row, profile, blobs)),
            Unit::Assistant { row, calls } => out.assistant(row, &calls),
        }
    }
    out.flush();
    out.messages
}

/// What one row adds to a user message.
struct Segment {
    pieces: Vec<Piece>,
    /// Whether the person speaks in it.
    spoken: bool,
}

/// A user message that may still grow.
struct OpenUser<'a> {
    /// The turn of its newest segment.
    turn: TurnNo,
    segments: Vec<Segment>,
    /// The first row in which the person speaks.
    first_spoken: Option<&'a Row>,
}

struct Renderer<'a> {
    profile: &'a WireProfile,
    blobs: &'a dyn BlobSource,
    messages: Vec<Message>,
    open: Option<OpenUser<'a>>,
    /// The turn of the newest assistant or tool row.
    last_turn: Option<TurnNo>,
}

/// How a user row goes with the user message before it.
enum Border {
    Join,
    Unanswered,
    Summarised,
}

impl<'a> Renderer<'a> {
    fn user(&mut self, row: &'a Row, pieces: Vec<Piece>) {
        if pieces.is_empty() {
            return;
        }
        let spoken = parts::is_spoken(row);
        match self.border(row, spoken) {
            Border::Join => {}
            Border::Unanswered => self.close_unanswered(),
            Border::Summarised => {
                self.flush();
                if self.profile.alternate {
                    self.fill(Role::Assistant, filler::SUMMARISED);
                }
            }
        }
        let open = self.open.get_or_insert_with(|| OpenUser {
            turn: row.turn,
            segments: Vec::new(),
            first_spoken: None,
        });
        open.turn = row.turn;
        if spoken {
            open.first_spoken.get_or_insert(row);
        }
        open.segments.push(Segment { pieces, spoken });
    }

    fn border(&self, row: &Row, spoken: bool) -> Border {
        let Some(open) = &self.open else { return Border::Join };
        if open.first_spoken.is_none() {
            Border::Join
        } else if !spoken && parts::has_summary(row) {
            // What answered the message is covered by the summary.
            Border::Summarised
        } else if spoken && open.turn != row.turn {
            Border::Unanswered
        } else {
            Border::Join
        }
    }

    /// Ends the open user message, which nothing answered, with its date unless a notice of its
    /// own tells it.
    fn close_unanswered(&mut self) {
        let told = self.open.as_ref().and_then(|open| open.first_spoken).and_then(|row| {
            (!parts::has_leading_notice(row)).then(|| {
                format!(
                    "(No answer was recorded: the message above, sent {}, was not executed. It is \
                     not to be acted on unless it is asked for again.)",
                    row.created_at
                )
            })
        });
        let (rule, short) = filler::UNANSWERED;
        if self.profile.alternate {
            self.flush();
            let text = told.map_or_else(|| Arc::from(short), Arc::from);
            self.push(Role::Assistant, vec![filled(rule, text)]);
        } else if let (Some(text), Some(open)) = (told, &mut self.open) {
            // Without a message between them, the note goes to the end of the older one.
            let note = fence::fence("notice", &[], &text);
            open.segments.push(Segment { pieces: vec![filled(rule, note.into())], spoken: false });
            self.flush();
        } else {
            self.flush();
        }
    }

    fn assistant(&mut self, row: &'a Row, calls: &[Call<'a>]) {
        self.flush();
        if self.messages.is_empty() {
            self.fill(Role::User, filler::OPENING);
        }
        let pieces = assistant_pieces(row, calls, self.profile);
        let merges = self.profile.alternate
            && self.messages.last().is_some_and(|last| last.role == Role::Assistant);
        match self.messages.last_mut() {
            Some(last) if merges => merge(&mut last.pieces, pieces),
            _ => self.push(Role::Assistant, pieces),
        }
        self.last_turn = Some(row.turn);

        let mut images = Vec::new();
        for call in calls {
            let pieces = match call.result {
                Some(result) => tool_pieces(result, call, self.profile, self.blobs, &mut images),
                None => vec![filled(filler::NO_RESULT.0, filler::NO_RESULT.1.into())],
            };
            self.messages.push(Message {
                role: Role::Tool,
                tool_call_id: Some(call.id.clone()),
                pieces,
            });
        }
        if !images.is_empty() {
            let mut pieces = vec![filled(filler::TOOL_IMAGES.0, filler::TOOL_IMAGES.1.into())];
            pieces.append(&mut images);
            self.open = Some(OpenUser {
                turn: row.turn,
                segments: vec![Segment { pieces, spoken: false }],
                first_spoken: None,
            });
        }
    }

    /// Ends the open user message.
    fn flush(&mut self) {
        let Some(open) = self.open.take() else { return };
        if self.profile.alternate
            && self.messages.last().is_some_and(|last| last.role == Role::Tool)
        {
            let same = self.last_turn == Some(open.turn);
            self.fill(Role::Assistant, if same { filler::CONTINUED } else { filler::UNANSWERED });
        }
        let spoken = open.segments.iter().filter(|segment| segment.spoken).count();
        let mut pieces = Vec::new();
        let mut number = 0;
        for segment in open.segments {
            if segment.spoken && spoken > 1 {
                number += 1;
                let text = format!("<hermes:message n=\"{number}\"/>");
                pieces.push(filled("message_number", text.into()));
            }
            pieces.extend(segment.pieces);
        }
        self.push(Role::User, pieces);
    }

    fn fill(&mut self, role: Role, (name, text): (&'static str, &'static str)) {
        self.push(role, vec![filled(name, text.into())]);
    }

    fn push(&mut self, role: Role, pieces: Vec<Piece>) {
        self.messages.push(Message { role, tool_call_id: None, pieces });
    }
}

/// A piece of the renderer's own.
fn filled(rule: &'static str, text: Arc<str>) -> Piece {
    Piece::Text { text, from: Provenance::Filler(rule) }
}

/// Adds an assistant row to the assistant message before it. Of a structured field that both have
/// the later one stands: a message holds a field once.
fn merge(into: &mut Vec<Piece>, pieces: Vec<Piece>) {
    let field = |piece: &Piece| match piece {
        Piece::Reasoning { field, .. } | Piece::Raw { field, .. } => Some(field.clone()),
        _ => None,
    };
    let newer: Vec<Arc<str>> = pieces.iter().filter_map(field).collect();
    into.retain(|piece| field(piece).is_none_or(|name| !newer.contains(&name)));
    into.extend(pieces);
}

/// Whether the row was cut off.
fn is_interrupted(row: &Row) -> bool {
    row.status == RowStatus::Interrupted
}
