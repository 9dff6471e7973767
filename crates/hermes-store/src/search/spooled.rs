//! Messages that wait in side files, because the database could not be written when they were said.
//! They are few, so each is held against the question by itself.
//!
//! Invariant: what the database has is not found here too.

use hermes_core::{Role, Row, Standing};

use super::answer::{self, SearchResult, SessionMeta, ShownMessage};
use super::index::{Index, text_of};
use super::matching::match_text;
use super::messages::Message;
use super::question::Question;
use super::{MOST_EXCLUDED, SearchRequest, SearchSort};
use crate::store::Store;
use crate::{ParentKind, Record, SessionInfo, StoreError, engage, spool};

/// Messages that a result shows.
const SHOWN: usize = 6;

/// A session with its rows that are in a side file alone.
pub(super) struct Waiting {
    pub(super) info: SessionInfo,
    pub(super) rows: Vec<Row>,
}

/// All that waits.
///
/// # Errors
/// If the database cannot be read.
pub(super) fn waiting(store: &Store) -> Result<Vec<Waiting>, StoreError> {
    let mut found = Vec::new();
    for spool in spool::scan(&store.inner().paths().spool_dir) {
        let id = &spool.header.session;
        let mut rows: Vec<Row> = Vec::new();
        for record in spool.records() {
            match record {
                Record::Row(row) if row.standing == Standing::InOrder => rows.push(row.clone()),
                Record::Part(part) => {
                    if let Some(row) = rows.iter_mut().find(|row| row.seq == part.row) {
                        row.parts.push(part.clone());
                        row.sort_parts();
                    }
                }
                _ => {}
            }
        }
        // A crash may have left the file behind after it was taken in.
        store.inner().read(|connection| {
            let Some(session_no) = engage::number_of(connection, id)? else { return Ok(()) };
            let mut left = Vec::new();
            for row in std::mem::take(&mut rows) {
                if super::messages::at(connection, session_no, row.seq)?.is_none() {
                    left.push(row);
                }
            }
            rows = left;
            Ok(())
        })?;
        if let Some(info) = store.session(id)?.filter(|_| !rows.is_empty()) {
            found.push(Waiting { info, rows });
        }
    }
    Ok(found)
}

/// What answers among that, the newest session first; with whether it has all that is asked for.
pub(super) fn results(
    waiting: &[Waiting],
    request: &SearchRequest,
    question: &Question,
) -> Vec<(SearchResult, bool)> {
    let mut found = Vec::new();
    let mut newest: Vec<&Waiting> = waiting.iter().filter(|it| may_answer(it, request)).collect();
    newest.sort_by_key(|it| std::cmp::Reverse(it.info.last_activity_at));
    for session in newest {
        let mut hits: Vec<(usize, f64, bool)> = Vec::new();
        for (at, row) in session.rows.iter().enumerate() {
            if request.roles.contains(&row.role)
                && let Some((score, whole)) = scored(question, request, row)
            {
                hits.push((at, score, whole));
            }
        }
        hits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        hits.truncate(SHOWN);
        if request.session.is_some() {
            found.extend(hits.iter().map(|hit| result(session, request, question, &[*hit])));
        } else if !hits.is_empty() {
            found.push(result(session, request, question, &hits));
        }
    }
    found
}

fn may_answer(session: &Waiting, request: &SearchRequest) -> bool {
    let info = &session.info;
    if let Some(inside) = &request.session {
        return info.id == *inside;
    }
    let is_child = matches!(info.parent, Some((_, ParentKind::Delegate)));
    let at = info.started_at;
    !is_child
        && !matches!(info.source.as_str(), "kanban" | "subagent" | "tool")
        && request.current.as_ref() != Some(&info.id)
        && !request.exclude.iter().take(MOST_EXCLUDED).any(|id| *id == info.id)
        && request.after.is_none_or(|after| at >= after)
        && request.before.is_none_or(|before| at <= before)
}

/// How well a row answers, and whether it has all that is asked for; None if it does not.
fn scored(question: &Question, request: &SearchRequest, row: &Row) -> Option<(f64, bool)> {
    let tools = request.roles.contains(&Role::Tool);
    let mut text = text_of(row, Index::Talk);
    if tools {
        text.push('\n');
        text.push_str(&text_of(row, Index::Tool));
    }
    let matched = match_text(question, &vec![1.0; question.terms.len()], &text);
    let mut whole = true;
    for (term, count) in question.terms.iter().zip(&matched.counts) {
        if (term.must && *count == 0.0) || (term.not && *count > 0.0) {
            return None;
        }
        whole &= term.not || term.weight < 1.0 || *count > 0.0;
    }
    (matched.score > 0.0).then_some((matched.score, whole))
}

fn result(
    session: &Waiting,
    request: &SearchRequest,
    question: &Question,
    hits: &[(usize, f64, bool)],
) -> (SearchResult, bool) {
    let info = &session.info;
    let rarity = vec![1.0; question.terms.len()];
    let wanted = answer::Wanted { question, rarity: &rarity };
    let mut places: Vec<usize> = hits.iter().map(|hit| hit.0).collect();
    places.sort_unstable();
    let best = hits.first().map_or(0, |hit| hit.0);
    let messages: Vec<ShownMessage> =
        places.iter().map(|at| answer::show_hit(&message(&session.rows[*at]), wanted)).collect();
    let first = places.first().copied().unwrap_or_default();
    let last = places.last().copied().unwrap_or_default();
    let after = session.rows.len() - last - 1;
    let found = SearchResult {
        session_id: info.id.to_string(),
        when: info.started_at.to_string(),
        source: info.source.clone(),
        model: info.model.clone(),
        title: info.title.clone(),
        matched_role: session.rows[best].role.as_str().to_owned(),
        match_message_id: None,
        snippet: answer::snippet(&session.rows[best], wanted, request.roles.contains(&Role::Tool)),
        bookend_start: Vec::new(),
        messages,
        bookend_end: Vec::new(),
        messages_before: info.message_count.saturating_sub((session.rows.len() - first) as u64),
        messages_after: after as u64,
        detail: "compact",
        parent_session_id: info.parent.as_ref().map(|(id, _)| id.to_string()),
        link: answer::link(&request.profile, &info.id),
    };
    (found, hits.iter().any(|hit| hit.2))
}

/// A row without an id yet.
fn message(row: &Row) -> Message {
    Message { id: 0, row: row.clone(), active: true, compacted: false }
}

/// Puts them among what the database answered: what has all that is asked for first, the rest last.
pub(super) fn join(
    results: &mut Vec<SearchResult>,
    waiting: Vec<(SearchResult, bool)>,
    request: &SearchRequest,
    limit: usize,
) {
    let mut first = Vec::new();
    for (found, whole) in waiting {
        let known = request
            .session
            .is_none()
            .then(|| results.iter_mut().find(|result| result.session_id == found.session_id));
        match known.flatten() {
            Some(known) => known.messages.extend(found.messages),
            None if whole || request.session.is_some() => first.push(found),
            None => results.push(found),
        }
    }
    results.splice(0..0, first);
    // Points in time are written so that their order is that of the texts.
    match request.sort {
        SearchSort::Relevance => {}
        SearchSort::Newest => results.sort_by(|a, b| b.when.cmp(&a.when)),
        SearchSort::Oldest => results.sort_by(|a, b| a.when.cmp(&b.when)),
    }
    results.truncate(limit);
}

impl Waiting {
    /// The facts of the session as a reading shows them.
    pub(super) fn meta(&self) -> SessionMeta {
        SessionMeta {
            when: self.info.started_at.to_string(),
            source: self.info.source.clone(),
            model: self.info.model.clone(),
            title: self.info.title.clone(),
        }
    }

    /// The last of its messages, as a reading shows them.
    pub(super) fn reading(&self, last: usize, tools: bool) -> Vec<ShownMessage> {
        let rows: Vec<&Row> =
            self.rows.iter().filter(|row| tools || row.role != Role::Tool).collect();
        let rows = rows.get(rows.len().saturating_sub(last)..).unwrap_or_default();
        rows.iter().map(|row| answer::show_read(&message(row))).collect()
    }
}
