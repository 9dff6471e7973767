//! Capsules: one pending in a lane, given once, never by the side file.

use hermes_core::{DeleteReason, Digest, Lane, Origin, Role, Row, Seq, slot};
use hermes_store::{
    CapsuleState, DeleteRequest, NewCapsule, ParentKind, Record, SessionInit, Store, StoreError,
};

use crate::support::*;

const DAY: i64 = 24 * 3600 * 1000;

fn lane() -> Lane {
    Lane::cli("/work/project")
}

fn capsule(name: &str, session: &str) -> NewCapsule {
    NewCapsule {
        id: name.to_owned(),
        lane: Some(lane()),
        session: id(session),
        rows: (Seq(1), Seq(4)),
        text: format!("text of {name}"),
        facts: "{}".to_owned(),
        status: "ok".to_owned(),
        reason: None,
        confidential: false,
        created_at: START,
        expires_at: START.plus_millis(DAY * 3 / 2),
    }
}

/// A first user row that holds the capsule, and its claim.
fn receiving(seq: Seq, name: &str) -> Vec<Record> {
    let mut first: Row = row(seq, Role::User, "go on");
    let mut held = part(seq.next(), seq, Origin::Capsule, &format!("text of {name}"));
    held.slot = slot::CAPSULE;
    held.label = Some(name.into());
    first.parts.insert(0, held);
    let digest = Digest::of(format!("text of {name}"));
    let mut records = opening();
    records.push(Record::Row(first));
    records.push(Record::CapsuleClaimed { capsule: name.into(), row: seq, digest });
    records
}

fn state(store: &Store, name: &str) -> CapsuleState {
    store.capsule(name).unwrap().unwrap().state
}

#[test]
fn a_capsule_goes_to_the_first_row_of_one_session_and_to_no_other() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "old"));
    store.create_capsule(capsule("c1", "old")).unwrap();
    let pending = store.pending_capsule(&lane()).unwrap().unwrap();
    assert_eq!((pending.id.as_str(), pending.published), ("c1", false));
    assert!(store.capsule_published("c1").unwrap());
    assert_eq!(store.capsule_text("c1").unwrap().as_deref(), Some("text of c1"));

    let mut next = store.create_session(init("next"), receiving(Seq(1), "c1")).unwrap();
    let taken = store.capsule("c1").unwrap().unwrap();
    assert_eq!(taken.state, CapsuleState::Delivered);
    assert_eq!(taken.taken_by, Some((id("next"), Seq(1))));
    assert_eq!(taken.taken_digest, Some(Digest::of("text of c1")));
    assert_eq!(store.capsule_text("c1").unwrap(), None, "the row has the text now");
    let held = store.delivered_capsule_text(&taken).unwrap();
    assert_eq!(held.as_deref(), Some("text of c1"));

    // The same record once more changes nothing.
    let again = Record::CapsuleClaimed {
        capsule: "c1".into(),
        row: Seq(1),
        digest: Digest::of("text of c1"),
    };
    assert_eq!(next.commit(vec![again]).unwrap(), hermes_store::Committed::Database);

    let refused = store.create_session(init("late"), receiving(Seq(1), "c1")).err().unwrap();
    assert!(matches!(refused, StoreError::CapsuleNotClaimed { .. }), "{refused}");
    assert!(refused.to_string().contains("it is delivered"), "{refused}");
    assert!(store.session(&id("late")).unwrap().is_none(), "nothing of the batch is stored");
    assert_sound(&store);
}

#[test]
fn who_must_not_receive_a_capsule_is_refused() {
    let home = Home::new();
    let store = home.store();
    let mut old = create(&store, "old");
    store.create_capsule(capsule("c1", "old")).unwrap();
    let why = |error: Option<StoreError>| error.unwrap().to_string();

    let own = old.commit(receiving(Seq(1), "c1").split_off(3));
    assert!(why(own.err()).contains("about this session"));

    let with_parent = |name: &str, kind: ParentKind| SessionInit {
        parent: Some((id("old"), kind)),
        ..init(name)
    };
    for kind in [ParentKind::Branch, ParentKind::Delegate, ParentKind::Compaction] {
        let refused = store.create_session(with_parent("child", kind), receiving(Seq(1), "c1"));
        assert!(why(refused.err()).contains("goes on from another"), "{kind:?}");
    }

    let mut begun = create(&store, "begun");
    say(&mut begun, Role::User, "first");
    let refused = begun.commit(receiving(Seq(2), "c1").split_off(3));
    assert!(why(refused.err()).contains("begun already"));

    home.env.advance_millis(DAY * 2);
    let refused = store.create_session(init("late"), receiving(Seq(1), "c1"));
    assert!(why(refused.err()).contains("time is over"));
    let expired = store.expire_capsules().unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(state(&store, "c1"), CapsuleState::Expired);
    assert_eq!(store.capsule_text("c1").unwrap(), None, "deleted unread");
}

#[test]
fn the_side_file_gives_no_capsule_away() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "old"));
    store.create_capsule(capsule("c1", "old")).unwrap();
    let lock = home.lock_out();
    let refused = store.create_session(init("next"), receiving(Seq(1), "c1")).err().unwrap();
    assert!(matches!(refused, StoreError::CapsuleNotClaimed { .. }), "{refused}");
    // Without it the turn goes on.
    let writer = store.create_session(init("next"), opening()).unwrap();
    drop(lock);
    drop(writer);
    assert_eq!(state(&store, "c1"), CapsuleState::Pending);
}

#[test]
fn a_newer_capsule_supersedes_and_a_discarded_one_stays_discarded() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "old"));
    assert!(store.create_capsule(capsule("c1", "old")).unwrap().is_empty());
    assert_eq!(store.create_capsule(capsule("c2", "old")).unwrap(), ["c1"]);
    assert_eq!(state(&store, "c1"), CapsuleState::Superseded);
    assert!(!store.capsule_published("c1").unwrap());
    assert!(store.settle_capsule("c2", CapsuleState::Discarded, "by hand").unwrap());
    assert!(!store.settle_capsule("c2", CapsuleState::Expired, "too late").unwrap());
    assert_eq!(state(&store, "c2"), CapsuleState::Discarded);
    assert!(store.settle_capsule("c2", CapsuleState::Delivered, "no").is_err());
    // By id alone: no lane, so none is superseded.
    for name in ["c3", "c4"] {
        let free = NewCapsule { lane: None, ..capsule(name, "old") };
        assert!(store.create_capsule(free).unwrap().is_empty());
    }
    let pending: Vec<String> = store
        .capsules(Some(CapsuleState::Pending))
        .unwrap()
        .into_iter()
        .map(|capsule| capsule.id)
        .collect();
    assert_eq!(pending, ["c4", "c3"]);
    assert_eq!(store.capsules(None).unwrap().len(), 4);
}

#[test]
fn a_capsule_that_is_taken_back_leaves_its_place_to_the_one_before_it() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "old"));
    drop(create(&store, "gone"));
    store.create_capsule(capsule("c1", "old")).unwrap();
    store.create_capsule(capsule("c2", "old")).unwrap();
    assert!(store.withdraw_capsule("c2", "no room", Some(("c1", "text of c1"))).unwrap());
    assert_eq!(state(&store, "c2"), CapsuleState::Discarded);
    let waits = store.capsule("c1").unwrap().unwrap();
    assert_eq!(
        (waits.state, waits.settled_at, waits.settled_why),
        (CapsuleState::Pending, None, None)
    );
    assert_eq!(store.capsule_text("c1").unwrap().as_deref(), Some("text of c1"));

    // Not if it is not the newest any more, was given meanwhile, or its session is gone.
    store.create_capsule(capsule("c3", "old")).unwrap();
    store.create_capsule(capsule("c4", "old")).unwrap();
    assert!(!store.withdraw_capsule("c3", "no room", Some(("c1", "text of c1"))).unwrap());
    assert_eq!(state(&store, "c1"), CapsuleState::Superseded);
    drop(store.create_session(init("next"), receiving(Seq(1), "c4")).unwrap());
    store.create_capsule(capsule("c5", "gone")).unwrap();
    assert!(!store.withdraw_capsule("c5", "no room", Some(("c4", "text of c4"))).unwrap());
    assert_eq!(state(&store, "c4"), CapsuleState::Delivered);
    store.create_capsule(capsule("c6", "gone")).unwrap();
    store.create_capsule(capsule("c7", "old")).unwrap();
    store.delete_session(DeleteRequest::new(vec![id("gone")], DeleteReason::Delete)).unwrap();
    assert!(!store.withdraw_capsule("c7", "no room", Some(("c6", "text of c6"))).unwrap());
    assert_eq!(store.pending_capsule(&lane()).unwrap(), None);
    assert_sound(&store);
}

#[test]
fn deleting_a_session_discards_its_pending_capsule_and_names_a_delivered_one() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "old"));
    store.create_capsule(capsule("c1", "old")).unwrap();
    drop(store.create_session(init("next"), receiving(Seq(1), "c1")).unwrap());
    store.create_capsule(capsule("c2", "old")).unwrap();
    let receipt =
        store.delete_session(DeleteRequest::new(vec![id("old")], DeleteReason::Delete)).unwrap();
    let remaining: Vec<(&str, &str)> =
        receipt.remaining.iter().map(|r| (r.kind.as_str(), r.id.as_str())).collect();
    assert_eq!(remaining, [("capsule", "c1")]);
    assert_eq!(state(&store, "c2"), CapsuleState::Discarded);
    let refused = store.create_capsule(capsule("c5", "old")).unwrap_err();
    assert!(matches!(refused, StoreError::Deleted { .. }), "{refused}");
}
