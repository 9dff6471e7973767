//! The tools as the agent calls them: through the registry, with JSON arguments, in a temporary
//! home and folder.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::needless_pass_by_value, reason = "calls with json!(..) in place read best")]

mod any_arguments;
mod files;
mod memory;
mod rig;
mod search;
mod session_search;
mod skills;
#[cfg(unix)]
mod terminal;
mod two_processes;
