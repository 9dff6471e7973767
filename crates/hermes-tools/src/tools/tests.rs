use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::args::Kind;

#[test]
fn definitions_are_compact_and_say_what_is_checked() {
    let mut bytes = 0;
    for tool in &TOOLS {
        bytes += tool.json.len();
        let value: Value = serde_json::from_str(tool.json).unwrap();
        assert_eq!(value["type"], "function");
        assert_eq!(value["function"]["name"], tool.name);
        let schema = &value["function"]["parameters"];
        let described: BTreeSet<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let known: BTreeSet<&str> = tool.params.iter().map(|param| param.name).collect();
        assert_eq!(described, known, "{}", tool.name);
        for param in tool.params {
            let property = &schema["properties"][param.name];
            let kind = match param.kind {
                Kind::Text | Kind::Names | Kind::OneOf(_) => "string",
                Kind::Whole(_) => "integer",
                Kind::Flag => "boolean",
            };
            assert_eq!(property["type"], kind, "{} {}", tool.name, param.name);
            if let Kind::OneOf(words) = param.kind {
                assert_eq!(property["enum"], serde_json::json!(words), "{}", param.name);
            }
            let required = schema["required"].as_array().unwrap().contains(&param.name.into());
            assert_eq!(required, param.required, "{} {}", tool.name, param.name);
        }
        let compact = serde_json::to_string(&value).unwrap();
        assert_eq!(tool.json.len(), compact.len(), "{} has no needless space", tool.name);
    }
    assert!(bytes < 8_000, "{bytes} bytes of definitions");
}
