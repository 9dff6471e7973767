use hermes_core::{
    Block, Refresh, Seq, Source, Tier, Timestamp, Tokens, ToolDef, ToolSet, Verdict,
};
use proptest::prelude::*;

use super::*;
use crate::json;

fn snapshot(blocks: &[&str]) -> Arc<Snapshot> {
    let mut text = String::new();
    let mut list = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let start = text.len();
        text.push_str(block);
        list.push(Block {
            id: format!("block{index}"),
            tier: Tier::Stable,
            source: Source::Config { key: index.to_string() },
            source_digest: Digest::of(block),
            rendered_digest: Digest::of(block),
            range: ByteRange { start, end: text.len() },
            tokens: Tokens::estimated(1),
            loaded_at: Timestamp(0),
            verdict: Verdict::Loaded,
            refresh: Refresh::NextSession,
        });
        text.push('\n');
    }
    Arc::new(Snapshot { digest: Digest::of(&text), text: text.into(), blocks: list })
}

fn part(n: u64) -> Provenance {
    Provenance::Part { row: Seq(n), part: Seq(n) }
}

fn message(role: Role, pieces: Vec<Piece>) -> Message {
    Message { role, tool_call_id: (role == Role::Tool).then(|| "c1".into()), pieces }
}

fn text(n: u64, text: &str) -> Piece {
    Piece::Text { text: text.into(), from: part(n) }
}

fn call(n: u64, arguments: &str) -> Piece {
    Piece::ToolCall {
        id: "c1".into(),
        name: "terminal".into(),
        arguments: arguments.into(),
        from: part(n),
    }
}

fn tool(json: &str) -> ToolDef {
    ToolDef { name: "t".into(), json: json.into() }
}

fn assembled(prompt: &[&str], tools: Vec<ToolDef>, messages: Vec<Message>) -> Assembled {
    Assembled { snapshot: snapshot(prompt), tools: Arc::new(ToolSet::new(tools)), messages }
}

fn body(assembled: &Assembled, profile: &WireProfile, params: &Params) -> String {
    String::from_utf8(encode(assembled, profile, "m", params).body.to_vec()).unwrap()
}

#[test]
fn a_whole_conversation_looks_like_this_on_the_wire() {
    let assembled = assembled(
        &["You are \"H\"."],
        vec![tool(r#"{"type":"function","z":1e5,"a":[ 1 ]}"#)],
        vec![
            message(Role::User, vec![text(1, "date?"), text(2, "note")]),
            message(Role::Assistant, vec![call(3, r#"{"command": "date"}"#)]),
            message(Role::Tool, vec![text(4, "Mon\n")]),
            message(Role::Assistant, vec![text(5, "Mon")]),
        ],
    );
    let params = Params(vec![
        ("temperature".into(), "1e0".into()),
        ("seed".into(), "12345678901234567890".into()),
    ]);
    assert_eq!(
        body(&assembled, &WireProfile::default(), &params),
        concat!(
            r#"{"model":"m","messages":[{"role":"system","content":"You are \"H\".\n"},"#,
            r#"{"role":"user","content":"date?\n\nnote"},"#,
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"terminal","arguments":"{\"command\": \"date\"}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"c1","content":"Mon\n"},"#,
            r#"{"role":"assistant","content":"Mon"}],"#,
            r#""tools":[{"type":"function","z":1e5,"a":[ 1 ]}],"#,
            r#""stream":true,"stream_options":{"include_usage":true},"temperature":1e0,"seed":12345678901234567890}"#
        )
    );
}

#[test]
fn profiles_decide_role_stream_tools_and_images() {
    let image = Piece::Image {
        media_type: "image/png".into(),
        data: Arc::from(&b"abc"[..]),
        from: part(2),
    };
    let assembled = assembled(
        &["p"],
        vec![tool("{}")],
        vec![message(Role::User, vec![text(1, "look"), text(3, "here"), image, text(4, "end")])],
    );
    assert_eq!(
        body(&assembled, &WireProfile::default(), &Params::default()),
        concat!(
            r#"{"model":"m","messages":[{"role":"system","content":"p\n"},{"role":"user","content":["#,
            r#"{"type":"text","text":"look\n\nhere"},{"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}},{"type":"text","text":"end"}]}],"#,
            r#""tools":[{}],"stream":true,"stream_options":{"include_usage":true}}"#
        )
    );
    let plain = WireProfile {
        stream: false,
        system_role: "developer".into(),
        images: false,
        tools: false,
        ..WireProfile::default()
    };
    assert_eq!(
        body(&assembled, &plain, &Params::default()),
        concat!(
            r#"{"model":"m","messages":[{"role":"developer","content":"p\n"},{"role":"user","content":"look\n\nhere\n\n"#,
            r#"[an image (image/png, 3 bytes) is not shown: this endpoint takes text only]\n\nend"}],"stream":false}"#
        )
    );
}

#[test]
fn b097_reasoning_goes_back_only_where_it_is_demanded() {
    let reasoning = Piece::Reasoning {
        field: "reasoning".into(),
        text: "I need \"it\".".into(),
        from: part(1),
    };
    let raw = Piece::Raw {
        field: "reasoning_details".into(),
        json: r#"[{"n":1E2}]"#.into(),
        from: part(2),
    };
    let clash = Piece::Raw { field: "content".into(), json: "5".into(), from: part(6) };
    let history = vec![
        message(Role::Assistant, vec![reasoning.clone(), raw, clash, call(3, "{}")]),
        message(Role::Assistant, vec![call(4, "{}")]),
        message(Role::Assistant, vec![reasoning, text(5, "done")]),
    ];
    let assembled = Assembled { snapshot: snapshot(&[]), ..assembled(&[], vec![], history) };
    let omit = body(&assembled, &WireProfile::default(), &Params::default());
    assert!(!omit.contains("reasoning"), "{omit}");
    let require = WireProfile {
        reasoning: ReasoningReplay::Require,
        stream: false,
        ..WireProfile::default()
    };
    assert_eq!(
        body(&assembled, &require, &Params::default()),
        concat!(
            r#"{"model":"m","messages":[{"role":"assistant","content":"","reasoning_content":"I need \"it\".","reasoning_details":[{"n":1E2}],"#,
            r#""tool_calls":[{"id":"c1","type":"function","function":{"name":"terminal","arguments":"{}"}}]},"#,
            r#"{"role":"assistant","content":"","reasoning_content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"terminal","arguments":"{}"}}]},"#,
            r#"{"role":"assistant","content":"done"}],"stream":false}"#
        )
    );
}

#[test]
fn the_history_digest_does_not_depend_on_the_prompt() {
    let history =
        || vec![message(Role::User, vec![text(1, "x")]), message(Role::User, vec![text(2, "y")])];
    let one = encode(
        &assembled(&["a"], vec![], history()),
        &WireProfile::default(),
        "m",
        &Params::default(),
    );
    let two = encode(
        &assembled(&["b", "c"], vec![], history()),
        &WireProfile::default(),
        "n",
        &Params::default(),
    );
    assert_eq!(one.history, two.history);
    assert_ne!(one.digest, two.digest);
    assert_eq!(
        one.history,
        Digest::of(r#"{"role":"user","content":"x"},{"role":"user","content":"y"}"#)
    );
}

/// Reads the inside of a JSON string back.
fn unescape(inside: &str) -> String {
    let quoted = format!("\"{inside}\"");
    json::parse(&quoted).unwrap().value.as_str().unwrap().to_owned()
}

fn raw_json() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#"{"b":1,"a":1e5}"#.to_owned()),
        Just("123456789012345678901234567890.10".to_owned()),
        Just(r#""\ud800 \u00e9 \/""#.to_owned()),
        Just("[ null , -0.0E-7 ]".to_owned()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ]
}

fn piece() -> impl Strategy<Value = Piece> {
    let from = || (0u64..50).prop_map(part);
    prop_oneof![
        (any::<String>(), from()).prop_map(|(text, from)| Piece::Text { text: text.into(), from }),
        (any::<String>(), from()).prop_map(|(text, from)| Piece::Reasoning {
            field: "reasoning".into(),
            text: text.into(),
            from
        }),
        (any::<Vec<u8>>(), from()).prop_map(|(data, from)| Piece::Image {
            media_type: "image/png".into(),
            data: data.into(),
            from
        }),
        ("[a-z]{1,8}", raw_json(), from()).prop_map(|(field, json, from)| Piece::Raw {
            field: field.into(),
            json: json.into(),
            from
        }),
        (any::<String>(), raw_json(), from()).prop_map(|(id, arguments, from)| Piece::ToolCall {
            id: id.into(),
            name: "t".into(),
            arguments: arguments.into(),
            from
        }),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::Tool)]
}

proptest! {
    #[test]
    fn every_body_is_json_and_every_range_holds_its_piece(
        prompt in proptest::collection::vec(any::<String>(), 0..5),
        tools in proptest::collection::vec(raw_json(), 0..3),
        messages in proptest::collection::vec((role(), proptest::collection::vec(piece(), 0..5)), 0..5),
        params in proptest::collection::vec(("[a-z]{1,5}", raw_json()), 0..3),
        require in any::<bool>(),
        images in any::<bool>(),
    ) {
        let prompt: Vec<&str> = prompt.iter().map(String::as_str).collect();
        let tools = tools.iter().map(|json| tool(json)).collect();
        let messages = messages.into_iter().map(|(role, pieces)| message(role, pieces)).collect();
        let assembled = assembled(&prompt, tools, messages);
        let profile = WireProfile {
            images,
            reasoning: if require { ReasoningReplay::Require } else { ReasoningReplay::Omit },
            ..WireProfile::default()
        };
        let params = Params(params.into_iter().map(|(n, v)| (n.into(), v.into())).collect());
        let encoded = encode(&assembled, &profile, "m\"odel", &params);
        prop_assert_eq!(&encoded, &encode(&assembled, &profile, "m\"odel", &params));
        prop_assert_eq!(encoded.digest, Digest::of(&encoded.body));

        let body = std::str::from_utf8(&encoded.body).unwrap();
        let parsed = json::parse(body).unwrap();
        prop_assert_eq!(parsed.value.raw, body);
        prop_assert_eq!(parsed.value.get("model").and_then(json::Value::as_str), Some("m\"odel"));
        for (name, value) in &params.0 {
            let field = format!("\"{name}\":{value}");
            prop_assert!(body.contains(&field));
        }

        let mut expected: Vec<String> = Vec::new();
        for block in assembled.snapshot.blocks.iter().filter(|b| !b.range.is_empty()) {
            expected.push(assembled.snapshot.text[block.range.start..block.range.end].to_owned());
        }
        let (blocks, rest): (Vec<_>, Vec<_>) =
            encoded.ranges.iter().partition(|(from, _)| matches!(from, Provenance::Block(_)));
        let shown: Vec<String> = blocks.iter().map(|(_, r)| unescape(&body[r.start..r.end])).collect();
        prop_assert_eq!(shown, expected);

        let mut pieces: Vec<&Piece> = Vec::new();
        for message in &assembled.messages {
            // The order of the body: content, reasoning, raw fields, calls.
            let group = |wanted: fn(&Piece) -> bool| message.pieces.iter().filter(move |p| wanted(p));
            pieces.extend(group(|p| matches!(p, Piece::Text { .. } | Piece::Image { .. })));
            if message.role != Role::Assistant {
                continue;
            }
            if require {
                if message.pieces.iter().any(|p| matches!(p, Piece::ToolCall { .. })) {
                    pieces.extend(group(|p| matches!(p, Piece::Reasoning { .. })));
                }
                let mut seen = std::collections::BTreeSet::new();
                pieces.extend(message.pieces.iter().filter(|p| {
                    matches!(p, Piece::Raw { field, .. }
                        if !OWN_FIELDS.contains(&&**field) && seen.insert(field.clone()))
                }));
            }
            pieces.extend(group(|p| matches!(p, Piece::ToolCall { .. })));
        }
        let tool_ranges = assembled.tools.defs.len();
        prop_assert_eq!(rest.len(), pieces.len() + tool_ranges);
        for ((from, range), piece) in rest.iter().zip(&pieces) {
            prop_assert_eq!(from, piece.provenance());
            let inside = &body[range.start..range.end];
            match piece {
                Piece::Text { text, .. } | Piece::Reasoning { text, .. } => {
                    prop_assert_eq!(&unescape(inside), &**text);
                }
                Piece::ToolCall { arguments, .. } => prop_assert_eq!(&unescape(inside), &**arguments),
                Piece::Raw { json, .. } => prop_assert_eq!(inside, &**json),
                Piece::Image { .. } => prop_assert!(
                    inside.starts_with("data:image/png;base64,") || inside.starts_with("[an image")
                ),
            }
        }
        for ((from, range), (index, tool)) in
            rest.iter().skip(pieces.len()).zip(assembled.tools.defs.iter().enumerate())
        {
            prop_assert_eq!(from, &Provenance::Tool(index));
            prop_assert_eq!(&body[range.start..range.end], &*tool.json);
        }
    }
}
