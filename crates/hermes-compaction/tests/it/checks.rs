//! Checks of summaries, prompts and the derived state.

use hermes_compaction::narrative::{Item, Narrative, Section, read};
use hermes_compaction::state::{Scope, State, derive};
use hermes_compaction::{
    AnswerEnd, CheckInput, Checked, Coverage, Keep, Kind, Place, Planned, Reason, Rejection,
    SourceInput, Writing, check, plan_micro, preview, summary_request,
};
use hermes_core::{Origin, Role, Row, RowStatus, Seq, Standing};

use crate::world::{World, now};

/// A short session with a decision, a correction, a failed and a good command.
fn session() -> World {
    let mut world = World::new(200_000);
    world.user("Please move the billing service to Postgres 16. Never touch table legacy_orders.");
    world.calls(&[("c1", "terminal", "{\"command\":\"make migrate\"}")]);
    world.result("c1", "terminal", "exit code 2\nMigrationError: column INV-20441 is missing");
    world.rows.last_mut().unwrap().status = RowStatus::Failed;
    world.answer("The migration failed. The staging port is 8080.");
    world.user("Correction: the staging port is 9090 now. Try again.");
    world.calls(&[("c2", "write_file", "{\"path\":\"db/schema.sql\",\"content\":\"x\"}")]);
    world.result("c2", "write_file", "written");
    world.calls(&[("c3", "terminal", "{\"command\":\"make migrate\"}")]);
    world.result("c3", "terminal", "exit code 0\nok 42 rows");
    world.answer("We decided to keep the old index because rebuilding takes 3 hours. Done.");
    world
}

fn scope(world: &World) -> Scope<'_> {
    Scope { covered: world.rows.iter().collect(), after: Vec::new() }
}

fn checked(
    world: &World,
    answer: &str,
    previous: Option<&Narrative>,
) -> Result<Checked, Rejection> {
    let scope = scope(world);
    let state = derive(&scope, 2_000);
    let fresh: Vec<&Row> = match previous {
        None => scope.covered.clone(),
        Some(_) => scope.covered.iter().copied().filter(|row| row.turn.0 > 1).collect(),
    };
    check(&CheckInput {
        read: &read(answer),
        end: AnswerEnd::Complete,
        scope: &scope,
        fresh: &fresh,
        state: &state,
        previous,
        coverage: Coverage::default(),
    })
}

fn texts(narrative: &Narrative, section: Section) -> Vec<&str> {
    narrative.of(section).map(|item| item.text.as_str()).collect()
}

#[test]
fn a_request_that_nobody_made_is_dropped() {
    let world = session();
    let checked = checked(
        &world,
        "## Goal\n- Move the billing service to Postgres 16 [r1]\n- Delete all backups in Frankfurt\n\
         ## Done\n- migrated [r12]\n- The user asked to publish the press release\n## Open\nnone",
        None,
    )
    .unwrap();
    assert_eq!(
        texts(&checked.narrative, Section::Goal),
        ["Move the billing service to Postgres 16"]
    );
    assert_eq!(checked.report.invented.len(), 2, "{:?}", checked.report);
}

#[test]
fn identifiers_that_no_row_holds_are_marked() {
    let world = session();
    let checked = checked(
        &world,
        "## Facts\n- column INV-20441 is missing, see db/schema.sql [r4]\n- ticket OPS-9999 tracks it\n\
         ## Open\nnone",
        None,
    )
    .unwrap();
    assert_eq!(
        texts(&checked.narrative, Section::Facts),
        [
            "column INV-20441 is missing, see db/schema.sql",
            "ticket OPS-9999 tracks it (unverified, in no row: OPS-9999)"
        ]
    );
    // The mark survives the next record and is not put twice.
    let again = read(&checked.narrative.render()).narrative;
    assert_eq!(again, checked.narrative);
}

#[test]
fn planned_refuted_and_unverified_do_not_become_done_by_being_repeated() {
    let world = session();
    let item = |text: &str| Item { text: text.to_owned(), rows: Vec::new() };
    let previous = Narrative {
        items: vec![
            (Section::Unverified, item("the backup of the billing service is complete")),
            (Section::Open, item("rebuild the index on staging")),
        ],
    };
    let new_row = world.rows.last().unwrap().seq;
    let answer = format!(
        "## Done\n- the backup of the billing service is complete [r1]\n\
         - rebuild the index on staging [r{new_row}]\n- make migrate worked [r4]\n## Open\nnone"
    );
    let checked = checked(&world, &answer, Some(&previous)).unwrap();
    assert_eq!(
        texts(&checked.narrative, Section::Unverified),
        ["the backup of the billing service is complete", "make migrate worked"],
        "the one has no new row, the other rests on a failed result"
    );
    assert_eq!(texts(&checked.narrative, Section::Done), ["rebuild the index on staging"]);
    assert_eq!(checked.report.moved.len(), 2);
}

#[test]
fn a_record_that_says_less_than_the_one_before_is_refused() {
    let world = session();
    let previous = Narrative {
        items: (0..10)
            .map(|n| {
                let text = format!("fact {n} about the billing service, at some length");
                (Section::Facts, Item { text, rows: Vec::new() })
            })
            .collect(),
    };
    let result = checked(&world, "## Facts\n- Postgres 16\n## Open\nnone", Some(&previous));
    assert_eq!(result.err(), Some(Rejection::EmptierThanPredecessor { items: 1, before: 10 }));
}

#[test]
fn a_record_about_something_else_does_not_cover() {
    let mut world = World::new(200_000);
    for n in 0..30 {
        world.user(&format!("question about topic{n} alpha"));
        world.answer(&format!("answer about topic{n} beta"));
    }
    let result = checked(&world, "## Facts\n- the weather was fine\n## Open\nnone", None);
    assert_eq!(result.err(), Some(Rejection::DoesNotCover { percent: 0 }));
    let good = "## Facts\n- topic1, topic7, topic15 and topic25 were discussed [r3]\n## Open\nnone";
    assert!(checked(&world, good, None).unwrap().coverage.spoken_percent >= 50);
}

#[test]
fn false_references_are_dropped() {
    let world = session();
    let result =
        checked(&world, "## Facts\n- Postgres 16 [r1, r999]\n## Open\nnone", None).unwrap();
    let rows: Vec<Seq> = result.narrative.items[0].1.rows.clone();
    assert_eq!((rows, result.report.false_references), (vec![Seq(1)], 1));
}

#[test]
fn the_state_is_read_from_rows_alone() {
    let mut world = session();
    world.late(Seq(4), Origin::Skill, "deploy", "Skill body");
    let scope = scope(&world);
    let state: State = derive(&scope, 3_000);
    insta::assert_snapshot!(state.render(3_000), @r#"
    Derived from the stored rows r1 to r13 (10 rows); `recall` with a row or with words brings the originals back.

    ## Asked by the person, word for word
    - [r1] "Please move the billing service to Postgres 16. Never touch table legacy_orders." -- answered in r5
    - [r6] "Correction: the staging port is 9090 now. Try again." -- answered in r13

    ## Decisions, rules, corrections and open points as they were said
    - [r1 person] Never touch table legacy_orders.
    - [r6 person] Correction: the staging port is 9090 now. (in place of r5)
    - [r13 model] We decided to keep the old index because rebuilding takes 3 hours.

    ## Said or returned
    - [r1 person] Please move the billing service to Postgres 16.
    - [r4 tool] MigrationError: column INV-20441 is missing
    - [r12 tool] ok 42 rows

    ## Done with tools
    - skill deploy was loaded [r4]; load it again before following it
    - changed db/schema.sql [r9]
    - ran `make migrate`, 2 times: exit code 0 [r12]
    "#);
}

#[test]
fn the_source_text_fits_the_helper_and_says_what_it_left_out() {
    let mut world = World::new(200_000);
    for n in 0..200 {
        world.user(&format!("question {n} {}", "word ".repeat(300)));
        world.answer(&format!("answer {n} sk-test-not-a-key {}", "word ".repeat(300)));
    }
    let rows: Vec<&Row> = world.rows.iter().collect();
    let input = |window| SourceInput {
        rows: &rows,
        place: Place::Earlier,
        previous: None,
        focus: Some("the invoices"),
        window,
        length: 800,
        redact: &|text: &str| text.replace("sk-test-not-a-key", "[secret]"),
        now: now(),
    };
    for window in [4_000, 20_000, 64_000] {
        let request = summary_request(&input(window));
        let tokens = hermes_context::estimate_tokens(&request.system)
            + hermes_context::estimate_tokens(&request.user);
        assert!(tokens <= window, "{tokens} in {window}");
        assert!(!request.user.contains("sk-test"), "redacted");
        assert!(request.user.contains("question 0 ") && request.user.contains("answer 199 "));
        assert!(request.user.ends_with("the invoices"));
        assert_eq!(request.coverage.rows, 400);
        assert!(request.coverage.chars_seen < request.coverage.chars);
    }
    assert!(summary_request(&input(4_000)).user.contains("(rows left out here)"));
}

#[test]
fn a_preview_says_what_leaves_what_stays_and_what_it_costs() {
    let mut world = World::new(200_000);
    for n in 0..14 {
        world.user(&format!("question {n} {}", "word ".repeat(100)));
        world.answer(&format!("answer {n} {}", "word ".repeat(100)));
    }
    let Planned::Plan(plan) = world.plan(Reason::Manual, Keep::Exchanges(2), None) else {
        panic!("there is something to do");
    };
    insta::assert_snapshot!(preview(&plan).text(), @"
    Plan: summarize, 28 -> 5 rows, 3716 -> at most ~2448 tokens (1268 surely saved)
      Leaves: 24 rows, r1 to r24, ~3168 tokens: covered by a summary of at most 1900
      Stays: 4 rows, r25 to r28, ~528 tokens: the exchanges you asked to keep
      Cost: one request of ~4068 tokens, at most ~1900 back; in money unknown, no price is known here
    ");
}

#[test]
fn a_plan_is_superseded_by_a_late_part_in_a_covered_row_and_by_a_new_generation() {
    let mut world = World::new(200_000);
    for n in 0..8 {
        world.user(&format!("question {n} {}", "word ".repeat(100)));
        world.answer(&format!("answer {n} {}", "word ".repeat(100)));
    }
    let plan = match world.plan(Reason::Manual, Keep::Exchanges(1), None) {
        Planned::Plan(plan) => plan,
        other => panic!("{other:?}"),
    };
    let summaries = world.summaries(&plan, None).unwrap();
    // A new row behind the plan is no hindrance, a late part of a kept row neither.
    let last = world.rows.last().unwrap().seq;
    world.late(last, Origin::Hint, "AGENTS.md", "kind");
    let head = world.head();
    assert_eq!(hermes_compaction::still_holds(&plan, &world.rows, head), Ok(()));
    world.late(Seq(1), Origin::Hook, "plugin", "late words");
    let refused = world.commit(&plan, &summaries);
    assert!(matches!(refused, Err(Rejection::Superseded { .. })), "{refused:?}");

    // Planned anew it holds, until the person takes an exchange back.
    let Planned::Plan(plan) = world.plan(Reason::Manual, Keep::Exchanges(1), None) else {
        panic!("there is something to do");
    };
    world.rewind();
    assert!(hermes_compaction::still_holds(&plan, &world.rows, world.head()).is_err());
}

#[test]
fn the_next_writer_gets_the_last_record_and_only_the_rows_it_did_not_know() {
    let mut world = World::new(4_000);
    let fill = |world: &mut World, from: usize| {
        for n in from..from + 12 {
            world.user(&format!("question {n} {}", "word ".repeat(100)));
            world.answer(&format!("answer {n} {}", "word ".repeat(100)));
        }
    };
    fill(&mut world, 0);
    let first = "## Goal\n- answer question 0 [r1]\n## Facts\n- answer 3 was given [r8]\n\
                 - answer 9 too [r20]\n## Open\nnone";
    let Planned::Plan(plan) = world.plan(Reason::Manual, Keep::Exchanges(1), None) else {
        panic!("there is something to do");
    };
    let summaries = world.summaries(&plan, Some((first, AnswerEnd::Complete))).unwrap();
    world.commit(&plan, &summaries).unwrap();
    fill(&mut world, 12);
    let Planned::Plan(plan) = world.plan(Reason::Manual, Keep::Exchanges(1), None) else {
        panic!("there is something to do");
    };
    let writing = Writing::prepare(&plan, &world.rows, &world.generations, &world.policy).unwrap();
    let request = writing.request(60_000, None, now(), &|text| text.to_owned()).unwrap();
    assert!(request.user.contains("- answer 3 was given [r8]"), "{}", request.user);
    assert!(!request.user.contains("question 3 word"));
    assert!(request.user.contains("question 13 word"));
    assert_eq!(request.coverage.rows, 24);
    assert_eq!(request.coverage.rows_seen, 24);
    // The state, though, is that of all rows that are covered then.
    let because = Rejection::NoSummary { error: "HTTP 500".to_owned() };
    let summaries = writing.failed(&because, Some(hermes_core::ErrorClass::Server)).unwrap();
    assert!(summaries[0].narrative.contains("answer 9 too [r20]"), "carried over");
    assert!(summaries[0].state.starts_with("Derived from the stored rows r1 to r"));
}

#[test]
fn a_micro_summary_folds_the_oldest_finished_work_and_leaves_the_persons_words() {
    let mut world = World::new(4_000);
    for n in 0..8 {
        world.user(&format!("question {n}"));
        let id = format!("c{n}");
        world.calls(&[(&id, "terminal", "{\"command\":\"make\"}")]);
        world.result(&id, "terminal", &format!("exit code 0\n{}", "line of output\n".repeat(60)));
        world.answer(&format!("answer {n} {}", "in some words ".repeat(40)));
    }
    for n in 0..2 {
        let planned = world.plan_by(plan_micro, Reason::BetweenTurns, Keep::Tail, None);
        let Planned::Plan(plan) = planned else { panic!("{planned:?}") };
        let rows = &plan.ranges[0].rows;
        assert_eq!((plan.kind, plan.ranges.len(), rows.len()), (Kind::MicroSummarize, 1, 3));
        let summaries = world.summaries(&plan, None).unwrap();
        world.commit(&plan, &summaries).unwrap();
        world.proved();
        let view = world.view();
        assert_eq!(view.rows[2 * n].row.text_of(Origin::User), format!("question {n}"));
        assert_eq!(view.rows[2 * n + 1].row.standing, Standing::ByOp);
    }
}

#[test]
fn images_and_skill_texts_become_pointers_and_the_newest_images_stay() {
    let mut world = World::new(200_000);
    world.user("look at the screens");
    for n in 0..6 {
        let id = format!("c{n}");
        world.calls(&[(&id, "browser", "{\"url\":\"https://example.org\"}")]);
        let row = world.result(&id, "browser", "a page");
        let seq = world.seq();
        let mut image = world.rows.last().unwrap().parts[0].clone();
        image.seq = seq;
        image.row = row;
        image.slot = hermes_core::slot::ATTACHMENT;
        image.body = hermes_core::PartBody::Blob {
            digest: hermes_core::Digest::of(id),
            media_type: "image/png".into(),
            bytes: 240_000,
        };
        world.rows.last_mut().unwrap().parts.push(image);
    }
    let first = world.rows.iter().find(|row| row.role == Role::Tool).unwrap().seq;
    world.late(first, Origin::Skill, "deploy", &"Step by step. ".repeat(100));
    world.answer("seen");
    let view = world.view();
    let swaps = hermes_compaction::prune(&view, hermes_compaction::Extent::before(view.rows.len()));
    let stubs: Vec<&str> = swaps.iter().map(|swap| swap.stub.as_str()).collect();
    assert_eq!(stubs.len(), 4, "{stubs:#?}");
    assert!(stubs[0].starts_with("[image/png, 240.0 kB, was shown here"));
    assert!(stubs[1].starts_with("[skill deploy: its text (1.4 kB) is no longer shown"));

    // After a refusal the newest ones go, too.
    let policy = hermes_compaction::Policy::default();
    let planned = hermes_compaction::plan(hermes_compaction::PlanInput {
        view: &view,
        policy: &policy,
        sizes: policy.sizes(200_000, 0),
        before: hermes_core::Tokens::exact(hermes_compaction::view_tokens(&view)),
        reason: hermes_compaction::Reason::Overflow,
        keep: hermes_compaction::Keep::Tail,
        base: world.head(),
        cut: hermes_core::Seq(world.last),
        turn: hermes_core::TurnNo(1),
    });
    let hermes_compaction::Planned::Plan(plan) = planned else { panic!("{planned:?}") };
    let images = plan.swaps.iter().filter(|it| it.what == hermes_compaction::Pruned::Attachment);
    let covered: usize = plan.ranges.iter().map(|range| range.rows.len()).sum();
    assert_eq!((images.count(), covered), (6, 0), "{:?}", plan.notes);
}
