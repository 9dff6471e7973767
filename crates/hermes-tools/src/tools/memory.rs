//! `memory`: lasting notes and the profile of the person. The rules of matching and of limits are
//! those of `hermes_context::memory`; this is their surface for the model.

use std::fmt::Write as _;
use std::sync::Arc;

use hermes_context::memory::{Applied, Author, Change, Edit, MemoryFile, MemoryKind};
use hermes_core::ToolSink;

use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome, touching};

pub(super) const TOOL: Tool = Tool {
    name: "memory",
    json: concat!(
        r#"{"type":"function","function":{"name":"memory","description":"#,
        r#""Keep lasting notes (target memory) or facts about the person (target user). replace changes only the text that matches old_text; remove takes out the entry that old_text names, for an entry of several lines give all of it. The prompt keeps its copy until the session, a compaction or /refresh renews it.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""action":{"type":"string","enum":["add","replace","remove"]},"#,
        r#""target":{"type":"string","enum":["memory","user"]},"#,
        r#""content":{"type":"string"},"#,
        r#""old_text":{"type":"string","description":"an entry, or a part that only one entry has"}},"#,
        r#""required":["action","target"]}}}"#,
    ),
    params: &[
        Param::required("action", Kind::OneOf(&["add", "replace", "remove"])),
        Param::required("target", Kind::OneOf(&["memory", "user"])),
        Param::optional("content", Kind::Text),
        Param::optional("old_text", Kind::Text),
    ],
    offered: |bench| bench.config.memory.memory_enabled || bench.config.memory.user_profile_enabled,
    run,
};

fn run<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(async move {
        let kind = match args.need("target") {
            "user" => MemoryKind::User,
            _ => MemoryKind::Memory,
        };
        let file = MemoryFile::of(&bench.home, &bench.config, kind);
        let done = change(bench, &file, &args).await;
        touching(outcome(done.map_err(|why| format!("memory: {why}"))), &file.path)
    })
}

async fn change(bench: &Workbench, file: &MemoryFile, args: &Args) -> Result<String, String> {
    let settings = &bench.config.memory;
    let (on, key) = match file.kind {
        MemoryKind::Memory => (settings.memory_enabled, "memory.memory_enabled"),
        MemoryKind::User => (settings.user_profile_enabled, "memory.user_profile_enabled"),
    };
    if !on {
        return Err(format!("this target is switched off ({key}); hint: use the other one"));
    }
    let edit = edit(args)?;
    if settings.write_approval {
        let asked = format!("memory {}: {}", file.kind.id(), described(&edit));
        bench.guard.ask(asked, bench.paths.cwd(), "memory.write_approval is on").await.map_err(
            |why| format!("not written: {why}; hint: a person can turn memory.write_approval off"),
        )?;
    }
    let source = match &edit {
        Edit::Add { text } | Edit::Replace { new_text: text, .. } => bench.sources.of(text),
        Edit::Remove { .. } => None,
    };
    let session = bench.session.clone();
    let author = Author { name: "model".to_owned(), session, source: source.clone() };
    let applied = file.apply(&[edit], &author, bench.env.now()).map_err(|e| e.to_string())?;
    let mut text = report(&applied);
    if let Some(source) = source.filter(|_| applied.receipt.changed) {
        let _ = writeln!(
            text,
            "[kept with its source: {source}; not said by the person. The person was told.]"
        );
    }
    Ok(text)
}

fn edit(args: &Args) -> Result<Edit, String> {
    let action = args.need("action");
    let part = |name: &str| {
        args.text(name)
            .map(str::to_owned)
            .ok_or_else(|| format!("{action} needs the parameter \"{name}\""))
    };
    let surplus = |name: &str| match args.text(name) {
        Some(text) if !text.is_empty() => {
            Err(format!("{action} takes no \"{name}\", so nothing was done"))
        }
        _ => Ok(()),
    };
    Ok(match action {
        "add" => {
            surplus("old_text")?;
            Edit::Add { text: part("content")? }
        }
        "remove" => {
            surplus("content")?;
            Edit::Remove { old_text: part("old_text")? }
        }
        _ => Edit::Replace { old_text: part("old_text")?, new_text: part("content")? },
    })
}

fn described(edit: &Edit) -> String {
    match edit {
        Edit::Add { text } => format!("add \"{text}\""),
        Edit::Replace { old_text, new_text } => format!("replace \"{old_text}\" by \"{new_text}\""),
        Edit::Remove { old_text } => format!("remove \"{old_text}\""),
    }
}

/// What was done, then the receipt.
fn report(applied: &Applied) -> String {
    let mut out = String::new();
    for change in &applied.changes {
        // Writing to a String does not fail.
        let _ = match change {
            Change::Added { text } => writeln!(out, "added: {text}"),
            Change::AlreadyThere { text } => writeln!(out, "already there: {text}"),
            Change::Replaced { before, after } => {
                writeln!(out, "replaced: {before}\nnow: {after}")
            }
            Change::Removed { text } => writeln!(out, "removed: {text}"),
        };
    }
    let _ = writeln!(
        out,
        "[{} entries, {} of {} characters]\n{}",
        applied.entries.len(),
        applied.used,
        applied.limit,
        applied.receipt
    );
    for warning in &applied.warnings {
        let _ = writeln!(out, "[{warning}]");
    }
    out
}
