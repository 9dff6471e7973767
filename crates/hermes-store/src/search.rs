//! Search: tokens, index, questions, ranking, answers.
//!
//! Invariants: what is committed is found, whether it is in the index already or not (`tail.rs`), and
//! what is deleted is not; no question raises an error of the index, whatever is in it; the work for
//! one question is bounded, however many rows a word is in.

mod answer;
mod find;
mod fold;
pub(crate) mod index;
mod matching;
mod messages;
mod places;
mod question;
mod rank;
pub(crate) mod renew;
mod spooled;
mod stem;
mod tail;
mod together;
mod tokens;
mod when;

use std::collections::HashSet;

use hermes_core::{Role, Row, SessionId, Timestamp};
use rusqlite::Connection;
use serde::Serialize;

pub use answer::{SearchResult, SessionMeta, ShownMessage};
pub use when::parse_when;

use crate::rows::key_range;
use crate::store::Store;
use crate::{SessionFilter, StoreError, engage};
use answer::{Depth, Head, Wanted};
use index::Index;
use question::Question;
use rank::Bounds;
pub(crate) use rank::chain_of;

/// Bounds of a request.
const MOST_RESULTS: usize = 10;
const MOST_EXCLUDED: usize = 20;
const WIDEST: usize = 20;
/// Messages that reading a session shows from its beginning and its end.
const FIRST: usize = 20;
const LAST: usize = 10;

const NOTHING: &str = "nothing was found; hint: try fewer or other words, or role_filter \
                       \"user,assistant,tool\" for tool output";
const BEGUN: &str = "no message has these words; what is shown has words that begin so";

/// In which order results come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchSort {
    /// The best first.
    #[default]
    Relevance,
    /// The newest session first.
    Newest,
    /// The oldest session first.
    Oldest,
}

/// A search by words.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// What is looked for.
    pub query: String,
    /// Only inside this session.
    pub session: Option<SessionId>,
    /// Who said it. With [`Role::Tool`] tool output is searched too.
    pub roles: Vec<Role>,
    /// How many results, 1 to 10.
    pub limit: usize,
    /// Their order.
    pub sort: SearchSort,
    /// Only sessions that started at this point or later.
    pub after: Option<Timestamp>,
    /// Only sessions that started at this point or earlier.
    pub before: Option<Timestamp>,
    /// Not these, 20 at most.
    pub exclude: Vec<SessionId>,
    /// The session that asks: what its model still sees is not shown to it again.
    pub current: Option<SessionId>,
    /// Every result with its surroundings, not only the first.
    pub full: bool,
    /// The profile, for links.
    pub profile: String,
}

impl SearchRequest {
    /// A search for these words with nothing else to it.
    pub fn new(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            session: None,
            roles: vec![Role::User, Role::Assistant],
            limit: 5,
            sort: SearchSort::Relevance,
            after: None,
            before: None,
            exclude: Vec::new(),
            current: None,
            full: false,
            profile: "default".to_owned(),
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchAnswer {
    /// Always true: faults are errors.
    pub success: bool,
    /// `discover`, or `inside` for one session.
    pub mode: &'static str,
    /// The question.
    pub query: String,
    /// `adaptive` or `full`.
    pub detail: &'static str,
    /// What was found.
    pub results: Vec<SearchResult>,
    /// How many.
    pub count: usize,
    /// Sessions that had any of the words.
    pub sessions_searched: usize,
    /// What to do with links.
    pub link_hint: &'static str,
    /// What else is to be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A session, read from both ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadAnswer {
    /// Always true: faults are errors.
    pub success: bool,
    /// `read`.
    pub mode: &'static str,
    /// The session.
    pub session_id: String,
    /// Its facts.
    pub session_meta: SessionMeta,
    /// Messages in all.
    pub message_count: u64,
    /// The first and the last.
    pub messages: Vec<ShownMessage>,
    /// Whether some are left out between them.
    pub truncated: bool,
    /// A reference to it.
    pub link: String,
}

/// A window of messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScrollAnswer {
    /// Always true: faults are errors.
    pub success: bool,
    /// `scroll`.
    pub mode: &'static str,
    /// The session.
    pub session_id: String,
    /// The messages.
    pub messages: Vec<ShownMessage>,
    /// Messages before the first one shown.
    pub messages_before: u64,
    /// Messages after the last one shown.
    pub messages_after: u64,
    /// How to go on.
    pub hint: String,
    /// The message is in another session of the same conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// A reference to the session.
    pub link: String,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BrowseEntry {
    /// The session.
    pub session_id: String,
    /// A reference to it.
    pub link: String,
    /// The title.
    pub title: Option<String>,
    /// The surface.
    pub source: String,
    /// When it started.
    pub started_at: String,
    /// When it was last used.
    pub last_active: String,
    /// Messages in its view.
    pub message_count: u64,
    /// How it begins.
    pub preview: String,
}

/// The latest sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BrowseAnswer {
    /// Always true: faults are errors.
    pub success: bool,
    /// `browse`.
    pub mode: &'static str,
    /// The sessions.
    pub results: Vec<BrowseEntry>,
    /// How many.
    pub count: usize,
}

impl Store {
    /// Finds sessions by words, or messages by words inside one session.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is nothing to search for, [`StoreError::NotFound`] if the
    /// session is unknown.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, StoreError> {
        let question = Question::parse(&request.query);
        if question.terms.is_empty() {
            return Err(StoreError::Refused {
                what: format!("there is nothing to search for in {:?}", request.query),
                hint: "give at least one word, number or name; leave the query out to browse",
            });
        }
        let now = self.inner().now();
        let ask = |question: &Question| {
            let found =
                self.inner().read_at_once(|connection| search(connection, request, question, now));
            found.map(Option::unwrap_or_default)
        };
        let waiting = spooled::waiting(self)?;
        let both = |question: &Question| {
            let (mut results, searched) = match ask(question) {
                Err(StoreError::NotFound { .. })
                    if waiting.iter().any(|it| Some(&it.info.id) == request.session.as_ref()) =>
                {
                    (Vec::new(), 0)
                }
                other => other?,
            };
            let waiting = spooled::results(&waiting, request, question);
            let searched = searched + waiting.len();
            spooled::join(&mut results, waiting, request, request.limit.clamp(1, MOST_RESULTS));
            Ok::<_, StoreError>((results, searched))
        };
        let (mut results, mut sessions_searched) = both(&question)?;
        let mut begun = false;
        if results.is_empty()
            && let Some(question) = question.of_beginnings()
        {
            (results, sessions_searched) = both(&question)?;
            begun = !results.is_empty();
        }
        Ok(SearchAnswer {
            success: true,
            mode: if request.session.is_some() { "inside" } else { "discover" },
            query: request.query.clone(),
            detail: if request.full { "full" } else { "adaptive" },
            count: results.len(),
            message: match (results.is_empty(), begun) {
                (true, _) => Some(NOTHING.to_owned()),
                (_, true) => Some(BEGUN.to_owned()),
                _ => None,
            },
            results,
            sessions_searched,
            link_hint: "read a session with session_id; read around a message with session_id and \
                        around_message_id",
        })
    }

    /// The first and last messages of a session.
    pub fn read_session(
        &self,
        id: &SessionId,
        tools: bool,
        profile: &str,
    ) -> Result<ReadAnswer, StoreError> {
        let found = self.inner().read_at_once(|connection| {
            let Some(session_no) = engage::number_of(connection, id)? else { return Ok(None) };
            let Head { meta, .. } = answer::head(connection, session_no)?;
            let (messages, total) = answer::reading(connection, session_no, FIRST, LAST, tools)?;
            Ok(Some((meta, messages, total)))
        })?;
        let waiting = spooled::waiting(self)?;
        let waits = waiting.iter().find(|session| session.info.id == *id);
        let (session_meta, mut messages, mut message_count) = match (found.flatten(), waits) {
            (Some(found), _) => found,
            (None, Some(waits)) => (waits.meta(), Vec::new(), 0),
            (None, None) => return Err(self.missing(id)?),
        };
        if let Some(waits) = waits {
            messages.extend(waits.reading(LAST, tools));
            message_count += waits.rows.len() as u64;
        }
        Ok(ReadAnswer {
            success: true,
            mode: "read",
            session_id: id.to_string(),
            session_meta,
            message_count,
            truncated: (messages.len() as u64) < message_count,
            messages,
            link: answer::link(profile, id),
        })
    }

    /// A window of messages around one. The message may have moved to another session of the
    /// chain.
    pub fn scroll(
        &self,
        id: &SessionId,
        message: i64,
        window: usize,
        profile: &str,
    ) -> Result<ScrollAnswer, StoreError> {
        let window = window.clamp(1, WIDEST);
        let found = self.inner().read_at_once(|connection| {
            let Some(own) = engage::number_of(connection, id)? else { return Ok(None) };
            let chain = rank::chain_of(connection, id.as_str())?;
            let others = chain.into_iter().filter(|no| *no != own);
            for session_no in std::iter::once(own).chain(others) {
                if let Some(seq) = answer::seq_of_message(connection, session_no, message)? {
                    let head = answer::head(connection, session_no)?;
                    let shown = answer::window(connection, session_no, seq, window)?;
                    return Ok(Some(Some((head.id, shown))));
                }
            }
            Ok(Some(None))
        })?;
        let Some(known) = found.flatten() else { return Err(self.missing(id)?) };
        let Some((session, (messages, messages_before, messages_after))) = known else {
            return Err(StoreError::NotFound {
                what: "message",
                reference: format!("{message} in session {id}"),
                hint: "message ids come from search results and from reading the session"
                    .to_owned(),
            });
        };
        let ends = messages.first().zip(messages.last());
        Ok(ScrollAnswer {
            success: true,
            mode: "scroll",
            hint: ends.map_or_else(String::new, |(first, last)| {
                format!(
                    "earlier: around_message_id {}; later: around_message_id {}",
                    first.id, last.id
                )
            }),
            warning: (session != *id)
                .then(|| format!("the message is in session {session} of the same conversation")),
            link: answer::link(profile, &session),
            session_id: session.to_string(),
            messages,
            messages_before,
            messages_after,
        })
    }

    /// The first thing said in a session, on one line and cut; empty where there is none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn beginning(&self, id: &SessionId) -> Result<String, StoreError> {
        self.inner().read(|connection| preview(connection, id)).map(Option::unwrap_or_default)
    }

    /// The latest sessions with how each begins.
    pub fn browse(&self, limit: usize, profile: &str) -> Result<BrowseAnswer, StoreError> {
        let limit = limit.clamp(1, MOST_RESULTS);
        let filter = SessionFilter { limit: Some(limit), ..SessionFilter::default() };
        let mut results = Vec::new();
        for info in self.sessions(&filter)? {
            let preview = self.inner().read(|connection| preview(connection, &info.id))?;
            results.push(BrowseEntry {
                link: answer::link(profile, &info.id),
                session_id: info.id.to_string(),
                title: info.title,
                source: info.source,
                started_at: info.started_at.to_string(),
                last_active: info.last_activity_at.to_string(),
                message_count: info.message_count,
                preview: preview.unwrap_or_default(),
            });
        }
        Ok(BrowseAnswer { success: true, mode: "browse", count: results.len(), results })
    }
}

/// The first thing said by the person.
fn preview(connection: &Connection, id: &SessionId) -> Result<String, StoreError> {
    let Some(session_no) = engage::number_of(connection, id)? else { return Ok(String::new()) };
    let first = messages::near(connection, session_no, messages::Which::first(4), false)?;
    let said = first.iter().find(|shown| shown.row.role == Role::User).or(first.first());
    Ok(said.map_or_else(String::new, |shown| {
        answer::said(&shown.row).chars().take(160).collect::<String>().replace('\n', " ")
    }))
}

/// Results, and how many sessions had any of the words.
fn search(
    connection: &Connection,
    request: &SearchRequest,
    question: &Question,
    now: Timestamp,
) -> Result<(Vec<SearchResult>, usize), StoreError> {
    let tools = request.roles.contains(&Role::Tool);
    let mut indexes = Vec::new();
    if request.roles.iter().any(|role| *role != Role::Tool) {
        indexes.push(Index::Talk);
    }
    if tools {
        indexes.push(Index::Tool);
    }
    let limit = request.limit.clamp(1, MOST_RESULTS);
    let mut bounds = Bounds {
        roles: request.roles.clone(),
        after: request.after,
        before: request.before,
        exclude: HashSet::new(),
        current: HashSet::new(),
        hidden: request.session.is_some(),
        now,
        depth: if request.session.is_some() { rank::READ_INSIDE } else { rank::DEPTH },
    };
    for id in request.exclude.iter().take(MOST_EXCLUDED) {
        bounds.exclude.extend(rank::chain_of(connection, id.as_str())?);
    }
    let range = if let Some(id) = &request.session {
        let Some(session_no) = engage::number_of(connection, id)? else {
            return Err(StoreError::NotFound {
                what: "session",
                reference: id.to_string(),
                hint: "leave session_id out to search all".to_owned(),
            });
        };
        key_range(session_no)
    } else {
        if let Some(current) = &request.current {
            bounds.current.extend(engage::number_of(connection, current)?);
        }
        range_of(connection, request)?
    };
    let candidates = find::candidates(connection, question, &indexes, range)?;
    let searched: HashSet<i64> =
        candidates.documents.keys().map(|document| document >> crate::rows::SEQ_BITS).collect();
    let by_use = (!question.has_names() && request.session.is_none())
        .then(|| question.with_names(rank::names_by_use(question, &candidates)));
    let question = by_use.as_ref().unwrap_or(question);
    let mut ranked = rank::rank(connection, question, &candidates, &indexes, &bounds, limit)?;
    match request.sort {
        SearchSort::Relevance => {}
        SearchSort::Newest => ranked.sort_by_key(|found| std::cmp::Reverse(found.started_at)),
        SearchSort::Oldest => ranked.sort_by_key(|found| found.started_at),
    }
    if request.session.is_some() {
        // Each message is a result.
        ranked = ranked
            .into_iter()
            .flat_map(|session| {
                session
                    .hits
                    .clone()
                    .into_iter()
                    .map(move |hit| rank::Ranked { hits: vec![hit], ..session.clone() })
            })
            .collect();
    }
    if request.session.is_none() {
        // A branch begins with the messages of another session: one of them is enough.
        let mut known: Vec<(Row, Head)> = Vec::new();
        ranked.retain(|session| {
            let best = session.hits.first().and_then(|hit| hit.message.as_ref());
            let Some(row) = best.map(|message| &message.row) else { return true };
            let head = &session.head;
            let is_new = !known.iter().any(|(same, other)| same == row && head.is_related(other));
            if is_new {
                known.push((row.clone(), head.clone()));
            }
            is_new
        });
    }
    ranked.truncate(limit);
    if request.session.is_none() {
        places::choose(connection, question, &candidates, &indexes, &bounds, &mut ranked)?;
    }
    let wanted = Wanted { question, rarity: &candidates.rarity };
    let mut results = Vec::with_capacity(ranked.len());
    for (at, found) in ranked.into_iter().enumerate() {
        let full = request.full || (at == 0 && request.session.is_none());
        let depth = Depth { full, tools };
        results.push(answer::result(connection, wanted, found, &request.profile, depth)?);
    }
    Ok((results, searched.len()))
}

/// The documents of sessions that started in the time asked for. Numbers follow the order of
/// creation, so this bounds the index; ranking checks each session by itself.
fn range_of(connection: &Connection, request: &SearchRequest) -> Result<(i64, i64), StoreError> {
    use crate::db::Doing as _;
    if request.after.is_none() && request.before.is_none() {
        return Ok((0, i64::MAX));
    }
    let seconds = |at: Option<Timestamp>| at.map(Timestamp::as_seconds_f64);
    let (first, last): (Option<i64>, Option<i64>) = connection
        .query_row(
            "SELECT min(session_no), max(session_no) FROM sessions
             WHERE (?1 IS NULL OR started_at >= ?1) AND (?2 IS NULL OR started_at <= ?2)",
            rusqlite::params![seconds(request.after), seconds(request.before)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .doing("searching")?;
    Ok(match first.zip(last) {
        Some((first, last)) => (key_range(first).0, key_range(last).1),
        None => (1, 0),
    })
}
