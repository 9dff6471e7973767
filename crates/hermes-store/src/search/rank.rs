//! From candidates to sessions in order.
//!
//! Two passes. The first knows only which terms a document has: it adds what neighbouring messages
//! have, sums up a session, and chooses the sessions worth a closer look. The second reads the best
//! messages of those and weighs frequency, nearness, wording and speaker.

use std::collections::{BTreeMap, HashMap, HashSet};

use hermes_core::{Origin, PartBody, Role, Row, Seq, SessionId, Standing, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::answer::{Head, SessionMeta};
use super::find::{Candidates, Mask, rarity_of};
use super::index::{Index, text_of};
use super::matching::match_text;
use super::messages::{self, Message};
use super::question::Question;
use super::together;
use crate::db::Doing as _;
use crate::rows::{SEQ_BITS, seq_of};
use crate::{StoreError, read};

const DOING: &str = "ranking search results";

/// Messages this many seqs apart are neighbours.
const NEIGHBOURS: i64 = 6;
/// What a neighbour's terms count.
const NEIGHBOUR_SHARE: f64 = 0.25;
/// Sessions that are looked at closely, for each one wanted; at least the number below.
const CLOSELY: usize = 3;
const AT_LEAST: usize = 16;
/// What the whole session counts beside its best message, and how soon more messages with the same
/// term count no more. A session about a subject comes back to it; one that merely mentions it does
/// not.
const SESSION_SHARE: f64 = 1.6;
const SESSION_K1: f64 = 3.0;
/// The second and third message count this much.
const FOLLOWERS: [f64; 2] = [0.3, 0.15];
/// A title counts as if it were said, and a little more.
const TITLE: f64 = 1.5;
/// What was said by whom the question speaks of.
const SPEAKER: f64 = 1.15;
/// A summary repeats what others said.
const SUMMARY: f64 = 0.6;
/// How much a fresh session is ahead of an old one, and after how many days it is old.
const FRESH: f64 = 0.05;
const OLD_DAYS: f64 = 30.0;
/// A word is used as a name where it is in so many messages of a session that has it, and in no more
/// than this share of all sessions.
const OFTEN: f64 = 4.0;
const FEW: f64 = 0.25;
/// Length norm of a session.
const LENGTH_SHARE: f64 = 0.6;

/// Who may be found, beyond the words.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub(super) roles: Vec<Role>,
    pub(super) after: Option<Timestamp>,
    pub(super) before: Option<Timestamp>,
    /// Sessions left out, whole compaction chains.
    pub(super) exclude: HashSet<i64>,
    /// The chain of the session that asks: only what it has no longer before it.
    pub(super) current: HashSet<i64>,
    /// Delegated children and tool runs too.
    pub(super) hidden: bool,
    pub(super) now: Timestamp,
    /// Messages of a session that are read.
    pub(super) depth: usize,
}

/// Messages of a session that are read where many are found.
pub(super) const DEPTH: usize = 6;
/// Messages that are read inside one session: the index says only roughly which are the best.
pub(super) const READ_INSIDE: usize = 300;
/// Looked at for each one that is read, where roles and flags leave many out.
pub(super) const TRIES: usize = 8;

/// A message that was found.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    pub(super) seq: Seq,
    pub(super) score: f64,
    /// The title, not a message.
    pub(super) title: bool,
    pub(super) message: Option<Message>,
}

/// A session that was found.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub(super) session_no: i64,
    pub(super) started_at: Timestamp,
    pub(super) score: f64,
    pub(super) automatic: bool,
    pub(super) head: Head,
    /// What the index has of it, by what it knows of them.
    pub(super) documents: Vec<(i64, f64)>,
    /// The best first.
    pub(super) hits: Vec<Hit>,
}

/// What ranking and answer need to know of a session.
struct Facts {
    head: Head,
    messages: f64,
    started_at: Timestamp,
    automatic: bool,
    root: i64,
}

/// A session in the first pass.
struct Coarse {
    session_no: i64,
    score: f64,
    /// How many documents have each term.
    counts: Vec<f64>,
    /// Documents by score, the best first.
    documents: Vec<(i64, f64)>,
}

/// The sessions that answer, the best first.
pub(super) fn rank(
    connection: &Connection,
    question: &Question,
    candidates: &Candidates,
    indexes: &[Index],
    bounds: &Bounds,
    wanted: usize,
) -> Result<Vec<Ranked>, StoreError> {
    let (mut coarse, session_rarity) = first_pass(question, candidates);
    coarse.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.session_no.cmp(&a.session_no)));
    let look_at = (wanted * CLOSELY).max(AT_LEAST);
    let mut roots: HashSet<i64> = HashSet::new();
    let mut chosen: Vec<(Coarse, Facts)> = Vec::new();
    for session in coarse {
        if chosen.len() >= look_at {
            break;
        }
        if let Some(facts) = facts_of(connection, session.session_no, bounds)? {
            chosen.push((session, facts));
        }
    }
    let mean =
        chosen.iter().map(|(_, facts)| facts.messages).sum::<f64>() / chosen.len().max(1) as f64;
    let mut ranked = Vec::new();
    for (session, facts) in chosen {
        let hits = second_pass(connection, question, candidates, indexes, bounds, &session)?;
        if hits.is_empty() {
            continue;
        }
        let mut score = hits[0].score;
        for (hit, share) in hits.iter().skip(1).zip(FOLLOWERS) {
            score += hit.score * share;
        }
        let length = 1.0 - LENGTH_SHARE + LENGTH_SHARE * facts.messages / mean.max(1.0);
        for ((count, rarity), term) in
            session.counts.iter().zip(&session_rarity).zip(&question.terms)
        {
            score += SESSION_SHARE * rarity * term.weight * saturated(*count, length);
        }
        let age = bounds.now.millis_since(facts.started_at).max(0) as f64 / 86_400_000.0;
        score *= 1.0 + FRESH * (-age / OLD_DAYS).exp();
        ranked.push((
            facts.root,
            Ranked {
                session_no: session.session_no,
                started_at: facts.started_at,
                score,
                automatic: facts.automatic,
                head: facts.head,
                documents: session.documents,
                hits,
            },
        ));
    }
    ranked.sort_by(|(_, a), (_, b)| {
        (a.automatic.cmp(&b.automatic))
            .then(b.score.total_cmp(&a.score))
            .then(b.session_no.cmp(&a.session_no))
    });
    // One result for a conversation, however often it was compacted into a new session.
    ranked.retain(|(root, _)| roots.insert(*root));
    Ok(ranked.into_iter().map(|(_, ranked)| ranked).collect())
}

/// How much this many messages with a term count, in a session of this relative length.
fn saturated(count: f64, length: f64) -> f64 {
    count * (1.0 + SESSION_K1) / (count + SESSION_K1 * length)
}

fn worth(question: &Question, rarity: &[f64], mask: Mask) -> f64 {
    (0..question.terms.len())
        .filter(|at| mask & (1 << at) != 0)
        .map(|at| rarity[at] * question.terms[at].weight)
        .sum()
}

/// What the index knows of one of these documents, in order: what it has, and a share of what only
/// its neighbours have.
pub(super) fn coarse_score(
    question: &Question,
    candidates: &Candidates,
    documents: &[(i64, Mask)],
    at: usize,
) -> f64 {
    let Some((document, mask)) = documents.get(at) else { return 0.0 };
    let near = |other: &&(i64, Mask)| {
        other.0 >> SEQ_BITS == document >> SEQ_BITS && (other.0 - document).abs() <= NEIGHBOURS
    };
    let before = documents.get(..at).unwrap_or_default().iter().rev().take_while(near);
    let after = documents.get(at + 1..).unwrap_or_default().iter().take_while(near);
    let around = before.chain(after).fold(0, |around, (_, mask)| around | mask);
    worth(question, &candidates.rarity, *mask)
        + NEIGHBOUR_SHARE * worth(question, &candidates.rarity, around & !mask)
        + candidates.near.get(document).copied().unwrap_or(0.0)
}

/// Which terms are names by how they are used, for who types a question in small letters: whoever is in
/// a conversation is named again and again in it, and in few others.
pub(super) fn names_by_use(question: &Question, candidates: &Candidates) -> impl Fn(usize) -> bool {
    let mut counts: HashMap<(usize, i64), u32> = HashMap::new();
    for (document, mask) in &candidates.documents {
        for term in (0..question.terms.len()).filter(|term| mask & (1 << term) != 0) {
            *counts.entry((term, document >> SEQ_BITS)).or_insert(0) += 1;
        }
    }
    let mut used = vec![(0.0, 0.0); question.terms.len()];
    for ((term, _), count) in counts {
        used[term].0 += f64::from(count);
        used[term].1 += 1.0;
    }
    let most: Vec<f64> =
        candidates.reach.iter().map(|reach| FEW * candidates.sessions / reach).collect();
    move |term| {
        let (messages, sessions) = used[term];
        messages >= OFTEN * sessions && sessions > 0.0 && sessions <= most[term]
    }
}

/// The sessions with what the index knows of them, and the worth of each term for a session: between
/// that of a rare word and that of a word in few sessions. Whoever is in a conversation is named
/// in every turn of it, and in no other.
fn first_pass(question: &Question, candidates: &Candidates) -> (Vec<Coarse>, Vec<f64>) {
    let mut documents: Vec<(i64, Mask)> =
        candidates.documents.iter().map(|(document, mask)| (*document, *mask)).collect();
    documents.sort_unstable();
    let mut sessions: BTreeMap<i64, Coarse> = BTreeMap::new();
    for (at, (document, mask)) in documents.iter().enumerate() {
        let session_no = document >> SEQ_BITS;
        let score = coarse_score(question, candidates, &documents, at);
        let session = sessions.entry(session_no).or_insert_with(|| Coarse {
            session_no,
            score: 0.0,
            counts: vec![0.0; question.terms.len()],
            documents: Vec::new(),
        });
        for (term, count) in session.counts.iter_mut().enumerate() {
            *count += f64::from(u8::from(mask & (1 << term) != 0));
        }
        session.documents.push((*document, score));
    }
    let mut sessions: Vec<Coarse> = sessions.into_values().collect();
    let session_rarity: Vec<f64> = (0..question.terms.len())
        .map(|term| {
            let known = sessions.iter().filter(|session| session.counts[term] > 0.0).count();
            let with = known as f64 * candidates.reach[term];
            f64::midpoint(candidates.rarity[term], rarity_of(with, candidates.sessions))
        })
        .collect();
    for session in &mut sessions {
        session.documents.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
        let all = session.counts.iter().zip(&session_rarity).zip(&question.terms);
        let sum: f64 =
            all.map(|((count, rarity), term)| rarity * term.weight * saturated(*count, 1.0)).sum();
        session.score =
            session.documents.first().map_or(0.0, |(_, score)| *score) + SESSION_SHARE * sum;
    }
    (sessions, session_rarity)
}

/// The facts of a session; None if it is not to be found.
fn facts_of(
    connection: &Connection,
    session_no: i64,
    bounds: &Bounds,
) -> Result<Option<Facts>, StoreError> {
    if bounds.exclude.contains(&session_no) {
        return Ok(None);
    }
    let found = connection
        .prepare_cached(
            "SELECT message_count, started_at, source, parent_kind, hidden, id, model, title,
                 parent_session_id
             FROM sessions WHERE session_no = ?1",
        )
        .and_then(|mut statement| {
            statement
                .query_row([session_no], |row| {
                    let started_at = read::time_of(row.get(1)?);
                    let head = Head {
                        id: SessionId::new(row.get::<_, String>(5)?),
                        meta: SessionMeta {
                            when: started_at.to_string(),
                            source: row.get(2)?,
                            model: row.get::<_, Option<String>>(6)?.unwrap_or_default(),
                            title: row.get(7)?,
                        },
                        parent: row.get(8)?,
                    };
                    Ok((
                        row.get::<_, Option<i64>>(0)?.unwrap_or(0),
                        started_at,
                        row.get::<_, Option<String>>(3)?,
                        row.get::<_, bool>(4)?,
                        head,
                    ))
                })
                .optional()
        })
        .doing(DOING)?;
    let Some((messages, started_at, parent_kind, hidden, head)) = found else {
        return Ok(None);
    };
    let is_hidden = hidden
        || parent_kind.as_deref() == Some("delegate")
        || matches!(head.meta.source.as_str(), "kanban" | "subagent" | "tool");
    if (is_hidden && !bounds.hidden)
        || bounds.after.is_some_and(|after| started_at < after)
        || bounds.before.is_some_and(|before| started_at > before)
    {
        return Ok(None);
    }
    let root = if parent_kind.as_deref() == Some("compaction") {
        root_of(connection, head.id.as_str())?.unwrap_or(session_no)
    } else {
        session_no
    };
    let automatic = head.meta.source == "cron";
    Ok(Some(Facts { head, messages: messages as f64, started_at, automatic, root }))
}

/// The first session of a compaction chain.
fn root_of(connection: &Connection, id: &str) -> Result<Option<i64>, StoreError> {
    connection
        .prepare_cached(
            "WITH RECURSIVE up(id, depth) AS (
                 SELECT ?1, 0 UNION
                 SELECT s.parent_session_id, depth + 1 FROM up JOIN sessions s ON s.id = up.id
                 WHERE s.parent_kind = 'compaction' AND s.parent_session_id IS NOT NULL
                   AND depth < 100
             )
             SELECT s.session_no FROM up JOIN sessions s ON s.id = up.id
             ORDER BY depth DESC LIMIT 1",
        )
        .and_then(|mut statement| statement.query_row([id], |row| row.get(0)).optional())
        .doing(DOING)
}

/// The sessions of one compaction chain, this one included.
pub(crate) fn chain_of(connection: &Connection, session: &str) -> Result<HashSet<i64>, StoreError> {
    let mut statement = connection
        .prepare_cached(
            "WITH RECURSIVE chain(id) AS (
                 SELECT ?1 UNION
                 SELECT s.parent_session_id FROM chain JOIN sessions s ON s.id = chain.id
                 WHERE s.parent_kind = 'compaction' AND s.parent_session_id IS NOT NULL UNION
                 SELECT s.id FROM chain JOIN sessions s ON s.parent_session_id = chain.id
                 WHERE s.parent_kind = 'compaction'
             )
             SELECT s.session_no FROM chain JOIN sessions s ON s.id = chain.id",
        )
        .doing(DOING)?;
    let found = statement.query_map(params![session], |row| row.get(0)).doing(DOING)?;
    found.collect::<Result<_, _>>().doing(DOING)
}

fn second_pass(
    connection: &Connection,
    question: &Question,
    candidates: &Candidates,
    indexes: &[Index],
    bounds: &Bounds,
    session: &Coarse,
) -> Result<Vec<Hit>, StoreError> {
    let mut hits: Vec<Hit> = Vec::new();
    let is_current = bounds.current.contains(&session.session_no);
    let most = session.documents.len().min(bounds.depth * TRIES);
    for (document, coarse) in session.documents.get(..most).unwrap_or_default() {
        if hits.len() >= bounds.depth {
            break;
        }
        let seq = seq_of(*document);
        if seq == Seq(0) {
            if !is_current {
                hits.push(Hit { seq, score: coarse * TITLE, title: true, message: None });
            }
            continue;
        }
        let Some(message) = message_at(connection, bounds, session.session_no, seq)? else {
            continue;
        };
        hits.extend(hit_of(question, candidates, indexes, message, (*document, *coarse)));
    }
    sort_hits(&mut hits);
    Ok(hits)
}

/// The best first.
pub(super) fn sort_hits(hits: &mut [Hit]) {
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.seq.cmp(&b.seq)));
}

/// The message of a document that the index gave with this score, if it answers.
pub(super) fn hit_of(
    question: &Question,
    candidates: &Candidates,
    indexes: &[Index],
    message: Message,
    (document, coarse): (i64, f64),
) -> Option<Hit> {
    // What the neighbours have counts here too.
    let mask = candidates.documents.get(&document).copied().unwrap_or(0);
    let own = worth(question, &candidates.rarity, mask);
    let near = candidates.near.get(&document).copied().unwrap_or(0.0);
    let around = (coarse - own - near).max(0.0);
    let score = scored(question, candidates, indexes, &message.row, own, around)?;
    Some(Hit { seq: seq_of(document), score, title: false, message: Some(message) })
}

/// The message of this session that has this seq, if it may be found.
pub(super) fn message_at(
    connection: &Connection,
    bounds: &Bounds,
    session_no: i64,
    seq: Seq,
) -> Result<Option<Message>, StoreError> {
    let is_current = bounds.current.contains(&session_no);
    Ok(messages::at(connection, session_no, seq)?.filter(|message| {
        (message.compacted || (message.active && !is_current))
            && bounds.roles.contains(&message.row.role)
    }))
}

/// How well a message answers; None if it does not. `own` is what the index says it has, `around`
/// what its neighbours add.
fn scored(
    question: &Question,
    candidates: &Candidates,
    indexes: &[Index],
    row: &Row,
    own: f64,
    around: f64,
) -> Option<f64> {
    let text: Vec<String> = indexes.iter().map(|index| text_of(row, *index)).collect();
    let text = text.join("\n");
    let matched = match_text(question, &candidates.rarity, &text);
    let lacks = question
        .terms
        .iter()
        .zip(&matched.counts)
        .any(|(term, count)| (term.must && *count == 0.0) || (term.not && *count > 0.0));
    if lacks || (matched.score <= 0.0 && own + around <= 0.0) {
        return None;
    }
    // A loose match of the index counts at least a little.
    let mut score = matched.score.max(own * 0.2) + around;
    score += together::score(question, &candidates.together, &text);
    score *= match row.role {
        Role::User if question.of_person => SPEAKER,
        Role::Assistant if question.of_model => SPEAKER,
        _ => 1.0,
    };
    if row.standing == Standing::ByOp || is_summary(row) {
        score *= SUMMARY;
    }
    Some(score)
}

fn is_summary(row: &Row) -> bool {
    row.parts
        .iter()
        .any(|part| part.origin == Origin::Summary && matches!(part.body, PartBody::Text { .. }))
}
