//! Token counts that say how far they can be trusted.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a token count comes from. An estimate may defer an automatic compaction, never force one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// The provider's own figure.
    Exact,
    /// The provider's figure for an earlier request plus an estimated difference.
    Anchored,
    /// Estimated from the text alone.
    Estimated,
}

/// A number of tokens and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tokens {
    /// How many.
    pub count: u64,
    /// How it is known.
    pub kind: TokenKind,
}

impl Tokens {
    /// A provider's figure.
    pub const fn exact(count: u64) -> Self {
        Self { count, kind: TokenKind::Exact }
    }

    /// An estimate.
    pub const fn estimated(count: u64) -> Self {
        Self { count, kind: TokenKind::Estimated }
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TokenKind::Exact => write!(f, "{}", self.count),
            TokenKind::Anchored | TokenKind::Estimated => write!(f, "~{}", self.count),
        }
    }
}
