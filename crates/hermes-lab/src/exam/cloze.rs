//! Questions about a person's own session, made without a model: a sentence of the session with a
//! gap where an exact value stood, or the telling word of a decision.
//!
//! The session is cut into equal stretches and each gives a question, chosen by a digest of its
//! text: where and what is asked depends on nothing that chooses what a capsule holds. The wording is
//! the session's own, so the figures are kinder to a search than a person's questions would be.

use std::collections::{HashMap, HashSet};

use hermes_compaction::identifiers::{Shape, identifiers};
use hermes_core::{Digest, Origin, Role, Row};

use super::question::{Question, keywords};

/// Questions of a session, where it has that many different values.
const MOST: usize = 20;
/// Characters of a sentence.
const SENTENCE: std::ops::RangeInclusive<usize> = 30..=300;
/// More exact values in one sentence are a listing.
const MOST_VALUES: usize = 4;
/// Rows in which a value may stand. What is everywhere is no question.
const MOST_ROWS: usize = 5;
/// Words besides the gap.
const LEAST_WORDS: usize = 3;
/// Characters of a tool's result that are looked at.
const TOOL: usize = 4_000;
/// Stands where the answer stood.
const GAP: &str = "____";

/// Words that mark what was decided, ruled or taken back.
const DECIDING: &str = "decided decide agreed chose chosen settled instead must never always \
     because prefer rule correction forbidden entschieden beschlossen niemals immer stattdessen \
     décidé jamais toujours decidido nunca siempre";

/// A sentence with its gap.
struct Gapped {
    /// Where in the session, by rows.
    place: usize,
    order: Digest,
    question: Question,
}

/// The questions of a session, in its order; fewer than [`MOST`] where it says little.
pub(super) fn questions(rows: &[Row]) -> Vec<Question> {
    let texts: Vec<(usize, String)> =
        rows.iter().enumerate().filter_map(|(place, row)| Some((place, spoken(row)?))).collect();
    let mut held: HashMap<String, (usize, usize)> = HashMap::new();
    for (place, text) in &texts {
        let words = tokens(text).map(str::to_lowercase);
        let values = identifiers(text).into_iter().map(|found| found.text.to_owned());
        for token in words.chain(values) {
            let (count, last) = held.entry(token).or_insert((0, usize::MAX));
            *count += usize::from(*last != *place);
            *last = *place;
        }
    }
    let rarity = |token: &str| held.get(token).map_or(1, |(count, _)| *count);
    let mut all: Vec<Gapped> = Vec::new();
    for (place, text) in &texts {
        for sentence in sentences(text).filter(|it| SENTENCE.contains(&it.chars().count())) {
            if let Some(question) = gap(sentence, &rarity) {
                let order = Digest::of(format!("{place} {sentence}"));
                all.push(Gapped { place: *place, order, question });
            }
        }
    }
    all.sort_by_key(|gapped| gapped.order);
    let mut asked: HashSet<String> = HashSet::new();
    let mut chosen: Vec<Gapped> = Vec::new();
    let stretch = |place: usize| place * MOST / rows.len().max(1);
    let mut taken: HashSet<usize> = HashSet::new();
    // One of each stretch first, then what there is.
    for first in [true, false] {
        let mut left = Vec::new();
        for gapped in all {
            let full = chosen.len() >= MOST || (first && taken.contains(&stretch(gapped.place)));
            if full {
                left.push(gapped);
            } else if asked.insert(gapped.question.keys.join(" ")) {
                taken.insert(stretch(gapped.place));
                chosen.push(gapped);
            }
        }
        all = left;
    }
    chosen.sort_by(|a, b| a.place.cmp(&b.place).then(a.order.cmp(&b.order)));
    chosen.into_iter().map(|gapped| gapped.question).collect()
}

fn spoken(row: &Row) -> Option<String> {
    let origins: &[Origin] = match row.role {
        Role::User => &[Origin::User, Origin::Steer],
        Role::Assistant => &[Origin::Model],
        Role::Tool => &[Origin::Tool],
        Role::System => return None,
    };
    let text: Vec<String> = origins.iter().map(|origin| row.text_of(*origin)).collect();
    let text = text.join("\n");
    Some(if row.role == Role::Tool { text.chars().take(TOOL).collect() } else { text })
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split_inclusive(". ")).map(str::trim)
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The sentence as a question, if it has a value or a decision worth asking for.
fn gap(sentence: &str, rarity: &impl Fn(&str) -> usize) -> Option<Question> {
    let values = identifiers(sentence);
    if values.len() > MOST_VALUES {
        return None;
    }
    let value = values
        .iter()
        .filter(|found| found.text.chars().count() > 2 && rarity(found.text) <= MOST_ROWS)
        .min_by_key(|found| rarity(found.text));
    let (key, kind) = match value {
        Some(found) => (found.text.to_owned(), kind_of(found.shape)),
        None => (telling(sentence, rarity)?, "decision"),
    };
    let text = sentence.replace(&key, GAP);
    let mut about: Vec<String> = tokens(&text)
        .map(str::to_lowercase)
        .filter(|word| word.chars().count() > 2 && !word.chars().any(char::is_numeric))
        .filter(|word| !keywords(word).is_empty())
        .collect();
    about.sort_by_key(|word| rarity(word));
    let mut seen = HashSet::new();
    about.retain(|word| seen.insert(word.clone()));
    about.truncate(5);
    let repeats = key.to_lowercase();
    if about.len() < LEAST_WORDS || about.iter().any(|word| repeats.contains(word.as_str())) {
        return None;
    }
    Some(Question {
        kind: kind.to_owned(),
        text,
        keys: vec![key],
        outdated: None,
        keywords: about.clone(),
        least: about.len().div_ceil(2),
        about,
    })
}

/// The rarest longer word of a sentence that decides something.
fn telling(sentence: &str, rarity: &impl Fn(&str) -> usize) -> Option<String> {
    let lower = sentence.to_lowercase();
    let cues: Vec<&str> = DECIDING.split_whitespace().collect();
    tokens(&lower).find(|word| cues.contains(word))?;
    tokens(sentence)
        .filter(|word| word.chars().count() > 5)
        .filter(|word| !cues.contains(&word.to_lowercase().as_str()))
        .filter(|word| rarity(&word.to_lowercase()) <= MOST_ROWS)
        .min_by_key(|word| rarity(&word.to_lowercase()))
        .map(str::to_owned)
}

const fn kind_of(shape: Shape) -> &'static str {
    match shape {
        Shape::Path => "path",
        Shape::Url | Shape::Address => "address",
        Shape::Hash | Shape::Id | Shape::Version => "identifier",
        Shape::Error => "error text",
        Shape::Date => "date",
        Shape::Amount | Shape::Number => "number",
        Shape::Code | Shape::Flag => "name in code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::generate;

    #[test]
    fn a_session_of_any_length_gives_15_to_20_questions_that_do_not_hold_their_answers() {
        for messages in [60, 400, 2_000] {
            let planted = generate(3, messages);
            let all = questions(&planted.rows);
            assert!((15..=20).contains(&all.len()), "{messages}: {}", all.len());
            for question in &all {
                let [key] = question.keys.as_slice() else { panic!("{question:?}") };
                assert!(question.text.contains(GAP), "{question:?}");
                assert!(!question.text.contains(key.as_str()), "{question:?}");
                assert!(!question.query().contains(&key.to_lowercase()), "{question:?}");
                let said = question.text.replace(GAP, key);
                assert!(question.is_answered_by(&said), "{question:?}");
            }
            assert_eq!(all, questions(&planted.rows), "the same questions each time");
        }
    }

    #[test]
    fn a_decision_without_a_value_is_asked_for_by_its_telling_word() {
        let rare = |_: &str| 1;
        let found = gap("We decided to store every invoice as parchment forever.", &rare);
        let found = found.unwrap();
        assert_eq!((found.kind.as_str(), found.keys.len()), ("decision", 1));
        assert!(gap("The weather is fine and the sea is calm.", &rare).is_none());
    }
}
