//! Times of planning, pruning and a whole compaction without a model, on made-up histories: one of
//! terminal output, and one of talk with corrections. Each figure is the best of several rounds,
//! which is what the work costs when nothing else runs.
//!
//! `cargo run --release -p hermes-compaction --example plan_bench [ROWS [ROUNDS]]`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for a person to run")]

use std::time::Instant;

use hermes_compaction::{
    CommitInput, Extent, Keep, PlanInput, Planned, Policy, Reason, Rejection, Writing, build, plan,
    prune, view_tokens,
};
use hermes_core::{
    Cause, Digest, Generation, GenerationNo, Origin, Part, PartBody, Role, Row, RowStatus, Seq,
    SessionId, Snapshot, Standing, Timestamp, Tokens, ToolLink, ToolSet, TurnNo, fold_view, slot,
};

fn main() {
    let mut given = std::env::args().skip(1).map(|text| text.parse::<u64>().ok());
    let rows = given.next().flatten().unwrap_or(10_000);
    let rounds = given.next().flatten().unwrap_or(40);
    for (count, rounds) in [(800, rounds), (rows, rounds.div_ceil(8))] {
        measure("terminal", count, rounds, &history(count, terminal));
        measure("talk", count, rounds, &history(count, talk));
    }
}

/// The shortest of several rounds of some work, in milliseconds.
fn best<T>(rounds: u64, mut work: impl FnMut() -> T) -> (f64, T) {
    let mut time = f64::MAX;
    let mut last = None;
    for _ in 0..rounds.max(1) {
        let started = Instant::now();
        let made = work();
        time = time.min(started.elapsed().as_secs_f64() * 1e3);
        last = Some(made);
    }
    (time, last.unwrap())
}

fn measure(name: &str, count: u64, rounds: u64, rows: &[Row]) {
    let snapshot =
        Snapshot { text: "You are a test.".into(), digest: Digest::of("x"), blocks: Vec::new() };
    let tools = ToolSet::new(Vec::new());
    let generations = [Generation {
        n: GenerationNo(0),
        parent: None,
        cause: Cause::Start,
        created_at: Timestamp(0),
        prompt: snapshot.digest,
        tools: tools.digest,
        ops: Vec::new(),
    }];
    let cut = Seq(count * 2 + 2);
    let policy = Policy::default();
    let sizes = policy.sizes(200_000, 0);
    let view = fold_view(rows, &generations, GenerationNo(0), cut).unwrap();
    let bytes: usize =
        rows.iter().flat_map(|row| &row.parts).map(|part| part.as_text().map_or(0, str::len)).sum();
    println!(
        "{count} rows of {name}, {:.1} MB, ~{} tokens",
        bytes as f64 / 1e6,
        view_tokens(&view)
    );

    let input = PlanInput {
        view: &view,
        policy: &policy,
        sizes,
        before: Tokens::exact(view_tokens(&view) + 10_000),
        reason: Reason::Manual,
        keep: Keep::Tail,
        base: GenerationNo(0),
        cut,
        turn: TurnNo(9),
    };
    let (planning, planned) = best(rounds, || plan(input));
    let Planned::Plan(made) = planned else {
        println!("  nothing to do");
        return;
    };
    let (pruning, swaps) = best(rounds, || prune(&view, Extent::before(view.rows.len())));
    println!("  plan {planning:.2} ms, prune {pruning:.2} ms ({} swaps)", swaps.len());

    let because = Rejection::NoSummary { error: "none was asked".to_owned() };
    let session = SessionId::new("bench");
    let (deriving, ()) =
        best(rounds, || drop(Writing::prepare(&made, rows, &generations, &policy).unwrap()));
    let (rest, commit) = best(rounds, || {
        let writing = Writing::prepare(&made, rows, &generations, &policy).unwrap();
        let summaries = writing.derived(&because).unwrap();
        let mut last = cut.0;
        let input = CommitInput {
            session: &session,
            plan: &made,
            summaries: &summaries,
            rows,
            generations: &generations,
            head: GenerationNo(0),
            snapshot: &snapshot,
            tools: &tools,
            compactions: 0,
            asked_at: Timestamp(0),
            now: Timestamp(0),
            model: None,
            hold_on: 4_000,
        };
        build(&input, &mut || {
            last += 1;
            Seq(last)
        })
        .unwrap()
    });
    println!(
        "  derive {deriving:.2} ms, whole compaction {:.2} ms with the plan; {}",
        planning + rest,
        commit.log.line()
    );
}

/// The texts of one turn: request, result, answer.
type Texts = [String; 3];

fn terminal(turn: u64) -> Texts {
    [
        format!(
            "Please look at src/module_{turn}.rs and fix ticket OPS-{turn}. We decided to keep it \
             small."
        ),
        format!("exit code 0\nbuild {turn}\n{}", format!("line of output {turn} ok\n").repeat(70)),
        format!("Fixed in commit 3fce{turn:04x}. {}", "It was a small thing. ".repeat(8)),
    ]
}

/// Everybody says something else each time, and takes some of it back.
fn talk(turn: u64) -> Texts {
    const THINGS: [&str; 12] = [
        "relay", "ledger", "harbour", "lantern", "orchard", "granite", "violin", "meadow",
        "copper", "pantry", "gallery", "ferry",
    ];
    let thing = |n: u64| THINGS[(turn * 7 + n * 5 + turn / 12) as usize % THINGS.len()];
    let value = |n: u64| (turn * 7_919 + n * 104_729) % 65_536;
    let lines: Vec<String> = (0..30)
        .map(|n| {
            format!(
                "2027-03-{:02} {} {} wrote src/{}/{}_{}.rs in {} ms",
                n % 28 + 1,
                thing(n),
                thing(n + 1),
                thing(n + 2),
                thing(n + 3),
                value(n),
                value(n + 1) % 4_000
            )
        })
        .collect();
    [
        format!(
            "The {} of the {} gets port {}. Correction: the {} in the {} should have {} instead.",
            thing(0),
            thing(1),
            value(1),
            thing(2),
            thing(3),
            value(2)
        ),
        lines.join("\n"),
        format!(
            "We go with OPS-{} for the {} because the {} cannot read {}. The {} moved to v{}.{}.2.",
            value(3),
            thing(4),
            thing(5),
            value(4),
            thing(6),
            turn % 9,
            turn % 40
        ),
    ]
}

/// Turns of four rows: request, call, result, answer.
fn history(count: u64, texts: fn(u64) -> Texts) -> Vec<Row> {
    (1..=count)
        .map(|n| {
            let seq = Seq(n * 2);
            let turn = n.div_ceil(4);
            let [request, result, answer] = texts(turn);
            let (role, origin, text) = match n % 4 {
                1 => (Role::User, Origin::User, request),
                2 => (Role::Assistant, Origin::Model, String::new()),
                3 => (Role::Tool, Origin::Tool, result),
                _ => (Role::Assistant, Origin::Model, answer),
            };
            let part = |seq, slot, body| Part {
                seq,
                row: Seq(n * 2),
                slot,
                origin,
                standing: Standing::InOrder,
                created_at: Timestamp(0),
                label: None,
                body,
            };
            let mut parts = vec![part(seq, slot::BODY, PartBody::text(text))];
            if n % 4 == 2 {
                let body = PartBody::ToolCall {
                    id: format!("c{turn}").into(),
                    name: "terminal".into(),
                    arguments: format!("{{\"command\":\"cargo test module_{turn}\"}}").into(),
                };
                parts.push(part(Seq(n * 2 + 1), slot::CALLS, body));
            }
            Row {
                seq,
                turn: TurnNo(turn as u32),
                role,
                standing: Standing::InOrder,
                status: RowStatus::Complete,
                created_at: Timestamp(0),
                tool: (n % 4 == 3).then(|| ToolLink {
                    call_id: format!("c{turn}").into(),
                    name: "terminal".into(),
                }),
                finish_reason: None,
                parts,
            }
        })
        .collect()
}
