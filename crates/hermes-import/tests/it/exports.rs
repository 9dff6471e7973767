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
