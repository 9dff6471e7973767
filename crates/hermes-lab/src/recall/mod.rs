//! The recall gate: how much of what was said can still be known after compaction.
//!
//! Invariants: figures are of made-up conversations and of texts that are there or are not, no
//! model reads or judges; the generator knows nothing of how anything is extracted; every way of
//! keeping is measured on the same conversations with the same tokens.

mod chance;
mod generate;
pub(crate) mod plot;
mod policies;
mod words;

use std::collections::HashSet;

use hermes_compaction::recall::{Bounds, Query, recall};
use hermes_core::{Row, Seq};
use serde::{Deserialize, Serialize};

pub use generate::{Fact, FactKind, Planted, Teller, generate};
pub use plot::svg;
pub use policies::{Baseline, Held, WINDOW, ours};

use crate::LabError;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallInput {
    /// The seeds.
    pub seeds: std::ops::Range<u64>,
    /// Messages of a conversation.
    pub sizes: Vec<usize>,
    /// Compactions of a conversation.
    pub compactions: Vec<u32>,
}

impl RecallInput {
    /// All of it: 20 seeds, 200 to 20,000 messages, 1 to 40 compactions.
    pub fn full() -> Self {
        Self {
            seeds: 0..20,
            sizes: vec![200, 1_000, 5_000, 20_000],
            compactions: vec![1, 5, 20, 40],
        }
    }

    /// A size that a test can afford.
    pub fn small() -> Self {
        Self { seeds: 0..6, sizes: vec![200, 1_000], compactions: vec![1, 20] }
    }
}

/// Hits of tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// How many were hit.
    pub hits: u64,
    /// Of how many.
    pub of: u64,
}

impl Share {
    pub(crate) fn count(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.of += 1;
    }

    /// In percent; of nothing, a hundred.
    pub fn percent(self) -> f64 {
        if self.of == 0 { 100.0 } else { self.hits as f64 * 100.0 / self.of as f64 }
    }
}

/// The figures of one way of keeping, at one size and number of compactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// The way.
    pub way: String,
    /// Messages of each conversation.
    pub messages: usize,
    /// Compactions of each conversation.
    pub compactions: u32,
    /// Facts that the next request holds.
    pub kept: Share,
    /// The same, or found with one search by the question's words.
    pub with_search: Share,
    /// Facts found by that search alone.
    pub search_alone: Share,
    /// References at a fact that lead to a row which states it.
    pub references: Share,
    /// Facts that were taken back and are not stated as valid.
    pub not_asserted: Share,
    /// Tokens kept, mean.
    pub tokens: u64,
    /// Tokens kept, most.
    pub most_tokens: u64,
    /// Facts that the next request holds, by kind.
    pub by_kind: Vec<(FactKind, Share)>,
}

/// The whole measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecallReport {
    /// What this is.
    pub note: &'static str,
    /// How many seeds.
    pub seeds: u64,
    /// The figures, this project's way first at each size.
    pub scores: Vec<Score>,
}

/// The name of this project's way.
pub const OURS: &str = "hermes, no model";

/// Measures.
///
/// # Errors
/// If a history does not fit together.
pub fn run_recall(input: &RecallInput) -> Result<RecallReport, LabError> {
    let mut scores: Vec<Score> = Vec::new();
    for &messages in &input.sizes {
        let mut at_size: Vec<Score> = Vec::new();
        for seed in input.seeds.clone() {
            let planted = generate(seed * 7_919 + messages as u64, messages);
            for &times in &input.compactions {
                let held = ours(&planted.rows, times)?;
                let searched = search(&planted, &held.gone);
                let score = score_of(&mut at_size, OURS, messages, times);
                measure(score, &planted, &held, Some(&searched));
                for baseline in Baseline::ALL {
                    let other = baseline.held(&planted.rows, held.tokens);
                    let score = score_of(&mut at_size, baseline.as_str(), messages, times);
                    measure(score, &planted, &other, None);
                }
            }
        }
        let seeds = input.seeds.end.saturating_sub(input.seeds.start).max(1);
        for score in &mut at_size {
            score.tokens /= seeds;
        }
        at_size.sort_by_key(|score| score.compactions);
        scores.append(&mut at_size);
    }
    Ok(RecallReport {
        note: "made-up conversations, texts looked for letter by letter; no model read or judged",
        seeds: input.seeds.end.saturating_sub(input.seeds.start),
        scores,
    })
}

fn score_of<'a>(
    scores: &'a mut Vec<Score>,
    way: &str,
    messages: usize,
    compactions: u32,
) -> &'a mut Score {
    let at = scores.iter().position(|it| it.way == way && it.compactions == compactions);
    let at = at.unwrap_or_else(|| {
        scores.push(Score { way: way.to_owned(), messages, compactions, ..Score::default() });
        scores.len() - 1
    });
    &mut scores[at]
}

/// For each fact whether one search by the question's words brings it back.
fn search(planted: &Planted, gone: &[Seq]) -> Vec<bool> {
    let gone: HashSet<Seq> = gone.iter().copied().collect();
    let rows: Vec<Row> =
        planted.rows.iter().filter(|row| gone.contains(&row.seq)).cloned().collect();
    planted
        .facts
        .iter()
        .map(|fact| {
            let query = Query::Words(fact.question.clone());
            let found = recall(&rows, &query, 0, Bounds::default());
            let text: Vec<String> = found.into_iter().map(|it| it.text).collect();
            holds(&text.join("\n"), fact)
        })
        .collect()
}

fn holds(text: &str, fact: &Fact) -> bool {
    fact.keys.iter().all(|key| text.contains(key.as_str()))
}

fn measure(score: &mut Score, planted: &Planted, held: &Held, searched: Option<&[bool]>) {
    score.tokens += held.tokens;
    score.most_tokens = score.most_tokens.max(held.tokens);
    for (number, fact) in planted.facts.iter().enumerate() {
        let kept = holds(&held.text, fact);
        score.kept.count(kept);
        if let Some((_, share)) = score.by_kind.iter_mut().find(|(kind, _)| *kind == fact.kind) {
            share.count(kept);
        } else {
            let mut share = Share::default();
            share.count(kept);
            score.by_kind.push((fact.kind, share));
        }
        if let Some(searched) = searched {
            let found = searched.get(number).copied().unwrap_or(false);
            score.search_alone.count(found);
            score.with_search.count(kept || found);
            for line in held.summary.lines().filter(|line| holds(line, fact)) {
                let rows = references(line);
                if !rows.is_empty() {
                    score.references.count(rows.iter().any(|row| fact.rows.contains(row)));
                }
            }
        }
        if let Some(old) = &fact.outdated {
            score.not_asserted.count(!asserts(&held.summary, old, &fact.keys));
        }
    }
    score.by_kind.sort_by_key(|(kind, _)| *kind);
}

/// Whether the text states `old` on a line that neither says what holds now nor that it is
/// outdated.
pub(crate) fn asserts(text: &str, old: &str, new: &[String]) -> bool {
    text.lines().filter(|line| line.contains(old)).any(|line| {
        let corrected = new.iter().any(|key| line.contains(key.as_str()));
        let marks = ["OUTDATED", "Ruled out", "see the correction in"];
        !corrected && !marks.iter().any(|mark| line.contains(mark))
    })
}

/// The rows that a line refers to.
fn references(line: &str) -> Vec<Seq> {
    let mut out = Vec::new();
    for (at, _) in line.match_indices('r') {
        let before = line[..at].chars().next_back();
        if !matches!(before, Some('[' | ' ' | ',')) {
            continue;
        }
        let digits: String = line[at + 1..].chars().take_while(char::is_ascii_digit).collect();
        let after = line[at + 1 + digits.len()..].chars().next();
        if !digits.is_empty()
            && matches!(after, Some(']' | ',' | ' '))
            && let Ok(row) = digits.parse()
        {
            out.push(Seq(row));
        }
    }
    out
}

impl RecallReport {
    /// This project's figures at a size and number of compactions.
    pub fn ours(&self, messages: usize, compactions: u32) -> Option<&Score> {
        self.scores.iter().find(|score| {
            score.way == OURS && score.messages == messages && score.compactions == compactions
        })
    }

    /// The table in Markdown.
    pub fn to_markdown(&self) -> String {
        use std::fmt::Write as _;
        let mut out = format!(
            "# Recall after compaction\n\n{} seeds; {}.\n\n| messages | compactions | way | kept text | \
             with one search | search alone | references | taken back, not stated | tokens, mean | \
             tokens, most |\n|---|---|---|---|---|---|---|---|---|---|\n",
            self.seeds, self.note
        );
        for score in &self.scores {
            let own = |share: Share| {
                if share.of == 0 { "-".to_owned() } else { format!("{:.1} %", share.percent()) }
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                score.messages,
                score.compactions,
                score.way,
                own(score.kept),
                own(score.with_search),
                own(score.search_alone),
                own(score.references),
                own(score.not_asserted),
                score.tokens,
                score.most_tokens
            );
        }
        let _ = writeln!(out, "\nKept text of {OURS}, by kind of fact:\n");
        let _ = writeln!(
            out,
            "| messages | compactions | {} |",
            FactKind::ALL.map(FactKind::as_str).join(" | ")
        );
        let _ = writeln!(out, "|---|---|{}", "---|".repeat(FactKind::ALL.len()));
        for score in self.scores.iter().filter(|score| score.way == OURS) {
            let kinds: Vec<String> = score
                .by_kind
                .iter()
                .map(|(_, share)| format!("{:.0} %", share.percent()))
                .collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                score.messages,
                score.compactions,
                kinds.join(" | ")
            );
        }
        out
    }
}

#[cfg(test)]
mod tests;
