//! The rehearsal provider as the rest of the program uses it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use hermes_core::{Role, ScriptedEnv, Timestamp};
use hermes_provider::rehearsal::{Rehearsal, RehearsalError, RehearsalOptions, Script};
use hermes_provider::{CallArguments, Client, Finish, ModelInfo};

use crate::rig::{Rig, endpoint, script, server, text};

#[test]
fn it_answers_the_same_streaming_or_not_and_calls_the_tools_that_are_offered() {
    let server = server(None);
    let mut rig = Rig::new(&[&server]);
    rig.messages = vec![text(Role::User, "read a.txt\nrun `date`")];
    let mut replies = Vec::new();
    for stream in [true, false] {
        rig.endpoints[0].profile.stream = stream;
        let reply = rig.run().unwrap().reply;
        assert_eq!(reply.finish, Finish::ToolCalls);
        let calls: Vec<(String, CallArguments)> = reply
            .calls
            .iter()
            .map(|call| (call.name.to_string(), call.arguments.clone()))
            .collect();
        replies.push(calls);
    }
    assert_eq!(replies[0], replies[1]);
    assert_eq!(replies[0][0].1, CallArguments::Whole(r#"{"path":"a.txt"}"#.into()));
    assert_eq!(replies[0][1].1, CallArguments::Whole(r#"{"command":"date"}"#.into()));
    rig.messages = vec![text(Role::User, "good morning")];
    let reply = rig.run().unwrap().reply;
    assert!(reply.text.contains("no language model"), "{}", reply.text);
}

#[test]
fn a_prefix_seen_before_is_reported_as_cached_unless_the_script_says_miss() {
    let server = server(None);
    let mut rig = Rig::new(&[&server]);
    let cached = |rig: &mut Rig| {
        let usage = rig.run().unwrap().end.unwrap().usage;
        (usage.input.unwrap(), usage.cache_read.unwrap())
    };
    rig.messages = vec![text(Role::User, &"long ".repeat(500))];
    let (input, read) = cached(&mut rig);
    assert!(input > 600 && read == 0, "{input} {read}");
    let (again, read) = cached(&mut rig);
    assert!(again == input && read >= 512 && read % 128 == 0 && read <= input, "{read}");
    rig.messages.push(text(Role::Assistant, "ok"));
    rig.messages.push(text(Role::User, "more"));
    let (longer, same) = cached(&mut rig);
    assert!(longer > input && same >= read - 128);

    let server =
        crate::rig::server(Some(script(r#"[{"say":"a"},{"say":"b","cache":"miss"},{"say":"c"}]"#)));
    let mut rig = Rig::new(&[&server]);
    rig.messages = vec![text(Role::User, &"long ".repeat(500))];
    let reads: Vec<u64> = (0..3).map(|_| cached(&mut rig).1).collect();
    assert!(reads[0] == 0 && reads[1] == 0 && reads[2] > 0, "{reads:?}");
}

#[test]
fn received_bodies_are_recorded_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record.jsonl");
    let options = RehearsalOptions {
        record: Some(record.clone()),
        keep_bodies: false,
        ..RehearsalOptions::default()
    };
    let server = Rehearsal::start(options).unwrap();
    let mut rig = Rig::new(&[&server]);
    let bodies = [rig.run().unwrap(), rig.run().unwrap()].map(|answered| answered.encoded.body);
    assert_eq!(server.received(), Vec::<Vec<u8>>::new());
    let lines = std::fs::read_to_string(&record).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (n, (line, body)) in lines.iter().zip(&bodies).enumerate() {
        assert_eq!(line["n"], n + 1);
        assert_eq!(line["body"].as_str().unwrap().as_bytes(), &body[..]);
    }
    assert_eq!(lines.len(), 2);
}

#[test]
fn it_refuses_a_history_that_a_strict_provider_refuses() {
    let server = server(None);
    let mut rig = Rig::new(&[&server]);
    rig.messages = vec![text(Role::User, "a"), text(Role::User, "b")];
    let error = rig.run().unwrap_err();
    assert!(error.message.contains("roles must alternate"), "{error}");
}

#[test]
fn it_lists_its_model() {
    let server = server(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let env = ScriptedEnv::new(Timestamp(0), 0, 1);
    let endpoint = endpoint(&server.base_url());
    let client = Client::new();
    let models = runtime.block_on(client.models(&endpoint, &env)).unwrap();
    let expected = ModelInfo { id: "rehearsal".to_owned(), context_length: Some(131_072) };
    assert_eq!(models, [expected]);
}

#[test]
fn many_connections_are_served_at_once() {
    let server = server(Some(script(r#"[{"then":{"hang_ms":60000}}]"#)));
    let mut hanging = TcpStream::connect(server.addr()).unwrap();
    hanging
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
        .unwrap();
    while server.script_left() > 0 {
        std::thread::yield_now();
    }
    assert!(Rig::new(&[&server]).run().is_ok());
}

/// One request by hand; the whole answer, up to the end of the connection.
fn by_hand(server: &hermes_provider::rehearsal::RehearsalServer, request: &[&str]) -> String {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for piece in request {
        stream.write_all(piece.as_bytes()).unwrap();
        stream.flush().unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_reads_requests_however_they_are_sent() {
    let server = server(None);
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let (a, b) = body.split_at(10);
    let chunked =
        format!("{:x}\r\n{a}\r\n{:x};x=y\r\n{b}\r\n0\r\ntrailer: 1\r\n\r\n", a.len(), b.len());
    let length = format!("content-length: {}\r\n\r\n", body.len());
    for request in [
        &["POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\n", &length, a, b][..],
        &["POST /any/chat/completions?x=1 HTTP/1.0\r\n", &length, body],
        &[
            "POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
            &chunked,
        ],
        &[
            "POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\nexpect: 100-continue\r\n",
            &length,
            body,
        ],
    ] {
        let answer = by_hand(&server, request);
        assert!(
            answer.contains("HTTP/1.1 200 OK") && answer.contains("no language model"),
            "{answer}"
        );
    }
    assert!(server.received().iter().all(|received| received == body.as_bytes()));
    for (request, status) in [
        ("GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n", "200"),
        ("GET /nothing HTTP/1.1\r\nconnection: close\r\n\r\n", "404"),
        (
            "POST /chat/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: 3\r\n\r\nxyz",
            "400",
        ),
        ("what is this\r\n\r\n", "400"),
    ] {
        let answer = by_hand(&server, &[request]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
    }
}

#[test]
fn it_says_why_it_cannot_start() {
    let server = server(None);
    let taken = RehearsalOptions { addr: server.addr(), ..RehearsalOptions::default() };
    let error = Rehearsal::start(taken).unwrap_err();
    assert!(matches!(error, RehearsalError::Listen { .. }));
    assert!(error.to_string().contains("hint: "), "{error}");
    // A file where a folder would have to be.
    let file = tempfile::NamedTempFile::new().unwrap();
    let record = RehearsalOptions {
        record: Some(file.path().join("record.jsonl")),
        ..RehearsalOptions::default()
    };
    assert!(matches!(Rehearsal::start(record), Err(RehearsalError::Record { .. })));
    assert!(Script::load(&file.path().join("provider.json")).is_err());
}
