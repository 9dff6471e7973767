//! When a handoff is due, and what a capsule's trouble means for a turn.

use hermes_agent::{Conversation, DueBecause, StartOptions, UserInput, due};
use hermes_core::TurnOutcome;
use hermes_handoff::Start;
use hermes_store::CapsuleState;

use crate::bench::{Bench, say, say_to};
use crate::compacting::{Ear, bench, compress, long};

fn talk(services: &hermes_agent::Services, conversation: &mut Conversation) {
    for n in 0..5 {
        say(services, conversation, UserInput::text(long(n)));
    }
}

#[test]
fn after_as_many_compactions_as_the_settings_say_a_handoff_is_due_and_by_default_never() {
    for (config, expected) in [
        ("", None),
        ("handoff:\n  after_compactions: 2\n", None),
        ("handoff:\n  after_compactions: 1\n", Some(DueBecause::Compactions(1))),
        ("handoff:\n  after_compactions: 1\nplugins:\n  enabled: [hermes-handoff]\n", None),
    ] {
        let bench = bench(None, 200_000, config);
        let services = bench.services();
        let mut conversation = bench.start(&services);
        talk(&services, &mut conversation);
        assert_eq!(due(&services, conversation.id()).unwrap(), None, "{config}");
        assert!(compress(&services, &mut conversation, Some(1)).is_compaction());
        let found = due(&services, conversation.id()).unwrap();
        assert_eq!(found.map(|due| due.why), expected, "{config}");
    }
}

#[test]
fn a_compaction_that_fails_makes_a_handoff_due_where_the_settings_say_so() {
    for wanted in [false, true] {
        let failing = r#"[{"say":"a"},{"say":"b"},{"say":"c"},{"say":"d"},{"say":"e"},
            {"status":401,"body":{"error":{"message":"no"}},"repeat":9}]"#;
        let handoff = if wanted { "handoff:\n  on_compaction_failure: handoff\n" } else { "" };
        let config = format!("compression:\n  on_failure: abort\n{handoff}");
        let bench = bench(Some(failing), 200_000, &config);
        let services = bench.services();
        let mut conversation = bench.start(&services);
        talk(&services, &mut conversation);
        let id = conversation.id().clone();
        assert_eq!(due(&services, &id).unwrap(), None);
        assert!(!compress(&services, &mut conversation, Some(1)).is_compaction());
        let found = due(&services, &id).unwrap();
        assert_eq!(found.is_some(), wanted);
        if let Some(found) = found {
            assert!(matches!(&found.why, DueBecause::Failure(why) if why.contains("401")));
            assert!(found.why.to_string().starts_with("this session could not be compacted"));
            // The same trouble is no second reason, a session that has ended has none.
            compress(&services, &mut conversation, Some(1));
            assert_eq!(due(&services, &id).unwrap().map(|due| due.at), Some(found.at));
            conversation.release().unwrap();
            hermes_agent::handoff::close_session(&services.store, &*services.env, &id).unwrap();
            assert_eq!(due(&services, &id).unwrap(), None);
        }
    }
}

#[test]
fn a_capsule_that_cannot_be_read_costs_no_turn_is_told_and_waits_for_the_next_session() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut old = bench.start(&services);
    for text in ["we use port 8443", "and roll back to release 7"] {
        say(&services, &mut old, UserInput::text(text));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let built = runtime.block_on(services.hand_off(old.id(), None).run());
    let path = built.path.unwrap();
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();

    let first_turn = |text: &str, ear: &Ear| {
        let options = StartOptions { start: Start::ByPerson, ..bench.options() };
        let mut next = Conversation::start(&services, options).unwrap();
        let report = say_to(&services, &mut next, UserInput::text(text), ear);
        assert_eq!(report.outcome, TurnOutcome::Answered);
        let body = String::from_utf8(bench.server.received().pop().unwrap()).unwrap();
        body.contains("history you already established")
    };
    let ear = Ear::default();
    assert!(!first_turn("go on", &ear));
    let told = ear.warnings().join("\n");
    assert!(told.contains("cannot be given") && told.contains(path.to_str().unwrap()), "{told}");
    let state = || services.store.capsules(None).unwrap()[0].state;
    assert_eq!(state(), CapsuleState::Pending);

    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, kept).unwrap();
    assert!(first_turn("go on now", &Ear::default()));
    assert_eq!(state(), CapsuleState::Delivered);
}
