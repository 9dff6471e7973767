//! `hermes context`: what the last or next request of a session is made of, where each source
//! stands, why something is in the context or is not, what a refresh changes.

mod print;

use anyhow::Context as _;
use hermes_agent::inspect::{self, ContextReport, Inspector, SourceState, WhyReport};
use hermes_agent::{Conversation, RefreshReport, Services};
use hermes_context::{snapshot_differences, source_kind};
use hermes_core::{GenerationNo, Snapshot};
use hermes_home::{Route, routes};
use hermes_store::{OpenMode, SessionInfo, Store, StoreError};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

pub use self::print::print;
use crate::app::App;
use crate::cli::{AboutContext, Context};
use crate::commands::{chat, compactions};
use crate::exit::{Exit, Failure};
use crate::out;

/// Carries out the command.
///
/// # Errors
/// If there is no such session or it has sent nothing.
pub fn run(app: &App, flags: &Context) -> anyhow::Result<Exit> {
    match &flags.command {
        None => request(app, flags)?,
        Some(AboutContext::Sources { session, json }) => {
            let (services, conversation) = look(app, session.as_deref())?;
            let states = inspect::sources(&services, &conversation)?;
            if *json { out::json(&states)? } else { print_sources(&states)? }
        }
        Some(AboutContext::Views { session, json }) => {
            return compactions::views(app, session, *json);
        }
        Some(AboutContext::Why { name, session, json }) => {
            let (services, conversation) = look(app, session.as_deref())?;
            let report = inspect::why(&services, &conversation, name)?;
            if *json { out::json(&report)? } else { print_why(&report)? }
        }
        Some(AboutContext::Diff { a, b, json }) => diff(app, a, b, *json)?,
        Some(AboutContext::Refresh { sources, session, json }) => {
            let report = refresh(app, session, sources)?;
            if *json { out::json(&report)? } else { print_refresh(&report)? }
        }
    }
    Ok(Exit::Ok)
}

/// The last or the next request.
fn request(app: &App, flags: &Context) -> anyhow::Result<()> {
    let is_all = |word: Option<&String>| word.is_some_and(|word| word == "all");
    let last_word = flags.session.last();
    let all = flags.all || is_all(last_word);
    let session = flags.session.first().filter(|word| !is_all(Some(word))).map(String::as_str);
    let report = if flags.next {
        if flags.fresh && session.is_some() {
            let text = "--fresh is about a new session; hint: leave the session out";
            return Err(Failure::new(Exit::Usage, text).into());
        }
        let which = if flags.fresh { Which::Fresh } else { Which::of(session) };
        let (services, conversation) = open(app, which, Conversation::preview)?;
        inspect::next(&services, &conversation, flags.say.as_deref().unwrap_or("(your message)"))?
    } else {
        let store = app.reader()?;
        let info = app.session(&store, session.unwrap_or("latest"))?;
        report(app, &store, &info)?
    };
    if flags.json {
        return out::json(&report);
    }
    print(&report, all)?;
    // What stands in the way of compaction stays visible here.
    compactions::print_trouble(&app.reader()?, report.session.as_str())
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

type Open = fn(
    &Services,
    &SessionInfo,
    hermes_agent::StartOptions,
) -> Result<Conversation, hermes_agent::AgentError>;

/// A session as it is stored, without holding it; without a reference the latest, or, where there
/// is none, what a new one would be.
///
/// # Errors
/// If there is no such session.
pub fn look(app: &App, session: Option<&str>) -> anyhow::Result<(Services, Conversation)> {
    open(app, Which::of(session), Conversation::peek)
}

/// The session that is looked at.
#[derive(Clone, Copy)]
enum Which<'a> {
    Named(&'a str),
    Latest,
    Fresh,
}

impl<'a> Which<'a> {
    fn of(session: Option<&'a str>) -> Self {
        session.map_or(Self::Latest, Self::Named)
    }
}

fn open(app: &App, which: Which<'_>, open: Open) -> anyhow::Result<(Services, Conversation)> {
    let loaded = app.config()?;
    let store = app.reader()?;
    let info = match which {
        Which::Fresh => None,
        Which::Named(session) => Some(app.session(&store, session)?),
        Which::Latest => match app.session(&store, "latest") {
            Ok(info) => Some(info),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(error),
        },
    };
    let configured = loaded.config.terminal.cwd.clone();
    let folder = info.as_ref().and_then(|info| info.cwd.as_deref());
    let options = chat::options(app.workspace(&configured, folder)?);
    let services = app.plugged_services(loaded, store, info.as_ref())?;
    let mut conversation = match &info {
        Some(info) => open(&services, info, options)?,
        None => Conversation::start(&services, options)?,
    };
    chat::runtime()?.block_on(conversation.prepare(&services))?;
    Ok((services, conversation))
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<StoreError>(), Some(StoreError::NotFound { .. }))
}

/// Prints the table of sources with their present state.
///
/// # Errors
/// If stdout is closed.
pub fn print_sources(states: &[SourceState]) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for state in states {
        let Some(kind) = source_kind(state.id) else { continue };
        if state.entries.is_empty() {
            rows.push(vec![
                state.id.to_owned(),
                String::new(),
                String::new(),
                "none in this session".to_owned(),
                state.reaches_model.to_owned(),
            ]);
        }
        for entry in &state.entries {
            let loaded = entry.loaded_at.map(|at| at.to_string()).unwrap_or_default();
            rows.push(vec![
                entry.id.clone(),
                out::ellipsis(&entry.source, 60),
                loaded,
                entry.verdict.clone(),
                entry.sentence(kind),
            ]);
        }
    }
    out::table(&["source", "where", "loaded at", "verdict", "now"], rows, "no sources")
}

/// Prints the answers to one question.
///
/// # Errors
/// If stdout is closed.
pub fn print_why(report: &WhyReport) -> anyhow::Result<()> {
    for answer in &report.answers {
        out::line(format!("{}\n  {}", answer.source, answer.sentence))?;
    }
    Ok(())
}

/// Reads sources anew in a stored session.
fn refresh(app: &App, session: &str, sources: &[String]) -> anyhow::Result<RefreshReport> {
    let loaded = app.config()?;
    let store = app.store(OpenMode::ReadWrite)?;
    let info = app.own_session(&store, session)?;
    let configured = loaded.config.terminal.cwd.clone();
    let options = chat::options(app.workspace(&configured, info.cwd.as_deref())?);
    let services = app.plugged_services(loaded, store, Some(&info))?;
    let mut conversation = Conversation::resume(&services, &info, options)?;
    chat::runtime()?.block_on(conversation.prepare(&services))?;
    let report = conversation.refresh(&services, sources)?;
    conversation.release()?;
    services.store.close();
    Ok(report)
}

/// Prints what a refresh changed, the difference by lines, what it costs.
///
/// # Errors
/// If stdout is closed.
pub fn print_refresh(report: &RefreshReport) -> anyhow::Result<()> {
    for warning in &report.warnings {
        out::note(format!("warning: {warning}"));
    }
    for change in &report.differences {
        let state = match (change.was.is_some(), change.is.is_some(), change.in_prompt) {
            (false, _, _) => "new",
            (_, false, _) => "gone",
            (_, _, true) => "changed",
            (_, _, false) => "changed outside of the prompt",
        };
        out::line(format!("{}: {state} ({})", change.id, change.source))?;
    }
    if report.tools_changed {
        out::line("tools: changed")?;
    }
    print_lines(&report.texts.0, &report.texts.1)?;
    out::line(format!(
        "prompt {:.12} -> {:.12}, {} bytes shared",
        report.prompt_before.to_string(),
        report.prompt_after.to_string(),
        report.shared_prompt_bytes
    ))?;
    out::line(&report.sentence)
}

/// The lines that differ, with their signs.
fn print_lines(a: &str, b: &str) -> anyhow::Result<()> {
    let diff = TextDiff::from_lines(a, b);
    for change in diff.iter_all_changes() {
        let sign = match change.tag() {
            ChangeTag::Equal => continue,
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        out::line(format!("{sign} {}", change.value().trim_end_matches('\n')))?;
    }
    Ok(())
}

/// A difference of two prompts as `--json` shows it.
#[derive(Serialize)]
struct DiffJson {
    a: String,
    b: String,
    same: bool,
    differences: Vec<hermes_agent::SourceChange>,
}

fn diff(app: &App, a: &str, b: &str, json: bool) -> anyhow::Result<()> {
    let store = app.reader()?;
    let (older, newer) = (snapshot(app, &store, a)?, snapshot(app, &store, b)?);
    let differences: Vec<hermes_agent::SourceChange> =
        snapshot_differences(&older, &newer).into_iter().map(Into::into).collect();
    if json {
        return out::json(&DiffJson {
            a: older.digest.to_string(),
            b: newer.digest.to_string(),
            same: older.digest == newer.digest,
            differences,
        });
    }
    if older.digest == newer.digest {
        return out::line(format!("the same prompt, {}", older.digest));
    }
    out::line(format!("prompt {} -> {}", older.digest.short(), newer.digest.short()))?;
    for change in &differences {
        let text = if change.in_prompt { "in the prompt" } else { "outside of the prompt" };
        out::line(format!("{}: {text} ({})", change.id, change.source))?;
    }
    print_lines(&older.text, &newer.text)
}

/// The prompt that `SESSION` or `SESSION@GENERATION` names.
fn snapshot(app: &App, store: &Store, reference: &str) -> anyhow::Result<Snapshot> {
    let (session, generation) = match reference.rsplit_once('@') {
        Some((session, n)) => {
            let n = n.parse().with_context(|| {
                format!("\"{n}\" is no generation; hint: a number, as `hermes report` lists them")
            })?;
            (session, Some(GenerationNo(n)))
        }
        None => (reference, None),
    };
    let info = app.session(store, session)?;
    let generation = match generation {
        Some(n) => n,
        None => store.history(&info.id)?.head.context("the session has no prompt yet")?,
    };
    Ok(store.snapshot(&info.id, generation)?)
}
