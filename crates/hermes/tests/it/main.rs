//! End-to-end tests: the built binary in a temporary home against the rehearsal provider.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod at_once;
mod cases;
mod config;
mod context;
mod deleting;
mod doctor;
mod handoff;
mod honesty;
mod hooks;
mod kill;
mod oneshot;
mod plugins;
mod repl;
mod rig;
mod setup;
mod signals;
mod stored;
mod terminal;
mod tour;
