//! What third-party readers see of the view: which rows are `active`, which `compacted`.
//!
//! | active | compacted | meaning |
//! |---|---|---|
//! | 1 | 0 | in the newest generation's view |
//! | 0 | 1 | covered by a summary: not sent, still shown and found |
//! | 0 | 0 | hidden (rewound, undone), or a summary that no operation brings in |

use std::collections::{BTreeMap, BTreeSet};

use hermes_core::{Generation, GenerationNo, Op, Seq, Standing, ViewError, effective_ops};

/// The two flags of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) active: bool,
    pub(crate) compacted: bool,
}

impl Flags {
    pub(crate) const ACTIVE: Self = Self { active: true, compacted: false };
    pub(crate) const COMPACTED: Self = Self { active: false, compacted: true };
    pub(crate) const HIDDEN: Self = Self { active: false, compacted: false };

    /// Of a row that no operation names.
    pub(crate) const fn born(standing: Standing) -> Self {
        match standing {
            Standing::InOrder => Self::ACTIVE,
            Standing::ByOp => Self::HIDDEN,
        }
    }
}

/// The flags of every row at generation `at`.
pub(crate) fn flags(
    rows: &[(Seq, Standing)],
    generations: &[Generation],
    at: Option<GenerationNo>,
) -> Result<BTreeMap<Seq, Flags>, ViewError> {
    let mut flags: BTreeMap<Seq, Flags> =
        rows.iter().map(|(seq, standing)| (*seq, Flags::born(*standing))).collect();
    let Some(at) = at else { return Ok(flags) };
    let ops = effective_ops(generations, at)?;
    if ops.is_empty() {
        return Ok(flags);
    }
    // Standing rows by position.
    let mut standing: BTreeSet<(Seq, Seq)> = rows
        .iter()
        .filter(|(_, standing)| *standing == Standing::InOrder)
        .map(|(seq, _)| (*seq, *seq))
        .collect();
    let mut take_out = |standing: &mut BTreeSet<(Seq, Seq)>, from: Seq, to: Seq, as_: Flags| {
        standing.retain(|(position, seq)| {
            let stays = *position < from || *position > to;
            if !stays {
                flags.insert(*seq, as_);
            }
            stays
        });
    };
    for (_, op) in ops {
        match op {
            Op::Cover { from, to, by } => {
                if rows.binary_search_by_key(&by, |(seq, _)| *seq).is_err() {
                    continue;
                }
                take_out(&mut standing, from, to, Flags::COMPACTED);
                standing.insert((from, by));
            }
            Op::Hide { from, to } => take_out(&mut standing, from, to, Flags::HIDDEN),
            Op::Swap { .. } | Op::Revoke { .. } => {}
        }
    }
    for (_, seq) in standing {
        flags.insert(seq, Flags::ACTIVE);
    }
    Ok(flags)
}

/// The highest seq that the operations name.
pub(crate) fn reach(ops: &[Op]) -> Seq {
    ops.iter()
        .map(|op| match *op {
            Op::Cover { to, by, .. } => to.max(by),
            Op::Hide { to, .. } => to,
            Op::Swap { part, by } => part.max(by),
            Op::Revoke { .. } => Seq(0),
        })
        .max()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hermes_core::{Cause, Digest, OpRef, Timestamp};

    use super::*;

    fn check(generations: &[Vec<Op>], expected: &str) {
        let rows = [
            (Seq(1), Standing::InOrder),
            (Seq(2), Standing::InOrder),
            (Seq(3), Standing::InOrder),
            (Seq(4), Standing::ByOp),
            (Seq(5), Standing::InOrder),
        ];
        let generations: Vec<Generation> = (0..)
            .zip(generations)
            .map(|(n, ops): (u32, &Vec<Op>)| Generation {
                n: GenerationNo(n),
                parent: n.checked_sub(1).map(GenerationNo),
                cause: Cause::Compaction,
                created_at: Timestamp(0),
                prompt: Digest::of(""),
                tools: Digest::of(""),
                ops: ops.clone(),
            })
            .collect();
        let head = generations.last().map(|generation| generation.n);
        let shown: Vec<String> = flags(&rows, &generations, head)
            .unwrap()
            .into_iter()
            .map(|(seq, flags)| {
                let word = match flags {
                    Flags::ACTIVE => "active",
                    Flags::COMPACTED => "compacted",
                    _ => "hidden",
                };
                format!("{seq} {word}")
            })
            .collect();
        assert_eq!(shown.join(", "), expected);
    }

    #[test]
    fn covered_rows_are_compacted_hidden_ones_neither_and_undo_makes_them_active_again() {
        let cover = Op::Cover { from: Seq(1), to: Seq(2), by: Seq(4) };
        let hide = Op::Hide { from: Seq(3), to: Seq(3) };
        let revoke = |generation, index| Op::Revoke {
            target: OpRef { generation: GenerationNo(generation), index },
        };
        check(&[vec![]], "1 active, 2 active, 3 active, 4 hidden, 5 active");
        check(
            &[vec![], vec![cover, hide]],
            "1 compacted, 2 compacted, 3 hidden, 4 active, 5 active",
        );
        check(
            &[vec![], vec![cover, hide], vec![revoke(1, 0)]],
            "1 active, 2 active, 3 hidden, 4 hidden, 5 active",
        );
    }
}
