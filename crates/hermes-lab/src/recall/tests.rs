//! The gate at a size that every run of the tests can afford. The figures may not fall.

use super::*;

/// What the newest version reaches at each size and number of compactions, in percent, rounded
/// down: facts in the kept text, those or found with one search, references that lead to the row,
/// and what was taken back and is not stated.
const FLOORS: [(usize, u32, [f64; 4]); 4] = [
    (200, 1, [78.0, 99.0, 96.0, 91.0]),
    (200, 20, [73.0, 99.0, 96.0, 99.0]),
    (1_000, 1, [89.0, 99.0, 99.0, 99.0]),
    (1_000, 20, [74.0, 99.0, 99.0, 99.0]),
];

#[test]
fn the_recall_gate_at_a_small_size() {
    let report = run_recall(&RecallInput::small()).unwrap();
    let table = report.to_markdown();
    for score in report.scores.iter().filter(|score| score.way == OURS) {
        // The bars; the floors below are higher.
        let bar = if score.compactions == 1 { 90.0 } else { 80.0 };
        assert!(score.with_search.percent() >= bar, "{table}");
        assert!(score.most_tokens <= 50_000, "{table}");
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
    for (messages, compactions, floors) in FLOORS {
        let score = report.ours(messages, compactions).unwrap();
        let figures = [score.kept, score.with_search, score.references, score.not_asserted];
        for (figure, floor) in figures.iter().zip(floors) {
            assert!(figure.percent() >= floor, "{messages} {compactions} {floor}:\n{table}");
        }
    }
    assert!(svg(&report).ends_with("</svg>\n"));
}

/// Words that hold a sentence together and say nothing of what it is about.
const FUNCTION_WORDS: &str = "a about and are as at be been by did do does for from have how i in is \
    it me my of on one or said same should since so somebody still stays that the there these they \
    this to under us was we went what where which who why will with you your";

fn bare(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[test]
fn a_question_has_words_of_its_own_and_none_side_by_side_as_they_were_said() {
    let function: HashSet<&str> = FUNCTION_WORDS.split_whitespace().collect();
    let telling = |word: &String| !function.contains(word.as_str());
    let mut forms = HashSet::new();
    for seed in 0..40 {
        let planted = generate(seed, 300);
        for fact in &planted.facts {
            let row = planted.rows.iter().find(|row| row.seq == fact.rows[0]).unwrap();
            let text = policies::text_of(row);
            let sentence = text
                .lines()
                // A statement may have no full stop of its own before the next sentence.
                .flat_map(|line| line.split("Please look at"))
                .flat_map(|line| line.split_inclusive("? "))
                .flat_map(|line| line.split_inclusive(". "))
                .find(|sentence| fact.keys.iter().any(|key| sentence.contains(key.as_str())))
                .unwrap();
            // The value belongs to the answer, whatever words it is made of.
            let plain = fact
                .keys
                .iter()
                .fold(sentence.to_owned(), |text, key| text.replace(key, " ANSWER "));
            let (said, asked) = (bare(&plain), bare(&fact.question));
            // The two words of the name, and no third.
            let shared: HashSet<&String> =
                asked.iter().filter(|word| telling(word) && said.contains(word)).collect();
            assert!(shared.len() <= 2, "{shared:?}: {sentence} / {}", fact.question);
            for pair in asked.windows(2).filter(|pair| pair.iter().all(telling)) {
                let together = said.windows(2).any(|other| other == pair);
                assert!(!together, "{pair:?}: {sentence} / {}", fact.question);
            }
            assert!(!fact.keys.iter().any(|key| fact.question.contains(key.as_str())));
            forms.insert(
                asked.iter().filter(|word| !shared.contains(word)).cloned().collect::<Vec<_>>(),
            );
        }
    }
    assert!(forms.len() > 60, "{} ways to ask", forms.len());
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
