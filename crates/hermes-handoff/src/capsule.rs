//! A capsule: its facts, its sections, and the file it is written to.

use std::fmt::Write as _;

use hermes_core::{Lane, Seq, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::references;
use crate::result::Status;
use crate::section::{self, Body, RECOVERY, STATUS, Section, words};
use crate::trim::{Trimmed, trim};
use crate::validate::Verdict;

/// The form of capsules that this program writes.
pub const VERSION: u32 = 1;

/// Bounds of a capsule and of what is read for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Words that the writer is asked to keep to. More are noted.
    pub words: usize,
    /// Characters of the five sections. More are cut.
    pub chars: usize,
    /// Characters of the dialogue that the writer reads.
    pub read: usize,
}

/// Bounds in an ordinary lane.
pub const ORDINARY: Limits = Limits { words: 1_200, chars: 12_000, read: 300_000 };
/// Bounds in a confidential lane.
pub const CONFIDENTIAL: Limits = Limits { words: 400, chars: 4_000, read: 24_000 };

/// How much of the session the writer read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Turns read.
    pub turns_read: usize,
    /// Turns in the session.
    pub turns: usize,
    /// Characters of all turns.
    pub chars: usize,
}

/// What is known of a capsule besides its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The form it is written in.
    pub version: u32,
    /// Its id.
    pub id: String,
    /// The conversation it is for.
    pub lane: Option<Lane>,
    /// The session it is about.
    pub session: SessionId,
    /// The first and last row it is about.
    pub rows: (Seq, Seq),
    /// Messages of the dialogue.
    pub messages: usize,
    /// When it was built.
    pub created_at: Timestamp,
    /// How the build went.
    pub status: Status,
    /// Why, where it is a fallback.
    pub reason: Option<String>,
    /// The model, `deterministic` or `fixed`.
    pub writer: String,
    /// The marking pass before it.
    pub prepass: String,
    /// How much was read.
    pub coverage: Coverage,
    /// What the check found.
    pub verdict: Verdict,
    /// Whether the rules for confidential lanes hold.
    pub confidential: bool,
    /// Words of the five sections.
    pub words: usize,
    /// Characters of the five sections.
    pub chars: usize,
    /// Characters that were cut.
    pub trimmed: usize,
}

/// A capsule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capsule {
    /// What is known of it.
    pub facts: Facts,
    /// Its sections, already cut to the cap.
    pub body: Body,
    text: String,
}

/// The rows that a line refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Referenced {
    /// The section.
    pub section: Section,
    /// The line in it, from 0.
    pub line: usize,
    /// The rows.
    pub rows: Vec<Seq>,
}

impl Capsule {
    /// Cuts `body` to its cap and counts it. A breadcrumb keeps to its words as well.
    pub fn new(mut facts: Facts, body: &Body) -> Self {
        let limits = if facts.confidential { CONFIDENTIAL } else { ORDINARY };
        let mut cap = limits.chars;
        let Trimmed { text, over } = loop {
            let trimmed = trim(body, cap);
            let count = words(&trimmed.text);
            if !facts.confidential || count <= limits.words {
                break trimmed;
            }
            cap = trimmed.text.chars().count() * limits.words / (count + 1);
        };
        facts.words = words(&text);
        facts.chars = text.chars().count();
        facts.trimmed = over;
        let body = section::read(&text).body;
        Self { facts, body, text }
    }

    /// The five sections as text, at most the cap.
    pub fn sections(&self) -> &str {
        &self.text
    }

    /// The file's text.
    pub fn render(&self) -> String {
        let mut out = self.head();
        out.push('\n');
        out.push_str(&self.text);
        out.push('\n');
        if !self.facts.confidential {
            out.push('\n');
            out.push_str(&recovery(&self.facts));
        }
        out
    }

    /// The first paragraph: the status line, the facts, and for a fallback what that means.
    fn head(&self) -> String {
        let facts = &self.facts;
        let mut out = format!("{STATUS}{}", facts.status.word());
        if let Some(reason) = &facts.reason {
            let _ = write!(out, "; reason: {}", one_line(reason));
        }
        let _ = write!(out, "\ncapsule: version {}", facts.version);
        if facts.confidential {
            out.push_str("; confidential");
        } else {
            let _ = write!(out, "; session {}", facts.session);
            if let Some(lane) = &facts.lane {
                let _ = write!(out, "; lane {}", one_line(lane.key()));
            }
            let (first, last) = facts.rows;
            let _ = write!(out, "; rows r{first} to r{last}; messages {}", facts.messages);
            let _ = write!(out, "; prepass {}", facts.prepass);
        }
        let _ = write!(out, "; writer {}; built {}", one_line(&facts.writer), facts.created_at);
        let limits = if facts.confidential { CONFIDENTIAL } else { ORDINARY };
        let _ = write!(out, "; {} words, {} characters", facts.words, facts.chars);
        if facts.words > limits.words {
            let _ = write!(out, " (over the limit of {} words)", limits.words);
        }
        if facts.trimmed > 0 {
            let _ = write!(out, " ({} characters were cut)", facts.trimmed);
        }
        out.push('\n');
        if facts.status == Status::Fallback && !facts.confidential {
            let _ = writeln!(
                out,
                "No model wrote this: {}. It was put together from the rows of the session, so it \
                 quotes what was said and understands nothing; check before you rely on it.",
                one_line(facts.reason.as_deref().unwrap_or("the writer failed"))
            );
        }
        out
    }
}

/// The lines of a capsule that refer to rows.
pub fn referenced(body: &Body) -> Vec<Referenced> {
    let mut all = Vec::new();
    for section in Section::ALL {
        for (line, text) in body.get(section).lines().enumerate() {
            let rows = references::of_line(text);
            if !rows.is_empty() {
                all.push(Referenced { section, line, rows });
            }
        }
    }
    all
}

/// The status in a capsule's file; None if the line was taken out of it.
pub fn status_line(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix(STATUS))
}

/// A text on one line, for the file's head.
fn one_line(text: &str) -> String {
    section::legible(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The block that no model writes: where the session is and how to search it.
fn recovery(facts: &Facts) -> String {
    let id = &facts.session;
    format!(
        "## {RECOVERY}\n\
         Written by the runtime. This capsule is about session {id} ({} messages). What it leaves \
         out is still stored, and numbers such as [r12] are rows of that session; search before you \
         ask the person again:\n\
         - session_search(query=\"2 to 5 keywords\", session_id=\"{id}\") finds words in it\n\
         - session_search(query=\"2 to 5 keywords\") finds words in every session and gives \
         session_id and match_message_id\n\
         - session_search(session_id=\"{id}\", around_message_id=<match_message_id>) reads around a \
         hit\n\
         - add role_filter=\"user,assistant,tool\" when the value came from a tool\n",
        facts.messages
    )
}

/// The note of the fixed capsule of a confidential lane.
const ASK_AGAIN: &str = "Nothing could be carried over. Ask the person what the task is.";

/// The capsule of a confidential lane whose writer failed: never an extract.
pub(crate) fn fixed_body() -> Body {
    let mut body = Body::default();
    body.set(Section::WorkingOn, ASK_AGAIN);
    body.set(Section::Next, "- Ask what the task is and where it stands.");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn facts() -> Facts {
        Facts {
            version: VERSION,
            id: "c1".to_owned(),
            lane: Some(Lane::cli("/w/p")),
            session: SessionId::new("20261130_095600_ab12cd"),
            rows: (Seq(1), Seq(40)),
            messages: 12,
            created_at: Timestamp(1_796_032_560_000_000),
            status: Status::Ok,
            reason: None,
            writer: "some-model".to_owned(),
            prepass: "none".to_owned(),
            coverage: Coverage::default(),
            verdict: Verdict::default(),
            confidential: false,
            words: 0,
            chars: 0,
            trimmed: 0,
        }
    }

    fn body() -> Body {
        let mut body = Body::default();
        body.set(Section::WorkingOn, "the parser");
        body.set(Section::State, "- half done [r3, r5]\n- tested [r7-r9]");
        body
    }

    #[test]
    fn the_file_has_a_status_line_six_headings_and_calls_that_name_the_session() {
        let text = Capsule::new(facts(), &body()).render();
        assert_eq!(status_line(&text), Some("ok"));
        assert_eq!(text.lines().filter(|line| line.starts_with("## ")).count(), 6);
        assert!(text.contains("session_id=\"20261130_095600_ab12cd\", around_message_id="));
        let read = section::read(&text);
        assert!(read.is_whole());
        assert_eq!(read.body, body());
        assert!(read.recovery.unwrap().contains("12 messages"));
    }

    #[test]
    fn a_fallback_says_so_in_the_first_paragraph() {
        let reason = Some("the writer's key was refused (401)".to_owned());
        let facts = Facts {
            status: Status::Fallback,
            reason,
            writer: "deterministic".to_owned(),
            ..facts()
        };
        let text = Capsule::new(facts, &body()).render();
        let first = text.split("\n\n").next().unwrap();
        assert!(
            first.starts_with("capsule-status: fallback; reason: the writer's key was refused")
        );
        assert!(first.contains("No model wrote this: the writer's key was refused (401)."));
    }

    #[test]
    fn lines_know_their_rows() {
        let found = referenced(&Capsule::new(facts(), &body()).body);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].rows, [Seq(3), Seq(5)]);
        assert_eq!((found[1].line, found[1].rows.clone()), (1, vec![Seq(7), Seq(9)]));
    }

    #[test]
    fn a_confidential_capsule_names_no_session_and_has_no_recovery_block() {
        let text = Capsule::new(Facts { confidential: true, ..facts() }, &fixed_body()).render();
        for absent in ["Recovery", "20261130_095600", "/w/p", "r40"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        assert!(text.contains(ASK_AGAIN));
    }

    #[test]
    fn a_breadcrumb_keeps_to_its_words_and_its_form() {
        let mut long = body();
        long.set(Section::State, &"ab ".repeat(900));
        long.set(Section::Next, &"a b c d e ".repeat(120));
        let capsule = Capsule::new(Facts { confidential: true, ..facts() }, &long);
        assert!(capsule.facts.words <= 400 && capsule.facts.words > 300, "{:?}", capsule.facts);
        assert!(section::read(capsule.sections()).is_whole());
        assert!(capsule.facts.trimmed > 0);
    }

    #[test]
    fn too_many_words_are_noted_and_not_cut() {
        let mut long = body();
        long.set(Section::State, &"ab ".repeat(1_300));
        let capsule = Capsule::new(facts(), &long);
        assert!(capsule.facts.words > 1_300);
        assert_eq!(capsule.facts.trimmed, 0);
        assert!(capsule.render().contains("over the limit of 1200 words"));
    }
}
