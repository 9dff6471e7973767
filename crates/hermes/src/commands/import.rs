//! `hermes import`: sessions and files from another home or agent.

use hermes_import::{ImportOptions, ImportReport, SourceKind};
use hermes_store::OpenMode;

use crate::app::App;
use crate::cli::stored::{From, Import};
use crate::exit::Exit;
use crate::out;

/// Carries out the command.
///
/// # Errors
/// If the source is unknown or cannot be read, or the store cannot be written.
pub fn run(app: &App, flags: &Import) -> anyhow::Result<Exit> {
    let store = app.store(OpenMode::ReadWrite)?;
    let options = ImportOptions {
        kind: flags.from.map(|from| match from {
            From::Hermes => SourceKind::Hermes,
            From::Codex => SourceKind::Codex,
            From::Claude => SourceKind::Claude,
            From::Jsonl => SourceKind::Jsonl,
        }),
        dry_run: flags.dry_run,
        again: flags.again,
    };
    let report = hermes_import::import(&flags.source, &app.home, &store, options)?;
    if flags.json {
        out::json(&report)?;
    } else {
        told(&report)?;
    }
    Ok(Exit::Ok)
}

fn told(report: &ImportReport) -> anyhow::Result<()> {
    let would = if report.dry_run { "would be " } else { "" };
    out::line(format!(
        "{} sessions with {} messages {would}imported, {} were here already",
        report.sessions.len(),
        report.messages,
        report.already_there
    ))?;
    for skipped in &report.skipped {
        out::line(format!("left out: {}: {}", skipped.id, skipped.why))?;
    }
    for (what, count) in &report.left_out {
        out::line(format!("left out: {what}: {count}"))?;
    }
    if !report.files.is_empty() {
        out::line(format!("{} files {would}copied", report.files.len()))?;
    }
    for file in &report.files_left_out {
        out::line(format!("left out: {}: {}", file.path, file.why))?;
    }
    Ok(())
}
