//! Session files of Codex and of Claude Code: JSON lines whose shapes changed over time, so that
//! everything unknown is counted and left out and never stops the rest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hermes_core::{Origin, Role, RowStatus, SessionId, Timestamp};
use hermes_store::{ImportedSession, SessionInit};
use serde_json::Value;

use crate::message::{self, Call, Message, Piece};
use crate::{ImportError, Sink};

/// The session files at a path: itself, or every `.jsonl` below it, by name.
pub(crate) fn session_files(source: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![source.to_owned()];
    while let Some(path) = next.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            next.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
        } else if meta.is_file()
            && (path == source || path.extension().is_some_and(|extension| extension == "jsonl"))
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn lines(path: &Path, sink: &mut Sink<'_>) -> Vec<Value> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let why = format!("it cannot be read: {error}");
            sink.report.skip(&SessionId::new(path.display().to_string()), why);
            return Vec::new();
        }
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut values = Vec::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(value) => values.push(value),
            // The last line of a killed program.
            Err(_) => sink.report.leave_out("line that is no JSON"),
        }
    }
    values
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// RFC 3339 as both programs write it.
fn moment(value: &Value) -> Option<Timestamp> {
    let at: jiff::Timestamp = text(value, "/timestamp")?.parse().ok()?;
    Some(Timestamp(at.as_microsecond()))
}

/// What is known of a session before its messages.
#[derive(Default)]
struct Facts {
    id: Option<String>,
    cwd: Option<String>,
    branch: Option<String>,
    model: Option<String>,
    title: Option<String>,
    started_at: Option<Timestamp>,
}

fn session(
    facts: Facts,
    source: &'static str,
    path: &Path,
    messages: Vec<Message>,
) -> ImportedSession {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let id = facts.id.or(stem).unwrap_or_default();
    let started_at =
        facts.started_at.or_else(|| messages.first().map(|message| message.at)).unwrap_or_default();
    let built = message::build(messages, "", "[]", started_at);
    ImportedSession {
        init: SessionInit {
            id: SessionId::new(format!("{source}_{}", safe(&id))),
            source: source.to_owned(),
            lane: None,
            cwd: facts.cwd,
            git_root: None,
            git_branch: facts.branch,
            model: facts.model.unwrap_or_default(),
            provider: String::new(),
            base_url: None,
            parent: None,
            title: facts.title,
            started_at,
        },
        facts: Vec::new(),
        compactions: built.compactions,
        records: built.records,
        again: false,
        proven: false,
    }
}

fn finish(
    mut session: ImportedSession,
    path: &Path,
    sink: &mut Sink<'_>,
) -> Result<(), ImportError> {
    let times = session.records.iter().filter_map(|record| match record {
        hermes_store::Record::Row(row) => Some(row.created_at),
        _ => None,
    });
    let Some(last_at) = times.max() else {
        sink.report.skip(&session.init.id, "it holds no message");
        return Ok(());
    };
    // A session that was taken up again may have a second file under the same id.
    let place = path.display().to_string();
    if sink.is_from_elsewhere(&session.init.id, &place) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        session.init.id = SessionId::new(format!("{}_{}", session.init.id, safe(&stem)));
        if sink.is_from_elsewhere(&session.init.id, &place) {
            let why = format!("{place} has the id and the name of another file");
            sink.report.skip(&session.init.id, why);
            return Ok(());
        }
    }
    let (id, started_at) = (session.init.id.clone(), Some(session.init.started_at));
    if sink.wants(&id, started_at, || Some(last_at))? { sink.take(session) } else { Ok(()) }
}

/// As part of an id: what is safe everywhere.
fn safe(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().map(|c| if is_safe(c) { c } else { '_' }).collect()
}

/// Sessions of Codex: `rollout-*.jsonl`.
pub(crate) fn codex(source: &Path, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    for path in session_files(source) {
        let mut facts = Facts::default();
        let mut messages: Vec<Message> = Vec::new();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let mut at = Timestamp::default();
        for line in lines(&path, sink) {
            at = moment(&line).unwrap_or(at);
            // Newer files wrap each item; older ones hold the items themselves.
            let item = line.get("payload").unwrap_or(&line);
            let kind = text(&line, "/type").unwrap_or_default();
            match kind {
                "session_meta" | "turn_context" => {
                    codex_facts(&mut facts, item, at);
                    continue;
                }
                // Shown on the terminal; the same is in the items.
                "event_msg" => continue,
                "compacted" => {
                    if let Some(summary) = text(item, "/message") {
                        let mut message = Message::new(Role::User, at);
                        message.summary = true;
                        message.text(summary);
                        messages.push(message);
                    }
                    continue;
                }
                _ => {}
            }
            if line.get("payload").is_none() && line.get("instructions").is_some() {
                codex_facts(&mut facts, &line, at);
                continue;
            }
            codex_item(item, at, &mut messages, &mut names, sink);
        }
        finish(session(facts, "codex", &path, messages), &path, sink)?;
    }
    Ok(())
}

fn codex_facts(facts: &mut Facts, item: &Value, at: Timestamp) {
    let set = |place: &mut Option<String>, pointer: &str| {
        if place.is_none() {
            *place = text(item, pointer).map(str::to_owned);
        }
    };
    set(&mut facts.id, "/id");
    set(&mut facts.cwd, "/cwd");
    set(&mut facts.branch, "/git/branch");
    set(&mut facts.model, "/model");
    facts.started_at.get_or_insert(at);
}

fn codex_item(
    item: &Value,
    at: Timestamp,
    messages: &mut Vec<Message>,
    names: &mut BTreeMap<String, String>,
    sink: &mut Sink<'_>,
) {
    let id = || text(item, "/call_id").or(text(item, "/id")).unwrap_or("call").to_owned();
    match text(item, "/type").unwrap_or_default() {
        "message" => {
            let role = match text(item, "/role") {
                Some("user") => Role::User,
                Some("assistant") => Role::Assistant,
                _ => {
                    sink.report.leave_out("instructions of the other program");
                    return;
                }
            };
            let mut message = Message::new(role, at);
            message::content(
                item.get("content").unwrap_or(&Value::Null),
                &mut message,
                sink.report,
            );
            // The program's own context comes as tagged messages of the user.
            let is_context = matches!(message.pieces.as_slice(), [Piece::Text(text)]
                if text.starts_with("<environment_context>") || text.starts_with("<user_instructions>"));
            if role == Role::User && is_context {
                message.origin = Origin::Notice;
            }
            if !message.is_empty() {
                messages.push(message);
            }
        }
        "function_call" | "custom_tool_call" | "local_shell_call" => {
            let name = text(item, "/name").unwrap_or("shell").to_owned();
            let arguments =
                item.get("arguments").or_else(|| item.get("input")).or_else(|| item.get("action"));
            names.insert(id(), name.clone());
            let call = Call { id: id(), name, arguments: message::arguments_of(arguments) };
            match messages.last_mut() {
                Some(last) if last.role == Role::Assistant => last.calls.push(call),
                _ => {
                    let mut message = Message::new(Role::Assistant, at);
                    message.calls.push(call);
                    messages.push(message);
                }
            }
        }
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            let mut message = Message::new(Role::Tool, at);
            let output = item.get("output").unwrap_or(&Value::Null);
            let output = output.get("content").unwrap_or(output);
            message::content(output, &mut message, sink.report);
            let name = names.get(&id()).cloned().unwrap_or_else(|| "shell".to_owned());
            message.tool = Some((id(), name));
            messages.push(message);
        }
        "reasoning" => {
            let summary: Vec<&str> = item
                .get("summary")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(|part| text(part, "/text"))
                .collect();
            if summary.is_empty() {
                sink.report.leave_out("encrypted reasoning");
                return;
            }
            let mut message = Message::new(Role::Assistant, at);
            message.reasoning.push(("reasoning".to_owned(), summary.join("\n\n")));
            messages.push(message);
        }
        other => sink.report.leave_out(&format!("item of kind \"{other}\"")),
    }
}

/// Sessions of Claude Code: one `.jsonl` a session.
pub(crate) fn claude(source: &Path, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    for path in session_files(source) {
        let mut facts = Facts::default();
        let mut messages: Vec<Message> = Vec::new();
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        // Lines of one answer share its id.
        let mut answer: Option<String> = None;
        let mut at = Timestamp::default();
        for line in lines(&path, sink) {
            at = moment(&line).unwrap_or(at);
            let kind = text(&line, "/type").unwrap_or_default();
            if line.get("isSidechain").and_then(Value::as_bool) == Some(true) {
                sink.report.leave_out("message of a side conversation");
                continue;
            }
            let set = |place: &mut Option<String>, pointer: &str| {
                if place.is_none() {
                    *place = text(&line, pointer).map(str::to_owned);
                }
            };
            match kind {
                "summary" => {
                    facts.title = text(&line, "/summary").map(str::to_owned);
                    continue;
                }
                "user" | "assistant" => {}
                other => {
                    sink.report.leave_out(&format!("line of kind \"{other}\""));
                    continue;
                }
            }
            set(&mut facts.id, "/sessionId");
            set(&mut facts.cwd, "/cwd");
            set(&mut facts.branch, "/gitBranch");
            if kind == "assistant" {
                set(&mut facts.model, "/message/model");
            }
            facts.started_at.get_or_insert(at);
            let own = text(&line, "/message/id").map(str::to_owned);
            let goes_on = kind == "assistant" && own.is_some() && own == answer;
            answer = if kind == "assistant" { own } else { None };
            claude_message(&line, at, goes_on, &mut messages, &mut names, sink);
        }
        finish(session(facts, "claude", &path, messages), &path, sink)?;
    }
    Ok(())
}

fn claude_message(
    line: &Value,
    at: Timestamp,
    goes_on: bool,
    messages: &mut Vec<Message>,
    names: &mut BTreeMap<String, String>,
    sink: &mut Sink<'_>,
) {
    let is_assistant = text(line, "/type") == Some("assistant");
    let role = if is_assistant { Role::Assistant } else { Role::User };
    let mut message = match messages.pop() {
        Some(last) if goes_on && last.role == Role::Assistant => last,
        other => {
            messages.extend(other);
            Message::new(role, at)
        }
    };
    let flag = |name: &str| line.get(name).and_then(Value::as_bool) == Some(true);
    if flag("isMeta") {
        message.origin = Origin::Notice;
    }
    message.summary |= flag("isCompactSummary");
    message.finish_reason =
        text(line, "/message/stop_reason").map(str::to_owned).or(message.finish_reason);
    let blocks = match line.pointer("/message/content") {
        Some(Value::String(said)) => {
            message.text(said.clone());
            Vec::new()
        }
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => Vec::new(),
    };
    let mut results = Vec::new();
    for block in &blocks {
        match text(block, "/type").unwrap_or_default() {
            "text" => message.text(text(block, "/text").unwrap_or_default()),
            "thinking" => {
                let thought = text(block, "/thinking").unwrap_or_default().to_owned();
                if !thought.is_empty() {
                    message.reasoning.push(("reasoning".to_owned(), thought));
                }
            }
            "tool_use" => {
                let name = text(block, "/name").unwrap_or("tool").to_owned();
                let id = text(block, "/id").unwrap_or("call").to_owned();
                names.insert(id.clone(), name.clone());
                let arguments = message::arguments_of(block.get("input"));
                message.calls.push(Call { id, name, arguments });
            }
            "tool_result" => {
                let mut result = Message::new(Role::Tool, at);
                let content = block.get("content").unwrap_or(&Value::Null);
                message::content(content, &mut result, sink.report);
                if block.get("is_error").and_then(Value::as_bool) == Some(true) {
                    result.status = RowStatus::Failed;
                }
                let id = text(block, "/tool_use_id").unwrap_or("call").to_owned();
                let name = names.get(&id).cloned().unwrap_or_else(|| "tool".to_owned());
                result.tool = Some((id, name));
                results.push(result);
            }
            "image" => {
                let bytes = text(block, "/source/data").and_then(message::decode);
                let media_type = text(block, "/source/media_type").unwrap_or("image/png");
                match bytes {
                    Some(bytes) => message
                        .pieces
                        .push(Piece::Image { media_type: media_type.to_owned(), bytes }),
                    None => sink.report.leave_out("image without bytes"),
                }
            }
            other => sink.report.leave_out(&format!("block of kind \"{other}\"")),
        }
    }
    messages.extend(results);
    if !message.is_empty() {
        messages.push(message);
    }
}
