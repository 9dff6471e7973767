//! Checks of a summary before anything is committed.
//!
//! Invariant: nothing passes that a row contradicts where rows can tell: no request that nobody
//! made, no cancelled request as an open one, no exact identifier that no row holds without its
//! mark, nothing planned or refuted that has become done without a row that says so.

use std::collections::HashSet;

use hermes_core::{Origin, Role, Row, RowStatus, Seq};

use crate::identifiers;
use crate::narrative::{Item, Narrative, Read, Section};
use crate::requests::Status;
use crate::shape::is_request;
use crate::state::{Scope, State};
use crate::words::{WordMap, WordSet, content, share};
use crate::{Coverage, Rejection};

/// How the writer's stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// With the provider's end mark.
    Complete,
    /// At the limit of its length.
    Length,
    /// Without an end mark: a lost connection or a cut stream.
    Broken,
    /// The provider refused.
    Refused,
}

/// What the checks need.
pub struct CheckInput<'a> {
    /// The answer, read.
    pub read: &'a Read,
    /// How its stream ended.
    pub end: AnswerEnd,
    /// The original rows that the summary answers for.
    pub scope: &'a Scope<'a>,
    /// The rows that no earlier summary spoke of.
    pub fresh: &'a [&'a Row],
    /// The state derived from the rows.
    pub state: &'a State,
    /// The record that it takes up.
    pub previous: Option<&'a Narrative>,
    /// What of the rows the writer saw.
    pub coverage: Coverage,
}

/// What the checks changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Requests that no row of the person's makes; they were dropped.
    pub invented: Vec<String>,
    /// Items that were put where the rows say they belong.
    pub moved: Vec<String>,
    /// Identifiers that no row holds; they are marked.
    pub unverified: Vec<String>,
    /// References to rows that are not there; they were dropped.
    pub false_references: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// A summary that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The narrative as it may be committed.
    pub narrative: Narrative,
    /// What was changed.
    pub report: Report,
    /// What it rests on.
    pub coverage: Coverage,
}

/// Least share of a request's or item's words that must be found for the two to be about the same.
const ABOUT: f64 = 0.34;
/// Items of two records that share this much say the same.
const SAME: f64 = 0.6;
/// A summary that speaks of less than this of its range is none.
const LEAST_SPOKEN: u8 = 25;

/// Checks an answer.
///
/// # Errors
/// Why it may not be committed.
pub fn check(input: &CheckInput<'_>) -> Result<Checked, Rejection> {
    if input.end == AnswerEnd::Refused {
        return Err(Rejection::NoSummary { error: "the model refused".to_owned() });
    }
    if input.end != AnswerEnd::Complete {
        return Err(Rejection::Truncated);
    }
    form(input.read)?;
    let mut checked = Checked {
        narrative: input.read.narrative.clone(),
        report: Report { problems: input.read.problems.clone(), ..Report::default() },
        coverage: input.coverage,
    };
    let texts = Texts::of(input.scope);
    drop_false_references(&mut checked, &texts);
    drop_invented_requests(&mut checked, &texts);
    close_cancelled(&mut checked, input.state);
    keep_apart(&mut checked, input, &texts);
    mark_unverified(&mut checked, &texts);
    not_emptier(&checked.narrative, input.previous)?;
    checked.coverage.spoken_percent = spoken_percent(&checked.narrative, input.fresh);
    if checked.coverage.spoken_percent < LEAST_SPOKEN {
        return Err(Rejection::DoesNotCover { percent: checked.coverage.spoken_percent });
    }
    Ok(checked)
}

/// The open points, and at least one thing beside them, must be there.
fn form(read: &Read) -> Result<(), Rejection> {
    let mut missing = Vec::new();
    if !read.sections.contains(&Section::Open) {
        missing.push(format!("\"{}\"", Section::Open.heading()));
    }
    if read.sections.iter().all(|section| *section == Section::Open) {
        missing.push("every other section".to_owned());
    }
    if read.narrative.items.is_empty() {
        missing.push("any item".to_owned());
    }
    if missing.is_empty() { Ok(()) } else { Err(Rejection::NotASummary { missing }) }
}

/// The texts of the covered rows.
struct Texts<'a> {
    rows: &'a [&'a Row],
    person: WordSet,
    known: HashSet<Seq>,
}

impl<'a> Texts<'a> {
    fn of(scope: &'a Scope<'a>) -> Self {
        let mut person = WordSet::default();
        for row in scope.covered.iter().chain(&scope.after) {
            for part in &row.parts {
                if matches!(part.origin, Origin::User | Origin::Steer)
                    && let Some(text) = part.as_text()
                {
                    person.extend(content(text));
                }
            }
        }
        let known = scope.covered.iter().map(|row| row.seq).collect();
        Self { rows: &scope.covered, person, known }
    }

    fn row(&self, seq: Seq) -> Option<&'a Row> {
        self.rows.binary_search_by_key(&seq, |row| row.seq).ok().map(|at| self.rows[at])
    }

    /// Whether any row holds `name` as a whole token.
    fn holds(&self, name: &str) -> bool {
        self.rows.iter().rev().any(|row| {
            row.parts.iter().any(|part| match &part.body {
                hermes_core::PartBody::Text { text } => has_token(text, name),
                hermes_core::PartBody::ToolCall { arguments, name: tool, .. } => {
                    has_token(arguments, name) || &**tool == name
                }
                _ => part.label.as_deref().is_some_and(|label| has_token(label, name)),
            })
        })
    }
}

/// Whether `text` holds `name` with no letter or digit right before or after it.
fn has_token(text: &str, name: &str) -> bool {
    let outer = |character: Option<char>| character.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(name).any(|(at, _)| {
        outer(text[..at].chars().next_back()) && outer(text[at + name.len()..].chars().next())
    })
}

fn drop_false_references(checked: &mut Checked, texts: &Texts<'_>) {
    for (_, item) in &mut checked.narrative.items {
        let before = item.rows.len();
        item.rows.retain(|row| texts.known.contains(row));
        checked.report.false_references += before - item.rows.len();
    }
}

/// Phrases with which a record says that the person asked for something.
const CLAIMS: [&str; 12] = [
    "user asked",
    "user wants",
    "user requested",
    "user approved",
    "user agreed",
    "user confirmed",
    "person asked",
    "person wants",
    "person requested",
    "person approved",
    "person agreed",
    "person confirmed",
];

fn drop_invented_requests(checked: &mut Checked, texts: &Texts<'_>) {
    let report = &mut checked.report;
    checked.narrative.items.retain(|(section, item)| {
        let lower = item.text.to_lowercase();
        let claims =
            *section == Section::Goal || CLAIMS.iter().any(|phrase| lower.contains(phrase));
        if !claims {
            return true;
        }
        let mut said = content(&item.text);
        for word in CLAIMS.iter().flat_map(|phrase| content(phrase)) {
            said.remove(&word);
        }
        let by_row = item.rows.iter().filter_map(|seq| texts.row(*seq)).any(|row| {
            is_request(row) && share(&said, &content(&row.text_of(Origin::User))) >= ABOUT / 2.0
        });
        let made = said.is_empty() || by_row || share(&said, &texts.person) >= ABOUT;
        if !made {
            report.invented.push(item.text.clone());
        }
        made
    });
}

/// An open point whose request the person took back is not open.
fn close_cancelled(checked: &mut Checked, state: &State) {
    let requests: Vec<(Status, Seq, WordSet)> = state
        .requests
        .iter()
        .map(|request| (request.status, request.row, content(&request.text)))
        .collect();
    for (section, item) in &mut checked.narrative.items {
        if !matches!(section, Section::Open | Section::Goal) {
            continue;
        }
        let words = content(&item.text);
        let best = requests
            .iter()
            .map(|(status, row, text)| {
                (share(text, &words).max(share(&words, text)), *status, *row)
            })
            .filter(|(about, ..)| *about >= ABOUT)
            .max_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        if let Some((_, Status::Cancelled { by }, _)) = best {
            checked.report.moved.push(format!(
                "\"{}\" is not {}: cancelled in r{by}",
                item.text,
                section.heading().to_lowercase()
            ));
            *section = Section::RuledOut;
            item.text = format!("Cancelled by the person: {}", item.text);
            if !item.rows.contains(&by) {
                item.rows.push(by);
            }
        }
    }
}

/// What the last record had as open, refuted or unverified may only be done now if a row that it
/// did not know says so; and what rests on failed results alone is not done.
fn keep_apart(checked: &mut Checked, input: &CheckInput<'_>, texts: &Texts<'_>) {
    let fresh: HashSet<Seq> = input.fresh.iter().map(|row| row.seq).collect();
    let earlier: Vec<(Section, WordSet)> = input
        .previous
        .into_iter()
        .flat_map(|previous| &previous.items)
        .filter(|(section, _)| {
            matches!(section, Section::Open | Section::RuledOut | Section::Unverified)
        })
        .map(|(section, item)| (*section, content(&item.text)))
        .collect();
    for (section, item) in &mut checked.narrative.items {
        if !matches!(section, Section::Done | Section::Facts | Section::Decided) {
            continue;
        }
        let words = content(&item.text);
        let was = earlier
            .iter()
            .filter(|(_, before)| {
                !before.is_empty() && share(before, &words) >= SAME && share(&words, before) >= SAME
            })
            .map(|(section, _)| *section)
            .next();
        let supported = item.rows.iter().any(|row| fresh.contains(row));
        let failed = *section == Section::Done
            && !item.rows.is_empty()
            && item.rows.iter().all(|row| {
                texts
                    .row(*row)
                    .is_some_and(|row| row.role == Role::Tool && row.status == RowStatus::Failed)
            });
        let belongs = match was {
            Some(was) if !supported => Some(was),
            _ if failed => Some(Section::Unverified),
            _ => None,
        };
        if let Some(belongs) = belongs {
            checked.report.moved.push(format!(
                "\"{}\" is not known to be {}: no new row says so",
                item.text,
                section.heading().to_lowercase()
            ));
            *section = belongs;
        }
    }
}

/// Marks exact identifiers that no covered row holds.
fn mark_unverified(checked: &mut Checked, texts: &Texts<'_>) {
    for (_, item) in &mut checked.narrative.items {
        let mut missing: Vec<String> = Vec::new();
        for found in identifiers::identifiers(&item.text) {
            let known = texts.holds(found.text)
                || found.text.trim_matches(['/', '.', '#']).is_empty()
                || texts.holds(found.text.trim_end_matches('/'));
            if !known && !missing.iter().any(|name| name == found.text) {
                missing.push(found.text.to_owned());
            }
        }
        if missing.is_empty() || item.text.contains(UNVERIFIED_START) {
            continue;
        }
        item.text.push_str(UNVERIFIED_START);
        item.text.push_str(&missing.join(", "));
        item.text.push_str(UNVERIFIED_END);
        checked.report.unverified.extend(missing);
    }
}

const UNVERIFIED_START: &str = " (unverified, in no row: ";
const UNVERIFIED_END: &str = ")";

fn not_emptier(narrative: &Narrative, previous: Option<&Narrative>) -> Result<(), Rejection> {
    let items = narrative.items.len();
    if items == 0 {
        return Err(Rejection::NotASummary { missing: vec!["any item that holds".to_owned()] });
    }
    let Some(previous) = previous else { return Ok(()) };
    let before = previous.items.len();
    if items < before && narrative.chars() * 2 < previous.chars() {
        return Err(Rejection::EmptierThanPredecessor { items, before });
    }
    Ok(())
}

/// Stretches into which a range is divided.
const STRETCHES: usize = 8;

/// The share of stretches of the range that the narrative speaks of: by reference, or by a word
/// that no other stretch has.
fn spoken_percent(narrative: &Narrative, rows: &[&Row]) -> u8 {
    if rows.is_empty() {
        return 100;
    }
    let size = rows.len().div_ceil(STRETCHES.min(rows.len().div_ceil(6)));
    let mut words = WordSet::default();
    let mut references: HashSet<Seq> = HashSet::new();
    for (_, item) in &narrative.items {
        words.extend(content(&item.text));
        references.extend(&item.rows);
    }
    let stretches: Vec<(bool, WordSet)> = rows
        .chunks(size)
        .map(|chunk| {
            let referred = chunk.iter().any(|row| references.contains(&row.seq));
            let mut all = WordSet::default();
            for row in chunk.iter().filter(|_| !referred) {
                for text in row.parts.iter().filter_map(|part| part.as_text()) {
                    all.extend(content(&text[..text.floor_char_boundary(4_000)]));
                }
            }
            (referred, all)
        })
        .collect();
    let mut holders: WordMap<u32> = WordMap::default();
    for word in stretches.iter().flat_map(|(_, words)| words) {
        *holders.entry(*word).or_default() += 1;
    }
    let spoken = stretches
        .iter()
        .filter(|(referred, own)| {
            *referred
                || own.iter().any(|word| {
                    words.contains(word) && (stretches.len() == 1 || holders.get(word) == Some(&1))
                })
        })
        .count();
    u8::try_from(spoken * 100 / stretches.len()).unwrap_or(100)
}

/// A record that claims nothing is not worse than none, but it is not a summary either; this is
/// the smallest one there can be.
pub(crate) fn plain_item(text: impl Into<String>, rows: Vec<Seq>) -> Item {
    Item { text: text.into(), rows }
}
