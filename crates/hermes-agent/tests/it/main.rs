//! Conversations against the rehearsal provider, in process.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bench;
mod beside;
mod compacting;
mod delegation;
mod handing_over;
mod identity;
mod plugged;
mod proof;
mod rewinding;
mod storm;
mod titles;
mod tracing;
mod turns;
mod world;
