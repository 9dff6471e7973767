//! Printing a context report.

use std::collections::BTreeMap;

use hermes_agent::inspect::{ContextReport, PartKind};

use crate::out;

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
        ("request", report.request.clone().unwrap_or_else(|| "not sent".to_owned())),
        ("provider, model", format!("{}, {}", report.provider, report.model)),
        ("prompt digest", report.prompt_digest.clone()),
        ("history digest", report.history_digest.clone()),
        ("cache read tokens", figure(report.cache_read_tokens)),
        ("cache write tokens", figure(report.cache_write_tokens)),
        ("compactions", report.compactions.to_string()),
        (
            "input tokens",
            format!(
                "{} by the provider, ~{} estimated",
                figure(report.usage.input),
                report.estimated_tokens
            ),
        ),
        ("body", format!("{} bytes, {}", report.body_bytes, proof(report))),
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
    if !report.skills.is_empty() {
        out::line("")?;
        out::table(
            &["skill", "index bytes", "~tokens", "loaded in", "bytes", "~tokens"],
            skills(report),
            "no skills",
        )?;
    }
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
    if report.project_files.is_empty() {
        "none".to_owned()
    } else {
        report.project_files.join(", ")
    }
}

const fn proof(report: &ContextReport) -> &'static str {
    match report.verified {
        Some(true) => "as sent",
        Some(false) => "rebuilt; the sent bytes differ (`hermes requests verify`)",
        None => "not sent",
    }
}

/// What each skill takes: its line of the index, its loaded texts.
fn skills(report: &ContextReport) -> Vec<Vec<String>> {
    let row = |share: &hermes_agent::inspect::SkillShare| {
        let rows: Vec<String> = share.loaded.iter().map(|(row, ..)| format!("r{row}")).collect();
        let bytes: usize = share.loaded.iter().map(|(_, _, bytes, _)| bytes).sum();
        let tokens: u64 = share.loaded.iter().map(|(_, _, _, tokens)| tokens).sum();
        vec![
            share.name.clone(),
            share.index_bytes.to_string(),
            share.index_tokens.to_string(),
            rows.join(", "),
            bytes.to_string(),
            tokens.to_string(),
        ]
    };
    report.skills.iter().map(row).collect()
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
            let cause = part.caused_by.as_ref().map(|call| format!("by {call}"));
            let cause = cause.unwrap_or_default();
            let source = [row.as_str(), part.source.as_str(), cause.as_str()]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(", ");
            vec![
                kind_word(part.kind).to_owned(),
                part.name.to_string(),
                source,
                part.bytes.to_string(),
                part.tokens.to_string(),
                share(part.bytes, report),
            ]
        })
        .collect()
}

/// What the parts of one group come to.
#[derive(Default)]
struct Sum {
    parts: usize,
    bytes: usize,
    tokens: u64,
    source: String,
}

/// Prompt blocks one by one, tools in sum, history by origin.
fn groups(report: &ContextReport) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<(PartKind, usize, String), Sum> = BTreeMap::new();
    for (at, part) in report.parts.iter().enumerate() {
        let (order, name) = match part.kind {
            PartKind::Prompt => (at, part.name.to_string()),
            PartKind::Tool => (0, "definitions".to_owned()),
            PartKind::Row | PartKind::Filler => (0, part.name.to_string()),
        };
        let sum = sums.entry((part.kind, order, name)).or_default();
        sum.parts += 1;
        sum.bytes += part.bytes;
        sum.tokens += part.tokens;
        if part.kind == PartKind::Prompt {
            sum.source.clone_from(&part.source);
        }
    }
    sums.into_iter()
        .map(|((kind, _, name), sum)| {
            let source = match kind {
                PartKind::Prompt => sum.source,
                _ => format!("{} parts", sum.parts),
            };
            vec![
                kind_word(kind).to_owned(),
                name,
                source,
                sum.bytes.to_string(),
                sum.tokens.to_string(),
                share(sum.bytes, report),
            ]
        })
        .collect()
}
