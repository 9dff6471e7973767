//! B094: arguments that cannot be trusted, as they come from a server.

use hermes_provider::{CallArguments, check_schema};

use crate::rig::{Rig, case, script, server};

const SCHEMA: &str =
    r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;

/// What becomes of a call of `read_file(path)`.
fn check(file: &str, expected: &str) {
    let server = server(Some(script(&format!(r#"[{{"file":"B094/{file}.resp.json"}}]"#))));
    let reply = Rig::new(&[&server]).run().unwrap().reply;
    let call = &reply.calls[0];
    assert_eq!(&*call.name, "read_file");
    let word = match &call.arguments {
        CallArguments::Whole(_) => "whole",
        CallArguments::Repaired { .. } => "repaired",
        CallArguments::Cut { .. } => "cut",
        CallArguments::Malformed { position, .. } => {
            return assert_eq!(format!("malformed {position}"), expected, "{file}");
        }
    };
    let fits = match call.arguments.usable() {
        None => "",
        Some(text) if check_schema(SCHEMA, text).is_ok() => " fits",
        Some(_) => " does not fit",
    };
    assert_eq!(format!("{word}{fits}"), expected, "{file}: {call:?}");
}

#[test]
fn b094_only_whole_or_harmlessly_repaired_arguments_may_run() {
    check("router_hides_cut", "cut");
    check("bareword", "malformed 11");
    check("raw_newline", "repaired fits");
    check("trailing_comma", "repaired fits");
    check("double_encoded", "repaired fits");
    check("two_objects", "malformed 12");
    check("single_quotes", "malformed 1");
    check("nan", "malformed 6");
    check("array", "malformed 0");
    check("string", "malformed 0");
    check("null", "repaired does not fit");
    check("empty", "repaired does not fit");
    // Refused: a guard may read the first value and the tool the last.
    check("dup_key", "malformed 12");
    check("wrong_type", "whole does not fit");
    // Passed on; the tool reads the parameters that it knows.
    check("extra_key", "whole fits");
}

#[test]
fn b094_every_file_of_the_case_is_checked() {
    let files = std::fs::read_dir(case("B094")).unwrap();
    let count =
        files.filter(|file| file.as_ref().unwrap().path().extension() == Some("json".as_ref()));
    assert_eq!(count.count(), 15);
}
