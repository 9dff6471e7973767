//! What a process already holds of long lists and texts, so that only differences travel.
//!
//! A row goes over once, under a number; lists are lists of numbers. So the history, and the request
//! that is made of it, cost what is new in them.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::clean::same;
use crate::payload::{CallContext, Field, Payload};

/// Lists kept in a process at once; the one used longest ago goes first.
const MOST_LISTS: usize = 16;
/// Texts kept in a process at once.
const MOST_TEXTS: usize = 32;

/// A row by its text and by how many equal ones stand before it in its list: equal rows are two
/// objects in the process, as they are two messages.
type Place = (Arc<str>, u32);

#[derive(Debug, Default)]
struct List {
    rows: Vec<Arc<str>>,
    equal: HashMap<Arc<str>, u32>,
}

/// One process's holdings. Must be asked in the order in which frames are sent.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    lists: HashMap<String, List>,
    /// A row's number, and how many lists hold it.
    rows: HashMap<Place, (u64, u32)>,
    next_row: u64,
    texts: HashMap<Arc<str>, u64>,
    used: VecDeque<String>,
    used_texts: VecDeque<Arc<str>>,
    next_text: u64,
}

/// The changes that go with a frame: a JSON array that is being written.
struct Changes(String);

impl Changes {
    fn next(&mut self) -> &mut String {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        &mut self.0
    }
}

impl Mirror {
    /// The payload as JSON, long values replaced by references, and the changes to send with it.
    pub(crate) fn encode(&mut self, payload: &Payload) -> (String, String) {
        let mut body = String::from("{");
        let mut changes = Changes(String::from("["));
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
                    self.list(key, items, &mut changes);
                    let _ = write!(body, "{{\"$list\":{}}}", serde_json::Value::from(&**key));
                }
            }
        }
        body.push('}');
        changes.0.push(']');
        (body, changes.0)
    }

    fn list(&mut self, key: &str, items: &[Arc<str>], changes: &mut Changes) {
        self.used.retain(|known| known != key);
        self.used.push_back(key.to_owned());
        let mut held = self.lists.remove(key).unwrap_or_default();
        let keep = same(&held.rows, items);
        if keep < held.rows.len() || keep < items.len() {
            let gone = held.rows.split_off(keep);
            let gone: Vec<Place> = gone.into_iter().rev().map(|row| held.take(row)).collect();
            let numbers = self.take_rows(&mut held, &items[keep..], changes);
            let change = changes.next();
            let _ = write!(
                change,
                "{{\"key\":{},\"keep\":{keep},\"rows\":{numbers:?}}}",
                serde_json::Value::from(key)
            );
            self.forget(gone, changes);
        }
        self.lists.insert(key.to_owned(), held);
        while self.used.len() > MOST_LISTS {
            let Some(old) = self.used.pop_front() else { break };
            let Some(mut list) = self.lists.remove(&old) else { continue };
            let change = changes.next();
            let _ = write!(change, "{{\"key\":{},\"drop\":true}}", serde_json::Value::from(old));
            let rows = std::mem::take(&mut list.rows);
            let gone = rows.into_iter().rev().map(|row| list.take(row)).collect();
            self.forget(gone, changes);
        }
    }

    /// Puts rows behind those of a list and gives their numbers; what is new is sent.
    fn take_rows(
        &mut self,
        list: &mut List,
        items: &[Arc<str>],
        changes: &mut Changes,
    ) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(items.len());
        let mut new: Vec<&Arc<str>> = Vec::new();
        let first = self.next_row;
        for item in items {
            let row = self.rows.entry(list.put(item)).or_insert_with(|| {
                self.next_row += 1;
                new.push(item);
                (self.next_row - 1, 0)
            });
            row.1 += 1;
            numbers.push(row.0);
        }
        if !new.is_empty() {
            let change = changes.next();
            change.reserve(new.iter().map(|row| row.len() + 1).sum::<usize>() + 32);
            let _ = write!(change, "{{\"from\":{first},\"new\":[");
            for (index, row) in new.into_iter().enumerate() {
                if index > 0 {
                    change.push(',');
                }
                change.push_str(row);
            }
            change.push_str("]}");
        }
        numbers
    }

    /// Rows have left a list; those that no list holds any more leave the process.
    fn forget(&mut self, gone: Vec<Place>, changes: &mut Changes) {
        let mut numbers = Vec::new();
        for place in gone {
            let Some(row) = self.rows.get_mut(&place) else { continue };
            row.1 -= 1;
            if row.1 == 0 {
                numbers.push(row.0);
                self.rows.remove(&place);
            }
        }
        if !numbers.is_empty() {
            let _ = write!(changes.next(), "{{\"forget\":{numbers:?}}}");
        }
    }

    fn text(&mut self, text: &Arc<str>, changes: &mut Changes) -> String {
        if let Some(number) = self.texts.get(text) {
            return format!("t{number}");
        }
        self.next_text += 1;
        let key = format!("t{}", self.next_text);
        self.texts.insert(Arc::clone(text), self.next_text);
        self.used_texts.push_back(Arc::clone(text));
        let quoted = serde_json::Value::from(&**text);
        let _ = write!(changes.next(), "{{\"key\":\"{key}\",\"text\":{quoted}}}");
        if self.used_texts.len() > MOST_TEXTS
            && let Some(old) = self.used_texts.pop_front()
            && let Some(number) = self.texts.remove(&old)
        {
            let _ = write!(changes.next(), "{{\"key\":\"t{number}\",\"drop\":true}}");
        }
        key
    }
}

impl List {
    /// Puts a row at the end.
    fn put(&mut self, row: &Arc<str>) -> Place {
        self.rows.push(Arc::clone(row));
        let equal = self.equal.entry(Arc::clone(row)).or_default();
        *equal += 1;
        (Arc::clone(row), *equal - 1)
    }

    /// Counts a row out that was the last of its text.
    fn take(&mut self, row: Arc<str>) -> Place {
        let mut before = 0;
        if let Some(equal) = self.equal.get_mut(&row) {
            *equal -= 1;
            before = *equal;
            if before == 0 {
                self.equal.remove(&row);
            }
        }
        (row, before)
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
        mirror.encode(&payload).1
    }

    #[test]
    fn a_list_is_sent_once_and_then_by_its_differences() {
        let mut mirror = Mirror::default();
        assert_eq!(
            sent(&mut mirror, "s", &["a", "b"]),
            r#"[{"from":0,"new":["a","b"]},{"key":"s","keep":0,"rows":[0, 1]}]"#
        );
        assert_eq!(sent(&mut mirror, "s", &["a", "b"]), "[]");
        assert_eq!(
            sent(&mut mirror, "s", &["a", "b", "c"]),
            r#"[{"from":2,"new":["c"]},{"key":"s","keep":2,"rows":[2]}]"#
        );
        assert_eq!(
            sent(&mut mirror, "s", &["x"]),
            r#"[{"from":3,"new":["x"]},{"key":"s","keep":0,"rows":[3]},{"forget":[2, 1, 0]}]"#
        );
        assert_eq!(
            sent(&mut mirror, "s", &[]),
            r#"[{"key":"s","keep":0,"rows":[]},{"forget":[3]}]"#
        );
        assert!(mirror.rows.is_empty());
    }

    #[test]
    fn a_row_goes_over_once_for_all_lists_and_equal_rows_stay_two() {
        let mut mirror = Mirror::default();
        sent(&mut mirror, "history", &["a", "b", "a"]);
        assert_eq!(
            sent(&mut mirror, "request", &["p", "a", "b", "a"]),
            r#"[{"from":3,"new":["p"]},{"key":"request","keep":0,"rows":[3, 0, 1, 2]}]"#
        );
        // Still in the other list: not forgotten.
        assert_eq!(
            sent(&mut mirror, "history", &["a"]),
            r#"[{"key":"history","keep":1,"rows":[]}]"#
        );
        assert!(sent(&mut mirror, "request", &["p"]).ends_with(r#"{"forget":[2, 1]}]"#));
    }

    #[test]
    fn lists_have_a_bound_and_the_oldest_goes_first() {
        let mut mirror = Mirror::default();
        for number in 0..MOST_LISTS {
            sent(&mut mirror, &number.to_string(), &[&number.to_string()]);
        }
        let last = sent(&mut mirror, "new", &["a"]);
        assert!(last.ends_with(r#"{"key":"0","drop":true},{"forget":[0]}]"#), "{last}");
        assert_eq!((mirror.lists.len(), mirror.rows.len()), (MOST_LISTS, MOST_LISTS));
    }
}
