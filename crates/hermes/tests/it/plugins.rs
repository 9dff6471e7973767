//! Plugins on the command line: from a new folder to one that is switched off again.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::rig::{Ran, Rig, serve};
use crate::terminal::Terminal;

/// A conformance plugin's folder.
fn conformance(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/conformance").join(name)
}

/// A plugin of one Python file in the home.
fn plugin(rig: &Rig, name: &str, code: &str) {
    let folder = rig.home().join("plugins").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.yaml"), format!("name: {name}\nversion: \"1.0\"\n")).unwrap();
    fs::write(folder.join("__init__.py"), code).unwrap();
}

/// A conformance plugin, installed and switched on.
fn install(rig: &Rig, name: &str) {
    let from = conformance(name);
    rig.ok(["plugins", "install", from.to_str().unwrap(), "--enable", "--yes"]);
}

fn state(rig: &Rig, key: &str) -> Value {
    let all = rig.json(["plugins", "list", "--json"]);
    all.as_array().unwrap().iter().find(|it| it["key"] == key).cloned().unwrap_or_default()
}

/// The hooks that the plugin `every_hook` heard, in order.
fn heard(rig: &Rig) -> Vec<String> {
    let text = fs::read_to_string(rig.home().join("every_hook.jsonl")).unwrap_or_default();
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            value[0].as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn a_plugin_lives_from_new_to_disable_and_what_it_adds_is_seen_with_its_name() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let made = rig.ok(["plugins", "new", "hello", "--python"]);
    assert!(made.contains("plugins/hello/__init__.py"), "{made}");
    assert!(rig.ok(["plugins", "list"]).contains("off"));
    assert_eq!(state(&rig, "hello")["enabled"], false);

    let enabled = rig.run(["plugins", "enable", "hello"]);
    assert_eq!(enabled.code, 0, "{}", enabled.stderr);
    assert!(enabled.stderr.contains("a look at its files (1): safe"), "{}", enabled.stderr);
    for said in ["plugin hello: on", "plugins.enabled: [hello]", "next start", "next session"] {
        assert!(enabled.stdout.contains(said), "{said}: {}", enabled.stdout);
    }
    assert!(rig.ok(["plugins", "enable", "hello"]).contains("on already"));

    rig.ok(["-z", "hello"]);
    let body = String::from_utf8(server.received().last().unwrap().clone()).unwrap();
    assert!(body.contains("Answer in one paragraph."), "{body}");
    let context = rig.ok(["context", "all"]);
    assert!(
        context.lines().any(|line| line.contains("hook") && line.contains("row 1, hello")),
        "{context}"
    );

    let doctor = rig.json(["plugins", "doctor", "hello", "--json"]);
    let report = &doctor["plugins"][0];
    assert_eq!(report["loaded"], true, "{doctor}");
    assert_eq!(report["hooks"]["pre_llm_call"], 1, "{doctor}");
    assert_eq!(report["commands"][0], "hello", "{doctor}");
    for field in ["ctx_missing", "import_failures", "tools", "middleware", "threads_started"] {
        assert!(!report[field].is_null(), "{field}: {doctor}");
    }
    assert!(rig.ok(["doctor"]).contains("plugins   hello: loaded"));

    let disabled = rig.json(["plugins", "disable", "hello", "--json"]);
    assert_eq!((&disabled["enabled"], &disabled["changed"]), (&false.into(), &true.into()));
    rig.ok(["-z", "hello again"]);
    let body = String::from_utf8(server.received().last().unwrap().clone()).unwrap();
    assert!(!body.contains("Answer in one paragraph."), "{body}");
}

#[test]
fn every_deletion_and_archive_is_heard_once_and_what_changes_nothing_is_not() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    install(&rig, "side_files");
    install(&rig, "every_hook");
    let talk = |text: &str| -> String {
        let turn = rig.json(["chat", "--json", "-q", text]);
        turn["session_id"].as_str().unwrap().to_owned()
    };
    let (one, two) = (talk("hello"), talk("hello"));
    let file = |id: &str| rig.home().join("side-files").join(format!("{id}.txt"));
    assert!(file(&one).exists() && file(&two).exists());
    let deletions = || heard(&rig).iter().filter(|name| *name == "on_session_delete").count();

    rig.ok(["sessions", "delete", &one, "--dry-run"]);
    assert_eq!((deletions(), file(&one).exists()), (0, true));
    rig.ok(["sessions", "delete", &one, "--yes", "--request-id", "r-1"]);
    assert_eq!((deletions(), file(&one).exists()), (1, false));
    rig.ok(["sessions", "delete", &one, "--yes", "--request-id", "r-1"]);
    assert_eq!(deletions(), 1, "a repeated request fires no second event");
    rig.ok(["sessions", "archive", &two]);
    assert_eq!((deletions(), file(&two).exists()), (2, false));
    rig.ok(["sessions", "archive", &two]);
    rig.ok(["sessions", "sweep", "--yes"]);
    assert_eq!(deletions(), 2, "what changes nothing is not told");
    for name in ["on_session_start", "pre_llm_call", "post_llm_call", "on_session_end"] {
        assert_eq!(heard(&rig).iter().filter(|it| *it == name).count(), 2, "{name}");
    }
}

#[test]
fn a_plugin_that_does_not_load_is_named_and_the_turn_is_answered() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "plugins:\n  enabled: [broken, absent]\n");
    plugin(&rig, "broken", "def register(ctx):\n    raise RuntimeError('no luck today')\n");
    let ran = rig.run(["-z", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stdout.trim().is_empty());
    for said in [
        "the plugin broken runs for the first time",
        "warning: the plugin broken is not loaded: ",
        "no luck today",
        "hint: `hermes plugins doctor",
        "the plugin absent is not loaded: no plugin of that name is installed",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let again = rig.run(["-z", "hello"]);
    assert!(!again.stderr.contains("first time"), "{}", again.stderr);
    let doctor = rig.run(["plugins", "doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("fail  broken"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("no luck today"), "{}", doctor.stdout);
    assert_eq!(rig.run(["doctor"]).code, 1);
    rig.ok(["plugins", "disable", "absent"]);
}

#[test]
#[cfg(unix)]
fn without_a_plugin_no_python_is_started() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let mark = rig.home().join("python-was-started");
    let bin = rig.home().join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["python3", "python", "python3.13", "python3.12", "python3.11", "python3.10"] {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n: > '{}'\nexit 1\n", mark.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = |args: &[&str]| {
        let ran = Ran::from(
            rig.command(args)
                .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
                .output()
                .unwrap(),
        );
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    };
    plugin(&rig, "off", "def register(ctx):\n    pass\n");
    run(&["-z", "hello"]);
    run(&["context", "--next"]);
    run(&["skills", "list"]);
    run(&["doctor"]);
    run(&["hooks", "list"]);
    run(&["sessions", "compress", "--preview"]);
    run(&["sessions", "archive", "latest"]);
    run(&["sessions", "prune", "--yes", "--older-than", "1"]);
    assert!(!mark.exists());
    // The trap works.
    rig.config("plugins:\n  enabled: [off]\n");
    run(&["-z", "hello"]);
    assert!(mark.exists());
}

#[test]
fn a_plugins_command_is_a_command_of_hermes_and_finds_this_program() {
    let rig = Rig::new();
    plugin(
        &rig,
        "caller",
        r#"
import os, shutil, subprocess, sys

def setup(parser):
    parser.add_argument("words", nargs="*")
    parser.add_argument("--fail", action="store_true")

def run(args):
    if args.fail:
        print("it failed", file=sys.stderr)
        return 3
    path = subprocess.run(["hermes", "config", "path"], capture_output=True, text=True).stdout
    print(" ".join(args.words), path.strip())
    print(os.path.samefile(shutil.which("hermes"), os.environ["HERMES_CLI"]))

def register(ctx):
    ctx.register_cli_command("caller", "calls back", setup, run)
"#,
    );
    let before = rig.run(["caller", "a"]);
    assert_eq!(before.code, 2, "{}", before.stderr);
    rig.ok(["plugins", "enable", "caller", "--yes"]);
    let said = rig.ok(["caller", "a", "b"]);
    let config = rig.home().join("config.yaml");
    assert_eq!(said, format!("a b {}\nTrue\n", config.display()));
    let failed = rig.run(["caller", "--fail"]);
    assert_eq!((failed.code, failed.stderr.trim()), (3, "it failed"));
    assert!(rig.ok(["caller", "--help"]).contains("calls back"));
    let other = rig.run(["nobodys", "a"]);
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("unrecognized subcommand"), "{}", other.stderr);
}

#[test]
fn what_looks_odd_is_shown_and_needs_a_yes() {
    let rig = Rig::new();
    plugin(
        &rig,
        "odd",
        "import subprocess\nsubprocess.run(['true'])\ndef register(ctx):\n    pass\n",
    );
    let asked = rig.run(["plugins", "enable", "odd"]);
    assert_eq!(asked.code, 2, "{}", asked.stderr);
    assert!(asked.stderr.contains("__init__.py:2"), "{}", asked.stderr);
    assert!(asked.stderr.contains("add --yes"), "{}", asked.stderr);
    assert_eq!(state(&rig, "odd")["enabled"], false);
    rig.ok(["plugins", "enable", "odd", "--yes"]);
    assert_eq!(state(&rig, "odd")["enabled"], true);
    let shown = rig.json(["plugins", "show", "odd", "--json"]);
    assert_eq!(shown["scan"]["verdict"], "caution");
    assert_eq!(
        (&shown["consent"]["by"], &shown["changed_since_consent"]),
        (&"command".into(), &false.into())
    );
    fs::write(rig.home().join("plugins/odd/more.py"), "eval(x)\n").unwrap();
    assert_eq!(rig.json(["plugins", "show", "odd", "--json"])["changed_since_consent"], true);
    assert!(rig.ok(["plugins", "show", "odd"]).contains("have changed since"));
}

#[test]
fn a_folder_is_validated_installed_and_removed_and_names_that_do_not_exist_have_their_code() {
    let rig = Rig::new();
    let made = rig.work();
    let made = made.to_str().unwrap();
    rig.ok(["plugins", "new", "words", "--rust", "--to", made]);
    let folder = format!("{made}/words");
    let invalid = rig.run(["plugins", "validate", &folder, "--json"]);
    assert_eq!(invalid.code, 1, "the program is not built: {}", invalid.stdout);
    rig.ok(["plugins", "new", "plain", "--to", made]);
    let folder = format!("{made}/plain");
    assert_eq!(rig.json(["plugins", "validate", &folder, "--json"])["valid"], true);
    let installed = rig.json(["plugins", "install", &folder, "--json"]);
    assert_eq!(installed["plugins"][0]["key"], "plain", "{installed}");
    assert_eq!(rig.run(["plugins", "install", &folder]).code, 1, "it is there already");
    rig.ok(["plugins", "install", &folder, "--force"]);
    rig.ok(["plugins", "enable", "plain"]);
    assert_eq!(rig.run(["plugins", "remove", "plain"]).code, 2, "it needs a yes");
    rig.ok(["plugins", "remove", "plain", "--yes"]);
    assert!(state(&rig, "plain").is_null());
    assert!(rig.ok(["plugins", "list"]).contains("there are no plugins"));
    for args in
        [["plugins", "show", "nope"], ["plugins", "enable", "nope"], ["plugins", "doctor", "nope"]]
    {
        let ran = rig.run(args);
        assert_eq!(ran.code, 6, "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_plugins_skill_and_prompt_section_are_listed_with_its_name() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    install(&rig, "every_member");
    let skills = rig.json(["skills", "list", "--json"]);
    let skill = skills.as_array().unwrap().iter().find(|it| it["name"] == "every_member:member");
    assert_eq!(skill.unwrap()["category"], "plugin every_member", "{skills}");
    let next = rig.ok(["context", "--next", "all"]);
    assert!(next.contains("member_tool"), "{next}");
    rig.ok(["-z", "hello"]);
    let body = String::from_utf8(server.received().last().unwrap().clone()).unwrap();
    assert!(body.contains("A fixed section."), "{body}");
    assert_eq!(rig.ok(["member", "--loud"]), "MEMBER\n");
}

#[test]
fn slash_commands_of_plugins_run_complete_and_never_take_a_name_of_this_program() {
    let rig = Rig::new();
    plugin(
        &rig,
        "slashes",
        r#"
def status(raw_args, *, session_id="", platform=""):
    return f"status of {raw_args or 'all'} on {platform}, session {session_id or '(none yet)'}"

def broken(raw_args):
    raise ValueError("cannot do that")

def register(ctx):
    ctx.register_command("agent-status", status, description="Says how it is", args_hint="[DAY]")
    ctx.register_command("break-it", broken)
    ctx.register_command("help", status)
"#,
    );
    rig.ok(["plugins", "enable", "slashes"]);
    let doctor = rig.ok(["plugins", "doctor"]);
    assert!(doctor.contains("command /help: /help is a command of this program"), "{doctor}");

    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("/agent_status today");
    terminal.wait_for("status of today on cli, session (none yet)");
    terminal.wait_for_prompt();
    terminal.line("/break-it");
    terminal.wait_for("cannot do that");
    terminal.wait_for_prompt();
    terminal.line("/plugins");
    terminal.wait_for("/agent-status /break-it");
    terminal.wait_for_prompt();
    terminal.line("/help");
    terminal.wait_for("Says how it is");
    terminal.wait_for_prompt();
    terminal.send("/agent-st\t");
    terminal.wait_for("> /agent-status");
    terminal.send("\x15\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_session_deleted_on_the_way_out_is_told_to_the_plugins_that_run() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    install(&rig, "every_hook");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("hello");
    terminal.wait_for("rehearsal model");
    terminal.wait_for_prompt();
    terminal.line("/exit --delete");
    assert_eq!(terminal.end().0, 0);
    let heard = heard(&rig);
    let count = |name: &str| heard.iter().filter(|it| *it == name).count();
    assert_eq!((count("on_session_delete"), count("on_session_finalize")), (1, 1), "{heard:?}");
    assert_eq!(count("pre_command"), 1, "{heard:?}");
}

/// The code block of the guide that begins like this.
#[cfg(unix)]
fn of_guide(begin: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/plugins.md");
    let guide = fs::read_to_string(guide).unwrap();
    let at = guide.find(begin).unwrap_or_else(|| panic!("the guide has no block {begin:?}"));
    guide[at..].split("```").next().unwrap().to_owned()
}

#[test]
#[cfg(unix)]
fn the_guides_plugins_do_what_the_guide_says() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "approvals:\n  allow: ['git push --force']\n");
    plugin(&rig, "rules", &of_guide("RULES = "));
    let folder = rig.home().join("plugins/guard");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.yaml"), of_guide("name: guard")).unwrap();
    fs::write(folder.join("run.sh"), of_guide("#!/bin/sh")).unwrap();
    fs::set_permissions(folder.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    rig.ok(["plugins", "validate", folder.to_str().unwrap()]);
    rig.ok(["plugins", "enable", "guard"]);
    rig.ok(["plugins", "enable", "rules"]);
    let doctor = rig.json(["plugins", "doctor", "--json"]);
    assert_eq!(doctor["plugins"][0]["hooks"]["pre_tool_call"], 1, "{doctor}");
    assert_eq!(doctor["plugins"][1]["hooks"]["post_compaction"], 1, "{doctor}");
    let turn = rig.json(["chat", "--json", "-q", "run git push --force"]);
    let session = turn["session_id"].as_str().unwrap();
    let export = rig.ok(["sessions", "export", "--session-id", session]);
    assert!(export.contains("force pushes are not allowed here"), "{export}");
}
