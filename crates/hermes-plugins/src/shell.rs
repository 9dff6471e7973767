//! Shell hooks: programs named in the settings that are told of an event on their standard input
//! and answer on their standard output.
//!
//! Invariants: a hook that is not understood is refused when the settings are read, not when it
//! would have mattered; none runs that nobody consented to; a program that does not read, does not
//! end, or prints without end holds nothing up; a guard that ran out of time blocks.

mod consent;
mod run;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

pub(crate) use consent::Consents;
pub(crate) use run::{Ran, run};
pub(crate) use settings::{Settings, parse};

use crate::outcome::Said;
use crate::payload::Payload;
use crate::table::{Fails, HookSpec, Returns};

/// A shell hook of the settings.
#[derive(Clone, Debug)]
pub struct ShellHook {
    /// The event.
    pub event: &'static HookSpec,
    /// The command as it is written.
    pub command: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Which tools it is for: the whole name must match.
    pub matcher: Option<regex::Regex>,
    /// Its time limit.
    pub timeout: Duration,
    /// Whether every failure of it blocks, not only running out of time.
    pub fail_closed: bool,
    /// Variables that it gets although they may be secrets.
    pub env: Vec<String>,
}

/// What a listing shows of a shell hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShellHookInfo {
    /// The event.
    pub event: String,
    /// The command.
    pub command: String,
    /// Which tools it is for.
    pub matcher: Option<String>,
    /// Its time limit in seconds.
    pub timeout: u64,
    /// Whether every failure of it blocks.
    pub fail_closed: bool,
    /// Variables that it gets although they may be secrets.
    pub env: Vec<String>,
    /// Whether it runs.
    pub consented: bool,
    /// What its answer may be.
    pub returns: &'static str,
    /// Whether the script was changed after the consent.
    pub changed_since: bool,
}

/// What a shell hook may print, for the guide and for listings.
pub const fn answer_form(returns: Returns) -> &'static str {
    match returns {
        Returns::Nothing => "nothing that counts",
        Returns::ToolDirective => {
            "{\"action\": \"block\", \"message\"}, {\"action\": \"approve\", \"message\", \"rule_key\"} or {\"action\": \"modify\", \"args\"}; exit code 2 blocks"
        }
        Returns::Context => "{\"context\": text}",
        Returns::FirstText | Returns::FirstNonEmptyText => "{\"text\": text}",
        Returns::Continue => "{\"action\": \"continue\", \"message\"}",
        Returns::ErrorClass => "not possible",
        Returns::Message => "{\"message\": text}",
        Returns::GatewayDirective => {
            "{\"action\": \"skip\", \"reason\"}, {\"action\": \"rewrite\", \"text\"} or {\"action\": \"allow\"}"
        }
        Returns::Handled => "{\"action\": \"handled\", \"reply\"}",
        Returns::Fields => "{\"prompt\", \"language\", \"model\"}",
        Returns::Speech => "{\"action\": \"block\", \"message\"} or {\"text\": text}",
    }
}

impl ShellHook {
    /// Whether it is for this event: its matcher fits the tool.
    pub(crate) fn wants(&self, payload: &Payload) -> bool {
        self.matcher.is_none() || self.fits(payload.get_text("tool_name").as_deref())
    }

    /// Whether it is for this tool.
    pub(crate) fn fits(&self, tool: Option<&str>) -> bool {
        self.matcher.as_ref().is_none_or(|matcher| tool.is_some_and(|name| matcher.is_match(name)))
    }

    /// What the program is told.
    pub(crate) fn input(&self, payload: &Payload, cwd: &str, profile: &str) -> String {
        webhook_body(self.event.name, payload, cwd, profile)
    }

    /// What its answer means.
    pub(crate) fn judge(&self, ran: &Ran) -> Said {
        let guard = self.event.fails == Fails::Closed;
        let failed = |why: String| {
            if self.fail_closed && guard {
                block(&format!("the hook {} failed: {why}", self.command))
            } else {
                tracing::warn!(
                    hook = self.event.name,
                    command = self.command,
                    why,
                    "a shell hook failed"
                );
                Said::Nothing
            }
        };
        let (code, out, err) = match ran {
            Ran::NotStarted(why) => return failed(why.clone()),
            Ran::TimedOut => return Said::TimedOut,
            Ran::Ended { code, out, err } => (*code, out.trim(), err.trim()),
        };
        let answer: Option<Value> = serde_json::from_str(out).ok();
        if code == Some(2) && self.event.returns == Returns::ToolDirective {
            let message = answer
                .as_ref()
                .and_then(|answer| {
                    ["message", "reason"].iter().find_map(|name| answer.get(name)?.as_str())
                })
                .or((!err.is_empty()).then_some(err))
                .map_or_else(
                    || format!("blocked by the hook {}", self.command),
                    |text| text.chars().take(400).collect(),
                );
            return block(&message);
        }
        if code != Some(0) && out.is_empty() {
            let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
            return failed(format!("it ended with {code}: {}", first_line(err)));
        }
        match answer {
            Some(answer) => self.meaning(&answer),
            None if out.is_empty() => Said::Nothing,
            None => failed(format!("its answer is no JSON: {}", first_line(out))),
        }
    }

    fn meaning(&self, answer: &Value) -> Said {
        let field = |name: &str| answer.get(name).filter(|value| value.is_string()).cloned();
        let value = match self.event.returns {
            Returns::Nothing | Returns::ErrorClass => None,
            Returns::FirstText | Returns::FirstNonEmptyText => field("text"),
            Returns::Context => field("context"),
            // Another program's `decision: approve` means "no objection", not "ask a person".
            Returns::ToolDirective => (answer.get("action").is_some()
                || answer.get("decision").and_then(Value::as_str) != Some("approve"))
            .then(|| answer.clone()),
            Returns::Message
            | Returns::Continue
            | Returns::GatewayDirective
            | Returns::Handled
            | Returns::Fields
            | Returns::Speech => answer.is_object().then(|| answer.clone()),
        };
        match value {
            Some(value) if !empty(&value) => Said::Value(value),
            _ => Said::Nothing,
        }
    }
}

/// An event as shell hooks and webhooks are told of it.
pub(crate) fn webhook_body(event: &str, payload: &Payload, cwd: &str, profile: &str) -> String {
    body_of(event, serde_json::from_str(&payload.to_json()).unwrap_or_default(), cwd, profile)
}

/// The same of bare fields.
pub(crate) fn body_of(
    event: &str,
    mut fields: Map<String, Value>,
    cwd: &str,
    profile: &str,
) -> String {
    let mut take = |name: &str| fields.remove(name).unwrap_or_default();
    let (tool, args, session) = (take("tool_name"), take("args"), take("session_id"));
    let session = if session.is_null() { take("parent_session_id") } else { session };
    json!({
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": args,
        "session_id": session,
        "cwd": cwd,
        "profile": profile,
        "extra": fields,
    })
    .to_string()
}

fn empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

fn block(message: &str) -> Said {
    Said::Value(json!({"action": "block", "message": message}))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

/// The modification time of a hook's script, in milliseconds, if it is a file.
pub(crate) fn script_time(argv: &[String]) -> Option<u64> {
    let time = std::fs::metadata(PathBuf::from(argv.first()?)).ok()?.modified().ok()?;
    let age = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(age.as_millis()).ok()
}

#[cfg(test)]
mod tests;
