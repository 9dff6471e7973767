//! The index in the prompt: names and short descriptions, inside a budget.

use std::collections::BTreeMap;

use super::{Gate, Skill};

/// Characters for the index: 1 % of the window at four characters a token, between 4,000 and
/// 12,000; 6,000 where the window is not known.
pub fn index_budget(context_window: Option<u64>) -> usize {
    context_window.map_or(6000, |window| {
        usize::try_from(window / 25).unwrap_or(usize::MAX).clamp(4000, 12_000)
    })
}

const HEAD: &str = "\
# Skills
(procedures for kinds of tasks; when one fits, load it with skill_view before you start)";

/// The skills that `gate` offers, in at most `budget` characters: with descriptions as long as
/// they fit, else with names alone, else with as many names as fit. Empty if there are none.
pub fn index(skills: &[Skill], gate: &Gate<'_>, budget: usize) -> String {
    /// Longest description, widest first.
    const WIDTHS: [usize; 3] = [100, 60, 30];
    let offered: Vec<&Skill> = skills.iter().filter(|s| s.offered(gate).is_ok()).collect();
    if offered.is_empty() {
        return String::new();
    }
    for width in WIDTHS {
        let text = described(&offered, width);
        if text.chars().count() <= budget {
            return text;
        }
    }
    names_alone(&offered, budget)
}

/// Skills by category, both in their order.
fn grouped<'a>(skills: &[&'a Skill]) -> BTreeMap<&'a str, Vec<&'a Skill>> {
    let mut groups: BTreeMap<&str, Vec<&Skill>> = BTreeMap::new();
    for skill in skills {
        groups.entry(&skill.category).or_default().push(skill);
    }
    groups
}

fn described(skills: &[&Skill], width: usize) -> String {
    let mut out = String::from(HEAD);
    for (category, skills) in grouped(skills) {
        if !category.is_empty() {
            out.extend(["\n", category, ":"]);
        }
        for skill in skills {
            let description = shortened(&skill.description, width);
            out.extend(["\n- ", &skill.name, ": ", &description]);
        }
    }
    out
}

fn names_alone(skills: &[&Skill], budget: usize) -> String {
    let mut out = String::from(HEAD);
    let tail = |missing: usize| {
        let more = if missing > 0 {
            format!("{missing} more skills are not listed. ")
        } else {
            String::new()
        };
        let total = skills.len();
        format!(
            "\n({more}{total} descriptions more than fit here: skills_list(category) shows them.)"
        )
    };
    let room = budget.saturating_sub(tail(skills.len()).chars().count());
    let mut used = out.chars().count();
    let mut listed = 0;
    'all: for (category, skills) in grouped(skills) {
        let category = if category.is_empty() { "top" } else { category };
        let mut start = format!("\n{category}: ");
        for skill in skills {
            let word = format!("{start}{}", skill.name);
            let size = word.chars().count();
            if used + size > room {
                break 'all;
            }
            out.push_str(&word);
            used += size;
            listed += 1;
            ", ".clone_into(&mut start);
        }
    }
    out.push_str(&tail(skills.len() - listed));
    out
}

/// `text` in at most `width` characters, cut between words.
fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    let end = cut.rfind(' ').filter(|end| *end > cut.len() / 2).unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end_matches([',', '.', ';', ':', ' ']))
}

/// The skills of a category (all if None) that the model may load, and those it may not with the
/// reason, for the tool that lists them.
pub fn list<'a>(
    skills: &'a [Skill],
    gate: &Gate<'_>,
    category: Option<&str>,
) -> Vec<(&'a Skill, Result<(), String>)> {
    skills
        .iter()
        .filter(|skill| category.is_none_or(|wanted| skill.category == wanted))
        .map(|skill| (skill, skill.offered(gate)))
        .collect()
}
