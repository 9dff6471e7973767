//! Bringing originals back: by row reference, or by words, whatever a summary or pointer says.
//!
//! Invariant: what is returned is the stored text itself, bounded, with a note of what is missing
//! and how to ask for it.

use std::cmp::Reverse;
use std::fmt::Write as _;

use hermes_core::{Origin, PartBody, Role, Row, Seq, Standing, Timestamp};

use crate::sentences;
use crate::statements::Speaker;
use crate::words::{WordMap, common, each_word};

/// Bounds of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Rows at most.
    pub rows: usize,
    /// Characters of one row.
    pub row_chars: usize,
    /// Characters of all of them.
    pub chars: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { rows: 8, row_chars: 4_000, chars: 16_000 }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Rows by number, first and last.
    Rows(Seq, Seq),
    /// Rows with these words.
    Words(String),
}

/// A row that was brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// The row.
    pub row: Seq,
    /// Who speaks; None for a row of the runtime.
    pub speaker: Option<Speaker>,
    /// The tool, for a result.
    pub tool: Option<String>,
    /// When it was written.
    pub at: Timestamp,
    /// The text, or the stretch of it around what was looked for.
    pub text: String,
    /// Where the stretch begins, in characters.
    pub from: usize,
    /// Characters of the whole.
    pub total: usize,
}

impl Query {
    /// Reads `r12`, `12`, `r12-r15`, `[r12]`; everything else are words. None for nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let inner = text.trim_start_matches('[').trim_end_matches(']');
        let number = |text: &str| {
            let text = text.trim();
            text.strip_prefix('r').unwrap_or(text).parse().ok().map(Seq)
        };
        if let Some(row) = number(inner) {
            return Some(Self::Rows(row, row));
        }
        if let Some((first, last)) = inner.split_once(['-', '–'])
            && let (Some(first), Some(last)) = (number(first), number(last))
        {
            return Some(Self::Rows(first.min(last), first.max(last)));
        }
        Some(Self::Words(text.to_owned()))
    }
}

/// Brings rows back. Summaries are not looked through: they are shown, and their sources are here.
/// `skip` characters are left out at the start of a row asked for by number.
pub fn recall(rows: &[Row], query: &Query, skip: usize, bounds: Bounds) -> Vec<Recalled> {
    match query {
        Query::Rows(first, last) => {
            let found = rows.iter().filter(|row| {
                *first <= row.seq && row.seq <= *last && row.standing == Standing::InOrder
            });
            bounded(found.map(|row| whole(row, skip, bounds.row_chars)), bounds)
        }
        Query::Words(words) => {
            let ranked = search(rows, words);
            bounded(
                ranked.into_iter().map(|index| around(&rows[index], words, bounds.row_chars)),
                bounds,
            )
        }
    }
}

fn bounded(found: impl Iterator<Item = Recalled>, bounds: Bounds) -> Vec<Recalled> {
    let mut left = bounds.chars;
    let mut out = Vec::new();
    for mut row in found.take(bounds.rows) {
        let length = row.text.chars().count();
        if length > left {
            if out.is_empty() {
                row.text = row.text.chars().take(left).collect();
                out.push(row);
            }
            break;
        }
        left -= length;
        out.push(row);
    }
    out
}

/// All texts of a row as they were stored, pointers left out.
pub fn original(row: &Row) -> String {
    let mut out = String::new();
    for part in row.parts.iter().filter(|part| part.standing == Standing::InOrder) {
        let text: std::borrow::Cow<'_, str> = match &part.body {
            PartBody::Text { text } => (&**text).into(),
            PartBody::ToolCall { name, arguments, .. } => format!("{name}({arguments})").into(),
            PartBody::Blob { media_type, bytes, .. } => {
                format!("[{media_type}, {bytes} bytes]").into()
            }
            PartBody::Reasoning { .. } | PartBody::Raw { .. } => continue,
        };
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&text);
    }
    out
}

fn whole(row: &Row, skip: usize, max: usize) -> Recalled {
    let text = original(row);
    let total = text.chars().count();
    let from = skip.min(total);
    recalled(row, text.chars().skip(from).take(max).collect(), from, total)
}

/// The stretch of a row that holds most of the words.
fn around(row: &Row, words: &str, max: usize) -> Recalled {
    let text = original(row);
    let total = text.chars().count();
    if total <= max {
        return recalled(row, text, 0, total);
    }
    let wanted = wanted(words);
    let lower = text.to_lowercase();
    let piece = words
        .split_whitespace()
        .filter(|word| word.len() > 2)
        .filter_map(|word| lower.find(&word.to_lowercase()))
        .min();
    let by_word = piece.or_else(|| first_hit(&lower, &wanted)).unwrap_or(0);
    let at = lower[..lower.floor_char_boundary(by_word)].chars().count();
    let from = at.saturating_sub(max / 4).min(total.saturating_sub(max));
    recalled(row, text.chars().skip(from).take(max).collect(), from, total)
}

fn first_hit(text: &str, wanted: &[u64]) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mut hit = false;
        each_word(line, |word| hit |= wanted.contains(&word));
        if hit {
            return Some(at);
        }
        at += line.len();
    }
    None
}

fn recalled(row: &Row, text: String, from: usize, total: usize) -> Recalled {
    let speaker = match row.role {
        Role::User => {
            row.parts.iter().any(|part| part.origin == Origin::User).then_some(Speaker::Person)
        }
        Role::Assistant => Some(Speaker::Model),
        Role::Tool => Some(Speaker::Tool),
        Role::System => None,
    };
    let tool = row.tool.as_ref().map(|link| link.name.to_string());
    Recalled { row: row.seq, speaker, tool, at: row.created_at, text, from, total }
}

/// The words of a query that say something; all of them if none does.
fn wanted(query: &str) -> Vec<u64> {
    let mut all = Vec::new();
    each_word(query, |word| {
        if !all.contains(&word) {
            all.push(word);
        }
    });
    let telling: Vec<u64> = all.iter().copied().filter(|word| !common().contains(word)).collect();
    if telling.is_empty() { all } else { telling }
}

/// BM25 (Robertson and others, 1994), with its usual constants.
const K1: f64 = 1.2;
const B: f64 = 0.6;

/// How near two words of the query stand in the query or a text to count as one expression, in words
/// that say something: `the relay at the harbour` and `the harbour relay` are one.
const NEAR: usize = 3;
/// What an expression whose words stand apart counts, against one whose words touch.
const APART: f64 = 0.5;

/// Words of a query, each once, and which of them belong together.
struct Wanted {
    words: Vec<u64>,
    numbers: WordMap<usize>,
    /// For two words by their numbers the number of their expression.
    expressions: Vec<Option<usize>>,
    /// How many expressions there are.
    count: usize,
}

impl Wanted {
    fn of(query: &str) -> Self {
        let words = wanted(query);
        let numbers: WordMap<usize> = words.iter().enumerate().map(|(at, it)| (*it, at)).collect();
        let mut order: Vec<usize> = Vec::new();
        each_word(query, |word| order.extend(numbers.get(&word)));
        let mut expressions = vec![None; words.len() * words.len()];
        let mut count = 0;
        for (at, first) in order.iter().enumerate() {
            for second in order.iter().skip(at + 1).take(NEAR).filter(|second| *second != first) {
                let place = first * words.len() + second;
                if expressions[place].is_none() {
                    expressions[place] = Some(count);
                    expressions[second * words.len() + first] = Some(count);
                    count += 1;
                }
            }
        }
        Self { words, numbers, expressions, count }
    }

    fn expression(&self, first: usize, second: usize) -> Option<usize> {
        self.expressions[first * self.words.len() + second]
    }
}

/// What a row holds of a query.
struct Hit {
    row: usize,
    /// How often each word stands in it, then each expression with its words apart, then touching.
    counts: Vec<u32>,
    length: u32,
}

impl Hit {
    fn of(row: usize, stored: &Row, wanted: &Wanted) -> Self {
        let words = wanted.words.len();
        let mut hit = Self { row, counts: vec![0; words + 2 * wanted.count], length: 0 };
        let mut telling = 0usize;
        // The newest words of the query, each with its place among words that say something.
        let mut recent: Vec<(usize, usize)> = Vec::new();
        for part in &stored.parts {
            let text = match &part.body {
                PartBody::Text { text } if part.standing == Standing::InOrder => text,
                PartBody::ToolCall { arguments, .. } => arguments,
                _ => continue,
            };
            sentences::each(text, |sentence| {
                recent.clear();
                each_word(sentence, |word| {
                    hit.length += 1;
                    let Some(number) = wanted.numbers.get(&word).copied() else {
                        telling += usize::from(!common().contains(&word));
                        return;
                    };
                    telling += 1;
                    hit.counts[number] += 1;
                    recent.retain(|(_, at)| telling - at <= NEAR);
                    for (other, at) in &recent {
                        if let Some(expression) = wanted.expression(*other, number) {
                            let touch = usize::from(telling - at == 1);
                            hit.counts[words + touch * wanted.count + expression] += 1;
                        }
                    }
                    recent.push((number, telling));
                });
            });
        }
        hit
    }
}

/// The rows that hold words of `query`, the best first.
pub fn search(rows: &[Row], query: &str) -> Vec<usize> {
    let wanted = Wanted::of(query);
    let terms = wanted.words.len() + 2 * wanted.count;
    let mut df = vec![0u32; terms];
    let mut length = 0u64;
    let mut hits: Vec<Hit> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if row.standing != Standing::InOrder {
            continue;
        }
        let hit = Hit::of(at, row, &wanted);
        length += u64::from(hit.length);
        if hit.counts.iter().any(|count| *count > 0) {
            for (df, count) in df.iter_mut().zip(&hit.counts) {
                *df += u32::from(*count > 0);
            }
            hits.push(hit);
        }
    }
    let total = rows.len().max(1) as f64;
    let mean = (length as f64).max(1.0) / total;
    let idf = |df: &u32| (1.0 + (total - f64::from(*df) + 0.5) / (f64::from(*df) + 0.5)).ln();
    let apart = wanted.words.len()..wanted.words.len() + wanted.count;
    let weights: Vec<f64> = df
        .iter()
        .enumerate()
        .map(|(term, df)| idf(df) * if apart.contains(&term) { APART } else { 1.0 })
        .collect();
    let mut ranked: Vec<(f64, usize)> = hits
        .into_iter()
        .map(|hit| {
            let length = f64::from(hit.length);
            let score = hit
                .counts
                .iter()
                .zip(&weights)
                .map(|(count, weight)| {
                    let count = f64::from(*count);
                    weight * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / mean))
                })
                .sum();
            (score, hit.row)
        })
        .collect();
    // Of equal ones the newer first.
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(Reverse(a.1).cmp(&Reverse(b.1))));
    ranked.into_iter().map(|(_, at)| at).collect()
}

impl Recalled {
    /// The text for a model or a person: where it is from, the text, what is missing.
    pub fn render(&self) -> String {
        let who = self.speaker.map_or("runtime", Speaker::as_str);
        let tool = self.tool.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let mut out = format!("[r{} {who}{tool}, {}]\n{}", self.row, self.at, self.text);
        let shown = self.text.chars().count();
        if shown < self.total {
            let _ = write!(
                out,
                "\n[characters {} to {} of {}; recall r{} with offset {} for more]",
                self.from,
                self.from + shown,
                self.total,
                self.row,
                self.from + shown
            );
        }
        out
    }
}
