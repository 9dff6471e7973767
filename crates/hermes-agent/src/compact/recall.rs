//! Bringing originals back: for the model by the tool `recall`, for the person by `/recall`.
//!
//! Invariant: what is returned is the stored text; rows that were taken back are not in it.

use std::collections::HashSet;

use hermes_compaction::recall::{Bounds, Query, Recalled, recall};
use hermes_compaction::views::{Class, classify};
use hermes_core::{Row, Seq, ToolCall, ToolDef, ToolOutcome};
use serde::Deserialize;

use crate::AgentError;
use crate::conversation::Conversation;

/// The tool's name.
pub(crate) const NAME: &str = "recall";

/// Its definition: in every session from the start, because tools are pinned, so it is short.
const JSON: &str = concat!(
    r#"{"type":"function","function":{"name":"recall","description":"Original text of earlier rows of this conversation.","#,
    r#""parameters":{"type":"object","properties":{"query":{"type":"string","description":"r12, r12-r15, or words"},"offset":{"type":"integer"}},"required":["query"]}}}"#,
);

pub(crate) fn definition() -> ToolDef {
    ToolDef { name: NAME.into(), json: JSON.into() }
}

#[derive(Deserialize)]
struct Arguments {
    query: String,
    #[serde(default)]
    offset: usize,
}

impl Conversation {
    /// Original rows by number or by words; of the words, those that are no longer shown first.
    ///
    /// # Errors
    /// If the history does not fit together.
    pub fn recall(&self, query: &Query, skip: usize) -> Result<Vec<Recalled>, AgentError> {
        let classes = classify(&self.rows, &self.generations, self.head(), self.last_seq())
            .map_err(|source| AgentError::View { session: self.id.clone(), source })?;
        let of = |wanted: fn(Class) -> bool| -> HashSet<Seq> {
            classes.iter().filter(|(_, class)| wanted(*class)).map(|(seq, _)| *seq).collect()
        };
        let hidden = of(|class| class == Class::Hidden);
        let gone = of(|class| matches!(class, Class::Covered { .. } | Class::Reduced));
        let pick = |keep: &dyn Fn(&Row) -> bool| -> Vec<Row> {
            self.rows.iter().filter(|row| keep(row)).cloned().collect()
        };
        if let Query::Words(_) = query
            && !gone.is_empty()
        {
            let rows = pick(&|row| gone.contains(&row.seq));
            let found = recall(&rows, query, skip, Bounds::default());
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let rows = pick(&|row| !hidden.contains(&row.seq));
        Ok(recall(&rows, query, skip, Bounds::default()))
    }

    /// One call of the tool.
    pub(crate) fn recall_call(&self, call: &ToolCall) -> Result<ToolOutcome, AgentError> {
        let Arguments { query, offset } = match serde_json::from_str(&call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return Ok(ToolOutcome::failed(format!("recall: {error}"))),
        };
        let Some(parsed) = Query::parse(&query) else {
            return Ok(ToolOutcome::failed("recall: the query is empty; give r12 or words"));
        };
        let found = self.recall(&parsed, offset)?;
        if found.is_empty() {
            return Ok(ToolOutcome::ok(format!("No row of this conversation matches {query:?}.")));
        }
        let texts: Vec<String> = found.iter().map(Recalled::render).collect();
        Ok(ToolOutcome::ok(texts.join("\n\n")))
    }
}
