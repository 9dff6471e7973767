//! The tools of an experiment: reading and skills, and no way to the profile.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use hermes_core::{ToolCall, ToolDef, ToolOutcome, ToolRegistry, ToolSink};
use hermes_tools::BuiltinTools;

/// Tools that an experiment offers.
const OFFERED: &[&str] = &["read_file", "search_files", "skills_list", "skill_view"];

/// Words that a call to the profile has in its arguments.
const PROFILE: &[&str] = &["user.md", "memories", "memory.md", "state.db"];

/// Reading tools that keep the model from the profile, so that what it knows of it came with the
/// request.
pub(crate) struct Guarded {
    pub(crate) tools: BuiltinTools,
    pub(crate) refused: AtomicU32,
}

impl ToolRegistry for Guarded {
    fn definitions(&self) -> Vec<ToolDef> {
        let mut definitions = self.tools.definitions();
        definitions.retain(|definition| OFFERED.contains(&&*definition.name));
        definitions
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        sink: &'a dyn ToolSink,
    ) -> Pin<Box<dyn Future<Output = ToolOutcome> + Send + 'a>> {
        let arguments = call.arguments.to_lowercase();
        if PROFILE.iter().any(|word| arguments.contains(word)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let text = "The profile is not to be read in this experiment.";
            return Box::pin(async move { ToolOutcome::failed(text) });
        }
        self.tools.call(call, sink)
    }
}
