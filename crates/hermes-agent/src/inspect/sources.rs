//! The live state of every source: what the prompt holds, whether the source is still the same,
//! and when a change reaches the model.
//!
//! Invariant: the present state is found by building the prompt anew, so it cannot disagree with
//! what a new session would get.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hermes_context::{SOURCES, SourceKind, hints, snapshot_differences, source_kind, source_text};
use hermes_core::{
    Block, Digest, Origin, Part, Row, Seq, Snapshot, Source, Timestamp, ToolSet, Verdict,
};
use serde::Serialize;

use crate::conversation::Conversation;
use crate::{AgentError, Services};

/// A kind of source and what this session has of it.
#[derive(Clone, Debug, Serialize)]
pub struct SourceState {
    /// The kind's id.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Who may change it.
    pub owner: &'static str,
    /// Where it enters a request.
    pub enters: &'static str,
    /// When a change reaches the model.
    pub reaches_model: &'static str,
    /// What this session has of it.
    pub entries: Vec<SourceEntry>,
}

/// One source of a session.
#[derive(Clone, Debug, Serialize)]
pub struct SourceEntry {
    /// The block's id, or the part's label.
    pub id: String,
    /// The source.
    pub source: String,
    /// When it was loaded; None if it was not.
    pub loaded_at: Option<Timestamp>,
    /// The row that holds it, if it is not in the prompt.
    pub row: Option<Seq>,
    /// Digest of the source as it was read.
    pub digest: Option<Digest>,
    /// Whether it is in, in a word, with the reason if it is out.
    pub verdict: String,
    /// How it is now.
    pub now: Now,
}

/// How a source is now, compared with what was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Now {
    /// As it was loaded.
    Same,
    /// It differs.
    Differs {
        /// Since when, as far as its file tells.
        since: Option<Timestamp>,
    },
    /// It came after the prompt was built.
    New {
        /// Since when, as far as its file tells.
        since: Option<Timestamp>,
    },
    /// It is not there any more, or no longer considered.
    Gone,
    /// What was read is kept with the message; the source is not followed.
    Kept,
}

impl SourceEntry {
    /// Its state in a sentence; `kind` says when a change reaches the model.
    pub fn sentence(&self, kind: &SourceKind) -> String {
        let when = |since: &Option<Timestamp>| {
            since.map_or_else(String::new, |since| format!(" since {since}"))
        };
        match &self.now {
            Now::Same => "as loaded".to_owned(),
            Now::Differs { since } => format!("differs{}. {}", when(since), kind.when_seen),
            Now::New { since } => format!("new{}. {}", when(since), kind.when_seen),
            Now::Gone => format!("gone. {}", kind.when_seen),
            Now::Kept => "kept as it was read".to_owned(),
        }
    }
}

/// The table of sources with what `conversation` has of each.
///
/// # Errors
/// If its history does not fit together.
pub fn sources(
    services: &Services,
    conversation: &Conversation,
) -> Result<Vec<SourceState>, AgentError> {
    let fresh = fresh(services, conversation);
    let mut states: Vec<SourceState> = SOURCES
        .iter()
        .map(|kind| SourceState {
            id: kind.id,
            name: kind.name,
            owner: kind.owner,
            enters: kind.enters,
            reaches_model: kind.when_seen,
            entries: Vec::new(),
        })
        .collect();
    let mut add = |kind: &str, entry: SourceEntry| {
        if let Some(state) = states.iter_mut().find(|state| state.id == kind) {
            state.entries.push(entry);
        }
    };
    for entry in block_entries(conversation.snapshot(), &fresh) {
        let kind = source_kind(&entry.id).map_or("", |kind| kind.id);
        add(kind, entry);
    }
    for (kind, entry) in part_entries(services, conversation)? {
        add(kind, entry);
    }
    add("tools", tools_entry(conversation));
    Ok(states)
}

/// The prompt as a new session here would get it.
pub(super) fn fresh(services: &Services, conversation: &Conversation) -> Snapshot {
    let tools = ToolSet::new(conversation.live_definitions());
    conversation.fresh(services, &tools, &[]).snapshot
}

/// Every block of the prompt, and every source that would be in a new one only.
pub(super) fn block_entries(loaded: &Snapshot, fresh: &Snapshot) -> Vec<SourceEntry> {
    let differences = snapshot_differences(loaded, fresh);
    let entry = |block: &Block, loaded_at: Option<Timestamp>, now: Now| SourceEntry {
        id: block.id.clone(),
        source: block.source.to_string(),
        loaded_at,
        row: None,
        digest: Some(block.source_digest),
        verdict: verdict(&block.verdict),
        now,
    };
    let mut entries = Vec::new();
    for block in &loaded.blocks {
        let found = differences.iter().find(|d| d.id == block.id && d.source == block.source);
        let now = match found {
            None => Now::Same,
            Some(found) if found.is.is_none() => Now::Gone,
            Some(_) => Now::Differs { since: changed_at(&block.source) },
        };
        entries.push(entry(block, Some(block.loaded_at), now));
    }
    for block in &fresh.blocks {
        let known = loaded.blocks.iter().any(|b| b.id == block.id && b.source == block.source);
        if !known {
            entries.push(entry(block, None, Now::New { since: changed_at(&block.source) }));
        }
    }
    entries
}

/// Nested project files, loaded skills and references in the view.
pub(super) fn part_entries(
    services: &Services,
    conversation: &Conversation,
) -> Result<Vec<(&'static str, SourceEntry)>, AgentError> {
    let view = conversation.view()?;
    let mut entries = Vec::new();
    for row in view.rows.iter().map(|shown| &shown.row) {
        for part in &row.parts {
            let kind = match part.origin {
                Origin::Hint => "hint",
                Origin::Skill => "skill",
                Origin::Reference => "reference",
                _ => continue,
            };
            entries.push((kind, part_entry(services, conversation, row, part)));
        }
    }
    Ok(entries)
}

fn part_entry(
    services: &Services,
    conversation: &Conversation,
    row: &Row,
    part: &Part,
) -> SourceEntry {
    let label = part.label.as_deref().unwrap_or_default();
    let (source, now) = match part.origin {
        Origin::Hint => {
            let path = conversation.workspace().root().join(label);
            let now = hint_now(conversation, &path, part);
            (path.display().to_string(), now)
        }
        Origin::Skill => skill_now(services, conversation, label),
        _ => (label.to_owned(), Now::Kept),
    };
    SourceEntry {
        id: label.to_owned(),
        source,
        loaded_at: Some(part.created_at),
        row: Some(row.seq),
        digest: part.as_text().map(Digest::of),
        verdict: match super::context::caused_by(row, part) {
            Some(call) => format!("in row {}, by {call}", row.seq),
            None => format!("in row {}", row.seq),
        },
        now,
    }
}

/// A hint is compared as it would be given now.
fn hint_now(conversation: &Conversation, path: &Path, part: &Part) -> Now {
    let touched: [PathBuf; 1] = [path.to_owned()];
    let found = hints::discover(conversation.workspace(), &touched, &BTreeSet::default());
    match found.into_iter().find(|hint| hint.path == path) {
        Some(hint) if part.as_text() == Some(&hint.text) => Now::Same,
        Some(_) => Now::Differs { since: changed_at_path(path) },
        None => Now::Gone,
    }
}

fn skill_now(services: &Services, conversation: &Conversation, label: &str) -> (String, Now) {
    let (name, digest) = label.rsplit_once('@').unwrap_or((label, ""));
    let (name, file) = name.split_once('/').unwrap_or((name, "SKILL.md"));
    let roots =
        hermes_context::skills::roots(&services.home, &services.config, conversation.workspace());
    let cache = hermes_context::skills::cache_path(&services.home);
    let catalogue = hermes_context::skills::discover(&roots, Some(&cache));
    let Some(skill) = catalogue.skills.iter().find(|skill| skill.name == name) else {
        return (label.to_owned(), Now::Gone);
    };
    let path = skill.folder.join(file);
    let now = match source_text::read_inside(&path, &skill.folder) {
        Ok(source) if source.digest.short() == digest => Now::Same,
        Ok(_) => Now::Differs { since: changed_at_path(&path) },
        Err(_) => Now::Gone,
    };
    (path.display().to_string(), now)
}

fn tools_entry(conversation: &Conversation) -> SourceEntry {
    let live = ToolSet::new(conversation.live_definitions());
    let pinned = conversation.tools();
    SourceEntry {
        id: "tools".to_owned(),
        source: format!("{} tools", pinned.defs.len()),
        loaded_at: None,
        row: None,
        digest: Some(pinned.digest),
        verdict: "pinned".to_owned(),
        now: if live.digest == pinned.digest { Now::Same } else { Now::Differs { since: None } },
    }
}

/// When the file was last changed.
pub(super) fn changed_at(source: &Source) -> Option<Timestamp> {
    match source {
        Source::File { path } => changed_at_path(Path::new(path)),
        _ => None,
    }
}

pub(super) fn changed_at_path(path: &Path) -> Option<Timestamp> {
    let changed = std::fs::metadata(path).ok()?.modified().ok()?;
    let since = changed.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(i64::try_from(since.as_micros()).ok()?))
}

/// A verdict in words.
pub(super) fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Loaded => "loaded".to_owned(),
        Verdict::Truncated { kept, total } => format!("truncated: {kept} of {total} characters"),
        Verdict::Flagged { spans } => {
            let rules: Vec<&str> = spans.iter().map(|(_, _, rule)| rule.as_str()).collect();
            format!("loaded but for {} suspicious spans ({})", spans.len(), rules.join(", "))
        }
        Verdict::Shadowed { by } => format!("shadowed by {by}"),
        Verdict::Blocked { why } => format!("blocked: {why}"),
        Verdict::Empty => "empty".to_owned(),
    }
}
