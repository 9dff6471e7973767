//! Drafts: what was shown is there after a crash.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use hermes_core::{Origin, PartBody, Role, RowStatus, Seq, TurnNo};
use hermes_store::{DraftKind, Record, RecoveredOutcome};

use crate::support::*;

#[test]
fn a_left_over_draft_becomes_an_interrupted_answer() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let mut draft = writer.draft(TurnNo(1)).unwrap();
    assert_eq!(draft.row(), Seq(2));
    for (kind, text) in [
        (DraftKind::Reasoning, "let me "),
        (DraftKind::Reasoning, "think"),
        (DraftKind::Text, "part one \u{1f600}"),
        (DraftKind::Text, ""),
        (DraftKind::Text, " and"),
    ] {
        draft.append(kind, text).unwrap();
    }
    drop(draft);
    writer.release().unwrap();

    let writer = store.open_session(&id("a")).unwrap();
    let history = store.history(&id("a")).unwrap();
    let answer = &history.rows[1];
    assert_eq!(
        (answer.seq, answer.role, answer.status),
        (Seq(2), Role::Assistant, RowStatus::Interrupted)
    );
    let bodies: Vec<&PartBody> = answer.parts.iter().map(|part| &part.body).collect();
    assert_eq!(
        bodies,
        [
            &PartBody::Reasoning { field: "reasoning_content".into(), text: "let me think".into() },
            &PartBody::text("part one \u{1f600} and"),
        ]
    );
    assert!(answer.parts.iter().all(|part| part.origin == Origin::Model));
    assert_eq!(writer.last_seq(), Seq(3));
    assert_eq!(files(&home.paths().drafts_dir, "draft"), 0);
    assert_sound(&store);
}

#[test]
fn a_draft_whose_row_is_committed_is_gone_and_never_becomes_a_second_answer() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let mut draft = writer.draft(TurnNo(1)).unwrap();
    draft.append(DraftKind::Text, "whole answer").unwrap();
    let path = draft.path().to_owned();
    let left = fs::read(&path).unwrap();
    let _c = writer
        .commit(vec![Record::Row(row(draft.row(), Role::Assistant, "whole answer"))])
        .unwrap();
    assert!(!path.exists());
    draft.discard().unwrap();
    writer.release().unwrap();
    // As if the process had been killed between the commit and the removal of the draft.
    fs::write(&path, left).unwrap();
    store.open_session(&id("a")).unwrap().release().unwrap();
    assert_eq!(texts(&store, &id("a")), ["whole answer"]);
    assert!(!path.exists());
}

#[test]
fn a_draft_in_which_nothing_was_shown_leaves_no_row() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    drop(writer.draft(TurnNo(1)).unwrap());
    writer.release().unwrap();
    store.open_session(&id("a")).unwrap().release().unwrap();
    assert_eq!(texts(&store, &id("a")), ["one"]);
    assert_eq!(files(&home.paths().drafts_dir, "draft"), 0);
}

#[test]
fn a_torn_draft_counts_as_far_as_it_goes() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    let mut draft = writer.draft(TurnNo(1)).unwrap();
    draft.append(DraftKind::Text, "ab").unwrap();
    draft.append(DraftKind::Text, "c\u{1f600}").unwrap();
    let path = draft.path().to_owned();
    let whole = fs::read(&path).unwrap();
    writer.release().unwrap();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // One byte less each time: "c" goes with its piece's head, the emoji as soon as it is cut.
    for (cut, expected) in [(0, "abc\u{1f600}"), (1, "abc"), (4, "abc"), (5, "ab"), (10, "ab")] {
        let home = Home::new();
        let store = home.store();
        create(&store, "a").release().unwrap();
        let name = path.file_name().unwrap();
        fs::write(home.paths().drafts_dir.join(name), &whole[..whole.len() - cut]).unwrap();
        store.open_session(&id("a")).unwrap();
        assert_eq!(texts(&store, &id("a")), [expected], "{cut} bytes less");
    }
    for length in 0..line {
        fs::write(&path, &whole[..length]).unwrap();
        store.open_session(&id("a")).unwrap().release().unwrap();
        assert_eq!(texts(&store, &id("a")).len(), 0, "{length} bytes");
    }
}

#[test]
fn an_old_draft_never_comes_to_stand_before_what_a_request_saw() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let mut draft = writer.draft(TurnNo(1)).unwrap();
    draft.append(DraftKind::Text, "left behind").unwrap();
    drop(draft);
    say(&mut writer, Role::User, "two");
    writer.release().unwrap();
    store.open_session(&id("a")).unwrap();
    assert_eq!(texts(&store, &id("a")), ["one", "two", "left behind"]);
    let last = store.history(&id("a")).unwrap().rows.last().unwrap().seq;
    assert_eq!(last, Seq(4));
}

#[test]
fn a_draft_left_while_the_database_is_locked_goes_to_the_side_file() {
    let home = Home::new();
    let store = home.store();
    let mut writer = create(&store, "a");
    say(&mut writer, Role::User, "one");
    let mut draft = writer.draft(TurnNo(1)).unwrap();
    draft.append(DraftKind::Text, "shown").unwrap();
    writer.release().unwrap();
    let lock = home.lock_out();
    let mut writer = store.open_session(&id("a")).unwrap();
    assert_eq!(texts(&store, &id("a")), ["one", "shown"]);
    drop(lock);
    say(&mut writer, Role::User, "three");
    assert_eq!(texts(&store, &id("a")), ["one", "shown", "three"]);
    assert_eq!(files(&home.paths().drafts_dir, "draft"), 0);
}

/// B031: killed after the receipt of M1, in mid-stream of M2, after the delivery of M3.
#[test]
fn b031_what_a_killed_process_acknowledged_and_showed_is_in_the_store() {
    const CHILD: &str = "HERMES_STORE_TEST_CHILD";
    let points = ["after_receipt", "mid_stream", "after_delivery"];
    if let Ok(task) = std::env::var(CHILD) {
        let (point, folder) = task.split_once('=').unwrap();
        live_until_killed(point, folder);
    }
    let home = Home::new();
    for point in points {
        let task = format!("{point}={}", home.dir.path().display());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["draft::b031", "--nocapture", "--test-threads=1"])
            .env(CHILD, task)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready to be killed")), "{point}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let store = home.store();
    let found = store.recover_all().unwrap();
    assert!(
        found.iter().all(|recovered| matches!(recovered.outcome, RecoveredOutcome::TakenIn { .. }))
    );
    // The process that was killed last still has its lease; it is free all the same.
    let writer = store.open_session(&id("a")).unwrap();
    assert_eq!(texts(&store, &id("a")), ["M1", "M2", "part one ", "M3", "whole answer"]);
    let history = store.history(&id("a")).unwrap();
    let statuses: Vec<RowStatus> = history.rows.iter().map(|row| row.status).collect();
    assert_eq!(statuses[2], RowStatus::Interrupted);
    assert!(
        statuses
            .iter()
            .enumerate()
            .all(|(at, status)| { at == 2 || *status == RowStatus::Complete })
    );
    let times: Vec<_> = history.rows.iter().map(|row| row.created_at).collect();
    assert_eq!(times[0], at(Seq(1)));
    assert_sound(&store);
    drop(writer);
}

fn live_until_killed(point: &str, folder: &str) -> ! {
    let mut home = Home::new();
    home.dir = Folder::Own(tempfile::Builder::new().disable_cleanup(true).tempdir().unwrap());
    let paths = hermes_store::StorePaths {
        db: format!("{folder}/state.db").into(),
        spool_dir: format!("{folder}/spool").into(),
        drafts_dir: format!("{folder}/drafts").into(),
    };
    let env: std::sync::Arc<dyn hermes_core::Env> = home.env.clone();
    let store = hermes_store::Store::open(paths, env, hermes_store::OpenMode::ReadWrite).unwrap();
    let mut writer = match store.session(&id("a")).unwrap() {
        Some(_) => store.open_session(&id("a")).unwrap(),
        None => create(&store, "a"),
    };
    match point {
        "after_receipt" => {
            say(&mut writer, Role::User, "M1");
        }
        "mid_stream" => {
            say(&mut writer, Role::User, "M2");
            let mut draft = writer.draft(TurnNo(2)).unwrap();
            draft.append(DraftKind::Text, "part one ").unwrap();
            std::mem::forget(draft);
        }
        _ => {
            say(&mut writer, Role::User, "M3");
            say(&mut writer, Role::Assistant, "whole answer");
        }
    }
    println!("ready to be killed");
    loop {
        std::thread::park();
    }
}
