//! One thing said and answered: forms of output, resume, proof, deletion.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::Value;

use crate::rig::{Ran, Rig, serve};

#[test]
fn quiet_output_is_the_answer_alone_and_the_rehearsal_says_what_it_is_on_stderr() {
    let rig = Rig::new();
    let ran = rig.run(["-z", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("no language model"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("session "), "{}", ran.stdout);
    assert!(!ran.stdout.trim().is_empty());
}

#[test]
fn piped_text_is_the_message() {
    let rig = Rig::new();
    let mut child = rig
        .command(["chat", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"what can you see of PIPED-WORD\n").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["outcome"], "answered");
    let session = value["session_id"].as_str().unwrap();
    let shown = rig.ok(["sessions", "show", session]);
    assert!(shown.contains("what can you see of PIPED-WORD"), "{shown}");
}

#[test]
fn a_conversation_uses_tools_is_found_in_the_store_and_every_request_verifies() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    rig.file("note.txt", "the keeper is Amaranth\n");
    let first = rig.json(["chat", "--json", "-q", "read note.txt"]);
    let session = first["session_id"].as_str().unwrap();
    assert!(first["requests"].as_array().unwrap().len() >= 2, "{first}");

    let second = rig.json(["chat", "--json", "--resume", session, "-q", "hello again"]);
    assert_eq!(second["session_id"], session);
    let third = rig.json(["chat", "--json", "-c", "-q", "and again"]);
    assert_eq!(third["session_id"], session);

    let export = rig.ok(["sessions", "export", "--session-id", session, "--format", "jsonl", "-"]);
    assert_eq!(export.lines().count(), 1);
    let row: Value = serde_json::from_str(&export).unwrap();
    assert!(row["messages"].as_array().unwrap().len() >= 8, "{row}");
    assert!(export.contains("Amaranth"));

    let requests = rig.json(["requests", "list", "--json", "-n", "100"]);
    let requests = requests.as_array().unwrap();
    assert_eq!(requests.len(), server.received().len());
    for (request, received) in requests.iter().rev().zip(server.received()) {
        let id = request["id"].as_str().unwrap();
        let body = rig.command(["requests", "body", id]).output().unwrap();
        assert!(body.stdout == received, "request {id} was rebuilt differently");
    }
    let verified = rig.json(["requests", "verify", "--all", "--json"]);
    for verdict in verified.as_array().unwrap() {
        assert_eq!(verdict["verdict"], "verified", "{verdict}");
    }

    rig.ok(["sessions", "delete", session, "--yes"]);
    let ran = rig.run(["requests", "verify", "--all", "--json"]);
    assert_eq!(ran.code, 0);
    let deleted: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(deleted.as_array().unwrap().len(), requests.len());
    for verdict in deleted.as_array().unwrap() {
        assert_eq!(verdict["verdict"], "deleted", "{verdict}");
    }
    let id = requests[0]["id"].as_str().unwrap();
    for args in [&["requests", "body", id][..], &["requests", "diff", id, id]] {
        let ran = rig.run(args.iter().copied());
        assert!(ran.stderr.contains("deleted session"), "{}", ran.stderr);
        assert_eq!(ran.code, 6, "{args:?}");
    }
}

#[test]
fn an_unknown_session_is_named_with_its_own_exit_code() {
    let rig = Rig::new();
    for args in [
        &["sessions", "show", "nothing-like-this"][..],
        &["chat", "--resume", "nothing-like-this", "-q", "x"],
        &["requests", "show", "r00"],
    ] {
        let ran = rig.run(args);
        assert_eq!(ran.code, 6, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_broken_configuration_stops_the_start_with_its_place_and_is_left_alone() {
    let rig = Rig::new();
    let broken = "model:\n  default: x\napprovals:\n\tdeny: ['rm *']\n";
    rig.config(broken);
    let ran = rig.run(["-z", "hello"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("config.yaml:4:"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    let set = rig.run(["config", "set", "model.default", "y"]);
    assert_eq!(set.code, 3, "{}", set.stderr);
    assert_eq!(std::fs::read_to_string(rig.home().join("config.yaml")).unwrap(), broken);
}

#[test]
fn nothing_runs_unasked_without_a_terminal() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "approvals:\n  allow:\n    - echo allowed-by-text\n");
    rig.ok(["-z", "run touch made-by-command"]);
    assert!(!rig.work().join("made-by-command").exists());
    let allowed = rig.json(["chat", "--json", "-q", "run echo allowed-by-text"]);
    let session = allowed["session_id"].as_str().unwrap();
    let row: Value =
        serde_json::from_str(&rig.ok(["sessions", "export", "--session-id", session])).unwrap();
    let tool = row["messages"].as_array().unwrap().iter().find(|m| m["role"] == "tool").unwrap();
    assert!(tool["content"].as_str().unwrap().contains("allowed-by-text"), "{tool}");
}

/// Runs with these bytes on standard input.
fn piped(rig: &Rig, args: &[&str], bytes: &[u8]) -> Ran {
    let mut child = rig
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that refuses may have gone before all is written.
    drop(child.stdin.take().unwrap().write_all(bytes));
    Ran::from(child.wait_with_output().unwrap())
}

#[test]
#[cfg(unix)]
fn piped_text_joins_the_text_of_the_flag_behind_an_empty_line() {
    let rig = Rig::new();
    let ran = piped(&rig, &["chat", "-q", "review this"], b"+added line\n");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let shown = rig.ok(["sessions", "show", "latest"]);
    assert!(shown.contains("review this\n\n+added line\n"), "{shown}");
    let ran = piped(&rig, &["-z", "alone"], b"");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let shown = rig.ok(["sessions", "show", "latest"]);
    assert!(shown.contains("alone\n"), "{shown}");
}

#[test]
#[cfg(unix)]
fn an_open_pipe_that_nobody_writes_to_holds_nothing_up() {
    let rig = Rig::new();
    let mut child = rig
        .command(["-z", "hello"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let open = child.stdin.take();
    let ran = Ran::from(child.wait_with_output().unwrap());
    drop(open);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing came on standard input"), "{}", ran.stderr);
}

#[test]
fn bytes_that_are_no_text_are_not_sent() {
    let rig = Rig::new();
    let ran = piped(&rig, &["chat", "-q", "-"], b"\x7fELF\0\x01");
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: an image goes with --image"), "{}", ran.stderr);
    assert!(rig.json(["sessions", "list", "--json"]).as_array().unwrap().is_empty());
}

#[test]
fn a_fallback_that_cannot_be_used_is_told_once_and_does_not_stop_the_start() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "fallback_providers:\n  - provider: nowhere\n    model: small\n");
    let ran = rig.run(["-z", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("this fallback is left out").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("nowhere") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    assert_eq!(rig.run(["config", "check"]).code, 0);
}

#[cfg(unix)]
#[test]
fn only_an_image_file_of_a_reasonable_size_is_taken_as_an_image() {
    let rig = Rig::new();
    let made = std::process::Command::new("mkfifo").arg(rig.work().join("pipe")).status().unwrap();
    assert!(made.success());
    let huge = std::fs::File::create(rig.work().join("huge.png")).unwrap();
    huge.set_len(21 << 20).unwrap();
    for (path, words) in [
        ("/dev/zero", "is a device or a pipe"),
        ("pipe", "is a device or a pipe"),
        (".", "is a folder"),
        ("huge.png", "has 22020096 bytes, at most 20971520"),
        ("missing.png", "cannot be read"),
    ] {
        let ran = rig.run(["chat", "-q", "look", "--image", path]);
        assert_eq!(ran.code, 2, "{path}: {}", ran.stderr);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
}

#[test]
fn credentials_in_an_address_reach_neither_the_store_nor_an_export() {
    let rig = Rig::new();
    let server = serve(None);
    let address = server.base_url().replace("://", "://user:not-a-password@");
    rig.config(&format!(
        "model:\n  default: m\n  provider: custom\n  base_url: {address}?api-key=not-a-key\n"
    ));
    rig.ok(["chat", "-q", "hello"]);
    let export = rig.ok(["sessions", "export", "--session-id", "latest"]);
    assert!(export.contains("127.0.0.1") && !export.contains("not-a-"), "{export}");
    for entry in std::fs::read_dir(rig.home()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_name().is_some_and(|name| name != "config.yaml") {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(6).any(|piece| piece == b"not-a-");
            assert!(!found, "{}", path.display());
        }
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_stops_no_command_and_a_home_that_is_none_is_named() {
    use std::os::unix::ffi::OsStrExt as _;
    let odd = std::ffi::OsStr::from_bytes(b"\xff");
    let rig = Rig::new();
    for (name, value) in [(std::ffi::OsStr::new("FOO"), odd), (odd, std::ffi::OsStr::new("x"))] {
        let output = rig.command(["sessions", "list"]).env(name, value).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let output = rig.command(["sessions", "list"]).env("HERMES_HOME", odd).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("HERMES_HOME is no valid UTF-8") && said.contains("hint: "), "{said}");
}

#[test]
fn an_export_into_a_folder_that_is_not_there_is_told_with_its_name() {
    let rig = Rig::new();
    rig.ok(["-z", "hello"]);
    let ran = rig.run(["sessions", "export", "--session-id", "latest", "not/there.jsonl"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot write not/there.jsonl"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: make the folder not first"), "{}", ran.stderr);
    assert_eq!(rig.run(["-c", "--resume", "latest", "-z", "x"]).code, 2);
}

#[test]
fn an_endpoint_with_tls_is_reached_through_the_proxy_of_the_environment() {
    let rig = Rig::new();
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        let mut head = [0; 1024];
        let count = stream.read(&mut head).unwrap();
        // Every further try meets a closed port.
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8_lossy(&head[..count]).into_owned()
    });
    rig.config(
        "model:\n  default: m\n  provider: custom\n  base_url: https://model.invalid/v1\n  \
         api_key: test-not-a-key\nagent:\n  api_max_retries: 0\n",
    );
    let mut command = rig.command(["chat", "-q", "hello"]);
    command.env("HTTPS_PROXY", format!("http://{address}"));
    let said = command.output().unwrap();
    assert_eq!(said.status.code(), Some(4), "{}", String::from_utf8_lossy(&said.stderr));
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("CONNECT model.invalid:443"), "{asked}");
}
