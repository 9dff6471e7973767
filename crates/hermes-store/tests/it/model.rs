//! The store against a small model in memory: whatever happens, every request that was ever made
//! can still be rebuilt, and nothing is lost, doubled or invented.

use std::collections::BTreeMap;

use hermes_core::{
    Cause, DeleteReason, GenerationNo, Op, OpRef, Origin, Part, Role, Row, Seq, SessionId,
    Standing, TurnNo, View, WireProfile, fold_view, slot,
};
use hermes_store::{Batch, DeleteRequest, DraftKind, Record, SessionWriter, Store, StoreError};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::support::*;

/// Something that happens. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Action {
    Append(bool),
    LatePart(usize),
    Cover(usize, usize),
    Hide(usize),
    Swap(usize),
    Undo(usize),
    Request,
    Branch,
    Delete,
    /// The process is killed, perhaps in mid-stream; another one opens the session again.
    Crash(Option<bool>),
    Reopen,
    /// Another process locks the database, or lets it go.
    Lock,
    Unlock,
    /// The next actions are about another session.
    Switch(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => any::<bool>().prop_map(Action::Append),
        3 => any::<usize>().prop_map(Action::LatePart),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Action::Cover(a, b)),
        2 => any::<usize>().prop_map(Action::Hide),
        2 => any::<usize>().prop_map(Action::Swap),
        2 => any::<usize>().prop_map(Action::Undo),
        5 => Just(Action::Request),
        1 => Just(Action::Branch),
        1 => Just(Action::Delete),
        2 => proptest::option::of(any::<bool>()).prop_map(Action::Crash),
        1 => Just(Action::Reopen),
        1 => Just(Action::Lock),
        2 => Just(Action::Unlock),
        2 => any::<usize>().prop_map(Action::Switch),
    ]
}

/// A session as the model knows it: plain lists, no tables.
#[derive(Clone, Default)]
struct Session {
    rows: Vec<Row>,
    /// Operations by generation; each generation builds on the one before it.
    generations: Vec<Vec<Op>>,
    /// What each request saw, as text.
    requests: Vec<(String, u32, u64, String)>,
}

impl Session {
    /// Operations in force, with their names.
    fn in_force(&self, at: usize) -> Vec<(OpRef, Op)> {
        let all: Vec<(OpRef, Op)> = self.generations[..=at]
            .iter()
            .zip(0..)
            .flat_map(|(ops, n)| {
                ops.iter()
                    .zip(0..)
                    .map(move |(op, index)| (OpRef { generation: GenerationNo(n), index }, *op))
            })
            .collect();
        let revoked: Vec<OpRef> = all
            .iter()
            .filter_map(|(_, op)| match op {
                Op::Revoke { target } => Some(*target),
                _ => None,
            })
            .collect();
        all.into_iter()
            .filter(|(name, op)| !matches!(op, Op::Revoke { .. }) && !revoked.contains(name))
            .collect()
    }

    /// What stands at the newest generation: position and row, in order.
    fn standing(&self) -> Vec<(u64, u64)> {
        let mut shown: Vec<(u64, u64)> = self
            .rows
            .iter()
            .filter(|row| row.standing == Standing::InOrder)
            .map(|row| (row.seq.0, row.seq.0))
            .collect();
        for (_, op) in self.in_force(self.generations.len() - 1) {
            match op {
                Op::Cover { from, to, by } => {
                    shown.retain(|(place, _)| !(from.0..=to.0).contains(place));
                    shown.push((from.0, by.0));
                    shown.sort_unstable();
                }
                Op::Hide { from, to } => {
                    shown.retain(|(place, _)| !(from.0..=to.0).contains(place));
                }
                Op::Swap { .. } | Op::Revoke { .. } => {}
            }
        }
        shown
    }

    /// What a request made now sees, as text: the rows in order, each with the texts of its parts.
    fn seen(&self) -> String {
        let swaps: BTreeMap<u64, u64> = self
            .in_force(self.generations.len() - 1)
            .into_iter()
            .filter_map(|(_, op)| match op {
                Op::Swap { part, by } => Some((part.0, by.0)),
                _ => None,
            })
            .collect();
        let line = |seq: u64| {
            let row = self.rows.iter().find(|row| row.seq.0 == seq).unwrap();
            let texts: Vec<&str> = row
                .parts
                .iter()
                .filter(|part| part.standing == Standing::InOrder)
                .map(|part| {
                    let shown = swaps.get(&part.seq.0).copied().unwrap_or(part.seq.0);
                    row.parts.iter().find(|part| part.seq.0 == shown).unwrap().as_text().unwrap()
                })
                .collect();
            format!("{seq}[{}]", texts.join(","))
        };
        let lines: Vec<String> = self.standing().into_iter().map(|(_, seq)| line(seq)).collect();
        lines.join(" ")
    }
}

/// A view of the store in the same words.
fn words(view: &View) -> String {
    let lines: Vec<String> = view
        .rows
        .iter()
        .map(|shown| {
            let texts: Vec<&str> = shown.row.parts.iter().filter_map(Part::as_text).collect();
            format!("{}[{}]", shown.row.seq, texts.join(","))
        })
        .collect();
    lines.join(" ")
}

/// The model and the store side by side.
struct Run {
    home: Home,
    store: Option<Store>,
    writers: BTreeMap<String, SessionWriter>,
    sessions: BTreeMap<String, Session>,
    /// Requests of sessions that were deleted.
    orphans: Vec<String>,
    current: String,
    made: u32,
    lock: Option<Connection>,
}

impl Run {
    fn new() -> Self {
        let home = Home::new();
        let store = home.store();
        let mut run = Self {
            home,
            store: Some(store),
            writers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            orphans: Vec::new(),
            current: String::new(),
            made: 0,
            lock: None,
        };
        run.new_session();
        run
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("s{}", self.made)
    }

    fn new_session(&mut self) {
        let name = self.name();
        let mut first = opening();
        first.push(Record::Profile(WireProfile::default()));
        let writer = self.store().create_session(init(&name), first).unwrap();
        self.writers.insert(name.clone(), writer);
        self.sessions
            .insert(name.clone(), Session { generations: vec![vec![]], ..Session::default() });
        self.current = name;
    }

    fn writer(&mut self) -> &mut SessionWriter {
        self.writers.get_mut(&self.current).unwrap()
    }

    fn session(&mut self) -> &mut Session {
        self.sessions.get_mut(&self.current).unwrap()
    }

    fn commit(&mut self, batch: Batch) {
        let _where = self.writer().commit(batch).unwrap();
    }

    fn add_row(&mut self, standing: Standing, second_part: bool, text: &str) -> Row {
        let seq = self.writer().next_seq();
        let mut row = row(seq, Role::User, &format!("{text}{seq}"));
        row.standing = standing;
        if second_part {
            let seq = self.writer().next_seq();
            row.parts.push(Part {
                slot: slot::REFERENCE,
                ..part(seq, row.seq, Origin::Reference, &format!("ref{seq}"))
            });
        }
        self.session().rows.push(row.clone());
        row
    }

    fn step(&mut self, action: &Action) {
        match *action {
            Action::Append(second_part) => {
                let row = self.add_row(Standing::InOrder, second_part, "row");
                self.commit(vec![Record::Row(row)]);
            }
            Action::LatePart(which) => self.add_part(which, Standing::InOrder, slot::LATE, "late"),
            Action::Cover(a, b) => self.cover(a, b),
            Action::Hide(which) => {
                let shown = self.session().standing();
                let Some((place, _)) = pick(&shown, which) else { return };
                self.generation(
                    vec![],
                    Cause::Rewind,
                    Op::Hide { from: Seq(place), to: Seq(place) },
                );
            }
            Action::Swap(which) => self.swap(which),
            Action::Undo(which) => {
                let last = self.session().generations.len() - 1;
                let ops = self.session().in_force(last);
                let Some((target, _)) = pick(&ops, which) else { return };
                self.generation(vec![], Cause::UndoCompaction, Op::Revoke { target });
            }
            Action::Request => self.request(),
            Action::Branch => self.branch(),
            Action::Delete => self.delete(),
            Action::Crash(streaming) => self.crash(streaming),
            Action::Reopen => {
                let name = self.current.clone();
                self.writers.remove(&name);
                let writer = self.store().open_session(&id(&name)).unwrap();
                self.writers.insert(name, writer);
            }
            Action::Lock => {
                if self.lock.is_none() {
                    self.lock = Some(self.home.lock_out());
                }
            }
            Action::Unlock => self.lock = None,
            Action::Switch(which) => {
                let names: Vec<String> = self.sessions.keys().cloned().collect();
                if which % 3 == 0 && names.len() < 3 {
                    self.new_session();
                } else {
                    self.current = pick(&names, which).unwrap();
                }
            }
        }
    }

    fn add_part(&mut self, which: usize, standing: Standing, slot: u16, text: &str) {
        let rows: Vec<Seq> = self.session().rows.iter().map(|row| row.seq).collect();
        let Some(owner) = pick(&rows, which) else { return };
        let seq = self.writer().next_seq();
        let late =
            Part { slot, standing, ..part(seq, owner, Origin::Hook, &format!("{text}{seq}")) };
        self.keep_part(&late);
        self.commit(vec![Record::Part(late)]);
    }

    fn keep_part(&mut self, late: &Part) {
        let row = self.session().rows.iter_mut().find(|row| row.seq == late.row).unwrap();
        row.parts.push(late.clone());
        row.sort_parts();
    }

    fn generation(&mut self, mut batch: Batch, cause: Cause, op: Op) {
        let n = self.session().generations.len() as u32;
        self.session().generations.push(vec![op]);
        batch.push(generation(n, cause, vec![op]));
        self.commit(batch);
    }

    fn cover(&mut self, a: usize, b: usize) {
        let shown = self.session().standing();
        let (Some((a, _)), Some((b, _))) = (pick(&shown, a), pick(&shown, b)) else { return };
        let summary = self.add_row(Standing::ByOp, false, "sum");
        let op = Op::Cover { from: Seq(a.min(b)), to: Seq(a.max(b)), by: summary.seq };
        self.generation(vec![Record::Row(summary)], Cause::Compaction, op);
    }

    fn swap(&mut self, which: usize) {
        let parts: Vec<(Seq, Seq)> = self
            .session()
            .rows
            .iter()
            .flat_map(|row| &row.parts)
            .filter(|part| part.standing == Standing::InOrder)
            .map(|part| (part.seq, part.row))
            .collect();
        let Some((target, owner)) = pick(&parts, which) else { return };
        let seq = self.writer().next_seq();
        let stub = Part {
            standing: Standing::ByOp,
            ..part(seq, owner, Origin::Summary, &format!("stub{seq}"))
        };
        self.keep_part(&stub);
        let op = Op::Swap { part: target, by: seq };
        self.generation(vec![Record::Part(stub)], Cause::Prune, op);
    }

    fn request(&mut self) {
        let cut = self.writer().last_seq();
        let current = self.current.clone();
        let name = format!("r-{current}-{:04}", self.session().requests.len());
        let n = self.session().generations.len() as u32 - 1;
        let seen = self.session().seen();
        self.session().requests.push((name.clone(), n, cut.0, seen));
        let sent = attempt(&name, &id(&current), GenerationNo(n), cut);
        self.commit(vec![Record::AttemptStarted(sent), Record::AttemptEnded(end(&name, 1, 1))]);
    }

    fn branch(&mut self) {
        if self.sessions.len() >= 4 {
            return;
        }
        let from = self.current.clone();
        let cut = self.writer().last_seq();
        let n = self.session().generations.len() as u32 - 1;
        let copy = Session { requests: Vec::new(), ..self.session().clone() };
        let name = self.name();
        let writer = self.store().branch(&id(&from), GenerationNo(n), cut, init(&name)).unwrap();
        self.writers.insert(name.clone(), writer);
        self.sessions.insert(name.clone(), copy);
        self.current = name;
    }

    fn delete(&mut self) {
        // Deleting waits for the lock and says so; that is no part of this test.
        self.lock = None;
        let name = self.current.clone();
        let mut writer = self.writers.remove(&name).unwrap();
        // What waits in the side file is taken in, so that the ledger has it.
        writer.renew().unwrap();
        let lease = writer.lease().clone();
        let mut request = DeleteRequest::new(vec![id(&name)], DeleteReason::Delete);
        request.held = vec![&lease];
        let receipt = self.store().delete_session(request).unwrap();
        drop(writer);
        let gone = self.sessions.remove(&name).unwrap();
        let removed = &receipt.removed[0];
        assert_eq!(removed.rows, gone.rows.len() as u64);
        assert_eq!(removed.requests, gone.requests.len() as u64);
        self.orphans.extend(gone.requests.into_iter().map(|(request, ..)| request));
        match self.sessions.keys().next().cloned() {
            Some(other) => self.current = other,
            None => self.new_session(),
        }
    }

    fn crash(&mut self, streaming: Option<bool>) {
        if let Some(shown) = streaming {
            let mut draft = self.writer().draft(TurnNo(1)).unwrap();
            if shown {
                draft.append(DraftKind::Text, "half an ").unwrap();
                draft.append(DraftKind::Text, "answer").unwrap();
                let row = row(draft.row(), Role::Assistant, "half an answer");
                self.session().rows.push(row);
            }
        }
        // A killed process leaves its leases taken and its lock file unlocked.
        let tokens: Vec<String> = {
            let raw = self.home.raw();
            let mut statement =
                raw.prepare("SELECT token FROM lease WHERE token IS NOT NULL").unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        self.writers.clear();
        self.store = None;
        let drafts = self.home.paths().drafts_dir;
        for token in tokens {
            std::fs::write(drafts.join(format!("holder-{token}.lock")), "").unwrap();
        }
        let names: Vec<String> = self.sessions.keys().cloned().collect();
        if self.lock.is_none() {
            for name in &names {
                let known: bool = self
                    .home
                    .raw()
                    .query_row(
                        "SELECT EXISTS (SELECT 1 FROM lease l JOIN sessions s
                             ON s.session_no = l.session_no WHERE s.id = ?1)",
                        [name],
                        |row| row.get(0),
                    )
                    .unwrap();
                if known {
                    self.home.kill_holder(&id(name));
                }
            }
        }
        self.store = Some(self.home.store());
        for name in names {
            let writer = self.store().open_session(&id(&name)).unwrap();
            self.writers.insert(name, writer);
        }
    }

    /// Everything that must hold after each step.
    fn verify(&self) {
        for (name, session) in &self.sessions {
            let history = self.store().history(&id(name)).unwrap();
            for (request, n, cut, seen) in &session.requests {
                let view =
                    fold_view(&history.rows, &history.generations, GenerationNo(*n), Seq(*cut))
                        .unwrap();
                assert_eq!(&words(&view), seen, "request {request}");
            }
            let count = |rows: &[Row]| rows.iter().map(|row| row.parts.len()).sum::<usize>();
            assert_eq!(history.rows.len(), session.rows.len(), "rows of {name}");
            assert_eq!(count(&history.rows), count(&session.rows), "parts of {name}");
            assert_eq!(history.generations.len(), session.generations.len());
            let info = self.store().session(&id(name)).unwrap().unwrap();
            if !info.spooled {
                assert_eq!(info.message_count, session.standing().len() as u64, "{name}");
                assert_eq!(info.api_calls, session.requests.len() as u64, "{name}");
            }
        }
        for request in &self.orphans {
            assert!(self.store().request(request).unwrap().session_deleted, "{request}");
        }
    }

    /// Nothing waits any more, and the store finds no fault with itself.
    fn settle(&mut self) {
        self.lock = None;
        for writer in self.writers.values_mut() {
            writer.renew().unwrap();
        }
        self.verify();
        assert_sound(self.store());
        let raw = self.home.raw();
        let rows: i64 =
            raw.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
        let wanted: usize = self.sessions.values().map(|session| session.rows.len()).sum();
        assert_eq!(rows, wanted as i64);
        let known: Vec<SessionId> = self.sessions.keys().map(|name| id(name)).collect();
        for (name, session) in &self.sessions {
            for (request, ..) in &session.requests {
                let found = self.store().request(request).unwrap();
                assert!(known.contains(&found.attempt.session), "{name}");
            }
        }
        assert!(matches!(self.store().history(&id("never")), Err(StoreError::NotFound { .. })));
    }
}

fn pick<T: Clone>(from: &[T], which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[which % from.len()].clone())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_past_request_can_be_rebuilt_whatever_happens(
        actions in proptest::collection::vec(action(), 1..40),
    ) {
        let mut run = Run::new();
        for action in &actions {
            run.step(action);
            run.verify();
        }
        run.settle();
    }
}
