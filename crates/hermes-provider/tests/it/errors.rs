//! Refusals and answers that are no replies: what is tried again, where, and what is said.

use hermes_core::{ErrorClass, ReasoningReplay, WireProfile};
use hermes_provider::profile_for;

use crate::rig::{Event, Rig, case, history_with_a_call, script, server};
use hermes_provider::rehearsal::Script;

#[test]
fn b092_answers_that_are_no_replies_are_tried_three_times_and_then_elsewhere() {
    for (file, class, words) in [
        ("null.resp.json", ErrorClass::Malformed, "an empty answer"),
        ("choices_null.resp.json", ErrorClass::Malformed, "without choices"),
        ("no_choices.resp.json", ErrorClass::Malformed, "without choices"),
        ("no_message.resp.json", ErrorClass::Malformed, "without a message"),
        ("empty_body.http.json", ErrorClass::Malformed, "an empty body"),
        ("html.http.json", ErrorClass::Malformed, "an HTML page instead of JSON"),
        ("error_200.resp.json", ErrorClass::Server, "upstream failed"),
    ] {
        let bad = || server(Some(script(&format!(r#"[{{"file":"B092/{file}","repeat":9}}]"#))));
        let primary = bad();
        let mut rig = Rig::new(&[&primary]);
        rig.retries = 2;
        let error = rig.run().unwrap_err();
        assert_eq!((error.class, error.attempts), (class, 3), "{file}: {error}");
        assert_eq!(primary.requests(), 3, "{file}");
        assert!(error.message.contains(words), "{file}: {error}");
        assert_eq!(error.partial, None);
        assert_eq!(rig.shown(), "");
        assert_eq!(error.attempt_ends, rig.ledger.failed);

        let (primary, fallback) = (bad(), server(Some(Script::saying(["from the fallback"]))));
        let mut rig = Rig::new(&[&primary, &fallback]);
        rig.retries = 2;
        let answered = rig.run().unwrap();
        assert_eq!(answered.reply.text, "from the fallback", "{file}");
        assert_eq!((answered.endpoint_index, answered.attempt.attempt), (1, 4));
        assert_eq!(answered.attempt.retries.as_ref(), rig.ledger.failed.last().map(|end| &end.id));
        assert!(rig.ledger.log.events().contains(&Event::FellBack("rehearsal/rehearsal".into())));
    }
}

#[test]
fn b019_a_broken_pair_is_reported_as_history_and_benches_nobody() {
    let primary = server(Some(Script::load(&case("B019/provider.json")).unwrap()));
    let fallback = server(None);
    let mut rig = Rig::new(&[&primary, &fallback]);
    let error = rig.run().unwrap_err();
    assert_eq!((error.class, error.attempts), (ErrorClass::BadRequest, 1));
    assert_eq!((primary.requests(), fallback.requests()), (1, 0));
    assert!(error.message.contains("history of tool calls; the key is fine"), "{error}");
    assert!(!error.message.to_lowercase().contains("api key"), "{error}");
}

#[test]
fn b097_a_demand_for_reasoning_is_learnt_and_the_request_encoded_anew() {
    let server_script = Script::load(&case("B097/provider.json")).unwrap();
    let demanding = server(Some(server_script));
    let mut rig = Rig::new(&[&demanding]);
    let first = rig.run().unwrap();
    assert_eq!(
        first.reply.reasoning,
        Some(("reasoning_content".into(), "I need the date.".into()))
    );

    // From an old history that has no such field stored.
    rig.messages = history_with_a_call();
    let answered = rig.run().unwrap();
    assert_eq!(answered.reply.text, "Monday");
    let learnt = WireProfile { reasoning: ReasoningReplay::Require, ..WireProfile::default() };
    assert_eq!(answered.profile, learnt);
    assert_eq!(rig.ledger.log.events().last(), Some(&Event::Learned(learnt.clone())));
    let bodies: Vec<String> =
        demanding.received().into_iter().map(|body| String::from_utf8(body).unwrap()).collect();
    assert_eq!(bodies.len(), 3);
    assert!(!bodies[1].contains("reasoning_content"));
    assert!(bodies[2].contains(r#""reasoning_content":"","tool_calls""#), "{}", bodies[2]);
    // Both attempts are in the ledger, each with the profile that made its bytes.
    let profiles: Vec<_> = rig.ledger.started.iter().map(|(_, profile)| profile).collect();
    assert_eq!(profiles, [&WireProfile::default(), &WireProfile::default(), &learnt]);
    assert_eq!(rig.ledger.started[2].0.wire_profile, learnt.digest());

    // With what was learnt there is no refusal at all; another provider never sees the field.
    let text = r#"[{"rule":"400 unless reasoning_content","say":"ok"}]"#;
    let (again, other) = (server(Some(script(text))), server(None));
    let mut rig = Rig::new(&[&again]);
    rig.messages = history_with_a_call();
    rig.endpoints[0].profile = learnt;
    rig.run().unwrap();
    assert_eq!(again.requests(), 1);
    let mut rig = Rig::new(&[&other]);
    rig.messages = history_with_a_call();
    rig.run().unwrap();
    assert!(!String::from_utf8(other.received().remove(0)).unwrap().contains("reasoning"));
}

#[test]
fn a_refusal_that_teaches_nothing_new_is_not_tried_for_ever() {
    let refusal =
        r#"{"status":400,"body":{"error":{"message":"reasoning_content is missing"}},"repeat":9}"#;
    let server = server(Some(script(&format!("[{refusal}]"))));
    let mut rig = Rig::new(&[&server]);
    let error = rig.run().unwrap_err();
    assert_eq!((error.class, error.attempts, server.requests()), (ErrorClass::BadRequest, 2, 2));
    let learned = |event: &Event| matches!(event, Event::Learned(_));
    assert!(!rig.ledger.log.events().iter().any(learned), "only what helped is kept");
}

#[test]
fn b101_an_overflow_is_reported_at_once_with_its_side_and_sizes() {
    let errors = std::fs::read_to_string(case("B101/errors.json")).unwrap();
    let entries: serde_json::Value = serde_json::from_str(&errors).unwrap();
    let server = server(Some(script(&errors.replace("\"name\"", "\"note\""))));
    let mut rig = Rig::new(&[&server]);
    let mut found = Vec::new();
    for _ in entries.as_array().unwrap() {
        let error = rig.run().unwrap_err();
        assert_eq!(error.attempts, 1, "{error}");
        found.push((error.class.as_str(), error.limits.window));
    }
    assert_eq!(
        found,
        [
            ("output_overflow", Some(98_304)),
            ("output_overflow", Some(40_960)),
            ("context_overflow", Some(200_000)),
            ("context_overflow", None),
            ("context_overflow", None),
            ("bad_request", None),
        ]
    );
}

#[test]
fn a_refused_key_is_never_tried_again_and_never_shown() {
    let refusal = r#"[{"status":401,"body":{"error":{"message":"Incorrect API key provided: sk-test-not-a-key"}},"repeat":9}]"#;
    let (primary, fallback) = (server(Some(script(refusal))), server(None));
    let mut rig = Rig::new(&[&primary, &fallback]);
    rig.endpoints[0].api_key = Some("sk-test-not-a-key".to_owned().into());
    let answered = rig.run().unwrap();
    assert_eq!((primary.requests(), answered.endpoint_index), (1, 1));
    let error = rig.ledger.failed[0].error.as_deref().unwrap();
    assert_eq!(error, "HTTP 401: Incorrect API key provided: [redacted]");
    assert_eq!(rig.ledger.failed[0].http_status, Some(401));

    rig.endpoints.truncate(1);
    let error = rig.run().unwrap_err();
    assert_eq!((error.class, error.http_status), (ErrorClass::Auth, Some(401)));
    assert!(!format!("{error:?}").contains("sk-test"), "{error:?}");
}

#[test]
fn a_named_wait_is_kept_if_it_is_short_and_ends_the_tries_if_it_is_long() {
    let limited = |wait: &str| {
        server(Some(script(&format!(
            r#"[{{"status":429,"headers":{{"retry-after":"{wait}"}},"body":{{"error":{{"message":"Rate limit"}}}}}},{{"say":"ok"}}]"#
        ))))
    };
    let short = limited("0.01");
    assert_eq!(Rig::new(&[&short]).run().unwrap().reply.text, "ok");
    let long = limited("3600");
    let error = Rig::new(&[&long]).run().unwrap_err();
    assert_eq!((error.class, error.attempts), (ErrorClass::RateLimit, 1));
    assert_eq!(error.retry_after, Some(std::time::Duration::from_hours(1)));
}

#[test]
fn a_redirect_is_not_followed_and_named() {
    let server = server(Some(script(
        r#"[{"status":301,"headers":{"location":"https://user:pw@elsewhere.example/v1"}}]"#,
    )));
    let error = Rig::new(&[&server]).run().unwrap_err();
    assert_eq!(error.class, ErrorClass::NotFound);
    assert!(error.message.contains("a redirect to https://elsewhere.example/v1"), "{error}");
}

#[test]
fn the_table_of_quirks_and_the_rehearsal_provider_agree_on_the_plain_profile() {
    assert_eq!(
        profile_for("rehearsal", "http://127.0.0.1:1/v1", "rehearsal"),
        WireProfile::default()
    );
}
