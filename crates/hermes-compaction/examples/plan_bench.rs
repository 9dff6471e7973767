//! Times of planning, pruning and a whole compaction without a model, on a made-up history.
//!
//! `cargo run --release -p hermes-compaction --example plan_bench [ROWS]`
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
    let rows: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    for count in [800, rows] {
        measure(count);
    }
}

fn measure(count: u64) {
    let rows = history(count);
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
    let view = fold_view(&rows, &generations, GenerationNo(0), cut).unwrap();
    let bytes: usize =
        rows.iter().flat_map(|row| &row.parts).map(|part| part.as_text().map_or(0, str::len)).sum();
    println!("{count} rows, {:.1} MB, ~{} tokens", bytes as f64 / 1e6, view_tokens(&view));

    let started = Instant::now();
    let input = PlanInput {
        view: &view,
        policy: &policy,
        sizes,
        before: Tokens::exact(view_tokens(&view) + 10_000),
        reason: Reason::PreApi,
        keep: Keep::Tail,
        base: GenerationNo(0),
        cut,
        turn: TurnNo(9),
    };
    let Planned::Plan(made) = plan(input) else {
        println!("  nothing to do");
        return;
    };
    let planned = started.elapsed();
    let started = Instant::now();
    let swaps = prune(&view, Extent::before(view.rows.len()));
    println!(
        "  plan {:.1} ms, prune {:.1} ms ({} swaps)",
        planned.as_secs_f64() * 1e3,
        started.elapsed().as_secs_f64() * 1e3,
        swaps.len()
    );

    let started = Instant::now();
    let writing = Writing::prepare(&made, &rows, &generations, &policy).unwrap();
    println!("  derive {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let because = Rejection::NoSummary { error: "none was asked".to_owned() };
    let summaries = writing.derived(&because).unwrap();
    let mut last = cut.0;
    let session = SessionId::new("bench");
    let commit = build(
        &CommitInput {
            session: &session,
            plan: &made,
            summaries: &summaries,
            rows: &rows,
            generations: &generations,
            head: GenerationNo(0),
            snapshot: &snapshot,
            tools: &tools,
            compactions: 0,
            asked_at: Timestamp(0),
            now: Timestamp(0),
            model: None,
            hold_on: 4_000,
        },
        &mut || {
            last += 1;
            Seq(last)
        },
    )
    .unwrap();
    println!(
        "  whole compaction {:.1} ms beside the plan, {} records; {}",
        started.elapsed().as_secs_f64() * 1e3,
        commit.records.len(),
        commit.log.line()
    );
}

/// Turns of four rows: request, call, result, answer.
fn history(count: u64) -> Vec<Row> {
    (1..=count)
        .map(|n| {
            let seq = Seq(n * 2);
            let turn = n.div_ceil(4);
            let (role, origin, text) = match n % 4 {
                1 => (
                    Role::User,
                    Origin::User,
                    format!("Please look at src/module_{turn}.rs and fix ticket OPS-{turn}. We decided to keep it small."),
                ),
                2 => (Role::Assistant, Origin::Model, String::new()),
                3 => (
                    Role::Tool,
                    Origin::Tool,
                    format!("exit code 0\nbuild {turn}\n{}", format!("line of output {turn} ok\n").repeat(70)),
                ),
                _ => (
                    Role::Assistant,
                    Origin::Model,
                    format!("Fixed in commit 3fce{turn:04x}. {}", "It was a small thing. ".repeat(8)),
                ),
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
