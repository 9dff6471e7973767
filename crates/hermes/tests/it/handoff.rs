//! Capsules from the command line and on a terminal: built, given once, told of when no model
//! wrote them.

use hermes_provider::rehearsal::{RehearsalServer, Script};
use serde_json::Value;

use crate::rig::{Ran, Rig, serve};
use crate::terminal::Terminal;

/// A session of four messages; its id.
fn talked(rig: &Rig) -> String {
    let first = rig.json(["chat", "--json", "-q", "we use port 8443 in deploy.toml"]);
    let session = first["session_id"].as_str().unwrap().to_owned();
    rig.json(["chat", "--json", "--resume", &session, "-q", "and now the rollback of release 7"]);
    session
}

fn build(rig: &Rig, session: &str) -> Value {
    rig.json(["handoff", "build", "--session-id", session, "--json"])
}

/// The bodies that arrived, one after the other.
fn bodies(server: &RehearsalServer) -> String {
    server.received().into_iter().map(|body| String::from_utf8(body).unwrap() + "\n").collect()
}

#[test]
fn a_capsule_is_given_to_the_next_session_that_a_person_starts_and_to_no_other() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    let result = build(&rig, &old);
    assert_eq!((&result["status"], &result["session_id"]), (&"ok".into(), &old.as_str().into()));
    assert_eq!(result["messages"], 4);
    let path = result["path"].as_str().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("## ")).count(), 6, "{text}");
    assert!(text.contains("port 8443") && text.contains(&old), "{text}");

    let shown = rig.json(["handoff", "show", "--json"]);
    assert_eq!(shown["sections"][4]["heading"], "Next", "{shown}");
    assert_eq!(shown["references"][0]["section"], "working_on", "{shown}");
    assert_eq!(shown["references"][0]["rows"][0], 3, "{shown}");

    // The session it is about, and a script that wants the answer alone, get nothing.
    rig.ok(["chat", "--resume", &old, "-q", "is it there?"]);
    rig.ok(["-z", "hello"]);
    assert!(!bodies(&server).contains("history you already established"));
    // The next one gets it with its first message, once.
    let ran = rig.run(["chat", "-q", "go on"]);
    assert!(
        ran.stderr.contains(&format!("Going on from the handoff of session {old}")),
        "{}",
        ran.stderr
    );
    assert_eq!(bodies(&server).matches("history you already established").count(), 1);
    rig.ok(["chat", "-q", "go on again"]);
    assert_eq!(bodies(&server).matches("history you already established").count(), 1);
    assert_eq!(
        std::fs::read_dir(rig.home().join("handoffs"))
            .unwrap()
            .filter(|entry| {
                entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("pending-")
            })
            .count(),
        0
    );
    let listed = rig.json(["handoff", "list", "--json"]);
    assert_eq!(listed[0]["record"]["state"], "delivered");
    rig.ok(["requests", "verify", "--all"]);
    // Every question to the writer is in the ledger of the session it is about.
    let requests = rig.json(["requests", "list", "--session", &old, "--json"]);
    assert!(requests.to_string().contains("compression"), "{requests}");
}

#[test]
fn a_script_gets_the_capsule_when_it_asks_for_a_fresh_start() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    build(&rig, &old);
    rig.json(["chat", "--fresh", "--json", "-q", "go on"]);
    assert_eq!(bodies(&server).matches("history you already established").count(), 1);
    let ran = rig.run(["chat", "--fresh", "-q", "go on"]);
    assert!(ran.stderr.contains("no capsule waits"), "{}", ran.stderr);
    assert_eq!(rig.run(["chat", "--fresh", "--resume", &old, "-q", "x"]).code, 2);
}

#[test]
fn delivery_leaves_the_prompt_as_it_is() {
    let system = |with: bool| {
        let rig = Rig::new();
        let server = serve(None);
        rig.endpoint(&server, "");
        let old = talked(&rig);
        if with {
            build(&rig, &old);
        }
        rig.ok(["chat", "-q", "go on"]);
        let last: Value = serde_json::from_slice(&server.received().pop().unwrap()).unwrap();
        let text = last["messages"][0]["content"].as_str().unwrap().to_owned();
        let given = last["messages"].to_string().contains("history you already established");
        assert_eq!(given, with);
        let root = rig.work().parent().unwrap().to_string_lossy().into_owned();
        let lines = text.lines().filter(|line| !line.starts_with("Id: "));
        lines.collect::<Vec<_>>().join("\n").replace(&root, "ROOT")
    };
    assert_eq!(system(true), system(false));
}

#[test]
fn a_capsule_without_its_writer_says_so_everywhere() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    let refused = r#"[{"status":401,"body":{"error":{"message":"no such key"}},"repeat":3}]"#;
    let refusing =
        serve(Some(Script::parse(std::path::Path::new("script.json"), refused).unwrap()));
    rig.endpoint(&refusing, "");
    let checked = rig.run(["handoff", "check"]);
    assert_eq!(checked.code, 4, "{}", checked.stderr);
    assert!(checked.stderr.contains("401"), "{}", checked.stderr);
    let Ran { code, stdout, .. } = rig.run(["handoff", "build", "--session-id", &old, "--json"]);
    assert_eq!(code, 8, "{stdout}");
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&result["status"], &result["writer"]),
        (&"fallback".into(), &"deterministic".into())
    );
    assert!(result["reason"].as_str().unwrap().contains("401"), "{result}");
    let text = std::fs::read_to_string(result["path"].as_str().unwrap()).unwrap();
    for told in [
        text,
        rig.ok(["handoff", "list"]),
        rig.run(["doctor"]).stdout,
        rig.run(["handoff", "build", "--session-id", &old]).stderr,
    ] {
        assert!(told.contains("401"), "{told}");
    }
    let ran = rig.run(["handoff", "show", "nosuch"]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert_eq!(rig.run(["handoff", "build", "--session-id", "nosuch"]).code, 6);
}

#[test]
fn a_capsule_is_discarded_handed_on_by_its_id_and_goes_with_its_session() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    let first = build(&rig, &old)["capsule"].as_str().unwrap().to_owned();
    rig.ok(["handoff", "discard", &first]);
    rig.ok(["chat", "-q", "nothing of before"]);
    assert!(!bodies(&server).contains("history you already established"));
    let second = build(&rig, &old)["capsule"].as_str().unwrap().to_owned();
    assert!(rig.ok(["handoff", "verify", &second]).contains("byte for byte"));
    rig.ok(["handoff", "deliver", &second, "--say", "go on"]);
    assert_eq!(bodies(&server).matches("history you already established").count(), 1);
    assert_eq!(rig.run(["handoff", "deliver", &second, "--say", "again"]).code, 1);
    build(&rig, &old);
    rig.ok(["sessions", "delete", &old, "--yes"]);
    let left = std::fs::read_dir(rig.home().join("handoffs")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        !name.to_string_lossy().starts_with('.')
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_night_builds_and_closes_the_latest_conversation_and_its_rehearsal_touches_nothing() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    rig.ok(["chat", "--resume", &old, "-q", "a third thing"]);
    let planned = rig.ok(["handoff", "nightly", "--dry-run"]);
    assert!(planned.contains(&format!("would build default {old}")), "{planned}");
    assert_eq!(rig.json(["handoff", "list", "--json"]).as_array().unwrap().len(), 0);
    let night = rig.ok(["handoff", "nightly"]);
    assert!(night.starts_with("ok default ") && night.ends_with("1 ok\n"), "{night}");
    let shown = rig.json(["sessions", "show", &old, "--json"]);
    assert!(shown.to_string().contains("\"end_reason\":\"handoff\""), "{shown}");
    assert_eq!(rig.ok(["handoff", "nightly"]), "nothing was due\n");
}

#[test]
fn the_bare_word_ends_the_session_and_the_next_one_starts_with_its_capsule() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    let terminal = Terminal::start(&rig, &["--resume", &old]);
    terminal.wait_for_prompt();
    terminal.send("Handoff.\r");
    terminal.wait_for("waits; your first message");
    terminal.send("go on please\r");
    terminal.wait_for("Going on from the handoff");
    terminal.wait_for("understand only these requests: read FILE, run COMMAND, remember TEXT");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    assert!(screen.contains("Writing the handoff."), "{screen}");
    assert!(screen.contains("The handoff is written"), "{screen}");
    assert_eq!(bodies(&server).matches("history you already established").count(), 1);
    assert!(!bodies(&server).contains("Handoff."), "the word does not go to the model");
    let shown = rig.json(["sessions", "show", &old, "--json"]);
    assert!(shown.to_string().contains("\"end_reason\":\"handoff\""), "{shown}");
}

#[test]
fn a_store_that_cannot_be_opened_is_a_result_like_any_other() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.home()).unwrap();
    std::fs::write(rig.home().join("state.db"), "no database\n".repeat(1_000)).unwrap();
    let ran = rig.run(["handoff", "build", "--session-id", "old", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["status"], "write_failed");
    assert!(result["reason"].as_str().unwrap().contains("store"), "{result}");
    let told = rig.run(["handoff", "build", "--session-id", "old"]);
    assert!(told.stderr.contains("There is no handoff (write_failed)"), "{}", told.stderr);
    let night = rig.run(["handoff", "nightly"]);
    assert_eq!((night.code, night.stdout.lines().last()), (1, Some("nothing was built")));
}

#[test]
fn the_bare_word_said_by_one_process_ends_the_session_that_it_names() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    let asked = server.received().len();
    let none = rig.run(["chat", "-q", "handoff"]);
    assert_eq!(none.code, 6, "{}", none.stderr);
    assert!(none.stderr.contains("hermes -c chat -q handoff"), "{}", none.stderr);
    assert_eq!(server.received().len(), asked, "the word does not go to the model");
    // For a script it is a message like any other, and so is a sentence.
    rig.json(["--resume", &old, "chat", "--json", "-q", "handoff"]);
    rig.ok(["--resume", &old, "chat", "-q", "can you do a handoff for me?"]);
    assert_eq!(server.received().len(), asked + 2);

    let ran = rig.run(["--resume", &old, "chat", "-q", " Hand-off! "]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("Writing the handoff of session {old}")));
    assert!(ran.stderr.contains("The handoff is written (8 messages"), "{}", ran.stderr);
    let shown = rig.json(["sessions", "show", &old, "--json"]);
    assert!(shown.to_string().contains("\"end_reason\":\"handoff\""), "{shown}");
    assert!(!bodies(&server).contains("Hand-off!"));

    rig.endpoint(&server, "handoff:\n  close: false\n");
    let next = rig.json(["chat", "--json", "-q", "something else"]);
    let next = next["session_id"].as_str().unwrap();
    let short = rig.run(["--resume", next, "chat", "-q", "/wrapup the port"]);
    assert_eq!(short.code, 1, "{}", short.stderr);
    assert!(short.stderr.contains("too_short"), "{}", short.stderr);
    rig.json(["--resume", next, "chat", "--json", "-q", "and more"]);
    assert_eq!(rig.run(["--resume", next, "chat", "-q", "/wrapup the port"]).code, 0);
    assert!(bodies(&server).contains("dwell on: the port"));
    let shown = rig.json(["sessions", "show", next, "--json"]);
    assert!(!shown.to_string().contains("\"end_reason\":\"handoff\""), "{shown}");
}

/// Of the shape of the article's plugin: a command of its own.
const THEIRS: &str = r#"
def register(ctx):
    ctx.register_command("wrapup", lambda raw_args: f"THEIR HANDOFF of {raw_args}")
"#;

#[test]
fn the_plugin_of_that_name_has_its_own_wrapup_and_no_other_plugin_has() {
    for (name, theirs) in [("hermes-handoff", true), ("another", false)] {
        let rig = Rig::new();
        let server = serve(None);
        rig.endpoint(&server, "");
        let folder = rig.home().join("plugins").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("plugin.yaml"), format!("name: {name}\nversion: \"1.0\"\n"))
            .unwrap();
        std::fs::write(folder.join("__init__.py"), THEIRS).unwrap();
        rig.ok(["plugins", "enable", name]);
        let terminal = Terminal::start(&rig, &[]);
        terminal.wait_for_prompt();
        terminal.line("/wrapup the port");
        terminal.wait_for(if theirs { "THEIR HANDOFF of the port" } else { "no_session" });
        terminal.wait_for_prompt();
        terminal.send("\x04");
        let (code, screen) = terminal.end();
        assert_eq!((code, screen.contains("THEIR HANDOFF")), (0, theirs), "{screen}");
    }
}

#[test]
fn the_plugin_of_that_name_keeps_the_built_in_quiet() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "plugins:\n  enabled: [hermes-handoff]\n");
    let old = talked(&rig);
    build(&rig, &old);
    rig.ok(["chat", "-q", "go on"]);
    assert!(!bodies(&server).contains("history you already established"));
    let night = rig.run(["handoff", "nightly"]);
    assert_eq!((night.code, night.stdout.as_str()), (0, "nothing was due\n"));
    assert!(night.stderr.contains("hermes-handoff is enabled"), "{}", night.stderr);
}

#[test]
fn the_recovery_block_is_followed_to_what_the_capsule_leaves_out() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    build(&rig, &old);
    rig.ok(["chat", "-q", "recover deploy.toml"]);
    let last: Value = serde_json::from_slice(&server.received().pop().unwrap()).unwrap();
    let messages = last["messages"].as_array().unwrap();
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let [found, around] = results[..] else { panic!("{results:?}") };
    assert!(found.contains("match_message_id") && found.contains(&old), "{found}");
    assert!(around.contains("we use port 8443 in deploy.toml"), "{around}");
}

#[test]
fn nothing_of_a_confidential_lane_is_in_the_folder_or_the_log() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let first = rig.json([
        "chat",
        "--json",
        "-q",
        "my name is Wilhelmina Okonkwo, write to w.okonkwo@example.com about invoice_0417.pdf",
    ]);
    let session = first["session_id"].as_str().unwrap();
    rig.json([
        "chat",
        "--json",
        "--resume",
        session,
        "-q",
        "Wilhelmina pays to DE89370400440532013000",
    ]);
    let refused =
        r#"[{"status":401,"body":{"error":{"message":"Okonkwo has no key"}},"repeat":9}]"#;
    let refusing =
        serve(Some(Script::parse(std::path::Path::new("script.json"), refused).unwrap()));
    for (server, code) in [(&server, 0), (&refusing, 8)] {
        rig.endpoint(server, "");
        let ran = Ran::from(
            rig.command(["handoff", "build", "--session-id", session, "--json"])
                .env("HANDOFF_CONFIDENTIAL", "1")
                .output()
                .unwrap(),
        );
        assert_eq!(ran.code, code, "{}{}", ran.stdout, ran.stderr);
        let mut texts = vec![ran.stdout, ran.stderr];
        for folder in ["handoffs", "logs"] {
            let Ok(entries) = std::fs::read_dir(rig.home().join(folder)) else { continue };
            for entry in entries {
                let bytes = std::fs::read(entry.unwrap().path()).unwrap();
                texts.push(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        assert!(texts.len() > 3, "the capsule and its note are there");
        for secret in ["Wilhelmina", "Okonkwo", "okonkwo", "invoice", "_0417", "DE8937"] {
            assert!(texts.iter().all(|text| !text.contains(secret)), "{secret}: {texts:#?}");
        }
    }
}

#[test]
fn a_night_goes_over_all_profiles_and_one_that_is_broken_keeps_none_from_its_capsules() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let long = |rig: &Rig, profile: &str| {
        let first = rig.json(["-p", profile, "chat", "--json", "-q", "the first of three"]);
        let session = first["session_id"].as_str().unwrap().to_owned();
        for text in ["the second", "the third"] {
            rig.json(["-p", profile, "chat", "--json", "--resume", &session, "-q", text]);
        }
        session
    };
    let here = long(&rig, "default");
    for name in ["work", "broken"] {
        rig.ok(["profile", "create", name, "--clone"]);
    }
    let there = long(&rig, "work");
    long(&rig, "broken");
    let planned = rig.json(["handoff", "nightly", "--dry-run", "--json"]);
    for (profile, session) in [("default", &here), ("work", &there)] {
        assert_eq!(planned["profiles"][profile]["builds"][0]["session"], **session, "{planned}");
    }
    let one = rig.ok(["handoff", "nightly", "--dry-run", "--limit", "1"]);
    assert!(
        one.contains("would build broken") && one.contains("would leave 2: over_limit"),
        "{one}"
    );

    // One profile's writer fails, another's settings cannot be read.
    let script = r#"[{"status":401,"body":{"error":{"message":"no such key"}},"repeat":9}]"#;
    let script = Script::parse(std::path::Path::new("s.json"), script).unwrap();
    let refusing = serve(Some(script));
    let home = rig.home().join("profiles");
    let config = std::fs::read_to_string(home.join("work/config.yaml")).unwrap();
    let failing = config.replace(&server.base_url(), &refusing.base_url());
    std::fs::write(home.join("work/config.yaml"), &failing).unwrap();
    std::fs::write(home.join("broken/config.yaml"), "model: [\n").unwrap();
    let night = rig.run(["handoff", "nightly"]);
    assert_eq!(night.code, 1, "{}{}", night.stdout, night.stderr);
    let lines: Vec<&str> = night.stdout.lines().collect();
    assert!(lines[0].starts_with("ok default ") && lines[0].contains(&here), "{lines:#?}");
    assert!(lines[1].starts_with("fallback work ") && lines[1].contains("(401)"), "{lines:#?}");
    assert!(lines[2].starts_with("failed broken: ") && lines[2].contains("config.yaml"));
    assert_eq!(lines[3..], ["1 fallback, 1 ok"]);
    for (profile, session) in [("default", &here), ("work", &there)] {
        let shown = rig.json(["-p", profile, "sessions", "show", session, "--json"]);
        assert!(shown.to_string().contains("\"end_reason\":\"handoff\""), "{shown}");
    }
    // A night with nothing but a fallback has the code of one; -p keeps to one profile.
    std::fs::write(home.join("work/config.yaml"), &config).unwrap();
    let again = long(&rig, "work");
    std::fs::write(home.join("work/config.yaml"), &failing).unwrap();
    let night = rig.run(["-p", "work", "handoff", "nightly"]);
    assert_eq!(night.code, 8, "{}{}", night.stdout, night.stderr);
    assert!(night.stdout.contains(&again) && night.stdout.ends_with("\n1 fallback\n"));
}

#[test]
fn to_continue_after_a_handoff_is_to_go_on_from_its_capsule_and_is_never_silent() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    rig.json(["chat", "--json", "--resume", &old, "-q", "a third thing"]);
    rig.ok(["handoff", "nightly"]);
    let given = || bodies(&server).matches("history you already established").count();

    // A script gets the old session again, and is told.
    let quiet = rig.run(["-c", "chat", "-Q", "-q", "where were we?"]);
    assert_eq!((quiet.code, given()), (0, 0), "{}", quiet.stderr);
    let note = format!("session {old} ended with a handoff and is taken up again");
    assert!(quiet.stderr.contains(&note) && quiet.stderr.contains("--fresh"), "{}", quiet.stderr);
    rig.ok(["handoff", "nightly"]);

    let ran = rig.run(["-c", "chat", "-q", "where were we?"]);
    assert_eq!((ran.code, given()), (0, 1), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("session {old} ended with a handoff, so a new session")));
    assert!(ran.stderr.contains(&format!("hermes --resume {old}")), "{}", ran.stderr);
    // From now on the latest session is the new one.
    let ran = rig.run(["-c", "chat", "-q", "and on"]);
    assert!(!ran.stderr.contains("ended with a handoff"), "{}", ran.stderr);
    let sessions = rig.json(["sessions", "list", "--json"]);
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");

    // With its capsule taken back there is nothing to go on from.
    rig.ok(["-c", "chat", "-q", "and still further"]);
    rig.ok(["handoff", "nightly"]);
    rig.ok(["handoff", "discard", "latest"]);
    let ran = rig.run(["--resume", "latest", "chat", "-q", "hello again"]);
    assert!(ran.stderr.contains("is taken up again, as no capsule of it waits"), "{}", ran.stderr);
    assert_eq!(rig.json(["sessions", "list", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn the_capsule_that_waits_is_shown_beforehand_and_survives_undo_and_retry() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    build(&rig, &old);
    let next = rig.ok(["context", "--next", "--fresh", "--say", "go on"]);
    assert!(next.lines().any(|line| line.trim().starts_with("history  capsule")), "{next}");
    assert_eq!(rig.run(["context", "--next", "--fresh", &old]).code, 2);
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for("waits; your first message");
    terminal.wait_for_prompt();
    terminal.line("/undo");
    terminal.wait_for("nothing that was said here stands");
    terminal.wait_for_prompt();
    terminal.line("what now?");
    terminal.wait_for("Going on from the handoff");
    terminal.wait_for_prompt();
    terminal.line("/retry");
    terminal.wait_for("asking again: what now?");
    terminal.wait_for_prompt();
    terminal.line("/undo 7");
    terminal.wait_for("the last turn (2 rows) left the conversation");
    // What was said stands in the line again.
    terminal.wait("the line", |screen| {
        screen.lines().last().is_some_and(|line| line.trim() == "> what now?")
    });
    terminal.send(" really\r");
    terminal.wait("the third answer", |screen| {
        let read = screen.matches("understand only these requests").count();
        read == 3 && screen.lines().last().is_some_and(|line| line.trim() == ">")
    });
    terminal.line("/undo 0");
    terminal.wait_for("a number of turns from 1 on");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    let sent: Vec<Value> = server
        .received()
        .into_iter()
        .rev()
        .take(3)
        .map(|body| serde_json::from_slice(&body).unwrap())
        .collect();
    for (body, said) in sent.iter().zip(["what now? really", "what now?", "what now?"]) {
        let messages = body["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2, "{body}");
        assert_eq!(messages[0], sent[0]["messages"][0], "the prompt stays");
        let text = messages[1].to_string();
        assert!(text.contains("history you already established") && text.contains(said), "{text}");
    }
    let listed = rig.json(["handoff", "list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["record"]["state"], "delivered");
    rig.ok(["requests", "verify", "--all"]);
    rig.ok(["sessions", "check"]);
}

#[test]
fn a_handoff_in_place_of_a_further_compaction_is_proposed_once_or_done() {
    for (when, does) in [("propose", false), ("do", true)] {
        let rig = Rig::new();
        let server = serve(None);
        let config = format!("handoff:\n  after_compactions: 1\n  when_due: {when}\n");
        rig.endpoint(&server, &config);
        let mut session = String::new();
        for n in 0..5 {
            let text = format!("part {n}: {}", format!("word{n} and some more text ").repeat(60));
            let mut args = vec!["chat", "--json", "-q", &text];
            if !session.is_empty() {
                args.extend(["--resume", &session]);
            }
            session = rig.json(args)["session_id"].as_str().unwrap().to_owned();
        }
        rig.ok(["sessions", "compress", &session, "--here", "1"]);
        if !does {
            let ran = rig.run(["--resume", &session, "chat", "-q", "and one thing"]);
            assert!(ran.stderr.contains("was compacted once; hint: `hermes handoff build"));
        }
        let terminal = Terminal::start(&rig, &["--resume", &session]);
        terminal.wait_for_prompt();
        terminal.line("the next thing");
        let told = terminal.wait_for("this session was compacted once; ");
        assert_eq!(told.contains("Writing the handoff"), does, "{told}");
        if does {
            terminal.wait_for("waits; your first message");
        } else {
            terminal.wait_for_prompt();
            terminal.line("another thing");
            terminal.wait("the second answer", |screen| {
                screen.matches("understand only these requests").count() >= 2
                    && screen.lines().last().is_some_and(|line| line.trim() == ">")
            });
        }
        terminal.wait_for_prompt();
        terminal.send("\x04");
        let (_, screen) = terminal.end();
        assert_eq!(screen.matches("was compacted once").count(), 1, "told once: {screen}");
        let shown = rig.json(["sessions", "show", &session, "--json"]).to_string();
        assert_eq!(shown.contains("\"end_reason\":\"handoff\""), does, "{shown}");
    }
}

/// The arguments of a call as the Recovery block writes it: `name="text", other=<number>`.
fn arguments(call: &str, words: &str, hit: u64) -> Value {
    let call = call.replace("2 to 5 keywords", words);
    let call = call.replace("<match_message_id>", &hit.to_string());
    let (_, rest) = call.split_once("session_search(").unwrap();
    let (inside, _) = rest.split_once(')').unwrap();
    let pairs = inside.split(", ").map(|pair| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), serde_json::from_str(value).unwrap())
    });
    Value::Object(pairs.collect())
}

#[test]
fn each_call_of_the_recovery_block_works_as_it_stands() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    rig.file("deploy.toml", "port = 8443\nlamp = \"amber lantern\"\n");
    let first = rig.json(["chat", "--json", "-q", "read deploy.toml"]);
    let old = first["session_id"].as_str().unwrap().to_owned();
    rig.json(["chat", "--json", "--resume", &old, "-q", "and now the rollback"]);
    let path = build(&rig, &old)["path"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let block = text.split("## Recovery").nth(1).unwrap();
    let calls: Vec<&str> = block.lines().filter(|it| it.contains("- session_search(")).collect();
    assert_eq!(calls.len(), 3, "{block}");
    let filter = block.split("role_filter=\"").nth(1).unwrap().split('"').next().unwrap();

    let found = rig.json(["sessions", "search", "rollback", "--json"]).to_string();
    let (_, hit) = found.split_once("\"match_message_id\":").unwrap();
    let hit: String = hit.chars().take_while(char::is_ascii_digit).collect();
    let mut asked: Vec<Value> =
        calls.iter().map(|it| arguments(it, "rollback", hit.parse().unwrap())).collect();
    let mut tools = arguments(calls[0], "amber lantern", 0);
    tools["role_filter"] = filter.into();
    asked.push(tools);
    let script: Vec<Value> = asked
        .iter()
        .map(|it| serde_json::json!({ "call": { "name": "session_search", "arguments": it } }))
        .collect();
    let script = Value::Array(script).to_string();
    let calling = serve(Some(Script::parse(std::path::Path::new("s.json"), &script).unwrap()));
    rig.endpoint(&calling, "");
    rig.ok(["chat", "-q", "look it up"]);
    let last: Value = serde_json::from_slice(&calling.received().pop().unwrap()).unwrap();
    let results: Vec<String> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(results.len(), 4, "{last}");
    for (result, wanted) in
        results.iter().zip(["rollback", "rollback", "rollback", "amber lantern"])
    {
        assert!(result.contains(wanted) && result.contains(&old), "{wanted}: {result}");
    }
    assert!(results[3].contains("\"tool\""), "the value came from a tool: {}", results[3]);
}
