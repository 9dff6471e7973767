//! The published findings about context and compaction, for the receipts to stand beside
//! (companion lab of the article on prompt assembly; Hermes Agent 0.20.1, 22 calls over 16 turns).

use std::collections::BTreeMap;

use crate::{FORMAT, FORMAT_VERSION, Finding, FindingVerdict, Receipt};

/// A published finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// `P1` and so on.
    pub id: &'static str,
    /// What was found.
    pub text: &'static str,
    /// How: `live`, `by test`, `not verified`.
    pub class: &'static str,
}

const fn finding(id: &'static str, class: &'static str, text: &'static str) -> Published {
    Published { id, text, class }
}

/// All of them.
pub static PUBLISHED: &[Published] = &[
    finding("P1", "live", "an edited profile does not reach the open session; the prompt stays"),
    finding("P2", "live", "a fresh session has the new profile and keeps it over the next edit"),
    finding("P3", "live", "compaction brings the new profile into the same session"),
    finding("P4", "live", "compaction refreshes nothing but memory and profile"),
    finding(
        "P5",
        "live",
        "a nested project file enters with the tool call that touches its folder",
    ),
    finding("P6", "live", "a skill's description is in the prompt, its body enters when loaded"),
    finding("P7", "live", "/context attributes no skills although prompt and history hold them"),
    finding(
        "P8",
        "live",
        "cache figures are the provider's; they and the digest prove nothing of each other",
    ),
    finding(
        "P9",
        "live",
        "/compress here keeps the tail in the request but marks its rows compacted",
    ),
    finding("P10", "by test", "a loaded skill is reduced under pressure and can be loaded again"),
    finding("P11", "by test", "a delegated child has its own prompt and an explicit task context"),
    finding("P12", "by test", "what a failed summary does is an explicit policy"),
    finding("P13", "not verified", "a local inference cache"),
];

/// The published findings as a receipt, for comparisons.
pub fn published_receipt() -> Receipt {
    Receipt {
        format: FORMAT.to_owned(),
        version: FORMAT_VERSION,
        experiment: "context".to_owned(),
        program: "Hermes Agent 0.20.1".to_owned(),
        os: "unknown".to_owned(),
        class: "published".to_owned(),
        model: "unknown".to_owned(),
        turns: 16,
        calls: 22,
        verified: 0,
        kept_from_profile: 0,
        sessions: Vec::new(),
        requests: Vec::new(),
        findings: PUBLISHED
            .iter()
            .map(|published| Finding {
                id: published.id.to_owned(),
                class: published.class.to_owned(),
                verdict: if published.class == "not verified" {
                    FindingVerdict::NotRun
                } else {
                    FindingVerdict::Agrees
                },
                better: None,
                facts: BTreeMap::new(),
            })
            .collect(),
    }
}
