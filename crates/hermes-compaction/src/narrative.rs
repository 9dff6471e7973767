//! The part of a summary that a model writes: sections of short items with row references.
//!
//! Invariant: reading never fails and never panics; what could not be placed is told, and a text
//! written by [`Narrative::render`] is read back as it was.

use std::fmt::Write as _;

use hermes_core::Seq;
use serde::{Deserialize, Serialize};

/// A section. What is done, planned, ruled out and unverified is kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What the person wants to reach.
    Goal,
    /// Rules, limits and preferences that were stated.
    Rules,
    /// What was done, with its result.
    Done,
    /// What was decided, with its reason.
    Decided,
    /// What was tried or believed and found wrong, or taken back.
    RuledOut,
    /// Errors and what helped.
    Problems,
    /// Facts and exact values.
    Facts,
    /// What was claimed and not checked.
    Unverified,
    /// What is still to be done.
    Open,
}

impl Section {
    /// All sections in their order.
    pub const ALL: [Self; 9] = [
        Self::Goal,
        Self::Rules,
        Self::Done,
        Self::Decided,
        Self::RuledOut,
        Self::Problems,
        Self::Facts,
        Self::Unverified,
        Self::Open,
    ];

    /// Its heading.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Goal => "Goal",
            Self::Rules => "Rules and preferences",
            Self::Done => "Done",
            Self::Decided => "Decided",
            Self::RuledOut => "Ruled out or taken back",
            Self::Problems => "Problems and fixes",
            Self::Facts => "Facts and values",
            Self::Unverified => "Unverified",
            Self::Open => "Open",
        }
    }

    /// What belongs in it, for its writer.
    pub(crate) const fn brief(self) -> &'static str {
        match self {
            Self::Goal => "what the person wants to reach, in the newest valid form",
            Self::Rules => {
                "rules, limits, safety conditions and preferences; quote safety conditions word for \
                 word"
            }
            Self::Done => "what was done, by which tool or on which file, and its result",
            Self::Decided => "what was decided and why",
            Self::RuledOut => {
                "what was tried, claimed or planned and then failed, was refuted, cancelled or \
                 replaced"
            }
            Self::Problems => "errors word for word, and what helped or did not",
            Self::Facts => "facts and exact values that may be needed again",
            Self::Unverified => "what was claimed or assumed and never checked",
            Self::Open => {
                "what the person asked for that is neither done nor cancelled; write `none` if \
                 there is nothing"
            }
        }
    }

    /// The section that a heading names, whatever its exact words.
    fn of_heading(heading: &str) -> Option<Self> {
        let heading = heading.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| heading.contains(word));
        if let Some(exact) =
            Self::ALL.into_iter().find(|section| heading == section.heading().to_lowercase())
        {
            return Some(exact);
        }
        Some(match () {
            () if has(&["unverified", "unchecked", "assum"]) => Self::Unverified,
            () if has(&["ruled out", "taken back", "refuted", "cancel", "rejected"]) => {
                Self::RuledOut
            }
            () if has(&[
                "open",
                "pending",
                "remaining",
                "todo",
                "to do",
                "next",
                "active task",
            ]) =>
            {
                Self::Open
            }
            () if has(&["done", "completed", "finished", "progress"]) => Self::Done,
            () if has(&["decided", "decision"]) => Self::Decided,
            () if has(&["rule", "constraint", "preference"]) => Self::Rules,
            () if has(&["problem", "error", "fix", "blocked"]) => Self::Problems,
            () if has(&["fact", "value", "context", "state", "file"]) => Self::Facts,
            () if has(&["goal", "objective", "request"]) => Self::Goal,
            () => return None,
        })
    }
}

/// One line of a section.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Item {
    /// The text, without references.
    pub text: String,
    /// The rows it refers to.
    pub rows: Vec<Seq>,
}

/// A narrative, read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrative {
    /// The items with their sections, in order.
    pub items: Vec<(Section, Item)>,
}

/// What was read of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The narrative.
    pub narrative: Narrative,
    /// Sections whose heading is there.
    pub sections: Vec<Section>,
    /// Whether the closing line is there.
    pub ended: bool,
    /// What could not be placed.
    pub problems: Vec<String>,
}

/// The last line of a whole answer.
pub const END: &str = "END OF RECORD";

/// More items than this are not read.
const MOST_ITEMS: usize = 400;
/// Longest item, in characters.
const LONGEST_ITEM: usize = 1_200;

/// Reads an answer.
pub fn read(text: &str) -> Read {
    let mut out = Read::default();
    let mut section = None;
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("```") {
            continue;
        }
        if line.trim_matches(['*', '#', ' ', '.']) == END {
            out.ended = true;
            break;
        }
        if let Some(heading) = heading(line) {
            section = Section::of_heading(heading);
            match section {
                Some(found) if !out.sections.contains(&found) => out.sections.push(found),
                Some(_) => {}
                None => out.problems.push(format!("unknown section \"{}\"", cut(heading, 60))),
            }
            continue;
        }
        let Some(section) = section else { continue };
        let text = line.trim_start_matches(['-', '*', '•']).trim_start();
        let text = numbered(text);
        if is_nothing(text) {
            continue;
        }
        if out.narrative.items.len() >= MOST_ITEMS {
            out.problems.push(format!("more than {MOST_ITEMS} items"));
            break;
        }
        out.narrative.items.push((section, item(text)));
    }
    out
}

fn heading(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('#')?.trim_start_matches('#');
    rest.starts_with(' ').then(|| rest.trim().trim_end_matches([':', '*']).trim_start_matches('*'))
}

/// The text after `12. ` or `12) `.
fn numbered(text: &str) -> &str {
    let rest = text.trim_start_matches(|first: char| first.is_ascii_digit());
    if rest.len() == text.len() || text.len() - rest.len() > 3 {
        return text;
    }
    rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")).unwrap_or(text)
}

/// Whether an item says that there is none, whatever it adds to that.
fn is_nothing(text: &str) -> bool {
    const NONE: [&str; 12] = [
        "none", "n/a", "nothing", "keine", "nichts", "aucun", "rien", "ninguno", "nada", "なし",
        "无", "無",
    ];
    let bare = |text: &str| text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let head = text.split(['(', ',', ';', ':', '.']).next().unwrap_or_default();
    bare(text).is_empty() || NONE.contains(&bare(head).as_str())
}

fn item(text: &str) -> Item {
    let mut rows: Vec<Seq> = Vec::new();
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("[r") {
        let Some(length) = rest[start..].find(']') else { break };
        let inside = &rest[start + 1..start + length];
        match references(inside) {
            Some(found) => {
                plain.push_str(rest[..start].trim_end());
                for row in found {
                    if !rows.contains(&row) {
                        rows.push(row);
                    }
                }
            }
            None => plain.push_str(&rest[..=start + length]),
        }
        rest = &rest[start + length + 1..];
    }
    plain.push_str(rest);
    Item { text: cut(plain.trim(), LONGEST_ITEM), rows }
}

/// `r3`, `r3, r5` and `r3-r7` (its ends).
fn references(inside: &str) -> Option<Vec<Seq>> {
    inside
        .split([',', ';', ' ', '-', '–'])
        .filter(|piece| !piece.is_empty())
        .map(|piece| piece.trim_start_matches('r').parse().ok().map(Seq))
        .collect()
}

fn cut(text: &str, max: usize) -> String {
    crate::cutting::short(text, max)
}

impl Narrative {
    /// The items of one section.
    pub fn of(&self, section: Section) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |(at, _)| *at == section).map(|(_, item)| item)
    }

    /// Characters of all items.
    pub fn chars(&self) -> usize {
        self.items.iter().map(|(_, item)| item.text.chars().count()).sum()
    }

    /// The text, without header and closing line; empty sections are left out but for the open
    /// points, which say that there are none.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for section in Section::ALL {
            let mut items = self.of(section).peekable();
            if items.peek().is_none() && section != Section::Open {
                continue;
            }
            let _ = writeln!(out, "\n## {}", section.heading());
            if items.peek().is_none() {
                out.push_str("none\n");
            }
            for item in items {
                let _ = write!(out, "- {}", item.text);
                if !item.rows.is_empty() {
                    let rows: Vec<String> = item.rows.iter().map(|row| format!("r{row}")).collect();
                    let _ = write!(out, " [{}]", rows.join(", "));
                }
                out.push('\n');
            }
        }
        out
    }

    /// Takes items off until the text has at most `tokens`: the oldest of the least telling
    /// sections first. Returns how many.
    pub fn trim_to(&mut self, tokens: u64) -> usize {
        const ORDER: [Section; 7] = [
            Section::Done,
            Section::Problems,
            Section::Facts,
            Section::Unverified,
            Section::RuledOut,
            Section::Decided,
            Section::Goal,
        ];
        let cost = |item: &Item| 6 + hermes_context::estimate_tokens(&item.text);
        let mut total: u64 = 40 + self.items.iter().map(|(_, item)| cost(item)).sum::<u64>();
        let mut goes = vec![false; self.items.len()];
        for section in ORDER {
            let of: Vec<usize> =
                (0..self.items.len()).filter(|at| self.items[*at].0 == section).collect();
            // One item of each section stays.
            for at in of.iter().take(of.len().saturating_sub(1)) {
                if total <= tokens {
                    break;
                }
                total = total.saturating_sub(cost(&self.items[*at].1));
                goes[*at] = true;
            }
        }
        let mut going = goes.iter();
        self.items.retain(|_| !going.next().copied().unwrap_or_default());
        goes.iter().filter(|goes| **goes).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whatever_their_form() {
        let read = read(
            "Here it is:\n# Goal:\n1. Ship it [r3, r5]\n\n## Open tasks\n- none (all done)\n\
             ## Odd\n- x\n## Facts\n* .env: port 8080 [r7-r9] and [raw]\nEND OF RECORD\nmore",
        );
        assert!(read.ended);
        assert_eq!(read.sections, [Section::Goal, Section::Open, Section::Facts]);
        assert_eq!(read.problems, ["unknown section \"Odd\""]);
        let items: Vec<_> = read
            .narrative
            .items
            .iter()
            .map(|(section, item)| (*section, item.text.as_str(), item.rows.clone()))
            .collect();
        assert_eq!(
            items,
            [
                (Section::Goal, "Ship it", vec![Seq(3), Seq(5)]),
                (Section::Facts, ".env: port 8080 and [raw]", vec![Seq(7), Seq(9)]),
            ]
        );
    }

    #[test]
    fn trimming_leaves_rules_and_open_points() {
        let mut narrative = Narrative::default();
        for n in 0..50 {
            let item = |what: &str| Item { text: format!("{what} {n} with words"), rows: vec![] };
            narrative.items.push((Section::Done, item("done")));
            narrative.items.push((Section::Rules, item("rule")));
        }
        assert!(narrative.trim_to(900) > 20);
        assert_eq!(narrative.of(Section::Rules).count(), 50);
        let first = narrative.of(Section::Done).next().map(|item| item.text.clone());
        assert!(first.is_some_and(|text| text != "done 0 with words"), "the newest stay");
    }
}
