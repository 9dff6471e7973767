//! What the tests share: a home in a temporary folder, sessions of a few words, scripted writers.

use std::future::Future;
use std::sync::{Arc, Mutex};

use hermes_core::{
    Cause, Digest, Env, Generation, GenerationNo, Lane, Origin, Part, PartBody, Role, Row,
    RowStatus, ScriptedEnv, Seq, SessionId, Standing, Timestamp, ToolLink, TurnNo, slot,
};
use hermes_handoff::prepass::NoPrepass;
use hermes_handoff::writer::{Prompt, Writer, WriterError, Written};
use hermes_handoff::{Build, BuildResult, Handoffs, build};
use hermes_home::redact::Redactor;
use hermes_store::{Batch, OpenMode, Record, SessionInit, Store, StorePaths};
use tempfile::TempDir;

pub const START: Timestamp = Timestamp(1_796_032_560_000_000);
pub const HOUR: i64 = 3600 * 1000;

pub struct World {
    pub dir: TempDir,
    pub env: Arc<ScriptedEnv>,
}

pub fn id(name: &str) -> SessionId {
    SessionId::new(name)
}

pub fn lane() -> Lane {
    Lane::cli("/work/project")
}

impl World {
    /// The same world, seen by a process of its own.
    pub fn at(folder: &std::path::Path, seed: u64) -> Store {
        let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(START, 1000, seed));
        Store::open(paths(folder), env, OpenMode::ReadWrite).unwrap()
    }

    pub fn new() -> Self {
        Self { dir: TempDir::new().unwrap(), env: Arc::new(ScriptedEnv::new(START, 1000, 7)) }
    }

    /// As another process would open it.
    pub fn store(&self) -> Store {
        let env: Arc<dyn Env> = self.env.clone();
        Store::open(paths(self.dir.path()), env, OpenMode::ReadWrite).unwrap()
    }

    pub fn handoffs(&self) -> Handoffs {
        Handoffs::new(self.store(), self.dir.path().join("handoffs"), self.env.clone())
    }

    /// Every file in the handoffs folder, names included, as one text.
    pub fn everything(&self) -> String {
        let mut all = String::new();
        if let Ok(entries) = std::fs::read_dir(self.dir.path().join("handoffs")) {
            for entry in entries.flatten() {
                all.push_str(&entry.file_name().to_string_lossy());
                all.push('\n');
                all.push_str(&std::fs::read_to_string(entry.path()).unwrap());
                all.push('\n');
            }
        }
        all
    }
}

/// A session of alternating messages of person and model.
pub fn talked(store: &Store, name: &str, said: &[&str]) -> SessionId {
    talked_as(store, init(name), said)
}

pub fn talked_as(store: &Store, init: SessionInit, said: &[&str]) -> SessionId {
    let session = init.id.clone();
    let mut batch = opening();
    batch.extend(said.iter().enumerate().map(|(at, text)| {
        let role = if at % 2 == 0 { Role::User } else { Role::Assistant };
        Record::Row(row(Seq(at as u64 + 1), role, text))
    }));
    store.create_session(init, batch).unwrap().release().unwrap();
    session
}

fn paths(folder: &std::path::Path) -> StorePaths {
    StorePaths {
        db: folder.join("state.db"),
        spool_dir: folder.join("spool"),
        drafts_dir: folder.join("drafts"),
    }
}

pub fn init(name: &str) -> SessionInit {
    SessionInit {
        id: id(name),
        source: "cli".to_owned(),
        lane: Some(lane()),
        cwd: Some("/work/project".to_owned()),
        git_root: Some("/work/project".to_owned()),
        git_branch: None,
        model: "scripted".to_owned(),
        provider: "rehearsal".to_owned(),
        base_url: None,
        parent: None,
        title: None,
        started_at: START,
    }
}

pub fn opening() -> Batch {
    vec![
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
    ]
}

pub fn part(seq: Seq, row: Seq, origin: Origin, body: PartBody) -> Part {
    Part {
        seq,
        row,
        slot: slot::BODY,
        origin,
        standing: Standing::InOrder,
        created_at: START.plus_millis(seq.0 as i64 * 1000),
        label: None,
        body,
    }
}

pub fn row(seq: Seq, role: Role, text: &str) -> Row {
    let origin = match role {
        Role::User | Role::System => Origin::User,
        Role::Assistant => Origin::Model,
        Role::Tool => Origin::Tool,
    };
    Row {
        seq,
        turn: TurnNo(1),
        role,
        standing: Standing::InOrder,
        status: RowStatus::Complete,
        created_at: START.plus_millis(seq.0 as i64 * 1000),
        tool: None,
        finish_reason: None,
        parts: vec![part(seq, seq, origin, PartBody::text(text))],
    }
}

/// A call and its result, two rows.
pub fn call(seq: u64, name: &str, arguments: &str, result: &str) -> [Row; 2] {
    let mut asked = row(Seq(seq), Role::Assistant, "");
    asked.parts = vec![part(
        Seq(seq),
        Seq(seq),
        Origin::Model,
        PartBody::ToolCall {
            id: format!("c{seq}").into(),
            name: name.into(),
            arguments: arguments.into(),
        },
    )];
    asked.parts[0].slot = slot::CALLS;
    let mut answered = row(Seq(seq + 1), Role::Tool, result);
    answered.tool = Some(ToolLink { call_id: format!("c{seq}").into(), name: name.into() });
    [asked, answered]
}

type Answer = dyn Fn() -> Result<String, WriterError> + Send + Sync;

/// A writer that answers by a function, and keeps what it was asked.
pub struct Scripted {
    answer: Box<Answer>,
    pub asked: Mutex<Vec<Prompt>>,
}

impl Scripted {
    pub fn new(answer: impl Fn() -> Result<String, WriterError> + Send + Sync + 'static) -> Self {
        Self { answer: Box::new(answer), asked: Mutex::default() }
    }
}

impl Writer for Scripted {
    fn write(&self, prompt: &Prompt) -> impl Future<Output = Result<Written, WriterError>> + Send {
        self.asked.lock().unwrap().push(prompt.clone());
        let answer = (self.answer)();
        std::future::ready(answer.map(|text| Written { text, model: "test-model".to_owned() }))
    }
}

pub fn saying(text: &str) -> Scripted {
    let text = text.to_owned();
    Scripted::new(move || Ok(text.clone()))
}

pub fn failing(error: WriterError) -> Scripted {
    Scripted::new(move || Err(error.clone()))
}

pub const GOOD: &str = "## Working on\nThe parser of the config file [r1]\n\n## State\n- tokens done [r2]\n\n\
    ## Decisions\n- keep comments [r3]\n\n## Pointers\n- src/parser.rs [r3]\n\n## Next\n- test the parser [r3]";

pub const TALK: [&str; 6] = [
    "Please write the parser of the config file.",
    "The tokens are done.",
    "Keep comments. It is in src/parser.rs; test the parser next.",
    "Noted.",
    "How far is it?",
    "The tokens are done, the tests are not.",
];

pub fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Builds in an ordinary lane.
pub fn built<W: Writer>(handoffs: &Handoffs, session: &SessionId, writer: &W) -> BuildResult {
    let redactor = Redactor::default();
    let what = Build {
        session,
        lane: None,
        focus: None,
        prepass: &NoPrepass,
        redactor: &redactor,
        confidential: None,
    };
    run(build(handoffs, what, writer))
}
