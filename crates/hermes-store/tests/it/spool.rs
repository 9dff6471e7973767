//! The durability seam: a database that cannot be written costs no turn.

use std::fs;
use std::io::Write as _;

use hermes_core::{Cause, Digest, GenerationNo, Op, Part, Role, Seq, WireProfile};
use hermes_store::{
    Committed, Ended, Record, RecoveredOutcome, RequestFilter, SearchRequest, SessionFilter,
    SessionPatch, SessionWriter, StoreError, Unavailable,
};

use crate::support::*;

/// B021: a lock at the creation of a session switched storing off for the rest of it.
#[test]
fn b021_a_session_created_under_a_lock_is_whole_and_is_told_once() {
    let home = Home::new();
    let store = home.store();
    // The file exists, so that there is something to lock.
    drop(create(&store, "other"));
    let lock = home.lock_out();
    let mut writer = create(&store, "a");
    let mut told = Vec::new();
    for turn in 1..=2 {
        let seq = writer.next_seq();
        match writer.commit(vec![Record::Row(row(seq, Role::User, &format!("turn {turn}")))]) {
            Ok(Committed::Spooled { why, first, .. }) => told.push((why, first)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, [(Unavailable::Locked, true), (Unavailable::Locked, false)]);
    assert_eq!(texts(&store, &id("a")), ["turn 1", "turn 2"]);
    let info = store.session(&id("a")).unwrap().unwrap();
    assert_eq!((info.message_count, info.spooled), (2, true));
    assert_eq!(store.sessions(&SessionFilter::default()).unwrap().len(), 2);
    assert!(matches!(store.resolve("", None), Err(StoreError::NotFound { .. })));
    assert_eq!(store.resolve("latest", None).unwrap(), id("a"));
    let mut out = Vec::new();
    store.export_jsonl(&id("a"), &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("turn 2"));

    drop(lock);
    say(&mut writer, Role::User, "turn 3");
    assert_eq!(texts(&store, &id("a")), ["turn 1", "turn 2", "turn 3"]);
    let info = store.session(&id("a")).unwrap().unwrap();
    assert_eq!((info.message_count, info.spooled), (3, false));
    assert_eq!(files(&home.paths().spool_dir, "spool"), 0);
    assert_sound(&store);
}

#[test]
fn what_waits_in_a_side_file_is_found_and_read() {
    let home = Home::new();
    let store = home.store();
    let mut known = create(&store, "known");
    say(&mut known, Role::User, "the walrus at noon");
    let lock = home.lock_out();
    say_beside(&mut known, "the walrus and the pelican");
    let mut new = create(&store, "new");
    say_beside(&mut new, "a pelican alone");
    let find = |query: &str, change: &dyn Fn(&mut SearchRequest)| {
        let mut request = SearchRequest::new(query);
        change(&mut request);
        let answer = store.search(&request).unwrap();
        let shown = answer.results.into_iter().map(|result| {
            let hits = result.messages.into_iter().filter(|message| message.anchor);
            let hits: Vec<String> = hits.map(|message| message.content).collect();
            format!("{}: {}", result.session_id, hits.join(", "))
        });
        shown.collect::<Vec<_>>()
    };
    let both = "known: the walrus at noon, the walrus and the pelican";
    assert_eq!(find("walrus", &|_| {}), [both]);
    let pelicans = ["new: a pelican alone", "known: the walrus and the pelican"];
    let mut found = find("pelican", &|_| {});
    found.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(found, pelicans);
    assert_eq!(find("pelican NOT alone", &|_| {}), [pelicans[1]]);
    assert_eq!(find("pelica", &|_| {}).len(), 2, "beginnings too");
    assert_eq!(find("pelican", &|request| request.session = Some(id("new"))), [pelicans[0]]);
    assert_eq!(find("pelican", &|request| request.exclude = vec![id("new")]), [pelicans[1]]);
    assert_eq!(find("pelican", &|request| request.current = Some(id("new"))), [pelicans[1]]);
    assert_eq!(find("pelican", &|request| request.roles = vec![Role::Tool]), [""; 0]);
    let read = store.read_session(&id("known"), false, "default").unwrap();
    let texts: Vec<&str> = read.messages.iter().map(|it| it.content.as_str()).collect();
    assert_eq!(texts, ["the walrus at noon", "the walrus and the pelican"]);
    assert_eq!((read.message_count, read.truncated), (2, false));
    let read = store.read_session(&id("new"), false, "default").unwrap();
    assert_eq!((read.messages.len(), read.message_count), (1, 1));

    drop(lock);
    known.renew().unwrap();
    new.renew().unwrap();
    assert_eq!(find("walrus", &|_| {}), [both], "and once only when it was taken in");
    assert_eq!(find("pelican", &|_| {}).len(), 2);
    assert_sound(&store);
}

/// Says something while the database is locked.
fn say_beside(writer: &mut SessionWriter, text: &str) {
    let seq = writer.next_seq();
    let committed = writer.commit(vec![Record::Row(row(seq, Role::User, text))]).unwrap();
    assert!(matches!(committed, Committed::Spooled { .. }));
}

#[test]
fn the_first_batch_that_goes_beside_the_database_says_so() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let lock = home.lock_out();
    let mut firsts = Vec::new();
    for _ in 0..2 {
        let seq = writer.next_seq();
        match writer.commit(vec![Record::Row(row(seq, Role::User, "x"))]).unwrap() {
            Committed::Spooled { first, path, .. } => {
                assert!(path.exists());
                firsts.push(first);
            }
            Committed::Database => panic!("the database is locked"),
        }
    }
    assert_eq!(firsts, [true, false]);
    drop(lock);
    writer.renew().unwrap();
    assert!(!store.session(&id("a")).unwrap().unwrap().spooled);
}

#[test]
fn everything_that_waits_in_a_side_file_can_be_read() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let lock = home.lock_out();
    let bytes: std::sync::Arc<[u8]> = std::sync::Arc::from([1_u8, 2].as_slice());
    let mut kept = attempt("r1", &id("a"), GenerationNo(1), Seq(1));
    kept.kept_body = Some(b"the body".to_vec());
    let batch = vec![
        Record::Text { text: "new prompt".into() },
        Record::Blob { media_type: "image/png".into(), bytes: bytes.clone() },
        Record::Profile(WireProfile::default()),
        generation(1, Cause::Refresh, vec![]),
        Record::AttemptStarted(kept),
        Record::AttemptEnded(end("r1", 5, 6)),
        Record::Part(Part {
            slot: 300,
            ..part(Seq(2), Seq(1), hermes_core::Origin::Steer, "late")
        }),
        Record::Patch(SessionPatch {
            title: Some("A title".to_owned()),
            ended: Some(Ended { at: START, reason: "cli_close".to_owned() }),
            ..SessionPatch::default()
        }),
    ];
    assert!(matches!(writer.commit(batch).unwrap(), Committed::Spooled { .. }));
    let check = || {
        assert_eq!(texts(&store, &id("a")), ["one+late"]);
        assert_eq!(store.history(&id("a")).unwrap().head, Some(GenerationNo(1)));
        assert_eq!(store.text(&Digest::of("new prompt")).unwrap().as_deref(), Some("new prompt"));
        assert_eq!(store.blob(&Digest::of(&bytes)).unwrap(), Some(bytes.clone()));
        assert!(store.wire_profile(&WireProfile::default().digest()).unwrap().is_some());
        let request = store.request("r").unwrap();
        assert_eq!(request.end.map(|end| end.usage.output), Some(Some(6)));
        assert_eq!(store.kept_body(&request.attempt.id).unwrap(), Some(b"the body".to_vec()));
        let of_a = RequestFilter { session: Some(id("a")), ..RequestFilter::default() };
        assert_eq!(store.requests(&of_a).unwrap().len(), 1);
        let info = store.session(&id("a")).unwrap().unwrap();
        assert_eq!(info.title.as_deref(), Some("A title"));
        assert_eq!(info.end_reason.as_deref(), Some("cli_close"));
        assert_eq!(info.usage.output, Some(6));
        assert_eq!(&*store.snapshot(&id("a"), GenerationNo(1)).unwrap().text, PROMPT);
    };
    check();
    drop(lock);
    writer.renew().unwrap();
    assert_eq!(files(&home.paths().spool_dir, "spool"), 0);
    check();
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let mut home = Home::new();
    let store = home.store();
    create(&store, "a").release().unwrap();
    store.close();
    let pages: u32 = home.raw().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    home.options.max_page_count = Some(pages + 8);
    let store = home.store();
    let mut writer = store.open_session(&id("a")).unwrap();
    let mut said = Vec::new();
    let mut whys = Vec::new();
    for turn in 0..30 {
        let seq = writer.next_seq();
        let text = format!("{turn} {}", "x".repeat(3000));
        if let Committed::Spooled { why, .. } =
            writer.commit(vec![Record::Row(row(seq, Role::User, &text))]).unwrap()
        {
            whys.push(why);
        }
        said.push(text);
    }
    assert!(whys.len() > 10 && whys.iter().all(|why| *why == Unavailable::Full), "{whys:?}");
    assert_eq!(texts(&store, &id("a")), said);
    drop(writer);
    store.close();

    home.options.max_page_count = None;
    let store = home.store();
    assert_eq!(texts(&store, &id("a")), said);
    let writer = store.open_session(&id("a")).unwrap();
    assert_eq!(writer.last_seq(), Seq(30));
    assert_eq!(files(&home.paths().spool_dir, "spool"), 0);
    assert_eq!(texts(&store, &id("a")), said);
    assert_sound(&store);
}

#[test]
fn a_session_can_be_resumed_and_held_while_the_database_is_locked() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    writer.release().unwrap();
    let lock = home.lock_out();
    let mut writer = store.open_session(&id("a")).unwrap();
    assert_eq!(writer.last_seq(), Seq(1));
    let seq = writer.next_seq();
    let committed = writer.commit(vec![Record::Row(row(seq, Role::User, "two"))]).unwrap();
    assert!(matches!(committed, Committed::Spooled { .. }));
    assert!(matches!(other.open_session(&id("a")), Err(StoreError::Held { .. })));
    drop(lock);
    assert!(matches!(other.open_session(&id("a")), Err(StoreError::Held { .. })));
    say(&mut writer, Role::User, "three");
    assert_eq!(texts(&other, &id("a")), ["one", "two", "three"]);
    assert_sound(&store);
}

#[test]
fn a_torn_tail_is_dropped_and_the_whole_batches_before_it_are_kept() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "other"));
    let lock = home.lock_out();
    let mut writer = create(&store, "a");
    for text in ["one", "two"] {
        let seq = writer.next_seq();
        let _c = writer.commit(vec![Record::Row(row(seq, Role::User, text))]).unwrap();
    }
    drop(writer);
    let path = home.paths().spool_dir.join("a.spool");
    let whole = fs::read(&path).unwrap();
    let mut lengths: Vec<usize> = Vec::new();
    // Every length that a torn write can leave; the file with both rows is the longest.
    for length in (0..whole.len()).rev() {
        fs::write(&path, &whole[..length]).unwrap();
        let kept = store.history(&id("a")).map_or(0, |history| history.rows.len());
        lengths.push(kept);
    }
    assert_eq!(lengths.first(), Some(&1));
    assert_eq!(lengths.last(), Some(&0));
    assert!(lengths.is_sorted_by(|a, b| a >= b));
    // A flipped bit ends the file as well.
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&path, &flipped).unwrap();
    assert_eq!(texts(&store, &id("a")), ["one"]);
    fs::write(&path, &whole).unwrap();
    fs::File::options().append(true).open(&path).unwrap().write_all(&[9, 0, 0, 0, 1]).unwrap();
    drop(lock);
    let mut writer = store.open_session(&id("a")).unwrap();
    say(&mut writer, Role::User, "three");
    assert_eq!(texts(&store, &id("a")), ["one", "two", "three"]);
}

#[test]
fn a_damaged_side_file_is_kept_aside_and_told() {
    for damage in ["head", "tail", "garbage"] {
        let home = Home::new();
        let store = home.store();
        drop(create(&store, "other"));
        let lock = home.lock_out();
        let mut writer = create(&store, "a");
        for text in ["one", "two"] {
            let seq = writer.next_seq();
            let _c = writer.commit(vec![Record::Row(row(seq, Role::User, text))]).unwrap();
        }
        drop(writer);
        drop(lock);
        let path = home.paths().spool_dir.join("a.spool");
        let mut bytes = fs::read(&path).unwrap();
        match damage {
            "head" => bytes[30] ^= 1,
            "tail" => *bytes.last_mut().unwrap() ^= 1,
            _ => bytes = vec![7; bytes.len()],
        }
        fs::write(&path, &bytes).unwrap();
        let opened = store.open_session(&id("a"));
        assert_eq!(opened.is_ok(), damage == "tail", "{damage}");
        let aside = store.set_aside(&id("a"));
        assert_eq!(aside.len(), 1, "{damage}");
        assert_eq!(fs::read(&aside[0]).unwrap(), bytes, "{damage}");
        let findings = store.check().unwrap();
        assert!(findings.iter().any(|finding| finding.what.contains("conflict")), "{findings:?}");
    }
}

#[test]
fn a_side_file_that_outlives_its_intake_is_not_taken_in_twice() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let lock = home.lock_out();
    let seq = writer.next_seq();
    let event = hermes_core::OutboxEvent::PostCompaction(hermes_core::PostCompaction {
        session_id: id("a"),
        old_session_id: None,
        kind: "summarize".to_owned(),
        reason: "manual".to_owned(),
        before_tokens: None,
        after_tokens: None,
        messages_removed: Some(1),
    });
    let batch = vec![Record::Row(row(seq, Role::User, "one")), Record::Event(event)];
    let _c = writer.commit(batch).unwrap();
    let path = home.paths().spool_dir.join("a.spool");
    let copy = fs::read(&path).unwrap();
    drop(lock);
    writer.renew().unwrap();
    writer.release().unwrap();
    // As if the process had been killed between the commit and the removal of the file.
    fs::write(&path, &copy).unwrap();
    store.open_session(&id("a")).unwrap().release().unwrap();
    assert_eq!(texts(&store, &id("a")), ["one"]);
    assert_eq!(store.session(&id("a")).unwrap().unwrap().message_count, 1);
    assert_eq!(store.pending_events().unwrap(), 1);
    assert!(!path.exists());
}

#[test]
fn a_side_file_that_contradicts_the_database_is_set_aside_and_reported() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let lock = home.lock_out();
    let seq = writer.next_seq();
    let _c = writer.commit(vec![Record::Row(row(seq, Role::User, "from the side"))]).unwrap();
    drop(lock);
    drop(writer);
    store.close();
    let path = home.paths().spool_dir.join("a.spool");
    let copy = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let store = home.store();
    let mut writer = store.open_session(&id("a")).unwrap();
    say(&mut writer, Role::User, "another second row");
    writer.release().unwrap();
    fs::write(&path, &copy).unwrap();

    let writer = store.open_session(&id("a")).unwrap();
    writer.release().unwrap();
    assert_eq!(texts(&store, &id("a")), ["one", "another second row"]);
    assert!(!path.exists());
    let findings = store.check().unwrap();
    assert_eq!(findings.len(), 1);
    assert!(findings[0].what.contains("a.conflict-1"), "{findings:?}");
}

#[test]
fn the_requests_of_a_session_deleted_meanwhile_are_kept_and_its_rows_are_not() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let lock = home.lock_out();
    let batch = vec![
        Record::AttemptStarted(attempt("r1", &id("a"), GenerationNo(0), Seq(1))),
        Record::Row(row(Seq(2), Role::Assistant, "two")),
    ];
    let _c = writer.commit(batch).unwrap();
    drop(lock);
    let mut request =
        hermes_store::DeleteRequest::new(vec![id("a")], hermes_core::DeleteReason::Delete);
    let lease = writer.lease().clone();
    request.held = vec![&lease];
    store.delete_session(request).unwrap();
    let error = writer.commit(vec![Record::AttemptEnded(end("r1", 1, 2))]).unwrap_err();
    assert!(matches!(error, StoreError::Deleted { .. }), "{error}");
    drop(writer);
    assert!(matches!(store.history(&id("a")), Err(StoreError::Deleted { .. })));
    assert!(matches!(store.open_session(&id("a")), Err(StoreError::Deleted { .. })));
}

#[test]
fn what_dead_processes_left_is_taken_in_without_resuming_but_not_what_is_in_use() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "other"));
    let lock = home.lock_out();
    let mut gone = create(&store, "gone");
    let seq = gone.next_seq();
    let _c = gone.commit(vec![Record::Row(row(seq, Role::User, "one"))]).unwrap();
    drop(gone);
    let mut live = create(&store, "live");
    let seq = live.next_seq();
    let _c = live.commit(vec![Record::Row(row(seq, Role::User, "one"))]).unwrap();
    drop(lock);
    let other = home.store();
    let found: Vec<(String, RecoveredOutcome)> = other
        .recover_all()
        .unwrap()
        .into_iter()
        .map(|recovered| (recovered.session.to_string(), recovered.outcome))
        .collect();
    assert_eq!(
        found,
        [
            ("gone".to_owned(), RecoveredOutcome::TakenIn { batches: 2, answers: 0 }),
            ("live".to_owned(), RecoveredOutcome::InUse),
        ]
    );
    assert!(!other.session(&id("gone")).unwrap().unwrap().spooled);
    live.renew().unwrap();
    assert_eq!(other.recover_all().unwrap(), vec![]);
}

#[test]
fn operations_in_a_side_file_show_in_the_history_at_once() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let lock = home.lock_out();
    let hide = Op::Hide { from: Seq(1), to: Seq(1) };
    let _c = writer.commit(vec![generation(1, Cause::Rewind, vec![hide])]).unwrap();
    let history = store.history(&id("a")).unwrap();
    let view = hermes_core::fold_view(&history.rows, &history.generations, GenerationNo(1), Seq(9));
    assert_eq!(view.unwrap().rows.len(), 0);
    drop(lock);
}
