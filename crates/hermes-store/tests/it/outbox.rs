//! Events that must be heard, and what was learned about endpoints.

use hermes_core::{OutboxEvent, PostCompaction, WireProfile};
use hermes_store::Record;

use crate::support::*;

fn compaction(name: &str) -> OutboxEvent {
    OutboxEvent::PostCompaction(PostCompaction {
        session_id: id(name),
        old_session_id: None,
        kind: "summarize".to_owned(),
        reason: "manual".to_owned(),
        before_tokens: Some(10),
        after_tokens: None,
        messages_removed: Some(3),
    })
}

/// As if the process that claimed every event had been killed.
fn kill_deliverer(home: &Home) {
    std::fs::write(home.paths().drafts_dir.join("holder-dead.lock"), "").unwrap();
    let changed = home
        .raw()
        .execute("UPDATE outbox SET lease_token = 'dead', lease_expires = 9000000000000000", [])
        .unwrap();
    assert_eq!(changed, 1);
}

#[test]
fn a_claim_lasts_as_long_as_its_process_and_not_longer() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let mut writer = create(&store, "a");
    let _c = writer.commit(vec![Record::Event(compaction("a"))]).unwrap();
    let claimed = store.claim_events(Some(&id("a")), 10).unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!((&claimed[0].event, claimed[0].redelivered), (&compaction("a"), false));
    // However long its callbacks take: it lives.
    home.env.advance_millis(20 * 60_000);
    for store in [&store, &other] {
        assert_eq!(store.claim_events(Some(&id("a")), 10).unwrap(), vec![]);
    }
    kill_deliverer(&home);
    store.recover_all().unwrap();
    let again = other.claim_events(Some(&id("a")), 10).unwrap();
    assert_eq!((again.len(), again[0].redelivered), (1, true));
    other.event_delivered(again[0].no).unwrap();
    other.event_delivered(again[0].no).unwrap();
    assert_eq!(store.pending_events().unwrap(), 0);
    store.recover_all().unwrap();
    assert!(!home.paths().drafts_dir.join("holder-dead.lock").exists());
}

#[test]
fn a_claim_whose_holder_cannot_be_seen_runs_out() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let _c = writer.commit(vec![Record::Event(compaction("a"))]).unwrap();
    home.raw()
        .execute(
            "UPDATE outbox SET attempts = 1, lease_token = 'elsewhere', lease_expires = ?1",
            [START.plus_millis(60_000).0],
        )
        .unwrap();
    assert_eq!(store.claim_events(None, 10).unwrap(), vec![]);
    home.env.advance_millis(61_000);
    assert!(store.claim_events(None, 10).unwrap()[0].redelivered);
}

#[test]
fn a_store_that_is_closed_with_a_claim_leaves_the_event_to_the_next() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let mut writer = create(&store, "a");
    let _c = writer.commit(vec![Record::Event(compaction("a"))]).unwrap();
    drop(writer);
    assert_eq!(store.claim_events(None, 10).unwrap().len(), 1);
    store.close();
    let again = other.claim_events(None, 10).unwrap();
    assert!(again[0].redelivered);
    // Given back: the same store may have it again.
    other.release_event(again[0].no).unwrap();
    assert_eq!(other.claim_events(None, 10).unwrap().len(), 1);
}

#[test]
fn who_holds_a_session_delivers_its_events_and_order_is_kept() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let (mut a, mut b) = (create(&store, "a"), create(&other, "b"));
    let two = || vec![Record::Event(compaction("a")), Record::Event(compaction("a"))];
    let _c = a.commit(two()).unwrap();
    let _c = b.commit(vec![Record::Event(compaction("b"))]).unwrap();
    let claimed = other.claim_events(None, 10).unwrap();
    assert_eq!(claimed.iter().map(|c| &c.event).collect::<Vec<_>>(), [&compaction("b")]);
    // The second event of a session is nobody's while the first is being delivered.
    assert_eq!(store.claim_events(None, 1).unwrap().len(), 1);
    assert_eq!(other.claim_events(Some(&id("a")), 10).unwrap(), vec![]);
}

#[test]
fn an_event_that_is_never_delivered_whole_or_not_understood_is_in_nobodys_way() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let _c = writer.commit(vec![Record::Event(compaction("a"))]).unwrap();
    for _ in 0..8 {
        let claimed = store.claim_events(None, 10).unwrap();
        store.release_event(claimed[0].no).unwrap();
    }
    let odd = "INSERT INTO outbox (event, session_id, payload, created_at)
        VALUES ('new', 'a', '{\"NewEvent\":{}}', ?1)";
    home.raw().execute(odd, [START.0]).unwrap();
    let _c = writer.commit(vec![Record::Event(compaction("a"))]).unwrap();
    let claimed = store.claim_events(None, 10).unwrap();
    assert_eq!((claimed.len(), claimed[0].redelivered), (1, false));
    assert_eq!(store.pending_events().unwrap(), 2);
}

#[test]
fn events_that_nobody_fetched_for_thirty_days_are_dropped() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let _c = writer.commit(vec![Record::Event(compaction("a"))]).unwrap();
    home.env.advance_millis(31 * 24 * 3600 * 1000);
    assert_eq!(store.claim_events(None, 10).unwrap(), vec![]);
    assert_eq!(store.pending_events().unwrap(), 0);
}

#[test]
fn what_was_learned_about_an_endpoint_is_remembered() {
    let home = Home::new();
    let store = home.store();
    assert_eq!(store.learned_profile("x").unwrap(), None);
    let learned = WireProfile { stream_usage: false, ..WireProfile::default() };
    store.remember_profile("x", &WireProfile::default()).unwrap();
    store.remember_profile("x", &learned).unwrap();
    assert_eq!(store.learned_profile("x").unwrap(), Some(learned));
    assert_eq!(store.learned_profile("y").unwrap(), None);
}
