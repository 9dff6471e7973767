//! What a process that is killed was doing: the works, what each begins with, and what must hold
//! after it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_core::{DeleteReason, Env, Role, Row, RowStatus, Seq, TurnNo};
use hermes_store::{
    Committed, DeleteRequest, DraftKind, ImportedSession, MoveRequest, OpenMode, Record,
    RecoveredOutcome, SearchRequest, SessionFilter, SessionWriter, Store, StoreError, repair,
};

use crate::support::*;

/// A work, and the places that it comes to.
pub struct Work {
    /// What it counts as.
    pub of: &'static str,
    pub name: &'static str,
    pub places: &'static [&'static str],
}

pub const WORKS: [Work; 9] = [
    Work {
        of: "append",
        name: "append",
        places: &[
            "migrate: log made",
            "append: begun",
            "append: applied",
            "store: before a commit",
            "store: after a commit",
            "append: committed",
            "draft: begun",
            "draft: before its end",
            "draft: taken in",
        ],
    },
    Work { of: "append", name: "many rows", places: &["index: added"] },
    Work {
        of: "append",
        name: "side file",
        places: &["spool: written", "spool: synced", "spool: taken in"],
    },
    Work {
        of: "delete",
        name: "delete",
        places: &[
            "delete: removed",
            "store: before a commit",
            "delete: committed",
            "delete: own files gone",
            "delete: all files gone",
            "scrub: index merged",
            "scrub: rewritten",
            "scrub: log cut",
        ],
    },
    Work {
        of: "move",
        name: "move",
        places: &[
            "move: session made",
            "move: taken in",
            "move: copied",
            "move: files copied",
            "delete: removed",
            "delete: committed",
            "delete: all files gone",
        ],
    },
    Work {
        of: "import",
        name: "import",
        places: &["import: session made", "import: records in", "store: after a commit"],
    },
    Work {
        of: "repair",
        name: "repair",
        places: &[
            "repair: table copied",
            "repair: copied",
            "repair: copy closed",
            "repair: original kept",
            "repair: log gone",
            "repair: in place",
        ],
    },
    Work {
        of: "migration",
        name: "migration",
        places: &["migrate: step", "migrate: before the commit", "migrate: committed"],
    },
    Work {
        of: "restore",
        name: "restore",
        places: &["restore: copied", "restore: former kept", "restore: in place"],
    },
];

/// What the process has seen acknowledged.
fn acknowledge(folder: &Path, line: &str) {
    let mut file =
        fs::OpenOptions::new().append(true).create(true).open(folder.join("acknowledged")).unwrap();
    writeln!(file, "{line}").unwrap();
}

fn acknowledged(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("acknowledged"))
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Does the work so many times.
pub fn work(what: &str, home: &Home, rounds: u64) {
    let folder = home.dir.path();
    for round in 0..rounds {
        if matches!(what, "repair" | "migration") && round > 0 {
            put_back(home);
        }
        if what == "repair" {
            let env: Arc<dyn Env> = home.env.clone();
            drop(repair(&home.paths(), &env).unwrap());
            continue;
        }
        let store = home.store();
        let name = format!("{}-{round}", what.replace(' ', "-"));
        match what {
            "append" => append(&store, folder, &name),
            "many rows" => many_rows(&store, folder, &name),
            "side file" => side_file(home, &store, folder, &name),
            "delete" => delete(&store, folder, &name),
            "move" => move_away(&store, home, &name),
            "import" => {
                store.import_session(&imported(&name)).unwrap();
                acknowledge(folder, &name);
            }
            "restore" => {
                store.restore(&folder.join("kept.db")).unwrap();
                acknowledge(folder, "restored");
            }
            _ => {}
        }
        store.close();
    }
}

fn line(name: &str, at: usize) -> String {
    format!("{name} zebrafish line {at}")
}

fn append(store: &Store, folder: &Path, name: &str) {
    let mut writer = create(store, name);
    for at in 0..4 {
        say(&mut writer, Role::User, &line(name, at));
        acknowledge(folder, &format!("{name} {at}"));
    }
    let answer = |writer: &mut SessionWriter, at: usize| {
        let mut draft = writer.draft(TurnNo(1)).unwrap();
        draft.append(DraftKind::Text, &line(name, at)).unwrap();
        acknowledge(folder, &format!("{name} {at}"));
        draft
    };
    let draft = answer(&mut writer, 4);
    let row = row(draft.row(), Role::Assistant, &line(name, 4));
    let _where = writer.commit(vec![Record::Row(row)]).unwrap();
    // An answer that breaks off, and is found when the session is opened next.
    drop(answer(&mut writer, 5));
    writer.release().unwrap();
    store.open_session(&id(name)).unwrap().release().unwrap();
}

/// So many rows that the index is brought up to date between two commits.
fn many_rows(store: &Store, folder: &Path, name: &str) {
    let mut writer = create(store, name);
    for part in 0..4 {
        let rows = (part * 200..(part + 1) * 200)
            .map(|at| Record::Row(row(Seq(at as u64 + 1), Role::User, &line(name, at))))
            .collect();
        let _where = writer.commit(rows).unwrap();
        acknowledge(folder, &format!("{name} {}", part * 200 + 199));
    }
    writer.release().unwrap();
}

fn side_file(home: &Home, store: &Store, folder: &Path, name: &str) {
    let mut writer = create(store, name);
    let lock = home.lock_out();
    for at in 0..3 {
        let seq = writer.next_seq();
        let records = vec![Record::Row(row(seq, Role::User, &line(name, at)))];
        let committed = writer.commit(records).unwrap();
        assert!(matches!(committed, Committed::Spooled { .. }));
        acknowledge(folder, &format!("{name} {at}"));
    }
    drop(lock);
    let seq = writer.next_seq();
    let _where = writer.commit(vec![Record::Row(row(seq, Role::User, &line(name, 3)))]).unwrap();
    acknowledge(folder, &format!("{name} 3"));
    writer.release().unwrap();
}

fn request(folder: &Path, name: &str) -> DeleteRequest<'static> {
    let mut request = DeleteRequest::new(vec![id(name)], DeleteReason::Delete);
    request.request_id = Some(format!("delete {name}"));
    request.sessions_dir = Some(folder.join("sessions").display().to_string());
    request
}

fn delete(store: &Store, folder: &Path, name: &str) {
    let mut writer = create(store, name);
    for at in 0..5 {
        say(&mut writer, Role::User, &line(name, at));
    }
    writer.release().unwrap();
    let file = folder.join("sessions").join(format!("{name}.json"));
    fs::create_dir_all(folder.join("sessions")).unwrap();
    fs::write(file, "{}").unwrap();
    acknowledge(folder, &format!("doomed {name}"));
    store.delete_session(request(folder, name)).unwrap();
    acknowledge(folder, &format!("deleted {name}"));
    store.scrub().unwrap();
}

/// The home of another profile.
fn other(home: &Home) -> Home {
    let folder = home.dir.path().join("there");
    fs::create_dir_all(&folder).unwrap();
    Home::at(&folder, u64::from(std::process::id()) + 1)
}

fn move_of(home: &Home, name: &str) -> MoveRequest {
    MoveRequest {
        ids: vec![id(name)],
        profile: "default".to_owned(),
        to: "work".to_owned(),
        request_id: Some(format!("move {name}")),
        chosen_by: None,
        outputs_dir: None,
        sessions_dir: Some(home.dir.path().join("sessions")),
        sessions_dir_there: home.dir.path().join("there/sessions"),
        dry_run: false,
    }
}

fn move_away(store: &Store, home: &Home, name: &str) {
    let folder = home.dir.path();
    let mut writer = create(store, name);
    for at in 0..5 {
        say(&mut writer, Role::User, &line(name, at));
    }
    writer.release().unwrap();
    fs::create_dir_all(folder.join("sessions")).unwrap();
    fs::write(folder.join("sessions").join(format!("{name}.json")), name).unwrap();
    acknowledge(folder, &format!("doomed {name}"));
    store.move_sessions(&other(home).store(), &move_of(home, name)).unwrap();
    acknowledge(folder, &format!("moved {name}"));
}

/// It is in one of the two places, whole; then the same call leaves it there alone.
fn was_moved(store: &Store, home: &Home, said: &str) {
    let (state, name) = said.split_once(' ').unwrap();
    let other = other(home);
    let there = other.store();
    let is_whole = |store: &Store| store.history(&id(name)).is_ok_and(|it| it.rows.len() == 5);
    assert!(is_whole(store) || is_whole(&there), "{said}");
    let receipt = store.move_sessions(&there, &move_of(home, name)).unwrap();
    assert!(state == "doomed" || receipt.replayed, "{said}");
    assert!(is_whole(&there), "{said}");
    assert!(matches!(store.history(&id(name)), Err(StoreError::Deleted { .. })), "{said}");
    let events = store.claim_events(Some(&id(name)), 9).unwrap();
    assert!(events.len() <= 1, "{said}: told at most once");
    let phrase = format!("\"{}\"", line(name, 1));
    assert_eq!(there.search(&SearchRequest::new(phrase)).unwrap().count, 1, "{said}");
    let file = home.dir.path().join("there/sessions").join(format!("{name}.json"));
    assert_eq!(fs::read_to_string(file).unwrap(), name, "{said}");
    assert!(!home.dir.path().join("sessions").join(format!("{name}.json")).exists(), "{said}");
    assert_sound(&there);
}

fn imported(name: &str) -> ImportedSession {
    let mut records = opening();
    records.extend(
        (1..=20)
            .map(|n| Record::Row(row(Seq(n), Role::User, &format!("{name} imported line {n}")))),
    );
    ImportedSession {
        init: init(name),
        facts: vec![],
        compactions: 0,
        records,
        again: false,
        proven: true,
    }
}

fn old_store() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v2.db.zst");
    zstd::decode_all(fs::read(path).unwrap().as_slice()).unwrap()
}

/// What a work begins with.
pub fn begin(what: &str, home: &Home) {
    match what {
        // The place where the file is made is among those visited.
        "append" => {}
        "migration" => {
            fs::write(first(home), old_store()).unwrap();
            put_back(home);
        }
        "repair" => damaged(home),
        "restore" => {
            let store = home.store();
            let mut writer = create(&store, "kept");
            say(&mut writer, Role::User, "from before the backup");
            writer.release().unwrap();
            drop(create(&store, "gone"));
            store.backup(Some(&home.dir.path().join("kept.db"))).unwrap();
            let request = DeleteRequest::new(vec![id("gone")], DeleteReason::Delete);
            store.delete_session(request).unwrap();
            drop(create(&store, "later"));
            store.close();
        }
        _ => home.store().close(),
    }
}

/// Three sessions; a page of the second is rubbish.
fn damaged(home: &Home) {
    let store = home.store();
    for name in ["a", "b", "c"] {
        let mut writer = create(&store, name);
        for n in 0..40 {
            let text = format!("{name} line {n} {}", "word ".repeat(60));
            say(&mut writer, Role::User, &text);
        }
    }
    store.optimize().unwrap();
    store.close();
    let mut bytes = fs::read(home.paths().db).unwrap();
    let needle = b"b line 20 ";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at / 4096 * 4096..][..4096].fill(0xa5);
    fs::write(first(home), bytes).unwrap();
    put_back(home);
}

/// What the work is done to.
fn first(home: &Home) -> PathBuf {
    home.dir.path().join("first.db")
}

/// Makes the store what it was at first, at no moment half of it.
fn put_back(home: &Home) {
    let db = home.paths().db;
    for suffix in ["-wal", "-shm"] {
        let _gone = fs::remove_file(format!("{}{suffix}", db.display()));
    }
    let copy = home.dir.path().join("copy.db");
    fs::copy(first(home), &copy).unwrap();
    fs::rename(&copy, db).unwrap();
}

/// What must hold, whenever the process died.
pub fn verify(what: &str, home: &Home) {
    let env: Arc<dyn Env> = home.env.clone();
    if what == "repair" {
        assert_eq!(repair(&home.paths(), &env).unwrap().left, []);
    }
    let store = home.store();
    // Before anything is written: what the killed process left is readable as it is.
    let reader = Store::open(home.paths(), env, OpenMode::ReadOnly);
    if let Ok(reader) = reader {
        assert_eq!(reader.check().unwrap(), []);
    }
    let recovered = store.recover_all().unwrap();
    let failed = |outcome: &RecoveredOutcome| matches!(outcome, RecoveredOutcome::Failed(_));
    assert!(!recovered.iter().any(|one| failed(&one.outcome)), "{recovered:?}");
    let folder = home.dir.path();
    let said = acknowledged(folder);
    for said in &said {
        match what {
            "append" | "many rows" | "side file" => appended(&store, what, said),
            "delete" => deleted(&store, folder, said),
            "move" => was_moved(&store, home, said),
            "import" => assert_eq!(store.history(&id(said)).unwrap().rows.len(), 20, "{said}"),
            _ => {}
        }
    }
    match what {
        "migration" => {
            assert_eq!(texts(&store, &id("frozen")), ["frozen question", "frozen answer"]);
            assert_eq!(store.search(&SearchRequest::new("frozen question")).unwrap().count, 1);
        }
        "repair" => {
            for name in ["a", "c"] {
                assert_eq!(store.history(&id(name)).unwrap().rows.len(), 40, "{name}");
            }
        }
        "restore" => {
            assert_eq!(texts(&store, &id("kept")), ["from before the backup"]);
            assert!(store.session(&id("gone")).unwrap().is_none(), "deleted is deleted");
            if said.is_empty() && store.session(&id("later")).unwrap().is_none() {
                assert!(!store.backups().is_empty(), "the former store is kept");
            }
        }
        _ => {}
    }
    assert_sound(&store);
    let is_empty = store.sessions(&SessionFilter::default()).unwrap().is_empty();
    store.close();
    if what == "delete" {
        if is_empty {
            let left = crate::delete_paths::bytes_found(folder, "zebrafish");
            assert!(left.is_empty(), "deleted words are still in {left:?}");
        }
        for name in said.iter().filter_map(|said| said.strip_prefix("doomed ")) {
            let left = crate::delete_paths::bytes_found(folder, &format!("{name} zebrafish"));
            assert!(left.is_empty(), "deleted text of {name} is still in {left:?}");
        }
    }
}

/// What was said is there once, in its place, and is found.
fn appended(store: &Store, what: &str, said: &str) {
    let (name, at) = said.split_once(' ').unwrap();
    let at: usize = at.parse().unwrap();
    let found = texts(store, &id(name));
    assert_eq!(found.get(at).unwrap(), &line(name, at));
    assert_eq!(found.iter().filter(|text| **text == line(name, at)).count(), 1);
    let phrase = format!("\"{}\"", line(name, at));
    let found = store.search(&SearchRequest::new(phrase)).unwrap();
    assert_eq!(found.results[0].session_id, name, "{said}");
    // Interrupted answers and nothing else are marked so.
    if what == "append" && at < 4 {
        let history = store.history(&id(name)).unwrap();
        let whole = |row: &Row| row.status == RowStatus::Complete;
        assert!(whole(&history.rows[at]), "{said}");
    }
}

/// What was deleted is gone; what was to be deleted goes by the same request, files included.
fn deleted(store: &Store, folder: &Path, said: &str) {
    let (state, name) = said.split_once(' ').unwrap();
    let outcome = store.delete_session(request(folder, name));
    match (state, outcome) {
        ("deleted", Ok(receipt)) => assert!(receipt.replayed, "{said}"),
        ("doomed", Ok(receipt)) => assert_eq!(receipt.removed[0].rows, 5, "{said}"),
        (_, Err(error)) => panic!("{said}: {error}"),
        (other, _) => panic!("{other}"),
    }
    assert!(!folder.join("sessions").join(format!("{name}.json")).exists(), "{said}");
    assert!(matches!(store.history(&id(name)), Err(StoreError::Deleted { .. })), "{said}");
    let phrase = format!("\"{}\"", line(name, 1));
    assert_eq!(store.search(&SearchRequest::new(phrase)).unwrap().count, 0, "{said}");
    let events = store.claim_events(Some(&id(name)), 9).unwrap();
    assert!(events.len() <= 1, "{said}: told at most once");
}
