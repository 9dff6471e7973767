//! Candidates from the index, with a bound on the work however common the words are.
//!
//! A term in few documents gives all of them. A term in many gives those in which it meets a rarer
//! term, and the newest ones. So what is old is found by anything rare in it, or by words that
//! meet nowhere else. Inside one session every term gives all of them, up to a bound of its own.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use super::index::Index;
use super::question::{Question, Term};
use super::tail;
use super::together::{self, Together};
use crate::StoreError;
use crate::db::Doing as _;
use crate::rows::SEQ_BITS;

const DOING: &str = "searching";

/// A term in more documents than this is common.
const RARE: usize = 1500;
/// Newest documents of a common term that stands alone.
const WINDOW: usize = 600;
/// Documents in which common terms meet.
const MEETING: usize = 1500;
/// Inside one session every term gives this many: a session is bounded, and its subject's words are in
/// most of its messages, so that only all of them together tell what is rare there.
const INSIDE: usize = 20_000;

/// The terms that a document has, as bits in the order of the question.
pub(super) type Mask = u32;

/// Which documents may be found: numbers from, to.
pub(super) type Range = (i64, i64);

/// What the index gave.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Documents with what is known of their terms.
    pub(super) documents: HashMap<i64, Mask>,
    /// The worth of each term, in the order of the question.
    pub(super) rarity: Vec<f64>,
    /// Words that belong together. Known inside one session only, where the words of its subject
    /// are everywhere.
    pub(super) together: Vec<Together>,
    /// What it is worth, as the index sees it, that such words stand near each other in a document.
    pub(super) near: HashMap<i64, f64>,
    /// How many times as many sessions have a term as those that are known.
    pub(super) reach: Vec<f64>,
    /// Sessions there ever were.
    pub(super) sessions: f64,
}

/// Asks the indexes.
pub(super) fn candidates(
    connection: &Connection,
    question: &Question,
    indexes: &[Index],
    range: Range,
) -> Result<Candidates, StoreError> {
    let inside_one = range.0 >> SEQ_BITS == range.1 >> SEQ_BITS;
    let total = if inside_one {
        rows_of(connection, range.0 >> SEQ_BITS)?
    } else {
        documents_ever(connection)?
    };
    let last_session = last_session(connection)?;
    let tail = tail::of(connection, range)?;
    let tail = tail.as_ref();
    let mut found = Candidates {
        documents: HashMap::new(),
        rarity: vec![0.0; question.terms.len()],
        together: if inside_one { together::pairs(question) } else { Vec::new() },
        near: HashMap::new(),
        reach: vec![1.0; question.terms.len()],
        sessions: last_session as f64,
    };
    let rare = if inside_one { INSIDE } else { RARE };
    for index in indexes {
        let asking =
            Asking { connection, tail, question, index: *index, range, total, rare, last_session };
        asking.run(&mut found)?;
        asking.near_each_other(&mut found)?;
    }
    Ok(found)
}

/// How many rows there ever were, roughly: ids go up in steps.
fn documents_ever(connection: &Connection) -> Result<f64, StoreError> {
    let last = crate::rows::next_id(connection)?;
    Ok((last / crate::rows::ID_STEP).max(1) as f64)
}

/// How many rows a session has, roughly.
fn rows_of(connection: &Connection, session_no: i64) -> Result<f64, StoreError> {
    connection
        .prepare_cached("SELECT ifnull(max(seq), 0) FROM row WHERE session_no = ?1")
        .and_then(|mut statement| statement.query_row([session_no], |row| row.get(0)))
        .doing(DOING)
        .map(|last: i64| last.max(1) as f64)
}

/// What a term in `count` of `total` is worth (the inverse frequency of BM25).
pub(super) fn rarity_of(count: f64, total: f64) -> f64 {
    (1.0 + (total - count + 0.5).max(0.5) / (count + 0.5)).ln()
}

fn last_session(connection: &Connection) -> Result<i64, StoreError> {
    connection
        .prepare_cached("SELECT ifnull(max(session_no), 0) FROM sessions")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .doing(DOING)
}

struct Asking<'a> {
    connection: &'a Connection,
    tail: Option<&'a Connection>,
    question: &'a Question,
    index: Index,
    range: Range,
    total: f64,
    /// A term in more documents than this is common.
    rare: usize,
    last_session: i64,
}

/// A term with the documents it was asked for.
struct Asked {
    at: usize,
    newest: Vec<i64>,
    count: usize,
}

impl Asking<'_> {
    fn run(&self, found: &mut Candidates) -> Result<(), StoreError> {
        let mut rare: Vec<Asked> = Vec::new();
        let mut common: Vec<Asked> = Vec::new();
        for (at, term) in self.terms() {
            let mut newest = self.ask(&term.expression, self.rare + 1)?;
            if newest.is_empty()
                && let Some(begin) = beginning(term)
            {
                newest = self.ask(&begin, self.rare + 1)?;
            }
            let count = newest.len();
            if count <= self.rare {
                rare.push(Asked { at, newest, count });
            } else {
                let count = self.estimate(&newest);
                common.push(Asked { at, newest, count });
            }
        }
        for asked in &common {
            found.reach[asked.at] = asked.count as f64 / asked.newest.len().max(1) as f64;
        }
        for asked in rare.iter().chain(&common) {
            let rarity = rarity_of(asked.count as f64, self.total);
            let known = &mut found.rarity[asked.at];
            *known = if *known == 0.0 { rarity } else { known.min(rarity) };
        }
        let mut add = |documents: &[i64], mask: Mask| {
            for document in documents {
                *found.documents.entry(*document).or_insert(0) |= mask;
            }
        };
        for asked in &rare {
            add(&asked.newest, 1 << asked.at);
        }
        // Where common terms meet those that are rare.
        let strong: Vec<&Asked> = rare
            .iter()
            .filter(|asked| self.term(asked.at).weight >= 0.5 && asked.count > 0)
            .collect();
        common.sort_by_key(|asked| asked.count);
        if strong.is_empty() {
            self.commons(&common, &mut add)?;
            return Ok(());
        }
        let either = strong
            .iter()
            .map(|asked| self.term(asked.at).expression.clone())
            .collect::<Vec<_>>()
            .join(" OR ");
        for asked in &common {
            let meet = format!("({either}) AND {}", self.term(asked.at).expression);
            add(&self.ask(&meet, MEETING)?, 1 << asked.at);
        }
        if strong.iter().map(|asked| asked.count).sum::<usize>() < WINDOW
            && let Some(least) = common.first()
        {
            let newest = least.newest.get(..WINDOW).unwrap_or(&least.newest);
            add(newest, 1 << least.at);
        }
        Ok(())
    }

    /// Only common terms: where all meet, where pairs of the rarest meet, the newest of each.
    fn commons(
        &self,
        common: &[Asked],
        add: &mut impl FnMut(&[i64], Mask),
    ) -> Result<(), StoreError> {
        let expression = |asked: &Asked| self.term(asked.at).expression.clone();
        let alone = if common.len() > 1 { WINDOW } else { RARE };
        for asked in common {
            add(asked.newest.get(..alone).unwrap_or(&asked.newest), 1 << asked.at);
        }
        if common.len() > 2 {
            let all = common.iter().map(expression).collect::<Vec<_>>().join(" AND ");
            let mask = common.iter().fold(0, |mask, asked| mask | 1 << asked.at);
            add(&self.ask(&all, WINDOW)?, mask);
        }
        let rarest = common.get(..common.len().min(3)).unwrap_or_default();
        for (n, a) in rarest.iter().enumerate() {
            for b in rarest.get(n + 1..).unwrap_or_default() {
                let both = format!("{} AND {}", expression(a), expression(b));
                add(&self.ask(&both, WINDOW)?, 1 << a.at | 1 << b.at);
            }
        }
        Ok(())
    }

    /// Where words that belong together stand near each other.
    fn near_each_other(&self, found: &mut Candidates) -> Result<(), StoreError> {
        for pair in &mut found.together {
            let documents = self.ask(&together::expression(self.question, pair), self.rare)?;
            let worth = rarity_of(documents.len() as f64, self.total);
            pair.rarity = if pair.rarity == 0.0 { worth } else { pair.rarity.min(worth) };
            for document in documents {
                *found.documents.entry(document).or_insert(0) |=
                    1 << pair.terms.0 | 1 << pair.terms.1;
                *found.near.entry(document).or_insert(0.0) += worth;
            }
        }
        Ok(())
    }

    fn term(&self, at: usize) -> &Term {
        &self.question.terms[at]
    }

    /// The terms that are looked for.
    fn terms(&self) -> impl Iterator<Item = (usize, &Term)> {
        self.question.terms.iter().enumerate().filter(|(_, term)| !term.not)
    }

    /// The expression, together with what must and must not be there.
    fn bound(&self, expression: &str) -> String {
        let mut bound = format!("({expression})");
        for term in &self.question.terms {
            if term.must && term.expression != expression {
                bound = format!("{bound} AND {}", term.expression);
            }
        }
        for term in &self.question.terms {
            if term.not {
                bound = format!("({bound}) NOT {}", term.expression);
            }
        }
        bound
    }

    /// The newest documents that answer to an expression.
    fn ask(&self, expression: &str, limit: usize) -> Result<Vec<i64>, StoreError> {
        let expression = self.bound(expression);
        let mut found = self.ask_one(self.connection, &expression, limit)?;
        if let Some(tail) = self.tail {
            found.extend(self.ask_one(tail, &expression, limit)?);
            found.sort_unstable_by_key(|document| std::cmp::Reverse(*document));
            found.truncate(limit);
        }
        Ok(found)
    }

    fn ask_one(
        &self,
        connection: &Connection,
        expression: &str,
        limit: usize,
    ) -> Result<Vec<i64>, StoreError> {
        let table = self.index.table();
        let mut statement = connection
            .prepare_cached(&format!(
                "SELECT rowid FROM {table} WHERE {table} MATCH ?1 AND rowid BETWEEN ?2 AND ?3
                 ORDER BY rowid DESC LIMIT {limit}"
            ))
            .doing(DOING)?;
        let (from, to) = self.range;
        let found =
            statement.query_map(params![expression, from, to], |row| row.get(0)).doing(DOING)?;
        found.collect::<Result<_, _>>().doing(DOING)
    }

    /// How many documents there are like the newest ones: as many a session as in the sessions that
    /// these reach back over. Counting them would cost more than the rest of the search.
    fn estimate(&self, newest: &[i64]) -> usize {
        let session = |document: i64| document >> SEQ_BITS;
        let last = session(self.range.1).min(self.last_session);
        let first = session(self.range.0).clamp(1, last.max(1));
        let reached = newest.last().map_or(first, |document| session(*document));
        let share = (last - first + 1) as f64 / (last - reached + 1).max(1) as f64;
        (newest.len() as f64 * share.max(1.0)).min(self.total) as usize
    }
}

/// A word with digits that is nowhere may be the beginning of one: people give the first digits of
/// a digest or an id.
fn beginning(term: &Term) -> Option<String> {
    let word = term.expression.strip_prefix('"')?.strip_suffix('"')?;
    let fits = word.len() >= 4
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    fits.then(|| format!("\"{word}\" *"))
}
