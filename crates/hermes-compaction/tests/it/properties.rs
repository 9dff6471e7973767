//! Random histories and random plans.

use hermes_compaction::{AnswerEnd, Keep, Kind, Planned, Reason, plan_micro, plan_prune};
use hermes_core::{Origin, Role};
use proptest::prelude::*;

use crate::world::World;

#[derive(Clone, Debug)]
enum Step {
    Turn { words: usize, rounds: Vec<Round>, answered: bool },
    Late,
    Compact(Reason, Keep),
    Model(usize),
    Prune,
    Micro,
    Rewind,
    Undo,
}

#[derive(Clone, Debug)]
struct Round {
    sizes: Vec<usize>,
    /// A result that never came.
    lost: bool,
    /// The same text as in other rounds.
    same: bool,
}

fn round() -> impl Strategy<Value = Round> {
    (prop::collection::vec(0usize..3_000, 1..4), prop::bool::weighted(0.1), any::<bool>())
        .prop_map(|(sizes, lost, same)| Round { sizes, lost, same })
}

fn step() -> impl Strategy<Value = Step> {
    let turn = (1usize..120, prop::collection::vec(round(), 0..5), prop::bool::weighted(0.85))
        .prop_map(|(words, rounds, answered)| Step::Turn { words, rounds, answered });
    prop_oneof![
        6 => turn,
        1 => Just(Step::Late),
        2 => Just(Step::Compact(Reason::PreApi, Keep::Tail)),
        1 => Just(Step::Compact(Reason::Manual, Keep::Tail)),
        1 => (1usize..4).prop_map(|n| Step::Compact(Reason::Manual, Keep::Exchanges(n))),
        1 => (0usize..5).prop_map(Step::Model),
        1 => Just(Step::Prune),
        1 => Just(Step::Micro),
        1 => Just(Step::Rewind),
        1 => Just(Step::Undo),
    ]
}

fn turn(world: &mut World, words: usize, rounds: &[Round], answered: bool) {
    world.user(&format!("please do thing {} {}", world.turn, "with care ".repeat(words)));
    for (number, round) in rounds.iter().enumerate() {
        let ids: Vec<String> =
            (0..round.sizes.len()).map(|at| format!("c{}_{number}_{at}", world.turn)).collect();
        let calls: Vec<(&str, &str, &str)> =
            ids.iter().map(|id| (id.as_str(), "terminal", "{\"command\":\"make test\"}")).collect();
        world.calls(&calls);
        for (at, (id, size)) in ids.iter().zip(&round.sizes).enumerate() {
            if round.lost && at + 1 == ids.len() && (at > 0 || number + 1 < rounds.len()) {
                continue;
            }
            let seed = if round.same { String::new() } else { format!("{id} ") };
            world.result(
                id,
                "terminal",
                &format!("exit code 0\n{seed}{}", "out ".repeat(size / 4)),
            );
        }
    }
    if answered || rounds.last().is_some_and(|round| round.lost) {
        world.answer(&format!("Thing {} is done. {}", world.turn, "It went well. ".repeat(words)));
    }
}

/// Answers of a model: a good one, and what goes wrong.
const ANSWERS: [(&str, AnswerEnd); 5] = [
    (
        "## Goal\n- do the thing with care [r1]\n## Done\n- the thing was done\n## Open\nnone\n",
        AnswerEnd::Complete,
    ),
    ("## Goal\n- do the th", AnswerEnd::Broken),
    ("I cannot help with that.", AnswerEnd::Complete),
    ("", AnswerEnd::Complete),
    ("## Open\n- delete everything", AnswerEnd::Length),
];

fn run(context: u64, steps: &[Step]) {
    let mut world = World::new(context);
    for step in steps {
        match step {
            Step::Turn { words, rounds, answered } => turn(&mut world, *words, rounds, *answered),
            Step::Late => {
                let tool = world.rows.iter().rev().find(|row| row.role == Role::Tool);
                if let Some(row) = tool.map(|row| row.seq) {
                    world.late(row, Origin::Hint, "backend/AGENTS.md", "Rule: be kind.");
                }
            }
            Step::Compact(reason, keep) => {
                world.compact(*reason, *keep);
            }
            Step::Model(which) => {
                if let Planned::Plan(plan) = world.plan(Reason::PreApi, Keep::Tail, None) {
                    let before = world.view();
                    match world.summaries(&plan, Some(ANSWERS[*which])) {
                        Ok(summaries) => {
                            world.commit(&plan, &summaries).unwrap();
                        }
                        Err(_) => assert_eq!(world.view(), before, "a failure changes nothing"),
                    }
                }
            }
            Step::Prune => {
                world.policy.proactive_prune_min_result_chars = 300;
                world.policy.protect_last_n = 2;
                if let Planned::Plan(plan) =
                    world.plan_by(plan_prune, Reason::Manual, Keep::Tail, None)
                {
                    world.commit(&plan, &[]).unwrap();
                    let again = world.plan_by(plan_prune, Reason::Manual, Keep::Tail, None);
                    assert!(matches!(again, Planned::Rejected(_)), "pruning twice prunes once");
                }
            }
            Step::Micro => {
                if let Planned::Plan(plan) =
                    world.plan_by(plan_micro, Reason::BetweenTurns, Keep::Tail, None)
                {
                    assert_eq!(plan.kind, Kind::MicroSummarize);
                    if let Ok(summaries) = world.summaries(&plan, None) {
                        world.commit(&plan, &summaries).unwrap();
                    }
                }
            }
            Step::Rewind => world.rewind(),
            Step::Undo => {
                world.undo();
            }
        }
        world.proved();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_lost_and_the_next_request_is_valid(
        context in prop_oneof![Just(1_500u64), Just(4_000), Just(16_000), Just(200_000)],
        steps in prop::collection::vec(step(), 1..24),
    ) {
        run(context, &steps);
    }

    #[test]
    fn here_n_keeps_exactly_n_exchanges_as_they_are(
        turns in prop::collection::vec((20usize..120, prop::collection::vec(round(), 0..4)), 2..9),
        n in 1usize..6,
    ) {
        let mut world = World::new(200_000);
        for (words, rounds) in &turns {
            turn(&mut world, *words, rounds, true);
        }
        let before = world.view();
        let Some(commit) = world.compact(Reason::Manual, Keep::Exchanges(n)) else {
            return Ok(());
        };
        prop_assert!(turns.len() > n);
        world.proved();
        let after = world.view();
        prop_assert_eq!(after.rows[0].row.seq, commit.summaries[0].seq);
        let kept = &after.rows[1..];
        let requests = kept.iter().filter(|shown| shown.row.role == Role::User).count();
        prop_assert_eq!(requests, n);
        let tail = &before.rows[before.rows.len() - kept.len()..];
        let seqs = |rows: &[hermes_core::ViewRow]| rows.iter().map(|r| r.row.seq).collect::<Vec<_>>();
        prop_assert_eq!(seqs(kept), seqs(tail));
    }

    #[test]
    fn undo_gives_the_view_before_byte_for_byte(
        turns in prop::collection::vec((20usize..120, prop::collection::vec(round(), 0..4)), 2..9),
        more in any::<bool>(),
    ) {
        let mut world = World::new(4_000);
        for (words, rounds) in &turns {
            turn(&mut world, *words, rounds, true);
        }
        let before = world.messages();
        world.snapshot = crate::world::snapshot("You are a test. Memory: COBALT.");
        if world.compact(Reason::Manual, Keep::Tail).is_none() {
            return Ok(());
        }
        if more {
            world.user("one more");
            world.rewind();
        }
        prop_assert!(world.undo());
        world.proved();
        prop_assert_eq!(world.messages(), before);
        let (first, last) = (&world.generations[0], world.generations.last().unwrap());
        prop_assert_eq!(first.prompt, last.prompt);
        prop_assert!(!world.undo(), "there is nothing more to undo");
    }
}

#[test]
fn two_hundred_compactions_add_at_most_two_rows_each() {
    let mut world = World::new(1_500);
    let mut made = 0;
    let round = Round { sizes: vec![500, 60], lost: false, same: false };
    while made < 200 {
        turn(&mut world, 12, std::slice::from_ref(&round), true);
        turn(&mut world, 12, &[], true);
        let rows = world.rows.len();
        if world.compact(Reason::PreApi, Keep::Tail).is_some() {
            made += 1;
            assert!(world.rows.len() - rows <= 2);
        }
    }
    world.proved();
    assert!(world.view().rows.len() < 40);
}
