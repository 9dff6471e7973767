//! Every request that was sent can be rebuilt, byte for byte.

use hermes_agent::UserInput;
use hermes_agent::inspect::{Inspector, Verdict};
use hermes_core::{DeleteReason, TurnOutcome};
use hermes_store::{DeleteRequest, RequestFilter};
use serde_json::json;

use crate::bench::{Bench, say};

const TURNS: usize = 200;

/// Arguments of tool calls as models write them; each is valid JSON that a JSON library would
/// not write the same way.
const AWKWARD: [&str; 6] = [
    r#"{"zeta": 1e5, "alpha": "x"}"#,
    r#"{"n":123456789012345678901234567890}"#,
    "{\n  \"alpha\" : \"\\u00e9\\/ \\ud83d\\ude00\"\n}",
    r#"{"zeta":-0.0}"#,
    r#"{"zeta":1.10,"alpha":"tab\tquote\"back\\slash"}"#,
    "{}",
];

/// A plain answer, or a tool call with awkward arguments followed by an answer.
fn script() -> String {
    let mut entries = Vec::new();
    let mut add = |message: serde_json::Value, finish: &str| {
        entries.push(json!({"kind": "main", "body": {
            "id": "r", "object": "chat.completion", "created": 1, "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        }}));
    };
    for turn in 0..TURNS {
        if turn % 3 == 0 {
            let call = |id: String, arguments: &str| {
                json!({"id": id, "type": "function",
                       "function": {"name": "echo", "arguments": arguments}})
            };
            let calls = [
                call(format!("a{turn}"), AWKWARD[turn / 3 % AWKWARD.len()]),
                call(format!("b{turn}"), AWKWARD[(turn / 3 + 1) % AWKWARD.len()]),
            ];
            let text = if turn % 2 == 0 { "" } else { "let me look" };
            let message = json!({"role": "assistant", "content": text, "tool_calls": calls,
                                 "reasoning_content": "thinking\nabout it"});
            add(message, "tool_calls");
        }
        let text = format!("answer {turn}: \u{1f9ea} \"quoted\" \\ back\u{2029} end");
        add(json!({"role": "assistant", "content": text}), "stop");
    }
    serde_json::Value::Array(entries).to_string()
}

fn input(turn: usize) -> UserInput {
    let mut input = UserInput::text(format!("question {turn}: caf\u{e9} \u{0} \"x\"\r\n\tend"));
    if turn % 10 == 4 {
        input.images.push(hermes_agent::Image {
            media_type: "image/png".to_owned(),
            bytes: format!("\u{89}PNG picture {}", turn / 20).into_bytes(),
        });
    }
    input
}

#[test]
fn two_hundred_turns_resumed_twice_verify_and_equal_what_arrived() {
    let bench = Bench::new(Some(&script()));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let id = conversation.id().clone();
    let prompt = conversation.snapshot().digest;
    for turn in 0..TURNS {
        if turn == 70 || turn == 140 {
            conversation.release().unwrap();
            drop(conversation);
            conversation = bench.resume(&services, &id);
            assert_eq!(conversation.resume_report().rebuilt_because, None);
        }
        let report = say(&services, &mut conversation, input(turn));
        assert_eq!(report.outcome, TurnOutcome::Answered, "turn {turn}");
    }

    let requests = services.store.requests(&RequestFilter::default()).unwrap();
    let received = bench.server.received();
    assert_eq!(requests.len(), received.len());
    assert!(requests.len() > TURNS);
    let mut inspector = Inspector::new(&services.store);
    for (request, received) in requests.iter().zip(&received) {
        let id = &request.attempt.id;
        assert!(!request.has_kept_body, "{id} was stored, not rebuilt");
        assert_eq!(inspector.verify(request), Verdict::Verified, "{id}");
        assert!(inspector.body(request).unwrap() == received[..], "{id}");
        assert_eq!(request.attempt.prompt, prompt, "{id}");
    }
    // What a JSON library would have rewritten went out as it came.
    let last = String::from_utf8(received.last().unwrap().clone()).unwrap();
    assert!(last.contains(crate::bench::DEFINITION));
    assert!(last.contains(r#"{\"zeta\": 1e5, \"alpha\": \"x\"}"#));
    assert!(last.contains("123456789012345678901234567890"));

    conversation.release().unwrap();
    services.store.delete_session(DeleteRequest::new(vec![id], DeleteReason::Delete)).unwrap();
    let requests = services.store.requests(&RequestFilter::default()).unwrap();
    assert_eq!(requests.len(), received.len(), "the ledger keeps its rows");
    let mut inspector = Inspector::new(&services.store);
    for request in &requests {
        assert_eq!(inspector.verify(request), Verdict::Deleted);
    }
}

#[test]
fn a_changed_row_is_found_out() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("hello"));
    conversation.release().unwrap();
    let mut request = services.store.requests(&RequestFilter::default()).unwrap().remove(0);
    let mut inspector = Inspector::new(&services.store);
    assert_eq!(inspector.verify(&request), Verdict::Verified);
    // As if another body had been sent than the rows give.
    request.attempt.body = hermes_core::Digest::of("something else");
    assert!(matches!(inspector.verify(&request), Verdict::Differs { .. }));
}

#[test]
fn a_store_that_cannot_be_read_is_no_proof_of_a_difference() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("hello"));
    conversation.release().unwrap();
    let request = services.store.requests(&RequestFilter::default()).unwrap().remove(0);
    // A plain file where the side files should be.
    std::fs::remove_dir_all(services.home.spool_dir()).ok();
    std::fs::write(services.home.spool_dir(), "").unwrap();
    let verdict = Inspector::new(&services.store).verify(&request);
    assert!(matches!(verdict, Verdict::Unreadable { .. }), "{verdict:?}");
}
