//! The built-in tools: files, search, commands, memory, skills; and the guard that asks before a command
//! runs.
//!
//! One file a tool below `tools/`, one table of them in `tools.rs`. A call goes: arguments checked
//! against the tool's table ([`BuiltinTools`] refuses what it does not know), path or command
//! judged, work done, result bounded.
//!
//! Invariants: no command runs unasked; no tool panics, whatever its arguments; a file is replaced
//! only by a session that has seen all of it as it stands; an edit changes exactly the text it
//! names or nothing; every result is bounded and says what it leaves out and where the rest is.

mod args;
mod bench;
mod capture;
mod clean;
mod guard;
mod outputs;
mod paths;
mod process;
mod provenance;
mod reads;
mod registry;
mod textfile;
mod tools;

pub use guard::{ApprovalRequest, Approver, Decision, DenyAll, SessionApproval};
pub use provenance::TurnSources;
pub use registry::{BuiltinTools, ToolContext};
pub use tools::{LoadedSkill, SkillContext, load_found, load_skill};
