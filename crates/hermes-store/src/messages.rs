//! A row as `messages` shows it, worked out from the record: for exports, and to hold the view in
//! the database against.

use hermes_core::{Part, PartBody, Role, Row, RowStatus, Standing};
use serde::Serialize;

use crate::flags::Flags;

/// Marks a content that is JSON.
pub(crate) const STRUCTURED: &str = "\0json:";

/// What a message says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Pieces(Vec<ContentPiece>),
}

/// A piece of structured content.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ContentPiece {
    Text { text: String },
    ImageUrl { image_url: Url, media_type: String, bytes: u64 },
}

/// Where an image is: `blob:sha256:` and its digest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Url {
    pub(crate) url: String,
}

/// A tool call in the shape of the chat-completions wire.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) r#type: &'static str,
    pub(crate) function: Function,
}

/// The called function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// One row of `messages`, decoded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Message {
    pub(crate) id: i64,
    pub(crate) session_id: String,
    pub(crate) role: &'static str,
    pub(crate) content: Option<Content>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) tool_calls: Option<Vec<Call>>,
    pub(crate) tool_name: Option<String>,
    pub(crate) effect_disposition: Option<&'static str>,
    pub(crate) timestamp: f64,
    pub(crate) token_count: Option<u64>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) reasoning_content: Option<String>,
    pub(crate) reasoning_details: Option<String>,
    pub(crate) codex_reasoning_items: Option<String>,
    pub(crate) codex_message_items: Option<String>,
    pub(crate) platform_message_id: Option<String>,
    pub(crate) observed: u8,
    #[serde(rename = "_compressed_summary", skip_serializing_if = "is_zero")]
    pub(crate) compressed_summary: u8,
    pub(crate) active: u8,
    pub(crate) compacted: u8,
    pub(crate) api_content: Option<String>,
    pub(crate) display_kind: Option<String>,
    pub(crate) display_metadata: Option<String>,
    #[serde(rename = "message_uid")]
    pub(crate) uid: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde wants")]
const fn is_zero(value: &u8) -> bool {
    *value == 0
}

/// The message of a row.
pub(crate) fn message_of(session: &str, id: i64, row: &Row, flags: Flags) -> Message {
    let parts: Vec<&Part> =
        row.parts.iter().filter(|part| part.standing == Standing::InOrder).collect();
    let calls: Vec<Call> = parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::ToolCall { id, name, arguments } => Some(Call {
                id: id.to_string(),
                r#type: "function",
                function: Function { name: name.to_string(), arguments: arguments.to_string() },
            }),
            _ => None,
        })
        .collect();
    let raw = |wanted: &str| {
        parts.iter().find_map(|part| match &part.body {
            PartBody::Raw { field, json } if &**field == wanted => Some(json.to_string()),
            _ => None,
        })
    };
    let reasoning = |only: Option<&str>| {
        join(parts.iter().filter_map(|part| match &part.body {
            PartBody::Reasoning { field, text } if only.is_none_or(|name| name == &**field) => {
                Some(&**text)
            }
            _ => None,
        }))
    };
    Message {
        id,
        session_id: session.to_owned(),
        role: row.role.as_str(),
        content: content_of(row.role, &parts),
        tool_call_id: row.tool.as_ref().map(|tool| tool.call_id.to_string()),
        tool_calls: (!calls.is_empty()).then_some(calls),
        tool_name: row.tool.as_ref().map(|tool| tool.name.to_string()),
        effect_disposition: (row.role == Role::Tool && row.status == RowStatus::Interrupted)
            .then_some("unknown"),
        timestamp: row.created_at.as_seconds_f64(),
        token_count: None,
        finish_reason: row.finish_reason.as_deref().map(str::to_owned),
        reasoning: reasoning(None),
        reasoning_content: reasoning(Some(hermes_core::REASONING_CONTENT)),
        reasoning_details: raw("reasoning_details"),
        codex_reasoning_items: raw("codex_reasoning_items"),
        codex_message_items: raw("codex_message_items"),
        platform_message_id: None,
        observed: 0,
        compressed_summary: u8::from(row.standing == Standing::ByOp),
        active: u8::from(flags.active),
        compacted: u8::from(flags.compacted),
        api_content: api_content_of(row.role, &parts),
        display_kind: None,
        display_metadata: None,
        uid: format!("{session}:{}", row.seq),
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    texts.fold(None, |joined: Option<String>, text| {
        Some(match joined {
            None => text.to_owned(),
            Some(before) => format!("{before}\n\n{text}"),
        })
    })
}

fn content_of(role: Role, parts: &[&Part]) -> Option<Content> {
    let said = || parts.iter().filter(|part| part.origin.is_said(role));
    if !said().any(|part| matches!(part.body, PartBody::Blob { .. })) {
        return join(said().filter_map(|part| part.as_text())).map(Content::Text);
    }
    let pieces = said().filter_map(|part| match &part.body {
        PartBody::Text { text } => Some(ContentPiece::Text { text: text.to_string() }),
        PartBody::Blob { digest, media_type, bytes } => Some(ContentPiece::ImageUrl {
            image_url: Url { url: format!("blob:sha256:{digest}") },
            media_type: media_type.to_string(),
            bytes: *bytes,
        }),
        _ => None,
    });
    Some(Content::Pieces(pieces.collect()))
}

fn api_content_of(role: Role, parts: &[&Part]) -> Option<String> {
    let texts = || parts.iter().filter(|part| part.as_text().is_some());
    texts()
        .any(|part| !part.origin.is_said(role))
        .then(|| join(texts().filter_map(|part| part.as_text())))
        .flatten()
}

impl Message {
    /// `content` as the column holds it.
    pub(crate) fn content_column(&self) -> Option<String> {
        let json = |content: &Content| {
            format!("{STRUCTURED}{}", serde_json::to_string(content).unwrap_or_default())
        };
        self.content.as_ref().map(|content| match content {
            Content::Text(text) if !text.starts_with(STRUCTURED) => text.clone(),
            other => json(other),
        })
    }
}
