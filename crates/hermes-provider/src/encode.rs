//! The chat-completions body, written by hand: the same inputs give the same bytes.
//!
//! Field order is fixed: `model`, `messages`, `tools`, `stream`, `stream_options`, then the
//! parameters in their own order. JSON that came from outside (tool definitions, parameters, raw
//! fields) goes out byte for byte; nothing is parsed and nothing is re-formatted.
//!
//! Choices that endpoints differ on:
//! - An assistant message that only calls tools has `"content":""`, not `null`. OpenAI, vLLM,
//!   SGLang, Ollama, LM Studio, DeepSeek, Mistral and OpenRouter take both; chat templates that
//!   trim the content (llama.cpp, older vLLM) fail on `null`.
//! - Text pieces are joined by a blank line into one string: an array of text parts is refused
//!   by many local servers. Only a user message with images becomes an array.
//! - Reasoning always goes back in `reasoning_content`, whatever field it came in: every endpoint
//!   that demands it back uses that name, and the model may have been changed in mid-session.
//! - Empty `tools` are left out, because strict endpoints refuse an empty array.

use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use hermes_core::{
    Assembled, ByteRange, Digest, Message, Params, Piece, Provenance, REASONING_CONTENT,
    ReasoningReplay, Role, Snapshot, WireProfile,
};

use crate::json::{escape_into, write_string};

/// Stands between two text pieces of one message, and belongs to neither.
const BETWEEN: &str = "\n\n";

/// Fields of an assistant message that are written from other pieces. A raw field of such a name
/// is dropped: two values for one key are read differently by different servers.
const OWN_FIELDS: [&str; 6] =
    ["role", "content", "tool_calls", "tool_call_id", "name", REASONING_CONTENT];

/// A body, and where everything stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The exact bytes.
    pub body: Bytes,
    /// Where each piece stands, in the order of the body. The range of a text, a reasoning text
    /// or a prompt block is the inside of its JSON string, and un-escapes to exactly the piece's
    /// text; of a tool call the inside of its `arguments` string; of an image the inside of its
    /// data URL (or of the note in its place); of a raw field or a tool definition its JSON.
    /// Blocks that are not in the prompt have none.
    pub ranges: Vec<(Provenance, ByteRange)>,
    /// Digest of the encoded messages without the prompt's: the bytes from the first message
    /// after it to the last, commas between them included.
    pub history: Digest,
    /// Digest of the body.
    pub digest: Digest,
}

/// Writes the request. Pure.
pub fn encode(
    assembled: &Assembled,
    profile: &WireProfile,
    model: &str,
    params: &Params,
) -> Encoded {
    let mut writer =
        Writer { out: String::with_capacity(size_hint(assembled)), ranges: Vec::new() };
    writer.raw("{\"model\":");
    writer.string(model);
    writer.raw(",\"messages\":[");
    if !assembled.snapshot.text.is_empty() {
        writer.prompt(&assembled.snapshot, &profile.system_role);
        if !assembled.messages.is_empty() {
            writer.raw(",");
        }
    }
    let history_start = writer.out.len();
    for (index, message) in assembled.messages.iter().enumerate() {
        if index > 0 {
            writer.raw(",");
        }
        writer.message(message, profile);
    }
    let history_end = writer.out.len();
    writer.raw("]");
    if profile.tools && !assembled.tools.defs.is_empty() {
        writer.raw(",\"tools\":[");
        for (index, tool) in assembled.tools.defs.iter().enumerate() {
            if index > 0 {
                writer.raw(",");
            }
            let start = writer.out.len();
            writer.raw(&tool.json);
            writer.mark(Provenance::Tool(index), start);
        }
        writer.raw("]");
    }
    if profile.stream {
        writer.raw(",\"stream\":true");
        if profile.stream_usage {
            writer.raw(",\"stream_options\":{\"include_usage\":true}");
        }
    } else {
        writer.raw(",\"stream\":false");
    }
    for (name, json) in &params.0 {
        writer.raw(",");
        writer.string(name);
        writer.raw(":");
        writer.raw(json);
    }
    writer.raw("}");

    let body = Bytes::from(writer.out);
    let (history, digest) = digests(&body, history_start..history_end);
    Encoded { body, ranges: writer.ranges, history, digest }
}

/// Digests of the history inside the body, and of the body.
fn digests(body: &[u8], history: std::ops::Range<usize>) -> (Digest, Digest) {
    /// From here on a second thread saves more than it costs.
    const LARGE: usize = 1 << 20;
    let history = body.get(history).unwrap_or_default();
    if body.len() < LARGE {
        return (Digest::of(history), Digest::of(body));
    }
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| Digest::of(history));
        let whole = Digest::of(body);
        (beside.join().unwrap_or_else(|_| Digest::of(history)), whole)
    })
}

/// A little more than the body will need, so that it is written without moving.
fn size_hint(assembled: &Assembled) -> usize {
    let escaped = |text: &Arc<str>| text.len() + text.len() / 16;
    let messages: usize = assembled
        .messages
        .iter()
        .flat_map(|message| &message.pieces)
        .map(|piece| match piece {
            Piece::Text { text, .. } | Piece::Reasoning { text, .. } => escaped(text) + 64,
            Piece::Image { data, .. } => data.len() / 3 * 4 + 160,
            Piece::Raw { field, json, .. } => field.len() + json.len() + 16,
            Piece::ToolCall { id, name, arguments, .. } => {
                id.len() + name.len() + arguments.len() * 5 / 4 + 96
            }
        })
        .sum();
    let tools: usize = assembled.tools.defs.iter().map(|tool| tool.json.len() + 1).sum();
    escaped(&assembled.snapshot.text) + messages + tools + 512
}

struct Writer {
    out: String,
    ranges: Vec<(Provenance, ByteRange)>,
}

impl Writer {
    fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn string(&mut self, text: &str) {
        write_string(&mut self.out, text);
    }

    fn mark(&mut self, from: Provenance, start: usize) {
        self.ranges.push((from, ByteRange { start, end: self.out.len() }));
    }

    fn escaped(&mut self, text: &str, from: &Provenance) {
        let start = self.out.len();
        escape_into(&mut self.out, text);
        self.mark(from.clone(), start);
    }

    /// The prompt's message. Its blocks' ranges are of the text before escaping, so the text is
    /// escaped from one block border to the next and the place of each border is kept.
    fn prompt(&mut self, snapshot: &Snapshot, role: &str) {
        self.raw("{\"role\":");
        self.string(role);
        self.raw(",\"content\":\"");
        let text = &*snapshot.text;
        let inside = |at: usize| floor_boundary(text, at);
        let mut borders: Vec<usize> = snapshot
            .blocks
            .iter()
            .flat_map(|block| [inside(block.range.start), inside(block.range.end)])
            .collect();
        borders.extend([0, text.len()]);
        borders.sort_unstable();
        borders.dedup();

        let mut places = Vec::with_capacity(borders.len());
        let mut done = 0;
        for border in &borders {
            escape_into(&mut self.out, text.get(done..*border).unwrap_or_default());
            places.push(self.out.len());
            done = *border;
        }
        let place = |at: usize| {
            let index = borders.partition_point(|border| *border < inside(at));
            places.get(index).copied().unwrap_or_default()
        };
        for (index, block) in snapshot.blocks.iter().enumerate() {
            if !block.range.is_empty() {
                let range =
                    ByteRange { start: place(block.range.start), end: place(block.range.end) };
                self.ranges.push((Provenance::Block(index), range));
            }
        }
        self.raw("\"}");
    }

    fn message(&mut self, message: &Message, profile: &WireProfile) {
        self.raw("{\"role\":");
        self.string(match message.role {
            Role::System => &profile.system_role,
            Role::User | Role::Assistant | Role::Tool => message.role.as_str(),
        });
        if let Some(id) = &message.tool_call_id {
            self.raw(",\"tool_call_id\":");
            self.string(id);
        }
        self.raw(",\"content\":");
        let as_images = profile.images && message.role == Role::User;
        if as_images && message.pieces.iter().any(|piece| matches!(piece, Piece::Image { .. })) {
            self.content_parts(&message.pieces);
        } else {
            self.content_string(&message.pieces);
        }
        if message.role == Role::Assistant {
            self.reasoning(&message.pieces, profile);
            self.calls(&message.pieces);
        }
        self.raw("}");
    }

    fn content_string(&mut self, pieces: &[Piece]) {
        self.raw("\"");
        let mut first = true;
        for piece in pieces {
            let note;
            let text: &str = match piece {
                Piece::Text { text, .. } => text,
                Piece::Image { media_type, data, .. } => {
                    note = format!(
                        "[an image ({media_type}, {} bytes) is not shown: this endpoint takes text only]",
                        data.len()
                    );
                    &note
                }
                Piece::Reasoning { .. } | Piece::Raw { .. } | Piece::ToolCall { .. } => continue,
            };
            if !std::mem::take(&mut first) {
                escape_into(&mut self.out, BETWEEN);
            }
            self.escaped(text, piece.provenance());
        }
        self.raw("\"");
    }

    /// Texts between images are joined as in a plain message, so that each run is one part.
    fn content_parts(&mut self, pieces: &[Piece]) {
        self.raw("[");
        let mut first = true;
        let mut in_text = false;
        for piece in pieces {
            match piece {
                Piece::Text { text, from } => {
                    if in_text {
                        escape_into(&mut self.out, BETWEEN);
                    } else {
                        self.comma(&mut first);
                        self.raw("{\"type\":\"text\",\"text\":\"");
                        in_text = true;
                    }
                    self.escaped(text, from);
                }
                Piece::Image { media_type, data, from } => {
                    if std::mem::take(&mut in_text) {
                        self.raw("\"}");
                    }
                    self.comma(&mut first);
                    self.raw("{\"type\":\"image_url\",\"image_url\":{\"url\":\"");
                    let start = self.out.len();
                    self.raw("data:");
                    escape_into(&mut self.out, media_type);
                    self.raw(";base64,");
                    base64::engine::general_purpose::STANDARD.encode_string(data, &mut self.out);
                    self.mark(from.clone(), start);
                    self.raw("\"}}");
                }
                Piece::Reasoning { .. } | Piece::Raw { .. } | Piece::ToolCall { .. } => {}
            }
        }
        if in_text {
            self.raw("\"}");
        }
        self.raw("]");
    }

    fn comma(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.raw(",");
        }
    }

    fn reasoning(&mut self, pieces: &[Piece], profile: &WireProfile) {
        match profile.reasoning {
            ReasoningReplay::Omit => return,
            ReasoningReplay::Require => {}
        }
        if pieces.iter().any(|piece| matches!(piece, Piece::ToolCall { .. })) {
            self.raw(",\"");
            self.raw(REASONING_CONTENT);
            self.raw("\":\"");
            let mut first = true;
            for piece in pieces {
                if let Piece::Reasoning { text, from, .. } = piece {
                    if !std::mem::take(&mut first) {
                        escape_into(&mut self.out, BETWEEN);
                    }
                    self.escaped(text, from);
                }
            }
            self.raw("\"");
        }
        let mut written: Vec<&str> = Vec::new();
        for piece in pieces {
            let Piece::Raw { field, json, from } = piece else { continue };
            if OWN_FIELDS.contains(&&**field) || written.contains(&&**field) {
                continue;
            }
            written.push(field);
            self.raw(",");
            self.string(field);
            self.raw(":");
            let start = self.out.len();
            self.raw(json);
            self.mark(from.clone(), start);
        }
    }

    fn calls(&mut self, pieces: &[Piece]) {
        let mut first = true;
        for piece in pieces {
            let Piece::ToolCall { id, name, arguments, from } = piece else { continue };
            self.raw(if std::mem::take(&mut first) { ",\"tool_calls\":[" } else { "," });
            self.raw("{\"id\":");
            self.string(id);
            self.raw(",\"type\":\"function\",\"function\":{\"name\":");
            self.string(name);
            self.raw(",\"arguments\":\"");
            self.escaped(arguments, from);
            self.raw("\"}}");
        }
        if !first {
            self.raw("]");
        }
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

#[cfg(test)]
mod tests;
