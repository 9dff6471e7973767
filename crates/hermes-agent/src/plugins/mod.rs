//! Plugins in a session: when they are started, what they hear and when, what they may change.
//!
//! Nothing is started before a session's first turn, and nothing at all where no plugin, shell hook
//! or webhook is enabled. What a plugin adds to a conversation is a stored part with its own origin,
//! so that every request with it can be rebuilt.
//!
//! Invariants: no lock is held while plugins are waited for; a plugin that fails ends no turn; a
//! session hears of its own compactions and deletions before its next `pre_llm_call`; observers are
//! told after the fact is stored.

mod api;
mod asking;
mod events;
mod history;
mod model;
mod serve;
mod session;
mod setup;
mod skills;
mod stream;
mod tool;
mod turn;
mod wrap;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use hermes_context::skills::Skill;
use hermes_context::{PluginSection, build_snapshot};
use hermes_core::{RowStatus, SessionId, ToolDef, ToolOutcome, ToolSet};
use hermes_plugins::{CallContext, Payload, WithPlugins};
use hermes_tools::BuiltinTools;
use serde_json::json;

pub(crate) use asking::{Now, heard};
pub use events::deliver_events;
pub use session::TypedCommand;
pub use setup::{Plugged, PluginSurface, plugins_of};
pub(crate) use stream::Streamed;

use crate::conversation::Conversation;
use crate::{AgentError, Services};

/// What a session knows of the plugins that it runs with.
#[derive(Default)]
pub(crate) struct State {
    /// Whether its tools and prompt are joined with those of plugins.
    prepared: bool,
    /// Whether a prompt was built that plugins were not told of.
    start_due: bool,
    /// The sections of plugins, as they stand in the prompt.
    pub(crate) sections: Vec<PluginSection>,
    /// The skills of plugins, with whose they are.
    pub(crate) skills: Vec<(String, Skill)>,
    /// The history in the form in which plugins know it.
    history: history::History,
    /// The turn and the tool call of the moment.
    pub(crate) now: Now,
    /// The newest request of the turn, by its id in the ledger.
    pub(crate) request: String,
    /// How often the present turn was sent on by `pre_verify`.
    nudges: u32,
    /// Files that the present turn changed.
    changed: Mutex<BTreeSet<String>>,
    /// Rules of plugins that the person agreed to until the session ends.
    agreed: Mutex<BTreeSet<String>>,
}

/// A conversation as plugins are told of it.
fn call_of(session: &SessionId, platform: &str) -> CallContext {
    CallContext {
        session_id: session.as_str().to_owned(),
        session_key: session.as_str().to_owned(),
        platform: platform.to_owned(),
        ..CallContext::default()
    }
}

pub(crate) fn stopped_before() -> ToolOutcome {
    let text = "Not run: the person stopped the turn before this call.";
    ToolOutcome { status: RowStatus::Interrupted, ..ToolOutcome::failed(text) }
}

impl Conversation {
    /// Starts the enabled plugins, if that has not been done, and joins their tools, skills and
    /// prompt sections with this session. A turn does so by itself; to be called before a session's
    /// prompt is shown. Without plugins it does nothing.
    ///
    /// # Errors
    /// If what the session refers to cannot be read.
    pub async fn prepare(&mut self, services: &Services) -> Result<(), AgentError> {
        let Some(plugged) = services.plugged() else { return Ok(()) };
        if std::mem::replace(&mut self.plugged.prepared, true) {
            return Ok(());
        }
        let plugins = &plugged.plugins;
        plugins.ready().await;
        let call = self.plugin_call();
        let own = self.registry.clone();
        plugged.served.holds(&self.id, &own);
        self.registry = Arc::new(WithPlugins::new(own, plugins.clone(), call.clone()).await);
        let facts = json!({
            "session_id": self.id.as_str(),
            "model": self.model.model,
            "provider": self.model.provider,
            "platform": self.options.platform,
            "profile_name": services.home.profile(),
            "cwd": self.options.workspace.cwd.display().to_string(),
        });
        let sections = plugins.prompt_sections(&facts, &call).await.into_iter();
        self.plugged.sections = sections
            .map(|section| PluginSection {
                id: section.id,
                plugin: section.plugin.to_string(),
                text: section.text,
            })
            .collect();
        self.plugged.skills = skills::of(plugins);
        self.plugged.sections.extend(skills::sections(&self.plugged.skills));
        if self.is_stored() {
            let info = services.store.session(&self.id)?;
            if let Some(info) = info {
                self.catch_up(services, &info);
                self.plugged.start_due = self.resumed.rebuilt_because.is_some();
            }
        } else {
            self.tools = Arc::new(ToolSet::new(self.live_definitions()));
            let built = self.with_input(services, &self.tools, build_snapshot);
            self.snapshot = Arc::new(built.snapshot);
            self.warnings = built.warnings;
            self.restart_unsaved(services.env.now());
            self.plugged.start_due = true;
        }
        Ok(())
    }

    /// The tool that loads skills, where only plugins have some.
    pub(crate) fn skill_tool(&self, offered: &[ToolDef]) -> Option<ToolDef> {
        let there = offered.iter().any(|def| &*def.name == skills::VIEW);
        if there || self.plugged.skills.is_empty() {
            return None;
        }
        BuiltinTools::definition(skills::VIEW)
    }

    /// The conversation as plugins are told of it.
    pub(crate) fn plugin_call(&self) -> CallContext {
        call_of(&self.id, &self.options.platform)
    }

    /// A payload that names the conversation and the turn.
    pub(crate) fn plugin_payload(&self) -> Payload {
        let id = self.id.as_str();
        Payload::new(self.plugin_call())
            .text("session_id", id)
            .text("task_id", id)
            .text("turn_id", &self.plugin_turn())
            .text("model", &self.model.model)
            .text("platform", &self.options.platform)
    }

    /// A name of the present turn that no other turn has.
    pub(crate) fn plugin_turn(&self) -> String {
        format!("{}-{}", self.id, self.turn)
    }
}
