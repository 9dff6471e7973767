//! What plugins may ask of this program: tools of the conversation that they were called from, and
//! messages into it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hermes_core::{SessionId, ToolCall, ToolRegistry, ToolSink};
use hermes_plugins::{BoxFuture, CallContext, Fault, Injected, ModelCall, Plugins};
use serde_json::Value;
use tokio::sync::Notify;

use super::Plugged;
use super::model::Models;
use super::setup::PluginSurface;
use crate::Services;

/// Messages that wait at most; a plugin that sends more is told that they are not taken.
const MOST_MESSAGES: usize = 64;

/// Serves what plugins ask for, for all conversations of a process.
pub(crate) struct Served {
    /// The tools of each conversation that is held here.
    sessions: Mutex<BTreeMap<String, Weak<dyn ToolRegistry>>>,
    models: Models,
    takes_messages: bool,
    messages: Mutex<VecDeque<Injected>>,
    arrived: Notify,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Served {
    pub(super) fn new(services: &Services, plugins: &Plugins, surface: &PluginSurface) -> Self {
        Self {
            models: Models::new(services, plugins, &surface.platform),
            sessions: Mutex::default(),
            takes_messages: surface.takes_messages,
            messages: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// The same for services whose place these take: what was said to them is not lost.
    pub(super) fn taking_over(services: &Services, old: &Plugged) -> Self {
        let new = Self::new(services, &old.plugins, &old.surface);
        *locked(&new.messages) = std::mem::take(&mut *locked(&old.served.messages));
        *locked(&new.sessions) = std::mem::take(&mut *locked(&old.served.sessions));
        new
    }

    /// The program's own tools of a conversation, for plugins that are called from it.
    pub(super) fn holds(&self, session: &SessionId, tools: &Arc<dyn ToolRegistry>) {
        let mut sessions = locked(&self.sessions);
        sessions.retain(|_, tools| tools.strong_count() > 0);
        sessions.insert(session.as_str().to_owned(), Arc::downgrade(tools));
    }

    pub(super) async fn release(&self) {
        self.models.release().await;
    }

    /// The tools of the conversation of a call; of a call that names none, those of the only one.
    fn tools(&self, call: &CallContext) -> Option<Arc<dyn ToolRegistry>> {
        let sessions = locked(&self.sessions);
        match sessions.get(&call.session_id) {
            Some(tools) => tools.upgrade(),
            None if call.session_id.is_empty() => {
                let mut alive = sessions.values().filter_map(Weak::upgrade);
                alive.next().filter(|_| alive.next().is_none())
            }
            None => None,
        }
    }
}

/// Takes the output of a tool that a plugin runs: nobody looks at it.
struct Unseen;

impl ToolSink for Unseen {
    fn output(&self, _text: &str) {}
}

impl hermes_plugins::Services for Served {
    fn dispatch_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a Value,
        call: &'a CallContext,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move {
            let Some(tools) = self.tools(call) else {
                let what = "there is no conversation whose tools could be run";
                return Err(Fault::new("RuntimeError", what));
            };
            let call = ToolCall {
                id: Arc::from(format!("plugin-{name}")),
                name: Arc::from(name),
                arguments: Arc::from(arguments.to_string()),
            };
            Ok(tools.call(&call, &Unseen).await.text)
        })
    }

    fn complete<'a>(&'a self, call: &'a ModelCall) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(self.models.complete(call))
    }

    fn inject_message<'a>(&'a self, message: &'a Injected) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let here = message.session_key.is_none() && message.origin.is_null();
            if !here || !self.takes_messages || message.content.trim().is_empty() {
                return Ok(false);
            }
            let mut messages = locked(&self.messages);
            if messages.len() >= MOST_MESSAGES {
                return Ok(false);
            }
            messages.push_back(message.clone());
            drop(messages);
            self.arrived.notify_one();
            Ok(true)
        })
    }

    fn tool_definitions(&self) -> Vec<Value> {
        let Some(tools) = self.tools(&CallContext::default()) else { return Vec::new() };
        tools.definitions().iter().filter_map(|def| serde_json::from_str(&def.json).ok()).collect()
    }
}

impl Plugged {
    /// A message that a plugin put into the conversation, as the person's next one; None if there is
    /// none.
    pub fn take_message(&self) -> Option<String> {
        locked(&self.served.messages).pop_front().map(|message| {
            if message.role.is_empty() || message.role == "user" {
                message.content
            } else {
                format!("[{}] {}", message.role, message.content)
            }
        })
    }

    /// Waits until there may be a message.
    pub async fn message_arrives(&self) {
        if locked(&self.served.messages).is_empty() {
            self.served.arrived.notified().await;
        }
    }
}
