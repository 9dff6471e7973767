//! A client, a server with a script, a ledger in memory, and what was said.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_core::{
    Assembled, Attempt, AttemptEnd, AttemptRecorder, Digest, GenerationNo, Message, Params, Piece,
    Provenance, RecordError, RequestId, Role, ScriptedEnv, Seq, SessionId, Snapshot, Task,
    Timestamp, ToolDef, ToolSet, TurnNo, WireProfile,
};
use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer, Script};
use hermes_provider::{
    Answered, Backoff, Client, ConverseError, ConverseInput, Delta, Encoded, Endpoint, LedgerFacts,
    Timeouts, encode,
};

/// A file of a public case.
pub fn case(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(path)
}

pub fn script(text: &str) -> Script {
    Script::parse(&case("script.json"), text).unwrap()
}

pub fn server(script: Option<Script>) -> RehearsalServer {
    Rehearsal::start(RehearsalOptions { script, ..RehearsalOptions::default() }).unwrap()
}

pub fn endpoint(base_url: &str) -> Endpoint {
    Endpoint {
        provider: "rehearsal".into(),
        base_url: base_url.into(),
        model: "rehearsal".into(),
        api_key: None,
        headers: Vec::new(),
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(5),
            idle: Duration::from_secs(5),
        },
        profile: WireProfile::default(),
        params: Params::default(),
    }
}

fn part(n: u64) -> Provenance {
    Provenance::Part { row: Seq(n), part: Seq(n) }
}

pub fn text(role: Role, text: &str) -> Message {
    let pieces = vec![Piece::Text { text: text.into(), from: part(1) }];
    Message { role, tool_call_id: None, pieces }
}

/// A user message, a tool call without stored reasoning, and its result.
pub fn history_with_a_call() -> Vec<Message> {
    let call = Piece::ToolCall {
        id: "c0".into(),
        name: "terminal".into(),
        arguments: r#"{"command": "date"}"#.into(),
        from: part(2),
    };
    let mut result = text(Role::Tool, "Mon");
    result.tool_call_id = Some("c0".into());
    vec![
        text(Role::User, "date?"),
        Message { role: Role::Assistant, tool_call_id: None, pieces: vec![call] },
        result,
    ]
}

pub fn assembled(messages: Vec<Message>) -> Assembled {
    let prompt = "You are under test.";
    let snapshot = Snapshot { text: prompt.into(), digest: Digest::of(prompt), blocks: Vec::new() };
    let tools = ["terminal", "read_file", "memory"].map(|name| ToolDef {
        name: name.into(),
        json: format!(r#"{{"type":"function","function":{{"name":"{name}","n":1e5}}}}"#).into(),
    });
    Assembled {
        snapshot: Arc::new(snapshot),
        tools: Arc::new(ToolSet::new(tools.to_vec())),
        messages,
    }
}

/// What happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Committed(RequestId),
    Failed(RequestId),
    Started(RequestId),
    Text(String),
    Reasoning(String),
    Retrying(u32),
    FellBack(String),
    Learned(WireProfile),
}

#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Event>>>);

impl Log {
    pub fn push(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

#[derive(Default)]
pub struct Ledger {
    pub log: Log,
    pub started: Vec<(Attempt, WireProfile)>,
    pub failed: Vec<AttemptEnd>,
    pub refuses: bool,
}

impl AttemptRecorder for Ledger {
    fn started(&mut self, attempt: Attempt, profile: &WireProfile) -> Result<(), RecordError> {
        if self.refuses {
            return Err(RecordError("the disk is full".to_owned()));
        }
        self.log.push(Event::Committed(attempt.id.clone()));
        self.started.push((attempt, profile.clone()));
        Ok(())
    }

    fn failed(&mut self, end: AttemptEnd) -> Result<(), RecordError> {
        self.log.push(Event::Failed(end.id.clone()));
        self.failed.push(end);
        Ok(())
    }
}

/// Everything that a call needs, with values that a test may change.
pub struct Rig {
    pub client: Client,
    pub ledger: Ledger,
    pub env: ScriptedEnv,
    pub endpoints: Vec<Endpoint>,
    pub messages: Vec<Message>,
    pub retries: u32,
    pub keep_body: bool,
}

impl Rig {
    pub fn new(servers: &[&RehearsalServer]) -> Self {
        Self {
            client: Client::new(),
            ledger: Ledger::default(),
            env: ScriptedEnv::new(Timestamp(1_796_032_560_000_000), 1000, 7),
            endpoints: servers.iter().map(|server| endpoint(&server.base_url())).collect(),
            messages: vec![text(Role::User, "hello")],
            retries: 3,
            keep_body: false,
        }
    }

    pub fn encoded(&self) -> Encoded {
        let endpoint = self.endpoints.first().unwrap();
        let assembled = assembled(self.messages.clone());
        encode(&assembled, &endpoint.profile, &endpoint.model, &endpoint.params)
    }

    pub fn run(&mut self) -> Result<Answered, Box<ConverseError>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.converse())
    }

    pub async fn converse(&mut self) -> Result<Answered, Box<ConverseError>> {
        let session = SessionId::new("20261130_095600_abcdef");
        let messages = self.messages.clone();
        let input = ConverseInput {
            endpoints: &self.endpoints,
            assemble: &move |_| Ok(assembled(messages.clone())),
            ledger: LedgerFacts {
                session: &session,
                turn: TurnNo(1),
                retries: None,
                task: Task::Main,
                generation: GenerationNo(0),
                cut: Seq(1),
                compactions: 0,
                renderer: 1,
            },
            retries: self.retries,
            backoff: Backoff::quick(),
            env: &self.env,
            keep_body: self.keep_body,
        };
        let log = self.ledger.log.clone();
        let mut on = |delta: Delta<'_>| {
            log.push(match delta {
                Delta::Started(id) => Event::Started(id),
                Delta::Text(text) => Event::Text(text.to_owned()),
                Delta::Reasoning(text) => Event::Reasoning(text.to_owned()),
                Delta::Retrying { attempt, .. } => Event::Retrying(attempt),
                Delta::FellBack { to, .. } => Event::FellBack(to.to_owned()),
                Delta::LearnedProfile(profile) => Event::Learned(profile),
            });
        };
        self.client.converse(input, &mut self.ledger, &mut on).await.map_err(Box::new)
    }

    /// Text as it was shown.
    pub fn shown(&self) -> String {
        let texts = self.ledger.log.events().into_iter().filter_map(|event| match event {
            Event::Text(text) => Some(text),
            _ => None,
        });
        texts.collect()
    }
}
