//! kill -9 at every named place in append, side file, delete, import, repair, migration and restore:
//! afterwards everything that was acknowledged holds, nothing is half there, and the store is sound.
//!
//! The test is its own child, as in `crash.rs`: it does the work until it comes to the place, says
//! so, and is killed there. Every place is visited once; with `HERMES_CRASH_KILLS` so many are, again
//! and again, at the first, second or third time that the work comes there (`HERMES_CRASH_SEED`).

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use hermes_core::{DeleteReason, Env, Role, Row, RowStatus, ScriptedEnv, Seq, Timestamp, TurnNo};
use hermes_store::{
    Committed, DeleteRequest, DraftKind, MoveRequest, OpenMode, Record, RecoveredOutcome,
    SearchRequest, SessionWriter, Store, StoreError, repair,
};

use crate::crash::{acknowledge, acknowledged, imported, old_store, prepare, setting};
use crate::support::*;

/// What is done, and the places that it comes to.
const WORKS: [(&str, &[&str]); 9] = [
    (
        "append",
        &[
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
    ),
    ("many rows", &["index: added"]),
    ("spool", &["spool: written", "spool: synced", "spool: taken in"]),
    (
        "delete",
        &[
            "delete: removed",
            "store: before a commit",
            "delete: committed",
            "delete: own files gone",
            "delete: all files gone",
            "scrub: index merged",
            "scrub: rewritten",
            "scrub: log cut",
        ],
    ),
    (
        "move",
        &[
            "move: session made",
            "move: taken in",
            "move: copied",
            "move: files copied",
            "delete: removed",
            "delete: committed",
            "delete: all files gone",
        ],
    ),
    ("import", &["import: session made", "import: records in", "store: after a commit"]),
    (
        "repair",
        &[
            "repair: table copied",
            "repair: copied",
            "repair: copy closed",
            "repair: original kept",
            "repair: log gone",
            "repair: in place",
        ],
    ),
    ("migrate", &["migrate: step", "migrate: before the commit", "migrate: committed"]),
    ("restore", &["restore: copied", "restore: former kept", "restore: in place"]),
];

const ROUNDS: usize = 3;

/// Does the work a few times.
fn work(what: &str, home: &Home) {
    let folder = home.dir.path();
    if what == "migrate" {
        home.store().close();
        return acknowledge(folder, "migrated");
    }
    if what == "repair" {
        let env: Arc<dyn Env> = home.env.clone();
        return drop(repair(&home.paths(), &env).unwrap());
    }
    for round in 0..ROUNDS {
        let store = home.store();
        let name = format!("{}-{round}", what.replace(' ', "-"));
        match what {
            "append" => append(&store, folder, &name),
            "many rows" => many_rows(&store, folder, &name),
            "spool" => spool(home, &store, folder, &name),
            "delete" => delete(&store, folder, &name),
            "move" => move_away(&store, home, &name),
            "import" => {
                store.import_session(&imported(&name)).unwrap();
                acknowledge(folder, &name);
            }
            _ => {
                let backup = home.dir.path().join("kept.db");
                store.restore(&backup).unwrap();
                acknowledge(folder, "restored");
            }
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

fn spool(home: &Home, store: &Store, folder: &Path, name: &str) {
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

fn begin(what: &str, home: &Home) {
    match what {
        // The place where the file is made is among those visited.
        "append" => {}
        "migrate" => fs::write(home.paths().db, old_store()).unwrap(),
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
        other => prepare(other, home),
    }
}

fn verify(what: &str, home: &Home) {
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
    for said in acknowledged(folder) {
        match what {
            "append" | "many rows" | "spool" => {
                let (name, at) = said.split_once(' ').unwrap();
                let at: usize = at.parse().unwrap();
                let found = texts(&store, &id(name));
                assert_eq!(found.get(at).unwrap(), &line(name, at));
                assert_eq!(found.iter().filter(|text| **text == line(name, at)).count(), 1);
                let phrase = format!("\"{}\"", line(name, at));
                let found = store.search(&SearchRequest::new(phrase)).unwrap();
                assert_eq!(found.results[0].session_id, name, "{said}");
            }
            "delete" => deleted(&store, folder, &said),
            "move" => was_moved(&store, home, &said),
            "import" => assert_eq!(store.history(&id(&said)).unwrap().rows.len(), 20, "{said}"),
            _ => {}
        }
    }
    match what {
        "migrate" => {
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
            if acknowledged(folder).is_empty() && store.session(&id("later")).unwrap().is_none() {
                assert!(!store.backups().is_empty(), "the former store is kept");
            }
        }
        _ => {}
    }
    // Interrupted answers and nothing else are marked so.
    if what == "append" {
        for round in 0..ROUNDS {
            let Ok(history) = store.history(&id(&format!("append-{round}"))) else { continue };
            let whole = |row: &&Row| row.status == RowStatus::Complete;
            assert!(history.rows.iter().take(4).all(|row| whole(&row)));
        }
    }
    assert_sound(&store);
    store.close();
    if what == "delete" {
        let left = crate::delete_paths::bytes_found(folder, "zebrafish");
        let doomed = acknowledged(folder).iter().any(|said| said.starts_with("doomed"));
        let unfinished = left.iter().any(|name| name != "acknowledged");
        assert!(!doomed || !unfinished, "deleted text is still in {left:?}");
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

const TEST: &str = "crash_points::a_process_killed_at_any_place_leaves_the_store_whole";

/// Whether the place was reached; the process that came there is dead.
fn kill_at(what: &str, point: &str, nth: u64, home: &Home) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env("HERMES_CRASH_WORK", what)
        .env("HERMES_CRASH_FOLDER", home.dir.path())
        .env("HERMES_STORE_POINT", format!("{point}:{nth}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let wanted = format!("at {point}");
    let reached = out.lines().map_while(Result::ok).any(|line| line.ends_with(&wanted));
    if reached {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(
        reached || output.status.success(),
        "{what}, {point}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    reached
}

#[cfg(unix)]
#[test]
fn a_process_killed_at_any_place_leaves_the_store_whole() {
    if let Some(what) = std::env::var_os("HERMES_CRASH_WORK") {
        let folder = PathBuf::from(std::env::var_os("HERMES_CRASH_FOLDER").unwrap());
        let home = Home::at(&folder, u64::from(std::process::id()));
        return work(&what.to_string_lossy(), &home);
    }
    let places: Vec<(&str, &str)> = WORKS
        .iter()
        .flat_map(|(what, points)| points.iter().map(move |point| (*what, *point)))
        .collect();
    let kills = setting("HERMES_CRASH_KILLS", places.len() as u64);
    let seed = setting("HERMES_CRASH_SEED", 20_261_130);
    println!("{} places, {kills} kills, seed {seed}", places.len());
    let chance = ScriptedEnv::new(Timestamp(0), 0, seed);
    let (mut tried, mut killed) = (0, 0);
    while killed < kills {
        let (what, point) = places[(tried % places.len() as u64) as usize];
        let mut random = [0; 1];
        chance.random(&mut random);
        let nth = if tried < places.len() as u64 { 1 } else { u64::from(random[0] % 3) + 1 };
        tried += 1;
        let home = Home::new();
        begin(what, &home);
        let reached = kill_at(what, point, nth, &home);
        assert!(reached || nth > 1, "{what} never comes to \"{point}\"");
        killed += u64::from(reached);
        println!("{what}: killed at \"{point}\" ({nth}): {reached}");
        verify(what, &home);
    }
    println!("{killed} kills");
}
