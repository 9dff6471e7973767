//! The shape of a view: exchanges, groups of calls and results, and the places where it may be cut.
//!
//! Invariant: a cut never parts a call from its result, whatever lies between them, and two uses of
//! one call id pair by position.

use std::collections::HashMap;

use hermes_core::{Origin, Part, PartBody, Role, Row, View};

/// What planning needs to know of a view's rows, by index.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Whether the view may be cut before the row at this index; one longer than the rows.
    cuttable: Vec<bool>,
    /// Indexes of the rows in which the person speaks, in order.
    requests: Vec<usize>,
    /// Calls of the last assistant row that have no result yet and nothing behind them.
    in_flight: usize,
}

impl Shape {
    /// Reads the shape of `view`.
    pub fn of(view: &View) -> Self {
        let rows = &view.rows;
        // For every call id the row of the call that the next result with it answers.
        let mut owner: HashMap<&str, usize> = HashMap::new();
        // +1 where a stretch that must stay together begins, -1 where it has ended.
        let mut edges = vec![0i32; rows.len() + 2];
        let mut requests = Vec::new();
        let mut last_caller: Option<(usize, usize)> = None;
        for (index, shown) in rows.iter().enumerate() {
            let row = &shown.row;
            match row.role {
                Role::Assistant => {
                    let mut calls = 0;
                    for (id, _, _) in row.tool_calls() {
                        owner.insert(id, index);
                        calls += 1;
                    }
                    last_caller = (calls > 0).then_some((index, calls));
                }
                Role::Tool => {
                    let id = row.tool.as_ref().map(|link| &*link.call_id);
                    if let Some(call) = id.and_then(|id| owner.get(id)) {
                        edges[call + 1] += 1;
                        edges[index + 1] -= 1;
                    }
                    if let Some((caller, open)) = &mut last_caller
                        && id.and_then(|id| owner.get(id)) == Some(&*caller)
                    {
                        *open = open.saturating_sub(1);
                    }
                }
                Role::User | Role::System => {
                    if is_request(row) {
                        requests.push(index);
                    }
                    last_caller = None;
                }
            }
        }
        let in_flight = last_caller.map_or(0, |(_, open)| open);
        if let Some((caller, _)) = last_caller
            && in_flight > 0
        {
            // The group is still growing.
            edges[caller + 1] += 1;
        }
        let mut depth = 0;
        let cuttable: Vec<bool> = edges[..=rows.len()]
            .iter()
            .map(|edge| {
                depth += edge;
                depth == 0
            })
            .collect();
        Self { cuttable, requests, in_flight }
    }

    /// Whether the view may be cut before the row at `index`.
    pub fn may_cut(&self, index: usize) -> bool {
        self.cuttable.get(index).copied().unwrap_or(false)
    }

    /// The nearest place at or before `index` where the view may be cut.
    pub fn cut_at_or_before(&self, index: usize) -> usize {
        (0..=index.min(self.cuttable.len() - 1)).rev().find(|at| self.may_cut(*at)).unwrap_or(0)
    }

    /// The nearest place at or after `index` where the view may be cut.
    pub fn cut_at_or_after(&self, index: usize) -> usize {
        let end = self.cuttable.len() - 1;
        (index..=end).find(|at| self.may_cut(*at)).unwrap_or(end)
    }

    /// The rows in which the person speaks, by index. Each begins an exchange.
    pub fn requests(&self) -> &[usize] {
        &self.requests
    }

    /// The newest row in which the person speaks.
    pub fn newest_request(&self) -> Option<usize> {
        self.requests.last().copied()
    }

    /// Calls that are running: no pass may come between them and their results.
    pub const fn calls_in_flight(&self) -> usize {
        self.in_flight
    }
}

/// Whether the person speaks in this row, with words or with something sent.
pub fn is_request(row: &Row) -> bool {
    row.role == Role::User && row.parts.iter().any(is_spoken)
}

fn is_spoken(part: &Part) -> bool {
    part.origin == Origin::User
        && match &part.body {
            PartBody::Text { text } => !text.trim().is_empty(),
            PartBody::Blob { .. } => true,
            _ => false,
        }
}

/// Whether the row is a summary of other rows.
pub fn is_summary(row: &Row) -> bool {
    row.standing == hermes_core::Standing::ByOp
}

/// Whether an assistant row is an answer: it says something and calls nothing.
pub fn is_answer(row: &Row) -> bool {
    row.role == Role::Assistant
        && row.standing == hermes_core::Standing::InOrder
        && row.tool_calls().next().is_none()
        && row.parts.iter().any(|part| part.as_text().is_some_and(|text| !text.trim().is_empty()))
}
