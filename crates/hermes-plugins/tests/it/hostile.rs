//! Plugins that do to their process what can be done to a process: neither the session nor the
//! other plugins may notice more than a callback that failed.

use std::time::{Duration, Instant};

use hermes_plugins::{Said, ToolGate, table};

use crate::rig::{Rig, payload};

const HOSTILE: &str = r"
import _thread, atexit, json, os, signal, sys, threading, time
class Evil:
    def __repr__(self): raise RuntimeError('no repr')
    def __getattr__(self, name): raise ValueError(name)
class Endless:
    def model_dump(self): return self
def deep():
    out = []
    for _ in range(100000): out = [out]
    return out
def again(): return again()
def broken():
    sys.stdin = sys.stdout = sys.stderr = None
def close_streams():
    sys.stdout.close(); sys.stderr.close(); os.close(0); os.close(1)
def patch():
    json.dumps = json.loads = os.write = os._exit = time.perf_counter = lambda *a, **k: 1 / 0
def leak():
    for _ in range(50): threading.Thread(target=time.sleep, args=(600,)).start()
def move():
    import tempfile
    folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)
def handler():
    try: signal.signal(signal.SIGTERM, lambda *a: None)
    except ValueError: return 'not here'
def all_streams():
    for number in range(0, 64):
        try: os.write(number, b'\xff\x00noise\n')
        except OSError: pass
DEEDS = {
    'binary': lambda: os.write(1, b'\xff\xfe\x00' * 100000) and None,
    'recursion': again,
    'deep': deep,
    'evil': lambda: {'a': Evil(), Evil(): [Evil()]},
    'endless': Endless,
    'large number': lambda: 10 ** 20000,
    'surrogates': lambda: {'context': '\ud800 \udfff', '\ud801': 1},
    'large': lambda: {'context': 'x' * 8_000_000},
    'too large': lambda: {'context': 'x' * 68_000_000},
    'interrupt': _thread.interrupt_main,
    'leak': leak,
    'move': move,
    'handler': handler,
    'fork': lambda: None if os.fork() else time.sleep(0.01),
    'noise': all_streams,
    'exit hook': lambda: atexit.register(time.sleep, 600) and None,
    'system exit': sys.exit,
    'generator': lambda: (n for n in range(3)),
    'streams': close_streams,
    'no streams': broken,
    'killed': lambda: os.kill(os.getpid(), signal.SIGTERM),
    'all closed': lambda: os.closerange(0, 65536),
    'patched': patch,
}
def callback(kind, **rest):
    return DEEDS[kind]()
def register(ctx):
    ctx.register_hook('pre_llm_call', callback)
";

const GOOD: &str = "def good(kind, conversation_history):\n    return f'{kind} {len(conversation_history)}'\n\
    def register(ctx):\n    ctx.register_hook('pre_llm_call', good)\n";

/// What is done, in this order, and how the callback that does it ends.
const DEEDS: [(&str, &str); 23] = [
    ("binary", "nothing"),
    ("recursion", "RecursionError"),
    ("deep", "value"),
    ("evil", "value"),
    ("endless", "value"),
    ("large number", "value"),
    ("surrogates", "value"),
    ("large", "value"),
    ("too large", "TooLarge"),
    ("interrupt", "nothing"),
    ("leak", "nothing"),
    ("move", "nothing"),
    ("handler", "value"),
    ("fork", "nothing"),
    ("noise", "nothing"),
    ("exit hook", "nothing"),
    ("system exit", "SystemExit"),
    ("generator", "value"),
    ("streams", "nothing"),
    ("no streams", "nothing"),
    ("killed", "gone"),
    ("all closed", "gone"),
    ("patched", "nothing"),
];

fn ended(said: &Said) -> String {
    match said {
        Said::Value(_) => "value".into(),
        Said::Nothing => "nothing".into(),
        Said::Raised(fault) => fault.kind.clone(),
        Said::TimedOut => "timed out".into(),
        Said::Skipped(why) => format!("skipped: {why}"),
        Said::Gone(_) => "gone".into(),
    }
}

#[tokio::test]
async fn whatever_a_plugin_does_to_its_process_the_others_are_heard() {
    for isolation in ["shared", "per_plugin"] {
        let mut rig = Rig::new().plugin("a-hostile", HOSTILE).plugin("good", GOOD);
        rig.config.isolation = isolation.into();
        rig.config.hook_callback_timeout = 60.0;
        let plugins = rig.start();
        plugins.ready().await;
        let mut history: Vec<std::sync::Arc<str>> = Vec::new();
        for (kind, wanted) in DEEDS {
            history.push(format!("\"{kind}\"").into());
            let call = payload("s").text("kind", kind).list(
                "conversation_history",
                "s",
                history.clone().into(),
            );
            let outcome = plugins.dispatch("pre_llm_call", call).await;
            let said: Vec<String> = outcome.results.iter().map(|r| ended(&r.said)).collect();
            assert_eq!(said, [wanted, "value"], "{isolation}: {kind}");
            let good = outcome.results[1].said.clone();
            let wanted = format!("{kind} {}", history.len());
            assert_eq!(good, Said::Value(wanted.into()), "{isolation}: {kind}");
        }
        let began = Instant::now();
        plugins.close().await;
        assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn what_a_plugin_asked_for_at_the_end_of_its_process_is_done() {
    let code = "import atexit, os\n\
        def last():\n    open(os.environ['HERMES_HOME'] + '/last', 'w').write('done')\n\
        def register(ctx):\n    atexit.register(last)\n    ctx.register_hook('pre_llm_call', lambda **e: None)\n";
    let rig = Rig::new().plugin("flushes", code);
    let plugins = rig.start();
    plugins.ready().await;
    plugins.close().await;
    assert_eq!(rig.read("last"), "done");
}

#[tokio::test]
async fn a_guard_is_closed_however_it_fails() {
    for (body, wanted) in [
        ("return again()", "raised RecursionError"),
        ("raise BaseException('odd')", "raised BaseException"),
        ("os.kill(os.getpid(), 15)", "it is gone"),
        ("os.closerange(0, 65536); time.sleep(600)", "it is gone"),
        ("_thread.interrupt_main(); raise KeyboardInterrupt", "raised KeyboardInterrupt"),
    ] {
        let code = format!(
            "import os, time, _thread\ndef again():\n    return again()\n\
             def guard(**call):\n    {body}\n\
             def register(ctx):\n    ctx.register_hook('pre_tool_call', guard)\n"
        );
        for isolation in ["shared", "per_plugin"] {
            let mut rig = Rig::new().plugin("guard", &code);
            rig.config.isolation = isolation.into();
            rig.config.hook_callback_timeout = 60.0;
            let plugins = rig.start();
            let call = payload("s").text("tool_name", "terminal").text("tool_call_id", "c1");
            let outcome = plugins.dispatch("pre_tool_call", call).await;
            let gate = outcome.tool_gate(table::find("pre_tool_call").unwrap());
            let ToolGate::Block { message, .. } = &gate else { panic!("{body}: {gate:?}") };
            assert!(message.contains(wanted), "{body}: {message}");
            plugins.close().await;
        }
    }
}
