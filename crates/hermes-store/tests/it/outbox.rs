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

#[test]
fn an_event_is_delivered_once_and_again_only_if_its_deliverer_died() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let mut writer = create(&store, "a");
    let mut beside = create(&store, "b");
    let _c = writer.commit(vec![Record::Event(compaction("a"))]).unwrap();
    let _c = beside.commit(vec![Record::Event(compaction("b"))]).unwrap();
    assert_eq!(store.pending_events().unwrap(), 2);

    let claimed = store.claim_events(Some(&id("a")), 10).unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!((&claimed[0].event, claimed[0].redelivered), (&compaction("a"), false));
    assert_eq!(other.claim_events(Some(&id("a")), 10).unwrap(), vec![]);
    assert_eq!(other.claim_events(None, 10).unwrap().len(), 1);
    home.env.advance_millis(200_000);
    let again = other.claim_events(Some(&id("a")), 10).unwrap();
    assert_eq!((again.len(), again[0].redelivered), (1, true));
    other.event_delivered(again[0].no).unwrap();
    other.event_delivered(again[0].no).unwrap();
    assert_eq!(store.pending_events().unwrap(), 1);
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
