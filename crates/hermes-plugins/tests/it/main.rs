//! The whole of it through the real Python process.
#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod delivery;
mod failure;
mod hooks;
mod hostile;
mod middleware;
mod native;
mod order;
mod rig;
mod shell;
