//! Two receipts side by side.

use serde::Serialize;

use crate::{FindingVerdict, Receipt};

/// What two receipts of one experiment have in common and what not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Who made the first one.
    pub a: String,
    /// Who made the second one.
    pub b: String,
    /// Whether they are equal in every field.
    pub same: bool,
    /// Findings whose verdicts differ: id, first, second.
    pub verdicts: Vec<(String, Option<FindingVerdict>, Option<FindingVerdict>)>,
    /// Facts that differ: finding and fact, first, second.
    pub facts: Vec<(String, String, String)>,
    /// Figures that differ: name, first, second.
    pub figures: Vec<(String, String, String)>,
}

/// Compares two receipts. A difference is a result.
pub fn compare(a: &Receipt, b: &Receipt) -> Comparison {
    let who = |it: &Receipt| format!("{}, {} ({}), {}", it.program, it.model, it.class, it.os);
    let mut comparison = Comparison {
        a: who(a),
        b: who(b),
        same: a == b,
        verdicts: Vec::new(),
        facts: Vec::new(),
        figures: Vec::new(),
    };
    let mut ids: Vec<&str> = a.findings.iter().map(|finding| finding.id.as_str()).collect();
    for finding in &b.findings {
        if !ids.contains(&finding.id.as_str()) {
            ids.push(&finding.id);
        }
    }
    for id in ids {
        let of = |it: &'_ Receipt| it.findings.iter().find(|finding| finding.id == id).cloned();
        let (left, right) = (of(a), of(b));
        let verdicts = (left.as_ref().map(|it| it.verdict), right.as_ref().map(|it| it.verdict));
        if verdicts.0 != verdicts.1 {
            comparison.verdicts.push((id.to_owned(), verdicts.0, verdicts.1));
        }
        let (Some(left), Some(right)) = (left, right) else { continue };
        // A receipt without facts, such as the published one, has none to compare.
        if left.facts.is_empty() || right.facts.is_empty() {
            continue;
        }
        for (name, value) in &left.facts {
            let other = right.facts.get(name).cloned().unwrap_or_else(|| "-".to_owned());
            if *value != other {
                comparison.facts.push((format!("{id} {name}"), value.clone(), other));
            }
        }
    }
    let sum = |it: &Receipt, of: fn(&crate::RequestFacts) -> Option<u64>| -> String {
        let known: Vec<u64> = it.requests.iter().filter_map(of).collect();
        if known.is_empty() { "unknown".to_owned() } else { known.iter().sum::<u64>().to_string() }
    };
    for (name, left, right) in [
        ("turns", a.turns.to_string(), b.turns.to_string()),
        ("calls", a.calls.to_string(), b.calls.to_string()),
        ("verified", a.verified.to_string(), b.verified.to_string()),
        ("input tokens", sum(a, |it| it.input_tokens), sum(b, |it| it.input_tokens)),
        ("cache read tokens", sum(a, |it| it.cache_read_tokens), sum(b, |it| it.cache_read_tokens)),
    ] {
        if left != right {
            comparison.figures.push((name.to_owned(), left, right));
        }
    }
    comparison
}
