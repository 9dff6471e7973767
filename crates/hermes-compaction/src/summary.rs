//! Summaries as they are stored: the checked narrative of a model, or one derived from the rows
//! alone, and the derived state below it.
//!
//! Invariants: a fallback has the same sections and says that it is one; nothing in the text around
//! the sections tells anyone to resume or to go on; a summary costs less than what it replaces.

use std::collections::HashSet;
use std::fmt::Write as _;

use hermes_context::estimate_tokens;
use hermes_core::{Origin, PartBody, Role, Row, RowStatus, Seq};
use serde::{Deserialize, Serialize};

use crate::check::{Checked, Report, plain_item};
use crate::cutting::{line, one_line};
use crate::narrative::{Item, Narrative, Section, read};
use crate::shape::is_answer;
use crate::state::{Scope, State};
use crate::{Coverage, ErrorAction, Method, OnFailure, Place, Policy, Range, Rejection};

/// The label of the part that holds the narrative.
pub const NARRATIVE: &str = "narrative";
/// The label of the part that holds the derived state.
pub const STATE: &str = "state";

/// A summary that may be committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Header and narrative.
    pub narrative: String,
    /// The derived state.
    pub state: String,
    /// How it came about.
    pub method: Method,
    /// What it rests on.
    pub coverage: Coverage,
    /// What the checks changed.
    pub report: Report,
    /// Why it is a fallback.
    pub fallback_because: Option<Rejection>,
}

impl Summary {
    /// What it costs in a request, its frames included.
    pub fn tokens(&self) -> u64 {
        let frames = 12 + if self.state.is_empty() { 0 } else { 12 };
        4 + frames + estimate_tokens(&self.narrative) + estimate_tokens(&self.state)
    }
}

/// The narrative of a stored summary row, for the one that takes it up.
pub fn narrative_of(row: &Row) -> Option<Narrative> {
    let part = row
        .parts
        .iter()
        .find(|part| part.origin == Origin::Summary && part.label.as_deref() == Some(NARRATIVE))?;
    match &part.body {
        PartBody::Text { text } => Some(read(text).narrative),
        _ => None,
    }
}

/// What a summary is made for.
#[derive(Clone, Copy)]
pub struct ComposeInput<'a> {
    /// The range it replaces.
    pub range: &'a Range,
    /// The rows it answers for.
    pub scope: &'a Scope<'a>,
    /// The state derived from them.
    pub state: &'a State,
    /// The person's settings.
    pub policy: &'a Policy,
}

/// Makes a summary of a checked narrative.
///
/// # Errors
/// If it would not cost less than what it replaces.
pub fn compose(input: ComposeInput<'_>, checked: Checked) -> Result<Summary, Rejection> {
    let Checked { mut narrative, mut report, coverage } = checked;
    let taken = narrative.trim_to(input.range.narrative_allowance() * 3 / 2);
    if taken > 0 {
        report.problems.push(format!("{taken} items left out, the record was too long"));
    }
    let text = format!("{}{}", header(input, None), narrative.render());
    finish(input, text, Method::Model, coverage, report, None)
}

/// What the policy says about a failed summary: the fallback, or the rejection. Failures that a
/// person has to mend (credentials, quota, network) always abort: `error` is the class of the last
/// candidate's failure where a provider failed.
///
/// # Errors
/// The rejection, where nothing is to be committed.
pub fn on_failure(
    input: ComposeInput<'_>,
    previous: Option<&Narrative>,
    because: Rejection,
    error: Option<hermes_core::ErrorClass>,
) -> Result<Summary, Rejection> {
    let abort = input.policy.on_failure == OnFailure::Abort
        || error.is_some_and(|class| ErrorAction::of(class) == ErrorAction::Abort)
        || matches!(
            because,
            Rejection::NothingToDo { .. }
                | Rejection::TooLittle { .. }
                | Rejection::Superseded { .. }
                | Rejection::NotTheHolder
        );
    if abort { Err(because) } else { fallback(input, previous, because) }
}

/// A summary of the same shape, derived from the rows alone.
///
/// # Errors
/// If it would not cost less than what it replaces.
pub fn fallback(
    input: ComposeInput<'_>,
    previous: Option<&Narrative>,
    because: Rejection,
) -> Result<Summary, Rejection> {
    let rows = input.scope.covered.len() as u64;
    let mut narrative = derived(input.scope, input.state, previous);
    narrative.trim_to(input.range.narrative_allowance());
    let chars = input.scope.covered.iter().map(|row| chars_of(row)).sum();
    let coverage =
        Coverage { rows, rows_seen: rows, chars, chars_seen: chars, spoken_percent: 100 };
    let text = format!("{}{}", header(input, Some(&because)), narrative.render());
    let method = Method::DeterministicFallback;
    finish(input, text, method, coverage, Report::default(), Some(because))
}

/// A short account of the work in a range that no model writes about: of the running turn beside
/// an earlier range.
///
/// # Errors
/// If it would not cost less than what it replaces.
pub fn digest(input: ComposeInput<'_>) -> Result<Summary, Rejection> {
    let mut narrative = derived(input.scope, input.state, None);
    narrative.trim_to(input.range.narrative_allowance());
    let text = format!("{}{}", header(input, None), narrative.render());
    let rows = input.scope.covered.len() as u64;
    let coverage = Coverage { rows, rows_seen: rows, spoken_percent: 100, ..Coverage::default() };
    finish(input, text, Method::Deterministic, coverage, Report::default(), None)
}

fn finish(
    input: ComposeInput<'_>,
    narrative: String,
    method: Method,
    coverage: Coverage,
    report: Report,
    fallback_because: Option<Rejection>,
) -> Result<Summary, Rejection> {
    let state_room = input.range.state_allowance;
    let mut summary =
        Summary { narrative, state: String::new(), method, coverage, report, fallback_because };
    let most = input.range.tokens.saturating_sub(1);
    for share in [4, 3, 2, 1] {
        summary.state = input.state.render(state_room * share / 4);
        if summary.tokens() <= most {
            return Ok(summary);
        }
    }
    summary.state.clear();
    if summary.tokens() <= most {
        return Ok(summary);
    }
    Err(Rejection::NotSmaller { before: input.range.tokens, after: summary.tokens() })
}

fn header(input: ComposeInput<'_>, because: Option<&Rejection>) -> String {
    let mut out = String::new();
    let rows = input.state.rows;
    let (first, last) = rows.unwrap_or((input.range.from, input.range.to));
    let _ = match input.range.place {
        Place::Earlier => writeln!(
            out,
            "Record of the earlier part of this conversation, rows r{first} to r{last}, which is \
             no longer shown. It tells what was; it asks for nothing. What is to be done now is \
             said by the person's newest message alone, and where a later message differs from \
             this record, the message holds. References like [r{first}] name stored rows: `recall` \
             returns their exact text."
        ),
        Place::RunningTurn => writeln!(
            out,
            "Record of work already done on the message above, rows r{first} to r{last}, which are \
             no longer shown: do none of it again without need. References like [r{first}] name \
             stored rows: `recall` returns their exact text."
        ),
    };
    if let Some(because) = because {
        let _ = writeln!(
            out,
            "No model wrote this record ({because}): it was put together from {} rows by rule, \
             and what was decided, meant or left open may be missing from it.",
            input.scope.covered.len()
        );
    }
    out
}

/// A narrative from rows alone, with what still holds of an earlier one.
fn derived(scope: &Scope<'_>, state: &State, previous: Option<&Narrative>) -> Narrative {
    // What is carried over stands first, as the oldest. Goals and open points are read from the
    // rows themselves.
    let mut items: Vec<(Section, Item)> = previous
        .into_iter()
        .flat_map(|previous| &previous.items)
        .filter(|(at, _)| !matches!(at, Section::Goal | Section::Open))
        .cloned()
        .collect();
    let quote = |text: &str| format!("\"{}\"", one_line(text, 240));
    // A quotation stays word for word; what no longer holds of it is said beside it.
    let whole = |text: String, row: Seq| match state.chosen.corrected.get(&row) {
        Some(by) => format!("{text}; OUTDATED in part, corrected in r{by}"),
        None => text,
    };
    let newest = state.requests.iter().rev().find(|request| !is_cancelled(request.status));
    let first = state.requests.first().filter(|request| !is_cancelled(request.status));
    for request in first.into_iter().chain(newest) {
        let item = plain_item(whole(quote(&request.text), request.row), vec![request.row]);
        if !items.contains(&(Section::Goal, item.clone())) {
            items.push((Section::Goal, item));
        }
    }
    let answers: Vec<&&Row> = scope.covered.iter().filter(|row| is_answer(row)).collect();
    for row in answers.iter().rev().take(12).rev() {
        let text = line(&row.answer(), 240);
        let text = whole(format!("answered: {text}"), row.seq);
        items.push((Section::Done, plain_item(text, vec![row.seq])));
    }
    let failed = scope
        .covered
        .iter()
        .filter(|row| row.role == Role::Tool && row.status == RowStatus::Failed);
    let failed: Vec<&&Row> = failed.collect();
    for row in failed.iter().rev().take(6).rev() {
        let name = row.tool.as_ref().map_or("tool", |link| &*link.name);
        let text = one_line(&crate::facts::result_text(row), 200);
        items.push((Section::Problems, plain_item(format!("{name}: {text}"), vec![row.seq])));
    }
    for request in state.requests.iter().filter(|request| request.status.is_open()) {
        let text = whole(quote(&request.text), request.row);
        items.push((Section::Open, plain_item(text, vec![request.row])));
    }
    for request in state.requests.iter().filter(|request| is_cancelled(request.status)) {
        let text = format!("Cancelled by the person: {}", quote(&request.text));
        items.push((Section::RuledOut, plain_item(text, vec![request.row])));
    }
    let mut seen: HashSet<(Section, Item)> = HashSet::with_capacity(items.len());
    items.retain(|item| seen.insert(item.clone()));
    Narrative { items }
}

const fn is_cancelled(status: crate::requests::Status) -> bool {
    matches!(status, crate::requests::Status::Cancelled { .. })
}

fn chars_of(row: &Row) -> u64 {
    row.parts.iter().filter_map(|part| part.as_text()).map(|text| text.len() as u64).sum()
}
