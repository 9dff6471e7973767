//! The one delete function.

use std::sync::Arc;

use hermes_core::{
    DeleteReason, Digest, GenerationNo, Op, OutboxEvent, PartBody, Role, Seq, SessionDelete,
    SessionId,
};
use hermes_store::{
    DeleteReceipt, DeleteRequest, ParentKind, Record, Remaining, RequestFilter, Selection,
    SessionFilter, Store, StoreError,
};

use crate::delete_paths::bytes_found;
use crate::support::*;

fn delete(store: &Store, names: &[&str]) -> Result<DeleteReceipt, StoreError> {
    let ids = names.iter().map(|name| id(name)).collect();
    store.delete_session(DeleteRequest::new(ids, DeleteReason::Delete))
}

fn child(store: &Store, name: &str, parent: &str, kind: ParentKind) {
    let mut init = init(name);
    init.parent = Some((id(parent), kind));
    let mut writer = store.create_session(init, opening()).unwrap();
    say(&mut writer, Role::User, &format!("said in {name}"));
    writer.release().unwrap();
}

fn left(store: &Store) -> Vec<String> {
    let filter = SessionFilter { delegates: true, ..SessionFilter::default() };
    let mut names: Vec<String> =
        store.sessions(&filter).unwrap().iter().map(|info| info.id.to_string()).collect();
    names.sort();
    names
}

fn events(store: &Store) -> Vec<SessionDelete> {
    store
        .claim_events(None, 10)
        .unwrap()
        .into_iter()
        .map(|claimed| {
            store.event_delivered(claimed.no).unwrap();
            match claimed.event {
                OutboxEvent::OnSessionDelete(event) => event,
                other @ OutboxEvent::PostCompaction(_) => panic!("{other:?}"),
            }
        })
        .collect()
}

#[test]
fn a_deleted_session_leaves_digests_and_counts_only() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let secret = "a secret that must not stay";
    say(&mut writer, Role::User, secret);
    let image: Arc<[u8]> = Arc::from(b"the image bytes that must not stay".as_slice());
    let digest = Digest::of(&image);
    let mut with_image = row(Seq(2), Role::User, "look");
    with_image.parts[0].body =
        PartBody::Blob { digest, media_type: "image/png".into(), bytes: image.len() as u64 };
    let mut sent = attempt("r1", &id("a"), GenerationNo(0), Seq(2));
    sent.kept_body = Some(b"kept body".to_vec());
    let mut failed = end("r1", 7, 8);
    failed.error = Some("quotes the secret".into());
    let _c = writer
        .commit(vec![
            Record::Blob { media_type: "image/png".into(), bytes: image },
            Record::Row(with_image),
            Record::Text { text: "only here".into() },
            Record::Profile(hermes_core::WireProfile::default()),
            Record::AttemptStarted(sent),
            Record::AttemptEnded(failed),
        ])
        .unwrap();
    writer.release().unwrap();
    drop(create(&store, "b"));

    let receipt = delete(&store, &["a"]).unwrap();
    let removed = &receipt.removed[0];
    assert_eq!((removed.rows, removed.parts, removed.requests, removed.epoch), (2, 2, 1, 1));
    // The text and the blob; prompt and tools are also used by the other session.
    assert_eq!(removed.contents, 2);
    assert_eq!(left(&store), ["b"]);
    assert!(matches!(store.history(&id("a")), Err(StoreError::Deleted { .. })));
    assert!(matches!(store.open_session(&id("a")), Err(StoreError::Deleted { .. })));
    assert_eq!(store.blob(&digest).unwrap(), None);
    assert_eq!(store.text(&Digest::of("only here")).unwrap(), None);
    assert_eq!(store.text(&Digest::of(PROMPT)).unwrap().as_deref(), Some(PROMPT));
    let request = store.request("r1").unwrap();
    assert!(request.session_deleted && !request.has_kept_body);
    assert_eq!(request.attempt.session, id("a"));
    let ended = request.end.unwrap();
    assert_eq!((ended.usage.input, ended.error), (Some(7), None));
    let of_a = RequestFilter { session: Some(id("a")), ..RequestFilter::default() };
    assert_eq!(store.requests(&of_a).unwrap().len(), 1);
    assert_sound(&store);
    store.close();
    for file in std::fs::read_dir(home.dir.path()).unwrap().flatten() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "the text is still in {}", file.path().display());
    }
}

#[test]
fn chain_and_delegated_children_go_along_and_branches_stay() {
    let home = Home::new();
    let store = home.store();
    create(&store, "root").release().unwrap();
    child(&store, "tip", "root", ParentKind::Compaction);
    child(&store, "helper", "root", ParentKind::Delegate);
    child(&store, "helper_of_helper", "helper", ParentKind::Delegate);
    child(&store, "helper_of_tip", "tip", ParentKind::Delegate);
    child(&store, "branch", "tip", ParentKind::Branch);
    child(&store, "branch_helper", "branch", ParentKind::Delegate);
    child(&store, "next", "root", ParentKind::Reset);

    let mut dry = DeleteRequest::new(vec![id("tip")], DeleteReason::Prune);
    dry.dry_run = true;
    let planned = store.delete_session(dry).unwrap();
    assert_eq!(left(&store).len(), 8);
    let mut request = DeleteRequest::new(vec![id("tip")], DeleteReason::Prune);
    request.profile = "work".to_owned();
    request.sessions_dir = Some("/sessions".to_owned());
    let receipt = store.delete_session(request).unwrap();
    let names = |receipt: &DeleteReceipt| -> Vec<String> {
        receipt.removed.iter().map(|removed| removed.id.to_string()).collect()
    };
    assert_eq!(names(&receipt), ["tip", "root", "helper_of_tip", "helper", "helper_of_helper"]);
    assert_eq!(names(&planned), names(&receipt));
    assert_eq!(
        receipt.remaining,
        [Remaining { kind: "branch".to_owned(), id: "branch".to_owned() }]
    );
    assert_eq!(left(&store), ["branch", "branch_helper", "next"]);
    assert_eq!(store.session(&id("branch")).unwrap().unwrap().parent, None);
    assert_eq!(
        events(&store),
        [SessionDelete {
            session_id: id("tip"),
            reason: DeleteReason::Prune,
            profile: "work".to_owned(),
            deleted_ids: receipt.removed.iter().map(|removed| removed.id.clone()).collect(),
            sessions_dir: Some("/sessions".to_owned()),
        }]
    );
    assert_sound(&store);
}

#[test]
fn an_exact_retry_gets_the_same_receipt_and_fires_nothing() {
    let home = Home::new();
    let store = home.store();
    create(&store, "a").release().unwrap();
    create(&store, "b").release().unwrap();
    let request = |request_id: Option<&str>, names: &[&str]| {
        let mut request =
            DeleteRequest::new(names.iter().map(|name| id(name)).collect(), DeleteReason::Delete);
        request.request_id = request_id.map(str::to_owned);
        store.delete_session(request)
    };
    let first = request(Some("req-1"), &["a"]).unwrap();
    assert!(!first.replayed);
    let again = request(Some("req-1"), &["a"]).unwrap();
    // But for the note that the bytes are gone by now.
    let scrubbed_at = again.scrubbed_at;
    assert_eq!(again, DeleteReceipt { replayed: true, scrubbed_at, ..first.clone() });
    assert_eq!(events(&store).len(), 1);
    assert!(matches!(request(Some("req-2"), &["a"]), Err(StoreError::Deleted { .. })));
    assert!(matches!(request(Some("req-1"), &["nobody"]), Err(StoreError::NotFound { .. })));
    // Without an id of the caller's, the same sessions and reason are the same request.
    let first = request(None, &["b"]).unwrap();
    assert_eq!(request(None, &["b"]).unwrap().deleted_at, first.deleted_at);
    assert_eq!(events(&store).len(), 1);

    // A session of the same id that was made since is a new one.
    create(&store, "a").release().unwrap();
    let second = request(Some("req-1"), &["a"]).unwrap();
    assert!(!second.replayed);
    assert_eq!(second.removed[0].epoch, 2);
    assert_eq!(request(Some("req-1"), &["a"]).unwrap().deleted_at, second.deleted_at);
    assert_eq!(events(&store).len(), 1);
}

#[test]
fn a_file_too_large_to_be_rewritten_beside_a_conversation_is_scrubbed_when_it_is_closed() {
    let mut home = Home::new();
    home.options.rewritten_beside = 0;
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "the zebrafish");
    writer.release().unwrap();
    let mut request = DeleteRequest::new(vec![id("a")], DeleteReason::Delete);
    request.request_id = Some("req".to_owned());
    store.delete_session(request).unwrap();
    // A commit comes after the work that the deletion left behind.
    create(&store, "b").release().unwrap();
    let receipt = store.receipt("req").unwrap().unwrap();
    assert_eq!(receipt.scrubbed_at, None, "nothing claims what was not done");
    store.close();
    let receipt = home.store().receipt("req").unwrap().unwrap();
    assert!(receipt.scrubbed_at.is_some());
    assert_eq!(bytes_found(home.dir.path(), "zebrafish"), [""; 0]);
}

#[test]
fn a_session_in_use_is_refused_unless_it_is_the_caller_who_uses_it() {
    let home = Home::new();
    let (store, other) = (home.store(), home.store());
    let mut writer = create(&store, "a");
    create(&store, "b").release().unwrap();
    say(&mut writer, Role::User, "one");
    for store in [&store, &other] {
        let error = delete(store, &["b", "a"]).unwrap_err();
        assert!(matches!(error, StoreError::Held { .. }), "{error}");
    }
    assert_eq!(left(&store), ["a", "b"], "nothing of the operation is done");
    let lease = writer.lease().clone();
    let mut request = DeleteRequest::new(vec![id("a")], DeleteReason::Delete);
    request.held = vec![&lease];
    store.delete_session(request).unwrap();
    let error = writer.commit(vec![Record::Row(row(Seq(2), Role::User, "after"))]).unwrap_err();
    assert!(matches!(error, StoreError::Deleted { .. }), "{error}");
    assert_eq!(left(&store), ["b"]);
}

#[test]
fn side_files_and_drafts_of_a_deleted_session_go_with_it() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let lock = home.lock_out();
    let seq = writer.next_seq();
    let _c = writer.commit(vec![Record::Row(row(seq, Role::User, "spooled"))]).unwrap();
    let mut draft = writer.draft(hermes_core::TurnNo(1)).unwrap();
    draft.append(hermes_store::DraftKind::Text, "half").unwrap();
    drop(draft);
    drop(lock);
    drop(writer);
    let receipt = delete(&store, &["a"]).unwrap();
    // The row of the side file and the answer made of the draft were counted.
    assert_eq!(receipt.removed[0].rows, 2);
    assert_eq!(files(&home.paths().spool_dir, "spool"), 0);
    assert_eq!(files(&home.paths().spool_dir, "spool-lock"), 0);
    assert_eq!(files(&home.paths().drafts_dir, "draft"), 0);
    assert_eq!(store.recover_all().unwrap(), vec![]);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let home = Home::new();
    let store = home.store();
    create(&store, "a").release().unwrap();
    assert!(matches!(delete(&store, &[]), Err(StoreError::Refused { .. })));
    let archive = DeleteRequest::new(vec![id("a")], DeleteReason::Archive);
    assert!(matches!(store.delete_session(archive), Err(StoreError::Refused { .. })));
    let receipt = delete(&store, &["ghost", "a"]).unwrap();
    assert_eq!(receipt.unknown, [id("ghost")]);
    let numbers: Vec<SessionId> = receipt.removed.into_iter().map(|removed| removed.id).collect();
    assert_eq!(numbers, [id("a")]);
}

#[test]
fn a_compacted_session_is_deleted_with_its_summaries() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let mut summary = row(Seq(2), Role::User, "sum");
    summary.standing = hermes_core::Standing::ByOp;
    let cover = Op::Cover { from: Seq(1), to: Seq(1), by: Seq(2) };
    let _c = writer
        .commit(vec![
            Record::Row(summary),
            generation(1, hermes_core::Cause::Compaction, vec![cover]),
        ])
        .unwrap();
    writer.release().unwrap();
    assert_eq!(delete(&store, &["a"]).unwrap().removed[0].rows, 2);
    let raw = home.raw();
    for table in ["row", "part", "gen", "manifest", "text", "text_use", "lease", "sessions"] {
        let count: i64 =
            raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(count, 0, "{table}");
    }
}

#[test]
fn a_choice_takes_nothing_along_that_it_does_not_mean() {
    let home = Home::new();
    let store = home.store();
    let old = START.plus_millis(-30 * 86_400_000);
    let make = |name: &str, at: hermes_core::Timestamp, parent: Option<(&str, ParentKind)>| {
        let mut init = init(name);
        init.started_at = at;
        init.parent = parent.map(|(parent, kind)| (id(parent), kind));
        let mut records = opening();
        if let Some(Record::Generation(generation)) = records.last_mut() {
            generation.created_at = at;
        }
        if !name.starts_with("empty") {
            let mut said = row(Seq(1), Role::User, &format!("said in {name}"));
            said.created_at = at;
            said.parts[0].created_at = at;
            records.push(Record::Row(said));
        }
        store.create_session(init, records).unwrap().release().unwrap();
    };
    let idle =
        Selection { idle_since: Some(START.plus_millis(-86_400_000)), ..Selection::default() };
    let chosen = |selection: &Selection| -> Vec<String> {
        let found = store.select(selection).unwrap();
        let mut names: Vec<String> = found.iter().map(|info| info.id.to_string()).collect();
        names.sort();
        names
    };
    // A chain that goes on today, and work of a session that does.
    make("root", old, None);
    make("tip", START, Some(("root", ParentKind::Compaction)));
    make("old work", old, Some(("tip", ParentKind::Delegate)));
    // A chain that is pinned at its end, and an archived session with its work.
    make("first", old, None);
    make("second", old, Some(("first", ParentKind::Compaction)));
    store.set_pinned(&[id("second")], true).unwrap();
    make("away", old, None);
    make("work of it", old, Some(("away", ParentKind::Delegate)));
    store.archive(hermes_store::ArchiveRequest::new(vec![id("away")], true)).unwrap();
    make("alone", old, None);
    make("with work", old, None);
    make("its work", old, Some(("with work", ParentKind::Delegate)));
    assert_eq!(chosen(&idle), ["alone", "its work", "with work"]);
    let all = Selection { source: Some("cli".to_owned()), ..Selection::default() };
    assert!(!chosen(&all).iter().any(|name| name == "first" || name == "work of it"));
    // The empty end of a chain is no reason to lose the chain.
    make("empty end", old, Some(("alone", ParentKind::Compaction)));
    make("empty", old, None);
    let empty = Selection { empty: true, ..Selection::default() };
    assert_eq!(chosen(&empty), ["empty"]);
    assert_eq!(chosen(&Selection::ghosts(START)), ["empty"]);
}

#[test]
fn whole_outputs_that_only_the_deleted_sessions_name_go_with_them() {
    let home = Home::new();
    let store = home.store();
    let folder = home.dir.path().join("outputs");
    std::fs::create_dir(&folder).unwrap();
    let files = ["20261130-100000-0000000a.log", "20261130-100000-0000000b.log", "other.txt"];
    for file in files {
        std::fs::write(folder.join(file), "zebrafish").unwrap();
    }
    for (name, file) in [("a", files[0]), ("b", files[0]), ("c", files[1])] {
        let mut writer = create(&store, name);
        say(&mut writer, Role::User, &format!("I read {}", files[1]));
        let text = format!("é{} (the whole output: {}/{file})", files[2], folder.display());
        say(&mut writer, Role::Tool, &text);
        writer.release().unwrap();
    }
    let request = |name: &str, dry_run: bool| DeleteRequest {
        outputs_dir: Some(folder.clone()),
        dry_run,
        ..DeleteRequest::new(vec![id(name)], DeleteReason::Delete)
    };
    let deleted = |name: &str| -> Vec<String> {
        let planned = store.delete_session(request(name, true)).unwrap().files;
        let files = store.delete_session(request(name, false)).unwrap().files;
        assert_eq!(planned, files);
        files.iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
    };
    assert_eq!(deleted("a"), Vec::<String>::new(), "another one names it");
    assert_eq!(deleted("b"), [files[0]]);
    assert_eq!(deleted("c"), [files[1]]);
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["other.txt"]);
}

#[test]
fn lines_that_were_typed_at_a_prompt_are_named_as_what_remains() {
    let home = Home::new();
    let store = home.store();
    let file = home.dir.path().join("history.txt");
    std::fs::write(&file, "/help\nfirst<\\n>second\n").unwrap();
    for (name, text) in [("a", "first\nsecond"), ("b", "said elsewhere")] {
        let mut writer = create(&store, name);
        say(&mut writer, Role::User, text);
        writer.release().unwrap();
    }
    let remaining = |name: &str| {
        let mut request = DeleteRequest::new(vec![id(name)], DeleteReason::Delete);
        request.typed_lines = Some(file.clone());
        store.delete_session(request).unwrap().remaining
    };
    let named = remaining("a");
    assert_eq!((named.len(), &*named[0].kind), (1, "typed_lines"));
    assert_eq!(remaining("b"), []);
}

#[test]
fn what_readers_kept_from_being_scrubbed_is_scrubbed_while_the_process_goes_on() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "the zebrafish");
    writer.release().unwrap();
    let reader = home.raw();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sessions;").unwrap();
    let mut request = DeleteRequest::new(vec![id("a")], DeleteReason::Delete);
    request.request_id = Some("req".to_owned());
    store.delete_session(request).unwrap();
    // A commit comes after the attempt that the deletion left behind.
    create(&store, "b").release().unwrap();
    let scrubbed = || store.receipt("req").unwrap().unwrap().scrubbed_at;
    assert_eq!(scrubbed(), None, "somebody reads the old pages still");
    reader.execute_batch("COMMIT").unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while scrubbed().is_none() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(scrubbed().is_some());
    assert_eq!(bytes_found(home.dir.path(), "zebrafish"), [""; 0]);
}

#[test]
fn a_dry_run_waits_for_nobody_and_makes_nothing() {
    let home = Home::new();
    let store = home.store();
    let dry = |store: &Store, ids: Vec<SessionId>, chosen: bool| {
        store.delete_session(DeleteRequest {
            dry_run: true,
            chosen_by: chosen.then(|| "a choice".to_owned()),
            ..DeleteRequest::new(ids, DeleteReason::Delete)
        })
    };
    assert!(matches!(dry(&store, vec![id("a")], false), Err(StoreError::NotFound { .. })));
    assert_eq!(dry(&store, vec![], true).unwrap().removed, []);
    assert_eq!(std::fs::read_dir(home.dir.path()).unwrap().count(), 0, "nothing was made");
    create(&store, "a").release().unwrap();
    let lock = home.lock_out();
    assert_eq!(dry(&store, vec![id("a")], false).unwrap().removed.len(), 1);
    let mut archive = hermes_store::ArchiveRequest::new(vec![id("a")], true);
    archive.dry_run = true;
    assert_eq!(store.archive(archive).unwrap(), [id("a")]);
    drop(lock);
    let env: Arc<dyn hermes_core::Env> = home.env.clone();
    let reader = Store::open(home.paths(), env, hermes_store::OpenMode::ReadOnly).unwrap();
    assert_eq!(dry(&reader, vec![id("a")], false).unwrap().removed.len(), 1);
    assert_eq!(left(&store), ["a"]);
}

#[test]
fn files_that_a_killed_process_left_are_gone_before_a_receipt_says_scrubbed() {
    let home = Home::new();
    let store = home.store();
    let folder = home.dir.path().join("sessions");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("a.json");
    std::fs::write(&file, "{}").unwrap();
    create(&store, "a").release().unwrap();
    let mut request = DeleteRequest::new(vec![id("a")], DeleteReason::Delete);
    request.sessions_dir = Some(folder.display().to_string());
    request.request_id = Some("req".to_owned());
    store.delete_session(request).unwrap();
    store.close();
    // As it was right after the commit.
    std::fs::write(&file, "{}").unwrap();
    home.raw()
        .execute_batch(
            "UPDATE receipt SET json = json_set(json, '$.scrubbed_at', NULL);
             INSERT INTO state_meta (key, value) VALUES ('scrub_due', '1');",
        )
        .unwrap();
    let store = home.store();
    create(&store, "b").release().unwrap();
    store.close();
    assert!(!file.exists());
    assert!(home.store().receipt("req").unwrap().unwrap().scrubbed_at.is_some());
}
