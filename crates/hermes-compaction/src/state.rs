//! The state of a conversation, derived from its rows without a model.
//!
//! Invariant: derived from the original rows every time, never from an earlier summary, so that it
//! does not fade with the number of compactions.

use std::collections::HashMap;
use std::fmt::Write as _;

use hermes_context::estimate_tokens;
use hermes_core::{Row, Seq};

use crate::requests::{Request, requests};
use crate::statements::{Chosen, Speaker, Statement, choose_beside};
use crate::work::{Work, work};

/// The rows a state is derived from.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    /// The original rows that are, or are to be, covered, in order.
    pub covered: Vec<&'a Row>,
    /// The rows after them, which tell what became of a request.
    pub after: Vec<&'a Row>,
}

/// What the rows say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Requests in the covered rows, in order.
    pub requests: Vec<Request>,
    /// Statements and exact values.
    pub chosen: Chosen,
    /// What was done.
    pub work: Work,
    /// First and last covered row.
    pub rows: Option<(Seq, Seq)>,
    /// How many rows are covered.
    pub count: usize,
}

/// Most of the budget that requests and the work done may take, in percent; statements and values
/// take the rest.
const REQUESTS: u64 = 30;
const WORK: u64 = 15;
/// Tokens of the headings.
const FRAME: u64 = 100;
/// Longest quotation of a request, in characters.
const QUOTE: usize = 4_000;
/// Of a request that is not the newest or the first, where room is scarce.
const SHORT_QUOTE: usize = 280;

/// Derives the state of `scope` for a text of at most `budget` tokens.
pub fn derive(scope: &Scope<'_>, budget: u64) -> State {
    let all: Vec<&Row> = scope.covered.iter().chain(&scope.after).copied().collect();
    let last = scope.covered.last().map_or(Seq(0), |row| row.seq);
    let mut requests = requests(&all);
    requests.retain(|request| request.row <= last);
    let work = work(&scope.covered);
    let asked: u64 = requests.iter().map(|request| 24 + estimate_tokens(&request.text)).sum();
    let done: u64 = work.lines(budget * WORK / 100).iter().map(|line| estimate_tokens(line)).sum();
    let left = budget.saturating_sub(asked.min(budget * REQUESTS / 100) + done + FRAME);
    State {
        requests,
        chosen: choose_beside(&scope.covered, &scope.after, left),
        work,
        rows: scope.covered.first().map(|first| (first.seq, last)),
        count: scope.covered.len(),
    }
}

impl State {
    /// The text that stands in a summary, at most about `budget` tokens.
    pub fn render(&self, budget: u64) -> String {
        let mut out = String::new();
        let Some((first, last)) = self.rows else { return out };
        let _ = writeln!(
            out,
            "Derived from the stored rows r{first} to r{last} ({} rows); `recall` with a row or \
             with words brings the originals back.",
            self.count
        );
        let requests = self.request_lines(budget * REQUESTS / 100);
        section(&mut out, "Asked by the person, word for word", &requests);
        let (marked, facts): (Vec<&Statement>, Vec<&Statement>) = self
            .chosen
            .statements
            .iter()
            .partition(|statement| statement.cue >= crate::cues::Cue::Open);
        let line = |statement: &&Statement| statement_line(statement);
        section(
            &mut out,
            "Decisions, rules, corrections and open points as they were said",
            &marked.iter().map(line).collect::<Vec<_>>(),
        );
        section(&mut out, "Said or returned", &facts.iter().map(line).collect::<Vec<_>>());
        let values = self.value_lines();
        section(&mut out, "Other exact values", &values);
        let used = estimate_tokens(&out);
        let left = budget.saturating_sub(used).max(budget / 20).min(budget * WORK / 100);
        section(&mut out, "Done with tools", &self.work.lines(left));
        out
    }

    fn request_lines(&self, budget: u64) -> Vec<String> {
        let corrected = &self.chosen.corrected;
        let count = self.requests.len();
        let mut left = budget;
        let mut kept: Vec<(usize, String)> = Vec::new();
        // The newest first, then the one it began with, then backwards.
        let order = (0..count).rev().take(1).chain(0..count.min(1)).chain((1..count).rev().skip(1));
        let mut seen = vec![false; count];
        for index in order {
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            let request = &self.requests[index];
            let max = if index + 1 == count || index == 0 { QUOTE } else { SHORT_QUOTE };
            let roomy = estimate_tokens(&request.text) * 12 < budget;
            let line = request.line(if roomy { QUOTE } else { max.min(budget as usize) });
            let line = with_correction(line, corrected, request.row);
            let cost = 1 + estimate_tokens(&line);
            if cost > left {
                if left < 40 {
                    break;
                }
                continue;
            }
            left -= cost;
            kept.push((index, line));
        }
        kept.sort_by_key(|(index, _)| *index);
        let mut lines: Vec<String> = Vec::with_capacity(kept.len() + 1);
        if kept.len() < count {
            lines.push(format!("- ({} more messages, in the stored rows)", count - kept.len()));
        }
        lines.extend(kept.into_iter().map(|(_, line)| line));
        lines
    }

    fn value_lines(&self) -> Vec<String> {
        let mut by_row: Vec<(Seq, Vec<&str>)> = Vec::new();
        let mut at: HashMap<Seq, usize> = HashMap::new();
        for value in &self.chosen.values {
            let index = *at.entry(value.row).or_insert_with(|| {
                by_row.push((value.row, Vec::new()));
                by_row.len() - 1
            });
            by_row[index].1.push(&value.text);
        }
        by_row.sort_by_key(|(row, _)| *row);
        let items: Vec<String> =
            by_row.iter().map(|(row, values)| format!("{} [r{row}]", values.join(" "))).collect();
        if items.is_empty() { Vec::new() } else { vec![items.join("; ")] }
    }
}

fn with_correction(line: String, corrected: &HashMap<Seq, Seq>, row: Seq) -> String {
    match corrected.get(&row) {
        Some(by) => format!("{line}; OUTDATED in part, corrected in r{by}"),
        None => line,
    }
}

fn statement_line(statement: &Statement) -> String {
    let who = statement.speaker.as_str();
    let mut line = format!("- [r{} {who}] {}", statement.row, statement.text);
    if !statement.replaces.is_empty() {
        let rows: Vec<String> = statement.replaces.iter().map(|row| format!("r{row}")).collect();
        let _ = write!(line, " (in place of {})", rows.join(", "));
    }
    if statement.speaker == Speaker::Model && statement.cue == crate::cues::Cue::Open {
        line.push_str(" (said by the model, not asked for)");
    }
    line
}

fn section(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {title}");
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
}
