//! `view(g, cut)`: the rows and parts a request at generation `g` could see.

use std::collections::BTreeMap;

use crate::{Generation, GenerationNo, Op, OpRef, Row, Seq, Standing};

/// A row as it stands in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRow {
    /// Where it stands: its own seq, or the start of the range it covers.
    pub position: Seq,
    /// The row with the parts that are visible, in order.
    pub row: Row,
}

/// What one generation shows up to one cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The rows in the order they are sent.
    pub rows: Vec<ViewRow>,
}

/// A history that does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The generation or one of its ancestors is missing.
    #[error("generation {0} is not stored; hint: run `hermes sessions check`")]
    MissingGeneration(GenerationNo),
    /// The chain of parents does not end.
    #[error("generation {0} is its own ancestor; hint: run `hermes sessions check`")]
    Cycle(GenerationNo),
}

/// Folds `rows` by the operations of generation `at` and its ancestors, seeing nothing with a seq
/// above `cut`.
///
/// Operations apply in order. A cover takes out every row that stands in its range (earlier
/// summaries included) and puts its summary at the range's start; a hide takes rows out; a swap
/// shows one part in place of another; a revoked operation counts as never made.
///
/// # Errors
/// If `at` or an ancestor is missing, or the ancestry has a cycle.
pub fn fold_view(
    rows: &[Row],
    generations: &[Generation],
    at: GenerationNo,
    cut: Seq,
) -> Result<View, ViewError> {
    let ops = effective_ops(generations, at)?;
    if ops.is_empty() && rows.is_sorted_by(|a, b| a.seq < b.seq) {
        // Nothing was taken out or brought in: the rows as they stand.
        let none = BTreeMap::new();
        let rows = rows
            .iter()
            .filter(|row| row.seq <= cut && row.standing == Standing::InOrder)
            .map(|row| ViewRow { position: row.seq, row: visible(row, &none, cut) })
            .collect();
        return Ok(View { rows });
    }
    let by_seq: BTreeMap<Seq, &Row> =
        rows.iter().filter(|row| row.seq <= cut).map(|row| (row.seq, row)).collect();

    // Standing rows, by (position, seq).
    let mut standing: BTreeMap<(Seq, Seq), &Row> = by_seq
        .values()
        .filter(|row| row.standing == Standing::InOrder)
        .map(|row| ((row.seq, row.seq), *row))
        .collect();
    let mut swaps: BTreeMap<Seq, Seq> = BTreeMap::new();
    for (_, op) in ops {
        match op {
            Op::Cover { from, to, by } => {
                // A summary beyond the cut does not exist yet for this request.
                let Some(summary) = by_seq.get(&by) else { continue };
                standing.retain(|(position, _), _| *position < from || *position > to);
                standing.insert((from, by), summary);
            }
            Op::Hide { from, to } => {
                standing.retain(|(position, _), _| *position < from || *position > to);
            }
            Op::Swap { part, by } => {
                swaps.insert(part, by);
            }
            Op::Revoke { .. } => {}
        }
    }

    let rows = standing
        .into_iter()
        .map(|((position, _), row)| ViewRow { position, row: visible(row, &swaps, cut) })
        .collect();
    Ok(View { rows })
}

/// The row with only the parts that a request at `cut` could see, swaps applied.
fn visible(row: &Row, swaps: &BTreeMap<Seq, Seq>, cut: Seq) -> Row {
    let stub = |seq: Seq| row.parts.iter().find(|part| part.seq == seq && part.seq <= cut);
    let mut shown = Row { parts: Vec::with_capacity(row.parts.len()), ..row.clone_without_parts() };
    for part in &row.parts {
        if part.seq > cut || part.standing == Standing::ByOp {
            continue;
        }
        let replacement = swaps.get(&part.seq).and_then(|by| stub(*by));
        match replacement {
            // The stub takes the place of what it replaces.
            Some(stub) => {
                shown.parts.push(crate::Part { slot: part.slot, ..stub.clone() });
            }
            None => shown.parts.push(part.clone()),
        }
    }
    shown
}

impl Row {
    /// A copy with no parts.
    fn clone_without_parts(&self) -> Self {
        Self {
            seq: self.seq,
            turn: self.turn,
            role: self.role,
            standing: self.standing,
            status: self.status,
            created_at: self.created_at,
            tool: self.tool.clone(),
            finish_reason: self.finish_reason.clone(),
            parts: Vec::new(),
        }
    }
}

/// The operations in force at `at` with their names, oldest first, revoked ones left out.
///
/// # Errors
/// If `at` or an ancestor is missing, or the ancestry has a cycle.
pub fn effective_ops(
    generations: &[Generation],
    at: GenerationNo,
) -> Result<Vec<(OpRef, Op)>, ViewError> {
    let find = |n: GenerationNo| generations.iter().find(|generation| generation.n == n);
    let mut chain = Vec::new();
    let mut next = Some(at);
    while let Some(n) = next {
        if chain.len() > generations.len() {
            return Err(ViewError::Cycle(at));
        }
        let generation = find(n).ok_or(ViewError::MissingGeneration(n))?;
        chain.push(generation);
        next = generation.parent;
    }
    chain.reverse();

    let mut ops: Vec<(OpRef, Op)> = Vec::new();
    for generation in chain {
        for (index, op) in (0u32..).zip(&generation.ops) {
            match op {
                Op::Revoke { target } => ops.retain(|(at, _)| at != target),
                Op::Cover { .. } | Op::Hide { .. } | Op::Swap { .. } => {
                    ops.push((OpRef { generation: generation.n, index }, *op));
                }
            }
        }
    }
    Ok(ops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, Digest, Origin, Part, PartBody, Role, RowStatus, Timestamp, TurnNo};

    fn row(seq: u64, standing: Standing) -> Row {
        let part = Part {
            seq: Seq(seq),
            row: Seq(seq),
            slot: 100,
            origin: Origin::User,
            standing: Standing::InOrder,
            created_at: Timestamp(0),
            label: None,
            body: PartBody::text(format!("r{seq}")),
        };
        Row {
            seq: Seq(seq),
            turn: TurnNo(1),
            role: Role::User,
            standing,
            status: RowStatus::Complete,
            created_at: Timestamp(0),
            tool: None,
            finish_reason: None,
            parts: vec![part],
        }
    }

    fn generation(n: u32, ops: Vec<Op>) -> Generation {
        Generation {
            n: GenerationNo(n),
            parent: n.checked_sub(1).map(GenerationNo),
            cause: Cause::Compaction,
            created_at: Timestamp(0),
            prompt: Digest::of(""),
            tools: Digest::of(""),
            ops,
        }
    }

    fn check(rows: &[Row], generations: &[Generation], cut: u64, expected: &str) {
        let at = generations.last().map(|g| g.n).unwrap();
        let view = fold_view(rows, generations, at, Seq(cut)).unwrap();
        let shown: Vec<String> = view
            .rows
            .iter()
            .map(|r| r.row.parts.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("+"))
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    fn cover(from: u64, to: u64, by: u64) -> Op {
        Op::Cover { from: Seq(from), to: Seq(to), by: Seq(by) }
    }

    #[test]
    fn a_second_cover_takes_the_first_summary_with_it_and_undo_brings_it_back() {
        let rows = [
            row(1, Standing::InOrder),
            row(2, Standing::InOrder),
            row(3, Standing::InOrder),
            row(4, Standing::ByOp),
            row(5, Standing::InOrder),
            row(6, Standing::ByOp),
        ];
        let mut generations = vec![generation(0, vec![])];
        check(&rows, &generations, 3, "r1 r2 r3");
        generations.push(generation(1, vec![cover(1, 2, 4)]));
        check(&rows, &generations, 4, "r4 r3");
        check(&rows, &generations, 5, "r4 r3 r5");
        generations.push(generation(2, vec![cover(1, 3, 6)]));
        check(&rows, &generations, 6, "r6 r5");
        generations.push(generation(3, vec![Op::Hide { from: Seq(5), to: Seq(5) }]));
        check(&rows, &generations, 6, "r6");
        let target = OpRef { generation: GenerationNo(2), index: 0 };
        generations.push(generation(4, vec![Op::Revoke { target }]));
        check(&rows, &generations, 6, "r4 r3");
    }

    #[test]
    fn late_parts_are_cut_off_and_stubs_stand_in_for_swapped_parts() {
        let mut first = row(1, Standing::InOrder);
        let mut late = first.parts[0].clone();
        late.seq = Seq(3);
        late.slot = slot_late();
        late.body = PartBody::text("late");
        let mut stub = late.clone();
        stub.seq = Seq(4);
        stub.standing = Standing::ByOp;
        stub.body = PartBody::text("stub");
        first.parts.extend([late, stub]);
        let rows = [first, row(2, Standing::InOrder)];
        let mut generations = vec![generation(0, vec![])];
        check(&rows, &generations, 2, "r1 r2");
        check(&rows, &generations, 3, "r1+late r2");
        generations.push(generation(1, vec![Op::Swap { part: Seq(1), by: Seq(4) }]));
        check(&rows, &generations, 4, "stub+late r2");
    }

    const fn slot_late() -> u16 {
        crate::slot::LATE
    }

    #[test]
    fn a_broken_ancestry_is_an_error_not_a_guess() {
        let mut lonely = generation(2, vec![]);
        assert_eq!(
            fold_view(&[], std::slice::from_ref(&lonely), GenerationNo(2), Seq(9)),
            Err(ViewError::MissingGeneration(GenerationNo(1)))
        );
        lonely.parent = Some(GenerationNo(2));
        assert_eq!(
            fold_view(&[], &[lonely], GenerationNo(2), Seq(9)),
            Err(ViewError::Cycle(GenerationNo(2)))
        );
    }
}
