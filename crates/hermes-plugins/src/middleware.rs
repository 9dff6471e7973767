//! Middleware: rewriting requests before they are made, and wrapping their execution.
//!
//! What is wrapped may take as long as it takes, and so may middleware, as in the original; only
//! around a request to the model its own time has a limit ([`OWN_TIME`]), because nobody else could
//! end that turn. A process that dies drops out of the chain; what it had let through already is
//! kept.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::host::{CallError, Fault};
use crate::invoke::Invocation;
use crate::payload::Payload;
use crate::plugins::{Inner, Plugins, locked};
use crate::registry::Entry;
use crate::services::BoxFuture;

/// The class of exception that refuses a request to a model and is never swallowed.
const BLOCKED: &str = "LLMExecutionBlocked";

/// The kind that wraps requests to the model.
const LLM: &str = "llm_execution";

/// How long middleware around a request to the model may take by itself, the request not counted, in
/// times of `plugins.hook_callback_timeout`: ten minutes if nothing else is said.
pub const OWN_TIME: u32 = 20;

/// What came of something that was wrapped.
#[derive(Debug)]
pub struct Executed {
    /// The result, as the outermost middleware gave it.
    pub result: Result<Value, Fault>,
    /// The plugin whose result it is, or that refused; None if it is that of what was wrapped.
    pub by: Option<Arc<str>>,
}

/// What middleware made of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewritten {
    /// The request, or the arguments.
    pub value: Value,
    /// Who changed it, for later hooks (`middleware_trace`) and for the record.
    pub trace: Vec<Value>,
}

impl Rewritten {
    /// Whether anybody changed it.
    pub fn changed(&self) -> bool {
        !self.trace.is_empty()
    }
}

/// A call that a middleware asks to go on with: the value, and where the result goes.
pub(crate) type NextCall = (Option<Value>, oneshot::Sender<Result<Value, Fault>>);

/// What is wrapped.
pub type Execution<'a> = dyn Fn(Value) -> BoxFuture<'a, Result<Value, Fault>> + Send + Sync + 'a;

impl Plugins {
    /// Whether anything is registered of a kind: `tool_request`, `tool_execution`, `llm_request`,
    /// `llm_execution`.
    pub async fn has_middleware(&self, kind: &str) -> bool {
        self.ready().await;
        locked(&self.0.registry).under("middleware", kind).next().is_some()
    }

    /// Passes a request through the middleware of a request kind. Each callback sees what the one
    /// before made of it, and the original beside it.
    pub async fn rewrite(&self, kind: &str, value: Value, context: &Payload) -> Rewritten {
        self.0.rewrite(kind, value, context).await
    }

    /// Runs something wrapped in the middleware of an execution kind.
    ///
    /// # Errors
    /// What was wrapped says, or a middleware that refuses it.
    pub async fn execute(
        &self,
        kind: &str,
        value: Value,
        context: &Payload,
        next: &Execution<'_>,
    ) -> Result<Value, Fault> {
        self.wrapped(kind, value, context, next).await.result
    }

    /// The same, with whose result it is.
    pub async fn wrapped(
        &self,
        kind: &str,
        value: Value,
        context: &Payload,
        next: &Execution<'_>,
    ) -> Executed {
        self.ready().await;
        let chain: Vec<Entry> =
            locked(&self.0.registry).under("middleware", kind).cloned().collect();
        let by = Mutex::new(None);
        let wrapped = Wrapped {
            inner: &self.0,
            kind,
            chain: &chain,
            context,
            original: value.clone(),
            next,
            own: self.0.timeout.filter(|_| kind == LLM).map(|limit| limit * OWN_TIME),
            by: &by,
        };
        let result = wrapped.run(0, value).await;
        let by = locked(&by).take();
        Executed { result, by }
    }
}

/// The name of the field that holds what is rewritten.
fn field(kind: &str) -> &'static str {
    if kind.starts_with("tool") { "args" } else { "request" }
}

fn kwargs(kind: &str, value: &Value, original: &Value, context: &Payload) -> Value {
    let mut out: Map<String, Value> = serde_json::from_str(&context.to_json()).unwrap_or_default();
    let name = field(kind);
    out.insert(name.to_owned(), value.clone());
    out.insert(format!("original_{name}"), original.clone());
    Value::Object(out)
}

impl Inner {
    async fn rewrite(self: &Arc<Self>, kind: &str, value: Value, context: &Payload) -> Rewritten {
        if !self.any() {
            return Rewritten { value, trace: Vec::new() };
        }
        self.ready().await;
        let chain: Vec<Entry> = locked(&self.registry).under("middleware", kind).cloned().collect();
        let original = value.clone();
        let mut out = Rewritten { value, trace: Vec::new() };
        for entry in chain {
            let mut invocation = Invocation::new("middleware", &context.call);
            invocation.kwargs = kwargs(kind, &out.value, &original, context);
            invocation.chain = Some(0);
            let answer = match self.invoke(&entry, invocation).await {
                Ok(answer) => answer,
                Err(error) => {
                    self.warn_once(
                        format!("{kind}\n{}\n{error}", entry.callback),
                        &format!("middleware {kind} of plugin {} failed: {error}", entry.plugin),
                    );
                    continue;
                }
            };
            let Some(rewritten) = answer.get(field(kind)).filter(|value| value.is_object()) else {
                continue;
            };
            if *rewritten != out.value {
                out.trace.push(json!({
                    "kind": kind,
                    "plugin": &*entry.plugin,
                    "name": answer.get("name").cloned().unwrap_or_else(|| (&*entry.callback).into()),
                    "source": answer.get("source"),
                    "reason": answer.get("reason"),
                }));
                out.value = rewritten.clone();
            }
        }
        out
    }

    /// Goes on with a chain, for a middleware that asks to.
    pub(crate) async fn next_call(&self, params: &Value) -> Result<Value, Fault> {
        let chain = params.get("chain").and_then(Value::as_u64).unwrap_or(0);
        let sender = locked(&self.chains).get(&chain).cloned();
        let gone = || {
            Fault::new(
                "RuntimeError",
                "next_call belongs to an execution that has ended, or to none",
            )
        };
        let value = params.get("value").filter(|value| !value.is_null()).cloned();
        let (answer, result) = oneshot::channel();
        sender.ok_or_else(gone)?.send((value, answer)).map_err(|_| gone())?;
        result.await.unwrap_or_else(|_| Err(gone()))
    }
}

struct Wrapped<'a, 'n> {
    inner: &'a Arc<Inner>,
    kind: &'a str,
    chain: &'a [Entry],
    context: &'a Payload,
    original: Value,
    next: &'a Execution<'n>,
    /// How long a middleware may take by itself.
    own: Option<Duration>,
    /// Whose the result is.
    by: &'a Mutex<Option<Arc<str>>>,
}

/// Forgets a chain when its execution has ended, however it did.
struct Open<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        locked(&self.inner.chains).remove(&self.number);
    }
}

impl Wrapped<'_, '_> {
    /// Warns of a middleware that failed, once for each kind of fault.
    fn failed(&self, entry: &Entry, error: &CallError, downstream: Option<&Result<Value, Fault>>) {
        let passed_on = matches!((error, downstream), (CallError::Raised(_), Some(Err(_))));
        if passed_on {
            // What was wrapped failed, and the middleware let the exception through.
            tracing::debug!(plugin = %entry.plugin, kind = self.kind, %error, "middleware raised");
            return;
        }
        self.inner.warn_once(
            format!("{}\n{}\n{error}", self.kind, entry.callback),
            &format!("middleware {} of plugin {} failed: {error}", self.kind, entry.plugin),
        );
    }

    fn run(&self, index: usize, value: Value) -> BoxFuture<'_, Result<Value, Fault>> {
        Box::pin(async move {
            let Some(entry) = self.chain.get(index) else { return (self.next)(value).await };
            if self.own.is_some() {
                let why = locked(&self.inner.suppress).check(entry.id, "", Instant::now(), false);
                if let Some(why) = why {
                    tracing::debug!(plugin = %entry.plugin, kind = self.kind, why, "middleware is left out");
                    return self.run(index + 1, value).await;
                }
            }
            let (sender, mut asked) = mpsc::unbounded_channel::<NextCall>();
            let number = self.inner.next_chain();
            locked(&self.inner.chains).insert(number, sender);
            let _open = Open { inner: self.inner, number };
            let mut invocation = Invocation::new(self.kind, &self.context.call);
            invocation.kwargs = kwargs(self.kind, &value, &self.original, self.context);
            invocation.chain = Some(number);
            let mut call = std::pin::pin!(self.inner.invoke(entry, invocation));
            let mut downstream: Option<Result<Value, Fault>> = None;
            let mut left = self.own;
            let ended = loop {
                let began = Instant::now();
                let waited = async {
                    match left {
                        Some(left) => tokio::time::sleep(left).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    ended = &mut call => break ended,
                    () = waited => {
                        let mut suppress = locked(&self.inner.suppress);
                        suppress.gave_up(entry.id, "", Instant::now());
                        // It is left out for a while, and asked again after that.
                        suppress.came_back(entry.id);
                        break Err(CallError::TimedOut(self.own.unwrap_or_default()));
                    }
                    Some((changed, answer)) = asked.recv() => {
                        left = left.map(|left| left.saturating_sub(began.elapsed()));
                        let result = if downstream.is_some() {
                            Err(Fault::new("RuntimeError", "next_call can be called once"))
                        } else {
                            let result = self.run(index + 1, changed.unwrap_or_else(|| value.clone())).await;
                            downstream = Some(result.clone());
                            result
                        };
                        // A middleware that has gone does not wait for it.
                        drop(answer.send(result));
                    }
                }
            };
            match ended {
                Ok(value) if !value.is_null() || downstream.is_none() => {
                    if downstream.as_ref().is_none_or(|it| it.as_ref() != Ok(&value)) {
                        *locked(self.by) = Some(entry.plugin.clone());
                    }
                    Ok(value)
                }
                Ok(_) => downstream.unwrap_or(Ok(Value::Null)),
                Err(CallError::Raised(fault)) if fault.kinds.iter().any(|kind| kind == BLOCKED) => {
                    locked(self.by).get_or_insert_with(|| entry.plugin.clone());
                    Err(fault)
                }
                Err(error) => {
                    self.failed(entry, &error, downstream.as_ref());
                    match downstream {
                        Some(result) => result,
                        None => self.run(index + 1, value).await,
                    }
                }
            }
        })
    }
}
