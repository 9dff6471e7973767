//! Where a text is stored, in the database and in side files.

use hermes_core::{Cause, GenerationNo, Op, Origin, Role, Seq, Standing};
use hermes_store::{Committed, DeleteRequest, Record};

use crate::support::{Home, PROMPT, attempt, create, generation, id, part, row, say};

#[test]
fn a_text_is_found_in_prompts_rows_and_late_parts_until_its_session_is_deleted() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "one");
    let user = say(&mut writer, Role::User, "look for NEEDLE_% here");
    say(&mut writer, Role::Assistant, "nothing");
    let late = part(writer.next_seq(), user, Origin::Hint, "NEEDLE_% again");
    let _c = writer.commit(vec![Record::Part(late.clone())]).unwrap();
    let mut other = create(&store, "two");
    say(&mut other, Role::User, "needle_% in small letters");

    let found = store.rows_with("NEEDLE_%", 10).unwrap();
    assert_eq!((found.hits.len(), found.more), (1, 0));
    assert_eq!(found.hits[0].session, id("one"));
    assert_eq!(found.hits[0].parts, [user, late.seq]);
    assert_eq!(store.rows_with("nothing", 0).unwrap().more, 1, "counted beyond the limit");

    let texts = store.texts_with(PROMPT).unwrap();
    let sessions: Vec<_> = texts[0].generations.iter().map(|hit| hit.session.clone()).collect();
    assert_eq!((texts.len(), sessions), (1, vec![id("one"), id("two")]));
    assert!(texts[0].generations.iter().all(|hit| !hit.is_tools));

    writer.release().unwrap();
    let reason = hermes_core::DeleteReason::Delete;
    store.delete_session(DeleteRequest::new(vec![id("one")], reason)).unwrap();
    assert_eq!(store.rows_with("NEEDLE_%", 10).unwrap().hits.len(), 0);
}

#[test]
fn frame_and_carriers_say_what_requests_could_see() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "one");
    let first = say(&mut writer, Role::User, "covered");
    let mut summary = row(writer.next_seq(), Role::User, "summary");
    summary.standing = Standing::ByOp;
    let cover = Op::Cover { from: first, to: first, by: summary.seq };
    let sent = |name: &str, n: u32, cut: Seq| {
        Record::AttemptStarted(attempt(name, &id("one"), GenerationNo(n), cut))
    };
    let batch = vec![
        sent("r1", 0, first),
        Record::Row(summary.clone()),
        generation(1, Cause::Compaction, vec![cover]),
    ];
    let _c = writer.commit(batch).unwrap();
    let _c = writer.commit(vec![sent("r2", 1, summary.seq)]).unwrap();

    let frame = store.frame(&id("one")).unwrap();
    assert_eq!(frame.generations.len(), 2);
    let summaries: Vec<Seq> = frame.summaries.iter().map(|row| row.seq).collect();
    assert_eq!(summaries, [summary.seq]);
    let carriers = store.carriers(&id("one")).unwrap();
    let seen: Vec<_> = carriers.iter().map(|it| (it.generation.0, it.cut)).collect();
    assert_eq!(seen, [(0, first), (1, summary.seq)]);
}

#[test]
fn what_waits_in_a_side_file_is_found_too() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "one");
    let lock = home.lock_out();
    let seq = writer.next_seq();
    let waiting = Record::Row(row(seq, Role::User, "WAITING"));
    assert!(matches!(writer.commit(vec![waiting]).unwrap(), Committed::Spooled { .. }));
    let found = store.rows_with("WAITING", 10).unwrap();
    assert_eq!(found.hits.len(), 1);
    assert_eq!(store.frame(&id("one")).unwrap().generations.len(), 1);
    drop(lock);
}
