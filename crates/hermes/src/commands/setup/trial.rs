//! One tiny real request, to see whether a model answers. It belongs to no session, so no ledger
//! keeps it; it is the only request of this program of which that is true.

use std::sync::Arc;
use std::time::Duration;

use hermes_core::{
    Assembled, Attempt, AttemptEnd, AttemptRecorder, Digest, Env, GenerationNo, Message, Piece,
    Provenance, RecordError, Role, Seq, SessionId, Snapshot, Task, ToolSet, TurnNo, WireProfile,
};
use hermes_home::EndpointConfig;
use hermes_provider::{Backoff, Client, ConverseInput, Delta, LedgerFacts};
use tokio::sync::Notify;

use crate::commands::chat;

/// How long the model may take to its first word: a local server may have to load it first.
const PATIENCE: Duration = Duration::from_mins(2);

const QUESTION: &str = "Reply with the one word: ready";

/// Whether the model said anything.
///
/// # Errors
/// If the asynchronous runtime does not start.
pub fn answers(env: &Arc<dyn Env>, config: &EndpointConfig) -> anyhow::Result<Result<(), String>> {
    let mut endpoint = hermes_agent::endpoint(config);
    (endpoint.timeouts.first_byte, endpoint.timeouts.idle) = (PATIENCE, PATIENCE);
    let endpoints = [endpoint];
    let session = SessionId::new("setup");
    let input = ConverseInput {
        endpoints: &endpoints,
        assemble: &|_: &WireProfile| Ok(question()),
        ledger: LedgerFacts {
            session: &session,
            turn: TurnNo(1),
            retries: None,
            task: Task::Auxiliary("setup".into()),
            generation: GenerationNo(0),
            cut: Seq(1),
            compactions: 0,
            renderer: hermes_context::RENDERER,
        },
        retries: 0,
        backoff: Backoff::default(),
        env: &**env,
        keep_body: false,
    };
    let heard = Notify::new();
    let mut on = |delta: Delta<'_>| {
        if matches!(delta, Delta::Text(_) | Delta::Reasoning(_)) {
            heard.notify_one();
        }
    };
    let client = Client::new();
    let mut forget = Forget;
    chat::runtime()?.block_on(async {
        tokio::select! {
            // The first word is proof enough; the rest is not waited for.
            () = heard.notified() => Ok(Ok(())),
            result = client.converse(input, &mut forget, &mut on) => {
                Ok(result.map(|_| ()).map_err(|error| error.to_string()))
            }
        }
    })
}

fn question() -> Assembled {
    let text = "";
    let snapshot = Snapshot { text: text.into(), digest: Digest::of(text), blocks: Vec::new() };
    Assembled {
        snapshot: Arc::new(snapshot),
        tools: Arc::new(ToolSet::new(Vec::new())),
        messages: vec![Message {
            role: Role::User,
            tool_call_id: None,
            pieces: vec![Piece::Text { text: QUESTION.into(), from: Provenance::Filler("setup") }],
        }],
    }
}

/// A ledger that keeps nothing.
struct Forget;

impl AttemptRecorder for Forget {
    fn started(&mut self, _: Attempt, _: &WireProfile) -> Result<(), RecordError> {
        Ok(())
    }

    fn failed(&mut self, _: AttemptEnd) -> Result<(), RecordError> {
        Ok(())
    }
}
