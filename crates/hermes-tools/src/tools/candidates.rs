//! The places of a text that are most like one that was looked for in vain.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::capture::clip;

/// Candidates that are shown.
const MAX_SHOWN: usize = 3;
/// Lines of one candidate that are shown.
const MAX_LINES: usize = 12;
/// Lines of the text that are looked at.
const MAX_SCANNED: usize = 50_000;
/// Characters of one line that are compared.
const MAX_COMPARED: usize = 400;
/// Below this share of what two lines have in common they are not alike.
const ALIKE: f64 = 0.5;

/// The nearest places as `N|content` lines; empty if nothing is alike.
pub(super) fn nearest(text: &str, old: &str) -> String {
    let wanted: Vec<HashMap<[char; 2], u32>> = old.lines().map(pairs).collect();
    if wanted.is_empty() {
        return String::new();
    }
    let lines: Vec<&str> = text.lines().take(MAX_SCANNED).collect();
    // The first line with content stands for the text when windows are looked for.
    let lead = wanted.iter().position(|line| line.len() > 1).unwrap_or(0);
    let Some(lead_pairs) = wanted.get(lead) else { return String::new() };
    let mut leads: Vec<(f64, usize)> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| (likeness(lead_pairs, &pairs(line)), at))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    leads.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    leads.truncate(MAX_SHOWN * 8);

    let mut windows: Vec<(f64, usize)> = leads
        .into_iter()
        .map(|(_, at)| {
            let start = at.saturating_sub(lead);
            let total: f64 = wanted
                .iter()
                .zip(lines.iter().skip(start))
                .map(|(wanted, line)| likeness(wanted, &pairs(line)))
                .sum();
            (total / wanted.len() as f64, start)
        })
        .collect();
    windows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    windows.dedup_by_key(|(_, start)| *start);

    let mut out = String::new();
    for (index, (_, start)) in windows.into_iter().take(MAX_SHOWN).enumerate() {
        if index > 0 {
            out.push_str("--\n");
        }
        let shown = wanted.len().min(MAX_LINES);
        for (offset, line) in lines.iter().skip(start).take(shown).enumerate() {
            // Writing to a String does not fail.
            let _ = writeln!(out, "{}|{}", start + offset + 1, clip(line, 200));
        }
    }
    out
}

/// Pairs of neighbouring characters, white space aside, counted.
fn pairs(line: &str) -> HashMap<[char; 2], u32> {
    let chars: Vec<char> = line.chars().filter(|c| !c.is_whitespace()).take(MAX_COMPARED).collect();
    let mut counts = HashMap::new();
    if let [only] = chars.as_slice() {
        counts.insert([*only, '\0'], 1);
    }
    for pair in chars.windows(2) {
        if let [a, b] = pair {
            *counts.entry([*a, *b]).or_default() += 1;
        }
    }
    counts
}

/// Dice's coefficient: 1 for the same, 0 for nothing in common.
fn likeness(a: &HashMap<[char; 2], u32>, b: &HashMap<[char; 2], u32>) -> f64 {
    let sum = |map: &HashMap<_, u32>| map.values().sum::<u32>();
    let total = sum(a) + sum(b);
    if total == 0 {
        return 1.0;
    }
    let shared: u32 =
        a.iter().map(|(pair, count)| (*count).min(b.get(pair).copied().unwrap_or(0))).sum();
    f64::from(2 * shared) / f64::from(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_places_come_first_with_their_line_numbers() {
        let text = "alpha(1)\nbeta(2)\n\tgamma(3)\n";
        assert_eq!(nearest(text, "beta(9)\n"), "2|beta(2)\n");
        assert_eq!(nearest(text, "gamma(3)"), "3|\tgamma(3)\n");
        assert_eq!(nearest(text, "beta(2)\n    gamma(3)"), "2|beta(2)\n3|\tgamma(3)\n");
        assert_eq!(nearest(text, "something else"), "");
        assert_eq!(nearest("", "x"), "");
        assert_eq!(nearest(text, "\n"), "");
    }
}
