//! The store in which sessions are examined: a home of its own, gone when dropped, in which the
//! product's own build and the product's own search work as they do for a person.

use std::sync::Arc;

use hermes_agent::Services;
use hermes_core::{
    Cause, Digest, Env, Generation, GenerationNo, Lane, PartBody, Row, ScriptedEnv, SessionId,
    Standing, Timestamp, ToolCall, ToolRegistry as _, ToolSink,
};
use hermes_handoff::prepass::NoPrepass;
use hermes_handoff::writer::{Prompt, Writer, WriterError, WriterFault, Written};
use hermes_handoff::{Build, Handoffs, build};
use hermes_home::redact::Redactor;
use hermes_home::{Config, Home, ProcessVars};
use hermes_store::{OpenMode, Record, SessionInit, Store, StorePaths};
use hermes_tools::{BuiltinTools, DenyAll, ToolContext, TurnSources};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::LabError;

/// When the sessions of an exam are handed over: after the made-up conversations end.
const NOW: Timestamp = Timestamp::from_seconds(1_797_000_000);
/// Rows that are stored in one step.
const BATCH: usize = 2_000;

/// Nobody writes: the capsule is made of the session's rows.
struct Nobody;

impl Writer for Nobody {
    async fn write(&self, _: &Prompt) -> Result<Written, WriterError> {
        Err(WriterError::bare(WriterFault::NoCandidate))
    }
}

/// Nobody watches the tools.
struct Quiet;

impl ToolSink for Quiet {
    fn output(&self, _: &str) {}
}

/// The home of an exam.
pub(super) struct World {
    folder: TempDir,
    pub(super) home: Home,
    pub(super) store: Store,
    env: Arc<dyn Env>,
}

impl World {
    pub(super) fn new() -> Result<Self, LabError> {
        let folder = tempfile::Builder::new()
            .prefix("hermes-exam-")
            .tempdir()
            .map_err(|source| LabError::Io { path: std::env::temp_dir(), source })?;
        let home = Home::at(folder.path().join("home"));
        home.ensure()?;
        let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(NOW, 1000, 7));
        let paths = StorePaths {
            db: home.store_path(),
            spool_dir: home.spool_dir(),
            drafts_dir: home.drafts_dir(),
        };
        let store = Store::open(paths, env.clone(), OpenMode::ReadWrite)?;
        Ok(Self { folder, home, store, env })
    }

    /// Stores a session of these rows.
    pub(super) fn keep(&self, id: &SessionId, rows: &[Row]) -> Result<(), LabError> {
        let started_at = rows.first().map_or(NOW, |row| row.created_at);
        let init = SessionInit {
            id: id.clone(),
            source: "cli".to_owned(),
            lane: Some(Lane::cli(&format!("/exam/{id}"))),
            cwd: None,
            git_root: None,
            git_branch: None,
            model: "none".to_owned(),
            provider: "none".to_owned(),
            base_url: None,
            parent: None,
            title: None,
            started_at,
        };
        let first = vec![
            Record::Text { text: "prompt".into() },
            Record::Text { text: "[]".into() },
            Record::Generation(Generation {
                n: GenerationNo(0),
                parent: None,
                cause: Cause::Start,
                created_at: started_at,
                prompt: Digest::of("prompt"),
                tools: Digest::of("[]"),
                ops: Vec::new(),
            }),
        ];
        let mut writer = self.store.create_session(init, first)?;
        for some in rows.chunks(BATCH) {
            let records = some.iter().cloned().map(plain).map(Record::Row).collect();
            let _at = writer.commit(records)?;
        }
        writer.release()?;
        Ok(())
    }

    /// The capsule that the product makes of a session without a model, as its file has it.
    pub(super) async fn capsule(&self, id: &SessionId) -> Result<String, LabError> {
        let redactor = Redactor::default();
        let wanted = Build {
            session: id,
            lane: None,
            focus: None,
            prepass: &NoPrepass,
            redactor: &redactor,
            confidential: None,
        };
        let handoffs =
            Handoffs::new(self.store.clone(), self.home.handoffs_dir(), self.env.clone());
        let result = build(&handoffs, wanted, &Nobody).await;
        self.text(id, result.capsule.as_deref(), &result.sentence())
    }

    /// The capsule that the product makes of a session with its configured writer. A writer that
    /// fails is a fault here: the figures would be another policy's.
    pub(super) async fn written(
        &self,
        services: &Services,
        id: &SessionId,
    ) -> Result<String, LabError> {
        let result = services.hand_off(id, None).run().await;
        if result.status != hermes_handoff::Status::Ok {
            return Err(LabError::NoCapsule { session: id.to_string(), why: result.sentence() });
        }
        self.text(id, result.capsule.as_deref(), &result.sentence())
    }

    fn text(&self, id: &SessionId, capsule: Option<&str>, said: &str) -> Result<String, LabError> {
        let text = match capsule {
            Some(capsule) => self.store.capsule_text(capsule)?,
            None => None,
        };
        text.ok_or_else(|| LabError::NoCapsule { session: id.to_string(), why: said.to_owned() })
    }

    /// The product's search as a session that has just begun calls it.
    pub(super) fn desk(&self) -> Desk {
        self.desk_in(&self.home)
    }

    /// The same over the sessions of another home, which is only read.
    pub(super) fn desk_in(&self, home: &Home) -> Desk {
        Desk::new(home.clone(), self.env.clone(), self.folder.path().to_owned())
    }
}

/// A row without what belongs to the session that it is from: what was put in later, and contents
/// that are stored elsewhere.
fn plain(mut row: Row) -> Row {
    row.parts.retain(|part| part.standing == Standing::InOrder);
    for part in &mut row.parts {
        if let PartBody::Blob { media_type, bytes, .. } = &part.body {
            part.body = PartBody::text(format!("[{media_type}, {bytes} bytes]"));
        }
    }
    row
}

/// The tools of a session that has just begun.
pub(super) struct Desk {
    tools: BuiltinTools,
}

impl Desk {
    fn new(home: Home, env: Arc<dyn Env>, cwd: std::path::PathBuf) -> Self {
        let tools = BuiltinTools::new(ToolContext {
            home,
            config: Arc::new(Config::default()),
            cwd,
            session: None,
            platform: "cli".to_owned(),
            sources: TurnSources::default(),
            approver: Arc::new(DenyAll),
            env,
            vars: Arc::new(ProcessVars::new()),
        });
        Self { tools }
    }

    /// One search. With `session` the call of the Recovery block, else over all sessions. Tool
    /// output is searched too: who asks cannot know where the value came from.
    pub(super) async fn search(
        &self,
        query: &str,
        session: Option<&str>,
    ) -> Result<String, LabError> {
        let mut arguments = json!({"query": query, "role_filter": "user,assistant,tool"});
        if let Some(session) = session {
            arguments["session_id"] = Value::from(session);
        }
        let call = ToolCall {
            id: "exam".into(),
            name: "session_search".into(),
            arguments: arguments.to_string().into(),
        };
        let outcome = self.tools.call(&call, &Quiet).await;
        if outcome.status != hermes_core::RowStatus::Complete {
            return Err(LabError::Search { query: query.to_owned(), why: outcome.text });
        }
        Ok(outcome.text)
    }
}

/// The session that the Recovery block of a capsule names in its first call.
pub(super) fn session_of(capsule: &str) -> Option<&str> {
    let (_, rest) =
        capsule.split_once("session_search(query=\"2 to 5 keywords\", session_id=\"")?;
    Some(rest.split_once('"')?.0)
}

/// The messages in a search's answer, one text after the other.
pub(super) fn found_texts(answer: &str) -> String {
    let mut out = String::new();
    if let Ok(value) = serde_json::from_str::<Value>(answer) {
        gather(&value["results"], &mut out);
    }
    out
}

fn gather(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
