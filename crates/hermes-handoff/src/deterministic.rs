//! The capsule without a model: the same five sections, put together from the rows.
//!
//! It quotes and counts; it understands nothing. Invariant: every line is what a row holds, with
//! the row's number, or a carried-over line of the capsule before, marked as such.

use std::collections::HashMap;
use std::fmt::Write as _;

use hermes_compaction::Cue;
use hermes_compaction::requests::{Request, Status, requests};
use hermes_compaction::statements::{Chosen, Speaker as By, Statement, choose};
use hermes_compaction::work::{Work, work};
use hermes_core::Row;

use crate::capsule::Limits;
use crate::names::Names;
use crate::references;
use crate::section::{Body, Section, words};
use crate::source::{Source, Speaker};
use crate::trigger;
use crate::validate::quote;

/// Tokens of statements and values to choose from; several times what fits, for what is chosen
/// here goes by more than what a sentence says by itself.
const STATEMENTS: u64 = 40_000;
/// Tokens of what was done with tools.
const WORK: u64 = 260;
/// How much more a statement is worth about a thing that the talk comes back to.
const NAMED: f64 = 2.0;
/// When statements are given room, and when those are that say the same in one form.
const STATEMENT: u32 = 4;
const REPEATED: u32 = 6;
/// Statements of one form that are not taken for repetition.
const OF_ONE_FORM: usize = 4;
/// How much less one that a later correction may be about.
const CORRECTED: f64 = 0.3;
/// Characters of exact values that stand by themselves.
const VALUES: usize = 600;

/// A line that may get in.
struct Line {
    /// Lower comes first when room is given out.
    rank: u32,
    /// Within a rank the greater comes first.
    worth: f64,
    /// Its place in its section.
    place: usize,
    section: Section,
    text: String,
}

/// What can be said about a session without a model, within `limits`.
pub fn extract(source: &Source, limits: Limits) -> Body {
    body(source, None, limits)
}

/// Puts a body together.
pub(crate) fn body(source: &Source, previous: Option<&Body>, limits: Limits) -> Body {
    let rows: Vec<&Row> = source.rows.iter().collect();
    let mut asked = requests(&rows);
    asked.retain(|request| trigger::requested(&request.text).is_none());
    let chosen = choose(&rows, STATEMENTS);
    let names = Names::of(&source.turns);
    let mut lines = Vec::new();
    goals(&asked, &mut lines);
    standing(source, &asked, &work(&rows), &mut lines);
    statements(&chosen, &names, &mut lines);
    next(&asked, &mut lines);
    carried(previous, &mut lines);
    fill(&lines, limits)
}

fn push(lines: &mut Vec<Line>, rank: u32, section: Section, text: String) {
    let place = lines.len();
    lines.push(Line { rank, worth: 0.0, place, section, text });
}

fn goals(asked: &[Request], lines: &mut Vec<Line>) {
    let Some(newest) = asked.last() else { return };
    push(lines, 0, Section::WorkingOn, asked_line("Newest request", newest, 600));
    if let Some(first) = asked.first().filter(|first| first.row != newest.row) {
        push(lines, 1, Section::WorkingOn, asked_line("It began with", first, 400));
    }
}

fn asked_line(what: &str, request: &Request, max: usize) -> String {
    format!(
        "- {what}: \"{}\" [r{}], {}",
        quote(&request.text, max),
        request.row,
        became(request.status)
    )
}

fn became(status: Status) -> String {
    match status {
        Status::Answered(row) => format!("answered [r{row}]"),
        Status::Cancelled { by } => format!("taken back by the person [r{by}]"),
        Status::Interrupted(row) => format!("the answer broke off [r{row}]"),
        Status::Unanswered => "not answered".to_owned(),
        Status::Running => "being worked on when the session ended".to_owned(),
    }
}

fn standing(source: &Source, asked: &[Request], done: &Work, lines: &mut Vec<Line>) {
    let exchanges = source.turns.iter().rev().take(6).enumerate();
    for (age, turn) in exchanges.collect::<Vec<_>>().into_iter().rev() {
        let who = match turn.speaker {
            Speaker::Person => "person",
            Speaker::Model => "model",
        };
        let max = if age < 2 { 400 } else { 160 };
        let text = format!("- Near the end, {who}: \"{}\" [r{}]", quote(&turn.text, max), turn.row);
        push(lines, if age < 2 { 2 } else { 6 }, Section::State, text);
    }
    for request in asked.iter().rev().skip(1) {
        if !request.status.is_open() {
            let text = asked_line("Asked", request, 120);
            push(lines, 8, Section::State, text);
        }
    }
    for line in done.lines(WORK) {
        let pointer = ["- changed ", "- read ", "- skill ", "- project file "]
            .iter()
            .any(|start| line.starts_with(start));
        let changed = line.starts_with("- changed ");
        let section = if pointer { Section::Pointers } else { Section::State };
        push(lines, if changed { 2 } else { 5 }, section, line);
    }
}

fn statements(chosen: &Chosen, names: &Names, lines: &mut Vec<Line>) {
    let base = lines.len();
    let spoken_of: Vec<Vec<(u64, u64)>> = chosen
        .statements
        .iter()
        .map(|statement| names.spoken_of(&statement.text, statement.speaker == By::Tool))
        .collect();
    let forms: Vec<u64> =
        chosen.statements.iter().map(|statement| names.form(&statement.text)).collect();
    let mut times: HashMap<u64, u32> = HashMap::new();
    for form in &forms {
        *times.entry(*form).or_default() += 1;
    }
    for (at, statement) in chosen.statements.iter().enumerate() {
        let comes_back = !spoken_of[at].is_empty();
        // What a tool printed is data, unless it tells of a fault or the talk comes back to it.
        if statement.speaker == By::Tool && statement.cue == Cue::None && !comes_back {
            continue;
        }
        let section = match statement.cue {
            Cue::Correction | Cue::Rule | Cue::Decision => Section::Decisions,
            Cue::Open => Section::Next,
            Cue::Problem => Section::State,
            Cue::None => Section::Pointers,
        };
        let mut text = said(statement);
        let mut worth = statement.worth * if comes_back { NAMED } else { 1.0 };
        // What is said of a thing may no longer hold once a correction names it.
        let correction =
            chosen.statements.iter().zip(&spoken_of).skip(at + 1).find(|(later, of)| {
                later.cue == Cue::Correction
                    && later.row > statement.row
                    && of.iter().any(|name| spoken_of[at].contains(name))
            });
        if let Some((later, _)) = correction.filter(|_| statement.speaker != By::Tool) {
            let _ = write!(text, " (see the correction in [r{}])", later.row);
            worth *= CORRECTED;
        }
        let again = times.get(&forms[at]).copied().unwrap_or(1);
        let worth = worth / (words(&text) as f64 * f64::from(again)).sqrt();
        lines.push(Line { rank: STATEMENT, worth, place: base + at, section, text });
    }
    // Of what is said in one form the best few stand for the rest.
    let mut order: Vec<usize> = (base..lines.len()).collect();
    order.sort_by(|a, b| lines[*b].worth.total_cmp(&lines[*a].worth));
    let mut had: HashMap<u64, usize> = HashMap::new();
    for index in order {
        let count = had.entry(forms[lines[index].place - base]).or_default();
        *count += 1;
        if *count > OF_ONE_FORM {
            lines[index].rank = REPEATED;
        }
    }
    values(chosen, lines);
}

/// Further values. Without what they are values of they help little, so they get little room.
fn values(chosen: &Chosen, lines: &mut Vec<Line>) {
    let mut line = String::new();
    for value in &chosen.values {
        let piece = format!("{} [r{}]", value.text, value.row);
        if line.len() + piece.len() > VALUES {
            break;
        }
        line.push_str(if line.is_empty() { "- Values: " } else { "; " });
        line.push_str(&piece);
    }
    if !line.is_empty() {
        push(lines, 7, Section::Pointers, line);
    }
}

fn said(statement: &Statement) -> String {
    let mut out =
        format!("- {}: {} [r{}]", statement.speaker.as_str(), statement.text, statement.row);
    if !statement.replaces.is_empty() {
        let rows: Vec<String> = statement.replaces.iter().map(|row| format!("r{row}")).collect();
        let _ = write!(out, " (in place of {})", rows.join(", "));
    }
    out
}

fn next(asked: &[Request], lines: &mut Vec<Line>) {
    let open: Vec<&Request> = asked.iter().filter(|request| request.status.is_open()).collect();
    for (age, request) in open.iter().rev().enumerate() {
        let max = if age == 0 { 400 } else { 200 };
        push(lines, 1 + u32::from(age > 3) * 3, Section::Next, asked_line("Open", request, max));
    }
    if open.is_empty()
        && let Some(newest) = asked.last()
    {
        let text = asked_line("No request is open; the newest was", newest, 200);
        push(lines, 1, Section::Next, text);
    }
}

/// What the capsule before decided and left open. Its row numbers are another session's.
fn carried(previous: Option<&Body>, lines: &mut Vec<Line>) {
    let Some(previous) = previous else { return };
    for (section, rank, most) in
        [(Section::Decisions, 5, 10), (Section::Next, 7, 6), (Section::Pointers, 8, 6)]
    {
        let lines_before = previous.get(section).lines().filter(|line| line.trim().len() > 3);
        for line in lines_before.take(most) {
            let (text, _) = references::keep(line, |_| false);
            let text = text.trim_start_matches(['-', ' ']).trim();
            let text = text.trim_start_matches(CARRIED.trim_start_matches("- "));
            push(lines, rank, section, format!("{CARRIED}{}", quote(text, 240)));
        }
    }
}

const CARRIED: &str = "- From the capsule before: ";

/// Gives the room to the lines by rank, then puts them in order.
fn fill(lines: &[Line], limits: Limits) -> Body {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&lines[*a], &lines[*b]);
        a.rank.cmp(&b.rank).then(b.worth.total_cmp(&a.worth))
    });
    // The headings are part of both limits.
    let frame = Body::default().render();
    let mut left_chars = limits.chars.saturating_sub(frame.chars().count());
    let mut left_words = limits.words.saturating_sub(words(&frame));
    let mut taken = vec![false; lines.len()];
    let mut seen = std::collections::HashSet::new();
    for index in order {
        let text = &lines[index].text;
        let (chars, count) = (text.chars().count() + 1, words(text));
        if chars <= left_chars && count <= left_words && seen.insert(text.as_str()) {
            left_chars -= chars;
            left_words -= count;
            taken[index] = true;
        }
    }
    let mut body = Body::default();
    for section in Section::ALL {
        let mut kept: Vec<&Line> = lines
            .iter()
            .zip(&taken)
            .filter(|(line, taken)| **taken && line.section == section)
            .map(|(line, _)| line)
            .collect();
        kept.sort_by_key(|line| line.place);
        let kept: Vec<&str> = kept.into_iter().map(|line| line.text.as_str()).collect();
        body.set(section, &kept.join("\n"));
    }
    body
}
