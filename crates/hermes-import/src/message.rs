//! One message of a foreign transcript, and how a list of them becomes rows, parts and a
//! generation.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use hermes_core::{
    Cause, Digest, Generation, GenerationNo, Op, Origin, Part, PartBody, REASONING_CONTENT, Role,
    Row, RowStatus, Seq, Standing, Timestamp, ToolLink, TurnNo, slot,
};
use hermes_store::{Batch, Record};
use serde_json::Value;

use crate::report::ImportReport;

/// Marks a content column that is JSON.
const STRUCTURED: &str = "\0json:";

/// A piece of content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Image { media_type: String, bytes: Vec<u8> },
}

/// A tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// A message in any of the forms that are read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) origin: Origin,
    pub(crate) at: Timestamp,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) reasoning: Vec<(String, String)>,
    pub(crate) raw: Vec<(String, String)>,
    pub(crate) calls: Vec<Call>,
    pub(crate) tool: Option<(String, String)>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) status: RowStatus,
    pub(crate) summary: bool,
    pub(crate) active: bool,
    pub(crate) compacted: bool,
}

impl Message {
    pub(crate) fn new(role: Role, at: Timestamp) -> Self {
        Self {
            role,
            origin: match role {
                Role::Assistant => Origin::Model,
                Role::Tool => Origin::Tool,
                Role::User | Role::System => Origin::User,
            },
            at,
            pieces: Vec::new(),
            reasoning: Vec::new(),
            raw: Vec::new(),
            calls: Vec::new(),
            tool: None,
            finish_reason: None,
            status: RowStatus::Complete,
            summary: false,
            active: true,
            compacted: false,
        }
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.pieces.push(Piece::Text(text));
        }
    }

    /// Nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
            && self.calls.is_empty()
            && self.reasoning.is_empty()
            && self.raw.is_empty()
    }
}

/// The content column of a Hermes message, or its decoded form.
pub(crate) fn content(value: &Value, message: &mut Message, report: &mut ImportReport) {
    match value {
        Value::String(text) => match text.strip_prefix(STRUCTURED) {
            Some(json) => match serde_json::from_str::<Value>(json) {
                Ok(Value::String(text)) => message.text(text),
                Ok(value) => content(&value, message, report),
                Err(_) => message.text(text.replace('\0', "")),
            },
            None => message.text(text.clone()),
        },
        Value::Array(pieces) => pieces.iter().for_each(|one| piece(one, message, report)),
        Value::Null => {}
        other => message.text(other.to_string()),
    }
}

fn piece(value: &Value, message: &mut Message, report: &mut ImportReport) {
    if let Some(text) = value.get("text").and_then(Value::as_str) {
        message.text(text);
        return;
    }
    let url = value
        .pointer("/image_url/url")
        .or_else(|| value.get("image_url"))
        .or_else(|| value.get("url"))
        .and_then(Value::as_str);
    if let Some((media_type, bytes)) = url.and_then(data_url) {
        message.pieces.push(Piece::Image { media_type, bytes });
    } else if let Some(url) = url {
        message.text(format!("[image: {}]", url.chars().take(200).collect::<String>()));
    } else {
        report.leave_out("piece of content of an unknown kind");
    }
}

/// The bytes of a `data:` address.
fn data_url(url: &str) -> Option<(String, Vec<u8>)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    Some((media_type.to_owned(), decode(data)?))
}

pub(crate) fn decode(data: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(data.trim()).ok()
}

/// The `tool_calls` of a Hermes message.
pub(crate) fn calls(value: &Value, report: &mut ImportReport) -> Vec<Call> {
    let parsed;
    let list = match value {
        Value::String(text) => {
            parsed = serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
            &parsed
        }
        other => other,
    };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let mut found = Vec::new();
    for call in list.as_array().into_iter().flatten() {
        let name = text(call.pointer("/function/name")).or_else(|| text(call.get("name")));
        let id = text(call.get("id")).or_else(|| text(call.get("call_id")));
        let arguments = call.pointer("/function/arguments").or_else(|| call.get("arguments"));
        match (name, id) {
            (Some(name), Some(id)) => {
                found.push(Call { id, name, arguments: arguments_of(arguments) });
            }
            _ => report.leave_out("tool call without a name or id"),
        }
    }
    found
}

/// Arguments as valid JSON text.
pub(crate) fn arguments_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) if serde_json::from_str::<Value>(text).is_ok() => text.clone(),
        Some(Value::String(text)) => serde_json::json!({ "input": text }).to_string(),
        Some(Value::Null) | None => "{}".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// Rows and the generation that shows them as they stood.
pub(crate) struct Built {
    pub(crate) records: Batch,
    pub(crate) compactions: u32,
}

/// Makes rows of messages. The first generation is as the session began; compactions and rewinds
/// of the source are one more.
pub(crate) fn build(
    messages: Vec<Message>,
    prompt: &str,
    tools: &str,
    started: Timestamp,
) -> Built {
    let mut records: Batch =
        vec![Record::Text { text: prompt.into() }, Record::Text { text: tools.into() }];
    let mut blobs: BTreeSet<Digest> = BTreeSet::new();
    let (mut seq, mut turn) = (Seq(0), TurnNo(0));
    let mut states: Vec<(Seq, bool, bool, bool)> = Vec::new();
    let has_compacted = messages.iter().any(|message| message.compacted);
    for message in messages {
        if message.role == Role::User && !message.summary {
            turn = turn.next();
        }
        seq = seq.next();
        // A summary stands where what it covers began, if that is here; else it is a row.
        let by_op = message.summary && has_compacted && message.active;
        states.push((seq, message.active, message.compacted, by_op));
        let (row, last) = row(message, seq, turn, by_op, &mut records, &mut blobs);
        records.push(Record::Row(row));
        seq = last;
    }
    let generation = |n: u32, cause: Cause, ops: Vec<Op>| {
        Record::Generation(Generation {
            n: GenerationNo(n),
            parent: n.checked_sub(1).map(GenerationNo),
            cause,
            created_at: started,
            prompt: Digest::of(prompt),
            tools: Digest::of(tools),
            ops,
        })
    };
    records.push(generation(0, Cause::Start, Vec::new()));
    let (ops, compactions, extra) = operations(&states, &mut seq, started);
    records.extend(extra.into_iter().map(Record::Row));
    if !ops.is_empty() {
        let cause = if compactions > 0 { Cause::Compaction } else { Cause::Rewind };
        records.push(generation(1, cause, ops));
    }
    Built { records, compactions }
}

/// Hides what was rewound, covers what was compacted.
fn operations(
    states: &[(Seq, bool, bool, bool)],
    last: &mut Seq,
    at: Timestamp,
) -> (Vec<Op>, u32, Vec<Row>) {
    let mut ops = Vec::new();
    let mut extra = Vec::new();
    for (seq, active, compacted, by_op) in states {
        if !active && !compacted && !by_op {
            ops.push(Op::Hide { from: *seq, to: *seq });
        }
    }
    // Runs of compacted rows; what was hidden does not end one.
    let mut runs: Vec<(Seq, Seq)> = Vec::new();
    let mut open: Option<(Seq, Seq)> = None;
    for (seq, active, compacted, by_op) in states {
        if *compacted {
            open = Some(open.map_or((*seq, *seq), |(from, _)| (from, *seq)));
        } else if *active && !by_op {
            runs.extend(open.take());
        }
    }
    runs.extend(open);
    let mut summaries: Vec<Seq> =
        states.iter().filter(|(.., by_op)| *by_op).map(|(seq, ..)| *seq).collect();
    let count = runs.len() as u32;
    for (from, to) in runs {
        let next = summaries.iter().position(|seq| *seq > to).map(|at| summaries.remove(at));
        let by = next.unwrap_or_else(|| {
            *last = last.next();
            extra.push(stub(*last, at));
            *last
        });
        ops.push(Op::Cover { from, to, by });
    }
    // A summary that covers nothing stays in view in its own place.
    for seq in summaries {
        ops.push(Op::Cover { from: seq, to: seq, by: seq });
    }
    (ops, count, extra)
}

/// Stands for a range whose summary the source no longer has.
fn stub(seq: Seq, at: Timestamp) -> Row {
    let text = "[earlier messages, which the source had compacted without keeping a summary]";
    Row {
        seq,
        turn: TurnNo(0),
        role: Role::User,
        standing: Standing::ByOp,
        status: RowStatus::Complete,
        created_at: at,
        tool: None,
        finish_reason: None,
        parts: vec![part(seq, seq, slot::BODY, Origin::Summary, at, PartBody::text(text))],
    }
}

fn part(seq: Seq, row: Seq, slot: u16, origin: Origin, at: Timestamp, body: PartBody) -> Part {
    Part { seq, row, slot, origin, standing: Standing::InOrder, created_at: at, label: None, body }
}

fn row(
    message: Message,
    seq: Seq,
    turn: TurnNo,
    by_op: bool,
    records: &mut Batch,
    blobs: &mut BTreeSet<Digest>,
) -> (Row, Seq) {
    let at = message.at;
    let origin = if message.summary { Origin::Summary } else { message.origin };
    let mut bodies: Vec<(u16, Origin, PartBody)> = Vec::new();
    for (field, text) in message.reasoning {
        let field = if field.is_empty() { REASONING_CONTENT.to_owned() } else { field };
        let body = PartBody::Reasoning { field: field.into(), text: text.into() };
        bodies.push((slot::REASONING, Origin::Model, body));
    }
    for (field, json) in message.raw {
        let body = PartBody::Raw { field: field.into(), json: json.into() };
        bodies.push((slot::REASONING, Origin::Model, body));
    }
    for piece in message.pieces {
        match piece {
            Piece::Text(text) => bodies.push((slot::BODY, origin, PartBody::text(text))),
            Piece::Image { media_type, bytes } => {
                let digest = Digest::of(&bytes);
                let media_type: Arc<str> = media_type.into();
                let size = bytes.len() as u64;
                if blobs.insert(digest) {
                    let bytes = Arc::from(bytes);
                    records.push(Record::Blob { media_type: media_type.clone(), bytes });
                }
                let body = PartBody::Blob { digest, media_type, bytes: size };
                bodies.push((slot::ATTACHMENT, origin, body));
            }
        }
    }
    for call in message.calls {
        let body = PartBody::ToolCall {
            id: call.id.into(),
            name: call.name.into(),
            arguments: call.arguments.into(),
        };
        bodies.push((slot::CALLS, Origin::Model, body));
    }
    bodies.sort_by_key(|(slot, ..)| *slot);
    let mut last = seq;
    let mut parts = Vec::with_capacity(bodies.len());
    for (n, (slot, origin, body)) in bodies.into_iter().enumerate() {
        if n > 0 {
            last = last.next();
        }
        parts.push(part(last, seq, slot, origin, at, body));
    }
    let row = Row {
        seq,
        turn,
        role: message.role,
        standing: if by_op { Standing::ByOp } else { Standing::InOrder },
        status: message.status,
        created_at: at,
        tool: message
            .tool
            .map(|(call_id, name)| ToolLink { call_id: call_id.into(), name: name.into() }),
        finish_reason: message.finish_reason.map(Into::into),
        parts,
    };
    (row, last)
}
