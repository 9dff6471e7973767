//! Users' problems that need the whole program, each named after its case.

use std::fs;

use hermes_provider::rehearsal::Script;
use serde_json::Value;

use crate::rig::{Rig, case, serve};

fn script(case_name: &str, text: &str) -> Script {
    Script::parse(&case(case_name).join("script.json"), text).unwrap()
}

fn messages(body: &[u8]) -> Vec<Value> {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["messages"].as_array().unwrap().clone()
}

#[test]
fn b024_a_one_shot_resume_goes_on_with_the_same_session_and_route() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let first = rig.json(["chat", "--json", "-q", "my word is HELIOTROPE"]);
    let session = first["session_id"].as_str().unwrap();
    let second = rig.json(["--resume", session, "chat", "--json", "-q", "hello"]);
    assert_eq!(second["session_id"], session);
    let last = server.received().pop().unwrap();
    assert!(String::from_utf8_lossy(&last).contains("HELIOTROPE"));
    let sessions = rig.json(["sessions", "list", "--json"]);
    assert_eq!(sessions.as_array().unwrap().len(), 1);
}

#[test]
fn b032_an_old_unanswered_request_is_dated_and_marked_and_stands_apart() {
    let rig = Rig::new();
    let failing = r#"[{"kind":"main","status":400,"body":{"error":{"message":"no"}}},
                      {"kind":"main","status":400,"body":{"error":{"message":"no"}}}]"#;
    let server = serve(Some(script("B032", failing)));
    rig.endpoint(&server, "");
    let first = rig.run(["chat", "--json", "-q", "reset the password of account j-test"]);
    assert_eq!(first.code, 4, "{}", first.stderr);
    let value: Value = serde_json::from_str(&first.stdout).unwrap();
    let session = value["session_id"].as_str().unwrap();
    let second = rig.run(["chat", "--resume", session, "-q", "and mail it to him"]);
    assert_eq!(second.code, 4, "{}", second.stderr);
    rig.ok(["chat", "--resume", session, "-q", "do you have access to the wiki?"]);

    let sent = messages(&server.received().pop().unwrap());
    let last = sent.last().unwrap();
    assert_eq!(last["role"], "user");
    assert_eq!(last["content"], "do you have access to the wiki?");
    let old: Vec<&Value> = sent
        .iter()
        .filter(|m| m["role"] == "user")
        .filter(|m| m["content"].as_str().unwrap().contains("not executed"))
        .collect();
    assert_eq!(old.len(), 2, "{sent:#?}");
    for message in old {
        assert!(message["content"].as_str().unwrap().contains("20"), "{message}");
    }
    let roles: Vec<&str> = sent.iter().skip(1).map(|m| m["role"].as_str().unwrap()).collect();
    assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
}

#[test]
fn b031_interrupted_turns_keep_the_message_the_partial_answer_and_their_times() {
    let rig = Rig::new();
    // The server ends the stream in the middle, as often as it is asked.
    let whole = fs::read_to_string(case("B031").join("slow.sse")).unwrap();
    let first = whole.split("\n\n").next().unwrap();
    let text = serde_json::json!([{
        "kind": "main",
        "headers": {"content-type": "text/event-stream"},
        "body": format!("{first}\n\n"),
        "then": "reset",
        "repeat": 100
    }]);
    let server = serve(Some(script("B031", &text.to_string())));
    rig.endpoint(&server, "agent:\n  api_max_retries: 0\n");
    let ran = rig.run(["chat", "--json", "-q", "M1"]);
    assert!(ran.code == 4 || ran.code == 0, "{} {}", ran.code, ran.stderr);
    let sessions = rig.json(["sessions", "list", "--json"]);
    let session = sessions[0]["id"].as_str().unwrap();
    let export: Value =
        serde_json::from_str(&rig.ok(["sessions", "export", "--session-id", session])).unwrap();
    let rows = export["messages"].as_array().unwrap();
    assert_eq!(rows[0]["content"], "M1");
    assert_eq!(rows[1]["role"], "assistant");
    assert!(rows[1]["content"].as_str().unwrap().starts_with("part one "), "{}", rows[1]);
}

#[test]
fn b092_an_answer_that_is_none_is_one_clear_error_and_leaves_no_row() {
    for file in fs::read_dir(case("B092")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name == "expected.md" {
            continue;
        }
        let rig = Rig::new();
        let text = format!(r#"[{{"kind":"main","file":"{name}","repeat":100}}]"#);
        let server = serve(Some(script("B092", &text)));
        rig.endpoint(&server, "");
        let ran = rig.run(["chat", "--json", "-q", "hello"]);
        assert_eq!(ran.code, 4, "{name}: {}", ran.stderr);
        assert!(server.received().len() <= 4, "{name}: {} requests", server.received().len());
        let sessions = rig.json(["sessions", "list", "--json"]);
        assert_eq!(sessions[0]["messages"], 1, "{name}: {sessions}");
        assert!(!ran.stdout.contains("(empty)"), "{name}");
    }
}

#[test]
fn b096_each_dialect_of_a_complete_stream_takes_one_request() {
    let texts = [
        ("usage_last.sse", "In short: ready."),
        ("no_done.sse", "Status: ready"),
        ("crlf_comments.sse", "ab"),
        ("finish_then_more.sse", "x"),
        ("multi_line_data.sse", "y"),
        ("no_space.sse", "x"),
    ];
    for (name, text) in texts {
        let rig = Rig::new();
        let server =
            serve(Some(script("B096", &format!(r#"[{{"kind":"main","file":"{name}"}}]"#))));
        rig.endpoint(&server, "");
        let value = rig.json(["chat", "--json", "-q", "hello"]);
        assert_eq!(server.received().len(), 1, "{name}");
        assert_eq!(value["answer"], text, "{name}");
    }
}

#[test]
fn b097_a_provider_that_demands_reasoning_back_gets_it_and_one_refusal_does_not_poison() {
    let rig = Rig::new();
    let text = fs::read_to_string(case("B097").join("provider.json")).unwrap();
    let server = serve(Some(script("B097", &text)));
    rig.endpoint(&server, "approvals:\n  allow: [date]\n");
    let value = rig.json(["chat", "--json", "-q", "what day is it?"]);
    assert_eq!(value["answer"], "Monday", "{value}");
    let again = rig.json(["chat", "--json", "-c", "-q", "hello"]);
    assert_eq!(again["outcome"], "answered");
    let ran = rig.run(["requests", "verify", "--all"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
}

#[test]
fn b094_a_cut_or_malformed_call_never_runs_and_the_next_request_is_valid() {
    for file in fs::read_dir(case("B094")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name == "expected.md" {
            continue;
        }
        let rig = Rig::new();
        let text = format!(r#"[{{"kind":"main","file":"{name}"}}]"#);
        let server = serve(Some(script("B094", &text)));
        rig.endpoint(&server, "");
        let value = rig.json(["chat", "--json", "-q", "go"]);
        assert_eq!(value["outcome"], "answered", "{name}: {value}");
        let second = messages(server.received().get(1).unwrap());
        for message in &second {
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let arguments = call["function"]["arguments"].as_str().unwrap();
                let parsed: Value = serde_json::from_str(arguments)
                    .unwrap_or_else(|error| panic!("{name}: {arguments:?}: {error}"));
                assert!(parsed.is_object(), "{name}: {arguments}");
            }
        }
    }
}

#[test]
fn b099_fragments_of_a_call_become_one_call() {
    for name in ["name_in_pieces.sse", "name_repeated.sse", "nameless_new_ids.sse"] {
        let rig = Rig::new();
        let server =
            serve(Some(script("B099", &format!(r#"[{{"kind":"main","file":"{name}"}}]"#))));
        rig.endpoint(&server, "approvals:\n  allow: [date]\n");
        rig.json(["chat", "--json", "-q", "go"]);
        let second = messages(server.received().get(1).unwrap());
        let calls: Vec<&Value> =
            second.iter().filter_map(|m| m["tool_calls"].as_array()).flatten().collect();
        assert_eq!(calls.len(), 1, "{name}");
        assert_eq!(calls[0]["function"]["name"], "terminal", "{name}");
        let arguments: Value =
            serde_json::from_str(calls[0]["function"]["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, serde_json::json!({"command": "date"}), "{name}");
    }
}

#[test]
fn b104_a_fallback_chain_stored_as_text_is_a_chain_or_an_error_never_nothing() {
    let home = case("B104").join("home");
    for file in fs::read_dir(home).unwrap() {
        let path = file.unwrap().path();
        let rig = Rig::new();
        rig.config(&fs::read_to_string(&path).unwrap());
        let ran = rig.run(["config", "check"]);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains("fallback_providers") || all.contains('x'), "{path:?}: {all}");
        assert!(ran.code == 0 || ran.code == 3, "{path:?}: {all}");
    }
    let rig = Rig::new();
    rig.config("model:\n  default: scripted\n");
    rig.ok(["config", "set", "fallback_providers", r#"[{"provider":"x","model":"y"}]"#]);
    let text = fs::read_to_string(rig.home().join("config.yaml")).unwrap();
    assert!(!text.contains("'["), "stored as a string: {text}");
}
