//! Two policies question by question: which won what the other lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::CapsulePolicy;
use super::report::{Arm, Asked, ExamReport, markdown_table};
use crate::LabError;

/// The questions of one arm under two policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Duel {
    /// Answered by both.
    pub both: usize,
    /// Answered by neither.
    pub neither: usize,
    /// Answered by the first alone.
    pub won: usize,
    /// Answered by the second alone.
    pub lost: usize,
    /// How likely wins and losses at least this uneven are if neither policy is better: the
    /// two-sided sign test.
    pub by_chance: f64,
}

/// Two policies question by question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Versus {
    /// The first.
    pub a: String,
    /// The second.
    pub b: String,
    /// Questions that both were asked.
    pub questions: usize,
    /// The arms.
    pub arms: Vec<(Arm, Duel)>,
    /// For the capsule alone: the questions that one answered and the other did not, as session,
    /// number from 1, what was asked for, and whether the first won it.
    pub decided: Vec<(String, usize, String, bool)>,
}

/// Sets two policies against each other, of one report or of two.
///
/// # Errors
/// If a report does not hold its policy, or they do not ask the same questions.
pub fn versus(
    a: (&str, &ExamReport, CapsulePolicy),
    b: (&str, &ExamReport, CapsulePolicy),
) -> Result<Versus, LabError> {
    let (first, second) = (answers(a)?, answers(b)?);
    let mut duels: BTreeMap<Arm, Duel> = BTreeMap::new();
    let mut decided = Vec::new();
    let mut questions = 0;
    for (place, one) in &first {
        let Some(other) = second.get(place) else { continue };
        if one.kind != other.kind || differ(one.question.as_ref(), other.question.as_ref()) {
            return Err(LabError::Incomparable {
                why: format!("question {} of session {} is another one", place.1 + 1, place.0),
            });
        }
        questions += 1;
        for (arm, hit) in &one.hits {
            let Some(theirs) = other.hits.get(arm) else { continue };
            let duel = duels.entry(*arm).or_default();
            match (hit, theirs) {
                (true, true) => duel.both += 1,
                (false, false) => duel.neither += 1,
                (true, false) => duel.won += 1,
                (false, true) => duel.lost += 1,
            }
            if *arm == Arm::Capsule && hit != theirs {
                decided.push((place.0.to_owned(), place.1 + 1, one.kind.clone(), *hit));
            }
        }
    }
    if questions == 0 {
        return Err(LabError::Incomparable { why: "they have no question in common".to_owned() });
    }
    for duel in duels.values_mut() {
        duel.by_chance = sign_test(duel.won, duel.lost);
    }
    let arms = duels.into_iter().filter(|(arm, _)| arm.has_capsule()).collect();
    let name = |(file, _, policy): (&str, &ExamReport, CapsulePolicy)| {
        let gap = if file.is_empty() { "" } else { ": " };
        format!("{file}{gap}{}", policy.as_str())
    };
    Ok(Versus { a: name(a), b: name(b), questions, arms, decided })
}

type Answers<'a> = BTreeMap<(&'a str, usize), &'a Asked>;

fn answers<'a>(
    (file, report, policy): (&str, &'a ExamReport, CapsulePolicy),
) -> Result<Answers<'a>, LabError> {
    let found: Answers<'_> = report
        .asked
        .iter()
        .filter(|asked| asked.policy == policy)
        .map(|asked| ((asked.session.as_str(), asked.number), asked))
        .collect();
    if found.is_empty() {
        return Err(LabError::Incomparable {
            why: format!("{file} has no answers of the policy {}", policy.as_str()),
        });
    }
    Ok(found)
}

fn differ(one: Option<&String>, other: Option<&String>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

/// The two-sided sign test: twice the chance of the smaller count or less among fair coin tosses.
fn sign_test(won: usize, lost: usize) -> f64 {
    let (all, least) = (won + lost, won.min(lost));
    // Binomial coefficients over 2^n as they come, in logarithms.
    let mut log = -(all as f64) * std::f64::consts::LN_2;
    let mut sum = log.exp();
    for k in 1..=least {
        log += ((all - k + 1) as f64).ln() - (k as f64).ln();
        sum += log.exp();
    }
    (2.0 * sum).min(1.0)
}

impl Versus {
    /// The head of the table.
    pub const HEAD: [&'static str; 6] = ["arm", "won", "lost", "both", "neither", "by chance"];

    /// The rows of the table.
    pub fn rows(&self) -> Vec<Vec<String>> {
        self.arms
            .iter()
            .map(|(arm, duel)| {
                let mut row = vec![arm.as_str().to_owned()];
                row.extend([duel.won, duel.lost, duel.both, duel.neither].map(|n| n.to_string()));
                row.push(match duel.by_chance {
                    rare if rare < 0.01 => "< 0.01".to_owned(),
                    chance => format!("{chance:.2}"),
                });
                row
            })
            .collect()
    }

    /// What stands above the table.
    pub fn head(&self) -> String {
        format!("{} against {}, {} questions", self.a, self.b, self.questions)
    }

    /// The page: the table and each question that decided.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# {}\n\n", self.head());
        markdown_table(&mut out, &Self::HEAD, &self.rows());
        let _ = writeln!(out, "\nQuestions that one capsule answers and the other does not:\n");
        let rows: Vec<Vec<String>> = self
            .decided
            .iter()
            .map(|(session, number, kind, won)| {
                let who = if *won { &self.a } else { &self.b };
                vec![session.clone(), number.to_string(), kind.clone(), who.clone()]
            })
            .collect();
        markdown_table(&mut out, &["session", "question", "asked for", "answered by"], &rows);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_agrees_with_tables() {
        for (won, lost, expected) in
            [(5, 0, 0.0625), (0, 0, 1.0), (3, 3, 1.0), (9, 1, 0.0215), (26, 4, 0.0001)]
        {
            let found = sign_test(won, lost);
            assert!((found - expected).abs() < 0.0002, "{won} {lost}: {found}");
        }
    }
}
