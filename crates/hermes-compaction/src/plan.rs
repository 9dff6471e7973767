//! Planning: what would be taken out, what that surely saves, and what stays and why, before
//! anything is paid.
//!
//! Invariants: a plan is a pure function of its input; a call and its results are on one side of
//! every boundary; the newest message of the person always stays as it is.

use std::collections::{HashMap, HashSet};

use hermes_core::{GenerationNo, Role, Seq, TokenKind, Tokens, TurnNo, View, ViewRow};
use serde::{Deserialize, Serialize};

use crate::measure::{after, part_tokens, row_tokens};
use crate::prune::{
    Extent, Pruned, Swap, prune, prune_attachments, prune_beside, prune_under_pressure,
};
use crate::shape::{Shape, is_answer, is_summary};
use crate::summary::{NARRATIVE, STATE};
use crate::{Deferral, Kind, Policy, Reason, Rejection, Sizes};

/// How much of the newest history stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As the policy says.
    Tail,
    /// The last exchanges, exactly so many.
    Exchanges(usize),
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The history as the next request would hold it.
    pub view: &'a View,
    /// The person's settings.
    pub policy: &'a Policy,
    /// The sizes of the window.
    pub sizes: Sizes,
    /// Tokens of the next request, prompt and tools included, as well as they are known.
    pub before: Tokens,
    /// Why.
    pub reason: Reason,
    /// How much stays.
    pub keep: Keep,
    /// The generation that the view is of.
    pub base: GenerationNo,
    /// The highest seq that the view could see.
    pub cut: Seq,
    /// The current turn.
    pub turn: TurnNo,
}

/// Where a covered range lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Before the running request.
    Earlier,
    /// Work already done for the running request, which is itself too large.
    RunningTurn,
}

/// A range that a summary replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first position.
    pub from: Seq,
    /// The last position.
    pub to: Seq,
    /// The rows that stand there now, earlier summaries included.
    pub rows: Vec<Seq>,
    /// The summary that is taken up and replaced, if one stands there.
    pub previous: Option<Seq>,
    /// What the rows cost now.
    pub tokens: u64,
    /// What the summary may cost at most.
    pub allowance: u64,
    /// The derived state's share of that.
    pub state_allowance: u64,
    /// Where it lies.
    pub place: Place,
    /// The role in which the summary stands.
    pub role: Role,
}

/// Rows that stay, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// First and last row.
    pub rows: (Seq, Seq),
    /// How many.
    pub count: usize,
    /// What they cost after the plan.
    pub tokens: u64,
    /// Why, in words.
    pub why: String,
}

/// A plan. Nothing has happened yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What it does.
    pub kind: Kind,
    /// Why.
    pub reason: Reason,
    /// The generation it builds on.
    pub base: GenerationNo,
    /// The highest seq that was seen.
    pub cut: Seq,
    /// The turn in which it is made.
    pub turn: TurnNo,
    /// Ranges that summaries replace: none, one, or an earlier one and one of the running turn.
    pub ranges: Vec<Range>,
    /// Parts that pointers replace, among the rows that stay.
    pub swaps: Vec<Swap>,
    /// Rows that stay.
    pub kept: Vec<Kept>,
    /// Rows in the view before.
    pub rows_before: usize,
    /// Rows in the view after.
    pub rows_after: usize,
    /// Tokens of the request before.
    pub before: Tokens,
    /// Tokens of the request after, at most: summaries as large as they may be.
    pub after: Tokens,
    /// What the history alone costs now, estimated.
    pub history_tokens: u64,
    /// Tokens that are surely saved.
    pub certain: u64,
    /// Where the request should be below afterwards.
    pub target: u64,
    /// What has to be said about it: a target that is out of reach, a turn that is split.
    pub notes: Vec<String>,
}

impl Range {
    /// Whether even the largest summary costs less than the rows.
    const fn pays(&self) -> bool {
        self.allowance < self.tokens
    }

    /// The narrative's share of the allowance.
    pub fn narrative_allowance(&self) -> u64 {
        self.allowance.saturating_sub(self.state_allowance).max(LEAST_NARRATIVE)
    }
}

impl Plan {
    /// Whether the request is surely below its target afterwards.
    pub const fn reaches_target(&self) -> bool {
        self.after.count <= self.target
    }

    /// The range whose summary a model writes: the one that costs most. Another one is summarised
    /// from its rows alone.
    pub fn narrated(&self) -> Option<&Range> {
        self.ranges.iter().max_by_key(|range| range.tokens)
    }
}

/// What planning found.
#[derive(Clone, Debug, PartialEq)]
pub enum Planned {
    /// There is something to do.
    Plan(Box<Plan>),
    /// There is nothing, or it would not pay.
    Rejected(Rejection),
    /// Not now.
    Deferred(Deferral),
}

/// A narrative is at least worth this many tokens.
const LEAST_NARRATIVE: u64 = 160;
/// A narrative is never larger.
const MOST_NARRATIVE: u64 = 8_000;

/// What a summary may cost, narrative and derived state: what the summaries it takes up cost, and of
/// the fresh rows a fifth for the narrative and two fifths for the state, within their budgets. If
/// it were bounded by a share of all it replaces, it would fade with every compaction.
fn allowance(rows: &[ViewRow], full: &[u64], policy: &Policy, sizes: Sizes) -> (u64, u64) {
    let (mut fresh, mut narrative, mut state) = (0, 0, 0);
    for (shown, cost) in rows.iter().zip(full) {
        if !is_summary(&shown.row) {
            fresh += cost;
            continue;
        }
        for part in &shown.row.parts {
            match part.label.as_deref() {
                Some(STATE) => state += part_tokens(part),
                Some(NARRATIVE) => narrative += part_tokens(part),
                _ => {}
            }
        }
    }
    let most = (sizes.window / 20).clamp(LEAST_NARRATIVE, MOST_NARRATIVE);
    let narrative = (narrative + fresh / 5).clamp(LEAST_NARRATIVE, most);
    let state = (state + fresh * 2 / 5).min(policy.state_budget(sizes));
    (narrative, state)
}

/// The rows of the view with what they cost, and the boundaries under discussion.
struct Draft<'a> {
    input: PlanInput<'a>,
    shape: Shape,
    /// Cost of each row as it is now.
    full: Vec<u64>,
    /// Cost of each row after the swaps decided so far.
    cost: Vec<u64>,
    swaps: Vec<Swap>,
    /// Cost of everything but the history.
    overhead: u64,
    history: u64,
    notes: Vec<String>,
}

/// Plans a compaction of `input.view`.
pub fn plan(input: PlanInput<'_>) -> Planned {
    match Draft::new(input) {
        Ok(mut draft) => draft.plan(),
        Err(deferral) => Planned::Deferred(deferral),
    }
}

impl<'a> Draft<'a> {
    fn new(input: PlanInput<'a>) -> Result<Self, Deferral> {
        let shape = Shape::of(input.view);
        if shape.calls_in_flight() > 0 {
            return Err(Deferral::CallsInFlight { calls: shape.calls_in_flight() });
        }
        let full: Vec<u64> = input.view.rows.iter().map(|shown| row_tokens(&shown.row)).collect();
        let history: u64 = full.iter().sum();
        let overhead = input.before.count.saturating_sub(history);
        let cost = full.clone();
        Ok(Self {
            input,
            shape,
            full,
            cost,
            swaps: Vec::new(),
            overhead,
            history,
            notes: Vec::new(),
        })
    }

    fn plan(&mut self) -> Planned {
        let rows = self.input.view.rows.len();
        if rows == 0 {
            return reject_nothing("the history is empty");
        }
        let mut head = self.head_end();
        let mut tail = match self.tail_start(head) {
            Ok(tail) => tail.max(head),
            Err(kept) => return reject_nothing(kept),
        };
        if tail <= head && self.input.reason == Reason::Manual {
            // All of it would fit into the tail, but the person wants it shorter.
            head = 0;
            tail = self.shape.cut_at_or_before(self.shape.newest_request().unwrap_or(0));
        }
        // What the person asked to keep stays as it is, duplicates included.
        let exact = matches!(self.input.keep, Keep::Exchanges(_));
        let range = (tail > head).then(|| self.range(head, tail, Place::Earlier));
        if !exact {
            // What a summary will stand for needs no pointers.
            let leaving = if range.as_ref().is_some_and(Range::pays) { head..tail } else { 0..0 };
            let extent = Extent::before(self.protected_from(tail));
            self.take(prune_beside(self.input.view, extent, &leaving));
            if self.input.reason == Reason::Overflow {
                self.strip_attachments(&leaving);
            }
        }
        let mut ranges = Vec::from_iter(range);
        if !exact {
            self.relieve_tail(head, tail, &mut ranges);
        }
        self.finish(head, tail, ranges)
    }

    /// After a refusal images and files become pointers, wherever they stand; only those of the
    /// newest message stay, which is about them.
    fn strip_attachments(&mut self, leaving: &std::ops::Range<usize>) {
        let newest = self.shape.newest_request();
        let more = prune_attachments(self.input.view, leaving, newest, &self.swaps);
        if !more.is_empty() {
            self.notes.push(format!(
                "the provider refused the request as too large: {} images and files become \
                 pointers",
                more.len()
            ));
        }
        self.take(more);
    }

    /// Rows at the start that stay: those of the policy before the first compaction, unless they
    /// are larger than the tail may be.
    fn head_end(&self) -> usize {
        let rows = &self.input.view.rows;
        let compacted = rows.iter().any(|shown| is_summary(&shown.row));
        if compacted || matches!(self.input.keep, Keep::Exchanges(_)) {
            return 0;
        }
        let wanted = self.input.policy.protect_first_n.min(rows.len());
        let end = self.shape.cut_at_or_after(wanted);
        // Steps back over rows that are too dear to stay for ever.
        let budget = self.input.sizes.tail / 2;
        (0..=end)
            .rev()
            .filter(|at| self.shape.may_cut(*at))
            .find(|at| self.cost[..*at].iter().sum::<u64>() <= budget)
            .unwrap_or(0)
    }

    /// Where the kept tail begins.
    fn tail_start(&self, head: usize) -> Result<usize, &'static str> {
        let requests = self.shape.requests();
        let Some(newest) = self.shape.newest_request() else {
            // Nobody speaks here (a scheduled run of tools): cut by size alone.
            return Ok(self.shape.cut_at_or_before(self.walk_back(self.input.view.rows.len())));
        };
        if let Keep::Exchanges(count) = self.input.keep {
            let Some(first) = requests.len().checked_sub(count.max(1)) else {
                return Err("there are no more exchanges than are to be kept");
            };
            let start = self.shape.cut_at_or_before(requests[first]);
            return if start == 0 {
                Err("there are no more exchanges than are to be kept")
            } else {
                Ok(start)
            };
        }
        let by_size = self.walk_back(self.input.view.rows.len());
        let least = self.input.policy.min_tail_user_messages.max(1);
        let anchored = requests[requests.len().saturating_sub(least)];
        // Whole turns: the first exchange that begins inside the budget.
        let whole = requests.iter().copied().find(|start| *start >= by_size).unwrap_or(newest);
        let start = self.shape.cut_at_or_before(whole.min(anchored).min(newest));
        Ok(self.bridge(start, head))
    }

    /// The first row of the newest ones that together fit the tail's budget.
    fn walk_back(&self, end: usize) -> usize {
        let mut left = self.input.sizes.tail;
        let mut at = end;
        while at > 0 {
            let cost = self.cost[at - 1];
            if cost > left {
                break;
            }
            left -= cost;
            at -= 1;
        }
        at
    }

    /// Keeps the answer before an unanswered newest request, so that the summary does not touch
    /// the request and the request stands alone.
    fn bridge(&self, start: usize, head: usize) -> usize {
        let rows = &self.input.view.rows;
        let running = self.shape.newest_request() == Some(start);
        if running
            && start > head + 1
            && self.shape.may_cut(start - 1)
            && is_answer(&rows[start - 1].row)
            && self.cost[start - 1] <= self.input.sizes.tail
        {
            start - 1
        } else {
            start
        }
    }

    /// From where on pruning leaves results alone: the newest rows of the tail.
    fn protected_from(&self, tail: usize) -> usize {
        let rows = self.input.view.rows.len();
        tail.max(rows.saturating_sub(self.input.policy.protect_last_n.max(1)))
    }

    /// Takes swaps over, and what they save off the cost of their rows.
    fn take(&mut self, swaps: Vec<Swap>) {
        let rows = &self.input.view.rows;
        let saved: HashMap<Seq, u64> = swaps.iter().fold(HashMap::new(), |mut saved, swap| {
            *saved.entry(swap.row).or_default() += swap.saved;
            saved
        });
        for (shown, cost) in rows.iter().zip(&mut self.cost) {
            *cost = cost.saturating_sub(saved.get(&shown.row.seq).copied().unwrap_or_default());
        }
        self.swaps.extend(swaps);
    }

    /// What the request costs if these ranges become summaries.
    fn after(&self, ranges: &[Range]) -> u64 {
        let rows = &self.input.view.rows;
        let mut total = self.overhead;
        for (shown, cost) in rows.iter().zip(&self.cost) {
            let covered = ranges.iter().any(|r| r.from <= shown.position && shown.position <= r.to);
            total += if covered { 0 } else { *cost };
        }
        total + ranges.iter().map(|range| range.allowance).sum::<u64>()
    }

    /// A tail that does not fit is relieved: results become pointers, oldest first; then work
    /// already done for the running request is summarised.
    fn relieve_tail(&mut self, head: usize, tail: usize, ranges: &mut Vec<Range>) {
        let target = self.target();
        let over = self.after(ranges).saturating_sub(target);
        if over == 0 {
            return;
        }
        let more = prune_under_pressure(self.input.view, tail.max(head), over, &self.swaps);
        if !more.is_empty() {
            self.notes.push(format!(
                "the newest history alone is too large: {} of its tool results become pointers",
                more.len()
            ));
        }
        self.take(more);
        if self.after(ranges) <= target {
            return;
        }
        if let Some(range) = self.split_running_turn(head.max(tail)) {
            self.notes.push(format!(
                "the running request alone is too large: {} rows of work already done for it are \
                 summarised",
                range.rows.len()
            ));
            ranges.push(range);
        }
    }

    /// The work of the running request that is older than the tail's budget.
    fn split_running_turn(&self, tail: usize) -> Option<Range> {
        let rows = self.input.view.rows.len();
        let from = self.shape.newest_request()? + 1;
        let from = self.shape.cut_at_or_after(from.max(tail));
        let keep = self.walk_back(rows).max(from);
        let to = self.shape.cut_at_or_before(keep.min(rows.checked_sub(1)?));
        (to > from && self.shape.may_cut(from)).then(|| self.range(from, to, Place::RunningTurn))
    }

    fn target(&self) -> u64 {
        // What the person asks for has no target but to be smaller.
        self.input.sizes.threshold
    }

    fn range(&self, from: usize, to: usize, place: Place) -> Range {
        let rows = &self.input.view.rows[from..to];
        let tokens: u64 = self.full[from..to].iter().sum();
        let (narrative, state) =
            allowance(rows, &self.full[from..to], self.input.policy, self.input.sizes);
        let next = self.input.view.rows.get(to).map(|shown| &shown.row);
        let alone =
            to + 1 == self.input.view.rows.len() && next.is_some_and(crate::shape::is_request);
        Range {
            from: rows.first().map_or(Seq(0), |shown| shown.position),
            to: rows.last().map_or(Seq(0), |shown| shown.position),
            rows: rows.iter().map(|shown| shown.row.seq).collect(),
            previous: rows
                .iter()
                .filter(|shown| is_summary(&shown.row))
                .map(|shown| shown.row.seq)
                .max(),
            tokens,
            allowance: narrative + state,
            state_allowance: state,
            place,
            // In front of a request that nothing answered yet, a summary of the user's role would
            // become part of that message.
            role: if alone { Role::Assistant } else { Role::User },
        }
    }

    fn finish(&mut self, head: usize, tail: usize, mut ranges: Vec<Range>) -> Planned {
        let rows = self.input.view.rows.len();
        ranges.retain(Range::pays);
        let covered: HashSet<Seq> =
            ranges.iter().flat_map(|range| range.rows.iter().copied()).collect();
        self.swaps.retain(|swap| !covered.contains(&swap.row));
        if ranges.is_empty() && self.swaps.is_empty() {
            return if tail > head {
                Planned::Rejected(Rejection::TooLittle { certain: 0, wanted: 1 })
            } else {
                reject_nothing("all of it belongs to the part that always stays")
            };
        }
        let total = self.after(&ranges);
        let before = self.overhead + self.history;
        let certain = before.saturating_sub(total);
        let target = self.target();
        let automatic = self.input.reason.is_automatic();
        if automatic && total > target {
            // Half-hearted passes are what makes histories thrash. What an image weighs in bytes is
            // not told by its tokens.
            let bytes = self.input.reason == Reason::Overflow
                && self.swaps.iter().any(|swap| swap.what == Pruned::Attachment);
            if certain * 10 < before && !bytes {
                let wanted = before.saturating_sub(target);
                return Planned::Rejected(Rejection::TooLittle { certain, wanted });
            }
            self.notes.push(format!(
                "the request may still hold ~{total} tokens afterwards, more than the {target} at \
                 which compaction begins: prompt and tools take ~{}, the kept rows the rest",
                self.overhead
            ));
        }
        let kind = if ranges.is_empty() { Kind::PruneToolResults } else { Kind::Summarize };
        let plan = Plan {
            kind,
            reason: self.input.reason,
            base: self.input.base,
            cut: self.input.cut,
            turn: self.input.turn,
            rows_before: rows,
            rows_after: rows - covered.len() + ranges.len(),
            before: self.input.before,
            after: after(self.input.before, before, total),
            history_tokens: self.history,
            certain,
            target,
            kept: self.kept(head, tail, &covered),
            swaps: std::mem::take(&mut self.swaps),
            ranges,
            notes: std::mem::take(&mut self.notes),
        };
        Planned::Plan(Box::new(plan))
    }

    fn kept(&self, head: usize, tail: usize, covered: &HashSet<Seq>) -> Vec<Kept> {
        let rows = &self.input.view.rows;
        let (newest, why) = match self.input.keep {
            Keep::Exchanges(_) => (rows.len(), "the exchanges you asked to keep"),
            Keep::Tail => {
                let newest = self.shape.newest_request().unwrap_or(rows.len());
                (newest.max(tail), "the newest history")
            }
        };
        let pieces = [
            (0, head, "the opening of the conversation"),
            (tail, newest, why),
            (newest, rows.len(), "the newest message and what followed it"),
        ];
        pieces
            .into_iter()
            .filter_map(|(from, to, why)| {
                let kept: Vec<usize> =
                    (from..to).filter(|at| !covered.contains(&rows[*at].row.seq)).collect();
                let (first, last) = (*kept.first()?, *kept.last()?);
                Some(Kept {
                    rows: (rows[first].row.seq, rows[last].row.seq),
                    count: kept.len(),
                    tokens: kept.iter().map(|at| self.cost[*at]).sum(),
                    why: why.to_owned(),
                })
            })
            .collect()
    }
}

fn reject_nothing(kept: &str) -> Planned {
    Planned::Rejected(Rejection::NothingToDo { kept: kept.to_owned() })
}

/// Plans pruning alone, `proactive_prune`: only results older than the newest rows, only if enough
/// is won.
pub fn plan_prune(input: PlanInput<'_>) -> Planned {
    let shape = Shape::of(input.view);
    if shape.calls_in_flight() > 0 {
        return Planned::Deferred(Deferral::CallsInFlight { calls: shape.calls_in_flight() });
    }
    let rows = input.view.rows.len();
    let extent = Extent {
        min_chars: input.policy.proactive_prune_min_result_chars,
        ..Extent::before(rows.saturating_sub(input.policy.protect_last_n))
    };
    let swaps = prune(input.view, extent);
    let certain: u64 = swaps.iter().map(|swap| swap.saved).sum();
    let wanted = match input.reason {
        Reason::Manual => 1,
        _ => input.policy.proactive_prune_min_reclaim_tokens.max(1),
    };
    if swaps.is_empty() {
        return reject_nothing(
            "there is no long result, image or skill text outside the newest rows",
        );
    }
    if certain < wanted {
        return Planned::Rejected(Rejection::TooLittle { certain, wanted });
    }
    let history = crate::measure::view_tokens(input.view);
    let kind = match input.before.kind {
        TokenKind::Estimated => TokenKind::Estimated,
        TokenKind::Exact | TokenKind::Anchored => TokenKind::Anchored,
    };
    let count = input.before.count.saturating_sub(certain);
    Planned::Plan(Box::new(Plan {
        kind: Kind::PruneToolResults,
        reason: input.reason,
        base: input.base,
        cut: input.cut,
        turn: input.turn,
        ranges: Vec::new(),
        kept: Vec::new(),
        rows_before: rows,
        rows_after: rows,
        before: input.before,
        after: Tokens { count, kind },
        history_tokens: history,
        certain,
        target: input.before.count,
        swaps,
        notes: Vec::new(),
    }))
}

/// Plans `micro_summarize`: the work of the oldest finished exchange outside the tail that is still
/// as it was; the person's words stay.
pub fn plan_micro(input: PlanInput<'_>) -> Planned {
    let mut draft = match Draft::new(input) {
        Ok(draft) => draft,
        Err(deferral) => return Planned::Deferred(deferral),
    };
    let tail = match draft.tail_start(0) {
        Ok(tail) => tail,
        Err(kept) => return reject_nothing(kept),
    };
    let requests = draft.shape.requests().to_vec();
    for pair in requests.windows(2) {
        let (from, to) = (pair[0] + 1, pair[1]);
        if to > tail || to - from < 2 {
            continue;
        }
        let rows = &input.view.rows[from..to];
        let done = rows.last().is_some_and(|shown| is_answer(&shown.row));
        let legal = draft.shape.may_cut(from) && draft.shape.may_cut(to);
        if done && legal && !rows.iter().any(|shown| is_summary(&shown.row)) {
            let mut range = draft.range(from, to, Place::Earlier);
            range.role = Role::Assistant;
            // A single exchange leaves a note, not a record.
            range.state_allowance = range.state_allowance.min(range.tokens / 5);
            range.allowance = range.allowance.min(range.tokens / 2);
            let planned = draft.finish(from, to, vec![range]);
            return match planned {
                Planned::Plan(mut plan) => {
                    plan.kind = Kind::MicroSummarize;
                    plan.kept.clear();
                    Planned::Plan(plan)
                }
                other => other,
            };
        }
    }
    reject_nothing("no finished exchange outside the newest history is worth it")
}
