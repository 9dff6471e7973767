//! Sizes of rows for the model, estimated from what a request would show of them.

use hermes_context::estimate_tokens;
use hermes_core::{Part, PartBody, Row, TokenKind, Tokens, View};

/// Tokens of an image where the provider's price is not known.
const IMAGE: u64 = 1_500;
/// Tokens of a message's frame: role, separators.
const MESSAGE: u64 = 4;
/// Tokens of the frame around a tool call: id, type, names of its fields.
const CALL: u64 = 16;

/// What one part costs in a request.
pub fn part_tokens(part: &Part) -> u64 {
    match &part.body {
        PartBody::Text { text } => estimate_tokens(text),
        // Few endpoints take reasoning back, and those count it themselves.
        PartBody::Reasoning { .. } | PartBody::Raw { .. } => 0,
        PartBody::ToolCall { name, arguments, .. } => {
            CALL + estimate_tokens(name) + estimate_tokens(arguments)
        }
        PartBody::Blob { media_type, .. } if media_type.starts_with("image/") => IMAGE,
        PartBody::Blob { .. } => CALL,
    }
}

/// What one row, as it stands in a view, costs in a request.
pub fn row_tokens(row: &Row) -> u64 {
    MESSAGE + row.parts.iter().map(part_tokens).sum::<u64>()
}

/// What the rows of a view cost, without prompt and tools.
pub fn view_tokens(view: &View) -> u64 {
    view.rows.iter().map(|shown| row_tokens(&shown.row)).sum()
}

/// The size of a request after `estimated_before` tokens of its history became
/// `estimated_after`, as far as it is known.
#[must_use]
pub fn after(before: Tokens, estimated_before: u64, estimated_after: u64) -> Tokens {
    let count = (before.count + estimated_after).saturating_sub(estimated_before);
    let kind = match before.kind {
        TokenKind::Exact | TokenKind::Anchored => TokenKind::Anchored,
        TokenKind::Estimated => TokenKind::Estimated,
    };
    Tokens { count, kind }
}
