//! What plugins hear of an answer while it arrives, what they make of it when it is there, and
//! whether they let the turn end with it.

use std::sync::PoisonError;

use hermes_core::{EventSink, NoticeLevel, Origin, Part, PartBody, Role, Standing, slot};
use hermes_plugins::{Payload, Plugins};
use hermes_provider::Reply;
use hermes_store::Record;

use crate::conversation::Conversation;
use crate::{AgentError, Services, notice};

/// How often a turn that changed files is sent on at most.
const MOST_NUDGES: u32 = 3;

/// Tells plugins of one answer while it arrives. Nobody waits for them.
pub(crate) struct Streamed<'a> {
    plugins: &'a Plugins,
    about: &'a Payload,
    deltas: bool,
}

impl<'a> Streamed<'a> {
    pub(crate) fn new(plugins: &'a Plugins, about: &'a Payload) -> Self {
        Self { plugins, about, deltas: plugins.hears("on_stream_delta") }
    }

    fn tell(&self, hook: &str, payload: impl FnOnce(Payload) -> Payload) {
        if self.plugins.hears(hook) {
            self.plugins.notify(hook, payload(self.about.clone()));
        }
    }

    pub(crate) fn started(&self) {
        self.tell("on_stream_start", |about| about);
    }

    pub(crate) fn delta(&self, text: &str, kind: &str) {
        if self.deltas {
            let payload = |about: Payload| about.text("delta", text).text("kind", kind);
            self.tell("on_stream_delta", payload);
        }
    }

    pub(crate) fn ended(&self, text: &str, finished: bool, error: Option<&str>) {
        let payload = |about: Payload| {
            about.text("final_text", text).value("finished", finished).maybe("error", error)
        };
        self.tell("on_stream_end", payload);
    }
}

impl Conversation {
    /// What names one answer of a turn, the `iteration`-th.
    pub(crate) fn stream_payload(&self, iteration: usize) -> Payload {
        Payload::new(self.plugin_call())
            .text("turn_id", &self.plugin_turn())
            .value("iteration", iteration)
            .text("session_id", self.id().as_str())
            .text("model", &self.model.model)
            .text("provider", &self.model.provider)
            .text("surface", &self.options.platform)
    }

    /// Tells plugins of the text that stands before tool calls.
    pub(crate) fn tell_interim(&self, services: &Services, iteration: usize) {
        let Some(plugins) = services.plugins().filter(|it| it.hears("on_interim_message")) else {
            return;
        };
        let text = self.rows.last().map(|row| row.text_of(Origin::Model)).unwrap_or_default();
        if !text.trim().is_empty() {
            let payload = self.stream_payload(iteration).text("text", &text);
            plugins.notify("on_interim_message", payload.value("already_streamed", true));
        }
    }

    /// `transform_llm_output`: another text for an answer, before it is stored.
    pub(crate) async fn change_answer(
        &self,
        services: &Services,
        reply: &mut Reply,
        sink: &dyn EventSink,
    ) {
        let Some(plugins) = services.plugins() else { return };
        let is_answer = reply.calls.is_empty() && !reply.text.trim().is_empty();
        if !is_answer || !plugins.listens("transform_llm_output").await {
            return;
        }
        let payload = self.plugin_payload().text("response_text", &reply.text);
        let changed = plugins.dispatch("transform_llm_output", payload).await;
        let Some((plugin, text)) = changed.first_text(false) else { return };
        if text != reply.text {
            let told = format!("the plugin {plugin} changed the answer; this is kept:\n{text}");
            notice(sink, NoticeLevel::Info, told);
            reply.text = text;
        }
    }

    /// `pre_verify`: whether a turn that changed files goes on, with what a plugin says to it.
    pub(crate) async fn goes_on(
        &mut self,
        services: &Services,
        answer: &str,
        sink: &dyn EventSink,
    ) -> Result<bool, AgentError> {
        let Some(plugins) = services.plugins().cloned() else { return Ok(false) };
        let changed: Vec<String> = {
            let changed = self.plugged.changed.lock().unwrap_or_else(PoisonError::into_inner);
            changed.iter().cloned().collect()
        };
        let done = changed.is_empty() || self.plugged.nudges >= MOST_NUDGES;
        if done || !plugins.listens("pre_verify").await {
            return Ok(false);
        }
        let payload = self
            .plugin_payload()
            .value("coding", true)
            .value("attempt", self.plugged.nudges)
            .text("final_response", answer)
            .value("changed_paths", changed);
        let said = plugins.dispatch("pre_verify", payload).await.continue_with();
        let Some((plugin, text)) = said else { return Ok(false) };
        self.plugged.nudges += 1;
        let now = services.env.now();
        let seq = self.next_seq();
        let part = Part {
            seq,
            row: seq,
            slot: slot::BODY,
            origin: Origin::Hook,
            standing: Standing::InOrder,
            created_at: now,
            label: Some(plugin),
            body: PartBody::text(text),
        };
        let row = self.row(seq, Role::User, vec![part], now);
        self.commit(services, vec![Record::Row(row.clone())], sink)?;
        self.rows.push(row);
        Ok(true)
    }
}
