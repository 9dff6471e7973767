//! Recall and the views side by side.

use hermes_compaction::recall::{Bounds, Query, recall};
use hermes_compaction::views::counts;
use hermes_compaction::{Keep, Reason};
use hermes_core::Seq;

use crate::world::World;

fn session() -> World {
    let mut world = World::new(4_000);
    for n in 0..14 {
        world.user(&format!("question {n} about harbour number {n} {}", "word ".repeat(60)));
        world.answer(&format!("answer {n}: code K-{}17 {}", n + 3, "word ".repeat(60)));
    }
    world
}

#[test]
fn references_and_words_bring_covered_originals_back() {
    let mut world = session();
    world.compact(Reason::Manual, Keep::Exchanges(2)).unwrap();
    assert_eq!(Query::parse("[r2]"), Some(Query::Rows(Seq(2), Seq(2))));
    assert_eq!(Query::parse("r4-r2"), Some(Query::Rows(Seq(2), Seq(4))));
    assert_eq!(Query::parse("  "), None);
    let bounds = Bounds::default();
    let rows = recall(&world.rows, &Query::parse("r2").unwrap(), 0, bounds);
    assert!(rows[0].text.starts_with("answer 0: code K-317"));
    let rows = recall(&world.rows, &Query::parse("harbour number 7").unwrap(), 0, bounds);
    assert!(rows[0].text.starts_with("question 7 about harbour"), "{:?}", rows[0]);
    let rows = recall(&world.rows, &Query::parse("K-1017").unwrap(), 0, bounds);
    assert!(rows[0].text.starts_with("answer 7: code K-1017"), "{:?}", rows[0].text);
    assert_eq!(recall(&world.rows, &Query::parse("zebra").unwrap(), 0, bounds), []);
    // A summary is not its own source.
    let summary = world.rows.last().unwrap().seq;
    assert_eq!(recall(&world.rows, &Query::Rows(summary, summary), 0, bounds), []);
}

#[test]
fn answers_are_bounded_and_say_how_to_go_on() {
    let mut world = World::new(4_000);
    world.user(&format!("{} needle {}", "hay ".repeat(5_000), "straw ".repeat(5_000)));
    let bounds = Bounds { rows: 2, row_chars: 400, chars: 600 };
    let rows = recall(&world.rows, &Query::parse("needle").unwrap(), 0, bounds);
    assert!(rows[0].text.contains("needle"));
    assert_eq!(rows[0].text.chars().count(), 400);
    let rows = recall(&world.rows, &Query::parse("r1").unwrap(), 100, bounds);
    assert_eq!((rows[0].from, rows[0].text.chars().count()), (100, 400));
    assert!(rows[0].render().contains("recall r1 with offset 500 for more"));
}

#[test]
fn after_here_two_of_28_rows_the_tail_stays_active_and_all_counts_are_told() {
    let mut world = session();
    let head = world.head();
    let before = counts(&world.rows, &world.generations, head, Seq(world.last), None).unwrap();
    assert_eq!((before.stored, before.active, before.compacted, before.live), (28, 28, 0, 28));
    let asked = (head, Seq(world.last));
    world.compact(Reason::Manual, Keep::Exchanges(2)).unwrap();
    let after = counts(&world.rows, &world.generations, world.head(), Seq(world.last), Some(asked))
        .unwrap();
    assert_eq!((after.stored, after.active, after.compacted, after.hidden), (28, 4, 24, 0));
    assert_eq!((after.summaries, after.live, after.sent), (1, 5, Some(28)));
    world.undo();
    let undone =
        counts(&world.rows, &world.generations, world.head(), Seq(world.last), None).unwrap();
    assert_eq!((undone.active, undone.summaries, undone.summaries_stored), (28, 0, 1));
}

#[test]
fn what_was_said_first_is_still_there_after_twenty_compactions() {
    let mut world = World::new(32_000);
    world.user(
        "The customer number of the lighthouse project is LGT-4711. Never deploy it on Fridays.",
    );
    world.answer("Understood. We decided to keep its data in Parquet because the tools read it.");
    world.user("The port of the lighthouse is 1810.");
    world.answer("Noted.");
    let mut made = 0;
    while made < 20 {
        for n in 0..12 {
            world.user(&format!("please look at part {n} of round {made} {}", "again ".repeat(60)));
            world.answer(&format!(
                "part {n} took {} ms {}",
                n * 37 + made,
                "as before ".repeat(60)
            ));
        }
        if made == 3 {
            world.user("Correction: the port of the lighthouse is 2929 now.");
            world.answer("Noted.");
        }
        made += usize::from(world.compact(Reason::Manual, Keep::Exchanges(2)).is_some());
    }
    world.proved();
    let text = crate::world::sent(&world.messages());
    for fact in
        ["LGT-4711", "Never deploy it on Fridays", "Parquet because", "lighthouse is 2929 now"]
    {
        assert!(text.contains(fact), "{fact}\n{text}");
    }
    for line in text.lines().filter(|line| line.contains("1810")) {
        assert!(line.contains("OUTDATED"), "a corrected fact is not asserted: {line}");
    }
}
