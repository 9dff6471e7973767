//! The tool list of a session is pinned at its start: the stored definitions go out again as they
//! were, and what has changed since is told in a notice.

use std::sync::Arc;

use hermes_core::{ToolDef, ToolSet};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The stored JSON array of definitions, each kept as the raw text it was.
///
/// # Errors
/// If the text is no array of tool definitions.
pub(crate) fn parse_tools(json: &str) -> Result<ToolSet, serde_json::Error> {
    #[derive(Deserialize)]
    struct Definition {
        function: Function,
    }
    #[derive(Deserialize)]
    struct Function {
        name: String,
    }

    let raw: Vec<&RawValue> = serde_json::from_str(json)?;
    let mut defs = Vec::with_capacity(raw.len());
    for definition in raw {
        let parsed: Definition = serde_json::from_str(definition.get())?;
        defs.push(ToolDef { name: parsed.function.name.into(), json: Arc::from(definition.get()) });
    }
    Ok(ToolSet::new(defs))
}

/// The parameters schema inside a definition, as raw text; `{}` if it has none.
pub(crate) fn parameters_schema(definition: &str) -> String {
    #[derive(Deserialize)]
    struct Definition<'a> {
        #[serde(borrow)]
        function: Function<'a>,
    }
    #[derive(Deserialize)]
    struct Function<'a> {
        #[serde(borrow, default)]
        parameters: Option<&'a RawValue>,
    }
    serde_json::from_str::<Definition<'_>>(definition)
        .ok()
        .and_then(|definition| definition.function.parameters)
        .map_or_else(|| "{}".to_owned(), |raw| raw.get().to_owned())
}

/// What the model should know about tools that came, went or changed since the list was pinned;
/// None if nothing did.
pub(crate) fn difference_notice(pinned: &ToolSet, live: &[ToolDef]) -> Option<String> {
    let missing: Vec<&str> = pinned
        .defs
        .iter()
        .filter(|def| !live.iter().any(|other| other.name == def.name))
        .map(|def| &*def.name)
        .collect();
    let new: Vec<&str> = live
        .iter()
        .filter(|def| !pinned.defs.iter().any(|other| other.name == def.name))
        .map(|def| &*def.name)
        .collect();
    let changed: Vec<&str> = pinned
        .defs
        .iter()
        .filter(|def| live.iter().any(|other| other.name == def.name && other.json != def.json))
        .map(|def| &*def.name)
        .collect();
    let mut sentences = Vec::new();
    if !missing.is_empty() {
        sentences.push(format!("No longer available, do not call: {}.", missing.join(", ")));
    }
    if !new.is_empty() {
        sentences.push(format!("Available from the next session on: {}.", new.join(", ")));
    }
    if !changed.is_empty() {
        sentences.push(format!(
            "No longer quite as described, so read their errors: {}.",
            changed.join(", ")
        ));
    }
    (!sentences.is_empty()).then(|| format!("The tools have changed. {}", sentences.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: &str = r#"[{"type":"function","function":{"name":"b","parameters":{"type":"object","x":1e5}}},{"type":"function","function":{"name":"a"}}]"#;

    #[test]
    fn the_stored_array_comes_back_with_the_same_digest_and_order() {
        let set = parse_tools(ARRAY).unwrap();
        assert_eq!(set.json(), ARRAY);
        assert_eq!(&*set.defs[0].name, "b");
        assert_eq!(parameters_schema(&set.defs[0].json), r#"{"type":"object","x":1e5}"#);
        assert_eq!(parameters_schema(&set.defs[1].json), "{}");
        assert!(parse_tools("{}").is_err());
    }

    #[test]
    fn a_changed_tool_set_is_told_in_every_direction() {
        let set = parse_tools(ARRAY).unwrap();
        assert_eq!(difference_notice(&set, &set.defs), None);
        let live = [ToolDef { name: "c".into(), json: "{}".into() }, set.defs[1].clone()];
        let notice = difference_notice(&set, &live).unwrap();
        assert!(notice.contains("do not call: b.") && notice.contains("on: c."), "{notice}");
        let live = [ToolDef { name: "b".into(), json: "{}".into() }, set.defs[1].clone()];
        assert!(difference_notice(&set, &live).unwrap().contains("read their errors: b."));
    }
}
