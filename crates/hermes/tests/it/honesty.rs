//! Each way in which the writer of capsules can fail, through the built binary: the reply in the
//! conversation, the result and its exit code, the log, the files, the lists and `doctor` all say
//! that no model wrote the capsule, and why.

use hermes_provider::rehearsal::Script;
use serde_json::Value;

use crate::rig::{Ran, Rig, serve};
use crate::terminal::Terminal;

/// A way to fail.
struct Way {
    /// What the writer's server plays, for as long as it is asked.
    plays: Value,
    /// Configuration beside the endpoint.
    config: &'static str,
    /// What is told everywhere.
    cause: &'static str,
    /// Further words of the cause, where the client knows them.
    detail: &'static str,
}

impl Way {
    fn playing(plays: Value, cause: &'static str, detail: &'static str) -> Self {
        Self { plays, config: "", cause, detail }
    }
}

/// An answer of the model that ends as `finish` says.
fn stream(text: &str, finish: &str) -> Value {
    let said = serde_json::json!({ "id": "c", "choices": [
        { "index": 0, "delta": { "content": text } }] });
    let end = serde_json::json!({ "id": "c", "choices": [
        { "index": 0, "delta": {}, "finish_reason": finish }] });
    serde_json::json!({
        "headers": { "content-type": "text/event-stream" },
        "body": format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n"),
    })
}

fn refused(status: u16, message: &str) -> Value {
    serde_json::json!({ "status": status, "body": { "error": { "message": message } } })
}

/// A session of four messages, long enough for its capsule to be compared with the next one; its
/// id.
fn talked(rig: &Rig) -> String {
    let long = "the parser keeps every comment in its place and ".repeat(12);
    let first =
        rig.json(["chat", "--json", "-q", &format!("we use port 8443 in deploy.toml {long}")]);
    let session = first["session_id"].as_str().unwrap().to_owned();
    rig.json([
        "chat",
        "--json",
        "--resume",
        &session,
        "-q",
        &format!("and roll back to 7, {long}"),
    ]);
    session
}

/// What the log says of builds.
fn builds_in_log(rig: &Rig) -> Vec<String> {
    let text = std::fs::read_to_string(rig.home().join("logs/hermes.log")).unwrap_or_default();
    let lines = text.lines().filter(|it| it.contains("capsule built") || it.contains("no capsule"));
    lines.map(str::to_owned).collect()
}

/// A screen as one line without white space, so that it does not matter where it is broken.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect()
}

fn check(way: &Way) {
    let rig = Rig::new();
    let sound = serve(None);
    rig.endpoint(&sound, "");
    let old = talked(&rig);
    let good = rig.json(["handoff", "build", "--session-id", &old, "--json"]);
    assert_eq!(good["status"], "ok", "{good}");

    let mut plays = way.plays.clone();
    plays["repeat"] = 100.into();
    let script = Script::parse(std::path::Path::new("s.json"), &format!("[{plays}]")).unwrap();
    let failing = serve(Some(script));
    rig.endpoint(&failing, way.config);
    let names = |place: &str, text: &str| {
        for wanted in [way.cause, way.detail] {
            assert!(unbroken(text).contains(&unbroken(wanted)), "{place}: {wanted}\n{text}");
        }
    };

    // The reply in the conversation, at the prompt or, from a slow writer, on leaving.
    let terminal = Terminal::start(&rig, &["--resume", &old]);
    terminal.wait_for_prompt();
    terminal.line("handoff");
    terminal.wait_for("Writing the handoff.");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    names("reply", &screen);
    assert!(unbroken(&screen).contains("WITHOUTamodel"), "{screen}");

    // The result, its exit code and its sentence.
    let ran = rig.run(["handoff", "build", "--session-id", &old, "--json"]);
    assert_eq!(ran.code, 8, "{}{}", ran.stdout, ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&result["status"], &result["writer"]),
        (&"fallback".into(), &"deterministic".into())
    );
    names("result", result["reason"].as_str().unwrap());
    let Ran { code, stderr, stdout } = rig.run(["handoff", "build", "--session-id", &old]);
    assert_eq!((code, stdout.as_str()), (8, ""));
    assert!(stderr.contains("WITHOUT a model") && stderr.contains("hint: "), "{stderr}");
    names("sentence", &stderr);

    // One line in the log for each build, with lane, session and messages.
    let log = builds_in_log(&rig);
    assert_eq!(log.len(), 4, "{log:#?}");
    for (line, status) in log.iter().zip(["ok", "fallback", "fallback", "fallback"]) {
        for wanted in [" INFO ", &format!("session={old}"), "lane=", "messages=4"] {
            assert!(line.contains(wanted), "{wanted}: {line}");
        }
        assert!(line.contains(&format!("status=\"{status}\"")), "{line}");
    }
    names("log", &log[3]);

    // Both files.
    let path = std::path::PathBuf::from(result["path"].as_str().unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    let status = text.lines().find(|line| line.starts_with("capsule-status: fallback")).unwrap();
    names("status line", status);
    names("first paragraph", text.split("\n\n").next().unwrap());
    assert!(text.contains("No model wrote this"), "{text}");
    let note = path.to_str().unwrap().replace("/handoff-", "/pending-").replace(".md", ".json");
    let note: Value = serde_json::from_slice(&std::fs::read(note).unwrap()).unwrap();
    assert_eq!(note["status"], "fallback");
    names("note", note["reason"].as_str().unwrap());

    // The lists, what is shown, and doctor.
    names("list", &rig.ok(["handoff", "list"]));
    let listed = rig.json(["handoff", "list", "--json"]);
    assert_eq!(listed[0]["record"]["status"], "fallback");
    names("list --json", listed[0]["record"]["reason"].as_str().unwrap());
    names("show", &rig.ok(["handoff", "show"]));
    let doctor = rig.run(["doctor"]).stdout;
    let line = doctor.lines().find(|line| line.contains("status fallback")).unwrap();
    names("doctor", line);

    // And the session that receives it.
    rig.endpoint(&sound, "");
    let next = rig.run(["chat", "-q", "go on"]);
    assert!(next.stderr.contains("which no model wrote"), "{}", next.stderr);
}

#[test]
fn nobody_who_could_write_is_said_everywhere() {
    check(&Way {
        config: "auxiliary:\n  compression:\n    enabled: false\n",
        ..Way::playing(
            refused(500, "never asked"),
            "no model is configured that could write it",
            "switched off",
        )
    });
}

#[test]
fn a_refused_key_is_said_everywhere() {
    let plays = refused(401, "no such key");
    check(&Way::playing(plays, "the writer's key was refused (401)", "answered 401"));
}

#[test]
fn an_account_without_credit_is_said_everywhere() {
    let plays = refused(402, "insufficient credit");
    check(&Way::playing(plays, "the writer's account has no credit (402)", "answered 402"));
}

#[test]
fn too_many_requests_to_the_last_try_are_said_everywhere() {
    let plays = refused(429, "slow down");
    check(&Way::playing(plays, "the writer was busy to the last try (429)", "answered 429"));
}

#[test]
fn a_writer_that_does_not_answer_in_time_is_said_everywhere() {
    check(&Way {
        config: "auxiliary:\n  compression:\n    timeout: 1\n\
                 compression:\n  context_timeout_seconds: 1\n",
        ..Way::playing(
            serde_json::json!({ "then": { "hang_ms": 600_000 } }),
            "the writer did not answer in time",
            "within 1 s",
        )
    });
}

#[test]
fn a_lost_connection_is_said_everywhere() {
    let plays = serde_json::json!({ "then": "reset" });
    check(&Way::playing(plays, "the connection to the writer was lost", "custom/scripted"));
}

#[test]
fn an_empty_answer_is_said_everywhere() {
    check(&Way::playing(stream("", "stop"), "the writer's answer was empty", ""));
}

#[test]
fn a_refusal_is_said_everywhere() {
    let plays = serde_json::json!({ "say": "I'm sorry, but I can't help with that." });
    check(&Way::playing(plays, "the writer refused", ""));
}

#[test]
fn an_answer_that_was_cut_off_is_said_everywhere() {
    let plays = stream("## Working on\nthe parser\n## State\nhalf", "length");
    check(&Way::playing(plays, "the writer's answer was cut off at its output limit", ""));
}

#[test]
fn wrong_headings_are_said_everywhere() {
    let text = "## Working on\nx\n## State\ny\n## Choices\nz\n## Pointers\nv\n## Next\nw";
    let plays = serde_json::json!({ "say": text });
    check(&Way::playing(plays, "does not have the five headings in order", ""));
}

#[test]
fn an_answer_that_is_no_capsule_is_said_everywhere() {
    let plays = serde_json::json!({ "say": "The conversation was about a parser." });
    check(&Way::playing(plays, "the writer's answer is no capsule", ""));
}

#[test]
fn an_answer_emptier_than_the_capsule_before_is_said_everywhere() {
    let text = "## Working on\nx\n## State\n- none\n## Decisions\n- none\n## Pointers\n- none\n\
                ## Next\n- none";
    let plays = serde_json::json!({ "say": text });
    check(&Way::playing(plays, "says much less than the capsule before it", ""));
}

#[test]
fn a_build_that_is_refused_is_a_warning_with_its_status() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let first = rig.json(["chat", "--json", "-q", "only this"]);
    let session = first["session_id"].as_str().unwrap();
    let ran = rig.run(["handoff", "build", "--session-id", session]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains("too_short") && ran.stderr.contains("2 messages"),
        "{}",
        ran.stderr
    );
    assert_eq!(rig.run(["handoff", "build", "--session-id", "nosuch"]).code, 6);
    let log = builds_in_log(&rig);
    assert_eq!(log.len(), 2, "{log:#?}");
    for (line, status) in log.iter().zip(["too_short", "no_session"]) {
        assert!(
            line.contains(" WARN ") && line.contains(&format!("status=\"{status}\"")),
            "{line}"
        );
    }
    assert!(log[0].contains(&format!("session={session}")), "{log:?}");
    // Nothing of it is in the folder, and nothing waits.
    assert_eq!(rig.ok(["handoff", "list"]), "no capsule waits (--all lists all)\n");
}

#[test]
fn the_chain_is_tried_by_doctor_where_it_is_asked_to() {
    let rig = Rig::new();
    let sound = serve(None);
    rig.endpoint(&sound, "");
    assert!(rig.ok(["doctor", "--writer"]).contains("wrote a capsule of the right shape"));
    assert_eq!(sound.received().len(), 1, "doctor alone sends nothing");
    let script = r#"[{"status":401,"body":{"error":{"message":"no such key"}},"repeat":9}]"#;
    let script = Script::parse(std::path::Path::new("s.json"), script).unwrap();
    let refusing = serve(Some(script));
    rig.endpoint(&refusing, "");
    let ran = rig.run(["doctor", "--writer"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("the writer's key was refused (401)"), "{}", ran.stdout);
}
