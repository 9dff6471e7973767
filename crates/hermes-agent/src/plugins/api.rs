//! What plugins hear of requests to models, of the conversation and beside it, and what they may
//! change of them: the request before it is recorded, the class of a failure. What wraps requests is
//! in [`super::wrap`].
//!
//! Observers of a request are told while it is on its way; the answer is not waited for any longer
//! than they take.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::{Assembled, Attempt, AttemptEnd, ErrorClass, RequestId, Task, Timestamp, Usage};
use hermes_plugins::{CallContext, Payload, Plugins, history_items};
use hermes_provider::{Attendant, Client, Failure, Finish, Instead, Later, Prepared, Reply, Taken};
use serde_json::{Map, Value, json};

use super::wrap::{Begun, Wraps};
use crate::Services;

/// Longest message that a plugin may put in place of a provider's.
const MESSAGE: usize = 500;
/// Requests whose changes are remembered until they end.
const REMEMBERED: usize = 256;

/// Tells plugins of every attempt of a client.
#[derive(Debug)]
pub(crate) struct Listener {
    plugins: Plugins,
    platform: String,
    context_window: Option<u64>,
    max_retries: u32,
    /// How many plugin calls the client's requests are inside of.
    depth: u32,
    /// Calls of the present turn, by session and turn.
    count: Mutex<(String, u32)>,
    /// Who changed a request that has not ended.
    traces: Mutex<HashMap<RequestId, Vec<Value>>>,
    /// Messages of requests that were sent and have not ended.
    messages: Mutex<HashMap<RequestId, usize>>,
    /// Requests that middleware is wrapped around.
    wraps: Wraps,
}

impl Listener {
    pub(super) fn new(services: &Services, plugins: &Plugins, platform: &str, depth: u32) -> Self {
        Self {
            plugins: plugins.clone(),
            platform: platform.to_owned(),
            context_window: services.context_window,
            max_retries: services.config.agent.api_max_retries,
            depth,
            count: Mutex::default(),
            traces: Mutex::default(),
            messages: Mutex::default(),
            wraps: Wraps::default(),
        }
    }

    async fn listens(&self, hook: &str) -> bool {
        // Inside of a plugin's own call, plugins may still be loading.
        if self.depth > 0 { self.plugins.hears(hook) } else { self.plugins.listens(hook).await }
    }

    /// The payload that names the attempt.
    fn about(&self, attempt: &Attempt) -> Payload {
        let session = attempt.session.as_str();
        let call =
            CallContext { depth: self.depth, ..super::call_of(&attempt.session, &self.platform) };
        let payload = Payload::new(call)
            .text("task_id", session)
            .text("turn_id", &format!("{session}-{}", attempt.turn))
            .text("session_id", session)
            .text("platform", &self.platform)
            .text("model", &attempt.model)
            .text("provider", &attempt.provider)
            .text("base_url", &attempt.base_url)
            .text("api_mode", &attempt.wire)
            .value("retry_count", attempt.attempt.saturating_sub(1))
            .value("started_at", seconds(attempt.started_at));
        match &attempt.task {
            Task::Main => payload
                .text("api_request_id", attempt.id.as_str())
                .value("api_call_count", self.counted(attempt)),
            Task::Auxiliary(task) => payload
                .text("api_request_id", &format!("aux-{}", attempt.id))
                .text("aux_task", task)
                .value("api_call_count", attempt.attempt)
                .value("streaming", true),
        }
    }

    /// The number of the call in its turn.
    fn counted(&self, attempt: &Attempt) -> u32 {
        let key = format!("{}-{}", attempt.session, attempt.turn);
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if count.0 != key {
            *count = (key, 0);
        }
        count.1.max(1)
    }

    fn count(&self, attempt: &Attempt) {
        self.counted(attempt);
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if attempt.attempt == 1 {
            count.1 += 1;
        }
    }

    fn trace(&self, attempt: &Attempt) -> Vec<Value> {
        let traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        traces.get(&attempt.id).cloned().unwrap_or_default()
    }

    fn sent(&self, attempt: &Attempt, messages: usize) {
        let mut counts = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        // Requests that were given up have no end.
        if counts.len() >= REMEMBERED {
            counts.clear();
        }
        counts.insert(attempt.id.clone(), messages);
    }

    /// How many messages the attempt carried, the prompt among them; None before it was sent.
    fn messages(&self, attempt: &Attempt) -> Option<usize> {
        let counts = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&attempt.id).copied()
    }

    fn ended(&self, attempt: &Attempt) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).remove(&attempt.id);
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).remove(&attempt.id);
        self.wraps.forget(&attempt.id);
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1e6
}

fn duration(attempt: &Attempt, end: &AttemptEnd) -> f64 {
    seconds(end.ended_at) - seconds(attempt.started_at)
}

/// The request without its messages, which are fields of their own, and without credentials, which
/// are never part of a body.
fn request(attempt: &Attempt) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), (&*attempt.model).into());
    for (name, json) in &attempt.params.0 {
        body.insert(name.to_string(), serde_json::from_str(json).unwrap_or_default());
    }
    json!({"method": "POST", "body": body})
}

fn max_tokens(attempt: &Attempt) -> Option<u64> {
    let limit = ["max_tokens", "max_completion_tokens"];
    let found = attempt.params.0.iter().find(|(name, _)| limit.contains(&&**name));
    found.and_then(|(_, json)| json.parse().ok())
}

pub(super) fn usage(usage: &Usage) -> Value {
    let total = usage.input.zip(usage.output).map(|(input, output)| input + output);
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": total,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
    })
}

pub(super) fn finish(reply: &Reply) -> &str {
    match &reply.finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::Other(word) => word,
    }
}

pub(super) fn message(reply: &Reply) -> Value {
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .map(|call| {
            let arguments = crate::calls::stored_arguments(&call.arguments);
            json!({
                "id": &*call.id,
                "type": "function",
                "function": {"name": &*call.name, "arguments": &*arguments},
            })
        })
        .collect();
    let calls = if calls.is_empty() { Value::Null } else { calls.into() };
    let reasoning = reply.reasoning.as_ref().map(|(_, text)| text);
    json!({"role": "assistant", "content": reply.text, "tool_calls": calls, "reasoning": reasoning})
}

/// What a failure is called, in the words that plugins know.
const fn reason(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Auth => "auth",
        ErrorClass::Quota => "billing",
        ErrorClass::RateLimit => "rate_limit",
        ErrorClass::Server => "server_error",
        ErrorClass::Timeout | ErrorClass::Connect | ErrorClass::Disconnected => "timeout",
        ErrorClass::ContextOverflow => "context_overflow",
        ErrorClass::NotFound => "model_not_found",
        ErrorClass::BadRequest | ErrorClass::OutputOverflow => "format_error",
        ErrorClass::ContentFilter => "content_policy_blocked",
        ErrorClass::Malformed | ErrorClass::Local => "unknown",
    }
}

/// The class that a plugin names; None for a word that is none.
fn class(reason: &str) -> Option<ErrorClass> {
    Some(match reason {
        "auth" | "auth_permanent" => ErrorClass::Auth,
        "billing" => ErrorClass::Quota,
        "rate_limit" => ErrorClass::RateLimit,
        "overloaded" | "server_error" => ErrorClass::Server,
        "timeout" => ErrorClass::Timeout,
        "context_overflow" | "payload_too_large" | "long_context_tier" => {
            ErrorClass::ContextOverflow
        }
        "model_not_found" => ErrorClass::NotFound,
        "format_error" => ErrorClass::BadRequest,
        "content_policy_blocked" | "provider_policy_blocked" => ErrorClass::ContentFilter,
        _ => return None,
    })
}

impl Attendant for Listener {
    fn prepare<'a>(
        &'a self,
        attempt: &'a Attempt,
        body: &'a [u8],
        assembled: &'a Assembled,
    ) -> Later<'a, Result<Prepared, String>> {
        Box::pin(async move {
            if attempt.task != Task::Main || self.depth > 0 {
                return Ok(Prepared::AsIs);
            }
            self.count(attempt);
            let rewrites = self.plugins.has_middleware("llm_request").await;
            let wraps = self.plugins.has_middleware(super::wrap::KIND).await;
            if !rewrites && !wraps {
                return Ok(Prepared::AsIs);
            }
            let original: Value =
                serde_json::from_slice(body).map_err(|error| error.to_string())?;
            let mut value = original.clone();
            if rewrites {
                let payload = self.about(attempt);
                let rewritten = self.plugins.rewrite("llm_request", value, &payload).await;
                if rewritten.changed() {
                    let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
                    if traces.len() >= REMEMBERED {
                        traces.clear();
                    }
                    traces.insert(attempt.id.clone(), rewritten.trace);
                }
                value = rewritten.value;
            }
            if wraps {
                let about = self.about(attempt).value("middleware_trace", self.trace(attempt));
                match self.wraps.begin(&self.plugins, attempt, value, about, assembled).await? {
                    Begun::Sends(wanted) => value = wanted,
                    Begun::Answered(instead) => {
                        self.ended(attempt);
                        return Ok(Prepared::Answered(instead));
                    }
                }
            }
            if value == original {
                return Ok(Prepared::AsIs);
            }
            Ok(Prepared::Changed(value.to_string().into_bytes()))
        })
    }

    fn dropped(&self, attempt: &Attempt) {
        self.ended(attempt);
    }

    fn sending<'a>(&'a self, attempt: &'a Attempt, assembled: &'a Assembled) -> Later<'a, ()> {
        Box::pin(async move {
            let count = assembled.messages.len() + 1;
            self.sent(attempt, count);
            let main = attempt.task == Task::Main;
            let hook = if main { "pre_api_request" } else { "pre_auxiliary_call" };
            if !self.listens(hook).await {
                return;
            }
            let system: Arc<str> = assembled.snapshot.text.clone();
            let items = history_items(&assembled.messages);
            let said = assembled.messages.iter().rposition(|it| it.role == hermes_core::Role::User);
            let said: Value = said
                .and_then(|at| serde_json::from_str::<Value>(&items[at]).ok())
                .map_or(Value::Null, |item| item["content"].clone());
            let key = format!("{}:{}", attempt.session, attempt.task.as_str());
            let payload = self
                .about(attempt)
                .value("message_count", count)
                .value("tool_count", assembled.tools.defs.len())
                .value("approx_input_tokens", attempt.body_bytes / 4)
                .value("request_char_count", attempt.body_bytes)
                .value("max_tokens", max_tokens(attempt))
                .value("request", request(attempt))
                .long_text("system_prompt", &system)
                .list("request_messages", &key, Arc::clone(&items));
            let payload = if main {
                payload
                    .value("user_message", said)
                    .list("conversation_history", &key, items)
                    .value("middleware_trace", self.trace(attempt))
            } else {
                payload
            };
            self.plugins.dispatch(hook, payload).await;
        })
    }

    fn answered<'a>(
        &'a self,
        attempt: &'a Attempt,
        end: &'a AttemptEnd,
        reply: &'a Reply,
    ) -> Later<'a, Option<Instead>> {
        Box::pin(async move {
            let main = attempt.task == Task::Main;
            let hook = if main { "post_api_request" } else { "post_auxiliary_call" };
            if self.listens(hook).await {
                let message = message(reply);
                let payload = self
                    .about(attempt)
                    .value("api_duration", duration(attempt, end))
                    .value("ended_at", seconds(end.ended_at))
                    .value("first_chunk_at", end.first_byte_at.map(seconds))
                    .value("message_count", self.messages(attempt))
                    .text("finish_reason", finish(reply))
                    .maybe("response_model", end.served_model.as_deref())
                    .value("usage", usage(&end.usage))
                    .value("context_length", self.context_window)
                    .value("response", json!({"choices": [{"message": &message}]}))
                    .value("assistant_message", message)
                    .value("assistant_content_chars", reply.text.chars().count())
                    .value("assistant_tool_call_count", reply.calls.len())
                    .maybe("error", None)
                    .maybe("error_type", None)
                    .value("middleware_trace", self.trace(attempt));
                self.plugins.dispatch(hook, payload).await;
            }
            let instead = self.wraps.answered(attempt, end, reply).await;
            self.ended(attempt);
            instead
        })
    }

    fn failed<'a>(
        &'a self,
        attempt: &'a Attempt,
        end: &'a AttemptEnd,
        failure: &'a Failure,
    ) -> Later<'a, Taken> {
        Box::pin(async move {
            let mut taken = self.reclassified(attempt, end, failure).await;
            let known = taken.failure.as_ref().unwrap_or(failure);
            let again = taken.again.unwrap_or_else(|| known.class.is_transient());
            let main = attempt.task == Task::Main;
            let hook = if main { "api_request_error" } else { "post_auxiliary_call" };
            if self.listens(hook).await {
                let class = known.class.as_str();
                let payload = self
                    .about(attempt)
                    .value("api_duration", duration(attempt, end))
                    .value("ended_at", seconds(end.ended_at))
                    .value("message_count", self.messages(attempt))
                    .value("status_code", end.http_status)
                    .value("usage", usage(&end.usage));
                let payload = if main {
                    payload
                        .value("max_retries", self.max_retries)
                        .value("retryable", again)
                        .text("reason", reason(known.class))
                        .value("error", json!({"type": class, "message": known.message}))
                        .value("request", request(attempt))
                } else {
                    payload.text("error", &known.message).text("error_type", class)
                };
                self.plugins.dispatch(hook, payload).await;
            }
            taken.instead = self.wraps.failed(attempt, known).await;
            self.ended(attempt);
            taken
        })
    }
}

impl Listener {
    /// `transform_api_error_classification`.
    async fn reclassified(&self, attempt: &Attempt, end: &AttemptEnd, failure: &Failure) -> Taken {
        const HOOK: &str = "transform_api_error_classification";
        if !self.listens(HOOK).await {
            return Taken::default();
        }
        let error = json!({"type": failure.class.as_str(), "message": failure.message});
        let payload = self
            .about(attempt)
            .value("status_code", end.http_status)
            .text("error_type", failure.class.as_str())
            .maybe("error_code", None)
            .text("error_message", &failure.message)
            .value("error_body", json!({"error": &error}))
            .value("error", error)
            .value("approx_tokens", attempt.body_bytes / 4)
            .value("context_length", self.context_window)
            .maybe("num_messages", None);
        let outcome = self.plugins.dispatch(HOOK, payload).await;
        let Some(fields) = outcome.error_class(&|reason| class(reason).is_some()) else {
            return Taken::default();
        };
        let says = |name: &str| fields.get(name).and_then(Value::as_bool);
        let class = fields.get("reason").and_then(Value::as_str).and_then(class);
        let class = match (class.unwrap_or(failure.class), says("should_compress")) {
            (_, Some(true)) => ErrorClass::ContextOverflow,
            (ErrorClass::ContextOverflow, Some(false)) => ErrorClass::BadRequest,
            (class, _) => class,
        };
        let message = fields.get("message").and_then(Value::as_str);
        let message = message
            .map_or_else(|| failure.message.clone(), |text| text.chars().take(MESSAGE).collect());
        Taken {
            failure: Some(Failure { class, message, ..failure.clone() }),
            again: says("retryable"),
            elsewhere: says("should_fallback"),
            instead: None,
        }
    }
}

impl Services {
    /// A client without connections whose requests plugins hear of like those of the shared one.
    pub(crate) fn fresh_client(&self) -> Client {
        let client = Client::new();
        if let Some(attendant) = self.client.attendant() {
            client.attend(attendant.clone());
        }
        client
    }
}
