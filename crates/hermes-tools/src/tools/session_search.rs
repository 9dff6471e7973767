//! `session_search`: past conversations by words, then around a hit. A query with a session
//! searches inside that session; tool output is searched only when asked for.

use std::sync::Arc;

use hermes_core::{Role, SessionId, Timestamp, ToolSink};
use hermes_store::{
    OpenMode, SearchRequest, SearchSort, Store, StoreError, StorePaths, parse_when,
};
use serde::Serialize;

use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome};

/// Results without a wish of the caller's.
const RESULTS: usize = 5;
/// Messages before and after the one scrolled to.
const WINDOW: usize = 5;

pub(super) const TOOL: Tool = Tool {
    name: "session_search",
    json: concat!(
        r#"{"type":"function","function":{"name":"session_search","description":"#,
        r#""Past conversations. query: find by words (\"a phrase\", NOT word, begin*). query with session_id: find inside that session. session_id: read it. session_id and around_message_id: read around a message. Nothing: the latest sessions. Tool output is searched only with role_filter user,assistant,tool.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""query":{"type":"string"},"#,
        r#""session_id":{"type":"string"},"#,
        r#""around_message_id":{"type":"integer"},"#,
        r#""window":{"type":"integer","description":"messages on each side, 1 to 20"},"#,
        r#""role_filter":{"type":"string","description":"comma list of user, assistant, tool"},"#,
        r#""limit":{"type":"integer","description":"1 to 10"},"#,
        r#""sort":{"type":"string","enum":["relevance","newest","oldest"]},"#,
        r#""detail":{"type":"string","enum":["adaptive","full"]},"#,
        r#""after":{"type":"string","description":"date, date and time, or 12h, 3d, 2w ago"},"#,
        r#""before":{"type":"string"},"#,
        r#""exclude_session_ids":{"type":"string","description":"comma list"},"#,
        r#""profile":{"type":"string"}},"required":[]}}}"#,
    ),
    params: &[
        Param::optional("query", Kind::Text),
        Param::optional("session_id", Kind::Text),
        Param::optional("around_message_id", Kind::Whole(0)),
        Param::optional("window", Kind::Whole(0)),
        Param::optional("role_filter", Kind::Names),
        Param::optional("limit", Kind::Whole(0)),
        Param::optional("sort", Kind::OneOf(&["relevance", "newest", "oldest"])),
        Param::optional("detail", Kind::OneOf(&["adaptive", "full"])),
        Param::optional("after", Kind::Text),
        Param::optional("before", Kind::Text),
        Param::optional("exclude_session_ids", Kind::Names),
        Param::optional("profile", Kind::Text),
    ],
    offered: |_| true,
    run,
};

fn run<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(async move {
        outcome(search(bench, &args).map_err(|why| format!("session_search: {why}")))
    })
}

/// The store that a call means, and the profile's name for links.
struct Where {
    store: Store,
    profile: String,
    /// The session that asks, if it is in this store.
    current: Option<SessionId>,
}

fn search(bench: &Workbench, args: &Args) -> Result<String, String> {
    let given = |name: &str| args.text(name).map(str::trim).filter(|text| !text.is_empty());
    let (of_id, session) = given("session_id").map(of_link).unzip();
    let place = open(bench, of_id.flatten().or(given("profile")))?;
    let fault = |error: StoreError| error.to_string();
    let session = session.map(|id| resolved(&place.store, id)).transpose().map_err(fault)?;
    let profile = &place.profile;
    match (given("query"), session, args.whole("around_message_id")) {
        (_, Some(session), Some(message)) => {
            let window = args.whole("window").unwrap_or(WINDOW);
            let message = i64::try_from(message).unwrap_or(i64::MAX);
            json(&place.store.scroll(&session, message, window, profile).map_err(fault)?)
        }
        (Some(query), session, _) => {
            let request = request(bench, args, query, session, &place)?;
            json(&place.store.search(&request).map_err(fault)?)
        }
        (None, Some(session), None) => {
            let tools = roles(given("role_filter"))?.contains(&Role::Tool);
            json(&place.store.read_session(&session, tools, profile).map_err(fault)?)
        }
        (None, None, Some(_)) => Err("around_message_id needs session_id".to_owned()),
        (None, None, None) => json(&place.store.browse(limit(args), profile).map_err(fault)?),
    }
}

/// The profile, if one is named, and the id in `id`, `profile/id` or `@session:profile/id`.
fn of_link(text: &str) -> (Option<&str>, &str) {
    let link = text.trim_start_matches("@session:");
    link.split_once('/').map_or((None, link), |(profile, id)| (Some(profile), id))
}

/// The session with this id, with an id that begins so, or with this title; what is none of them is
/// for the search to refuse.
fn resolved(store: &Store, text: &str) -> Result<SessionId, StoreError> {
    match store.resolve(text, None) {
        Ok(id) if text != "latest" => Ok(id),
        Err(error @ StoreError::Ambiguous { .. }) => Err(error),
        _ => Ok(SessionId::new(text)),
    }
}

fn request(
    bench: &Workbench,
    args: &Args,
    query: &str,
    session: Option<SessionId>,
    place: &Where,
) -> Result<SearchRequest, String> {
    let now = bench.env.now();
    let mut request = SearchRequest::new(query);
    request.session = session;
    request.roles = roles(args.text("role_filter"))?;
    request.limit = limit(args);
    request.sort = match args.text("sort") {
        Some("newest") => SearchSort::Newest,
        Some("oldest") => SearchSort::Oldest,
        _ => SearchSort::Relevance,
    };
    request.after = moment(args, "after", now)?;
    request.before = moment(args, "before", now)?;
    request.exclude = args
        .text("exclude_session_ids")
        .unwrap_or_default()
        .split(',')
        .map(|id| of_link(id.trim()).1)
        .filter(|id| !id.is_empty())
        .map(SessionId::new)
        .collect();
    request.current.clone_from(&place.current);
    request.full = args.text("detail") == Some("full");
    request.profile.clone_from(&place.profile);
    Ok(request)
}

fn limit(args: &Args) -> usize {
    args.whole("limit").unwrap_or(RESULTS).clamp(1, 10)
}

fn moment(args: &Args, name: &str, now: Timestamp) -> Result<Option<Timestamp>, String> {
    match args.text(name).map(str::trim).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => parse_when(text, now).map(Some).ok_or_else(|| {
            format!(
                "{name} \"{text}\" is no point in time; wanted 2026-11-30, 2026-11-30T09:00 or 3d"
            )
        }),
    }
}

/// Who is listened to; person and model where nothing is said.
fn roles(filter: Option<&str>) -> Result<Vec<Role>, String> {
    let mut roles = Vec::new();
    for word in filter.unwrap_or_default().split(',').map(str::trim).filter(|w| !w.is_empty()) {
        roles.push(match word {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            other => {
                return Err(format!("unknown role \"{other}\"; known: user, assistant, tool"));
            }
        });
    }
    if roles.is_empty() {
        roles = vec![Role::User, Role::Assistant];
    }
    Ok(roles)
}

fn open(bench: &Workbench, profile: Option<&str>) -> Result<Where, String> {
    let own = profile.is_none_or(|profile| profile == bench.home.profile());
    let home = match profile {
        Some(profile) if !own => {
            bench.home.existing_profile(profile).map_err(|error| error.to_string())?
        }
        _ => bench.home.clone(),
    };
    let opened = || {
        let paths = StorePaths {
            db: home.store_path(),
            spool_dir: home.spool_dir(),
            drafts_dir: home.drafts_dir(),
        };
        Store::open(paths, Arc::clone(&bench.env), OpenMode::ReadOnly)
            .map_err(|error| error.to_string())
    };
    let store = match bench.past.get() {
        Some(store) if own => store.clone(),
        _ => opened()?,
    };
    if own {
        // A call beside this one may have been quicker; its store is as good.
        let _same = bench.past.set(store.clone());
    }
    Ok(Where {
        store,
        profile: home.profile().to_owned(),
        current: bench.session.clone().filter(|_| own),
    })
}

fn json(answer: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(answer).map_err(|error| error.to_string())
}
