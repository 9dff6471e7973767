//! `/undo` and `/retry`: what leaves the next request, what stays, and that a capsule survives both.

use hermes_agent::inspect::{self, Inspector, Verdict};
use hermes_agent::{AgentError, Conversation, Image, Services, StartOptions, UserInput, handoff};
use hermes_core::{NullSink, Origin, Role, SessionId, TurnOutcome};
use hermes_handoff::{Start, Status};
use hermes_store::{CapsuleState, RequestFilter};

use crate::bench::{Bench, say};
use crate::compacting::compress;

fn by_person(bench: &Bench, services: &Services) -> Conversation {
    let options = StartOptions { start: Start::ByPerson, ..bench.options() };
    Conversation::start(services, options).unwrap()
}

/// A session of four messages, closed with a capsule about it.
fn handed_over(bench: &Bench, services: &Services) -> SessionId {
    let mut conversation = bench.start(services);
    for text in ["we use port 8443 in deploy.toml", "and roll back to release 7"] {
        say(services, &mut conversation, UserInput::text(text));
    }
    let id = conversation.id().clone();
    conversation.release().unwrap();
    build(services, &id);
    id
}

fn build(services: &Services, session: &SessionId) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let result = runtime.block_on(services.hand_off(session, None).run());
    assert_eq!(result.status, Status::Ok, "{result:?}");
    handoff::finish(services, result).unwrap();
}

fn verified(services: &Services) {
    for request in services.store.requests(&RequestFilter::default()).unwrap() {
        assert_eq!(Inspector::new(&services.store).verify(&request), Verdict::Verified);
    }
    assert_eq!(services.store.check().unwrap(), vec![]);
}

/// The last body that arrived.
fn sent(bench: &Bench) -> String {
    String::from_utf8(bench.server.received().pop().unwrap()).unwrap()
}

#[test]
fn an_undone_turn_leaves_the_next_request_as_it_was_and_deletes_nothing() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("the first thing"));
    let before = inspect::next(&services, &conversation, "now this").unwrap();
    say(&services, &mut conversation, UserInput::text("the second thing"));
    say(&services, &mut conversation, UserInput::text("the third thing"));
    conversation.release().unwrap();

    let rewound = conversation.rewind(&services, 2, &NullSink).unwrap();
    assert_eq!((rewound.turns, rewound.rows), (2, 4));
    assert_eq!(rewound.text, "the second thing");
    let after = inspect::next(&services, &conversation, "now this").unwrap();
    assert_eq!(after.history_digest, before.history_digest);
    assert_eq!(after.prompt_digest, before.prompt_digest);
    say(&services, &mut conversation, UserInput::text("now this"));
    assert!(!sent(&bench).contains("second thing") && sent(&bench).contains("first thing"));

    let rows = services.store.history(conversation.id()).unwrap().rows;
    assert_eq!(rows.iter().filter(|row| row.role == Role::User).count(), 4, "all are stored");
    // Another process sees the same.
    conversation.release().unwrap();
    let other = bench.resume(&services, conversation.id());
    let theirs = inspect::next(&services, &other, "x").unwrap();
    let ours = inspect::next(&services, &conversation, "x").unwrap();
    assert_eq!(theirs.history_digest, ours.history_digest);
    verified(&services);
}

#[test]
fn more_turns_than_there_are_take_all_back_and_then_there_is_nothing() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let nothing = |conversation: &mut Conversation, summarised: bool| match conversation
        .rewind(&services, 1, &NullSink)
        .unwrap_err()
    {
        AgentError::NothingToTakeBack { summarised: found } => assert_eq!(found, summarised),
        other => panic!("{other}"),
    };
    nothing(&mut conversation, false);
    for text in ["one", "two"] {
        say(&services, &mut conversation, UserInput::text(text));
    }
    assert_eq!(conversation.rewind(&services, 9, &NullSink).unwrap().turns, 2);
    nothing(&mut conversation, false);
    say(&services, &mut conversation, UserInput::text("three"));
    assert!(!sent(&bench).contains("\"one\""));
    verified(&services);
}

#[test]
fn a_summary_stays_and_what_it_covers_comes_back_without_what_was_undone() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut conversation = bench.start(&services);
    for n in 0..6 {
        let text = crate::compacting::long(n);
        say(&services, &mut conversation, UserInput::text(text));
    }
    assert!(compress(&services, &mut conversation, Some(1)).is_compaction());
    say(&services, &mut conversation, UserInput::text("a wrong turn"));
    conversation.rewind(&services, 1, &NullSink).unwrap();
    say(&services, &mut conversation, UserInput::text("a right turn"));
    let body = sent(&bench);
    assert!(!body.contains("a wrong turn") && !body.contains(&crate::compacting::long(0)));
    // Two turns stand: the one that was kept and the new one.
    assert_eq!(conversation.rewind(&services, 9, &NullSink).unwrap().turns, 2);
    match conversation.rewind(&services, 1, &NullSink).unwrap_err() {
        error @ AgentError::NothingToTakeBack { summarised: true } => {
            assert!(error.to_string().contains("/compress --undo"), "{error}");
        }
        other => panic!("{other}"),
    }
    conversation.undo_compaction(&services, None).unwrap();
    say(&services, &mut conversation, UserInput::text("and on"));
    let body = sent(&bench);
    assert!(body.contains(&crate::compacting::long(0)) && !body.contains("turn\""), "{body}");
    verified(&services);
}

#[test]
fn asking_again_sends_the_same_with_its_image() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let image = Image { media_type: "image/png".to_owned(), bytes: vec![1, 2, 3] };
    let input = UserInput { images: vec![image], ..UserInput::text("look at this") };
    say(&services, &mut conversation, input);
    let first = sent(&bench);
    let again = conversation.take_back_last(&services, &NullSink).unwrap();
    assert_eq!((again.text.as_str(), again.images.len()), ("look at this", 1));
    say(&services, &mut conversation, again);
    assert_eq!(sent(&bench), first, "byte for byte");
    verified(&services);
}

#[test]
fn a_capsule_survives_an_unanswered_first_turn_undo_and_retry_and_is_given_once() {
    let down = r#"{"status":401,"body":{"error":{"message":"no"}}}"#;
    let bench = Bench::new(None);
    let services = bench.services();
    let old = handed_over(&bench, &services);
    let record = services.store.capsules(None).unwrap().remove(0);
    assert_eq!((record.state, &record.session), (CapsuleState::Pending, &old));

    // The first turn of the next session fails.
    let failing = Bench::new(Some(&format!("[{down}]")));
    let config = std::fs::read_to_string(failing.folder.path().join("config.yaml")).unwrap();
    std::fs::write(bench.folder.path().join("config.yaml"), config).unwrap();
    let services = bench.services();
    let mut conversation = by_person(&bench, &services);
    let report = say(&services, &mut conversation, UserInput::text("go on"));
    assert!(matches!(report.outcome, TurnOutcome::Failed(_)), "{:?}", report.outcome);
    let label = "history you already established";
    // The rehearsal model quotes what it read, so its own messages do not count.
    let holding = |bench: &Bench| {
        let body: serde_json::Value = serde_json::from_str(&sent(bench)).unwrap();
        let by_person =
            body["messages"].as_array().unwrap().iter().filter(|it| it["role"] == "user");
        by_person.filter(|message| message["content"].to_string().contains(label)).count()
    };
    assert_eq!(holding(&failing), 1);

    let again = conversation.take_back_last(&services, &NullSink).unwrap();
    let next = inspect::next(&services, &conversation, "go on").unwrap();
    assert_eq!(next.parts.iter().filter(|part| part.name == "capsule").count(), 1);
    assert_eq!(say(&services, &mut conversation, again).outcome, TurnOutcome::Answered);
    assert_eq!(holding(&failing), 1, "asked again with it");
    let answered = sent(&failing);
    say(&services, &mut conversation, UserInput::text("and further"));
    assert_eq!(holding(&failing), 1, "once, and not in the second turn");
    conversation.rewind(&services, 1, &NullSink).unwrap();
    say(&services, &mut conversation, UserInput::text("another way"));
    assert_eq!(holding(&failing), 1, "it stands in the first turn");
    conversation.rewind(&services, 5, &NullSink).unwrap();
    conversation.release().unwrap();
    let mut conversation = bench.resume(&services, conversation.id());
    say(&services, &mut conversation, UserInput::text("go on"));
    assert_eq!(sent(&failing), answered, "all taken back: as the first answered request was");

    let given: Vec<_> = services.store.capsules(None).unwrap();
    assert_eq!(given.len(), 1);
    let (taker, row) = given[0].taken_by.clone().unwrap();
    assert_eq!((given[0].state, &taker), (CapsuleState::Delivered, conversation.id()));
    let rows = services.store.history(&taker).unwrap().rows;
    let held: Vec<_> = rows.iter().filter(|row| !row.text_of(Origin::Capsule).is_empty()).collect();
    assert_eq!(held[0].seq, row, "claimed by the first user row");
    assert!(held.iter().all(|it| it.text_of(Origin::Capsule) == held[0].text_of(Origin::Capsule)));
    // Nobody else gets it.
    let mut third = by_person(&bench, &services);
    say(&services, &mut third, UserInput::text("hello"));
    assert_eq!(holding(&failing), 0);
    verified(&services);
}

#[test]
fn what_the_next_request_would_hold_shows_the_capsule_that_waits_and_claims_nothing() {
    let bench = Bench::new(None);
    let services = bench.services();
    handed_over(&bench, &services);
    let shown = |conversation: &Conversation| {
        let report = inspect::next(&services, conversation, "go on").unwrap();
        report.parts.iter().filter(|part| part.name == "capsule").count()
    };
    let conversation = by_person(&bench, &services);
    assert_eq!((shown(&conversation), shown(&conversation)), (1, 1));
    assert_eq!(shown(&bench.start(&services)), 0, "nobody started this one");
    let record = services.store.capsules(None).unwrap().remove(0);
    assert_eq!(record.state, CapsuleState::Pending);
    // Taken back by hand: not shown, and looking settles nothing.
    std::fs::remove_file(services.handoffs().pending_path(&record)).unwrap();
    assert_eq!(shown(&conversation), 0);
    let record = services.store.capsules(None).unwrap().remove(0);
    assert_eq!(record.state, CapsuleState::Pending);
}

#[test]
fn a_session_that_was_handed_over_is_open_again_once_something_is_said_in_it() {
    let bench = Bench::new(None);
    let services = bench.services();
    let old = handed_over(&bench, &services);
    let ended = || services.store.session(&old).unwrap().unwrap().end_reason;
    assert_eq!(ended().as_deref(), Some(handoff::END_REASON));
    let mut conversation = bench.resume(&services, &old);
    assert_eq!(ended().as_deref(), Some(handoff::END_REASON), "looking at it opens nothing");
    say(&services, &mut conversation, UserInput::text("one more thing"));
    assert_eq!(ended(), None);
    // Closed by another process while this one idles.
    conversation.release().unwrap();
    build(&services, &old);
    assert_eq!(ended().as_deref(), Some(handoff::END_REASON));
    say(&services, &mut conversation, UserInput::text("and another"));
    assert_eq!(ended(), None);
    assert!(!sent(&bench).contains("history you already established"), "never its own");
}
