//! `patch`: one exact text for another.
//!
//! The rule: `old` must occur exactly once (or `replace_all`), character for character. The only
//! freedom is the line ends: in a file with CRLF, `old` and `new` may be written with LF, and the
//! file keeps its own. Anything else changes nothing and shows the nearest candidates. The same
//! edit again is recognised and not made twice.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use hermes_core::{Digest, ToolSink};
use similar::TextDiff;

use super::candidates;
use super::write_file::{current, put};
use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome, touching};
use crate::paths::Located;
use crate::textfile::{self, Content};

pub(super) const TOOL: Tool = Tool {
    name: "patch",
    json: concat!(
        r#"{"type":"function","function":{"name":"patch","description":"#,
        r#""Replace one exact text in a file. old must occur exactly once, spaces and indentation included; give enough lines around it. Returns the diff.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"#,
        r#""replace_all":{"type":"boolean","description":"replace every occurrence"}},"#,
        r#""required":["path","old","new"]}}}"#,
    ),
    params: &[
        Param::required("path", Kind::Text),
        Param::required("old", Kind::Text),
        Param::required("new", Kind::Text),
        Param::optional("replace_all", Kind::Flag),
    ],
    offered: |_| true,
    run,
};

/// Characters of a diff that are shown.
const MAX_DIFF_CHARS: usize = 12_000;
/// Places that are listed in an error.
const MAX_PLACES: usize = 10;

fn run<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    // Without a pause, and not on another thread: once begun, a write is never given up half-way.
    Box::pin(async move {
        match bench.paths.locate(args.need("path")) {
            Ok(at) => {
                let done = match bench.may_write(&at).await {
                    Ok(()) => patch(bench, &at, &args),
                    Err(why) => Err(why),
                };
                touching(outcome(done.map_err(|why| format!("patch: {why}"))), &at.written)
            }
            Err(why) => outcome(Err(format!("patch: {why}"))),
        }
    })
}

fn patch(bench: &Workbench, at: &Located, args: &Args) -> Result<String, String> {
    let (old, new, all) = (args.need("old"), args.need("new"), args.flag("replace_all"));
    let shown = &at.shown;
    if let Some(why) = bench.paths.write_refusal(at) {
        return Err(format!("{shown} may not be written: {why}"));
    }
    if let Some(why) = bench.memory_refusal(at, new) {
        return Err(why);
    }
    if old.is_empty() {
        return Err("old is empty; hint: give the text to replace, or use write_file".to_owned());
    }
    if old == new {
        return Err("old and new are the same; nothing was changed".to_owned());
    }
    let turn = bench.locks.of(&at.real);
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let _others = bench.other_writers(&at.real)?;
    let Some(bytes) = current(at)? else {
        return Err(format!("{shown} does not exist; hint: create it with write_file"));
    };
    let (text, encoding) = match textfile::decode(&bytes) {
        Content::Text { text, encoding } => (text, encoding),
        Content::Binary(kind) => {
            return Err(format!("{shown} is no text: {kind}, {} bytes", bytes.len()));
        }
    };
    let id = edit_id(at, old, new, all);
    let repeated = bench.edits().contains(&id);

    let edit = Edit::find(&text, old, new);
    if edit.places.is_empty() {
        let with_crlf = new.replace("\r\n", "\n").replace('\n', "\r\n");
        let new_at = text.find(new).or_else(|| text.find(&with_crlf));
        return match (repeated, new_at) {
            (true, _) if new.is_empty() => Ok(already(shown, "it is gone")),
            (true, Some(place)) => {
                Ok(already(shown, &format!("it is at line {}", line_of(&text, place))))
            }
            (_, found) => {
                Err(not_found(shown, &text, &edit, found.filter(|_| !new.trim().is_empty())))
            }
        };
    }
    let fresh: Vec<usize> =
        edit.places.iter().copied().filter(|place| !is_done(&text, *place, &edit)).collect();
    if fresh.is_empty() {
        let line = edit.places.first().map_or(0, |place| line_of(&text, *place));
        return Ok(already(shown, &format!("the new text is at line {line}")));
    }
    if !all && edit.places.len() > 1 {
        return Err(ambiguous(shown, &text, &edit.places));
    }
    let chosen = without_overlaps(&fresh, edit.old.len());
    if all && chosen.len() != fresh.len() {
        return Err(format!(
            "occurrences of old overlap in {shown}, so it is not clear which to replace; hint: \
             give a longer text"
        ));
    }

    let after = replaced(&text, &chosen, &edit);
    let stored = textfile::encode(&after, encoding).map_err(|why| format!("{shown}: {why}"))?;
    put(bench, at, &stored)?;
    let (before, now) = (Digest::of(&bytes), Digest::of(&stored));
    bench.reads.patched(&at.real, before, now);
    bench.edits().insert(id);

    let lines: Vec<String> =
        chosen.iter().take(MAX_PLACES).map(|place| line_of(&text, *place).to_string()).collect();
    let mut out = format!("patched {shown}: {} at line {}", times(chosen.len()), lines.join(", "));
    if chosen.len() > MAX_PLACES {
        out.push_str(", …");
    }
    out.push('\n');
    if let Some(note) = edit.note {
        let _ = writeln!(out, "[{note}]");
    }
    if let Some(receipt) = bench.receipt(at, before, now) {
        out.push_str(&receipt);
        out.push('\n');
    }
    out.push_str(&diff(shown, &text, &after));
    Ok(out)
}

/// What makes two edits the same.
fn edit_id(at: &Located, old: &str, new: &str, all: bool) -> Digest {
    let mut hasher = hermes_core::Hasher::default();
    for part in [at.real.as_os_str().as_encoded_bytes(), old.as_bytes(), new.as_bytes()] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update([u8::from(all)]);
    hasher.finish()
}

/// An edit in the file's own line ends, and where it applies.
struct Edit {
    old: String,
    new: String,
    places: Vec<usize>,
    note: Option<&'static str>,
}

impl Edit {
    /// As written; if that is nowhere, in the file's line ends.
    fn find(text: &str, old: &str, new: &str) -> Self {
        let exact = Self {
            old: old.to_owned(),
            new: in_line_ends_of(text, new, old),
            places: occurrences(text, old),
            note: None,
        };
        if !exact.places.is_empty() {
            return exact;
        }
        let (lf_old, lf_new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
        let forms = [
            (
                lf_old.replace('\n', "\r\n"),
                lf_new.replace('\n', "\r\n"),
                "matched with the file's CRLF line ends, which are kept",
            ),
            (lf_old, lf_new, "matched with the file's LF line ends, which are kept"),
        ];
        for (old, new, note) in forms {
            let places = occurrences(text, &old);
            if !places.is_empty() {
                return Self { old, new, places, note: Some(note) };
            }
        }
        exact
    }
}

/// `new` with the line ends of a file that has only CRLF, where `old` has no line end to tell.
fn in_line_ends_of(text: &str, new: &str, old: &str) -> String {
    let crlf = text.matches("\r\n").count();
    let only_crlf = crlf > 0 && crlf == text.matches('\n').count();
    if only_crlf && !old.contains('\n') && new.contains('\n') {
        new.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        new.to_owned()
    }
}

/// Every place where `old` starts, overlapping ones too.
fn occurrences(text: &str, old: &str) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| rest.find(old)) {
        let place = from + found;
        places.push(place);
        from = place + text.get(place..).and_then(|r| r.chars().next()).map_or(1, char::len_utf8);
    }
    places
}

/// Whether this occurrence of `old` is part of an occurrence of `new`, so that the edit would be
/// made on top of itself.
fn is_done(text: &str, place: usize, edit: &Edit) -> bool {
    occurrences(&edit.new, &edit.old).into_iter().any(|inside| {
        place
            .checked_sub(inside)
            .is_some_and(|start| text.get(start..).is_some_and(|rest| rest.starts_with(&edit.new)))
    })
}

fn without_overlaps(places: &[usize], length: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::with_capacity(places.len());
    for place in places {
        if chosen.last().is_none_or(|last| last + length <= *place) {
            chosen.push(*place);
        }
    }
    chosen
}

fn replaced(text: &str, places: &[usize], edit: &Edit) -> String {
    let mut out = String::with_capacity(text.len() + places.len() * edit.new.len());
    let mut from = 0;
    for place in places {
        out.push_str(text.get(from..*place).unwrap_or_default());
        out.push_str(&edit.new);
        from = place + edit.old.len();
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

fn line_of(text: &str, place: usize) -> usize {
    text.get(..place).unwrap_or_default().matches('\n').count() + 1
}

fn times(count: usize) -> String {
    if count == 1 { "1 replacement".to_owned() } else { format!("{count} replacements") }
}

fn already(shown: &str, where_it_is: &str) -> String {
    format!("already applied to {shown}: {where_it_is}; nothing was changed")
}

fn ambiguous(shown: &str, text: &str, places: &[usize]) -> String {
    let lines: Vec<String> =
        places.iter().take(MAX_PLACES).map(|place| line_of(text, *place).to_string()).collect();
    format!(
        "old has {} matches in {shown}, at lines {}{}; nothing was changed; hint: give more lines \
         around the right one, or set replace_all",
        places.len(),
        lines.join(", "),
        if places.len() > MAX_PLACES { ", …" } else { "" }
    )
}

fn not_found(shown: &str, text: &str, edit: &Edit, new_at: Option<usize>) -> String {
    let mut message = format!("old is not in {shown}; nothing was changed");
    if let Some(place) = new_at {
        let _ = write!(
            message,
            "; the new text is there at line {}, so it may have been applied before",
            line_of(text, place)
        );
    }
    let near = candidates::nearest(text, &edit.old);
    if near.is_empty() {
        message.push_str("; nothing in it is similar; hint: read the file again");
    } else {
        message.push_str("; nearest candidates:\n");
        message.push_str(&near);
        message.push_str("hint: copy old exactly from the file");
    }
    message
}

/// A unified diff, bounded.
fn diff(shown: &str, before: &str, after: &str) -> String {
    let text = TextDiff::configure()
        .timeout(std::time::Duration::from_millis(500))
        .diff_lines(before, after)
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{shown}"), &format!("b/{shown}"))
        .to_string();
    match text.char_indices().nth(MAX_DIFF_CHARS) {
        Some((at, _)) => {
            let kept = text.get(..at).unwrap_or(&text);
            let whole = kept.rfind('\n').map_or(kept.len(), |end| end + 1);
            format!(
                "{}[... the diff has {} characters in all]\n",
                kept.get(..whole).unwrap_or(kept),
                text.chars().count()
            )
        }
        None => text,
    }
}
