//! Why something is in the context of a session, or is not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hermes_context::{hints, source_kind};
use hermes_core::{Origin, Timestamp};
use serde::Serialize;

use super::sources::{self, Now, SourceEntry};
use crate::conversation::Conversation;
use crate::{AgentError, Services};

/// The answers to one question.
#[derive(Clone, Debug, Serialize)]
pub struct WhyReport {
    /// The path or name asked for.
    pub asked: String,
    /// The session.
    pub session: String,
    /// One answer for each source that the question means. Never empty.
    pub answers: Vec<WhyAnswer>,
}

/// The state of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhyAnswer {
    /// The source.
    pub source: String,
    /// Its state.
    pub state: WhyState,
    /// The state in a sentence, with what moves it.
    pub sentence: String,
    /// When it was loaded.
    pub loaded_at: Option<Timestamp>,
    /// How the source is now.
    pub now: Option<Now>,
}

/// Whether a source is in the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyState {
    /// In the prompt.
    Loaded,
    /// In the prompt, cut.
    Truncated,
    /// In the prompt but for spans that were taken out.
    Flagged,
    /// Another source won.
    Shadowed,
    /// Left out for a reason.
    Blocked,
    /// There, without content.
    Empty,
    /// In the history.
    InHistory,
    /// Named in the index, its text not loaded.
    Indexed,
    /// Found when something touches it.
    Waiting,
    /// It came after the prompt was built.
    Later,
    /// It is no source of context.
    NeverConsidered,
}

/// Says why `asked` (a path, or the name of a source, skill or project file) is in the context of
/// `conversation` or is not.
///
/// # Errors
/// If its history does not fit together.
pub fn why(
    services: &Services,
    conversation: &Conversation,
    asked: &str,
) -> Result<WhyReport, AgentError> {
    let fresh = sources::fresh(services, conversation);
    let mut answers: Vec<WhyAnswer> = sources::block_entries(conversation.snapshot(), &fresh)
        .into_iter()
        .filter(|entry| means(conversation, entry, asked))
        .map(|entry| of_block(&entry, conversation))
        .collect();
    let (name, _) = asked.split_once('@').unwrap_or((asked, ""));
    for (kind, entry) in sources::part_entries(services, conversation)? {
        let is_skill = kind == "skill" && entry.id.split(['@', '/']).next() == Some(name);
        if is_skill || means(conversation, &entry, asked) {
            answers.push(of_part(kind, entry));
        }
    }
    let loaded = answers.iter().any(|answer| answer.state == WhyState::InHistory);
    answers.extend(indexed_skill(conversation, name, loaded));
    answers.extend(pinned_tool(conversation, asked));
    if answers.is_empty() {
        answers.push(outside(conversation, asked));
    }
    Ok(WhyReport { asked: asked.to_owned(), session: conversation.id().to_string(), answers })
}

/// Whether `asked` means the source of this entry: its id, its label, its path, or, without a
/// slash, its file's name.
fn means(conversation: &Conversation, entry: &SourceEntry, asked: &str) -> bool {
    let label = entry.id.split_once(':').map_or(entry.id.as_str(), |(_, label)| label);
    let kind = entry.id.split(':').next().unwrap_or_default();
    let path = conversation.workspace().cwd.join(asked);
    let has_name = || {
        !asked.contains(['/', '\\'])
            && asked.contains('.')
            && Path::new(&entry.source).file_name().is_some_and(|name| name == asked)
    };
    entry.id == asked
        || kind == asked
        || label == asked
        || Path::new(&entry.source) == path
        || has_name()
}

fn of_block(entry: &SourceEntry, conversation: &Conversation) -> WhyAnswer {
    let block = conversation.blocks().iter().find(|b| b.id == entry.id);
    let verdict = block.filter(|block| block.source.to_string() == entry.source);
    let state = match verdict.map(|block| &block.verdict) {
        None => WhyState::Later,
        Some(hermes_core::Verdict::Loaded) => WhyState::Loaded,
        Some(hermes_core::Verdict::Truncated { .. }) => WhyState::Truncated,
        Some(hermes_core::Verdict::Flagged { .. }) => WhyState::Flagged,
        Some(hermes_core::Verdict::Shadowed { .. }) => WhyState::Shadowed,
        Some(hermes_core::Verdict::Blocked { .. }) => WhyState::Blocked,
        Some(hermes_core::Verdict::Empty) => WhyState::Empty,
    };
    let now = source_kind(&entry.id).map_or_else(String::new, |kind| entry.sentence(kind));
    let head = match entry.loaded_at {
        Some(at) => format!("{} ({}), read {at}", entry.id, entry.verdict),
        None => format!("{} is not in this session's prompt ({} now)", entry.id, entry.verdict),
    };
    WhyAnswer {
        source: entry.source.clone(),
        state,
        sentence: format!("{head}; {now}"),
        loaded_at: entry.loaded_at,
        now: Some(entry.now.clone()),
    }
}

fn of_part(kind: &str, entry: SourceEntry) -> WhyAnswer {
    let now = source_kind(kind).map_or_else(String::new, |kind| entry.sentence(kind));
    WhyAnswer {
        sentence: format!("{} is {}; {now}", entry.id, entry.verdict),
        source: entry.source,
        state: WhyState::InHistory,
        loaded_at: entry.loaded_at,
        now: Some(entry.now),
    }
}

/// A skill of which the prompt names name and description.
fn indexed_skill(conversation: &Conversation, name: &str, loaded: bool) -> Option<WhyAnswer> {
    let block = conversation.blocks().iter().find(|block| block.id == "skills")?;
    let snapshot = conversation.snapshot();
    let text = snapshot.text.get(block.range.start..block.range.end)?;
    let line = format!("- {name}: ");
    let body = if loaded {
        "its text is in the history".to_owned()
    } else {
        format!("its text is not in the context: skill_view or /{name} loads it")
    };
    text.lines().any(|shown| shown.starts_with(&line)).then(|| WhyAnswer {
        source: format!("skill {name}"),
        state: WhyState::Indexed,
        sentence: format!(
            "skill {name} is in the prompt's index with name and description, read {}; {body}",
            block.loaded_at
        ),
        loaded_at: Some(block.loaded_at),
        now: None,
    })
}

/// A tool that is offered to the model.
fn pinned_tool(conversation: &Conversation, name: &str) -> Option<WhyAnswer> {
    let pinned = conversation.tools().defs.iter().any(|def| &*def.name == name);
    let live = conversation.live_definitions().iter().any(|def| &*def.name == name);
    let kind = source_kind("tools")?;
    let (state, sentence) = match (pinned, live) {
        (false, false) => return None,
        (true, true) => (WhyState::Loaded, "is in the session's pinned list".to_owned()),
        (true, false) => (
            WhyState::Loaded,
            format!("is in the pinned list and cannot be called any more. {}", kind.when_seen),
        ),
        (false, true) => (WhyState::Later, format!("came after the start. {}", kind.when_seen)),
    };
    Some(WhyAnswer {
        source: format!("tool {name}"),
        state,
        sentence: format!("the tool {name} {sentence}"),
        loaded_at: None,
        now: None,
    })
}

/// Something that neither prompt nor history has.
fn outside(conversation: &Conversation, asked: &str) -> WhyAnswer {
    let workspace = conversation.workspace();
    let path: PathBuf = workspace.cwd.join(asked);
    let answer = |state, sentence: String| WhyAnswer {
        source: path.display().to_string(),
        state,
        sentence,
        loaded_at: None,
        now: None,
    };
    let found = hints::discover(workspace, std::slice::from_ref(&path), &BTreeSet::default());
    if let Some(hint) = found.iter().find(|hint| hint.path == path) {
        let folder = path.parent().unwrap_or(&path).display();
        let was_in = conversation.rows().iter().flat_map(|row| &row.parts).any(|part| {
            part.origin == Origin::Hint && part.label.as_deref() == Some(hint.label.as_str())
        });
        let before = if was_in {
            "it was in the history and is no longer shown"
        } else {
            "no tool has touched its folder yet"
        };
        let text = format!(
            "{} is a nested project file; {before}; the model sees it when a tool touches a path \
             in {folder}",
            hint.label
        );
        return answer(WhyState::Waiting, text);
    }
    let sentence = if path.exists() {
        format!(
            "{} is no source of context: not SOUL.md, memory, a project file, a skill or \
             configuration; the model sees it when it reads it or the person refers to it with \
             @file:",
            path.display()
        )
    } else {
        format!(
            "there is no source, skill or file \"{asked}\"; hint: `hermes context sources` lists \
             what there is"
        )
    };
    answer(WhyState::NeverConsidered, sentence)
}
