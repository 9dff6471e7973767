//! The one commit of a compaction: summary rows, pointers, generation, manifest, count, event, all
//! in one batch; and its undoing.
//!
//! Invariants: nothing is committed over rows that changed after the plan was made; at most two
//! rows are added; an undo takes back exactly one compaction's operations.

use std::collections::HashSet;
use std::sync::Arc;

use hermes_core::{
    Cause, Generation, GenerationNo, Op, OpRef, Origin, OutboxEvent, Part, PartBody, Role, Row,
    RowStatus, Seq, SessionId, Snapshot, Standing, Timestamp, Tokens, ToolSet, effective_ops, slot,
};
use hermes_store::{Batch, Record, SessionPatch};

use crate::measure::{part_tokens, row_tokens};
use crate::summary::{NARRATIVE, STATE, Summary};
use crate::{Kind, Log, Method, Outcome, Plan, Rejection, kind};

/// What a commit is made of.
pub struct CommitInput<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// The plan.
    pub plan: &'a Plan,
    /// A summary for each of the plan's ranges, in their order.
    pub summaries: &'a [Summary],
    /// All rows as they are stored now.
    pub rows: &'a [Row],
    /// All generations as they are stored now.
    pub generations: &'a [Generation],
    /// The newest generation.
    pub head: GenerationNo,
    /// The prompt in force afterwards: the stored one, or one rebuilt because memory or profile
    /// changed.
    pub snapshot: &'a Snapshot,
    /// The tools in force afterwards.
    pub tools: &'a ToolSet,
    /// Compactions of the session so far.
    pub compactions: u32,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// The present.
    pub now: Timestamp,
    /// The model that wrote the summary.
    pub model: Option<&'a str>,
    /// Tokens that texts which are to hold on (nested project files, skills that the person
    /// loaded) may take beside the summary; what does not fit is found again when it is needed.
    pub hold_on: u64,
}

/// A compaction, ready to be committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The records of the one transaction.
    pub records: Batch,
    /// The new generation.
    pub generation: Generation,
    /// Its summary rows.
    pub summaries: Vec<Row>,
    /// Its pointer parts, each of a stored row.
    pub stubs: Vec<Part>,
    /// The record of the attempt.
    pub log: Log,
    /// Whether the prompt changed with it.
    pub prompt_changed: bool,
    /// Project files and skills that left the history and have to be given again when they are
    /// needed: their dedupe caches must be reset.
    pub reissue: Vec<Reissue>,
}

/// Something loaded earlier that is no longer in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reissue {
    /// A nested project file or a skill.
    pub origin: Origin,
    /// Its path or name.
    pub label: Arc<str>,
    /// The row that held it.
    pub row: Seq,
    /// Whether its text stands beside the summary, so that it goes on to hold.
    pub stands: bool,
}

/// Whether the plan still fits what is stored: the same generation, and no covered row or swapped
/// part's row that gained a part.
///
/// # Errors
/// What changed.
pub fn still_holds(plan: &Plan, rows: &[Row], head: GenerationNo) -> Result<(), Rejection> {
    let superseded = |what: String| Err(Rejection::Superseded { what });
    if head != plan.base {
        return superseded(format!("generation {head} came after generation {}", plan.base));
    }
    let covered: HashSet<Seq> =
        plan.ranges.iter().flat_map(|range| range.rows.iter().copied()).collect();
    let swapped: HashSet<Seq> =
        plan.swaps.iter().map(|swap| swap.row).filter(|row| !covered.contains(row)).collect();
    let mut found = 0;
    for row in rows {
        let covered = covered.contains(&row.seq);
        if !covered && !swapped.contains(&row.seq) {
            continue;
        }
        found += 1;
        if covered && let Some(part) = row.parts.iter().find(|part| part.seq > plan.cut) {
            return superseded(format!("row {} gained part {}", row.seq, part.seq));
        }
    }
    if found != covered.len() + swapped.len() {
        return superseded("a planned row is no longer stored".to_owned());
    }
    Ok(())
}

/// Builds the commit. `next_seq` gives out the session's next numbers and is asked only for what
/// is then committed.
///
/// # Errors
/// If the history changed after the plan was made, or the summaries do not fit the plan.
pub fn build(
    input: &CommitInput<'_>,
    next_seq: &mut dyn FnMut() -> Seq,
) -> Result<Commit, Rejection> {
    let plan = input.plan;
    still_holds(plan, input.rows, input.head)?;
    if input.summaries.len() != plan.ranges.len() {
        let what =
            format!("{} summaries for {} planned ranges", input.summaries.len(), plan.ranges.len());
        return Err(Rejection::Superseded { what });
    }
    let mut ops = Vec::with_capacity(plan.ranges.len() + plan.swaps.len());
    let mut summaries: Vec<Row> = Vec::new();
    let (reissue, standing) = reissue(input);
    for (range, summary) in plan.ranges.iter().zip(input.summaries) {
        let standing: &[&Part] = if summaries.is_empty() { &standing } else { &[] };
        let row = summary_row(input, range.role, summary, standing, next_seq);
        ops.push(Op::Cover { from: range.from, to: range.to, by: row.seq });
        summaries.push(row);
    }
    let mut stubs = Vec::with_capacity(plan.swaps.len());
    for swap in &plan.swaps {
        let seq = next_seq();
        ops.push(Op::Swap { part: swap.part, by: seq });
        stubs.push(Part {
            seq,
            row: swap.row,
            slot: slot::BODY,
            origin: Origin::Summary,
            standing: Standing::ByOp,
            created_at: input.now,
            label: None,
            body: PartBody::text(swap.stub.as_str()),
        });
    }
    let generation = Generation {
        n: newest(input.generations).map_or(GenerationNo(0), GenerationNo::next),
        parent: Some(input.head),
        cause: if plan.kind == Kind::PruneToolResults { Cause::Prune } else { Cause::Compaction },
        created_at: input.now,
        prompt: input.snapshot.digest,
        tools: input.tools.digest,
        ops,
    };
    let base = input.generations.iter().find(|generation| generation.n == input.head);
    let prompt_changed = base.is_none_or(|base| base.prompt != generation.prompt);
    let log = log(input, &generation, &summaries);
    let mut commit =
        Commit { records: Vec::new(), generation, summaries, stubs, log, prompt_changed, reissue };
    commit.records = records(input, &commit, base);
    Ok(commit)
}

fn newest(generations: &[Generation]) -> Option<GenerationNo> {
    generations.iter().map(|generation| generation.n).max()
}

fn summary_row(
    input: &CommitInput<'_>,
    role: Role,
    summary: &Summary,
    standing: &[&Part],
    next_seq: &mut dyn FnMut() -> Seq,
) -> Row {
    let seq = next_seq();
    let part = |seq_of_part: Seq, label: &str, text: &str| Part {
        seq: seq_of_part,
        row: seq,
        slot: slot::BODY,
        origin: Origin::Summary,
        standing: Standing::InOrder,
        created_at: input.now,
        label: Some(label.into()),
        body: PartBody::text(text),
    };
    let mut parts = vec![part(seq, NARRATIVE, &summary.narrative)];
    if !summary.state.is_empty() {
        parts.push(part(next_seq(), STATE, &summary.state));
    }
    // They belong to the summary's row, so that an undo takes them along.
    parts.extend(standing.iter().map(|held| Part {
        seq: next_seq(),
        row: seq,
        slot: slot::LATE,
        standing: Standing::InOrder,
        created_at: input.now,
        ..(*held).clone()
    }));
    Row {
        seq,
        turn: input.plan.turn,
        role,
        standing: Standing::ByOp,
        status: RowStatus::Complete,
        created_at: input.now,
        tool: None,
        finish_reason: None,
        parts,
    }
}

/// The request after the commit, with the summaries as large as they are.
fn tokens_after(input: &CommitInput<'_>, summaries: &[Row]) -> Tokens {
    let plan = input.plan;
    let allowed: u64 = plan.ranges.iter().map(|range| range.allowance).sum();
    let real: u64 = summaries.iter().map(row_tokens).sum();
    let count = (plan.after.count + real).saturating_sub(allowed);
    Tokens { count, kind: plan.after.kind }
}

fn log(input: &CommitInput<'_>, generation: &Generation, summaries: &[Row]) -> Log {
    let plan = input.plan;
    let narrated = plan
        .narrated()
        .and_then(|range| plan.ranges.iter().position(|other| other == range))
        .and_then(|at| input.summaries.get(at));
    let millis = input.now.millis_since(input.asked_at).max(0);
    Log {
        at: input.asked_at,
        kind: plan.kind,
        reason: plan.reason,
        method: Some(narrated.map_or(Method::Deterministic, |summary| summary.method)),
        rows_before: plan.rows_before as u64,
        rows_after: plan.rows_after as u64,
        before: Some(plan.before),
        after: Some(tokens_after(input, summaries)),
        model: input.model.map(str::to_owned),
        millis: u64::try_from(millis).unwrap_or_default(),
        coverage: narrated.map(|summary| summary.coverage),
        fallback_because: narrated.and_then(|summary| summary.fallback_because.clone()),
        outcome: Outcome::Committed {
            generation: generation.n,
            summary: summaries.first().map(|row| row.seq),
        },
    }
}

fn records(input: &CommitInput<'_>, commit: &Commit, base: Option<&Generation>) -> Batch {
    let mut records: Batch = Vec::new();
    records.extend(commit.summaries.iter().cloned().map(Record::Row));
    records.extend(commit.stubs.iter().cloned().map(Record::Part));
    if commit.prompt_changed {
        records.push(Record::Text { text: input.snapshot.text.clone() });
    }
    if base.is_none_or(|base| base.tools != commit.generation.tools) {
        records.push(Record::Text { text: input.tools.json().into() });
    }
    records.push(Record::Generation(commit.generation.clone()));
    records.push(Record::Manifest {
        generation: commit.generation.n,
        blocks: input.snapshot.blocks.clone(),
    });
    records.push(Record::Patch(SessionPatch {
        compactions: Some(input.compactions + 1),
        ..SessionPatch::default()
    }));
    records.extend(
        commit
            .log
            .event(input.session)
            .map(|event| Record::Event(OutboxEvent::PostCompaction(event))),
    );
    records
}

/// Project files and skills in the rows that leave the history or lose their text, and of them the
/// newest texts that go on to hold as far as there is room for them.
fn reissue<'a>(input: &CommitInput<'a>) -> (Vec<Reissue>, Vec<&'a Part>) {
    let plan = input.plan;
    let covered: HashSet<Seq> =
        plan.ranges.iter().flat_map(|range| range.rows.iter().copied()).collect();
    let swapped: HashSet<Seq> = plan.swaps.iter().map(|swap| swap.part).collect();
    let mut found: Vec<Reissue> = Vec::new();
    let mut held: Vec<(&'a Part, bool)> = Vec::new();
    // The newest text of each comes first.
    for row in input.rows.iter().rev() {
        for part in row.parts.iter().rev() {
            let leaves = covered.contains(&row.seq) || swapped.contains(&part.seq);
            if !leaves || !matches!(part.origin, Origin::Hint | Origin::Skill) {
                continue;
            }
            let Some(label) = &part.label else { continue };
            if found.iter().any(|known| known.origin == part.origin && known.label == *label) {
                continue;
            }
            // Of skills only those that the person loaded: the model can load its own again. What a
            // later row holds too need not stand twice.
            let later = plan.ranges.last().map_or(Seq(0), |range| range.to);
            let twin = |other: &Part| other.origin == part.origin && other.label == part.label;
            let shown = input.rows.iter().filter(|row| row.seq > later);
            let holds = (part.origin == Origin::Hint || row.role == Role::User)
                && !shown.flat_map(|row| &row.parts).any(twin);
            held.push((part, holds && covered.contains(&row.seq)));
            found.push(Reissue {
                origin: part.origin,
                label: label.clone(),
                row: row.seq,
                stands: false,
            });
        }
    }
    let room = plan.ranges.first().zip(input.summaries.first()).map_or(0, |(range, summary)| {
        range.tokens.saturating_sub(summary.tokens()).saturating_sub(1) / 2
    });
    let mut left = input.hold_on.min(room);
    let mut standing = Vec::new();
    for (reissue, (part, holds)) in found.iter_mut().zip(&held) {
        let cost = part_tokens(part);
        if *holds && cost <= left {
            left -= cost;
            reissue.stands = true;
            standing.push(*part);
        }
    }
    found.reverse();
    standing.reverse();
    (found, standing)
}

/// Adds the committed rows, parts and generation to histories held in memory.
pub fn apply(commit: &Commit, rows: &mut Vec<Row>, generations: &mut Vec<Generation>) {
    for stub in &commit.stubs {
        if let Some(row) = rows.iter_mut().find(|row| row.seq == stub.row) {
            row.parts.push(stub.clone());
            row.sort_parts();
        }
    }
    rows.extend(commit.summaries.iter().cloned());
    generations.push(commit.generation.clone());
}

/// Why nothing can be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    /// There is no compaction in force.
    #[error("there is no compaction to undo; hint: `hermes sessions compactions` lists them")]
    Nothing,
    /// The generation is none, or its operations no longer hold.
    #[error(
        "generation {0} is no compaction in force; hint: `hermes sessions compactions` lists them"
    )]
    NotInForce(GenerationNo),
    /// The history does not fit together.
    #[error(transparent)]
    View(#[from] hermes_core::ViewError),
}

/// The generation that takes one compaction back: the newest in force, or `target`. What was
/// taken back, said or compacted since stays as it is; the prompt goes back to the one before only
/// if it is still the compaction's own.
///
/// # Errors
/// If there is no such compaction in force.
pub fn undo(
    generations: &[Generation],
    head: GenerationNo,
    target: Option<GenerationNo>,
    now: Timestamp,
) -> Result<Generation, UndoError> {
    let in_force = effective_ops(generations, head)?;
    let of = |n: GenerationNo| generations.iter().find(|generation| generation.n == n);
    let compaction = in_force
        .iter()
        .rev()
        .filter_map(|(at, _)| of(at.generation))
        .filter(|generation| kind::is_compaction(generation))
        .find(|generation| target.is_none_or(|wanted| generation.n == wanted));
    let compaction = match (compaction, target) {
        (Some(compaction), _) => compaction,
        (None, Some(target)) => return Err(UndoError::NotInForce(target)),
        (None, None) => return Err(UndoError::Nothing),
    };
    let ops: Vec<Op> = in_force
        .iter()
        .filter(|(at, _)| at.generation == compaction.n)
        .map(|(at, _)| Op::Revoke { target: *at })
        .collect();
    let head_generation = of(head).ok_or(hermes_core::ViewError::MissingGeneration(head))?;
    let before = compaction.parent.and_then(of);
    let (mut prompt, mut tools) = (head_generation.prompt, head_generation.tools);
    if let Some(before) = before {
        if prompt == compaction.prompt {
            prompt = before.prompt;
        }
        if tools == compaction.tools {
            tools = before.tools;
        }
    }
    Ok(Generation {
        n: newest(generations).map_or(GenerationNo(0), GenerationNo::next),
        parent: Some(head),
        cause: Cause::UndoCompaction,
        created_at: now,
        prompt,
        tools,
        ops,
    })
}

/// The operations of `generation` as an undo would name them.
pub fn op_refs(generation: &Generation) -> impl Iterator<Item = OpRef> {
    let n = generation.n;
    (0u32..).zip(&generation.ops).map(move |(index, _)| OpRef { generation: n, index })
}
