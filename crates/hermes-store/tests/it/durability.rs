//! What happens to the file from outside: taken away, replaced, damaged, full.

use std::fs;
use std::sync::Arc;

use hermes_core::{Env, Role};
use hermes_store::{Committed, OpenMode, Record, SearchRequest, Store, StoreError, Unavailable};

use crate::damage::filled;
use crate::support::*;

pub fn row_record(writer: &mut hermes_store::SessionWriter, text: &str) -> Record {
    let seq = writer.next_seq();
    Record::Row(row(seq, Role::User, text))
}

#[cfg(unix)]
#[test]
fn a_store_deleted_under_a_running_process_is_put_back_and_nothing_is_lost() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "before");
    for suffix in ["", "-wal", "-shm"] {
        let _gone = fs::remove_file(format!("{}{suffix}", home.paths().db.display()));
    }
    let record = row_record(&mut writer, "while gone");
    let committed = writer.commit(vec![record]).unwrap();
    assert!(
        matches!(committed, Committed::Spooled { why: Unavailable::Deleted, first: true, .. }),
        "{committed:?}"
    );
    say(&mut writer, Role::User, "after");
    writer.release().unwrap();
    store.close();
    let store = home.store();
    assert_eq!(texts(&store, &id("a")), ["before", "while gone", "after"]);
    assert_sound(&store);
}

#[cfg(unix)]
fn delete_store(home: &Home) {
    for suffix in ["", "-wal", "-shm"] {
        let _gone = fs::remove_file(format!("{}{suffix}", home.paths().db.display()));
    }
}

#[cfg(unix)]
#[test]
fn a_store_deleted_before_the_first_write_of_a_process_is_put_back_too() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    delete_store(&home);
    let mut writer = create(&store, "new");
    let record = row_record(&mut writer, "said while it was gone");
    let _where = writer.commit(vec![record]).unwrap();
    assert_eq!(texts(&store, &id("a")).len(), 60);
    writer.release().unwrap();
    store.close();
    let store = home.store();
    assert_eq!(texts(&store, &id("a")).len(), 60);
    assert_eq!(texts(&store, &id("new")), ["said while it was gone"]);
    assert_sound(&store);
}

#[cfg(unix)]
#[test]
fn a_store_that_was_put_back_is_read_and_not_the_deleted_one() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "before");
    assert_eq!(texts(&store, &id("a")), ["before"]);
    delete_store(&home);
    for text in ["while gone", "after"] {
        let record = row_record(&mut writer, text);
        let _where = writer.commit(vec![record]).unwrap();
    }
    assert_eq!(texts(&store, &id("a")), ["before", "while gone", "after"]);
    drop(create(&home.store(), "of another process"));
    assert!(store.session(&id("of another process")).unwrap().is_some());
}

#[cfg(unix)]
#[test]
fn a_store_replaced_before_the_first_write_of_a_process_is_never_written() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    let other = Home::new();
    drop(create(&other.store(), "theirs"));
    delete_store(&home);
    fs::copy(other.paths().db, home.paths().db).unwrap();
    let theirs = fs::read(home.paths().db).unwrap();
    let mut writer = create(&store, "new");
    let record = row_record(&mut writer, "beside it");
    let committed = writer.commit(vec![record]).unwrap();
    let replaced = |why: &Unavailable| *why == Unavailable::Replaced;
    assert!(matches!(committed, Committed::Spooled { ref why, .. } if replaced(why)));
    assert_eq!(fs::read(home.paths().db).unwrap(), theirs, "the other file is not touched");
    assert!(home.dir.path().join("state.db.rescued-0").exists());
}

/// As a conversation does that gives its lease back after each turn.
#[cfg(unix)]
#[test]
fn a_session_in_memory_goes_on_whatever_becomes_of_the_file() {
    type Act = fn(&Home);
    let acts: [(&str, Act, Option<Unavailable>); 3] = [
        ("deleted", delete_store, None),
        (
            "emptied",
            |home| fs::File::create(home.paths().db).map(drop).unwrap(),
            Some(Unavailable::Damaged),
        ),
        (
            "cut",
            |home| {
                let file = fs::OpenOptions::new().write(true).open(home.paths().db).unwrap();
                file.set_len(8192).unwrap();
            },
            Some(Unavailable::Damaged),
        ),
    ];
    for (name, act, expected) in acts {
        let home = Home::new();
        let store = home.store();
        // All of it in the log, so that nothing but the length tells.
        let mut writer = create(&store, "a");
        for n in 0..30 {
            say(&mut writer, Role::User, &format!("before {n} {}", "x".repeat(4000)));
        }
        let mut seen = writer.last_seq();
        writer.release().unwrap();
        home.raw().execute_batch("PRAGMA wal_checkpoint(PASSIVE)").unwrap();
        let mut writer = store.open_session(&id("a")).unwrap();
        writer.renew().unwrap();
        writer.release().unwrap();
        act(&home);
        let mut told = Vec::new();
        for turn in 0..3 {
            let mut writer = store.open_known(&id("a"), seen).unwrap();
            assert_eq!(writer.last_seq(), seen, "{name}");
            let record = row_record(&mut writer, &format!("after {turn}"));
            match writer.commit(vec![record]).unwrap() {
                Committed::Spooled { why, .. } => told.push(why),
                Committed::Database => told.extend(writer.untold()),
            }
            seen = writer.last_seq();
            let _may_fail = writer.release();
        }
        if let Some(why) = expected {
            assert_eq!(told, vec![why; 3], "{name}");
        } else {
            assert_eq!(told, [Unavailable::Deleted], "{name}");
            assert_eq!(texts(&store, &id("a")).len(), 33, "{name}");
            assert_sound(&store);
        }
    }
}

/// A file that loses bytes under a process, however many: what is said goes beside it.
#[test]
fn a_store_cut_under_a_running_process_is_noticed_before_anything_is_written_to_it() {
    for left in [0, 8192] {
        let home = Home::new();
        filled(&home);
        let store = home.store();
        let mut writer = store.open_session(&id("a")).unwrap();
        say(&mut writer, Role::User, "before");
        let file = fs::OpenOptions::new().write(true).open(home.paths().db).unwrap();
        file.set_len(left).unwrap();
        for n in 0..3 {
            let record = row_record(&mut writer, &format!("after {n}"));
            let committed = writer.commit(vec![record]).unwrap();
            assert!(
                matches!(committed, Committed::Spooled { why: Unavailable::Damaged, first, .. } if first == (n == 0)),
                "{left}: {committed:?}"
            );
        }
        drop(writer);
        store.close();
        assert_eq!(files(&home.paths().spool_dir, "spool"), 1);
        let Err(error) = home.try_store() else { panic!("{left}: opened as if nothing was wrong") };
        assert!(error.to_string().contains("hermes sessions repair"), "{error}");
        let env: Arc<dyn Env> = home.env.clone();
        let store = Store::open_beside(home.paths(), env, Unavailable::Damaged).unwrap();
        let mut writer = create(&store, "new");
        let record = row_record(&mut writer, "said beside it");
        let _where = writer.commit(vec![record]).unwrap();
        assert_eq!(texts(&store, &id("new")), ["said beside it"]);
    }
}

#[cfg(unix)]
#[test]
fn a_log_removed_under_a_running_process_loses_nothing() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "before");
    say(&mut writer, Role::User, "more");
    fs::remove_file(format!("{}-wal", home.paths().db.display())).unwrap();
    let record = row_record(&mut writer, "while gone");
    let _where = writer.commit(vec![record]).unwrap();
    let record = row_record(&mut writer, "after");
    let _where = writer.commit(vec![record]).unwrap();
    drop(writer);
    store.close();
    let store = home.store();
    store.recover_all().unwrap();
    assert_eq!(texts(&store, &id("a")), ["before", "more", "while gone", "after"]);
    assert_sound(&store);
}

#[cfg(unix)]
#[test]
fn a_store_replaced_under_a_running_process_is_never_written_and_the_old_one_is_saved() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "mine");
    let other = Home::new();
    let their_store = other.store();
    drop(create(&their_store, "theirs"));
    their_store.close();
    for suffix in ["-wal", "-shm"] {
        let _gone = fs::remove_file(format!("{}{suffix}", home.paths().db.display()));
    }
    let incoming = home.dir.path().join("incoming");
    fs::copy(other.paths().db, &incoming).unwrap();
    fs::rename(&incoming, home.paths().db).unwrap();
    let theirs = fs::read(home.paths().db).unwrap();
    for n in 0..3 {
        let record = row_record(&mut writer, &format!("turn {n}"));
        let committed = writer.commit(vec![record]).unwrap();
        let expected = n == 0;
        assert!(
            matches!(committed, Committed::Spooled { why: Unavailable::Replaced, first, .. } if first == expected),
            "{committed:?}"
        );
    }
    assert_eq!(fs::read(home.paths().db).unwrap(), theirs, "the other file is not touched");
    drop(writer);
    drop(store);
    let saved = home.dir.path().join("state.db.rescued-0");
    let connection = rusqlite::Connection::open(saved).unwrap();
    let rows: i64 = connection.query_row("SELECT count(*) FROM row", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "what was open is saved");
    assert_eq!(files(&home.paths().spool_dir, "spool"), 1, "and the turns are in the side file");
}

#[test]
fn a_thousand_turns_into_a_full_store_lose_nothing_that_was_acknowledged() {
    let home = Home {
        options: hermes_store::StoreOptions { max_page_count: Some(120), ..Home::new().options },
        ..Home::new()
    };
    let store = home.store();
    let mut writer = create(&store, "a");
    let mut acknowledged = 0;
    let mut spooled = 0;
    for n in 0..1000 {
        let record = row_record(&mut writer, &format!("turn {n} {}", "x".repeat(300)));
        match writer.commit(vec![record]) {
            Ok(Committed::Database) => acknowledged += 1,
            Ok(Committed::Spooled { .. }) => {
                acknowledged += 1;
                spooled += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(spooled > 0, "the store was full at some point");
    drop(writer);
    store.close();
    let roomy = Home { options: Home::new().options, ..home };
    let store = roomy.store();
    store.recover_all().unwrap();
    let found = texts(&store, &id("a"));
    assert_eq!(found.len(), acknowledged);
    assert!(found.iter().enumerate().all(|(n, text)| text.starts_with(&format!("turn {n} "))));
    assert_sound(&store);
}

#[test]
fn a_store_opened_for_reading_is_not_written() {
    let home = Home::new();
    filled(&home);
    let before = fs::read(home.paths().db).unwrap();
    let env: Arc<dyn Env> = home.env.clone();
    let store = Store::open(home.paths(), env, OpenMode::ReadOnly).unwrap();
    assert_eq!(store.search(&SearchRequest::new("\"c line 20\"")).unwrap().count, 1);
    assert!(matches!(store.optimize(), Err(StoreError::ReadOnly)));
    store.close();
    assert_eq!(fs::read(home.paths().db).unwrap(), before);
}
