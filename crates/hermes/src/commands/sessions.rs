//! `hermes sessions`: what is stored.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::Path;

use hermes_core::{Origin, PartBody, Row, RowStatus, SessionId};
use hermes_import::Form;
use hermes_store::{SessionFilter, SessionInfo, Store};
use serde::Serialize;

use crate::app::App;
use crate::cli::{Format, Sessions};
use crate::commands::{compactions, moving, search, upkeep};
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
        Sessions::Export { session_id, format, redact, output } => {
            export(app, &session_id, (format, redact), &output)
        }
        Sessions::Delete(flags) => upkeep::delete(app, &flags),
        Sessions::Search(flags) => search::run(app, &flags),
        Sessions::Branch(flags) => upkeep::branch(app, &flags),
        Sessions::Rename { session, title } => upkeep::rename(app, &session, &title),
        Sessions::Archive(flags) => upkeep::archive(app, &flags, true),
        Sessions::Unarchive(flags) => upkeep::archive(app, &flags, false),
        Sessions::Pin { sessions } => upkeep::pin(app, &sessions, true),
        Sessions::Unpin { sessions } => upkeep::pin(app, &sessions, false),
        Sessions::Prune(flags) => upkeep::prune(app, &flags),
        Sessions::Sweep(flags) => upkeep::sweep(app, &flags),
        Sessions::Move(flags) => moving::run(app, &flags),
        Sessions::Check { json } => upkeep::check(app, json),
        Sessions::Repair { json } => upkeep::repair(app, json),
        Sessions::Backup { file } => upkeep::backup(app, file.as_deref()),
        Sessions::Restore { file, yes } => upkeep::restore(app, &file, yes),
        Sessions::Optimize => upkeep::optimize(app),
    }
}

/// Sessions that a number can name.
const MOST_NUMBERED: usize = 999;

/// One session as `--json` shows it.
#[derive(Serialize)]
struct SessionJson<'a> {
    /// Its place in the list of all, 1 for the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    id: &'a str,
    title: Option<&'a str>,
    source: &'a str,
    model: &'a str,
    provider: &'a str,
    cwd: Option<&'a str>,
    git_root: Option<&'a str>,
    git_branch: Option<&'a str>,
    /// The session that it came from, and how: compaction, delegate, branch or reset.
    parent_session_id: Option<&'a str>,
    parent_kind: Option<&'static str>,
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
            number: None,
            id: info.id.as_str(),
            title: info.title.as_deref(),
            source: &info.source,
            model: &info.model,
            provider: &info.provider,
            cwd: info.cwd.as_deref(),
            git_root: info.git_root.as_deref(),
            git_branch: info.git_branch.as_deref(),
            parent_session_id: info.parent.as_ref().map(|(id, _)| id.as_str()),
            parent_kind: info.parent.as_ref().map(|(_, kind)| kind.as_str()),
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
    // A number means a place among all sessions, so that it is the same in every list.
    let all = SessionFilter { limit: Some(MOST_NUMBERED), ..SessionFilter::default() };
    let order: HashMap<SessionId, usize> =
        store.sessions(&all)?.into_iter().map(|info| info.id).zip(1..).collect();
    if json {
        let numbered = sessions.iter().map(|info| {
            let number = order.get(&info.id).copied();
            SessionJson { number, ..SessionJson::new(info) }
        });
        out::json(&numbered.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let rows = sessions
        .iter()
        .map(|info| {
            vec![
                order.get(&info.id).map(ToString::to_string).unwrap_or_default(),
                info.id.to_string(),
                info.last_activity_at.to_string(),
                info.message_count.to_string(),
                info.model.clone(),
                ellipsis(info.title.as_deref().unwrap_or("-"), 40),
                info.cwd.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let head = ["", "session", "last activity", "messages", "model", "title", "folder"];
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

fn export(app: &App, reference: &str, form: (Format, bool), output: &Path) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    // An exact id needs no look at the current folder.
    let id = match store.session(&hermes_core::SessionId::new(reference))? {
        Some(info) => info.id,
        None => app.session(&store, reference)?.id,
    };
    if output.as_os_str() == "-" {
        let mut stdout = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        write_form(&store, &id, form, &mut stdout)?;
        stdout.flush()?;
        return Ok(Exit::Ok);
    }
    let mut bytes = Vec::new();
    write_form(&store, &id, form, &mut bytes)?;
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

fn write_form(
    store: &Store,
    id: &SessionId,
    (format, redact): (Format, bool),
    out: &mut dyn io::Write,
) -> anyhow::Result<()> {
    match format {
        Format::Jsonl if redact => hermes_import::redacted_jsonl(store, id, out)?,
        Format::Jsonl => store.export_jsonl(id, out)?,
        Format::Md => hermes_import::write_session(store, id, Form::Markdown, redact, out)?,
        Format::Html => hermes_import::write_session(store, id, Form::Html, redact, out)?,
    }
    Ok(())
}
