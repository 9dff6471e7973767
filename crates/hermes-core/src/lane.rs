//! Lanes: which conversation a session belongs to, whatever the surface.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A conversation: on the command line the workspace, on a platform the chat (and thread, and
/// participant), over the API the declared session key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(String);

impl Lane {
    /// The lane of a workspace on the command line.
    pub fn cli(workspace: &str) -> Self {
        Self(format!("cli:{workspace}"))
    }

    /// A lane from its stored key.
    pub fn from_key(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The whole key.
    pub fn key(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
