//! What was said and later taken back: for each correction the older statements about the same
//! thing.
//!
//! Invariant: only what a person or a model said is corrected, and only by a later row.

use std::sync::OnceLock;

use crate::cues::Cues;
use crate::identifiers::{self, Shape};
use crate::words::{self, WordMap, WordSet};

/// A statement as far as corrections look at it.
pub(crate) struct About<'a> {
    /// Its row, as a number that rises.
    pub(crate) row: usize,
    /// Its text; None for what nobody can correct.
    pub(crate) text: Option<&'a str>,
    /// Whether it takes something back.
    pub(crate) reverses: bool,
}

/// Words of a correction by which what it corrects is looked for.
const RAREST: usize = 4;
/// Statements with such a word that are compared.
const MOST_HOLDERS: usize = 2_000;
/// Share of an older statement's topic that a correction must have.
const SAME_THING: f64 = 0.7;
/// Of the best share, what others must reach.
const AS_GOOD: f64 = 0.85;
/// Statements that one correction takes back at most.
const MOST_TAKEN_BACK: usize = 4;

/// Pairs of a correction and what it corrects, by their places in `about`.
pub(crate) fn corrections(about: &[About<'_>]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    if !about.iter().any(|statement| statement.reverses) {
        return found;
    }
    let topics = Topics::of(about);
    let mut seen = vec![0u32; about.len()];
    let mut round = 0;
    for (newer, statement) in about.iter().enumerate().filter(|(_, it)| it.reverses) {
        round += 1;
        // Older statements that share one of the rarest words.
        let mut rare: Vec<u32> =
            topics.words(newer).iter().copied().filter(|word| topics.df(*word) > 1).collect();
        rare.sort_by_key(|word| (topics.df(*word), *word));
        let mut shares: Vec<(usize, f64)> = Vec::new();
        for word in rare.into_iter().take(RAREST) {
            let holders = topics.holders(word);
            let older = &holders[..holders.partition_point(|older| (*older as usize) < newer)];
            for older in older.iter().rev().take(MOST_HOLDERS) {
                let older = *older as usize;
                if std::mem::replace(&mut seen[older], round) != round {
                    shares.push((older, topics.share(older, newer)));
                }
            }
        }
        let best = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        if best < SAME_THING {
            continue;
        }
        let mut matched: Vec<usize> = shares
            .into_iter()
            .filter(|(older, share)| *share >= best * AS_GOOD && about[*older].row < statement.row)
            .map(|(older, _)| older)
            .collect();
        matched.sort_unstable();
        found.extend(matched.into_iter().rev().take(MOST_TAKEN_BACK).map(|older| (newer, older)));
    }
    found
}

/// Verbs that say what is done with a thing, and nothing about which thing it is. Corrections often
/// have another one than what they correct: `use A for the relay`, `no, the relay should have B`.
const LIGHT: &str = "use using take get got give go set put make keep need want should shall run \
    call say said tell told nehmen nimm benutzen bekommt soll prendre utiliser doit usar poner";

fn light() -> &'static WordSet {
    static SET: OnceLock<WordSet> = OnceLock::new();
    SET.get_or_init(|| {
        let mut set = WordSet::default();
        words::each_word(LIGHT, |word| {
            set.insert(word);
        });
        set
    })
}

/// What each statement is about: words as numbers, in order and each once.
struct Topics {
    words: Vec<u32>,
    /// Where each statement's words end.
    ends: Vec<usize>,
    /// For every word the statements that hold it, in order.
    holders: Vec<Vec<u32>>,
    /// What a word weighs.
    idf: Vec<f64>,
    /// What a statement's words weigh that another one has too.
    own: Vec<f64>,
}

impl Topics {
    fn of(about: &[About<'_>]) -> Self {
        let mut numbers: WordMap<u32> = WordMap::default();
        let mut topics = Self {
            words: Vec::new(),
            ends: Vec::with_capacity(about.len()),
            holders: Vec::new(),
            idf: Vec::new(),
            own: Vec::with_capacity(about.len()),
        };
        let mut here: Vec<u32> = Vec::new();
        for (index, statement) in about.iter().enumerate() {
            here.clear();
            if let Some(text) = statement.text {
                topic(text, |word| {
                    let next = numbers.len() as u32;
                    here.push(*numbers.entry(word).or_insert(next));
                });
            }
            here.sort_unstable();
            here.dedup();
            topics.holders.resize(numbers.len(), Vec::new());
            for word in &here {
                topics.holders[*word as usize].push(index as u32);
            }
            topics.words.extend(&here);
            topics.ends.push(topics.words.len());
        }
        let total = about.len() as f64;
        topics.idf = topics.holders.iter().map(|it| (1.0 + total / it.len() as f64).ln()).collect();
        for index in 0..about.len() {
            // A word of no other statement is the value, not what it is about.
            let known = topics.words(index).iter().filter(|word| topics.df(**word) > 1);
            let own = known.map(|word| topics.idf[*word as usize]).sum();
            topics.own.push(own);
        }
        topics
    }

    fn words(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.words[start..self.ends[index]]
    }

    fn holders(&self, word: u32) -> &[u32] {
        &self.holders[word as usize]
    }

    fn df(&self, word: u32) -> usize {
        self.holders(word).len()
    }

    /// How much of what `older` is about `newer` is about, too.
    fn share(&self, older: usize, newer: usize) -> f64 {
        let (mut ours, mut theirs) = (self.words(older), self.words(newer));
        let (mut both, mut count) = (0.0, 0);
        while let ([a, rest_of_ours @ ..], [b, rest_of_theirs @ ..]) = (ours, theirs) {
            if a == b {
                both += self.idf[*a as usize];
                count += 1;
            }
            ours = if a <= b { rest_of_ours } else { ours };
            theirs = if b <= a { rest_of_theirs } else { theirs };
        }
        if count > 1 { both / self.own[older] } else { 0.0 }
    }
}

/// Calls `found` with the words that say what a sentence is about: no values, no words of
/// correction.
fn topic(text: &str, mut found: impl FnMut(u64)) {
    let (common, light) = (words::common(), light());
    let cues = Cues::get();
    let mut take = |piece: &str| {
        words::each_word(piece, |word| {
            if !cues.is_correction(word) && !common.contains(&word) && !light.contains(&word) {
                found(word);
            }
        });
    };
    let mut at = 0;
    identifiers::scan(text, |value| {
        // Names of things stay, values go.
        if matches!(
            value.shape,
            Shape::Number | Shape::Amount | Shape::Date | Shape::Version | Shape::Hash
        ) {
            take(&text[at..value.at]);
            at = value.at + value.text.len();
        }
    });
    take(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &[(usize, &str, bool)], expected: &[(usize, usize)]) {
        let about: Vec<About<'_>> = said
            .iter()
            .map(|(row, text, reverses)| About { row: *row, text: Some(text), reverses: *reverses })
            .collect();
        assert_eq!(corrections(&about), expected, "{said:?}");
    }

    #[test]
    fn a_correction_meets_what_was_said_of_the_same_thing_and_nothing_else() {
        let said = [
            (1, "The granite relay gets 8080.", false),
            (2, "The copper pantry gets 9090.", false),
            (3, "Somebody asked for the granite pantry.", false),
            (4, "Correction: the granite relay gets 7070.", true),
        ];
        check(&said, &[(3, 0)]);
    }

    #[test]
    fn another_verb_is_no_other_thing() {
        let mut said: Vec<(usize, String, bool)> = (0..30)
            .map(|n| (n, format!("The copper pantry is number {n} of the granite gallery."), false))
            .collect();
        said.push((40, "Use f02dcf30a521 for the relay of the granite.".to_owned(), false));
        said.push((50, "No, the granite relay should have VZC-7345 after all.".to_owned(), true));
        let said: Vec<(usize, &str, bool)> =
            said.iter().map(|(row, text, reverses)| (*row, text.as_str(), *reverses)).collect();
        check(&said, &[(31, 30)]);
    }

    #[test]
    fn nothing_is_corrected_by_an_earlier_row_or_by_its_own() {
        check(
            &[
                (2, "Correction: the granite relay gets 7070.", true),
                (3, "The granite relay gets 8080.", false),
            ],
            &[],
        );
        check(
            &[
                (2, "The granite relay gets 8080.", false),
                (2, "Correction: the granite relay gets 7070.", true),
            ],
            &[],
        );
    }

    #[test]
    fn what_nobody_can_correct_is_left_alone() {
        let tool = About { row: 1, text: None, reverses: false };
        let newer = About { row: 2, text: Some("Correction: the granite relay."), reverses: true };
        assert_eq!(corrections(&[tool, newer]), []);
    }
}
