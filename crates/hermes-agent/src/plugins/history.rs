//! The conversation as plugins know it: messages of the chat completions API with the clean text of
//! each, without what this program puts around it for the model.
//!
//! An item is made once for each state of a row, so that a long history costs one look at each row
//! a turn.

use std::collections::HashMap;
use std::sync::Arc;

use hermes_core::{Origin, Part, PartBody, Role, Row, Seq, View};
use serde_json::{Map, Value, json};

/// Items made so far, by row, with the number of parts that the row had.
#[derive(Default)]
pub(super) struct History(HashMap<Seq, (usize, Arc<str>)>);

impl History {
    /// The items of a view, in its order.
    pub(super) fn items(&mut self, view: &View) -> Arc<[Arc<str>]> {
        let mut kept = HashMap::with_capacity(view.rows.len());
        let items = view
            .rows
            .iter()
            .map(|shown| {
                let row = &shown.row;
                let known = self.0.remove(&row.seq).filter(|(parts, _)| *parts == row.parts.len());
                let item = known.map_or_else(|| item(row).to_string().into(), |(_, item)| item);
                kept.insert(row.seq, (row.parts.len(), Arc::clone(&item)));
                item
            })
            .collect();
        self.0 = kept;
        items
    }
}

/// What the person said: the text, or a list of parts if there are images.
pub(super) fn content(row: &Row) -> Value {
    let text = texts(row);
    let images: Vec<Value> = row
        .parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::Blob { media_type, bytes, .. } => Some(json!({
                "type": "image_url",
                "image_url": {"url": format!("data:{media_type};bytes={bytes}")},
            })),
            _ => None,
        })
        .collect();
    if images.is_empty() {
        return text.into();
    }
    let mut parts = vec![json!({"type": "text", "text": text})];
    parts.extend(images);
    parts.into()
}

fn item(row: &Row) -> Value {
    let mut out = Map::new();
    out.insert("role".to_owned(), row.role.as_str().into());
    out.insert("content".to_owned(), content(row));
    for part in &row.parts {
        match &part.body {
            PartBody::Reasoning { field, text } => {
                out.insert(field.to_string(), (&**text).into());
            }
            PartBody::Raw { field, json } => {
                let value = serde_json::from_str(json).unwrap_or_else(|_| Value::from(&**json));
                out.insert(field.to_string(), value);
            }
            PartBody::Text { .. } | PartBody::ToolCall { .. } | PartBody::Blob { .. } => {}
        }
    }
    let calls: Vec<Value> = row
        .tool_calls()
        .map(|(id, name, arguments)| {
            json!({
                "id": &**id,
                "type": "function",
                "function": {"name": &**name, "arguments": &**arguments},
            })
        })
        .collect();
    if !calls.is_empty() {
        out.insert("tool_calls".to_owned(), calls.into());
    }
    if let (Role::Tool, Some(link)) = (row.role, &row.tool) {
        out.insert("tool_call_id".to_owned(), (&*link.call_id).into());
        out.insert("name".to_owned(), (&*link.name).into());
    }
    Value::Object(out)
}

/// The texts of a row that are somebody's words: not what plugins or this program added. In an
/// answer's place a plugin's text is the answer.
fn texts(row: &Row) -> String {
    let answer = row.role == Role::Assistant;
    let added = |part: &&Part| match part.origin {
        Origin::Hook => answer,
        Origin::Notice => false,
        _ => true,
    };
    let texts: Vec<&str> = row.parts.iter().filter(added).filter_map(Part::as_text).collect();
    texts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_core::{RowStatus, Standing, Timestamp, ToolLink, TurnNo, ViewRow, slot};

    fn part(seq: u64, origin: Origin, body: PartBody) -> Part {
        Part {
            seq: Seq(seq),
            row: Seq(1),
            slot: slot::BODY,
            origin,
            standing: Standing::InOrder,
            created_at: Timestamp(0),
            label: None,
            body,
        }
    }

    fn row(role: Role, parts: Vec<Part>) -> Row {
        Row {
            seq: Seq(1),
            turn: TurnNo(1),
            role,
            standing: Standing::InOrder,
            status: RowStatus::Complete,
            created_at: Timestamp(0),
            tool: None,
            finish_reason: None,
            parts,
        }
    }

    #[test]
    fn a_message_holds_words_and_calls_and_not_what_plugins_added() {
        let said = row(
            Role::User,
            vec![
                part(1, Origin::User, PartBody::text("hi")),
                part(2, Origin::Hook, PartBody::text("added")),
            ],
        );
        assert_eq!(item(&said).to_string(), r#"{"content":"hi","role":"user"}"#);
        let call = PartBody::ToolCall { id: "c".into(), name: "t".into(), arguments: "{}".into() };
        let asks = row(Role::Assistant, vec![part(1, Origin::Model, call)]);
        assert_eq!(item(&asks)["tool_calls"][0]["function"]["arguments"], "{}");
        let link = ToolLink { call_id: "c".into(), name: "t".into() };
        let result = row(Role::Tool, vec![part(1, Origin::Tool, PartBody::text("r"))]);
        let result = Row { tool: Some(link), ..result };
        assert_eq!(item(&result)["tool_call_id"], "c");
    }

    #[test]
    fn an_item_is_made_again_only_when_its_row_has_changed() {
        let mut history = History::default();
        let said = row(Role::User, vec![part(1, Origin::User, PartBody::text("hi"))]);
        let mut view = View { rows: vec![ViewRow { position: Seq(1), row: said }] };
        let first = history.items(&view);
        assert!(Arc::ptr_eq(&first[0], &history.items(&view)[0]));
        view.rows[0].row.parts.push(part(2, Origin::Steer, PartBody::text("go on")));
        assert_eq!(&*history.items(&view)[0], r#"{"content":"hi\n\ngo on","role":"user"}"#);
    }
}
