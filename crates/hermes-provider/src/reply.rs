//! What a model said, once it is whole.

use std::sync::Arc;

use hermes_core::Usage;

/// A whole reply, streamed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The answer's text; empty if there is none.
    pub text: String,
    /// Reasoning: the wire field it arrived in (`think` for inline tags) and its text.
    pub reasoning: Option<(Arc<str>, String)>,
    /// Structured fields that a provider may want back: name and valid raw JSON.
    pub raw_fields: Vec<(Arc<str>, Arc<str>)>,
    /// Tool calls in the order they began.
    pub calls: Vec<ReplyCall>,
    /// Why the model stopped.
    pub finish: Finish,
    /// Tokens as reported.
    pub usage: Usage,
    /// The model that answered, as reported.
    pub served_model: Option<Arc<str>>,
    /// What was odd about the bytes but did no harm; for the log.
    pub problems: Vec<String>,
}

impl Reply {
    /// Whether there is nothing in it to show, to run or to think about.
    pub fn is_empty(&self) -> bool {
        let thought = self.reasoning.as_ref().is_some_and(|(_, text)| !text.trim().is_empty());
        self.text.trim().is_empty() && self.calls.is_empty() && !thought
    }
}

/// A tool call of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyCall {
    /// The provider's id, or one of ours where it gave none that can be sent back (letters, digits,
    /// `_`, `-`, `.` and `:`, at most 64); unique within the reply.
    pub id: Arc<str>,
    /// The tool's name, made of letters, digits, `_` and `-` only, at most 64, so that it can be sent back.
    pub name: Arc<str>,
    /// The arguments and how far they can be trusted.
    pub arguments: CallArguments,
}

/// Arguments of a tool call. Only [`Self::Whole`] and [`Self::Repaired`] may run a tool, after
/// [`crate::check_schema`]; for the others `{}` is stored and the model gets a tool error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallArguments {
    /// A JSON object, byte for byte as it came.
    Whole(Arc<str>),
    /// A JSON object after a harmless repair.
    Repaired {
        /// The repaired text.
        text: Arc<str>,
        /// What was done.
        how: String,
    },
    /// The text ends before the object does: an output limit, whatever the finish reason says.
    Cut {
        /// What came.
        raw: Arc<str>,
    },
    /// No JSON object, though nothing was cut off.
    Malformed {
        /// What came.
        raw: Arc<str>,
        /// Byte offset in `raw` where it goes wrong.
        position: usize,
        /// In words.
        why: String,
    },
}

impl CallArguments {
    /// The JSON object to run and to store, if the call may run.
    pub const fn usable(&self) -> Option<&Arc<str>> {
        match self {
            Self::Whole(text) | Self::Repaired { text, .. } => Some(text),
            Self::Cut { .. } | Self::Malformed { .. } => None,
        }
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants tools to run.
    ToolCalls,
    /// The output limit was reached.
    Length,
    /// The provider held content back.
    ContentFilter,
    /// Another word of the provider.
    Other(Arc<str>),
}

impl Finish {
    /// The class of a provider's word.
    pub fn from_word(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "stop" | "end_turn" | "eos" | "eos_token" | "stop_sequence" | "completed" => Self::Stop,
            "tool_calls" | "tool_call" | "tool_use" | "function_call" => Self::ToolCalls,
            "length" | "max_tokens" | "max_output_tokens" | "model_length" => Self::Length,
            "content_filter" | "safety" | "sensitive" | "prohibited_content" => Self::ContentFilter,
            _ => Self::Other(word.into()),
        }
    }
}
