//! A reply put together from the chunks of a stream, or from one whole document.
//!
//! Servers agree on the outline and on little else; what is tolerated here and why is told where
//! it is done. Nothing that was received is lost to an oddity elsewhere: oddities become
//! [`Reply::problems`]. Only three things end a reply as failed: an error object, an end without a
//! terminal marker, and a chunk before the finish that cannot be read, unless the text went on
//! behind it. With tool calls the last always does: what was lost could be a part of a command.

use std::sync::Arc;

use hermes_core::{ErrorClass, REASONING_CONTENT, Usage};

use crate::json::{self, Joiner, Kind, Value};
use crate::{Failure, Finish, Limits, Reply, classify};

mod calls;
mod details;
mod think;

use calls::Calls;
use details::Details;
use think::Splitter;

/// Fields that hold reasoning text. The first one that has any in a chunk counts, because some
/// servers send the same text in two.
const REASONING_FIELDS: [&str; 4] = [REASONING_CONTENT, "reasoning", "thinking", "reasoning_text"];

/// What is said of an answer that an output limit ended before its first word.
pub(crate) const NOTHING_WRITTEN: &str =
    "the output limit was reached before anything was written (finish reason \"length\")";

/// The structured field of routers.
const REASONING_DETAILS: &str = "reasoning_details";

/// More of the reply, to be shown at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// Of the answer.
    Text(&'a str),
    /// Of the reasoning.
    Reasoning(&'a str),
}

/// A reply in the making.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    text: String,
    reasoning: String,
    reasoning_field: Option<Arc<str>>,
    details: Details,
    splitter: Splitter,
    text_joiner: Joiner,
    reasoning_joiner: Joiner,
    calls: Calls,
    finish: Option<Arc<str>>,
    usage: Usage,
    served_model: Option<Arc<str>>,
    saw_choice: bool,
    /// A message came whole, so no end marker is needed.
    saw_message: bool,
    saw_delta: bool,
    done: bool,
    unreadable: Option<String>,
    /// Readable chunks followed the unreadable one.
    went_on: bool,
    /// The one thing that came is a whole document, not a chunk of a stream.
    document: bool,
    /// The first thing that came without a message in it, for the error's words.
    odd: Option<String>,
    problems: Vec<String>,
}

impl Assembly {
    /// Takes a body that is one whole document.
    ///
    /// # Errors
    /// If it is an error object.
    pub fn feed_document(
        &mut self,
        data: &str,
        on: &mut dyn FnMut(Fragment<'_>),
    ) -> Result<(), Failure> {
        self.document = true;
        self.feed(data, on)
    }

    /// Takes the data of one event, or one of several documents.
    ///
    /// # Errors
    /// If it is an error object.
    pub fn feed(&mut self, data: &str, on: &mut dyn FnMut(Fragment<'_>)) -> Result<(), Failure> {
        let data = data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        // The server has said that this is all.
        if data.is_empty() || self.done {
            return Ok(());
        }
        let parsed = match json::parse(data) {
            Ok(parsed) => parsed,
            // Heartbeats that are sent as data.
            Err(_) if !data.trim_start_matches('\u{feff}').starts_with(['{', '[']) => {
                self.note("data that is no JSON was skipped");
                return Ok(());
            }
            Err(error) => {
                if self.finish.is_some() {
                    self.note(&format!("a chunk after the finish could not be read: {error}"));
                } else {
                    self.unreadable.get_or_insert_with(|| error.to_string());
                }
                return Ok(());
            }
        };
        for problem in &parsed.problems {
            self.note(&problem.what.to_string());
        }
        let whole = self.finish.as_ref().is_some_and(|word| !is_failure(word));
        match self.document(&parsed.value, on) {
            // The reply is whole already; what went wrong behind it is for the log.
            Err(failure) if whole => {
                self.note(&format!("an error after the finish: {}", failure.message));
                Ok(())
            }
            result => result,
        }
    }

    /// Whether `[DONE]` came: nothing will follow.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether a finish reason came: only usage may follow.
    pub const fn has_finish(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether anything came that makes this a reply at all.
    pub const fn has_begun(&self) -> bool {
        self.saw_choice || self.done
    }

    /// The provider's word for why it stopped.
    pub const fn finish_word(&self) -> Option<&Arc<str>> {
        self.finish.as_ref()
    }

    /// Tokens as reported so far.
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// The model as reported so far.
    pub const fn served_model(&self) -> Option<&Arc<str>> {
        self.served_model.as_ref()
    }

    /// What has been shown so far, if anything; for a stream that broke. Tool calls are left out:
    /// they were not shown and must not run.
    pub fn partial(&self) -> Option<Reply> {
        let blank = self.text.trim().is_empty() && self.reasoning.trim().is_empty();
        (!blank).then(|| Reply {
            text: self.text.clone(),
            reasoning: self.reasoning_text(),
            raw_fields: Vec::new(),
            calls: Vec::new(),
            finish: Finish::Other("interrupted".into()),
            usage: self.usage,
            served_model: self.served_model.clone(),
            problems: self.problems.clone(),
        })
    }

    /// The bytes are over: shows what was held back.
    pub fn flush(&mut self, on: &mut dyn FnMut(Fragment<'_>)) {
        let rest = self.text_joiner.finish();
        let mut splitter = std::mem::take(&mut self.splitter);
        splitter.push(rest, &mut |fragment| self.show(fragment, on));
        splitter.finish(&mut |fragment| self.show(fragment, on));
        let rest = self.reasoning_joiner.finish();
        self.show(Fragment::Reasoning(rest), on);
    }

    /// The whole reply, after [`Self::flush`]. Calls without an id of their own get one that
    /// begins with `id_base`; `tools` are the names that were offered.
    ///
    /// # Errors
    /// If the reply is not whole, or there is nothing in it.
    pub fn finish(mut self, id_base: &str, tools: &[Arc<str>]) -> Result<Reply, Failure> {
        let marked = self.done || self.finish.is_some();
        if let Some(error) = self.unreadable.take() {
            let what = format!("a chunk of the reply could not be read: {error}");
            if !(self.went_on && marked && self.calls.is_empty()) {
                return Err(failure(ErrorClass::Malformed, what));
            }
            self.note(&format!("{what}; what was in it is missing"));
        }
        let word = self.finish.take();
        match &word {
            None if !self.done && !self.saw_message => {
                return Err(if !self.saw_choice {
                    self.without("choices")
                } else if self.document || !self.saw_delta {
                    self.without("a message")
                } else {
                    failure(
                        ErrorClass::Disconnected,
                        "the stream ended before the reply was whole (no finish reason, no [DONE])"
                            .to_owned(),
                    )
                });
            }
            Some(word) if is_failure(word) => {
                return Err(failure(
                    ErrorClass::Server,
                    format!("the provider stopped with finish reason \"{word}\""),
                ));
            }
            _ => {}
        }
        let named = word.as_deref().map(Finish::from_word);
        let cut_off = named == Some(Finish::Length);
        let calls =
            std::mem::take(&mut self.calls).finish(id_base, tools, cut_off, &mut self.problems);
        let finish = match named {
            // Several servers say "stop" after tool calls.
            None | Some(Finish::Stop) if !calls.is_empty() => Finish::ToolCalls,
            Some(Finish::ToolCalls) if calls.is_empty() => Finish::Stop,
            None => Finish::Stop,
            Some(finish) => finish,
        };
        let nothing = if self.saw_message || self.saw_delta {
            failure(ErrorClass::Malformed, "an empty answer (no text, no tool call)".to_owned())
        } else {
            self.without("a message")
        };
        let mut raw_fields = Vec::new();
        if let Some(json) = self.details.json() {
            raw_fields.push((REASONING_DETAILS.into(), json.into()));
        }
        let reply = Reply {
            reasoning: self.reasoning_text(),
            text: self.text,
            raw_fields,
            calls,
            finish,
            usage: self.usage,
            served_model: self.served_model,
            problems: self.problems,
        };
        if !reply.is_empty() {
            return Ok(reply);
        }
        Err(match reply.finish {
            Finish::ContentFilter => failure(
                ErrorClass::ContentFilter,
                "the provider held the whole answer back (content filter)".to_owned(),
            ),
            Finish::Length => failure(ErrorClass::Malformed, NOTHING_WRITTEN.to_owned()),
            _ => nothing,
        })
    }

    /// An answer that lacks what makes it one, with the start of what came instead.
    fn without(&self, what: &str) -> Failure {
        let message = match &self.odd {
            Some(came) => format!("an answer without {what}: {came}"),
            None => format!("an answer without {what}"),
        };
        failure(ErrorClass::Malformed, message)
    }

    fn reasoning_text(&self) -> Option<(Arc<str>, String)> {
        (!self.reasoning.is_empty()).then(|| {
            let field = self.reasoning_field.clone();
            (field.unwrap_or_else(|| REASONING_CONTENT.into()), self.reasoning.clone())
        })
    }

    /// Adds what was odd about the bytes.
    pub(crate) fn note_all(&mut self, problems: Vec<String>) {
        for problem in problems {
            self.note(&problem);
        }
    }

    fn note(&mut self, problem: &str) {
        if self.problems.len() < 32 && !self.problems.iter().any(|known| known == problem) {
            self.problems.push(problem.to_owned());
        }
    }

    fn show(&mut self, fragment: Fragment<'_>, on: &mut dyn FnMut(Fragment<'_>)) {
        let (kept, text) = match fragment {
            Fragment::Text(text) => (&mut self.text, text),
            Fragment::Reasoning(text) => (&mut self.reasoning, text),
        };
        if !text.is_empty() {
            kept.push_str(text);
            on(fragment);
        }
    }

    fn document(
        &mut self,
        value: &Value<'_>,
        on: &mut dyn FnMut(Fragment<'_>),
    ) -> Result<(), Failure> {
        if let Some(error) = error_in(value) {
            return Err(error);
        }
        if self.served_model.is_none() {
            self.served_model = value
                .get("model")
                .and_then(Value::as_str)
                .filter(|model| !model.is_empty())
                .map(Arc::from);
        }
        self.take_usage(value.get("usage"));
        self.take_usage(value.path(&["x_groq", "usage"]));
        let choices = value.get("choices").map(Value::items).unwrap_or_default();
        for (place, choice) in choices.iter().enumerate() {
            if let Some(error) = error_in(choice) {
                return Err(error);
            }
            // Only one answer was asked for; others are not ours.
            let index = choice.get("index").and_then(Value::as_u64).unwrap_or(place as u64);
            if index == 0 {
                self.choice(choice, on);
            }
        }
        if self.odd.is_none() && !(self.saw_message || self.saw_delta) {
            self.odd = Some(start_of(value.raw));
        }
        // The wire of Ollama's own API, which some proxies pass through.
        if let Some(message) = value.get("message").filter(|message| message.is_object()) {
            self.saw_choice = true;
            self.saw_delta = true;
            self.message(message, on);
            if value.get("done").is_some_and(|done| matches!(done.kind, Kind::Bool(true))) {
                let word = value.get("done_reason").and_then(Value::as_str).unwrap_or("stop");
                self.finish = Some(word.into());
            }
        }
        Ok(())
    }

    fn take_usage(&mut self, value: Option<&Value<'_>>) {
        if let Some(value) = value.filter(|value| value.is_object()) {
            self.usage = crate::usage::merge(self.usage, crate::usage::usage(value));
        }
    }

    fn choice(&mut self, choice: &Value<'_>, on: &mut dyn FnMut(Fragment<'_>)) {
        self.saw_choice = true;
        self.went_on |= self.unreadable.is_some();
        self.take_usage(choice.get("usage"));
        let object = |key| choice.get(key).filter(|value| value.is_object());
        if let Some(delta) = object("delta") {
            self.saw_delta = true;
            self.message(delta, on);
        } else if let Some(message) = object("message") {
            // Some servers repeat the whole message in the last chunk of a stream; a second answer
            // with the same index is not ours.
            if !std::mem::replace(&mut self.saw_message, true) && !self.saw_delta {
                self.message(message, on);
            }
        } else if let Some(text) = choice.get("text") {
            self.saw_delta = true;
            self.content(text, on);
        }
        if let Some(word) = choice.get("finish_reason").and_then(Value::as_str)
            && !word.is_empty()
        {
            self.finish = Some(word.into());
        }
    }

    fn message(&mut self, message: &Value<'_>, on: &mut dyn FnMut(Fragment<'_>)) {
        let details = message.get(REASONING_DETAILS);
        let mut plain = false;
        for field in REASONING_FIELDS {
            if let Some(value) = message.get(field)
                && value.as_str().is_some_and(|text| !text.is_empty())
            {
                self.reason(field, value, on);
                plain = true;
                break;
            }
        }
        for detail in details.map(Value::items).unwrap_or_default() {
            let text = self.details.push(detail);
            if !plain && let Some(text) = text {
                self.reason(REASONING_DETAILS, text, on);
            }
        }
        for key in ["content", "refusal"] {
            if let Some(content) = message.get(key) {
                self.content(content, on);
            }
        }
        for call in message.get("tool_calls").map(Value::items).unwrap_or_default() {
            self.calls.push(call);
        }
        if let Some(call) = message.get("function_call").filter(|call| call.is_object()) {
            self.calls.push_function(call);
        }
    }

    fn reason(&mut self, field: &str, value: &Value<'_>, on: &mut dyn FnMut(Fragment<'_>)) {
        let text = self.reasoning_joiner.push(value);
        self.reasoning_field.get_or_insert_with(|| field.into());
        self.show(Fragment::Reasoning(&text), on);
    }

    /// Content is a string, or an array of parts of which some may be reasoning.
    fn content(&mut self, content: &Value<'_>, on: &mut dyn FnMut(Fragment<'_>)) {
        match &content.kind {
            Kind::String(_) => {
                let text = self.text_joiner.push(content);
                let mut splitter = std::mem::take(&mut self.splitter);
                splitter.push(&text, &mut |fragment| {
                    if matches!(fragment, Fragment::Reasoning(_)) {
                        self.reasoning_field.get_or_insert_with(|| "think".into());
                    }
                    self.show(fragment, on);
                });
                self.splitter = splitter;
            }
            Kind::Array(parts) => {
                for part in parts {
                    if part.as_str().is_some() {
                        self.content(part, on);
                        continue;
                    }
                    let thinking = part.get("thinking").or_else(|| part.get("reasoning"));
                    match thinking {
                        Some(value) if value.as_str().is_some() => {
                            self.reason("thinking", value, on);
                        }
                        Some(value) => {
                            for inner in value.items() {
                                if let Some(text) = inner.get("text") {
                                    self.reason("thinking", text, on);
                                }
                            }
                        }
                        None => {
                            if let Some(text) = part.get("text") {
                                self.content(text, on);
                            }
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// The start of what came, enough to recognise it.
fn start_of(raw: &str) -> String {
    const SHOWN: usize = 200;
    let cut = raw.floor_char_boundary(SHOWN);
    let dots = if cut < raw.len() { " ..." } else { "" };
    format!("{}{dots}", classify::shorten(raw.get(..cut).unwrap_or_default()))
}

/// Whether a finish reason says that the provider failed.
fn is_failure(word: &str) -> bool {
    matches!(word, "error" | "network_error" | "internal_error")
}

/// The failure that an object carries, if it does: `null`, empty objects and empty strings are
/// the absence of one.
fn error_in(value: &Value<'_>) -> Option<Failure> {
    let carries = match value.get("error").map(|error| &error.kind) {
        Some(Kind::Object(fields)) => !fields.is_empty(),
        Some(Kind::String(text)) => !text.is_empty(),
        Some(Kind::Bool(true)) => true,
        _ => false,
    };
    // {"object":"error","message":...} of vLLM, {"detail":...} of FastAPI, in a 200 answer.
    let is_error = value.get("object").and_then(Value::as_str) == Some("error")
        || (value.get("detail").is_some() && value.get("choices").is_none());
    (carries || is_error).then(|| classify(None, value.raw.as_bytes(), None))
}

fn failure(class: ErrorClass, message: String) -> Failure {
    Failure { class, message, limits: Limits::default(), retry_after: None }
}

#[cfg(test)]
mod tests;
