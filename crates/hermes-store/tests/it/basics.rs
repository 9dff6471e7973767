//! Storing and reading back.

use std::sync::Arc;

use hermes_core::{
    Block, ByteRange, Cause, Digest, GenerationNo, Op, OpRef, Origin, PartBody, Refresh, Role,
    RowStatus, Seq, Source, Standing, Tier, Timestamp, Tokens, ToolLink, Verdict, WireProfile,
    slot,
};
use hermes_store::{
    Committed, Ended, OpenMode, ParentKind, Record, SessionFilter, SessionPatch, Store, StoreError,
    TitleSource,
};

use crate::support::*;

#[test]
fn every_kind_of_record_comes_back_as_it_was_stored() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let image: Arc<[u8]> = Arc::from([0_u8, 1, 2, 255].as_slice());
    let digest = Digest::of(&image);
    let mut asked = row(Seq(1), Role::User, "look \0 at \u{1f600}");
    asked.parts.push(hermes_core::Part {
        seq: Seq(2),
        slot: slot::ATTACHMENT,
        label: Some("shot.png".into()),
        body: PartBody::Blob { digest, media_type: "image/png".into(), bytes: 4 },
        ..part(Seq(2), Seq(1), Origin::User, "")
    });
    let mut called = row(Seq(3), Role::Assistant, "I look.");
    called.finish_reason = Some("tool_calls".into());
    for (seq, slot, body) in [
        (
            4,
            slot::REASONING,
            PartBody::Reasoning { field: "reasoning_content".into(), text: "hm".into() },
        ),
        (
            5,
            slot::CALLS,
            PartBody::ToolCall {
                id: "call_1".into(),
                name: "read_file".into(),
                arguments: r#"{"b":1e5,"a":12345678901234567890}"#.into(),
            },
        ),
        (6, 160, PartBody::Raw { field: "reasoning_details".into(), json: "[ 1.0 ]".into() }),
    ] {
        called.parts.push(hermes_core::Part {
            slot,
            body,
            ..part(Seq(seq), Seq(3), Origin::Model, "")
        });
    }
    called.sort_parts();
    let mut answer = row(Seq(7), Role::Tool, "no such file");
    answer.status = RowStatus::Failed;
    answer.tool = Some(ToolLink { call_id: "call_1".into(), name: "read_file".into() });
    let block = Block {
        id: "identity".to_owned(),
        tier: Tier::Stable,
        source: Source::Config { key: "agent.identity".to_owned() },
        source_digest: Digest::of("x"),
        rendered_digest: Digest::of("x"),
        range: ByteRange { start: 0, end: 3 },
        tokens: Tokens::estimated(1),
        loaded_at: Timestamp(5),
        verdict: Verdict::Loaded,
        refresh: Refresh::NextSession,
    };
    let batch = vec![
        Record::Blob { media_type: "image/png".into(), bytes: image.clone() },
        Record::Profile(WireProfile::default()),
        Record::Row(asked.clone()),
        Record::Row(called.clone()),
        Record::Row(answer.clone()),
        Record::Manifest { generation: GenerationNo(0), blocks: vec![block.clone()] },
    ];
    assert_eq!(writer.commit(batch).unwrap(), Committed::Database);
    assert_eq!(writer.last_seq(), Seq(7));

    let history = store.history(&id("a")).unwrap();
    assert_eq!(history.rows, vec![asked, called, answer]);
    assert_eq!(history.head, Some(GenerationNo(0)));
    assert_eq!(store.blob(&digest).unwrap(), Some(image));
    assert_eq!(store.blob(&Digest::of("other")).unwrap(), None);
    assert_eq!(
        store.wire_profile(&WireProfile::default().digest()).unwrap(),
        Some(WireProfile::default())
    );
    let snapshot = store.snapshot(&id("a"), GenerationNo(0)).unwrap();
    assert_eq!((&*snapshot.text, snapshot.blocks), (PROMPT, vec![block]));
    let info = store.session(&id("a")).unwrap().unwrap();
    assert_eq!((info.message_count, info.tool_call_count), (3, 1));
    assert_eq!(info.last_activity_at, at(Seq(7)));
    assert_eq!((info.git_root.as_deref(), info.started_at), (Some("/work/project"), START));
    assert_sound(&store);
}

#[test]
fn the_newest_generation_with_the_same_prompt_lends_its_manifest() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let blocks = Record::Manifest { generation: GenerationNo(0), blocks: vec![] };
    let _c = writer.commit(vec![blocks, generation(1, Cause::Refresh, vec![])]).unwrap();
    assert_eq!(&*store.snapshot(&id("a"), GenerationNo(1)).unwrap().text, PROMPT);
    assert!(matches!(
        store.snapshot(&id("a"), GenerationNo(9)),
        Err(StoreError::NotFound { what: "generation", .. })
    ));
}

/// B022: each flush wrote all messages again, and counts doubled.
#[test]
fn b022_a_batch_that_is_stored_again_changes_nothing() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let mut all = Vec::new();
    for turn in 0..3 {
        let (asked, said) = (writer.next_seq(), writer.next_seq());
        all.push(Record::Row(row(asked, Role::User, &format!("question {turn}"))));
        all.push(Record::Row(row(said, Role::Assistant, &format!("answer {turn}"))));
        let request = format!("r{turn}");
        all.push(Record::AttemptStarted(attempt(&request, &id("a"), GenerationNo(0), asked)));
        all.push(Record::AttemptEnded(end(&request, 10, 3)));
        assert_eq!(writer.commit(all.clone()).unwrap(), Committed::Database);
    }
    assert_eq!(writer.commit(all).unwrap(), Committed::Database);
    let info = store.session(&id("a")).unwrap().unwrap();
    assert_eq!(info.message_count, 6);
    assert_eq!((info.usage.input, info.usage.output, info.api_calls), (Some(30), Some(9), 3));
    let rows: i64 = home.raw().query_row("SELECT count(*) FROM row", [], |r| r.get(0)).unwrap();
    assert_eq!(rows, 6);
}

/// B024: a resumed one-shot call started a new session.
#[test]
fn b024_a_session_that_is_opened_again_goes_on_where_it_was() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    say(&mut writer, Role::Assistant, "two");
    writer.release().unwrap();
    store.close();

    let store = home.store();
    let found = store.resolve("a", None).unwrap();
    let mut writer = store.open_session(&found).unwrap();
    assert_eq!(writer.last_seq(), Seq(2));
    say(&mut writer, Role::User, "three");
    assert_eq!(texts(&store, &id("a")), ["one", "two", "three"]);
    let info = store.session(&id("a")).unwrap().unwrap();
    assert_eq!((info.model.as_str(), info.provider.as_str()), ("scripted", "rehearsal"));
    assert_eq!(store.sessions(&SessionFilter::default()).unwrap().len(), 1);
}

#[test]
fn records_that_contradict_the_store_are_refused_and_nothing_of_their_batch_is_kept() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let missing = Digest::of("missing");
    let blob = hermes_core::Part {
        body: PartBody::Blob { digest: missing, media_type: "image/png".into(), bytes: 1 },
        ..part(Seq(8), Seq(1), Origin::User, "")
    };
    let cover = Op::Cover { from: Seq(1), to: Seq(1), by: Seq(9) };
    let other_session = attempt("r9", &id("b"), GenerationNo(0), Seq(1));
    for (wrong, why) in [
        (Record::Row(row(Seq(1), Role::User, "another one")), "another part 1"),
        (Record::Row(row(Seq(1), Role::Assistant, "one")), "another"),
        (Record::Part(part(Seq(8), Seq(7), Origin::Hook, "late")), "names row 7"),
        (Record::Part(blob), "blob"),
        (generation(1, Cause::Compaction, vec![cover]), "summary row 9"),
        (generation(3, Cause::Compaction, vec![]), "generation 2"),
        (Record::AttemptEnded(end("r404", 1, 1)), "r404"),
        (Record::AttemptStarted(other_session), "session b"),
        (Record::Row(row(Seq(0), Role::User, "zero")), "seq 0"),
        (Record::Row(row(Seq(1 << 32), Role::User, "high")), "seq 4294967296"),
    ] {
        let kept_out = Record::Row(row(Seq(5), Role::User, "beside it"));
        let error = writer.commit(vec![kept_out, wrong]).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error} lacks {why}");
    }
    assert_eq!(texts(&store, &id("a")), ["one"]);
    assert_sound(&store);
}

#[test]
fn flags_and_counts_follow_compaction_rewind_and_undo() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    for text in ["1", "2", "3", "4"] {
        say(&mut writer, Role::User, text);
    }
    let mut summary = row(Seq(5), Role::User, "sum of 1 and 2");
    summary.standing = Standing::ByOp;
    let cover = Op::Cover { from: Seq(1), to: Seq(2), by: Seq(5) };
    let _c = writer
        .commit(vec![Record::Row(summary), generation(1, Cause::Compaction, vec![cover])])
        .unwrap();
    let shown = || -> Vec<String> {
        let raw = home.raw();
        let mut statement = raw
            .prepare(
                "SELECT content || ' ' || active || compacted || _compressed_summary
                 FROM messages WHERE session_id = 'a' ORDER BY id",
            )
            .unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let count = || store.session(&id("a")).unwrap().unwrap().message_count;
    assert_eq!(shown(), ["1 010", "2 010", "sum of 1 and 2 101", "3 100", "4 100"]);
    assert_eq!(count(), 3);
    let hide = Op::Hide { from: Seq(4), to: Seq(4) };
    let _c = writer.commit(vec![generation(2, Cause::Rewind, vec![hide])]).unwrap();
    assert_eq!(shown(), ["1 010", "2 010", "sum of 1 and 2 101", "3 100", "4 000"]);
    let revoke = Op::Revoke { target: OpRef { generation: GenerationNo(1), index: 0 } };
    let _c = writer.commit(vec![generation(3, Cause::UndoCompaction, vec![revoke])]).unwrap();
    assert_eq!(shown(), ["1 100", "2 100", "sum of 1 and 2 001", "3 100", "4 000"]);
    assert_eq!(count(), 3);
    assert_sound(&store);
}

#[test]
fn the_latest_session_is_one_with_a_message_that_a_person_was_in() {
    let home = Home::new();
    let store = home.store();
    let start = |name: &str, source: &str, days: i64| {
        let mut init = init(name);
        source.clone_into(&mut init.source);
        init.started_at = START.plus_millis(days * 86_400_000);
        store.create_session(init, opening()).unwrap()
    };
    drop(start("only", "cli", 0));
    assert!(matches!(store.resolve("latest", None), Err(StoreError::NotFound { .. })));
    say(&mut start("talk", "cli", 1), Role::User, "hello");
    say(&mut start("scheduled", "cron", 2), Role::User, "do it");
    drop(start("empty", "cli", 3));
    assert_eq!(store.resolve("latest", None).unwrap(), id("talk"));
    let all = store.sessions(&SessionFilter::default()).unwrap();
    assert_eq!(all.len(), 4, "lists have them");
}

#[test]
fn a_session_that_was_compacted_into_others_goes_on_in_the_last_that_holds_something() {
    let home = Home::new();
    let store = home.store();
    let start = |name: &str, parent: &str, kind: ParentKind| {
        let mut init = init(name);
        init.parent = Some((id(parent), kind));
        store.create_session(init, opening()).unwrap()
    };
    let compacted = || SessionPatch {
        ended: Some(Ended { at: START, reason: "compression".to_owned() }),
        ..SessionPatch::default()
    };
    let mut root = create(&store, "root");
    say(&mut root, Role::User, "hello");
    assert_eq!(store.tip(&id("root")).unwrap(), id("root"));
    let mut second = start("second", "root", ParentKind::Compaction);
    say(&mut second, Role::User, "on");
    let _c = second.commit(vec![Record::Patch(compacted())]).unwrap();
    say(
        &mut start("stray", "root", ParentKind::Compaction),
        Role::User,
        "newer, and no part of it",
    );
    say(&mut start("third", "second", ParentKind::Compaction), Role::User, "and on");
    drop(start("empty", "third", ParentKind::Compaction));
    say(&mut start("branch", "third", ParentKind::Branch), Role::User, "elsewhere");
    for name in ["root", "second", "third"] {
        assert_eq!(store.tip(&id(name)).unwrap(), id("third"), "{name}");
    }
    assert_eq!(store.tip(&id("branch")).unwrap(), id("branch"));
    // A circle, which another program may have left, ends.
    home.raw()
        .execute_batch(
            "UPDATE sessions SET parent_session_id = 'third', parent_kind = 'compaction'
             WHERE id = 'root';",
        )
        .unwrap();
    assert!(store.tip(&id("root")).is_ok());
}

#[test]
fn sessions_are_found_by_id_prefix_title_and_latest() {
    let home = Home::new();
    let store = home.store();
    for (name, root) in [("20260101_a", "/x"), ("20260102_b", "/y"), ("20260202_c", "/x")] {
        let mut init = init(name);
        init.git_root = Some(root.to_owned());
        init.title = Some("Fix the build".to_owned());
        init.started_at = START.plus_millis(i64::from(name.as_bytes()[9]));
        let mut writer = store.create_session(init, opening()).unwrap();
        say(&mut writer, Role::User, "hello");
    }
    let resolve = |reference: &str, workspace| match store.resolve(reference, workspace) {
        Ok(id) => id.to_string(),
        Err(StoreError::Ambiguous { candidates, .. }) => format!("one of {candidates:?}"),
        Err(StoreError::NotFound { .. }) => "none".to_owned(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(resolve("20260102_b", None), "20260102_b");
    assert_eq!(resolve("202602", None), "20260202_c");
    assert_eq!(resolve("202601", None), r#"one of ["20260101_a", "20260102_b"]"#);
    assert_eq!(resolve("Fix the build", None), "20260101_a");
    assert_eq!(resolve("Fix the build #3", None), "20260202_c");
    assert_eq!(resolve("latest", None), "20260202_c");
    assert_eq!(resolve("latest", Some("/y")), "20260102_b");
    assert_eq!(resolve("latest", Some("/nowhere")), "none");
    let elsewhere = store.resolve("latest", Some("/nowhere")).unwrap_err().to_string();
    assert!(elsewhere.contains("/nowhere") && elsewhere.contains("20260202_c"), "{elsewhere}");
    assert_eq!(resolve("fix THE build", None), "20260101_a");
    assert_eq!(resolve(" Fix  the build\u{200b}", None), "20260101_a");
    assert_eq!(resolve("", None), "none");
    assert_eq!(resolve("x%", None), "none");
    let only = SessionFilter { workspace: Some("/x".to_owned()), ..SessionFilter::default() };
    let listed: Vec<String> =
        store.sessions(&only).unwrap().iter().map(|info| info.id.to_string()).collect();
    assert_eq!(listed, ["20260202_c", "20260101_a"]);
}

#[test]
fn titles_are_unique_and_a_lower_rank_never_replaces_a_higher_one() {
    let home = Home::new();
    let store = home.store();
    drop(create(&store, "a"));
    let mut other = create(&store, "b");
    let (a, b) = (id("a"), id("b"));
    let title = |id, title: &str, source| store.set_title(id, Some(title), source);
    assert_eq!(title(&a, " my\ntitle ", TitleSource::Llm).unwrap().as_deref(), Some("my title"));
    assert_eq!(title(&a, "worse", TitleSource::Derived).unwrap().as_deref(), Some("my title"));
    let error = title(&b, "my title", TitleSource::User).unwrap_err();
    assert!(matches!(&error, StoreError::TitleTaken { holder, .. } if *holder == a), "{error}");
    let patch = SessionPatch { title: Some("my title".to_owned()), ..SessionPatch::default() };
    let _c = other.commit(vec![Record::Patch(patch)]).unwrap();
    assert_eq!(store.session(&b).unwrap().unwrap().title.as_deref(), Some("my title #2"));
    assert_eq!(store.set_title(&a, None, TitleSource::User).unwrap(), None);
}

#[test]
fn the_first_reason_of_an_end_wins_and_a_reopened_session_is_open() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let mut patch = |patch: SessionPatch| {
        let _c = writer.commit(vec![Record::Patch(patch)]).unwrap();
        store.session(&id("a")).unwrap().unwrap()
    };
    let ended = |reason: &str, at| SessionPatch {
        ended: Some(Ended { at: Timestamp(at), reason: reason.to_owned() }),
        ..SessionPatch::default()
    };
    patch(ended("handoff", 1_000_000));
    let info = patch(ended("cli_close", 2_000_000));
    assert_eq!(info.end_reason.as_deref(), Some("handoff"));
    assert_eq!(info.ended_at, Some(Timestamp(1_000_000)));
    let info = patch(SessionPatch {
        reopened: true,
        model: Some("other".to_owned()),
        compactions: Some(2),
        ..SessionPatch::default()
    });
    assert_eq!((info.ended_at, info.model.as_str(), info.compactions), (None, "other", 2));
}

#[test]
fn a_store_that_does_not_exist_reads_as_empty_and_is_made_by_the_first_write() {
    let home = Home::new();
    let env: Arc<dyn hermes_core::Env> = home.env.clone();
    let reader = Store::open(home.paths(), env, OpenMode::ReadOnly).unwrap();
    assert_eq!(reader.sessions(&SessionFilter::default()).unwrap(), vec![]);
    assert!(matches!(reader.history(&id("a")), Err(StoreError::NotFound { .. })));
    assert!(!home.paths().db.exists());
    assert!(matches!(reader.create_session(init("a"), opening()), Err(StoreError::ReadOnly)));
    let store = home.store();
    assert!(!home.paths().db.exists());
    drop(create(&store, "a"));
    assert_eq!(reader.sessions(&SessionFilter::default()).unwrap().len(), 1);
    assert!(matches!(store.create_session(init("a"), opening()), Err(StoreError::Refused { .. })));
}

#[cfg(unix)]
#[test]
fn only_its_owner_can_read_the_store() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let store = home.store();
    let _writer = create(&store, "a");
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let mode = home.dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} is {mode:o}");
    }
}
