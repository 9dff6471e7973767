//! Rows that are committed and not in the search index yet.

use std::sync::Arc;

use hermes_core::{Cause, DeleteReason, Env, Op, Origin, Role, Seq, Standing};
use hermes_store::{DeleteRequest, OpenMode, Record, SearchRequest, Store};

use crate::support::*;

fn find(store: &Store, query: &str) -> Vec<String> {
    let answer = store.search(&SearchRequest::new(query)).unwrap();
    answer.results.iter().map(|result| result.session_id.clone()).collect()
}

fn documents(home: &Home) -> i64 {
    let count = "SELECT (SELECT count(*) FROM talk_index_docsize)
        + (SELECT count(*) FROM tool_index_docsize)";
    home.raw().query_row(count, [], |row| row.get(0)).unwrap()
}

/// Takes all rows out of the index again, as if the process had been killed before they came in.
fn unindex(home: &Home) {
    for table in ["talk_index", "tool_index"] {
        home.raw()
            .execute_batch(&format!(
                "DELETE FROM {table} WHERE rowid IN
                     (SELECT id FROM {table}_docsize WHERE id & 4294967295 > 0)"
            ))
            .unwrap();
    }
    let set = "UPDATE state_meta SET value = 0 WHERE key = 'indexed_through'";
    assert_eq!(home.raw().execute(set, []).unwrap(), 1);
}

fn filled(home: &Home) {
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "the lighthouse keeper asked");
    say(&mut writer, Role::Assistant, "an answer about deployments");
    let seq = writer.next_seq();
    let _c = writer.commit(vec![Record::Row(row(seq, Role::Tool, "exit code 17"))]).unwrap();
    writer.release().unwrap();
    let mut writer = create(&store, "b");
    say(&mut writer, Role::User, "quite another matter");
    writer.release().unwrap();
    store.close();
}

#[test]
fn what_a_killed_process_did_not_index_is_found_and_indexed_by_the_next() {
    let home = Home::new();
    filled(&home);
    assert_eq!(documents(&home), 4, "a store that is closed has everything in its index");
    unindex(&home);
    assert_eq!(documents(&home), 0);
    let env: Arc<dyn Env> = home.env.clone();
    let reader = Store::open(home.paths(), env, OpenMode::ReadOnly).unwrap();
    assert_eq!(find(&reader, "\"lighthouse keeper\""), ["a"]);
    assert_eq!(find(&reader, "deployment"), ["a"]);
    assert_eq!(find(&reader, "matter NOT keeper"), ["b"]);
    assert_eq!(find(&reader, "code"), [""; 0], "tool output is asked for");
    let mut request = SearchRequest::new("\"code 17\"");
    request.roles = vec![Role::Tool];
    assert_eq!(reader.search(&request).unwrap().count, 1);
    request.session = Some(id("a"));
    assert_eq!(reader.search(&request).unwrap().count, 1);
    request.session = Some(id("b"));
    assert_eq!(reader.search(&request).unwrap().count, 0);
    assert_eq!(reader.check().unwrap(), []);
    drop(reader);
    let store = home.store();
    store.open_session(&id("b")).unwrap().release().unwrap();
    store.close();
    assert_eq!(documents(&home), 4);
    let store = home.store();
    assert_eq!(find(&store, "deployment"), ["a"]);
    assert_sound(&store);
}

#[test]
fn a_row_is_found_as_soon_as_it_is_committed_even_while_the_index_cannot_be_written() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    for n in 0..40 {
        say(&mut writer, Role::User, &format!("number{n} of many"));
        assert_eq!(find(&store, &format!("number{n}")), ["a"], "{n}");
    }
    let _lock = home.lock_out();
    assert_eq!(find(&store, "number39"), ["a"]);
    assert_sound(&store);
}

#[test]
fn a_long_run_of_commits_is_indexed_on_the_way() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let mut commit = |rows: u64| {
        let mut record = || {
            let seq = writer.next_seq();
            Record::Row(row(seq, Role::User, &format!("line {seq}")))
        };
        let records = (0..rows).map(|_| record()).collect();
        let _c = writer.commit(records).unwrap();
    };
    for _ in 0..7 {
        commit(200);
    }
    // Twice as far behind as it may be, a commit does it before its own work.
    assert!(documents(&home) >= 400, "{}", documents(&home));
    commit(600);
    assert_eq!(documents(&home), 2000, "a large batch comes into the index at once");
    assert_sound(&store);
}

#[test]
fn rows_that_take_the_ids_of_deleted_ones_are_found_and_indexed() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    store.delete_session(DeleteRequest::new(vec![id("b")], DeleteReason::Delete)).unwrap();
    let mut writer = create(&store, "c");
    say(&mut writer, Role::User, "a matter of taste");
    assert_eq!(find(&store, "matter"), ["c"]);
    assert_sound(&store);
    writer.release().unwrap();
    store.close();
    assert_eq!(documents(&home), 4);
    let store = home.store();
    assert_eq!(find(&store, "matter"), ["c"]);
    assert_sound(&store);
}

#[test]
fn deleted_text_is_not_found_whether_it_was_indexed_or_not() {
    let home = Home::new();
    filled(&home);
    unindex(&home);
    let store = home.store();
    store.delete_session(DeleteRequest::new(vec![id("a")], DeleteReason::Delete)).unwrap();
    assert_eq!(find(&store, "lighthouse deployments"), [""; 0]);
    assert_eq!(find(&store, "matter"), ["b"]);
    assert_sound(&store);
    store.close();
    assert_eq!(documents(&home), 1);
}

#[test]
fn late_parts_and_summaries_are_indexed_once_wherever_their_row_stands() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let first = say(&mut writer, Role::User, "in the index");
    let second = say(&mut writer, Role::User, "there too");
    writer.release().unwrap();
    store.close();
    let store = home.store();
    let mut writer = store.open_session(&id("a")).unwrap();
    let third = say(&mut writer, Role::User, "still waiting");
    let mut late = |row: Seq, text: &str| {
        let seq = writer.next_seq();
        let _c = writer.commit(vec![Record::Part(part(seq, row, Origin::User, text))]).unwrap();
    };
    late(first, "albatross");
    late(third, "buzzard");
    let seq = writer.next_seq();
    let mut summary = row(seq, Role::User, "cormorants in sum");
    summary.standing = Standing::ByOp;
    summary.parts[0].origin = Origin::Summary;
    let cover = Op::Cover { from: first, to: second, by: seq };
    let _c = writer
        .commit(vec![Record::Row(summary), generation(1, Cause::Compaction, vec![cover])])
        .unwrap();
    let check = |store: &Store| {
        for word in ["albatross", "buzzard", "cormorants"] {
            assert_eq!(find(store, word), ["a"], "{word}");
        }
        assert_sound(store);
    };
    check(&store);
    writer.release().unwrap();
    store.close();
    check(&home.store());
}

#[test]
fn an_index_that_was_merged_after_a_search_is_not_called_damaged() {
    let home = Home::new();
    filled(&home);
    let store = home.store();
    let mut writer = create(&store, "c");
    say(&mut writer, Role::User, "a second run of the index");
    writer.release().unwrap();
    store.close();
    let store = home.store();
    // The reader that the check will use knows how the index is laid out now.
    assert_eq!(find(&store, "lighthouse"), ["a"]);
    home.raw().execute_batch("INSERT INTO talk_index(talk_index) VALUES ('optimize')").unwrap();
    assert_sound(&store);
    assert_eq!(find(&store, "lighthouse"), ["a"]);
}

/// Makes the index what a program with other tokens would have left.
fn make_old(home: &Home) {
    home.raw()
        .execute_batch(
            "CREATE TEMP TABLE had AS SELECT id FROM talk_index_docsize;
             DELETE FROM talk_index WHERE rowid IN (SELECT id FROM had);
             INSERT INTO talk_index (rowid, t, w) SELECT id, 'another', '' FROM had;
             DELETE FROM state_meta WHERE key = 'index_tokens';",
        )
        .unwrap();
}

fn is_renewed(home: &Home) -> bool {
    let sql = "SELECT count(*) FROM state_meta WHERE key = 'index_tokens'";
    home.raw().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap() == 1
}

#[test]
fn what_was_indexed_with_older_tokens_is_renewed_titles_and_all() {
    let home = Home::new();
    filled(&home);
    assert!(is_renewed(&home), "a new store has the tokens of the program that made it");
    let store = home.store();
    store.set_title(&id("b"), Some("Gardens"), hermes_store::TitleSource::User).unwrap();
    store.close();
    make_old(&home);
    let store = home.store();
    assert_eq!(find(&store, "lighthouse"), [""; 0]);
    assert_sound(&store);
    store.open_session(&id("b")).unwrap().release().unwrap();
    store.close();
    assert!(is_renewed(&home));
    assert_eq!(documents(&home), 5);
    let store = home.store();
    assert_eq!(find(&store, "lighthouse"), ["a"]);
    assert_eq!(find(&store, "gardens"), ["b"]);
    assert_sound(&store);
}

#[test]
fn a_large_index_is_renewed_in_steps_and_what_is_said_or_deleted_meanwhile_is_right() {
    let home = Home::new();
    let store = home.store();
    for name in ["a", "b"] {
        let mut writer = create(&store, name);
        let mut record = |n: i32| {
            let seq = writer.next_seq();
            Record::Row(row(seq, Role::User, &format!("{name}{n} of many")))
        };
        let records = (0..700).map(&mut record).collect();
        let _c = writer.commit(records).unwrap();
        writer.release().unwrap();
    }
    store.close();
    make_old(&home);
    let mut passes = 0;
    while !is_renewed(&home) {
        let store = home.store();
        let mut writer =
            if passes == 0 { create(&store, "c") } else { store.open_session(&id("c")).unwrap() };
        say(&mut writer, Role::User, &format!("meanwhile{passes}"));
        assert_eq!(find(&store, &format!("meanwhile{passes}")), ["c"]);
        if passes == 1 {
            let request = DeleteRequest::new(vec![id("a")], DeleteReason::Delete);
            store.delete_session(request).unwrap();
        }
        writer.release().unwrap();
        store.close();
        passes += 1;
        assert!(passes < 10, "it comes to an end");
    }
    let store = home.store();
    assert_eq!(find(&store, "\"a699 of many\""), [""; 0]);
    for n in [0, 699] {
        assert_eq!(find(&store, &format!("\"b{n} of many\"")), ["b"], "{n}");
    }
    assert_sound(&store);
    store.close();
    assert_eq!(documents(&home), 700 + passes);
}

/// Says, finds, checks and deletes, each thread in stores of its own, as several processes would.
#[test]
fn what_several_do_at_once_leaves_an_index_that_is_right_at_every_moment() {
    let rounds = std::env::var("HERMES_TAIL_ROUNDS").map_or(2, |n| n.parse().unwrap());
    let mut home = Home::new();
    home.options.busy_timeout = std::time::Duration::from_secs(20);
    home.options.busy_timeout_spooling = home.options.busy_timeout;
    drop(create(&home.store(), "first"));
    let home = &home;
    std::thread::scope(|scope| {
        for who in ["x", "y", "z"] {
            scope.spawn(move || {
                for round in 0..rounds {
                    let store = home.store();
                    let name = format!("{who}{round}");
                    let mut writer = create(&store, &name);
                    for n in 0..5 {
                        let word = format!("\"{who}word{round}n{n}\"");
                        say(&mut writer, Role::User, &format!("{word} was said"));
                        assert_eq!(find(&store, &word), [name.as_str()], "{word}");
                    }
                    writer.release().unwrap();
                    assert_sound(&store);
                    if round % 3 > 0 {
                        let request = DeleteRequest::new(vec![id(&name)], DeleteReason::Delete);
                        store.delete_session(request).unwrap();
                        let word = format!("\"{who}word{round}n3\"");
                        assert_eq!(find(&store, &word), [""; 0], "{word}");
                        assert_sound(&store);
                    }
                    if round % 2 > 0 {
                        store.close();
                    }
                }
            });
        }
    });
    assert_sound(&home.store());
}
