//! What changed from one request to another: prompt, tools, messages.

use hermes_core::{Message, Piece, RequestId};
use hermes_store::RequestRecord;
use serde::Serialize;

use super::{InspectError, Inspector};

/// The difference between two requests, by message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestDiff {
    /// The earlier request.
    pub a: RequestId,
    /// The later one.
    pub b: RequestId,
    /// Whether the system prompt is the same, byte for byte.
    pub same_prompt: bool,
    /// Whether the tool definitions are the same.
    pub same_tools: bool,
    /// Whether model, parameters and wire profile are the same.
    pub same_settings: bool,
    /// Messages at the start that both have, byte for byte (the prefix a provider may cache).
    pub shared_messages: usize,
    /// Messages after the shared ones that only `a` holds.
    pub removed: Vec<MessageChange>,
    /// Messages after the shared ones that only `b` holds.
    pub added: Vec<MessageChange>,
}

/// One message of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageChange {
    /// Its place in its request, from 0, the prompt not counted.
    pub index: usize,
    /// Who speaks.
    pub role: &'static str,
    /// Its text, calls in one line each.
    pub text: String,
}

/// Compares two requests by what they held.
///
/// # Errors
/// If one of them cannot be rebuilt.
pub fn diff(
    inspector: &mut Inspector<'_>,
    a: &RequestRecord,
    b: &RequestRecord,
) -> Result<RequestDiff, InspectError> {
    let left = inspector.rebuild(a)?.assembled.messages;
    let right = inspector.rebuild(b)?.assembled.messages;
    let shared_messages = left.iter().zip(&right).take_while(|(l, r)| l == r).count();
    let (a, b) = (&a.attempt, &b.attempt);
    Ok(RequestDiff {
        a: a.id.clone(),
        b: b.id.clone(),
        same_prompt: a.prompt == b.prompt,
        same_tools: a.tools == b.tools,
        same_settings: a.model == b.model
            && a.params == b.params
            && a.wire_profile == b.wire_profile,
        shared_messages,
        removed: changes(&left, shared_messages),
        added: changes(&right, shared_messages),
    })
}

fn changes(messages: &[Message], from: usize) -> Vec<MessageChange> {
    messages
        .iter()
        .enumerate()
        .skip(from)
        .map(|(index, message)| MessageChange {
            index,
            role: message.role.as_str(),
            text: message.pieces.iter().map(describe).collect::<Vec<_>>().join("\n"),
        })
        .collect()
}

/// One piece as a person reads it.
fn describe(piece: &Piece) -> String {
    match piece {
        Piece::Text { text, .. } => text.to_string(),
        Piece::Reasoning { text, .. } => format!("[reasoning] {text}"),
        Piece::Image { media_type, data, .. } => format!("[{media_type}, {} bytes]", data.len()),
        Piece::Raw { field, json, .. } => format!("[{field}] {json}"),
        Piece::ToolCall { name, arguments, .. } => format!("[call] {name} {arguments}"),
    }
}
