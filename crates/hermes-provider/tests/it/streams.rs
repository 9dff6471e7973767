//! The event streams of the cases, whole, cut and through sockets.

use hermes_core::ErrorClass;
use hermes_provider::{Assembly, CallArguments, Finish, Fragment, Reply, SseParser};

use crate::rig::{Event, Rig, case, script, server};

/// Every complete stream of the cases: text, or the call that it holds.
const STREAMS: [(&str, &str); 11] = [
    ("B031/slow.sse", "part one part two"),
    ("B096/usage_last.sse", "In short: ready."),
    ("B096/no_done.sse", "Status: ready"),
    ("B096/crlf_comments.sse", "ab"),
    ("B096/no_space.sse", "x"),
    ("B096/multi_line_data.sse", "y"),
    ("B096/finish_then_more.sse", "x"),
    ("B099/name_in_pieces.sse", "terminal {\"command\":\"date\"}"),
    ("B099/name_repeated.sse", "terminal {\"command\":\"date\"}"),
    ("B099/nameless_new_ids.sse", "terminal {\"command\":\"date\"}"),
    ("B066/answer.sse", ANSWER),
];

/// The whole text of B066, told apart by what it must hold.
const ANSWER: &str = "*";

fn outcome(reply: &Reply) -> String {
    let calls = reply.calls.iter().map(|call| {
        let CallArguments::Whole(arguments) = &call.arguments else { panic!("{call:?}") };
        format!("{} {arguments}", call.name)
    });
    let mut all: Vec<String> = calls.collect();
    if !reply.text.is_empty() {
        all.push(reply.text.clone());
    }
    all.join(" + ")
}

fn parse(chunks: &[&[u8]]) -> Result<Reply, ErrorClass> {
    let mut parser = SseParser::default();
    let mut assembly = Assembly::default();
    let mut shown = String::new();
    let mut on = |fragment: Fragment<'_>| {
        if let Fragment::Text(text) = fragment {
            shown.push_str(text);
        }
    };
    let mut events = Vec::new();
    for chunk in chunks {
        parser.push(chunk, &mut |event| events.push(event));
    }
    parser.finish(&mut |event| events.push(event));
    for event in events {
        assembly.feed(&event.data, &mut on).map_err(|failure| failure.class)?;
    }
    assembly.flush(&mut on);
    let reply = assembly.finish("r", &["terminal".into()]).map_err(|failure| failure.class)?;
    assert_eq!(shown, reply.text);
    Ok(reply)
}

#[test]
fn every_stream_gives_the_same_reply_wherever_its_bytes_are_cut() {
    for (name, expected) in STREAMS {
        let bytes = std::fs::read(case(name)).unwrap();
        let whole = parse(&[&bytes]).unwrap();
        if expected != ANSWER {
            assert_eq!(outcome(&whole), expected, "{name}");
        }
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(parse(&[head, tail]).unwrap(), whole, "{name} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single).unwrap(), whole, "{name} byte by byte");
    }
}

#[test]
fn b096_b099_every_stream_is_one_request_through_a_socket() {
    for (name, expected) in STREAMS {
        for chunks in ["[100000]", "[1]", "[7]", "[150, 3, 1000]"] {
            let server =
                server(Some(script(&format!(r#"[{{"file":"{name}","chunks":{chunks}}}]"#))));
            let mut rig = Rig::new(&[&server]);
            let answered = rig.run().unwrap();
            if expected != ANSWER {
                assert_eq!(outcome(&answered.reply), expected, "{name} {chunks}");
            }
            assert_eq!(rig.shown(), answered.reply.text);
            assert_eq!(server.requests(), 1, "{name}");
            if name == "B096/usage_last.sse" {
                let usage = answered.end.as_ref().unwrap().usage;
                assert_eq!((usage.input, usage.output), (Some(9), Some(4)));
                assert_eq!(answered.end.as_ref().unwrap().finish_reason.as_deref(), Some("stop"));
                assert_eq!(
                    answered.end.as_ref().unwrap().served_model.as_deref(),
                    Some("scripted")
                );
            }
            if name.starts_with("B099") {
                assert_eq!(answered.reply.finish, Finish::ToolCalls);
            }
        }
    }
}

#[test]
fn b002_a_stream_without_an_end_marker_is_no_answer_however_it_ends() {
    let bytes = std::fs::read(case("B002/summary_cut.sse")).unwrap();
    assert_eq!(parse(&[&bytes]).unwrap_err(), ErrorClass::Disconnected);
    for then in ["reset", "close"] {
        let server = server(Some(script(&format!(
            r#"[{{"file":"B002/summary_cut.sse","then":"{then}"}}, {{"say":"never asked for"}}]"#
        ))));
        let mut rig = Rig::new(&[&server]);
        let error = rig.run().unwrap_err();
        assert_eq!(error.class, ErrorClass::Disconnected, "{then}");
        let partial = error.partial.unwrap();
        // A reset may overtake the last bytes; what was shown is what is kept.
        assert_eq!(partial.text, rig.shown());
        if then == "close" {
            assert_eq!(partial.text, "## Goal\nThe user stores facts. F01 = 37, F02 = 7");
        }
        assert_eq!(server.requests(), 1, "no silent retry after the first delta");
        assert_eq!(rig.ledger.failed.len(), 1);
    }
}

#[test]
fn b031_text_is_handed_out_as_it_comes_and_after_the_ledger_row() {
    let server = server(Some(script(r#"[{"file":"B031/slow.sse"}]"#)));
    let mut rig = Rig::new(&[&server]);
    let answered = rig.run().unwrap();
    let id = answered.attempt.id;
    assert_eq!(
        rig.ledger.log.events(),
        [
            Event::Committed(id.clone()),
            Event::Started(id),
            Event::Text("part one ".to_owned()),
            Event::Text("part two".to_owned()),
        ]
    );
}

#[test]
fn a_document_is_taken_for_a_stream_and_a_stream_for_a_document() {
    let document = r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}"#;
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let quoted = |text: &str| format!("{text:?}");
    for (body, content_type) in [
        (document, "application/json"),
        (document, "text/event-stream"),
        (stream, "text/event-stream; charset=utf-8"),
        (stream, "text/plain"),
    ] {
        for streaming in [true, false] {
            let server = server(Some(script(&format!(
                r#"[{{"body":{},"headers":{{"content-type":"{content_type}"}}}}]"#,
                quoted(body)
            ))));
            let mut rig = Rig::new(&[&server]);
            rig.endpoints[0].profile.stream = streaming;
            let answered = rig.run().unwrap();
            assert_eq!(answered.reply.text, "x", "{content_type} {body}");
            assert_eq!(rig.shown(), "x");
        }
    }
    // Lines of JSON, and a byte order mark.
    let lines = "\u{feff}{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n";
    let server = server(Some(script(&format!(
        r#"[{{"body":{}}}]"#,
        quoted(lines).replace("\\u{feff}", "\\ufeff")
    ))));
    assert_eq!(Rig::new(&[&server]).run().unwrap().reply.text, "x");
}

#[test]
fn an_error_inside_a_stream_is_the_error_it_carries() {
    let before = "data: {\\\"error\\\":{\\\"message\\\":\\\"slow down\\\",\\\"code\\\":429}}\\n\\n";
    let text = "data: {\\\"choices\\\":[{\\\"delta\\\":{\\\"content\\\":\\\"half\\\"}}]}\\n\\n";
    let entry = |body: String| {
        format!(r#"{{"body":"{body}","headers":{{"content-type":"text/event-stream"}}}}"#)
    };
    // Nothing shown: tried again.
    let one = server(Some(script(&format!(r#"[{},{{"say":"whole"}}]"#, entry(before.to_owned())))));
    let answered = Rig::new(&[&one]).run().unwrap();
    assert_eq!((answered.reply.text.as_str(), one.requests()), ("whole", 2));
    // Something shown: reported, with what was shown.
    let two = server(Some(script(&format!("[{}]", entry(format!("{text}{before}"))))));
    let error = Rig::new(&[&two]).run().unwrap_err();
    assert_eq!(error.class, ErrorClass::RateLimit);
    assert_eq!(error.partial.unwrap().text, "half");
    assert_eq!(two.requests(), 1);
}

#[test]
fn b091_reasoning_without_an_answer_is_a_reply_and_no_failure() {
    let server = server(Some(script(r#"[{"file":"B091/reasoning_only.resp.json"}]"#)));
    let reply = Rig::new(&[&server]).run().unwrap().reply;
    assert_eq!((reply.text.as_str(), server.requests()), ("", 1));
    let thought = "The tool says 42, so I will answer 42.".to_owned();
    assert_eq!(reply.reasoning, Some(("reasoning_content".into(), thought)));
}

#[test]
fn a_thought_of_a_script_comes_apart_from_the_answer() {
    for stream in [true, false] {
        let server = server(Some(script(r#"[{"think":"let me see","say":"done"}]"#)));
        let mut rig = Rig::new(&[&server]);
        rig.endpoints[0].profile.stream = stream;
        let reply = rig.run().unwrap().reply;
        assert_eq!(reply.reasoning, Some(("reasoning_content".into(), "let me see".to_owned())));
        assert_eq!((reply.text, rig.shown()), ("done".to_owned(), "done".to_owned()));
    }
}

#[test]
fn an_error_behind_the_finish_and_an_error_event_are_told_apart() {
    let finish = "data: {\\\"choices\\\":[{\\\"delta\\\":{\\\"content\\\":\\\"x\\\"},\\\"finish_reason\\\":\\\"stop\\\"}]}\\n\\n";
    let error = "event: error\\ndata: {\\\"message\\\":\\\"overloaded\\\"}\\n\\n";
    let entry = |body: &str| {
        format!(r#"{{"body":"{body}","headers":{{"content-type":"text/event-stream"}}}}"#)
    };
    let late = server(Some(script(&format!("[{}]", entry(&format!("{finish}{error}"))))));
    assert_eq!(Rig::new(&[&late]).run().unwrap().reply.text, "x");
    let early = server(Some(script(&format!("[{}]", entry(error)))));
    let mut rig = Rig::new(&[&early]);
    rig.retries = 0;
    let failed = rig.run().unwrap_err();
    assert_eq!(failed.class, ErrorClass::Server);
    assert!(failed.message.contains("overloaded"), "{failed}");
}
