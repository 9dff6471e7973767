//! The lab: experiments with marker words in an isolated profile and repository, whose receipts
//! say what reached the model, beside what was published about Hermes Agent.
//!
//! Invariants: an experiment touches nothing outside its own temporary folder but the endpoint it
//! is given; a receipt holds digests, counts, verdicts and the visibility of the lab's own marker
//! words, never a prompt, a credential or anything of the person's; a finding that differs is a
//! result, not a failure; against the rehearsal provider two runs give the same receipt.

mod compaction;
mod compare;
mod context;
mod error;
pub mod exam;
mod findings;
mod guard;
pub mod recall;
mod receipt;
mod seen;
mod world;

pub use compaction::{CompactionReceipt, ViewsAt, run_compaction};
pub use compare::{Comparison, compare};
pub use context::{Target, run_context};
pub use error::LabError;
pub use findings::{PUBLISHED, Published, published_receipt};
pub use receipt::{
    FORMAT, FORMAT_VERSION, Finding, FindingVerdict, Receipt, RequestFacts, SessionFacts,
};
