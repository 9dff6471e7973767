//! `hermes context`: what the last request of a session was made of.

use std::collections::BTreeMap;

use hermes_agent::inspect::{self, ContextReport, Inspector, PartKind};
use hermes_home::{Route, routes};
use hermes_store::{SessionInfo, Store};

use crate::app::App;
use crate::cli::Context;
use crate::exit::Exit;
use crate::out;

/// Carries out the command.
///
/// # Errors
/// If there is no such session or it has sent nothing.
pub fn run(app: &App, flags: &Context) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let info = app.session(&store, &flags.session)?;
    let report = report(app, &store, &info)?;
    if flags.json {
        out::json(&report)?;
    } else {
        print(&report, flags.all)?;
    }
    Ok(Exit::Ok)
}

/// Describes the last request of a session, with the window of its model where it is known.
///
/// # Errors
/// If it has sent nothing.
pub fn report(app: &App, store: &Store, info: &SessionInfo) -> anyhow::Result<ContextReport> {
    let window = app.config().ok().and_then(|loaded| {
        let chain = routes(&loaded.config, &loaded.vars).ok()?;
        chain.into_iter().find_map(|route| match route {
            Route::Endpoint(endpoint) if endpoint.model == info.model => endpoint.context_length,
            _ => None,
        })
    });
    Ok(inspect::context(&mut Inspector::new(store), info, window)?)
}

/// Prints the report: head, separate figures, then parts in groups, or each with `all`.
///
/// # Errors
/// If stdout is closed.
pub fn print(report: &ContextReport, all: bool) -> anyhow::Result<()> {
    let unknown = || "unknown".to_owned();
    let figure = |figure: Option<u64>| figure.map_or_else(unknown, |figure| figure.to_string());
    let head = [
        ("session", report.session.clone()),
        ("working directory", report.cwd.clone().unwrap_or_else(unknown)),
        ("git root", report.git_root.clone().unwrap_or_else(|| "none".to_owned())),
        ("project files", project_files(report)),
        ("request", report.request.clone()),
        ("provider, model", format!("{}, {}", report.provider, report.model)),
        ("prompt digest", report.prompt_digest.clone()),
        ("history digest", report.history_digest.clone()),
        ("cache read tokens", figure(report.usage.cache_read)),
        ("cache write tokens", figure(report.usage.cache_write)),
        ("compactions", report.compactions.to_string()),
        (
            "input tokens",
            format!(
                "{} by the provider, ~{} estimated",
                figure(report.usage.input),
                report.estimated_tokens
            ),
        ),
        ("body", format!("{} bytes", report.body_bytes)),
    ];
    for (name, value) in head {
        out::line(format!("{name:<18} {value}"))?;
    }
    if let Some(window) = report.context_window {
        out::line(format!("{:<18} {}", "window", bar(report, window)))?;
    }
    out::line("")?;
    let rows = if all { every_part(report) } else { groups(report) };
    out::table(&["part", "name", "source", "bytes", "~tokens", "share"], rows, "no parts")?;
    let out_of_prompt: Vec<_> =
        report.blocks.iter().filter(|block| !block.verdict.is_in()).collect();
    if !out_of_prompt.is_empty() {
        out::line("\nconsidered and left out:")?;
        for block in out_of_prompt {
            let verdict = serde_json::to_string(&block.verdict)?;
            out::line(format!("  {} ({}): {verdict}", block.id, block.source))?;
        }
    }
    Ok(())
}

fn project_files(report: &ContextReport) -> String {
    let files: Vec<String> = report
        .blocks
        .iter()
        .filter(|block| block.id.starts_with("project") && block.verdict.is_in())
        .map(|block| block.source.to_string())
        .collect();
    if files.is_empty() { "none".to_owned() } else { files.join(", ") }
}

/// How full the window is, as a bar of 40 signs.
fn bar(report: &ContextReport, window: u64) -> String {
    const WIDTH: u64 = 40;
    let used = report.usage.input.unwrap_or(report.estimated_tokens);
    let filled = (used * WIDTH).checked_div(window).unwrap_or(0).min(WIDTH) as usize;
    let empty = WIDTH as usize - filled;
    let percent = used as f64 * 100.0 / window.max(1) as f64;
    format!("[{}{}] {percent:.1} % of {window}", "#".repeat(filled), ".".repeat(empty))
}

const fn kind_word(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Prompt => "prompt",
        PartKind::Tool => "tool",
        PartKind::Row => "history",
        PartKind::Filler => "filler",
    }
}

fn share(bytes: usize, report: &ContextReport) -> String {
    format!("{:.1} %", bytes as f64 * 100.0 / report.body_bytes.max(1) as f64)
}

fn every_part(report: &ContextReport) -> Vec<Vec<String>> {
    report
        .parts
        .iter()
        .map(|part| {
            let row = part.row.map(|row| format!("row {row}")).unwrap_or_default();
            let source = [row.as_str(), part.source.as_str()]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(", ");
            vec![
                kind_word(part.kind).to_owned(),
                part.name.clone(),
                source,
                part.bytes.to_string(),
                part.tokens.to_string(),
                share(part.bytes, report),
            ]
        })
        .collect()
}

/// Prompt blocks one by one, tools in sum, history by origin.
fn groups(report: &ContextReport) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<(PartKind, usize, String), (usize, usize, u64, String)> =
        BTreeMap::new();
    for (at, part) in report.parts.iter().enumerate() {
        let (order, name) = match part.kind {
            PartKind::Prompt => (at, part.name.clone()),
            PartKind::Tool => (0, "definitions".to_owned()),
            PartKind::Row | PartKind::Filler => (0, part.name.clone()),
        };
        let sum = sums.entry((part.kind, order, name)).or_default();
        sum.0 += 1;
        sum.1 += part.bytes;
        sum.2 += part.tokens;
        if part.kind == PartKind::Prompt {
            sum.3.clone_from(&part.source);
        }
    }
    sums.into_iter()
        .map(|((kind, _, name), (count, bytes, tokens, source))| {
            let source = if kind == PartKind::Prompt { source } else { format!("{count} parts") };
            vec![
                kind_word(kind).to_owned(),
                name,
                source,
                bytes.to_string(),
                tokens.to_string(),
                share(bytes, report),
            ]
        })
        .collect()
}
