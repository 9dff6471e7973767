//! The part of JSON Schema that tool definitions use: `type`, `properties`, `required`, `enum`,
//! `additionalProperties`, `items`. Other keywords are not looked at.
//!
//! Two habits of local models pass, because they cannot mean anything else and tools take them so:
//! `null` for a parameter that is not required, and a number or flag written as text.

use std::borrow::Cow;

use crate::json::{self, Kind, Value};

/// Checks a call's arguments against the `parameters` of its tool.
///
/// # Errors
/// With the place and what was wanted there, for the model.
pub fn check_schema(schema_json: &str, args_json: &str) -> Result<(), String> {
    let schema = json::parse(schema_json).map_err(|error| format!("the tool's schema: {error}"))?;
    let args = json::parse(args_json).map_err(|error| format!("the arguments: {error}"))?;
    check(&schema.value, &args.value, &mut Vec::new())
}

fn check<'a>(
    schema: &Value<'_>,
    value: &'a Value<'_>,
    path: &mut Vec<Cow<'a, str>>,
) -> Result<(), String> {
    if let Some(types) = schema.get("type") {
        let one = std::slice::from_ref(types);
        let names: Vec<&str> = if types.items().is_empty() { one } else { types.items() }
            .iter()
            .filter_map(Value::as_str)
            .collect();
        if !names.is_empty() && !names.iter().any(|name| is_type(value, name)) {
            return Err(format!(
                "{}: wanted {}, found {}",
                place(path),
                names.join(" or "),
                value.kind_name()
            ));
        }
    }
    if let Some(options) = schema.get("enum")
        && !options.items().iter().any(|option| same(option, value))
    {
        return Err(format!("{}: wanted one of {}, found {}", place(path), options.raw, value.raw));
    }
    let properties = schema.get("properties");
    let required: Vec<&str> = schema
        .get("required")
        .map(Value::items)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if value.is_object()
        && let Some(name) = required.iter().find(|name| value.get(name).is_none())
    {
        return Err(format!("{}: \"{name}\" is missing", place(path)));
    }
    for (name, field) in value.fields() {
        let known = properties.and_then(|properties| properties.get(name));
        path.push(Cow::Borrowed(name));
        match (known, schema.get("additionalProperties")) {
            (Some(_), _) if field.is_null() && !required.contains(&&**name) => {}
            (Some(known), _) => check(known, field, path)?,
            (None, Some(Value { kind: Kind::Bool(false), .. })) => {
                return Err(format!("{}: there is no such parameter", place(path)));
            }
            (None, Some(rest)) => check(rest, field, path)?,
            (None, None) => {}
        }
        path.pop();
    }
    if let Some(items) = schema.get("items") {
        for (index, item) in value.items().iter().enumerate() {
            path.push(Cow::Owned(index.to_string()));
            check(items, item, path)?;
            path.pop();
        }
    }
    Ok(())
}

fn place(path: &[Cow<'_, str>]) -> String {
    if path.is_empty() { "the arguments".to_owned() } else { format!("\"{}\"", path.join(".")) }
}

fn is_type(value: &Value<'_>, name: &str) -> bool {
    match (&value.kind, name) {
        (Kind::Null, "null")
        | (Kind::Bool(_), "boolean")
        | (Kind::Number, "number")
        | (Kind::String(_), "string")
        | (Kind::Array(_), "array")
        | (Kind::Object(_), "object") => true,
        (Kind::Number, "integer") => is_whole(value.raw),
        (Kind::String(text), "integer") => is_whole(text.trim()),
        (Kind::String(text), "number") => text.trim().parse().is_ok_and(f64::is_finite),
        (Kind::String(text), "boolean") => matches!(&**text, "true" | "false"),
        _ => false,
    }
}

/// 5.0 is an integer to JSON Schema.
fn is_whole(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain || number.parse().is_ok_and(|number: f64| number.fract() == 0.0)
}

fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Number, Kind::Number) => {
            a.raw == b.raw
                || matches!((a.raw.parse::<f64>(), b.raw.parse::<f64>()), (Ok(a), Ok(b)) if a.total_cmp(&b).is_eq())
        }
        (Kind::Array(a), Kind::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Kind::Object(_), Kind::Object(_)) => a.to_strict() == b.to_strict(),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","required":["path"],"additionalProperties":false,"properties":{
        "path":{"type":"string"},"limit":{"type":"integer"},"mode":{"enum":["fast","slow",1]},
        "tags":{"type":"array","items":{"type":["string","null"]}},
        "env":{"type":"object","additionalProperties":{"type":"string"}}}}"#;

    fn check(args: &str, expected: Result<(), &str>) {
        assert_eq!(check_schema(SCHEMA, args), expected.map_err(str::to_owned), "{args}");
    }

    #[test]
    fn arguments_that_fit_pass_and_others_name_the_place() {
        check(r#"{"path":"a"}"#, Ok(()));
        check(r#"{"path":"a","limit":5.0,"mode":1.0,"tags":["x",null],"env":{"A":"b"}}"#, Ok(()));
        check(r#"{"path":"a","limit":null,"mode":null}"#, Ok(()));
        check(r#"{"path":"a","limit":"50"}"#, Ok(()));
        check(r#"{"path":"a","limit":""}"#, Err("\"limit\": wanted integer, found a string"));
        check(r#"{"path":"a","limit":"5x"}"#, Err("\"limit\": wanted integer, found a string"));
        check(r#"{"path":null}"#, Err("\"path\": wanted string, found null"));
        check("{}", Err("the arguments: \"path\" is missing"));
        check(r#"{"path": 5}"#, Err("\"path\": wanted string, found a number"));
        check(r#"{"path":"a","force":true}"#, Err("\"force\": there is no such parameter"));
        check(r#"{"path":"a","limit":1.5}"#, Err("\"limit\": wanted integer, found a number"));
        check(
            r#"{"path":"a","mode":"x"}"#,
            Err(r#""mode": wanted one of ["fast","slow",1], found "x""#),
        );
        check(
            r#"{"path":"a","tags":[1]}"#,
            Err("\"tags.0\": wanted string or null, found a number"),
        );
        check(r#"{"path":"a","env":{"A":1}}"#, Err("\"env.A\": wanted string, found a number"));
        check("[1]", Err("the arguments: wanted object, found an array"));
    }

    #[test]
    fn a_schema_without_rules_takes_anything() {
        assert_eq!(check_schema("{}", r#"{"x":1}"#), Ok(()));
        assert!(check_schema("{", "{}").is_err());
    }
}
