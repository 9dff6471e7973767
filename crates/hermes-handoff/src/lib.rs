//! The handoff: how a session ends with a capsule that the next one in its conversation starts
//! with.
//!
//! A capsule is five sections of text about a session, written by a model and checked against the
//! session's rows, or put together from those rows when the model fails. The store decides what
//! has become of it; its text is a file that a person may edit until it is delivered.
//!
//! Invariants: a capsule is part of at most one session's first user row, and never of the session
//! that it is about; a build that had to do without its writer says so in every place where its
//! result is seen; of a confidential lane nothing is stored or logged that was not scrubbed.

mod before;
mod build;
pub mod capsule;
mod deterministic;
mod error;
mod handoffs;
mod health;
#[cfg(test)]
mod interleavings;
pub mod lane;
mod names;
pub mod nightly;
mod offer;
mod policy;
pub mod prepass;
pub mod prompt;
mod references;
mod result;
pub mod scrub;
pub mod section;
pub mod source;
pub mod trigger;
pub mod trim;
mod validate;
pub mod writer;

pub use build::{Build, Confidential, LEAST_MESSAGES, build};
pub use deterministic::extract;
pub use error::HandoffError;
pub use handoffs::{Fix, Handoffs, Listed, Pending, Verified, WAITS_MILLIS};
pub use health::{Health, NearMiss, check_writer};
pub use offer::{CarriedOver, Offer, Start, carried_over, without_capsule};
pub use policy::Policy;
pub use result::{BuildResult, Status};
pub use validate::Verdict;
