//! `hooks` of the settings: shell hooks by event, and outbound webhooks.

use std::time::Duration;

use hermes_home::yaml::Datum;
use serde_json::Value;

use super::ShellHook;
use crate::table;
use crate::webhook::Webhook;

/// Time limits of shell hooks, in seconds.
const TIMEOUT: (u64, u64, u64) = (1, 60, 300);
/// Events that shell hooks cannot take part in.
const PYTHON_ONLY: [&str; 1] = ["transform_api_error_classification"];
/// Keys of `hooks` that are no events.
const RESERVED: [&str; 2] = ["output_spill", "outbound"];

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) hooks: Vec<ShellHook>,
    pub(crate) webhooks: Vec<Webhook>,
    /// What was refused, and why.
    pub(crate) problems: Vec<String>,
}

/// Reads `hooks`.
pub(crate) fn parse(
    hooks: &Datum,
    home: Option<&str>,
    secret: &dyn Fn(&str) -> Option<String>,
) -> Settings {
    let mut out = Settings::default();
    let value: Value = serde_json::from_str(&hooks.to_json()).unwrap_or_default();
    for (event, entries) in value.as_object().into_iter().flatten() {
        if event == "outbound" {
            for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
                match Webhook::parse(entry, secret) {
                    Ok(webhook) => out.webhooks.push(webhook),
                    Err(why) => out.problems.push(format!("hooks.outbound[{index}]: {why}")),
                }
            }
            continue;
        }
        if RESERVED.contains(&event.as_str()) {
            continue;
        }
        let entries = match entries {
            Value::Array(entries) => entries.clone(),
            Value::Null => Vec::new(),
            other => vec![other.clone()],
        };
        for (index, entry) in entries.iter().enumerate() {
            match hook(event, entry, home) {
                Ok(hook) => out.hooks.push(hook),
                Err(why) => out.problems.push(format!("hooks.{event}[{index}]: {why}")),
            }
        }
    }
    out
}

fn hook(event: &str, entry: &Value, home: Option<&str>) -> Result<ShellHook, String> {
    let spec = table::find(event).ok_or_else(|| {
        "there is no hook of that name\nhint: `hermes hooks list` shows those there are".to_owned()
    })?;
    if PYTHON_ONLY.contains(&event) {
        return Err("a shell hook cannot classify errors\nhint: write a plugin".to_owned());
    }
    let command = entry
        .get("command")
        .and_then(Value::as_str)
        .or_else(|| entry.as_str())
        .filter(|command| !command.trim().is_empty())
        .ok_or("it names no command")?;
    let matcher =
        match entry.get("matcher").and_then(Value::as_str) {
            None | Some("" | "*") => None,
            Some(_) if !matches!(event, "pre_tool_call" | "post_tool_call") => {
                return Err("a matcher goes with pre_tool_call and post_tool_call only".to_owned());
            }
            Some(text) => Some(regex::Regex::new(&format!("^(?:{text})$")).map_err(|error| {
                format!("the matcher {text:?} is no regular expression: {error}")
            })?),
        };
    let (least, default, most) = TIMEOUT;
    let timeout = match entry.get("timeout") {
        None | Some(Value::Null) => default,
        Some(value) => value
            .as_f64()
            .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
            .map(|seconds| (seconds.ceil() as u64).clamp(least, most))
            .ok_or_else(|| format!("timeout is {value}, wanted {least} to {most} seconds"))?,
    };
    let closed = ["fail_closed", "failClosed"]
        .iter()
        .find_map(|name| entry.get(name)?.as_bool())
        .unwrap_or(false);
    let argv = split(command, home)?;
    Ok(ShellHook {
        event: spec,
        command: command.to_owned(),
        argv,
        matcher,
        timeout: Duration::from_secs(timeout),
        fail_closed: closed,
        env: names(entry.get("env"))?,
    })
}

/// The variables that an entry asks for.
fn names(value: Option<&Value>) -> Result<Vec<String>, String> {
    let odd = |value: &Value| format!("env is {value}, wanted a list of variables' names");
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(name)) => Ok(vec![name.clone()]),
        Some(Value::Array(names)) => names
            .iter()
            .map(|name| name.as_str().map(str::to_owned).ok_or_else(|| odd(name)))
            .collect(),
        Some(other) => Err(odd(other)),
    }
}

/// Splits a command into words as a shell does, without running one: quotes and backslashes count,
/// nothing else is special. `~` at the start of a word is the person's home folder.
pub(crate) fn split(command: &str, home: Option<&str>) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut inside, mut quote) = (false, None);
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('"'), '\\') => match chars.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => return Err("the command ends within a quote".to_owned()),
            },
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                inside = true;
            }
            (None, '\\') => {
                word.extend(chars.next());
                inside = true;
            }
            (None, c) if c.is_whitespace() => {
                if inside {
                    words.push(std::mem::take(&mut word));
                    inside = false;
                }
            }
            (None, '~') if !inside && home.is_some() => {
                word.push_str(home.unwrap_or_default());
                inside = true;
            }
            (None, c) => {
                word.push(c);
                inside = true;
            }
        }
    }
    if quote.is_some() {
        return Err("the command ends within a quote".to_owned());
    }
    if inside {
        words.push(word);
    }
    if words.is_empty() { Err("it names no command".to_owned()) } else { Ok(words) }
}
