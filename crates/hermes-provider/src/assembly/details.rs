//! `reasoning_details`: structured reasoning that routers stream in fragments and want back whole.
//!
//! Fragments of one item have the same `type` and `index` (where given) and follow each other;
//! their texts are joined, other fields are taken from the fragment that has them. Values that
//! are not joined keep their raw text.

use crate::json::{Kind, Value, write_string};

/// Fields whose fragments are joined.
const JOINED: [&str; 3] = ["text", "summary", "data"];

#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    items: Vec<Vec<(String, Field)>>,
}

#[derive(Clone, Debug)]
enum Field {
    Text(String),
    Json(String),
}

impl Details {
    /// Adds a fragment; the text in it, for the person, if it has any.
    pub(super) fn push<'v>(&mut self, detail: &'v Value<'v>) -> Option<&'v Value<'v>> {
        if !detail.is_object() {
            return None;
        }
        let same = |key: &str, item: &[(String, Field)]| {
            let old = item.iter().find(|(name, _)| name == key).map(|(_, field)| field);
            match (old, detail.get(key)) {
                (Some(Field::Json(old)), Some(new)) => *old == new.to_strict(),
                // A later fragment need not say it again.
                (_, None) => true,
                _ => false,
            }
        };
        let continues = self
            .items
            .last()
            .is_some_and(|item| same("type", item) && same("index", item) && same("id", item));
        if !continues {
            self.items.push(Vec::new());
        }
        let item = self.items.last_mut()?;
        for (name, value) in detail.fields() {
            let old = item.iter_mut().find(|(known, _)| known == name).map(|(_, field)| field);
            let text = match &value.kind {
                Kind::String(text) if JOINED.contains(&&**name) => Some(&**text),
                _ => None,
            };
            match (old, text) {
                (Some(Field::Text(old)), Some(text)) => old.push_str(text),
                (Some(_), None) if value.is_null() => {}
                (Some(old), Some(text)) => *old = Field::Text(text.to_owned()),
                (Some(old), None) => *old = Field::Json(value.to_strict()),
                (None, Some(text)) => item.push((name.to_string(), Field::Text(text.to_owned()))),
                (None, None) => item.push((name.to_string(), Field::Json(value.to_strict()))),
            }
        }
        ["text", "summary"]
            .iter()
            .find_map(|key| detail.get(key))
            .filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
    }

    /// The items as a JSON array, if there are any.
    pub(super) fn json(&self) -> Option<String> {
        if self.items.is_empty() {
            return None;
        }
        let mut out = String::from("[");
        for (index, item) in self.items.iter().enumerate() {
            out.push_str(if index > 0 { ",{" } else { "{" });
            for (index, (name, field)) in item.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(&mut out, name);
                out.push(':');
                match field {
                    Field::Text(text) => write_string(&mut out, text),
                    Field::Json(json) => out.push_str(json),
                }
            }
            out.push('}');
        }
        out.push(']');
        Some(out)
    }
}
