//! Tools as the loop sees them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::{Digest, Origin, RowStatus};

/// A tool offered to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDef {
    /// Its name.
    pub name: Arc<str>,
    /// The whole definition as JSON text in the form
    /// `{"type":"function","function":{"name":..,"description":..,"parameters":..}}`, sent as it
    /// stands.
    pub json: Arc<str>,
}

/// The tools of a session, pinned at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    /// The definitions in the order they are sent.
    pub defs: Vec<ToolDef>,
    /// Digest of [`ToolSet::json`].
    pub digest: Digest,
}

impl ToolSet {
    /// Pins these definitions in this order.
    pub fn new(defs: Vec<ToolDef>) -> Self {
        let digest = Digest::of(array(&defs));
        Self { defs, digest }
    }

    /// The definitions as one JSON array, the text that is stored and digested.
    pub fn json(&self) -> String {
        array(&self.defs)
    }
}

fn array(defs: &[ToolDef]) -> String {
    let items: Vec<&str> = defs.iter().map(|def| &*def.json).collect();
    format!("[{}]", items.join(","))
}

/// A call whose arguments are known to be whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id.
    pub id: Arc<str>,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments, valid JSON text of an object.
    pub arguments: Arc<str>,
}

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutcome {
    /// Whether it did what was asked.
    pub status: RowStatus,
    /// The result for the model.
    pub text: String,
    /// Paths that it touched, absolute, for nested project files and receipts.
    pub touched: Vec<String>,
    /// Further parts for its row, each with its origin and label (a loaded skill's body).
    pub parts: Vec<(Origin, Option<String>, String)>,
}

impl ToolOutcome {
    /// A result.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            status: RowStatus::Complete,
            text: text.into(),
            touched: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// An error for the model, with what to do next.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { status: RowStatus::Failed, ..Self::ok(text) }
    }
}

/// Takes what a running tool prints.
pub trait ToolSink: Send + Sync {
    /// A piece of output, for the person only.
    fn output(&self, text: &str);
}

/// Runs tools. Implementations never panic on any arguments.
pub trait ToolRegistry: Send + Sync {
    /// The tools to offer, in a fixed order.
    fn definitions(&self) -> Vec<ToolDef>;

    /// Runs one call to its end. Dropping the future cancels it: a running command's process
    /// group is ended.
    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        sink: &'a dyn ToolSink,
    ) -> Pin<Box<dyn Future<Output = ToolOutcome> + Send + 'a>>;
}
