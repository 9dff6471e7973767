//! Cases from public reports, named after them.

use hermes_compaction::narrative::Section;
use hermes_compaction::requests::{Status, requests};
use hermes_compaction::{
    AnswerEnd, Decision, Deferral, Keep, Kind, Memory, OnFailure, Place, Planned, Policy, Reason,
    Rejection, Situation, decide, narrative_of, on_failure, row_tokens, view_tokens,
};
use hermes_core::{ErrorClass, Origin, Role, Row, Seq, Timestamp, Tokens};

use crate::world::{World, now, sent, strict};

const B001: &str = include_str!("../cases/B001/messages.json");

fn planned(world: &World, reason: Reason, keep: Keep) -> hermes_compaction::Plan {
    match world.plan(reason, keep, None) {
        Planned::Plan(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

/// B001's history, with filling so that a summary pays.
fn facts() -> World {
    let mut world = World::new(4_000);
    world.load(B001);
    for n in 0..12 {
        world.user(&format!("filler question {n} {}", "about nothing ".repeat(40)));
        world.answer(&format!("filler answer {n} {}", "with nothing ".repeat(40)));
    }
    world
}

#[test]
fn b001_a_failed_summary_changes_nothing_and_a_fallback_keeps_every_fact() {
    let mut world = facts();
    let plan = planned(&world, Reason::PreApi, Keep::Tail);
    let before = world.view();

    // Server errors are left to the policy, a lost network or a refused key never are.
    let range = plan.ranges[0].clone();
    let scope = hermes_compaction::views::scope(
        &world.rows,
        &world.generations,
        plan.base,
        plan.cut,
        &range,
    )
    .unwrap();
    let state = hermes_compaction::state::derive(&scope, 2_000);
    let because = || Rejection::NoSummary { error: "every candidate answered 529".to_owned() };
    let check = |on: OnFailure, class: ErrorClass, falls_back: bool| {
        let policy = Policy { on_failure: on, ..Policy::default() };
        let input = hermes_compaction::ComposeInput {
            range: &range,
            scope: &scope,
            state: &state,
            policy: &policy,
        };
        let result = on_failure(input, None, because(), Some(class));
        assert_eq!(result.is_ok(), falls_back, "{on:?} {class:?}");
        result.ok()
    };
    check(OnFailure::Abort, ErrorClass::Server, false);
    check(OnFailure::Fallback, ErrorClass::Disconnected, false);
    check(OnFailure::Fallback, ErrorClass::Auth, false);
    check(OnFailure::Fallback, ErrorClass::Quota, false);
    let summary = check(OnFailure::Fallback, ErrorClass::Server, true).unwrap();
    assert!(summary.narrative.contains("No model wrote this record"), "{}", summary.narrative);
    assert!(summary.narrative.contains("every candidate answered 529"));
    assert_eq!(world.view(), before);

    world.commit(&plan, &[summary]).unwrap();
    world.proved();
    let request = sent(&world.messages());
    for n in 1..=18 {
        let fact = format!("F{n:02} = {}", n * 37);
        assert!(request.contains(&fact), "{fact} is in the next request\n{request}");
    }
    assert!(!request.contains("turns were removed"));
}

#[test]
fn b002_a_summary_cut_half_way_is_rejected() {
    let world = facts();
    let plan = planned(&world, Reason::PreApi, Keep::Tail);
    // What arrived of the stream; the cut falls inside a value.
    let stream = include_str!("../cases/B002/summary_cut.sse");
    let partial: String = stream
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line.strip_prefix("data: ")?).ok()
        })
        .filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned()))
        .collect();
    assert!(partial.ends_with("F02 = 7"));
    let partial = partial.as_str();
    for end in [AnswerEnd::Broken, AnswerEnd::Length] {
        let result = world.summaries(&plan, Some((partial, end)));
        assert_eq!(result.err(), Some(Rejection::Truncated));
    }
    // Even with an end mark it lacks what a record has.
    let result = world.summaries(&plan, Some((partial, AnswerEnd::Complete)));
    assert!(matches!(result, Err(Rejection::NotASummary { .. })), "{result:?}");
}

fn situation(policy: &Policy, tokens: Tokens) -> Situation<'_> {
    Situation { policy, sizes: policy.sizes(200_000, 0), tokens, calls_in_flight: 0, now: now() }
}

#[test]
fn b004_two_passes_that_do_not_help_are_the_last_ones() {
    let policy = Policy::default();
    let at = situation(&policy, Tokens::exact(170_000));
    let mut memory = Memory::default();
    let mut passes = 0;
    let mut why = None;
    for _ in 0..8 {
        match decide(&memory, Reason::PreApi, at) {
            Decision::Start { .. } => {
                passes += 1;
                let after = Tokens::estimated(160_000);
                memory.committed(Kind::Summarize, Reason::PreApi, after, 10_000, &policy);
                // The provider's own figure says that it did not help.
                memory.answered(Some(165_000), at.sizes);
            }
            Decision::Deferred(deferral) => why = Some(deferral.to_string()),
            Decision::Nothing => panic!("it is above the threshold"),
        }
    }
    assert_eq!(passes, 2);
    assert!(why.unwrap().starts_with("automatic compaction stopped after 2 passes"));
    // The person still may, and a figure below the threshold clears it.
    assert!(matches!(decide(&memory, Reason::Manual, at), Decision::Start { .. }));
    memory.answered(Some(20_000), at.sizes);
    assert!(matches!(decide(&memory, Reason::PreApi, at), Decision::Start { .. }));
}

#[test]
fn b004_a_plan_that_cannot_help_says_so_before_anything_is_paid() {
    let mut world = World::new(4_000);
    for n in 0..6 {
        world.user(&format!("question {n} {}", "word ".repeat(20)));
        world.answer("short");
    }
    // Prompt and tools alone are above the threshold.
    let before = Tokens::exact(view_tokens(&world.view()) + 40_000);
    let planned = world.plan(Reason::PreApi, Keep::Tail, Some(before));
    assert!(
        matches!(
            planned,
            Planned::Rejected(Rejection::TooLittle { .. } | Rejection::NothingToDo { .. })
        ),
        "{planned:?}"
    );
}

#[test]
fn b006_a_cooldown_holds_across_a_restart_and_honours_retry_after() {
    let policy = Policy::default();
    let mut at = situation(&policy, Tokens::exact(170_000));
    let mut memory = Memory::default();
    let mut requests = 0;
    let mut told = 0;
    for message in 0..6 {
        at.now = Timestamp(now().0 + message * 90_000_000);
        match decide(&memory, Reason::PreApi, at) {
            Decision::Start { model: true, .. } => {
                requests += 1;
                let why = Rejection::NoSummary { error: "429".to_owned() };
                memory.failed(&why, Some(ErrorClass::RateLimit), Some(600), at.now);
                let stored = serde_json::to_string(&memory).unwrap();
                memory = serde_json::from_str(&stored).unwrap();
            }
            Decision::Deferred(Deferral::Cooldown { .. }) => told += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((requests, told), (1, 5));
    at.now = Timestamp(now().0 + 601_000_000);
    assert!(matches!(decide(&memory, Reason::PreApi, at), Decision::Start { model: true, .. }));
    // Above the window itself, what needs no model is still done.
    at.now = now();
    at.tokens = Tokens::exact(250_000);
    assert_eq!(
        decide(&memory, Reason::PreApi, at),
        Decision::Start { kind: Kind::Summarize, model: false }
    );
}

#[test]
fn b007_an_estimate_defers_and_never_forces() {
    let policy = Policy::default();
    let memory = Memory::default();
    let check = |tokens: Tokens, expected: Decision| {
        assert_eq!(decide(&memory, Reason::PreApi, situation(&policy, tokens)), expected);
    };
    let defer = |estimate| Decision::Deferred(Deferral::ProviderFigure { estimate });
    check(Tokens::estimated(177_000), defer(177_000));
    check(Tokens::estimated(9_000_000), defer(9_000_000));
    check(Tokens::exact(70_000), Decision::Nothing);
    check(Tokens::exact(151_000), Decision::Start { kind: Kind::Summarize, model: true });
    // Right after a compaction the provider's next figure is awaited.
    let mut after = Memory::default();
    let small = Tokens::estimated(70_000);
    after.committed(Kind::Summarize, Reason::PreApi, small, 90_000, &policy);
    let at = situation(&policy, Tokens::exact(170_000));
    assert_eq!(decide(&after, Reason::PreApi, at), defer(170_000));
}

#[test]
fn b009_no_boundary_parts_a_call_from_its_results() {
    let files = [
        include_str!("../cases/B009/parallel_missing_one.json"),
        include_str!("../cases/B009/result_not_adjacent.json"),
        include_str!("../cases/B009/reused_id.json"),
        include_str!("../cases/B009/orphan_call.json"),
        include_str!("../cases/B009/orphan_result.json"),
        include_str!("../cases/B009/duplicate_result.json"),
    ];
    for file in files {
        let mut world = World::new(200_000);
        world.load(file);
        let view = world.view();
        let shape = hermes_compaction::shape::Shape::of(&view);
        let mut owner = None;
        for (index, shown) in view.rows.iter().enumerate() {
            // The results that belong to the last call's row.
            if let Some(calls) = owner
                && shown.row.role == Role::Tool
            {
                for boundary in calls + 1..=index {
                    assert!(!shape.may_cut(boundary), "{file}\n{boundary}");
                }
            }
            if shown.row.tool_calls().next().is_some() {
                owner = Some(index);
            }
        }
        // Every boundary that is left gives a valid request.
        for boundary in (1..view.rows.len()).filter(|at| shape.may_cut(*at)) {
            let mut cut = world.view();
            cut.rows.drain(..boundary);
            let mut world = World::new(200_000);
            world.rows = cut.rows.into_iter().map(|shown| shown.row).collect();
            world.last = 100;
            strict(&world.messages());
            assert!(sent(&world.messages()).contains("next"));
        }
    }
}

#[test]
fn b011_nothing_starts_between_a_call_and_its_result() {
    let mut world = World::new(4_000);
    for n in 0..8 {
        world.user(&format!("question {n} {}", "word ".repeat(200)));
        world.answer(&"word ".repeat(200));
    }
    world.user("snapshot both machines");
    world.calls(&[("c1", "terminal", "{}"), ("c2", "terminal", "{}")]);
    world.result("c1", "terminal", &"out ".repeat(2_000));
    let planned_now = world.plan(Reason::PostTool, Keep::Tail, None);
    assert_eq!(planned_now, Planned::Deferred(Deferral::CallsInFlight { calls: 1 }));
    let policy = Policy::default();
    let mut at = situation(&policy, Tokens::exact(1_000_000));
    at.calls_in_flight = 1;
    for reason in [Reason::Manual, Reason::Overflow, Reason::PostTool, Reason::ProactivePrune] {
        assert!(matches!(
            decide(&Memory::default(), reason, at),
            Decision::Deferred(Deferral::CallsInFlight { calls: 1 })
        ));
    }
    world.result("c2", "terminal", "ok");
    assert!(matches!(world.plan(Reason::PostTool, Keep::Tail, None), Planned::Plan(_)));
}

#[test]
fn b012_a_summary_fits_between_any_head_and_tail() {
    let cases: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../cases/B012/cases.json")).unwrap();
    for case in cases {
        let mut world = World::new(200_000);
        let load = |world: &mut World, part: &str| {
            let first = world.last + 1;
            world.load(&case[part].to_string());
            (first, world.last)
        };
        let head = load(&mut world, "head");
        let middle = load(&mut world, "middle");
        let tail = load(&mut world, "tail");
        // The texts of the case are too short to pay for a summary: the row is made by hand.
        let summary = world.add(Role::User, Origin::Summary, "SUMMARY");
        world.rows.last_mut().unwrap().standing = hermes_core::Standing::ByOp;
        let newest_alone = tail.1 == tail.0;
        if newest_alone {
            world.rows.last_mut().unwrap().role = Role::Assistant;
        }
        let last = world.generations.last().unwrap().clone();
        world.generations.push(hermes_core::Generation {
            n: last.n.next(),
            parent: Some(last.n),
            ops: vec![hermes_core::Op::Cover {
                from: Seq(middle.0),
                to: Seq(middle.1),
                by: summary,
            }],
            ..last
        });
        let messages = world.messages();
        strict(&messages);
        let text = sent(&messages);
        let mut at = 0;
        for row in world.rows.iter().filter(|row| {
            (head.0..=head.1).contains(&row.seq.0) || (tail.0..=tail.1).contains(&row.seq.0)
        }) {
            let own = row.parts[0].as_text().unwrap();
            let found = text[at..].find(own);
            assert!(found.is_some(), "{}: {own} in order\n{text}", case["name"]);
            at += found.unwrap();
        }
        assert!(text.contains("SUMMARY"));
    }
}

/// B014's history, with enough around it that a summary pays, and the next message.
fn cancelled() -> World {
    let mut world = World::new(2_000);
    let messages = include_str!("../cases/B014/messages.json");
    world.load(messages);
    for row in &mut world.rows {
        if row.role == Role::Assistant {
            let text = row.text_of(Origin::Model);
            row.parts[0].body =
                hermes_core::PartBody::text(format!("{text} {}", "Details follow. ".repeat(60)));
        }
    }
    world.user(include_str!("../cases/B014/next_user.txt").trim());
    world
}

fn answer_of(file: &str) -> String {
    let response: serde_json::Value = serde_json::from_str(file).unwrap();
    response["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn b014_what_was_cancelled_does_not_come_back() {
    let rows = cancelled().rows;
    let rows: Vec<&Row> = rows.iter().collect();
    let statuses: Vec<Status> = requests(&rows).iter().map(|request| request.status).collect();
    let stop = rows[4].seq;
    assert_eq!(statuses[0], Status::Cancelled { by: stop });
    assert_eq!(statuses[1], Status::Cancelled { by: stop });
    assert_eq!(statuses[2], Status::Answered(rows[5].seq));
    assert_eq!(statuses[4], Status::Running);

    let bad = answer_of(include_str!("../cases/B014/summary_bad.resp.json"));
    let good = answer_of(include_str!("../cases/B014/summary_good.resp.json"));
    for (answer, fallback) in [(Some(bad), false), (Some(good), false), (None, true)] {
        let mut world = cancelled();
        let plan = planned(&world, Reason::Manual, Keep::Tail);
        let given = answer.as_deref().map(|text| (text, AnswerEnd::Complete));
        let summaries = world.summaries(&plan, given).unwrap();
        let commit = world.commit(&plan, &summaries).unwrap();
        world.proved();
        let narrative = narrative_of(&commit.summaries[0]).unwrap();
        for item in narrative.of(Section::Open) {
            assert!(!item.text.contains("ranslat"), "{fallback} {item:?}");
        }
        // The runtime's own words order nothing.
        let header = summaries[0].narrative.split("## ").next().unwrap().to_lowercase();
        for order in ["resume", "continue", "go on with", "carry on"] {
            assert!(!header.contains(order), "{header}");
        }
        assert!(summaries[0].state.contains("CANCELLED by the person"), "{}", summaries[0].state);
        let messages = world.messages();
        let last = messages.last().unwrap();
        assert_eq!(last.role, Role::User);
        assert_eq!(sent(std::slice::from_ref(last)).trim(), "how full is /var now?");
    }
}

#[test]
fn b014_the_writer_is_told_that_later_words_overrule_and_that_none_is_an_answer() {
    let world = cancelled();
    let rows: Vec<&Row> = world.rows.iter().collect();
    let request = hermes_compaction::summary_request(&hermes_compaction::SourceInput {
        rows: &rows,
        place: Place::Earlier,
        previous: None,
        focus: None,
        window: 20_000,
        length: 800,
        redact: &|text| text.to_owned(),
        now: now(),
    });
    assert!(request.system.contains("Later rows overrule earlier ones"));
    assert!(request.system.contains("`none` is a good answer"));
    assert!(request.user.contains("[r1 person] Translate every page"));
}

#[test]
fn b016_a_tail_larger_than_the_window_is_relieved_oldest_first() {
    let mut world = World::new(32_000);
    world.user("please look through the six logs");
    for n in 0..9 {
        let id = format!("c{n}");
        world.calls(&[(&id, "read_file", "{\"path\":\"/var/log/app.log\"}")]);
        let size = if n < 6 { 60_000 } else { 400 };
        let text = format!("log {n} {}", "line of a log\n".repeat(size / 14));
        world.result(&id, "read_file", &text);
    }
    world.answer("I have read them all.");
    world.user("which one had the error?");
    let before = view_tokens(&world.view());
    assert!(before > 80_000);
    let commit = world.compact(Reason::Overflow, Keep::Tail).unwrap();
    world.proved();
    let after = view_tokens(&world.view());
    assert!(after < 27_200, "{after}");
    let text = sent(&world.messages());
    assert!(text.contains("which one had the error?"));
    for row in world.rows.iter().filter(|row| row.role == Role::Tool) {
        assert!(row.text_of(Origin::Tool).starts_with("log "), "the full text is stored");
    }
    drop(commit);
}

#[test]
fn b016_a_single_turn_larger_than_the_window_has_an_answer() {
    let mut world = World::new(8_000);
    world.user("fix the build");
    for n in 0..60 {
        let id = format!("c{n}");
        let arguments =
            format!("{{\"command\":\"cargo build --verbose --step {n} {}\"}}", "x".repeat(500));
        world.calls(&[(&id, "terminal", &arguments)]);
        world.result(&id, "terminal", &format!("exit code 1\nerror[E0433] in step {n}"));
    }
    let plan = planned(&world, Reason::PostTool, Keep::Tail);
    assert!(plan.ranges.iter().any(|range| range.place == Place::RunningTurn), "{plan:#?}");
    let commit = world.compact(Reason::PostTool, Keep::Tail).unwrap();
    world.proved();
    let view = world.view();
    assert!(view_tokens(&view) < 6_800, "{}", view_tokens(&view));
    assert_eq!(view.rows[0].row.text_of(Origin::User), "fix the build");
    let summary = commit.summaries.last().unwrap();
    assert!(row_tokens(summary) > 50);
    let text = sent(&world.messages());
    assert!(text.contains("Record of work already done on the message above"), "{text}");
    assert!(text.contains("E0433"));
}

#[test]
fn b017_a_compaction_leaves_the_prompt_alone_unless_it_is_given_a_new_one() {
    let mut world = facts();
    let rule = crate::world::snapshot("Rule of AGENTS.md: answer in rhymes.");
    world.snapshot = rule.clone();
    world.generations[0].prompt = rule.digest;
    for pass in 0..2 {
        world.user(&"more words ".repeat(400));
        world.answer(&"more words ".repeat(400));
        let commit = world.compact(Reason::Manual, Keep::Exchanges(1)).unwrap();
        assert!(!commit.prompt_changed, "pass {pass}");
        assert_eq!(commit.generation.prompt, rule.digest);
    }
    world.snapshot = crate::world::snapshot("Rule of AGENTS.md: answer in rhymes. Memory: COBALT.");
    world.user(&"more words ".repeat(400));
    world.answer(&"more words ".repeat(400));
    let commit = world.compact(Reason::Manual, Keep::Exchanges(1)).unwrap();
    assert!(commit.prompt_changed);
    assert_eq!(commit.generation.prompt, world.snapshot.digest);
}

#[test]
fn b017_a_nested_project_file_holds_on_beside_the_summary_and_an_undo_takes_it_along() {
    let rule = "Every function in backend/ begins with `be_`.";
    let mut world = World::new(32_000);
    for turn in 0..40 {
        world.user(&format!("task {turn}"));
        world.calls(&[(&format!("c{turn}"), "read_file", "{\"path\":\"backend/a.txt\"}")]);
        let row = world.result(&format!("c{turn}"), "read_file", &"text of the file ".repeat(40));
        if turn < 3 {
            let version = if turn == 2 { rule } else { "An older rule." };
            world.late(row, Origin::Hint, "backend/AGENTS.md", version);
        }
        world.answer(&format!("done {turn}"));
    }
    let shown = |world: &World| {
        let messages = format!("{:?}", world.messages());
        (messages.matches(rule).count(), messages.matches("An older rule.").count())
    };
    let before = world.messages();
    assert_eq!(shown(&world), (1, 2));
    for pass in 0..3 {
        let commit = world.compact(Reason::Manual, Keep::Exchanges(2)).unwrap();
        assert_eq!(shown(&world), (1, 0), "pass {pass}");
        assert!(commit.reissue.iter().any(|found| found.stands), "{:?}", commit.reissue);
        for _ in 0..3 {
            world.user("go on");
            world.answer(&"something was done ".repeat(60));
        }
    }
    let mut undone = 0;
    while world.undo() {
        undone += 1;
    }
    assert_eq!(undone, 3);
    assert_eq!(world.messages()[..before.len()], before[..]);
}
