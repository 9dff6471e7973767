//! The first moments of a store: killed, raced, and read by other programs.

use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;

use hermes_core::Role;
use hermes_store::SessionFilter;
use rusqlite::Connection;

use crate::support::{Home, create, say};

/// What a process leaves that was killed in the middle of a transaction which had reached the file:
/// the file and its hot journal. `before` ran and was committed, `inside` was not.
fn leave_hot_journal(home: &Home, before: &str, inside: &str) {
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("state.db");
    let connection = Connection::open(&path).unwrap();
    let begin = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA cache_size = 1;";
    connection.execute_batch(&format!("{begin} {before} BEGIN; {inside}")).unwrap();
    for _ in 0..200 {
        connection.execute("INSERT INTO t VALUES (zeroblob(3000))", []).unwrap();
    }
    for suffix in ["", "-journal"] {
        let from = other.path().join(format!("state.db{suffix}"));
        std::fs::copy(from, home.dir.path().join(format!("state.db{suffix}"))).unwrap();
    }
}

#[test]
fn a_home_whose_first_start_was_killed_starts() {
    let home = Home::new();
    // The file has its first page, and the journal says that it was empty before.
    leave_hot_journal(&home, "", "CREATE TABLE t (x);");
    let file = std::fs::OpenOptions::new().write(true).open(home.paths().db).unwrap();
    file.set_len(4096).unwrap();
    let store = home.store();
    drop(create(&store, "a"));
    assert_eq!(store.sessions(&SessionFilter::default()).unwrap().len(), 1);
}

#[test]
fn a_foreign_database_with_a_hot_journal_is_left_as_it_is() {
    let home = Home::new();
    leave_hot_journal(&home, "CREATE TABLE t (x);", "");
    let before = std::fs::read(home.paths().db).unwrap();
    assert!(home.try_store().is_err());
    assert_eq!(std::fs::read(home.paths().db).unwrap(), before);
    assert!(home.dir.path().join("state.db-journal").exists());
}

#[test]
fn many_first_starts_at_once_all_find_a_store() {
    for _ in 0..20 {
        let mut home = Home::new();
        home.options.busy_timeout = Duration::from_secs(2);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for at in 0..4 {
                let (home, start) = (&home, &start);
                scope.spawn(move || {
                    start.wait();
                    let store = home.try_store().unwrap();
                    drop(create(&store, &format!("session-{at}")));
                });
            }
        });
        assert_eq!(home.store().sessions(&SessionFilter::default()).unwrap().len(), 4);
    }
}

#[test]
fn the_views_can_be_read_by_the_sqlite_that_python_has() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    say(&mut writer, Role::Assistant, "two");
    let script = "import sqlite3, sys\n\
                  c = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
                  rows = c.execute('select role, content, tool_calls, reasoning, api_content, \
                  active, compacted from messages').fetchall()\n\
                  print(len(rows), c.execute('select count(*) from sessions_resolved').fetchone()[0])";
    let Ok(output) = Command::new("python3").args(["-c", script]).arg(home.paths().db).output()
    else {
        println!("python3 is not here; nothing was checked");
        return;
    };
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(out.trim() == "2 1", "{out}");
}
