//! `hermes config`.

use std::fs;

use crate::rig::Rig;

#[test]
fn set_keeps_comments_tells_what_changed_and_when_it_is_seen() {
    let rig = Rig::new();
    rig.config("# mine\nmodel:\n  default: a  # the model\n  provider: ollama\n");
    let told = rig.ok(["config", "set", "model.default", "b"]);
    assert!(told.contains("model.default: b (was a, in "), "{told}");
    assert!(told.contains("next start"), "{told}");
    let text = fs::read_to_string(rig.home().join("config.yaml")).unwrap();
    assert_eq!(text, "# mine\nmodel:\n  default: b  # the model\n  provider: ollama\n");
    let told = rig.ok(["config", "set", "model.default", "b"]);
    assert!(told.contains("was not changed"), "{told}");
    assert_eq!(rig.ok(["config", "get", "model.default"]), "b\n");
    let section = rig.ok(["config", "get", "model"]);
    assert!(section.contains("model.provider: ollama"), "{section}");
}

#[test]
fn a_hidden_value_is_told_when_it_is_set() {
    let rig = Rig::new();
    fs::write(rig.home().join(".env"), "HERMES_MODEL=other\n").unwrap();
    let told = rig.ok(["config", "set", "model.default", "b"]);
    assert!(told.contains("HERMES_MODEL") && told.contains("hides this value"), "{told}");
}

#[test]
fn an_unknown_key_names_the_nearest_and_has_its_own_exit_code() {
    let rig = Rig::new();
    let ran = rig.run(["config", "get", "agent.max_turn"]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("agent.max_turns"), "{}", ran.stderr);
}

#[test]
fn a_broken_file_stops_with_its_place_and_is_never_overwritten() {
    let rig = Rig::new();
    let broken = "model:\n\tdefault: a\n";
    rig.config(broken);
    for args in [&["config", "set", "model.default", "b"][..], &["config", "show"], &["-z", "hi"]] {
        let ran = rig.run(args);
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("config.yaml:2:"), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(rig.home().join("config.yaml")).unwrap(), broken);
}

#[test]
fn show_never_prints_a_secret_and_json_is_an_array_with_sources() {
    let rig = Rig::new();
    rig.config("model:\n  default: a\n  provider: custom\n  base_url: http://127.0.0.1:9/v1\n  api_key: sk-test-not-a-key\n");
    let text = rig.ok(["config", "show"]);
    assert!(text.contains("model.default: a"), "{text}");
    assert!(!text.contains("sk-test-not-a-key"), "{text}");
    let all = rig.json(["config", "show", "--json"]);
    let find = |key: &str| {
        all.as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap().clone()
    };
    assert_eq!(find("model.default")["source"], "config.yaml line 2");
    assert_eq!(find("agent.api_max_retries")["source"], "default");
    assert_eq!(find("agent.api_max_retries")["value"], 3);
    assert_eq!(find("model.api_key")["value"], "[set]");
}

#[test]
fn check_shows_the_chain_and_fails_where_it_cannot_be_used() {
    let rig = Rig::new();
    assert!(rig.ok(["config", "check"]).contains("rehearsal"));
    assert_eq!(rig.ok(["config", "path"]).trim(), rig.home().join("config.yaml").to_string_lossy());
    rig.config("model:\n  default: a\n  provider: openrouter\n");
    let ran = rig.run(["config", "check"]);
    assert_eq!(ran.code, 3, "{}", ran.stdout);
    assert!(ran.stdout.contains("OPENROUTER_API_KEY"), "{}", ran.stdout);
}

#[test]
fn set_promises_no_effect_that_does_not_come() {
    let rig = Rig::new();
    let told = rig.ok(["config", "set", "terminal.backend", "docker"]);
    assert!(told.contains("this version does not use terminal.backend"), "{told}");
    assert!(told.contains("\"docker\" does not exist here"), "{told}");
    assert!(!told.contains("takes effect"), "{told}");
    let told = rig.ok(["config", "set", "termnal.backend", "docker"]);
    assert!(told.contains("did you mean terminal?"), "{told}");
    let all = rig.json(["config", "show", "--json"]);
    let used = |key: &str| {
        let all = all.as_array().unwrap();
        all.iter().find(|setting| setting["key"] == key).unwrap()["used"].clone()
    };
    assert_eq!(used("terminal.backend"), false);
    assert_eq!(used("model.default"), true);
    let told =
        rig.ok(["config", "set", "fallback_providers", r#"[{"provider":"nowhere","model":"m"}]"#]);
    assert!(told.contains("warning: fallback_providers.0: unusable"), "{told}");
}

#[test]
fn a_value_that_does_not_fit_names_no_place_in_a_file_that_was_not_written() {
    let rig = Rig::new();
    let ran = rig.run(["config", "set", "approvals.timeout", "-5"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("the file was not changed"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("config.yaml:1"), "{}", ran.stderr);
    let told = rig.ok(["config", "set", "security.redact_secrets", "false"]);
    assert!(told.contains("security.redact_secrets: false"), "{told}");
}
