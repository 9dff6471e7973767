//! A YAML value without its place, and how it is written.

use std::fmt::Write as _;

use super::{Node, Value};

/// A value as JSON and YAML share it. Numbers keep their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// A mapping, in order.
    Map(Vec<(String, Self)>),
}

impl Datum {
    /// The value of a node.
    pub fn of(node: &Node) -> Self {
        match &node.value {
            Value::Scalar { text, plain: true } => scalar_datum(text),
            Value::Scalar { text, plain: false } => Self::Text(text.clone()),
            Value::List { items, .. } => Self::List(items.iter().map(Self::of).collect()),
            Value::Map { entries, .. } => Self::Map(
                entries.iter().map(|entry| (entry.key.clone(), Self::of(&entry.value))).collect(),
            ),
        }
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    /// One line of YAML that reads back as this value.
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    fn write(&self, out: &mut String, json: bool) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(text) if json && !is_json_number(text) => quote(text, out),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => write_text(text, out, json),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    item.write(out, json);
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    write_text(key, out, json);
                    out.push_str(": ");
                    value.write(out, json);
                }
                out.push('}');
            }
        }
    }
}

/// What a person reads: texts without quotes, everything else as one line of YAML.
impl std::fmt::Display for Datum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            other => f.write_str(&other.to_yaml()),
        }
    }
}

/// Whether a plain scalar means nothing.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// A truth value in any of the spellings of YAML 1.1.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A plain scalar by the rules that YAML 1.1 and 1.2 programs agree on; the words on which they
/// differ (`yes`, `off`) count as truth values, as people mean them.
pub(crate) fn scalar_datum(text: &str) -> Datum {
    if is_null(text) {
        Datum::Null
    } else if let Some(value) = boolean(text) {
        Datum::Bool(value)
    } else if is_number(text) {
        Datum::Number(text.to_owned())
    } else {
        Datum::Text(text.to_owned())
    }
}

/// Whether a plain scalar is a decimal number.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let starts = digits.starts_with(|c: char| c.is_ascii_digit())
        || (digits.starts_with('.') && digits[1..].starts_with(|c: char| c.is_ascii_digit()));
    starts
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn is_json_number(text: &str) -> bool {
    serde_json::from_str::<serde_json::Number>(text).is_ok()
}

fn write_text(text: &str, out: &mut String, json: bool) {
    if !json && is_safe_plain(text) {
        out.push_str(text);
    } else {
        quote(text, out);
    }
}

/// Whether a text can stand without quotes in any YAML program and still be that text.
fn is_safe_plain(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '/' || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '+'))
        && !is_null(text)
        && boolean(text).is_none()
        && !matches!(text.to_ascii_lowercase().as_str(), "y" | "n")
}

/// A double-quoted text that JSON and YAML read alike.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Control characters, and those that YAML takes for line breaks or a byte order mark.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
