//! A tool call between plugins: rewritten, guarded, agreed to, wrapped, heard of, its result
//! changed.
//!
//! Invariant: a call that a guard blocks, or whose guard fails in any way, is never run, and the
//! model is told why.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_core::{Origin, RowStatus, Timestamp, ToolCall, ToolOutcome, ToolSink};
use hermes_plugins::{BoxFuture, Fault, Payload, Plugins, ToolGate, table};
use hermes_provider::check_schema;
use hermes_tools::{ApprovalRequest, Decision};
use serde_json::Value;

use crate::conversation::Conversation;
use crate::pinned::parameters_schema;
use crate::{Cancel, Services};

/// Longest arguments that a person is shown, in characters.
const SHOWN: usize = 400;

/// A call that may run.
pub(crate) struct Allowed {
    /// As it is run.
    pub(crate) call: ToolCall,
    /// Middleware that changed it.
    trace: Vec<Value>,
    /// What the model is told of changes.
    notes: Vec<String>,
    began: Timestamp,
}

/// How a call ended, in the words of `post_tool_call`.
struct End<'a> {
    status: &'static str,
    error_type: Option<&'static str>,
    error: Option<&'a str>,
}

impl<'a> End<'a> {
    const fn of(outcome: &'a ToolOutcome) -> Self {
        match outcome.status {
            RowStatus::Complete => Self { status: "ok", error_type: None, error: None },
            RowStatus::Failed => Self {
                status: "error",
                error_type: Some("tool_error"),
                error: Some(outcome.text.as_str()),
            },
            RowStatus::Interrupted => {
                Self { status: "cancelled", error_type: None, error: Some(outcome.text.as_str()) }
            }
        }
    }
}

impl Conversation {
    fn tool_payload(&self, call: &ToolCall, trace: Option<&[Value]>) -> Payload {
        let payload = self
            .plugin_payload()
            .text("tool_name", &call.name)
            .json("args", &call.arguments)
            .text("tool_call_id", &call.id)
            .text("api_request_id", &self.plugged.request);
        match trace {
            Some(trace) => payload.value("middleware_trace", trace),
            None => payload,
        }
    }

    /// What plugins make of a call before it is run: the call as it may run, or the result that
    /// takes its place.
    pub(crate) async fn gate(
        &self,
        services: &Services,
        call: ToolCall,
        cancel: &Cancel,
    ) -> Result<Allowed, ToolOutcome> {
        let began = Timestamp(0);
        let mut allowed = Allowed { call, trace: Vec::new(), notes: Vec::new(), began };
        let Some(plugins) = services.plugins() else { return Ok(allowed) };
        allowed.began = services.env.now();
        self.plugged.now.set_call(&allowed.call.id);
        let judged = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(super::stopped_before()),
            judged = self.judge(services, plugins, &mut allowed) => judged,
        };
        let refused = match judged {
            Ok(()) => return Ok(allowed),
            Err(refused) => refused,
        };
        let end = if refused.status == RowStatus::Interrupted {
            End::of(&refused)
        } else {
            End { status: "blocked", error_type: Some("plugin_block"), error: Some(&refused.text) }
        };
        self.tell_of_tool(services, plugins, &allowed, &refused, &end).await;
        Err(refused)
    }

    async fn judge(
        &self,
        services: &Services,
        plugins: &Plugins,
        allowed: &mut Allowed,
    ) -> Result<(), ToolOutcome> {
        if plugins.has_middleware("tool_request").await {
            let args = serde_json::from_str(&allowed.call.arguments).unwrap_or_default();
            let payload = self.tool_payload(&allowed.call, None);
            let rewritten = plugins.rewrite("tool_request", args, &payload).await;
            if rewritten.changed() {
                let who = rewritten.trace.iter().filter_map(|entry| entry["plugin"].as_str());
                let who: Vec<&str> = who.collect();
                self.change(allowed, &rewritten.value, &who.join(", "))?;
                allowed.trace = rewritten.trace;
            }
        }
        let Some(hook) = table::find("pre_tool_call") else { return Ok(()) };
        let payload = self.tool_payload(&allowed.call, Some(&allowed.trace));
        let gate = plugins.dispatch("pre_tool_call", payload).await.tool_gate(hook);
        let (changes, ask) = match gate {
            ToolGate::Block { message, plugin } => {
                return Err(blocked(&plugin, &message));
            }
            ToolGate::Proceed { changes } => (changes, None),
            ToolGate::Ask { message, rule_key, plugin, changes } => {
                (changes, Some((message, rule_key, plugin)))
            }
        };
        if !changes.is_empty() {
            let mut args: Value = serde_json::from_str(&allowed.call.arguments).unwrap_or_default();
            if let Some(fields) = args.as_object_mut() {
                fields.extend(changes);
            }
            self.change(allowed, &args, "a hook")?;
        }
        match ask {
            Some((message, rule_key, plugin)) => {
                let rule = rule_key.unwrap_or_else(|| allowed.call.name.to_string());
                self.agree(services, &allowed.call, &message, rule, &plugin).await
            }
            None => Ok(()),
        }
    }

    /// Takes over changed arguments, if they fit the tool.
    fn change(&self, allowed: &mut Allowed, args: &Value, by: &str) -> Result<(), ToolOutcome> {
        let text = args.to_string();
        let call = &mut allowed.call;
        let def = self.tools.defs.iter().find(|def| def.name == call.name);
        if let Some(def) = def
            && let Err(why) = check_schema(&parameters_schema(&def.json), &text)
        {
            let text =
                format!("Not run: {by} changed the arguments so that they do not fit: {why}.");
            return Err(ToolOutcome::failed(text));
        }
        if *text != *call.arguments {
            allowed
                .notes
                .push(format!("This call was run with arguments that {by} changed: {text}"));
            call.arguments = text.into();
        }
        Ok(())
    }

    /// Asks the person, because a plugin wants it.
    async fn agree(
        &self,
        services: &Services,
        call: &ToolCall,
        message: &str,
        rule: String,
        plugin: &str,
    ) -> Result<(), ToolOutcome> {
        if self.plugged.agreed.lock().unwrap_or_else(PoisonError::into_inner).contains(&rule) {
            return Ok(());
        }
        let shown: String = call.arguments.chars().take(SHOWN).collect();
        let request = ApprovalRequest {
            command: format!("{} {shown}", call.name),
            cwd: self.workspace().cwd.clone(),
            reason: format!("the plugin {plugin} wants you to agree: {message}"),
        };
        let seconds = services.config.approvals.timeout.max(1);
        let limit = std::time::Duration::from_secs(seconds);
        let approver = self.approver(services);
        match tokio::time::timeout(limit, approver.ask(&request)).await {
            Ok(Decision::Once) => Ok(()),
            Ok(Decision::Session) => {
                let mut agreed = self.plugged.agreed.lock().unwrap_or_else(PoisonError::into_inner);
                agreed.insert(rule);
                Ok(())
            }
            Ok(Decision::Deny { why }) => Err(blocked(plugin, &format!("not approved: {why}"))),
            Err(_) => Err(blocked(plugin, &format!("nobody answered within {seconds} s"))),
        }
    }

    /// Runs a call of the registry, wrapped by middleware if there is any.
    pub(crate) async fn execute(
        &self,
        services: &Services,
        allowed: &Allowed,
        sink: &dyn ToolSink,
    ) -> ToolOutcome {
        let call = &allowed.call;
        let Some(plugins) = services.plugins() else { return self.registry.call(call, sink).await };
        if let Some(viewed) = self.view_plugin_skill(services, call) {
            return viewed;
        }
        if !plugins.has_middleware("tool_execution").await {
            return self.registry.call(call, sink).await;
        }
        let made: Mutex<Option<ToolOutcome>> = Mutex::new(None);
        let next = |args: Value| -> BoxFuture<'_, Result<Value, Fault>> {
            let made = &made;
            Box::pin(async move {
                let call = ToolCall { arguments: args.to_string().into(), ..call.clone() };
                let outcome = self.registry.call(&call, sink).await;
                let text = Value::from(outcome.text.as_str());
                *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                Ok(text)
            })
        };
        let args = serde_json::from_str(&call.arguments).unwrap_or_default();
        let payload = self.tool_payload(call, Some(&allowed.trace));
        let result = plugins.execute("tool_execution", args, &payload, &next).await;
        let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (result, made) {
            (Ok(Value::String(text)), Some(made)) => ToolOutcome { text, ..made },
            (Ok(Value::String(text)), None) => ToolOutcome::ok(text),
            (Ok(other), Some(made)) => ToolOutcome { text: other.to_string(), ..made },
            (Ok(other), None) => ToolOutcome::ok(other.to_string()),
            (Err(fault), _) => ToolOutcome::failed(format!("a plugin stopped this call: {fault}")),
        }
    }

    /// What plugins hear of a call that was run, and what they make of its result.
    pub(crate) async fn after_call(
        &self,
        services: &Services,
        allowed: Allowed,
        mut outcome: ToolOutcome,
    ) -> ToolOutcome {
        let Some(plugins) = services.plugins() else { return outcome };
        if matches!(&*allowed.call.name, "write_file" | "patch") {
            let mut changed = self.plugged.changed.lock().unwrap_or_else(PoisonError::into_inner);
            changed.extend(outcome.touched.iter().cloned());
        }
        if &*allowed.call.name == "terminal" {
            self.change_output(plugins, &allowed, &mut outcome).await;
        }
        self.tell_of_tool(services, plugins, &allowed, &outcome, &End::of(&outcome)).await;
        if plugins.listens("transform_tool_result").await {
            let payload =
                self.ended_payload(services, &allowed, &outcome, &End::of(&outcome), None);
            let changed = plugins.dispatch("transform_tool_result", payload).await;
            if let Some((plugin, text)) = changed.first_text(true) {
                tracing::debug!(%plugin, tool = %allowed.call.name, "a result was changed");
                outcome.text = text;
            }
        }
        let notes = allowed.notes.into_iter();
        outcome
            .parts
            .extend(notes.map(|note| (Origin::Notice, Some("changed call".to_owned()), note)));
        outcome
    }

    async fn tell_of_tool(
        &self,
        services: &Services,
        plugins: &Plugins,
        allowed: &Allowed,
        outcome: &ToolOutcome,
        end: &End<'_>,
    ) {
        if plugins.listens("post_tool_call").await {
            let trace = Some(&allowed.trace[..]);
            let payload = self.ended_payload(services, allowed, outcome, end, trace);
            plugins.dispatch("post_tool_call", payload).await;
        }
    }

    fn ended_payload(
        &self,
        services: &Services,
        allowed: &Allowed,
        outcome: &ToolOutcome,
        end: &End<'_>,
        trace: Option<&[Value]>,
    ) -> Payload {
        let text: Arc<str> = outcome.text.as_str().into();
        self.tool_payload(&allowed.call, trace)
            .long_text("result", &text)
            .value("duration_ms", services.env.now().millis_since(allowed.began))
            .text("status", end.status)
            .maybe("error_type", end.error_type)
            .maybe("error_message", end.error)
    }

    /// `transform_terminal_output`: what a command printed, without the line that says how it ended.
    async fn change_output(&self, plugins: &Plugins, allowed: &Allowed, outcome: &mut ToolOutcome) {
        if !plugins.listens("transform_terminal_output").await {
            return;
        }
        let Some((head, printed)) = outcome.text.split_once('\n') else { return };
        let command: Value = serde_json::from_str(&allowed.call.arguments).unwrap_or_default();
        let code = head.strip_prefix("exit code ").and_then(|rest| {
            let digits: String =
                rest.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
            digits.parse::<i64>().ok()
        });
        let payload = self
            .plugin_payload()
            .text("command", command["command"].as_str().unwrap_or_default())
            .long_text("output", &Arc::from(printed))
            .value("returncode", code)
            .text("env_type", "local")
            .text("tool_call_id", &allowed.call.id);
        let changed = plugins.dispatch("transform_terminal_output", payload).await;
        if let Some((_, text)) = changed.first_text(true) {
            outcome.text = format!("{head}\n{text}");
        }
    }
}

fn blocked(plugin: &str, message: &str) -> ToolOutcome {
    ToolOutcome::failed(format!("Not run: blocked by the plugin {plugin}: {message}"))
}
