//! Callbacks that raise, hang, or take their process with them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hermes_plugins::{Said, ToolGate, table};

use crate::rig::{Rig, payload, session};

/// A plugin whose `pre_tool_call` does something.
fn guard(body: &str) -> String {
    format!(
        "import os, time, sys, threading\n\
         def guard(**call):\n    {body}\n\
         def register(ctx):\n    ctx.register_hook('pre_tool_call', guard)\n"
    )
}

async fn verdict(rig: &Rig) -> ToolGate {
    let plugins = rig.start();
    let call = payload("s").text("tool_name", "terminal").text("tool_call_id", "c1");
    let outcome = plugins.dispatch("pre_tool_call", call).await;
    let gate = outcome.tool_gate(table::find("pre_tool_call").unwrap());
    plugins.close().await;
    gate
}

#[tokio::test]
async fn a_guard_that_raises_exits_hangs_or_kills_its_process_blocks_the_tool() {
    for (body, wanted) in [
        ("raise KeyError('boom')", "raised KeyError"),
        ("sys.exit(0)", "raised SystemExit"),
        ("time.sleep(60)", "timed out"),
        ("os._exit(9)", "it is gone"),
        ("os.kill(os.getpid(), 9)", "it is gone"),
        ("os.closerange(3, 4096)", "it is gone"),
    ] {
        let mut rig = Rig::new().plugin("guard", &guard(body));
        rig.config.hook_callback_timeout = 1.0;
        let began = Instant::now();
        let gate = verdict(&rig).await;
        let ToolGate::Block { message, .. } = &gate else { panic!("{body}: {gate:?}") };
        assert!(message.contains(wanted), "{body}: {message}");
        assert!(began.elapsed() < Duration::from_secs(12), "{body}");
    }
}

#[tokio::test]
async fn a_guard_is_asked_by_the_very_first_call_while_its_process_starts() {
    let rig = Rig::new().plugin("guard", &guard("return {'action': 'block', 'message': 'no'}"));
    assert!(matches!(verdict(&rig).await, ToolGate::Block { message, .. } if message == "no"));
}

#[tokio::test]
async fn a_guard_whose_process_cannot_be_started_again_stays_closed() {
    let rig = Rig::new().plugin("guard", &guard("os._exit(1)"));
    let plugins = rig.start();
    for turn in 0..6 {
        let call = payload("s").text("tool_call_id", &format!("c{turn}"));
        let outcome = plugins.dispatch("pre_tool_call", call).await;
        let gate = outcome.tool_gate(table::find("pre_tool_call").unwrap());
        assert!(matches!(gate, ToolGate::Block { .. }), "{turn}: {gate:?}");
    }
    assert!(plugins.problems().iter().any(|why| why.contains("not started again")));
    plugins.close().await;
}

#[tokio::test]
async fn twenty_bad_observers_hold_a_session_no_longer_than_one_time_limit() {
    let mut code = String::from("import os, time\n");
    let mut register = String::from("def register(ctx):\n");
    for number in 0..20 {
        let body = match number % 3 {
            0 => "raise ValueError('no')",
            1 => "time.sleep(60)",
            _ if number == 17 => "os._exit(3)",
            _ => "open(os.environ['HERMES_HOME'] + '/heard', 'a').write('x')",
        };
        write!(code, "def h{number}(**event):\n    {body}\n").unwrap();
        writeln!(register, "    ctx.register_hook('post_compaction', h{number})").unwrap();
    }
    let mut rig = Rig::new().plugin("bad", &(code + &register));
    rig.config.hook_callback_timeout = 1.0;
    let plugins = rig.start();
    plugins.ready().await;
    let began = Instant::now();
    let outcome = plugins.dispatch("post_compaction", payload("s")).await;
    let took = began.elapsed();
    assert!(outcome.unfinished);
    assert!(took < Duration::from_millis(1500), "{took:?}");
    plugins.close().await;
}

#[tokio::test]
async fn what_an_observers_event_left_undone_goes_on_in_the_background() {
    let code = "import time, os\n\
        def hangs(**e):\n    time.sleep(60)\n\
        def hears(**e):\n    open(os.environ['HERMES_HOME'] + '/heard', 'w').write('yes')\n\
        def register(ctx):\n    ctx.register_hook('post_compaction', hangs)\n    ctx.register_hook('post_compaction', hears)\n";
    let mut rig = Rig::new().plugin("slow", code);
    rig.config.hook_callback_timeout = 0.5;
    let plugins = rig.start();
    plugins.ready().await;
    assert!(plugins.dispatch("post_compaction", payload("s")).await.unfinished);
    let end = Instant::now() + Duration::from_secs(10);
    while rig.read("heard") != "yes" {
        assert!(Instant::now() < end, "the second callback was never asked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    plugins.close().await;
}

#[tokio::test]
async fn a_callback_that_hung_is_skipped_for_a_while_and_others_are_not() {
    let code = "import time\n\
        def hangs(**e):\n    time.sleep(60)\n\
        def answers(**e):\n    return 'here'\n\
        def register(ctx):\n    ctx.register_hook('pre_llm_call', hangs)\n    ctx.register_hook('pre_llm_call', answers)\n";
    let mut rig = Rig::new().plugin("slow", code);
    rig.config.hook_callback_timeout = 0.5;
    let plugins = rig.start();
    let first = plugins.dispatch("pre_llm_call", payload("s").text("turn_id", "1")).await;
    assert_eq!(first.results[0].said, Said::TimedOut);
    assert_eq!(first.contexts()[0].1, "here");
    let began = Instant::now();
    let second = plugins.dispatch("pre_llm_call", payload("s").text("turn_id", "2")).await;
    assert!(matches!(second.results[0].said, Said::Skipped(_)), "{second:?}");
    assert_eq!(second.contexts()[0].1, "here");
    assert!(began.elapsed() < Duration::from_millis(400));
    plugins.close().await;
}

#[tokio::test]
async fn a_process_that_died_is_started_again_and_the_rest_of_the_event_is_heard() {
    let code = "import os\n\
        def dies(**e):\n\
        \x20   flag = os.environ['HERMES_HOME'] + '/died'\n\
        \x20   if not os.path.exists(flag):\n        open(flag, 'w').close()\n        os._exit(1)\n\
        \x20   return 'back'\n\
        def after(**e):\n    return 'after'\n\
        def register(ctx):\n    ctx.register_hook('pre_llm_call', dies)\n    ctx.register_hook('pre_llm_call', after)\n";
    let rig = Rig::new().plugin("dies", code);
    let plugins = rig.start();
    let first = plugins.dispatch("pre_llm_call", payload("s")).await;
    assert!(matches!(first.results[0].said, Said::Gone(_)), "{first:?}");
    assert_eq!(first.contexts()[0].1, "after");
    let second = plugins.dispatch("pre_llm_call", payload("s")).await;
    let texts: Vec<String> = second.contexts().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["back", "after"]);
    plugins.close().await;
}

#[tokio::test]
async fn a_plugin_that_kills_the_process_while_loading_is_left_out_and_the_others_load() {
    let rig = Rig::new()
        .plugin("a", "def register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **e: 'a')\n")
        .plugin("b", "import os\nos._exit(1)\n")
        .plugin(
            "c",
            "def register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **e: 'c')\n",
        );
    let plugins = rig.start();
    let outcome = plugins.dispatch("pre_llm_call", payload("s")).await;
    let texts: Vec<String> = outcome.contexts().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["a", "c"]);
    let reports = plugins.doctor().await;
    let loaded: Vec<bool> = reports.iter().map(|report| report.loaded).collect();
    assert_eq!(loaded, [true, false, true]);
    assert!(reports[1].error.as_deref().unwrap().contains("while the plugin was loaded"));
    plugins.close().await;
}

#[tokio::test]
async fn a_register_that_fails_or_hangs_leaves_nothing_behind() {
    let mut rig = Rig::new()
        .plugin("raises", "def register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **e: 'x')\n    raise RuntimeError('half way')\n")
        .plugin("hangs", "import time\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **e: 'y')\n    time.sleep(60)\n    ctx.register_hook('pre_llm_call', lambda **e: 'z')\n")
        .plugin("nothing", "x = 1\n");
    rig.config.load_timeout_seconds = 1.0;
    let plugins = rig.start();
    assert!(plugins.dispatch("pre_llm_call", payload("s")).await.results.is_empty());
    let errors: Vec<String> =
        plugins.doctor().await.into_iter().map(|report| report.error.unwrap()).collect();
    assert!(errors[0].contains("longer than 1 s"), "{errors:?}");
    assert!(errors[1].contains("no register()"), "{errors:?}");
    assert!(errors[2].contains("half way"), "{errors:?}");
    plugins.close().await;
}

#[tokio::test]
async fn printing_forking_leaking_and_closing_streams_harms_nothing() {
    let code = "import os, sys, threading, time, subprocess\ndone = []\n\
        def odd(**e):\n\
        \x20   print('x' * 100000); os.write(1, b'Content-Length: 5\\r\\n\\r\\nhello'); sys.stdout.flush()\n\
        \x20   subprocess.run(['sh', '-c', 'echo Content-Length: 9; cat'], check=False)\n\
        \x20   if os.fork() == 0:\n        print('child'); os._exit(0)\n\
        \x20   threading.Thread(target=lambda: time.sleep(600)).start()\n\
        \x20   if not done:\n        sys.stdin.read(); os.close(0); done.append(1)\n\
        \x20   return 'still here'\n\
        def register(ctx):\n    ctx.register_hook('pre_llm_call', odd)\n";
    let rig = Rig::new().plugin("odd", code);
    let plugins = rig.start();
    for _ in 0..3 {
        let outcome = plugins.dispatch("pre_llm_call", payload("s")).await;
        assert_eq!(outcome.contexts()[0].1, "still here", "{outcome:?}");
    }
    plugins.close().await;
}

#[tokio::test]
async fn one_process_for_each_plugin_keeps_the_others_alive() {
    let mut rig = Rig::new()
        .plugin("a", "import os\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **e: os._exit(1))\n")
        .plugin("b", "n = 0\ndef count(**e):\n    global n\n    n += 1\n    return str(n)\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', count)\n");
    rig.config.isolation = "per_plugin".into();
    let plugins = rig.start();
    for wanted in ["1", "2"] {
        let outcome = plugins.dispatch("pre_llm_call", payload("s")).await;
        assert_eq!(outcome.contexts()[0].1, wanted, "{outcome:?}");
    }
    plugins.close().await;
}

#[tokio::test]
async fn a_tool_that_raises_or_gives_something_else_than_text_answers_with_an_error() {
    let code = "def raises(args):\n    raise ValueError('bad number')\n\
        def odd(args):\n    return 5\n\
        def many(args):\n    return {'_multimodal': True, 'content': []}\n\
        def register(ctx):\n\
        \x20   for name, handler in (('raises', raises), ('odd', odd), ('many', many)):\n\
        \x20       ctx.register_tool(name, 't', {'name': name}, handler)\n";
    let rig = Rig::new().plugin("tools", code);
    let plugins = rig.start();
    plugins.ready().await;
    let call =
        async |name: &str| plugins.call_tool(name, "{}", &session("s")).await.unwrap().unwrap();
    assert_eq!(call("raises").await, r#"{"error":"ValueError: bad number"}"#);
    assert!(call("odd").await.contains("gave a number instead of text"));
    assert!(call("many").await.contains("_multimodal"));
    assert!(plugins.call_tool("none", "{}", &session("s")).await.is_none());
    plugins.close().await;
}

#[tokio::test]
async fn a_guard_that_is_enabled_and_cannot_be_loaded_any_more_blocks() {
    let mut rig = Rig::new().plugin("guard", &guard("return None"));
    assert!(matches!(verdict(&rig).await, ToolGate::Proceed { .. }));
    let code = rig.home().join("plugins/guard/__init__.py");
    std::fs::write(&code, "import no_such_module\n").unwrap();
    let gate = verdict(&rig).await;
    let ToolGate::Block { message, plugin } = &gate else { panic!("{gate:?}") };
    assert!(message.contains("no_such_module") && &**plugin == "guard", "{message}");
    rig.config.enabled.clear();
    assert!(matches!(verdict(&rig).await, ToolGate::Proceed { .. }));
}
