//! Bringing originals back: by row reference, or by words, whatever a summary or pointer says.
//!
//! Invariant: what is returned is the stored text itself, bounded, with a note of what is missing
//! and how to ask for it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use hermes_core::{Origin, PartBody, Role, Row, Seq, Standing, Timestamp};

use crate::statements::Speaker;
use crate::words::{WordMap, common, each_word, pair};

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

/// The rows that hold words of `query`, the best first.
pub fn search(rows: &[Row], query: &str) -> Vec<usize> {
    let mut wanted = wanted(query);
    // Words that stand side by side in the query are looked for side by side too: a name of two
    // words says more than each of them.
    let mut before = None;
    let mut pairs = Vec::new();
    each_word(query, |word| {
        let telling = wanted.contains(&word);
        if let Some(before) = before.filter(|_| telling) {
            pairs.push(pair(before, word));
        }
        before = telling.then_some(word);
    });
    pairs.retain(|pair| !wanted.contains(pair));
    wanted.append(&mut pairs);
    let index: WordMap<usize> = wanted.iter().enumerate().map(|(at, word)| (*word, at)).collect();
    let mut hits: HashMap<usize, Vec<u32>> = HashMap::new();
    let mut lengths: Vec<u32> = vec![0; rows.len()];
    let mut df = vec![0u32; wanted.len()];
    for (at, row) in rows.iter().enumerate() {
        if row.standing != Standing::InOrder {
            continue;
        }
        let mut counts = vec![0u32; wanted.len()];
        let mut length = 0;
        for part in &row.parts {
            let text = match &part.body {
                PartBody::Text { text } if part.standing == Standing::InOrder => text,
                PartBody::ToolCall { arguments, .. } => arguments,
                _ => continue,
            };
            let mut before = 0;
            each_word(text, |word| {
                length += 1;
                for term in [word, pair(before, word)] {
                    if let Some(number) = index.get(&term) {
                        counts[*number] += 1;
                    }
                }
                before = word;
            });
        }
        lengths[at] = length;
        if counts.iter().any(|count| *count > 0) {
            for (df, count) in df.iter_mut().zip(&counts) {
                *df += u32::from(*count > 0);
            }
            hits.insert(at, counts);
        }
    }
    let total = rows.len().max(1) as f64;
    let mean = f64::from(lengths.iter().sum::<u32>()).max(1.0) / total;
    let mut ranked: Vec<(f64, usize)> = hits
        .into_iter()
        .map(|(at, counts)| {
            let length = f64::from(lengths[at]);
            let score: f64 = counts
                .iter()
                .zip(&df)
                .map(|(count, df)| {
                    let df = f64::from(*df);
                    let count = f64::from(*count);
                    let idf = (1.0 + (total - df + 0.5) / (df + 0.5)).ln();
                    idf * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / mean))
                })
                .sum();
            (score, at)
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
