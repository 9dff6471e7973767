//! From a session to a capsule.

use hermes_core::{Origin, PartBody, Role, Seq};
use hermes_handoff::capsule::status_line;
use hermes_handoff::prepass::Recency;
use hermes_handoff::section::{Section, read};
use hermes_handoff::writer::{WriterError, WriterFault};
use hermes_handoff::{Build, BuildResult, Handoffs, Status, build};
use hermes_home::redact::Redactor;
use hermes_store::{CapsuleState, Record};

use crate::support::*;

fn text(result: &BuildResult) -> String {
    std::fs::read_to_string(result.path.as_ref().unwrap()).unwrap()
}

#[test]
fn a_good_answer_becomes_a_pending_capsule_with_both_files() {
    let world = World::new();
    let handoffs = world.handoffs();
    let session = talked(&world.store(), "old", &TALK);
    let writer = saying(GOOD);
    let result = built(&handoffs, &session, &writer);
    assert_eq!((result.status, result.messages), (Status::Ok, 6), "{result:?}");
    assert_eq!(result.writer.as_deref(), Some("test-model"));
    let file = text(&result);
    assert_eq!(status_line(&file), Some("ok"));
    assert_eq!(file.lines().filter(|line| line.starts_with("## ")).count(), 6, "{file}");
    assert!(file.contains("session_search(query=\"2 to 5 keywords\", session_id=\"old\")"));
    assert!(file.contains("[r3]") && !file.contains("unverified"), "{file}");
    let record = &handoffs.list().unwrap()[0];
    assert_eq!(record.record.state, CapsuleState::Pending);
    assert!(record.record.published);
    assert_eq!(record.facts.as_ref().unwrap().coverage.turns_read, 6);
    let note: serde_json::Value =
        serde_json::from_slice(&std::fs::read(handoffs.pending_path(&record.record)).unwrap())
            .unwrap();
    for field in ["at", "lane", "session_id", "status", "reason", "digest"] {
        assert!(note.get(field).is_some(), "{field}");
    }
    assert_eq!(note["digest"], hermes_core::Digest::of(&file).to_string());
    let asked = &writer.asked.lock().unwrap()[0];
    assert!(asked.user.contains("[r5] PERSON: How far is it?"), "{}", asked.user);
}

#[test]
fn a_session_that_cannot_be_handed_over_leaves_nothing() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let status = |name: &str| built(&handoffs, &id(name), &saying(GOOD)).status;
    talked(&store, "short", &TALK[..3]);
    let mut cron = init("cron_daily_20261130");
    cron.source = "cron".to_owned();
    talked_as(&store, cron, &TALK);
    let mut child = init("child");
    child.parent = Some((id("short"), hermes_store::ParentKind::Delegate));
    talked_as(&store, child, &TALK);
    assert_eq!(status("short"), Status::TooShort);
    assert_eq!(status("nobody"), Status::NoSession);
    assert_eq!(status("cron_daily_20261130"), Status::Refused);
    assert_eq!(status("child"), Status::Refused);
    assert_eq!(world.everything(), "");
}

#[test]
fn what_the_session_does_not_hold_is_marked_and_open_requests_are_added() {
    let world = World::new();
    let handoffs = world.handoffs();
    let mut said = TALK.to_vec();
    said.push("Also rename the database table invoices to bills before Friday.");
    let session = talked(&world.store(), "old", &said);
    let answer = GOOD
        .replace("src/parser.rs [r3]", "src/lexer.rs and src/parser.rs [r3]\n- port 9099 [r77]");
    let result = built(&handoffs, &session, &saying(&answer));
    let file = text(&result);
    assert!(file.contains("src/lexer.rs (unverified) and src/parser.rs [r3]"), "{file}");
    assert!(file.contains("port 9099 (unverified)\n"), "a false reference is taken out: {file}");
    let next = read(&file).body.get(Section::Next).to_owned();
    assert!(next.contains("rename the database table invoices") && next.contains("[r7]"), "{next}");
    let verdict = handoffs.list().unwrap()[0].facts.clone().unwrap().verdict;
    assert_eq!(verdict.unverified, ["src/lexer.rs", "9099"]);
    assert_eq!((verdict.false_references, verdict.added_requests), (1, 1));
}

#[test]
fn the_next_capsule_is_written_with_the_one_before_and_supersedes_it() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let first = talked(&store, "one", &TALK);
    let second = talked(&store, "two", &TALK);
    built(&handoffs, &first, &saying(GOOD));
    let writer = saying(GOOD);
    let result = built(&handoffs, &second, &writer);
    let asked = writer.asked.lock().unwrap()[0].user.clone();
    assert!(
        asked.contains("<earlier_capsule>\n## Working on\nThe parser of the config file\n"),
        "{asked}"
    );
    assert!(!asked.contains("Recovery") && !asked.contains("capsule-status"), "{asked}");
    let states: Vec<CapsuleState> =
        handoffs.list().unwrap().iter().map(|listed| listed.record.state).collect();
    assert_eq!(states, [CapsuleState::Pending, CapsuleState::Superseded]);
    assert!(text(&result).contains("session two"));
}

#[test]
fn one_build_of_a_lane_runs_at_a_time() {
    let world = World::new();
    let handoffs = world.handoffs();
    let session = talked(&world.store(), "old", &TALK);
    let inner = handoffs.clone();
    let (again, lane) = (session.clone(), lane());
    let writer = Scripted::new(move || {
        assert!(inner.is_building(&lane));
        let other = std::thread::scope(|scope| {
            scope.spawn(|| built(&inner, &again, &saying(GOOD)).status).join().unwrap()
        });
        assert_eq!(other, Status::Busy);
        Ok(GOOD.to_owned())
    });
    assert_eq!(built(&handoffs, &session, &writer).status, Status::Ok);
    assert!(!handoffs.is_building(&crate::support::lane()));
}

#[test]
fn what_is_said_while_it_is_built_and_before_the_close_is_added_as_it_stands() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let session = talked(&store, "old", &TALK);
    let writing = store.clone();
    let during = session.clone();
    let writer = Scripted::new(move || {
        let mut held = writing.open_session(&during).unwrap();
        let seq = held.next_seq();
        let _c =
            held.commit(vec![Record::Row(row(seq, Role::User, "Mind the tabs as well."))]).unwrap();
        Ok(GOOD.to_owned())
    });
    let result = built(&handoffs, &session, &writer);
    let next = read(&text(&result)).body.get(Section::Next).to_owned();
    assert!(next.ends_with("person: \"Mind the tabs as well.\" [r7]"), "{next}");
    assert_eq!(result.messages, 7);

    let capsule = result.capsule.unwrap();
    let redactor = Redactor::default();
    assert_eq!(handoffs.add_what_was_said_since(&capsule, &redactor).unwrap(), None);
    let mut held = store.open_session(&session).unwrap();
    let seq = held.next_seq();
    let _c = held.commit(vec![Record::Row(row(seq, Role::Assistant, "Tabs noted."))]).unwrap();
    held.release().unwrap();
    let added = handoffs.add_what_was_said_since(&capsule, &redactor).unwrap().unwrap();
    let next = read(&text(&added)).body.get(Section::Next).to_owned();
    assert!(
        next.contains("Mind the tabs") && next.ends_with("model: \"Tabs noted.\" [r8]"),
        "{next}"
    );
    assert_eq!(handoffs.resolve(&capsule).unwrap().state, CapsuleState::Superseded);
    assert_eq!(handoffs.resolve("latest").unwrap().id, added.capsule.unwrap());
}

/// B079: the provider is down; the capsule is put together from the rows, without the key.
#[test]
fn b079_without_a_model_the_capsule_holds_decisions_dead_ends_files_and_the_next_step() {
    let case = std::fs::read_to_string("tests/cases/B079/messages.json").unwrap();
    let messages: Vec<serde_json::Value> = serde_json::from_str(&case).unwrap();
    let said: Vec<&str> = messages.iter().map(|m| m["content"].as_str().unwrap()).collect();
    let world = World::new();
    let handoffs = world.handoffs();
    let session = talked(&world.store(), "old", &said);
    let error = hermes_handoff::writer::WriterError {
        fault: hermes_handoff::writer::WriterFault::Other,
        detail: "500: down".to_owned(),
    };
    let result = built(&handoffs, &session, &failing(error));
    assert_eq!(result.status, Status::Fallback);
    let file = text(&result);
    for held in [
        "SQLite, not Postgres",
        "mmap idea failed",
        "src/a.rs",
        "src/b.rs",
        "the parser test",
        "session old",
        "2026-",
    ] {
        assert!(file.contains(held), "{held}: {file}");
    }
    assert!(!file.contains("sk-test-HANDOFF-000111222333"), "{file}");
    assert!(read(&file).body.get(Section::Decisions).contains("SQLite"), "{file}");
    let empty = talked(&world.store(), "empty", &[]);
    let none = built(&handoffs, &empty, &saying(GOOD));
    assert_eq!((none.status, none.path), (Status::TooShort, None));
}

#[test]
fn files_and_commands_of_tools_are_in_the_capsule_without_a_model() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let mut batch = opening();
    let mut rows = vec![row(Seq(1), Role::User, "Fix the build of order 4711.")];
    rows.extend(call(2, "write_file", "{\"path\":\"src/lib.rs\",\"content\":\"x\"}", "written"));
    rows.extend(call(
        4,
        "terminal",
        "{\"command\":\"cargo build\"}",
        "exit code 101\nerror[E0433]: no such crate",
    ));
    rows.push(row(Seq(6), Role::Assistant, "The build fails with E0433."));
    rows.push(row(Seq(7), Role::User, "We decided to drop the crate chrono."));
    rows.push(row(Seq(8), Role::Assistant, "Understood."));
    rows.push(row(Seq(9), Role::User, "Then build it again."));
    batch.extend(rows.into_iter().map(Record::Row));
    store.create_session(init("old"), batch).unwrap().release().unwrap();
    let error =
        hermes_handoff::writer::WriterError::bare(hermes_handoff::writer::WriterFault::Timeout);
    let file = text(&built(&handoffs, &id("old"), &failing(error)));
    let body = read(&file).body;
    assert!(body.get(Section::Pointers).contains("changed src/lib.rs"), "{file}");
    assert!(body.get(Section::State).contains("ran `cargo build`: exit code 101"), "{file}");
    assert!(body.get(Section::Decisions).contains("drop the crate chrono"), "{file}");
    assert!(body.get(Section::Next).contains("Then build it again."), "{file}");
    assert!(body.get(Section::WorkingOn).contains("order 4711"), "{file}");
}

#[test]
fn an_hour_of_work_with_tools_after_one_request_is_handed_over() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let session = |name: &str, calls: u64| {
        let mut rows = vec![row(Seq(1), Role::User, "Sort the imports of src/lib.rs.")];
        for n in 0..calls {
            rows.extend(call(2 + 2 * n, "terminal", "{\"command\":\"cargo check\"}", "ok"));
        }
        rows.push(row(Seq(2 + 2 * calls), Role::Assistant, "Sorted."));
        let mut batch = opening();
        batch.extend(rows.into_iter().map(Record::Row));
        store.create_session(init(name), batch).unwrap().release().unwrap();
        built(&handoffs, &id(name), &saying(GOOD))
    };
    let short = session("one look", 1);
    assert_eq!(short.status, Status::TooShort);
    assert!(short.reason.unwrap().contains("3 messages"));
    let worked = session("worked", 30);
    assert_eq!((worked.status, worked.messages), (Status::Ok, 2), "{worked:?}");
}

#[test]
fn a_pass_marks_turns_and_replaces_none() {
    let world = World::new();
    let handoffs = world.handoffs();
    let said: Vec<String> = (0..60).map(|n| format!("message number {n}")).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    let session = talked(&world.store(), "old", &said);
    let asked = |handoffs: &Handoffs, turns: usize| {
        let writer = saying(GOOD);
        let redactor = Redactor::default();
        let pass = Recency { turns };
        let what = Build {
            session: &session,
            lane: None,
            focus: Some("the numbers"),
            prepass: &pass,
            redactor: &redactor,
            confidential: None,
        };
        let result = run(build(handoffs, what, &writer));
        assert_eq!(result.prepass, "recency");
        writer.asked.lock().unwrap()[0].user.clone()
    };
    for (turns, marked) in [(0, 8), (16, 16), (30, 30)] {
        let user = asked(&handoffs, turns);
        assert_eq!(user.matches("(KEEP VERBATIM)").count(), marked, "{turns}");
        assert!(user.contains("message number 0\n") && user.contains("dwell on: the numbers"));
    }
}

#[test]
fn secrets_reach_neither_the_writer_nor_the_file() {
    let world = World::new();
    let handoffs = world.handoffs();
    let secret = "hunter-and-gatherer-42";
    let mut said = TALK.to_vec();
    let told = format!("the word for the door is {secret}");
    said.push(&told);
    let session = talked(&world.store(), "old", &said);
    let redactor = Redactor::new([secret]);
    let leak = format!("{GOOD}\n- the word is {secret}");
    let writer = saying(&leak);
    let what = Build {
        session: &session,
        lane: None,
        focus: None,
        prepass: &hermes_handoff::prepass::NoPrepass,
        redactor: &redactor,
        confidential: None,
    };
    let result = run(build(&handoffs, what, &writer));
    assert!(!writer.asked.lock().unwrap()[0].user.contains(secret));
    assert!(!text(&result).contains(secret));
}

#[test]
fn without_a_model_the_capsule_before_is_carried_over_once_and_only_from_another_session() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let down = || {
        let fault = hermes_handoff::writer::WriterFault::Timeout;
        failing(hermes_handoff::writer::WriterError::bare(fault))
    };
    let one = talked(&store, "one", &["We decided to use SQLite.", "Noted.", "Go on.", "Yes."]);
    let first = text(&built(&handoffs, &one, &down()));
    let again = text(&built(&handoffs, &one, &down()));
    assert_eq!(read(&again).body, read(&first).body, "its own rows say all of it");
    let said = ["Now the web pages, please.", "Begun.", "Blue, not green.", "Blue it is."];
    let two = talked(&store, "two", &said);
    let second = text(&built(&handoffs, &two, &down()));
    let carried = "- From the capsule before: person: We decided to use SQLite.\n";
    assert!(second.contains(carried), "{second}");
    let three = talked(&store, "three", &said);
    let third = text(&built(&handoffs, &three, &down()));
    assert!(third.contains(carried), "{third}");
    assert!(!third.contains("before: From the capsule before"), "{third}");
}

#[test]
fn an_answer_that_a_plugin_gave_counts_as_the_answer_and_what_it_added_to_a_message_does_not() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let mut rows: Vec<_> = ["Which port is free?", "", "Then use it.", "It is used."]
        .iter()
        .zip(1..)
        .map(|(text, at)| {
            let role = if at % 2 == 1 { Role::User } else { Role::Assistant };
            row(Seq(at), role, text)
        })
        .collect();
    let by_plugin = |seq, row, text: &str| {
        let mut by = part(Seq(seq), Seq(row), Origin::Hook, PartBody::text(text));
        by.label = Some("ports".into());
        by
    };
    rows[1].parts = vec![by_plugin(2, 2, "We decided on the free port 9417.")];
    rows[2].parts.push(by_plugin(9, 3, "a note that nobody said: 7777"));
    rows[2].sort_parts();
    let mut batch = opening();
    batch.extend(rows.into_iter().map(Record::Row));
    store.create_session(init("old"), batch).unwrap().release().unwrap();
    let down = || failing(WriterError::bare(WriterFault::Timeout));
    let writer = down();
    let result = built(&handoffs, &id("old"), &writer);
    assert_eq!((result.status, result.messages), (Status::Fallback, 4), "{result:?}");
    let asked = writer.asked.lock().unwrap()[0].user.clone();
    assert!(asked.contains("[r2] MODEL: We decided on the free port 9417."), "{asked}");
    let file = text(&result);
    let decisions = read(&file).body.get(Section::Decisions).to_owned();
    assert!(decisions.contains("model: We decided on the free port 9417. [r2]"), "{file}");
    assert!(!file.contains("7777") && !asked.contains("7777"), "{file}");
}
