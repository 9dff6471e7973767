//! References to rows in a capsule's lines: `[r12]`, `[r3, r5]`, `[r7-r9]`.

use hermes_core::Seq;

/// One bracket that holds nothing but rows: where it stands and what it names (a range by its
/// ends).
struct Bracket {
    start: usize,
    end: usize,
    rows: Vec<Seq>,
}

fn brackets(line: &str) -> Vec<Bracket> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(found) = line[at..].find("[r") {
        let start = at + found;
        let Some(length) = line[start..].find(']') else { break };
        let end = start + length + 1;
        match rows(&line[start + 1..end - 1]) {
            Some(rows) => {
                all.push(Bracket { start, end, rows });
                at = end;
            }
            // An inner bracket may be one.
            None => at = start + 2,
        }
    }
    all
}

fn rows(inside: &str) -> Option<Vec<Seq>> {
    inside
        .split([',', ';', ' ', '-', '–'])
        .filter(|piece| !piece.is_empty())
        .map(|piece| piece.strip_prefix('r').unwrap_or(piece).parse().ok().map(Seq))
        .collect()
}

/// The rows that a line names.
pub(crate) fn of_line(line: &str) -> Vec<Seq> {
    let mut all = Vec::new();
    for row in brackets(line).into_iter().flat_map(|bracket| bracket.rows) {
        if !all.contains(&row) {
            all.push(row);
        }
    }
    all
}

/// The text without references of which `known` knows no row, and how many those were. With
/// `known` always false, the text without references.
pub(crate) fn keep(text: &str, known: impl Fn(Seq) -> bool) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let mut dropped = 0;
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let mut at = 0;
        for bracket in brackets(line) {
            if bracket.rows.iter().all(|row| known(*row)) {
                continue;
            }
            out.push_str(line[at..bracket.start].trim_end());
            at = bracket.end;
            dropped += 1;
        }
        out.push_str(&line[at..]);
    }
    (out, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_unknown_ones_taken_out() {
        assert_eq!(of_line("- done [r3, r5] and [r7-r9] but [rest] [x]"), [3, 5, 7, 9].map(Seq));
        assert_eq!(of_line("[r] [r 12"), Vec::<Seq>::new());
        let (kept, dropped) = keep("- a [r3] b [r99]\n- c [r99] d", |row| row == Seq(3));
        assert_eq!((kept.as_str(), dropped), ("- a [r3] b\n- c d", 2));
    }
}
