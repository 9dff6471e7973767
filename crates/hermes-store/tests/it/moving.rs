//! Sessions that go to another profile's store: whole, once, and never lost on the way.

use std::path::Path;
use std::sync::Arc;

use hermes_core::{
    Cause, DeleteReason, Digest, GenerationNo, Lane, Op, OutboxEvent, PartBody, Role, Seq,
    Standing, Timestamp,
};
use hermes_store::{
    CapsuleState, CompactionAttempt, DeleteReceipt, DeleteRequest, MoveRequest, NewCapsule,
    ParentKind, Record, RequestFilter, SearchRequest, Store, StoreError, TitleSource,
};

use crate::support::*;

/// Two homes side by side.
struct Two {
    here: Home,
    there: Home,
}

impl Two {
    fn new() -> Self {
        let here = Home::new();
        let folder = here.dir.path().join("there");
        std::fs::create_dir(&folder).unwrap();
        Self { there: Home::at(&folder, 11), here }
    }

    fn stores(&self) -> (Store, Store) {
        (self.here.store(), self.there.store())
    }
}

fn request(names: &[&str], folder: &Path) -> MoveRequest {
    MoveRequest {
        ids: names.iter().map(|name| id(name)).collect(),
        profile: "default".to_owned(),
        to: "work".to_owned(),
        request_id: None,
        chosen_by: None,
        outputs_dir: None,
        sessions_dir: None,
        sessions_dir_there: folder.join("sessions"),
        dry_run: false,
    }
}

fn moved(from: &Store, to: &Store, names: &[&str]) -> Result<DeleteReceipt, StoreError> {
    let receipt = from.move_sessions(to, &request(names, Path::new("nowhere")))?;
    // What goes on in the background would keep the short waits of these tests from reading.
    from.scrub()?;
    Ok(receipt)
}

fn says(store: &Store, name: &str, parent: Option<(&str, ParentKind)>) {
    let mut init = init(name);
    init.parent = parent.map(|(parent, kind)| (id(parent), kind));
    let mut writer = store.create_session(init, opening()).unwrap();
    say(&mut writer, Role::User, &format!("said in {name}"));
    writer.release().unwrap();
}

fn refused(outcome: Result<DeleteReceipt, StoreError>) -> String {
    match outcome {
        Err(error @ StoreError::Refused { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A session with everything that one can have.
fn full(store: &Store) {
    let mut init = init("a");
    init.title = Some("the plan".to_owned());
    let mut writer = store.create_session(init, opening()).unwrap();
    say(&mut writer, Role::User, "one zebrafish");
    let image: Arc<[u8]> = Arc::from(b"an image".as_slice());
    let mut with_image = row(Seq(2), Role::User, "look");
    with_image.parts[0].body = PartBody::Blob {
        digest: Digest::of(&image),
        media_type: "image/png".into(),
        bytes: image.len() as u64,
    };
    let mut sent = attempt("r1", &id("a"), GenerationNo(0), Seq(2));
    sent.kept_body = Some(b"a kept body".to_vec());
    let mut failed = end("r1", 7, 8);
    failed.error = Some("quotes what was said".into());
    let mut summary = row(Seq(3), Role::User, "a summary");
    summary.standing = Standing::ByOp;
    let cover = Op::Cover { from: Seq(1), to: Seq(1), by: Seq(3) };
    let _c = writer
        .commit(vec![
            Record::Blob { media_type: "image/png".into(), bytes: image },
            Record::Row(with_image),
            Record::Text { text: "an older prompt".into() },
            Record::Profile(hermes_core::WireProfile::default()),
            Record::AttemptStarted(sent),
            Record::AttemptEnded(failed),
            Record::Row(summary),
            generation(1, Cause::Compaction, vec![cover]),
            Record::Manifest { generation: GenerationNo(1), blocks: vec![] },
            Record::CompactionAttempt(CompactionAttempt {
                no: 1,
                at: START,
                generation: Some(GenerationNo(1)),
                log: "{}".into(),
            }),
            Record::CompactionState { state: "{\"cool\":1}".into() },
            Record::Part(part(Seq(5), Seq(2), hermes_core::Origin::Hint, "a late hint")),
        ])
        .unwrap();
    writer.release().unwrap();
    store.set_pinned(&[id("a")], true).unwrap();
    store.create_capsule(capsule("c1", "a")).unwrap();
}

fn capsule(name: &str, session: &str) -> NewCapsule {
    NewCapsule {
        id: name.to_owned(),
        lane: Some(Lane::cli("/work/project")),
        session: id(session),
        rows: (Seq(1), Seq(2)),
        text: "what matters".to_owned(),
        facts: "{}".to_owned(),
        status: "ok".to_owned(),
        reason: None,
        confidential: false,
        created_at: START,
        expires_at: START.plus_millis(86_400_000),
    }
}

/// Everything that can be asked of a session.
fn known(store: &Store) -> String {
    let filter = RequestFilter { session: Some(id("a")), ..RequestFilter::default() };
    let mut export = Vec::new();
    store.export_jsonl(&id("a"), &mut export).unwrap();
    let history = store.history(&id("a")).unwrap();
    format!(
        "{:?}\n{history:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        store.session(&id("a")).unwrap(),
        store.requests(&filter).unwrap(),
        store.kept_body(&hermes_core::RequestId::new("r1")).unwrap(),
        store.compactions(&id("a")).unwrap(),
        store.snapshot(&id("a"), GenerationNo(1)).unwrap(),
        store.text(&Digest::of("an older prompt")).unwrap(),
        store.blob(&Digest::of("an image")).unwrap(),
    )
}

#[test]
fn a_moved_session_is_there_as_it_was_here_and_its_requests_with_it() {
    let two = Two::new();
    let (here, there) = two.stores();
    full(&here);
    says(&there, "theirs", None);
    let before = known(&here);
    let receipt = moved(&here, &there, &["a"]).unwrap();
    assert_eq!(known(&there), before);
    assert_eq!((receipt.removed[0].rows, receipt.removed[0].requests), (3, 1));
    assert_eq!(receipt.moved.unwrap().profile, "work");
    assert_eq!(there.search(&SearchRequest::new("zebrafish")).unwrap().count, 1);
    let waiting = there.capsules(Some(CapsuleState::Pending)).unwrap();
    assert_eq!((waiting.len(), waiting[0].published), (1, false));
    assert_eq!(there.capsule_text("c1").unwrap().as_deref(), Some("what matters"));
    assert_eq!(here.capsules(Some(CapsuleState::Pending)).unwrap(), []);
    assert!(matches!(here.history(&id("a")), Err(StoreError::Deleted { .. })));
    assert!(here.request("r1").unwrap().session_deleted);
    let events = here.claim_events(None, 9).unwrap();
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let OutboxEvent::OnSessionDelete(event) = &event.event else { panic!("{event:?}") };
    assert_eq!((event.reason, &*event.profile), (DeleteReason::ProfileRepair, "default"));
    assert_eq!(there.pending_events().unwrap(), 0);
    here.scrub().unwrap();
    assert_sound(&here);
    assert_sound(&there);

    // It goes on there, and comes back with what was said.
    let mut writer = there.open_session(&id("a")).unwrap();
    say(&mut writer, Role::User, "said there");
    writer.release().unwrap();
    let before = known(&there);
    moved(&there, &here, &["a"]).unwrap();
    assert_eq!(known(&here), before);
    assert_eq!(here.capsule_text("c1").unwrap().as_deref(), Some("what matters"));
    assert_sound(&here);
    assert_sound(&there);
}

#[test]
fn chain_and_delegated_work_go_together_and_branches_stay() {
    let two = Two::new();
    let (here, there) = two.stores();
    says(&here, "origin", None);
    says(&here, "root", Some(("origin", ParentKind::Reset)));
    says(&here, "tip", Some(("root", ParentKind::Compaction)));
    says(&here, "helper", Some(("tip", ParentKind::Delegate)));
    says(&here, "branch", Some(("tip", ParentKind::Branch)));
    let text = refused(moved(&here, &there, &["helper"]));
    assert!(text.contains("handed on") && text.contains("move that session"), "{text}");
    let receipt = moved(&here, &there, &["tip"]).unwrap();
    assert_eq!(receipt.remaining[0].id, "branch");
    let parent = |name: &str| there.session(&id(name)).unwrap().unwrap().parent;
    assert_eq!(parent("tip"), Some((id("root"), ParentKind::Compaction)));
    assert_eq!(parent("helper"), Some((id("tip"), ParentKind::Delegate)));
    assert_eq!(parent("root"), None);
    let copies = receipt.moved.unwrap().sessions;
    let untied: Vec<_> = copies.iter().filter_map(|copy| copy.untied_from.clone()).collect();
    assert_eq!(untied, [id("origin")], "it is told what is no longer known");
    for name in ["origin", "branch"] {
        assert!(here.session(&id(name)).unwrap().is_some(), "{name}");
    }
    // What it came from comes too, when that is moved along.
    says(&here, "next", Some(("origin", ParentKind::Reset)));
    moved(&here, &there, &["next", "origin"]).unwrap();
    assert_eq!(parent("next"), Some((id("origin"), ParentKind::Reset)));
    assert_sound(&here);
    assert_sound(&there);
}

#[test]
fn a_move_that_was_broken_off_is_finished_by_the_same_call() {
    let two = Two::new();
    let (here, there) = two.stores();
    full(&here);
    let before = known(&here);
    let backup = here.backup(Some(&two.here.dir.path().join("before.db"))).unwrap();
    moved(&here, &there, &["a"]).unwrap();
    drop(here.claim_events(None, 9).unwrap());
    // As if the process had been killed between the copy and the deletion.
    here.close();
    std::fs::copy(backup, two.here.paths().db).unwrap();
    let here = two.here.store();
    // Somebody went on with it here meanwhile, and somebody there.
    let mut writer = there.open_session(&id("a")).unwrap();
    let held = moved(&here, &there, &["a"]);
    assert!(matches!(held, Err(StoreError::Held { .. })), "{held:?}");
    writer.renew().unwrap();
    writer.release().unwrap();
    assert_eq!(known(&here), before);
    let mut writer = here.open_session(&id("a")).unwrap();
    say(&mut writer, Role::Assistant, "said here meanwhile");
    writer.release().unwrap();
    let before = known(&here);
    let receipt = moved(&here, &there, &["a"]).unwrap();
    assert!(receipt.moved.unwrap().sessions[0].was_there);
    assert_eq!(known(&there), before);
    assert_eq!(here.session(&id("a")).unwrap(), None);
    // Once more is the same request.
    let again = moved(&here, &there, &["a"]).unwrap();
    assert!(again.replayed && again.deleted_at == receipt.deleted_at);
    assert_eq!(here.claim_events(None, 9).unwrap().len(), 1);
    assert_sound(&there);
}

#[test]
fn what_contradicts_the_copy_is_refused_and_both_stay() {
    let two = Two::new();
    let (here, there) = two.stores();
    says(&here, "a", None);
    let mut writer = create(&there, "a");
    say(&mut writer, Role::User, "another thing");
    writer.release().unwrap();
    let text = refused(moved(&here, &there, &["a"]));
    assert!(text.contains("another session a is in profile work already"), "{text}");
    assert_eq!(texts(&here, &id("a")), ["said in a"]);
    assert_eq!(texts(&there, &id("a")), ["another thing"]);
    let same = two.here.store();
    let text = refused(moved(&here, &same, &["a"]));
    assert!(text.contains("the same store"), "{text}");
    assert_eq!(here.pending_events().unwrap(), 0);
    // A name of the same file that is no path to it.
    let linked = Home::at(&two.here.dir.path().join("linked"), 3);
    std::fs::create_dir(linked.dir.path()).unwrap();
    drop(two.there.store());
    std::fs::hard_link(two.here.paths().db, linked.paths().db).unwrap();
    let linked = linked.try_store();
    if let Ok(linked) = linked {
        assert!(moved(&here, &linked, &["a"]).is_err());
    }
    assert_eq!(texts(&here, &id("a")), ["said in a"]);
}

#[test]
fn files_of_a_session_go_along_and_one_with_other_content_stops_the_move() {
    let two = Two::new();
    let (here, there) = two.stores();
    says(&here, "a", None);
    let (from, to) = (two.here.dir.path().join("sessions"), two.there.dir.path().join("sessions"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&to).unwrap();
    std::fs::write(from.join("a.json"), "{\"old\":1}").unwrap();
    std::fs::write(to.join("a.json"), "{}").unwrap();
    let mut request = request(&["a"], two.there.dir.path());
    request.sessions_dir = Some(from.clone());
    let text = refused(here.move_sessions(&there, &request));
    assert!(text.contains("other content"), "{text}");
    assert!(here.session(&id("a")).unwrap().is_some());
    std::fs::remove_file(to.join("a.json")).unwrap();
    let receipt = here.move_sessions(&there, &request).unwrap();
    assert_eq!(receipt.files.len(), 1);
    assert!(!from.join("a.json").exists());
    assert_eq!(std::fs::read_to_string(to.join("a.json")).unwrap(), "{\"old\":1}");
}

#[test]
fn a_title_that_is_taken_there_gets_a_number_and_a_capsule_that_cannot_go_is_told() {
    let two = Two::new();
    let (here, there) = two.stores();
    full(&here);
    says(&there, "theirs", None);
    there.set_title(&id("theirs"), Some("the plan"), TitleSource::User).unwrap();
    there.create_capsule(capsule("c0", "theirs")).unwrap();
    let receipt = moved(&here, &there, &["a"]).unwrap();
    let copy = &receipt.moved.unwrap().sessions[0];
    assert_eq!(copy.title.as_deref(), Some("the plan #2"));
    assert_eq!(copy.capsule_left.as_deref(), Some("c1"));
    assert_eq!(there.capsules(None).unwrap().len(), 1);
    assert_sound(&there);
}

#[test]
fn what_waits_in_a_side_file_is_taken_along() {
    let two = Two::new();
    let (here, there) = two.stores();
    let mut writer = create(&here, "a");
    let lock = two.here.lock_out();
    let seq = writer.next_seq();
    let _c = writer.commit(vec![Record::Row(row(seq, Role::User, "spooled"))]).unwrap();
    // The store cannot be written: nothing is moved, and nothing is lost.
    drop(writer);
    assert!(moved(&here, &there, &["a"]).is_err());
    drop(lock);
    moved(&here, &there, &["a"]).unwrap();
    assert_eq!(texts(&there, &id("a")), ["spooled"]);
    // One that was deleted there before may come, if a person says so.
    there.delete_session(DeleteRequest::new(vec![id("a")], DeleteReason::Delete)).unwrap();
    says(&here, "a", None);
    moved(&here, &there, &["a"]).unwrap();
    assert_eq!(texts(&there, &id("a")), ["said in a"]);
    assert_eq!(there.session(&id("a")).unwrap().unwrap().started_at, Timestamp(START.0));
}

#[test]
fn a_store_that_is_full_or_locked_there_costs_nothing_here() {
    let mut two = Two::new();
    let here = two.here.store();
    full(&here);
    let mut writer = here.open_session(&id("a")).unwrap();
    say(&mut writer, Role::Assistant, &"more than there is room for ".repeat(20_000));
    writer.release().unwrap();
    let before = known(&here);
    two.there.store().create_session(init("theirs"), vec![]).unwrap().release().unwrap();
    let lock = two.there.lock_out();
    assert!(moved(&here, &two.there.store(), &["a"]).is_err());
    drop(lock);
    two.there.options.max_page_count = Some(1);
    let error = moved(&here, &two.there.store(), &["a"]).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_eq!((known(&here), here.pending_events().unwrap()), (before.clone(), 0));
    assert_eq!(two.there.store().session(&id("a")).unwrap(), None);
    two.there.options.max_page_count = None;
    let there = two.there.store();
    moved(&here, &there, &["a"]).unwrap();
    assert_eq!(known(&there), before);
    assert_sound(&there);
}
