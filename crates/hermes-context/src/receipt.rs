//! Write receipts: every write to a source of context says whether the source changed, and when
//! the model will see it (mission A4).

use std::fmt;

use hermes_core::{Digest, Refresh, Source};
use serde::{Deserialize, Serialize};

use crate::sources::SourceKind;

/// The answer to two questions about one write: did the durable source change, and when will the
/// change reach the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteReceipt {
    /// What was written.
    pub source: Source,
    /// Digest of the source before; of the empty text if it was not there.
    pub before: Digest,
    /// Digest of the source after.
    pub after: Digest,
    /// Whether the bytes differ.
    pub changed: bool,
    /// What brings the change to the model.
    pub reaches_model: Refresh,
    /// The same in one sentence, for a person or a model.
    pub sentence: String,
}

impl WriteReceipt {
    /// The receipt of a write to a source of `kind`.
    pub fn new(kind: &SourceKind, source: Source, before: Digest, after: Digest) -> Self {
        let changed = before != after;
        let sentence = if changed {
            format!("{} changed. {}", capitalised(kind.name), kind.when_seen)
        } else {
            format!("{} did not change.", capitalised(kind.name))
        };
        let reaches_model = kind.refresh.clone();
        Self { source, before, after, changed, reaches_model, sentence }
    }
}

impl fmt::Display for WriteReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sentence)?;
        if self.changed {
            write!(f, " ({} -> {})", self.before.short(), self.after.short())?;
        }
        Ok(())
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
