//! Hooks and plugins: the hook table, the dispatcher, the processes in which plugins run, and how
//! events that must be heard are delivered.
//!
//! Python plugins written for Hermes Agent run unmodified in a process of their own (`python/`).
//! This side owns order, deadlines, refusals and failure; that side owns what only Python can do.
//!
//! Invariants: without an enabled plugin there is no process; no lock is held while a callback
//! runs; a guard that hangs, raises or is gone blocks; an observer never holds a conversation for
//! longer than one time limit; nothing that a plugin does to its process reaches the session.

mod ask;
mod background;
mod clean;
mod deliver;
mod discover;
mod dispatch;
mod doctor;
mod environ;
mod guards;
mod history;
mod host;
mod inbound;
pub mod install;
mod invoke;
mod lanes;
mod listing;
mod manifest;
mod middleware;
mod offer;
mod others;
mod outcome;
mod payload;
mod plugins;
mod registry;
pub mod scan;
mod services;
mod shell;
mod start;
mod suppress;
pub mod table;
mod webhook;

pub use deliver::DeliverError;
pub use discover::{EntryPoint, Found, GROUPS, PluginSource};
pub use doctor::{CallbackReport, PluginReport};
pub use history::history_items;
pub use host::python::{Interpreter, OLDEST as OLDEST_PYTHON, PythonError, environment};
pub use host::{BUDGET_TIME, CallError, Fault, RESTARTS};
pub use listing::{HookCallback, HookListing, ShellTrial, waits_for};
pub use manifest::{COMPATIBLE_VERSION, Manifest, Native, PluginKind, satisfies};
pub use middleware::{Executed, Execution, OWN_TIME, Rewritten};
pub use offer::{
    CliResult, CommandError, PluginCliCommand, PluginCommand, PluginSkill, PluginTool,
    PromptSection, Registered, WithPlugins, normal_command,
};
pub use outcome::{CallbackResult, GatewayDecision, HookOutcome, Said, ToolGate};
pub use payload::{CallContext, Field, Payload, TELEMETRY_SCHEMA};
pub use plugins::{PluginOptions, Plugins};
pub use registry::Stats;
pub use services::{BoxFuture, Injected, ModelCall, NoServices, Services};
pub use shell::{ShellHook, ShellHookInfo, answer_form};
pub use suppress::{MOST_ABANDONED, SUPPRESSED};
