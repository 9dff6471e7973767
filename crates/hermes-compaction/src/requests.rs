//! What the person asked for, word for word, and what became of each request.
//!
//! Invariant: every text here is a stored row of the person's, and what became of it is read from
//! the rows after it. Nothing here is an order to go on.

use std::sync::OnceLock;

use hermes_core::{Origin, PartBody, Role, Row, RowStatus, Seq};

use crate::shape::{is_answer, is_request};
use crate::words::{WordSet, content, each_word, hash_word, share};
use crate::{cutting, sentences};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The model answered in this row.
    Answered(Seq),
    /// A later message of the person took it back.
    Cancelled {
        /// That message.
        by: Seq,
    },
    /// The answer broke off in this row.
    Interrupted(Seq),
    /// Nothing answered it.
    Unanswered,
    /// It is the newest, and work on it goes on.
    Running,
}

impl Status {
    /// Whether the request may still want something. A finished or cancelled one never does.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::Unanswered | Self::Running)
    }

    fn words(self) -> String {
        match self {
            Self::Answered(row) => format!("answered in r{row}"),
            Self::Cancelled { by } => {
                format!("CANCELLED by the person in r{by}, not to be taken up again")
            }
            Self::Interrupted(row) => format!("the answer broke off in r{row}"),
            Self::Unanswered => "was not answered".to_owned(),
            Self::Running => "the newest, being worked on".to_owned(),
        }
    }
}

/// A message of the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The row.
    pub row: Seq,
    /// Its text, word for word.
    pub text: String,
    /// What became of it.
    pub status: Status,
}

impl Request {
    /// Its line in a summary, the text cut to `max` characters.
    pub fn line(&self, max: usize) -> String {
        let text = cutting::one_line(&self.text, max);
        format!("- [r{}] \"{text}\" -- {}", self.row, self.status.words())
    }
}

/// The requests of `rows`, in order; statuses are read from all of them.
pub fn requests(rows: &[&Row]) -> Vec<Request> {
    let mut found: Vec<Request> = Vec::new();
    for row in rows {
        if is_request(row) {
            let text = spoken(row);
            if let Some(taken) = cancels(&text) {
                cancel(&mut found, row.seq, &taken);
            }
            found.push(Request { row: row.seq, text, status: Status::Unanswered });
            continue;
        }
        let Some(last) = found.last_mut() else { continue };
        if row.role == Role::Assistant && row.status == RowStatus::Interrupted {
            last.status = Status::Interrupted(row.seq);
        } else if is_answer(row) {
            last.status = Status::Answered(row.seq);
        } else if last.status == Status::Unanswered {
            // Work on it has begun; only an answer ends it.
            last.status = Status::Running;
        }
    }
    let newest = found.len().saturating_sub(1);
    for request in &mut found[..newest] {
        if request.status == Status::Running {
            request.status = Status::Unanswered;
        }
    }
    if let Some(last) = found.last_mut()
        && last.status == Status::Unanswered
    {
        last.status = Status::Running;
    }
    found
}

/// What the person said in this row.
pub(crate) fn spoken(row: &Row) -> String {
    let text = row.text_of(Origin::User);
    if !text.is_empty() {
        return text;
    }
    let files = row.parts.iter().filter(|part| matches!(part.body, PartBody::Blob { .. })).count();
    format!("({files} attachments without words)")
}

/// Words that take something back, if they stand at the start of a sentence.
const CANCEL: &str = "stop cancel abort forget skip drop halt quit nevermind never+mind no+longer \
    don+t+bother leave+it stopp stoppe abbrechen abbruch vergiss lass+das hör+auf arrête annule \
    oublie laisse+tomber para cancela olvida detén 停止 中止 取消 やめ";

/// Words that may stand in front of them.
const POLITE: &str = "please no ok okay hey oh well actually wait bitte nein ach por favor non \
    s il te plaît";

/// The sentence in which the message takes something back.
fn cancels(text: &str) -> Option<String> {
    let mut taken = None;
    sentences::each(text, |sentence| {
        if taken.is_none() && opens_with_cancel(sentence) {
            taken = Some(sentence.to_owned());
        }
    });
    taken
}

/// The words as hashes, built once.
struct Openings {
    polite: WordSet,
    cancel: Vec<Vec<u64>>,
    /// Every word of `cancel`.
    words: WordSet,
}

fn openings() -> &'static Openings {
    static TABLE: OnceLock<Openings> = OnceLock::new();
    TABLE.get_or_init(|| {
        let hashes = |entry: &str| entry.split('+').filter_map(hash_word).collect::<Vec<u64>>();
        let cancel: Vec<Vec<u64>> = CANCEL.split_whitespace().map(hashes).collect();
        Openings {
            polite: POLITE.split_whitespace().filter_map(hash_word).collect(),
            words: cancel.iter().flatten().copied().collect(),
            cancel,
        }
    })
}

fn opens_with_cancel(sentence: &str) -> bool {
    let table = openings();
    let start = &sentence[..sentence.floor_char_boundary(120)];
    let mut words = Vec::with_capacity(4);
    each_word(start, |word| {
        if words.len() < 3 && !(words.is_empty() && table.polite.contains(&word)) {
            words.push(word);
        }
    });
    table.cancel.iter().any(|entry| !entry.is_empty() && words.starts_with(entry))
}

/// Marks what the message takes back: the newest request that shares its words, else the newest;
/// and what only urged that one on.
fn cancel(found: &mut [Request], by: Seq, taken: &str) {
    let mut wanted = content(taken);
    // Its own words of cancelling say nothing about what is meant.
    wanted.retain(|word| !openings().words.contains(word));
    let about = |request: &Request| share(&wanted, &content(&request.text));
    let best = found
        .iter()
        .enumerate()
        .filter(|(_, request)| !matches!(request.status, Status::Cancelled { .. }))
        .map(|(index, request)| (index, about(request)))
        .filter(|(_, share)| *share > 0.0)
        .max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
        .map(|(index, _)| index);
    let Some(from) = best.or(found.len().checked_sub(1)) else { return };
    for (index, request) in found.iter_mut().enumerate().skip(from) {
        let urges = content(&request.text).len() <= 2;
        if index == from || urges || about(request) > 0.0 {
            request.status = Status::Cancelled { by };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sentence_that_begins_with_it_takes_something_back() {
        let check =
            |text: &str, expected: bool| assert_eq!(cancels(text).is_some(), expected, "{text}");
        check("Stop the translation. We will not do it.", true);
        check("Please cancel that", true);
        check("No, never mind.", true);
        check("Bitte abbrechen", true);
        check("continue, don't stop", false);
        check("Find where the service stops", false);
        check("Write a stop button", false);
        check("", false);
    }
}
