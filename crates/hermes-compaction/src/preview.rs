//! A plan for a person to look at before it is carried out.

use std::fmt::Write as _;

use hermes_core::Tokens;
use serde::Serialize;

use crate::{Place, Plan, Pruned};

/// What a plan would do, in figures and words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    /// `summarize`, `prune_tool_results`, ...
    pub kind: &'static str,
    /// Rows before and after.
    pub rows: (usize, usize),
    /// Tokens before.
    pub before: Tokens,
    /// Tokens after, at most.
    pub after: Tokens,
    /// Tokens that are surely saved.
    pub certain: u64,
    /// Tokens that the helper model reads, about; 0 where none is asked.
    pub helper_input: u64,
    /// Tokens that it writes, at most.
    pub helper_output: u64,
    /// What leaves, line by line.
    pub leaves: Vec<String>,
    /// What stays, line by line.
    pub stays: Vec<String>,
    /// What has to be said.
    pub notes: Vec<String>,
}

/// Describes `plan`.
pub fn preview(plan: &Plan) -> Preview {
    let mut leaves = Vec::new();
    for range in &plan.ranges {
        let what = match range.place {
            Place::Earlier => "covered by a summary",
            Place::RunningTurn => "work of the running request, covered by a summary",
        };
        let takes_up = match range.previous {
            Some(row) => format!(", which takes up the summary r{row}"),
            None => String::new(),
        };
        leaves.push(format!(
            "{} rows, r{} to r{}, ~{} tokens: {what} of at most {}{takes_up}",
            range.rows.len(),
            range.from,
            range.to,
            range.tokens,
            range.allowance
        ));
    }
    for (what, name) in [
        (Pruned::Duplicate, "duplicate results"),
        (Pruned::Result, "long results"),
        (Pruned::Attachment, "images and files"),
        (Pruned::Skill, "skill texts"),
    ] {
        let of: Vec<_> = plan.swaps.iter().filter(|swap| swap.what == what).collect();
        if !of.is_empty() {
            let saved: u64 = of.iter().map(|swap| swap.saved).sum();
            leaves.push(format!("{} {name}, ~{saved} tokens: pointers in their place", of.len()));
        }
    }
    let stays = plan
        .kept
        .iter()
        .map(|kept| {
            let (first, last) = kept.rows;
            format!(
                "{} rows, r{first} to r{last}, ~{} tokens: {}",
                kept.count, kept.tokens, kept.why
            )
        })
        .collect();
    let narrated = plan.narrated();
    Preview {
        kind: plan.kind.as_str(),
        rows: (plan.rows_before, plan.rows_after),
        before: plan.before,
        after: plan.after,
        certain: plan.certain,
        helper_input: narrated.map_or(0, |range| range.tokens + 900),
        helper_output: narrated.map_or(0, |range| range.allowance),
        leaves,
        stays,
        notes: plan.notes.clone(),
    }
}

impl Preview {
    /// The text for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let (before, after) = self.rows;
        let _ = writeln!(
            out,
            "Plan: {}, {before} -> {after} rows, {} -> at most {} tokens ({} surely saved)",
            self.kind, self.before, self.after, self.certain
        );
        for (title, lines) in
            [("Leaves", &self.leaves), ("Stays", &self.stays), ("Note", &self.notes)]
        {
            for line in lines {
                let _ = writeln!(out, "  {title}: {line}");
            }
        }
        if self.helper_input > 0 {
            let _ = writeln!(
                out,
                "  Cost: one request of ~{} tokens, at most ~{} back; in money unknown, no price is \
                 known here",
                self.helper_input, self.helper_output
            );
        }
        out
    }
}
