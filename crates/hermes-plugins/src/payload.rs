//! What a hook is told: named fields, long lists by reference, and the call it belongs to.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The value of the field that tells which form of payload this is.
pub const TELEMETRY_SCHEMA: &str = "hermes.observer.v1";

/// The conversation that a call belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallContext {
    /// The session.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_id: String,
    /// The key of its conversation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_key: String,
    /// `cli`, a chat platform, ...
    #[serde(skip_serializing_if = "String::is_empty")]
    pub platform: String,
    /// The chat.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub chat_id: String,
    /// The thread in it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thread_id: String,
    /// Who speaks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_id: String,
    /// Their name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_name: String,
    /// How many plugin calls this one is inside of.
    #[serde(skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The plugin whose call this one is inside of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plugin: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A field's value.
#[derive(Clone, Debug)]
pub enum Field {
    /// JSON text.
    Json(Arc<str>),
    /// A long list that grows from call to call: sent whole once, then by its differences.
    List {
        /// Which list it is; the same for the same conversation.
        key: Arc<str>,
        /// Its items, each JSON text.
        items: Arc<[Arc<str>]>,
    },
    /// A long text that stays the same for many calls: sent once.
    Text {
        /// The text.
        text: Arc<str>,
    },
}

/// A hook's payload.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    fields: Vec<(&'static str, Field)>,
    /// The call it belongs to.
    pub call: CallContext,
}

impl Payload {
    /// A payload of a call.
    pub fn new(call: CallContext) -> Self {
        Self { fields: Vec::new(), call }
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, name: &'static str, value: &str) -> Self {
        let json = serde_json::Value::from(value).to_string();
        self.json(name, &json)
    }

    /// Adds a text, or null.
    #[must_use]
    pub fn maybe(self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.json(name, "null"),
        }
    }

    /// Adds anything that can be written as JSON.
    #[must_use]
    pub fn value(self, name: &'static str, value: impl Serialize) -> Self {
        match serde_json::to_string(&value) {
            Ok(json) => self.json(name, &json),
            Err(error) => {
                tracing::warn!(name, %error, "a hook's field cannot be written as JSON");
                self.json(name, "null")
            }
        }
    }

    /// Adds JSON text as it stands. What is no JSON is sent as a text.
    #[must_use]
    pub fn json(mut self, name: &'static str, json: &str) -> Self {
        let json: Arc<str> = if serde_json::from_str::<&RawValue>(json).is_ok() {
            Arc::from(json)
        } else {
            Arc::from(serde_json::Value::from(json).to_string())
        };
        self.put(name, Field::Json(json));
        self
    }

    /// Adds a long list, kept by plugin processes between calls under `key`.
    #[must_use]
    pub fn list(mut self, name: &'static str, key: &str, items: Arc<[Arc<str>]>) -> Self {
        self.put(name, Field::List { key: Arc::from(key), items });
        self
    }

    /// Adds a long text, sent once to each process.
    #[must_use]
    pub fn long_text(mut self, name: &'static str, text: &Arc<str>) -> Self {
        if text.len() < 4096 {
            return self.text(name, text);
        }
        self.put(name, Field::Text { text: Arc::clone(text) });
        self
    }

    fn put(&mut self, name: &'static str, field: Field) {
        self.fields.retain(|(known, _)| *known != name);
        self.fields.push((name, field));
    }

    /// Whether a field is there.
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| *known == name)
    }

    /// Its fields, in order.
    pub fn fields(&self) -> &[(&'static str, Field)] {
        &self.fields
    }

    /// A field that is JSON text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|(known, field)| match field {
            Field::Json(json) if *known == name => Some(&**json),
            _ => None,
        })
    }

    /// A field that is a JSON string.
    pub(crate) fn get_text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// What tells two calls of the same callback apart: the tool call, else the turn.
    pub(crate) fn identity(&self) -> String {
        self.get_text("tool_call_id")
            .filter(|id| !id.is_empty())
            .or_else(|| self.get_text("turn_id"))
            .unwrap_or_default()
    }

    /// The whole payload as one JSON object, lists and texts written out.
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (index, (name, field)) in self.fields.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            // Names are identifiers.
            let _ = write!(out, "\"{name}\":");
            match field {
                Field::Json(json) => out.push_str(json),
                Field::Text { text } => out.push_str(&serde_json::Value::from(&**text).to_string()),
                Field::List { items, .. } => join(&mut out, items),
            }
        }
        out.push('}');
        out
    }

    /// The same payload with every field passed through `change`.
    pub(crate) fn map(&self, mut change: impl FnMut(&str, &Field) -> Field) -> Self {
        let fields = self.fields.iter().map(|(name, field)| (*name, change(name, field))).collect();
        Self { fields, call: self.call.clone() }
    }

    /// Roughly how many bytes it holds.
    pub(crate) fn size(&self) -> usize {
        let sizes = self.fields.iter().map(|(_, field)| match field {
            Field::Json(json) => json.len(),
            Field::Text { text } => text.len(),
            Field::List { items, .. } => items.iter().map(|item| item.len()).sum(),
        });
        sizes.sum()
    }
}

/// A JSON array of JSON texts.
pub(crate) fn join(out: &mut String, items: &[Arc<str>]) {
    out.reserve(items.iter().map(|item| item.len() + 1).sum::<usize>() + 2);
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(item);
    }
    out.push(']');
}
