//! `hermes doctor`.

use std::fs;

use serde_json::Value;

use crate::rig::{Rig, serve};

fn checks(rig: &Rig) -> (i32, Vec<Value>) {
    let ran = rig.run(["doctor", "--json"]);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    (ran.code, value["checks"].as_array().unwrap().clone())
}

fn has(checks: &[Value], id: &str, status: &str, text: &str) -> bool {
    checks.iter().any(|check| {
        check["id"] == id
            && check["status"] == status
            && check["text"].as_str().is_some_and(|it| it.contains(text))
    })
}

#[test]
fn a_fresh_home_is_sound_and_stays_empty() {
    let rig = Rig::new();
    let (code, found) = checks(&rig);
    assert_eq!(code, 0, "{found:#?}");
    assert!(has(&found, "provider", "ok", "rehearsal"), "{found:#?}");
    assert!(has(&found, "store", "ok", "nothing stored yet"), "{found:#?}");
    assert_eq!(fs::read_dir(rig.home()).unwrap().count(), 0);
    let text = rig.ok(["doctor"]);
    assert!(text.contains("0 failed"), "{text}");
}

#[test]
fn unknown_keys_shadowed_values_and_sources_are_named_without_secrets() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "agent:\n  max_trns: 3\n");
    fs::write(rig.home().join(".env"), "HERMES_MODEL=secretly-other\n").unwrap();
    rig.file(".git/HEAD", "ref: refs/heads/main\n");
    rig.file("AGENTS.md", "Be brief.\n");
    rig.file("CLAUDE.md", "Be long.\n");
    let (code, found) = checks(&rig);
    assert_eq!(code, 0, "{found:#?}");
    assert!(has(&found, "config", "warn", "config.yaml:8:3: agent.max_trns"), "{found:#?}");
    assert!(has(&found, "shadowed", "warn", "HERMES_MODEL"), "{found:#?}");
    assert!(has(&found, "reach", "ok", "takes connections"), "{found:#?}");
    assert!(has(&found, "sources", "ok", "AGENTS.md: loaded"), "{found:#?}");
    assert!(has(&found, "sources", "ok", "CLAUDE.md: not loaded"), "{found:#?}");
    let all = serde_json::to_string(&found).unwrap();
    assert!(!all.contains("test-not-a-key"), "{all}");
    rig.ok(["-z", "hello"]);
    let (_, found) = checks(&rig);
    assert!(has(&found, "store", "ok", "sound, 1 sessions"), "{found:#?}");
}

#[test]
fn a_broken_file_fails_with_its_place_and_the_other_checks_are_made() {
    let rig = Rig::new();
    rig.config("model: [\n");
    let (code, found) = checks(&rig);
    assert_eq!(code, 1);
    assert!(has(&found, "config", "fail", "config.yaml:"), "{found:#?}");
    assert!(has(&found, "store", "ok", ""), "{found:#?}");
}

#[test]
fn a_server_that_is_not_there_is_a_warning_with_a_hint() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    drop(server);
    let (code, found) = checks(&rig);
    assert_eq!(code, 0, "{found:#?}");
    let reach = found.iter().find(|check| check["id"] == "reach").unwrap();
    assert_eq!(reach["status"], "warn");
    assert!(reach["hint"].as_str().unwrap().contains("start the server"));
}
