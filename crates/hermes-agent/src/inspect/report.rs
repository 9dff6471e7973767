//! The account of a session that is safe to paste: identities, digests, counts and states, in the
//! order in which one asks at three in the morning. No text of anybody, no credential; the
//! person's home folder is `~`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hermes_compaction::{Method, Outcome};
use hermes_core::{AttemptOutcome, Origin, Role, Timestamp, Tokens};
use hermes_home::redact::redact;
use hermes_store::{History, RequestFilter, RequestRecord, SessionInfo};

use super::context::caused_by;
use super::{InspectError, Inspector, Now, Verdict, sources, words};
use crate::compact::compaction_status;
use crate::conversation::Conversation;
use crate::{AgentError, Services};

/// Requests that are listed, the newest.
const MAX_REQUESTS: usize = 20;

/// Writes the account of a session in Markdown.
///
/// # Errors
/// If the store cannot be read.
pub fn report(
    services: &Services,
    conversation: &Conversation,
    info: &SessionInfo,
    now: Timestamp,
) -> Result<String, AgentError> {
    let mut out = String::new();
    head(&mut out, info, now);
    prompt(&mut out, services, conversation)?;
    causes(&mut out, conversation);
    let store = &services.store;
    let history = store.history(&info.id)?;
    views(&mut out, conversation, &history)?;
    compactions(&mut out, services, info)?;
    requests(&mut out, services, info)?;
    generations(&mut out, &history);
    capsules(&mut out, services, info)?;
    Ok(sanitised(&out, services))
}

// Writing to a String does not fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { let _ = writeln!($out, $($text)*); };
}

fn head(out: &mut String, info: &SessionInfo, now: Timestamp) {
    let none = || "none".to_owned();
    put!(out, "# Session {}\n", info.id);
    put!(out, "- program: hermes {} on {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS);
    put!(out, "- written: {now}");
    put!(out, "- working directory: {}", info.cwd.clone().unwrap_or_else(none));
    put!(out, "- git root: {}", info.git_root.clone().unwrap_or_else(none));
    put!(out, "- surface: {}", info.source);
    put!(out, "- model: {} by {}", info.model, info.provider);
    let parent = info.parent.as_ref();
    let parent = parent.map(|(id, kind)| format!("{id} ({})", kind.as_str()));
    put!(out, "- comes from: {}", parent.unwrap_or_else(none));
    put!(out, "- started: {}, last activity: {}", info.started_at, info.last_activity_at);
    let ended = info.ended_at.map_or_else(none, |at| at.to_string());
    put!(out, "- ended: {ended} ({})", info.end_reason.as_deref().unwrap_or("open"));
    put!(out, "- compactions: {}", info.compactions);
}

/// Every attempt at a compaction. Of a failure its kind alone: a provider's words may quote what it
/// was sent.
fn compactions(
    out: &mut String,
    services: &Services,
    info: &SessionInfo,
) -> Result<(), AgentError> {
    let status = compaction_status(&services.store, &info.id)?;
    put!(out, "\n## Compactions\n");
    if status.attempts.is_empty() {
        put!(out, "none was tried");
        return Ok(());
    }
    put!(
        out,
        "| no | when | kind | reason | method | rows | tokens | ms | helper requests | outcome |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    );
    for attempt in &status.attempts {
        let log = &attempt.log;
        let figure = |it: Option<Tokens>| it.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let outcome = match &log.outcome {
            Outcome::Committed { generation, .. } if attempt.in_force => {
                format!("generation {generation}, in force")
            }
            Outcome::Committed { generation, .. } => format!("generation {generation}"),
            Outcome::Rejected(why) => format!("rejected: {}", kind_of(why, "why")),
            Outcome::Deferred(until) => format!("put off: {}", kind_of(until, "until")),
        };
        let because = log.fallback_because.as_ref();
        let because = because.map(|why| format!(" ({})", kind_of(why, "why"))).unwrap_or_default();
        put!(
            out,
            "| {} | {} | {} | {} | {}{because} | {} -> {} | {} -> {} | {} | {} | {outcome} |",
            attempt.no,
            log.at,
            log.kind.as_str(),
            log.reason.as_str(),
            log.method.map_or("", Method::as_str),
            log.rows_before,
            log.rows_after,
            figure(log.before),
            figure(log.after),
            log.millis,
            attempt.requests.len()
        );
    }
    let memory = &status.memory;
    put!(
        out,
        "\nfailures in a row: {}, passes that did not help: {}, no model is asked before: {}",
        memory.failures,
        memory.ineffective,
        memory.cooldown.as_ref().map_or_else(|| "-".to_owned(), |it| it.until.to_string())
    );
    Ok(())
}

/// The word for a reason, without what it says.
fn kind_of(reason: &impl serde::Serialize, tag: &str) -> String {
    let value = serde_json::to_value(reason).ok();
    let word = value.as_ref().and_then(|value| value.get(tag)).and_then(|word| word.as_str());
    word.unwrap_or("unknown").replace('_', " ")
}

fn prompt(
    out: &mut String,
    services: &Services,
    conversation: &Conversation,
) -> Result<(), AgentError> {
    put!(out, "\n## Sources\n");
    put!(out, "prompt {}\ntools {}\n", conversation.snapshot().digest, conversation.tools().digest);
    put!(out, "| source | where | digest | loaded | verdict | now |\n|---|---|---|---|---|---|");
    for state in sources(services, conversation)? {
        for entry in state.entries {
            let loaded = entry.loaded_at.map(|at| at.to_string()).unwrap_or_default();
            let digest = entry.digest.map(|digest| digest.short()).unwrap_or_default();
            let now = match entry.now {
                Now::Same => "same".to_owned(),
                Now::Differs { since } => with_time("differs", since),
                Now::New { since } => with_time("new", since),
                Now::Gone => "gone".to_owned(),
                Now::Kept => "kept".to_owned(),
            };
            let (id, source, verdict) = (entry.id, entry.source, entry.verdict);
            put!(out, "| {id} | {source} | {digest} | {loaded} | {verdict} | {now} |");
        }
    }
    Ok(())
}

fn with_time(word: &str, since: Option<Timestamp>) -> String {
    since.map_or_else(|| word.to_owned(), |since| format!("{word} since {since}"))
}

/// The tool calls that brought up project files and skills, and how often each tool ran.
fn causes(out: &mut String, conversation: &Conversation) {
    put!(out, "\n## Tool calls\n");
    let mut runs: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in conversation.rows().iter().filter(|row| row.role == Role::Tool) {
        let Some(link) = &row.tool else { continue };
        let run = runs.entry(&link.name).or_default();
        run.0 += 1;
        run.1 += u64::from(row.status != hermes_core::RowStatus::Complete);
    }
    for (name, (count, failed)) in runs {
        put!(out, "- {name}: {count} calls, {failed} not complete");
    }
    for row in conversation.rows() {
        for part in &row.parts {
            let Some(call) = caused_by(row, part) else { continue };
            let label = part.label.as_deref().unwrap_or_default();
            let origin = words::origin(part.origin);
            put!(out, "- {origin} {label} in r{}, caused by {call}", row.seq);
        }
    }
}

fn views(
    out: &mut String,
    conversation: &Conversation,
    history: &History,
) -> Result<(), AgentError> {
    let live = conversation.view()?;
    put!(out, "\n## Views\n");
    put!(out, "- stored: {} rows", history.rows.len());
    put!(out, "- live (in the next request): {} rows", live.rows.len());
    let gone = history
        .rows
        .iter()
        .filter(|row| live.rows.iter().all(|shown| shown.row.seq != row.seq))
        .count();
    put!(out, "- covered by a summary or taken back: {gone} rows");
    let mut origins: BTreeMap<&str, u64> = BTreeMap::new();
    let parts = live.rows.iter().flat_map(|shown| &shown.row.parts);
    for part in
        parts.filter(|part| !matches!(part.origin, Origin::Model) || part.as_text().is_some())
    {
        *origins.entry(words::origin(part.origin)).or_default() += 1;
    }
    let origins: Vec<String> = origins.iter().map(|(name, n)| format!("{name} {n}")).collect();
    put!(out, "- live parts by origin: {}", origins.join(", "));
    Ok(())
}

fn requests(out: &mut String, services: &Services, info: &SessionInfo) -> Result<(), AgentError> {
    let filter = RequestFilter { session: Some(info.id.clone()), ..RequestFilter::default() };
    let all = services.store.requests(&filter)?;
    let mut inspector = Inspector::new(&services.store);
    put!(out, "\n## Requests\n\n{} in all; the newest {MAX_REQUESTS}:\n", all.len());
    put!(
        out,
        "| request | task | prompt | history | model | cache read | cache write | compactions | \
         outcome | proof |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for record in all.iter().skip(all.len().saturating_sub(MAX_REQUESTS)) {
        let attempt = &record.attempt;
        let usage = record.end.as_ref().map(|end| end.usage).unwrap_or_default();
        let figure = |it: Option<u64>| it.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        let proof = match inspector.verify(record) {
            Verdict::Verified => "verified",
            Verdict::Differs { .. } => "differs",
            Verdict::Unreadable { .. } => "unreadable",
            Verdict::Deleted => "deleted",
        };
        put!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {proof} |",
            attempt.id,
            attempt.task.as_str(),
            attempt.prompt.short(),
            attempt.history.short(),
            attempt.model,
            figure(usage.cache_read),
            figure(usage.cache_write),
            attempt.compactions,
            outcome(record),
        );
    }
    Ok(())
}

fn outcome(record: &RequestRecord) -> String {
    let Some(end) = &record.end else { return "open".to_owned() };
    match (end.outcome, end.error_class) {
        (AttemptOutcome::Ok, _) => "ok".to_owned(),
        (AttemptOutcome::Cancelled, _) => "cancelled".to_owned(),
        (AttemptOutcome::Error, class) => {
            let class = class.map_or("error", hermes_core::ErrorClass::as_str);
            let status = end.http_status.map(|code| format!(" {code}")).unwrap_or_default();
            format!("{class}{status}")
        }
    }
}

fn generations(out: &mut String, history: &History) {
    put!(out, "\n## Generations\n");
    for generation in &history.generations {
        put!(
            out,
            "- {} {:?} at {}, prompt {}, {} operations",
            generation.n,
            generation.cause,
            generation.created_at,
            generation.prompt.short(),
            generation.ops.len()
        );
    }
}

fn capsules(out: &mut String, services: &Services, info: &SessionInfo) -> Result<(), AgentError> {
    put!(out, "\n## Capsules\n");
    let mut any = false;
    for capsule in services.store.capsules(None)? {
        let taken = capsule.taken_by.as_ref().is_some_and(|(session, _)| *session == info.id);
        if capsule.session != info.id && !taken {
            continue;
        }
        any = true;
        let role = if taken { "received" } else { "written" };
        put!(
            out,
            "- {role} {}: {:?}, status {}, digest {}, at {}",
            capsule.id,
            capsule.state,
            capsule.status,
            capsule.digest.short(),
            capsule.created_at
        );
    }
    if !any {
        put!(out, "none");
    }
    Ok(())
}

/// Without anything that looks like a secret, and with `~` for the person's home folder.
fn sanitised(text: &str, services: &Services) -> String {
    let text = redact(text).into_owned();
    let home = services.vars.get("HOME").map(|home| home.trim_end_matches('/'));
    match home.filter(|home| home.len() > 1) {
        Some(home) => text.replace(home, "~"),
        None => text,
    }
}

impl From<InspectError> for AgentError {
    fn from(error: InspectError) -> Self {
        Self::Inspect(Box::new(error))
    }
}
