//! What the tests build: homes, workspaces, rows and views.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_context::{Built, SnapshotInput, Workspace, build_snapshot};
use hermes_core::{
    Digest, Message, Origin, Part, PartBody, Piece, Role, Row, RowStatus, Seq, SessionId, Snapshot,
    Standing, Timestamp, ToolDef, ToolLink, ToolSet, TurnNo, View, ViewRow, slot,
};
use hermes_home::{Config, Home};

/// 2026-11-30, a Monday.
pub const NOW: Timestamp = Timestamp(1_796_032_560_000_000);

pub fn case(id: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(id)
}

/// A home and a workspace in a temporary folder.
pub struct World {
    pub folder: tempfile::TempDir,
    pub home: Home,
    pub cwd: PathBuf,
    pub config: Config,
    pub tools: ToolSet,
    pub window: Option<u64>,
    pub caller: Option<String>,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join("work");
        std::fs::create_dir_all(&cwd).unwrap();
        Self {
            home: Home::at(folder.path().join("home")),
            cwd,
            folder,
            config: Config::default(),
            tools: tools(&[
                "read_file",
                "write_file",
                "patch",
                "search_files",
                "terminal",
                "memory",
            ]),
            window: None,
            caller: None,
        }
    }

    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Copies a folder of a case over a folder of the world.
    pub fn copy(&self, from: &Path, to: &str) {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{to}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                std::fs::create_dir_all(self.folder.path().join(&name)).unwrap();
                self.copy(&entry.path(), &name);
            } else {
                self.write(&name, std::fs::read(entry.path()).unwrap());
            }
        }
    }

    pub fn workspace(&self) -> Workspace {
        Workspace::discover(&self.cwd)
    }

    pub fn with_input<T>(&self, run: impl FnOnce(&SnapshotInput<'_>) -> T) -> T {
        let workspace = self.workspace();
        let session = SessionId::new("20261130_095600_abcdef");
        run(&SnapshotInput {
            home: &self.home,
            config: &self.config,
            workspace: &workspace,
            platform: "cli",
            provider: "local",
            model: "test-model",
            tools: &self.tools,
            session: &session,
            caller: self.caller.as_deref(),
            now: NOW,
            utc_offset_seconds: 3600,
            context_window: self.window,
            sections: &[],
        })
    }

    pub fn build(&self) -> Built {
        self.with_input(build_snapshot)
    }

    /// The built prompt with the folder's path replaced.
    pub fn text(&self) -> String {
        self.plain(&self.build().snapshot.text)
    }

    pub fn warnings(&self) -> String {
        self.plain(&self.build().warnings.join("\n"))
    }

    pub fn plain(&self, text: &str) -> String {
        let real = std::fs::canonicalize(self.folder.path()).unwrap();
        text.replace(&real.display().to_string(), "ROOT")
            .replace(&self.folder.path().display().to_string(), "ROOT")
    }
}

pub fn tools(names: &[&str]) -> ToolSet {
    let def = |name: &&str| ToolDef {
        name: Arc::from(*name),
        json: format!("{{\"type\":\"function\",\"function\":{{\"name\":\"{name}\"}}}}").into(),
    };
    ToolSet::new(names.iter().map(def).collect())
}

pub fn empty_snapshot() -> Arc<Snapshot> {
    Arc::new(Snapshot { text: "".into(), digest: Digest::of(""), blocks: Vec::new() })
}

/// Rows with the next free seqs.
#[derive(Default)]
pub struct Rows {
    next: u64,
    pub rows: Vec<Row>,
}

impl Rows {
    fn seq(&mut self) -> Seq {
        self.next += 1;
        Seq(self.next)
    }

    pub fn row(&mut self, turn: u32, role: Role) -> &mut Row {
        let seq = self.seq();
        self.rows.push(Row {
            seq,
            turn: TurnNo(turn),
            role,
            standing: Standing::InOrder,
            status: RowStatus::Complete,
            created_at: Timestamp(NOW.0 + i64::try_from(seq.0).unwrap() * 60_000_000),
            tool: None,
            finish_reason: None,
            parts: Vec::new(),
        });
        self.rows.last_mut().unwrap()
    }

    /// Adds a part to the newest row.
    pub fn part(&mut self, origin: Origin, at: u16, label: Option<&str>, body: PartBody) {
        let row = self.rows.last().unwrap().seq;
        let seq = if self.rows.last().unwrap().parts.is_empty() { row } else { self.seq() };
        let last = self.rows.last_mut().unwrap();
        last.parts.push(Part {
            seq,
            row,
            slot: at,
            origin,
            standing: Standing::InOrder,
            created_at: NOW,
            label: label.map(Arc::from),
            body,
        });
        last.sort_parts();
    }

    pub fn user(&mut self, turn: u32, text: &str) {
        self.row(turn, Role::User);
        self.part(Origin::User, slot::BODY, None, PartBody::text(text));
    }

    pub fn assistant(&mut self, turn: u32, text: &str, calls: &[(&str, &str)]) {
        self.row(turn, Role::Assistant);
        if !text.is_empty() {
            self.part(Origin::Model, slot::BODY, None, PartBody::text(text));
        }
        for (id, name) in calls {
            let (id, name) = (Arc::from(*id), Arc::from(*name));
            let body = PartBody::ToolCall { id, name, arguments: "{}".into() };
            self.part(Origin::Model, slot::CALLS, None, body);
        }
    }

    pub fn tool(&mut self, turn: u32, call_id: &str, name: &str, text: &str) {
        self.row(turn, Role::Tool).tool =
            Some(ToolLink { call_id: call_id.into(), name: name.into() });
        self.part(Origin::Tool, slot::BODY, None, PartBody::text(text));
    }

    pub fn view(&self) -> View {
        let rows = self.rows.iter();
        View { rows: rows.map(|row| ViewRow { position: row.seq, row: row.clone() }).collect() }
    }
}

/// The messages of a chat-completions array, with the turns a session would have given them.
pub fn rows_of_json(messages: &serde_json::Value) -> Rows {
    let mut rows = Rows::default();
    let mut turn = 0;
    for message in messages.as_array().unwrap() {
        let text = message["content"].as_str().unwrap_or_default();
        match message["role"].as_str().unwrap() {
            "user" => {
                turn += 1;
                rows.user(turn, text);
                if let Some(time) = message["ts"].as_str() {
                    rows.rows.last_mut().unwrap().created_at = timestamp(time);
                }
            }
            "assistant" => {
                let calls: Vec<(&str, &str)> = message["tool_calls"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|call| {
                        let name = call["function"]["name"].as_str().unwrap();
                        (call["id"].as_str().unwrap(), name)
                    })
                    .collect();
                rows.assistant(turn, text, &calls);
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap();
                rows.tool(turn, id, "terminal", text);
            }
            other => panic!("role {other}"),
        }
    }
    rows
}

/// Of `2026-01-05T09:00:00Z`.
fn timestamp(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp(instant.as_microsecond())
}

/// Messages as lines, for comparison by eye: role, ids, texts.
pub fn shown(messages: &[Message]) -> String {
    let mut out = String::new();
    for message in messages {
        out.push_str(message.role.as_str());
        if let Some(id) = &message.tool_call_id {
            write!(out, " <- {id}").unwrap();
        }
        out.push('\n');
        for piece in &message.pieces {
            let (kind, text) = match piece {
                Piece::Text { text, .. } => ("text", text.to_string()),
                Piece::Image { media_type, data, .. } => {
                    ("image", format!("{media_type} {} bytes", data.len()))
                }
                Piece::Reasoning { field, text, .. } => ("reasoning", format!("{field}: {text}")),
                Piece::Raw { field, json, .. } => ("raw", format!("{field}: {json}")),
                Piece::ToolCall { id, name, arguments, .. } => {
                    ("call", format!("{id} {name} {arguments}"))
                }
            };
            writeln!(out, "  {kind} [{:?}]", piece.provenance()).unwrap();
            for line in text.lines() {
                writeln!(out, "    {line}").unwrap();
            }
        }
    }
    out
}

/// The texts of a message as the encoder joins them.
pub fn text_of_message(message: &Message) -> String {
    let texts = message.pieces.iter().filter_map(|piece| match piece {
        Piece::Text { text, .. } => Some(&**text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Panics unless a strict provider would accept the messages.
pub fn assert_strict(messages: &[Message], alternate: bool) {
    let mut ids = std::collections::BTreeSet::new();
    let mut open: std::collections::VecDeque<Arc<str>> = std::collections::VecDeque::new();
    let mut before: Option<Role> = None;
    for (index, message) in messages.iter().enumerate() {
        assert!(!message.pieces.is_empty(), "message {index} is empty: {messages:#?}");
        if message.role == Role::Tool {
            let expected = open.pop_front();
            assert_eq!(message.tool_call_id, expected, "message {index} of {messages:#?}");
        } else {
            assert!(open.is_empty(), "message {index} parts a group: {messages:#?}");
            assert_eq!(message.tool_call_id, None);
        }
        for piece in &message.pieces {
            match piece {
                Piece::ToolCall { id, .. } => {
                    assert_eq!(message.role, Role::Assistant);
                    assert!(!id.is_empty() && ids.insert(id.clone()), "{id} twice: {messages:#?}");
                    open.push_back(id.clone());
                }
                Piece::Text { text, .. } => {
                    assert!(!text.trim().is_empty(), "message {index} has a blank text");
                }
                Piece::Image { .. } => assert_eq!(message.role, Role::User),
                Piece::Reasoning { .. } | Piece::Raw { .. } => {
                    assert_eq!(message.role, Role::Assistant);
                }
            }
        }
        if index == 0 {
            assert_eq!(message.role, Role::User, "{messages:#?}");
        }
        if alternate {
            let same = message.role != Role::Tool && before == Some(message.role);
            let user_after_tool = before == Some(Role::Tool) && message.role == Role::User;
            assert!(!same && !user_after_tool, "message {index} of {messages:#?}");
        }
        before = Some(message.role);
    }
    assert!(open.is_empty(), "calls without results: {messages:#?}");
}
