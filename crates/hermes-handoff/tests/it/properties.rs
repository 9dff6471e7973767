//! Properties of reading, cutting and dispatching.

use hermes_handoff::section::{Body, Section, read};
use hermes_handoff::source::{Speaker, Turn, dialogue};
use hermes_handoff::trigger;
use hermes_handoff::trim::trim;
use proptest::prelude::*;

/// Text that looks a little like a capsule.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("## Working on\n".to_owned()),
        Just("## Next\n".to_owned()),
        Just("**State:**\n".to_owned()),
        Just("## Recovery\n".to_owned()),
        Just("```\n".to_owned()),
        Just("# 3. Pointers\n".to_owned()),
        "[#* \n\ta-zé漢]{0,12}",
        "\\PC{0,20}",
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn body() -> impl Strategy<Value = Body> {
    proptest::array::uniform5(text()).prop_map(|texts| {
        let mut body = Body::default();
        for (section, text) in Section::ALL.into_iter().zip(texts) {
            body.set(section, &text);
        }
        body
    })
}

fn headings(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("## ")).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_and_what_was_read_is_stable(text in text()) {
        let first = read(&text);
        let rendered = first.body.render();
        prop_assert_eq!(headings(&rendered), 5, "{}", rendered);
        let again = read(&rendered);
        prop_assert!(again.is_whole());
        prop_assert_eq!(again.body.render(), rendered);
    }

    #[test]
    fn a_cut_capsule_has_its_cap_and_its_headings(body in body(), cap in 0usize..400) {
        let whole = body.render();
        let total = whole.chars().count();
        let cut = trim(&body, cap);
        prop_assert_eq!(cut.text.chars().count(), total.min(cap));
        prop_assert_eq!(cut.over, total.saturating_sub(cap));
        if cap >= 200 {
            prop_assert_eq!(headings(&cut.text), 5, "{}", cut.text);
        }
    }

    #[test]
    fn a_dialogue_keeps_to_its_limit(
        said in proptest::collection::vec("\\PC{0,200}", 0..20), limit in 400usize..3_000
    ) {
        let turns: Vec<Turn> = said
            .into_iter()
            .enumerate()
            .map(|(at, text)| Turn {
                row: hermes_core::Seq(at as u64 + 1),
                speaker: if at % 3 == 0 { Speaker::Person } else { Speaker::Model },
                text,
            })
            .collect();
        let read = dialogue(&turns, limit, &[1, 2], true);
        prop_assert!(read.text.chars().count() <= limit);
        if let Some(last) = turns.last().filter(|turn| turn.text.chars().count() < 60) {
            prop_assert!(read.text.trim_end().ends_with(last.text.trim_end()));
        }
    }

    #[test]
    fn any_message_is_looked_at_without_a_panic(text in "\\PC{0,40}") {
        trigger::requested(&text);
        trigger::wrapup_command(&text);
    }
}
