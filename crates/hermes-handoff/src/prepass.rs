//! The marking pass before the writer: which turns must survive word for word.
//!
//! Its marks are shown to the writer beside the text; they never replace it. Marking by a model won
//! 4 and lost 15 questions when its digest stood for the text, so only marks are offered.

use std::future::Future;
use std::pin::Pin;

use crate::source::Turn;

/// Most turns that a pass is shown, the newest ones.
pub const MOST_TURNS: usize = 240;
/// Turns in one request.
pub const BATCH: usize = 40;
/// Turns at the end that are marked in any case.
pub const KEEP_LAST: usize = 8;

/// Indexes into a batch, or why there are none.
pub type Marks<'a> = Pin<Box<dyn Future<Output = Result<Vec<usize>, String>> + Send + 'a>>;

/// A marking pass.
pub trait Prepass: Send + Sync {
    /// Its name in results.
    fn name(&self) -> &'static str;

    /// Whether it looks at turns at all.
    fn is_none(&self) -> bool {
        false
    }

    /// Marks turns of one batch of at most [`BATCH`]. `newest` tells how many turns of the session
    /// come after the batch.
    fn mark<'a>(&'a self, batch: &'a [Turn], newest: usize) -> Marks<'a>;
}

/// No marking.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrepass;

impl Prepass for NoPrepass {
    fn name(&self) -> &'static str {
        "none"
    }

    fn is_none(&self) -> bool {
        true
    }

    fn mark<'a>(&'a self, _batch: &'a [Turn], _newest: usize) -> Marks<'a> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// Marks the newest turns.
#[derive(Clone, Copy, Debug)]
pub struct Recency {
    /// How many.
    pub turns: usize,
}

impl Default for Recency {
    fn default() -> Self {
        Self { turns: 16 }
    }
}

impl Prepass for Recency {
    fn name(&self) -> &'static str {
        "recency"
    }

    fn mark<'a>(&'a self, batch: &'a [Turn], newest: usize) -> Marks<'a> {
        let keep = self.turns.saturating_sub(newest).min(batch.len());
        let marked = (batch.len() - keep..batch.len()).collect();
        Box::pin(std::future::ready(Ok(marked)))
    }
}

/// Runs a pass. A batch that fails is left unmarked; the marks are an offer.
pub(crate) async fn run(pass: &dyn Prepass, turns: &[Turn]) -> Vec<usize> {
    if pass.is_none() {
        return Vec::new();
    }
    let first = turns.len().saturating_sub(MOST_TURNS);
    let mut marked: Vec<usize> = Vec::new();
    for (number, batch) in turns[first..].chunks(BATCH).enumerate() {
        let at = first + number * BATCH;
        let Ok(found) = pass.mark(batch, turns.len() - at - batch.len()).await else {
            // Why it failed may quote the turns.
            tracing::warn!(prepass = pass.name(), "a batch of turns was not marked");
            continue;
        };
        marked.extend(found.into_iter().filter(|index| *index < batch.len()).map(|i| at + i));
    }
    marked.extend(turns.len().saturating_sub(KEEP_LAST)..turns.len());
    marked.sort_unstable();
    marked.dedup();
    marked
}
