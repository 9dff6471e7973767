//! `hermes trace` and `hermes report`: where a text is and was, and the account of a session.

use hermes_agent::Conversation;
use hermes_agent::inspect::{self, Carried, TraceReport};

use crate::app::App;
use crate::commands::{chat, context};
use crate::exit::Exit;
use crate::out;

/// Finds every place of a text.
///
/// # Errors
/// If the store cannot be read.
pub fn run(app: &App, text: &str, json: bool) -> anyhow::Result<Exit> {
    let loaded = app.config()?;
    let store = app.reader()?;
    let options = chat::options(app.workspace(&loaded.config.terminal.cwd.clone(), None)?);
    let services = app.services(loaded, store, None)?;
    // What a new session here would read.
    let conversation = Conversation::start(&services, options)?;
    let report = inspect::trace(&services, &conversation, text)?;
    if json {
        out::json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(Exit::Ok)
}

/// Prints the places, those on disk first.
///
/// # Errors
/// If stdout is closed.
pub fn print(report: &TraceReport) -> anyhow::Result<()> {
    if report.files.is_empty() && report.snapshots.is_empty() && report.rows.is_empty() {
        return out::line(
            "nowhere: no file of context here, no stored prompt, no row and so no request holds it",
        );
    }
    for file in &report.files {
        out::line(format!(
            "file      {}:{} ({} times), {}: {}",
            file.path, file.line, file.times, file.kind, file.verdict
        ))?;
        out::line(format!("          {}", file.reaches_model))?;
    }
    for place in &report.snapshots {
        let generations: Vec<String> = place.generations.iter().map(ToString::to_string).collect();
        let state = if place.in_force { "in force" } else { "no longer in force" };
        out::line(format!(
            "prompt    session {}, generation {}, block {}, {state}, {}",
            place.session,
            generations.join(", "),
            place.blocks.join(", "),
            carried(&place.carried)
        ))?;
    }
    for row in &report.rows {
        let label = row.label.as_ref().map(|label| format!(" {label}")).unwrap_or_default();
        let tool = row.tool.as_ref().map(|tool| format!(", {tool}")).unwrap_or_default();
        let state = if row.live { "live" } else { "covered or taken back" };
        out::line(format!(
            "row       session {}, r{}, {}{label}{tool}, {state}, {}",
            row.session,
            row.row,
            row.origin,
            carried(&row.carried)
        ))?;
    }
    if report.more_rows > 0 {
        out::line(format!("and {} more rows", report.more_rows))?;
    }
    Ok(())
}

fn carried(carried: &Carried) -> String {
    match (&carried.first, &carried.last) {
        (Some(first), Some(last)) => {
            format!("in {} requests, first {first}, last {last}", carried.requests)
        }
        _ => "in no request yet".to_owned(),
    }
}

/// Writes the account of a session.
///
/// # Errors
/// If there is no such session.
pub fn report(app: &App, session: &str) -> anyhow::Result<Exit> {
    let (services, conversation) = context::look(app, Some(session))?;
    let info = app.session(&services.store, session)?;
    out::raw(inspect::report(&services, &conversation, &info, app.env.now())?)?;
    Ok(Exit::Ok)
}
