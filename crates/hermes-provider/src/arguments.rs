//! What a tool call's arguments are worth.
//!
//! Only two faults are repaired, because there is only one way to read them: characters that
//! should have been escaped, and a comma too many. An object that was encoded twice is taken out
//! of its string, and nothing at all (or `null`) stands for `{}`. Everything else is for the
//! model to say again. A key that occurs twice is refused: a guard may look at the first while
//! the tool takes the last.

use std::sync::Arc;

use crate::CallArguments;
use crate::json::{self, Kind, Oddity, Parsed};

/// Classes the arguments of a call. `cut_off` says that the reply ended at its output limit.
pub fn classify_arguments(raw: &str, cut_off: bool) -> CallArguments {
    let whole = || Arc::<str>::from(raw);
    if raw.trim_matches(['\u{feff}', ' ', '\t', '\n', '\r']).is_empty() {
        return if cut_off {
            CallArguments::Cut { raw: whole() }
        } else {
            repaired("{}", "no arguments were given")
        };
    }
    let malformed =
        |position, why: String| CallArguments::Malformed { raw: whole(), position, why };
    let parsed = match json::parse(raw) {
        Ok(parsed) => parsed,
        Err(error) if error.at_end => return CallArguments::Cut { raw: whole() },
        Err(error) => return malformed(error.position, error.why.to_owned()),
    };
    if let Some((position, why)) = beyond_repair(&parsed) {
        return malformed(position, why);
    }
    match &parsed.value.kind {
        Kind::Object(_) if parsed.problems.is_empty() => CallArguments::Whole(whole()),
        Kind::Object(_) => repaired(&parsed.value.to_strict(), &repairs(&parsed)),
        Kind::Null => repaired("{}", "null was given for no arguments"),
        Kind::String(inner) => match json::parse(inner) {
            Ok(inner) if inner.value.is_object() && beyond_repair(&inner).is_none() => {
                repaired(&inner.value.to_strict(), "the object was encoded twice")
            }
            // A string that was closed holds an object that was not: cut before it was encoded.
            Err(error) if error.at_end && inner.trim_start().starts_with('{') => {
                CallArguments::Cut { raw: whole() }
            }
            _ => malformed(0, "a string, wanted an object".to_owned()),
        },
        Kind::Bool(_) | Kind::Number | Kind::Array(_) => {
            malformed(0, format!("{}, wanted an object", parsed.value.kind_name()))
        }
    }
}

fn repaired(text: &str, how: &str) -> CallArguments {
    CallArguments::Repaired { text: text.into(), how: how.to_owned() }
}

/// The first fault that has more than one reading.
fn beyond_repair(parsed: &Parsed<'_>) -> Option<(usize, String)> {
    parsed
        .problems
        .iter()
        .find(|problem| {
            matches!(problem.what, Oddity::BadEscape | Oddity::NotANumber | Oddity::DuplicateKey)
        })
        .map(|problem| (problem.position, problem.what.to_string()))
}

fn repairs(parsed: &Parsed<'_>) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for problem in &parsed.problems {
        let kind = problem.what.to_string();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(raw: &str, expected: &str) {
        let got = match classify_arguments(raw, false) {
            CallArguments::Whole(text) => format!("whole {text}"),
            CallArguments::Repaired { text, how } => format!("repaired {text} ({how})"),
            CallArguments::Cut { .. } => "cut".to_owned(),
            CallArguments::Malformed { position, why, .. } => format!("malformed {position} {why}"),
        };
        assert_eq!(got, expected, "{raw}");
    }

    #[test]
    fn whole_arguments_keep_their_bytes() {
        check(r#" {"b": 1e5, "a": "\u00e9"} "#, r#"whole  {"b": 1e5, "a": "\u00e9"} "#);
        check("{}", "whole {}");
    }

    #[test]
    fn only_faults_with_one_reading_are_repaired() {
        check("{\"a\":\"x\ny\"}", r#"repaired {"a":"x\ny"} (a raw control character in a string)"#);
        check(r#"{"a":[1e5,],}"#, r#"repaired {"a":[1e5]} (a trailing comma)"#);
        check(r#""{\"path\":\"a\"}""#, r#"repaired {"path":"a"} (the object was encoded twice)"#);
        check("\u{feff}{}", "repaired {} (a byte order mark)");
        check("{\"a\":\"\\ud83d\"}", "repaired {\"a\":\"\u{fffd}\"} (half a surrogate pair)");
        check(" ", "repaired {} (no arguments were given)");
        check("null", "repaired {} (null was given for no arguments)");
        check(r#"{"p":"C:\dir"}"#, "malformed 8 an escape that JSON does not know");
        check(r#"{"n": NaN}"#, "malformed 6 a number that JSON does not know (NaN or Infinity)");
        check(r#"{"p":"a","p":"b"}"#, "malformed 9 a key that occurs twice in one object");
        check("[1]", "malformed 0 an array, wanted an object");
        check("5", "malformed 0 a number, wanted an object");
        check(r#""path""#, "malformed 0 a string, wanted an object");
        check(r#"{"a":1}{"a":1}"#, "malformed 7 further text after the value");
        check(r#"{"a": listt"}"#, "malformed 6 a character that begins no value");
    }

    #[test]
    fn arguments_cut_at_any_point_are_never_whole() {
        let raw = r#"{"path": "out.txt", "n": [1, -2.5e3, true, null], "o": {"k": "\u00e9\n"}}"#;
        for end in 1..raw.len() {
            check(&raw[..end], "cut");
        }
        check("\"{\\\"path\\\":\\\"a", "cut");
        check(r#""{\"path\":\"a""#, "cut");
        assert!(matches!(classify_arguments("", true), CallArguments::Cut { .. }));
    }

    proptest! {
        #[test]
        fn any_text_is_classed_and_what_may_run_is_a_json_object(raw in "\\PC*|[{}\\[\\]\",:a-f0-9\\\\u \n]{0,40}") {
            if let Some(text) = classify_arguments(&raw, false).usable() {
                let object: serde_json::Value = serde_json::from_str(text).unwrap();
                prop_assert!(object.is_object());
            }
        }
    }
}
