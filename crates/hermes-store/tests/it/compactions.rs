//! Attempts at compactions: kept in order, replaced never, gone with their session.

use hermes_core::{DeleteReason, GenerationNo};
use hermes_store::{CompactionAttempt, DeleteRequest, Record};

use crate::support::*;

fn attempt_no(no: u32, generation: Option<u32>) -> CompactionAttempt {
    CompactionAttempt {
        no,
        at: START.plus_millis(i64::from(no)),
        generation: generation.map(GenerationNo),
        log: format!("{{\"no\":{no}}}").into(),
    }
}

#[test]
fn attempts_stay_as_they_were_and_only_the_state_is_replaced() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let state = |text: &str| Record::CompactionState { state: text.into() };
    let _c = writer
        .commit(vec![Record::CompactionAttempt(attempt_no(1, None)), state("{\"a\":1}")])
        .unwrap();
    let mut other = attempt_no(1, Some(3));
    other.log = "{}".into();
    let _c = writer
        .commit(vec![
            Record::CompactionAttempt(other),
            Record::CompactionAttempt(attempt_no(2, Some(1))),
            state("{\"a\":2}"),
        ])
        .unwrap();
    let found = store.compactions(&id("a")).unwrap();
    assert_eq!(found.attempts, [attempt_no(1, None), attempt_no(2, Some(1))]);
    assert_eq!(found.state.as_deref(), Some("{\"a\":2}"));
    assert!(store.failing_compactions(START).unwrap().is_empty(), "the newest one took effect");

    let _c = writer.commit(vec![Record::CompactionAttempt(attempt_no(3, None))]).unwrap();
    let failing = store.failing_compactions(START).unwrap();
    assert_eq!(failing, [(id("a"), attempt_no(3, None))]);
    assert!(store.failing_compactions(START.plus_millis(60_000)).unwrap().is_empty());
}

#[test]
fn a_locked_store_keeps_attempts_in_the_side_file_and_shows_them() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let raw = home.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let _c = writer
        .commit(vec![
            Record::CompactionAttempt(attempt_no(1, None)),
            Record::CompactionState { state: "{}".into() },
        ])
        .unwrap();
    let waiting = store.compactions(&id("a")).unwrap();
    raw.execute_batch("ROLLBACK").unwrap();
    let _c = writer.commit(vec![Record::CompactionAttempt(attempt_no(2, None))]).unwrap();
    assert_eq!(waiting.attempts, [attempt_no(1, None)]);
    let stored = store.compactions(&id("a")).unwrap();
    assert_eq!(stored.attempts.len(), 2);
    assert_eq!(stored.state.as_deref(), Some("{}"));
}

#[test]
fn attempts_are_deleted_with_their_session() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let _c = writer
        .commit(vec![
            Record::CompactionAttempt(attempt_no(1, None)),
            Record::CompactionState { state: "{}".into() },
        ])
        .unwrap();
    writer.release().unwrap();
    store.delete_session(DeleteRequest::new(vec![id("a")], DeleteReason::Delete)).unwrap();
    let left: i64 = home
        .raw()
        .query_row(
            "SELECT (SELECT count(*) FROM compaction) + (SELECT count(*) FROM compaction_state)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
}
