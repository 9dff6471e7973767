//! Compaction: how a long conversation shrinks without losing anything.
//!
//! A compaction is a state transition: it is planned from a view before anything is paid
//! ([`plan`]), its summary is written from a bounded, redacted source text and checked against the
//! rows it would replace, and one commit makes it true. What a summary cannot be trusted with
//! (who asked for what, exact identifiers, commands and their exit codes) is derived from the rows
//! without a model.
//!
//! Invariants: everything here is pure, time and row numbers come from the caller; no row is ever
//! changed or copied; a summary that fails a check changes nothing; nothing between a tool call and
//! its result is ever cut; what is derived is derived anew from the original rows each time, so
//! that forty compactions know as much as one.

mod check;
mod commit;
mod corrections;
mod cues;
mod cutting;
mod facts;
pub mod identifiers;
mod kind;
mod measure;
pub mod narrative;
mod plan;
mod policy;
mod preview;
mod prune;
pub mod recall;
pub mod requests;
mod sentences;
pub mod shape;
mod source;
pub mod state;
pub mod statements;
mod summary;
mod trigger;
pub mod views;
mod words;
pub mod work;
mod writing;

pub use check::{AnswerEnd, CheckInput, Checked, Report, check};
pub use commit::{
    Commit, CommitInput, Reissue, UndoError, apply, build, op_refs, still_holds, undo,
};
pub use cues::Cue;
pub use kind::{Coverage, Deferral, Kind, Log, Method, Outcome, Reason, Rejection, Stage};
pub use measure::{after, part_tokens, row_tokens, view_tokens};
pub use plan::{Keep, Kept, Place, Plan, PlanInput, Planned, Range, plan, plan_micro, plan_prune};
pub use policy::{OnFailure, Policy, Sizes, TailMode};
pub use preview::{Preview, preview};
pub use prune::{Extent, MIN_RESULT_CHARS, Pruned, Swap, prune, prune_under_pressure};
pub use source::{SourceInput, SummaryRequest, summary_request};
pub use summary::{
    ComposeInput, NARRATIVE, STATE, Summary, compose, digest, fallback, narrative_of, on_failure,
};
pub use trigger::{Cooldown, Decision, ErrorAction, MOST_INEFFECTIVE, Memory, Situation, decide};
pub use writing::Writing;
