//! The prompt snapshot and its manifest: every source that was considered, whether it got in, and
//! what will refresh it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Digest, Seq, Timestamp, Tokens};

/// The lifecycle and cache locality of a block. Not authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Equal for every session of this installation, model and tool set.
    Stable,
    /// Depends on the caller and the working directory.
    Context,
    /// Depends on the person's state: skills, memory, profile, date, identity of the session.
    Volatile,
}

/// Where a block's text came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Source {
    /// A file.
    File {
        /// Its absolute path.
        path: String,
    },
    /// A configuration key.
    Config {
        /// The dotted key.
        key: String,
    },
    /// Text of this program.
    Builtin {
        /// Its name.
        name: String,
        /// Raised when its wording changes.
        version: u32,
    },
    /// A stored row.
    Row {
        /// The row.
        seq: Seq,
    },
    /// A plugin.
    Plugin {
        /// Its id.
        id: String,
    },
    /// A handoff capsule.
    Capsule {
        /// Digest of its text.
        digest: Digest,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path } => f.write_str(path),
            Self::Config { key } => write!(f, "config {key}"),
            Self::Builtin { name, version } => write!(f, "built-in {name} v{version}"),
            Self::Row { seq } => write!(f, "row {seq}"),
            Self::Plugin { id } => write!(f, "plugin {id}"),
            Self::Capsule { digest } => write!(f, "capsule {}", digest.short()),
        }
    }
}

/// What became of a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// In the prompt, whole.
    Loaded,
    /// In the prompt, cut.
    Truncated {
        /// Characters kept.
        kept: u64,
        /// Characters there were.
        total: u64,
    },
    /// In the prompt, but for suspicious spans that were taken out.
    Flagged {
        /// Character ranges of the source, and the finding for each.
        spans: Vec<(u64, u64, String)>,
    },
    /// Left out: another source of its kind won.
    Shadowed {
        /// The winner's path.
        by: String,
    },
    /// Left out for the reason given.
    Blocked {
        /// Why.
        why: String,
    },
    /// There, but without content.
    Empty,
}

impl Verdict {
    /// Whether any of the source is in the prompt.
    pub const fn is_in(&self) -> bool {
        matches!(self, Self::Loaded | Self::Truncated { .. } | Self::Flagged { .. })
    }
}

/// What brings a changed source to the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refresh {
    /// A new session.
    NextSession,
    /// A compaction (or a new session, or `/refresh`).
    Compaction,
    /// An explicit command, `/refresh`.
    OnRequest,
    /// A tool call that touches a path in its folder.
    PathTouched,
    /// Loading the skill.
    SkillLoaded,
    /// Every request.
    EachRequest,
    /// The provider alone.
    Provider,
    /// Nothing.
    Never,
}

/// A half-open range of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByteRange {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl ByteRange {
    /// Number of bytes.
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds no byte.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// One source of the prompt, in or out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Short stable name, such as `identity`, `memory`, `project:AGENTS.md`.
    pub id: String,
    /// Its tier.
    pub tier: Tier,
    /// Where it came from.
    pub source: Source,
    /// Digest of the source as it was read.
    pub source_digest: Digest,
    /// Digest of the text in the prompt; of the empty text if it is out.
    pub rendered_digest: Digest,
    /// Where it stands in the prompt text, before JSON escaping; empty if it is out.
    pub range: ByteRange,
    /// Size for the model.
    pub tokens: Tokens,
    /// When the source was read.
    pub loaded_at: Timestamp,
    /// What became of it.
    pub verdict: Verdict,
    /// What brings a change of it to the model.
    pub refresh: Refresh,
}

/// A built prompt: its exact text and the manifest of its sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The text, sent byte for byte as the system message.
    pub text: Arc<str>,
    /// Digest of the text.
    pub digest: Digest,
    /// Every source that was considered, in prompt order, those left out after those of their kind.
    pub blocks: Vec<Block>,
}
