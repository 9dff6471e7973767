//! The hooks of a turn: its start and end, what joins the person's message, what is heard of the
//! answer.

use std::sync::{Arc, PoisonError};

use hermes_core::{
    EventSink, NoticeLevel, Origin, Part, PartBody, Seq, Standing, TurnOutcome, slot,
};
use hermes_home::yaml::Datum;
use hermes_plugins::Plugins;
use hermes_store::Record;
use serde_json::Value;

use super::history::content;
use crate::conversation::Conversation;
use crate::{AgentError, Cancel, Services, TurnReport, notice};

/// The longest text that a plugin adds to a message, in characters, if nothing else is said.
const LONGEST: usize = 10_000;

impl Conversation {
    /// What plugins hear and say before a turn's first request: what must be heard, the start of the
    /// session, `pre_llm_call`. Texts that they give become parts of the person's row.
    pub(crate) async fn before_turn(
        &mut self,
        services: &Services,
        row: Seq,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<(), AgentError> {
        let Some(plugins) = services.plugins().cloned() else { return Ok(()) };
        self.plugged.now.set_turn(self.plugin_turn());
        self.plugged.nudges = 0;
        self.plugged.changed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let told = async {
            if std::mem::take(&mut self.plugged.start_due) {
                // What an earlier process did not get to tell comes first.
                self.tell_events(services, None, sink).await;
                let payload = self.plugin_payload();
                plugins.dispatch("on_session_start", payload).await;
            } else {
                self.tell_events(services, Some(&self.id), sink).await;
            }
            self.contexts(&plugins, row).await
        };
        let found = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            found = told => found?,
        };
        self.add_contexts(services, row, found, sink)
    }

    async fn contexts(
        &mut self,
        plugins: &Plugins,
        row: Seq,
    ) -> Result<Vec<(Arc<str>, String)>, AgentError> {
        if !plugins.listens("pre_llm_call").await {
            return Ok(Vec::new());
        }
        let view = self.view()?;
        let said = view.rows.iter().find(|shown| shown.row.seq == row);
        let said = said.map_or(Value::Null, |shown| content(&shown.row));
        let parent = self.options.child_of.as_ref().map_or("", |child| child.parent.as_str());
        let first = !self.rows.iter().any(|row| row.role == hermes_core::Role::Assistant);
        let items = self.plugged.history.items(&view);
        let payload = self
            .plugin_payload()
            .value("user_message", said)
            .list("conversation_history", self.id.as_str(), items)
            .value("is_first_turn", first)
            .text("parent_session_id", parent)
            .text("sender_id", "");
        Ok(plugins.dispatch("pre_llm_call", payload).await.contexts())
    }

    /// Stores the texts that plugins gave, each as a part of the person's row.
    fn add_contexts(
        &mut self,
        services: &Services,
        row: Seq,
        found: Vec<(Arc<str>, String)>,
        sink: &dyn EventSink,
    ) -> Result<(), AgentError> {
        let now = services.env.now();
        let mut records = Vec::new();
        let mut parts = Vec::new();
        let most = longest(&services.config.hooks);
        for (plugin, text) in found {
            let text = match most.and_then(|most| cut(&text, most)) {
                Some((cut, left_out)) => {
                    let told = format!(
                        "{left_out} characters of what the plugin {plugin} adds to the message are \
                         left out; hint: hooks.output_spill.max_chars"
                    );
                    notice(sink, NoticeLevel::Warning, told);
                    cut
                }
                None => text,
            };
            let part = Part {
                seq: self.next_seq(),
                row,
                slot: slot::LATE,
                origin: Origin::Hook,
                standing: Standing::InOrder,
                created_at: now,
                label: Some(plugin),
                body: PartBody::text(text),
            };
            records.push(Record::Part(part.clone()));
            parts.push(part);
        }
        if records.is_empty() {
            return Ok(());
        }
        self.commit(services, records, sink)?;
        for part in &parts {
            self.adopt_part(part);
        }
        Ok(())
    }

    /// What plugins hear when a turn is over: of its answer, of its end, of what must be heard.
    pub(crate) async fn after_hooks(
        &mut self,
        services: &Services,
        row: Seq,
        ended: Result<&TurnReport, &AgentError>,
        sink: &dyn EventSink,
    ) {
        let Some(plugins) = services.plugins().cloned() else { return };
        if let Ok(report) = ended
            && report.outcome == TurnOutcome::Answered
            && plugins.listens("post_llm_call").await
        {
            match self.answered_payload(row, &report.answer) {
                Ok(payload) => drop(plugins.dispatch("post_llm_call", payload).await),
                Err(error) => notice(sink, NoticeLevel::Warning, error.to_string()),
            }
        }
        let outcome = ended.map(|report| &report.outcome);
        let reason = match outcome {
            Ok(TurnOutcome::Answered) => "answered".to_owned(),
            Ok(TurnOutcome::Interrupted) => "interrupted".to_owned(),
            Ok(TurnOutcome::Failed(why)) => why.clone(),
            Ok(TurnOutcome::LimitReached(calls)) => format!("limit of {calls} model calls"),
            Err(error) => error.to_string(),
        };
        let payload = self
            .plugin_payload()
            .value("completed", matches!(outcome, Ok(TurnOutcome::Answered)))
            .value("failed", matches!(outcome, Ok(TurnOutcome::Failed(_)) | Err(_)))
            .value("interrupted", matches!(outcome, Ok(TurnOutcome::Interrupted)))
            .text("turn_exit_reason", &reason);
        plugins.dispatch("on_session_end", payload).await;
        self.tell_events(services, Some(&self.id), sink).await;
    }

    fn answered_payload(
        &mut self,
        row: Seq,
        answer: &str,
    ) -> Result<hermes_plugins::Payload, AgentError> {
        let view = self.view()?;
        let said = view.rows.iter().find(|shown| shown.row.seq == row);
        let said = said.map_or(Value::Null, |shown| content(&shown.row));
        let items = self.plugged.history.items(&view);
        Ok(self
            .plugin_payload()
            .value("user_message", said)
            .text("assistant_response", answer)
            .list("conversation_history", self.id.as_str(), items))
    }
}

/// The longest text that a plugin may add, in characters; None for any.
fn longest(hooks: &Datum) -> Option<usize> {
    let Datum::Map(hooks) = hooks else { return Some(LONGEST) };
    let spill = hooks.iter().find(|(name, _)| name == "output_spill").map(|(_, value)| value);
    let spill: Value =
        spill.and_then(|spill| serde_json::from_str(&spill.to_json()).ok()).unwrap_or_default();
    if spill["enabled"] == Value::Bool(false) {
        return None;
    }
    let most = spill["max_chars"].as_u64().and_then(|most| usize::try_from(most).ok());
    Some(most.filter(|most| *most > 0).unwrap_or(LONGEST))
}

/// A text with its middle left out, and how many characters that are.
fn cut(text: &str, most: usize) -> Option<(String, usize)> {
    let count = text.chars().count();
    if count <= most {
        return None;
    }
    let (head, tail) = (most * 3 / 4, most / 4);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    let left_out = count - head - tail;
    Some((format!("{start}\n[... {left_out} characters are left out ...]\n{end}"), left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_keeps_its_beginning_and_its_end() {
        assert_eq!(cut("short", 5), None);
        let long = format!("a{}z", "-".repeat(50));
        let (text, left_out) = cut(&long, 12).unwrap();
        assert!(text.starts_with("a--") && text.ends_with("-z"), "{text}");
        assert_eq!(left_out, 40);
    }

    #[test]
    fn the_limit_is_the_settings_and_can_be_switched_off() {
        let datum = |yaml: &str| {
            let document = hermes_home::yaml::parse(yaml).unwrap();
            document.root.as_ref().map_or(Datum::Null, Datum::of)
        };
        assert_eq!(longest(&Datum::Map(Vec::new())), Some(LONGEST));
        assert_eq!(longest(&datum("output_spill: {max_chars: 70}")), Some(70));
        assert_eq!(longest(&datum("output_spill: {enabled: false}")), None);
    }
}
