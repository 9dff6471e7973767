//! Flags of the commands about what is stored: finding, choosing, keeping, importing, profiles.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

/// A search in past conversations.
#[derive(Debug, Args)]
pub struct Search {
    /// Words, "a phrase", NOT word, begin*. Without any, the latest sessions.
    pub query: Vec<String>,
    /// Only inside this session; without words, read it.
    #[arg(long, value_name = "SESSION")]
    pub session_id: Option<String>,
    /// Read around this message of --session-id.
    #[arg(long, value_name = "ID", requires = "session_id")]
    pub around: Option<i64>,
    /// Messages before and after the one of --around.
    #[arg(long, default_value_t = 5)]
    pub window: usize,
    /// Whose messages: a comma list of user, assistant, tool.
    #[arg(long, value_name = "ROLES", default_value = "user,assistant")]
    pub role_filter: String,
    /// At most this many results, 1 to 10.
    #[arg(short = 'n', long, default_value_t = 5)]
    pub limit: usize,
    /// The order of the results.
    #[arg(long, value_enum, default_value_t = Order::Relevance)]
    pub sort: Order,
    /// Only sessions started since: a date, a date and time, or 12h, 3d, 2w ago.
    #[arg(long, value_name = "WHEN")]
    pub after: Option<String>,
    /// Only sessions started until.
    #[arg(long, value_name = "WHEN")]
    pub before: Option<String>,
    /// Not this session; may be repeated.
    #[arg(long, value_name = "ID")]
    pub exclude: Vec<String>,
    /// Every result with its surroundings.
    #[arg(long)]
    pub full: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// In which order results come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// The best first.
    Relevance,
    /// The newest first.
    Newest,
    /// The oldest first.
    Oldest,
}

/// Sessions by what they are.
#[derive(Clone, Debug, Default, Args, Serialize)]
pub struct Choice {
    /// Last used more than this ago: 30d, 12h, 2w; a bare number means days.
    #[arg(long, value_name = "AGE")]
    pub older_than: Option<String>,
    /// Last used less than this ago.
    #[arg(long, value_name = "AGE")]
    pub newer_than: Option<String>,
    /// Started before this date.
    #[arg(long, value_name = "WHEN")]
    pub before: Option<String>,
    /// Started after this date.
    #[arg(long, value_name = "WHEN")]
    pub after: Option<String>,
    /// The surface, such as cli.
    #[arg(long)]
    pub source: Option<String>,
    /// Words in the title.
    #[arg(long)]
    pub title: Option<String>,
    /// Why it ended.
    #[arg(long)]
    pub end_reason: Option<String>,
    /// Worked in this folder or below it.
    #[arg(long, value_name = "DIR")]
    pub in_folder: Option<String>,
    /// The git branch.
    #[arg(long)]
    pub branch: Option<String>,
    /// The model it was held with.
    #[arg(long, value_name = "MODEL")]
    pub with_model: Option<String>,
    /// At least so many messages.
    #[arg(long, value_name = "N")]
    pub min_messages: Option<u64>,
    /// At most so many messages.
    #[arg(long, value_name = "N")]
    pub max_messages: Option<u64>,
    /// Archived ones too.
    #[arg(long)]
    pub include_archived: bool,
    /// Pinned ones too.
    #[arg(long)]
    pub include_pinned: bool,
}

/// How a deletion goes.
#[derive(Clone, Debug, Default, Args)]
pub struct How {
    /// Show what would be removed and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Also branches, capsules that other sessions received, and copies in backups.
    #[arg(long)]
    pub with_derived: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// An id of this request: repeating it gives the same receipt and does nothing.
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Print the receipt as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Sessions to delete.
#[derive(Debug, Args)]
pub struct Delete {
    /// Ids, unique prefixes, titles or numbers of the list.
    pub sessions: Vec<String>,
    /// Sessions by what they are, instead of names.
    #[command(flatten)]
    pub choice: Choice,
    /// How.
    #[command(flatten)]
    pub how: How,
}

/// Old sessions to delete.
#[derive(Debug, Args)]
pub struct Prune {
    /// Which; those last used more than 90 days ago where nothing is said.
    #[command(flatten)]
    pub choice: Choice,
    /// How.
    #[command(flatten)]
    pub how: How,
}

/// Sessions without a message to delete.
#[derive(Debug, Args)]
pub struct Sweep {
    /// Only those that nobody used for a day, whether they ended or not, and archived ones too.
    #[arg(long)]
    pub ghosts: bool,
    /// How.
    #[command(flatten)]
    pub how: How,
}

/// Sessions that lie in the wrong profile.
#[derive(Debug, Args)]
pub struct Move {
    /// Ids, unique prefixes, titles or numbers of the list.
    pub sessions: Vec<String>,
    /// Every session that says it belongs to another profile, instead of names.
    #[arg(long, conflicts_with = "sessions")]
    pub misplaced: bool,
    /// The profile that they go to; with --misplaced, only those that belong there.
    #[arg(long, value_name = "PROFILE", required_unless_present = "misplaced")]
    pub to: Option<String>,
    /// Show what would be moved and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// An id of this request: repeating it gives the same receipt and does nothing.
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Print the receipt as JSON; with --misplaced, an array of one for each profile.
    #[arg(long)]
    pub json: bool,
}

/// Sessions to archive.
#[derive(Debug, Args)]
pub struct Archive {
    /// Ids, unique prefixes, titles or numbers of the list.
    pub sessions: Vec<String>,
    /// Sessions by what they are, instead of names.
    #[command(flatten)]
    pub choice: Choice,
    /// Show what would change and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the ids that changed as a JSON array.
    #[arg(long)]
    pub json: bool,
}

/// A copy that goes its own way.
#[derive(Debug, Args)]
pub struct Branch {
    /// Id, unique prefix, title, number, or "latest".
    #[arg(default_value = "latest")]
    pub session: String,
    /// Only up to this row (the number that `sessions show` prints).
    #[arg(long, value_name = "ROW")]
    pub at: Option<u64>,
    /// The title of the copy.
    #[arg(long)]
    pub title: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// An import.
#[derive(Debug, Args)]
pub struct Import {
    /// A home of the Python Hermes Agent, a folder or file of Codex or Claude Code sessions, or a
    /// .jsonl export.
    pub source: PathBuf,
    /// What the source is; found out by looking where nothing is said.
    #[arg(long, value_enum, value_name = "KIND")]
    pub from: Option<From>,
    /// Show what would come in and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Also sessions that were deleted here.
    #[arg(long)]
    pub again: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What an import reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// A home of the Python Hermes Agent.
    Hermes,
    /// Session files of Codex.
    Codex,
    /// Session files of Claude Code.
    Claude,
    /// JSON lines of any Hermes.
    Jsonl,
}

/// Profiles: homes beside each other.
#[derive(Debug, Subcommand)]
pub enum Profile {
    /// List the profiles; the one in use has a star.
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Make a profile.
    Create {
        /// Small letters, digits, - and _.
        name: String,
        /// With the settings and the identity of the present one; never with its secrets.
        #[arg(long)]
        clone: bool,
    },
    /// Use a profile from now on.
    Use {
        /// The profile; "default" for the home itself.
        name: String,
    },
    /// Give a profile another name.
    Rename {
        /// The profile.
        name: String,
        /// Its new name.
        to: String,
    },
    /// Delete a profile with everything in it.
    Delete {
        /// The profile.
        name: String,
        /// Show what would be removed and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}
