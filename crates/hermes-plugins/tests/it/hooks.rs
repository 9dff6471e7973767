//! Hooks, tools and commands of Python plugins.

use hermes_plugins::Said;
use serde_json::json;

use crate::rig::{Rig, payload, session};

const FIRST: &str = r#"
import os

def heard(session_id, **rest):
    with open(os.path.join(os.environ["HERMES_HOME"], "heard"), "a") as out:
        out.write(session_id + "\n")

def before(user_message, conversation_history):
    return f"{user_message} after {len(conversation_history)}"

def add(args, session_id=None):
    return str(args["a"] + args["b"]) + " in " + session_id

def who(raw_args, *, session_id="", platform="", source=None):
    return f"{raw_args} {source} {platform} {session_id or '(none yet)'}"

def register(ctx):
    print("printing does no harm")
    ctx.register_hook("on_session_start", heard)
    ctx.register_hook("pre_llm_call", before)
    ctx.register_tool("add", "sums", {"name": "add", "parameters": {"type": "object", "properties": {"a": {}, "b": {}}}}, add)
    ctx.register_command("Who Am I", who, description="says it")
"#;

#[tokio::test]
async fn a_plugin_with_hooks_a_tool_and_a_command_works_end_to_end() {
    let rig = Rig::new().plugin("first", FIRST);
    let plugins = rig.start();

    let outcome = plugins.dispatch("on_session_start", payload("s1")).await;
    assert_eq!(outcome.results.len(), 1, "{outcome:?}");
    assert_eq!(outcome.results[0].said, Said::Nothing);
    assert_eq!(rig.read("heard"), "s1\n");

    let history = [r#"{"role":"user","content":"hi"}"#].map(Into::into).into();
    let before =
        payload("s1").text("user_message", "hi").list("conversation_history", "s1", history);
    let outcome = plugins.dispatch("pre_llm_call", before).await;
    assert_eq!(outcome.contexts()[0].1, "hi after 1");

    let tools = plugins.tools();
    assert_eq!((tools.len(), &*tools[0].def.name, tools[0].toolset.as_str()), (1, "add", "sums"));
    let sum = plugins.call_tool("add", r#"{"a": 2, "b": 3}"#, &session("s1")).await;
    assert_eq!(sum.unwrap().unwrap(), "5 in s1");

    let said = plugins.command("/who_am_i", "me", &session(""), None).await.unwrap();
    assert_eq!(said.as_deref(), Some("me None cli (none yet)"));
    let source = json!({"platform": "telegram", "chat_id": "7", "user_id": "u"});
    let said = plugins.command("who-am-i", "me", &session("s1"), Some(&source)).await.unwrap();
    assert!(said.unwrap().contains("telegram"));
    plugins.close().await;
}

#[tokio::test]
async fn without_an_enabled_plugin_there_is_no_process() {
    let mut rig = Rig::new().plugin("first", FIRST);
    rig.config.enabled.clear();
    let plugins = rig.start();
    assert!(plugins.dispatch("on_session_start", payload("s1")).await.results.is_empty());
    assert!(!rig.home().join("cache").exists());
}

#[tokio::test]
async fn a_hook_may_run_a_tool_whose_own_call_runs_hooks_of_another_plugin() {
    let outer = "def before(session_id, ctx=None):\n    return CTX.dispatch_tool('inner', {'n': 1})\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n    ctx.register_hook('pre_llm_call', before)\n";
    let inner = "def inner(args):\n    return 'inner ' + str(CTX.emit('ran', {'n': args['n']}))\n\
        def ran(n):\n    import os\n    open(os.environ['HERMES_HOME'] + '/heard', 'w').write(str(n))\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n    ctx.register_tool('inner', 't', {'name': 'inner'}, inner)\n    ctx.subscribe('inner:ran', ran)\n";
    for isolation in ["shared", "per_plugin"] {
        let mut rig = Rig::new().plugin("outer", outer).plugin("inner", inner);
        rig.config.isolation = isolation.into();
        let plugins = rig.start();
        let outcome = plugins.dispatch("pre_llm_call", payload("s")).await;
        assert_eq!(outcome.contexts()[0].1, "inner 1", "{outcome:?}");
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while rig.read("heard") != "1" {
            assert!(std::time::Instant::now() < end, "the event was not heard");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        plugins.close().await;
    }
}

#[tokio::test]
async fn a_tool_that_calls_itself_without_end_is_stopped() {
    let code = "def again(args):\n    return CTX.dispatch_tool('again', {})\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n    ctx.register_tool('again', 't', {'name': 'again'}, again)\n";
    let rig = Rig::new().plugin("again", code);
    let plugins = rig.start();
    plugins.ready().await;
    let text = plugins.call_tool("again", "{}", &session("s")).await.unwrap().unwrap();
    assert!(text.contains("plugin calls deep"), "{text}");
    plugins.close().await;
}

#[tokio::test]
async fn coroutines_are_awaited_on_one_loop_that_stays() {
    let code = "import asyncio\nLOCK = None\n\
        async def before(user_message):\n    global LOCK\n    LOCK = LOCK or asyncio.Lock()\n    async with LOCK:\n        await asyncio.sleep(0)\n    return user_message\n\
        async def tool(args):\n    return 'tool'\n\
        async def command(raw):\n    return raw\n\
        def register(ctx):\n    ctx.register_hook('pre_llm_call', before)\n    ctx.register_tool('t', 't', {}, tool, is_async=True)\n    ctx.register_command('c', command)\n";
    let rig = Rig::new().plugin("slow", code);
    let plugins = rig.start();
    for text in ["a", "b"] {
        let outcome =
            plugins.dispatch("pre_llm_call", payload("s").text("user_message", text)).await;
        assert_eq!(outcome.contexts()[0].1, text);
    }
    assert_eq!(plugins.call_tool("t", "{}", &session("s")).await.unwrap().unwrap(), "tool");
    assert_eq!(plugins.command("c", "x", &session("s"), None).await.unwrap().unwrap(), "x");
    plugins.close().await;
}

#[tokio::test]
async fn a_callback_gets_what_it_declares_and_one_that_wants_more_fails_alone() {
    let code = "import functools\n\
        class Bound:\n    def method(self, model, unknown=5):\n        return f'{model} {unknown}'\n\
        def wrap(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        return f(*a, **k)\n    return inner\n\
        @wrap\ndef wrapped(model):\n    return 'w ' + model\n\
        def partial(prefix, model):\n    return prefix + model\n\
        def demands(messages):\n    return 'never'\n\
        def nothing():\n    return 'n'\n\
        def register(ctx):\n\
        \x20   for f in (Bound().method, wrapped, functools.partial(partial, 'p '), demands, nothing):\n\
        \x20       ctx.register_hook('pre_llm_call', f)\n";
    let rig = Rig::new().plugin("narrow", code);
    let plugins = rig.start();
    let outcome = plugins.dispatch("pre_llm_call", payload("s").text("model", "m")).await;
    let texts: Vec<String> = outcome.contexts().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["m 5", "w m", "p m", "n"], "{outcome:?}");
    assert!(matches!(&outcome.results[3].said, Said::Raised(fault) if fault.kind == "TypeError"));
    plugins.close().await;
}

#[tokio::test]
async fn what_a_plugin_changes_in_a_chat_message_comes_back() {
    let code = "from gateway.config import Platform\n\
        from gateway.platforms.base import MessageEvent, MessageType\n\
        def first(event, gateway, session_store):\n\
        \x20   assert isinstance(event, MessageEvent) and event.message_type is MessageType.TEXT\n\
        \x20   assert event.source.platform == Platform.TELEGRAM and event.source.platform.value == 'telegram'\n\
        \x20   assert gateway._session_key_for_source(event.source) == 'agent:main:telegram:dm:7'\n\
        \x20   assert Platform.TELEGRAM not in gateway.adapters\n\
        \x20   event.text = event.text.upper()\n    event.metadata['seen'] = True\n\
        def second(event):\n    return {'action': 'rewrite', 'text': event.text + '!'}\n\
        def register(ctx):\n    ctx.register_hook('pre_gateway_dispatch', first)\n    ctx.register_hook('pre_gateway_dispatch', second)\n";
    let rig = Rig::new().plugin("gate", code);
    let plugins = rig.start();
    let event = json!({"text": "hi", "message_type": "text", "metadata": {},
        "source": {"platform": "telegram", "chat_id": "7", "user_id": "u", "chat_type": "dm"}});
    let call = payload("").value("event", event).value("gateway", ()).value("session_store", ());
    let outcome = plugins.dispatch("pre_gateway_dispatch", call).await;
    assert_eq!(
        outcome.gateway_decision(),
        hermes_plugins::GatewayDecision::Rewrite { text: "HI!".into() },
        "{outcome:?}"
    );
    let changes = outcome.event_changes();
    assert_eq!((&changes["text"], &changes["metadata"]["seen"]), (&json!("HI"), &json!(true)));
    plugins.close().await;
}

#[tokio::test]
async fn what_is_not_there_raises_import_error_and_the_plugin_is_shown_as_degraded() {
    let code = "found = []\n\
        try:\n    from run_agent import AIAgent\nexcept ImportError as e:\n    found.append('run_agent')\n\
        try:\n    from hermes_constants import no_such_name\nexcept ImportError:\n    found.append('name')\n\
        try:\n    import agent.no_such_module\nexcept ModuleNotFoundError:\n    found.append('module')\n\
        import importlib.metadata\n\
        found.append(importlib.metadata.version('hermes-agent'))\n\
        def register(ctx):\n\
        \x20   assert not hasattr(ctx, 'config')\n\
        \x20   ctx.register_hook('pre_llm_call', lambda: ' '.join(found))\n";
    let rig = Rig::new().plugin("wants", code);
    let plugins = rig.start();
    let outcome = plugins.dispatch("pre_llm_call", payload("s")).await;
    assert_eq!(outcome.contexts()[0].1, "run_agent name module 0.22.2");
    let report = plugins.doctor().await.remove(0);
    assert!(report.loaded && report.degraded);
    let missing: Vec<&str> = report.import_failures.keys().map(String::as_str).collect();
    assert_eq!(missing, ["agent.no_such_module", "hermes_constants", "run_agent"]);
    assert_eq!(report.import_failures["hermes_constants"], ["no_such_name"]);
    assert_eq!(report.ctx_missing, ["config"]);
    plugins.close().await;
}

#[tokio::test]
async fn settings_state_and_variables_are_a_plugins_own() {
    let code = "def run(raw):\n\
        \x20   n = CTX.state.get('n', 0) + 1\n    CTX.state.set('n', n)\n\
        \x20   CTX.set_config('last.word', raw)\n\
        \x20   import os\n\
        \x20   return f\"{n} {CTX.get_config('last.word')} {CTX.get_config('none', 'd')} {os.environ['MY_KEY']}\"\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n    ctx.register_command('run', run)\n";
    let mut rig = Rig::new().plugin("own", code);
    rig.vars.insert("MY_KEY".into(), "sk-test-not-a-key".into());
    std::fs::write(rig.home().join("config.yaml"), "# mine\nplugins:\n  enabled: [own]\n").unwrap();
    let plugins = rig.start();
    plugins.ready().await;
    let call = session("s");
    for wanted in ["1 x d sk-test-not-a-key", "2 x d sk-test-not-a-key"] {
        assert_eq!(plugins.command("run", "x", &call, None).await.unwrap().unwrap(), wanted);
    }
    let text = rig.read("config.yaml");
    assert!(text.starts_with("# mine") && text.contains("word: x"), "{text}");
    plugins.close().await;
}

#[tokio::test]
async fn observers_hear_redacted_texts_and_directives_the_whole_truth() {
    let code = "import os\n\
        def hear(result, **e):\n    open(os.environ['HERMES_HOME'] + '/heard', 'w').write(result)\n\
        def change(result):\n    return result\n\
        def register(ctx):\n    ctx.register_hook('post_tool_call', hear)\n    ctx.register_hook('transform_tool_result', change)\n";
    let rig = Rig::new().plugin("ears", code);
    let plugins = rig.start();
    let secret = format!("key sk-{}", "a1B2c3D4".repeat(5));
    let call = payload("s").text("result", &secret);
    plugins.dispatch("post_tool_call", call.clone()).await;
    let heard = rig.read("heard");
    assert!(!heard.is_empty() && !heard.contains("a1B2c3D4a1B2c3D4a1B2c3D4"), "{heard}");
    let outcome = plugins.dispatch("transform_tool_result", call).await;
    assert_eq!(outcome.first_text(true).unwrap().1, secret);
    plugins.close().await;
}

#[tokio::test]
async fn a_plugin_that_calls_the_command_line_finds_this_program_first() {
    let code = "import os, shutil\n\
        def where(raw):\n    return ' '.join([shutil.which('hermes'), os.environ['HERMES_CLI'], os.environ['HERMES_HOME']])\n\
        def register(ctx):\n    ctx.register_command('where', where)\n";
    let rig = Rig::new().plugin("cli", code);
    let program = rig.home().join("bin/hermes");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let mut options = rig.options();
    options.cli = Some(program.clone());
    let plugins = hermes_plugins::Plugins::new(options);
    plugins.ready().await;
    let said = plugins.command("where", "", &session("s"), None).await.unwrap().unwrap();
    let (program, home) = (program.display(), rig.home().display());
    assert_eq!(said, format!("{program} {program} {home}"));
    plugins.close().await;
}
