//! The ledger, the bytes, the connections and the time limits of attempts.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use hermes_core::{AttemptOutcome, Digest, ErrorClass, Params, Role};

use crate::rig::{Event, Rig, history_with_a_call, script, server, text};
use hermes_provider::rehearsal::Script;

#[test]
fn what_arrives_is_byte_for_byte_what_the_ledger_says() {
    let server = server(None);
    let mut rig = Rig::new(&[&server]);
    rig.endpoints[0].params = Params(vec![
        ("temperature".into(), "1e0".into()),
        ("extra".into(), r#"{"z":12345678901234567890,"a":"\ud800"}"#.into()),
    ]);
    rig.messages = vec![text(Role::User, "tabs\t, quotes \" and \u{1f600} \u{7f}\u{2028}")];
    let mut sent = Vec::new();
    for messages in [rig.messages.clone(), history_with_a_call()] {
        rig.messages = messages;
        let answered = rig.run().unwrap();
        assert_eq!(answered.encoded, rig.encoded());
        assert_eq!(answered.attempt.body, Digest::of(&answered.encoded.body));
        assert_eq!(answered.attempt.body_bytes, answered.encoded.body.len() as u64);
        assert_eq!(answered.attempt.history, answered.encoded.history);
        assert_eq!(answered.attempt.kept_body, None);
        assert_eq!(answered.end.as_ref().unwrap().outcome, AttemptOutcome::Ok);
        assert!(answered.end.as_ref().unwrap().first_byte_at.is_some());
        sent.push(answered.encoded.body.to_vec());
    }
    assert_eq!(server.received(), sent);
    rig.keep_body = true;
    let answered = rig.run().unwrap();
    assert_eq!(answered.attempt.kept_body.as_deref(), Some(&*answered.encoded.body));
}

#[test]
fn nothing_is_sent_that_could_not_be_recorded() {
    let server = server(None);
    let mut rig = Rig::new(&[&server, &server]);
    rig.ledger.refuses = true;
    let error = rig.run().unwrap_err();
    assert_eq!((error.class, error.attempts), (ErrorClass::Local, 0));
    assert!(error.message.contains("the disk is full"), "{error}");
    assert_eq!(server.connections(), 0);
}

#[test]
fn one_connection_serves_many_requests() {
    let server = server(None);
    let mut rig = Rig::new(&[&server]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for stream in [true, true, false, true] {
            rig.endpoints[0].profile.stream = stream;
            rig.converse().await.unwrap();
        }
    });
    assert_eq!((server.requests(), server.connections()), (4, 1));
}

#[test]
fn a_broken_connection_is_tried_again_and_the_attempts_are_linked() {
    let server =
        server(Some(script(r#"[{"then":"reset"},{"then":"close"},{"status":503},{"say":"ok"}]"#)));
    let mut rig = Rig::new(&[&server]);
    let answered = rig.run().unwrap();
    assert_eq!((answered.reply.text.as_str(), answered.attempt.attempt), ("ok", 4));
    let attempts: Vec<_> = rig.ledger.started.iter().map(|(attempt, _)| attempt.clone()).collect();
    for pair in attempts.windows(2) {
        assert_eq!(pair[1].retries.as_ref(), Some(&pair[0].id));
        assert_eq!(pair[1].body, pair[0].body);
    }
    let classes: Vec<_> = rig.ledger.failed.iter().map(|end| end.error_class.unwrap()).collect();
    assert_eq!(classes, [ErrorClass::Disconnected, ErrorClass::Disconnected, ErrorClass::Server]);
    let retries: Vec<_> = rig
        .ledger
        .log
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Retrying(attempt) => Some(attempt),
            _ => None,
        })
        .collect();
    assert_eq!(retries, [2, 3, 4]);
}

#[test]
fn silence_before_the_first_byte_and_in_mid_stream_ends_in_time() {
    let hanging = server(Some(script(
        r#"[{"then":{"hang_ms":60000}},{"file":"B002/summary_cut.sse","then":{"hang_ms":60000}}]"#,
    )));
    let mut rig = Rig::new(&[&hanging]);
    rig.retries = 0;
    rig.endpoints[0].timeouts.first_byte = Duration::from_millis(60);
    rig.endpoints[0].timeouts.connect = Duration::from_millis(60);
    let before = Instant::now();
    let error = rig.run().unwrap_err();
    assert_eq!(error.class, ErrorClass::Timeout);
    assert_eq!(error.partial, None);
    assert!(error.message.contains("nothing came within 0.06 s"), "{error}");

    rig.endpoints[0].timeouts.first_byte = Duration::from_secs(5);
    rig.endpoints[0].timeouts.idle = Duration::from_millis(60);
    let error = rig.run().unwrap_err();
    assert_eq!(error.class, ErrorClass::Timeout);
    assert_eq!(error.partial.unwrap().text, rig.shown());
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_finished_answer_does_not_wait_for_a_server_that_hangs() {
    let server = server(Some(script(
        r#"[{"file":"B096/no_done.sse","then":{"hang_ms":60000}},{"file":"B096/usage_last.sse","then":{"hang_ms":60000}}]"#,
    )));
    let mut rig = Rig::new(&[&server]);
    rig.endpoints[0].timeouts.idle = Duration::from_millis(60);
    let before = Instant::now();
    assert_eq!(rig.run().unwrap().reply.text, "Status: ready");
    let answered = rig.run().unwrap();
    assert_eq!(answered.end.as_ref().unwrap().usage.input, Some(9));
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_is_not_there_is_a_connect_failure_with_a_hint() {
    let gone = server(None);
    let there = server(None);
    let mut rig = Rig::new(&[&gone, &there]);
    rig.retries = 1;
    gone.stop();
    let answered = rig.run().unwrap();
    assert_eq!((answered.endpoint_index, answered.attempt.attempt), (1, 3));
    rig.endpoints.truncate(1);
    let error = rig.run().unwrap_err();
    assert_eq!(error.class, ErrorClass::Connect);
    assert!(error.message.contains("hint: is the server running"), "{error}");

    // A listener that never accepts: the connection stands, nothing is answered.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    rig.endpoints[0].base_url = format!("http://{}/v1", listener.local_addr().unwrap()).into();
    rig.endpoints[0].timeouts.first_byte = Duration::from_millis(30);
    rig.endpoints[0].timeouts.connect = Duration::from_millis(30);
    rig.retries = 0;
    assert_eq!(rig.run().unwrap_err().class, ErrorClass::Timeout);
}

#[test]
fn an_https_address_is_spoken_to_by_tls() {
    let server = server(None);
    let mut rig = Rig::new(&[&server]);
    rig.retries = 0;
    rig.endpoints[0].base_url = server.base_url().replace("http:", "https:").into();
    let error = rig.run().unwrap_err();
    assert_eq!(error.class, ErrorClass::Connect, "{error}");
    assert_eq!((server.requests(), server.connections()), (0, 1));
}

#[test]
fn credentials_are_in_headers_only() {
    let server = server(Some(Script::saying(["a"])));
    let mut rig = Rig::new(&[&server]);
    let address = server.base_url().replace("http://", "http://user:sk-test-not-a-key@");
    rig.endpoints[0].base_url = format!("{address}?key=sk-test-not-a-key").into();
    rig.endpoints[0].headers = vec![("x-key".to_owned(), "sk-test-not-a-key".to_owned().into())];
    let answered = rig.run().unwrap();
    assert_eq!(&*answered.attempt.base_url, format!("{}?key=[redacted]", server.base_url()));
    assert!(!format!("{answered:?}").contains("not-a-key"));
    let body = server.received().remove(0);
    assert!(!String::from_utf8(body).unwrap().contains("not-a-key"));
    rig.endpoints[0].headers = vec![("x-key".to_owned(), "line\nend".to_owned().into())];
    let error = rig.run().unwrap_err();
    assert_eq!(error.class, ErrorClass::Local);
    assert!(error.message.contains("header x-key holds a character"), "{error}");
}

#[test]
fn an_address_that_cannot_be_used_is_a_local_fault() {
    let server = server(None);
    let mut rig = Rig::new(&[&server]);
    for address in ["http://", "", "localhost:1234/v1", "ftp://host/v1", "http://[/v1"] {
        rig.endpoints[0].base_url = address.into();
        let error = rig.run().unwrap_err();
        assert_eq!(error.class, ErrorClass::Local, "{address}: {error}");
    }
    rig.endpoints.clear();
    let error = rig.run().unwrap_err();
    assert!(error.message.contains("hermes setup"), "{error}");
}
