//! What joins a row beside its own text: nested project files that a tool call brings up,
//! references and skills that the person names.
//!
//! Invariant: each is a part with its own origin and label, stored with its row; what the model was
//! already given is a function of snapshot and view, so a resumed session knows it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_context::hints::{self, Hint};
use hermes_context::{references, source_of_path};
use hermes_core::{
    EventSink, NoticeLevel, Origin, Part, PartBody, RowStatus, Seq, Standing, Timestamp, ToolCall,
    ToolOutcome, slot,
};
use hermes_tools::{SkillContext, load_skill};
use serde_json::Value;

use crate::conversation::Conversation;
use crate::{AgentError, Services, notice};

/// A part that is about to join a row.
pub(crate) struct Joining {
    pub(crate) slot: u16,
    pub(crate) origin: Origin,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) text: Arc<str>,
}

impl Joining {
    fn new(slot: u16, origin: Origin, label: &str, text: impl Into<Arc<str>>) -> Self {
        Self { slot, origin, label: Some(label.into()), text: text.into() }
    }

    pub(crate) fn into_part(self, row: Seq, seq: Seq, now: Timestamp) -> Part {
        Part {
            seq,
            row,
            slot: self.slot,
            origin: self.origin,
            standing: Standing::InOrder,
            created_at: now,
            label: self.label,
            body: PartBody::Text { text: self.text },
        }
    }
}

impl Conversation {
    /// The nested project files that this call brings up and the model does not have yet.
    pub(crate) fn hints_for(
        &self,
        call: &ToolCall,
        outcome: &ToolOutcome,
    ) -> Result<Vec<Hint>, AgentError> {
        let workspace = self.workspace();
        let touched = touched(call, outcome);
        if hints::discover(workspace, &touched, &std::collections::BTreeSet::new()).is_empty() {
            return Ok(Vec::new());
        }
        let known = hints::known_in(&self.snapshot, &self.view()?);
        Ok(hints::discover(workspace, &touched, &known))
    }

    /// Hints as parts; the person is told of what was cut or taken out.
    pub(crate) fn hint_parts(hints: Vec<Hint>, sink: &dyn EventSink) -> Vec<Joining> {
        hints
            .into_iter()
            .map(|hint| {
                for warning in hint.warnings {
                    notice(sink, NoticeLevel::Warning, warning);
                }
                Joining::new(slot::LATE, Origin::Hint, &hint.label, hint.text)
            })
            .collect()
    }

    /// What the references in `text` stand for, as parts of the message's row.
    pub(crate) fn reference_parts(&self, text: &str, sink: &dyn EventSink) -> Vec<Joining> {
        if !text.contains('@') {
            return Vec::new();
        }
        let workspace = self.workspace();
        let git = references::git_in(&workspace.cwd);
        references::expand(text, workspace, &git)
            .into_iter()
            .map(|found| {
                if let Some(problem) = found.problem {
                    notice(sink, NoticeLevel::Warning, problem);
                }
                self.sources.add(format!("read by {}", found.label));
                Joining::new(slot::REFERENCE, Origin::Reference, &found.label, found.text)
            })
            .collect()
    }

    /// The skills that the person loads with a message, as parts of its row.
    pub(crate) fn skill_parts(
        &self,
        services: &Services,
        names: &[String],
        sink: &dyn EventSink,
    ) -> Result<Vec<Joining>, AgentError> {
        let tools: Vec<&str> = self.tools.defs.iter().map(|def| &*def.name).collect();
        let context = SkillContext {
            home: &services.home,
            config: &services.config,
            workspace: self.workspace(),
            platform: &self.options.platform,
            tools: &tools,
            session: Some(&self.id),
        };
        let mut parts = Vec::new();
        for name in names {
            let skill = match self.load_plugin_skill(services, name, None, 0) {
                Some(of_plugin) => of_plugin,
                None => load_skill(&context, name, None, 0),
            };
            let skill = skill.map_err(AgentError::Skill)?;
            for warning in &skill.warnings {
                notice(sink, NoticeLevel::Warning, warning.clone());
            }
            self.sources.add(format!("skill {}", skill.name));
            let about = format!("The person loads this skill with the message: {}", skill.about);
            parts.push(Joining::new(slot::REFERENCE, Origin::Notice, "skill", about));
            parts.push(Joining::new(slot::REFERENCE, Origin::Skill, &skill.label, skill.text));
        }
        Ok(parts)
    }

    /// What a call's result means for later writes of this turn, and what the person should know of
    /// a write to a source of context.
    pub(crate) fn note_result(
        &self,
        services: &Services,
        call: &ToolCall,
        outcome: &ToolOutcome,
        saved_from: Option<String>,
        sink: &dyn EventSink,
    ) {
        if let Some(source) = read_by(call) {
            self.sources.add(source);
        }
        if outcome.status != RowStatus::Complete {
            return;
        }
        if let Some(source) = saved_from {
            let text = argument(call, "content").unwrap_or_default();
            let text: String = text.chars().take(120).collect();
            notice(
                sink,
                NoticeLevel::Warning,
                format!(
                    "the model saved to memory what you did not say in this turn ({source}): \
                     \"{text}\"; it is kept with that source; hint: ask it to remove the entry if \
                     it is not wanted"
                ),
            );
        }
        if matches!(&*call.name, "write_file" | "patch") {
            for path in &outcome.touched {
                let Some(kind) = source_of_path(&services.home, self.workspace(), Path::new(path))
                else {
                    continue;
                };
                let text = format!("the model wrote {}, {path}. {}", kind.name, kind.when_seen);
                notice(sink, NoticeLevel::Info, text);
            }
        }
    }

    /// Where the text of a memory write comes from, if the person did not say it.
    pub(crate) fn saved_from(&self, call: &ToolCall) -> Option<String> {
        if &*call.name != "memory" {
            return None;
        }
        self.sources.of(&argument(call, "content")?)
    }
}

fn argument(call: &ToolCall, name: &str) -> Option<String> {
    let value: Value = serde_json::from_str(&call.arguments).ok()?;
    value.get(name)?.as_str().map(str::to_owned)
}

/// The paths of a call: those its result names, path-bearing arguments of any tool, and those in a
/// command line.
fn touched(call: &ToolCall, outcome: &ToolOutcome) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = outcome.touched.iter().map(PathBuf::from).collect();
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { return paths };
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let workdir = text("workdir").map(PathBuf::from).unwrap_or_default();
    paths.extend(
        ["path", "file_path", "workdir"].iter().filter_map(|name| text(name)).map(PathBuf::from),
    );
    if &*call.name == "terminal"
        && let Some(command) = text("command")
    {
        paths.extend(hints::paths_in_command(command).into_iter().map(|path| workdir.join(path)));
    }
    paths
}

/// Whose words a call's result holds, where they are not this program's own.
fn read_by(call: &ToolCall) -> Option<String> {
    let of = |name: &str| argument(call, name).unwrap_or_default();
    Some(match &*call.name {
        "memory" | "write_file" | "patch" | "skills_list" => return None,
        "read_file" => format!("read from {}", of("path")),
        "search_files" => "found by a search in files".to_owned(),
        "terminal" => "printed by a command".to_owned(),
        "skill_view" => format!("skill {}", of("name")),
        "delegate_task" => "reported by a delegated task".to_owned(),
        other => format!("returned by the tool {other}"),
    })
}
