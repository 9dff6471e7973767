//! `hermes sessions search`: past conversations by words, then around a hit.

use hermes_core::{Role, Timestamp};
use hermes_store::{SearchRequest, SearchSort, ShownMessage, Store, parse_when};

use crate::app::App;
use crate::cli::stored::{Order, Search};
use crate::exit::{Exit, Failure};
use crate::out::{self, Paint, ellipsis};

/// Characters of a message in a list of results.
const SHOWN: usize = 300;

/// Carries out the command.
///
/// # Errors
/// If the store cannot be read, there is nothing to search for, or a session is unknown.
pub fn run(app: &App, flags: &Search) -> anyhow::Result<Exit> {
    if app.talk.resume.is_some() || app.talk.continue_latest {
        let text = "a search takes up no session; hint: words that begin with a dash go behind --, as in \
                    hermes sessions search -- rm -rf";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let store = app.reader()?;
    let query = flags.query.join(" ");
    // Words that are there and say nothing are a question without an answer; none at all is a list.
    let asks = !flags.query.is_empty();
    let session = match &flags.session_id {
        Some(reference) => Some(app.session(&store, of_link(app, reference))?.id),
        None => None,
    };
    let profile = app.home.profile();
    match (session, flags.around) {
        (Some(id), Some(message)) => {
            let answer = store.scroll(&id, message, flags.window, profile)?;
            if flags.json {
                out::json(&answer)?;
            } else {
                print(&answer.messages, usize::MAX)?;
                out::note(format!(
                    "{} messages before, {} after; {}",
                    answer.messages_before, answer.messages_after, answer.hint
                ));
            }
            Ok(Exit::Ok)
        }
        (Some(id), None) if !asks => {
            let tools = roles(&flags.role_filter)?.contains(&Role::Tool);
            let answer = store.read_session(&id, tools, profile)?;
            if flags.json {
                out::json(&answer)?;
            } else {
                print(&answer.messages, usize::MAX)?;
                if answer.truncated {
                    out::note(format!(
                        "{} of {} messages; hint: --around ID shows others",
                        answer.messages.len(),
                        answer.message_count
                    ));
                }
            }
            Ok(Exit::Ok)
        }
        (None, _) if !asks => browse(app, &store, flags),
        (session, _) => {
            let mut request = SearchRequest::new(query);
            request.session = session;
            request.roles = roles(&flags.role_filter)?;
            request.limit = flags.limit;
            request.sort = match flags.sort {
                Order::Relevance => SearchSort::Relevance,
                Order::Newest => SearchSort::Newest,
                Order::Oldest => SearchSort::Oldest,
            };
            request.after = when(app, "--after", flags.after.as_deref())?;
            request.before = when(app, "--before", flags.before.as_deref())?;
            request.full = flags.full;
            profile.clone_into(&mut request.profile);
            for reference in &flags.exclude {
                request.exclude.push(app.session(&store, of_link(app, reference))?.id);
            }
            find(&store, &request, flags.json)
        }
    }
}

/// The id in a link of a result, such as `@session:default/20261130_101500_3fa2c1`, if it is of this
/// profile; else the text itself.
fn of_link<'a>(app: &App, reference: &'a str) -> &'a str {
    let linked = reference.strip_prefix("@session:").and_then(|link| link.split_once('/'));
    match linked {
        Some((profile, id)) if profile == app.home.profile() => id,
        _ => reference,
    }
}

fn find(store: &Store, request: &SearchRequest, json: bool) -> anyhow::Result<Exit> {
    let answer = store.search(request)?;
    let exit = if answer.count == 0 { Exit::NotFound } else { Exit::Ok };
    if json {
        out::json(&answer)?;
        return Ok(exit);
    }
    let paint = Paint::stdout();
    for result in &answer.results {
        let title = result.title.as_deref().unwrap_or("untitled");
        out::line(format!("{}  {}  {title}", paint.bold(&result.session_id), result.when))?;
        for message in result.messages.iter().filter(|message| message.anchor) {
            out::line(format!(
                "  {} {}: {}",
                message.id,
                message.role,
                ellipsis(&message.content.replace('\n', " "), SHOWN)
            ))?;
        }
        if result.matched_role == "session_title" {
            out::line("  its title")?;
        }
    }
    if let Some(message) = &answer.message {
        out::note(message);
    }
    Ok(exit)
}

fn browse(app: &App, store: &Store, flags: &Search) -> anyhow::Result<Exit> {
    let answer = store.browse(flags.limit, app.home.profile())?;
    if flags.json {
        out::json(&answer)?;
        return Ok(Exit::Ok);
    }
    if answer.results.is_empty() {
        out::note("no session is stored yet; hint: hermes chat -q hello");
    }
    for entry in &answer.results {
        let title = entry.title.as_deref().unwrap_or(&entry.preview);
        out::line(format!("{}  {}  {title}", entry.session_id, entry.last_active))?;
    }
    Ok(Exit::Ok)
}

fn print(messages: &[ShownMessage], chars: usize) -> anyhow::Result<()> {
    let paint = Paint::stdout();
    for message in messages {
        let tool = message.tool_name.as_deref().unwrap_or_default();
        let head = format!("{} {} {tool} {}", message.id, message.role, message.timestamp);
        out::line(if message.anchor { paint.bold(&head) } else { paint.dim(&head) })?;
        for call in &message.tool_calls {
            out::line(format!("[call] {call}"))?;
        }
        out::line(message.content.chars().take(chars).collect::<String>())?;
        out::line("")?;
    }
    Ok(())
}

/// Who is listened to; person and model where nothing is said.
fn roles(filter: &str) -> anyhow::Result<Vec<Role>> {
    let roles: Vec<Role> = filter
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| match word {
            "user" => Ok(Role::User),
            "assistant" => Ok(Role::Assistant),
            "tool" => Ok(Role::Tool),
            other => {
                let text = format!("unknown role \"{other}\"; hint: user, assistant or tool");
                Err(anyhow::Error::from(Failure::new(Exit::Usage, text)))
            }
        })
        .collect::<Result<_, _>>()?;
    Ok(if roles.is_empty() { vec![Role::User, Role::Assistant] } else { roles })
}

/// A point in time from a flag.
///
/// # Errors
/// If it is none.
pub fn when(app: &App, flag: &str, text: Option<&str>) -> anyhow::Result<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    parse_when(text, app.env.now()).map(Some).ok_or_else(|| {
        let text = format!(
            "{flag} \"{text}\" is no point in time; hint: 2026-11-30, 2026-11-30T09:00, or 12h, 3d, \
             2w ago"
        );
        Failure::new(Exit::Usage, text).into()
    })
}
