//! The conformance plugins of `python/conformance`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use hermes_plugins::{
    BoxFuture, CallContext, Fault, Injected, ModelCall, Payload, Plugins, Services, table,
};
use serde_json::{Value, json};

use crate::rig::{Rig, payload, session};

/// A home folder with one of the plugins.
fn with(name: &str) -> Rig {
    let mut rig = Rig::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/conformance").join(name);
    let to = rig.home().join("plugins").join(name);
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    rig.config.enabled.push(name.to_owned());
    rig
}

#[tokio::test]
async fn every_hook_of_the_table_reaches_a_plugin() {
    let rig = with("every_hook");
    let plugins = rig.start();
    for hook in table::HOOKS {
        let outcome = plugins.dispatch(hook.name, payload("s")).await;
        let waits = hook.thread == table::ThreadRule::Worker;
        assert_eq!(outcome.results.len(), usize::from(waits), "{}: {outcome:?}", hook.name);
    }
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while rig.read("every_hook.jsonl").lines().count() < table::HOOKS.len() {
        assert!(std::time::Instant::now() < end, "not every hook was heard");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mut heard = BTreeMap::new();
    for line in rig.read("every_hook.jsonl").lines() {
        let (name, fields): (String, Vec<String>) = serde_json::from_str(line).unwrap();
        assert!(heard.insert(name, fields).is_none());
    }
    assert_eq!(heard["post_compaction"], ["session_id", "telemetry_schema_version"]);
    assert_eq!(heard["gateway_platform_event"], ["session_id"]);
    plugins.close().await;
}

#[tokio::test]
async fn pattern_a_rules_come_back_in_the_turn_after_a_compaction_and_only_there() {
    let rig = with("rules_again");
    let plugins = rig.start();
    let turn = async |id: &str| plugins.dispatch("pre_llm_call", payload(id)).await.contexts();
    assert!(turn("s1").await.is_empty());
    plugins.dispatch("post_compaction", payload("s1").text("kind", "summarize")).await;
    assert!(turn("s2").await.is_empty());
    assert!(turn("s1").await[0].1.starts_with("Rules of this project"));
    assert!(turn("s1").await.is_empty());
    plugins.close().await;
}

#[tokio::test]
async fn pattern_b_side_files_go_with_their_sessions() {
    let rig = with("side_files");
    let plugins = rig.start();
    for id in ["s1", "s2", "s3", "s4"] {
        plugins.dispatch("on_session_start", payload(id)).await;
    }
    let left = || {
        let mut names: Vec<String> = fs::read_dir(rig.home().join("side-files"))
            .unwrap()
            .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let several = payload("s1").value("deleted_ids", ["s1", "s2"]).text("reason", "prune");
    plugins.dispatch("on_session_delete", several).await;
    assert_eq!(left(), ["s3.txt", "s4.txt"]);
    let one = payload("s3").value("deleted_ids", ()).text("reason", "delete");
    plugins.dispatch("on_session_delete", one).await;
    assert_eq!(left(), ["s4.txt"]);
    plugins.close().await;
}

#[tokio::test]
async fn pattern_c_commands_are_told_who_asks_and_in_which_session() {
    let rig = with("whoami");
    let plugins = rig.start();
    plugins.ready().await;
    let source = |user: &str| json!({"platform": "telegram", "chat_id": "7", "user_id": user});
    let run = async |name: &str, call: CallContext, source: Option<Value>| {
        plugins.command(name, "x", &call, source.as_ref()).await.unwrap().unwrap()
    };
    let chat = CallContext { platform: "telegram".into(), ..session("s1") };
    assert_eq!(
        run("whoami", chat.clone(), Some(source("u1"))).await,
        "user u1 on telegram, session s1"
    );
    assert_eq!(run("whoami", session(""), None).await, "user local on cli, session (none yet)");
    assert_eq!(run("old-style", session("s"), None).await, "got 'x'");
    assert_eq!(
        run("everything", session("s"), None).await,
        "platform,session_id,session_key,source"
    );
    assert_eq!(run("wipe", session("s"), None).await, "refused");
    assert_eq!(run("wipe", chat.clone(), Some(source("u1"))).await, "refused");
    assert_eq!(run("wipe", chat, Some(source("u-admin"))).await, "wiped");
    plugins.close().await;
}

#[tokio::test]
async fn every_registrar_of_the_context_object_registers() {
    let rig = with("every_member");
    let plugins = rig.start();
    let report = plugins.doctor().await.remove(0);
    assert!(report.loaded, "{report:?}");
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    assert_eq!(report.hooks, BTreeMap::from([("on_session_start".to_owned(), 1)]));
    assert_eq!(report.middleware, BTreeMap::from([("tool_request".to_owned(), 1)]));
    assert_eq!(report.tools[0]["name"], "member_tool");
    assert_eq!(report.commands, ["member"]);
    assert_eq!(report.skills, ["every_member:member"]);
    assert_eq!(report.prompt_sections, ["member.fixed", "member.long", "member.made"]);
    assert_eq!(report.aux_tasks, ["member_task"]);
    assert_eq!(report.context_engine.unwrap()["class"], "Engine");
    assert_eq!(report.platforms["member"]["label"], "Member");
    let providers: Vec<&str> = report.other_providers.keys().map(String::as_str).collect();
    assert_eq!(
        providers,
        [
            "approval_transport",
            "browser_provider",
            "context_reference",
            "dashboard_auth_provider",
            "image_gen_provider",
            "secret_source",
            "terminal_environment_provider",
            "transcription_provider",
            "tts_provider",
            "video_gen_provider",
            "web_search_provider",
        ]
    );
    let facts = json!({"model": "m"});
    let sections = plugins.prompt_sections(&facts, &session("s")).await;
    let texts: Vec<(&str, &str)> =
        sections.iter().map(|section| (&*section.id, &*section.text)).collect();
    assert_eq!(texts, [("member.fixed", "A fixed section."), ("member.made", "Model m.")]);
    let found = plugins
        .provider_call("web_search_provider", "member-search", "search", &[json!("q")], None)
        .await
        .unwrap();
    assert_eq!(found["data"]["web"][0]["title"], "q");
    let cli = plugins.run_cli("member", &["--loud".to_owned()]).await.unwrap();
    assert_eq!((cli.code, cli.out.as_str()), (0, "MEMBER\n"));
    plugins.close().await;
}

/// An agent that does as little as possible.
#[derive(Default)]
struct Agent {
    heard: Mutex<Vec<String>>,
}

impl Services for Agent {
    fn dispatch_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a Value,
        _: &'a CallContext,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move { Ok(format!("{name} {}", arguments["text"])) })
    }

    fn complete<'a>(&'a self, call: &'a ModelCall) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let task = call.options.get("task").cloned().unwrap_or_default();
            Ok(json!({"text": format!("answer {} {task}", call.messages[0]["content"])}))
        })
    }

    fn inject_message<'a>(&'a self, message: &'a Injected) -> BoxFuture<'a, Result<bool, Fault>> {
        self.heard.lock().unwrap().push(message.content.clone());
        Box::pin(async { Ok(true) })
    }
}

#[tokio::test]
async fn every_service_answers_or_refuses_with_the_right_exception() {
    let mut rig = with("services");
    rig.vars.insert("MEMBER_KEY".into(), "sk-test-not-a-key".into());
    fs::write(
        rig.home().join("config.yaml"),
        "plugins:\n  enabled: [services]\n  entries:\n    services:\n      settings: {greeting: hello}\n",
    )
    .unwrap();
    let plugins: Plugins = rig.start();
    let agent = Arc::new(Agent::default());
    plugins.bind(Arc::clone(&agent) as Arc<dyn Services>);
    plugins.ready().await;
    let said = plugins.command("services", "", &session("s"), None).await.unwrap().unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        said,
        json!({
            "plugin_id": "services",
            "profile_name": "default",
            "manifest": "1.0",
            "has_plugin": [true, false],
            "has_capability": false,
            "config": "hello",
            "load_config": ["services"],
            "env": "sk-test-not-a-key",
            "state": 1,
            "dispatch_tool": "echo \"hi\"",
            "registry": "echo \"ho\"",
            "inject_message": true,
            "llm": "answer \"q\" null",
            "llm_model": "PluginLlmTrustError",
            "call_llm": "answer \"q\" \"title\"",
            "mcp": "PermissionError",
            "emit": 0,
            "sessions": 0,
            "sessions_write": "PermissionError",
            "gateway": true,
            "absent": "AttributeError",
        })
    );
    assert_eq!(*agent.heard.lock().unwrap(), ["from a plugin"]);
    plugins.close().await;
}

#[tokio::test]
async fn a_payload_says_what_it_is_in_the_form_that_shell_hooks_get_it() {
    let json = Payload::new(session("s")).text("a", "b").maybe("c", None).to_json();
    assert_eq!(json, r#"{"a":"b","c":null}"#);
}
