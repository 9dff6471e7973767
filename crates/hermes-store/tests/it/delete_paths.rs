//! Every way to delete, in every situation: rows, files, index, events and receipts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hermes_core::{DeleteReason, OutboxEvent, Role, SessionDelete, SessionId};
use hermes_store::{
    ArchiveRequest, DeleteReceipt, DeleteRequest, MoveRequest, ParentKind, SearchRequest,
    Selection, SessionFiles, SessionFilter, SessionWriter, Store, StoreError,
};

use crate::support::*;

/// A way to delete: its reason, and which of the sessions it means.
struct Entry {
    name: &'static str,
    reason: DeleteReason,
    /// The sessions it takes hold nothing.
    empty: bool,
    select: fn(&Store, &[SessionId]) -> Vec<SessionId>,
    /// Leaves out what is in use instead of refusing.
    sweeps: bool,
    /// Copies the sessions to another profile first.
    moves: bool,
}

impl Entry {
    const fn named(name: &'static str, reason: DeleteReason) -> Self {
        Self { name, reason, empty: false, select: named, sweeps: false, moves: false }
    }

    const fn sweep(
        name: &'static str,
        reason: DeleteReason,
        empty: bool,
        select: fn(&Store, &[SessionId]) -> Vec<SessionId>,
    ) -> Self {
        Self { name, reason, empty, select, sweeps: true, moves: false }
    }

    /// Does it, from one store and, if it moves, to another.
    fn run(
        &self,
        store: &Store,
        there: &Store,
        request: DeleteRequest<'_>,
    ) -> Result<DeleteReceipt, StoreError> {
        if !self.moves {
            return store.delete_session(request);
        }
        let folder = request.sessions_dir.map(PathBuf::from);
        store.move_sessions(
            there,
            &MoveRequest {
                ids: request.ids,
                profile: request.profile,
                to: "work".to_owned(),
                request_id: request.request_id,
                chosen_by: None,
                outputs_dir: None,
                sessions_dir_there: folder.clone().unwrap_or_default().join("../there/sessions"),
                sessions_dir: folder,
                dry_run: request.dry_run,
            },
        )
    }
}

fn named(_: &Store, ids: &[SessionId]) -> Vec<SessionId> {
    ids.to_vec()
}

fn chosen(store: &Store, selection: &Selection) -> Vec<SessionId> {
    store.select(selection).unwrap().into_iter().map(|info| info.id).collect()
}

const ENTRIES: [Entry; 8] = [
    Entry::named("sessions delete", DeleteReason::Delete),
    Entry::named("/sessions delete", DeleteReason::Delete),
    Entry::named("/exit --delete", DeleteReason::Delete),
    Entry::sweep("sessions delete by filter", DeleteReason::Delete, false, |store, _| {
        let source = Some("doomed".to_owned());
        chosen(store, &Selection { source, archived: true, ..Selection::default() })
    }),
    Entry::sweep("empty sweep", DeleteReason::EmptySweep, true, |store, _| {
        let empty = Selection { empty: true, archived: true, ..Selection::default() };
        let own = |id: &SessionId| id.as_str().starts_with("doomed");
        chosen(store, &empty).into_iter().filter(own).collect()
    }),
    Entry::sweep("retention prune", DeleteReason::Prune, false, |store, _| {
        let idle_since = Some(START.plus_millis(-86_400_000));
        chosen(store, &Selection { idle_since, archived: true, ..Selection::default() })
    }),
    Entry::sweep("ghost prune", DeleteReason::GhostPrune, true, |store, _| {
        chosen(store, &Selection::ghosts(START.plus_millis(-86_400_000)))
    }),
    Entry { moves: true, ..Entry::named("profile repair", DeleteReason::ProfileRepair) },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    One,
    Many,
    WithChildren,
    Archived,
    Running,
    Retried,
}

fn make(
    store: &Store,
    name: &str,
    empty: bool,
    parent: Option<(&str, ParentKind)>,
) -> SessionWriter {
    let mut init = init(name);
    "doomed".clone_into(&mut init.source);
    init.started_at = START.plus_millis(-30 * 86_400_000);
    init.parent = parent.map(|(parent, kind)| (id(parent), kind));
    let mut writer = store.create_session(init, vec![]).unwrap();
    if !empty {
        let seq = writer.next_seq();
        let mut said = row(seq, Role::User, &format!("zebrafish of {name}"));
        said.created_at = START.plus_millis(-30 * 86_400_000);
        said.parts[0].created_at = said.created_at;
        let _c = writer.commit(vec![hermes_store::Record::Row(said)]).unwrap();
    }
    writer
}

pub fn bytes_found(folder: &Path, needle: &str) -> Vec<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_file())
        .filter(|entry| {
            let bytes = std::fs::read(entry.path()).unwrap();
            bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn events(store: &Store) -> Vec<SessionDelete> {
    store
        .claim_events(None, 50)
        .unwrap()
        .into_iter()
        .filter_map(|claimed| {
            store.event_delivered(claimed.no).unwrap();
            match claimed.event {
                OutboxEvent::OnSessionDelete(event) => Some(event),
                OutboxEvent::PostCompaction(_) => None,
            }
        })
        .collect()
}

fn all(store: &Store) -> Vec<String> {
    store
        .sessions(&SessionFilter { delegates: true, archived: true, ..SessionFilter::default() })
        .unwrap()
        .iter()
        .map(|info| info.id.to_string())
        .collect()
}

fn check(entry: &Entry, situation: Situation) {
    let place = format!("{}, {situation:?}", entry.name);
    let home = Home::new();
    let store = home.store();
    let other = Home::at(&home.dir.path().join("there"), 11);
    std::fs::create_dir(other.dir.path()).unwrap();
    let there = other.store();
    let sessions_dir = home.dir.path().join("sessions");
    std::fs::create_dir(&sessions_dir).unwrap();
    let mut keeper = create(&store, "keeper");
    say(&mut keeper, Role::User, "ordinary text");
    keeper.release().unwrap();

    let names: &[&str] =
        if situation == Situation::Many { &["doomed1", "doomed2"] } else { &["doomed1"] };
    let mut running = None;
    for name in names {
        let writer = make(&store, name, entry.empty, None);
        std::fs::write(sessions_dir.join(SessionFiles::of(&id(name)).unwrap().json()), "{}")
            .unwrap();
        if situation == Situation::Running {
            running = Some(writer);
        } else {
            writer.release().unwrap();
        }
    }
    let mut expected: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    if situation == Situation::WithChildren {
        // Sessions with children hold something, so the sweeps of empty ones leave them.
        let children = [
            ("doomed-tip", ParentKind::Compaction),
            ("doomed-child", ParentKind::Delegate),
            ("branch", ParentKind::Branch),
        ];
        for (name, kind) in children {
            let writer = make(&store, name, false, Some(("doomed1", kind)));
            writer.release().unwrap();
        }
        expected.extend(["doomed-tip".to_owned(), "doomed-child".to_owned()]);
    }
    let ids: Vec<SessionId> = names.iter().map(|name| id(name)).collect();
    if situation == Situation::Archived {
        store.archive(ArchiveRequest::new(ids.clone(), true)).unwrap();
        assert_eq!(events(&store)[0].reason, DeleteReason::Archive, "{place}");
    }
    let request = |dry_run: bool| {
        let mut selected = (entry.select)(&store, &ids);
        selected.retain(|id| id.as_str() != "branch" && id.as_str() != "keeper");
        let mut request = DeleteRequest::new(selected, entry.reason);
        request.request_id = Some("the-request".to_owned());
        request.sessions_dir = Some(sessions_dir.display().to_string());
        request.skip_held = entry.sweeps;
        request.chosen_by = entry.sweeps.then(|| entry.name.to_owned());
        request.dry_run = dry_run;
        request
    };
    let run = |request: DeleteRequest<'_>| entry.run(&store, &there, request);
    if entry.empty && situation == Situation::WithChildren {
        assert_eq!((entry.select)(&store, &ids), [], "{place}: it has children that say something");
        return;
    }
    if let Some(writer) = running {
        // Whoever runs it may delete it; nobody else.
        let outcome = run(request(false));
        if entry.sweeps {
            let receipt = outcome.unwrap();
            assert_eq!((receipt.skipped, receipt.removed), (ids.clone(), vec![]), "{place}");
        } else {
            assert!(matches!(outcome, Err(StoreError::Held { .. })), "{place}");
        }
        assert_eq!(events(&store), [], "{place}");
        if entry.moves {
            assert_eq!(there.session(&ids[0]).unwrap(), None, "{place}");
            writer.release().unwrap();
            run(request(false)).unwrap();
            assert_eq!(events(&store).len(), 1, "{place}");
            return;
        }
        let lease = writer.lease().clone();
        let mut own = DeleteRequest::new(ids.clone(), entry.reason);
        own.held = vec![&lease];
        store.delete_session(own).unwrap();
        assert_eq!(events(&store).len(), 1, "{place}");
        return;
    }
    let planned = run(request(true)).unwrap();
    assert_eq!(there.sessions(&SessionFilter::default()).unwrap(), [], "{place}");
    assert!(store.session(&ids[0]).unwrap().is_some(), "{place}: a dry run changes nothing");
    assert_eq!(events(&store), [], "{place}");

    let receipt = run(request(false)).unwrap();
    let removed = |receipt: &DeleteReceipt| -> BTreeSet<String> {
        receipt.removed.iter().map(|removed| removed.id.to_string()).collect()
    };
    assert_eq!(removed(&receipt), expected, "{place}");
    assert_eq!(removed(&planned), expected, "{place}: the plan is what happens");
    let fired = events(&store);
    assert_eq!(fired.len(), 1, "{place}");
    assert_eq!(fired[0].reason, entry.reason, "{place}");
    let several = expected.len() > 1;
    assert_eq!(fired[0].deleted_ids.len(), if several { expected.len() } else { 0 }, "{place}");
    assert_eq!(receipt.files.len(), names.len(), "{place}");
    assert_eq!(std::fs::read_dir(&sessions_dir).unwrap().count(), 0, "{place}");
    assert!(store.search(&SearchRequest::new("ordinary")).unwrap().count == 1, "{place}");
    if situation == Situation::WithChildren {
        assert_eq!(receipt.remaining[0].id, "branch", "{place}");
        let mut derived = DeleteRequest::new(vec![id("branch")], entry.reason);
        derived.with_derived = true;
        store.delete_session(derived).unwrap();
        events(&store);
    }
    assert_eq!(store.search(&SearchRequest::new("zebrafish")).unwrap().count, 0, "{place}");
    if situation == Situation::Retried {
        // Who names them names the same; who chooses them finds others by now.
        let late = entry.sweeps.then(|| make(&store, "late", entry.empty, None));
        drop(late);
        let mut again = request(false);
        if !entry.sweeps {
            again.ids.clone_from(&ids);
        }
        let replayed = run(again).unwrap();
        assert!(replayed.replayed, "{place}");
        let scrubbed_at = replayed.scrubbed_at;
        assert_eq!(replayed, DeleteReceipt { replayed: true, scrubbed_at, ..receipt.clone() });
        assert_eq!(events(&store), [], "{place}");
        if entry.sweeps {
            store.delete_session(DeleteRequest::new(vec![id("late")], entry.reason)).unwrap();
        }
    }
    let copies: BTreeSet<String> = all(&there).into_iter().collect();
    if entry.moves {
        assert_eq!(copies, expected, "{place}");
        assert_eq!(there.check().unwrap(), [], "{place}");
        assert_eq!(there.pending_events().unwrap(), 0, "{place}: nothing was deleted there");
        let files = std::fs::read_dir(other.dir.path().join("sessions")).unwrap().count();
        assert_eq!(files, names.len(), "{place}");
        let archived = there.session(&ids[0]).unwrap().unwrap().archived;
        assert_eq!(archived, situation == Situation::Archived, "{place}");
    } else {
        assert_eq!(copies, BTreeSet::new(), "{place}");
    }
    store.scrub().unwrap();
    assert!(store.receipt("the-request").unwrap().unwrap().scrubbed_at.is_some(), "{place}");
    assert_sound(&store);
    assert_eq!(all(&store), ["keeper"], "{place}");
    assert_eq!(bytes_found(home.dir.path(), "zebrafish"), [""; 0], "{place}");
}

#[test]
fn every_way_to_delete_does_the_same_in_every_situation() {
    for entry in &ENTRIES {
        for situation in [
            Situation::One,
            Situation::Many,
            Situation::WithChildren,
            Situation::Archived,
            Situation::Running,
            Situation::Retried,
        ] {
            check(entry, situation);
        }
    }
}

#[test]
fn archiving_is_told_once_and_by_transition_only() {
    let home = Home::new();
    let store = home.store();
    create(&store, "root").release().unwrap();
    let mut tip = init("tip");
    tip.parent = Some((id("root"), ParentKind::Compaction));
    store.create_session(tip, vec![]).unwrap().release().unwrap();
    let archive = |archived: bool, automatic: bool| {
        let mut request = ArchiveRequest::new(vec![id("tip")], archived);
        request.automatic = automatic;
        store.archive(request).unwrap()
    };
    assert_eq!(archive(true, false), [id("tip"), id("root")]);
    assert_eq!(archive(true, false), []);
    let fired = events(&store);
    assert_eq!((fired.len(), fired[0].reason), (1, DeleteReason::Archive));
    assert_eq!(fired[0].deleted_ids, [id("tip"), id("root")]);
    assert_eq!(store.sessions(&SessionFilter::default()).unwrap(), []);
    assert_eq!(archive(false, false).len(), 2);
    assert_eq!(archive(true, true).len(), 2);
    assert_eq!(events(&store), [], "neither taking out nor a sweep is told");
    let unknown = store.archive(ArchiveRequest::new(vec![id("nobody")], true));
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
}

#[test]
fn b029_all_files_of_a_session_go_and_a_neighbours_stay() {
    let home = Home::new();
    let store = home.store();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/B029/home/sessions");
    let folder = home.dir.path().join("sessions");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    create(&store, "20260101_aaaa").release().unwrap();
    let mut request = DeleteRequest::new(vec![id("20260101_aaaa")], DeleteReason::Delete);
    request.sessions_dir = Some(folder.display().to_string());
    assert_eq!(store.delete_session(request).unwrap().files.len(), 4);
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["session_20260101_aaaa2.json"]);
    let own = id("20260101_aaaa");
    let names = SessionFiles::of(&own).unwrap();
    for name in [names.json(), names.jsonl(), names.log(), names.request_dump("20260101_120000_1")]
    {
        assert!(names.owns(&name), "{name}");
    }
    assert!(SessionFiles::of(&id("../../etc/passwd")).is_none());
}

#[test]
fn b027_deleted_text_is_in_no_row_no_index_and_no_file() {
    let home = Home::new();
    let store = home.store();
    // Interleaved, so that pages are split and filled by several sessions.
    let names: Vec<String> = ('a'..='l').map(|c| format!("k{c}")).collect();
    let mut writers: Vec<SessionWriter> = names.iter().map(|name| create(&store, name)).collect();
    for n in 0..60 {
        for (name, writer) in names.iter().zip(&mut writers) {
            let filler = "filler words ".repeat(n % 7 * 10);
            say(writer, Role::User, &format!("zebrafish{name} number{n} {filler}"));
        }
    }
    for writer in writers {
        writer.release().unwrap();
    }
    let doomed: Vec<SessionId> = names.iter().step_by(2).map(|name| id(name)).collect();
    store.delete_session(DeleteRequest::new(doomed, DeleteReason::Prune)).unwrap();
    for (n, name) in names.iter().enumerate() {
        let found = store.search(&SearchRequest::new(format!("zebrafish{name}"))).unwrap();
        assert_eq!(found.count, n % 2, "{name}");
    }
    assert_sound(&store);
    store.close();
    for (n, name) in names.iter().enumerate() {
        let found = bytes_found(home.dir.path(), &format!("zebrafish{name}"));
        assert_eq!(found.is_empty(), n % 2 == 0, "{name}: {found:?}");
        // The index keeps stems and pieces of the words.
        let found = bytes_found(home.dir.path(), &format!("brafish{name}"));
        assert_eq!(found.is_empty(), n % 2 == 0, "{name}: {found:?}");
    }
}

#[test]
fn sessions_are_chosen_by_what_they_are() {
    let home = Home::new();
    let store = home.store();
    for (name, source, messages, cwd) in
        [("a", "cli", 1, "/work/x"), ("b", "cli", 3, "/work/x/sub"), ("c", "tui", 0, "/other")]
    {
        let mut init = init(name);
        init.source = source.to_owned();
        init.cwd = Some(cwd.to_owned());
        init.git_root = None;
        let mut writer = store.create_session(init, opening()).unwrap();
        for n in 0..messages {
            say(&mut writer, Role::User, &format!("line {n}"));
        }
        writer.release().unwrap();
    }
    let check = |selection: Selection, expected: &[&str]| {
        let mut found: Vec<String> =
            store.select(&selection).unwrap().iter().map(|info| info.id.to_string()).collect();
        found.sort();
        assert_eq!(found, expected, "{selection:?}");
    };
    let all = Selection::default();
    check(all.clone(), &["a", "b", "c"]);
    check(Selection { source: Some("cli".to_owned()), ..all.clone() }, &["a", "b"]);
    check(Selection { cwd: Some("/work/x/".to_owned()), ..all.clone() }, &["a", "b"]);
    check(Selection { min_messages: Some(2), ..all.clone() }, &["b"]);
    check(Selection { max_messages: Some(1), ..all.clone() }, &["a", "c"]);
    check(Selection { empty: true, ..all.clone() }, &["c"]);
    check(Selection { idle_since: Some(START), ..all.clone() }, &[]);
    assert!(!all.is_narrow() && Selection { empty: true, ..all }.is_narrow());
}
