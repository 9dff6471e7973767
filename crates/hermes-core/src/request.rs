//! The ledger's words: one attempt at a provider call, before and after.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Digest, GenerationNo, RequestId, Seq, SessionId, Timestamp, TurnNo, WireProfile};

/// What a provider call is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// The conversation itself.
    Main,
    /// A job beside it, by name (`compression`, `title_generation`, a plugin's).
    Auxiliary(Arc<str>),
}

impl Task {
    /// The word in the ledger: `main`, or the auxiliary task's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Main => "main",
            Self::Auxiliary(name) => name,
        }
    }
}

/// Parameters of a call that are part of its body, as the JSON values that are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(
    /// Field name and raw JSON value, in the order they are written.
    pub Vec<(Arc<str>, Arc<str>)>,
);

/// The ledger row that is committed before the first byte leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// This attempt.
    pub id: RequestId,
    /// Whose conversation.
    pub session: SessionId,
    /// Which turn.
    pub turn: TurnNo,
    /// 1 for the first try of a call, then 2, 3, ...
    pub attempt: u32,
    /// The attempt that this one tries again.
    pub retries: Option<RequestId>,
    /// What it is for.
    pub task: Task,
    /// The wire, such as `chat_completions`.
    pub wire: Arc<str>,
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// Where it is sent, credentials removed.
    pub base_url: Arc<str>,
    /// The model asked for.
    pub model: Arc<str>,
    /// Parameters in the body.
    pub params: Params,
    /// Digest of the prompt text.
    pub prompt: Digest,
    /// Digest of the tool definitions' JSON array.
    pub tools: Digest,
    /// Digest of the encoded conversation without the system text.
    pub history: Digest,
    /// Digest of the exact bytes.
    pub body: Digest,
    /// How many bytes.
    pub body_bytes: u64,
    /// The generation it was assembled from.
    pub generation: GenerationNo,
    /// The highest seq it could see.
    pub cut: Seq,
    /// Compactions of the session so far.
    pub compactions: u32,
    /// Digest of the wire profile's JSON.
    pub wire_profile: Digest,
    /// Version of the renderer that made the messages.
    pub renderer: u32,
    /// When the row was written.
    pub started_at: Timestamp,
    /// The body itself, where it is no function of stored rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_body: Option<Vec<u8>>,
}

/// Tokens as the provider reported them. What it did not report stays unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All input tokens, cached ones included.
    pub input: Option<u64>,
    /// Output tokens, reasoning included.
    pub output: Option<u64>,
    /// Input tokens read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to the provider's cache.
    pub cache_write: Option<u64>,
    /// Output tokens spent on reasoning.
    pub reasoning: Option<u64>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// A usable reply came back.
    Ok,
    /// It failed; see the error class.
    Error,
    /// The person stopped it.
    Cancelled,
}

/// Why an attempt failed, in classes that decide what is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// No connection could be made.
    Connect,
    /// The connection broke, or the stream ended before the reply was whole.
    Disconnected,
    /// Nothing came in time.
    Timeout,
    /// 401 or 403: the credential is not accepted.
    Auth,
    /// 402, or a quota used up.
    Quota,
    /// 429.
    RateLimit,
    /// 5xx and overload.
    Server,
    /// The model or path does not exist.
    NotFound,
    /// The input does not fit the window.
    ContextOverflow,
    /// The requested output does not fit the window.
    OutputOverflow,
    /// The provider refuses the request as malformed.
    BadRequest,
    /// The provider refuses the content.
    ContentFilter,
    /// An answer that is no reply (HTML, no choices, no message, empty).
    Malformed,
    /// TLS or other set-up fault on this side.
    Local,
}

impl ErrorClass {
    /// The word in the ledger and in `--json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnected => "disconnected",
            Self::Timeout => "timeout",
            Self::Auth => "auth",
            Self::Quota => "quota",
            Self::RateLimit => "rate_limit",
            Self::Server => "server",
            Self::NotFound => "not_found",
            Self::ContextOverflow => "context_overflow",
            Self::OutputOverflow => "output_overflow",
            Self::BadRequest => "bad_request",
            Self::ContentFilter => "content_filter",
            Self::Malformed => "malformed",
            Self::Local => "local",
        }
    }

    /// Whether the same request may succeed if it is sent again a little later.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::Disconnected
                | Self::Timeout
                | Self::RateLimit
                | Self::Server
                | Self::Malformed
        )
    }
}

/// The rest of the ledger row, written when the attempt is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// Which attempt.
    pub id: RequestId,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// When the first byte of the reply came, if one did.
    pub first_byte_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Timestamp,
    /// The HTTP status, if an answer came.
    pub http_status: Option<u16>,
    /// Why it failed.
    pub error_class: Option<ErrorClass>,
    /// The error in words, secrets redacted.
    pub error: Option<Arc<str>>,
    /// Tokens as reported.
    pub usage: Usage,
    /// The model that answered, as reported.
    pub served_model: Option<Arc<str>>,
    /// Why the model stopped, in the provider's word.
    pub finish_reason: Option<Arc<str>>,
    /// The row that holds the reply.
    pub response: Option<Seq>,
}

/// The ledger cannot be written, so nothing may be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request could not be recorded, so it was not sent: {0}")]
pub struct RecordError(pub String);

/// The ledger as the provider sees it. `started` must have committed when it returns: the bytes
/// leave right after.
pub trait AttemptRecorder {
    /// Commits the row of an attempt that is about to be made, and the profile its digest names.
    ///
    /// # Errors
    /// If it cannot be made durable; the provider then sends nothing.
    fn started(&mut self, attempt: Attempt, profile: &WireProfile) -> Result<(), RecordError>;

    /// Records how a failed or cancelled attempt ended. A successful attempt's end is committed
    /// by the agent together with its response row.
    ///
    /// # Errors
    /// If it cannot be made durable.
    fn failed(&mut self, end: AttemptEnd) -> Result<(), RecordError>;
}
