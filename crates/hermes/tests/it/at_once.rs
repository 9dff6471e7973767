//! Several processes at one capsule: builds beside each other, first turns beside each other, one
//! that is killed while it waits for the writer.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use hermes_provider::rehearsal::Script;
use serde_json::Value;

use crate::rig::{Ran, Rig, serve};

fn talked(rig: &Rig) -> String {
    let first = rig.json(["chat", "--json", "-q", "we use port 8443 in deploy.toml"]);
    let session = first["session_id"].as_str().unwrap().to_owned();
    rig.json(["chat", "--json", "--resume", &session, "-q", "and now the rollback of release 7"]);
    session
}

fn started(rig: &Rig, args: &[&str]) -> Child {
    rig.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ran {
    Ran::from(child.wait_with_output().unwrap())
}

fn states(rig: &Rig) -> Vec<String> {
    let listed = rig.json(["handoff", "list", "--json"]);
    let records = listed.as_array().unwrap().iter().map(|it| &it["record"]["state"]);
    records.map(|state| state.as_str().unwrap().to_owned()).collect()
}

#[test]
fn of_first_turns_at_the_same_moment_one_receives_the_capsule() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    rig.json(["handoff", "build", "--session-id", &old, "--json"]);
    let turns: Vec<Child> = (0..4).map(|_| started(&rig, &["chat", "-q", "go on"])).collect();
    for ran in turns.into_iter().map(ended) {
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let holding = server
        .received()
        .into_iter()
        .filter(|body| String::from_utf8_lossy(body).contains("history you already established"));
    assert_eq!(holding.count(), 1);
    assert_eq!(states(&rig), ["delivered"]);
    rig.ok(["sessions", "check"]);
    rig.ok(["requests", "verify", "--all"]);
}

#[test]
fn builds_at_the_same_moment_leave_one_capsule_that_waits() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let old = talked(&rig);
    let build = ["handoff", "build", "--session-id", &old, "--json"];
    let builds: Vec<Child> = (0..4).map(|_| started(&rig, &build)).collect();
    let mut ok = 0;
    for ran in builds.into_iter().map(ended) {
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        match result["status"].as_str().unwrap() {
            "ok" => ok += 1,
            status => assert_eq!((status, ran.code), ("busy", 1), "{result}"),
        }
    }
    let states = states(&rig);
    assert_eq!((states.len(), states[0].as_str()), (ok, "pending"), "{states:?}");
    assert!(ok > 0 && states[1..].iter().all(|state| state == "superseded"), "{states:?}");
    let notes = std::fs::read_dir(rig.home().join("handoffs")).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("pending-")
    });
    assert_eq!(notes.count(), 1);
}

#[test]
fn a_build_that_is_killed_while_it_waits_leaves_nothing_and_keeps_nobody_waiting() {
    let rig = Rig::new();
    let sound = serve(None);
    rig.endpoint(&sound, "");
    let old = talked(&rig);
    let script = r#"[{"then":{"hang_ms":600000},"repeat":9}]"#;
    let silent = serve(Some(Script::parse(Path::new("s.json"), script).unwrap()));
    rig.endpoint(&silent, "");
    let mut child = started(&rig, &["handoff", "build", "--session-id", &old]);
    let until = Instant::now() + Duration::from_mins(1);
    while silent.received().is_empty() {
        assert!(Instant::now() < until, "the writer is never asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    let meanwhile = rig.run(["handoff", "build", "--session-id", &old]);
    assert_eq!(meanwhile.code, 1);
    assert!(meanwhile.stderr.contains("being written already"), "{}", meanwhile.stderr);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(states(&rig), Vec::<String>::new());
    rig.endpoint(&sound, "");
    let again = rig.json(["handoff", "build", "--session-id", &old, "--json"]);
    assert_eq!(again["status"], "ok", "{again}");
    rig.ok(["sessions", "check"]);
}
