//! `hermes`, `hermes chat` and `hermes -z`: a conversation, or one thing said in it.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use anyhow::Context as _;
use hermes_agent::handoff::{END_REASON, lane_of};
use hermes_agent::{Cancel, Conversation, Image, Services, StartOptions, TurnReport, UserInput};
use hermes_context::Workspace;
use hermes_core::{RequestId, SessionId, TurnOutcome, Usage};
use hermes_handoff::{Policy, Start, trigger};
use hermes_home::Config;
use hermes_store::{SessionInfo, Store};
use serde::Serialize;

use crate::app::App;
use crate::cli::Chat;
use crate::commands::{handoff, upkeep};
use crate::exit::{Exit, Failure};
use crate::render::{Screen, Show};
use crate::signals::Signals;
use crate::{approve, out, plugged, repl, said};

/// `hermes` without a command.
///
/// # Errors
/// If the conversation cannot be held.
pub fn talk(app: &App) -> anyhow::Result<Exit> {
    match &app.talk.oneshot {
        Some(text) => {
            let first = Beginning { quiet: true, ..Beginning::default() };
            once(app, &said::message(text)?, Vec::new(), Answer::Quiet, &first)
        }
        None => chat(app, &Chat::default()),
    }
}

/// `hermes chat`.
///
/// # Errors
/// If the conversation cannot be held.
pub fn chat(app: &App, flags: &Chat) -> anyhow::Result<Exit> {
    let form = match (flags.json, flags.quiet) {
        (true, _) => Answer::Json,
        (false, true) => Answer::Quiet,
        (false, false) => Answer::Streamed,
    };
    if flags.fresh && (app.talk.resume.is_some() || app.talk.continue_latest) {
        return Err(Failure::new(
            Exit::Usage,
            "--fresh starts a new session; hint: leave --resume and --continue out",
        )
        .into());
    }
    let images = flags.image.iter().map(|path| image(path)).collect::<Result<Vec<_>, _>>()?;
    // A script that wants the answer alone gets no capsule unless it asks for it.
    let first = Beginning {
        quiet: form != Answer::Streamed && !flags.fresh,
        fresh: flags.fresh,
        capsule: None,
    };
    match &flags.query {
        Some(text) => {
            let text = said::message(text)?;
            // A script's text and a picture's caption are messages, whatever they say.
            let typed = form == Answer::Streamed && images.is_empty();
            match trigger::requested(&text).filter(|_| typed) {
                Some(wanted) if Policy::of(&app.config()?.config).active => {
                    handoff::wrap_up(app, &wanted)
                }
                _ => once(app, &text, images, form, &first),
            }
        }
        // Piped text is one message.
        None if !io::stdin().is_terminal() => once(app, &said::piped()?, images, form, &first),
        None if form == Answer::Json => Err(Failure::new(
            Exit::Usage,
            "--json needs a message; hint: give one with -q TEXT, or pipe it in",
        )
        .into()),
        None => repl::run(app, &first),
    }
}

/// Starts a session here from a capsule of any lane.
///
/// # Errors
/// If the conversation cannot be held.
pub fn with_capsule(app: &App, capsule: String, say: &str) -> anyhow::Result<Exit> {
    let first = Beginning { capsule: Some(capsule), ..Beginning::default() };
    once(app, say, Vec::new(), Answer::Streamed, &first)
}

/// How a session comes to its first turn.
#[derive(Debug, Default)]
pub struct Beginning {
    /// A script wants an answer and nothing else.
    quiet: bool,
    /// The person asks for the capsule that waits.
    fresh: bool,
    /// The capsule to go on from.
    capsule: Option<String>,
}

/// How the answer of one turn is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Streamed,
    Quiet,
    Json,
}

/// The `--json` form of one turn.
#[derive(Serialize)]
struct TurnJson<'a> {
    session_id: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    answer: &'a str,
    requests: Vec<&'a str>,
    usage: Usage,
}

/// Says one thing and prints the answer.
fn once(
    app: &App,
    text: &str,
    images: Vec<Image>,
    form: Answer,
    first: &Beginning,
) -> anyhow::Result<Exit> {
    let (services, mut conversation) = open(app, first, false)?;
    if conversation.model().provider == "rehearsal" {
        let chosen = services.config.model.provider.trim().eq_ignore_ascii_case("rehearsal");
        out::note(if chosen {
            "note: this is the rehearsal provider, as chosen; it is no language model"
        } else {
            "note: no provider is configured; this is the rehearsal provider, which is no \
             language model (hint: `hermes setup`)"
        });
    }
    let show = if form == Answer::Streamed { Show::Everything } else { Show::AnswerOnly };
    let screen =
        Screen::new(show, services.config.display.show_reasoning, &conversation.model().model);
    let cancel = Cancel::default();
    let input = UserInput { images, ..UserInput::text(text) };
    let mut signalled = None;
    let report = runtime()?.block_on(async {
        let stop = cancel.clone();
        let mut signals = Signals::listen().context("signals cannot be watched")?;
        plugged::start(&services).await;
        let turn = conversation.turn(&services, input, &screen, &cancel);
        tokio::pin!(turn);
        loop {
            tokio::select! {
                report = &mut turn => break report.map_err(anyhow::Error::from),
                exit = signals.next() => {
                    signalled.get_or_insert(exit);
                    stop.cancel();
                }
            }
        }
    })?;
    conversation.release()?;
    let due = match form {
        Answer::Streamed => hermes_agent::due(&services, &report.session)?,
        Answer::Quiet | Answer::Json => None,
    };
    upkeep::retain(app, &services.store, &services.config.sessions, conversation.id());
    plugged::farewell(&services, &conversation, "exit")?;
    services.store.close();
    match form {
        Answer::Streamed => {
            let id = &report.session;
            out::note(format!("\nsession {id} (hint: hermes --resume {id} goes on with it)"));
            if let Some(due) = due {
                out::note(format!(
                    "{}; hint: `hermes handoff build --session-id {id}` makes the capsule that a \
                     new session goes on from",
                    due.why
                ));
            }
        }
        Answer::Quiet if report.outcome == TurnOutcome::Answered => out::line(&report.answer)?,
        Answer::Quiet => {}
        Answer::Json => out::json(&json(&report))?,
    }
    match (&report.outcome, signalled) {
        (TurnOutcome::Interrupted, Some(exit)) => Ok(exit),
        _ => ended(&report),
    }
}

/// The exit code of a turn; a failure is told on stderr.
fn ended(report: &TurnReport) -> anyhow::Result<Exit> {
    match &report.outcome {
        TurnOutcome::Answered => Ok(Exit::Ok),
        TurnOutcome::Interrupted => Ok(Exit::Interrupted),
        TurnOutcome::Failed(why) => Err(Failure::new(Exit::Provider, why.clone()).into()),
        TurnOutcome::LimitReached(calls) => Err(Failure::new(
            Exit::Provider,
            format!(
                "the turn was ended after {calls} model calls; hint: go on with another message, \
                 or raise agent.max_turns"
            ),
        )
        .into()),
    }
}

fn json(report: &TurnReport) -> TurnJson<'_> {
    let (outcome, error) = match &report.outcome {
        TurnOutcome::Answered => ("answered", None),
        TurnOutcome::Interrupted => ("interrupted", None),
        TurnOutcome::Failed(why) => ("failed", Some(why.clone())),
        TurnOutcome::LimitReached(calls) => {
            ("limit_reached", Some(format!("{calls} model calls in one turn")))
        }
    };
    TurnJson {
        session_id: report.session.as_str(),
        outcome,
        error,
        answer: &report.answer,
        requests: report.requests.iter().map(RequestId::as_str).collect(),
        usage: report.usage,
    }
}

/// Opens the store and the conversation that the flags ask for. `takes_messages` says whether
/// messages that plugins put into it are said there.
///
/// # Errors
/// If configuration, store or session cannot be used.
pub fn open(
    app: &App,
    first: &Beginning,
    takes_messages: bool,
) -> anyhow::Result<(Services, Conversation)> {
    let loaded = app.config()?;
    let store = app.store_for_turns()?;
    let mut stored = app.wanted_session(&store)?;
    let configured = loaded.config.terminal.cwd.clone();
    let folder = stored.as_ref().and_then(|info| info.cwd.as_deref());
    let mut options = options(app.workspace(&configured, folder)?);
    if first.quiet {
        options.start = Start::Quiet;
    }
    options.capsule.clone_from(&first.capsule);
    let ended = |info: &SessionInfo| info.end_reason.as_deref() == Some(END_REASON);
    if app.talk.wants_latest()
        && let Some(info) = stored.take_if(|info| ended(info))
        && !goes_on_from_capsule(app, &loaded.config, &store, &options, &info)?
    {
        stored = Some(info);
    }
    let mut services = app.services(loaded, store, stored.as_ref())?;
    let folder = stored.as_ref().and_then(|info| info.cwd.as_deref());
    plugged::plug_in(app, &mut services, folder, takes_messages);
    let conversation = match &stored {
        Some(info) => Conversation::resume(&services, info, options)?,
        None => Conversation::start(&services, options)?,
    };
    if first.fresh && conversation.waiting_capsule(&services).is_none() {
        out::note("note: no capsule waits for this workspace (hint: `hermes handoff list`)");
    }
    for warning in conversation.warnings() {
        out::note(format!("warning: {warning}"));
    }
    Ok((services, conversation))
}

/// Whether to go on from a latest session that ended with a handoff means a new session, which
/// its capsule waits for. The person is told either way.
fn goes_on_from_capsule(
    app: &App,
    config: &Config,
    store: &Store,
    options: &StartOptions,
    info: &SessionInfo,
) -> anyhow::Result<bool> {
    let id = &info.id;
    let lane = lane_of(&options.workspace).filter(|_| Policy::of(config).delivers());
    let waiting = match lane {
        Some(lane) => {
            let nobody = SessionId::new("");
            handoff::handoffs(app, store).waiting(&lane, &nobody, options.start)?
        }
        None => None,
    };
    let goes_on = waiting.is_some();
    out::note(if goes_on {
        format!(
            "note: session {id} ended with a handoff, so a new session goes on from its capsule \
             (hint: hermes --resume {id} takes the old one up again)"
        )
    } else {
        let fresh = if options.start == Start::Quiet {
            "; hint: `hermes chat --fresh` starts a new one from its capsule"
        } else {
            ", as no capsule of it waits"
        };
        format!("note: session {id} ended with a handoff and is taken up again{fresh}")
    });
    Ok(goes_on)
}

/// How every conversation of this surface is held.
pub fn options(workspace: Workspace) -> StartOptions {
    StartOptions {
        delegates: true,
        start: Start::ByPerson,
        ..StartOptions::new(workspace, "cli".to_owned(), approve::approver())
    }
}

/// The runtime of a process that holds one conversation: one thread is enough.
///
/// # Errors
/// If the system refuses.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the asynchronous runtime did not start")
}

/// First bytes and media type of the images that chat-completions endpoints take.
const IMAGE_TYPES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// The largest image, in bytes. Providers take less; a file by mistake is often larger.
const LARGEST_IMAGE: u64 = 20 << 20;

fn image(path: &Path) -> anyhow::Result<Image> {
    let refused =
        |why: String| Failure::new(Exit::Usage, format!("--image {} {why}", path.display()));
    let unreadable = |error| refused(format!("cannot be read: {error}; hint: check the path"));
    // Looked at before it is opened: opening a pipe waits for its other end.
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        let what = if meta.is_dir() { "a folder" } else { "a device or a pipe" };
        return Err(refused(format!("is {what}; hint: name an image file")).into());
    }
    let too_large = |size: u64| {
        refused(format!(
            "has {size} bytes, at most {LARGEST_IMAGE} can be sent; hint: make the image smaller"
        ))
    };
    if meta.len() > LARGEST_IMAGE {
        return Err(too_large(meta.len()).into());
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // Files of /proc have no size until they are read.
    file.take(LARGEST_IMAGE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST_IMAGE {
        return Err(too_large(bytes.len() as u64).into());
    }
    let media_type = IMAGE_TYPES
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic))
        // Sound and video come in the same container.
        .filter(|(magic, _)| *magic != b"RIFF" || bytes.get(8..12) == Some(b"WEBP"))
        .map(|(_, media_type)| (*media_type).to_owned())
        .ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                format!(
                    "--image {} is no PNG, JPEG, GIF or WebP image; hint: convert it, or name its \
                     path in the message",
                    path.display()
                ),
            )
        })?;
    Ok(Image { media_type, bytes })
}
