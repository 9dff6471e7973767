//! Middleware: rewriting and wrapping.

use hermes_plugins::{Fault, Payload, Rewritten};
use serde_json::{Value, json};

use crate::rig::{Rig, session};

fn middleware(kind: &str, body: &str) -> String {
    format!(
        "def m(**call):\n    {body}\ndef register(ctx):\n    ctx.register_middleware('{kind}', m)\n"
    )
}

#[tokio::test]
async fn each_rewrite_sees_the_one_before_and_the_original_and_leaves_a_trace() {
    let rig = Rig::new()
        .plugin("a", &middleware("tool_request", "return {'args': {**call['args'], 'a': 1}, 'reason': 'why'}"))
        .plugin("b", &middleware("tool_request", "raise RuntimeError('no')"))
        .plugin("c", &middleware("tool_request", "return {'args': {'seen': call['args'], 'first': call['original_args'], 'tool': call['tool_name']}}"));
    let plugins = rig.start();
    let context = Payload::new(session("s")).text("tool_name", "terminal");
    let Rewritten { value, trace } =
        plugins.rewrite("tool_request", json!({"x": 0}), &context).await;
    assert_eq!(value, json!({"seen": {"x": 0, "a": 1}, "first": {"x": 0}, "tool": "terminal"}));
    let plugins_in_trace: Vec<&Value> = trace.iter().map(|entry| &entry["plugin"]).collect();
    assert_eq!(plugins_in_trace, ["a", "c"]);
    assert_eq!(trace[0]["reason"], "why");
    plugins.close().await;
}

async fn executed(plugins: &[(&str, &str)]) -> (Result<Value, Fault>, u32) {
    let mut rig = Rig::new();
    for (name, body) in plugins {
        rig = rig.plugin(name, &middleware("tool_execution", body));
    }
    let plugins = rig.start();
    let context = Payload::new(session("s")).text("tool_name", "t");
    let runs = std::sync::atomic::AtomicU32::new(0);
    let next = |value: Value| -> hermes_plugins::BoxFuture<'_, Result<Value, Fault>> {
        runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move { Ok(json!(format!("ran {value}"))) })
    };
    let result = plugins.execute("tool_execution", json!({"x": 1}), &context, &next).await;
    plugins.close().await;
    let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
    (result, runs)
}

#[tokio::test]
async fn execution_is_wrapped_from_the_outside_in() {
    let (result, runs) = executed(&[
        ("a", "return 'a(' + call['next_call']({'x': 2}) + ')'"),
        ("b", "return 'b(' + call['next_call']() + ')'"),
    ])
    .await;
    assert_eq!((result.unwrap(), runs), (json!("a(b(ran {\"x\":2}))"), 1));
}

#[tokio::test]
async fn going_on_twice_raises_and_what_ran_is_kept() {
    let (result, runs) =
        executed(&[("a", "call['next_call'](); return call['next_call']()")]).await;
    assert_eq!((result.unwrap(), runs), (json!("ran {\"x\":1}"), 1));
}

#[tokio::test]
async fn a_middleware_that_fails_before_going_on_is_skipped() {
    let (result, runs) =
        executed(&[("a", "raise RuntimeError('no')"), ("b", "import os; os._exit(1)")]).await;
    assert_eq!((result.unwrap(), runs), (json!("ran {\"x\":1}"), 1));
}

#[tokio::test]
async fn a_middleware_may_answer_without_running_anything() {
    let (result, runs) = executed(&[("a", "return 'instead'")]).await;
    assert_eq!((result.unwrap(), runs), (json!("instead"), 0));
}

#[tokio::test]
async fn a_refusal_of_a_request_is_never_swallowed() {
    let body = "from hermes_cli.middleware import LLMExecutionBlocked; raise LLMExecutionBlocked('budget is spent')";
    let (result, runs) = executed(&[("a", body)]).await;
    assert_eq!((result.unwrap_err().message, runs), ("budget is spent".to_owned(), 0));
}
