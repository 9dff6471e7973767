//! What plugins hear while a person is asked: before, and once after, whatever came of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::SessionId;
use hermes_plugins::{CallContext, Payload, Plugins};
use hermes_tools::{ApprovalRequest, Approver, Decision};

use crate::Services;
use crate::conversation::Conversation;

/// The turn and the tool call that is being made, shared with what asks the person.
#[derive(Clone, Default)]
pub(crate) struct Now(Arc<Mutex<(String, String)>>);

impl Now {
    pub(super) fn set_turn(&self, turn: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (turn, String::new());
    }

    pub(super) fn set_call(&self, call: &str) {
        call.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1);
    }

    fn get(&self) -> (String, String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Asks as `inner` does, and tells plugins of it.
struct Heard {
    inner: Arc<dyn Approver>,
    plugins: Plugins,
    call: CallContext,
    now: Now,
    number: AtomicU64,
}

/// `approver`, with plugins that hear of it if there are any.
pub(crate) fn heard(
    services: &Services,
    approver: &Arc<dyn Approver>,
    session: &SessionId,
    platform: &str,
    now: &Now,
) -> Arc<dyn Approver> {
    let Some(plugins) = services.plugins() else { return approver.clone() };
    Arc::new(Heard {
        inner: approver.clone(),
        plugins: plugins.clone(),
        call: super::call_of(session, platform),
        now: now.clone(),
        number: AtomicU64::new(1),
    })
}

impl Conversation {
    pub(super) fn approver(&self, services: &Services) -> Arc<dyn Approver> {
        let options = &self.options;
        heard(services, &options.approver, &self.id, &options.platform, &self.plugged.now)
    }
}

/// The payloads of one question; says that nobody answered if it is dropped before an answer.
struct Asked<'a> {
    heard: &'a Heard,
    about: Payload,
    input: Payload,
    open: bool,
}

impl Asked<'_> {
    fn of<'a>(heard: &'a Heard, request: &ApprovalRequest) -> Asked<'a> {
        let (turn, call) = heard.now.get();
        let number = heard.number.fetch_add(1, Ordering::Relaxed);
        let id = &heard.call.session_id;
        let about = Payload::new(heard.call.clone())
            .text("command", &request.command)
            .text("description", &request.reason)
            .text("pattern_key", &request.command)
            .value("pattern_keys", [&request.command])
            .text("session_key", &heard.call.session_key)
            .text("session_id", id)
            .text("surface", &heard.call.platform)
            .text("turn_id", &turn)
            .text("tool_call_id", &call);
        let input = Payload::new(heard.call.clone())
            .text("kind", "approval")
            .text("request_id", &format!("{turn}-approval-{number}"))
            .text("session_id", id)
            .text("session_key", &heard.call.session_key)
            .text("platform", &heard.call.platform)
            .text("prompt", &format!("{}: {}", request.reason, request.shown()));
        Asked { heard, about, input, open: true }
    }

    fn answered(&mut self, choice: &str) -> (Payload, Payload) {
        self.open = false;
        let about = std::mem::take(&mut self.about).text("choice", choice);
        (about, std::mem::take(&mut self.input).text("outcome", choice))
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.open {
            let (about, input) = self.answered("timeout");
            self.heard.plugins.notify("post_approval_response", about);
            self.heard.plugins.notify("on_human_input_resolved", input);
        }
    }
}

impl Approver for Heard {
    fn ask<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        Box::pin(async move {
            let mut asked = Asked::of(self, request);
            let plugins = &self.plugins;
            plugins.dispatch("pre_approval_request", asked.about.clone()).await;
            plugins.dispatch("on_human_input_request", asked.input.clone()).await;
            let decision = self.inner.ask(request).await;
            let choice = match &decision {
                Decision::Once => "once",
                Decision::Session => "session",
                Decision::Deny { .. } => "deny",
            };
            let (about, input) = asked.answered(choice);
            plugins.dispatch("post_approval_response", about).await;
            plugins.dispatch("on_human_input_resolved", input).await;
            decision
        })
    }
}
