//! What observers get: payloads without secrets. A row of a history is looked through once and
//! remembered, however many hooks, plugins and lists it goes into.
//!
//! Invariants: every text in a payload is looked at, at whatever depth; a value under a name that
//! says that it is a secret is masked whatever it looks like; what holds no secret is passed on as it
//! is, without a copy.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hermes_home::redact::{MASK, Redactor, is_secret_name};

use crate::payload::{Field, Payload};

/// Lists remembered at once; the one used longest ago goes first.
const MOST_LISTS: usize = 32;
/// So many new rows in a list are worth an index of the rows that are known from other lists.
const MANY: usize = 16;

type Rows = Arc<[Arc<str>]>;

/// What was looked through.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    lists: HashMap<String, (Rows, Rows)>,
    used: VecDeque<String>,
}

impl Cleaner {
    /// The payload with secrets masked.
    pub(crate) fn payload(&mut self, payload: &Payload, redactor: &Redactor) -> Payload {
        payload.map(|name, field| match field {
            Field::Json(json) => match named_or_inside(name, json, redactor) {
                Cow::Borrowed(_) => field.clone(),
                Cow::Owned(clean) => Field::Json(Arc::from(clean)),
            },
            Field::Text { text } => {
                let rows: Rows = [Arc::clone(text)].into();
                let clean = self
                    .rows(format!("text\n{name}"), &rows, &|text| changed(redactor.redact(text)));
                Field::Text { text: Arc::clone(&clean[0]) }
            }
            Field::List { key, items } => Field::List {
                // Another list than the one that directives get.
                key: Arc::from(format!("o:{key}")),
                items: self
                    .rows(key.to_string(), items, &|row| changed(redact_json(row, redactor))),
            },
        })
    }

    /// `clean` gives what a row becomes, None if it stays.
    fn rows(&mut self, key: String, items: &Rows, clean: &dyn Fn(&str) -> Option<String>) -> Rows {
        let none: Rows = Arc::default();
        let (before, known) =
            self.lists.get(&key).map_or((&none, &none), |(before, known)| (before, known));
        let keep = same(before, items);
        let rows = if keep == items.len() && keep == before.len() {
            Arc::clone(known)
        } else {
            let new = &items[keep..];
            let index = if new.len() >= MANY { self.index() } else { HashMap::new() };
            let changed = new.iter().map(|row| match index.get(&**row) {
                Some(known) => Arc::clone(known),
                None => clean(row).map_or_else(|| Arc::clone(row), Arc::from),
            });
            known[..keep].iter().cloned().chain(changed).collect()
        };
        self.used.retain(|used| *used != key);
        self.used.push_back(key.clone());
        self.lists.insert(key, (Arc::clone(items), Arc::clone(&rows)));
        while self.used.len() > MOST_LISTS {
            if let Some(old) = self.used.pop_front() {
                self.lists.remove(&old);
            }
        }
        rows
    }

    fn index(&self) -> HashMap<&str, &Arc<str>> {
        let lists = self.lists.iter().filter(|(key, _)| !key.starts_with("text\n"));
        lists
            .flat_map(|(_, (before, clean))| before.iter().map(|row| &**row).zip(clean.iter()))
            .collect()
    }
}

/// How many rows at the start are the same.
pub(crate) fn same(before: &[Arc<str>], now: &[Arc<str>]) -> usize {
    before.iter().zip(now).take_while(|(old, new)| Arc::ptr_eq(old, new) || old == new).count()
}

fn changed(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

fn named_or_inside<'j>(name: &str, json: &'j str, redactor: &Redactor) -> Cow<'j, str> {
    let text = json.len() > 4 && json.starts_with('"');
    if text && is_secret_name(name) { masked() } else { redact_json(json, redactor) }
}

fn masked<'j>() -> Cow<'j, str> {
    Cow::Owned(format!("\"{MASK}\""))
}

/// JSON text with every text in it redacted; names are kept. The JSON must be well formed; what is
/// not stays whole.
pub(crate) fn redact_json<'j>(json: &'j str, redactor: &Redactor) -> Cow<'j, str> {
    let bytes = json.as_bytes();
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    let mut secret = false;
    while let Some(start) = bytes[at..].iter().position(|b| *b == b'"').map(|found| at + found) {
        let Some(end) = end_of_text(bytes, start + 1) else { break };
        let inner = &json[start + 1..end];
        at = end + 1;
        if bytes[at..].iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':') {
            secret = is_secret_name(inner);
            continue;
        }
        let named = secret && follows_name(bytes, start) && inner.len() >= 3;
        let clean = if named {
            Some(MASK.to_owned())
        } else {
            redacted_text(inner, &json[start..at], redactor)
        };
        if let Some(clean) = clean {
            out.push_str(&json[done..start]);
            out.push_str(&serde_json::Value::from(clean).to_string());
            done = at;
        }
    }
    if done == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[done..]);
    Cow::Owned(out)
}

/// The text within quotes, redacted; None if there is nothing to mask.
fn redacted_text(inner: &str, quoted: &str, redactor: &Redactor) -> Option<String> {
    if !inner.contains('\\') {
        return changed(redactor.redact(inner));
    }
    let text: String = serde_json::from_str(quoted).ok()?;
    changed(redactor.redact(&text))
}

/// Where the text that begins at `at` ends: the place of its closing quote.
fn end_of_text(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += bytes.get(at..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Whether a value stands right behind a name's colon, and not in a list.
fn follows_name(bytes: &[u8], start: usize) -> bool {
    bytes[..start].iter().rev().find(|b| !b.is_ascii_whitespace()) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn redactor() -> Redactor {
        Redactor::new(["not-a-real-key"])
    }

    #[test]
    fn every_text_at_every_depth_is_looked_at_and_names_are_kept() {
        let check = |json: &str, wanted: &str| {
            assert_eq!(redact_json(json, &redactor()), wanted);
        };
        check(
            r#"{"a":["x not-a-real-key",{"b":"not-a-real-key"}]}"#,
            r#"{"a":["x [redacted]",{"b":"[redacted]"}]}"#,
        );
        check(r#"{"not-a-real-key": 1, "n" : "ok"}"#, r#"{"not-a-real-key": 1, "n" : "ok"}"#);
        check(r#""line\nnot-a-real-key \"q\"""#, r#""line\n[redacted] \"q\"""#);
        check(
            r#"{"password": "hunter2", "tokens": ["abcd"]}"#,
            r#"{"password": "[redacted]", "tokens": ["abcd"]}"#,
        );
        check(r#""ends with a backslash\\""#, r#""ends with a backslash\\""#);
        check("12", "12");
    }

    #[test]
    fn what_holds_no_secret_is_not_copied_and_no_row_is_looked_at_twice() {
        let asked = Cell::new(0);
        let clean = |row: &str| {
            asked.set(asked.get() + 1);
            row.contains("key").then(|| "***".to_owned())
        };
        let rows = |from: usize, to: usize| -> Vec<Arc<str>> {
            (from..to)
                .map(|n| Arc::from(if n == 3 { "a key".to_owned() } else { format!("row {n}") }))
                .collect()
        };
        let mut cleaner = Cleaner::default();
        let history: Rows = rows(0, 40).into();
        let first = cleaner.rows("history".into(), &history, &clean);
        assert_eq!((asked.get(), &*first[3]), (40, "***"));
        assert!(Arc::ptr_eq(&first[4], &history[4]));
        let grown: Rows = history.iter().cloned().chain(rows(40, 42)).collect();
        cleaner.rows("history".into(), &grown, &clean);
        assert_eq!(asked.get(), 42);
        // The same rows under another name, behind one that is new.
        let request: Rows = rows(90, 91).into_iter().chain(grown.iter().cloned()).collect();
        let second = cleaner.rows("request".into(), &request, &clean);
        assert_eq!((asked.get(), &*second[4]), (43, "***"));
    }
}
