//! Tests of the crate through its public surface, the cases of `tests/cases` among them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod assembled;
mod cases_history;
mod cases_sources;
mod fixture;
mod golden;
mod prompt;
mod robust;
mod sources;
