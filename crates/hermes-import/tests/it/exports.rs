//! Sessions written out, and back in.

use hermes_core::SessionId;
use hermes_import::{Form, redacted_jsonl, write_session};
use serde_json::Value;

use crate::rig::Rig;

/// A line without what belongs to the file it is in: the ids of rows.
fn without_row_ids(line: &str) -> Value {
    let mut value: Value = serde_json::from_str(line).unwrap();
    for message in value["messages"].as_array_mut().unwrap() {
        message.as_object_mut().unwrap().remove("id");
    }
    for interval in value["timings"]["intervals"].as_array_mut().unwrap() {
        let interval = interval.as_object_mut().unwrap();
        interval.remove("from_message_id");
        interval.remove("to_message_id");
    }
    value
}

#[test]
fn lines_go_out_come_in_and_go_out_equal() {
    let first = Rig::new();
    let source = first.python_home("hermes-0.22-schema31");
    let sessions = first.import(&source).sessions;
    let lines: Vec<String> = sessions.iter().map(|id| first.jsonl(id)).collect();
    let second = Rig::new();
    let path = second.put("all.jsonl", &lines.concat());
    let report = second.import(&path);
    assert_eq!((report.sessions.len(), report.skipped.len()), (sessions.len(), 0));
    for (id, line) in sessions.iter().zip(&lines) {
        assert_eq!(without_row_ids(&second.jsonl(id)), without_row_ids(line), "{id}");
    }
    second.sound();
}

#[test]
fn lines_of_the_python_program_come_in_by_their_columns() {
    let rig = Rig::new();
    let line = r#"{"id":"py","source":"telegram","started_at":1700000000.0,"title":"From there","system_prompt":"Be kind.","messages":[{"role":"user","content":"hello","timestamp":1700000001.0,"active":1,"compacted":0},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"timestamp":1700000002.0,"active":1,"compacted":0},{"role":"tool","content":"ok","tool_call_id":"c","tool_name":"f","timestamp":1700000003.0}]}"#;
    let path = rig.put("py.jsonl", line);
    let report = rig.import(&path);
    assert_eq!((report.sessions.as_slice(), report.messages), (&["py".to_owned()][..], 3));
    assert_eq!(rig.said("py")[0], ("user".to_owned(), "hello".to_owned()));
    rig.sound();
}

fn secretive(rig: &Rig) -> SessionId {
    let line = r#"{"id":"s","source":"cli","started_at":1700000000.0,"title":"A <b>title</b>","messages":[{"role":"user","content":"token ghp_0123456789abcdefghijABCDEFGHIJ012345 & <script>alert(1)</script>","timestamp":1700000001.0},{"role":"assistant","content":"use ```` fences","reasoning":"thinking","timestamp":1700000002.0},{"role":"tool","tool_call_id":"c","tool_name":"terminal","content":"line ``` of output","timestamp":1700000003.0}]}"#;
    rig.import(&rig.put("s.jsonl", line));
    SessionId::new("s")
}

#[test]
fn pages_for_people_are_whole_and_harmless() {
    let rig = Rig::new();
    let id = secretive(&rig);
    let page = |form: Form, redacted: bool| {
        let mut out = Vec::new();
        write_session(&rig.store, &id, form, redacted, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let html = page(Form::Html, false);
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "nothing runs in it");
    assert!(html.contains("<h1>A &lt;b&gt;title&lt;/b&gt;</h1>"));
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("src=\"/"));
    assert!(html.contains("thinking") && html.contains("Result of terminal"));
    let markdown = page(Form::Markdown, false);
    assert!(markdown.contains("```\nline ``` of output\n```\n"), "{markdown}");
    assert!(markdown.contains("ghp_0123"));
    for form in [Form::Html, Form::Markdown] {
        assert!(!page(form, true).contains("ghp_0123456789"), "{form:?}");
    }
}

#[test]
fn a_redacted_line_has_the_same_shape_without_the_secret() {
    let rig = Rig::new();
    let id = secretive(&rig);
    let mut out = Vec::new();
    redacted_jsonl(&rig.store, &id, &mut out).unwrap();
    let line = String::from_utf8(out).unwrap();
    assert!(!line.contains("ghp_0123456789"));
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["messages"].as_array().unwrap().len(), 3);
}

#[test]
fn lines_without_their_secrets_come_in_again() {
    let rig = Rig::new();
    let key = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let line = format!(
        r#"{{"id":"s","source":"cli","started_at":1700000000.0,"system_prompt":"The key is {key}.","messages":[{{"role":"user","content":"use {key}","timestamp":1700000001.0}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{\"key\":\"{key}\"}}"}}}}],"timestamp":1700000002.0}}]}}"#
    );
    rig.import(&rig.put("one.jsonl", &line));
    let mut out = Vec::new();
    redacted_jsonl(&rig.store, &SessionId::new("s"), &mut out).unwrap();
    let clean = String::from_utf8(out).unwrap();
    assert!(!clean.contains(key) && clean.contains("_hermes"));
    let second = Rig::new();
    let report = second.import(&second.put("clean.jsonl", &clean));
    assert_eq!((report.sessions.len(), report.skipped.as_slice()), (1, &[][..]));
    second.sound();
    assert_eq!(second.said("s").len(), 2);
}

#[test]
fn lines_that_are_no_lines_are_named_and_the_others_come_in() {
    let rig = Rig::new();
    let good = |id: &str| {
        format!(
            r#"{{"id":"{id}","started_at":1700000000.0,"messages":[{{"role":"user","content":"hello","timestamp":1700000001.0}}]}}"#
        )
    };
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(good("first").bytes());
    bytes.extend(b"\r\n\xff\xfe\x00 no text\n[1]\n{\"id\":7}\n{\"id\":\"\"}\n");
    bytes.extend(format!("{}\n{}\n", good("second"), good("second")).bytes());
    bytes.extend(vec![b'['; 5000]);
    bytes.extend(format!("\n{}", good("third")).bytes());
    bytes.extend(b"\n{\"id\":\"cut");
    let path = rig.put("odd.jsonl", "");
    std::fs::write(&path, bytes).unwrap();
    let report = rig.import(&path);
    assert_eq!(report.sessions, ["first", "second", "third"]);
    assert_eq!(report.skipped.len(), 7, "{:?}", report.skipped);
    assert!(report.skipped.iter().all(|skipped| skipped.id.contains("odd.jsonl:")));
    rig.sound();
}

/// Columns that hold what nobody could read there do not make the store unreadable.
#[test]
fn values_of_the_wrong_kind_are_left_out() {
    let rig = Rig::new();
    for (n, value) in ["\"yes\"", "-1", "1e308", "[1]", "{}", "null", "true", "\"\"", "9e15"]
        .into_iter()
        .enumerate()
    {
        let columns: Vec<String> = [
            "source",
            "model",
            "title",
            "cwd",
            "started_at",
            "ended_at",
            "end_reason",
            "archived",
            "pinned",
            "hidden",
            "input_tokens",
            "api_call_count",
            "rewind_count",
            "last_activity_at",
            "estimated_cost_usd",
            "parent_session_id",
            "title_source",
            "billing_base_url",
        ]
        .map(|name| format!("\"{name}\":{value}"))
        .into();
        let line = format!(
            r#"{{"id":"s{n}",{},"messages":[{{"role":"user","content":{value},"timestamp":{value},"active":{value}}},{{"role":"assistant","content":"x","tool_calls":{value},"reasoning_details":{value}}},{value}]}}"#,
            columns.join(",")
        );
        rig.import(&rig.put("odd.jsonl", &line));
        let all = hermes_store::SessionFilter {
            archived: true,
            delegates: true,
            ..hermes_store::SessionFilter::default()
        };
        assert_eq!(rig.store.sessions(&all).unwrap().len(), n + 1, "{value}");
        rig.jsonl(&format!("s{n}"));
        rig.sound();
    }
}

/// What stands under `_hermes` is believed only as far as it holds together.
#[test]
fn lines_of_this_program_that_do_not_hold_together_are_left_out() {
    let first = Rig::new();
    let source = first.python_home("hermes-0.22-schema31");
    first.import(&source);
    let line: Value = serde_json::from_str(&first.jsonl("20261104_010000_child0")).unwrap();
    let digest = "0".repeat(64);
    let changes: [(&str, Value); 12] = [
        ("/_hermes/version", 0.into()),
        ("/_hermes/version", 2.into()),
        ("/_hermes/generations/0/prompt", digest.clone().into()),
        ("/_hermes/generations/0/tools", digest.into()),
        ("/_hermes/generations/0/parent", 0.into()),
        ("/_hermes/generations/0/n", 7.into()),
        ("/_hermes/rows/0/seq", 0.into()),
        ("/_hermes/rows/0/seq", (1_u64 << 40).into()),
        ("/_hermes/rows/0/parts/0/seq", (1_u64 << 33).into()),
        ("/_hermes/rows/0/parts/0/row", 99.into()),
        ("/_hermes/rows/0/role", "nobody".into()),
        ("/_hermes/rows", Value::Null),
    ];
    for (place, value) in changes {
        let rig = Rig::new();
        let mut odd = line.clone();
        *odd.pointer_mut(place).unwrap_or_else(|| panic!("{place}")) = value.clone();
        let report = rig.import(&rig.put("changed.jsonl", &odd.to_string()));
        assert!(report.sessions.len() + report.skipped.len() == 1, "{place} {value}: {report:?}");
        rig.sound();
        if place.ends_with("/n") {
            continue;
        }
        assert_eq!(report.sessions, Vec::<String>::new(), "{place} {value}");
    }
}
