//! Tests of compaction against histories as the store holds them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cases;
mod checks;
mod properties;
mod recalling;
mod triggers;
mod world;
