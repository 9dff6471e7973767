//! Running the tool calls of one answer, in order, each result stored as soon as it is there.

use std::sync::Arc;

use hermes_core::{
    Event, EventSink, Origin, Part, PartBody, Role, Row, RowStatus, Seq, Standing, ToolCall,
    ToolLink, ToolOutcome, ToolSink, slot,
};
use hermes_provider::{CallArguments, ReplyCall, check_schema};
use hermes_store::Record;

use crate::beside::Joining;
use crate::conversation::Conversation;
use crate::pinned::parameters_schema;
use crate::{AgentError, Cancel, Services, compact, delegate};

/// Longest one-line description of a call for the person, in characters.
const SUMMARY_CHARS: usize = 160;

impl Conversation {
    /// Runs `calls`. False if the person stopped the turn; calls that had not run by then get a
    /// result that says so, so that every call has one.
    pub(crate) async fn run_calls(
        &mut self,
        services: &Services,
        calls: &[ReplyCall],
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<bool, AgentError> {
        for call in calls {
            let (outcome, beside) = if cancel.is_cancelled() {
                (crate::plugins::stopped_before(), Vec::new())
            } else {
                self.run_call(services, call, sink, cancel).await?
            };
            self.store_result(services, call, outcome, beside, sink)?;
        }
        Ok(!cancel.is_cancelled())
    }

    /// Runs one call: its outcome, and what it brings up beside it.
    async fn run_call(
        &self,
        services: &Services,
        call: &ReplyCall,
        sink: &dyn EventSink,
        cancel: &Cancel,
    ) -> Result<(ToolOutcome, Vec<Joining>), AgentError> {
        let checked = match self.check(call) {
            Ok(checked) => checked,
            Err(why) => return Ok((ToolOutcome::failed(why), Vec::new())),
        };
        let allowed = match self.gate(services, checked, cancel).await {
            Ok(allowed) => allowed,
            Err(refused) => return Ok((refused, Vec::new())),
        };
        let checked = allowed.call.clone();
        sink.event(Event::ToolStarted {
            call_id: call.id.clone(),
            name: call.name.clone(),
            summary: summary(&checked.arguments),
        });
        let saved_from = self.saved_from(&checked);
        let output = Output { call_id: &call.id, sink };
        let outcome = if &*checked.name == compact::RECALL {
            self.recall_call(&checked)?
        } else if &*checked.name == delegate::NAME {
            // Children are stopped, not dropped, so that what they did is stored.
            self.delegate(services, &checked, sink, cancel).await
        } else {
            tokio::select! {
                biased;
                () = cancel.cancelled() => stopped(),
                outcome = self.execute(services, &allowed, &output) => outcome,
            }
        };
        let outcome = self.after_call(services, allowed, outcome).await;
        self.note_result(services, &checked, &outcome, saved_from, sink);
        let hints = self.hints_for(&checked, &outcome)?;
        for hint in &hints {
            self.sources.add(format!("project file {}", hint.label));
        }
        Ok((outcome, Self::hint_parts(hints, sink)))
    }

    /// The call as it may be run, or what is wrong with it, in words for the model.
    fn check(&self, call: &ReplyCall) -> Result<ToolCall, String> {
        let Some(def) = self.tools.defs.iter().find(|def| def.name == call.name) else {
            let known: Vec<&str> = self.tools.defs.iter().map(|def| &*def.name).collect();
            return Err(format!(
                "There is no tool named \"{}\". The tools are: {}.",
                call.name,
                known.join(", ")
            ));
        };
        let (arguments, repaired) = match &call.arguments {
            CallArguments::Whole(text) => (text, None),
            CallArguments::Repaired { text, how } => (text, Some(how)),
            CallArguments::Cut { raw } => {
                return Err(format!(
                    "The call was not run: its arguments were cut off after {} bytes. Send the \
                     whole call again, in smaller pieces if it is long.",
                    raw.len()
                ));
            }
            CallArguments::Malformed { position, why, .. } => {
                return Err(format!(
                    "The call was not run: its arguments are not valid JSON at byte {position}: \
                     {why}. Send the call again with a JSON object."
                ));
            }
        };
        check_schema(&parameters_schema(&def.json), arguments).map_err(|why| match repaired {
            Some(how) => format!("The call was not run: {why} (after repair: {how})."),
            None => format!("The call was not run: {why}."),
        })?;
        Ok(ToolCall { id: call.id.clone(), name: call.name.clone(), arguments: arguments.clone() })
    }

    fn store_result(
        &mut self,
        services: &Services,
        call: &ReplyCall,
        outcome: ToolOutcome,
        beside: Vec<Joining>,
        sink: &dyn EventSink,
    ) -> Result<(), AgentError> {
        let now = services.env.now();
        let seq = self.next_seq();
        let text: Arc<str> = outcome.text.into();
        let status = outcome.status;
        let mut parts = vec![Part {
            seq,
            row: seq,
            slot: slot::BODY,
            origin: Origin::Tool,
            standing: Standing::InOrder,
            created_at: now,
            label: None,
            body: PartBody::text(text.clone()),
        }];
        for (origin, label, text) in outcome.parts {
            parts.push(Part {
                seq: self.next_seq(),
                row: seq,
                slot: slot::LATE,
                origin,
                standing: Standing::InOrder,
                created_at: now,
                label: label.map(Arc::from),
                body: PartBody::text(text),
            });
        }
        for part in beside {
            parts.push(part.into_part(seq, self.next_seq(), now));
        }
        let tool = Some(ToolLink { call_id: call.id.clone(), name: call.name.clone() });
        let row = Row { tool, status, ..self.row(seq, Role::Tool, parts, now) };
        self.commit(services, vec![Record::Row(row.clone())], sink)?;
        self.rows.push(row);
        sink.event(Event::ToolFinished {
            call_id: call.id.clone(),
            name: call.name.clone(),
            status,
            text,
            row: seq,
        });
        Ok(())
    }

    /// Gives out the next seq; before the first commit the session has no writer yet.
    pub(crate) fn next_seq(&mut self) -> Seq {
        if let Some(writer) = &mut self.writer {
            return writer.next_seq();
        }
        self.seen = self.seen.next();
        self.seen
    }

    /// Adds a late part to its row in memory.
    pub(crate) fn adopt_part(&mut self, part: &Part) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.seq == part.row) {
            row.parts.push(part.clone());
            row.sort_parts();
        }
    }
}

/// The text that is stored for a call's arguments: valid JSON whatever came, because every later
/// request replays it.
pub(crate) fn stored_arguments(arguments: &CallArguments) -> Arc<str> {
    match arguments {
        CallArguments::Whole(text) | CallArguments::Repaired { text, .. } => text.clone(),
        CallArguments::Cut { .. } | CallArguments::Malformed { .. } => "{}".into(),
    }
}

fn stopped() -> ToolOutcome {
    let text = "The person stopped this call while it ran. What it had done by then is unknown; \
                check before doing it again.";
    ToolOutcome { status: RowStatus::Interrupted, ..ToolOutcome::failed(text) }
}

/// The arguments on one line, cut to a readable length.
fn summary(arguments: &str) -> String {
    let line: String = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SUMMARY_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

struct Output<'a> {
    call_id: &'a Arc<str>,
    sink: &'a dyn EventSink,
}

impl ToolSink for Output<'_> {
    fn output(&self, text: &str) {
        let call_id = self.call_id.clone();
        self.sink.event(Event::ToolOutput { call_id, text: text.to_owned() });
    }
}
