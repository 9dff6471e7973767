//! Middleware around requests to the model (`llm_execution`): it lets the request go on, changed or
//! not, and may change what came back; or it answers by itself; or it refuses.
//!
//! The request that is let through is the real one: recorded, sent, streamed and ended like any
//! other. What was not let through leaves no request behind, and an answer that is not the model's
//! carries the name of the plugin. A middleware that fails is passed over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_core::{Assembled, Attempt, AttemptEnd, RequestId};
use hermes_plugins::{BoxFuture, Executed, Fault, Payload, Plugins};
use hermes_provider::{Failure, Instead, Reply};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The kind of middleware.
pub(super) const KIND: &str = "llm_execution";

/// The body to send, and where the response goes.
type Passed = (Value, oneshot::Sender<Result<Value, Fault>>);

/// What became of a request before it was sent.
pub(super) enum Begun {
    /// This body is to be sent.
    Sends(Value),
    /// A plugin has answered.
    Answered(Box<Instead>),
}

/// A middleware at work. Dropping it ends it.
struct Task(JoinHandle<Executed>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Task {
    async fn ended(&mut self) -> Option<Executed> {
        (&mut self.0).await.ok()
    }
}

/// A request that was let through, its middleware waiting for the response.
struct Waiting {
    task: Task,
    response: oneshot::Sender<Result<Value, Fault>>,
    /// Names that the model may call.
    tools: Vec<Arc<str>>,
}

/// The requests that middleware is wrapped around.
#[derive(Default)]
pub(super) struct Wraps(Mutex<HashMap<RequestId, Waiting>>);

impl std::fmt::Debug for Wraps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Wraps").field(&self.waiting().len()).finish()
    }
}

impl Wraps {
    fn waiting(&self) -> MutexGuard<'_, HashMap<RequestId, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the middleware until it lets the request through, answers or refuses.
    ///
    /// # Errors
    /// With the words for the person, if a plugin refuses the request.
    pub(super) async fn begin(
        &self,
        plugins: &Plugins,
        attempt: &Attempt,
        request: Value,
        about: Payload,
        assembled: &Assembled,
    ) -> Result<Begun, String> {
        let (pass, mut passed) = mpsc::unbounded_channel::<Passed>();
        let plugins = plugins.clone();
        let value = request.clone();
        let mut task = Task(tokio::spawn(async move {
            let next = |value: Value| -> BoxFuture<'_, Result<Value, Fault>> {
                let (response, arrived) = oneshot::channel();
                // Nobody at the other end: the call was given up, and this task with it.
                let sent = pass.send((value, response));
                Box::pin(async move {
                    let gone = || Fault::new("RuntimeError", "the request was given up");
                    sent.map_err(|_| gone())?;
                    arrived.await.unwrap_or_else(|_| Err(gone()))
                })
            };
            plugins.wrapped(KIND, value, &about, &next).await
        }));
        let tools: Vec<Arc<str>> =
            assembled.tools.defs.iter().map(|tool| tool.name.clone()).collect();
        let executed = tokio::select! {
            biased;
            Some((value, response)) = passed.recv() => {
                // What is no request cannot be sent; the plugin's mistake changes nothing.
                let value = if value.is_object() { value } else { request };
                self.waiting().insert(attempt.id.clone(), Waiting { task, response, tools });
                return Ok(Begun::Sends(value));
            }
            executed = task.ended() => executed,
        };
        let Some(Executed { result, by }) = executed else { return Ok(Begun::Sends(request)) };
        let by = by.unwrap_or_else(|| KIND.into());
        match result {
            Ok(value) => Ok(match instead(&value, &by, attempt, &tools) {
                Some(instead) => Begun::Answered(Box::new(instead)),
                None => Begun::Sends(request),
            }),
            Err(fault) => Err(format!("the plugin {by} refuses the request: {}", fault.message)),
        }
    }

    /// Hands a response to the middleware; gives what it made of it, if that is something else.
    pub(super) async fn answered(
        &self,
        attempt: &Attempt,
        end: &AttemptEnd,
        reply: &Reply,
    ) -> Option<Instead> {
        let Waiting { mut task, response, tools } = self.taken(&attempt.id)?;
        let came = response_json(attempt, end, reply);
        drop(response.send(Ok(came)));
        let Executed { result, by } = task.ended().await?;
        // A refusal after the fact: what was answered stands, as it was paid for.
        let (value, by) = (result.ok()?, by?);
        let changed = instead(&value, &by, attempt, &tools)?;
        // Only what is said and called is a plugin's to change.
        let said = changed.reply.text != reply.text || changed.reply.calls != reply.calls;
        said.then(|| Instead {
            reply: Reply { text: changed.reply.text, calls: changed.reply.calls, ..reply.clone() },
            by,
        })
    }

    /// Hands a failure to the middleware; gives the answer that it has all the same.
    pub(super) async fn failed(&self, attempt: &Attempt, failure: &Failure) -> Option<Instead> {
        let Waiting { mut task, response, tools } = self.taken(&attempt.id)?;
        drop(response.send(Err(Fault::new("RuntimeError", failure.message.clone()))));
        let Executed { result, by } = task.ended().await?;
        instead(&result.ok()?, &by?, attempt, &tools)
    }

    fn taken(&self, id: &RequestId) -> Option<Waiting> {
        self.waiting().remove(id)
    }

    /// The request has ended, or nobody waits for it any more.
    pub(super) fn forget(&self, id: &RequestId) {
        drop(self.taken(id));
    }
}

/// A response in the form in which plugins know it.
fn response_json(attempt: &Attempt, end: &AttemptEnd, reply: &Reply) -> Value {
    json!({
        "id": attempt.id.as_str(),
        "object": "chat.completion",
        "model": end.served_model.as_deref().unwrap_or(&attempt.model),
        "choices": [{
            "index": 0,
            "finish_reason": super::api::finish(reply),
            "message": super::api::message(reply),
        }],
        "usage": super::api::usage(&end.usage),
    })
}

/// What a plugin answered; None, with a line in the log, if that is no answer.
fn instead(value: &Value, by: &Arc<str>, attempt: &Attempt, tools: &[Arc<str>]) -> Option<Instead> {
    let found = Instead::of(&value.to_string(), by.clone(), attempt.id.as_str(), tools);
    match found {
        Ok(instead) if !instead.reply.is_empty() => Some(instead),
        Ok(_) => {
            tracing::warn!(plugin = %by, "an empty answer of middleware is not taken");
            None
        }
        Err(failure) => {
            tracing::warn!(plugin = %by, why = %failure.message, "what middleware gave is no answer");
            None
        }
    }
}
