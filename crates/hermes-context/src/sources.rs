//! The one table of every kind of context source: who owns it, where its truth is, when it is
//! loaded, where it enters a request, what refreshes it, how to look at it.
//!
//! The command line prints it and the guide is generated from it; nothing else may describe a
//! lifecycle in words of its own.

use std::path::Path;

use hermes_core::Refresh;
use hermes_home::Home;

use crate::{Workspace, hints, project};

/// A kind of source, in the prompt or beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceKind {
    /// Short stable name, as blocks of the manifest carry it in front of a colon.
    pub id: &'static str,
    /// What it is called in a sentence.
    pub name: &'static str,
    /// Who may change it.
    pub owner: &'static str,
    /// Where its truth is.
    pub truth: &'static str,
    /// When it is read.
    pub loaded: &'static str,
    /// Where it enters a request.
    pub enters: &'static str,
    /// What brings a change of it to the model.
    pub refresh: Refresh,
    /// The same as a sentence.
    pub when_seen: &'static str,
    /// How to look at it.
    pub inspect: &'static str,
}

const AT_START: &str = "session start; a resumed session restores the stored snapshot";
const AT_REQUEST: &str =
    "The model sees it in the next session or after `/refresh`; open sessions keep what they have.";
const IN_SOURCES: &str = "`hermes context sources`";

/// Every kind of source.
pub static SOURCES: &[SourceKind] = &[
    SourceKind {
        id: "identity",
        name: "the identity (SOUL.md)",
        owner: "the person",
        truth: "`SOUL.md` in the home; built-in text without one",
        loaded: AT_START,
        enters: "prompt, stable tier",
        refresh: Refresh::OnRequest,
        when_seen: AT_REQUEST,
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "guidance",
        name: "the built-in guidance",
        owner: "this program",
        truth: "built-in text, versioned",
        loaded: AT_START,
        enters: "prompt, stable tier",
        refresh: Refresh::NextSession,
        when_seen: "The model sees it in the next session.",
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "environment",
        name: "the environment and platform hint",
        owner: "this program",
        truth: "the machine and the surface",
        loaded: AT_START,
        enters: "prompt, stable tier",
        refresh: Refresh::OnRequest,
        when_seen: AT_REQUEST,
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "config",
        name: "the configuration",
        owner: "the person",
        truth: "`config.yaml` and `.env` in the home",
        loaded: "start of the process",
        enters: "limits and switches of the other sources; no text of its own",
        refresh: Refresh::OnRequest,
        when_seen: "It takes effect in the next process; the prompt of a stored session changes \
                    with the next session or `/refresh`.",
        inspect: "`hermes config show`",
    },
    SourceKind {
        id: "tools",
        name: "the tool definitions",
        owner: "this program, plugins and MCP servers",
        truth: "the tool registry",
        loaded: "session start, pinned; a resumed session sends the pinned list",
        enters: "the request's `tools` field",
        refresh: Refresh::OnRequest,
        when_seen: "The model hears of a difference in a notice; the list changes with the next \
                    session or `/refresh`.",
        inspect: "`hermes context --all`",
    },
    SourceKind {
        id: "caller",
        name: "the caller's instructions",
        owner: "the caller (a surface, or the parent of a delegated child)",
        truth: "the call that started the session",
        loaded: AT_START,
        enters: "prompt, context tier",
        refresh: Refresh::NextSession,
        when_seen: "The model sees it in the next session.",
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "project",
        name: "the project file",
        owner: "the project",
        truth: "`.hermes.md`, else the `AGENTS.md` chain, else `CLAUDE.md`, else Cursor rules",
        loaded: AT_START,
        enters: "prompt, context tier",
        refresh: Refresh::OnRequest,
        when_seen: AT_REQUEST,
        inspect: "`hermes context why PATH`",
    },
    SourceKind {
        id: "workspace",
        name: "the workspace",
        owner: "the session",
        truth: "working directory, git root and branch, columns of the session",
        loaded: AT_START,
        enters: "prompt, context tier",
        refresh: Refresh::OnRequest,
        when_seen: "A changed working directory brings a new prompt on resume; a changed branch \
                    the next session or `/refresh`.",
        inspect: "the head of `hermes context`",
    },
    SourceKind {
        id: "skills",
        name: "the skills index",
        owner: "the person; trusted projects",
        truth: "`SKILL.md` files of the skill folders",
        loaded: AT_START,
        enters: "prompt, volatile tier: names and short descriptions",
        refresh: Refresh::OnRequest,
        when_seen: "The index shows it in the next session or after `/refresh`; loading the skill \
                    reads the file at once.",
        inspect: "`hermes context why NAME`",
    },
    SourceKind {
        id: "memory",
        name: "the memory (MEMORY.md)",
        owner: "the model through the `memory` tool, and the person",
        truth: "`memories/MEMORY.md` in the home",
        loaded: "session start and every compaction",
        enters: "prompt, volatile tier",
        refresh: Refresh::Compaction,
        when_seen: "The model sees it in its prompt in the next session, after a compaction or \
                    `/refresh`.",
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "user",
        name: "the user profile (USER.md)",
        owner: "the model through the `memory` tool, and the person",
        truth: "`memories/USER.md` in the home",
        loaded: "session start and every compaction",
        enters: "prompt, volatile tier",
        refresh: Refresh::Compaction,
        when_seen: "The model sees it in its prompt in the next session, after a compaction or \
                    `/refresh`.",
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "plugin",
        name: "the sections of plugins",
        owner: "the plugins that are enabled",
        truth: "what a plugin registers as a section, computed by it once a session",
        loaded: AT_START,
        enters: "prompt, volatile tier",
        refresh: Refresh::OnRequest,
        when_seen: AT_REQUEST,
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "session",
        name: "the session's identity",
        owner: "this program",
        truth: "columns of the session: id, model, provider, surface",
        loaded: AT_START,
        enters: "prompt, volatile tier",
        refresh: Refresh::OnRequest,
        when_seen: "A changed model or provider brings a new prompt on resume.",
        inspect: "the head of `hermes context`",
    },
    SourceKind {
        id: "date",
        name: "the date",
        owner: "this program",
        truth: "the clock, by the day, and the person's time zone",
        loaded: AT_START,
        enters: "prompt, volatile tier",
        refresh: Refresh::OnRequest,
        when_seen: AT_REQUEST,
        inspect: IN_SOURCES,
    },
    SourceKind {
        id: "history",
        name: "the session history",
        owner: "the session",
        truth: "rows and parts in the store, folded by the session's generation",
        loaded: "every request",
        enters: "the request's messages",
        refresh: Refresh::EachRequest,
        when_seen: "The model sees it in the next request.",
        inspect: "`hermes sessions show`, `hermes context`",
    },
    SourceKind {
        id: "hint",
        name: "the nested project file",
        owner: "the project",
        truth: "`AGENTS.md` and the like in folders below the working directory",
        loaded: "when a tool touches a path in its folder; once for each content",
        enters: "a part of that tool's row",
        refresh: Refresh::PathTouched,
        when_seen: "The model sees it when a tool next touches a path in its folder.",
        inspect: "`hermes context why PATH`",
    },
    SourceKind {
        id: "skill",
        name: "the loaded skill",
        owner: "the person; trusted projects",
        truth: "the skill's `SKILL.md` and the files beside it",
        loaded: "when the model or the person loads it",
        enters: "a part of the row that loaded it, by content digest",
        refresh: Refresh::SkillLoaded,
        when_seen: "The model sees it when the skill is loaded again.",
        inspect: "`hermes context why NAME`",
    },
    SourceKind {
        id: "capsule",
        name: "the handoff capsule",
        owner: "the handoff",
        truth: "the capsule's row in the store",
        loaded: "the first turn of the session it is handed to",
        enters: "a part of that turn's user row",
        refresh: Refresh::NextSession,
        when_seen: "The model sees it in the first request of the next session.",
        inspect: "`hermes context`",
    },
    SourceKind {
        id: "reference",
        name: "the referenced file",
        owner: "the person",
        truth: "what `@file:`, `@folder:` or `@diff` names",
        loaded: "when the message is sent",
        enters: "a part of that user row",
        refresh: Refresh::Never,
        when_seen: "The model keeps what was read with the message; refer to it again for the \
                    new text.",
        inspect: "`hermes context`",
    },
    SourceKind {
        id: "hook",
        name: "the hook text",
        owner: "a plugin",
        truth: "what the plugin's `pre_llm_call` returned",
        loaded: "the turn it was returned in",
        enters: "a late part of that turn's user row",
        refresh: Refresh::EachRequest,
        when_seen: "The model sees what the hook returns in the turn's request.",
        inspect: "`hermes context`",
    },
    SourceKind {
        id: "recall",
        name: "the recalled memory",
        owner: "an external memory provider",
        truth: "the provider's own store",
        loaded: "start of a turn",
        enters: "a late part of that turn's user row",
        refresh: Refresh::EachRequest,
        when_seen: "The model sees what is recalled in the turn's request.",
        inspect: "`hermes context`",
    },
    SourceKind {
        id: "provider_cache",
        name: "the provider's cache",
        owner: "the provider",
        truth: "the provider; only its reported figures are known",
        loaded: "never",
        enters: "nowhere: it changes price and speed, not content",
        refresh: Refresh::Provider,
        when_seen: "An unchanged prompt is no proof of a cache hit.",
        inspect: "`hermes requests show`: cache-read and cache-write tokens",
    },
];

/// The kind with this id; the part of a block's id in front of the colon names its kind.
pub fn source_kind(id: &str) -> Option<&'static SourceKind> {
    let id = id.split(':').next().unwrap_or(id);
    SOURCES.iter().find(|kind| kind.id == id)
}

/// Which kind of source the file at `path` is, if it is one, for the receipt of a tool that wrote
/// it.
pub fn source_of_path(
    home: &Home,
    workspace: &Workspace,
    path: &Path,
) -> Option<&'static SourceKind> {
    let id = if path == home.soul_path() {
        "identity"
    } else if path == home.memory_path() {
        "memory"
    } else if path == home.user_path() {
        "user"
    } else if path == home.config_path() || path == home.env_path() {
        "config"
    } else if path.starts_with(home.skills_dir()) {
        "skills"
    } else if project::is_start_file(workspace, path) {
        "project"
    } else if path.starts_with(workspace.root()) && hints::is_hint_name(path) {
        "hint"
    } else {
        return None;
    };
    source_kind(id)
}

/// The table in Markdown, as the guide shows it.
pub fn sources_table() -> String {
    let mut out = String::from(
        "| source | owner | source of truth | loaded | enters | reaches the model | inspect |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for kind in SOURCES {
        let cells = [
            kind.name,
            kind.owner,
            kind.truth,
            kind.loaded,
            kind.enters,
            kind.when_seen,
            kind.inspect,
        ];
        out.push_str("| ");
        out.push_str(&cells.join(" | "));
        out.push_str(" |\n");
    }
    out
}
