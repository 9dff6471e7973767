//! `write_file`: a whole file, and how every tool puts bytes into one.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::PoisonError;

use hermes_core::{Digest, ToolSink};
use hermes_home::fsio;

use super::read_file::regular;
use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome, touching};
use crate::paths::Located;
use crate::reads::Unseen;
use crate::textfile::{self, Content, Encoding};

pub(super) const TOOL: Tool = Tool {
    name: "write_file",
    json: concat!(
        r#"{"type":"function","function":{"name":"write_file","description":"#,
        r#""Write a whole file, folders included. Refused for an existing file that was not read whole or changed since; use patch for small changes.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""path":{"type":"string"},"content":{"type":"string"}},"#,
        r#""required":["path","content"]}}}"#,
    ),
    params: &[Param::required("path", Kind::Text), Param::required("content", Kind::Text)],
    offered: |_| true,
    run,
};

fn run<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    // Without a pause, and not on another thread: once begun, a write is never given up half-way.
    Box::pin(async move {
        match bench.paths.locate(args.need("path")) {
            Ok(at) => {
                let done = match bench.may_write(&at).await {
                    Ok(()) => write(bench, &at, args.need("content")),
                    Err(why) => Err(why),
                };
                touching(outcome(done.map_err(|why| format!("write_file: {why}"))), &at.written)
            }
            Err(why) => outcome(Err(format!("write_file: {why}"))),
        }
    })
}

fn write(bench: &Workbench, at: &Located, content: &str) -> Result<String, String> {
    let shown = &at.shown;
    if let Some(why) = bench.paths.write_refusal(at) {
        return Err(format!("{shown} may not be written: {why}"));
    }
    if let Some(why) = bench.memory_refusal(at, content) {
        return Err(why);
    }
    let turn = bench.locks.of(&at.real);
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let _others = bench.other_writers(&at.real)?;
    let before = current(at)?;
    let (stored, notes) = in_style_of(before.as_deref(), content);
    let after = Digest::of(&stored);
    if let Some(bytes) = &before {
        let now = Digest::of(bytes);
        if now == after {
            bench.reads.wrote(&at.real, after);
            return Ok(format!("{shown} already has exactly this content; nothing was written"));
        }
        bench.reads.check(&at.real, now).map_err(|unseen| match unseen {
            Unseen::Never => format!(
                "{shown} exists and was not read in this session; hint: read it first, or use patch"
            ),
            Unseen::Part(lines) => format!(
                "only the first {lines} lines of {shown} were read; hint: read the rest first, or \
                 use patch"
            ),
            Unseen::Changed => {
                format!("{shown} changed since it was read; hint: read it again, then decide")
            }
        })?;
    }
    put(bench, at, &stored)?;
    bench.reads.wrote(&at.real, after);
    let lines = content.lines().count();
    let verb = if before.is_some() { "replaced" } else { "created" };
    let mut text = format!("{verb} {shown}: {} bytes, {lines} lines", stored.len());
    for note in notes {
        let _ = write!(text, "\n[{note}]");
    }
    let before = before.map_or_else(|| Digest::of(""), Digest::of);
    if let Some(receipt) = bench.receipt(at, before, after) {
        text.push('\n');
        text.push_str(&receipt);
    }
    Ok(text)
}

/// The content in the encoding and line ends of the file that it replaces, which the model does
/// not see in what it reads; and what to say about it.
fn in_style_of(before: Option<&[u8]>, content: &str) -> (Vec<u8>, Vec<String>) {
    let plain = content.as_bytes().to_vec();
    let Some(Content::Text { text: old, encoding }) = before.map(textfile::decode) else {
        return (plain, Vec::new());
    };
    let mut notes = Vec::new();
    let breaks = old.matches('\n').count();
    let only_crlf = breaks > 0 && old.matches("\r\n").count() == breaks;
    let text = if only_crlf && content.contains('\n') && !content.contains("\r\n") {
        notes.push("line ends: CRLF, as before".to_owned());
        content.replace('\n', "\r\n")
    } else {
        content.to_owned()
    };
    if encoding == Encoding::Utf8 {
        return (text.into_bytes(), notes);
    }
    match textfile::encode(&text, encoding) {
        Ok(bytes) => {
            notes.extend(encoding.note().map(|note| note.replace("kept by patch", "as before")));
            (bytes, notes)
        }
        Err(why) => {
            notes.push(format!("encoding: now UTF-8, because {why}"));
            (text.into_bytes(), notes)
        }
    }
}

/// The bytes of the file as it stands; None if there is none.
pub(super) fn current(at: &Located) -> Result<Option<Vec<u8>>, String> {
    match std::fs::symlink_metadata(&at.real) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", at.shown)),
        Ok(_) => {}
    }
    let meta = regular(at)?;
    if meta.len() > MAX_EDIT_BYTES {
        return Err(format!(
            "{} has {} bytes, more than the {MAX_EDIT_BYTES} that can be edited; hint: use a command",
            at.shown,
            meta.len()
        ));
    }
    std::fs::read(&at.real).map(Some).map_err(|e| format!("{}: {e}", at.shown))
}

/// The largest file that is replaced or edited.
const MAX_EDIT_BYTES: u64 = 64 << 20;

/// Puts bytes into the file: all of them or none, its permissions kept.
pub(super) fn put(bench: &Workbench, at: &Located, bytes: &[u8]) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{} could not be written: {e}", at.shown);
    if let Some(folder) = at.real.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    fsio::write_atomic(&at.real, bytes, bench.privacy(at)).map_err(failed)
}
