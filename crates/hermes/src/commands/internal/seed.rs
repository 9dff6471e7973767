//! Sessions for benchmarks, in the shape of a working conversation: a question, a tool call, its
//! result, an answer. Every session has the word `needle-N` in one of its messages.

use std::sync::Arc;

use hermes_context::{AssembleInput, NoBlobs, RENDERER, assemble};
use hermes_core::{
    Attempt, AttemptEnd, AttemptOutcome, Block, ByteRange, Cause, Digest, Generation, GenerationNo,
    Origin, Params, Part, PartBody, Refresh, RequestId, Role, Row, RowStatus, Seq, SessionId,
    Snapshot, Source, Standing, Task, Tier, Timestamp, Tokens, ToolLink, ToolSet, TurnNo, Usage,
    Verdict, WireProfile, fold_view, slot,
};
use hermes_provider::encode;
use hermes_store::{OpenMode, Record, SessionInit, Store};

use crate::app::App;
use crate::out;

/// Records of one transaction.
const BATCH: usize = 4000;

/// The model's name in seeded sessions.
const MODEL: &str = "seed";

/// Stores `sessions` sessions and prints their ids.
///
/// # Errors
/// If the store refuses.
pub fn run(app: &App, messages: usize, requests: usize, sessions: usize) -> anyhow::Result<()> {
    let store = app.store(OpenMode::ReadWrite)?;
    for number in 0..sessions {
        let id = seed(app, &store, messages, requests, number)?;
        out::line(id.as_str())?;
    }
    store.close();
    Ok(())
}

fn seed(
    app: &App,
    store: &Store,
    messages: usize,
    requests: usize,
    number: usize,
) -> anyhow::Result<SessionId> {
    let id = SessionId::generate(&*app.env);
    let now = app.env.now();
    let snapshot = prompt(number, now);
    let tools = ToolSet::new(Vec::new());
    let generation = Generation {
        n: GenerationNo(0),
        parent: None,
        cause: Cause::Start,
        created_at: now,
        prompt: snapshot.digest,
        tools: tools.digest,
        ops: Vec::new(),
    };
    let first = vec![
        Record::Text { text: snapshot.text.clone() },
        Record::Text { text: tools.json().into() },
        Record::Generation(generation.clone()),
        Record::Manifest { generation: generation.n, blocks: snapshot.blocks.clone() },
        Record::Profile(WireProfile::default()),
    ];
    let init = SessionInit {
        id: id.clone(),
        source: "cli".to_owned(),
        lane: None,
        cwd: None,
        git_root: None,
        git_branch: None,
        model: MODEL.to_owned(),
        provider: MODEL.to_owned(),
        base_url: None,
        parent: None,
        title: None,
        started_at: now,
    };
    let mut writer = store.create_session(init, first)?;
    let mut rows: Vec<Row> = (0..messages).map(|at| seeded_row(at, now)).collect();
    if let Some(part) = rows.get_mut(messages / 2).and_then(|row| row.parts.first_mut())
        && let Some(text) = part.as_text()
    {
        part.body = PartBody::text(format!("{text} needle-{number} "));
    }
    for rows in rows.chunks(BATCH) {
        let batch = rows.iter().cloned().map(Record::Row).collect();
        let _where = writer.commit(batch)?;
    }
    let mut records = Vec::new();
    for at in 1..=requests {
        let cut = Seq((messages * at / requests) as u64);
        let mut attempt = Attempt {
            id: RequestId::generate(&*app.env),
            session: id.clone(),
            turn: TurnNo(at as u32),
            attempt: 1,
            retries: None,
            task: Task::Main,
            wire: "chat_completions".into(),
            provider: MODEL.into(),
            base_url: "http://127.0.0.1:1/v1".into(),
            model: MODEL.into(),
            params: Params::default(),
            prompt: snapshot.digest,
            tools: tools.digest,
            history: Digest::of(at.to_le_bytes()),
            body: Digest::of(at.to_be_bytes()),
            body_bytes: 1000,
            generation: generation.n,
            cut,
            compactions: 0,
            wire_profile: WireProfile::default().digest(),
            renderer: RENDERER,
            started_at: app.env.now(),
            kept_body: None,
        };
        if at == requests {
            as_sent(&mut attempt, &snapshot, &tools, &rows, &generation)?;
        }
        let end = AttemptEnd {
            id: attempt.id.clone(),
            outcome: AttemptOutcome::Ok,
            first_byte_at: None,
            ended_at: app.env.now(),
            http_status: Some(200),
            error_class: None,
            error: None,
            usage: Usage { input: Some(1000), output: Some(10), ..Usage::default() },
            served_model: None,
            finish_reason: None,
            response: None,
        };
        records.push(Record::AttemptStarted(attempt));
        records.push(Record::AttemptEnded(end));
        if records.len() >= BATCH || at == requests {
            let _where = writer.commit(std::mem::take(&mut records))?;
        }
    }
    writer.release()?;
    Ok(id)
}

/// Gives an attempt the digests of the bytes that would have been sent.
fn as_sent(
    attempt: &mut Attempt,
    snapshot: &Arc<Snapshot>,
    tools: &ToolSet,
    rows: &[Row],
    generation: &Generation,
) -> anyhow::Result<()> {
    let view = fold_view(rows, std::slice::from_ref(generation), generation.n, attempt.cut)?;
    let profile = WireProfile::default();
    let assembled = assemble(&AssembleInput {
        snapshot,
        tools: &Arc::new(tools.clone()),
        view: &view,
        profile: &profile,
        blobs: &NoBlobs,
        renderer: RENDERER,
    })?;
    let encoded = encode(&assembled, &profile, MODEL, &attempt.params);
    attempt.history = encoded.history;
    attempt.body = encoded.digest;
    attempt.body_bytes = encoded.body.len() as u64;
    Ok(())
}

/// A prompt of 8,000 characters in one block.
fn prompt(number: usize, now: Timestamp) -> Arc<Snapshot> {
    let text: Arc<str> =
        format!("You are seeded session {number}. {}", "Be exact. ".repeat(800)).into();
    let digest = Digest::of(&*text);
    let block = Block {
        id: "identity".to_owned(),
        tier: Tier::Stable,
        source: Source::Builtin { name: "seed".to_owned(), version: 1 },
        source_digest: digest,
        rendered_digest: digest,
        range: ByteRange { start: 0, end: text.len() },
        tokens: Tokens::estimated(2000),
        loaded_at: now,
        verdict: Verdict::Loaded,
        refresh: Refresh::NextSession,
    };
    Arc::new(Snapshot { text, digest, blocks: vec![block] })
}

/// Message `at` of a seeded session; every message is about 375 characters long.
fn seeded_row(at: usize, now: Timestamp) -> Row {
    let turn = TurnNo(at as u32 / 4 + 1);
    let seq = Seq(at as u64 + 1);
    let call = |turn: TurnNo| format!("call_{turn}").into();
    let words = format!("message {at} about the harbour, the tide table and order {} ", at * 7919);
    let text = words.repeat(375 / words.len() + 1);
    let (role, body, tool) = match at % 4 {
        0 => (Role::User, PartBody::text(text), None),
        1 => {
            let arguments = format!(r#"{{"path":"notes/{at}.txt"}}"#).into();
            let body = PartBody::ToolCall { id: call(turn), name: "read_file".into(), arguments };
            (Role::Assistant, body, None)
        }
        2 => {
            let link = ToolLink { call_id: call(turn), name: "read_file".into() };
            (Role::Tool, PartBody::text(text), Some(link))
        }
        _ => (Role::Assistant, PartBody::text(text), None),
    };
    let origin = match role {
        Role::User => Origin::User,
        Role::Tool => Origin::Tool,
        Role::Assistant | Role::System => Origin::Model,
    };
    let part = Part {
        seq,
        row: seq,
        slot: slot::BODY,
        origin,
        standing: Standing::InOrder,
        created_at: now,
        label: None,
        body,
    };
    Row {
        seq,
        turn,
        role,
        standing: Standing::InOrder,
        status: RowStatus::Complete,
        created_at: now,
        tool,
        finish_reason: None,
        parts: vec![part],
    }
}
