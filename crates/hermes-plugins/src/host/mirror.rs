//! What a process already holds of long lists and texts, so that only differences travel.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::payload::{CallContext, Field, Payload, join, redact_json};

/// Lists kept in a process at once; the one used longest ago goes first.
const MOST_LISTS: usize = 16;
/// Texts kept in a process at once.
const MOST_TEXTS: usize = 32;

/// One process's holdings. Must be asked in the order in which frames are sent.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    lists: HashMap<String, Vec<Arc<str>>>,
    texts: HashMap<Arc<str>, u64>,
    used: VecDeque<String>,
    used_texts: VecDeque<Arc<str>>,
    next_text: u64,
}

/// Changes strings on their way to observers.
pub(crate) type Redact<'a> = &'a dyn Fn(&str) -> String;

impl Mirror {
    /// The payload as JSON, long values replaced by references, and the changes to send with it.
    pub(crate) fn encode(
        &mut self,
        payload: &Payload,
        redact: Option<Redact<'_>>,
    ) -> (String, String) {
        let mut body = String::from("{");
        let mut changes: Vec<String> = Vec::new();
        for (index, (name, field)) in payload.fields().iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            let _ = write!(body, "\"{name}\":");
            match field {
                Field::Json(json) => body.push_str(json),
                Field::Text { text } => {
                    let key = self.text(text, &mut changes);
                    let _ = write!(body, "{{\"$text\":\"{key}\"}}");
                }
                Field::List { key, items } => {
                    // What observers get is another list than what directives get.
                    let key = format!("{}{key}", if redact.is_some() { "o:" } else { "" });
                    self.list(&key, items, redact, &mut changes);
                    let _ = write!(body, "{{\"$list\":{}}}", serde_json::Value::from(key));
                }
            }
        }
        body.push('}');
        (body, format!("[{}]", changes.join(",")))
    }

    fn list(
        &mut self,
        key: &str,
        items: &Arc<[Arc<str>]>,
        redact: Option<Redact<'_>>,
        changes: &mut Vec<String>,
    ) {
        self.used.retain(|known| known != key);
        self.used.push_back(key.to_owned());
        let held = self.lists.entry(key.to_owned()).or_default();
        let keep = held
            .iter()
            .zip(items.iter())
            .take_while(|(old, new)| Arc::ptr_eq(old, new) || old == new)
            .count();
        if keep < held.len() || keep < items.len() {
            let mut change =
                format!("{{\"key\":{},\"keep\":{keep},\"add\":", serde_json::Value::from(key));
            match redact {
                None => join(&mut change, &items[keep..]),
                Some(redact) => {
                    let clean: Vec<Arc<str>> = items[keep..]
                        .iter()
                        .map(|item| Arc::from(redact_json(item, redact)))
                        .collect();
                    join(&mut change, &clean);
                }
            }
            change.push('}');
            changes.push(change);
            held.truncate(keep);
            held.extend(items[keep..].iter().cloned());
        }
        while self.used.len() > MOST_LISTS {
            if let Some(old) = self.used.pop_front() {
                self.lists.remove(&old);
                changes.push(format!("{{\"key\":{},\"drop\":true}}", serde_json::Value::from(old)));
            }
        }
    }

    fn text(&mut self, text: &Arc<str>, changes: &mut Vec<String>) -> String {
        if let Some(number) = self.texts.get(text) {
            return format!("t{number}");
        }
        self.next_text += 1;
        let key = format!("t{}", self.next_text);
        self.texts.insert(Arc::clone(text), self.next_text);
        self.used_texts.push_back(Arc::clone(text));
        changes
            .push(format!("{{\"key\":\"{key}\",\"text\":{}}}", serde_json::Value::from(&**text)));
        if self.used_texts.len() > MOST_TEXTS
            && let Some(old) = self.used_texts.pop_front()
            && let Some(number) = self.texts.remove(&old)
        {
            changes.push(format!("{{\"key\":\"t{number}\",\"drop\":true}}"));
        }
        key
    }
}

/// The `call` object of a frame.
pub(crate) fn call_json(call: &CallContext, hook: &str) -> String {
    let mut value = serde_json::to_value(call).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("hook".to_owned(), hook.into());
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(texts: &[&str]) -> Arc<[Arc<str>]> {
        texts.iter().map(|text| Arc::from(format!("\"{text}\""))).collect()
    }

    fn sent(mirror: &mut Mirror, key: &str, texts: &[&str]) -> String {
        let payload = Payload::default().list("history", key, items(texts));
        mirror.encode(&payload, None).1
    }

    #[test]
    fn a_list_is_sent_once_and_then_by_its_differences() {
        let mut mirror = Mirror::default();
        assert_eq!(
            sent(&mut mirror, "s", &["a", "b"]),
            r#"[{"key":"s","keep":0,"add":["a","b"]}]"#
        );
        assert_eq!(sent(&mut mirror, "s", &["a", "b"]), "[]");
        assert_eq!(
            sent(&mut mirror, "s", &["a", "b", "c"]),
            r#"[{"key":"s","keep":2,"add":["c"]}]"#
        );
        assert_eq!(sent(&mut mirror, "s", &["x"]), r#"[{"key":"s","keep":0,"add":["x"]}]"#);
        assert_eq!(sent(&mut mirror, "s", &[]), r#"[{"key":"s","keep":0,"add":[]}]"#);
    }

    #[test]
    fn lists_have_a_bound_and_the_oldest_goes_first() {
        let mut mirror = Mirror::default();
        for number in 0..MOST_LISTS {
            sent(&mut mirror, &number.to_string(), &["a"]);
        }
        assert!(sent(&mut mirror, "new", &["a"]).contains(r#"{"key":"0","drop":true}"#));
        assert_eq!(mirror.lists.len(), MOST_LISTS);
    }

    #[test]
    fn what_observers_get_is_redacted_and_kept_apart() {
        let mut mirror = Mirror::default();
        let payload = Payload::default().list("history", "s", items(&["token"]));
        let redact = |text: &str| text.replace("token", "***");
        assert!(mirror.encode(&payload, Some(&redact)).1.contains("***"));
        assert!(mirror.encode(&payload, None).1.contains("token"));
    }
}
