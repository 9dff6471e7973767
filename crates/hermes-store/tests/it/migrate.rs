//! Opening files of every age and origin.
//!
//! `tests/fixtures/vN.db.zst` is a small store frozen when version N was current. A new one is
//! made by running these tests once with `HERMES_FREEZE_STORE=1`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_core::{Env, GenerationNo, Role, Seq};
use hermes_store::{OpenMode, Record, Store, StoreError};
use rusqlite::Connection;

use crate::support::*;

fn fixture(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/v{version}.db.zst"))
}

fn current_version() -> u32 {
    let home = Home::new();
    drop(create(&home.store(), "a"));
    home.raw().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

fn fill(home: &Home) {
    let store = home.store();
    let mut writer = create(&store, "frozen");
    say(&mut writer, Role::User, "frozen question");
    let _c = writer
        .commit(vec![
            Record::Profile(hermes_core::WireProfile::default()),
            Record::AttemptStarted(attempt("r1", &id("frozen"), GenerationNo(0), Seq(1))),
            Record::AttemptEnded(end("r1", 1, 2)),
            Record::Row(row(Seq(2), Role::Assistant, "frozen answer")),
        ])
        .unwrap();
    writer.release().unwrap();
    store.close();
}

#[test]
fn a_store_of_every_older_version_opens_with_all_it_holds() {
    let current = current_version();
    if std::env::var_os("HERMES_FREEZE_STORE").is_some() {
        let home = Home::new();
        fill(&home);
        let bytes = fs::read(home.paths().db).unwrap();
        fs::write(fixture(current), zstd::encode_all(bytes.as_slice(), 19).unwrap()).unwrap();
    }
    for version in 1..=current {
        let packed = fs::read(fixture(version))
            .expect("a frozen store of each version; see the head of this file");
        let home = Home::new();
        fs::write(home.paths().db, zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
        let store = home.store();
        assert_eq!(texts(&store, &id("frozen")), ["frozen question", "frozen answer"]);
        assert_eq!(store.request("r1").unwrap().end, Some(end("r1", 1, 2)));
        let mut writer = store.open_session(&id("frozen")).unwrap();
        say(&mut writer, Role::User, "thawed");
        assert_sound(&store);
        let now: u32 =
            home.raw().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(now, current);
    }
}

#[test]
fn a_frozen_store_has_the_schema_that_this_version_makes() {
    let schema = |connection: &Connection| -> Vec<String> {
        let mut statement = connection
            .prepare("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name")
            .unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let home = Home::new();
    fill(&home);
    let fresh = schema(&home.raw());
    let packed = fs::read(fixture(current_version())).unwrap();
    fs::write(home.dir.path().join("old.db"), zstd::decode_all(packed.as_slice()).unwrap())
        .unwrap();
    let frozen = schema(&Connection::open(home.dir.path().join("old.db")).unwrap());
    assert_eq!(fresh, frozen, "a released step was changed, or the fixture is to be frozen anew");
}

fn open(home: &Home, mode: OpenMode) -> Result<Store, StoreError> {
    let env: Arc<dyn Env> = home.env.clone();
    Store::open(home.paths(), env, mode)
}

#[test]
fn files_that_are_not_ours_are_named_and_not_touched() {
    type Expect = fn(&StoreError) -> bool;
    let cases: [(&str, Expect); 4] = [
        (
            "CREATE TABLE schema_version (version INTEGER NOT NULL);
             CREATE TABLE sessions (id TEXT PRIMARY KEY);",
            |error| matches!(error, StoreError::PythonStore { .. }),
        ),
        ("CREATE TABLE recipes (name TEXT);", |error| matches!(error, StoreError::NotOurs { .. })),
        ("PRAGMA user_version = 3;", |error| matches!(error, StoreError::NotOurs { .. })),
        (
            "PRAGMA application_id = 1213353299; PRAGMA user_version = 999; CREATE TABLE x (y);",
            |error| matches!(error, StoreError::TooNew { found: 999, .. }),
        ),
    ];
    for (sql, expected) in cases {
        let home = Home::new();
        Connection::open(home.paths().db).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(home.paths().db).unwrap();
        for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
            let Err(error) = open(&home, mode) else { panic!("opened: {sql}") };
            assert!(expected(&error), "{sql}: {error:?}");
            assert!(error.to_string().contains("hint:"), "{error}");
        }
        assert_eq!(fs::read(home.paths().db).unwrap(), before, "{sql}");
    }
    let home = Home::new();
    fs::write(home.paths().db, "this is no database, but long enough to look at. ".repeat(40))
        .unwrap();
    assert!(matches!(open(&home, OpenMode::ReadWrite), Err(StoreError::NotOurs { .. })));
}

#[test]
fn an_empty_file_becomes_a_store() {
    let home = Home::new();
    fs::write(home.paths().db, "").unwrap();
    let store = open(&home, OpenMode::ReadWrite).unwrap();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    assert_eq!(texts(&store, &id("a")), ["one"]);
}
