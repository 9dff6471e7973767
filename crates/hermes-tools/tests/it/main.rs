//! The tools as the agent calls them: through the registry, with JSON arguments, in a temporary
//! home and folder.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod any_arguments;
mod files;
mod memory;
mod rig;
mod search;
#[cfg(unix)]
mod terminal;
mod two_processes;
