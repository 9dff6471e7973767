//! From a plan to its summaries: what an agent needs between planning and committing, in one place.
//!
//! Invariant: at most one model is asked, about the range that costs most; everything else is
//! derived.

use std::collections::HashSet;

use hermes_core::{ErrorClass, Generation, Row, Seq, Standing, Timestamp, ViewError};

use crate::check::{AnswerEnd, CheckInput, check};
use crate::narrative::{Narrative, read};
use crate::state::{Scope, State, derive};
use crate::summary::{ComposeInput, Summary, compose, digest, fallback, narrative_of, on_failure};
use crate::views::scope;
use crate::{
    Coverage, Plan, Policy, Range, Rejection, SourceInput, SummaryRequest, summary_request,
};

/// Several records as one: those of single exchanges beside an earlier one.
fn joined(records: Vec<Narrative>) -> Option<Narrative> {
    let mut items = Vec::new();
    for item in records.into_iter().flat_map(|record| record.items) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    (!items.is_empty()).then_some(Narrative { items })
}

/// A plan with the rows and the state of each of its ranges.
pub struct Writing<'a> {
    plan: &'a Plan,
    policy: &'a Policy,
    ranges: Vec<Prepared<'a>>,
}

struct Prepared<'a> {
    range: &'a Range,
    scope: Scope<'a>,
    state: State,
    previous: Option<Narrative>,
    /// Rows that no earlier summary spoke of.
    fresh: Vec<&'a Row>,
}

impl<'a> Writing<'a> {
    /// Gathers what the summaries of `plan` are made of. A plan without ranges needs none.
    ///
    /// # Errors
    /// If the plan's generation or an ancestor is missing, or the ancestry has a cycle.
    pub fn prepare(
        plan: &'a Plan,
        rows: &'a [Row],
        generations: &[Generation],
        policy: &'a Policy,
    ) -> Result<Self, ViewError> {
        let mut ranges = Vec::with_capacity(plan.ranges.len());
        for range in &plan.ranges {
            let scope = scope(rows, generations, plan.base, plan.cut, range)?;
            let state = derive(&scope, range.state_allowance);
            let covered: HashSet<Seq> = range.rows.iter().copied().collect();
            let (mut fresh, mut earlier) = (Vec::new(), Vec::new());
            for row in rows.iter().filter(|row| covered.contains(&row.seq)) {
                match row.standing {
                    Standing::InOrder => fresh.push(row),
                    Standing::ByOp => earlier.extend(narrative_of(row)),
                }
            }
            let previous = joined(earlier);
            ranges.push(Prepared { range, scope, state, previous, fresh });
        }
        Ok(Self { plan, policy, ranges })
    }

    fn narrated(&self) -> Option<&Prepared<'a>> {
        let narrated = self.plan.narrated()?;
        self.ranges.iter().find(|prepared| prepared.range == narrated)
    }

    /// The one request to a helper model that can take in `window` tokens; None where no summary
    /// is needed.
    pub fn request(
        &self,
        window: u64,
        focus: Option<&str>,
        now: Timestamp,
        redact: &dyn Fn(&str) -> String,
    ) -> Option<SummaryRequest> {
        let prepared = self.narrated()?;
        Some(summary_request(&SourceInput {
            rows: &prepared.fresh,
            place: prepared.range.place,
            previous: prepared.previous.as_ref(),
            focus,
            window,
            length: prepared.range.narrative_allowance(),
            redact,
            now,
        }))
    }

    /// The summaries with a model's answer, checked; `coverage` is that of the request.
    ///
    /// # Errors
    /// Why the answer may not be committed. What then happens is [`Writing::failed`]'s to say.
    pub fn answered(
        &self,
        answer: &str,
        end: AnswerEnd,
        coverage: Coverage,
    ) -> Result<Vec<Summary>, Rejection> {
        self.each(|prepared, input| {
            let checked = check(&CheckInput {
                read: &read(answer),
                end,
                scope: &prepared.scope,
                fresh: &prepared.fresh,
                state: &prepared.state,
                previous: prepared.previous.as_ref(),
                coverage,
            })?;
            compose(input, checked)
        })
    }

    /// What the policy says after a failure: summaries derived from the rows, or the rejection.
    /// `error` is the class of the last candidate's failure, where a provider failed.
    ///
    /// # Errors
    /// The rejection, where nothing is to be committed.
    pub fn failed(
        &self,
        because: &Rejection,
        error: Option<ErrorClass>,
    ) -> Result<Vec<Summary>, Rejection> {
        self.each(|prepared, input| {
            on_failure(input, prepared.previous.as_ref(), because.clone(), error)
        })
    }

    /// Summaries derived from the rows, whatever the policy: where no model may be asked and the
    /// request would not fit otherwise, or a test wants none.
    ///
    /// # Errors
    /// If they would not cost less than what they replace.
    pub fn derived(&self, because: &Rejection) -> Result<Vec<Summary>, Rejection> {
        self.each(|prepared, input| fallback(input, prepared.previous.as_ref(), because.clone()))
    }

    fn each(
        &self,
        narrated: impl Fn(&Prepared<'a>, ComposeInput<'_>) -> Result<Summary, Rejection>,
    ) -> Result<Vec<Summary>, Rejection> {
        let chosen = self.plan.narrated();
        self.ranges
            .iter()
            .map(|prepared| {
                let input = ComposeInput {
                    range: prepared.range,
                    scope: &prepared.scope,
                    state: &prepared.state,
                    policy: self.policy,
                };
                if chosen == Some(prepared.range) {
                    narrated(prepared, input)
                } else {
                    digest(input)
                }
            })
            .collect()
    }
}
