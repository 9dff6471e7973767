//! JSON lines.

use std::time::Instant;

use hermes_core::{GenerationNo, PartBody, Role, Seq, ToolLink, slot};
use hermes_store::{Record, StoreError};
use serde_json::{Value, json};

use crate::support::*;

fn export(store: &hermes_store::Store, name: &str) -> Value {
    let mut out = Vec::new();
    store.export_jsonl(&id(name), &mut out).unwrap();
    assert_eq!(out.iter().position(|byte| *byte == b'\n'), Some(out.len() - 1));
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn a_session_is_one_line_with_decoded_messages_and_resolved_texts() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let mut called = row(Seq(2), Role::Assistant, "calling");
    called.parts.push(hermes_core::Part {
        slot: slot::CALLS,
        body: PartBody::ToolCall {
            id: "c1".into(),
            name: "memory".into(),
            arguments: "{\"n\":1e5}".into(),
        },
        ..part(Seq(3), Seq(2), hermes_core::Origin::Model, "")
    });
    let mut result = row(Seq(4), Role::Tool, "done");
    result.tool = Some(ToolLink { call_id: "c1".into(), name: "memory".into() });
    let mut image = row(Seq(5), Role::User, "see");
    let digest = hermes_core::Digest::of([1]);
    image.parts.push(hermes_core::Part {
        slot: slot::ATTACHMENT,
        body: PartBody::Blob { digest, media_type: "image/png".into(), bytes: 1 },
        ..part(Seq(6), Seq(5), hermes_core::Origin::User, "")
    });
    let _c = writer
        .commit(vec![
            Record::Row(row(Seq(1), Role::User, "hello")),
            Record::Row(called),
            Record::Row(result),
            Record::Blob { media_type: "image/png".into(), bytes: [1].as_slice().into() },
            Record::Row(image),
            Record::Row(row(Seq(7), Role::User, "\0json:[1]")),
        ])
        .unwrap();
    let line = export(&store, "a");
    assert_eq!(line["id"], "a");
    assert_eq!(line["system_prompt"], PROMPT);
    assert_eq!(line["tool_names"], TOOLS);
    assert_eq!(line["started_at"], json!(START.as_seconds_f64()));
    assert_eq!(line["message_count"], 5);
    assert!(line.get("session_no").is_none());
    let messages = line["messages"].as_array().unwrap();
    assert_eq!(messages[0]["content"], "hello");
    assert_eq!(
        messages[1]["tool_calls"],
        json!([{"id": "c1", "type": "function",
                "function": {"name": "memory", "arguments": "{\"n\":1e5}"}}])
    );
    assert_eq!(
        (&messages[2]["tool_call_id"], &messages[2]["tool_name"]),
        (&json!("c1"), &json!("memory"))
    );
    assert_eq!(messages[3]["content"][0], json!({"type": "text", "text": "see"}));
    assert_eq!(messages[3]["content"][1]["image_url"]["url"], format!("blob:sha256:{digest}"));
    assert_eq!(messages[4]["content"], "\0json:[1]");
    assert!(messages.iter().all(|message| message["active"] == 1 && message["compacted"] == 0));
    assert_eq!(line["timings"]["role_counts"], json!({"user": 3, "assistant": 1, "tool": 1}));
    assert_eq!(line["timings"]["intervals"][0]["gap_ms"], 1000);
    assert_eq!(line["_hermes"]["rows"].as_array().unwrap().len(), 5);
    assert_eq!(line["_hermes"]["generations"][0]["cause"], "start");
    assert_eq!(GenerationNo(0), store.history(&id("a")).unwrap().head.unwrap());
    assert_sound(&store);
}

#[test]
fn eight_hundred_messages_are_exported_in_an_instant() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let batch = (1..=800)
        .map(|n| {
            let role = if n % 2 == 1 { Role::User } else { Role::Assistant };
            Record::Row(row(Seq(n), role, &"some words ".repeat(40)))
        })
        .collect();
    let _c = writer.commit(batch).unwrap();
    let begun = Instant::now();
    let line = export(&store, "a");
    assert_eq!(line["messages"].as_array().unwrap().len(), 800);
    // A debug build on a busy machine; the release build takes a few milliseconds.
    assert!(begun.elapsed().as_millis() < 2000, "{:?}", begun.elapsed());
}

#[test]
fn an_unknown_session_is_an_error_and_writes_nothing() {
    let home = Home::new();
    let mut out = Vec::new();
    let error = home.store().export_jsonl(&id("a"), &mut out).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }));
    assert!(out.is_empty());
}
