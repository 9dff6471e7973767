//! What plugins hear when a session is left, when another takes its place, of delegated children,
//! and of slash commands; and their own slash commands.

use hermes_core::{Row, RowStatus, SessionId, Timestamp};
use hermes_plugins::{CallContext, CommandError, Payload};
use serde_json::{Value, json};

use crate::Services;
use crate::conversation::Conversation;

/// A slash command that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct TypedCommand<'a> {
    /// Its name, without the slash.
    pub name: &'a str,
    /// What was typed in its place, without the slash.
    pub typed: &'a str,
    /// What follows it.
    pub args: &'a str,
}

impl Services {
    /// Tells plugins that a slash command is about to run (`pre_command`). `surface` is `cli` or
    /// `gateway`.
    pub async fn tell_command(&self, surface: &str, command: TypedCommand<'_>, call: &CallContext) {
        let Some(plugins) = self.plugins() else { return };
        let alias = if command.typed == command.name { None } else { Some(command.typed) };
        let payload = Payload::new(call.clone())
            .text("surface", surface)
            .text("command", command.name)
            .maybe("alias_used", alias)
            .text("args_raw", command.args)
            .text("session_key", &call.session_key)
            .text("platform", &call.platform);
        plugins.dispatch("pre_command", payload).await;
    }

    /// Runs a slash command of a plugin; None if no plugin has one of that name, hyphen or
    /// underscore. `source` says who typed it on a chat platform; a local user has none.
    pub async fn plugin_command(
        &self,
        name: &str,
        args: &str,
        call: &CallContext,
        source: Option<&Value>,
    ) -> Option<Result<Option<String>, CommandError>> {
        let plugins = self.plugins()?;
        plugins.ready().await;
        let known = plugins.resolve_command(name)?;
        Some(plugins.command(&known, args, call, source).await)
    }
}

impl Conversation {
    /// The conversation as a slash command is told of it: no session before anything was said.
    pub fn command_call(&self) -> CallContext {
        let call = self.plugin_call();
        if self.is_stored() {
            return call;
        }
        CallContext { session_id: String::new(), session_key: String::new(), ..call }
    }

    /// Tells plugins that this session is left for good (`on_session_finalize`); gives what they want
    /// the person to read, with who says it. `reason` is `new`, `exit`, ...
    pub async fn finalize(&self, services: &Services, reason: &str) -> Vec<(String, String)> {
        let Some(plugins) = services.plugins() else { return Vec::new() };
        let id = self.is_stored().then(|| self.id().as_str());
        let payload = Payload::new(self.plugin_call())
            .maybe("session_id", id)
            .text("platform", &self.options.platform)
            .text("reason", reason);
        let outcome = plugins.dispatch("on_session_finalize", payload).await;
        outcome.messages().into_iter().map(|(who, text)| (who.to_string(), text)).collect()
    }

    /// Tells plugins that this session takes the place of another one (`on_session_reset`).
    pub async fn takes_place_of(&self, services: &Services, old: &SessionId, reason: &str) {
        let Some(plugins) = services.plugins() else { return };
        let payload = Payload::new(self.plugin_call())
            .text("session_id", self.id().as_str())
            .text("old_session_id", old.as_str())
            .text("new_session_id", self.id().as_str())
            .text("platform", &self.options.platform)
            .text("reason", reason);
        plugins.dispatch("on_session_reset", payload).await;
    }

    /// Tells plugins that a delegated child begins; gives when it did.
    pub(crate) async fn tell_child(
        &self,
        services: &Services,
        child: &SessionId,
        goal: &str,
    ) -> Timestamp {
        let Some(plugins) = services.plugins() else { return Timestamp(0) };
        let began = services.env.now();
        let payload = Payload::new(self.plugin_call())
            .text("parent_session_id", self.id().as_str())
            .text("parent_turn_id", &self.plugin_turn())
            .maybe("parent_subagent_id", None)
            .text("child_session_id", child.as_str())
            .text("child_subagent_id", child.as_str())
            .text("child_role", "task")
            .text("child_goal", goal);
        plugins.dispatch("subagent_start", payload).await;
        began
    }

    /// Tells plugins that a delegated child has ended.
    pub(crate) async fn tell_child_ended(
        &self,
        services: &Services,
        child: &SessionId,
        began: Timestamp,
        (status, summary, rows): (&str, &str, &[Row]),
    ) {
        let Some(plugins) = services.plugins() else { return };
        let payload = Payload::new(self.plugin_call())
            .text("parent_session_id", self.id().as_str())
            .text("parent_turn_id", &self.plugin_turn())
            .text("child_session_id", child.as_str())
            .text("child_role", "task")
            .text("child_summary", summary)
            .text("child_status", status)
            .value("tool_call_history", tool_calls(rows))
            .value("duration_ms", services.env.now().millis_since(began));
        plugins.dispatch("subagent_stop", payload).await;
    }
}

/// The tool calls of a child: which, with which arguments by name, how large, how they ended.
fn tool_calls(rows: &[Row]) -> Vec<Value> {
    let asked = rows.iter().flat_map(Row::tool_calls);
    asked
        .map(|(id, name, arguments)| {
            let args: Value = serde_json::from_str(arguments).unwrap_or_default();
            let keys: Vec<&String> =
                args.as_object().map(|fields| fields.keys().collect()).unwrap_or_default();
            let targets: Vec<&str> = ["path", "file_path", "workdir", "url"]
                .iter()
                .filter_map(|name| args.get(*name)?.as_str())
                .collect();
            let result =
                rows.iter().find(|row| row.tool.as_ref().is_some_and(|link| link.call_id == *id));
            let output: usize = result
                .iter()
                .flat_map(|row| &row.parts)
                .filter_map(|part| part.as_text().map(str::len))
                .sum();
            let status = match result.map(|row| row.status) {
                Some(RowStatus::Complete) => "ok",
                Some(RowStatus::Failed) => "error",
                Some(RowStatus::Interrupted) | None => "cancelled",
            };
            json!({
                "tool_name": &**name,
                "tool_input": {"argument_keys": keys, "targets": targets},
                "input_bytes": arguments.len(),
                "output_bytes": output,
                "status": status,
            })
        })
        .collect()
}
