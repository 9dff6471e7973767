//! Rows and parts: the immutable, append-only truth about a conversation.
//!
//! Roles are the provider's, origins are ours. The text for the wire is rendered from parts;
//! nothing ever recognises what a text is by looking at its wording.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Digest, Seq, Timestamp, TurnNo};

/// Who speaks, in the provider's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The system prompt. Never a stored row: prompts are snapshots.
    System,
    /// The person, or what the runtime tells the model in the person's place.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The word on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// Where a part's text came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Typed or sent by the person.
    User,
    /// Written by the model.
    Model,
    /// Returned by a tool.
    Tool,
    /// A nested project file, discovered by a tool call.
    Hint,
    /// A loaded skill's body.
    Skill,
    /// Added by a plugin's hook.
    Hook,
    /// Recalled by an external memory provider.
    Memory,
    /// A handoff capsule.
    Capsule,
    /// A compaction summary, or the stub that replaces a pruned part.
    Summary,
    /// A fact the runtime tells the model (age of an unanswered message, changed tools).
    Notice,
    /// Said by the person while the turn was running.
    Steer,
    /// Expanded from a reference in the person's text (`@file:` and the like).
    Reference,
}

impl Origin {
    /// Whether text of this origin was said in a row of this role: by the person, by the model, by a
    /// tool, or by a plugin that answered in the model's place. The rest was put in beside it.
    pub const fn is_said(self, role: Role) -> bool {
        match self {
            Self::Hook => matches!(role, Role::Assistant),
            Self::Memory | Self::Capsule | Self::Notice => false,
            _ => true,
        }
    }
}

/// How a row or part comes into a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// In its place, unless an operation takes it out.
    #[default]
    InOrder,
    /// Out, unless an operation brings it in (summaries, stubs).
    ByOp,
}

/// Whether the row holds all that was meant to be in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowStatus {
    /// Whole.
    #[default]
    Complete,
    /// Cut off by the person, a crash or a lost connection; holds what was shown.
    Interrupted,
    /// A tool that did not succeed; its parts hold the error as the model saw it.
    Failed,
}

/// What ties a tool row to the call it answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolLink {
    /// The provider's id of the call.
    pub call_id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
}

/// One message of a conversation. Immutable once stored; only parts may be added to it later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its place in the session's counter.
    pub seq: Seq,
    /// The turn it belongs to.
    pub turn: TurnNo,
    /// Who speaks.
    pub role: Role,
    /// How it comes into a view.
    #[serde(default)]
    pub standing: Standing,
    /// Whether it is whole.
    #[serde(default)]
    pub status: RowStatus,
    /// When it came into being. Never changed afterwards.
    pub created_at: Timestamp,
    /// The call a tool row answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolLink>,
    /// Why the model stopped, in the provider's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<Arc<str>>,
    /// Its parts, late ones included, ordered by (slot, seq).
    #[serde(default)]
    pub parts: Vec<Part>,
}

/// A piece of a row with one origin. Append-only; a late part has its own, later seq.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its place in the session's counter. A part written together with its row may share the
    /// row's seq only if it is the row's first; all later ones take their own.
    pub seq: Seq,
    /// The row it belongs to.
    pub row: Seq,
    /// Where it stands inside the row; see [`slot`].
    pub slot: u16,
    /// Where its text came from.
    pub origin: Origin,
    /// How it comes into a view.
    #[serde(default)]
    pub standing: Standing,
    /// When it was added.
    pub created_at: Timestamp,
    /// The source inside its origin: a path, plugin id, skill name, tool call id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Arc<str>>,
    /// What it holds.
    pub body: PartBody,
}

/// Places of parts inside a row. Parts of one slot stand in the order of their seqs.
pub mod slot {
    /// Runtime facts that must be read before the text (age of an unanswered message).
    pub const NOTICE: u16 = 10;
    /// A capsule handed to the first turn of a session.
    pub const CAPSULE: u16 = 20;
    /// Reasoning that came before the answer.
    pub const REASONING: u16 = 50;
    /// The message itself.
    pub const BODY: u16 = 100;
    /// Tool calls of an assistant row.
    pub const CALLS: u16 = 150;
    /// Images and files sent with the message.
    pub const ATTACHMENT: u16 = 200;
    /// Expanded references.
    pub const REFERENCE: u16 = 250;
    /// Late additions: recalled memory, hook text, nested project files, steering.
    pub const LATE: u16 = 300;
}

/// The wire field in which most providers return reasoning text.
pub const REASONING_CONTENT: &str = "reasoning_content";

/// What a part holds. JSON from outside is kept as the raw text it arrived in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartBody {
    /// Text for the model.
    Text {
        /// The text.
        text: Arc<str>,
    },
    /// Reasoning text, with the wire field it arrived in.
    Reasoning {
        /// The provider's field name, such as [`REASONING_CONTENT`].
        field: Arc<str>,
        /// The text.
        text: Arc<str>,
    },
    /// A structured field of an assistant message that must be replayed as it came.
    Raw {
        /// The field's name on the wire.
        field: Arc<str>,
        /// Its value, raw JSON text.
        json: Arc<str>,
    },
    /// A tool call asked for by the model.
    ToolCall {
        /// The provider's id, or one of ours where it gave none.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments as valid JSON text, replayed as they stand.
        arguments: Arc<str>,
    },
    /// Binary content, stored once under its digest.
    Blob {
        /// Digest of the bytes.
        digest: Digest,
        /// Media type, such as `image/png`.
        media_type: Arc<str>,
        /// Size in bytes.
        bytes: u64,
    },
}

impl PartBody {
    /// Plain text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text { text: text.into() }
    }
}

impl Part {
    /// The text of a text part.
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            PartBody::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl Row {
    /// The texts of the parts with this origin, joined by blank lines.
    pub fn text_of(&self, origin: Origin) -> String {
        self.texts(|part| part.origin == origin)
    }

    /// What an assistant row answers: the model's words, or a plugin's in their place.
    pub fn answer(&self) -> String {
        self.texts(|part| self.is_answer(part))
    }

    /// Whether a part of this row is the model's words, or a plugin's in their place.
    pub fn is_answer(&self, part: &Part) -> bool {
        self.role == Role::Assistant && matches!(part.origin, Origin::Model | Origin::Hook)
    }

    fn texts(&self, wanted: impl Fn(&Part) -> bool) -> String {
        let parts = self.parts.iter().filter(|part| part.standing == Standing::InOrder);
        parts.filter(|part| wanted(part)).filter_map(Part::as_text).collect::<Vec<_>>().join("\n\n")
    }

    /// The tool calls this row asks for: id, name, arguments.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Arc<str>)> {
        self.parts.iter().filter_map(|part| match &part.body {
            PartBody::ToolCall { id, name, arguments } => Some((id, name, arguments)),
            _ => None,
        })
    }

    /// Puts the parts into their order.
    pub fn sort_parts(&mut self) {
        self.parts.sort_by_key(|part| (part.slot, part.seq));
    }
}
