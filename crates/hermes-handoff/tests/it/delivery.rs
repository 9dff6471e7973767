//! From a pending capsule to the first turn of the next session.

use hermes_core::{Origin, Part, Role, Row, Seq, SessionId};
use hermes_handoff::{Handoffs, Start, carried_over, without_capsule};
use hermes_store::{CapsuleState, Record, SessionInit, Store, StoreError};

use crate::support::*;

/// What a first turn does: asks, stores its row with the capsule, removes the note.
pub fn first_turn(store: &Store, handoffs: &Handoffs, init: SessionInit) -> Option<String> {
    let lane = init.lane.clone().unwrap();
    let offer = handoffs.offer(&lane, &init.id, Start::ByPerson).unwrap();
    let mut batch = opening();
    let mut first = row(Seq(1), Role::User, "Let us go on.");
    if let Some(offer) = &offer {
        first.parts.push(offer.part(Seq(1), Seq(2), START));
        first.sort_parts();
    }
    batch.push(Record::Row(first));
    batch.extend(offer.as_ref().map(|offer| offer.record(Seq(1))));
    let created = store.create_session(init.clone(), batch.clone());
    let offer = match created {
        Ok(writer) => {
            writer.release().unwrap();
            offer
        }
        Err(StoreError::CapsuleNotClaimed { .. }) => {
            store.create_session(init, without_capsule(batch)).unwrap().release().unwrap();
            None
        }
        Err(other) => panic!("{other}"),
    };
    let offer = offer?;
    handoffs.delivered(&offer.record.id).unwrap();
    Some(offer.text.to_string())
}

fn capsule_of(store: &Store, session: &SessionId) -> Vec<Part> {
    let rows = store.history(session).unwrap().rows;
    rows.into_iter()
        .flat_map(|row| row.parts)
        .filter(|part| part.origin == Origin::Capsule)
        .collect()
}

/// A world with a pending capsule about the session `old`.
fn pending() -> (World, Store, Handoffs) {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let session = talked(&store, "old", &TALK);
    built(&handoffs, &session, &saying(GOOD));
    (world, store, handoffs)
}

#[test]
fn the_published_order_old_asks_new_asks_new_asks_again() {
    let (_world, store, handoffs) = pending();
    let note = handoffs.pending_path(&handoffs.resolve("latest").unwrap());
    assert_eq!(handoffs.offer(&lane(), &id("old"), Start::ByPerson).unwrap(), None);
    assert!(note.exists());
    let text = first_turn(&store, &handoffs, init("next")).unwrap();
    assert!(text.contains("## Working on\nThe parser of the config file"));
    assert!(!note.exists());
    let held = capsule_of(&store, &id("next"));
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].as_text(), Some(text.as_str()));
    assert_eq!(handoffs.offer(&lane(), &id("next"), Start::ByPerson).unwrap(), None);
    assert_eq!(first_turn(&store, &handoffs, init("third")), None);
    assert_eq!(store.check().unwrap(), vec![]);
}

#[test]
fn only_a_person_in_the_same_lane_receives_it() {
    let (_world, store, handoffs) = pending();
    for start in [
        Start::Scheduled,
        Start::Delegated,
        Start::Auxiliary,
        Start::Quiet,
        Start::Resumed,
        Start::Branched,
    ] {
        assert_eq!(handoffs.offer(&lane(), &id("next"), start).unwrap(), None, "{start:?}");
    }
    let mut other = init("other");
    other.lane = Some(hermes_core::Lane::cli("/work/other"));
    assert_eq!(first_turn(&store, &handoffs, other), None);
    let mut branch = init("branch");
    branch.parent = Some((id("old"), hermes_store::ParentKind::Branch));
    assert_eq!(first_turn(&store, &handoffs, branch), None, "the store refuses a branch");
    assert!(first_turn(&store, &handoffs, init("next")).is_some());
}

#[test]
fn an_edit_is_delivered_and_its_digest_noted() {
    let (_world, store, handoffs) = pending();
    let record = handoffs.resolve("latest").unwrap();
    assert_eq!(handoffs.verify(&record).unwrap(), hermes_handoff::Verified::AsWritten);
    let path = handoffs.capsule_path(&record);
    let edited = std::fs::read_to_string(&path).unwrap().replace("The parser", "Only the lexer");
    std::fs::write(&path, &edited).unwrap();
    assert_eq!(handoffs.verify(&record).unwrap(), hermes_handoff::Verified::Edited);
    assert_eq!(first_turn(&store, &handoffs, init("next")), Some(edited.clone()));
    let record = handoffs.resolve(&record.id).unwrap();
    assert_eq!(record.taken_digest, Some(hermes_core::Digest::of(&edited)));
    assert_ne!(record.taken_digest, Some(record.digest));
}

#[test]
fn removing_the_note_discards_and_a_crash_before_it_was_written_does_not() {
    let (_world, store, handoffs) = pending();
    let record = handoffs.resolve("latest").unwrap();
    std::fs::remove_file(handoffs.pending_path(&record)).unwrap();
    assert_eq!(first_turn(&store, &handoffs, init("next")), None);
    let state = |id: &str| handoffs.resolve(id).unwrap().state;
    assert_eq!(state(&record.id), CapsuleState::Discarded);

    // Killed between the transaction and the files: the store alone knows of it.
    let (_world, store, handoffs) = pending();
    let old = handoffs.resolve("latest").unwrap();
    let again = hermes_store::NewCapsule {
        id: "c-crash".to_owned(),
        lane: old.lane.clone(),
        session: old.session.clone(),
        rows: old.rows,
        text: "capsule-status: ok\n\nafter the crash".to_owned(),
        facts: "{}".to_owned(),
        status: "ok".to_owned(),
        reason: None,
        confidential: false,
        created_at: START,
        expires_at: START.plus_millis(36 * HOUR),
    };
    store.create_capsule(again).unwrap();
    let text = first_turn(&store, &handoffs, init("next")).unwrap();
    assert!(text.ends_with("after the crash"), "{text}");
}

#[test]
fn after_36_hours_it_is_deleted_unread() {
    let (world, store, handoffs) = pending();
    let record = handoffs.resolve("latest").unwrap();
    world.env.advance_millis(36 * HOUR - 60_000);
    assert!(handoffs.offer(&lane(), &id("next"), Start::ByPerson).unwrap().is_some());
    world.env.advance_millis(120_000);
    assert_eq!(first_turn(&store, &handoffs, init("next")), None);
    assert_eq!(handoffs.resolve(&record.id).unwrap().state, CapsuleState::Expired);
    assert!(!handoffs.capsule_path(&record).exists() && !handoffs.pending_path(&record).exists());
    assert_eq!(handoffs.show(&record).unwrap(), None);
}

#[test]
fn a_note_that_survived_its_delivery_is_removed_by_the_next_look() {
    let (_world, store, handoffs) = pending();
    let record = handoffs.resolve("latest").unwrap();
    let note = handoffs.pending_path(&record);
    let kept = std::fs::read(&note).unwrap();
    first_turn(&store, &handoffs, init("next")).unwrap();
    // Killed between the commit and the removal.
    std::fs::write(&note, kept).unwrap();
    let fixes = handoffs.reconcile().unwrap();
    assert_eq!(fixes.len(), 1, "{fixes:?}");
    assert!(!note.exists());
    assert!(handoffs.capsule_path(&record).exists(), "the lane's last capsule stays to be read");
    assert!(handoffs.reconcile().unwrap().is_empty());
}

#[test]
fn discarding_and_deleting_take_the_files_along() {
    let (_world, _store, handoffs) = pending();
    let record = handoffs.resolve("latest").unwrap();
    assert!(handoffs.discard(&record, "not wanted").unwrap());
    assert!(!handoffs.discard(&record, "not wanted").unwrap());
    assert!(!handoffs.capsule_path(&record).exists() && !handoffs.pending_path(&record).exists());

    let (_world, store, handoffs) = pending();
    let record = handoffs.resolve("latest").unwrap();
    let request =
        hermes_store::DeleteRequest::new(vec![id("old")], hermes_core::DeleteReason::Delete);
    store.delete_session(request).unwrap();
    handoffs.reconcile().unwrap();
    assert!(!handoffs.capsule_path(&record).exists() && !handoffs.pending_path(&record).exists());

    // One that was delivered stays in the row that received it, and nowhere else.
    let (_world, store, handoffs) = pending();
    let record = handoffs.resolve("latest").unwrap();
    first_turn(&store, &handoffs, init("next")).unwrap();
    assert!(handoffs.capsule_path(&record).exists());
    let request =
        hermes_store::DeleteRequest::new(vec![id("old")], hermes_core::DeleteReason::Delete);
    let receipt = store.delete_session(request).unwrap();
    assert_eq!(receipt.remaining[0].id, record.id);
    assert_eq!(handoffs.reconcile().unwrap().len(), 1);
    assert!(!handoffs.capsule_path(&record).exists());
}

#[test]
fn a_capsule_without_a_lane_is_handed_on_by_its_id() {
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let mut api = init("old");
    api.lane = None;
    let session = talked_as(&store, api, &TALK);
    let result = built(&handoffs, &session, &saying(GOOD));
    let capsule = result.capsule.unwrap();
    let offer = handoffs.offer_by_id(&capsule, &id("next")).unwrap().unwrap();
    let mut first = row(Seq(1), Role::User, "go on");
    first.parts.push(offer.part(Seq(1), Seq(2), START));
    let mut batch = opening();
    batch.extend([Record::Row(first), offer.record(Seq(1))]);
    store.create_session(init("next"), batch).unwrap().release().unwrap();
    handoffs.delivered(&capsule).unwrap();
    assert!(handoffs.offer_by_id(&capsule, &id("third")).is_err());

    // What the session was given is in what it hands on, though its lane never had a capsule.
    let mut held = store.open_session(&id("next")).unwrap();
    let rows = TALK.iter().skip(1).zip(2..).map(|(text, at)| {
        let role = if at % 2 == 1 { Role::User } else { Role::Assistant };
        Record::Row(row(Seq(at + 1), role, text))
    });
    let _c = held.commit(rows.collect()).unwrap();
    held.release().unwrap();
    let writer = saying(GOOD);
    assert_eq!(built(&handoffs, &id("next"), &writer).status, hermes_handoff::Status::Ok);
    let asked = writer.asked.lock().unwrap()[0].user.clone();
    assert!(asked.contains("<earlier_capsule>\n## Working on\nThe parser"), "{asked}");
    assert!(!asked.contains("Recovery"), "{asked}");
}

#[test]
fn a_capsule_whose_row_was_taken_back_is_in_the_next_row_again() {
    let (_world, store, handoffs) = pending();
    let text = first_turn(&store, &handoffs, init("next")).unwrap();
    let rows: Vec<Row> = store.history(&id("next")).unwrap().rows;
    let shown = |rows: &[Row]| hermes_core::View {
        rows: rows
            .iter()
            .map(|row| hermes_core::ViewRow { position: row.seq, row: row.clone() })
            .collect(),
    };
    assert_eq!(carried_over(&rows, &shown(&rows)), None);
    let again = carried_over(&rows, &shown(&[])).unwrap();
    assert_eq!(again.part(Seq(9), Seq(10), START).as_text(), Some(text.as_str()));
    assert_eq!(carried_over(&[], &shown(&[])), None);
}

#[test]
fn a_near_miss_of_a_waiting_capsules_lane_is_told() {
    let (world, store, handoffs) = pending();
    let mut beside = init("beside");
    beside.lane = Some(hermes_core::Lane::cli("/work/project/sub"));
    beside.started_at = START.plus_millis(HOUR);
    talked_as(&store, beside, &TALK[..1]);
    let health = handoffs.health().unwrap();
    assert_eq!((health.waiting.len(), health.fallbacks.len()), (1, 0));
    assert_eq!(health.near_misses.len(), 1);
    assert_eq!(health.near_misses[0].session, id("beside"));
    world.env.advance_millis(37 * HOUR);
    handoffs.expire().unwrap();
    assert_eq!(handoffs.health().unwrap().unfetched.len(), 1);
}

#[test]
fn the_writer_can_be_tried_beforehand() {
    use hermes_handoff::check_writer;
    use hermes_handoff::writer::{WriterError, WriterFault};
    assert_eq!(run(check_writer(&saying(GOOD))), Ok("test-model".to_owned()));
    let error = WriterError::bare(WriterFault::Unauthorized);
    assert_eq!(run(check_writer(&failing(error.clone()))), Err(error));
    let poor = run(check_writer(&saying("2 and 3")));
    assert_eq!(poor, Err(WriterError::bare(WriterFault::NoCapsule)));
}
