//! Observers that nobody waits for: in order, all of them, and before what is waited for.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hermes_plugins::{ToolGate, table};

use crate::rig::{Rig, payload};

/// Counts in one hook and decides in another.
const BUDGET: &str = "import time\nspent = []\n\
    def count(cost, **e):\n    time.sleep(0.3)\n    spent.append(cost)\n\
    def decide(**e):\n    return {'action': 'block', 'message': 'spent ' + str(sum(spent))}\n\
    def register(ctx):\n    ctx.register_hook('post_api_request', count)\n    ctx.register_hook('pre_tool_call', decide)\n";

const SLOW: &str = "import os, time\n\
    def heard(number, **e):\n    time.sleep(0.05)\n    open(os.environ['HERMES_HOME'] + '/heard', 'a').write(str(number) + ' ')\n\
    def register(ctx):\n    for hook in ('pre_api_request', 'post_api_request', 'on_stream_delta'):\n        ctx.register_hook(hook, heard)\n";

fn numbers(count: usize) -> String {
    (0..count).fold(String::new(), |mut all, number| {
        write!(all, "{number} ").unwrap();
        all
    })
}

#[tokio::test]
async fn nobody_waits_for_observers_of_api_calls_and_all_of_them_hear_in_order() {
    let rig = Rig::new().plugin("slow", SLOW);
    let plugins = rig.start();
    plugins.ready().await;
    let began = Instant::now();
    for number in 0..30 {
        let hook = if number % 2 == 0 { "pre_api_request" } else { "post_api_request" };
        let outcome = plugins.dispatch(hook, payload("s").value("number", number)).await;
        assert!(outcome.unfinished && outcome.results.is_empty());
    }
    // Thirty callbacks take a second and a half.
    assert!(began.elapsed() < Duration::from_millis(1400), "{:?}", began.elapsed());
    // The end waits for what is still to be heard.
    plugins.close().await;
    assert_eq!(rig.read("heard"), numbers(30));
}

#[tokio::test]
async fn pieces_of_a_stream_are_heard_in_order() {
    let rig = Rig::new().plugin("slow", SLOW);
    let plugins = rig.start();
    plugins.ready().await;
    for number in 0..30 {
        plugins.notify("on_stream_delta", payload("s").value("number", number));
    }
    let end = Instant::now() + Duration::from_mins(2);
    while rig.read("heard") != numbers(30) {
        assert!(Instant::now() < end, "{}", rig.read("heard"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    plugins.close().await;
}

#[tokio::test]
async fn a_plugin_that_counts_in_one_hook_and_decides_in_another_has_counted() {
    for isolation in ["shared", "per_plugin"] {
        let mut rig = Rig::new().plugin("budget", BUDGET);
        rig.config.isolation = isolation.into();
        let plugins = rig.start();
        plugins.ready().await;
        for cost in [2, 5] {
            plugins.dispatch("post_api_request", payload("s").value("cost", cost)).await;
        }
        let call = payload("s").text("tool_name", "terminal").text("tool_call_id", "c");
        let outcome = plugins.dispatch("pre_tool_call", call).await;
        let gate = outcome.tool_gate(table::find("pre_tool_call").unwrap());
        assert!(
            matches!(&gate, ToolGate::Block { message, .. } if message == "spent 7"),
            "{gate:?}"
        );
        plugins.close().await;
    }
}

#[tokio::test]
async fn an_observer_that_hangs_holds_a_later_hook_of_its_plugin_for_one_time_limit() {
    let code = "import time\ndef hangs(**e):\n    time.sleep(600)\n\
        def answers(**e):\n    return 'here'\n\
        def register(ctx):\n    for n in range(20):\n        ctx.register_hook('post_api_request', lambda n=n, **e: hangs())\n    ctx.register_hook('pre_llm_call', answers)\n";
    let mut rig = Rig::new().plugin("hangs", code);
    rig.config.hook_callback_timeout = 2.0;
    let plugins = rig.start();
    plugins.ready().await;
    plugins.dispatch("post_api_request", payload("s")).await;
    let began = Instant::now();
    for _ in 0..3 {
        let outcome = plugins.dispatch("pre_llm_call", payload("s")).await;
        assert_eq!(outcome.contexts()[0].1, "here");
    }
    // Twenty limits would be forty seconds.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    plugins.close().await;
}
