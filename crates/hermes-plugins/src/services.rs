//! What plugins may ask of the rest of the program. The agent implements it; what it leaves out
//! answers plugins with an error that names what is missing.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use crate::host::Fault;
use crate::payload::CallContext;

/// A future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A call to a model that a plugin asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// Whose.
    pub plugin: String,
    /// The call that asked.
    pub call: CallContext,
    /// Whether it came through `agent.auxiliary_client`, which the original does not gate.
    pub auxiliary: bool,
    /// Messages, as `[{"role", "content"}]`.
    pub messages: Value,
    /// Everything else that was given: `provider`, `model`, `temperature`, `max_tokens`,
    /// `timeout`, `purpose`, `task`, `json_schema`, `json_mode`, `tools`, ...
    pub options: Value,
}

/// A message that a plugin puts into a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// Whose.
    pub plugin: String,
    /// The text.
    pub content: String,
    /// `user`, ...
    pub role: String,
    /// Which conversation, where it is not the one at the terminal.
    pub session_key: Option<String>,
    /// Which chat, likewise.
    pub origin: Value,
    /// The call that asked.
    pub call: CallContext,
}

/// What plugins may ask for.
pub trait Services: Send + Sync {
    /// Runs a tool and gives its result for the model.
    fn dispatch_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a Value,
        call: &'a CallContext,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        let _ = (arguments, call);
        Box::pin(async move { Err(missing(&format!("running the tool {name} from a plugin"))) })
    }

    /// Asks a model. The answer is `{text, provider, model, usage, ...}`, or the raw form of a chat
    /// completion under `raw`.
    fn complete<'a>(&'a self, call: &'a ModelCall) -> BoxFuture<'a, Result<Value, Fault>> {
        let _ = call;
        Box::pin(async { Err(missing("calling a model from a plugin")) })
    }

    /// Puts a message into a conversation; whether it was taken.
    fn inject_message<'a>(&'a self, message: &'a Injected) -> BoxFuture<'a, Result<bool, Fault>> {
        let _ = message;
        Box::pin(async { Ok(false) })
    }

    /// Calls a tool of an MCP server: `{"ok", "result"}` or `{"ok": false, "error"}`.
    fn call_mcp<'a>(&'a self, params: &'a Value) -> BoxFuture<'a, Result<Value, Fault>> {
        let _ = params;
        Box::pin(async {
            Ok(serde_json::json!({"ok": false, "error": "no MCP client runs in this program yet"}))
        })
    }

    /// The tools that can be run, as definitions for a model.
    fn tool_definitions(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Everything else, by method and parameters.
    fn other<'a>(
        &'a self,
        method: &'a str,
        params: &'a Value,
        call: &'a CallContext,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        let _ = (params, call);
        Box::pin(async move { Err(missing(method)) })
    }
}

/// Services of nobody: everything is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

impl Services for NoServices {}

pub(crate) fn missing(what: &str) -> Fault {
    Fault::new("NotImplementedError", format!("{what} is not possible in this program yet"))
}
