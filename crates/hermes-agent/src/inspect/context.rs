//! What a request was made of, part by part, measured on the bytes that were sent.

use std::collections::BTreeMap;

use hermes_context::estimate_tokens;
use hermes_core::{Block, Origin, Part, Provenance, Seq, Usage};
use hermes_store::{History, RequestFilter, RequestRecord, SessionInfo};
use serde::Serialize;

use super::{InspectError, Inspector};

/// The last request of a session, by part, with the separate figures that say what was sent.
#[derive(Clone, Debug, Serialize)]
pub struct ContextReport {
    /// The session.
    pub session: String,
    /// The working directory.
    pub cwd: Option<String>,
    /// The root of the git work tree it is in.
    pub git_root: Option<String>,
    /// The request described.
    pub request: String,
    /// Digest of the prompt text.
    pub prompt_digest: String,
    /// Digest of the selected history as encoded.
    pub history_digest: String,
    /// Provider that was asked.
    pub provider: String,
    /// Model that was asked.
    pub model: String,
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
    pub name: String,
    /// The source inside its kind: path, skill, plugin, row.
    pub source: String,
    /// The row it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<Seq>,
    /// Bytes in the body, JSON escaping included.
    pub bytes: usize,
    /// Estimated tokens.
    pub tokens: u64,
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
    let history = inspector.store().history(&info.id)?;
    let index = PartIndex::new(&history);
    let mut parts = Vec::with_capacity(rebuilt.encoded.ranges.len());
    for (from, range) in &rebuilt.encoded.ranges {
        let text = rebuilt.encoded.body.get(range.start..range.end).unwrap_or_default();
        let (kind, name, source, row) = match from {
            Provenance::Block(at) => match rebuilt.assembled.snapshot.blocks.get(*at) {
                Some(block) => (PartKind::Prompt, block.id.clone(), block.source.to_string(), None),
                None => (PartKind::Prompt, "prompt".to_owned(), String::new(), None),
            },
            Provenance::Tool(at) => {
                let name = rebuilt.assembled.tools.defs.get(*at).map(|def| def.name.to_string());
                (PartKind::Tool, name.unwrap_or_default(), "built-in".to_owned(), None)
            }
            Provenance::Part { row, part } => {
                let (name, label) = index.name(*part);
                (PartKind::Row, name, label, Some(*row))
            }
            Provenance::Filler(rule) => (PartKind::Filler, (*rule).to_owned(), String::new(), None),
        };
        parts.push(ContextPart {
            kind,
            name,
            source,
            row,
            bytes: range.len(),
            tokens: estimate_tokens(&String::from_utf8_lossy(text)),
        });
    }
    Ok(report(info, request, &rebuilt.assembled.snapshot.blocks, parts, context_window))
}

fn report(
    info: &SessionInfo,
    request: &RequestRecord,
    blocks: &[Block],
    parts: Vec<ContextPart>,
    context_window: Option<u64>,
) -> ContextReport {
    let attempt = &request.attempt;
    ContextReport {
        session: info.id.to_string(),
        cwd: info.cwd.clone(),
        git_root: info.git_root.clone(),
        request: attempt.id.to_string(),
        prompt_digest: attempt.prompt.to_string(),
        history_digest: attempt.history.to_string(),
        provider: attempt.provider.to_string(),
        model: attempt.model.to_string(),
        compactions: attempt.compactions,
        body_bytes: attempt.body_bytes,
        estimated_tokens: parts.iter().map(|part| part.tokens).sum(),
        usage: request.end.as_ref().map(|end| end.usage).unwrap_or_default(),
        context_window,
        parts,
        blocks: blocks.to_vec(),
    }
}

/// Parts of the history by seq.
struct PartIndex<'a>(BTreeMap<Seq, &'a Part>);

impl<'a> PartIndex<'a> {
    fn new(history: &'a History) -> Self {
        Self(history.rows.iter().flat_map(|row| &row.parts).map(|part| (part.seq, part)).collect())
    }

    /// Origin and label of a part.
    fn name(&self, part: Seq) -> (String, String) {
        let Some(part) = self.0.get(&part) else { return (String::new(), String::new()) };
        let label = part.label.as_deref().unwrap_or_default().to_owned();
        (origin_word(part.origin).to_owned(), label)
    }
}

/// The word for an origin in reports.
const fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::User => "user",
        Origin::Model => "model",
        Origin::Tool => "tool",
        Origin::Hint => "hint",
        Origin::Skill => "skill",
        Origin::Hook => "hook",
        Origin::Memory => "memory",
        Origin::Capsule => "capsule",
        Origin::Summary => "summary",
        Origin::Notice => "notice",
        Origin::Steer => "steer",
        Origin::Reference => "reference",
    }
}
