//! Tool calls from fragments, in every dialect.
//!
//! The standard: the first fragment of a call has `index`, `id` and `name`, later ones `index`
//! and a piece of `arguments`. What servers make of it:
//!
//! - the full name again in each fragment, the name in pieces, or the name so far;
//! - a new id in each fragment, with an empty name (the fragment continues a call);
//! - no index; or index 0 for every call (a new id with a name begins a call if the one before is
//!   complete or has another name);
//! - the whole call repeated at the end;
//! - `arguments` as an object instead of text.

use std::sync::Arc;

use crate::json::{self, Joiner, Kind, Value};
use crate::{ReplyCall, classify_arguments};

#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Building>,
}

#[derive(Clone, Debug, Default)]
struct Building {
    index: Option<u64>,
    id: Option<String>,
    names: Vec<String>,
    arguments: String,
    joiner: Joiner,
}

impl Building {
    fn is_complete(&self) -> bool {
        !self.arguments.trim().is_empty() && json::parse(&self.arguments).is_ok()
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name) || self.names.concat() == name
    }
}

impl Calls {
    /// Whether no call began.
    pub(super) const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes an element of `tool_calls`.
    pub(super) fn push(&mut self, fragment: &Value<'_>) {
        let text = |value: Option<&Value<'_>>| {
            value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        // Some put the function's fields beside the id.
        let function =
            fragment.get("function").filter(|value| value.is_object()).unwrap_or(fragment);
        let index = fragment.get("index").and_then(Value::as_u64);
        self.add(
            index,
            text(fragment.get("id")),
            text(function.get("name")),
            function.get("arguments").or_else(|| function.get("parameters")),
        );
    }

    /// Takes the `function_call` object of the old API: there is only one.
    pub(super) fn push_function(&mut self, function: &Value<'_>) {
        let name = function.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        self.add(Some(0), None, name.map(str::to_owned), function.get("arguments"));
    }

    fn add(
        &mut self,
        index: Option<u64>,
        id: Option<String>,
        name: Option<String>,
        arguments: Option<&Value<'_>>,
    ) {
        let arguments = arguments.filter(|value| !value.is_null());
        let empty = arguments.is_none_or(|value| value.as_str() == Some(""));
        let at = self.place(index, id.as_deref(), name.as_deref(), empty);
        let Some(at) = at else {
            self.calls.push(Building { index, id, ..Building::default() });
            if let Some(call) = self.calls.last_mut() {
                call.names.extend(name);
                append(call, arguments);
            }
            return;
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        // The whole call once more.
        if name.as_ref().is_some_and(|name| call.has_name(name))
            && arguments.is_some_and(|value| text_of(value) == call.arguments)
            && call.is_complete()
        {
            return;
        }
        if call.id.is_none() {
            call.id = id;
        }
        call.names.extend(name);
        append(call, arguments);
    }

    /// The call that a fragment continues; None if it begins one.
    fn place(
        &self,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        empty: bool,
    ) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        let of = |found: &dyn Fn(&Building) -> bool| self.calls.iter().rposition(found);
        let same_id = id.and_then(|id| of(&|call| call.id.as_deref() == Some(id)));
        let candidate = match index {
            Some(index) => match of(&|call| call.index == Some(index)) {
                Some(at) => at,
                // A new index begins a call, unless it brings nothing but arguments.
                None if name.is_none() && !empty => return Some(last),
                None => {
                    return same_id
                        .filter(|at| self.calls.get(*at).is_some_and(|c| c.index.is_none()));
                }
            },
            None => match (same_id, id, name) {
                (Some(at), _, _) => at,
                (None, None, None) => return Some(last),
                _ => last,
            },
        };
        let call = self.calls.get(candidate)?;
        let Some(name) = name else { return Some(candidate) };
        let new_id = id.is_some() && call.id.is_some() && call.id.as_deref() != id;
        if new_id && (call.is_complete() || !call.has_name(name)) {
            return None;
        }
        // Without an id or an index there is only the name to tell a second call by.
        if id.is_none()
            && index.is_none()
            && (call.is_complete() || (!call.arguments.is_empty() && !call.has_name(name)))
        {
            return None;
        }
        Some(candidate)
    }

    /// The calls, with names and ids that can be sent back.
    pub(super) fn finish(
        self,
        id_base: &str,
        tools: &[Arc<str>],
        cut_off: bool,
        problems: &mut Vec<String>,
    ) -> Vec<ReplyCall> {
        let mut finished: Vec<ReplyCall> = Vec::new();
        let count = self.calls.len();
        for (n, mut call) in self.calls.into_iter().enumerate() {
            call.arguments.push_str(call.joiner.finish());
            let name = resolve(&call.names, tools);
            if name.is_empty() && call.arguments.trim().is_empty() {
                problems.push("a tool call without name and arguments was dropped".to_owned());
                continue;
            }
            let fresh = |id: &str| !finished.iter().any(|known| *known.id == *id);
            let own = call.id.take().filter(|id| is_sendable_id(id) && fresh(id));
            let id = own.unwrap_or_else(|| {
                let mut id = format!("call_{id_base}_{n}");
                // One that a server made up may be the same.
                while !fresh(&id) {
                    id.push('x');
                }
                id
            });
            // Only the last call can be the one that an output limit cut.
            let cut_off = cut_off && n + 1 == count;
            finished.push(ReplyCall {
                id: id.into(),
                name: sendable(&name).into(),
                arguments: classify_arguments(&call.arguments, cut_off),
            });
        }
        finished
    }
}

fn append(call: &mut Building, arguments: Option<&Value<'_>>) {
    match arguments.map(|value| (&value.kind, value)) {
        Some((Kind::String(_), value)) => {
            let text = call.joiner.push(value);
            call.arguments.push_str(&text);
        }
        Some((_, value)) => {
            // An empty object before the text is a placeholder.
            if call.arguments == "{}" {
                call.arguments.clear();
            }
            call.arguments.push_str(value.raw);
        }
        None => {}
    }
}

fn text_of<'a>(value: &'a Value<'_>) -> &'a str {
    value.as_str().unwrap_or(value.raw)
}

/// The name that the pieces spell: a tool that was offered if any reading gives one.
fn resolve(pieces: &[String], tools: &[Arc<str>]) -> String {
    let Some(first) = pieces.first() else { return String::new() };
    let joined = pieces.concat();
    let last = pieces.last().unwrap_or(first);
    let repeated = pieces.iter().all(|piece| piece == first);
    let growing = pieces.windows(2).all(|pair| matches!(pair, [a, b] if b.starts_with(a.as_str())));
    // Pieces first, then the full name again and again.
    let mut distinct: Vec<&str> = Vec::new();
    for piece in pieces {
        if !distinct.contains(&piece.as_str()) && distinct.concat() != *piece {
            distinct.push(piece);
        }
    }
    let distinct = distinct.concat();
    let readings = [&joined, &distinct, last, first];
    let offered = |name: &str| tools.iter().any(|tool| **tool == *name);
    for reading in readings {
        let reading = reading.trim();
        if offered(reading) {
            return reading.to_owned();
        }
        // A namespace that some models put before every name.
        if let Some(bare) = reading.strip_prefix("functions.")
            && offered(bare)
        {
            return bare.to_owned();
        }
    }
    let reading = if repeated {
        first
    } else if growing {
        last
    } else {
        &distinct
    };
    reading.trim().to_owned()
}

/// Whether strict providers take the id back: at most 64 characters, letters, digits, `_` and `-`.
/// A dot and a colon too, because some models are trained on ids of the form `functions.name:0`.
fn is_sendable_id(id: &str) -> bool {
    id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
}

/// A name that strict providers take back in the history: letters, digits, `_`, `-`, at most 64.
fn sendable(name: &str) -> String {
    let clean: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .collect();
    if clean.is_empty() { "unnamed".to_owned() } else { clean }
}
