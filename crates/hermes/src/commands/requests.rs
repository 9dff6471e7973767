//! `hermes requests`: what was sent, and the proof of it.

use anyhow::Context as _;
use hermes_agent::inspect::{self, Inspector, Summary, Verdict};
use hermes_core::AttemptOutcome;
use hermes_store::{RequestFilter, RequestRecord, Store};
use serde::Serialize;

use crate::app::App;
use crate::cli::Requests;
use crate::exit::Exit;
use crate::out::{self, Paint};

/// Carries out one of the commands.
///
/// # Errors
/// If the store cannot be read or a request cannot be found or rebuilt.
pub fn run(app: &App, command: Requests) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    match command {
        Requests::List { session, limit, json } => list(app, &store, session, limit, json),
        Requests::Show { request, json } => show(&store, &request, json),
        Requests::Body { request } => {
            let record = store.request(&request)?;
            out::raw(Inspector::new(&store).body(&record)?)?;
            Ok(Exit::Ok)
        }
        Requests::Verify { requests, all: _, session, json } => {
            verify(app, &store, &requests, session, json)
        }
        Requests::Diff { a, b, json } => diff(&store, &a, &b, json),
    }
}

/// One request as `--json` shows it. The seven figures of a request's identity are separate
/// fields: an unchanged prompt is no proof of a provider cache hit.
#[derive(Serialize)]
pub struct RequestJson {
    id: String,
    session_id: String,
    turn: u32,
    attempt: u32,
    retries: Option<String>,
    task: String,
    wire: String,
    provider: String,
    base_url: String,
    model: String,
    prompt_digest: String,
    tools_digest: String,
    history_digest: String,
    body_digest: String,
    body_bytes: u64,
    generation: u32,
    cut: u64,
    compactions: u32,
    wire_profile: String,
    renderer: u32,
    started_at: String,
    first_byte_ms: Option<i64>,
    total_ms: Option<i64>,
    outcome: &'static str,
    http_status: Option<u16>,
    error_class: Option<&'static str>,
    error: Option<String>,
    finish_reason: Option<String>,
    served_model: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    response_row: Option<u64>,
    session_deleted: bool,
    body_kept: bool,
}

impl RequestJson {
    fn new(record: &RequestRecord) -> Self {
        let attempt = &record.attempt;
        let end = record.end.as_ref();
        let usage = end.map(|end| end.usage).unwrap_or_default();
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        Self {
            id: attempt.id.to_string(),
            session_id: attempt.session.to_string(),
            turn: attempt.turn.0,
            attempt: attempt.attempt,
            retries: attempt.retries.as_ref().map(ToString::to_string),
            task: attempt.task.as_str().to_owned(),
            wire: attempt.wire.to_string(),
            provider: attempt.provider.to_string(),
            base_url: attempt.base_url.to_string(),
            model: attempt.model.to_string(),
            prompt_digest: attempt.prompt.to_string(),
            tools_digest: attempt.tools.to_string(),
            history_digest: attempt.history.to_string(),
            body_digest: attempt.body.to_string(),
            body_bytes: attempt.body_bytes,
            generation: attempt.generation.0,
            cut: attempt.cut.0,
            compactions: attempt.compactions,
            wire_profile: attempt.wire_profile.to_string(),
            renderer: attempt.renderer,
            started_at: attempt.started_at.to_string(),
            first_byte_ms: end
                .and_then(|end| end.first_byte_at)
                .map(|at| at.millis_since(attempt.started_at)),
            total_ms: end.map(|end| end.ended_at.millis_since(attempt.started_at)),
            outcome: outcome(record),
            http_status: end.and_then(|end| end.http_status),
            error_class: end.and_then(|end| end.error_class).map(hermes_core::ErrorClass::as_str),
            error: end.and_then(|end| text(&end.error)),
            finish_reason: end.and_then(|end| text(&end.finish_reason)),
            served_model: end.and_then(|end| text(&end.served_model)),
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            reasoning_tokens: usage.reasoning,
            response_row: end.and_then(|end| end.response).map(|seq| seq.0),
            session_deleted: record.session_deleted,
            body_kept: record.has_kept_body,
        }
    }
}

fn outcome(record: &RequestRecord) -> &'static str {
    match record.end.as_ref().map(|end| end.outcome) {
        Some(AttemptOutcome::Ok) => "ok",
        Some(AttemptOutcome::Error) => "error",
        Some(AttemptOutcome::Cancelled) => "cancelled",
        // Its process ended before it did.
        None => "open",
    }
}

fn list(
    app: &App,
    store: &Store,
    session: Option<String>,
    limit: usize,
    json: bool,
) -> anyhow::Result<Exit> {
    let session = session.map(|reference| app.session(store, &reference)).transpose()?;
    let filter = RequestFilter {
        session: session.map(|info| info.id),
        limit: Some(limit),
        newest_first: true,
        ..RequestFilter::default()
    };
    let records = store.requests(&filter)?;
    if json {
        out::json(&records.iter().map(RequestJson::new).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    // Side tasks are rare, so their column stands there only when there is one.
    let tasks = records.iter().any(|record| record.attempt.task != hermes_core::Task::Main);
    let rows = records.iter().map(|record| line(record, tasks)).collect();
    let mut head = vec![
        "request",
        "started (UTC)",
        "session",
        "turn",
        "try",
        "model",
        "bytes",
        "tokens in/out",
        "ms",
        "outcome",
    ];
    if tasks {
        head.push("task");
    }
    out::table(&head, rows, "no request was sent yet; hint: hermes chat -q hello")?;
    Ok(Exit::Ok)
}

fn line(record: &RequestRecord, tasks: bool) -> Vec<String> {
    let shown = RequestJson::new(record);
    let usage = record.end.as_ref().map(|end| end.usage).unwrap_or_default();
    let mut cells = vec![
        shown.id,
        shown.started_at,
        shown.session_id,
        shown.turn.to_string(),
        shown.attempt.to_string(),
        shown.model,
        shown.body_bytes.to_string(),
        format!("{} / {}", count(usage.input), count(usage.output)),
        shown.total_ms.map_or_else(|| "-".to_owned(), |ms| ms.to_string()),
        shown.outcome.to_owned(),
    ];
    if tasks {
        cells.push(shown.task);
    }
    cells
}

/// A figure that may be unknown.
fn count(figure: Option<u64>) -> String {
    figure.map_or_else(|| "?".to_owned(), |figure| figure.to_string())
}

/// Fields whose absence says that there was nothing, not that it is unknown.
const NONE_IF_ABSENT: &[&str] = &["retries", "error_class", "error", "response_row"];

fn show(store: &Store, request: &str, json: bool) -> anyhow::Result<Exit> {
    let record = store.request(request)?;
    if json {
        out::json(&RequestJson::new(&record))?;
        return Ok(Exit::Ok);
    }
    let value = serde_json::to_value(RequestJson::new(&record))?;
    let fields = value.as_object().context("a request is a JSON object")?;
    // What one looks for first; then the rest as it stands.
    let first = ["id", "session_id", "started_at", "outcome"];
    let rest = fields.iter().filter(|(name, _)| !first.contains(&name.as_str()));
    let first = first.iter().filter_map(|name| fields.get_key_value(*name));
    for (name, value) in first.chain(rest) {
        let text = match value {
            serde_json::Value::Null if NONE_IF_ABSENT.contains(&name.as_str()) => "none".to_owned(),
            serde_json::Value::Null => "unknown".to_owned(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out::line(format!("{:<18} {text}", name.replace('_', " ")))?;
    }
    Ok(Exit::Ok)
}

/// One verdict as `--json` shows it.
#[derive(Serialize)]
struct VerdictJson {
    id: String,
    session_id: String,
    #[serde(flatten)]
    verdict: Verdict,
}

fn verify(
    app: &App,
    store: &Store,
    requests: &[String],
    session: Option<String>,
    json: bool,
) -> anyhow::Result<Exit> {
    let mut records =
        requests.iter().map(|request| store.request(request)).collect::<Result<Vec<_>, _>>()?;
    if requests.is_empty() {
        let session = session.map(|reference| app.session(store, &reference)).transpose()?;
        let filter =
            RequestFilter { session: session.map(|info| info.id), ..RequestFilter::default() };
        records = store.requests(&filter)?;
    }
    // Session by session, so that each history is read once.
    records.sort_by(|a, b| {
        (&a.attempt.session, &a.attempt.id).cmp(&(&b.attempt.session, &b.attempt.id))
    });
    let mut inspector = Inspector::new(store);
    let mut summary = Summary::default();
    let mut verdicts = Vec::with_capacity(records.len());
    for record in &records {
        let verdict = inspector.verify(record);
        match &verdict {
            Verdict::Verified => summary.verified += 1,
            Verdict::Deleted => summary.deleted += 1,
            Verdict::Differs { .. } => summary.differs += 1,
            Verdict::Unreadable { .. } => summary.unreadable += 1,
        }
        verdicts.push(VerdictJson {
            id: record.attempt.id.to_string(),
            session_id: record.attempt.session.to_string(),
            verdict,
        });
    }
    if json {
        out::json(&verdicts)?;
    } else {
        print_verdicts(&verdicts, summary, requests.is_empty())?;
    }
    Ok(match summary {
        Summary { differs: 1.., .. } => Exit::Unproven,
        Summary { unreadable: 1.., .. } => Exit::Failure,
        _ => Exit::Ok,
    })
}

/// Prints each verdict, or with `brief` only those that are not good, and the counts.
fn print_verdicts(verdicts: &[VerdictJson], summary: Summary, brief: bool) -> anyhow::Result<()> {
    let paint = Paint::stdout();
    for one in verdicts {
        match &one.verdict {
            Verdict::Differs { why } => {
                out::line(format!("{} {}: {why}", one.id, paint.red("differs")))?;
            }
            Verdict::Unreadable { why } => {
                out::line(format!("{} {}: {why}", one.id, paint.red("cannot be read")))?;
            }
            Verdict::Verified if !brief => {
                out::line(format!("{} {}", one.id, paint.green("verified")))?;
            }
            Verdict::Deleted if !brief => {
                out::line(format!("{} deleted (with its session)", one.id))?;
            }
            Verdict::Verified | Verdict::Deleted => {}
        }
    }
    out::line(format!(
        "{} verified, {} differ, {} deleted with their sessions",
        summary.verified, summary.differs, summary.deleted
    ))
}

fn diff(store: &Store, a: &str, b: &str, json: bool) -> anyhow::Result<Exit> {
    let (a, b) = (store.request(a)?, store.request(b)?);
    let diff = inspect::diff(&mut Inspector::new(store), &a, &b)?;
    if json {
        out::json(&diff)?;
        return Ok(Exit::Ok);
    }
    let same = |same: bool| if same { "same" } else { "different" };
    out::line(format!(
        "prompt {}, tools {}, settings {}, {} messages shared",
        same(diff.same_prompt),
        same(diff.same_tools),
        same(diff.same_settings),
        diff.shared_messages
    ))?;
    let paint = Paint::stdout();
    for (sign, changes) in [("-", &diff.removed), ("+", &diff.added)] {
        for change in changes {
            let text = format!("{sign} {} {}: {}", change.index, change.role, change.text);
            out::line(if sign == "-" { paint.red(&text) } else { paint.green(&text) })?;
        }
    }
    Ok(Exit::Ok)
}

/// Unknown figures stay unknown in every form.
#[cfg(test)]
mod tests {
    use hermes_core::Usage;

    use super::*;

    #[test]
    fn unknown_figures_are_never_shown_as_zero() {
        assert_eq!(count(None), "?");
        assert_eq!(count(Usage::default().input), "?");
        assert_eq!(count(Some(0)), "0");
    }
}
