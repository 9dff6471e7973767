//! What was sent, proved: a stored request is assembled and encoded again from the same rows,
//! and the digests are compared.

mod context;
mod diff;
mod verify;

pub use context::{ContextPart, ContextReport, PartKind, context};
pub use diff::{MessageChange, RequestDiff, diff};
pub use verify::{InspectError, Inspector, Rebuilt, Summary, Verdict};
