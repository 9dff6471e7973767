//! Names of several words that the talk comes back to.
//!
//! Two words beside each other are a name if they stand so in more places than two words as
//! frequent as they are would meet by chance. What is said of a thing that has a name, and is spoken
//! of again, is likely to be asked for later.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::source::Turn;

/// How much more often than by chance in one sentence the words of a name stand side by side.
const BEYOND_CHANCE: f64 = 1.5;

/// Where a pair of words stands.
#[derive(Default)]
struct Met {
    turns: u32,
    last: usize,
}

/// The pairs of words of a dialogue.
pub(crate) struct Names {
    /// In how many sentences each word stands.
    words: HashMap<u64, u32>,
    pairs: HashMap<(u64, u64), Met>,
    sentences: u32,
}

impl Names {
    pub(crate) fn of(turns: &[Turn]) -> Self {
        let mut names = Self { words: HashMap::new(), pairs: HashMap::new(), sentences: 0 };
        let mut seen: Vec<u64> = Vec::new();
        for (number, turn) in turns.iter().enumerate() {
            for sentence in sentences(&turn.text) {
                names.sentences += 1;
                seen.clear();
                each(sentence, |word, before| {
                    seen.push(word);
                    if let Some(before) = before {
                        let met = names.pairs.entry((before, word)).or_default();
                        if met.turns == 0 || met.last != number {
                            met.turns += 1;
                            met.last = number;
                        }
                    }
                });
                seen.sort_unstable();
                seen.dedup();
                for word in &seen {
                    *names.words.entry(*word).or_default() += 1;
                }
            }
        }
        names
    }

    /// The names in a text that are spoken of elsewhere too. A text of the dialogue is itself one of
    /// the places.
    pub(crate) fn spoken_of(&self, text: &str, from_tool: bool) -> Vec<(u64, u64)> {
        let least = if from_tool { 1 } else { 2 };
        let mut found = Vec::new();
        for sentence in sentences(text) {
            each(sentence, |word, before| {
                let Some(pair) = before.map(|before| (before, word)) else { return };
                let turns = self.pairs.get(&pair).map_or(0, |met| met.turns);
                let count = |word| f64::from(self.words.get(&word).copied().unwrap_or(1));
                let by_chance = count(pair.0) * count(pair.1) / f64::from(self.sentences.max(1));
                if turns >= least && f64::from(turns) >= BEYOND_CHANCE * by_chance {
                    found.push(pair);
                }
            });
        }
        found
    }
}

/// A word in more than this share of all sentences is part of how things are said.
const FREQUENT: f64 = 0.02;

impl Names {
    /// The form of a sentence: its frequent words, and marks where others and values stand. What is
    /// said over and over in one form is a routine, whatever it is about (Vaarandi, 2003, on logs).
    pub(crate) fn form(&self, sentence: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut last = 0_u64;
        for piece in sentence.split_whitespace() {
            let piece = piece.trim_matches(|c: char| !c.is_alphanumeric());
            let mark = if piece.chars().any(|c| c.is_numeric() || matches!(c, '/' | '_')) {
                1
            } else {
                let word = hash(piece);
                let count = f64::from(self.words.get(&word).copied().unwrap_or(0));
                if count > FREQUENT * f64::from(self.sentences) { word } else { 2 }
            };
            // A value of several pieces is one value.
            if mark != 1 || last != 1 {
                mark.hash(&mut hasher);
            }
            last = mark;
        }
        hasher.finish()
    }
}

fn hash(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for c in word.chars().flat_map(char::to_lowercase) {
        c.hash(&mut hasher);
    }
    hasher.finish()
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let ends = ['.', '!', '?', ';', ':', '=', ',', '(', ')', '"', '`', '\n'];
    text.split(ends).filter(|sentence| sentence.contains(char::is_alphabetic))
}

/// Calls `found` with each plain word and the one right before it. Whatever holds a digit or a sign
/// is a value, not a word, and parts the words around it.
fn each(sentence: &str, mut found: impl FnMut(u64, Option<u64>)) {
    let mut before = None;
    for piece in sentence.split_whitespace() {
        let plain = piece.chars().count() > 2
            && piece.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '’'));
        if !plain {
            before = None;
            continue;
        }
        let word = hash(piece);
        found(word, before);
        before = Some(word);
    }
}

#[cfg(test)]
mod tests {
    use hermes_core::Seq;

    use super::*;
    use crate::source::Speaker;

    #[test]
    fn a_name_is_two_words_that_meet_again_more_often_than_by_chance() {
        let said = [
            "The harbour lantern runs under X-1 now.",
            "The harbour is wide and the lantern is old.",
            "Somebody asked about the Harbour lantern again.",
            "The quick harbour; the quick lantern; the quick market.",
        ];
        let others = (0..20).map(|number| format!("Something else was said {number} times."));
        let turns: Vec<Turn> = (1..)
            .zip(said.map(str::to_owned).into_iter().chain(others))
            .map(|(row, text)| Turn { row: Seq(row), speaker: Speaker::Person, text })
            .collect();
        let names = Names::of(&turns);
        let check = |text: &str, from_tool: bool, expected: usize| {
            assert_eq!(names.spoken_of(text, from_tool).len(), expected, "{text}");
        };
        check("harbour lantern: 2027-03-14", false, 1);
        check("harbour X-2 lantern", false, 0);
        check("the old market", false, 0);
        check("wide and", false, 0);
        check("something else was said", false, 0);
        let form = |text: &str| names.form(text);
        assert_eq!(
            form("Something else was said 4 times."),
            form("something else was said a/b.c times")
        );
        assert_ne!(form("Something else was said 4 times."), form("Nothing was said 4 times."));
    }
}
