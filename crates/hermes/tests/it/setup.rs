//! `hermes setup`.

use std::fs;
use std::path::Path;

use hermes_provider::rehearsal::Script;

use crate::rig::{Rig, serve};
use crate::terminal::Terminal;

#[test]
fn without_a_terminal_or_flags_it_says_what_to_give() {
    let rig = Rig::new();
    let ran = rig.run(["setup"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("hint: hermes setup --non-interactive --base-url"),
        "{}",
        ran.stderr
    );
    assert!(!rig.home().join("config.yaml").exists());
}

#[test]
fn flags_alone_try_the_model_and_write_the_configuration() {
    let rig = Rig::new();
    let server = serve(None);
    let url = server.base_url();
    let ran = rig.run(["setup", "--non-interactive", "--base-url", &url, "--model", "small"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(server.received().len(), 1, "one tiny request");
    assert!(!String::from_utf8_lossy(&server.received()[0]).contains("\"tools\""));
    assert_eq!(rig.ok(["config", "get", "model.default"]), "small\n");
    assert_eq!(rig.ok(["config", "get", "model.base_url"]).trim(), url);
    let answer = rig.run(["-z", "hello"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_model_that_does_not_answer_is_not_written_without_a_person_who_wants_it() {
    let rig = Rig::new();
    let text = r#"[{"status":401,"repeat":9,"body":{"error":{"message":"no such key here"}}}]"#;
    let server = serve(Some(Script::parse(Path::new("s.json"), text).unwrap()));
    let url = server.base_url();
    let ran = rig.run(["setup", "--non-interactive", "--base-url", &url, "--model", "small"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("no such key here"), "{}", ran.stderr);
    assert!(!rig.home().join("config.yaml").exists());
}

#[test]
fn a_key_variable_must_be_set_and_is_named_not_copied() {
    let rig = Rig::new();
    let server = serve(None);
    let url = server.base_url();
    let args = ["setup", "--non-interactive", "--base-url", &url, "--model", "m", "--key-env"];
    let ran = rig.run(args.iter().chain(&["MY_TEST_KEY"]));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("MY_TEST_KEY is not set"), "{}", ran.stderr);
    let mut command = rig.command(args.iter().chain(&["MY_TEST_KEY"]));
    let output = command.env("MY_TEST_KEY", "sk-test-not-a-key").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let config = fs::read_to_string(rig.home().join("config.yaml")).unwrap();
    assert!(config.contains("key_env: MY_TEST_KEY"), "{config}");
    assert!(!config.contains("sk-test-not-a-key"), "{config}");
    assert!(!rig.home().join(".env").exists());
}

#[test]
fn a_broken_configuration_is_never_touched() {
    let rig = Rig::new();
    rig.config("model: [\n");
    let ran = rig.run(["setup", "--non-interactive", "--base-url", "http://127.0.0.1:9/v1"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(rig.home().join("config.yaml")).unwrap(), "model: [\n");
}

#[test]
fn a_person_gives_address_key_and_model_and_the_key_is_never_shown() {
    let rig = Rig::new();
    let server = serve(None);
    let url = server.base_url();
    let terminal = Terminal::start(&rig, &["setup", "--base-url", &url]);
    terminal.wait_for("API key");
    terminal.line("sk-test-not-a-key");
    // The server has one model, so there is nothing to choose.
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("it answers"), "{screen}");
    assert!(!screen.contains("sk-test-not-a-key"), "{screen}");
    let env = fs::read_to_string(rig.home().join(".env")).unwrap();
    assert!(env.contains("HERMES_API_KEY=sk-test-not-a-key"), "{env}");
    let config = fs::read_to_string(rig.home().join("config.yaml")).unwrap();
    assert!(config.contains("key_env: HERMES_API_KEY"), "{config}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(rig.home().join(".env")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(rig.run(["-z", "hello"]).code, 0);
}

#[test]
fn a_person_may_write_what_does_not_answer_yet() {
    let rig = Rig::new();
    let text = r#"[{"status":401,"repeat":9,"body":{"error":{"message":"no such key here"}}}]"#;
    let server = serve(Some(Script::parse(Path::new("s.json"), text).unwrap()));
    let url = server.base_url();
    for (answer, code, written) in [("", 4, false), ("y", 0, true)] {
        let terminal = Terminal::start(&rig, &["setup", "--base-url", &url, "--model", "m"]);
        terminal.wait_for("API key");
        terminal.line("");
        terminal.wait_for("no such key here");
        terminal.wait_for("Write the configuration anyway?");
        terminal.line(answer);
        let (ended, screen) = terminal.end();
        assert_eq!(ended, code, "{screen}");
        assert_eq!(rig.home().join("config.yaml").exists(), written, "{screen}");
    }
    assert!(!rig.home().join(".env").exists());
}

#[test]
fn leaving_in_the_middle_writes_nothing() {
    let rig = Rig::new();
    let server = serve(None);
    let terminal = Terminal::start(&rig, &["setup", "--base-url", &server.base_url()]);
    terminal.wait_for("API key");
    terminal.send("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("nothing was written"), "{screen}");
    assert_eq!(fs::read_dir(rig.home()).unwrap().count(), 0);
    assert!(server.received().is_empty());
}
