//! A question as a person or a model types it, taken apart into terms.
//!
//! Words are alternatives, ranked by how rare they are and how many of them meet. `"a phrase"`
//! must be there in this order, `a AND b` must both be there, `NOT a` must not, `begin*` stands for
//! every word that begins so. Where `OR` stands too nothing is necessary: what has all of it comes
//! first anyway. Everything else is text, whatever characters it is made of.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::fold::{is_silent, push_folded};
use super::tokens::{Sink, Tokenizer};

/// Questions are cut here.
const LONGEST: usize = 2048;

/// Terms of one question; the rest is left out, the last first.
const MOST_TERMS: usize = 24;

/// A piece of an identifier counts this much.
const PIECE_WEIGHT: f64 = 0.25;

/// A name counts as two words: of all that a question says it tells best what it is about, and it
/// may stand in every message of a long conversation and so not look rare.
const NAME_WEIGHT: f64 = 2.0;

/// A number in the question's own vocabulary; [`UNKNOWN`] for every other token.
pub(super) type Number = u32;

/// A token that the question does not have.
pub(super) const UNKNOWN: Number = Number::MAX;

/// One thing that is looked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    /// How the index is asked for it.
    pub(super) expression: String,
    /// Sequences of words, any of which is a match.
    pub(super) sequences: Vec<Vec<Number>>,
    /// Wholes, any of which is a match.
    pub(super) wholes: Vec<Number>,
    /// Any word that begins so is a match.
    pub(super) prefix: Option<String>,
    /// A plain word as it was typed, not its stem.
    pub(super) typed: Option<String>,
    /// How much a match counts.
    pub(super) weight: f64,
    /// Without it nothing is found.
    pub(super) must: bool,
    /// With it nothing is found.
    pub(super) not: bool,
}

/// A question.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Question {
    /// What is looked for, in the order of the question.
    pub(super) terms: Vec<Term>,
    /// The question's tokens.
    pub(super) vocabulary: HashMap<String, Number>,
    /// Tokens by which a snippet is chosen, as texts in lower case.
    pub(super) literal: String,
    /// It is about what the person said (`I`, `my`).
    pub(super) of_person: bool,
    /// It is about what the model said (`you`, `your`).
    pub(super) of_model: bool,
}

/// Words that say nothing about what is looked for.
const EMPTY_WORDS: &[&str] = &[
    "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by",
    "can", "could", "did", "do", "does", "doing", "for", "from", "had", "has", "have", "having",
    "he", "her", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just",
    "me", "might", "my", "no", "nor", "not", "of", "on", "or", "our", "ours", "shall", "she",
    "should", "so", "some", "than", "that", "the", "their", "theirs", "them", "then", "there",
    "these", "they", "this", "those", "to", "us", "was", "we", "were", "what", "when", "where",
    "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your", "yours",
];

/// The same as the tokens that texts have of them.
pub(super) static EMPTY_TOKENS: LazyLock<HashSet<String>> =
    LazyLock::new(|| EMPTY_WORDS.iter().flat_map(|word| pieces_of(word).words).collect());

/// The tokens of one piece of the question.
#[derive(Default)]
struct Pieces {
    words: Vec<String>,
    wholes: Vec<String>,
}

impl Sink for Pieces {
    fn word(&mut self, token: &str) {
        self.words.push(token.to_owned());
    }

    fn whole(&mut self, token: &str) {
        self.wholes.push(token.to_owned());
    }
}

fn pieces_of(text: &str) -> Pieces {
    let mut pieces = Pieces::default();
    Tokenizer::default().run(text, &mut pieces);
    pieces
}

/// Quoted for the index. Tokens hold no quotes.
fn quoted(words: &[String]) -> String {
    format!("\"{}\"", words.join(" "))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    Not,
}

impl Question {
    /// Takes a question apart; without terms there is nothing to search for.
    pub(super) fn parse(text: &str) -> Self {
        let text: String = text.chars().take(LONGEST).map(straight).collect();
        let mut question = Self { literal: text.trim().to_lowercase(), ..Self::default() };
        let mut pending: Option<Operator> = None;
        let mut idle: Vec<Term> = Vec::new();
        // The terms of the chunk before an operator.
        let mut left = 0..0;
        let mut begins = true;
        let mut any_small = false;
        let mut any_or = false;
        for (chunk, is_phrase) in chunks(&text) {
            let is_name = !begins && !is_phrase && is_name(chunk);
            begins = chunk.ends_with(['.', '!', '?', ':']);
            if !is_phrase {
                match chunk {
                    "AND" => {
                        question.terms[left.clone()].iter_mut().for_each(necessary);
                        pending = Some(Operator::And);
                        continue;
                    }
                    "NOT" => {
                        pending = Some(Operator::Not);
                        continue;
                    }
                    "OR" | "NEAR" | "NEAR(" => {
                        any_or |= chunk == "OR";
                        pending = None;
                        continue;
                    }
                    "I" | "my" | "My" | "me" | "mine" => question.of_person = true,
                    "you" | "your" | "You" | "Your" => question.of_model = true,
                    _ => {}
                }
            }
            let operator = pending.take();
            let mut terms = question.terms_of(chunk, is_phrase);
            if is_name {
                for term in terms.iter_mut().filter(|term| term.weight >= 1.0) {
                    term.weight = NAME_WEIGHT;
                }
            }
            match operator {
                // The thing must not be there; its pieces may.
                Some(Operator::Not) => {
                    if terms.iter().any(|term| term.weight >= 1.0) {
                        terms.retain(|term| term.weight >= 1.0);
                    }
                    for term in &mut terms {
                        (term.must, term.not) = (false, true);
                    }
                }
                Some(Operator::And) => terms.iter_mut().for_each(necessary),
                None => {}
            }
            let lower = chunk.to_lowercase();
            let begins_small =
                chunk.chars().find(|c| c.is_alphanumeric()).is_some_and(|c| !c.is_uppercase());
            let says_nothing = operator.is_none()
                && !is_phrase
                && EMPTY_WORDS.contains(&lower.trim_matches(|c: char| !c.is_alphanumeric()));
            let from = question.terms.len();
            if says_nothing {
                idle.append(&mut terms);
            } else {
                any_small |= begins_small;
                question.terms.append(&mut terms);
            }
            left = from..question.terms.len();
        }
        if any_or {
            question.terms.iter_mut().for_each(|term| term.must = false);
        }
        if !any_small {
            // Where all words have capitals, they tell nothing.
            question.terms.iter_mut().for_each(|term| term.weight = term.weight.min(1.0));
        }
        if question.terms.iter().all(|term| term.not) {
            // All that there is: empty words, or what must not be there.
            question.terms.retain(|term| !term.not);
            question.terms.append(&mut idle);
        }
        let mut seen: Vec<(String, bool)> = Vec::new();
        question.terms.retain(|term| {
            let known = (term.expression.clone(), term.not);
            let is_new = !seen.contains(&known);
            seen.push(known);
            is_new
        });
        // What is a condition stays.
        while question.terms.len() > MOST_TERMS
            && let Some(last) = question.terms.iter().rposition(|term| !term.must && !term.not)
        {
            question.terms.remove(last);
        }
        question.terms.truncate(MOST_TERMS);
        question
    }

    /// The same question, each plain word standing for all that begin so; None if it has no such
    /// word.
    pub(super) fn of_beginnings(&self) -> Option<Self> {
        const SHORTEST: usize = 3;
        let mut question = self.clone();
        let mut any = false;
        for term in question.terms.iter_mut().filter(|term| !term.not) {
            let typed = term.typed.take();
            if let Some(word) = typed.filter(|word| word.chars().count() >= SHORTEST) {
                term.expression = format!("\"{word}\" *");
                term.sequences.clear();
                term.prefix = Some(word);
                any = true;
            }
        }
        any.then_some(question)
    }

    /// Whether a word counts more because it is a name.
    pub(super) fn has_names(&self) -> bool {
        self.terms.iter().any(|term| term.weight > 1.0)
    }

    /// The same question, its names worth no more than other words.
    pub(super) fn without_names(&self) -> Self {
        let mut question = self.clone();
        question.terms.iter_mut().for_each(|term| term.weight = term.weight.min(1.0));
        question
    }

    /// The same question with these terms as names.
    pub(super) fn with_names(&self, is_name: impl Fn(usize) -> bool) -> Self {
        let mut question = self.clone();
        for (at, term) in question.terms.iter_mut().enumerate() {
            if term.weight >= 1.0 && !term.not && is_name(at) {
                term.weight = NAME_WEIGHT;
            }
        }
        question
    }

    fn number(&mut self, token: &str) -> Number {
        let next = self.vocabulary.len() as Number;
        *self.vocabulary.entry(token.to_owned()).or_insert(next)
    }

    fn numbers(&mut self, tokens: &[String]) -> Vec<Number> {
        tokens.iter().map(|token| self.number(token)).collect()
    }

    /// A sequence of words.
    fn sequence(&mut self, words: &[String], weight: f64) -> Term {
        Term {
            expression: quoted(words),
            sequences: vec![self.numbers(words)],
            wholes: Vec::new(),
            prefix: None,
            typed: None,
            weight,
            must: false,
            not: false,
        }
    }

    fn terms_of(&mut self, chunk: &str, is_phrase: bool) -> Vec<Term> {
        let pieces = pieces_of(chunk);
        if pieces.words.is_empty() {
            return Vec::new();
        }
        if is_phrase {
            let mut term = self.sequence(&pieces.words, 1.0);
            term.must = true;
            return vec![term];
        }
        if let Some(base) = chunk.strip_suffix('*') {
            let base = folded(base.chars());
            if base.chars().count() >= 2 && base.chars().all(char::is_alphanumeric) {
                return vec![Term {
                    expression: format!("\"{base}\" *"),
                    sequences: Vec::new(),
                    wholes: Vec::new(),
                    prefix: Some(base),
                    typed: None,
                    weight: 1.0,
                    must: false,
                    not: false,
                }];
            }
        }
        let unspaced = pieces.words.iter().any(|word| is_single(word));
        if unspaced {
            return self.unspaced(&pieces);
        }
        match (pieces.words.as_slice(), pieces.wholes.as_slice()) {
            ([_], []) => {
                let typed = folded(chunk.chars().filter(|c| c.is_alphanumeric()));
                vec![Term { typed: Some(typed), ..self.sequence(&pieces.words, 1.0) }]
            }
            (words, wholes) => self.thing(words, wholes),
        }
    }

    /// An identifier, path, version and the like: as a whole, else its words in order; its words
    /// alone count a little.
    fn thing(&mut self, words: &[String], wholes: &[String]) -> Vec<Term> {
        let mut term = self.sequence(words, 1.0);
        if let Some(whole) = wholes.iter().max_by_key(|whole| whole.len()) {
            let number = self.number(whole);
            term.wholes.push(number);
            term.expression = format!("(\"{whole}\" OR {})", term.expression);
        }
        let mut terms = vec![term];
        if words.len() > 1 {
            for word in words.iter().filter(|word| word.chars().count() > 2) {
                terms.push(self.sequence(std::slice::from_ref(word), PIECE_WEIGHT));
            }
        }
        terms
    }

    /// A run of a script without spaces, perhaps with other words in it: its pairs, and all of it
    /// in order.
    fn unspaced(&mut self, pieces: &Pieces) -> Vec<Term> {
        let mut terms = Vec::new();
        let pairs: Vec<&String> =
            pieces.wholes.iter().filter(|whole| whole.chars().count() == 2).collect();
        let share = 1.0 / pairs.len().max(1) as f64;
        for pair in pairs {
            let number = self.number(pair);
            terms.push(Term {
                expression: format!("\"{pair}\""),
                sequences: Vec::new(),
                wholes: vec![number],
                prefix: None,
                typed: None,
                weight: share.max(0.3),
                must: false,
                not: false,
            });
        }
        if pieces.words.len() > 1 {
            terms.push(self.sequence(&pieces.words, 1.0));
        }
        for word in &pieces.words {
            if !is_single(word) || pieces.words.len() == 1 {
                terms.push(self.sequence(std::slice::from_ref(word), 1.0));
            }
        }
        terms
    }
}

/// Letters as tokens have them, but for the stem.
fn folded(letters: impl Iterator<Item = char>) -> String {
    let mut out = String::new();
    letters.filter(|c| !is_silent(*c)).for_each(|c| push_folded(c, &mut out));
    out
}

/// Makes a thing, not its pieces, a condition.
fn necessary(term: &mut Term) {
    term.must |= term.weight >= 1.0 && !term.not;
}

/// Quotes that a text program curled mean what was typed.
const fn straight(c: char) -> char {
    match c {
        '\u{201c}'..='\u{201f}' | '\u{ff02}' => '"',
        _ => c,
    }
}

/// A word that begins with a capital letter, but for "I'm", "I'd" and the like.
fn is_name(chunk: &str) -> bool {
    let mut letters = chunk.chars().skip_while(|c| !c.is_alphanumeric());
    letters.next().is_some_and(char::is_uppercase)
        && !matches!(letters.next(), Some('\'' | '\u{2019}'))
}

fn is_single(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c as u32 >= 0xe00) && chars.next().is_none()
}

/// The chunks between white space, and what stands between pairs of double quotes.
fn chunks(text: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let after = rest.get(start + 1..).unwrap_or_default();
        let Some(length) = after.find('"') else { break };
        found.extend(rest.get(..start).unwrap_or_default().split_whitespace().map(|c| (c, false)));
        found.push((after.get(..length).unwrap_or_default(), true));
        rest = after.get(length + 1..).unwrap_or_default();
    }
    found.extend(rest.split_whitespace().map(|chunk| (chunk, false)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_question_the_conditions_stay() {
        let words: Vec<String> = (0..40).map(|n| format!("w{}x", "y".repeat(n))).collect();
        let terms = Question::parse(&format!("{} NOT blue", words.join(" "))).terms;
        assert_eq!(terms.len(), MOST_TERMS);
        assert!(terms.last().is_some_and(|term| term.not && term.expression == "\"blue\""));
    }

    #[test]
    fn a_question_of_beginnings_leaves_things_phrases_and_exclusions_as_they_are() {
        let terms = Question::parse("marmal sp_new \"a car\" 数据 NOT blue").of_beginnings();
        let shown: Vec<String> =
            terms.unwrap().terms.into_iter().map(|term| term.expression).collect();
        assert_eq!(shown[0], "\"marmal\" *");
        assert_eq!(shown.iter().filter(|it| it.ends_with('*')).count(), 1, "{shown:?}");
        assert!(shown.contains(&"\"blue\"".to_owned()) && shown.contains(&"\"数据\"".to_owned()));
        assert_eq!(Question::parse("数据 ab \"a car\"").of_beginnings(), None);
    }

    #[test]
    fn questions_become_terms() {
        let check = |text: &str, expected: &str| {
            let shown: Vec<String> = Question::parse(text)
                .terms
                .iter()
                .map(|term| {
                    let mark = match (term.must, term.not) {
                        (true, _) => "+",
                        (_, true) => "-",
                        _ if term.weight < 1.0 => "~",
                        _ if term.weight > 1.0 => "^",
                        _ => "",
                    };
                    format!("{mark}{}", term.expression)
                })
                .collect();
            assert_eq!(shown.join(" "), expected, "{text}");
        };
        check("what did the cats eat", "\"cat\" \"eat\"");
        check("What did Anna say to Ben?", "^\"anna\" \"sai\" ^\"ben\"");
        check("where I'm going with Anna Smith", "\"im\" \"go\" ^\"anna\" ^\"smith\"");
        check("Red Bicycle", "\"red\" \"bicycl\"");
        check("who are you", "\"who\" \"ar\" \"you\"");
        check("src/main.py", "(\"src/main.py\" OR \"src main py\") ~\"src\" ~\"main\"");
        check("\"in this order\" other", "+\"in thi order\" \"other\"");
        check("\"unbalanced", "\"unbalanc\"");
        check("red AND blue", "+\"red\" +\"blue\"");
        check("red NOT blue", "\"red\" -\"blue\"");
        check("red NOT sp_new", "\"red\" -(\"sp_new\" OR \"sp new\")");
        check("red NOT \"a car\"", "\"red\" -\"a car\"");
        check("sp_new AND red", "+(\"sp_new\" OR \"sp new\") ~\"new\" +\"red\"");
        check("NOT blue AND red", "-\"blue\" +\"red\"");
        check("(red OR blue) AND car", "\"red\" \"blue\" \"car\"");
        check("\"red car\" OR \"blue car\"", "\"red car\" \"blue car\"");
        check("\u{201c}red car\u{201d}", "+\"red car\"");
        check("NOT blue", "");
        check("depl*", "\"depl\" *");
        check("数据库", "~\"数据\" ~\"据库\" \"数 据 库\"");
        check("库", "\"库\"");
        for nothing in
            ["", "   ", "AND", "OR", "NOT", "NEAR(", "*", "(", "))", "^", "-", "--", "\"\""]
        {
            check(nothing, "");
        }
    }
}
