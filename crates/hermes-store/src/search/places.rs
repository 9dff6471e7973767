//! Which messages of a session that was found are shown first.
//!
//! What leads to a session does not lead to the place in it: the name of a project finds its
//! sessions, and what was settled there is said without it. So sessions are ranked with names
//! counting more, places in them without. And more places are read here than in ranking, because
//! those that stand near a better one are shown with it and leave room.

use hermes_core::Seq;
use rusqlite::Connection;

use super::find::{Candidates, Mask};
use super::index::Index;
use super::question::Question;
use super::rank::{Bounds, DEPTH, Hit, Ranked, TRIES, coarse_score, hit_of, message_at, sort_hits};
use crate::StoreError;
use crate::rows::seq_of;

/// Messages of a session that are read.
const READ: usize = 2 * DEPTH;

/// Puts the hits of sessions in the order in which they are to be shown, and adds to them.
pub(super) fn choose(
    connection: &Connection,
    question: &Question,
    candidates: &Candidates,
    indexes: &[Index],
    bounds: &Bounds,
    ranked: &mut [Ranked],
) -> Result<(), StoreError> {
    // One word has no other beside which to count less.
    if question.terms.iter().filter(|term| !term.not).count() < 2 {
        return Ok(());
    }
    let nameless = question.has_names().then(|| question.without_names());
    for session in ranked {
        if nameless.is_none() && session.documents.len() <= DEPTH {
            continue;
        }
        let mut known = std::mem::take(&mut session.hits);
        // Where the title answers best, it stays so.
        let title = known.iter().position(|hit| hit.title).filter(|at| *at == 0);
        let title = title.map(|at| known.remove(at));
        let documents = match &nameless {
            Some(nameless) => in_order(nameless, candidates, &session.documents),
            None => std::mem::take(&mut session.documents),
        };
        let mut hits: Vec<Hit> = Vec::new();
        let messages = documents.into_iter().filter(|(document, _)| seq_of(*document) != Seq(0));
        for document in messages.take(READ * TRIES) {
            if hits.len() >= READ {
                break;
            }
            let seq = seq_of(document.0);
            let read = known.iter().position(|hit| hit.seq == seq).map(|at| known.swap_remove(at));
            let message = match read {
                Some(hit) if nameless.is_none() => {
                    hits.push(hit);
                    continue;
                }
                Some(hit) => hit.message,
                None => message_at(connection, bounds, session.session_no, seq)?,
            };
            let question = nameless.as_ref().unwrap_or(question);
            hits.extend(
                message
                    .and_then(|message| hit_of(question, candidates, indexes, message, document)),
            );
        }
        sort_hits(&mut hits);
        session.hits = title.into_iter().chain(hits).collect();
    }
    Ok(())
}

/// The documents of one session by what the index knows of them, the best first.
fn in_order(
    question: &Question,
    candidates: &Candidates,
    documents: &[(i64, f64)],
) -> Vec<(i64, f64)> {
    let mut masks: Vec<(i64, Mask)> = documents
        .iter()
        .map(|(document, _)| (*document, candidates.documents.get(document).copied().unwrap_or(0)))
        .collect();
    masks.sort_unstable();
    let mut scored: Vec<(i64, f64)> = masks
        .iter()
        .enumerate()
        .map(|(at, (document, _))| (*document, coarse_score(question, candidates, &masks, at)))
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    scored
}
