//! Calls against the rehearsal provider over real sockets, and the public cases.

#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod arguments;
mod attempts;
mod errors;
mod jobs;
mod rehearsal;
mod rig;
mod streams;
