//! The hooks of a turn, from end to end.

use hermes_core::{Origin, TurnOutcome};
use serde_json::json;

use super::rig::{Rig, all_verify, answer, say};

const CONTEXT: &str = r#"
def before(user_message, conversation_history, is_first_turn, session_id, platform, model, turn_id, **rest):
    note("pre_llm_call", user_message, len(conversation_history), is_first_turn, platform, model)
    return f"CONTEXT {len(conversation_history)}"
def also(**event):
    return {"context": "ALSO"}
def quiet(**event):
    return "   "
def hear(name):
    def callback(**event):
        note(name, {k: event.get(k) for k in ("assistant_response", "completed", "failed", "interrupted", "turn_exit_reason", "model", "platform")})
    return callback
def register(ctx):
    ctx.register_hook("pre_llm_call", before)
    ctx.register_hook("pre_llm_call", quiet)
    ctx.register_hook("pre_llm_call", also)
    for name in ("on_session_start", "post_llm_call", "on_session_end"):
        ctx.register_hook(name, hear(name))
"#;

#[test]
fn what_a_plugin_adds_joins_the_message_is_stored_and_can_be_proved() {
    let rig = Rig::new(&[answer("one"), answer("two")]).plugin("adds", CONTEXT);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    let prompt = conversation.snapshot().digest;
    assert_eq!(say(&services, &mut conversation, "first").outcome, TurnOutcome::Answered);
    assert_eq!(say(&services, &mut conversation, "second").outcome, TurnOutcome::Answered);
    assert_eq!(conversation.snapshot().digest, prompt, "the prompt stays as it is");

    let bodies = rig.bodies();
    let said = bodies[0]["messages"][1]["content"].as_str().unwrap();
    let (own, added) = (said.find("first").unwrap(), said.find("CONTEXT 1").unwrap());
    assert!(own < added && added < said.find("ALSO").unwrap(), "{said}");
    assert!(!bodies[0]["messages"][0].to_string().contains("CONTEXT"));
    // Earlier messages go out again as they went out before.
    assert_eq!(bodies[1]["messages"][1], bodies[0]["messages"][1]);
    assert!(bodies[1]["messages"][3].to_string().contains("CONTEXT 3"));

    let rows = conversation.rows();
    let hooked = rows[0].parts.iter().filter(|part| part.origin == Origin::Hook);
    let labels: Vec<_> = hooked.map(|part| part.label.as_deref().unwrap()).collect();
    assert_eq!(labels, ["adds", "adds"]);
    assert_eq!(rows[0].text_of(Origin::User), "first");
    all_verify(&services);

    let heard = rig.heard();
    let ended = |name: &str, answer: serde_json::Value| {
        json!([name, {"assistant_response": answer, "completed": null, "failed": null,
            "interrupted": null, "turn_exit_reason": null, "model": "scripted", "platform": "cli"}])
    };
    assert_eq!(heard[0][0], "on_session_start");
    assert_eq!(heard[1], json!(["pre_llm_call", "first", 1, true, "cli", "scripted"]));
    assert_eq!(heard[2], ended("post_llm_call", json!("one")));
    assert_eq!(heard[3][1]["completed"], true);
    assert_eq!(heard[3][1]["turn_exit_reason"], "answered");
    assert_eq!(heard[4], json!(["pre_llm_call", "second", 3, false, "cli", "scripted"]));
    assert_eq!(
        rig.names(),
        [
            "on_session_start",
            "pre_llm_call",
            "post_llm_call",
            "on_session_end",
            "pre_llm_call",
            "post_llm_call",
            "on_session_end"
        ]
    );
}

#[test]
fn without_a_plugin_there_is_no_process_and_nothing_is_plugged_in() {
    let rig = Rig::new(&[answer("one")]);
    let services = rig.services();
    assert!(services.plugins().is_none());
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "first");
    assert!(!rig.bench.folder.path().join("cache").exists());
    all_verify(&services);
}

#[test]
fn a_resumed_session_keeps_its_prompt_and_hears_of_no_new_start() {
    let code = "def register(ctx):\n    ctx.register_hook('on_session_start', lambda **e: note('start'))\n    ctx.register_system_prompt_section('rules', 'SECTION-1')\n";
    let rig = Rig::new(&[answer("one"), answer("two")]).plugin("adds", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "first");
    let (id, prompt) = (conversation.id().clone(), conversation.snapshot().digest);
    assert!(conversation.snapshot().text.contains("SECTION-1"));
    conversation.release().unwrap();
    drop(conversation);
    let services = rig.services();
    let mut conversation = rig.resume(&services, &id);
    say(&services, &mut conversation, "second");
    assert_eq!(conversation.snapshot().digest, prompt);
    assert_eq!(conversation.resume_report().rebuilt_because, None);
    assert_eq!(rig.names(), ["start"]);
    let section = conversation.blocks().iter().find(|block| block.id == "plugin:rules").unwrap();
    assert_eq!(section.source.to_string(), "plugin adds");
    all_verify(&services);
}
