//! What a search answers with: the shapes that `session_search` has had in Hermes Agent, and how
//! they are filled.

use std::borrow::Cow;

use hermes_core::{Origin, Role, Row, Seq, SessionId, Standing};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

use super::fold::without_escapes;
use super::index::Index;
use super::matching::excerpt;
use super::messages::{Message, Which, at, counts, near};
use super::question::Question;
use super::rank::{Hit, Ranked};
use crate::db::Doing as _;
use crate::{StoreError, read};

const DOING: &str = "reading what was found";

/// Characters of a message at the ends of a session, in a window, in a short result.
const BOOKEND: usize = 1200;
const IN_WINDOW: usize = 4000;
const IN_SHORT: usize = 700;
const IN_READ: usize = 2000;
const SNIPPET: usize = 240;

/// Messages around the hit of a full result, at the ends, around each hit of a short one.
const AROUND_FULL: usize = 5;
const ENDS: usize = 3;
const AROUND_SHORT: usize = 1;
/// Hits that a result shows, and the first of them that are shown with what stands around. One more
/// place that answers is worth more than the neighbours of the third.
const HITS: usize = 6;
const WITH_NEIGHBOURS: usize = 2;

/// A message as a search shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownMessage {
    /// Its id, for scrolling; 0 while it waits in a side file.
    pub id: i64,
    /// Who speaks.
    pub role: &'static str,
    /// What is said, perhaps cut.
    pub content: String,
    /// When, as RFC 3339.
    pub timestamp: String,
    /// The plugin that answered in the model's place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The tool that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// Tools that are called, with their arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<String>,
    /// The call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// It is what was found.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub anchor: bool,
    /// It is shown in part.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub content_truncated: bool,
    /// How long it is as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_content_chars: Option<usize>,
    /// It no longer goes to the model: a summary stands for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compacted: bool,
}

/// One session that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchResult {
    /// The session.
    pub session_id: String,
    /// When it started.
    pub when: String,
    /// The surface.
    pub source: String,
    /// The model.
    pub model: String,
    /// The title.
    pub title: Option<String>,
    /// Who said what was found; `session_title` if it is the title.
    pub matched_role: String,
    /// The message that was found.
    pub match_message_id: Option<i64>,
    /// The place in it.
    pub snippet: String,
    /// The first messages of the session.
    pub bookend_start: Vec<ShownMessage>,
    /// What was found and what stands around it.
    pub messages: Vec<ShownMessage>,
    /// The last messages of the session.
    pub bookend_end: Vec<ShownMessage>,
    /// Messages before the first one shown.
    pub messages_before: u64,
    /// Messages after the last one shown.
    pub messages_after: u64,
    /// `full` or `compact`.
    pub detail: &'static str,
    /// The session that it goes on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<String>,
    /// A reference to it.
    pub link: String,
}

/// A session without its messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionMeta {
    /// When it started.
    pub when: String,
    /// The surface.
    pub source: String,
    /// The model.
    pub model: String,
    /// The title.
    pub title: Option<String>,
}

/// The name of a session and the facts that results show.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) id: SessionId,
    pub(super) meta: SessionMeta,
    pub(super) parent: Option<String>,
}

impl Head {
    /// Whether one comes from the other, or both from the same session.
    pub(super) fn is_related(&self, other: &Self) -> bool {
        self.parent.as_deref() == Some(other.id.as_str())
            || other.parent.as_deref() == Some(self.id.as_str())
            || (self.parent.is_some() && self.parent == other.parent)
    }
}

pub(super) fn head(connection: &Connection, session_no: i64) -> Result<Head, StoreError> {
    connection
        .prepare_cached(
            "SELECT id, started_at, source, model, title, parent_session_id FROM sessions
             WHERE session_no = ?1",
        )
        .and_then(|mut statement| {
            statement.query_row([session_no], |row| {
                Ok(Head {
                    id: SessionId::new(row.get::<_, String>(0)?),
                    meta: SessionMeta {
                        when: read::time_of(row.get(1)?).to_string(),
                        source: row.get(2)?,
                        model: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
                        title: row.get(4)?,
                    },
                    parent: row.get(5)?,
                })
            })
        })
        .doing(DOING)
}

/// The seq of the message with this id.
pub(super) fn seq_of_message(
    connection: &Connection,
    session_no: i64,
    message: i64,
) -> Result<Option<Seq>, StoreError> {
    connection
        .query_row(
            "SELECT seq FROM row WHERE id = ?1 AND session_no = ?2",
            params![message, session_no],
            |row| row.get::<_, i64>(0),
        )
        .optional()
        .doing(DOING)
        .map(|seq| seq.map(|seq| Seq(seq as u64)))
}

/// What a row says, without the escapes that colour a terminal.
pub(super) fn said(row: &Row) -> String {
    let mut out = String::new();
    for part in &row.parts {
        if part.standing == Standing::ByOp || !part.origin.is_said(row.role) {
            continue;
        }
        let text = match &part.body {
            hermes_core::PartBody::Text { text } => text.to_string(),
            hermes_core::PartBody::Blob { media_type, bytes, .. } => {
                format!("[{media_type}, {bytes} bytes]")
            }
            _ => continue,
        };
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(&text);
    }
    match without_escapes(&out) {
        Cow::Owned(plain) => plain,
        Cow::Borrowed(_) => out,
    }
}

/// What is looked for, with the worth of each term.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) question: &'a Question,
    pub(super) rarity: &'a [f64],
}

impl Wanted<'_> {
    fn excerpt(self, text: &str, chars: usize) -> String {
        excerpt(self.question, self.rarity, text, chars)
    }
}

/// A message with at most `chars` characters, cut around what is looked for.
fn show(shown: &Message, wanted: Option<Wanted<'_>>, chars: usize, anchor: bool) -> ShownMessage {
    let row = &shown.row;
    let whole = said(row);
    let length = whole.chars().count();
    let content = match wanted {
        Some(wanted) if anchor => wanted.excerpt(&whole, chars),
        _ if length > chars => {
            let head: String = whole.chars().take(chars).collect();
            format!("{head} …")
        }
        _ => whole,
    };
    ShownMessage {
        id: shown.id,
        role: row.role.as_str(),
        content,
        timestamp: row.created_at.to_string(),
        plugin: row
            .parts
            .iter()
            .find(|part| part.origin == Origin::Hook && part.origin.is_said(row.role))
            .and_then(|part| part.label.as_deref())
            .map(str::to_owned),
        tool_name: row.tool.as_ref().map(|tool| tool.name.to_string()),
        tool_calls: row
            .tool_calls()
            .map(|(_, name, arguments)| {
                let arguments: String = arguments.chars().take(200).collect();
                format!("{name} {arguments}")
            })
            .collect(),
        tool_call_id: row.tool.as_ref().map(|tool| tool.call_id.to_string()),
        anchor,
        content_truncated: length > chars,
        original_content_chars: (length > chars).then_some(length),
        compacted: shown.compacted,
    }
}

/// A message that was found, in a short result.
pub(super) fn show_hit(message: &Message, wanted: Wanted<'_>) -> ShownMessage {
    show(message, Some(wanted), IN_SHORT, true)
}

/// A message of a session that is read.
pub(super) fn show_read(message: &Message) -> ShownMessage {
    show(message, None, IN_READ, false)
}

/// The place in a row that answers.
pub(super) fn snippet(row: &Row, wanted: Wanted<'_>, tools: bool) -> String {
    wanted.excerpt(&without_escapes(&searched(row, tools)), SNIPPET)
}

/// A reference that people and models can follow.
pub(super) fn link(profile: &str, id: &SessionId) -> String {
    format!("@session:{profile}/{id}")
}

/// How much of each session is shown.
#[derive(Clone, Copy)]
pub(super) struct Depth {
    pub(super) full: bool,
    pub(super) tools: bool,
}

/// A session that was found, with what stands around its hits.
pub(super) fn result(
    connection: &Connection,
    wanted: Wanted<'_>,
    ranked: Ranked,
    profile: &str,
    depth: Depth,
) -> Result<SearchResult, StoreError> {
    let session_no = ranked.session_no;
    let by_title = ranked.hits.first().is_some_and(|hit| hit.title);
    let hits: Vec<Hit> = ranked.hits.into_iter().filter(|hit| !hit.title).collect();
    let (snippet, matched_role) = match hits.first().and_then(|hit| hit.message.as_ref()) {
        Some(message) if !by_title => {
            (snippet(&message.row, wanted, depth.tools), message.row.role.as_str().to_owned())
        }
        _ => (ranked.head.meta.title.clone().unwrap_or_default(), "session_title".to_owned()),
    };
    let anchors: Vec<Seq> = hits.iter().map(|hit| hit.seq).collect();
    let end_of = |which: Which| -> Result<Vec<Message>, StoreError> {
        if depth.full { near(connection, session_no, which, depth.tools) } else { Ok(Vec::new()) }
    };
    let start = end_of(Which::first(ENDS))?;
    let end = end_of(Which::last(ENDS))?;
    let mut window = window_of(connection, session_no, hits, [&start, &end], depth)?;
    // A title alone: what the session begins with.
    if window.is_empty() {
        window = near(connection, session_no, Which::first(ENDS), depth.tools)?;
    }
    window.sort_by_key(|shown| shown.row.seq);
    let first = window.first().map_or(Seq(0), |shown| shown.row.seq);
    let last = window.last().map_or(Seq(0), |shown| shown.row.seq);
    let (messages_before, messages_after) = counts(connection, session_no, first, last)?;
    let outside = |messages: &[Message]| -> Vec<ShownMessage> {
        messages
            .iter()
            .filter(|shown| window.iter().all(|known| known.id != shown.id))
            .map(|shown| show(shown, None, BOOKEND, false))
            .collect()
    };
    let bookend_start = outside(&start);
    let bookend_end = outside(&end);
    let match_message_id =
        window.iter().find(|shown| Some(&shown.row.seq) == anchors.first()).map(|shown| shown.id);
    let chars = if depth.full { IN_WINDOW } else { IN_SHORT };
    Ok(SearchResult {
        session_id: ranked.head.id.to_string(),
        when: ranked.head.meta.when,
        source: ranked.head.meta.source,
        model: ranked.head.meta.model,
        matched_role,
        match_message_id,
        snippet,
        title: ranked.head.meta.title,
        bookend_start,
        messages: window
            .iter()
            .map(|shown| show(shown, Some(wanted), chars, anchors.contains(&shown.row.seq)))
            .collect(),
        bookend_end,
        messages_before,
        messages_after,
        detail: if depth.full { "full" } else { "compact" },
        parent_session_id: ranked.head.parent,
        link: link(profile, &ranked.head.id),
    })
}

/// The best hits with what stands around each; not in order. What is shown anyway, at an end of the
/// session or around a better hit, is not counted.
fn window_of(
    connection: &Connection,
    session_no: i64,
    hits: Vec<Hit>,
    ends: [&[Message]; 2],
    depth: Depth,
) -> Result<Vec<Message>, StoreError> {
    let mut window: Vec<Message> = Vec::new();
    let mut places = 0;
    for hit in hits {
        let Some(message) = hit.message else { continue };
        if places >= HITS {
            break;
        }
        if window.iter().any(|known| known.id == message.id) {
            continue;
        }
        let at_end = ends.iter().any(|end| end.iter().any(|known| known.id == message.id));
        let mut add = |message: Message| {
            if window.iter().all(|known| known.id != message.id) {
                window.push(message);
            }
        };
        let around = if places == 0 && depth.full { AROUND_FULL } else { AROUND_SHORT };
        if places < WITH_NEIGHBOURS {
            for which in [Which::Before(hit.seq, around), Which::After(hit.seq, around)] {
                near(connection, session_no, which, depth.tools)?.into_iter().for_each(&mut add);
            }
        }
        add(message);
        if places == 0 || !at_end {
            places += 1;
        }
    }
    Ok(window)
}

/// The text in which something was found.
fn searched(row: &Row, tools: bool) -> String {
    let talk = super::index::text_of(row, Index::Talk);
    if tools && (talk.is_empty() || row.role == Role::Tool) {
        super::index::text_of(row, Index::Tool)
    } else {
        talk
    }
}

/// The first and last messages of a session for reading, with the number of all.
pub(super) fn reading(
    connection: &Connection,
    session_no: i64,
    first: usize,
    last: usize,
    tools: bool,
) -> Result<(Vec<ShownMessage>, u64), StoreError> {
    let (_, total) = counts(connection, session_no, Seq(0), Seq(0))?;
    let mut shown = near(connection, session_no, Which::first(first), tools)?;
    for message in near(connection, session_no, Which::last(last), tools)? {
        if shown.iter().all(|known| known.id != message.id) {
            shown.push(message);
        }
    }
    Ok((shown.iter().map(show_read).collect(), total))
}

/// A window around a message.
pub(super) fn window(
    connection: &Connection,
    session_no: i64,
    seq: Seq,
    around: usize,
) -> Result<(Vec<ShownMessage>, u64, u64), StoreError> {
    let mut shown = near(connection, session_no, Which::Before(seq, around), true)?;
    shown.extend(at(connection, session_no, seq)?);
    shown.extend(near(connection, session_no, Which::After(seq, around), true)?);
    let first = shown.first().map_or(seq, |shown| shown.row.seq);
    let last = shown.last().map_or(seq, |shown| shown.row.seq);
    let (before, after) = counts(connection, session_no, first, last)?;
    let shown =
        shown.iter().map(|shown| show(shown, None, IN_WINDOW, shown.row.seq == seq)).collect();
    Ok((shown, before, after))
}
