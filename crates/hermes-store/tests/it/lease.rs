//! One holder a session.

use std::time::Duration;

use hermes_core::{Role, Seq};
use hermes_store::{Record, StoreError};

use crate::support::*;

#[test]
fn a_second_holder_is_refused_with_a_name_and_reading_goes_on() {
    let home = Home::new();
    let (first, second) = (home.store(), home.store());
    let mut writer = create(&first, "a");
    say(&mut writer, Role::User, "one");
    for store in [&first, &second] {
        let Err(error) = store.open_session(&id("a")) else { panic!("held twice") };
        let text = error.to_string();
        assert!(matches!(error, StoreError::Held { .. }), "{text}");
        assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        assert!(text.contains("hint:"), "{text}");
    }
    assert_eq!(texts(&second, &id("a")), ["one"]);
    let mut out = Vec::new();
    second.export_jsonl(&id("a"), &mut out).unwrap();
    assert!(out.ends_with(b"}\n"));
}

#[test]
fn a_lease_that_was_given_back_is_free_at_once() {
    let home = Home::new();
    let (first, second) = (home.store(), home.store());
    create(&first, "a").release().unwrap();
    let writer = second.open_session(&id("a")).unwrap();
    drop(writer);
    // The same store: the release waits in the writer's queue before the next opening.
    let mut writer = second.open_session(&id("a")).unwrap();
    say(&mut writer, Role::User, "one");
    drop(writer);
    second.close();
    first.open_session(&id("a")).unwrap().release().unwrap();
}

#[test]
fn the_lease_of_a_dead_process_is_taken_over_at_once() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    writer.release().unwrap();
    home.kill_holder(&id("a"));
    let mut writer = store.open_session(&id("a")).unwrap();
    say(&mut writer, Role::User, "two");
    let lock = home.paths().drafts_dir.join("holder-dead.lock");
    assert!(lock.exists(), "it still tells of the death of whoever held other sessions");
    store.recover_all().unwrap();
    assert!(!lock.exists());
}

#[test]
fn a_holder_that_cannot_be_seen_keeps_its_lease_until_it_runs_out() {
    let home = Home::new();
    let store = home.store();
    create(&store, "a").release().unwrap();
    let expires = START.plus_millis(60_000);
    home.raw()
        .execute(
            "UPDATE lease SET token = 'elsewhere', host = 'other', pid = 9, since = 0, expires = ?1",
            [expires.0],
        )
        .unwrap();
    let Err(StoreError::Held { by, .. }) = store.open_session(&id("a")) else { panic!("not held") };
    assert_eq!(by.host, "other");
    home.env.advance_millis(61_000);
    store.open_session(&id("a")).unwrap();
}

#[test]
fn a_holder_that_was_replaced_can_store_nothing_more() {
    let home = Home::new();
    let (first, second) = (home.store(), home.store());
    let mut old = create(&first, "a");
    say(&mut old, Role::User, "one");
    home.kill_holder(&id("a"));
    let mut new = second.open_session(&id("a")).unwrap();
    let error =
        old.commit(vec![Record::Row(row(Seq(2), Role::User, "from the dead"))]).unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    assert!(matches!(old.renew(), Err(StoreError::Fenced { .. })));
    drop(old);
    say(&mut new, Role::User, "two");
    assert_eq!(texts(&second, &id("a")), ["one", "two"]);
    assert!(matches!(first.open_session(&id("a")), Err(StoreError::Held { .. })));
}

#[test]
fn commits_and_renewals_keep_a_lease_fresh() {
    let mut home = Home::new();
    home.options.lease_ttl = Duration::from_secs(30);
    let store = home.store();
    let mut writer = create(&store, "a");
    let expires = || -> i64 {
        home.raw().query_row("SELECT expires FROM lease", [], |row| row.get(0)).unwrap()
    };
    let first = expires();
    say(&mut writer, Role::User, "at once");
    assert_eq!(expires(), first, "a fresh lease costs no write");
    home.env.advance_millis(15_000);
    say(&mut writer, Role::User, "later");
    let second = expires();
    assert!(second >= first + 15_000_000);
    home.env.advance_millis(15_000);
    writer.renew().unwrap();
    assert!(expires() >= second + 15_000_000);
}

/// A lease whose giving back failed: the store was full, or somebody held its lock for too long.
fn locked_at_its_end(home: &Home, store: &hermes_store::Store) {
    let mut writer = create(store, "a");
    say(&mut writer, Role::User, "one");
    let lock = home.lock_out();
    writer.release().unwrap();
    drop(lock);
}

#[test]
fn a_lease_that_could_not_be_given_back_ends_with_its_process() {
    let home = Home::new();
    let (first, second) = (home.store(), home.store());
    let mut writer = create(&first, "a");
    say(&mut writer, Role::User, "one");
    let lock = home.lock_out();
    drop(writer);
    // The process ends while the store is still locked.
    first.close();
    drop(lock);
    let mut writer = second.open_session(&id("a")).unwrap();
    say(&mut writer, Role::User, "two");
    assert_eq!(texts(&second, &id("a")), ["one", "two"]);
    drop(writer);
    assert_eq!(
        files(&home.paths().drafts_dir, "lock"),
        2,
        "the proof of its end, and the second's"
    );
    second.recover_all().unwrap();
    assert_eq!(files(&home.paths().drafts_dir, "lock"), 1);
}

#[test]
fn a_lease_that_could_not_be_given_back_goes_with_a_later_write_of_its_process() {
    let home = Home::new();
    let (first, second) = (home.store(), home.store());
    locked_at_its_end(&home, &first);
    assert!(matches!(second.open_session(&id("a")), Err(StoreError::Held { .. })));
    // It is given back when nothing was written for a moment.
    drop(create(&first, "b"));
    let free = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        second.open_session(&id("a")).is_ok()
    });
    assert!(free, "still in use");
}

#[test]
fn the_same_process_takes_up_again_what_it_could_not_give_back() {
    let home = Home::new();
    let store = home.store();
    locked_at_its_end(&home, &store);
    let mut writer = store.open_session(&id("a")).unwrap();
    say(&mut writer, Role::User, "two");
    drop(create(&store, "b"));
    std::thread::sleep(Duration::from_millis(400));
    say(&mut writer, Role::User, "three");
    assert_eq!(texts(&store, &id("a")), ["one", "two", "three"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_holder_of_this_machine_that_is_no_process_any_more_holds_nothing() {
    let home = Home::new();
    let store = home.store();
    create(&store, "a").release().unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let taken = |pid: u32| {
        let changed = home.raw().execute(
            "UPDATE lease SET token = 'unseen', host = ?1, pid = ?2, since = 0,
                 expires = 9000000000000000",
            (host.trim(), pid),
        );
        assert_eq!(changed.unwrap(), 1);
    };
    taken(std::process::id());
    assert!(matches!(store.open_session(&id("a")), Err(StoreError::Held { .. })));
    taken(u32::MAX - 1);
    store.open_session(&id("a")).unwrap().release().unwrap();
}
