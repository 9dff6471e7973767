//! `hermes sessions`: what is stored.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;

use hermes_core::{DeleteReason, Origin, PartBody, Row, RowStatus};
use hermes_store::{DeleteReceipt, DeleteRequest, OpenMode, SessionFilter, SessionInfo};
use serde::Serialize;

use crate::app::App;
use crate::cli::{Format, Sessions};
use crate::commands::{compactions, handoff};
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint, ellipsis};

/// Carries out one of the commands.
///
/// # Errors
/// If the store cannot be read or a session cannot be found.
pub fn run(app: &App, command: Sessions) -> anyhow::Result<Exit> {
    match command {
        Sessions::List { limit, here, json } => list(app, limit, here, json),
        Sessions::Show { session, json } => show(app, &session, json),
        Sessions::Compress(flags) => compactions::compress(app, &flags),
        Sessions::Compactions { session, json } => compactions::list(app, &session, json),
        Sessions::Export { session_id, format: Format::Jsonl, output } => {
            export(app, &session_id, &output)
        }
        Sessions::Delete { sessions, yes, json } => delete(app, &sessions, yes, json),
    }
}

/// One session as `--json` shows it.
#[derive(Serialize)]
struct SessionJson<'a> {
    id: &'a str,
    title: Option<&'a str>,
    source: &'a str,
    model: &'a str,
    provider: &'a str,
    cwd: Option<&'a str>,
    git_root: Option<&'a str>,
    started_at: String,
    last_activity_at: String,
    ended_at: Option<String>,
    end_reason: Option<&'a str>,
    messages: u64,
    compactions: u32,
    archived: bool,
}

impl<'a> SessionJson<'a> {
    fn new(info: &'a SessionInfo) -> Self {
        Self {
            id: info.id.as_str(),
            title: info.title.as_deref(),
            source: &info.source,
            model: &info.model,
            provider: &info.provider,
            cwd: info.cwd.as_deref(),
            git_root: info.git_root.as_deref(),
            started_at: info.started_at.to_string(),
            last_activity_at: info.last_activity_at.to_string(),
            ended_at: info.ended_at.map(|at| at.to_string()),
            end_reason: info.end_reason.as_deref(),
            messages: info.message_count,
            compactions: info.compactions,
            archived: info.archived,
        }
    }
}

fn list(app: &App, limit: usize, here: bool, json: bool) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let workspace = if here {
        let here = app.workspace(".", None)?;
        Some(here.git_root.unwrap_or(here.cwd).display().to_string())
    } else {
        None
    };
    let filter = SessionFilter { workspace, limit: Some(limit), ..SessionFilter::default() };
    let sessions = store.sessions(&filter)?;
    if json {
        out::json(&sessions.iter().map(SessionJson::new).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let rows = sessions
        .iter()
        .map(|info| {
            vec![
                info.id.to_string(),
                info.last_activity_at.to_string(),
                info.message_count.to_string(),
                info.model.clone(),
                ellipsis(info.title.as_deref().unwrap_or("-"), 40),
                info.cwd.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let head = ["session", "last activity", "messages", "model", "title", "folder"];
    out::table(&head, rows, "no session is stored yet; hint: hermes chat -q hello")?;
    Ok(Exit::Ok)
}

/// One message as `sessions show --json` shows it.
#[derive(Serialize)]
struct MessageJson<'a> {
    row: u64,
    turn: u32,
    role: &'static str,
    status: RowStatus,
    at: String,
    parts: &'a [hermes_core::Part],
}

fn show(app: &App, reference: &str, json: bool) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let info = app.session(&store, reference)?;
    let history = store.history(&info.id)?;
    if json {
        let messages: Vec<MessageJson<'_>> = history
            .rows
            .iter()
            .map(|row| MessageJson {
                row: row.seq.0,
                turn: row.turn.0,
                role: row.role.as_str(),
                status: row.status,
                at: row.created_at.to_string(),
                parts: &row.parts,
            })
            .collect();
        let mut value = serde_json::to_value(SessionJson::new(&info))?;
        value["message_list"] = serde_json::to_value(messages)?;
        out::json(&value)?;
        return Ok(Exit::Ok);
    }
    let value = serde_json::to_value(SessionJson::new(&info))?;
    for (name, value) in value.as_object().into_iter().flatten() {
        let text = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out::line(format!("{:<18} {text}", name.replace('_', " ")))?;
    }
    let paint = Paint::stdout();
    for row in &history.rows {
        out::line("")?;
        out::line(paint.bold(&heading(row)))?;
        for part in &row.parts {
            out::line(part_text(part.origin, &part.body))?;
        }
    }
    Ok(Exit::Ok)
}

fn heading(row: &Row) -> String {
    let status = match row.status {
        RowStatus::Complete => "",
        RowStatus::Interrupted => ", interrupted",
        RowStatus::Failed => ", failed",
    };
    let tool = row.tool.as_ref().map(|tool| format!(" {}", tool.name)).unwrap_or_default();
    format!("{} {}{tool} at {}{status}", row.seq, row.role.as_str(), row.created_at)
}

/// A part as a person reads it; what the person or the model did not say is marked.
fn part_text(origin: Origin, body: &PartBody) -> String {
    match body {
        PartBody::Text { text } => match origin {
            Origin::User | Origin::Model | Origin::Tool => text.to_string(),
            _ => {
                let origin = serde_json::to_value(origin).unwrap_or_default();
                format!("[{}] {text}", origin.as_str().unwrap_or_default())
            }
        },
        PartBody::Reasoning { text, .. } => format!("[reasoning] {text}"),
        PartBody::Raw { field, .. } => format!("[{field}]"),
        PartBody::ToolCall { name, arguments, .. } => format!("[call] {name} {arguments}"),
        PartBody::Blob { media_type, bytes, .. } => format!("[{media_type}, {bytes} bytes]"),
    }
}

fn export(app: &App, reference: &str, output: &Path) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    // An exact id needs no look at the current folder.
    let id = match store.session(&hermes_core::SessionId::new(reference))? {
        Some(info) => info.id,
        None => app.session(&store, reference)?.id,
    };
    if output.as_os_str() == "-" {
        let mut stdout = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        store.export_jsonl(&id, &mut stdout)?;
        stdout.flush()?;
        return Ok(Exit::Ok);
    }
    let mut bytes = Vec::new();
    store.export_jsonl(&id, &mut bytes)?;
    hermes_home::fsio::write_atomic(output, &bytes, hermes_home::fsio::Privacy::Private).map_err(
        |error| {
            let folder = output.parent().filter(|it| !it.as_os_str().is_empty());
            let hint = match folder {
                Some(folder) if !folder.exists() => {
                    format!("make the folder {} first", folder.display())
                }
                _ => "name a file that you may write".to_owned(),
            };
            let text = format!("cannot write {}: {error}; hint: {hint}", output.display());
            Failure::new(Exit::Failure, text)
        },
    )?;
    out::note(format!("wrote {} bytes to {}", bytes.len(), output.display()));
    Ok(Exit::Ok)
}

fn delete(app: &App, references: &[String], yes: bool, json: bool) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let sessions = references
        .iter()
        .map(|reference| app.session(&store, reference))
        .collect::<Result<Vec<_>, _>>()?;
    if !yes && !confirm(&sessions)? {
        out::note("nothing was deleted");
        return Ok(Exit::Ok);
    }
    let receipt = store.delete_session(DeleteRequest {
        profile: app.home.profile().to_owned(),
        ..DeleteRequest::new(
            sessions.iter().map(|info| info.id.clone()).collect(),
            DeleteReason::Delete,
        )
    })?;
    // A capsule goes with the session that it is about.
    handoff::reconcile(&handoff::handoffs(app, &store));
    if json {
        out::json(&receipt)?;
    } else {
        report(&receipt)?;
    }
    store.close();
    Ok(Exit::Ok)
}

fn report(receipt: &DeleteReceipt) -> anyhow::Result<()> {
    for removed in &receipt.removed {
        let (id, rows, requests) = (&removed.id, removed.rows, removed.requests);
        out::line(format!(
            "deleted {id}: {rows} messages; {requests} ledger rows keep digests and counts only"
        ))?;
    }
    for remaining in &receipt.remaining {
        out::line(format!("still there: {} {}", remaining.kind, remaining.id))?;
    }
    Ok(())
}

/// Asks at the terminal; without one the flag is needed.
fn confirm(sessions: &[SessionInfo]) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "deleting needs a yes, and there is no terminal to ask on; hint: add --yes",
        )
        .into());
    }
    for info in sessions {
        let title = info.title.as_deref().unwrap_or("untitled");
        out::note(format!("{} ({title}, {} messages)", info.id, info.message_count));
    }
    let mut stderr = io::stderr();
    write!(stderr, "Delete for good? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
