//! The figures of an exam: for people a table, for programs JSON, question by question.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hermes_handoff::section::words;
use serde::{Deserialize, Serialize};

use super::{CapsulePolicy, Sessions};
use crate::LabError;
use crate::recall::Share;

/// What the JSON says it is.
pub const FORMAT: &str = "hermes-recall-exam";
/// The form of it that this program writes.
const VERSION: u32 = 1;

/// What a question may be answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The capsule.
    Capsule,
    /// The capsule and one search as its Recovery block says.
    CapsuleAndSearch,
    /// What that search finds by itself; only without a model.
    SearchInside,
    /// One search over all sessions, and no capsule.
    SearchAlone,
    /// Nothing.
    Nothing,
}

impl Arm {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Capsule,
        Self::CapsuleAndSearch,
        Self::SearchInside,
        Self::SearchAlone,
        Self::Nothing,
    ];

    /// The words in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Capsule => "capsule",
            Self::CapsuleAndSearch => "with one search",
            Self::SearchInside => "that search by itself",
            Self::SearchAlone => "one search alone",
            Self::Nothing => "nothing",
        }
    }

    pub(super) const fn has_capsule(self) -> bool {
        matches!(self, Self::Capsule | Self::CapsuleAndSearch)
    }
}

/// Figures that were published of seven real sessions and answered by a model: another measure,
/// shown beside, not compared with.
pub const PUBLISHED: [(&str, f64, f64); 2] = [
    ("published: 1,200 words over the whole dialogue", 58.7, 75.0),
    ("published: 400-word digest of the newest", 37.5, 68.3),
];
/// The published figure of one search alone.
const PUBLISHED_SEARCH: f64 = 57.0;

/// One question under one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The session.
    pub session: String,
    /// Which of its questions, from 0.
    pub number: usize,
    /// What the next session was given.
    pub policy: CapsulePolicy,
    /// What it is counted under.
    pub group: String,
    /// What is asked for.
    pub kind: String,
    /// The question, where texts are in the report.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub question: Option<String>,
    /// The answer, where texts are in the report.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<String>,
    /// Whether it was answered, for each arm.
    pub hits: BTreeMap<Arm, bool>,
    /// For what was taken back: whether the capsule states it as valid.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stale: Option<bool>,
}

/// One arm's figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmScore {
    /// What the next session was given.
    pub policy: CapsulePolicy,
    /// What it is counted under; None for all.
    pub group: Option<String>,
    /// The arm.
    pub arm: Arm,
    /// Questions answered, of how many.
    pub share: Share,
}

/// What the capsules of one policy come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// Sessions.
    pub sessions: usize,
    /// Words of the five sections, all sessions.
    pub words: usize,
    /// Most of one.
    pub most_words: usize,
    /// Most characters of one.
    pub most_chars: usize,
}

/// The whole exam.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExamReport {
    /// [`FORMAT`].
    pub format: String,
    /// The form.
    pub version: u32,
    /// The program.
    pub program: String,
    /// What was examined.
    pub of: String,
    /// How answers were found.
    pub answered: String,
    /// The figures.
    pub scores: Vec<ArmScore>,
    /// What the capsules come to, by policy and group.
    pub sizes: Vec<(CapsulePolicy, String, Size)>,
    /// Each question.
    pub asked: Vec<Asked>,
}

impl ExamReport {
    pub(super) fn new(
        sessions: &Sessions<'_>,
        answerer: Option<&str>,
        judge: Option<&str>,
    ) -> Self {
        let of = match sessions {
            Sessions::Generated { seeds, .. } => format!(
                "made-up conversations, seeds {} to {}",
                seeds.start,
                seeds.end.saturating_sub(1)
            ),
            Sessions::Own { ids, .. } => format!("{} stored sessions, cloze questions", ids.len()),
        };
        let how = match (answerer, judge) {
            (None, _) => {
                "exact values looked for beside the name of their thing; no model read or \
                          judged"
                    .to_owned()
            }
            (Some(model), None) => {
                format!("answered by {model}, exact values looked for in its answers")
            }
            (Some(model), Some(judge)) => format!("answered by {model}, judged by {judge}"),
        };
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program: format!("hermes {}", env!("CARGO_PKG_VERSION")),
            of,
            answered: how,
            scores: Vec::new(),
            sizes: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Notes the size of a capsule.
    pub(super) fn took(&mut self, policy: CapsulePolicy, group: &str, capsule: &str) {
        let above = capsule.split("\n## Recovery").next().unwrap_or_default();
        let body = above.find("\n## ").map_or(above, |at| &above[at..]).trim();
        let known = self.sizes.iter().position(|(p, g, _)| *p == policy && g == group);
        let at = known.unwrap_or_else(|| {
            self.sizes.push((policy, group.to_owned(), Size::default()));
            self.sizes.len() - 1
        });
        let size = &mut self.sizes[at].2;
        let count = words(body);
        size.sessions += 1;
        size.words += count;
        size.most_words = size.most_words.max(count);
        size.most_chars = size.most_chars.max(body.chars().count());
    }

    /// Adds the figures up.
    pub(super) fn finish(&mut self) {
        let mut scores: Vec<ArmScore> = Vec::new();
        let mut count = |policy, group: Option<&str>, arm, hit| {
            let known = scores
                .iter()
                .position(|s| s.policy == policy && s.group.as_deref() == group && s.arm == arm);
            let at = known.unwrap_or_else(|| {
                let group = group.map(str::to_owned);
                scores.push(ArmScore { policy, group, arm, share: Share::default() });
                scores.len() - 1
            });
            scores[at].share.count(hit);
        };
        for asked in &self.asked {
            for (arm, hit) in &asked.hits {
                count(asked.policy, Some(&asked.group), *arm, *hit);
                count(asked.policy, None, *arm, *hit);
            }
        }
        scores.sort_by_key(|score| (score.group.is_none(), score.policy));
        self.scores = scores;
    }

    /// One figure; `group` None for all.
    pub fn share(&self, policy: CapsulePolicy, group: Option<&str>, arm: Arm) -> Option<Share> {
        self.scores
            .iter()
            .find(|s| s.policy == policy && s.group.as_deref() == group && s.arm == arm)
            .map(|score| score.share)
    }

    /// The policies, in the order in which they were asked for.
    pub fn policies(&self) -> Vec<CapsulePolicy> {
        let mut all = Vec::new();
        for (policy, ..) in &self.sizes {
            if !all.contains(policy) {
                all.push(*policy);
            }
        }
        all
    }

    pub(super) fn groups(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for (_, group, _) in &self.sizes {
            if !all.contains(&group.as_str()) {
                all.push(group);
            }
        }
        all
    }

    /// Questions of the session with the fewest and of the one with the most.
    pub fn questions(&self) -> (usize, usize) {
        let mut counts: BTreeMap<(CapsulePolicy, &str), usize> = BTreeMap::new();
        for asked in &self.asked {
            *counts.entry((asked.policy, &asked.session)).or_default() += 1;
        }
        let least = counts.values().copied().min().unwrap_or(0);
        (least, counts.values().copied().max().unwrap_or(0))
    }

    /// The head of the table.
    pub const HEAD: [&'static str; 9] = [
        "policy",
        "messages",
        "sessions",
        "capsule",
        "with one search",
        "that search by itself",
        "one search alone",
        "nothing",
        "words, most",
    ];

    /// The rows of the table, the published figures last.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let own = |share: Option<Share>| {
            share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share.percent()))
        };
        let groups = self.groups();
        for policy in self.policies() {
            let all = (groups.len() > 1).then_some(None);
            for group in groups.iter().copied().map(Some).chain(all) {
                let of = |size: &&(CapsulePolicy, String, Size)| {
                    size.0 == policy && group.is_none_or(|group| size.1 == group)
                };
                let sizes: Vec<&Size> = self.sizes.iter().filter(of).map(|it| &it.2).collect();
                let sessions: usize = sizes.iter().map(|size| size.sessions).sum();
                let most = sizes.iter().map(|size| size.most_words).max().unwrap_or(0);
                let mut row = vec![
                    policy.as_str().to_owned(),
                    group.unwrap_or("all").to_owned(),
                    sessions.to_string(),
                ];
                row.extend(Arm::ALL.map(|arm| own(self.share(policy, group, arm))));
                row.push(most.to_string());
                rows.push(row);
            }
        }
        for (name, alone, with) in PUBLISHED {
            let mut row = vec![name.to_owned(), String::new(), "7".to_owned()];
            row.push(format!("{alone:.1} %"));
            row.push(format!("{with:.1} %"));
            row.extend(["-".to_owned(), format!("{PUBLISHED_SEARCH:.1} %")]);
            row.extend(["-".to_owned(), "-".to_owned()]);
            rows.push(row);
        }
        rows
    }

    /// What stands above and below the table.
    pub fn notes(&self) -> (String, String) {
        let (least, most) = self.questions();
        let head =
            format!("{}; {least} to {most} questions a session; {}.", self.of, self.answered);
        let mut foot = String::from(
            "The published figures are of seven real sessions and were answered by a model: another \
             measure.",
        );
        for policy in self.policies() {
            let mut share = Share::default();
            for stale in
                self.asked.iter().filter(|it| it.policy == policy).filter_map(|it| it.stale)
            {
                share.count(!stale);
            }
            if share.of > 0 {
                let _ = write!(
                    foot,
                    " Taken back and not stated as valid by {}: {:.1} % of {}.",
                    policy.as_str(),
                    share.percent(),
                    share.of
                );
            }
        }
        (head, foot)
    }

    /// The kinds of questions: for each policy which share the capsule alone answers.
    pub fn kinds(&self) -> Vec<Vec<String>> {
        let mut by: BTreeMap<(&str, CapsulePolicy), (Share, Share)> = BTreeMap::new();
        for asked in &self.asked {
            let shares = by.entry((&asked.kind, asked.policy)).or_default();
            let hit = |arm| asked.hits.get(&arm).copied().unwrap_or(false);
            shares.0.count(hit(Arm::Capsule));
            shares.1.count(hit(Arm::CapsuleAndSearch));
        }
        by.into_iter()
            .map(|((kind, policy), (alone, with))| {
                vec![
                    kind.to_owned(),
                    policy.as_str().to_owned(),
                    alone.of.to_string(),
                    format!("{:.1} %", alone.percent()),
                    format!("{:.1} %", with.percent()),
                ]
            })
            .collect()
    }

    /// The head of [`ExamReport::kinds`].
    pub const KINDS_HEAD: [&'static str; 5] =
        ["asked for", "policy", "questions", "capsule", "with one search"];

    /// The page.
    pub fn to_markdown(&self) -> String {
        let (head, foot) = self.notes();
        let mut out = format!("# Recall exam\n\n{head}\n\n");
        markdown_table(&mut out, &Self::HEAD, &self.rows());
        let _ = write!(out, "\n{foot}\n\n");
        markdown_table(&mut out, &Self::KINDS_HEAD, &self.kinds());
        out
    }

    /// Reads what [`serde_json`] wrote of a report.
    ///
    /// # Errors
    /// If it is none, or of a version that this program does not know.
    pub fn read(path: &std::path::Path) -> Result<Self, LabError> {
        let fault = |why: String| LabError::NotAReceipt { path: path.to_owned(), why };
        let text = std::fs::read_to_string(path)
            .map_err(|source| LabError::Io { path: path.to_owned(), source })?;
        let report: Self = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
        if report.format != FORMAT || report.version > VERSION {
            return Err(fault(format!(
                "it is {} {}, wanted {FORMAT} up to {VERSION}",
                report.format, report.version
            )));
        }
        Ok(report)
    }
}

/// A table in Markdown.
pub(super) fn markdown_table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let _ = writeln!(out, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}
