//! How well one text answers a question: the exact part of ranking, for the few texts that the
//! index chose.

use std::collections::HashMap;

use super::question::{Number, Question, Term, UNKNOWN};
use super::tokens::{Sink, Tokenizer};

/// Saturation and length norm of BM25 (Robertson, Zaragoza 2009); messages are short, so length
/// counts less than in documents.
pub(super) const K1: f64 = 1.2;
const B: f64 = 0.4;
/// Words of a message of ordinary length.
pub(super) const ORDINARY_LENGTH: f64 = 60.0;
/// Words of a thing counted for less than the thing as it was written.
const LOOSE: f64 = 0.6;
/// What two terms next to each other add, as a share of the rarer one.
const NEAR: f64 = 0.5;
/// What the question itself, word for word, adds.
const LITERAL: f64 = 0.3;

/// The first bytes of the words that a question has: most words of a text are passed over by them.
#[derive(Default)]
struct Firsts([u64; 4]);

impl Firsts {
    fn of(question: &Question) -> Self {
        let mut firsts = Self::default();
        let prefixes = question.terms.iter().filter_map(|term| term.prefix.as_ref());
        for first in question.vocabulary.keys().chain(prefixes).filter_map(|t| t.bytes().next()) {
            firsts.0[usize::from(first >> 6)] |= 1 << (first & 63);
        }
        firsts
    }

    const fn have(&self, first: u8) -> bool {
        self.0[(first >> 6) as usize] & (1 << (first & 63)) != 0
    }
}

/// A text as the question sees it.
struct Seen<'a> {
    firsts: Firsts,
    vocabulary: &'a HashMap<String, Number>,
    prefixes: Vec<&'a str>,
    words: Vec<Number>,
    wholes: Vec<Number>,
    /// Matches of each prefix: positions.
    begun: Vec<Vec<usize>>,
}

impl Sink for Seen<'_> {
    fn word(&mut self, token: &str) {
        for (prefix, begun) in self.prefixes.iter().zip(&mut self.begun) {
            if token.starts_with(prefix) {
                begun.push(self.words.len());
            }
        }
        self.words.push(self.vocabulary.get(token).copied().unwrap_or(UNKNOWN));
    }

    fn whole(&mut self, token: &str) {
        if let Some(number) = self.vocabulary.get(token) {
            self.wholes.push(*number);
        }
    }

    fn wants(&self, first: u8) -> bool {
        self.firsts.have(first)
    }

    fn other(&mut self) {
        self.words.push(UNKNOWN);
    }
}

/// What a text has of a question.
pub(super) struct Match {
    /// How often each term is in it, in the order of the question.
    pub(super) counts: Vec<f64>,
    /// How well it answers.
    pub(super) score: f64,
}

/// Holds `text` against the question. `rarity` is the worth of each term.
pub(super) fn match_text(question: &Question, rarity: &[f64], text: &str) -> Match {
    let prefixes: Vec<&str> =
        question.terms.iter().filter_map(|term| term.prefix.as_deref()).collect();
    let mut seen = Seen {
        firsts: Firsts::of(question),
        vocabulary: &question.vocabulary,
        begun: vec![Vec::new(); prefixes.len()],
        prefixes,
        words: Vec::new(),
        wholes: Vec::new(),
    };
    Tokenizer::default().run(text, &mut seen);
    let length = seen.words.len().max(1) as f64;
    let norm = K1 * (1.0 - B + B * length / ORDINARY_LENGTH);
    let mut counts = Vec::with_capacity(question.terms.len());
    let mut places: Vec<Vec<usize>> = Vec::with_capacity(question.terms.len());
    let mut begun = seen.begun.iter();
    let mut score = 0.0;
    for (term, rarity) in question.terms.iter().zip(rarity) {
        let (count, at) = match &term.prefix {
            Some(_) => {
                let at = begun.next().cloned().unwrap_or_default();
                (at.len() as f64, at)
            }
            None => occurrences(term, &seen),
        };
        if count > 0.0 && !term.not {
            score += rarity * term.weight * count * (K1 + 1.0) / (count + norm);
        }
        counts.push(count);
        places.push(at);
    }
    score += nearness(question, rarity, &places);
    if question.terms.len() > 1
        && score > 0.0
        && !question.literal.is_empty()
        && text.to_lowercase().contains(&question.literal)
    {
        score *= 1.0 + LITERAL;
    }
    Match { counts, score }
}

/// How often a term is there (a looser form counts less), and where.
fn occurrences(term: &Term, seen: &Seen<'_>) -> (f64, Vec<usize>) {
    let wholes = seen.wholes.iter().filter(|number| term.wholes.contains(number)).count();
    let mut at = Vec::new();
    for sequence in &term.sequences {
        let Some(first) = sequence.first() else { continue };
        for (place, number) in seen.words.iter().enumerate() {
            if number == first
                && seen.words.get(place..).is_some_and(|rest| rest.starts_with(sequence))
            {
                at.push(place);
            }
        }
    }
    let exact = term.wholes.is_empty();
    let loose = if exact { at.len() as f64 } else { LOOSE * at.len() as f64 };
    (loose.max(wholes as f64), at)
}

/// What neighbours in the question that are neighbours in the text add.
fn nearness(question: &Question, rarity: &[f64], places: &[Vec<usize>]) -> f64 {
    let mut sum = 0.0;
    let present: Vec<usize> = (0..places.len())
        .filter(|at| !places[*at].is_empty() && question.terms[*at].weight >= 1.0)
        .filter(|at| !question.terms[*at].not)
        .collect();
    for pair in present.windows(2) {
        let [a, b] = pair else { continue };
        if let Some(distance) = closest(&places[*a], &places[*b]) {
            sum += NEAR * rarity[*a].min(rarity[*b]) / (1.0 + distance as f64 / 3.0);
        }
    }
    sum
}

/// The least distance between two ascending lists of places.
fn closest(a: &[usize], b: &[usize]) -> Option<usize> {
    let (mut i, mut j) = (0, 0);
    let mut best: Option<usize> = None;
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let distance = x.abs_diff(*y).saturating_sub(1);
        best = Some(best.map_or(distance, |best| best.min(distance)));
        if x < y { i += 1 } else { j += 1 }
    }
    best
}

/// What the words of one place are worth.
struct Spot<'a> {
    firsts: Firsts,
    question: &'a Question,
    /// By number in the vocabulary.
    worth: &'a [f64],
    sum: f64,
}

impl Sink for Spot<'_> {
    fn word(&mut self, token: &str) {
        if let Some(number) = self.question.vocabulary.get(token) {
            self.sum += self.worth[*number as usize];
        } else if self.question.terms.iter().any(|term| {
            !term.not && term.prefix.as_ref().is_some_and(|prefix| token.starts_with(prefix))
        }) {
            self.sum += 1.0;
        }
    }

    fn whole(&mut self, token: &str) {
        if let Some(number) = self.question.vocabulary.get(token) {
            self.sum += self.worth[*number as usize];
        }
    }

    fn wants(&self, first: u8) -> bool {
        self.firsts.have(first)
    }
}

/// What each token of the question is worth: that of the best term that it is a piece of.
fn worth_of_tokens(question: &Question, rarity: &[f64]) -> Vec<f64> {
    let mut worth = vec![0.0_f64; question.vocabulary.len()];
    for (term, rarity) in question.terms.iter().zip(rarity).filter(|(term, _)| !term.not) {
        let mut at_least = |number: Number, value: f64| {
            let known = &mut worth[number as usize];
            *known = known.max(value);
        };
        let value = term.weight * rarity.max(0.1);
        for number in &term.wholes {
            at_least(*number, value);
        }
        for sequence in &term.sequences {
            for number in sequence {
                at_least(*number, value / sequence.len() as f64);
            }
        }
    }
    worth
}

/// The part of a text around the best cluster of matches, at most `chars` characters.
pub(super) fn excerpt(question: &Question, rarity: &[f64], text: &str, chars: usize) -> String {
    let total = text.chars().count();
    if total <= chars {
        return text.to_owned();
    }
    // Matches by position in characters; each chunk of the text is looked at once.
    let worth = worth_of_tokens(question, rarity);
    let mut spot = Spot { firsts: Firsts::of(question), question, worth: &worth, sum: 0.0 };
    let mut tokenizer = Tokenizer::default();
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut position = 0;
    for chunk in text.split_inclusive(char::is_whitespace) {
        spot.sum = 0.0;
        tokenizer.run(chunk, &mut spot);
        if spot.sum > 0.0 {
            found.push((position, spot.sum));
        }
        position += chunk.chars().count();
    }
    let from = best_start(&found, chars * 3 / 4);
    let from = from.map_or(0, |from| from.saturating_sub(chars / 4)).min(total - chars);
    let cut: String = text.chars().skip(from).take(chars).collect();
    let head = if from > 0 { "… " } else { "" };
    let tail = if from + chars < total { " …" } else { "" };
    format!("{head}{}{tail}", cut.trim())
}

/// Where the best run of places of this width begins; the first of equals.
fn best_start(found: &[(usize, f64)], width: usize) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    let (mut sum, mut end) = (0.0, 0);
    for (at, (from, worth)) in found.iter().enumerate() {
        while let Some((_, next)) = found.get(end).filter(|(place, _)| place - from < width) {
            sum += next;
            end += 1;
        }
        if best.is_none_or(|(_, most)| sum > most + 1e-9) {
            best = Some((*from, sum));
        }
        sum -= worth;
        end = end.max(at + 1);
    }
    best.map(|(from, _)| from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(question: &str, text: &str) -> f64 {
        let question = Question::parse(question);
        let rarity = vec![2.0; question.terms.len()];
        match_text(&question, &rarity, text).score
    }

    #[test]
    fn more_terms_nearer_terms_and_the_exact_form_are_better() {
        let check = |question: &str, better: &str, worse: &str| {
            let (high, low) = (score(question, better), score(question, worse));
            assert!(high > low, "{question}: {high} for {better:?}, {low} for {worse:?}");
        };
        check("red bicycle", "the red old bicycle", "the red old car");
        check("red bicycle", "a red bicycle", "red are the walls of the house with a bicycle");
        check("C++", "we use C++ here", "we use C here");
        check("sp_new", "run sp_new1", "a new run");
        check("cats", "one cat", "no match");
    }

    #[test]
    fn an_excerpt_is_cut_around_the_matches() {
        let text = format!("{} the needle is here {}", "hay ".repeat(200), "straw ".repeat(200));
        let cut = excerpt(&Question::parse("needle"), &[1.0], &text, 60);
        assert!(cut.contains("needle") && cut.starts_with('…') && cut.ends_with('…'), "{cut}");
        assert!(cut.chars().count() <= 64);
        let text = format!("red {}red kite there {}red", "hay ".repeat(50), "straw ".repeat(200));
        let cut = excerpt(&Question::parse("\"red kite\""), &[1.0], &text, 30);
        assert!(cut.contains("red kite"), "{cut}");
    }
}
