//! What a request was made of, part by part, measured on the bytes that were sent; and what the
//! next one would be made of.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hermes_context::estimate_tokens;
use hermes_core::{Assembled, Block, NullSink, Part, Provenance, Row, Seq, Usage, fold_view};
use hermes_provider::{Encoded, encode};
use hermes_store::{RequestFilter, SessionInfo};
use serde::Serialize;

use super::{InspectError, Inspector, words};
use crate::conversation::Conversation;
use crate::{AgentError, Services, UserInput};

/// A request of a session, by part, with the separate figures that say what was sent.
#[derive(Clone, Debug, Serialize)]
pub struct ContextReport {
    /// The session.
    pub session: String,
    /// The working directory.
    pub cwd: Option<String>,
    /// The root of the git work tree it is in.
    pub git_root: Option<String>,
    /// The project files in the prompt.
    pub project_files: Vec<String>,
    /// The request described; None if it was not sent.
    pub request: Option<String>,
    /// Whether the measured bytes have the digest of the sent ones; None if nothing was sent.
    pub verified: Option<bool>,
    /// Digest of the prompt text.
    pub prompt_digest: String,
    /// Digest of the selected history as encoded.
    pub history_digest: String,
    /// Provider that was asked.
    pub provider: String,
    /// Model that was asked.
    pub model: String,
    /// Tokens read from the provider's cache, as it reported them.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache, as it reported them.
    pub cache_write_tokens: Option<u64>,
    /// Compactions of the session when it was sent.
    pub compactions: u32,
    /// Size of the body in bytes.
    pub body_bytes: u64,
    /// Estimated tokens of all parts.
    pub estimated_tokens: u64,
    /// The provider's own figures; unknown ones are null.
    pub usage: Usage,
    /// The model's window in tokens, where known.
    pub context_window: Option<u64>,
    /// The skills in the request: their lines of the index, their loaded texts.
    pub skills: Vec<SkillShare>,
    /// The parts, in the order they were sent.
    pub parts: Vec<ContextPart>,
    /// Sources of the prompt that were considered, those left out included.
    pub blocks: Vec<Block>,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A block of the prompt.
    Prompt,
    /// A tool definition.
    Tool,
    /// A part of a stored row.
    Row,
    /// Put in by the renderer.
    Filler,
}

/// One part of a request as it was sent.
#[derive(Clone, Debug, Serialize)]
pub struct ContextPart {
    /// What it is.
    pub kind: PartKind,
    /// Its name: block id, tool name, origin of the row part.
    pub name: Cow<'static, str>,
    /// The source inside its kind: path, skill, plugin, row.
    pub source: String,
    /// The row it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<Seq>,
    /// The tool call that brought it up, for a nested project file or a loaded skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caused_by: Option<String>,
    /// Bytes in the body, JSON escaping included.
    pub bytes: usize,
    /// Estimated tokens.
    pub tokens: u64,
}

/// What one skill takes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SkillShare {
    /// Its name.
    pub name: String,
    /// Bytes of its line in the index, before JSON escaping.
    pub index_bytes: usize,
    /// Estimated tokens of that line.
    pub index_tokens: u64,
    /// Its loaded texts: row, label with the digest, bytes, estimated tokens.
    pub loaded: Vec<(Seq, String, usize, u64)>,
}

/// Describes the last main request of a session.
///
/// # Errors
/// If none was sent, or it cannot be rebuilt.
pub fn context(
    inspector: &mut Inspector<'_>,
    info: &SessionInfo,
    context_window: Option<u64>,
) -> Result<ContextReport, InspectError> {
    let filter = RequestFilter {
        session: Some(info.id.clone()),
        main_only: true,
        newest_first: true,
        limit: Some(1),
        ..RequestFilter::default()
    };
    let requests = inspector.store().requests(&filter)?;
    let request = requests.first().ok_or_else(|| InspectError::NoRequest(info.id.clone()))?;
    let rebuilt = inspector.rebuild(request)?;
    let history = inspector.history(&info.id)?;
    let attempt = &request.attempt;
    let usage = request.end.as_ref().map(|end| end.usage).unwrap_or_default();
    let mut report = measured(&rebuilt.assembled, &rebuilt.encoded, &history.rows);
    report.session = info.id.to_string();
    report.cwd.clone_from(&info.cwd);
    report.git_root.clone_from(&info.git_root);
    report.request = Some(attempt.id.to_string());
    report.verified = Some(rebuilt.encoded.digest == attempt.body);
    report.prompt_digest = attempt.prompt.to_string();
    report.history_digest = attempt.history.to_string();
    report.provider = attempt.provider.to_string();
    report.model = attempt.model.to_string();
    report.cache_read_tokens = usage.cache_read;
    report.cache_write_tokens = usage.cache_write;
    report.compactions = attempt.compactions;
    report.body_bytes = attempt.body_bytes;
    report.usage = usage;
    report.context_window = context_window;
    Ok(report)
}

/// Describes what the next request of `conversation` would hold if `text` were said. Nothing is
/// sent or stored.
///
/// # Errors
/// If the history does not fit together, or what would be said cannot be loaded.
pub fn next(
    services: &Services,
    conversation: &Conversation,
    text: &str,
) -> Result<ContextReport, AgentError> {
    let mut last = conversation.last_seq();
    let mut said = conversation.compose(services, UserInput::text(text), &NullSink, &mut last)?;
    let waiting = conversation.waiting_capsule(services);
    conversation.add_capsule(&mut said.row, waiting.as_ref(), &mut last)?;
    let mut rows: Vec<Row> = conversation.rows().to_vec();
    for part in said.labels {
        if let Some(row) = rows.iter_mut().find(|row| row.seq == part.row) {
            row.parts.push(part);
            row.sort_parts();
        }
    }
    rows.push(said.row);
    let view = fold_view(&rows, &conversation.generations, conversation.head(), last)
        .map_err(|source| AgentError::View { session: conversation.id().clone(), source })?;
    let endpoints = conversation.endpoints(services);
    let Some(endpoint) = endpoints.first() else {
        return Err(AgentError::Missing {
            session: conversation.id().clone(),
            what: "an endpoint".to_owned(),
        });
    };
    let assembled = conversation
        .assembled(services, &view, &endpoint.profile)
        .map_err(|source| AgentError::Assemble { session: conversation.id().clone(), source })?;
    let encoded = encode(&assembled, &endpoint.profile, &endpoint.model, &endpoint.params);
    let workspace = conversation.workspace();
    let mut report = measured(&assembled, &encoded, &rows);
    report.session = conversation.id().to_string();
    report.cwd = Some(workspace.cwd.display().to_string());
    report.git_root = workspace.git_root.as_ref().map(|root| root.display().to_string());
    report.prompt_digest = assembled.snapshot.digest.to_string();
    report.history_digest = encoded.history.to_string();
    report.provider = endpoint.provider.to_string();
    report.model = endpoint.model.to_string();
    report.compactions = conversation.compactions;
    // What is not said yet has no number.
    for part in &mut report.parts {
        part.row = part.row.filter(|row| *row <= conversation.last_seq());
    }
    report.body_bytes = encoded.body.len() as u64;
    report.context_window = services.context_window;
    Ok(report)
}

/// The parts of a request with their sizes; what the ledger knows is left open.
fn measured(assembled: &Assembled, encoded: &Encoded, rows: &[Row]) -> ContextReport {
    let blocks = &assembled.snapshot.blocks;
    let mut skills = indexed_skills(&assembled.snapshot.text, blocks);
    let mut parts = Vec::with_capacity(encoded.ranges.len());
    let mut estimated_tokens = 0;
    for (from, range) in &encoded.ranges {
        let text = encoded.body.get(range.start..range.end).unwrap_or_default();
        let bytes = range.len();
        // The body is text and parts end where characters do.
        let tokens = estimate_tokens(std::str::from_utf8(text).unwrap_or_default());
        estimated_tokens += tokens;
        let mut part = ContextPart {
            kind: PartKind::Prompt,
            name: Cow::Borrowed("prompt"),
            source: String::new(),
            row: None,
            caused_by: None,
            bytes,
            tokens,
        };
        match from {
            Provenance::Block(at) => {
                if let Some(block) = blocks.get(*at) {
                    part.name = Cow::Owned(block.id.clone());
                    part.source = block.source.to_string();
                }
            }
            Provenance::Tool(at) => {
                part.kind = PartKind::Tool;
                let def = assembled.tools.defs.get(*at);
                part.name = def.map(|def| Cow::Owned(def.name.to_string())).unwrap_or_default();
                "built-in".clone_into(&mut part.source);
            }
            Provenance::Part { row, part: seq } => {
                part.kind = PartKind::Row;
                part.row = Some(*row);
                if let Some((row, stored)) = stored_part(rows, *row, *seq) {
                    part.name = Cow::Borrowed(words::origin(stored.origin));
                    stored.label.as_deref().unwrap_or_default().clone_into(&mut part.source);
                    part.caused_by = caused_by(row, stored);
                    if let Some(name) = words::skill_name(stored) {
                        let share = skills.entry(name.to_owned()).or_default();
                        share.loaded.push((row.seq, part.source.clone(), bytes, tokens));
                    }
                }
            }
            Provenance::Filler(rule) => {
                part.kind = PartKind::Filler;
                part.name = Cow::Borrowed(rule);
            }
        }
        parts.push(part);
    }
    let is_project = |block: &&Block| block.id.starts_with("project:") && block.verdict.is_in();
    let skills = skills.into_iter().map(|(name, share)| SkillShare { name, ..share }).collect();
    ContextReport {
        session: String::new(),
        cwd: None,
        git_root: None,
        project_files: blocks.iter().filter(is_project).map(|b| b.source.to_string()).collect(),
        request: None,
        verified: None,
        prompt_digest: String::new(),
        history_digest: String::new(),
        provider: String::new(),
        model: String::new(),
        cache_read_tokens: None,
        cache_write_tokens: None,
        compactions: 0,
        body_bytes: 0,
        estimated_tokens,
        usage: Usage::default(),
        context_window: None,
        skills,
        parts,
        blocks: blocks.clone(),
    }
}

/// The tool call that brought a part up, if it is one that calls bring up.
pub(super) fn caused_by(row: &Row, part: &Part) -> Option<String> {
    use hermes_core::Origin::{Hint, Skill};
    let call = row.tool.as_ref()?;
    matches!(part.origin, Hint | Skill).then(|| format!("{} {}", call.name, call.call_id))
}

/// The lines of the skills index, by skill. The index is this program's own text: `- NAME: ..`.
fn indexed_skills(prompt: &str, blocks: &[Block]) -> BTreeMap<String, SkillShare> {
    let mut skills = BTreeMap::new();
    let index = blocks.iter().filter(|block| block.id == "skills");
    for block in index {
        let text = prompt.get(block.range.start..block.range.end).unwrap_or_default();
        for line in text.lines() {
            let Some((name, _)) = line.strip_prefix("- ").and_then(|rest| rest.split_once(": "))
            else {
                continue;
            };
            let share = SkillShare {
                name: name.to_owned(),
                index_bytes: line.len(),
                index_tokens: estimate_tokens(line),
                loaded: Vec::new(),
            };
            skills.insert(name.to_owned(), share);
        }
    }
    skills
}

/// A part of the history with its row; rows stand in the order of their seqs.
fn stored_part(rows: &[Row], row: Seq, part: Seq) -> Option<(&Row, &Part)> {
    let at = rows.binary_search_by_key(&row, |row| row.seq).ok()?;
    let row = rows.get(at)?;
    Some((row, row.parts.iter().find(|stored| stored.seq == part)?))
}
