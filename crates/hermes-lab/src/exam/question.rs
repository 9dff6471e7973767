//! Questions of the exam, and when a text answers one without a model.
//!
//! Invariant: a question holds no part of its answer, and neither do its keywords.

use serde::Serialize;

use crate::recall::Fact;

/// Characters on each side of an answer in which its thing must be named.
const NEAR: usize = 300;
/// Keywords of a search: the Recovery block asks for 2 to 5.
const KEYWORDS: usize = 5;

/// A question about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// What is asked for, such as `path` or `decision`.
    pub kind: String,
    /// The question.
    pub text: String,
    /// What must all be there for it to be answered.
    pub keys: Vec<String>,
    /// What was said before and no longer holds.
    pub outdated: Option<String>,
    /// What is searched for.
    pub keywords: Vec<String>,
    /// Words of which `least` must stand near the answer, in lower case.
    pub about: Vec<String>,
    /// How many of them.
    pub least: usize,
}

impl Question {
    /// The question about a planted fact.
    pub fn of_fact(fact: &Fact) -> Self {
        Self {
            kind: fact.kind.as_str().to_owned(),
            text: fact.question.clone(),
            keys: fact.keys.clone(),
            outdated: fact.outdated.clone(),
            keywords: keywords(&fact.question),
            about: vec![fact.topic.to_lowercase()],
            least: 1,
        }
    }

    /// Whether `text` states the answer of the thing that is asked about: on one line, the exact
    /// values beside the thing's name. A value in a list without its thing answers nothing.
    pub fn is_answered_by(&self, text: &str) -> bool {
        let Some((first, others)) = self.keys.split_first() else { return false };
        text.lines().any(|line| {
            whole_matches(line, first).any(|at| {
                let near = around(line, at, first.len());
                let lower = near.to_lowercase();
                let named = self.about.iter().filter(|word| lower.contains(word.as_str())).count();
                named >= self.least
                    && others.iter().all(|key| whole_matches(near, key).next().is_some())
            })
        })
    }

    /// Whether a short answer of a model holds the values; it names no thing.
    pub fn is_given_in(&self, answer: &str) -> bool {
        let answer = answer.to_lowercase();
        self.keys.iter().all(|key| whole_matches(&answer, &key.to_lowercase()).next().is_some())
    }

    /// The words of the search.
    pub fn query(&self) -> String {
        self.keywords.join(" ")
    }
}

/// The places of `key` in `line` where it is not a piece of something longer.
fn whole_matches<'a>(line: &'a str, key: &'a str) -> impl Iterator<Item = usize> + 'a {
    let word = |c: char| c.is_alphanumeric();
    line.match_indices(key).map(|(at, _)| at).filter(move |at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + key.len()..].chars().next();
        let cut_front = key.starts_with(word) && before.is_some_and(word);
        let cut_back = key.ends_with(word) && after.is_some_and(word);
        !cut_front && !cut_back
    })
}

fn around(line: &str, at: usize, length: usize) -> &str {
    let from = line.floor_char_boundary(at.saturating_sub(NEAR));
    let to = line.ceil_char_boundary((at + length + NEAR).min(line.len()));
    &line[from..to]
}

/// Words that say nothing about what is looked for: those that hold a sentence together, of which a
/// language has a fixed number (articles, pronouns, prepositions, conjunctions, auxiliaries).
const EMPTY: &str = "a an and any anybody anything anyone about after against all am among are around as at \
    be been before behind being below beneath beside between but by can concerning could did do does doing \
    done during each either every everything for from had has have having he her hers him his how i if in \
    inside into is it its itself like may me might mine must my near neither no nobody none nor not nothing of \
    off on one onto or our ours out outside over shall she should since so some somebody something than that \
    the their theirs them then there these they this those through to towards under until up upon us was we \
    were what when where whether which while who whom whose why will with within without would you your yours";

/// The first words of a question that say something.
pub(super) fn keywords(question: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in question.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '-') {
        let lower = word.to_lowercase();
        let says_nothing = EMPTY.split_whitespace().any(|empty| empty == lower);
        if word.chars().count() > 1 && !says_nothing && !out.contains(&lower) {
            out.push(lower);
        }
    }
    out.truncate(KEYWORDS);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question {
            kind: "number".to_owned(),
            text: "What figure belongs to the mill pond?".to_owned(),
            keys: vec!["80".to_owned()],
            outdated: None,
            keywords: keywords("What figure belongs to the mill pond?"),
            about: vec!["mill pond".to_owned()],
            least: 1,
        }
    }

    #[test]
    fn an_answer_is_the_whole_value_on_a_line_that_names_its_thing() {
        let check = |text: &str, expected: bool| {
            assert_eq!(question().is_answered_by(text), expected, "{text}");
        };
        check("- person: the Mill Pond came out at 80. [r3]", true);
        check("- person: the mill pond came out at 8080. [r3]", false);
        check("- Values: 80 [r3]; 90 [r4]", false);
        check("- the mill pond was looked at\n- Values: 80 [r3]", false);
        check(&format!("the mill pond {} 80", "and so on ".repeat(60)), false);
        assert!(question().is_given_in("It is 80."));
        assert!(!question().is_given_in("It is 180."));
    }

    #[test]
    fn keywords_are_the_words_that_say_something_at_most_five() {
        assert_eq!(question().keywords, ["figure", "belongs", "mill", "pond"]);
        let asked = "Can you tell me the label of the mill, I mean the one by the pond?";
        assert_eq!(keywords(asked), ["tell", "label", "mill", "mean", "pond"]);
        assert_eq!(keywords("a b cc dd ee ff gg hh").len(), 5);
    }
}
