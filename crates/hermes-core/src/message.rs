//! Neutral messages: what `assemble` makes of a snapshot and a view, and what `encode` turns into
//! the bytes of one wire.

use std::sync::Arc;

use crate::{Role, Seq, Snapshot, ToolSet};

/// A request before it is encoded. A pure function of stored inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Assembled {
    /// The prompt; its text becomes the system message.
    pub snapshot: Arc<Snapshot>,
    /// The tools offered, pinned for the session.
    pub tools: Arc<ToolSet>,
    /// The history, in order, valid for a strict provider: complete adjacent pairs of calls and
    /// results.
    pub messages: Vec<Message>,
}

/// One message of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// For a tool message: the call it answers.
    pub tool_call_id: Option<Arc<str>>,
    /// What it holds, in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a message and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text {
        /// The text as it is sent, before JSON escaping.
        text: Arc<str>,
        /// Where it came from.
        from: Provenance,
    },
    /// An image.
    Image {
        /// Media type.
        media_type: Arc<str>,
        /// The bytes.
        data: Arc<[u8]>,
        /// Where it came from.
        from: Provenance,
    },
    /// Reasoning text that some providers demand back.
    Reasoning {
        /// The wire field it arrived in.
        field: Arc<str>,
        /// The text.
        text: Arc<str>,
        /// Where it came from.
        from: Provenance,
    },
    /// A raw JSON field of an assistant message.
    Raw {
        /// The field's name.
        field: Arc<str>,
        /// Its value, raw JSON text.
        json: Arc<str>,
        /// Where it came from.
        from: Provenance,
    },
    /// A tool call of an assistant message.
    ToolCall {
        /// Its id.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments, valid JSON text.
        arguments: Arc<str>,
        /// Where it came from.
        from: Provenance,
    },
}

impl Piece {
    /// Where the piece came from.
    pub const fn provenance(&self) -> &Provenance {
        match self {
            Self::Text { from, .. }
            | Self::Image { from, .. }
            | Self::Reasoning { from, .. }
            | Self::Raw { from, .. }
            | Self::ToolCall { from, .. } => from,
        }
    }
}

/// Where a piece of a request came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// A block of the prompt snapshot, by its index in the manifest.
    Block(usize),
    /// A part of a stored row.
    Part {
        /// The row.
        row: Seq,
        /// The part.
        part: Seq,
    },
    /// A definition of the tool set, by its index.
    Tool(usize),
    /// Put in by the renderer so that the history is valid (the stub of a missing result, the
    /// filler between two user messages); names the rule.
    Filler(&'static str),
}
