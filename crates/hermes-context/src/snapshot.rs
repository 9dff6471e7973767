//! The prompt.
use hermes_core::{Snapshot, Timestamp, ToolSet, SessionId};
use crate::seam::{Config, Home};
use crate::Workspace;
/// Everything a prompt is made of.
pub struct SnapshotInput<'a> {
    /// The home.
    pub home: &'a Home,
    /// The configuration.
    pub config: &'a Config,
    /// Where the session works.
    pub workspace: &'a Workspace,
    /// The surface, such as `cli`.
    pub platform: &'a str,
    /// The provider's name.
    pub provider: &'a str,
    /// The model's name.
    pub model: &'a str,
    /// The tools offered.
    pub tools: &'a ToolSet,
    /// The session.
    pub session: &'a SessionId,
    /// The caller's instructions.
    pub caller: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
    /// Seconds east of UTC of the person's zone.
    pub utc_offset_seconds: i32,
    /// Tokens that the model's window holds, if known.
    pub context_window: Option<u64>,
}
/// A prompt and what the person should know about it.
#[derive(Clone, Debug)]
pub struct Built {
    /// The prompt.
    pub snapshot: Snapshot,
    /// Warnings.
    pub warnings: Vec<String>,
}
