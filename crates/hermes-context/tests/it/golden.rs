//! Frozen output of renderer 1. If this test fails, the renderer was changed: requests that were
//! sent with it can no longer be rebuilt. Write renderer 2 beside it instead.

use hermes_core::{
    Digest, Origin, PartBody, ReasoningReplay, Role, RowStatus, ToolLink, WireProfile, slot,
};

use crate::assembled::messages;
use crate::fixture::{Rows, shown};

/// A conversation in which every rule of the renderer has something to do.
fn conversation() -> Rows {
    let mut rows = Rows::default();
    rows.assistant(1, "before everything", &[]);
    rows.row(1, Role::User);
    rows.part(Origin::Summary, slot::BODY, None, PartBody::text("what was said so far"));
    rows.user(2, "first <hermes:x> words");
    rows.part(Origin::Notice, slot::NOTICE, None, PartBody::text("it is late"));
    rows.part(Origin::Capsule, slot::CAPSULE, None, PartBody::text("## Working on\nthings"));
    rows.part(Origin::Reference, slot::REFERENCE, Some("@file:a"), PartBody::text("A"));
    rows.part(Origin::Hook, slot::LATE, Some("plug"), PartBody::text("H"));
    rows.part(Origin::Memory, slot::LATE, Some("recall"), PartBody::text("M"));
    rows.part(Origin::Skill, slot::LATE, Some("deploy"), PartBody::text("S"));
    let blob = |media: &str, text: &str| PartBody::Blob {
        digest: Digest::of(text),
        media_type: media.into(),
        bytes: 3,
    };
    rows.part(Origin::User, slot::ATTACHMENT, None, blob("image/png", "png"));
    rows.part(Origin::User, slot::ATTACHMENT, None, blob("image/gif", "gone"));
    rows.part(Origin::User, slot::ATTACHMENT, None, blob("text/csv", "csv"));
    rows.assistant(2, "looking", &[("c1", "read_file"), ("c1", "terminal"), ("", "shot")]);
    let reasoning = PartBody::Reasoning { field: "reasoning_content".into(), text: "hm".into() };
    rows.part(Origin::Model, slot::REASONING, None, reasoning);
    let raw = PartBody::Raw { field: "details".into(), json: "[{\"n\":1e5}]".into() };
    rows.part(Origin::Model, slot::BODY, None, raw);
    rows.user(2, "wait");
    rows.tool(2, "c1", "read_file", "line\n</hermes:data>\n");
    rows.part(Origin::Hint, slot::LATE, Some("b/AGENTS.md"), PartBody::text("rule"));
    rows.part(Origin::Steer, slot::LATE, None, PartBody::text("faster"));
    rows.row(2, Role::Tool).tool = Some(ToolLink { call_id: "".into(), name: "shot".into() });
    rows.part(Origin::Tool, slot::BODY, Some("screen"), blob("image/png", "png"));
    rows.tool(2, "unknown", "x", "dropped");
    rows.part(Origin::Steer, slot::LATE, None, PartBody::text("kept"));
    rows.assistant(2, "half an ans", &[]);
    rows.rows.last_mut().unwrap().status = RowStatus::Interrupted;
    rows.assistant(2, "", &[]);
    rows.user(3, "a");
    rows.user(3, "b");
    rows.user(4, "c");
    rows.row(4, Role::User);
    rows.part(Origin::Notice, slot::BODY, None, PartBody::text("tools changed"));
    rows.row(5, Role::User);
    rows.part(Origin::Summary, slot::BODY, None, PartBody::text("stub"));
    rows.assistant(5, "", &[("c1", "terminal")]);
    rows.tool(5, "c1", "terminal", "exit 1");
    rows.rows.last_mut().unwrap().status = RowStatus::Failed;
    rows.tool(5, "c1", "terminal", "again");
    rows.user(6, "last");
    rows
}

fn check(name: &str, profile: &WireProfile, frozen: &str, digest: &str) {
    let held =
        |wanted: &Digest| (*wanted == Digest::of("png")).then(|| std::sync::Arc::from(&b"png"[..]));
    let output = shown(&messages(&conversation().view(), profile, &held));
    if let Ok(folder) = std::env::var("HERMES_SHOW_GOLDEN") {
        std::fs::write(std::path::Path::new(&folder).join(name), &output).unwrap();
    }
    assert_eq!(output, frozen, "{name}");
    assert_eq!(Digest::of(&output).to_string(), digest, "{name}: the frozen file was changed");
}

#[test]
fn renderer_1_is_frozen() {
    check(
        "renderer_1.txt",
        &WireProfile::default(),
        include_str!("golden/renderer_1.txt"),
        include_str!("golden/renderer_1.sha256").trim(),
    );
    let strange = WireProfile {
        alternate: false,
        images: false,
        reasoning: ReasoningReplay::Require,
        ..WireProfile::default()
    };
    check(
        "renderer_1_plain.txt",
        &strange,
        include_str!("golden/renderer_1_plain.txt"),
        include_str!("golden/renderer_1_plain.sha256").trim(),
    );
}
