//! Compaction for people: `/compress` and `hermes sessions compress`, `/recall`,
//! `hermes sessions compactions`, `hermes context views`.

use anyhow::Context as _;
use hermes_agent::compact::{AttemptRecord, CompactionStatus, compaction_status, session_views};
use hermes_agent::{Cancel, CompactionPreview, CompressOptions, Conversation, Services, Undone};
use hermes_compaction::recall::{Query, Recalled};
use hermes_compaction::views::Class;
use hermes_compaction::{Kind, Log, Method, Outcome};
use hermes_core::{EventSink, SessionId, Tokens};
use hermes_store::Store;
use serde_json::json;

use crate::app::App;
use crate::cli::Compress;
use crate::commands::chat;
use crate::exit::{Exit, Failure};
use crate::render::{Screen, Show};
use crate::{out, plugged};

/// What a person wants of `/compress`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// How to compact.
    pub options: CompressOptions,
    /// Only show what it would do.
    pub preview: bool,
    /// Take the newest compaction back.
    pub undo: bool,
}

impl Wish {
    /// Reads what follows `/compress`: `here N`, `--preview`, `--undo`, and a focus in words.
    ///
    /// # Errors
    /// If it contradicts itself.
    pub fn parse(argument: &str) -> Result<Self, String> {
        let mut wish = Self::default();
        let mut focus: Vec<&str> = Vec::new();
        let mut words = argument.split_whitespace().peekable();
        while let Some(word) = words.next() {
            match word {
                "--preview" => wish.preview = true,
                "--undo" => wish.undo = true,
                "here" if focus.is_empty() && wish.options.keep.is_none() => {
                    let number = words.peek().and_then(|next| next.parse::<usize>().ok());
                    match number {
                        Some(0) => {
                            return Err("at least the last exchange stays; hint: /compress here 1"
                                .to_owned());
                        }
                        Some(count) => {
                            words.next();
                            wish.options.keep = Some(count);
                        }
                        None if words.peek().is_none_or(|next| next.starts_with("--")) => {
                            wish.options.keep = Some(1);
                        }
                        None => focus.push(word),
                    }
                }
                flag if flag.starts_with("--") && focus.is_empty() => {
                    return Err(format!(
                        "\"{flag}\" is not known; hint: /compress [here N] [--preview] [--undo] \
                         [what to keep above all]"
                    ));
                }
                word => focus.push(word),
            }
        }
        wish.options.focus = (!focus.is_empty()).then(|| focus.join(" "));
        if wish.undo && (wish.preview || wish.options != CompressOptions::default()) {
            return Err("--undo stands alone; hint: /compress --undo".to_owned());
        }
        Ok(wish)
    }
}

/// Carries a wish out in an open conversation and says what came of it.
///
/// # Errors
/// If the store refuses, or what was wanted did not take effect.
pub async fn carry_out(
    services: &Services,
    conversation: &mut Conversation,
    wish: &Wish,
    sink: &dyn EventSink,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    if wish.undo {
        return print_undone(&conversation.undo_compaction(services, None)?);
    }
    if wish.preview {
        return print_preview(&conversation.preview_compression(services, &wish.options)?);
    }
    let log = conversation.compress(services, &wish.options, sink, cancel).await?;
    match &log.outcome {
        Outcome::Committed { .. } => print_log(&log),
        Outcome::Rejected(why) => Err(refused(why)),
        Outcome::Deferred(why) => Err(refused(why)),
    }
}

fn refused(why: &dyn std::fmt::Display) -> anyhow::Error {
    let text = format!("not compacted, everything is kept: {why}");
    Failure::new(Exit::Failure, text).into()
}

fn print_log(log: &Log) -> anyhow::Result<()> {
    let method = match log.method {
        Some(Method::Model) => log.model.clone().unwrap_or_else(|| "a model".to_owned()),
        Some(Method::DeterministicFallback) => "by rule, without a model".to_owned(),
        Some(Method::Deterministic) | None => "without a summary".to_owned(),
    };
    out::line(format!("{}; summary: {method}; {} ms", log.line(), log.millis))?;
    if let Some(coverage) = log.coverage {
        out::line(format!(
            "coverage: {} of {} rows seen, {} of {} characters, {} % of the range spoken of",
            coverage.rows_seen,
            coverage.rows,
            coverage.chars_seen,
            coverage.chars,
            coverage.spoken_percent
        ))?;
    }
    Ok(())
}

fn print_preview(found: &CompactionPreview) -> anyhow::Result<()> {
    match (&found.plan, &found.why_not) {
        (Some(plan), _) => out::raw(plan.text())?,
        (None, Some(why)) => out::line(why)?,
        (None, None) => out::line("there is nothing to compact")?,
    }
    for (index, helper) in found.helpers.iter().enumerate() {
        let window = helper.window.map(|it| format!(", window {it}")).unwrap_or_default();
        let own = if helper.explicit { " (auxiliary.compression)" } else { "" };
        let order = if index == 0 { "Asked" } else { "Else" };
        out::line(format!("  {order}: {} by {}{window}{own}", helper.model, helper.provider))?;
    }
    Ok(())
}

fn print_undone(undone: &Undone) -> anyhow::Result<()> {
    let (before, after) = undone.rows;
    let prompt = if undone.prompt_changed { "; the prompt of before it is back" } else { "" };
    out::line(format!(
        "the compaction of generation {} is taken back: {before} -> {after} rows{prompt}",
        undone.generation
    ))
}

/// `/recall`.
///
/// # Errors
/// If the history does not fit together, or there is nothing to look for.
pub fn recall(conversation: &Conversation, argument: &str) -> anyhow::Result<()> {
    let Some(query) = Query::parse(argument) else {
        return Err(Failure::new(
            Exit::Usage,
            "what is looked for is missing; hint: /recall r12, or /recall WORDS",
        )
        .into());
    };
    let found = conversation.recall(&query, 0)?;
    if found.is_empty() {
        return out::line(format!("no row of this conversation matches \"{argument}\""));
    }
    let texts: Vec<String> = found.iter().map(Recalled::render).collect();
    out::line(texts.join("\n\n"))
}

/// `hermes sessions compress`.
///
/// # Errors
/// If there is no such session, it is held, or nothing took effect.
pub fn compress(app: &App, flags: &Compress) -> anyhow::Result<Exit> {
    let wish = Wish {
        options: CompressOptions { keep: flags.here, focus: flags.focus.clone() },
        preview: flags.preview,
        undo: flags.undo,
    };
    let loaded = app.config()?;
    let store = app.store(hermes_store::OpenMode::ReadWrite)?;
    let info = app.own_session(&store, &flags.session)?;
    let configured = loaded.config.terminal.cwd.clone();
    let options = chat::options(app.workspace(&configured, info.cwd.as_deref())?);
    let services = app.plugged_services(loaded, store, Some(&info))?;
    let mut conversation = Conversation::resume(&services, &info, options)?;
    let screen = Screen::new(Show::AnswerOnly, false, &conversation.model().model);
    let done = chat::runtime()?.block_on(carry_out(
        &services,
        &mut conversation,
        &wish,
        &screen,
        &Cancel::default(),
    ));
    conversation.release()?;
    plugged::over(&services)?;
    services.store.close();
    done.map(|()| Exit::Ok)
}

/// `hermes sessions compactions`.
///
/// # Errors
/// If there is no such session or stdout is closed.
pub fn list(app: &App, session: &str, as_json: bool) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let info = app.session(&store, session)?;
    let status = compaction_status(&store, &info.id)?;
    if as_json {
        out::json(&status)?;
    } else {
        print_status(&status)?;
    }
    Ok(Exit::Ok)
}

fn print_status(status: &CompactionStatus) -> anyhow::Result<()> {
    let rows = status.attempts.iter().map(row).collect();
    out::table(
        &[
            "no",
            "when",
            "what",
            "why",
            "method",
            "rows",
            "tokens",
            "model",
            "ms",
            "helper tokens",
            "coverage",
            "outcome",
        ],
        rows,
        "no compaction was tried in this session",
    )?;
    if let Some(cooldown) = &status.memory.cooldown {
        out::line(format!("no helper model is asked before {}: {}", cooldown.until, cooldown.why))?;
    }
    Ok(())
}

fn row(attempt: &AttemptRecord) -> Vec<String> {
    let log = &attempt.log;
    let tokens = |it: Option<Tokens>| it.map_or_else(|| "?".to_owned(), |it| it.to_string());
    let (rows, sizes, outcome) = match &log.outcome {
        Outcome::Committed { generation, .. } => (
            format!("{} -> {}", log.rows_before, log.rows_after),
            format!("{} -> {}", tokens(log.before), tokens(log.after)),
            if attempt.in_force {
                format!("generation {generation}")
            } else {
                format!("generation {generation}, taken back or taken up")
            },
        ),
        Outcome::Rejected(why) => {
            (log.rows_before.to_string(), tokens(log.before), format!("rejected: {why}"))
        }
        Outcome::Deferred(why) => {
            (log.rows_before.to_string(), tokens(log.before), format!("put off: {why}"))
        }
    };
    let because = log.fallback_because.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let figure = |it: Option<u64>| it.map_or_else(|| "?".to_owned(), |it| it.to_string());
    let helper = match attempt.requests.len() {
        0 => String::new(),
        _ => format!("{} in, {} out", figure(attempt.helper.input), figure(attempt.helper.output)),
    };
    vec![
        attempt.no.to_string(),
        log.at.to_string(),
        log.kind.as_str().to_owned(),
        log.reason.as_str().to_owned(),
        log.method.map(Method::as_str).unwrap_or_default().to_owned(),
        rows,
        sizes,
        log.model.clone().unwrap_or_default(),
        log.millis.to_string(),
        helper,
        log.coverage.map(|it| format!("{} %", it.spoken_percent)).unwrap_or_default(),
        format!("{outcome}{because}"),
    ]
}

/// `hermes context views`.
///
/// # Errors
/// If there is no such session or stdout is closed.
pub fn views(app: &App, session: &str, as_json: bool) -> anyhow::Result<Exit> {
    let store = app.reader()?;
    let info = app.session(&store, session)?;
    let (counts, classes) = session_views(&store, &info.id)?;
    if as_json {
        let rows: Vec<_> =
            classes.iter().map(|(row, class)| json!({"row": row, "is": class})).collect();
        out::json(&json!({"session": info.id, "counts": counts, "rows": rows}))?;
        return Ok(Exit::Ok);
    }
    let figure =
        |it: Option<u64>| it.map_or_else(|| "nothing was sent".to_owned(), |it| it.to_string());
    let rows = [
        (
            "stored",
            counts.stored.to_string(),
            "messages ever said; none is ever changed or removed by a compaction",
        ),
        ("active", counts.active.to_string(), "messages that still stand, whole or shortened"),
        ("  shortened", counts.reduced.to_string(), "of them with a pointer in place of a part"),
        ("compacted", counts.compacted.to_string(), "messages in whose place a summary stands"),
        ("taken back", counts.hidden.to_string(), "messages that were undone or broke off"),
        (
            "summaries",
            format!("{} of {}", counts.summaries, counts.summaries_stored),
            "in force, of all that were written",
        ),
        (
            "live",
            counts.live.to_string(),
            "rows that the next request holds: active messages and summaries",
        ),
        ("sent", figure(counts.sent), "rows that the last request held"),
    ];
    let rows = rows.into_iter().map(|(a, b, c)| vec![a.to_owned(), b, c.to_owned()]).collect();
    out::table(&["view", "rows", "what it is"], rows, "")?;
    out::line(format!("rows by state: {}", ranges(&classes)))?;
    Ok(Exit::Ok)
}

/// Rows in stretches of one state.
fn ranges(classes: &[(hermes_core::Seq, Class)]) -> String {
    let word = |class: Class| match class {
        Class::Live => "live".to_owned(),
        Class::Reduced => "shortened".to_owned(),
        Class::Covered { by } => format!("compacted by r{by}"),
        Class::Hidden => "taken back".to_owned(),
    };
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some((first, class)) = classes.get(at) {
        let run = classes[at..].iter().take_while(|(_, other)| other == class).count();
        let last = classes[at + run - 1].0;
        let span =
            if *first == last { format!("r{first}") } else { format!("r{first} to r{last}") };
        out.push(format!("{span} {}", word(*class)));
        at += run;
    }
    out.join("; ")
}

/// Says what stands in the way of compactions, if anything does.
///
/// # Errors
/// If stdout is closed.
pub fn print_trouble(store: &Store, session: &str) -> anyhow::Result<()> {
    let trouble =
        compaction_status(store, &SessionId::new(session)).ok().and_then(|it| it.trouble());
    match trouble {
        Some(trouble) => out::line(format!("compaction: {trouble}")),
        None => Ok(()),
    }
}

/// Failed compactions of the last days, for `doctor`: session and what happened.
///
/// # Errors
/// If the store cannot be read.
pub fn failing(app: &App, store: &Store) -> anyhow::Result<Vec<(String, String)>> {
    const DAYS: i64 = 7;
    let since = app.env.now().plus_millis(-DAYS * 24 * 3600 * 1000);
    let found = store.failing_compactions(since).context("looking for failed compactions")?;
    Ok(found
        .into_iter()
        .filter_map(|(session, attempt)| {
            let log: Log = serde_json::from_str(&attempt.log).ok()?;
            let is_trouble = match &log.outcome {
                Outcome::Rejected(_) => log.kind != Kind::PruneToolResults,
                Outcome::Deferred(why) => !matches!(
                    why,
                    hermes_compaction::Deferral::ProviderFigure { .. }
                        | hermes_compaction::Deferral::CallsInFlight { .. }
                ),
                Outcome::Committed { .. } => false,
            };
            is_trouble.then(|| (session.to_string(), log.line()))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_read_from_words_and_flags() {
        let check = |text: &str, keep: Option<usize>, focus: Option<&str>, flags: (bool, bool)| {
            let wish = Wish::parse(text).unwrap();
            assert_eq!(wish.options.keep, keep, "{text}");
            assert_eq!(wish.options.focus.as_deref(), focus, "{text}");
            assert_eq!((wish.preview, wish.undo), flags, "{text}");
        };
        check("", None, None, (false, false));
        check("here 2", Some(2), None, (false, false));
        check("here", Some(1), None, (false, false));
        check(
            "here 3 the port numbers --preview",
            Some(3),
            Some("the port numbers"),
            (true, false),
        );
        check("here is what matters", None, Some("here is what matters"), (false, false));
        check("the schema", None, Some("the schema"), (false, false));
        check("--preview", None, None, (true, false));
        check("--undo", None, None, (false, true));
        assert!(Wish::parse("here 0").is_err());
        assert!(Wish::parse("--undo here 2").is_err());
        assert!(Wish::parse("--dry-run").is_err());
    }
}
