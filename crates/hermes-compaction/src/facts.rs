//! What a call was and how it went, read from its arguments and result without a model.

use std::borrow::Cow;
use std::fmt::Write as _;

use hermes_core::{Origin, Part, PartBody, Role, Row, RowStatus, Standing};

use crate::cutting::{line, one_line, size};
use crate::words::TextMap;

/// For every tool row, by its place among `rows`, the arguments of the call it answers.
pub(crate) fn arguments_by_result<'a>(rows: &[&'a Row]) -> Vec<Option<&'a str>> {
    let mut open: TextMap<'a, &'a str> = TextMap::default();
    let mut found = vec![None; rows.len()];
    for (index, row) in rows.iter().enumerate() {
        match row.role {
            Role::Assistant => {
                for part in &row.parts {
                    if let PartBody::ToolCall { id, arguments, .. } = &part.body {
                        open.insert(id, arguments);
                    }
                }
            }
            Role::Tool => {
                let id = row.tool.as_ref().map(|link| &*link.call_id);
                found[index] = id.and_then(|id| open.get(id)).copied();
            }
            Role::User | Role::System => {}
        }
    }
    found
}

/// Names under which tools take what they are about, the most telling first.
const SUBJECTS: [&str; 12] = [
    "command",
    "path",
    "file_path",
    "file",
    "url",
    "query",
    "pattern",
    "name",
    "goal",
    "task",
    "action",
    "text",
];

/// What a call is about, from its arguments; empty where they do not say.
pub(crate) fn subject(arguments: &str, max: usize) -> String {
    let Ok(serde_json::Value::Object(object)) = serde_json::from_str(arguments) else {
        return one_line(arguments, max);
    };
    let named = SUBJECTS.iter().find_map(|key| object.get(*key)?.as_str());
    let text = named.or_else(|| object.values().find_map(serde_json::Value::as_str));
    text.map(|text| one_line(text, max)).unwrap_or_default()
}

/// A string argument of a call.
pub(crate) fn argument(arguments: &str, keys: &[&str]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    keys.iter().find_map(|key| value.get(key)?.as_str().map(str::to_owned))
}

/// The exit code that a result tells in its first lines: `exit code 3`, `"exit_code": 3`,
/// `exit status: 3`.
pub(crate) fn exit_code(text: &str) -> Option<i32> {
    let head = &text[..text.floor_char_boundary(2_000)];
    // The rarest letter of the word leads to it.
    let at = head
        .match_indices('x')
        .find_map(|(at, _)| at.checked_sub(1).filter(|at| head[*at..].starts_with("exit")))?;
    let rest = head[at + 4..].trim_start_matches([' ', '_', '-']);
    let rest = rest.strip_prefix("code").or_else(|| rest.strip_prefix("status"))?;
    let rest = rest.trim_start_matches(['"', '\'', ':', '=', ' ']);
    let end = rest
        .char_indices()
        .find(|(at, character)| !(character.is_ascii_digit() || *at == 0 && *character == '-'))
        .map_or(rest.len(), |(at, _)| at);
    rest[..end].parse().ok()
}

/// The text a tool itself returned; most rows have it in one part.
pub(crate) fn result_text(row: &Row) -> Cow<'_, str> {
    let own = |part: &&Part| part.origin == Origin::Tool && part.standing == Standing::InOrder;
    let mut texts = row.parts.iter().filter(own).filter_map(Part::as_text);
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(text), None) => Cow::Borrowed(text),
        (Some(_), Some(_)) => Cow::Owned(row.text_of(Origin::Tool)),
    }
}

/// How many lines a text has.
fn lines(text: &str) -> usize {
    let ends = text.bytes().filter(|byte| *byte == b'\n').count();
    ends + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// One factual line about a tool's result: which call, how it went, how large, where it is.
pub(crate) fn result_line(row: &Row, text: &str, arguments: Option<&str>) -> String {
    let name = row.tool.as_ref().map_or("tool", |link| &*link.name);
    let mut out = String::from(name);
    let about = arguments.map(|arguments| subject(arguments, 120)).unwrap_or_default();
    if !about.is_empty() {
        out.push_str(" `");
        out.push_str(&about);
        out.push('`');
    }
    let code = exit_code(text);
    let how = match (row.status, code) {
        (RowStatus::Failed, Some(code)) => format!("failed, exit code {code}"),
        (RowStatus::Failed, None) => format!("FAILED: {}", line(text, 80)),
        (RowStatus::Interrupted, _) => "interrupted".to_owned(),
        (RowStatus::Complete, Some(code)) => format!("exit code {code}"),
        (RowStatus::Complete, None) => "done".to_owned(),
    };
    let _ = write!(out, ": {how}, {} lines, {}", lines(text), size(text.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_found_in_the_forms_that_tools_use() {
        let check =
            |text: &str, expected: Option<i32>| assert_eq!(exit_code(text), expected, "{text}");
        check("exit code 101\nerror", Some(101));
        check("{\"output\": \"\", \"exit_code\": 2}", Some(2));
        check("exit status: -1", Some(-1));
        check("it exited", None);
        check("exit code", None);
        check("", None);
    }

    #[test]
    fn a_call_names_its_subject() {
        assert_eq!(subject("{\"timeout\":3,\"command\":\"ls\\n -l\"}", 20), "ls -l");
        assert_eq!(subject("{\"n\":3}", 20), "");
        assert_eq!(subject("not json", 5), "not…");
    }
}
