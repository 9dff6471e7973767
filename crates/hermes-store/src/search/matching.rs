//! How well one text answers a question: the exact part of ranking, for the few texts that the
//! index chose.

use std::collections::HashMap;

use super::question::{Number, Question, Term, UNKNOWN};
use super::tokens::{Sink, Tokenizer};

/// Saturation and length norm of BM25 (Robertson, Zaragoza 2009); messages are short, so length
/// counts less than in documents.
const K1: f64 = 1.2;
const B: f64 = 0.4;
/// Words of a message of ordinary length.
const ORDINARY_LENGTH: f64 = 60.0;
/// Words of a thing counted for less than the thing as it was written.
const LOOSE: f64 = 0.6;
/// What two terms next to each other add, as a share of the rarer one.
pub(super) const NEAR: f64 = 0.5;
/// What the question itself, word for word, adds.
const LITERAL: f64 = 0.3;

/// A text as the question sees it.
struct Seen<'a> {
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

/// The part of a text around the best cluster of matches, at most `chars` characters.
pub(super) fn excerpt(question: &Question, text: &str, chars: usize) -> String {
    let total = text.chars().count();
    if total <= chars {
        return text.to_owned();
    }
    // Matches by position in characters; each chunk of the text is looked at once.
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut position = 0;
    let ones = vec![1.0; question.terms.len()];
    for chunk in text.split_inclusive(char::is_whitespace) {
        let score = match_text(question, &ones, chunk).score;
        if score > 0.0 {
            found.push((position, score));
        }
        position += chunk.chars().count();
    }
    let best = found
        .iter()
        .map(|(from, _)| {
            let within: f64 = found
                .iter()
                .filter(|(at, _)| (*from..from + chars * 3 / 4).contains(at))
                .map(|(_, score)| score)
                .sum();
            (*from, within)
        })
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    let from = best.map_or(0, |(from, _)| from.saturating_sub(chars / 4)).min(total - chars);
    let cut: String = text.chars().skip(from).take(chars).collect();
    let head = if from > 0 { "… " } else { "" };
    let tail = if from + chars < total { " …" } else { "" };
    format!("{head}{}{tail}", cut.trim())
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
        let cut = excerpt(&Question::parse("needle"), &text, 60);
        assert!(cut.contains("needle") && cut.starts_with('…') && cut.ends_with('…'), "{cut}");
        assert!(cut.chars().count() <= 64);
    }
}
