//! Pruning: long tool results, duplicates, images and skill bodies become pointers, without a
//! model and without changing a row.
//!
//! Invariant: a call's arguments are never touched, and every pointer names the row from which the
//! original can be brought back.

use std::collections::HashSet;
use std::ops::Range;

use hermes_core::{Origin, Part, PartBody, Role, Row, Seq, Standing, View};
use serde::{Deserialize, Serialize};

use crate::cutting::size;
use crate::facts::{arguments_by_result, result_line};
use crate::measure::part_tokens;
use crate::words::TextMap;

/// What a pointer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pruned {
    /// A result that a newer row holds word for word.
    Duplicate,
    /// A long result.
    Result,
    /// An image or file.
    Attachment,
    /// A loaded skill's body.
    Skill,
}

/// A part that is to be shown as a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// The row.
    pub row: Seq,
    /// The part.
    pub part: Seq,
    /// What it is.
    pub what: Pruned,
    /// The pointer's text.
    pub stub: String,
    /// Tokens that this saves, at least.
    pub saved: u64,
}

/// How far pruning goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Rows at or after this index keep everything but duplicates.
    pub protect_from: usize,
    /// Characters from which a result is long.
    pub min_chars: usize,
    /// Newest rows with images that keep them.
    pub keep_images: usize,
}

/// Shorter results are not worth a pointer.
pub const MIN_RESULT_CHARS: usize = 200;
/// Newest rows with images that keep them.
const KEEP_IMAGES: usize = 3;

impl Extent {
    /// Everything before `protect_from` that is worth a pointer.
    pub const fn before(protect_from: usize) -> Self {
        Self { protect_from, min_chars: MIN_RESULT_CHARS, keep_images: KEEP_IMAGES }
    }
}

/// The swaps that shrink `view` without a model, oldest first.
pub fn prune(view: &View, extent: Extent) -> Vec<Swap> {
    prune_beside(view, extent, &(0..0))
}

/// The same without the rows at `leaving`, which are about to leave the view.
pub(crate) fn prune_beside(view: &View, extent: Extent, leaving: &Range<usize>) -> Vec<Swap> {
    let rows: Vec<&Row> = view.rows.iter().map(|shown| &shown.row).collect();
    let arguments = arguments_by_result(&rows);
    let mut swaps = Vec::new();
    let newest = newest_of_each_text(&rows);
    let images_from = first_kept_image_row(&rows, extent.keep_images);
    for (index, row) in rows.iter().enumerate() {
        if leaving.contains(&index) {
            continue;
        }
        for part in &row.parts {
            if is_stub(part) {
                continue;
            }
            let twin = duplicate_of(row, part, index, &newest).map(|twin| rows[twin].seq);
            let swap = match twin {
                Some(twin) => swap(row, part, Pruned::Duplicate, duplicate_stub(row, twin)),
                None if index >= extent.protect_from => None,
                None => demote(row, part, arguments[index], |part| match part.body {
                    PartBody::Blob { .. } => index < images_from,
                    _ => text_len(part) >= extent.min_chars,
                }),
            };
            swaps.extend(swap);
        }
    }
    swaps
}

/// Swaps for the images and files of every row but those at `leaving` and `spared`: what a provider
/// refused for its bytes is made smaller by what has most of them. `taken` are the swaps already
/// decided.
pub(crate) fn prune_attachments(
    view: &View,
    leaving: &Range<usize>,
    spared: Option<usize>,
    taken: &[Swap],
) -> Vec<Swap> {
    let done: HashSet<Seq> = taken.iter().map(|swap| swap.part).collect();
    let mut swaps = Vec::new();
    for (index, shown) in view.rows.iter().enumerate() {
        if leaving.contains(&index) || spared == Some(index) {
            continue;
        }
        let parts =
            shown.row.parts.iter().filter(|part| !is_stub(part) && !done.contains(&part.seq));
        for part in parts.filter(|part| matches!(part.body, PartBody::Blob { .. })) {
            swaps.extend(demote(&shown.row, part, None, |_| true));
        }
    }
    swaps
}

/// Further swaps among the rows from `from` on, oldest first, until `need` tokens are saved: first
/// sparing the three newest rows, then only the newest, at last none. `taken` are the swaps already
/// decided.
pub fn prune_under_pressure(view: &View, from: usize, need: u64, taken: &[Swap]) -> Vec<Swap> {
    let rows: Vec<&Row> = view.rows.iter().map(|shown| &shown.row).collect();
    let arguments = arguments_by_result(&rows);
    let newest_results: Vec<usize> =
        (from..rows.len()).rev().filter(|index| rows[*index].role == Role::Tool).take(3).collect();
    let mut saved = 0;
    let mut swaps: Vec<Swap> = Vec::new();
    let mut done: HashSet<Seq> = taken.iter().map(|swap| swap.part).collect();
    for spared in [3, 1, 0] {
        let spare = &newest_results[..newest_results.len().min(spared)];
        for (index, row) in rows.iter().enumerate().skip(from) {
            if spare.contains(&index) {
                continue;
            }
            for part in row.parts.iter().filter(|part| !is_stub(part) && row.role == Role::Tool) {
                if saved >= need {
                    return swaps;
                }
                if done.contains(&part.seq) {
                    continue;
                }
                let arguments = arguments[index];
                if let Some(swap) =
                    demote(row, part, arguments, |part| text_len(part) >= MIN_RESULT_CHARS)
                {
                    saved += swap.saved;
                    done.insert(swap.part);
                    swaps.push(swap);
                }
            }
        }
    }
    swaps
}

/// Whether the part is a pointer already.
pub(crate) fn is_stub(part: &Part) -> bool {
    part.standing == Standing::ByOp
}

/// Bytes of a text; attachments count as long.
fn text_len(part: &Part) -> usize {
    match &part.body {
        PartBody::Text { text } => text.len(),
        PartBody::Blob { .. } => usize::MAX,
        _ => 0,
    }
}

fn demote(
    row: &Row,
    part: &Part,
    arguments: Option<&str>,
    wanted: impl Fn(&Part) -> bool,
) -> Option<Swap> {
    if !wanted(part) {
        return None;
    }
    match (&part.body, part.origin) {
        (PartBody::Text { text }, Origin::Tool) if row.role == Role::Tool => {
            let facts = result_line(row, text, arguments);
            let stub = format!("[{facts}; shortened, recall {} brings it back]", at(row));
            swap(row, part, Pruned::Result, stub)
        }
        (PartBody::Text { text }, Origin::Skill) => {
            let name = part.label.as_deref().unwrap_or("(unnamed)");
            let stub = format!(
                "[skill {name}: its text ({}) is no longer shown and must not be relied on from \
                 memory; load the skill again before following it, or recall {}]",
                size(text.len()),
                at(row)
            );
            swap(row, part, Pruned::Skill, stub)
        }
        (PartBody::Blob { media_type, bytes, .. }, _) => {
            let bytes = size(usize::try_from(*bytes).unwrap_or(usize::MAX));
            let stub = format!("[{media_type}, {bytes}, was shown here; stored in {}]", at(row));
            swap(row, part, Pruned::Attachment, stub)
        }
        _ => None,
    }
}

/// The swap, if it saves anything.
fn swap(row: &Row, part: &Part, what: Pruned, stub: String) -> Option<Swap> {
    let saved = part_tokens(part).checked_sub(hermes_context::estimate_tokens(&stub))?;
    (saved > 0).then_some(Swap { row: row.seq, part: part.seq, what, stub, saved })
}

fn duplicate_stub(row: &Row, twin: Seq) -> String {
    let name = row.tool.as_ref().map_or("tool", |link| &*link.name);
    format!("[{name}: the same result, word for word, as in r{twin}]")
}

/// A row's reference.
fn at(row: &Row) -> String {
    format!("r{}", row.seq)
}

/// For every long tool result the newest row that holds it.
fn newest_of_each_text<'a>(rows: &[&'a Row]) -> TextMap<'a, usize> {
    let mut newest = TextMap::default();
    for (index, row) in rows.iter().enumerate() {
        for part in &row.parts {
            if let Some(text) = result_of(row, part) {
                newest.insert(text, index);
            }
        }
    }
    newest
}

fn result_of<'a>(row: &Row, part: &'a Part) -> Option<&'a str> {
    let text = part.as_text()?;
    (row.role == Role::Tool
        && part.origin == Origin::Tool
        && !is_stub(part)
        && text.len() >= MIN_RESULT_CHARS)
        .then_some(text)
}

fn duplicate_of(
    row: &Row,
    part: &Part,
    index: usize,
    newest: &TextMap<'_, usize>,
) -> Option<usize> {
    newest.get(result_of(row, part)?).copied().filter(|twin| *twin > index)
}

/// The index of the oldest row that keeps its images.
fn first_kept_image_row(rows: &[&Row], keep: usize) -> usize {
    let with_images = (0..rows.len()).rev().filter(|index| {
        rows[*index].parts.iter().any(|part| matches!(part.body, PartBody::Blob { .. }))
    });
    with_images.take(keep).last().unwrap_or(rows.len())
}
