//! The table of tools. Names, definitions and order are part of what a session pins at its start:
//! a changed text here reaches only new sessions.

mod candidates;
mod memory;
mod patch;
mod read_file;
mod search_files;
mod session_search;
mod skills;
mod terminal;
mod write_file;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hermes_core::{ToolOutcome, ToolSink};

use crate::args::{Args, Param};
use crate::bench::Workbench;

pub use self::skills::{LoadedSkill, SkillContext, load_found, load_skill};

/// A running call.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = ToolOutcome> + Send + 'a>>;

/// A tool.
pub(crate) struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its definition as it is sent.
    pub json: &'static str,
    /// Its parameters; equal to those in the definition.
    pub params: &'static [Param],
    /// Whether it is offered in this session.
    pub offered: fn(&Workbench) -> bool,
    /// Runs it.
    pub run: for<'a> fn(&'a Arc<Workbench>, Args, &'a dyn ToolSink) -> Running<'a>,
}

/// All built-in tools, in the order in which they are sent.
pub(crate) static TOOLS: [Tool; 9] = [
    read_file::TOOL,
    write_file::TOOL,
    patch::TOOL,
    search_files::TOOL,
    terminal::TOOL,
    memory::TOOL,
    skills::LIST,
    skills::VIEW,
    session_search::TOOL,
];

#[cfg(test)]
mod tests;
