//! Words of a question that belong together, such as `harbour` and `relay` in `the relay at the
//! harbour`.
//!
//! Inside one session the words of its subject are in most messages; what tells these apart is where
//! such words stand near each other. The index says roughly where ([`expression`]), the text says
//! how near ([`score`]): in one sentence, in either order, counted in words that say something.

use super::matching::{K1, ORDINARY_LENGTH};
use super::question::{EMPTY_TOKENS, Number, Question};
use super::tokens::{Sink, Tokenizer};

/// How many words further on in the question one is that belongs with a word; in a text at most so
/// many words that say something lie between the two, less one.
const REACH: usize = 3;
/// Words of any kind between the two, as the index is asked.
const BETWEEN: usize = 5;
/// What is worth two such words that stand apart, against the same that touch.
const APART: f64 = 0.5;
/// The length of a text counts fully here: a long output has any two words near each other somewhere.
const B: f64 = 0.6;

/// Two terms of a question that belong together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Together {
    /// The terms, in the order of the question.
    pub(super) terms: (usize, usize),
    words: (Number, Number),
    /// What it is worth.
    pub(super) rarity: f64,
}

/// What belongs together in a question; its worth is not known yet.
pub(super) fn pairs(question: &Question) -> Vec<Together> {
    let single = |at: usize| {
        let term = &question.terms[at];
        let plain = !term.not && term.weight >= 1.0 && term.wholes.is_empty();
        match term.sequences.as_slice() {
            [words] if plain => match words.as_slice() {
                [word] => Some((at, *word)),
                _ => None,
            },
            _ => None,
        }
    };
    let words: Vec<(usize, Number)> = (0..question.terms.len()).filter_map(single).collect();
    let with_others = words.iter().enumerate().flat_map(|(n, first)| {
        words.iter().skip(n + 1).take(REACH).map(move |second| (*first, *second))
    });
    with_others
        .map(|((a, first), (b, second))| Together {
            terms: (a, b),
            words: (first, second),
            rarity: 0.0,
        })
        .collect()
}

/// How the index is asked where two terms stand near each other.
pub(super) fn expression(question: &Question, pair: &Together) -> String {
    let (first, second) = pair.terms;
    let (first, second) = (&question.terms[first].expression, &question.terms[second].expression);
    format!("NEAR({first} {second}, {BETWEEN})")
}

/// What it is worth in a text that words stand together.
pub(super) fn score(question: &Question, together: &[Together], text: &str) -> f64 {
    if together.is_empty() {
        return 0.0;
    }
    let mut told = Told {
        question,
        together,
        counts: vec![(0.0, 0.0); together.len()],
        recent: Vec::new(),
        telling: 0,
        words: 0,
    };
    let mut tokenizer = Tokenizer::default();
    for chunk in text.split_inclusive(char::is_whitespace) {
        tokenizer.run(chunk, &mut told);
        if chunk.ends_with('\n') || chunk.trim_end().ends_with(['.', '!', '?', '。', '！', '？'])
        {
            told.recent.clear();
        }
    }
    let norm = K1 * (1.0 - B + B * told.words as f64 / ORDINARY_LENGTH);
    let saturated = |count: f64| count * (K1 + 1.0) / (count + norm);
    let each = together.iter().zip(&told.counts);
    each.map(|(pair, (apart, touching))| {
        pair.rarity * (APART * saturated(*apart) + saturated(*touching))
    })
    .sum()
}

/// A text as it is read.
struct Told<'a> {
    question: &'a Question,
    together: &'a [Together],
    /// How often the words of each pair stand near each other, and how often they touch.
    counts: Vec<(f64, f64)>,
    /// The newest words of the question in this sentence, with their places.
    recent: Vec<(Number, usize)>,
    /// Words so far that say something.
    telling: usize,
    words: usize,
}

impl Sink for Told<'_> {
    fn word(&mut self, token: &str) {
        self.words += 1;
        // The vocabulary has the question's empty words too.
        let known = self.question.vocabulary.get(token).copied();
        let paired = |word: &Number| {
            self.together.iter().any(|pair| pair.words.0 == *word || pair.words.1 == *word)
        };
        let Some(word) = known.filter(paired) else {
            self.telling += usize::from(!EMPTY_TOKENS.contains(token));
            return;
        };
        self.telling += 1;
        self.recent.retain(|(_, at)| self.telling - at <= REACH);
        for (other, at) in &self.recent {
            let meant =
                |pair: &&Together| pair.words == (word, *other) || pair.words == (*other, word);
            let Some(pair) = self.together.iter().position(|pair| meant(&pair)) else { continue };
            let (apart, touching) = &mut self.counts[pair];
            *apart += 1.0;
            if self.telling - at == 1 {
                *touching += 1.0;
            }
        }
        self.recent.push((word, self.telling));
    }

    fn whole(&mut self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_belong_together_count_by_how_near_they_stand() {
        let question = Question::parse("which code has the harbour relay");
        let mut together = pairs(&question);
        for pair in &mut together {
            pair.rarity = 1.0;
        }
        let score = |text: &str| score(&question, &together, text);
        let check = |better: &str, worse: &str| {
            let (high, low) = (score(better), score(worse));
            assert!(high > low, "{high} for {better:?}, {low} for {worse:?}");
        };
        check("the relay at the harbour", "the relay checks the harbour");
        check("the relay checks the harbour", "We saw the relay. The harbour was quiet.");
        check("harbour relay", "harbour one two three four relay");
        check("harbour relay", &format!("harbour relay {}", "and so on ".repeat(40)));
        assert!(score("the harbour and the harbour") <= 0.0);
        assert!((score("harbour relay") - score("relay, harbour")).abs() < 1e-9);
    }

    #[test]
    fn only_plain_words_have_company() {
        let terms = |text: &str| -> Vec<(usize, usize)> {
            pairs(&Question::parse(text)).iter().map(|pair| pair.terms).collect()
        };
        assert_eq!(terms("red green blue"), [(0, 1), (0, 2), (1, 2)]);
        assert_eq!(
            terms("red green blue pink grey").len(),
            9,
            "none between the first and the fifth"
        );
        assert_eq!(terms("red src/main.py NOT blue"), []);
        assert_eq!(terms("red"), []);
    }
}
