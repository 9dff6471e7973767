//! `hermes hooks`: the table, who listens, and programs that run only when somebody agreed.

use std::fs;

use serde_json::Value;

use crate::rig::{Rig, serve};
use crate::terminal::Terminal;

/// A shell hook's program in the home.
#[cfg(unix)]
fn script(rig: &Rig, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = rig.home().join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn every_hook_is_listed_and_those_that_wait_say_for_what() {
    let rig = Rig::new();
    let listed = rig.json(["hooks", "list", "--json"]);
    let hooks = listed["hooks"].as_array().unwrap();
    assert_eq!(hooks.len(), 47);
    for hook in hooks {
        let fired = hook["fired"].as_bool().unwrap();
        assert_eq!(hook["waits_for"].is_null(), fired, "{hook}");
        assert_eq!(hook["callbacks"].as_array().unwrap().len(), 0, "{hook}");
    }
    let table = rig.ok(["hooks", "list"]);
    assert!(table.contains("not yet: there is no task board yet"), "{table}");
    assert!(rig.ok(["hooks", "list", "--used"]).contains("nobody listens"));
}

#[test]
#[cfg(unix)]
fn a_shell_hook_runs_after_somebody_agreed_and_not_before() {
    let rig = Rig::new();
    let server = serve(None);
    let command =
        script(&rig, "context.sh", r#"cat > /dev/null; echo '{"context": "from a script"}'"#);
    rig.endpoint(&server, &format!("hooks:\n  pre_llm_call:\n    - command: {command}\n"));
    let said = || String::from_utf8(server.received().last().unwrap().clone()).unwrap();

    let ran = rig.run(["-z", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("nobody consented to it"), "{}", ran.stderr);
    assert!(!said().contains("from a script"));
    let tried = rig.json(["hooks", "test", "pre_llm_call", "--json"]);
    assert_eq!(tried[0]["meaning"], "from a script", "{tried}");

    assert!(rig.ok(["hooks", "list"]).contains("not run: nobody agreed"));
    rig.ok(["hooks", "consent", &command]);
    let ran = rig.run(["-z", "hello"]);
    assert!(!ran.stderr.contains("nobody"), "{}", ran.stderr);
    assert!(said().contains("from a script"), "{}", said());
    let listed = rig.json(["hooks", "list", "--json", "--used"]);
    let callback = &listed["hooks"][0]["callbacks"][0];
    assert_eq!(
        (&callback["kind"], &callback["owner"]),
        (&"shell".into(), &command.as_str().into())
    );

    rig.ok(["hooks", "revoke", &command]);
    rig.ok(["-z", "hello"]);
    assert!(!said().contains("from a script"));
    rig.ok(["-z", "hello", "--accept-hooks"]);
    assert!(said().contains("from a script"));
    assert_eq!(rig.run(["hooks", "consent", "other.sh"]).code, 6);
    assert_eq!(rig.run(["hooks", "test", "pre_tool_cal"]).code, 6);
}

#[test]
#[cfg(unix)]
fn plugins_come_before_shell_hooks_in_the_order_of_the_list() {
    let rig = Rig::new();
    let command = script(&rig, "guard.sh", r#"echo '{"action": "block", "message": "not today"}'"#);
    rig.config(&format!(
        "hooks_auto_accept: true\nhooks:\n  pre_tool_call:\n    - command: {command}\n      \
         matcher: term.*\n  nonsense: [x]\nplugins:\n  enabled: [guard]\n"
    ));
    let folder = rig.home().join("plugins/guard");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.yaml"), "name: guard\nversion: '1'\n").unwrap();
    fs::write(
        folder.join("__init__.py"),
        "def look(**call):\n    pass\ndef register(ctx):\n    ctx.register_hook('pre_tool_call', look)\n",
    )
    .unwrap();
    let ran = rig.run(["hooks", "list", "--json", "--used"]);
    let listed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let kinds: Vec<&str> = listed["hooks"][0]["callbacks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["plugin", "shell"]);
    let problems = listed["problems"].to_string();
    assert!(problems.contains("hooks.nonsense[0]"), "{problems}");
    let tried = rig.json(["hooks", "test", "pre_tool_call", "--json"]);
    assert_eq!(tried[0]["meaning"]["message"], "not today", "{tried}");
    let other = rig.json(["hooks", "test", "pre_tool_call", "--for-tool", "read_file", "--json"]);
    assert_eq!(other[0]["wanted"], false, "{other}");
}

#[test]
#[cfg(unix)]
fn at_a_terminal_the_person_is_asked_before_a_shell_hook_first_runs() {
    let rig = Rig::new();
    let command = script(&rig, "bye.sh", r#"cat > /dev/null; echo '{"message": "see you"}'"#);
    rig.config(&format!("hooks:\n  on_session_finalize:\n    - command: {command}\n"));
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for("run for on_session_finalize? [y/N]");
    terminal.line("y");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    assert!(screen.contains("see you"), "{screen}");
    let listed = rig.json(["hooks", "list", "--json"]);
    assert_eq!(listed["shell_hooks"][0]["consented"], true, "{listed}");
}
