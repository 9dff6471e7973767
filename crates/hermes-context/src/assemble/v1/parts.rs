//! Parts of rows as pieces of messages.

use std::sync::Arc;

use hermes_core::{
    Origin, Part, PartBody, Piece, Provenance, ReasoningReplay, Row, RowStatus, WireProfile, slot,
};

use super::fence::{escape, fence};
use super::pair::Call;
use super::{BlobSource, filled, is_interrupted};

const CAPSULE_NOTE: &str = "history you already established with this person, not a new \
                            instruction; do not greet again or ask again";

/// Whether the person speaks in this row.
pub(super) fn is_spoken(row: &Row) -> bool {
    row.parts
        .iter()
        .any(|part| matches!(part.origin, Origin::User | Origin::Steer) && !is_blank(part))
}

/// Whether the row is a summary.
pub(super) fn has_summary(row: &Row) -> bool {
    row.parts.iter().any(|part| part.origin == Origin::Summary)
}

/// Whether the runtime put a notice in front of the row's text.
pub(super) fn has_leading_notice(row: &Row) -> bool {
    row.parts.iter().any(|part| part.origin == Origin::Notice && part.slot == slot::NOTICE)
}

/// Whether an assistant row holds anything besides reasoning and raw fields.
pub(super) fn says_something(row: &Row) -> bool {
    row.parts.iter().any(|part| match part.body {
        PartBody::Text { .. } => !is_blank(part),
        PartBody::Blob { .. } | PartBody::ToolCall { .. } => true,
        PartBody::Reasoning { .. } | PartBody::Raw { .. } => false,
    })
}

fn is_blank(part: &Part) -> bool {
    part.as_text().is_some_and(|text| text.trim().is_empty())
}

/// A user row's pieces.
pub(super) fn user_pieces(row: &Row, profile: &WireProfile, blobs: &dyn BlobSource) -> Vec<Piece> {
    row.parts.iter().filter_map(|part| user_piece(part, profile, blobs)).collect()
}

/// The pieces of a tool row that are not the tool's own words.
pub(super) fn only_beside_result(
    row: &Row,
    profile: &WireProfile,
    blobs: &dyn BlobSource,
) -> Vec<Piece> {
    row.parts
        .iter()
        .filter(|part| !matches!(part.origin, Origin::Tool | Origin::Summary))
        .filter_map(|part| user_piece(part, profile, blobs))
        .collect()
}

fn user_piece(part: &Part, profile: &WireProfile, blobs: &dyn BlobSource) -> Option<Piece> {
    match &part.body {
        PartBody::Text { .. } if is_blank(part) => None,
        PartBody::Text { text } if part.origin == Origin::User => {
            Some(text_piece(part, escaped(text)))
        }
        PartBody::Text { text } => Some(text_piece(part, framed(part, text).into())),
        PartBody::Blob { .. } => Some(blob_piece(part, profile, blobs)),
        PartBody::Reasoning { .. } | PartBody::Raw { .. } | PartBody::ToolCall { .. } => None,
    }
}

/// An assistant row's pieces: reasoning where the provider demands it, its text, its calls, its
/// raw fields.
pub(super) fn assistant_pieces(row: &Row, calls: &[Call<'_>], profile: &WireProfile) -> Vec<Piece> {
    let reasoning = profile.reasoning == ReasoningReplay::Require && !calls.is_empty();
    let mut pieces = Vec::new();
    for part in &row.parts {
        match &part.body {
            PartBody::Text { .. } if is_blank(part) => {}
            PartBody::Text { text } if part.origin == Origin::Model => {
                pieces.push(text_piece(part, text.clone()));
            }
            PartBody::Text { text } => pieces.push(text_piece(part, framed(part, text).into())),
            PartBody::Reasoning { field, text } => {
                if reasoning {
                    let (field, text) = (field.clone(), text.clone());
                    pieces.push(Piece::Reasoning { field, text, from: provenance(part) });
                }
            }
            PartBody::Raw { field, json } => {
                let (field, json) = (field.clone(), json.clone());
                pieces.push(Piece::Raw { field, json, from: provenance(part) });
            }
            PartBody::Blob { media_type, bytes, .. } => {
                pieces.push(text_piece(part, note(media_type, *bytes, "not shown again")));
            }
            PartBody::ToolCall { .. } => {}
        }
    }
    let has_text = pieces.iter().any(|piece| matches!(piece, Piece::Text { .. }));
    if has_text && is_interrupted(row) {
        pieces.push(filled("interrupted", "[This answer was cut off here.]".into()));
    }
    pieces.extend(calls.iter().map(|call| Piece::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        from: provenance(call.part),
    }));
    pieces
}

/// A tool row's pieces. Images cannot stand in a tool message: they go to `images`, for the user
/// message after the group.
pub(super) fn tool_pieces(
    row: &Row,
    call: &Call<'_>,
    profile: &WireProfile,
    blobs: &dyn BlobSource,
    images: &mut Vec<Piece>,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in &row.parts {
        match &part.body {
            PartBody::Text { .. } if is_blank(part) => {}
            PartBody::Text { text } if part.origin == Origin::Tool => {
                pieces.push(text_piece(part, data(row, call, part, text).into()));
            }
            PartBody::Text { text } => pieces.push(text_piece(part, framed(part, text).into())),
            PartBody::Blob { media_type, bytes, .. } => {
                let piece = blob_piece(part, profile, blobs);
                if matches!(piece, Piece::Image { .. }) {
                    pieces.push(text_piece(part, note(media_type, *bytes, "shown below")));
                    images.push(piece);
                } else {
                    pieces.push(piece);
                }
            }
            PartBody::Reasoning { .. } | PartBody::Raw { .. } | PartBody::ToolCall { .. } => {}
        }
    }
    if pieces.is_empty() {
        pieces.push(filled("empty_result", "[no output]".into()));
    }
    pieces
}

/// A tool's own words in their frame: which tool, where the text is from if the tool says so, and
/// how the call ended if it did not end well.
fn data(row: &Row, call: &Call<'_>, part: &Part, text: &str) -> String {
    let status = match row.status {
        RowStatus::Complete => "",
        RowStatus::Interrupted => "interrupted",
        RowStatus::Failed => "failed",
    };
    let linked = row.tool.as_ref();
    let label = part.label.as_deref().unwrap_or_default();
    let from = if linked.is_some_and(|link| *link.call_id == *label) { "" } else { label };
    fence("data", &[("tool", call.name), ("from", from), ("status", status)], text)
}

/// A text in the frame of its origin.
fn framed(part: &Part, text: &str) -> String {
    let label = part.label.as_deref().unwrap_or_default();
    match part.origin {
        Origin::Hint => fence("hint", &[("file", label)], text),
        Origin::Skill => fence("skill", &[("name", label)], text),
        Origin::Hook => fence("hook", &[("plugin", label)], text),
        Origin::Memory => fence("memory", &[("from", label)], text),
        Origin::Capsule => fence("capsule", &[("note", CAPSULE_NOTE)], text),
        Origin::Summary => fence("summary", &[], text),
        Origin::Notice => fence("notice", &[], text),
        Origin::User | Origin::Steer => fence("steer", &[], text),
        Origin::Reference => fence("reference", &[("to", label)], text),
        Origin::Tool => fence("data", &[("from", label)], text),
        Origin::Model => fence("model", &[], text),
    }
}

fn blob_piece(part: &Part, profile: &WireProfile, blobs: &dyn BlobSource) -> Piece {
    let PartBody::Blob { digest, media_type, bytes } = &part.body else {
        return text_piece(part, "".into());
    };
    let why = if !media_type.starts_with("image/") {
        "files of this kind are not sent"
    } else if !profile.images {
        "this model takes no images"
    } else if let Some(data) = blobs.blob(digest) {
        return Piece::Image { media_type: media_type.clone(), data, from: provenance(part) };
    } else {
        "its bytes are no longer stored"
    };
    text_piece(part, note(media_type, *bytes, why))
}

fn note(media_type: &str, bytes: u64, why: &str) -> Arc<str> {
    fence("notice", &[], &format!("attachment, {media_type}, {bytes} bytes: {why}")).into()
}

fn escaped(text: &Arc<str>) -> Arc<str> {
    match escape(text) {
        std::borrow::Cow::Borrowed(_) => text.clone(),
        std::borrow::Cow::Owned(text) => text.into(),
    }
}

fn text_piece(part: &Part, text: Arc<str>) -> Piece {
    Piece::Text { text, from: provenance(part) }
}

const fn provenance(part: &Part) -> Provenance {
    Provenance::Part { row: part.row, part: part.seq }
}
