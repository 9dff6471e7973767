//! The conversation in the form in which plugins know it: messages of the chat completions API.

use std::sync::Arc;

use hermes_core::{Message, Piece, Role};
use serde_json::{Map, Value, json};

/// Messages as JSON texts, for [`crate::Payload::list`]. Images are named by their type and size:
/// plugins get no megabytes that they did not ask for.
pub fn history_items(messages: &[Message]) -> Arc<[Arc<str>]> {
    messages.iter().map(|message| Arc::from(item(message).to_string())).collect()
}

fn item(message: &Message) -> Value {
    let mut out = Map::new();
    out.insert("role".to_owned(), message.role.as_str().into());
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut images = Vec::new();
    for piece in &message.pieces {
        match piece {
            Piece::Text { text: more, .. } => text.push_str(more),
            Piece::Image { media_type, data, .. } => images.push(json!({
                "type": "image_url",
                "image_url": {"url": format!("data:{media_type};bytes={}", data.len())},
            })),
            Piece::Reasoning { field, text, .. } => {
                out.insert(field.to_string(), (&**text).into());
            }
            Piece::Raw { field, json, .. } => {
                let value = serde_json::from_str(json).unwrap_or_else(|_| Value::from(&**json));
                out.insert(field.to_string(), value);
            }
            Piece::ToolCall { id, name, arguments, .. } => calls.push(json!({
                "id": &**id,
                "type": "function",
                "function": {"name": &**name, "arguments": &**arguments},
            })),
        }
    }
    let content = if images.is_empty() {
        Value::from(text)
    } else {
        images.insert(0, json!({"type": "text", "text": text}));
        images.into()
    };
    out.insert("content".to_owned(), content);
    if !calls.is_empty() {
        out.insert("tool_calls".to_owned(), calls.into());
    }
    if let (Role::Tool, Some(id)) = (message.role, &message.tool_call_id) {
        out.insert("tool_call_id".to_owned(), (&**id).into());
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_core::Provenance;

    #[test]
    fn messages_have_the_shape_that_plugins_know() {
        let from = Provenance::Filler("test");
        let text = |text: &str| Piece::Text { text: Arc::from(text), from: from.clone() };
        let call = Piece::ToolCall {
            id: Arc::from("c1"),
            name: Arc::from("t"),
            arguments: Arc::from("{}"),
            from: from.clone(),
        };
        let message = |role, id: Option<&str>, pieces| Message {
            role,
            tool_call_id: id.map(Arc::from),
            pieces,
        };
        let items = history_items(&[
            message(Role::User, None, vec![text("a"), text("b")]),
            message(Role::Assistant, None, vec![text(""), call]),
            message(Role::Tool, Some("c1"), vec![text("r")]),
        ]);
        assert_eq!(&*items[0], r#"{"content":"ab","role":"user"}"#);
        assert!(items[1].contains(r#""function":{"arguments":"{}","name":"t"}"#));
        assert_eq!(&*items[2], r#"{"content":"r","role":"tool","tool_call_id":"c1"}"#);
    }
}
