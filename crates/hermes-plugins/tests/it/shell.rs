//! Shell hooks through the dispatcher, the cases of people among them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use hermes_home::yaml::{Datum, parse};
use hermes_plugins::{Plugins, Said, ToolGate, table};
use serde_json::json;

use crate::rig::{Rig, payload};

/// A case's files in a home folder of its own; commands name `~/.hermes`.
fn case(id: &str) -> (Rig, Plugins) {
    let rig = Rig::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(id).join("home");
    let home = rig.home().join(".hermes");
    fs::create_dir_all(home.join("agent-hooks")).unwrap();
    for script in fs::read_dir(from.join("agent-hooks")).unwrap() {
        let script = script.unwrap().path();
        let to = home.join("agent-hooks").join(script.file_name().unwrap());
        fs::copy(&script, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let config = fs::read_to_string(from.join("config.yaml")).unwrap_or_default();
    let plugins = start(&rig, &config);
    (rig, plugins)
}

fn start(rig: &Rig, config: &str) -> Plugins {
    let mut options = rig.options();
    let hooks = parse(config).unwrap().root.map_or(Datum::Null, |root| Datum::of(&root));
    if let Datum::Map(fields) = hooks {
        options.hooks = fields.into_iter().find(|(name, _)| name == "hooks").unwrap().1;
    }
    options.accept_hooks = true;
    let mut vars = rig.vars.clone();
    vars.insert("HOME".into(), rig.home().display().to_string());
    vars.insert("HOOK_LOG".into(), rig.home().join("hook.log").display().to_string());
    vars.insert("HOOK_ENTRY".into(), "library".into());
    options.vars = hermes_home::Vars::of_process(&vars);
    Plugins::new(options)
}

fn gate(outcome: &hermes_plugins::HookOutcome) -> ToolGate {
    outcome.tool_gate(table::find("pre_tool_call").unwrap())
}

#[tokio::test]
async fn b061_a_slow_hook_is_ended_others_run_and_a_slow_guard_blocks() {
    let (rig, plugins) = case("B061");
    let began = Instant::now();
    plugins.dispatch("on_session_start", payload("s")).await;
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    assert_eq!(rig.read("hook.log"), "ran\n");
    let call = payload("s").text("tool_name", "terminal").value("args", json!({"command": "ls"}));
    let gate = gate(&plugins.dispatch("pre_tool_call", call).await);
    let ToolGate::Block { message, .. } = gate else { panic!("{gate:?}") };
    assert!(message.contains("slow.sh"), "{message}");
    let free = payload("s").text("tool_name", "read_file");
    let outcome = plugins.dispatch("pre_tool_call", free).await;
    assert!(outcome.results.is_empty(), "the matcher fits another tool");
    let end = Instant::now() + Duration::from_mins(1);
    while !still_running("sleep 120", rig.home()).is_empty() {
        assert!(Instant::now() < end, "its process group is not gone");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Processes whose command line is this and whose folder is below `home`.
fn still_running(command: &str, home: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        if line.trim() == command && cwd.starts_with(home) {
            found.push(line);
        }
    }
    found
}

#[tokio::test]
async fn b062_a_hook_of_the_settings_runs_where_the_library_is_used() {
    let (rig, plugins) = case("B062");
    plugins.dispatch("pre_tool_call", payload("s").text("tool_name", "terminal")).await;
    assert_eq!(rig.read("hook.log"), "library\n");
    assert!(plugins.shell_hooks()[0].consented);
}

#[tokio::test]
async fn b064_every_kind_of_answer_is_survived_and_the_documented_one_takes_effect() {
    let (rig, _) = case("B064");
    let check = async |script: &str, wanted: Option<&str>| {
        let config = format!(
            "hooks:\n  transform_tool_result:\n    - command: ~/.hermes/agent-hooks/{script}\n      timeout: 10\n"
        );
        let plugins = start(&rig, &config);
        let big = "y".repeat(2_000_000);
        let outcome =
            plugins.dispatch("transform_tool_result", payload("s").text("result", &big)).await;
        let text = outcome.first_text(true).map(|(_, text)| text);
        assert_eq!(text.as_deref(), wanted, "{script}: {outcome:?}");
        assert_eq!(outcome.results.len(), 1);
    };
    check("out_json.sh", Some("REWRITTEN")).await;
    for script in
        ["out_badjson.sh", "out_empty.sh", "out_plain.sh", "out_big.sh", "exit3.sh", "noread.sh"]
    {
        check(script, None).await;
    }
}

#[tokio::test]
async fn nothing_runs_that_nobody_consented_to() {
    let rig = Rig::new();
    let config = "hooks:\n  on_session_start:\n    - command: touch ran\n";
    let mut options = start(&rig, config);
    assert_eq!(options.shell_hooks().len(), 1);
    let strict = |rig: &Rig| {
        let mut options = rig.options();
        let Datum::Map(fields) = Datum::of(&parse(config).unwrap().root.unwrap()) else { panic!() };
        options.hooks = fields.into_iter().next().unwrap().1;
        Plugins::new(options)
    };
    options = strict(&rig);
    options.dispatch("on_session_start", payload("s")).await;
    assert!(!rig.home().join("ran").exists());
    assert!(options.problems()[0].contains("nobody consented"));
    assert_eq!(options.consent("touch ran", "2026-11-30T10:00:00Z").unwrap(), 1);
    let options = strict(&rig);
    options.dispatch("on_session_start", payload("s")).await;
    assert!(rig.home().join("ran").exists());
    assert_eq!(options.revoke("touch ran").unwrap(), 1);
    assert!(!options.shell_hooks()[0].consented);
}

#[tokio::test]
async fn a_hook_that_leaves_a_process_behind_does_not_hold_up_its_answer() {
    let rig = Rig::new();
    let script = rig.home().join("hook.sh");
    fs::write(&script, "#!/bin/sh\nsleep 60 &\necho '{\"context\": \"c\"}'\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!("hooks:\n  pre_llm_call:\n    - command: {}\n", script.display());
    let plugins = start(&rig, &config);
    let began = Instant::now();
    let outcome = plugins.dispatch("pre_llm_call", payload("s")).await;
    assert_eq!(outcome.results[0].said, Said::Value(json!("c")));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_shell_hook_sees_no_secret_that_is_not_named_and_this_program_first() {
    let mut rig = Rig::new();
    for (name, value) in [
        ("WORK_TOKEN", "not-a-token"),
        ("CHAT_TOKEN", "not-a-token-either"),
        ("PASSED_KEY", "not-a-key"),
        ("PLAIN", "plain"),
    ] {
        rig.vars.insert(name.into(), value.into());
    }
    let config = "hooks:\n  on_session_start:\n    - command: sh -c 'env > seen'\n      env: [CHAT_TOKEN]\n    - {command: 'true', env: {A: 1}}\n";
    let run = async |secrets: bool| {
        let mut options = rig.options();
        let hooks = parse(config).unwrap().root.map_or(Datum::Null, |root| Datum::of(&root));
        let Datum::Map(fields) = hooks else { panic!() };
        options.hooks = fields.into_iter().next().unwrap().1;
        options.accept_hooks = true;
        options.cli = Some(rig.home().join("bin/hermes"));
        options.env_passthrough = vec!["PASSED_KEY".into()];
        if secrets {
            let loaded =
                hermes_home::load(&options.home, &rig.vars, &hermes_home::Overrides::default())
                    .unwrap();
            let known = hermes_home::Secrets::of(&options.home, &loaded.config, &rig.vars);
            options.secrets = Some(std::sync::Arc::new(known));
        }
        let plugins = Plugins::new(options);
        plugins.dispatch("on_session_start", payload("s")).await;
        assert!(plugins.problems()[0].contains("env is {\"A\":1}"), "{:?}", plugins.problems());
        rig.read("seen")
    };
    for secrets in [false, true] {
        let seen = run(secrets).await;
        let has = |line: &str| seen.lines().any(|found| found == line);
        assert!(!seen.contains("WORK_TOKEN"), "{seen}");
        assert!(has("CHAT_TOKEN=not-a-token-either") && has("PASSED_KEY=not-a-key"), "{seen}");
        assert!(has("PLAIN=plain"));
        assert!(has(&format!("HERMES_HOME={}", rig.home().display())), "{seen}");
        assert!(has(&format!("HERMES_CLI={}", rig.home().join("bin/hermes").display())));
        let path = format!("PATH={}:", rig.home().join("bin").display());
        assert!(seen.lines().any(|line| line.starts_with(&path)), "{seen}");
    }
}

#[tokio::test]
async fn what_a_shell_hook_that_observes_is_told_holds_no_secret_in_its_history_either() {
    let rig = Rig::new();
    let config = "hooks:\n  post_llm_call:\n    - command: sh -c 'cat > told'\n";
    let plugins = start(&rig, config);
    let secret = format!("sk-{}", "a1B2c3D4".repeat(5));
    let history = [format!("{{\"role\":\"user\",\"content\":\"it is {secret}\"}}").into()].into();
    plugins
        .dispatch("post_llm_call", payload("s").list("conversation_history", "s", history))
        .await;
    let told = rig.read("told");
    assert!(told.contains("it is") && !told.contains(&secret), "{told}");
}
