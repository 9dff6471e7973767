//! A session in memory: appends, compacts, prunes, takes back, undoes, and proves after each step
//! what must always hold.

use std::collections::HashSet;
use std::sync::Arc;

use hermes_compaction::views::{Class, classify};
use hermes_compaction::{
    AnswerEnd, Commit, CommitInput, Coverage, Keep, Plan, PlanInput, Planned, Policy, Reason,
    Rejection, Summary, Writing, apply, build, plan, undo, view_tokens,
};
use hermes_context::{AssembleInput, NoBlobs, RENDERER, assemble};
use hermes_core::{
    Cause, Digest, Generation, GenerationNo, Message, Op, Origin, Part, PartBody, Role, Row,
    RowStatus, Seq, SessionId, Snapshot, Standing, Timestamp, Tokens, ToolLink, ToolSet, TurnNo,
    View, WireProfile, fold_view, slot,
};

pub struct World {
    pub rows: Vec<Row>,
    pub generations: Vec<Generation>,
    pub last: u64,
    pub turn: u32,
    pub policy: Policy,
    pub context: u64,
    pub snapshot: Arc<Snapshot>,
    pub tools: Arc<ToolSet>,
    pub compactions: u32,
}

pub fn now() -> Timestamp {
    Timestamp(1_796_032_560_000_000)
}

impl World {
    pub fn new(context: u64) -> Self {
        let snapshot = snapshot("You are a test.");
        let tools = Arc::new(ToolSet::new(Vec::new()));
        let first = Generation {
            n: GenerationNo(0),
            parent: None,
            cause: Cause::Start,
            created_at: now(),
            prompt: snapshot.digest,
            tools: tools.digest,
            ops: Vec::new(),
        };
        Self {
            rows: Vec::new(),
            generations: vec![first],
            last: 0,
            turn: 0,
            policy: Policy::default(),
            context,
            snapshot,
            tools,
            compactions: 0,
        }
    }

    pub fn head(&self) -> GenerationNo {
        self.generations.last().unwrap().n
    }

    pub fn seq(&mut self) -> Seq {
        self.last += 1;
        Seq(self.last)
    }

    pub fn view(&self) -> View {
        fold_view(&self.rows, &self.generations, self.head(), Seq(self.last)).unwrap()
    }

    pub fn add(&mut self, role: Role, origin: Origin, text: &str) -> Seq {
        let seq = self.seq();
        let part = part(seq, seq, slot::BODY, origin, PartBody::text(text));
        let row = Row {
            seq,
            turn: TurnNo(self.turn),
            role,
            standing: Standing::InOrder,
            status: RowStatus::Complete,
            created_at: now(),
            tool: None,
            finish_reason: None,
            parts: vec![part],
        };
        self.rows.push(row);
        seq
    }

    pub fn user(&mut self, text: &str) -> Seq {
        self.turn += 1;
        self.add(Role::User, Origin::User, text)
    }

    pub fn answer(&mut self, text: &str) -> Seq {
        self.add(Role::Assistant, Origin::Model, text)
    }

    pub fn calls(&mut self, calls: &[(&str, &str, &str)]) -> Seq {
        let row = self.add(Role::Assistant, Origin::Model, "");
        for (id, name, arguments) in calls {
            let seq = self.seq();
            let body = PartBody::ToolCall {
                id: (*id).into(),
                name: (*name).into(),
                arguments: (*arguments).into(),
            };
            let part = part(seq, row, slot::CALLS, Origin::Model, body);
            self.rows.last_mut().unwrap().parts.push(part);
        }
        row
    }

    pub fn result(&mut self, id: &str, name: &str, text: &str) -> Seq {
        let seq = self.add(Role::Tool, Origin::Tool, text);
        self.rows.last_mut().unwrap().tool =
            Some(ToolLink { call_id: id.into(), name: name.into() });
        seq
    }

    pub fn late(&mut self, row: Seq, origin: Origin, label: &str, text: &str) {
        let seq = self.seq();
        let mut part = part(seq, row, slot::LATE, origin, PartBody::text(text));
        part.label = Some(label.into());
        let row = self.rows.iter_mut().find(|known| known.seq == row).unwrap();
        row.parts.push(part);
        row.sort_parts();
    }

    /// Loads messages of the OpenAI chat shape.
    pub fn load(&mut self, json: &str) {
        let messages: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
        for message in messages {
            let text = message["content"].as_str().unwrap_or_default().to_owned();
            match message["role"].as_str().unwrap() {
                "user" => {
                    self.user(&text);
                }
                "assistant" => match message["tool_calls"].as_array() {
                    Some(calls) => {
                        let calls: Vec<(&str, &str, &str)> = calls
                            .iter()
                            .map(|call| {
                                let function = &call["function"];
                                (
                                    call["id"].as_str().unwrap(),
                                    function["name"].as_str().unwrap(),
                                    function["arguments"].as_str().unwrap(),
                                )
                            })
                            .collect();
                        self.calls(&calls);
                    }
                    None => {
                        self.answer(&text);
                    }
                },
                "tool" => {
                    let id = message["tool_call_id"].as_str().unwrap().to_owned();
                    self.result(&id, "terminal", &text);
                }
                _ => {}
            }
        }
    }

    pub fn plan(&self, reason: Reason, keep: Keep, before: Option<Tokens>) -> Planned {
        self.plan_by(plan, reason, keep, before)
    }

    pub fn plan_by(
        &self,
        by: impl Fn(PlanInput<'_>) -> Planned,
        reason: Reason,
        keep: Keep,
        before: Option<Tokens>,
    ) -> Planned {
        let view = self.view();
        let before = before.unwrap_or(Tokens::exact(view_tokens(&view) + 20));
        by(PlanInput {
            view: &view,
            policy: &self.policy,
            sizes: self.policy.sizes(self.context, 0),
            before,
            reason,
            keep,
            base: self.head(),
            cut: Seq(self.last),
            turn: TurnNo(self.turn),
        })
    }

    /// A summary for each range: by `answer` (a model's) where the range is narrated, else derived.
    pub fn summaries(
        &self,
        plan: &Plan,
        answer: Option<(&str, AnswerEnd)>,
    ) -> Result<Vec<Summary>, Rejection> {
        let writing = Writing::prepare(plan, &self.rows, &self.generations, &self.policy).unwrap();
        match answer {
            Some((text, end)) => writing.answered(text, end, Coverage::default()),
            None => {
                writing.derived(&Rejection::NoSummary { error: "no model in this test".to_owned() })
            }
        }
    }

    pub fn commit(&mut self, plan: &Plan, summaries: &[Summary]) -> Result<Commit, Rejection> {
        let mut last = self.last;
        let session = SessionId::new("s");
        let commit = build(
            &CommitInput {
                session: &session,
                plan,
                summaries,
                rows: &self.rows,
                generations: &self.generations,
                head: self.head(),
                snapshot: &self.snapshot,
                tools: &self.tools,
                compactions: self.compactions,
                asked_at: now(),
                now: now(),
                model: None,
                hold_on: 4_000,
            },
            &mut || {
                last += 1;
                Seq(last)
            },
        )?;
        let before = self.rows.clone();
        let view_before = self.view();
        apply(&commit, &mut self.rows, &mut self.generations);
        self.last = last;
        self.compactions += 1;
        self.proved_after(&commit, &before, &view_before);
        Ok(commit)
    }

    /// Plans, writes and commits; None where nothing is to be done.
    pub fn compact(&mut self, reason: Reason, keep: Keep) -> Option<Commit> {
        match self.plan(reason, keep, None) {
            Planned::Plan(plan) => {
                let summaries = self.summaries(&plan, None).ok()?;
                Some(self.commit(&plan, &summaries).unwrap())
            }
            Planned::Rejected(_) | Planned::Deferred(_) => None,
        }
    }

    pub fn undo(&mut self) -> bool {
        match undo(&self.generations, self.head(), None, now()) {
            Ok(generation) => {
                self.generations.push(generation);
                true
            }
            Err(_) => false,
        }
    }

    /// Takes the newest exchange back.
    pub fn rewind(&mut self) {
        let view = self.view();
        let Some(from) = view
            .rows
            .iter()
            .rev()
            .find(|shown| shown.row.role == Role::User && shown.row.standing == Standing::InOrder)
            .map(|shown| shown.position)
        else {
            return;
        };
        let to = Seq(self.last);
        let head = self.generations.last().unwrap().clone();
        self.generations.push(Generation {
            n: head.n.next(),
            parent: Some(head.n),
            cause: Cause::Rewind,
            ops: vec![Op::Hide { from, to }],
            ..head
        });
    }

    pub fn messages(&self) -> Vec<Message> {
        let view = self.view();
        let profile = WireProfile::default();
        let input = AssembleInput {
            snapshot: &self.snapshot,
            tools: &self.tools,
            view: &view,
            profile: &profile,
            blobs: &NoBlobs,
            renderer: RENDERER,
        };
        assemble(&input).unwrap().messages
    }

    fn proved_after(&self, commit: &Commit, before: &[Row], view_before: &View) {
        assert!(commit.summaries.len() <= 2, "at most two rows more");
        assert_eq!(self.rows.len(), before.len() + commit.summaries.len());
        for (old, new) in before.iter().zip(&self.rows) {
            let mut same = new.clone();
            same.parts.retain(|part| part.standing == Standing::InOrder);
            let mut old = old.clone();
            old.parts.retain(|part| part.standing == Standing::InOrder);
            assert_eq!(old, same, "no row changes");
        }
        let view = self.view();
        assert!(
            view_tokens(&view) < view_tokens(view_before),
            "{} < {}",
            view_tokens(&view),
            view_tokens(view_before)
        );
        let request = |view: &View| {
            let found = view
                .rows
                .iter()
                .rev()
                .find(|shown| hermes_compaction::shape::is_request(&shown.row))
                .cloned();
            found.map(|shown| shown.row)
        };
        assert_eq!(request(&view), request(view_before), "the newest request stays");
        assert_eq!(commit.log.rows_after as usize, view.rows.len());
        assert_eq!(commit.log.rows_before as usize, view_before.rows.len());
        let events =
            commit.records.iter().filter(|r| matches!(r, hermes_store::Record::Event(_))).count();
        assert_eq!(events, 1);
    }

    /// What holds after every step.
    pub fn proved(&self) {
        strict(&self.messages());
        let classes = classify(&self.rows, &self.generations, self.head(), Seq(self.last)).unwrap();
        let seqs: HashSet<Seq> = classes.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(seqs.len(), classes.len(), "a row has one class");
        assert_eq!(seqs.len(), self.rows.len(), "every row has a class");
        let standing: HashSet<Seq> = classes
            .iter()
            .filter(|(_, class)| matches!(class, Class::Live | Class::Reduced))
            .map(|(seq, _)| *seq)
            .collect();
        let shown: HashSet<Seq> = self.view().rows.iter().map(|shown| shown.row.seq).collect();
        assert_eq!(standing, shown, "live and reduced rows are the view's");
        for shown in &self.view().rows {
            let stored = self.rows.iter().find(|row| row.seq == shown.row.seq).unwrap();
            let own: Vec<&Part> =
                stored.parts.iter().filter(|p| p.standing == Standing::InOrder).collect();
            let same = own.len() == shown.row.parts.len()
                && own.iter().zip(&shown.row.parts).all(|(a, b)| a.body == b.body);
            let class = classes.iter().find(|(seq, _)| *seq == shown.row.seq).unwrap().1;
            assert_eq!(class == Class::Live, same, "{class:?} {:?}", shown.row.seq);
        }
    }
}

pub fn snapshot(text: &str) -> Arc<Snapshot> {
    Arc::new(Snapshot { text: text.into(), digest: Digest::of(text), blocks: Vec::new() })
}

fn part(seq: Seq, row: Seq, slot: u16, origin: Origin, body: PartBody) -> Part {
    Part {
        seq,
        row,
        slot,
        origin,
        standing: Standing::InOrder,
        created_at: now(),
        label: None,
        body,
    }
}

/// A provider that demands alternation, a user first, and complete adjacent pairs.
pub fn strict(messages: &[Message]) {
    let mut waiting: Vec<Arc<str>> = Vec::new();
    let mut before: Option<Role> = None;
    for message in messages {
        match message.role {
            Role::Tool => {
                let id = message.tool_call_id.clone().unwrap();
                let at = waiting.iter().position(|waiting| *waiting == id);
                waiting.remove(at.unwrap_or_else(|| panic!("result without a call: {id}")));
            }
            role => {
                assert!(waiting.is_empty(), "calls without results: {waiting:?}");
                if before.is_none() {
                    assert_eq!(role, Role::User, "the person speaks first");
                } else if before != Some(Role::Tool) {
                    assert_ne!(before, Some(role), "two neighbours of one role");
                } else {
                    assert_eq!(role, Role::Assistant, "a result is answered by the model");
                }
                for piece in &message.pieces {
                    if let hermes_core::Piece::ToolCall { id, .. } = piece {
                        waiting.push(id.clone());
                    }
                }
            }
        }
        before = Some(message.role);
    }
    assert!(waiting.is_empty(), "calls without results: {waiting:?}");
}

/// All text of the messages.
pub fn sent(messages: &[Message]) -> String {
    let mut out = String::new();
    for message in messages {
        for piece in &message.pieces {
            if let hermes_core::Piece::Text { text, .. } = piece {
                out.push_str(text);
                out.push('\n');
            }
        }
    }
    out
}
