//! Every flag and command, with its help. Parsing only; what is done with it is in `commands`.

pub mod lab;
pub mod plugged;
pub mod stored;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// An agent runtime that can prove what the model saw.
#[derive(Debug, Parser)]
#[command(
    name = "hermes",
    version,
    about = "An agent runtime that can prove what the model saw.",
    after_help = "Without a command hermes starts a conversation. Without a configured provider it \
                  talks to the built-in rehearsal provider, which is no language model.\n\nFirst \
                  steps: hermes tour, hermes setup, hermes chat -q \"hello\", hermes requests list"
)]
pub struct Cli {
    /// How to hold a conversation.
    #[command(flatten)]
    pub talk: Talk,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of a conversation, with and without the word `chat`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Conversation")]
pub struct Talk {
    /// Say TEXT and what is piped in, print only the answer, exit ("-": only what is piped in).
    #[arg(short = 'z', long, value_name = "TEXT")]
    pub oneshot: Option<String>,
    /// Take up a stored session: id, unique prefix, title, number, or "latest" of this workspace.
    #[arg(short, long, value_name = "SESSION", global = true)]
    pub resume: Option<String>,
    /// Take up the latest session of this workspace.
    #[arg(short = 'c', long = "continue", global = true, conflicts_with = "resume")]
    pub continue_latest: bool,
    /// Work in this folder.
    #[arg(long, visible_alias = "in", value_name = "DIR", global = true)]
    pub cwd: Option<PathBuf>,
    /// Use this model.
    #[arg(short, long, value_name = "MODEL", global = true)]
    pub model: Option<String>,
    /// Use this provider.
    #[arg(long, value_name = "NAME", global = true)]
    pub provider: Option<String>,
    /// Let every shell hook of the settings run, agreed to or not.
    #[arg(long, global = true)]
    pub accept_hooks: bool,
    /// Use this profile: a home of its own beside the others.
    #[arg(short = 'p', long, value_name = "NAME", global = true)]
    pub profile: Option<String>,
}

impl Talk {
    /// Whether the latest session is to be taken up, whichever it is.
    pub fn wants_latest(&self) -> bool {
        self.continue_latest || self.resume.as_deref() == Some("latest")
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Hold a conversation, or say one thing with -q.
    Chat(Chat),
    /// Run a real session in a temporary home and prove what was sent.
    Tour {
        /// Keep the temporary home and say where it is.
        #[arg(long)]
        keep: bool,
    },
    /// Find a model server on this machine, or ask for one, and write the configuration.
    Setup(Setup),
    /// Find, show, export, keep and delete stored sessions.
    #[command(subcommand)]
    Sessions(Sessions),
    /// Bring in sessions and files from another home or agent.
    Import(stored::Import),
    /// Homes beside each other, each with its own store, settings and secrets.
    #[command(subcommand)]
    Profile(stored::Profile),
    /// List, show, rebuild, verify and compare the requests that were sent.
    #[command(subcommand)]
    Requests(Requests),
    /// Show what a session's last or next request is made of, its sources, and why.
    Context(Context),
    /// Find every place where a text is or was: files, prompts, rows, requests.
    Trace {
        /// The text, letter for letter.
        text: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write an account of a session that is safe to paste.
    Report {
        /// Id, unique prefix, title, number, or "latest".
        #[arg(default_value = "latest")]
        session: String,
    },
    /// List skills, and switch them on and off.
    #[command(subcommand)]
    Skills(Skills),
    /// List, install, switch on, examine and write plugins.
    #[command(subcommand)]
    Plugins(plugged::Plugins),
    /// List the hooks and who listens; agree to shell hooks and try them.
    #[command(subcommand)]
    Hooks(plugged::Hooks),
    /// Build, look at and hand on capsules, which carry a conversation to its next session.
    #[command(subcommand)]
    Handoff(Handoff),
    /// Show and change the configuration.
    #[command(subcommand)]
    Config(Config),
    /// Look for whatever is wrong or surprising with this home.
    Doctor {
        /// Also ask whoever writes capsules for a tiny answer, which sends the key.
        #[arg(long)]
        writer: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Experiments about what the model sees, with receipts.
    #[command(subcommand)]
    Lab(Lab),
    /// The built-in model server that is no language model.
    #[command(subcommand)]
    Rehearse(Rehearse),
    /// Print a completion script.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Parts of this program's own workshop.
    #[command(subcommand, hide = true)]
    Internal(Internal),
}

/// One conversation.
#[derive(Debug, Default, Args)]
pub struct Chat {
    /// Say TEXT and what is piped in, print the answer, exit ("-": only what is piped in).
    #[arg(short, long, value_name = "TEXT")]
    pub query: Option<String>,
    /// Print one JSON object with answer, session, requests and usage.
    #[arg(long)]
    pub json: bool,
    /// Print only the answer.
    #[arg(short = 'Q', long)]
    pub quiet: bool,
    /// Send an image with the message.
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// Start the next session from the capsule that waits here, also in a script.
    #[arg(long)]
    pub fresh: bool,
}

/// Finding a model.
#[derive(Debug, Args)]
pub struct Setup {
    /// Base URL of an OpenAI-compatible server, such as http://127.0.0.1:11434/v1.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Name of the environment variable that holds the key; the key itself is never a flag.
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// Ask nothing; fail where an answer would be needed.
    #[arg(long)]
    pub non_interactive: bool,
}

/// Stored sessions.
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List sessions, newest first.
    List {
        /// At most this many.
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// Only those of this workspace.
        #[arg(long)]
        here: bool,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show one session with its messages.
    Show {
        /// Id, unique prefix, title, number, or "latest".
        session: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Shorten what the next request of a session holds; every message stays stored.
    Compress(Compress),
    /// List what was compacted in a session, and what was tried and came to nothing.
    Compactions {
        /// Id, unique prefix, title, number, or "latest".
        #[arg(default_value = "latest")]
        session: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write a session as data.
    Export {
        /// Id, unique prefix, title, number, or "latest".
        #[arg(long, value_name = "SESSION")]
        session_id: String,
        /// The form.
        #[arg(long, value_enum, default_value_t = Format::Jsonl)]
        format: Format,
        /// Leave out what looks like a secret.
        #[arg(long)]
        redact: bool,
        /// Where to write; "-" is standard output.
        #[arg(default_value = "-")]
        output: PathBuf,
    },
    /// Delete sessions with everything that belongs to them.
    Delete(Box<stored::Delete>),
    /// Find past conversations by words, read them, read around a message.
    Search(Box<stored::Search>),
    /// Copy a session up to a point into one that goes its own way.
    Branch(stored::Branch),
    /// Give a session a title.
    Rename {
        /// Id, unique prefix, title, number, or "latest".
        session: String,
        /// The title; none takes it away.
        title: Vec<String>,
    },
    /// Take sessions out of the lists; they stay as they are.
    Archive(Box<stored::Archive>),
    /// Put archived sessions back into the lists.
    Unarchive(Box<stored::Archive>),
    /// Keep sessions out of sweeps.
    Pin {
        /// Ids, unique prefixes, titles or numbers.
        #[arg(required = true)]
        sessions: Vec<String>,
    },
    /// Let sweeps have sessions again.
    Unpin {
        /// Ids, unique prefixes, titles or numbers.
        #[arg(required = true)]
        sessions: Vec<String>,
    },
    /// Delete sessions that were not used for long.
    Prune(Box<stored::Prune>),
    /// Delete sessions that never held a message.
    Sweep(stored::Sweep),
    /// Move sessions into the profile that they belong to, with every request they sent.
    Move(stored::Move),
    /// Check the store and everything it promises.
    Check {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Repair a damaged store on a copy; the original is kept.
    Repair {
        /// Print the report as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy the whole store while it is in use.
    Backup {
        /// The file; a dated one in the folder backups where nothing is said.
        file: Option<PathBuf>,
    },
    /// Put a backup in the place of the store; the present one is kept as a backup.
    Restore {
        /// The backup.
        file: PathBuf,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Merge the search index and give unused room back.
    Optimize,
}

/// A session to compact.
#[derive(Debug, Args)]
pub struct Compress {
    /// Id, unique prefix, title, number, or "latest".
    #[arg(default_value = "latest")]
    pub session: String,
    /// Keep the newest N exchanges exactly as they are.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(usize))]
    pub here: Option<usize>,
    /// What is to be kept above all.
    #[arg(long, value_name = "TEXT")]
    pub focus: Option<String>,
    /// Show what it would do and cost.
    #[arg(long, conflicts_with = "undo")]
    pub preview: bool,
    /// Take the newest compaction back.
    #[arg(long, conflicts_with_all = ["here", "focus"])]
    pub undo: bool,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object on one line, with all messages.
    Jsonl,
    /// Markdown.
    Md,
    /// One HTML file that needs nothing else.
    Html,
}

/// Requests that were sent.
#[derive(Debug, Subcommand)]
pub enum Requests {
    /// List requests, newest first.
    List {
        /// Only those of this session.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        /// At most this many.
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show what is known of one request.
    Show {
        /// Id or unique prefix.
        request: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the exact bytes of a request's body.
    Body {
        /// Id or unique prefix.
        request: String,
    },
    /// Rebuild bodies and compare digests.
    Verify {
        /// Ids or unique prefixes.
        #[arg(required_unless_present_any = ["all", "session"])]
        requests: Vec<String>,
        /// Every request in the store.
        #[arg(long)]
        all: bool,
        /// Every request of this session.
        #[arg(long, value_name = "SESSION")]
        session: Option<String>,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show what changed from one request to another.
    Diff {
        /// Id or unique prefix.
        a: String,
        /// Id or unique prefix.
        b: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// What a request is made of.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Context {
    /// Another question about the context.
    #[command(subcommand)]
    pub command: Option<AboutContext>,
    /// Id, unique prefix, title, number, or "latest"; then "all" to list every part.
    #[arg(value_name = "SESSION [all]", num_args = 0..=2)]
    pub session: Vec<String>,
    /// List every part instead of groups.
    #[arg(long)]
    pub all: bool,
    /// What the next request would hold, without sending it.
    #[arg(long)]
    pub next: bool,
    /// What would be said in it.
    #[arg(long, value_name = "TEXT", requires = "next")]
    pub say: Option<String>,
    /// Of a new session here, with the capsule that waits for it.
    #[arg(long, requires = "next")]
    pub fresh: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Questions about the context.
#[derive(Debug, Subcommand)]
pub enum AboutContext {
    /// Every source: when it was loaded, whether it differs now, when that reaches the model.
    Sources {
        /// Id, unique prefix, title, number, or "latest".
        session: Option<String>,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// The history as it is stored, active, compacted, live and sent, side by side.
    Views {
        /// Id, unique prefix, title, number, or "latest".
        #[arg(default_value = "latest")]
        session: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Why a file, source or skill is in the context, or is not.
    Why {
        /// A path, or the name of a source, skill or project file.
        name: String,
        /// Id, unique prefix, title, number, or "latest".
        #[arg(long)]
        session: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compare two prompts: SESSION, or SESSION@GENERATION.
    Diff {
        /// The older one.
        a: String,
        /// The newer one.
        b: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Read sources anew in a stored session; the model is told with its next message.
    Refresh {
        /// Sources, such as memory or project; all without any.
        sources: Vec<String>,
        /// Id, unique prefix, title, number, or "latest".
        #[arg(long, default_value = "latest")]
        session: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Skills.
#[derive(Debug, Subcommand)]
pub enum Skills {
    /// List all skills, those that cannot be used with the reason.
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Switch a skill on.
    Enable {
        /// Its name.
        name: String,
    },
    /// Switch a skill off.
    Disable {
        /// Its name.
        name: String,
    },
}

/// Capsules.
#[derive(Debug, Subcommand)]
pub enum Handoff {
    /// Build the capsule of a session; it waits for the next one of the conversation.
    Build {
        /// Id, unique prefix, title, number, or "latest".
        #[arg(long, value_name = "SESSION")]
        session_id: String,
        /// What the capsule should dwell on.
        #[arg(long, value_name = "TEXT")]
        focus: Option<String>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the capsules that wait.
    List {
        /// Those that were delivered, expired, discarded or superseded too.
        #[arg(long)]
        all: bool,
        /// Print a JSON array of all.
        #[arg(long)]
        json: bool,
    },
    /// Print a capsule.
    Show {
        /// Id, beginning of an id, session, lane, or "latest".
        #[arg(default_value = "latest")]
        capsule: String,
        /// Print one JSON object with all that is known of it.
        #[arg(long)]
        json: bool,
    },
    /// Compare a capsule's text with what was written.
    Verify {
        /// Id, beginning of an id, session, lane, or "latest".
        #[arg(default_value = "latest")]
        capsule: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Start a session from a capsule of any lane with these words.
    Deliver {
        /// Id, beginning of an id, session, lane, or "latest".
        capsule: String,
        /// What is said in the session's first turn.
        #[arg(long, value_name = "TEXT")]
        say: String,
    },
    /// Take a capsule back: it is not given to any session.
    Discard {
        /// Id, beginning of an id, session, lane, or "latest".
        capsule: String,
    },
    /// Try whoever writes capsules with a tiny request.
    Check {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Build capsules of the latest conversations of all profiles (with -p, of one) and close
    /// their sessions.
    Nightly {
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        /// At most this many builds.
        #[arg(long, value_name = "N", default_value_t = hermes_handoff::nightly::MOST_BUILDS)]
        limit: usize,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// The configuration.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Print the configuration in force, secrets left out.
    Show {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print one value.
    Get {
        /// Dotted key, such as model.default.
        key: String,
    },
    /// Change one value in config.yaml; comments and order stay.
    Set {
        /// Dotted key, such as model.default.
        key: String,
        /// The value; lists and mappings as JSON or YAML.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print where the configuration is.
    Path,
    /// Check the configuration and print the effective provider chain.
    Check,
}

/// Experiments.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Run an experiment in a profile and repository of its own and write its receipt.
    #[command(subcommand)]
    Run(Experiment),
    /// Measure how much of a conversation can still be known after compaction, or after a handoff.
    Recall(lab::Recall),
    /// Compare two receipts; "published" stands for the published findings.
    Compare {
        /// The first receipt.
        a: PathBuf,
        /// The second receipt.
        b: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Experiments that there are.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// What compaction refreshes, keeps and says: 28 rows, a skill, a summary that fails.
    Compaction {
        /// Folder for compaction.json and compaction.md.
        #[arg(long, value_name = "DIR", default_value = "hermes-lab")]
        out: PathBuf,
        /// Print the receipt as JSON.
        #[arg(long)]
        json: bool,
    },
    /// When each source reaches the model: 16 turns in two sessions.
    Context {
        /// Base URL of an OpenAI-compatible server; the rehearsal provider without one.
        #[arg(long, value_name = "URL")]
        endpoint: Option<String>,
        /// Name of the environment variable that holds the key.
        #[arg(long, value_name = "NAME")]
        key_env: Option<String>,
        /// Folder for receipt.json and receipt.md.
        #[arg(long, value_name = "DIR", default_value = "hermes-lab")]
        out: PathBuf,
        /// Print the receipt as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The rehearsal provider.
#[derive(Debug, Subcommand)]
pub enum Rehearse {
    /// Serve the chat-completions wire on the loopback until stopped.
    Serve {
        /// Port; 0 lets the system choose one.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Replies to give before it answers by itself.
        #[arg(long, value_name = "FILE")]
        script: Option<PathBuf>,
        /// Write every body that arrives to this file, one JSON line each.
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
    },
}

/// Workshop commands.
#[derive(Debug, Subcommand)]
pub enum Internal {
    /// Print one of the generated tables of the guide.
    Tables {
        /// `exit-codes`, `sources`, `commands`, `slash-commands` or `hooks`.
        name: String,
    },
    /// Store a session of this many messages, for benchmarks.
    SeedSession {
        /// Number of messages.
        #[arg(long, default_value_t = 800)]
        messages: usize,
        /// Number of requests in its ledger; the last one is as if it had been sent.
        #[arg(long, default_value_t = 0)]
        requests: usize,
        /// Number of such sessions.
        #[arg(long, default_value_t = 1)]
        sessions: usize,
    },
}
