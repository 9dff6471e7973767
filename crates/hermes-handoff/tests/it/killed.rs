//! A process that builds and delivers is killed at any point; what it leaves holds together.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use hermes_core::{Env, Origin, ScriptedEnv};
use hermes_handoff::{Handoffs, Start};
use hermes_store::{CapsuleState, SessionFilter, Store};

use crate::delivery::first_turn;
use crate::support::*;

const FOLDER: &str = "HERMES_HANDOFF_TEST_FOLDER";
const ROUND: &str = "HERMES_HANDOFF_TEST_ROUND";

/// What the killed process does: it talks, builds, delivers, and says so after each step.
#[test]
fn the_process_that_is_killed_goes_on_until_then() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let folder = std::path::PathBuf::from(folder);
    let store = World::at(&folder, round);
    let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(START, 1000, round + 1_000));
    let handoffs = Handoffs::new(store.clone(), folder.join("handoffs"), env);
    let say = |what: &str| {
        let mut out = std::io::stdout();
        writeln!(out, "{what}").unwrap();
        out.flush().unwrap();
    };
    for turn in 0..10_000 {
        let session = talked(&store, &format!("old-{round}-{turn}"), &TALK);
        say("step: talked");
        assert!(built(&handoffs, &session, &saying(GOOD)).status.is_built());
        say("step: built");
        first_turn(&store, &handoffs, init(&format!("next-{round}-{turn}")));
        say("step: delivered");
    }
}

/// Every capsule that a row holds is delivered to that row, and to no other.
fn assert_once(store: &Store) -> usize {
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for info in store.sessions(&SessionFilter::default()).unwrap() {
        for part in store.history(&info.id).unwrap().rows.into_iter().flat_map(|row| row.parts) {
            if part.origin == Origin::Capsule {
                *held.entry(part.label.unwrap().to_string()).or_default() += 1;
            }
        }
    }
    for record in store.capsules(None).unwrap() {
        let rows = held.get(&record.id).copied().unwrap_or(0);
        let expected = usize::from(record.state == CapsuleState::Delivered);
        assert_eq!(rows, expected, "{record:?}");
    }
    held.len()
}

#[test]
fn what_a_killed_process_leaves_is_delivered_once_and_no_note_outlives_its_capsule() {
    let world = World::new();
    let mut delivered = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::the_process_that_is_killed_goes_on_until_then"])
            .args(["--nocapture", "--test-threads=1"])
            .env(FOLDER, world.dir.path())
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        // Another step each time; the kill falls somewhere into what comes after it.
        let steps = said.map_while(Result::ok).filter(|line| line.contains("step: "));
        assert_eq!(steps.take(1 + round * 2).count(), 1 + round * 2, "it ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();

        let (store, handoffs) = (world.store(), world.handoffs());
        store.recover_all().unwrap();
        assert_once(&store);
        let waiting = store.pending_capsule(&lane()).unwrap();
        let offered =
            handoffs.offer(&lane(), &id(&format!("asks-{round}")), Start::ByPerson).unwrap();
        assert_eq!(offered.is_some(), waiting.is_some(), "{waiting:?}");
        let given = first_turn(&store, &handoffs, init(&format!("after-{round}")));
        assert_eq!(given.is_some(), waiting.is_some());
        delivered = assert_once(&store);
        handoffs.reconcile().unwrap();
        let left = world.everything();
        assert!(!left.lines().any(|line| line.starts_with("pending-")), "{left}");
        assert_eq!(store.check().unwrap(), vec![]);
    }
    assert!(delivered > 0, "nothing was delivered");
}
