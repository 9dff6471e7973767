//! What the tests share: a store in a temporary folder, and short ways to make records.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_core::{
    Attempt, AttemptEnd, AttemptOutcome, Cause, Digest, Env, Generation, GenerationNo, Lane, Op,
    Origin, Params, Part, PartBody, RequestId, Role, Row, RowStatus, ScriptedEnv, Seq, SessionId,
    Standing, Task, Timestamp, TurnNo, Usage, WireProfile, slot,
};
use hermes_store::{
    Batch, Committed, OpenMode, Record, SessionInit, SessionWriter, Store, StoreError,
    StoreOptions, StorePaths,
};
use rusqlite::Connection;
use tempfile::TempDir;

pub const START: Timestamp = Timestamp(1_796_032_560_000_000);
pub const PROMPT: &str = "You are a test.";
pub const TOOLS: &str = "[]";

/// A folder that goes with the test, or one of another process, which stays.
pub enum Folder {
    Own(TempDir),
    Other(PathBuf),
}

impl Folder {
    pub fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Other(path) => path,
        }
    }
}

/// A home in a temporary folder.
pub struct Home {
    pub dir: Folder,
    pub env: Arc<ScriptedEnv>,
    pub options: StoreOptions,
}

impl Home {
    pub fn new() -> Self {
        Self::of(Folder::Own(TempDir::new().unwrap()), 7)
    }

    /// The home of a process that was started for it, with chance of its own.
    pub fn at(folder: &Path, seed: u64) -> Self {
        Self::of(Folder::Other(folder.to_owned()), seed)
    }

    fn of(dir: Folder, seed: u64) -> Self {
        Self {
            dir,
            env: Arc::new(ScriptedEnv::new(START, 1000, seed)),
            options: StoreOptions {
                busy_timeout: Duration::from_millis(30),
                busy_timeout_spooling: Duration::from_millis(5),
                ..StoreOptions::default()
            },
        }
    }

    pub fn paths(&self) -> StorePaths {
        StorePaths {
            db: self.dir.path().join("state.db"),
            spool_dir: self.dir.path().join("spool"),
            drafts_dir: self.dir.path().join("drafts"),
        }
    }

    /// As another process would open it.
    pub fn store(&self) -> Store {
        self.try_store().unwrap()
    }

    /// The same where it may be refused.
    pub fn try_store(&self) -> Result<Store, StoreError> {
        let env: Arc<dyn Env> = self.env.clone();
        Store::open_with(self.paths(), env, OpenMode::ReadWrite, self.options)
    }

    /// A plain connection, as other programs use it.
    pub fn raw(&self) -> Connection {
        Connection::open(self.paths().db).unwrap()
    }

    /// Keeps everybody else from writing until it is dropped.
    pub fn lock_out(&self) -> Connection {
        let connection = self.raw();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
    }

    /// Leaves what a killed process leaves: the lease still taken, its lock file there, no lock.
    pub fn kill_holder(&self, session: &SessionId) {
        std::fs::create_dir_all(self.paths().drafts_dir).unwrap();
        std::fs::write(self.paths().drafts_dir.join("holder-dead.lock"), "").unwrap();
        let changed = self
            .raw()
            .execute(
                "UPDATE lease SET token = 'dead', host = 'here', pid = 1, since = 0,
                     expires = 9000000000000000
                 WHERE session_no = (SELECT session_no FROM sessions WHERE id = ?1)",
                [session.as_str()],
            )
            .unwrap();
        assert_eq!(changed, 1);
    }
}

/// How many files with this extension are in the folder.
pub fn files(folder: &Path, extension: &str) -> usize {
    std::fs::read_dir(folder).map_or(0, |entries| {
        entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|e| e == extension))
            .count()
    })
}

pub fn id(name: &str) -> SessionId {
    SessionId::new(name)
}

pub fn init(name: &str) -> SessionInit {
    SessionInit {
        id: id(name),
        source: "cli".to_owned(),
        lane: Some(Lane::cli("/work/project")),
        cwd: Some("/work/project/sub".to_owned()),
        git_root: Some("/work/project".to_owned()),
        git_branch: Some("main".to_owned()),
        model: "scripted".to_owned(),
        provider: "rehearsal".to_owned(),
        base_url: Some("http://127.0.0.1:1/v1".to_owned()),
        parent: None,
        title: None,
        started_at: START,
    }
}

/// Creates a session with its first generation.
pub fn create(store: &Store, name: &str) -> SessionWriter {
    store.create_session(init(name), opening()).unwrap()
}

/// The records that open a session.
pub fn opening() -> Batch {
    vec![
        Record::Text { text: PROMPT.into() },
        Record::Text { text: TOOLS.into() },
        generation(0, Cause::Start, vec![]),
    ]
}

pub fn generation(n: u32, cause: Cause, ops: Vec<Op>) -> Record {
    Record::Generation(Generation {
        n: GenerationNo(n),
        parent: n.checked_sub(1).map(GenerationNo),
        cause,
        created_at: START,
        prompt: Digest::of(PROMPT),
        tools: Digest::of(TOOLS),
        ops,
    })
}

pub fn part(seq: Seq, row: Seq, origin: Origin, text: &str) -> Part {
    Part {
        seq,
        row,
        slot: slot::BODY,
        origin,
        standing: Standing::InOrder,
        created_at: at(seq),
        label: None,
        body: PartBody::text(text),
    }
}

/// The moment of a seq: one second each.
pub fn at(seq: Seq) -> Timestamp {
    START.plus_millis(seq.0 as i64 * 1000)
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
        created_at: at(seq),
        tool: None,
        finish_reason: None,
        parts: vec![part(seq, seq, origin, text)],
    }
}

/// Says something and stores it.
pub fn say(writer: &mut SessionWriter, role: Role, text: &str) -> Seq {
    let seq = writer.next_seq();
    let committed = writer.commit(vec![Record::Row(row(seq, role, text))]).unwrap();
    assert_eq!(committed, Committed::Database);
    seq
}

pub fn attempt(name: &str, session: &SessionId, generation: GenerationNo, cut: Seq) -> Attempt {
    Attempt {
        id: RequestId::new(name),
        session: session.clone(),
        turn: TurnNo(1),
        attempt: 1,
        retries: None,
        task: Task::Main,
        wire: "chat_completions".into(),
        provider: "rehearsal".into(),
        base_url: "http://127.0.0.1:1/v1".into(),
        model: "scripted".into(),
        params: Params(vec![("temperature".into(), "1e0".into())]),
        prompt: Digest::of(PROMPT),
        tools: Digest::of(TOOLS),
        history: Digest::of("history"),
        body: Digest::of("body"),
        body_bytes: 4,
        generation,
        cut,
        compactions: 0,
        wire_profile: WireProfile::default().digest(),
        renderer: 1,
        started_at: START,
        kept_body: None,
    }
}

pub fn end(name: &str, input: u64, output: u64) -> AttemptEnd {
    AttemptEnd {
        id: RequestId::new(name),
        outcome: AttemptOutcome::Ok,
        first_byte_at: Some(START.plus_millis(5)),
        ended_at: START.plus_millis(9),
        http_status: Some(200),
        error_class: None,
        error: None,
        usage: Usage { input: Some(input), output: Some(output), ..Usage::default() },
        served_model: Some("scripted-1".into()),
        finish_reason: Some("stop".into()),
        response: None,
    }
}

/// The texts of a history, row by row.
pub fn texts(store: &Store, session: &SessionId) -> Vec<String> {
    store
        .history(session)
        .unwrap()
        .rows
        .iter()
        .map(|row| {
            let texts: Vec<&str> = row.parts.iter().filter_map(Part::as_text).collect();
            texts.join("+")
        })
        .collect()
}

/// Nothing is wrong with the store.
pub fn assert_sound(store: &Store) {
    assert_eq!(store.check().unwrap(), vec![]);
}
