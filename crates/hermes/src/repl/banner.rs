//! What the person sees first: where the conversation works, with which model, what was loaded
//! into its prompt and what was not, and the last exchanges of a resumed session.

use std::path::{Path, PathBuf};

use hermes_agent::{Conversation, Services};
use hermes_context::skills::{self, Gate};
use hermes_core::{
    Block, Origin, PartBody, Role, Row, RowStatus, Source, Standing, Verdict, ViewRow, fold_view,
};

use crate::out::{self, Paint, ellipsis};

/// Prints the banner.
pub fn print(services: &Services, conversation: &Conversation) {
    let paint = Paint::stderr();
    let version = env!("CARGO_PKG_VERSION");
    out::note(format!(
        "{} {}",
        paint.bold(&format!("hermes {version}")),
        paint.dim(&format!("session {}", conversation.id()))
    ));
    let mut lines = vec![
        ("folder", folder_line(conversation)),
        ("model", model_line(services, conversation)),
        ("loaded", loaded_line(services, conversation)),
    ];
    lines.extend(left_out(conversation).into_iter().map(|text| ("", paint.yellow(&text))));
    for (name, text) in lines {
        out::note(format!("  {} {text}", paint.dim(&format!("{name:<7}"))));
    }
    out::note(paint.dim("  /help lists commands and keys; Ctrl-D leaves"));
}

fn folder_line(conversation: &Conversation) -> String {
    let workspace = conversation.workspace();
    let cwd = workspace.cwd.display();
    match (&workspace.git_root, &workspace.git_branch) {
        (None, _) => format!("{cwd} (no git)"),
        (Some(root), branch) => {
            let branch = branch.as_ref().map(|name| format!(", branch {name}")).unwrap_or_default();
            if *root == workspace.cwd {
                format!("{cwd} (git root{branch})")
            } else {
                format!("{cwd} (git root {}{branch})", root.display())
            }
        }
    }
}

/// The model in words: who answers, where, and who takes over.
pub fn model_line(services: &Services, conversation: &Conversation) -> String {
    let model = conversation.model();
    if services.is_rehearsal() && model.provider == "rehearsal" {
        return "rehearsal: no language model, fixed replies only (hint: hermes setup)".to_owned();
    }
    let window = match services.context_window {
        Some(window) => format!(", window {window} tokens"),
        None => String::new(),
    };
    let others: Vec<String> = services
        .endpoints
        .iter()
        .skip(1)
        .map(|endpoint| format!("{} ({})", endpoint.model, endpoint.provider))
        .collect();
    let then =
        if others.is_empty() { String::new() } else { format!("; then {}", others.join(", ")) };
    format!("{}, provider {}{window}{then}", model.model, model.provider)
}

/// The person's own sources that are in the prompt. Built-in text is not listed.
fn loaded_line(services: &Services, conversation: &Conversation) -> String {
    let cwd = &conversation.workspace().cwd;
    let mut names: Vec<String> = Vec::new();
    for block in conversation.blocks() {
        if block.id == "skills" {
            if block.verdict.is_in() {
                names.push(format!("{} skills", skill_count(services, conversation)));
            }
        } else if let (Source::File { path }, true) = (&block.source, block.verdict.is_in()) {
            names.push(format!("{}{}", short(path, cwd), remark(&block.verdict)));
        }
    }
    names.push(format!("{} tools", conversation.tools().defs.len()));
    names.join(", ")
}

/// How many skills the model is offered, counted anew: the snapshot holds their text alone.
fn skill_count(services: &Services, conversation: &Conversation) -> usize {
    let roots = skills::roots(&services.home, &services.config, conversation.workspace());
    let found = skills::discover(&roots, Some(&skills::cache_path(&services.home)));
    let tools: Vec<&str> = conversation.tools().defs.iter().map(|def| &*def.name).collect();
    let gate = Gate {
        os: std::env::consts::OS,
        platform: "cli",
        tools: &tools,
        disabled: &services.config.skills.disabled,
    };
    found.skills.iter().filter(|skill| skill.offered(&gate).is_ok()).count()
}

fn remark(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Truncated { kept, total } => format!(" (cut: {kept} of {total} characters)"),
        Verdict::Flagged { spans } => {
            let why = spans.first().map(|(_, _, why)| format!(": {why}")).unwrap_or_default();
            format!(" ({} suspicious passages taken out{why})", spans.len())
        }
        _ => String::new(),
    }
}

/// Sources that were found and did not get in, each with its reason.
fn left_out(conversation: &Conversation) -> Vec<String> {
    let cwd = &conversation.workspace().cwd;
    let name = |block: &Block| match &block.source {
        Source::File { path } => short(path, cwd),
        _ => block.id.clone(),
    };
    conversation
        .blocks()
        .iter()
        .filter_map(|block| match &block.verdict {
            Verdict::Shadowed { by } => {
                Some(format!("{} not loaded: {} comes first", name(block), short(by, cwd)))
            }
            Verdict::Blocked { why } => Some(format!("{} not loaded: {why}", name(block))),
            _ => None,
        })
        .collect()
}

/// A path as the person knows it: below the working directory without it.
fn short(path: &str, cwd: &Path) -> String {
    let path = Path::new(path);
    if let Ok(inside) = path.strip_prefix(cwd) {
        return inside.display().to_string();
    }
    // The last two parts tell `memories/USER.md` and `parent/AGENTS.md` apart.
    let parts: Vec<_> = path.components().rev().take(2).collect();
    parts.into_iter().rev().collect::<PathBuf>().display().to_string()
}

/// Prints the last exchanges of a resumed session, cut.
///
/// # Errors
/// If the history cannot be read.
pub fn recap(services: &Services, conversation: &Conversation) -> anyhow::Result<()> {
    let display = &services.config.display;
    if !conversation.is_stored() || display.resume_display == "minimal" {
        return Ok(());
    }
    let history = services.store.history(conversation.id())?;
    let Some(head) = history.head else { return Ok(()) };
    let view = fold_view(&history.rows, &history.generations, head, history.last_seq)?;
    let lines = recap_lines(
        &view.rows,
        display.resume_exchanges,
        (display.resume_max_user_chars, display.resume_max_assistant_chars),
        Paint::stdout(),
    );
    for line in lines {
        out::line(line)?;
    }
    Ok(())
}

/// What a resumed session's end says of how its last turn ended; None if it has its answer.
pub fn broken_off(rows: &[Row]) -> Option<String> {
    let visible = || rows.iter().filter(|row| row.standing == Standing::InOrder);
    let last = visible().next_back()?;
    let at = last.created_at;
    let asked = visible().rev().find(|row| row.role == Role::Assistant)?;
    let calls = asked.parts.iter().filter_map(|part| match &part.body {
        PartBody::ToolCall { id, name, .. } => Some((id, name)),
        _ => None,
    });
    let open: Vec<&str> = calls
        .filter(|(id, _)| {
            let answers = |row: &&Row| row.tool.as_ref().is_some_and(|tool| tool.call_id == **id);
            !visible().any(|row| answers(&row))
        })
        .map(|(_, name)| &**name)
        .collect();
    if !open.is_empty() && last.role != Role::User {
        return Some(format!(
            "note: the last turn broke off at {at}; the result of {} is unknown",
            open.join(", ")
        ));
    }
    let unanswered = matches!(last.role, Role::Tool | Role::User);
    let stopped = last.status == RowStatus::Interrupted;
    (unanswered || stopped).then(|| format!("note: the last turn broke off at {at}"))
}

fn recap_lines(
    rows: &[ViewRow],
    exchanges: usize,
    (user, assistant): (usize, usize),
    paint: Paint,
) -> Vec<String> {
    let said: Vec<_> = rows
        .iter()
        .map(|row| &row.row)
        .filter_map(|row| match row.role {
            Role::User => Some((row, row.text_of(Origin::User))),
            Role::Assistant => Some((row, row.answer())),
            Role::System | Role::Tool => None,
        })
        .filter(|(_, text)| !text.trim().is_empty())
        .collect();
    let starts: Vec<usize> = said
        .iter()
        .enumerate()
        .filter(|(_, (row, _))| row.role == Role::User)
        .map(|(at, _)| at)
        .collect();
    let from = starts.len().saturating_sub(exchanges);
    let Some(first) = starts.get(from) else { return Vec::new() };
    let mut lines = Vec::new();
    if from > 0 {
        lines.push(paint.dim(&format!("({from} earlier exchanges)")));
    }
    for (row, text) in &said[*first..] {
        if row.role == Role::User {
            lines.push(paint.dim(&format!("> {}", ellipsis(text, user))));
        } else {
            let stopped = if row.status == RowStatus::Interrupted { " (stopped)" } else { "" };
            lines.push(paint.dim(&format!("{}{stopped}", ellipsis(text, assistant))));
        }
    }
    lines
}
