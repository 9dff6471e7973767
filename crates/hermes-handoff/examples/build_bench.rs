//! How long a capsule of an 800-message session takes without a model, and how many of the exact
//! values that were said once are in it.
//!
//! `cargo run --release -p hermes-handoff --example build_bench`
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example that prints its figures and stops at the first fault"
)]

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use hermes_core::{
    Cause, Digest, Env, Generation, GenerationNo, Lane, Origin, Part, PartBody, Role, Row,
    RowStatus, ScriptedEnv, Seq, SessionId, Standing, Timestamp, TurnNo, slot,
};
use hermes_handoff::prepass::NoPrepass;
use hermes_handoff::writer::{Prompt, Writer, WriterError, WriterFault, Written};
use hermes_handoff::{Build, Handoffs, build};
use hermes_home::redact::Redactor;
use hermes_store::{OpenMode, Record, SessionInit, Store, StorePaths};

const MESSAGES: u64 = 800;
const START: Timestamp = Timestamp(1_796_032_560_000_000);

struct Down;

impl Writer for Down {
    fn write(&self, _: &Prompt) -> impl Future<Output = Result<Written, WriterError>> + Send {
        std::future::ready(Err(WriterError::bare(WriterFault::ConnectionLost)))
    }
}

fn row(seq: u64, text: &str) -> Row {
    let (role, origin) =
        if seq % 2 == 1 { (Role::User, Origin::User) } else { (Role::Assistant, Origin::Model) };
    let part = Part {
        seq: Seq(seq),
        row: Seq(seq),
        slot: slot::BODY,
        origin,
        standing: Standing::InOrder,
        created_at: START,
        label: None,
        body: PartBody::text(text),
    };
    Row {
        seq: Seq(seq),
        turn: TurnNo(seq.div_ceil(2) as u32),
        role,
        standing: Standing::InOrder,
        status: RowStatus::Complete,
        created_at: START,
        tool: None,
        finish_reason: None,
        parts: vec![part],
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(START, 1000, 1));
    let paths = StorePaths { db: at("state.db"), spool_dir: at("spool"), drafts_dir: at("drafts") };
    let store = Store::open(paths, env.clone(), OpenMode::ReadWrite).unwrap();
    let mut batch = vec![
        Record::Text { text: "prompt".into() },
        Record::Text { text: "[]".into() },
        Record::Generation(Generation {
            n: GenerationNo(0),
            parent: None,
            cause: Cause::Start,
            created_at: START,
            prompt: Digest::of("prompt"),
            tools: Digest::of("[]"),
            ops: Vec::new(),
        }),
    ];
    let mut planted = Vec::new();
    let filler = "The page describes the layout of the harbour and the ships that call there. ";
    for seq in 1..=MESSAGES {
        let mut text = filler.repeat(6);
        if seq % 40 == 27 {
            // Without a word that marks it as worth keeping.
            let value = format!("Q{}-{}", seq, 7_000 + seq * 13);
            text = format!("{filler}The locker in wing {seq} opens with {value}. {filler}");
            planted.push(value);
        }
        if seq % 40 == 7 {
            let value = format!("K-{}", 10_000 + seq * 37);
            text = format!("We decided to file the {seq}. report under {value}. {text}");
            planted.push(value);
        }
        batch.push(Record::Row(row(seq, &text)));
    }
    let session = SessionId::new("bench");
    let init = SessionInit {
        id: session.clone(),
        source: "cli".to_owned(),
        lane: Some(Lane::cli("/work/project")),
        cwd: None,
        git_root: None,
        git_branch: None,
        model: "none".to_owned(),
        provider: "none".to_owned(),
        base_url: None,
        parent: None,
        title: None,
        started_at: START,
    };
    store.create_session(init, batch).unwrap().release().unwrap();
    let handoffs = Handoffs::new(store, at("handoffs"), env);
    let redactor = Redactor::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut best = u128::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let what = Build {
            session: &session,
            lane: None,
            focus: None,
            prepass: &NoPrepass,
            redactor: &redactor,
            confidential: None,
        };
        let result = runtime.block_on(build(&handoffs, what, &Down));
        best = best.min(start.elapsed().as_micros());
        let text = std::fs::read_to_string(result.path.unwrap()).unwrap();
        let held = planted.iter().filter(|value| text.contains(value.as_str())).count();
        println!(
            "{} messages: {} words, {} characters, {held} of {} planted values, best of runs {} ms",
            result.messages,
            result.words,
            result.chars,
            planted.len(),
            best as f64 / 1000.0
        );
    }
}
