//! Wire profiles: everything about an endpoint that decides the bytes of a request, as data.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The protocol spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiMode {
    /// `POST {base_url}/chat/completions`.
    #[default]
    ChatCompletions,
}

impl ApiMode {
    /// The word in configuration and ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
        }
    }
}

/// Whether reasoning text goes back to the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningReplay {
    /// Never sent.
    #[default]
    Omit,
    /// Sent on every assistant message with tool calls, empty where none is stored
    /// (hermes-agent issue 15717).
    Require,
}

/// What decides the bytes of a request beside its content. Content-addressed: two requests with
/// the same digest were encoded by the same rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WireProfile {
    /// The protocol.
    pub api_mode: ApiMode,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// Whether `stream_options.include_usage` is sent.
    pub stream_usage: bool,
    /// The role of the prompt: `system` or `developer`.
    pub system_role: String,
    /// Whether reasoning is sent back.
    pub reasoning: ReasoningReplay,
    /// Whether two user messages in a row are kept apart by a filler from the assistant.
    pub alternate: bool,
    /// Whether images are sent; if not, a note stands in their place.
    pub images: bool,
    /// Whether the tool definitions are sent.
    pub tools: bool,
}

impl Default for WireProfile {
    fn default() -> Self {
        Self {
            api_mode: ApiMode::ChatCompletions,
            stream: true,
            stream_usage: true,
            system_role: "system".to_owned(),
            reasoning: ReasoningReplay::Omit,
            alternate: true,
            images: true,
            tools: true,
        }
    }
}

impl WireProfile {
    /// The canonical JSON text: fields in declaration order.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Digest of [`WireProfile::json`].
    pub fn digest(&self) -> Digest {
        Digest::of(self.json())
    }
}
