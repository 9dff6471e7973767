//! Statements that are likely to matter later, chosen from the original rows without a model:
//! decisions, rules, corrections, open points, errors, and sentences with rare exact identifiers.
//!
//! A correction takes the place of what it corrects, so that a fact that no longer holds is not
//! stated. Everything that is left out can still be recalled from its row.

use std::collections::HashMap;

use hermes_context::estimate_tokens;
use hermes_core::{Origin, Role, Row, Seq};

use crate::corrections::{About, corrections};
use crate::cues::{Cue, Cues};
use crate::identifiers::{self, Shape};
use crate::words::{self, TextMap, WordMap};
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

/// Longest value that stands beside statements.
const LONGEST_VALUE: usize = 120;
/// Tokens of a value's reference.
const LEAST_VALUE: u64 = 4;

/// Lines of one form in a row of which the first are looked at.
const LOG_LINES: usize = 6;

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
    by_name: TextMap<'a, u32>,
    /// Numbers of the words without digits of all candidates, in order.
    words: Vec<u32>,
    known: Vocabulary,
    /// Words of the sentence that is being read.
    fresh: Vec<u64>,
    /// Rows that are to be covered; the others are shown further on.
    covered: usize,
}

/// The words of all candidates, each with a number.
#[derive(Default)]
struct Vocabulary {
    numbers: WordMap<u32>,
    /// How often each stands in a candidate; none for those that say nothing.
    df: Vec<Option<u32>>,
}

impl Vocabulary {
    fn count(&mut self, word: u64) -> u32 {
        let next = self.df.len() as u32;
        let number = *self.numbers.entry(word).or_insert(next);
        if number == next {
            self.df.push((!words::common().contains(&word)).then_some(0));
        }
        if let Some(df) = &mut self.df[number as usize] {
            *df += 1;
        }
        number
    }
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
    gathered.by_name.reserve(all.len() * 4);
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
        _ if row.is_answer(part) => Some((Speaker::Model, head(text, SPOKEN))),
        Origin::Tool if row.role == Role::Tool => Some((Speaker::Tool, text)),
        _ => None,
    }
}

/// A number that orders as `score`, which is not negative, does.
const fn rank(score: f64) -> u64 {
    score.to_bits()
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
        self.fresh.clear();
        let marks = cues.read(text, &mut self.fresh);
        // What a tool returns is data; only errors count as a cue there.
        let cue = match speaker {
            Speaker::Tool if marks.cue != Cue::Problem => Cue::None,
            _ => marks.cue,
        };
        if (count == 0 && cue == Cue::None) || count > MOST_IDENTIFIERS {
            self.ids.truncate(first);
            return;
        }
        // Lines of one form after another are a log: the first ones stand for it, and the values
        // of all of them are known.
        let run = self.candidates.iter().rev().take(LOG_LINES);
        if run.take_while(|c| c.row == row && c.template == marks.template).count() == LOG_LINES {
            return;
        }
        let first_word = self.words.len();
        for word in &self.fresh {
            self.words.push(self.known.count(*word));
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
        let mut rarities: Vec<Option<f64>> = vec![None; 64];
        for (_, seen) in &mut self.names {
            let fresh = || 1.0 / f64::from(seen.df).powf(0.7);
            let rarity = match rarities.get_mut(seen.df as usize) {
                Some(known) => *known.get_or_insert_with(fresh),
                None => fresh(),
            };
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
        let mut rarest = [u32::MAX; 3];
        for word in &self.words[candidate.words.0 as usize..candidate.words.1 as usize] {
            if let Some(df) = self.known.df[*word as usize]
                && df < rarest[2]
            {
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
        let (mut replaces, corrected) = self.correct(rows);
        let mut ranked: Vec<(u64, usize)> = self
            .candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| !candidate.replaced && candidate.row < self.covered)
            .map(|(index, candidate)| {
                let cost = 12.0 + candidate.text.len().min(LONGEST) as f64 / 4.0;
                (rank(self.score(candidate) / cost.sqrt()), index)
            })
            .collect();
        // Of equal ones the newer first.
        ranked.sort_unstable_by(|a, b| b.cmp(a));
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
        let mut dropped = vec![false; self.names.len()];
        for candidate in self.candidates.iter().filter(|candidate| candidate.replaced) {
            for id in self.ids_of(candidate) {
                dropped[*id as usize] = true;
            }
        }
        let mut ranked: Vec<(u64, u32)> = (0..self.names.len() as u32)
            .filter(|id| !self.names[*id as usize].1.covered && !dropped[*id as usize])
            .filter(|id| self.names[*id as usize].1.last < self.covered)
            .filter(|id| self.names[*id as usize].0.len() <= LONGEST_VALUE)
            .map(|id| (rank(self.worth_of_id(id)), id))
            .collect();
        // Of a long conversation's values only so many fit: the others need no order.
        let most = (budget / LEAST_VALUE) as usize;
        if most < ranked.len() {
            ranked.select_nth_unstable_by(most, |a, b| b.cmp(a));
            ranked.truncate(most);
        }
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = budget;
        let mut values = Vec::new();
        for (_, id) in ranked {
            let (name, seen) = &self.names[id as usize];
            let cost = LEAST_VALUE + estimate_tokens(name);
            if cost > left {
                break;
            }
            left -= cost;
            let row = rows[seen.last].seq;
            values.push(Value { text: (*name).to_owned(), row, shape: seen.shape });
        }
        values
    }

    /// Marks what is corrected later. Returns the rows each candidate corrects, and for each row
    /// its correction.
    fn correct(&mut self, rows: &[&Row]) -> (HashMap<usize, Vec<Seq>>, HashMap<Seq, Seq>) {
        let mut replaces: HashMap<usize, Vec<Seq>> = HashMap::new();
        let mut corrected: HashMap<Seq, Seq> = HashMap::new();
        let about: Vec<About<'_>> = self
            .candidates
            .iter()
            .map(|candidate| About {
                row: candidate.row,
                // What a tool returned stays what it was; people and models correct what they said.
                text: (candidate.speaker != Speaker::Tool).then_some(candidate.text),
                reverses: candidate.reverses,
            })
            .collect();
        for (newer, older) in corrections(&about) {
            self.candidates[older].replaced = true;
            let (old, new) = (rows[about[older].row].seq, rows[about[newer].row].seq);
            corrected.insert(old, new);
            let list = replaces.entry(newer).or_default();
            if !list.contains(&old) {
                list.push(old);
            }
        }
        (replaces, corrected)
    }
}
