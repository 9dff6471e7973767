//! `hermes internal`: tables for the guide, sessions for benchmarks.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use hermes_core::{
    Cause, Digest, Generation, GenerationNo, Origin, Part, PartBody, Role, Row, RowStatus, Seq,
    SessionId, Standing, Timestamp, ToolLink, ToolSet, TurnNo, slot,
};
use hermes_store::{OpenMode, Record, SessionInit};

use crate::app::App;
use crate::cli::{Cli, Internal, Talk};
use crate::exit::{Exit, Failure, TABLE};
use crate::out;

/// Carries out one of the commands.
///
/// # Errors
/// If the table is unknown or the store cannot be written.
pub fn run(talk: Talk, command: Internal) -> anyhow::Result<Exit> {
    match command {
        Internal::Tables { name } => out::raw(table(&name)?)?,
        Internal::SeedSession { messages } => seed(&App::new(talk)?, messages)?,
    }
    Ok(Exit::Ok)
}

fn table(name: &str) -> anyhow::Result<String> {
    match name {
        "exit-codes" => Ok(exit_codes()),
        "sources" => Ok(hermes_context::sources_table()),
        "commands" => Ok(commands()),
        "slash-commands" => Ok(crate::repl::commands::markdown()),
        _ => Err(Failure::new(
            Exit::NotFound,
            format!(
                "there is no table \"{name}\"; hint: exit-codes, sources, commands, slash-commands"
            ),
        )
        .into()),
    }
}

fn exit_codes() -> String {
    let mut text = String::from("| code | meaning |\n|---|---|\n");
    for (_, code, meaning) in TABLE {
        writeln!(text, "| {code} | {meaning} |").ok();
    }
    text
}

fn commands() -> String {
    fn add(text: &mut String, command: &clap::Command, prefix: &str) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = format!("{prefix} {}", sub.get_name());
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            writeln!(text, "| `{name}` | {about} |").ok();
            add(text, sub, &name);
        }
    }
    let mut text = String::from("| command | what it does |\n|---|---|\n");
    add(&mut text, &Cli::command(), "hermes");
    text
}

/// Stores a session of `messages` messages in the shape of a working conversation: a question, a
/// tool call, its result, an answer. Prints its id.
fn seed(app: &App, messages: usize) -> anyhow::Result<()> {
    let store = app.store(OpenMode::ReadWrite)?;
    let id = SessionId::generate(&*app.env);
    let now = app.env.now();
    let prompt = "You are a seeded session.";
    let tools = ToolSet::new(Vec::new());
    let first = Generation {
        n: GenerationNo(0),
        parent: None,
        cause: Cause::Start,
        created_at: now,
        prompt: Digest::of(prompt),
        tools: tools.digest,
        ops: Vec::new(),
    };
    let mut batch = vec![
        Record::Text { text: prompt.into() },
        Record::Text { text: tools.json().into() },
        Record::Generation(first),
    ];
    batch.extend((0..messages).map(|at| Record::Row(seeded_row(at, now))));
    let init = SessionInit {
        id: id.clone(),
        source: "cli".to_owned(),
        lane: None,
        cwd: None,
        git_root: None,
        git_branch: None,
        model: "seed".to_owned(),
        provider: "seed".to_owned(),
        base_url: None,
        parent: None,
        title: None,
        started_at: now,
    };
    store.create_session(init, batch)?.release()?;
    store.close();
    out::line(id.as_str())
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
