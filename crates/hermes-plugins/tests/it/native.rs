//! Plugins that are programs of their own, and the hook folders of a gateway.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_plugins::{Plugins, Said, ToolGate, table};
use serde_json::json;

use crate::rig::{Rig, payload, session};

fn copy(rig: &mut Rig, name: &str, manifest: &str, program: &Path) {
    let folder = rig.home().join("plugins").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.yaml"), manifest).unwrap();
    fs::copy(program, folder.join(program.file_name().unwrap())).unwrap();
    rig.config.enabled.push(name.to_owned());
}

#[tokio::test]
async fn a_plugin_in_a_shell_guards_tools_and_answers_a_command() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/native-shell");
    let manifest = fs::read_to_string(folder.join("plugin.yaml")).unwrap();
    let mut rig = Rig::new();
    copy(&mut rig, "native-shell", &manifest, &folder.join("run.sh"));
    let plugins = rig.start();
    let gate = async |command: &str| {
        let call =
            payload("s").text("tool_name", "terminal").value("args", json!({"command": command}));
        let outcome = plugins.dispatch("pre_tool_call", call).await;
        outcome.tool_gate(table::find("pre_tool_call").unwrap())
    };
    assert!(
        matches!(gate("git push --force").await, ToolGate::Block { message, .. } if message.contains("force"))
    );
    assert!(matches!(gate("git push").await, ToolGate::Proceed { .. }));
    let load = plugins.command("load", "", &session("s"), None).await.unwrap().unwrap();
    assert!(load.contains("load average"), "{load}");
    assert!(!rig.home().join("cache").exists(), "no Python for a plugin that is none");
    plugins.close().await;
}

/// The example in Rust, which `cargo test` builds.
fn example() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("examples").join("native")
}

#[tokio::test]
async fn a_plugin_in_rust_offers_a_tool_and_hears_an_event() {
    let program = example();
    assert!(program.is_file(), "`cargo test -p hermes-plugins` builds {}", program.display());
    let mut rig = Rig::new();
    copy(&mut rig, "words", "name: words\nruntime: native\ncommand: [./native]\n", &program);
    let plugins: Plugins = rig.start();
    let outcome = plugins.dispatch("on_session_end", payload("s")).await;
    assert_eq!(outcome.results[0].said, Said::Nothing, "{outcome:?}");
    assert_eq!(&*plugins.tools()[0].def.name, "count_words");
    let counted = plugins.call_tool("count_words", r#"{"text": "a b c"}"#, &session("s")).await;
    assert_eq!(counted.unwrap().unwrap(), r#"{"words":3}"#);
    plugins.close().await;
}

#[tokio::test]
async fn hook_folders_run_in_a_gateway_exact_names_first_and_nowhere_else() {
    let rig = Rig::new();
    for (name, events, body) in [
        ("a", "[command:*]", "return {'who': 'any', 'event': event_type}"),
        (
            "b",
            "[command:new, session:end]",
            "return {'decision': 'deny', 'message': context['args']}",
        ),
        ("broken", "[]", "pass"),
    ] {
        let folder = rig.home().join("hooks").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("HOOK.yaml"), format!("name: {name}\nevents: {events}\n")).unwrap();
        fs::write(
            folder.join("handler.py"),
            format!("async def handle(event_type, context):\n    {body}\n"),
        )
        .unwrap();
    }
    let context = json!({"args": "x"});
    let mut options = rig.options();
    options.gateway = true;
    let gateway = Plugins::new(options);
    let said = gateway.gateway_event("command:new", &context, &session("s")).await;
    assert_eq!(
        said,
        [
            json!({"decision": "deny", "message": "x"}),
            json!({"who": "any", "event": "command:new"})
        ]
    );
    gateway.close().await;
    assert!(rig.start().gateway_event("command:new", &context, &session("s")).await.is_empty());
}
