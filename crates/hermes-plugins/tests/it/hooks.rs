//! Hooks, tools and commands of Python plugins.

use hermes_plugins::Said;
use serde_json::json;

use crate::rig::{Rig, payload, session};

const FIRST: &str = r#"
import os

def heard(session_id, **rest):
    with open(os.path.join(os.environ["HERMES_HOME"], "heard"), "a") as out:
        out.write(session_id + "\n")

def before(user_message, conversation_history):
    return f"{user_message} after {len(conversation_history)}"

def add(args, session_id=None):
    return str(args["a"] + args["b"]) + " in " + session_id

def who(raw_args, *, session_id="", platform="", source=None):
    return f"{raw_args} {source} {platform} {session_id or '(none yet)'}"

def register(ctx):
    print("printing does no harm")
    ctx.register_hook("on_session_start", heard)
    ctx.register_hook("pre_llm_call", before)
    ctx.register_tool("add", "sums", {"name": "add", "parameters": {"type": "object", "properties": {"a": {}, "b": {}}}}, add)
    ctx.register_command("Who Am I", who, description="says it")
"#;

#[tokio::test]
async fn a_plugin_with_hooks_a_tool_and_a_command_works_end_to_end() {
    let rig = Rig::new().plugin("first", FIRST);
    let plugins = rig.start();

    let outcome = plugins.dispatch("on_session_start", payload("s1")).await;
    assert_eq!(outcome.results.len(), 1, "{outcome:?}");
    assert_eq!(outcome.results[0].said, Said::Nothing);
    assert_eq!(rig.read("heard"), "s1\n");

    let history = [r#"{"role":"user","content":"hi"}"#].map(Into::into).into();
    let before = payload("s1").text("user_message", "hi").list("conversation_history", "s1", history);
    let outcome = plugins.dispatch("pre_llm_call", before).await;
    assert_eq!(outcome.contexts()[0].1, "hi after 1");

    let tools = plugins.tools();
    assert_eq!((tools.len(), &*tools[0].def.name, tools[0].toolset.as_str()), (1, "add", "sums"));
    let sum = plugins.call_tool("add", r#"{"a": 2, "b": 3}"#, &session("s1")).await;
    assert_eq!(sum.unwrap().unwrap(), "5 in s1");

    let said = plugins.command("/who_am_i", "me", &session(""), None).await.unwrap();
    assert_eq!(said.as_deref(), Some("me None cli (none yet)"));
    let source = json!({"platform": "telegram", "chat_id": "7", "user_id": "u"});
    let said = plugins.command("who-am-i", "me", &session("s1"), Some(&source)).await.unwrap();
    assert!(said.unwrap().contains("telegram"));
    plugins.close().await;
}

#[tokio::test]
async fn without_an_enabled_plugin_there_is_no_process() {
    let mut rig = Rig::new().plugin("first", FIRST);
    rig.config.enabled.clear();
    let plugins = rig.start();
    assert!(plugins.dispatch("on_session_start", payload("s1")).await.results.is_empty());
    assert!(!rig.home().join("cache").exists());
}
