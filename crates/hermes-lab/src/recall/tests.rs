//! The gate at a size that every run of the tests can afford. The figures may not fall.

use super::*;

/// Facts in the kept text, in percent, that the newest version reaches at each size and number of
/// compactions, rounded down.
const FLOORS: [(usize, u32, f64); 4] =
    [(200, 1, 81.5), (200, 20, 82.5), (1_000, 1, 82.5), (1_000, 20, 75.5)];

#[test]
fn the_recall_gate_at_a_small_size() {
    let report = run_recall(&RecallInput::small()).unwrap();
    let table = report.to_markdown();
    for score in report.scores.iter().filter(|score| score.way == OURS) {
        let bar = if score.compactions == 1 { 90.0 } else { 80.0 };
        assert!(score.with_search.percent() >= bar, "{table}");
        assert!(score.most_tokens <= 50_000, "{table}");
        assert!(score.references.percent() >= 90.0, "{table}");
        assert!(score.not_asserted.percent() >= 72.0, "{table}");
        for other in &report.scores {
            let same = other.messages == score.messages && other.compactions == score.compactions;
            if same && other.way != OURS {
                assert!(
                    score.kept.percent() > other.kept.percent() || score.kept.percent() > 99.9,
                    "{} is not below:\n{table}",
                    other.way
                );
                assert!(other.tokens <= score.tokens, "equal tokens:\n{table}");
            }
        }
    }
    for (messages, compactions, floor) in FLOORS {
        let score = report.ours(messages, compactions).unwrap();
        assert!(score.kept.percent() >= floor, "{messages} {compactions}:\n{table}");
    }
    assert!(svg(&report).ends_with("</svg>\n"));
}

#[test]
fn a_conversation_is_a_function_of_its_seed_and_holds_what_was_planted() {
    let (a, b) = (generate(5, 400), generate(5, 400));
    assert_eq!(a.rows, b.rows);
    assert_ne!(a.rows, generate(6, 400).rows);
    assert!((400..420).contains(&a.rows.len()));
    assert!((15..=20).contains(&a.facts.len()));
    for fact in &a.facts {
        assert_eq!(fact.rows.len(), 1, "{fact:?}");
        let row = a.rows.iter().find(|row| row.seq == fact.rows[0]).unwrap();
        assert!(holds(&policies::text_of(row), fact), "{fact:?}");
        assert!(fact.keys.iter().all(|key| !fact.question.contains(key)), "{fact:?}");
    }
    let kinds: HashSet<FactKind> = a.facts.iter().map(|fact| fact.kind).collect();
    assert_eq!(kinds.len(), FactKind::ALL.len());
}

#[test]
fn references_of_a_line_are_read() {
    let check = |line: &str, rows: &[u64]| {
        let rows: Vec<Seq> = rows.iter().copied().map(Seq).collect();
        assert_eq!(references(line), rows, "{line}");
    };
    check("- [r12 person] the relay is 4", &[12]);
    check("- done [r3, r44]", &[3, 44]);
    check("- nothing r or [rx] here", &[]);
}
