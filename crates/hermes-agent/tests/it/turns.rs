//! What a turn stores, whatever happens in it.

use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_agent::UserInput;
use hermes_agent::inspect::{Inspector, Verdict};
use hermes_core::{Event, EventSink, NoticeLevel, Origin, Role, RowStatus, TurnOutcome};
use hermes_store::RequestFilter;

use crate::bench::{Bench, say, say_to};

/// A streamed chunk with this text.
fn chunk(text: &str) -> String {
    format!(
        r#"{{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}"#
    )
}

/// A script entry: raw stream of these texts without an end, then the connection is closed. (A
/// reset may overtake the text.)
fn broken(texts: &[&str]) -> String {
    let events: Vec<String> =
        texts.iter().map(|text| format!("data: {}\\n\\n", chunk(text))).collect();
    let events = events.concat();
    format!(
        r#"{{"kind":"main","headers":{{"content-type":"text/event-stream"}},"body":"{events}","then":"reset"}}"#
    )
}

#[test]
fn b021_a_locked_store_costs_no_turn() {
    let bench = Bench::new(None);
    let services = bench.services();
    // The database exists and is held by somebody else while the session is created.
    say(&services, &mut bench.start(&services), UserInput::text("before"));
    let other = rusqlite::Connection::open(bench.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    let mut conversation = bench.start(&services);
    let heard = Heard::default();
    let report = say_to(&services, &mut conversation, UserInput::text("one"), &heard);
    assert_eq!(report.outcome, TurnOutcome::Answered);
    other.execute_batch("ROLLBACK").unwrap();
    for text in ["two", "three"] {
        let report = say_to(&services, &mut conversation, UserInput::text(text), &heard);
        assert_eq!(report.outcome, TurnOutcome::Answered);
    }
    assert_eq!(heard.warnings(), 1, "told once");
    let id = conversation.id().clone();
    conversation.release().unwrap();

    // A process of its own sees all three turns in the database.
    let rows: i64 = other
        .query_row("SELECT count(*) FROM messages WHERE session_id = ?1", [id.as_str()], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(rows, 6);
    for request in services.store.requests(&RequestFilter::default()).unwrap() {
        assert_eq!(Inspector::new(&services.store).verify(&request), Verdict::Verified);
    }
}

#[test]
fn a_lesson_that_a_locked_store_cannot_keep_costs_no_answer() {
    let refusal =
        r#"{"status":400,"body":{"error":{"message":"stream_options is not supported"}}}"#;
    let bench = Bench::new(Some(&format!(r#"[{{"say":"one"}},{refusal}]"#)));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("before"));
    let other = rusqlite::Connection::open(bench.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let heard = Heard::default();
    let report = say_to(&services, &mut conversation, UserInput::text("after"), &heard);
    assert_eq!((report.outcome, report.requests.len()), (TurnOutcome::Answered, 2));
    assert_eq!(heard.warnings(), 2, "the side file, and what could not be kept");
    other.execute_batch("ROLLBACK").unwrap();
    say(&services, &mut conversation, UserInput::text("last"));
    assert_eq!(bench.server.received().len(), 4, "the session itself has learned it");
    let answers = conversation.rows().iter().filter(|row| row.role == Role::Assistant);
    assert_eq!(answers.count(), 3);
}

#[test]
fn an_error_in_mid_stream_that_no_other_try_helps_ends_the_turn() {
    let error = r#"data: {\"error\":{\"message\":\"invalid api key\",\"code\":401}}\n\n"#;
    let events = format!("data: {}\\n\\n{error}", chunk("half "));
    let script = format!(
        r#"[{{"kind":"main","headers":{{"content-type":"text/event-stream"}},"body":"{events}"}}]"#
    );
    let bench = Bench::new(Some(&script));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let report = say(&services, &mut conversation, UserInput::text("hello"));
    assert!(matches!(report.outcome, TurnOutcome::Failed(_)), "{:?}", report.outcome);
    assert_eq!(report.requests.len(), 1);
    assert_eq!(conversation.rows()[1].text_of(Origin::Model), "half ");
}

/// Counts warnings.
#[derive(Default)]
struct Heard(AtomicUsize);

impl Heard {
    fn warnings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl EventSink for Heard {
    fn event(&self, event: Event) {
        if matches!(event, Event::Notice { level: NoticeLevel::Warning, .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn b022_three_turns_are_three_turns_however_often_they_are_flushed() {
    let bench = Bench::new(None);
    let services = bench.services();
    let mut conversation = bench.start(&services);
    for text in ["one", "two", "three"] {
        say(&services, &mut conversation, UserInput::text(text));
        conversation.release().unwrap();
    }
    let info = services.store.session(conversation.id()).unwrap().unwrap();
    assert_eq!(info.message_count, 6);
    assert_eq!(services.store.history(conversation.id()).unwrap().rows.len(), 6);
}

#[test]
fn a_stream_that_breaks_after_text_was_shown_keeps_it_and_asks_again_without_it() {
    let script = format!("[{}]", broken(&["part one "]));
    let bench = Bench::new(Some(&script));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let report = say(&services, &mut conversation, UserInput::text("hello"));
    assert_eq!(report.outcome, TurnOutcome::Answered);
    assert_eq!(report.requests.len(), 2);

    let history = services.store.history(conversation.id()).unwrap();
    let roles: Vec<(Role, RowStatus)> =
        history.rows.iter().map(|row| (row.role, row.status)).collect();
    assert_eq!(
        roles,
        [
            (Role::User, RowStatus::Complete),
            (Role::Assistant, RowStatus::Interrupted),
            (Role::Assistant, RowStatus::Complete)
        ]
    );
    assert_eq!(history.rows[1].text_of(Origin::Model), "part one ");
    let again = services.store.request(report.requests[1].as_str()).unwrap();
    assert_eq!(again.attempt.retries.as_ref(), Some(&report.requests[0]));
    let second = String::from_utf8(bench.server.received().pop().unwrap()).unwrap();
    assert!(!second.contains("part one"), "the broken answer was sent back");
}

#[test]
fn a_stream_that_breaks_every_time_ends_in_one_error_and_keeps_what_was_shown() {
    let entries: Vec<String> = (0..4).map(|_| broken(&["half "])).collect();
    let bench = Bench::new(Some(&format!("[{}]", entries.join(","))));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let report = say(&services, &mut conversation, UserInput::text("hello"));
    assert!(matches!(report.outcome, TurnOutcome::Failed(_)), "{:?}", report.outcome);
    assert_eq!(report.requests.len(), 3, "one try and two more");
    let history = services.store.history(conversation.id()).unwrap();
    assert_eq!(history.rows.iter().filter(|row| row.status == RowStatus::Interrupted).count(), 3);
}

#[test]
fn an_edited_profile_reaches_the_next_session_and_not_this_one() {
    let bench = Bench::new(None);
    let services = bench.services();
    std::fs::create_dir_all(services.home.memories_dir()).unwrap();
    std::fs::write(services.home.user_path(), "likes AMBER").unwrap();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("hello"));
    std::fs::write(services.home.user_path(), "likes COBALT").unwrap();
    say(&services, &mut conversation, UserInput::text("hello"));
    let id = conversation.id().clone();
    conversation.release().unwrap();
    let mut resumed = bench.resume(&services, &id);
    say(&services, &mut resumed, UserInput::text("hello"));
    for body in bench.server.received() {
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains("likes AMBER") && !body.contains("COBALT"));
    }
    let mut next = bench.start(&services);
    say(&services, &mut next, UserInput::text("hello"));
    let body = String::from_utf8(bench.server.received().pop().unwrap()).unwrap();
    assert!(body.contains("likes COBALT") && !body.contains("AMBER"));
}
