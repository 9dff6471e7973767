//! Plugins that do harm to their own process, and what it means for the session: nothing.

use std::time::{Duration, Instant};

use hermes_agent::CompressOptions;
use hermes_core::{NullSink, TurnOutcome};
use serde_json::json;

use super::rig::{Rig, all_verify, answer, calls, say, wait};
use crate::compacting::long;

#[test]
fn what_a_plugin_does_to_its_process_harms_neither_session_nor_store() {
    for (name, body) in [
        (
            "prints",
            "print('x' * 100000)\n    import sys\n    sys.stdout.flush()\n    os.system('echo to the outside')",
        ),
        ("closes", "os.closerange(0, 256)"),
        (
            "forks",
            "child = os.fork()\n    if child == 0:\n        os._exit(0)\n    os.waitpid(child, 0)",
        ),
        (
            "forks_and_stays",
            "child = os.fork()\n    if child == 0:\n        import time\n        time.sleep(3)\n        os._exit(0)",
        ),
        (
            "leaks",
            "import threading, time\n    for _ in range(50):\n        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()",
        ),
        ("exits", "os._exit(7)"),
        ("kills", "os.kill(os.getpid(), 11)"),
        ("recurses", "def f():\n        return f()\n    f()"),
    ] {
        let code = format!(
            "def hear(**event):\n    {body}\n\
             def register(ctx):\n    for name in ('on_session_start', 'pre_llm_call', 'post_tool_call', 'post_llm_call', 'on_session_end'):\n        ctx.register_hook(name, hear)\n"
        );
        let read = calls("read_file", &json!({"path": "config.yaml"}));
        let rig = Rig::new(&[read, answer("one"), answer("two")])
            .plugin("harm", &code)
            .plugin("well", "def register(ctx):\n    ctx.register_hook('on_session_end', lambda **e: note('end'))\n")
            .limit(20.0);
        let services = rig.services();
        let mut conversation = rig.start(&services);
        for text in ["first", "second"] {
            let report = say(&services, &mut conversation, text);
            assert_eq!(report.outcome, TurnOutcome::Answered, "{name}");
        }
        all_verify(&services);
        conversation.release().unwrap();
        assert_eq!(services.store.check().unwrap(), [], "{name}");
        wait(services.close_plugins());
    }
}

#[test]
fn twenty_callbacks_that_hang_hold_a_compaction_no_longer_than_one_limit() {
    let code = "import time\n\
        def hang(**event):\n    time.sleep(60)\n\
        def fail(**event):\n    raise ValueError('no')\n\
        def register(ctx):\n    for n in range(20):\n        ctx.register_hook('post_compaction', fail if n % 3 == 0 else lambda **e: hang(**e))\n";
    let rig = Rig::new(&[]).plugin("hangs", code).limit(2.0).window(32_000);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    for n in 0..6 {
        say(&services, &mut conversation, &long(n));
    }
    let options = CompressOptions { keep: Some(2), focus: None };
    let began = Instant::now();
    let cancel = hermes_agent::Cancel::default();
    let log = wait(conversation.compress(&services, &options, &NullSink, &cancel)).unwrap();
    let took = began.elapsed();
    assert!(log.is_compaction(), "{}", log.line());
    // Each by itself would be 26 s.
    assert!(took < Duration::from_secs(13), "{took:?}");
    // What is left of it goes on behind the conversation, and nobody else takes it up meanwhile.
    assert!(services.store.pending_events().unwrap() <= 1);
    assert_eq!(services.store.claim_events(None, 10).unwrap(), []);
    assert_eq!(say(&services, &mut conversation, "go on").outcome, TurnOutcome::Answered);
}
