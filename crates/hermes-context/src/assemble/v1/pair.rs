//! Calls and their results, brought together.
//!
//! A result belongs to the nearest assistant row before it with a call of its id, and there to the
//! first such call without a result, so that an id used twice pairs by position. A result without a call is dropped; what else its row carries
//! (a nested project file, words of the person) stays, as a user message.

use std::collections::HashSet;
use std::sync::Arc;

use hermes_core::{Part, PartBody, Role, Row, View};

use super::parts;

/// A row, or a group of rows that must not be parted.
pub(super) enum Unit<'a> {
    /// A row of the user.
    User(&'a Row),
    /// A tool row without a call, for what it holds beside the result.
    Leftover(&'a Row),
    /// A row of the assistant and the results of its calls.
    Assistant {
        /// The row.
        row: &'a Row,
        /// Its calls in order.
        calls: Vec<Call<'a>>,
    },
}

/// A call and its result.
pub(super) struct Call<'a> {
    /// The part that holds it.
    pub(super) part: &'a Part,
    /// The id it was stored with.
    stored_id: &'a str,
    /// Its id in the request, unique there.
    pub(super) id: Arc<str>,
    pub(super) name: &'a Arc<str>,
    pub(super) arguments: &'a Arc<str>,
    pub(super) result: Option<&'a Row>,
}

/// The rows of `view` as units, in order. Assistant rows without content are left out.
pub(super) fn pair(view: &View) -> Vec<Unit<'_>> {
    let mut units: Vec<Unit<'_>> = Vec::with_capacity(view.rows.len());
    let mut ids = HashSet::new();
    for shown in &view.rows {
        let row = &shown.row;
        match row.role {
            Role::User | Role::System => units.push(Unit::User(row)),
            Role::Assistant => {
                let calls = calls_of(row, &mut ids);
                if !calls.is_empty() || parts::says_something(row) {
                    units.push(Unit::Assistant { row, calls });
                }
            }
            Role::Tool => match open_call(&mut units, row) {
                Some(call) => call.result = Some(row),
                None => units.push(Unit::Leftover(row)),
            },
        }
    }
    units
}

fn open_call<'u, 'a>(units: &'u mut [Unit<'a>], row: &Row) -> Option<&'u mut Call<'a>> {
    let wanted = &*row.tool.as_ref()?.call_id;
    let nearest = units.iter_mut().rev().find_map(|unit| match unit {
        Unit::Assistant { calls, .. } => {
            calls.iter().any(|call| call.stored_id == wanted).then_some(calls)
        }
        Unit::User(_) | Unit::Leftover(_) => None,
    })?;
    nearest.iter_mut().find(|call| call.result.is_none() && call.stored_id == wanted)
}

fn calls_of<'a>(row: &'a Row, ids: &mut HashSet<Arc<str>>) -> Vec<Call<'a>> {
    row.parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::ToolCall { id, name, arguments } => Some(Call {
                part,
                stored_id: id,
                id: unique(id, part, ids),
                name,
                arguments,
                result: None,
            }),
            _ => None,
        })
        .collect()
}

/// The id as it is, unless it is empty or was used before.
fn unique(id: &Arc<str>, part: &Part, ids: &mut HashSet<Arc<str>>) -> Arc<str> {
    let mut candidate = id.clone();
    if id.is_empty() || ids.contains(id) {
        let stem = if id.is_empty() { "call" } else { id };
        let mut text = format!("{stem}_{}", part.seq);
        while ids.contains(text.as_str()) {
            text.push('_');
        }
        candidate = text.into();
    }
    ids.insert(candidate.clone());
    candidate
}
