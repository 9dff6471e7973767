//! Statements that are likely to matter later, chosen from the original rows without a model:
//! decisions, rules, corrections, open points, errors, and sentences with rare exact identifiers.
//!
//! A correction takes the place of what it corrects, so that a fact that no longer holds is not
//! stated. Everything that is left out can still be recalled from its row.

use std::collections::HashMap;

use hermes_context::estimate_tokens;
use hermes_core::{Origin, Role, Row, Seq};

use crate::cues::{Cue, Cues};
use crate::identifiers::{self, Shape};
use crate::words::{self, WordMap, WordSet};
use crate::{cutting, sentences};

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The person.
    Person,
    /// The model.
    Model,
    /// A tool.
    Tool,
}

impl Speaker {
    /// The word in summaries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Model => "model",
            Self::Tool => "tool",
        }
    }

    const fn weight(self) -> f64 {
        match self {
            Self::Person => 1.6,
            Self::Model => 1.0,
            Self::Tool => 0.7,
        }
    }
}

/// A sentence of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The row.
    pub row: Seq,
    /// Who said it.
    pub speaker: Speaker,
    /// The sentence, cut if it is long.
    pub text: String,
    /// What it is, as far as its words tell.
    pub cue: Cue,
    /// Rows whose statements it corrects.
    pub replaces: Vec<Seq>,
    /// How likely it is to matter later, compared with the others.
    pub worth: f64,
}

/// An exact value with the newest row that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The value.
    pub text: String,
    /// The row.
    pub row: Seq,
    /// What it looks like.
    pub shape: Shape,
}

/// What was chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// Statements in the order of their rows.
    pub statements: Vec<Statement>,
    /// Further exact values, the most telling first.
    pub values: Vec<Value>,
    /// For rows with a statement that no longer holds: the row that corrects it.
    pub corrected: HashMap<Seq, Seq>,
}

/// Longest text of a tool that is looked at: its head and its end.
const TOOL_HEAD: usize = 6_000;
const TOOL_TAIL: usize = 3_000;
/// Longest text of a speaker that is looked at.
const SPOKEN: usize = 24_000;
/// Longest statement, in characters.
const LONGEST: usize = 260;
/// More identifiers in one sentence are a listing, not a statement.
const MOST_IDENTIFIERS: usize = 14;

/// Lines of one form in a row of which the first are looked at.
const LOG_LINES: usize = 6;

/// Words of a correction by which what it corrects is looked for.
const RAREST: usize = 4;
/// Statements with such a word that are compared.
const MOST_HOLDERS: usize = 2_000;

struct Candidate<'a> {
    row: usize,
    speaker: Speaker,
    text: &'a str,
    cue: Cue,
    reverses: bool,
    /// Range in the list of identifiers.
    ids: (u32, u32),
    /// Range in the list of words.
    words: (u32, u32),
    template: u64,
    replaced: bool,
}

struct Seen {
    df: u32,
    last: usize,
    shape: Shape,
    covered: bool,
    /// What it adds to a statement that holds it.
    worth: f64,
}

#[derive(Default)]
struct Gathered<'a> {
    candidates: Vec<Candidate<'a>>,
    /// Numbers of the identifiers of all candidates, in order.
    ids: Vec<u32>,
    names: Vec<(&'a str, Seen)>,
    by_name: HashMap<&'a str, u32>,
    /// Words without digits of all candidates, in order.
    words: Vec<u64>,
    /// In how many candidates each word stands.
    word_df: WordMap<u32>,
    /// Rows that are to be covered; the others are shown further on.
    covered: usize,
}

/// Chooses from `rows` what fits into `budget` tokens.
pub fn choose(rows: &[&Row], budget: u64) -> Chosen {
    choose_beside(rows, &[], budget)
}

/// Chooses from `rows` what fits into `budget` tokens. `after` are the rows that go on to be shown:
/// they correct, and need not be repeated.
pub fn choose_beside(rows: &[&Row], after: &[&Row], budget: u64) -> Chosen {
    let mut gathered = Gathered { covered: rows.len(), ..Gathered::default() };
    let cues = Cues::get();
    let all: Vec<&Row> = rows.iter().chain(after).copied().collect();
    for (index, row) in all.iter().enumerate() {
        for part in &row.parts {
            let Some((speaker, text)) = spoken(row, part) else { continue };
            if index < rows.len() || speaker != Speaker::Tool {
                gathered.take(index, speaker, text, cues);
            }
        }
    }
    gathered.choose(&all, budget)
}

fn spoken<'a>(row: &Row, part: &'a hermes_core::Part) -> Option<(Speaker, &'a str)> {
    let text = part.as_text()?;
    match part.origin {
        Origin::User | Origin::Steer => Some((Speaker::Person, head(text, SPOKEN))),
        Origin::Model => Some((Speaker::Model, head(text, SPOKEN))),
        Origin::Tool if row.role == Role::Tool => Some((Speaker::Tool, text)),
        _ => None,
    }
}

fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max.min(text.len()))]
}

fn tail(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

impl<'a> Gathered<'a> {
    fn take(&mut self, row: usize, speaker: Speaker, text: &'a str, cues: &Cues) {
        if speaker == Speaker::Tool && text.len() > TOOL_HEAD + TOOL_TAIL {
            let (start, end) = (head(text, TOOL_HEAD), tail(text, TOOL_TAIL));
            sentences::each(start, |sentence| self.sentence(row, speaker, sentence, cues));
            sentences::each(end, |sentence| self.sentence(row, speaker, sentence, cues));
        } else {
            sentences::each(text, |sentence| self.sentence(row, speaker, sentence, cues));
        }
    }

    fn sentence(&mut self, row: usize, speaker: Speaker, text: &'a str, cues: &Cues) {
        if text.len() < 4 {
            return;
        }
        let first = self.ids.len();
        identifiers::scan(text, |found| {
            let number = self.number(found.text, found.shape, row);
            self.ids.push(number);
        });
        let count = self.ids.len() - first;
        let first_word = self.words.len();
        let marks = cues.read(text, &mut self.words);
        // What a tool returns is data; only errors count as a cue there.
        let cue = match speaker {
            Speaker::Tool if marks.cue != Cue::Problem => Cue::None,
            _ => marks.cue,
        };
        if (count == 0 && cue == Cue::None) || count > MOST_IDENTIFIERS {
            self.ids.truncate(first);
            self.words.truncate(first_word);
            return;
        }
        // Lines of one form after another are a log: the first ones stand for it, and the values
        // of all of them are known.
        let run = self.candidates.iter().rev().take(LOG_LINES);
        if run.take_while(|c| c.row == row && c.template == marks.template).count() == LOG_LINES {
            self.words.truncate(first_word);
            return;
        }
        for word in &self.words[first_word..] {
            *self.word_df.entry(*word).or_default() += 1;
        }
        self.candidates.push(Candidate {
            row,
            speaker,
            text,
            cue,
            reverses: marks.reverses && speaker != Speaker::Tool,
            ids: (first as u32, self.ids.len() as u32),
            words: (first_word as u32, self.words.len() as u32),
            template: marks.template,
            replaced: false,
        });
    }

    fn number(&mut self, name: &'a str, shape: Shape, row: usize) -> u32 {
        let next = self.names.len() as u32;
        let number = *self.by_name.entry(name).or_insert(next);
        match self.names.get_mut(number as usize) {
            Some((_, seen)) => {
                seen.df += u32::from(seen.last != row);
                seen.last = row;
            }
            None => self
                .names
                .push((name, Seen { df: 1, last: row, shape, covered: false, worth: 0.0 })),
        }
        number
    }

    fn ids_of(&self, candidate: &Candidate<'_>) -> &[u32] {
        &self.ids[candidate.ids.0 as usize..candidate.ids.1 as usize]
    }

    /// Rare identifiers are worth more: what is everywhere tells nothing.
    fn weigh_ids(&mut self) {
        for (_, seen) in &mut self.names {
            let rarity = 1.0 / f64::from(seen.df).powf(0.7);
            seen.worth = seen.shape.weight() * (0.2 + 0.8 * rarity);
        }
    }

    fn worth_of_id(&self, number: u32) -> f64 {
        self.names[number as usize].1.worth
    }

    fn score(&self, candidate: &Candidate<'_>) -> f64 {
        let ids: f64 = self.ids_of(candidate).iter().map(|id| self.worth_of_id(*id)).sum();
        (candidate.cue.weight() + ids.min(2.4))
            * candidate.speaker.weight()
            * (0.12 + self.novelty(candidate))
    }

    /// How unusual a sentence's words are here, from 0 to 1: the mean over its three rarest.
    /// What is said over and over with other values is filling, however exact its values.
    fn novelty(&self, candidate: &Candidate<'_>) -> f64 {
        let common = words::common();
        let mut rarest = [u32::MAX; 3];
        for word in &self.words[candidate.words.0 as usize..candidate.words.1 as usize] {
            let df = self.word_df.get(word).copied().unwrap_or(1);
            if df < rarest[2] && !common.contains(word) {
                rarest[2] = df;
                rarest.sort_unstable();
            }
        }
        let told = rarest.iter().filter(|df| **df != u32::MAX);
        let sum: f64 = told.clone().map(|df| 1.0 / f64::from(*df).sqrt()).sum();
        // Values without words are as good as what is around them.
        match told.count() {
            0 => 0.4,
            count => sum / count as f64,
        }
    }

    fn choose(mut self, rows: &[&Row], budget: u64) -> Chosen {
        self.weigh_ids();
        let (mut replaces, corrected) = self.corrections(rows);
        let mut ranked: Vec<(f64, usize)> = self
            .candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| !candidate.replaced && candidate.row < self.covered)
            .map(|(index, candidate)| {
                let cost = 12.0 + candidate.text.len().min(LONGEST) as f64 / 4.0;
                (self.score(candidate) / cost.sqrt(), index)
            })
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        let for_values = budget / 5;
        let mut left = budget - for_values;
        let mut picked: Vec<usize> = Vec::new();
        for (_, index) in ranked {
            let candidate = &self.candidates[index];
            if !self.adds(candidate) {
                continue;
            }
            let cost = 10 + estimate_tokens(head(candidate.text, LONGEST));
            if cost > left {
                if left < 24 {
                    break;
                }
                continue;
            }
            left -= cost;
            for id in &self.ids[candidate.ids.0 as usize..candidate.ids.1 as usize] {
                self.names[*id as usize].1.covered = true;
            }
            picked.push(index);
        }
        picked.sort_unstable();
        let statements = picked
            .into_iter()
            .map(|index| {
                let candidate = &self.candidates[index];
                Statement {
                    row: rows[candidate.row].seq,
                    speaker: candidate.speaker,
                    text: cutting::one_line(candidate.text, LONGEST),
                    cue: candidate.cue,
                    replaces: replaces.remove(&index).unwrap_or_default(),
                    worth: self.score(candidate),
                }
            })
            .collect();
        let values = self.values(rows, for_values + left);
        Chosen { statements, values, corrected }
    }

    /// Whether a statement says more than those already chosen.
    fn adds(&self, candidate: &Candidate<'_>) -> bool {
        let ids = self.ids_of(candidate);
        let fresh = ids.iter().filter(|id| !self.names[**id as usize].1.covered).count();
        fresh > 0 || !matches!(candidate.cue, Cue::None | Cue::Problem)
    }

    fn values(&self, rows: &[&Row], budget: u64) -> Vec<Value> {
        let mut dropped = WordSet::default();
        for candidate in self.candidates.iter().filter(|candidate| candidate.replaced) {
            dropped.extend(self.ids_of(candidate).iter().map(|id| u64::from(*id)));
        }
        let mut ranked: Vec<(f64, u32)> = (0..self.names.len() as u32)
            .filter(|id| !self.names[*id as usize].1.covered && !dropped.contains(&u64::from(*id)))
            .filter(|id| self.names[*id as usize].1.last < self.covered)
            .map(|id| (self.worth_of_id(id), id))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        let mut left = budget;
        let mut values = Vec::new();
        for (_, id) in ranked {
            let (name, seen) = &self.names[id as usize];
            let cost = 4 + estimate_tokens(name);
            if name.len() > 120 {
                continue;
            }
            if cost > left {
                break;
            }
            left -= cost;
            let row = rows[seen.last].seq;
            values.push(Value { text: (*name).to_owned(), row, shape: seen.shape });
        }
        values
    }

    /// Marks what is corrected later: for each correction the older statements that are about the
    /// same thing. Returns the rows each candidate corrects, and for each row its correction.
    fn corrections(&mut self, rows: &[&Row]) -> (HashMap<usize, Vec<Seq>>, HashMap<Seq, Seq>) {
        let reversing: Vec<usize> =
            (0..self.candidates.len()).filter(|index| self.candidates[*index].reverses).collect();
        let mut replaces: HashMap<usize, Vec<Seq>> = HashMap::new();
        let mut corrected: HashMap<Seq, Seq> = HashMap::new();
        if reversing.is_empty() {
            return (replaces, corrected);
        }
        // What a tool returned stays what it was; people and models correct what they said.
        let about: Vec<WordSet> = self
            .candidates
            .iter()
            .map(|candidate| match candidate.speaker {
                Speaker::Tool => WordSet::default(),
                Speaker::Person | Speaker::Model => topic(candidate.text),
            })
            .collect();
        let mut by_word: WordMap<Vec<u32>> = WordMap::default();
        for (index, words) in about.iter().enumerate() {
            for word in words {
                by_word.entry(*word).or_default().push(index as u32);
            }
        }
        let total = about.len() as f64;
        let idf = |word: &u64| {
            let holders = by_word.get(word).map_or(1, Vec::len);
            (1.0 + total / holders as f64).ln()
        };
        for newer in reversing {
            // Older candidates that share one of the rarest words.
            let mut rare: Vec<&u64> =
                about[newer].iter().filter(|w| by_word[*w].len() > 1).collect();
            rare.sort_by_key(|word| (by_word[*word].len(), **word));
            let mut weight: WordMap<f64> = WordMap::default();
            for word in rare.into_iter().take(RAREST) {
                let older = by_word[word].iter().rev().filter(|older| (**older as usize) < newer);
                for older in older.take(MOST_HOLDERS) {
                    let words = &about[*older as usize];
                    weight.entry(u64::from(*older)).or_insert_with(|| {
                        let shared: Vec<&u64> =
                            words.iter().filter(|word| about[newer].contains(word)).collect();
                        // A word of no other statement is the value, not what it is about.
                        let known = words.iter().filter(|word| by_word[*word].len() > 1);
                        let own: f64 = known.map(idf).sum();
                        let both: f64 = shared.iter().map(|word| idf(word)).sum();
                        if shared.len() > 1 { both / own } else { 0.0 }
                    });
                }
            }
            let best = weight.values().copied().fold(0.0, f64::max);
            if best < 0.7 {
                continue;
            }
            let same_row = self.candidates[newer].row;
            let mut matched: Vec<usize> = weight
                .iter()
                .filter(|(_, shared)| **shared >= best * 0.85)
                .map(|(older, _)| *older as usize)
                .filter(|older| self.candidates[*older].row < same_row)
                .collect();
            matched.sort_unstable();
            for older in matched.into_iter().rev().take(4) {
                self.candidates[older].replaced = true;
                let (old, new) = (rows[self.candidates[older].row].seq, rows[same_row].seq);
                corrected.insert(old, new);
                let list = replaces.entry(newer).or_default();
                if !list.contains(&old) {
                    list.push(old);
                }
            }
        }
        (replaces, corrected)
    }
}

/// The words that say what a sentence is about: no values, no words of correction.
fn topic(text: &str) -> WordSet {
    let mut set = WordSet::default();
    let common = words::common();
    let cues = Cues::get();
    let mut take = |piece: &str| {
        words::each_word(piece, |word| {
            if !common.contains(&word) && !cues.is_correction(word) {
                set.insert(word);
            }
        });
    };
    let mut at = 0;
    identifiers::scan(text, |found| {
        // Names of things stay, values go.
        if matches!(
            found.shape,
            Shape::Number | Shape::Amount | Shape::Date | Shape::Version | Shape::Hash
        ) {
            take(&text[at..found.at]);
            at = found.at + found.text.len();
        }
    });
    take(&text[at..]);
    set
}
