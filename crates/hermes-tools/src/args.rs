//! Arguments of a call, checked against the tool's table of parameters.
//!
//! Invariant: a tool never sees a parameter it does not know, a value of the wrong type, or one of
//! two values given for one name. `null` for an optional parameter counts as absent; a whole number
//! or flag written as text (`"50"`, `"true"`) is taken for what it says, because many local models
//! write them so and it cannot mean anything else.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A whole number, at least the given one.
    Whole(u64),
    /// True or false.
    Flag,
    /// Names: a list, or one text with commas between them.
    Names,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a string"),
            Self::Whole(min) => write!(f, "a whole number, at least {min}"),
            Self::Flag => f.write_str("true or false"),
            Self::Names => f.write_str("a list of names"),
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

/// A parameter of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a call without it is refused.
    pub required: bool,
}

impl Param {
    /// A parameter every call must give.
    pub(crate) const fn required(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: true }
    }

    /// A parameter that may be left out.
    pub(crate) const fn optional(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, required: false }
    }
}

/// A checked value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Arg {
    Text(String),
    Whole(u64),
    Flag(bool),
}

/// The checked arguments of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args(Vec<(&'static str, Arg)>);

impl Args {
    /// Checks `raw`, the JSON text of an object, against `params`. The error is for the model.
    pub(crate) fn parse(tool: &str, params: &[Param], raw: &str) -> Result<Self, String> {
        let Object(pairs) = serde_json::from_str(raw)
            .map_err(|e| format!("{tool}: the arguments are no JSON object: {e}"))?;
        let mut args = Vec::with_capacity(pairs.len());
        for (name, value) in pairs {
            let Some(param) = params.iter().find(|param| param.name == name) else {
                return Err(format!(
                    "{tool}: unknown parameter \"{}\", so nothing was done; known: {}",
                    clip(&name),
                    list(params)
                ));
            };
            if args.iter().any(|(known, _)| *known == param.name) {
                return Err(format!("{tool}: parameter \"{name}\" is given twice"));
            }
            if value.is_null() && !param.required {
                continue;
            }
            let arg = check(param.kind, value).map_err(|found| {
                format!("{tool}: parameter \"{name}\" is {found}, wanted {}", param.kind)
            })?;
            args.push((param.name, arg));
        }
        let given = |param: &Param| args.iter().any(|(name, _)| *name == param.name);
        if let Some(missing) = params.iter().find(|param| param.required && !given(param)) {
            return Err(format!(
                "{tool}: parameter \"{}\" is missing; parameters: {}",
                missing.name,
                list(params)
            ));
        }
        Ok(Self(args))
    }

    fn get(&self, name: &str) -> Option<&Arg> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, arg)| arg)
    }

    /// A text, if given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Arg::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A text that the table says is required; empty if the table does not.
    pub(crate) fn need(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// A whole number, if given.
    pub(crate) fn whole(&self, name: &str) -> Option<usize> {
        match self.get(name) {
            Some(Arg::Whole(n)) => Some(usize::try_from(*n).unwrap_or(usize::MAX)),
            _ => None,
        }
    }

    /// A flag; false if absent.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Arg::Flag(true)))
    }
}

fn list(params: &[Param]) -> String {
    let names: Vec<String> = params
        .iter()
        .map(|param| format!("{}{}", param.name, if param.required { " (required)" } else { "" }))
        .collect();
    names.join(", ")
}

/// The value as its kind wants it, or what it is instead.
fn check(kind: Kind, value: Value) -> Result<Arg, String> {
    let found = match &value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string \"{}\"", clip(text)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    match (kind, value) {
        (Kind::Text | Kind::Names, Value::String(text)) => Ok(Arg::Text(text)),
        (Kind::Names, Value::Array(names)) => {
            let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
            names.map(|names| Arg::Text(names.join(","))).ok_or(found)
        }
        (Kind::OneOf(words), Value::String(text)) if words.contains(&text.as_str()) => {
            Ok(Arg::Text(text))
        }
        (Kind::Flag, Value::Bool(flag)) => Ok(Arg::Flag(flag)),
        (Kind::Flag, Value::String(text)) => text.parse().map(Arg::Flag).map_err(|_| found),
        (Kind::Whole(min), Value::Number(number)) => {
            let whole = number.as_u64().or_else(|| {
                // `50.0`, as some models write whole numbers.
                number
                    .as_f64()
                    .filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n))
                    .map(|n| n as u64)
            });
            whole.filter(|n| *n >= min).map(Arg::Whole).ok_or(found)
        }
        (Kind::Whole(min), Value::String(text)) => {
            text.trim().parse().ok().filter(|n| *n >= min).map(Arg::Whole).ok_or(found)
        }
        _ => Err(found),
    }
}

/// A short form for messages.
fn clip(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// An object's pairs in their order, doubled names kept so that they can be refused.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of parameters")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Object(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] = &[
        Param::required("path", Kind::Text),
        Param::optional("limit", Kind::Whole(1)),
        Param::optional("all", Kind::Flag),
        Param::optional("target", Kind::OneOf(&["a", "b"])),
        Param::optional("names", Kind::Names),
    ];

    #[test]
    fn only_known_parameters_of_the_right_type_get_through() {
        for (raw, expected) in [
            (r#"{"path":"a"}"#, Ok("a")),
            (r#"{"path":"a","limit":null,"all":"true","target":"b"}"#, Ok("a")),
            (r#"{"path":"a","limit":"50"}"#, Ok("a")),
            (r#"{"path":"a","limit":50.0}"#, Ok("a")),
            (r#"{"path":"a","names":["b","c"]}"#, Ok("a")),
            (r#"{"path":"a","names":[1]}"#, Err("is an array, wanted a list of names")),
            (r#"{"path":"a","force":true}"#, Err("unknown parameter \"force\"")),
            (r#"{"path":5}"#, Err("is the number 5, wanted a string")),
            (r#"{"path":null}"#, Err("is null, wanted a string")),
            (r#"{"path":"a","path":"b"}"#, Err("given twice")),
            (r#"{"path":"a","limit":0}"#, Err("wanted a whole number, at least 1")),
            (r#"{"path":"a","limit":-1}"#, Err("is the number -1")),
            (r#"{"path":"a","limit":1.5}"#, Err("is the number 1.5")),
            (r#"{"path":"a","limit":1e300}"#, Err("wanted a whole number")),
            (r#"{"path":"a","all":1}"#, Err("wanted true or false")),
            (r#"{"path":"a","target":"c"}"#, Err("wanted one of a, b")),
            (r"{}", Err("\"path\" is missing")),
            (r"[1]", Err("no JSON object")),
            (r"null", Err("no JSON object")),
            (r#""path""#, Err("no JSON object")),
            (r"", Err("no JSON object")),
            (r#"{"path":"a"}{"path":"b"}"#, Err("no JSON object")),
        ] {
            match (Args::parse("t", PARAMS, raw), expected) {
                (Ok(args), Ok(path)) => assert_eq!(args.need("path"), path, "{raw}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{raw}: {message}"),
                (got, _) => panic!("{raw}: {got:?}"),
            }
        }
    }
}
