//! The views of a conversation side by side: what is stored, active, compacted, live and sent.
//!
//! Invariant: every row is in exactly one class, and the live and reduced rows are the rows of
//! [`hermes_core::fold_view`].

use std::collections::{BTreeMap, HashMap, HashSet};

use hermes_core::{
    Generation, GenerationNo, Op, Row, Seq, Standing, ViewError, effective_ops, fold_view,
};
use serde::Serialize;

use crate::state::Scope;

/// What has become of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum Class {
    /// It stands as it was written.
    Live,
    /// It stands, with a pointer in place of one or more of its parts.
    Reduced,
    /// A summary stands in its place.
    Covered {
        /// The summary row that took it out.
        by: Seq,
    },
    /// It was taken back, or is a summary that no longer counts.
    Hidden,
}

/// The class of every row that a view at `cut` could know, in the order of `rows`.
///
/// # Errors
/// If the generation or an ancestor is missing, or the ancestry has a cycle.
pub fn classify(
    rows: &[Row],
    generations: &[Generation],
    at: GenerationNo,
    cut: Seq,
) -> Result<Vec<(Seq, Class)>, ViewError> {
    let known: BTreeMap<Seq, &Row> =
        rows.iter().filter(|row| row.seq <= cut).map(|row| (row.seq, row)).collect();
    let mut standing: BTreeMap<(Seq, Seq), &Row> = known
        .values()
        .filter(|row| row.standing == Standing::InOrder)
        .map(|row| ((row.seq, row.seq), *row))
        .collect();
    let mut gone: HashMap<Seq, Class> = HashMap::new();
    let mut swapped: HashMap<Seq, Seq> = HashMap::new();
    for (_, op) in effective_ops(generations, at)? {
        match op {
            Op::Cover { from, to, by } => {
                let Some(summary) = known.get(&by) else { continue };
                take_out(&mut standing, from, to, Class::Covered { by }, &mut gone);
                standing.insert((from, by), summary);
                gone.remove(&by);
            }
            Op::Hide { from, to } => take_out(&mut standing, from, to, Class::Hidden, &mut gone),
            Op::Swap { part, by } => {
                swapped.insert(part, by);
            }
            Op::Revoke { .. } => {}
        }
    }
    let stands: HashSet<Seq> = standing.keys().map(|(_, seq)| *seq).collect();
    let is_reduced = |row: &Row| {
        row.parts.iter().any(|part| {
            part.seq <= cut
                && part.standing == Standing::InOrder
                && swapped
                    .get(&part.seq)
                    .is_some_and(|by| *by <= cut && row.parts.iter().any(|stub| stub.seq == *by))
        })
    };
    let class = |row: &&Row| {
        let class = if !stands.contains(&row.seq) {
            gone.get(&row.seq).copied().unwrap_or(Class::Hidden)
        } else if is_reduced(row) {
            Class::Reduced
        } else {
            Class::Live
        };
        (row.seq, class)
    };
    Ok(known.values().map(class).collect())
}

fn take_out(
    standing: &mut BTreeMap<(Seq, Seq), &Row>,
    from: Seq,
    to: Seq,
    class: Class,
    gone: &mut HashMap<Seq, Class>,
) {
    standing.retain(|(position, seq), _| {
        let stays = *position < from || *position > to;
        if !stays {
            gone.insert(*seq, class);
        }
        stays
    });
}

/// The views by numbers of rows. Summaries count apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Messages ever stored.
    pub stored: u64,
    /// Summaries ever stored.
    pub summaries_stored: u64,
    /// Messages that still stand, whole or reduced: what third-party readers see as active.
    pub active: u64,
    /// Of those, the ones with a pointer in place of a part.
    pub reduced: u64,
    /// Messages in whose place a summary stands.
    pub compacted: u64,
    /// Messages that were taken back.
    pub hidden: u64,
    /// Summaries in force.
    pub summaries: u64,
    /// Rows of the live history: active messages and summaries.
    pub live: u64,
    /// Rows that the last request could see; None where none was sent.
    pub sent: Option<u64>,
}

/// Counts the views at generation `at` and `cut`; `last_request` is the generation and cut of the
/// newest request that was sent.
///
/// # Errors
/// If a generation or an ancestor is missing, or the ancestry has a cycle.
pub fn counts(
    rows: &[Row],
    generations: &[Generation],
    at: GenerationNo,
    cut: Seq,
    last_request: Option<(GenerationNo, Seq)>,
) -> Result<Counts, ViewError> {
    let classes = classify(rows, generations, at, cut)?;
    let summaries: HashSet<Seq> =
        rows.iter().filter(|row| row.standing == Standing::ByOp).map(|row| row.seq).collect();
    let mut out = Counts::default();
    for (seq, class) in classes {
        if summaries.contains(&seq) {
            out.summaries_stored += 1;
            out.summaries += u64::from(matches!(class, Class::Live | Class::Reduced));
            continue;
        }
        out.stored += 1;
        match class {
            Class::Live => out.active += 1,
            Class::Reduced => {
                out.active += 1;
                out.reduced += 1;
            }
            Class::Covered { .. } => out.compacted += 1,
            Class::Hidden => out.hidden += 1,
        }
    }
    out.live = out.active + out.summaries;
    if let Some((generation, cut)) = last_request {
        out.sent = Some(fold_view(rows, generations, generation, cut)?.rows.len() as u64);
    }
    Ok(out)
}

/// The original rows that a summary over positions `from..=to` has to answer for, and the rows
/// that stand after them. Rows that were taken back belong to neither.
///
/// # Errors
/// If the generation or an ancestor is missing, or the ancestry has a cycle.
pub fn scope<'a>(
    rows: &'a [Row],
    generations: &[Generation],
    at: GenerationNo,
    cut: Seq,
    range: &crate::Range,
) -> Result<Scope<'a>, ViewError> {
    let classes: HashMap<Seq, Class> = classify(rows, generations, at, cut)?.into_iter().collect();
    let mut scope = Scope::default();
    for row in rows.iter().filter(|row| row.standing == Standing::InOrder) {
        match classes.get(&row.seq) {
            None | Some(Class::Hidden) => {}
            Some(_) if row.seq < range.from => {}
            Some(_) if row.seq <= range.to => scope.covered.push(row),
            Some(_) => scope.after.push(row),
        }
    }
    Ok(scope)
}
