//! Flags of the commands about plugins and hooks.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Plugins.
#[derive(Debug, Subcommand)]
pub enum Plugins {
    /// List every plugin there is, enabled or not, and why one does not run.
    #[command(visible_alias = "ls")]
    List {
        /// Only those that are switched on.
        #[arg(long)]
        enabled: bool,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show what a plugin is, what its files do, and how it is switched on. Runs nothing of it.
    #[command(visible_alias = "info")]
    Show {
        /// Its name, or CATEGORY/NAME.
        plugin: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Switch a plugin on, after a look at its files.
    Enable(Enable),
    /// Switch a plugin off; its files and settings stay.
    Disable {
        /// Its name, or CATEGORY/NAME.
        plugin: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Put a plugin in place: a folder, a git repository, or a package of the Python registry.
    Install(Install),
    /// Take a plugin away that is a folder of the home, and switch it off.
    #[command(visible_aliases = ["rm", "uninstall"])]
    Remove {
        /// Its name, or CATEGORY/NAME.
        plugin: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Load what is switched on and say what came of it: registered, refused, missing, spent.
    Doctor {
        /// Only this plugin.
        plugin: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Check a plugin's folder before it is published or installed.
    Validate {
        /// The folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make the folder of a new plugin that already does something.
    New(New),
}

/// Switching a plugin on.
#[derive(Debug, Args)]
pub struct Enable {
    /// Its name, or CATEGORY/NAME.
    pub plugin: String,
    /// Do not ask, whatever its files look like.
    #[arg(long)]
    pub yes: bool,
    /// Let it replace tools of this program.
    #[arg(long)]
    pub allow_tool_override: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Putting a plugin in place.
#[derive(Debug, Args)]
pub struct Install {
    /// A folder, OWNER/REPO or the address of a git repository, or a package such as NAME==1.2.
    #[arg(value_name = "PATH|GIT|PACKAGE")]
    pub source: String,
    /// Branch or tag of the repository.
    #[arg(long = "ref", value_name = "NAME")]
    pub reference: Option<String>,
    /// Put it in the place of one that is there already.
    #[arg(long)]
    pub force: bool,
    /// Install the Python packages that its manifest names, into the environment of the home.
    #[arg(long)]
    pub deps: bool,
    /// Switch it on as well; its files are shown first.
    #[arg(long)]
    pub enable: bool,
    /// With --enable: do not ask, whatever its files look like.
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A new plugin.
#[derive(Debug, Args)]
pub struct New {
    /// Its name: letters, digits, - and _.
    pub name: String,
    /// Write it in Python, as plugins of Hermes Agent are (the default).
    #[arg(long)]
    pub python: bool,
    /// Write it in Rust: a program of its own that speaks the plugin protocol.
    #[arg(long, conflicts_with = "python")]
    pub rust: bool,
    /// Make the folder in DIR instead of among the plugins of the home.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// Hooks.
#[derive(Debug, Subcommand)]
pub enum Hooks {
    /// List every hook, fired or not yet, and who listens in which order.
    #[command(visible_alias = "ls")]
    List {
        /// Only hooks that somebody listens to.
        #[arg(long)]
        used: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Agree that a shell hook of the settings may run.
    Consent {
        /// Its command, exactly as in the settings.
        #[arg(required_unless_present = "all")]
        command: Option<String>,
        /// Every shell hook of the settings.
        #[arg(long, conflicts_with = "command")]
        all: bool,
    },
    /// Take the agreement about a shell hook back.
    Revoke {
        /// Its command, exactly as in the settings.
        command: String,
    },
    /// Run the shell hooks of an event with a made-up payload and show what their answers mean.
    Test {
        /// The event, such as pre_tool_call.
        event: String,
        /// The tool of the made-up call.
        #[arg(long, value_name = "TOOL", default_value = "terminal")]
        for_tool: String,
        /// A file with one JSON object; its fields replace those that are made up.
        #[arg(long, value_name = "FILE")]
        payload: Option<PathBuf>,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
}
