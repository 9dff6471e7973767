//! Flags of the lab's measurements.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How much of a conversation can still be known: after compaction, or with --capsule after a
/// handoff.
#[derive(Debug, Args)]
#[command(after_help = "\
The recall exam (--capsule): each session is asked 15 to 20 questions, whatever its length, and \
answered from the capsule alone, from the capsule and one search inside the session as its Recovery \
block says, from one search over all sessions without a capsule, and from nothing.

Without --answerer no model reads: an answer counts if the exact value stands there on a line that \
names the thing asked about. Made-up conversations ask in other words than the statement's.

Questions about your own sessions (--sessions) are sentences of the session with a gap where an \
exact value or the telling word of a decision stood; one for each twentieth of the session, chosen \
by a digest of its text, whatever the capsule holds; a session that says little has fewer. Their wording is the session's own, which is \
kinder to a search than a person's question. Your store is only read; the report holds hits and no \
texts unless --texts is given.

With --answerer MODEL the model chooses the keywords of its search and answers, about 6 requests a \
question and policy; with --judge MODEL another marks the answers, 4 more. Both are asked at the \
configured endpoint (--provider NAME for another).")]
pub struct Recall {
    /// Seeds to run.
    #[arg(long, default_value_t = 20)]
    pub seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    pub first_seed: u64,
    /// Messages of a conversation, several with commas: 200,1000,5000 and without --capsule 20000.
    #[arg(long, value_delimiter = ',')]
    pub messages: Vec<usize>,
    /// Compactions of a conversation; several with commas.
    #[arg(
        long,
        value_delimiter = ',',
        default_values_t = [1, 5, 20, 40],
        conflicts_with = "capsule"
    )]
    pub compactions: Vec<u32>,
    /// Hold the recall exam about handoffs.
    #[arg(long)]
    pub capsule: bool,
    /// What the next session is given; several with commas are set against the first.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_values_t = [Policy::Deterministic],
        requires = "capsule"
    )]
    pub policy: Vec<Policy>,
    /// Examine these stored sessions instead of made-up ones; several with commas.
    #[arg(long, value_delimiter = ',', value_name = "SESSION", requires = "capsule")]
    pub sessions: Vec<String>,
    /// Put questions and answers of your own sessions into the report.
    #[arg(long, requires = "sessions")]
    pub texts: bool,
    /// This model answers.
    #[arg(long, value_name = "MODEL", requires = "capsule")]
    pub answerer: Option<String>,
    /// This model judges the answers.
    #[arg(long, value_name = "MODEL", requires = "answerer")]
    pub judge: Option<String>,
    /// Set two reports against each other, question by question. REPORT is an exam.json, or
    /// exam.json:POLICY where it holds several.
    #[arg(long, num_args = 2, value_names = ["REPORT", "REPORT"], requires = "capsule")]
    pub compare: Vec<String>,
    /// Folder for what is written: recall.md, .json and .svg, with --capsule exam.md, .json and
    /// .svg.
    #[arg(long, value_name = "DIR", default_value = "hermes-lab")]
    pub out: PathBuf,
    /// Print the figures as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What the next session is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// The capsule that is made without a model.
    Deterministic,
    /// The newest 1,200 words of the dialogue.
    Newest,
    /// As without a model, in 400 words, from the last 24,000 characters.
    Digest,
    /// The capsule that the configured writer makes. It costs a call a session.
    Writer,
    /// The newest capsule that was made of the session.
    Stored,
}
