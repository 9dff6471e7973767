//! The receipt of an experiment: a versioned format that people can send to each other.
//!
//! Digests of prompts are taken of the text with the experiment's folder and the session's id
//! replaced, so that the same sources give the same digest in every run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use hermes_core::Digest;
use serde::{Deserialize, Serialize};

use crate::{LabError, PUBLISHED};

/// The format's name.
pub const FORMAT: &str = "hermes-lab-receipt";

/// Its version: raised when a field changes its meaning or is taken away.
pub const FORMAT_VERSION: u32 = 1;

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`FORMAT`].
    pub format: String,
    /// [`FORMAT_VERSION`] of the program that wrote it.
    pub version: u32,
    /// The experiment.
    pub experiment: String,
    /// The program that ran it, with its version.
    pub program: String,
    /// The operating system.
    pub os: String,
    /// `rehearsed`, `live`, or `published`.
    pub class: String,
    /// The model that was asked.
    pub model: String,
    /// Turns of the person.
    pub turns: u32,
    /// Calls of the model, those of delegated children included.
    pub calls: u32,
    /// Requests whose bytes were made again from stored rows and have the digest that was sent.
    pub verified: u32,
    /// Times that the model tried to read the profile with a tool and was kept from it.
    pub kept_from_profile: u32,
    /// The sessions.
    pub sessions: Vec<SessionFacts>,
    /// The requests, in order.
    pub requests: Vec<RequestFacts>,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// A session of the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFacts {
    /// `A`, `B`, or `A/child`.
    pub name: String,
    /// Its turns.
    pub turns: u32,
    /// Rows that are live at the end.
    pub live_rows: u64,
    /// Rows that are not.
    pub other_rows: u64,
    /// Compactions.
    pub compactions: u32,
    /// Whether its id stayed the same to the end.
    pub same_id: bool,
}

/// A request of the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFacts {
    /// The session.
    pub session: String,
    /// The turn of the experiment, from 1.
    pub turn: u32,
    /// First digits of the digest of the prompt, folder and session id replaced.
    pub prompt: String,
    /// Messages.
    pub messages: u32,
    /// Input tokens, as the provider reported them.
    pub input_tokens: Option<u64>,
    /// Input tokens read from the provider's cache, as it reported them.
    pub cache_read_tokens: Option<u64>,
    /// Input tokens written to the provider's cache, as it reported them.
    pub cache_write_tokens: Option<u64>,
    /// Which marker words stand where: the word, and `prompt`, `tool`, `user`, `assistant`.
    pub markers: BTreeMap<String, Vec<String>>,
}

/// How a finding compares with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingVerdict {
    /// The same was found.
    Agrees,
    /// What was published as a fault is not there.
    Better,
    /// Something else was found.
    Differs,
    /// Not run by this experiment.
    NotRun,
}

impl FindingVerdict {
    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Better => "better",
            Self::Differs => "differs",
            Self::NotRun => "not run yet",
        }
    }
}

/// A finding and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `P1` and so on.
    pub id: String,
    /// `live`, `rehearsed`, `by test`, `not verified` or `not run`.
    pub class: String,
    /// The verdict.
    pub verdict: FindingVerdict,
    /// Where it goes beyond the published finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<String>,
    /// What the verdict rests on: counts and yes or no.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

impl Receipt {
    /// Digest of the receipt, which two equal runs share.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_json())
    }

    /// The receipt as JSON text.
    pub fn to_json(&self) -> String {
        // Maps with text keys and plain values do not fail to serialise.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Reads a receipt.
    ///
    /// # Errors
    /// If the file is none, or of a later version.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let text = fs::read_to_string(path)
            .map_err(|source| LabError::Io { path: path.to_owned(), source })?;
        let none = |why: String| LabError::NotAReceipt { path: path.to_owned(), why };
        let receipt: Self = serde_json::from_str(&text).map_err(|error| none(error.to_string()))?;
        if receipt.format != FORMAT {
            return Err(none(format!("its format is \"{}\", wanted {FORMAT}", receipt.format)));
        }
        if receipt.version > FORMAT_VERSION {
            return Err(none(format!(
                "its version is {}, this program knows up to {FORMAT_VERSION}",
                receipt.version
            )));
        }
        Ok(receipt)
    }

    /// Writes `receipt.json` and `receipt.md` into `folder`.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| LabError::Io { path, source }
        };
        fs::create_dir_all(folder).map_err(io(folder))?;
        for (name, text) in [("receipt.json", self.to_json()), ("receipt.md", self.to_markdown())] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(io(&path))?;
        }
        Ok(())
    }

    /// The receipt for people, beside the published findings.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "# Lab receipt: {}\n\n{} on {}, {} ({}); {} turns, {} calls, {} of them rebuilt and \
             verified; the model was kept from the profile {} times. Digest {}.\n\n\
             | finding | published | here | verdict |\n|---|---|---|---|",
            self.experiment,
            self.program,
            self.os,
            self.model,
            self.class,
            self.turns,
            self.calls,
            self.verified,
            self.kept_from_profile,
            self.digest().short()
        );
        for finding in &self.findings {
            let published = PUBLISHED.iter().find(|published| published.id == finding.id);
            let (text, class) = published.map_or(("", ""), |it| (it.text, it.class));
            let facts: Vec<String> =
                finding.facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            let better = finding.better.as_ref().map(|it| format!("; better: {it}"));
            let _ = writeln!(
                out,
                "| {} | {text} ({class}) | {} ({}) | {}{} |",
                finding.id,
                facts.join("; "),
                finding.class,
                finding.verdict.word(),
                better.unwrap_or_default()
            );
        }
        let _ = writeln!(
            out,
            "\n| session | turn | prompt | messages | input | cache read | cache write | markers \
             |\n|---|---|---|---|---|---|---|---|"
        );
        let figure = |it: Option<u64>| it.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        for request in &self.requests {
            let markers: Vec<String> = request
                .markers
                .iter()
                .map(|(word, places)| format!("{word} in {}", places.join(", ")))
                .collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                request.session,
                request.turn,
                request.prompt,
                request.messages,
                figure(request.input_tokens),
                figure(request.cache_read_tokens),
                figure(request.cache_write_tokens),
                markers.join("; ")
            );
        }
        out.push_str(
            "\nAn unchanged prompt digest is no proof of a provider cache hit, and a cache figure \
             proves nothing about the prompt: they are separate figures.\n",
        );
        out
    }
}
