//! What was sent, proved: a stored request is assembled and encoded again from the same rows,
//! and the digests are compared.

mod context;
mod diff;
mod report;
mod sources;
mod trace;
mod verify;
mod why;
mod words;

pub use context::{ContextPart, ContextReport, PartKind, SkillShare, context, next};
pub use diff::{MessageChange, RequestDiff, diff};
pub use report::report;
pub use sources::{Now, SourceEntry, SourceState, sources};
pub use trace::{Carried, FilePlace, RowPlace, SnapshotPlace, TraceReport, stored, trace};
pub use verify::{InspectError, Inspector, Rebuilt, Summary, Verdict};
pub use why::{WhyAnswer, WhyReport, WhyState, why};
pub(crate) use words::skill_name;
