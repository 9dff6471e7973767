//! Random interleavings of building, delivering, expiring, editing, removing and being killed, in
//! two processes, held against what must be true of every capsule.
//!
//! `HERMES_INTERLEAVINGS=2000 cargo test -p hermes-handoff interleavings` runs more of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hermes_core::{
    Cause, Digest, Env, Generation, GenerationNo, Lane, Origin, Part, PartBody, Role, Row,
    RowStatus, ScriptedEnv, Seq, SessionId, Standing, Timestamp, TurnNo, slot,
};
use hermes_store::{
    Batch, CapsuleState, NewCapsule, OpenMode, Record, SessionInit, Store, StoreError,
    StoreOptions, StorePaths,
};
use tempfile::TempDir;

use crate::{Handoffs, Offer, Start, WAITS_MILLIS, without_capsule};

const START: Timestamp = Timestamp(1_796_032_560_000_000);
const STEPS: usize = 24;
/// Behind the steps of a build: its files cannot be written, so it is taken back.
const WITHDRAWN: usize = 4;

fn rounds() -> u64 {
    std::env::var("HERMES_INTERLEAVINGS").ok().and_then(|n| n.parse().ok()).unwrap_or(25)
}

/// A process: its own store and folder handle, and the offers it has asked for and not used yet.
struct Process {
    store: Store,
    handoffs: Handoffs,
    offers: Vec<(SessionId, Option<Offer>)>,
}

struct World {
    dir: TempDir,
    env: Arc<ScriptedEnv>,
    seed: u64,
    rolls: u64,
    processes: Vec<Process>,
    sessions: u32,
    capsules: u32,
    /// Capsules whose note a person removed.
    removed: BTreeSet<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            dir: TempDir::new().unwrap(),
            env: Arc::new(ScriptedEnv::new(START, 1000, seed)),
            seed,
            rolls: 0,
            processes: Vec::new(),
            sessions: 0,
            capsules: 0,
            removed: BTreeSet::new(),
        };
        world.processes = (0..2).map(|_| world.process()).collect();
        world
    }

    fn process(&self) -> Process {
        let paths = StorePaths {
            db: self.dir.path().join("state.db"),
            spool_dir: self.dir.path().join("spool"),
            drafts_dir: self.dir.path().join("drafts"),
        };
        let env: Arc<dyn Env> = self.env.clone();
        let options =
            StoreOptions { busy_timeout: Duration::from_secs(5), ..StoreOptions::default() };
        let store = Store::open_with(paths, env.clone(), OpenMode::ReadWrite, options).unwrap();
        let handoffs = Handoffs::new(store.clone(), self.dir.path().join("handoffs"), env);
        Process { store, handoffs, offers: Vec::new() }
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.rolls += 1;
        let digest = Digest::of(format!("{} {}", self.seed, self.rolls));
        let bytes: [u8; 8] = digest.as_bytes()[..8].try_into().unwrap();
        (u64::from_le_bytes(bytes) % sides as u64) as usize
    }

    /// Builds a capsule about some session and is killed after `steps` of its four steps, or cannot
    /// write its files.
    fn build(&mut self, process: usize, steps: usize) {
        let about = SessionId::new(format!("s{:03}", 1 + self.roll(self.sessions as usize)));
        self.capsules += 1;
        let id = format!("c{:03}", self.capsules);
        let now = self.env.now();
        let Process { store, handoffs, .. } = &self.processes[process];
        let before = handoffs.before(Some(&lane())).unwrap();
        let created = store.create_capsule(NewCapsule {
            id: id.clone(),
            lane: Some(lane()),
            session: about,
            rows: (Seq(1), Seq(1)),
            text: format!("capsule-status: ok\n\ntext of {id}\n"),
            facts: "{}".to_owned(),
            status: "ok".to_owned(),
            reason: None,
            confidential: false,
            created_at: now,
            expires_at: now.plus_millis(WAITS_MILLIS),
        });
        created.unwrap();
        let record = store.capsule(&id).unwrap().unwrap();
        let lock = handoffs.lock().unwrap();
        if steps == WITHDRAWN {
            handoffs.write_note(&record).unwrap();
            handoffs.withdraw(&record, before.as_ref(), Some(&lock)).unwrap();
            return;
        }
        if steps == 3 {
            handoffs.publish(&record, None, &lock).unwrap();
            return;
        }
        if steps > 0 {
            let text = store.capsule_text(&id).unwrap().unwrap();
            std::fs::write(handoffs.capsule_path(&record), text).unwrap();
        }
        if steps > 1 {
            handoffs.write_note(&record).unwrap();
        }
    }

    /// A new session asks what its first turn is to receive.
    fn ask(&mut self, process: usize) {
        self.sessions += 1;
        let session = SessionId::new(format!("s{:03}", self.sessions));
        let process = &mut self.processes[process];
        let offer = process.handoffs.offer(&lane(), &session, Start::ByPerson).unwrap();
        process.offers.push((session, offer));
    }

    /// A session that asked before stores its first row; killed before or after it removes the
    /// note.
    fn answer(&mut self, process: usize, removes: bool) {
        let count = self.processes[process].offers.len();
        if count == 0 {
            return;
        }
        let which = self.roll(count);
        let (session, offer) = self.processes[process].offers.swap_remove(which);
        let Process { store, handoffs, .. } = &self.processes[process];
        let batch = first_batch(offer.as_ref());
        match store.create_session(init(&session), batch.clone()) {
            Ok(writer) => writer.release().unwrap(),
            Err(StoreError::CapsuleNotClaimed { .. }) => {
                let without = without_capsule(batch);
                store.create_session(init(&session), without).unwrap().release().unwrap();
                return;
            }
            Err(other) => panic!("{other}"),
        }
        if let Some(offer) = offer.filter(|_| removes) {
            handoffs.delivered(&offer.record.id).unwrap();
        }
    }

    /// The process dies, with what it had asked for, and another one starts.
    fn kill(&mut self, process: usize) {
        self.processes[process] = self.process();
    }

    /// A person removes the note of the pending capsule, or changes its file.
    fn meddle(&mut self, process: usize, remove: bool) {
        let Process { store, handoffs, .. } = &self.processes[process];
        let Some(record) = store.pending_capsule(&lane()).unwrap() else { return };
        // What is not there cannot be removed or changed.
        if !record.published || !handoffs.pending_path(&record).exists() {
            return;
        }
        if remove {
            std::fs::remove_file(handoffs.pending_path(&record)).unwrap();
            self.removed.insert(record.id);
        } else if handoffs.capsule_path(&record).exists() {
            let text = std::fs::read_to_string(handoffs.capsule_path(&record)).unwrap();
            std::fs::write(handoffs.capsule_path(&record), format!("{text}edited\n")).unwrap();
        }
    }

    fn step(&mut self) {
        let process = self.roll(2);
        match self.roll(20) {
            0..=3 => {
                let steps = self.roll(1 + WITHDRAWN);
                self.build(process, steps);
            }
            4 => self.build(process, 3),
            5..=9 => self.ask(process),
            10..=14 => {
                let removes = self.roll(3) > 0;
                self.answer(process, removes);
            }
            15 => self.kill(process),
            16 => {
                let remove = self.roll(3) == 0;
                self.meddle(process, remove);
            }
            17 => {
                let hours = self.roll(20) as i64;
                self.env.advance_millis(hours * 3600 * 1000);
            }
            18 => drop(self.processes[process].handoffs.expire().unwrap()),
            _ => drop(self.processes[process].handoffs.reconcile().unwrap()),
        }
    }

    /// Which rows hold which capsule.
    fn held(&self) -> BTreeMap<String, Vec<(SessionId, Row)>> {
        let store = &self.processes[0].store;
        let mut held: BTreeMap<String, Vec<(SessionId, Row)>> = BTreeMap::new();
        for info in store.sessions(&hermes_store::SessionFilter::default()).unwrap() {
            for row in store.history(&info.id).unwrap().rows {
                let parts = row.parts.iter().filter(|part| part.origin == Origin::Capsule);
                for capsule in parts.filter_map(|part| part.label.clone()) {
                    let rows = held.entry(capsule.to_string()).or_default();
                    rows.push((info.id.clone(), row.clone()));
                }
            }
        }
        held
    }

    fn check(&self, at: &str) {
        let held = self.held();
        for record in self.processes[0].store.capsules(None).unwrap() {
            let rows = held.get(&record.id).map(Vec::as_slice).unwrap_or_default();
            let what = format!("seed {} {at}: {record:?}", self.seed);
            if record.state != CapsuleState::Delivered {
                assert!(rows.is_empty(), "{what}");
                continue;
            }
            assert_eq!(rows.len(), 1, "{what}");
            let (session, row) = &rows[0];
            assert_eq!(record.taken_by, Some((session.clone(), row.seq)), "{what}");
            assert_ne!(*session, record.session, "given to its own session: {what}");
            assert_eq!((row.role, row.seq), (Role::User, Seq(1)), "{what}");
            let text = row.text_of(Origin::Capsule);
            assert!(text.contains(&format!("text of {}", record.id)), "{what}: {text}");
            assert_eq!(record.taken_digest, Some(Digest::of(&text)), "{what}");
        }
    }

    /// Whatever happened: a capsule that still waits reaches the next session of its lane, unless a
    /// person took it back.
    fn end(&mut self) {
        self.kill(0);
        let waiting = self.processes[0].store.pending_capsule(&lane()).unwrap();
        let due = waiting.filter(|record| record.expires_at > self.env.now().plus_millis(60_000));
        self.ask(0);
        self.answer(0, true);
        self.check("at the end");
        if let Some(record) = due {
            let now = self.processes[0].store.capsule(&record.id).unwrap().unwrap();
            let expected = if self.removed.contains(&record.id) {
                CapsuleState::Discarded
            } else {
                CapsuleState::Delivered
            };
            assert_eq!(now.state, expected, "seed {}: {now:?}", self.seed);
        }
        let Process { store, handoffs, .. } = &self.processes[1];
        handoffs.reconcile().unwrap();
        assert!(handoffs.reconcile().unwrap().is_empty(), "seed {}", self.seed);
        assert_eq!(store.pending_capsule(&lane()).unwrap(), None);
        let notes = std::fs::read_dir(handoffs.folder()).map_or(0, |entries| {
            entries
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("pending-"))
                .count()
        });
        assert_eq!(notes, 0, "seed {}: a note outlived its capsule", self.seed);
        assert_eq!(store.check().unwrap(), vec![]);
    }
}

fn lane() -> Lane {
    Lane::cli("/work/project")
}

fn init(session: &SessionId) -> SessionInit {
    SessionInit {
        id: session.clone(),
        source: "cli".to_owned(),
        lane: Some(lane()),
        cwd: None,
        git_root: None,
        git_branch: None,
        model: "scripted".to_owned(),
        provider: "rehearsal".to_owned(),
        base_url: None,
        parent: None,
        title: None,
        started_at: START,
    }
}

fn first_batch(offer: Option<&Offer>) -> Batch {
    let part = Part {
        seq: Seq(1),
        row: Seq(1),
        slot: slot::BODY,
        origin: Origin::User,
        standing: Standing::InOrder,
        created_at: START,
        label: None,
        body: PartBody::text("go on"),
    };
    let mut row = Row {
        seq: Seq(1),
        turn: TurnNo(1),
        role: Role::User,
        standing: Standing::InOrder,
        status: RowStatus::Complete,
        created_at: START,
        tool: None,
        finish_reason: None,
        parts: vec![part],
    };
    row.parts.extend(offer.map(|offer| offer.part(Seq(1), Seq(2), START)));
    row.sort_parts();
    let mut batch = vec![
        Record::Text { text: "prompt".into() },
        Record::Text { text: "[]".into() },
        Record::Generation(Generation {
            n: GenerationNo(0),
            parent: None,
            cause: Cause::Start,
            created_at: START,
            prompt: Digest::of("prompt"),
            tools: Digest::of("[]"),
            ops: Vec::new(),
        }),
        Record::Row(row),
    ];
    batch.extend(offer.map(|offer| offer.record(Seq(1))));
    batch
}

#[test]
fn a_capsule_is_in_at_most_one_first_row_and_in_exactly_one_if_a_session_starts_in_time() {
    let mut delivered = 0;
    for seed in 0..rounds() {
        let mut world = World::new(seed);
        // Something to hand over.
        world.ask(0);
        world.answer(0, true);
        for _ in 0..STEPS {
            world.step();
        }
        world.check("before the end");
        world.end();
        let last = &world.processes[0].store;
        delivered += last.capsules(Some(CapsuleState::Delivered)).unwrap().len();
    }
    assert!(delivered > 0, "nothing was tried");
}
