//! `delegate_task`: a task for a child session with a prompt of its own.
//!
//! A child gets the goal, the context that was written for it, and of its parent the model, the
//! working directory with its project files, and the tools; not the transcript, memory, user
//! profile, identity file or approvals. Its prompt's manifest records that, source by source.
//!
//! Invariants: a child delegates nothing; every child that was asked for has a report, and one that
//! did not finish says so; a child's rows and requests are in the store like any session's.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hermes_core::{
    Event, EventSink, Origin, Row, RowStatus, Seq, SessionId, ToolCall, ToolDef, ToolOutcome,
    ToolRegistry, ToolSink, TurnOutcome,
};
use hermes_tools::DenyAll;
use serde::Deserialize;

use crate::conversation::{ChildOf, Conversation, StartOptions};
use crate::turn::TurnReport;
use crate::{AgentError, Cancel, Services, UserInput};

/// The tool's name.
pub(crate) const NAME: &str = "delegate_task";

/// Its definition.
const JSON: &str = concat!(
    r#"{"type":"function","function":{"name":"delegate_task","description":"#,
    r#""Hand tasks to children that work at the same time and report back. A child knows only goal and context, nothing of this conversation.","#,
    r#""parameters":{"type":"object","properties":{"tasks":{"type":"array","items":{"type":"object","properties":{"#,
    r#""goal":{"type":"string"},"#,
    r#""context":{"type":"string","description":"all that the child must know: paths, facts, what the report must contain"}},"#,
    r#""required":["goal"]}}},"required":["tasks"]}}}"#,
);

/// Tools that a child has not.
const WITHHELD: [&str; 2] = [NAME, "memory"];

/// Sources of the parent's prompt that a child's prompt is built without.
pub(crate) const NOT_INHERITED: [&str; 3] = ["identity", "memory", "user"];

/// Why, in the child's manifest.
pub(crate) const NOT_INHERITED_WHY: &str = "not inherited by a delegated task";

/// Rows of a child that its report names.
const NAMED_ROWS: usize = 30;

/// Shortest goal, in characters: less is a placeholder.
const SHORTEST_GOAL: usize = 8;

pub(crate) fn definition() -> ToolDef {
    ToolDef { name: NAME.into(), json: JSON.into() }
}

#[derive(Deserialize)]
struct Arguments {
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    goal: String,
    #[serde(default)]
    context: String,
}

/// What came of one child.
struct Ended {
    session: Option<SessionId>,
    rows: Vec<Row>,
    result: Result<TurnReport, AgentError>,
    timed_out: bool,
}

type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

impl Conversation {
    /// Carries out one call. Stopping the parent's turn stops the children; what they did is
    /// stored and reported.
    pub(crate) fn delegate<'a>(
        &'a self,
        services: &'a Services,
        call: &'a ToolCall,
        sink: &'a dyn EventSink,
        cancel: &'a Cancel,
    ) -> Local<'a, ToolOutcome> {
        Box::pin(async move {
            let tasks = match self.tasks(services, &call.arguments) {
                Ok(tasks) => tasks,
                Err(why) => return ToolOutcome::failed(format!("delegate_task: {why}")),
            };
            let children = tasks.iter().enumerate().map(|(index, task)| {
                let heard = Heard { sink, call_id: &call.id, number: index + 1 };
                self.child(services, call, task, heard, cancel)
            });
            let ended = join_all(children).await;
            self.report(services, &tasks, &ended)
        })
    }

    fn tasks(&self, services: &Services, arguments: &str) -> Result<Vec<Task>, String> {
        if self.options.child_of.is_some() {
            return Err("a delegated task cannot delegate further".to_owned());
        }
        let Arguments { tasks } = serde_json::from_str(arguments).map_err(|e| e.to_string())?;
        let most = services.config.delegation.max_concurrent_children.max(1);
        match tasks.len() {
            0 => return Err("no task was given".to_owned()),
            n if n > most => {
                return Err(format!(
                    "{n} tasks were given, at most {most} run at once; hint: fewer"
                ));
            }
            _ => {}
        }
        for (number, task) in (1..).zip(&tasks) {
            if task.goal.trim().chars().count() < SHORTEST_GOAL || task.goal.contains("{{") {
                return Err(format!(
                    "the goal of task {number} is a placeholder; hint: say what is to be done and \
                     what the report must contain"
                ));
            }
        }
        Ok(tasks)
    }

    /// One child from start to end.
    async fn child(
        &self,
        services: &Services,
        call: &ToolCall,
        task: &Task,
        heard: Heard<'_>,
        cancel: &Cancel,
    ) -> Ended {
        let mut child = match Self::start(services, self.child_options(services, call, task)) {
            Ok(child) => child,
            Err(error) => {
                return Ended {
                    session: None,
                    rows: Vec::new(),
                    result: Err(error),
                    timed_out: false,
                };
            }
        };
        let began = self.tell_child(services, child.id(), task.goal.trim()).await;
        let stop = Cancel::default();
        let seconds = services.config.delegation.child_timeout_seconds;
        let mut timed_out = false;
        let result = {
            let turn: Local<'_, _> =
                Box::pin(child.turn(services, UserInput::text(task.goal.trim()), &heard, &stop));
            tokio::pin!(turn);
            let limit = tokio::time::sleep(Duration::from_secs(seconds.max(1)));
            tokio::pin!(limit);
            loop {
                tokio::select! {
                    result = &mut turn => break result,
                    () = cancel.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                    () = &mut limit, if seconds > 0 && !timed_out => {
                        timed_out = true;
                        stop.cancel();
                    }
                }
            }
        };
        let session = child.is_stored().then(|| child.id().clone());
        if let Err(error) = child.release() {
            tracing::warn!(session = %child.id(), %error, "a child's lease was not given back");
        }
        let ended = Ended { session, rows: child.rows().to_vec(), result, timed_out };
        let (status, summary) = outcome(&ended);
        let what = (status, summary.as_str(), &ended.rows[..]);
        self.tell_child_ended(services, child.id(), began, what).await;
        ended
    }

    fn child_options(&self, services: &Services, call: &ToolCall, task: &Task) -> StartOptions {
        let approver = if services.config.delegation.subagent_auto_approve {
            self.options.approver.clone()
        } else {
            Arc::new(DenyAll)
        };
        let mut options =
            StartOptions::new(self.workspace().clone(), "subagent".to_owned(), approver);
        options.caller = Some(instructions(&task.context, &self.id));
        options.tools.clone_from(&self.options.tools);
        options.child_of = Some(ChildOf {
            parent: self.id.clone(),
            call_id: call.id.clone(),
            call_limit: services.config.delegation.max_iterations.max(1),
        });
        options
    }

    fn report(&self, services: &Services, tasks: &[Task], ended: &[Ended]) -> ToolOutcome {
        let most = services.config.delegation.max_summary_chars.max(1000) / tasks.len().max(1);
        let mut text = String::new();
        let mut finished = 0;
        for (number, ended) in (1..).zip(ended) {
            let (word, answer) = outcome(ended);
            finished += usize::from(word == "completed");
            let _ = writeln!(text, "## Task {number}: {word}");
            if let Some(session) = &ended.session {
                let _ = writeln!(text, "{}", references(session, &ended.rows));
            }
            let _ = writeln!(text, "{}\n", shortened(&answer, most));
        }
        let _ = write!(text, "[{}]", self.inheritance());
        let status = if finished == ended.len() { RowStatus::Complete } else { RowStatus::Failed };
        ToolOutcome { status, ..ToolOutcome::ok(text) }
    }

    /// What the children got of this session, in one line; their prompts' manifests say it source
    /// by source.
    fn inheritance(&self) -> String {
        let names: Vec<&str> = self
            .tools
            .defs
            .iter()
            .map(|def| &*def.name)
            .filter(|name| !WITHHELD.contains(name))
            .collect();
        format!(
            "inherited: model {}, working directory, project files, skills index, tools {}; not \
             inherited: this conversation, memory, user profile, SOUL.md, approvals. `hermes \
             context CHILD` shows a child's prompt",
            self.model.model,
            names.join(", ")
        )
    }
}

/// The child's instructions, a block of its prompt.
fn instructions(context: &str, parent: &SessionId) -> String {
    let context = context.trim();
    let context = if context.is_empty() { "(none was given)" } else { context };
    format!(
        "# Delegated task\nYou are Hermes, working on one task that session {parent} handed to you. \
         You know nothing of that session but what is written here; nobody answers questions. Do \
         the task, then report: what you found or did, with paths and row or line numbers, what \
         you could not do, and what is uncertain.\n\n# Context of the task\n{context}"
    )
}

/// How a child ended, in a word, and its answer or why there is none.
fn outcome(ended: &Ended) -> (&'static str, String) {
    match &ended.result {
        Ok(report) => match &report.outcome {
            TurnOutcome::Answered => ("completed", report.answer.clone()),
            TurnOutcome::Interrupted if ended.timed_out => (
                "timed out",
                "It was stopped because it took too long. What it had done is in its rows."
                    .to_owned(),
            ),
            TurnOutcome::Interrupted => (
                "interrupted",
                "It was stopped before it had finished. What it had done is in its rows."
                    .to_owned(),
            ),
            TurnOutcome::Failed(why) => {
                ("failed", format!("It died before it had finished: {why}"))
            }
            TurnOutcome::LimitReached(calls) => (
                "limit reached",
                format!("It was ended after {calls} model calls without a final report."),
            ),
        },
        Err(error) => ("failed", format!("It died before it had finished: {error}")),
    }
}

/// Where the child's transcript is: its session and rows, those of its tools by name.
fn references(session: &SessionId, rows: &[Row]) -> String {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return format!("child session {session}, no rows");
    };
    let mut text = format!("child session {session}, rows r{} to r{}", first.seq, last.seq);
    if last.parts.iter().any(|part| part.origin == Origin::Model) {
        let _ = write!(text, ", report in r{}", last.seq);
    }
    let calls: Vec<(Seq, &str)> = rows
        .iter()
        .filter_map(|row| Some((row.seq, &*row.tool.as_ref()?.name)))
        .take(NAMED_ROWS)
        .collect();
    if !calls.is_empty() {
        let calls: Vec<String> = calls.iter().map(|(seq, name)| format!("r{seq} {name}")).collect();
        let _ = write!(text, "\nits tool results: {}", calls.join(", "));
    }
    text
}

/// A report cut in the middle where it is too long.
fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most * 3 / 4).collect();
    let tail: String = text.chars().skip(count - most / 4).collect();
    let left_out = count - head.chars().count() - tail.chars().count();
    format!("{head}\n[... {left_out} characters are only in the child's report row ...]\n{tail}")
}

/// The tools of a child: those of its parent without the ones that are withheld.
pub(crate) struct ChildTools(pub(crate) Arc<dyn ToolRegistry>);

impl ToolRegistry for ChildTools {
    fn definitions(&self) -> Vec<ToolDef> {
        let withheld: BTreeSet<&str> = WITHHELD.into_iter().collect();
        let mut defs = self.0.definitions();
        defs.retain(|def| !withheld.contains(&*def.name));
        defs
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        sink: &'a dyn ToolSink,
    ) -> Pin<Box<dyn Future<Output = ToolOutcome> + Send + 'a>> {
        if WITHHELD.contains(&&*call.name) {
            let text = format!("{} is not for delegated tasks", call.name);
            return Box::pin(async move { ToolOutcome::failed(text) });
        }
        self.0.call(call, sink)
    }
}

/// What the person sees of a child: its tool calls and notices, as output of the parent's call.
struct Heard<'a> {
    sink: &'a dyn EventSink,
    call_id: &'a Arc<str>,
    number: usize,
}

impl EventSink for Heard<'_> {
    fn event(&self, event: Event) {
        let text = match event {
            Event::ToolStarted { name, summary, .. } => format!("{name} {summary}"),
            Event::Notice { text, .. } => text,
            Event::Retrying { why, .. } => format!("asking again: {why}"),
            _ => return,
        };
        let text = format!("[task {}] {text}\n", self.number);
        self.sink.event(Event::ToolOutput { call_id: self.call_id.clone(), text });
    }
}
