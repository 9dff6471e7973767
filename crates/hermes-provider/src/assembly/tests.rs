use proptest::prelude::*;

use super::*;
use crate::CallArguments;

/// A reply from the data of events.
fn run(events: &[&str], tools: &[&str]) -> Result<Reply, Failure> {
    let mut assembly = Assembly::default();
    let mut shown = String::new();
    let mut on = |fragment: Fragment<'_>| match fragment {
        Fragment::Text(text) | Fragment::Reasoning(text) => shown.push_str(text),
    };
    for event in events {
        assembly.feed(event, &mut on)?;
    }
    assembly.flush(&mut on);
    let tools: Vec<Arc<str>> = tools.iter().map(|tool| Arc::from(*tool)).collect();
    assembly.finish("r1", &tools)
}

fn delta(inside: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{{inside}}},"finish_reason":null}}]}}"#)
}

fn calls(fragments: &[&str], tools: &[&str]) -> String {
    let mut events: Vec<String> =
        fragments.iter().map(|f| delta(&format!("\"tool_calls\":[{f}]"))).collect();
    events.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned());
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let reply = run(&events, tools).unwrap();
    let shown: Vec<String> = reply
        .calls
        .iter()
        .map(|call| {
            let arguments = match &call.arguments {
                CallArguments::Whole(text) => text.to_string(),
                other => format!("{other:?}"),
            };
            format!("{} {} {arguments}", call.id, call.name)
        })
        .collect();
    shown.join(" | ")
}

#[test]
fn b099_every_dialect_of_fragments_gives_the_same_call() {
    let one = r#"c1 terminal {"a":1}"#;
    let tools = ["terminal", "read"];
    for fragments in [
        // The standard.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"a\""}}"#,
            r#"{"index":0,"function":{"arguments":":1}"}}"#,
        ][..],
        // The name again and again, with and without ids, with and without an index.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":"{\"a"}}"#,
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":"\":1}"}}"#,
        ],
        &[
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":"{\"a"}}"#,
            r#"{"index":0,"id":"c2","function":{"name":"terminal","arguments":"\":1}"}}"#,
        ],
        &[
            r#"{"id":"c1","function":{"name":"terminal","arguments":"{\"a"}}"#,
            r#"{"function":{"name":"terminal","arguments":"\":1}"}}"#,
        ],
        // The name in pieces, and the name so far.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"term"}}"#,
            r#"{"index":0,"function":{"name":"inal","arguments":"{\"a\":1}"}}"#,
        ],
        &[
            r#"{"index":0,"id":"c1","function":{"name":"term"}}"#,
            r#"{"index":0,"function":{"name":"terminal","arguments":"{\"a\":1}"}}"#,
        ],
        // New ids without a name, with the same index, a new one, or none.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":""}}"#,
            r#"{"index":0,"id":"c2","function":{"name":"","arguments":"{\"a\""}}"#,
            r#"{"index":1,"id":"c3","function":{"name":"","arguments":":1"}}"#,
            r#"{"id":"c4","function":{"arguments":"}"}}"#,
        ],
        // No index at all.
        &[
            r#"{"id":"c1","type":"function","function":{"name":"terminal","arguments":"{\"a\""}}"#,
            r#"{"function":{"arguments":":1}"}}"#,
        ],
        // Nulls for what is not there.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":null}}"#,
            r#"{"index":0,"id":null,"function":{"name":null,"arguments":"{\"a\":1}"}}"#,
        ],
        // Everything once more at the end.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":"{\"a\":1}"}}"#,
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":"{\"a\":1}"}}"#,
        ],
        // An object instead of text, after a placeholder.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"terminal","arguments":{}}}"#,
            r#"{"index":0,"function":{"arguments":{"a":1}}}"#,
        ],
        // The id before the name.
        &[
            r#"{"index":0,"id":"c1"}"#,
            r#"{"index":0,"function":{"name":"functions.terminal"}}"#,
            r#"{"index":0,"function":{"arguments":"{\"a\":1}"}}"#,
        ],
        // Beside the id instead of inside `function`.
        &[r#"{"id":"c1","name":"terminal","arguments":"{\"a\":1}"}"#],
    ] {
        assert_eq!(calls(fragments, &tools), one, "{fragments:?}");
    }
}

#[test]
fn parallel_calls_stay_apart_in_every_dialect() {
    let two = r#"c1 read {"a":1} | c2 read {"b":2}"#;
    for fragments in [
        // Interleaved by index.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"read","arguments":""}},{"index":1,"id":"c2","function":{"name":"read","arguments":"{"}}"#,
            r#"{"index":0,"function":{"arguments":"{\"a\":1"}}"#,
            r#"{"index":1,"function":{"arguments":"\"b\":2}"}},{"index":0,"function":{"arguments":"}"}}"#,
        ][..],
        // Index 0 for both.
        &[
            r#"{"index":0,"id":"c1","function":{"name":"read","arguments":"{\"a\":1}"}}"#,
            r#"{"index":0,"id":"c2","function":{"name":"read","arguments":"{\"b\":2}"}}"#,
        ],
        // No index, one after the other.
        &[
            r#"{"id":"c1","function":{"name":"read","arguments":"{\"a\":1}"}}"#,
            r#"{"id":"c2","function":{"name":"read","arguments":"{\"b\""}}"#,
            r#"{"function":{"arguments":":2}"}}"#,
        ],
        // No index, interleaved by id.
        &[
            r#"{"id":"c1","function":{"name":"read","arguments":"{\"a\""}},{"index":1,"id":"c2","function":{"name":"read","arguments":"{\"b\""}}"#,
            r#"{"id":"c1","function":{"arguments":":1}"}}"#,
            r#"{"id":"c2","function":{"arguments":":2}"}}"#,
        ],
    ] {
        assert_eq!(calls(fragments, &["read"]), two, "{fragments:?}");
    }
    // Another name begins another call, also before the first is complete.
    assert_eq!(
        calls(
            &[
                r#"{"index":0,"id":"c1","function":{"name":"now","arguments":"{}"}}"#,
                r#"{"index":0,"id":"c2","function":{"name":"read","arguments":"{}"}}"#
            ],
            &[]
        ),
        "c1 now {} | c2 read {}"
    );
}

#[test]
fn ids_and_names_can_always_be_sent_back() {
    assert_eq!(
        calls(
            &[
                r#"{"index":0,"function":{"name":"read","arguments":"{}"}}"#,
                r#"{"index":1,"id":"c1","function":{"name":" odd name!","arguments":"{}"}}"#,
                r#"{"index":2,"id":"c1","function":{"name":"read","arguments":"{}"}}"#,
                r#"{"index":3,"id":"c9"}"#
            ],
            &["read"]
        ),
        "call_r1_0 read {} | c1 odd_name_ {} | call_r1_2 read {}"
    );
    let long = "x".repeat(65);
    for (id, expected) in [
        ("functions.read:0", "functions.read:0"),
        ("toolu_01-A", "toolu_01-A"),
        ("a b", "call_r1_0"),
        ("../../x", "call_r1_0"),
        ("c\\u0000", "call_r1_0"),
        ("é", "call_r1_0"),
        (&long, "call_r1_0"),
    ] {
        let call =
            format!(r#"{{"index":0,"id":"{id}","function":{{"name":"read","arguments":"{{}}"}}}}"#);
        assert_eq!(calls(&[&call], &["read"]), format!("{expected} read {{}}"), "{id}");
    }
    // The id that would be made up is taken.
    assert_eq!(
        calls(
            &[
                r#"{"index":0,"id":"call_r1_1","function":{"name":"read","arguments":"{}"}}"#,
                r#"{"index":1,"function":{"name":"read","arguments":"{}"}}"#,
            ],
            &["read"]
        ),
        "call_r1_1 read {} | call_r1_1x read {}"
    );
}

#[test]
fn a_cut_call_is_cut_whatever_the_finish_reason_says() {
    for finish in ["tool_calls", "length", "stop"] {
        let call = delta(
            r#""tool_calls":[{"index":0,"id":"c","function":{"name":"w","arguments":"{\"path\":\"a"}}]"#,
        );
        let end = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{finish}"}}]}}"#);
        let reply = run(&[&call, &end], &[]).unwrap();
        assert!(matches!(reply.calls[0].arguments, CallArguments::Cut { .. }), "{finish}");
    }
}

#[test]
fn b091_reasoning_is_kept_in_every_dialect() {
    for (inside, field) in [
        (r#""content":"","reasoning_content":"think""#, "reasoning_content"),
        (r#""reasoning":"think""#, "reasoning"),
        (r#""reasoning":"think","reasoning_content":"think""#, "reasoning_content"),
        (r#""reasoning_details":[{"type":"reasoning.text","text":"think"}]"#, "reasoning_details"),
        (r#""content":"<think>think</think>""#, "think"),
        (r#""thinking":"think""#, "thinking"),
        (
            r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"think"}]}]"#,
            "thinking",
        ),
    ] {
        let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let reply = run(&[&delta(inside), end], &[]).unwrap();
        assert_eq!(reply.reasoning, Some((field.into(), "think".to_owned())), "{inside}");
        assert_eq!((reply.text.as_str(), &reply.finish), ("", &Finish::Stop), "{inside}");
    }
}

#[test]
fn structured_reasoning_is_joined_and_stays_valid_json() {
    let reply = run(
        &[
            &delta(r#""reasoning_details":[{"type":"reasoning.text","index":0,"text":"a","n":1e5}]"#),
            &delta(r#""reasoning_details":[{"type":"reasoning.text","index":0,"text":"b\ud800","signature":null}]"#),
            &delta(r#""reasoning_details":[{"type":"reasoning.text","index":0,"signature":"s"},{"type":"reasoning.encrypted","index":1,"data":"x"}]"#),
            "[DONE]",
        ],
        &[],
    )
    .unwrap();
    let (field, json) = &reply.raw_fields[0];
    assert_eq!(&**field, "reasoning_details");
    assert_eq!(
        &**json,
        "[{\"type\":\"reasoning.text\",\"index\":0,\"text\":\"ab\u{fffd}\",\"n\":1e5,\"signature\":\"s\"},{\"type\":\"reasoning.encrypted\",\"index\":1,\"data\":\"x\"}]"
    );
}

#[test]
fn an_end_without_a_marker_is_no_reply_and_an_empty_one_is_malformed() {
    let text = delta(r#""content":"half""#);
    let class = |events: &[&str]| run(events, &[]).map_err(|failure| failure.class);
    assert_eq!(class(&[&text]), Err(ErrorClass::Disconnected));
    assert!(class(&[&text, "[DONE]"]).is_ok());
    assert_eq!(class(&["[DONE]"]), Err(ErrorClass::Malformed));
    assert_eq!(
        class(&[r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#]),
        Err(ErrorClass::ContentFilter)
    );
    assert_eq!(
        class(&[r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"error"}]}"#]),
        Err(ErrorClass::Server)
    );
    assert_eq!(
        class(&[&text, r#"{"error":{"message":"overloaded","code":529}}"#]),
        Err(ErrorClass::Server)
    );
    assert_eq!(
        class(&[&text, r#"{"choices":[{"delta":{"content":"lost"#, "[DONE]"]),
        Err(ErrorClass::Malformed)
    );
}

#[test]
fn b092_a_document_that_is_no_reply_is_malformed_and_what_came_is_named() {
    for (document, words) in [
        (r#"{"choices":[{"message":null}]}"#, "without a message: {\"choices\":[{\"message\":null"),
        (r#"{"choices":[null]}"#, "without a message: {\"choices\":[null]}"),
        (r#"{"choices":["x"]}"#, "without a message: {\"choices\":[\"x\"]}"),
        (r#"{"choices":[{"message":"hi"}]}"#, "without a message: {\"choices\""),
        (r#"{"choices":[{"delta":{"content":"hi"}}]}"#, "without a message"),
        (r#"{"choices":[{"text":"hi"}]}"#, "without a message"),
        (r#"{"message":"hi"}"#, "without choices: {\"message\":\"hi\"}"),
        (r#"{"text":"hi"}"#, "without choices: {\"text\":\"hi\"}"),
        ("[null]", "without choices: [null]"),
        (r#"["x"]"#, "without choices: [\"x\"]"),
        (
            r#"{"choices":[{"message":{"content":""},"finish_reason":"length"}]}"#,
            "the output limit was reached before anything was written",
        ),
    ] {
        let mut assembly = Assembly::default();
        assembly.feed_document(document, &mut |_| {}).unwrap();
        assembly.flush(&mut |_| {});
        let failure = assembly.finish("r1", &[]).unwrap_err();
        assert_eq!(failure.class, ErrorClass::Malformed, "{document}");
        assert!(failure.message.contains(words), "{document}: {}", failure.message);
    }
}

#[test]
fn a_chunk_that_cannot_be_read_costs_only_itself_unless_it_may_be_part_of_a_call() {
    let (text, bad) = (delta(r#""content":"a""#), r#"{"choices":[{"delta":{"content":"lost"#);
    let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let reply = run(&[&text, bad, &text, end], &[]).unwrap();
    assert_eq!(reply.text, "aa");
    assert!(reply.problems.iter().any(|it| it.contains("could not be read")), "{reply:?}");
    assert!(run(&[&text, bad, &text, "[DONE]"], &[]).is_ok());
    // No terminal marker.
    assert!(run(&[&text, bad, &text], &[]).is_err());
    let call = delta(
        r#""tool_calls":[{"index":0,"id":"c","function":{"name":"w","arguments":"{\"a\":1}"}}]"#,
    );
    assert!(run(&[&call, bad, end], &[]).is_err());
    assert!(run(&[bad, &call, end], &[]).is_err());
}

#[test]
fn of_two_answers_only_the_first_counts_and_nothing_counts_behind_the_end() {
    for events in [
        &[r#"{"choices":[{"message":{"content":"one"}},{"message":{"content":"two"}}]}"#][..],
        &[
            r#"{"choices":[{"index":1,"message":{"content":"two"}},{"index":0,"message":{"content":"one"}}]}"#,
        ],
        &[
            r#"{"choices":[{"index":0,"message":{"content":"one"}},{"index":0,"message":{"content":"two"}}]}"#,
        ],
        &[&delta(r#""content":"one""#), "[DONE]", &delta(r#""content":"two""#)],
        &[r#"{"choices":[{"message":{"content":["one"]}}]}"#],
        &[r#"{"choices":[{"message":{"content":["o",{"type":"text","text":"n"},"e"]}}]}"#],
    ] {
        assert_eq!(run(events, &[]).unwrap().text, "one", "{events:?}");
    }
}

#[test]
fn oddities_lose_nothing() {
    for events in [
        &[
            "\u{feff}{\"choices\":[{\"delta\":{\"content\":\"x\u{1}\"},\"finish_reason\":\"stop\"}],\"n\":NaN}",
        ][..],
        &[
            r#"{"choices":[{"message":{"content":"x\u0001"},"finish_reason":"stop"}],"error":null,"usage":null}"#,
        ],
        &[r#"{"choices":[{"message":{"content":[{"type":"text","text":"x\u0001"}]}}]}"#],
        &[r#"{"choices":[{"text":"x\u0001","finish_reason":"stop"}]}"#],
        &[
            r#"{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"x\u0001"},"finish_reason":"stop"}]}"#,
        ],
        &[
            "ping",
            r#"{"choices":[{"delta":{"content":"x\u0001"},"finish_reason":"stop"}]}"#,
            r#"{"choi"#,
        ],
        &[
            r#"{"choices":[{"delta":{"content":"x\u0001"},"finish_reason":""}]}"#,
            r#"{"choices":[{"delta":null,"message":{"content":"x\u0001"},"finish_reason":"stop"}]}"#,
        ],
        &[
            r#"{"model":"m","message":{"role":"assistant","content":"x\u0001"},"done":false}"#,
            r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#,
        ],
        &[r#"{"choices":[{"delta":{"refusal":"x\u0001"},"finish_reason":"stop"}]}"#],
    ] {
        assert_eq!(run(events, &[]).unwrap().text, "x\u{1}", "{events:?}");
    }
}

#[test]
fn usage_and_model_are_found_wherever_they_stand() {
    for events in [
        &[
            r#"{"model":"m1","choices":[{"delta":{"content":"x"},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":4}}]}"#,
        ][..],
        &[
            r#"{"model":"m1","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":9,"completion_tokens":4}}}"#,
        ],
        &[
            r#"{"model":"","choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":9}}"#,
            r#"{"model":"m1","choices":[],"usage":{"completion_tokens":4}}"#,
            "[DONE]",
        ],
    ] {
        let reply = run(events, &[]).unwrap();
        assert_eq!((reply.usage.input, reply.usage.output), (Some(9), Some(4)), "{events:?}");
        assert_eq!(reply.served_model.as_deref(), Some("m1"));
    }
}

proptest! {
    #[test]
    fn any_events_end_in_a_reply_or_a_failure(events in proptest::collection::vec(prop_oneof![
        any::<String>(),
        Just("[DONE]".to_owned()),
        "[a-z\"{}:\\[\\]\\\\]{0,12}".prop_map(|text| delta(&format!("\"content\":\"{text}\""))),
        ("[0-2]", "[a-c]?", "(read|re|ad)?", "[{}\\\\\":a1]{0,6}").prop_map(|(index, id, name, arguments)| {
            let arguments = serde_json::to_string(&arguments).unwrap();
            delta(&format!(r#""tool_calls":[{{"index":{index},"id":"{id}","function":{{"name":"{name}","arguments":{arguments}}}}}]"#))
        }),
        Just(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned()),
    ], 0..12)) {
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        if let Ok(reply) = run(&events, &["read"]) {
            prop_assert!(!reply.is_empty());
            let mut ids: Vec<_> = reply.calls.iter().map(|call| call.id.clone()).collect();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), reply.calls.len());
        }
    }
}
