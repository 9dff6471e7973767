//! What is damaged is found, repaired on a copy or restored from a backup, and never begun anew.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use hermes_core::{Env, Role};
use hermes_store::{OpenMode, Record, SearchRequest, Store, StoreError, repair};

use crate::durability::row_record;
use crate::support::*;

/// Four sessions of 60 messages; made once.
pub fn filled(home: &Home) {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let home = Home::new();
        fill(&home);
        fs::read(home.paths().db).unwrap()
    });
    fs::write(home.paths().db, bytes).unwrap();
}

fn fill(home: &Home) {
    let store = home.store();
    for name in ["a", "b", "c", "d"] {
        let mut writer = create(&store, name);
        for n in 0..60 {
            let seq = writer.next_seq();
            let text = format!("{name} line {n} {}", "word ".repeat(60));
            let _c = writer.commit(vec![Record::Row(row(seq, Role::User, &text))]).unwrap();
        }
        writer.release().unwrap();
    }
    store.optimize().unwrap();
    store.close();
}

/// Writes rubbish over the pages in which a text stands.
fn damage(home: &Home, needle: &str) {
    let path = home.paths().db;
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    let at = bytes.windows(needle.len()).position(|window| window == needle.as_bytes()).unwrap();
    file.seek(SeekFrom::Start((at / 4096 * 4096) as u64)).unwrap();
    file.write_all(&[0xa5; 4096]).unwrap();
}

#[test]
fn a_damaged_page_costs_what_was_on_it_and_the_original_is_kept() {
    let home = Home::new();
    filled(&home);
    damage(&home, "b line 20 ");
    let damaged = fs::read(home.paths().db).unwrap();
    assert!(
        !home
            .store()
            .check()
            .map_or(vec![String::new()], |found| {
                found.into_iter().map(|finding| finding.what).collect()
            })
            .is_empty()
    );
    let env: Arc<dyn Env> = home.env.clone();
    let report = repair(&home.paths(), &env).unwrap();
    assert_eq!(report.left, [], "{report:?}");
    assert!(!report.index_only && !report.found.is_empty());
    assert_eq!(fs::read(report.kept.unwrap()).unwrap(), damaged, "the original is as it was");
    let store = home.store();
    for name in ["a", "c", "d"] {
        assert_eq!(store.history(&id(name)).unwrap().rows.len(), 60, "{name}");
        assert_eq!(texts(&store, &id(name))[59], format!("{name} line 59 {}", "word ".repeat(60)));
    }
    let kept = texts(&store, &id("b")).iter().filter(|text| !text.is_empty()).count();
    assert!((40..60).contains(&kept), "{kept} of 60 are left");
    let mut writer = store.open_session(&id("b")).unwrap();
    say(&mut writer, Role::User, "goes on");
    assert_sound(&store);
    let again = repair(&home.paths(), &env);
    assert!(again.is_ok_and(|report| report.found.is_empty()), "nothing is left to repair");
}

/// Two sessions with a few messages, and the page of a table that fits on one.
fn small(home: &Home) -> impl Fn(&str) -> usize {
    let store = home.store();
    for name in ["a", "b"] {
        let mut writer = create(&store, name);
        say(&mut writer, Role::User, &format!("question of {name}"));
        say(&mut writer, Role::Assistant, &format!("answer to {name}"));
        say(&mut writer, Role::User, &format!("thanks from {name}"));
        let records = vec![Record::AttemptStarted(attempt(
            &format!("r-{name}"),
            &id(name),
            hermes_core::GenerationNo(0),
            hermes_core::Seq(1),
        ))];
        let _where = writer.commit(records).unwrap();
        writer.release().unwrap();
    }
    drop(create(&store, "later"));
    store.optimize().unwrap();
    store.close();
    let schema = home.raw();
    move |table| {
        schema
            .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| {
                row.get::<_, u32>(0)
            })
            .unwrap() as usize
    }
}

fn damage_page(home: &Home, page: usize) {
    let mut bytes = fs::read(home.paths().db).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xa5);
    fs::write(home.paths().db, bytes).unwrap();
}

#[test]
fn what_was_said_survives_the_loss_of_the_page_that_names_it() {
    for (table, made) in [("sessions", "sessions"), ("row", "row"), ("gen", "gen")] {
        let home = Home::new();
        let page = small(&home)(table);
        damage_page(&home, page);
        let env: Arc<dyn Env> = home.env.clone();
        let report = repair(&home.paths(), &env).unwrap();
        assert_eq!(report.left, [], "{table}: {report:?}");
        assert!(report.made_anew[made] > 0, "{table}: {report:?}");
        let store = home.store();
        for name in ["a", "b"] {
            assert_eq!(
                texts(&store, &id(name)),
                [
                    format!("question of {name}"),
                    format!("answer to {name}"),
                    format!("thanks from {name}"),
                ],
                "{table}"
            );
            let roles: Vec<Role> =
                store.history(&id(name)).unwrap().rows.iter().map(|row| row.role).collect();
            assert_eq!(roles, [Role::User, Role::Assistant, Role::User], "{table}");
            let mut writer = store.open_session(&id(name)).unwrap();
            say(&mut writer, Role::User, "goes on");
        }
        let found = store.search(&SearchRequest::new("question")).unwrap();
        assert_eq!(found.results.len(), 2, "{table}");
        assert_sound(&store);
    }
}

#[test]
fn what_a_repair_cannot_save_is_told_once_and_another_repair_copies_nothing() {
    for table in ["text", "wire_profile", "request"] {
        let home = Home::new();
        let page = small(&home)(table);
        damage_page(&home, page);
        let env: Arc<dyn Env> = home.env.clone();
        let report = repair(&home.paths(), &env).unwrap();
        assert_eq!(report.left, [], "{table}: {report:?}");
        assert!(!report.unreadable.is_empty(), "{table}: {report:?}");
        assert_eq!(report.lost.is_empty(), table == "request", "{table}: {report:?}");
        let store = home.store();
        assert_eq!(store.lost().unwrap(), report.lost, "{table}");
        assert_sound(&store);
        store.close();
        let again = repair(&home.paths(), &env).unwrap();
        assert!(again.found.is_empty() && again.kept.is_none(), "{table}: {again:?}");
        let leftover = |name: &str| home.dir.path().join(name).exists();
        assert!(!leftover("state.repairing-wal") && !leftover("state.repairing-shm"), "{table}");
    }
}

#[test]
fn a_fault_that_no_copy_mends_is_left_alone_and_told_each_time() {
    let home = Home::new();
    let _page = small(&home);
    home.raw().execute_batch("DELETE FROM text WHERE body = '[]';").unwrap_err();
    home.raw()
        .execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM text_use; DELETE FROM text;")
        .unwrap();
    let env: Arc<dyn Env> = home.env.clone();
    for _ in 0..2 {
        let report = repair(&home.paths(), &env).unwrap();
        assert!(report.kept.is_none() && !report.left.is_empty(), "{report:?}");
        assert_eq!(report.found, report.left);
    }
}

/// Page after page, `HERMES_DAMAGE_STEP` apart: told, repaired as far as it goes, never worse.
#[test]
fn any_page_can_be_lost_and_the_store_comes_back_or_is_left_as_it_is() {
    let step = std::env::var("HERMES_DAMAGE_STEP").ok().and_then(|step| step.parse().ok());
    let whole = Home::new();
    filled(&whole);
    let whole = fs::read(whole.paths().db).unwrap();
    for page in (1..=whole.len() / 4096).step_by(step.unwrap_or(11)) {
        let home = Home::new();
        fs::write(home.paths().db, &whole).unwrap();
        damage_page(&home, page);
        let env: Arc<dyn Env> = home.env.clone();
        assert!(!hermes_store::check_at(&home.paths(), &env).unwrap().is_empty(), "page {page}");
        let damaged = fs::read(home.paths().db).unwrap();
        match repair(&home.paths(), &env) {
            Ok(report) => {
                assert_eq!(report.left, [], "page {page}: {report:?}");
                let store = home.store();
                let kept: usize =
                    ["a", "b", "c", "d"].map(|name| texts(&store, &id(name)).len()).iter().sum();
                assert!(kept >= 225, "page {page}: {kept} of 240 messages are left");
                assert_sound(&store);
            }
            Err(error) => {
                assert!(error.to_string().contains("hint:"), "page {page}: {error}");
                assert_eq!(fs::read(home.paths().db).unwrap(), damaged, "page {page}");
            }
        }
    }
}

#[test]
fn a_damaged_search_index_costs_no_turn_and_is_told_in_the_conversation() {
    let home = Home::new();
    let page = small(&home)("talk_index_data");
    damage_page(&home, page);
    let store = home.store();
    let mut writer = store.open_session(&id("a")).unwrap();
    let told = (0..400).find_map(|n| {
        say(&mut writer, Role::User, &format!("remark {n}"));
        std::thread::sleep(std::time::Duration::from_millis(25 * (n % 8)));
        writer.untold()
    });
    assert_eq!(told, Some(hermes_store::Unavailable::Damaged));
    let Err(error) = store.search(&SearchRequest::new("question")) else { panic!("searched") };
    assert!(error.to_string().contains("hermes sessions repair"), "{error}");
    drop(writer);
    store.close();
    let env: Arc<dyn Env> = home.env.clone();
    let report = repair(&home.paths(), &env).unwrap();
    assert_eq!(report.left, [], "{report:?}");
    let store = home.store();
    assert!(store.search(&SearchRequest::new("remark")).unwrap().count > 0);
    assert_sound(&store);
}

#[test]
fn a_damaged_search_index_is_made_anew_in_place() {
    let home = Home::new();
    filled(&home);
    home.raw().execute_batch("DELETE FROM talk_index_data WHERE id > 10;").unwrap();
    let env: Arc<dyn Env> = home.env.clone();
    let report = repair(&home.paths(), &env).unwrap();
    assert!(report.index_only && report.kept.is_none(), "{report:?}");
    let store = home.store();
    assert_eq!(
        store.search(&SearchRequest::new("\"c line 20\"")).unwrap().results[0].session_id,
        "c"
    );
    assert_sound(&store);
}

type Damage = fn(&mut Vec<u8>);

/// What a disk, or a person, does to a file of a store.
const DAMAGES: [(&str, Damage); 6] = [
    ("emptied", |bytes| bytes.clear()),
    ("first page rubbish", |bytes| bytes[..4096].fill(0xa5)),
    ("schema rubbish", |bytes| bytes[100..4096].fill(0xa5)),
    ("cut in half", |bytes| bytes.truncate(bytes.len() / 8192 * 4096)),
    ("cut inside a page", |bytes| bytes.truncate(bytes.len() / 2 + 1000)),
    ("all zeros", |bytes| bytes.fill(0)),
];

/// Damages the file of a store of which there is a backup.
fn damaged_with_backup(home: &Home, how: Damage) -> std::path::PathBuf {
    filled(home);
    let store = home.store();
    let backup = store.backup(None).unwrap();
    let request =
        hermes_store::DeleteRequest::new(vec![id("a")], hermes_core::DeleteReason::Delete);
    store.delete_session(request).unwrap();
    store.scrub().unwrap();
    store.close();
    let mut bytes = fs::read(home.paths().db).unwrap();
    how(&mut bytes);
    fs::write(home.paths().db, bytes).unwrap();
    backup
}

#[test]
fn a_damaged_file_is_found_refused_and_never_begun_anew() {
    for (name, how) in DAMAGES {
        let home = Home::new();
        damaged_with_backup(&home, how);
        let damaged = fs::read(home.paths().db).unwrap();
        let env: Arc<dyn Env> = home.env.clone();
        let found = hermes_store::check_at(&home.paths(), &env).unwrap();
        assert!(!found.is_empty(), "{name}");
        assert!(found.iter().all(|finding| !finding.what.contains("hint:")), "{name}: {found:?}");
        if let Ok(store) = home.try_store() {
            assert!(store.check().is_ok_and(|found| !found.is_empty()), "{name}");
        }
        let kept = match repair(&home.paths(), &env) {
            Ok(report) => report.kept.unwrap(),
            Err(_) => home.paths().db,
        };
        assert_eq!(fs::read(kept).unwrap(), damaged, "{name}");
        assert!(!home.dir.path().join("state.repairing").exists(), "{name}");
    }
}

#[test]
fn a_backup_takes_the_place_of_a_store_that_cannot_be_read_any_more() {
    for (name, how) in DAMAGES {
        let home = Home::new();
        let backup = damaged_with_backup(&home, how);
        let damaged = fs::read(home.paths().db).unwrap();
        let env: Arc<dyn Env> = home.env.clone();
        let restored = hermes_store::restore(&home.paths(), &env, &backup).unwrap();
        assert_eq!(fs::read(restored.kept.unwrap()).unwrap(), damaged, "{name}: it is kept");
        assert!(restored.deletions_unknown, "{name}");
        let store = home.store();
        assert_eq!(store.history(&id("b")).unwrap().rows.len(), 60, "{name}");
        let mut writer = store.open_session(&id("b")).unwrap();
        say(&mut writer, Role::User, "goes on");
        assert_sound(&store);
        let mode: String =
            home.raw().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal", "{name}");
    }
}

#[test]
fn a_store_damaged_in_part_is_restored_without_what_was_deleted_since() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    let backup = store.backup(None).unwrap();
    let request =
        hermes_store::DeleteRequest::new(vec![id("a")], hermes_core::DeleteReason::Delete);
    store.delete_session(request).unwrap();
    store.scrub().unwrap();
    store.close();
    damage(&home, "c line 20 ");
    let Err(error) = home.store().backup(None) else { panic!("a damaged store was backed up") };
    assert!(error.to_string().contains("hint:"), "{error}");
    assert_eq!(
        home.store().backups(),
        std::slice::from_ref(&backup),
        "no damaged copy among the backups"
    );
    let env: Arc<dyn Env> = home.env.clone();
    let restored = hermes_store::restore(&home.paths(), &env, &backup).unwrap();
    assert!(!restored.deletions_unknown);
    let store = home.store();
    assert!(store.session(&id("a")).unwrap().is_none(), "deleted is deleted");
    assert_eq!(store.history(&id("c")).unwrap().rows.len(), 60);
    assert_sound(&store);
}

#[test]
fn what_is_no_sound_store_is_not_restored() {
    let home = Home::new();
    filled(&home);
    let env: Arc<dyn Env> = home.env.clone();
    let file = home.dir.path().join("from.db");
    let mut half = fs::read(home.paths().db).unwrap();
    half.truncate(40_960);
    let mut bad = fs::read(home.paths().db).unwrap();
    let middle = bad.len() / 8192 * 4096;
    bad[middle..middle + 8192].fill(0xa5);
    for bytes in [Vec::new(), vec![7; 8192], vec![0; 8192], b"hello".to_vec(), half, bad] {
        fs::write(&file, &bytes).unwrap();
        let Err(error) = hermes_store::restore(&home.paths(), &env, &file) else {
            panic!("restored from {} bytes", bytes.len())
        };
        assert!(error.to_string().contains("hint:"), "{error}");
        assert_eq!(home.store().history(&id("b")).unwrap().rows.len(), 60);
    }
    let nowhere = hermes_store::restore(&home.paths(), &env, &home.dir.path().join("nowhere"));
    assert!(nowhere.is_err_and(|error| error.to_string().contains("nowhere")));
    assert!(!home.dir.path().join("state.restoring").exists());
}

#[test]
fn a_backup_is_made_while_others_write_without_end() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    let writing = home.store();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let backup = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = create(&writing, "busy");
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let record = row_record(&mut writer, "again");
                let _where = writer.commit(vec![record]).unwrap();
            }
        });
        let [.., backup] = [(); 3].map(|()| store.backup(None).unwrap());
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        backup
    });
    let env: Arc<dyn Env> = home.env.clone();
    let of_backup = hermes_store::StorePaths { db: backup, ..home.paths() };
    let store = Store::open(of_backup, env, OpenMode::ReadOnly).unwrap();
    assert_eq!(store.history(&id("d")).unwrap().rows.len(), 60);
    assert_sound(&store);
}

#[test]
fn a_store_of_which_nothing_can_be_read_is_left_as_it_is() {
    let home = Home::new();
    filled(&home);
    let mut bytes = fs::read(home.paths().db).unwrap();
    bytes[100..4096].fill(0xa5);
    fs::write(home.paths().db, &bytes).unwrap();
    let env: Arc<dyn Env> = home.env.clone();
    let error = repair(&home.paths(), &env).unwrap_err();
    assert!(error.to_string().contains("hint:"), "{error}");
    assert_eq!(fs::read(home.paths().db).unwrap(), bytes);
    assert!(!home.dir.path().join("state.repairing").exists());
}

#[test]
fn a_backup_is_restored_without_what_was_deleted_since() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    let backup = store.backup(None).unwrap();
    drop(create(&store, "late"));
    let delete = |name: &str| {
        let mut request =
            hermes_store::DeleteRequest::new(vec![id(name)], hermes_core::DeleteReason::Prune);
        request.request_id = Some(format!("delete {name}"));
        store.delete_session(request)
    };
    delete("a").unwrap();
    let told = store.claim_events(None, 9).unwrap();
    assert_eq!(told.len(), 1);
    store.event_delivered(told[0].no).unwrap();
    let receipt = delete("late").unwrap();
    let mut writer = store.open_session(&id("b")).unwrap();
    say(&mut writer, Role::User, "after the backup");
    let busy = store.restore(&backup);
    assert!(matches!(busy, Err(StoreError::Refused { .. })), "in use");
    writer.release().unwrap();
    let former = store.restore(&backup).unwrap().unwrap();
    assert!(former.exists());
    assert_eq!(store.history(&id("b")).unwrap().rows.len(), 60);
    assert!(store.session(&id("a")).unwrap().is_none(), "what was deleted stays deleted");
    // What was told is not told again, what was not is, and a repetition has its receipt.
    let told = store.claim_events(None, 9).unwrap();
    assert_eq!(told.len(), 1);
    let of = |event: &hermes_core::OutboxEvent| match event {
        hermes_core::OutboxEvent::OnSessionDelete(event) => event.session_id.clone(),
        other @ hermes_core::OutboxEvent::PostCompaction(_) => panic!("{other:?}"),
    };
    assert_eq!(of(&told[0].event), id("late"));
    assert_eq!(delete("late").unwrap().deleted_at, receipt.deleted_at);
    assert!(delete("a").unwrap().replayed);
    assert!(matches!(store.history(&id("late")), Err(StoreError::Deleted { .. })));
    drop(create(&store, "new"));
    assert_eq!(store.history(&id("c")).unwrap().rows.len(), 60);
    assert_sound(&store);
    fs::write(home.dir.path().join("bad.db"), vec![7; 8192]).unwrap();
    assert!(store.restore(&home.dir.path().join("bad.db")).is_err());
    assert_eq!(store.history(&id("b")).unwrap().rows.len(), 60);
}

#[test]
fn a_backup_made_while_a_session_was_in_use_is_restored_without_it_if_it_was_deleted() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    let writer = store.open_session(&id("a")).unwrap();
    let backup = store.backup(None).unwrap();
    writer.release().unwrap();
    store
        .delete_session(hermes_store::DeleteRequest::new(
            vec![id("a")],
            hermes_core::DeleteReason::Delete,
        ))
        .unwrap();
    store.restore(&backup).unwrap();
    assert!(store.session(&id("a")).unwrap().is_none());
    assert_eq!(store.history(&id("b")).unwrap().rows.len(), 60);
    assert_sound(&store);
}

#[test]
fn with_derived_removes_copies_in_backups_too() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    let backup = store.backup(None).unwrap();
    let mut request =
        hermes_store::DeleteRequest::new(vec![id("a")], hermes_core::DeleteReason::Delete);
    request.dry_run = true;
    let plan = store.delete_session(request.clone()).unwrap();
    assert_eq!(plan.remaining[0].kind, "backup");
    request.dry_run = false;
    request.with_derived = true;
    assert_eq!(store.delete_session(request).unwrap().remaining, []);
    let bytes = fs::read(&backup).unwrap();
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(!has(b"a line 20 ") && has(b"b line 20 "));
}
