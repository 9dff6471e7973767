//! Branches.

use std::sync::Arc;

use hermes_core::{
    Cause, DeleteReason, Digest, GenerationNo, Op, Origin, Part, PartBody, Role, Seq, Standing,
    fold_view, slot,
};
use hermes_store::{DeleteRequest, ParentKind, Record, StoreError};

use crate::support::*;

#[test]
fn a_branch_shows_what_its_origin_showed_and_outlives_it() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    for text in ["1", "2", "3"] {
        say(&mut writer, Role::User, text);
    }
    let image: Arc<[u8]> = Arc::from([7_u8].as_slice());
    let digest = Digest::of(&image);
    let picture = Part {
        slot: slot::LATE,
        body: PartBody::Blob { digest, media_type: "image/png".into(), bytes: 1 },
        ..part(Seq(4), Seq(3), Origin::User, "")
    };
    let mut summary = row(Seq(5), Role::User, "sum");
    summary.standing = Standing::ByOp;
    let cover = Op::Cover { from: Seq(1), to: Seq(2), by: Seq(5) };
    let _c = writer
        .commit(vec![
            Record::Blob { media_type: "image/png".into(), bytes: image },
            Record::Part(picture),
            Record::Row(summary),
            generation(1, Cause::Compaction, vec![cover]),
        ])
        .unwrap();
    say(&mut writer, Role::User, "after");
    let view = |name: &str, g, cut| {
        let history = store.history(&id(name)).unwrap();
        fold_view(&history.rows, &history.generations, GenerationNo(g), Seq(cut)).unwrap()
    };
    let (newest, older) = (view("a", 1, 5), view("a", 0, 4));

    let mut copy = store.branch(&id("a"), GenerationNo(1), Seq(5), init("b")).unwrap();
    assert_eq!((copy.last_seq(), copy.next_seq()), (Seq(5), Seq(6)));
    let mut early = store.branch(&id("a"), GenerationNo(1), Seq(2), init("c")).unwrap();
    assert!(early.next_seq() > Seq(5), "a new row must not become the summary of an old operation");
    writer.release().unwrap();
    store.delete_session(DeleteRequest::new(vec![id("a")], DeleteReason::Delete)).unwrap();

    assert_eq!(view("b", 1, 5), newest);
    assert_eq!(view("b", 0, 4), older);
    assert_eq!(view("c", 1, 2), view("b", 0, 2));
    assert!(store.blob(&digest).unwrap().is_some());
    assert_eq!(&*store.snapshot(&id("b"), GenerationNo(1)).unwrap().text, PROMPT);
    let _c = copy.commit(vec![generation(2, Cause::Branch, vec![])]).unwrap();
    say(&mut copy, Role::User, "goes on");
    assert_eq!(store.session(&id("b")).unwrap().unwrap().message_count, 3);
    assert_sound(&store);
}

#[test]
fn a_branch_knows_its_origin_and_an_unknown_generation_is_an_error() {
    let home = Home::new();
    let store = home.store();
    let _held = create(&store, "a");
    let _copy = store.branch(&id("a"), GenerationNo(0), Seq(0), init("b")).unwrap();
    let parent = store.session(&id("b")).unwrap().unwrap().parent;
    assert_eq!(parent, Some((id("a"), ParentKind::Branch)));
    assert!(matches!(
        store.branch(&id("a"), GenerationNo(4), Seq(0), init("c")),
        Err(StoreError::NotFound { what: "generation", .. })
    ));
}
