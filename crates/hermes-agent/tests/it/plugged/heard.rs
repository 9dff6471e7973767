//! What must be heard is heard: compactions and deletions, once, on every path, after a crash too.

use hermes_agent::{CompressOptions, Conversation, Services, TypedCommand};
use hermes_compaction::Log;
use hermes_core::{DeleteReason, NullSink, Origin, ScriptedEnv, Timestamp};
use hermes_store::{DeleteRequest, SessionFilter};
use serde_json::{Value, json};

use super::rig::{Rig, all_verify, answer, calls, say, wait};
use crate::compacting::long;

const HEARS: &str = r#"
def hear(name):
    def callback(**event):
        event.pop("telemetry_schema_version")
        note(name, event)
    return callback
def register(ctx):
    for name in ("post_compaction", "on_session_delete"):
        ctx.register_hook(name, hear(name))
    ctx.register_hook("pre_llm_call", lambda session_id, **e: note("pre_llm_call", {"session_id": session_id}))
"#;

fn compress(services: &Services, conversation: &mut Conversation, keep: usize) -> Log {
    let options = CompressOptions { keep: Some(keep), focus: None };
    let cancel = hermes_agent::Cancel::default();
    wait(conversation.compress(services, &options, &NullSink, &cancel)).unwrap()
}

fn compactions(rig: &Rig) -> Vec<Value> {
    rig.heard()
        .into_iter()
        .filter(|line| line[0] == "post_compaction")
        .map(|line| line[1].clone())
        .collect()
}

/// Events of the outbox and how many of them were delivered.
fn outbox(rig: &Rig) -> (u64, u64) {
    let database = rusqlite::Connection::open(rig.bench.database()).unwrap();
    let count = "SELECT count(*), count(delivered_at) FROM outbox";
    database
        .query_row(count, [], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        })
        .unwrap()
}

#[test]
fn a_compaction_is_heard_once_with_its_payload_and_one_that_does_nothing_is_not() {
    let rig = Rig::new(&[]).plugin("hears", HEARS).window(32_000);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    for n in 0..6 {
        say(&services, &mut conversation, &long(n));
    }
    let log = compress(&services, &mut conversation, 2);
    assert!(log.is_compaction(), "{}", log.line());
    let heard = compactions(&rig);
    assert_eq!(heard.len(), 1);
    let event = &heard[0];
    assert_eq!(event["session_id"], conversation.id().as_str());
    assert_eq!(
        (&event["old_session_id"], &event["kind"], &event["reason"]),
        (&json!(""), &json!("summarize"), &json!("manual"))
    );
    let number = |name: &str| event[name].as_u64().unwrap();
    assert!(number("before_tokens") > number("after_tokens") && number("messages_removed") > 0);
    assert_eq!(event.get("redelivered"), None);
    // Nothing left to do.
    let log = compress(&services, &mut conversation, 50);
    assert!(!log.is_compaction(), "{}", log.line());
    say(&services, &mut conversation, "go on");
    assert_eq!(compactions(&rig).len(), 1);
    assert_eq!(outbox(&rig), (1, 1));
    all_verify(&services);
}

#[test]
fn compactions_that_come_by_themselves_are_heard_before_the_next_turn_asks() {
    let prune = "compression:\n  proactive_prune_tokens: 3000\n  proactive_prune_min_result_chars: \
        300\n  proactive_prune_min_reclaim_tokens: 200\n";
    let micro = "compression:\n  micro_compact: true\n  micro_compact_every_n_turns: 2\n";
    // Answers whose figures the model server counts itself.
    let read = |n| {
        let path = format!("large-{n}.txt");
        json!({"call": {"name": "read_file", "arguments": {"path": path}}})
    };
    let script: Vec<Value> = (0..14).flat_map(|n| [read(n), json!({"say": long(n)})]).collect();
    for (script, window, more, turns, kind) in [
        (&[][..], 9_000, "", 45, "summarize"),
        (&script[..], 64_000, prune, 14, "prune_tool_results"),
        (&script[..], 64_000, micro, 14, "micro_summarize"),
    ] {
        let rig = Rig::new(script).plugin("hears", HEARS).window(window).settings(more);
        for n in 0..14 {
            let text = format!("a line of the large file {n}\n").repeat(200);
            std::fs::write(rig.path(&format!("large-{n}.txt")), text).unwrap();
        }
        let services = rig.services();
        let mut conversation = rig.start(&services);
        for n in 0..turns {
            say(&services, &mut conversation, &long(n));
        }
        let heard = compactions(&rig);
        let (all, delivered) = outbox(&rig);
        assert!(!heard.is_empty(), "{kind}");
        assert_eq!((heard.len() as u64, delivered), (all, all), "{kind}");
        assert!(heard.iter().any(|event| event["kind"] == kind), "{heard:?}");
        for event in &heard {
            assert_ne!(event["reason"], "manual", "{event}");
        }
    }
}

#[test]
fn deletions_are_heard_once_an_operation_and_not_again_for_a_repeated_request() {
    let rig = Rig::new(&[]).plugin("hears", HEARS);
    let services = rig.services();
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        let mut conversation = rig.start(&services);
        say(&services, &mut conversation, text);
        conversation.release().unwrap();
        ids.push(conversation.id().clone());
    }
    let request = DeleteRequest {
        request_id: Some("r1".to_owned()),
        ..DeleteRequest::new(vec![ids[0].clone()], DeleteReason::Delete)
    };
    for _ in 0..2 {
        services.store.delete_session(request.clone()).unwrap();
        wait(services.deliver_events(None)).unwrap();
    }
    let both = vec![ids[1].clone(), ids[2].clone()];
    services.store.delete_session(DeleteRequest::new(both, DeleteReason::Prune)).unwrap();
    wait(services.deliver_events(None)).unwrap();
    let heard: Vec<Value> =
        rig.heard().into_iter().filter(|line| line[0] == "on_session_delete").collect();
    let ids: Vec<&str> = ids.iter().map(hermes_core::SessionId::as_str).collect();
    assert_eq!(
        heard,
        [
            json!(["on_session_delete", {"session_id": ids[0], "reason": "delete",
                "profile": "default", "deleted_ids": null, "sessions_dir": null}]),
            json!(["on_session_delete", {"session_id": ids[1], "reason": "prune",
                "profile": "default", "deleted_ids": [ids[1], ids[2]], "sessions_dir": null}]),
        ]
    );
}

/// Set in the process that its own plugin kills.
const KILLED: &str = "HERMES_TEST_KILLED_BY_PLUGIN";

const KILLS: &str = "import signal\n\
    def hear(**event):\n    note('killing')\n    os.kill(os.getppid(), signal.SIGKILL)\n    import time\n    time.sleep(60)\n\
    def register(ctx):\n    ctx.register_hook('post_compaction', hear)\n";

/// Not a test by itself: the process that is killed while a callback hears of its compaction.
#[test]
fn a_process_that_is_killed_while_plugins_hear() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    let rig = Rig::new(&[]).plugin("hears", KILLS).window(32_000);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    for n in 0..6 {
        say(&services, &mut conversation, &long(n));
    }
    compress(&services, &mut conversation, 2);
    unreachable!("its plugin kills it");
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else if entry.file_name() != "config.yaml" && entry.file_type().unwrap().is_file() {
            std::fs::copy(from, to).unwrap();
        }
    }
}

#[test]
fn a_compaction_whose_process_was_killed_is_heard_at_the_next_start_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let name = "plugged::heard::a_process_that_is_killed_while_plugins_hear";
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--test-threads=1"])
        .env(KILLED, "1")
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    let home = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("state.db").exists())
        .unwrap();
    let mut rig = Rig::new(&[answer("after")]);
    copy(&home, rig.bench.folder.path());
    rig = rig.plugin("hears", HEARS);
    let later = Timestamp(1_796_032_560_000_000).plus_millis(24 * 3600 * 1000);
    rig.bench.env = std::sync::Arc::new(ScriptedEnv::new(later, 1000, 11));
    assert_eq!(rig.names(), ["killing"]);
    assert_eq!(outbox(&rig), (1, 0));
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "another session, the next day");
    let heard = rig.heard();
    assert_eq!(heard[1][0], "post_compaction", "before anything is asked");
    assert_eq!(heard[1][1]["redelivered"], true);
    assert_eq!(heard[2][0], "pre_llm_call");
    assert_eq!((heard.len(), outbox(&rig)), (3, (1, 1)));
}

#[test]
fn rules_come_back_after_a_compaction_as_a_plugin_author_writes_it() {
    let rig = Rig::new(&[]).conformance("rules_again").window(32_000);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    for n in 0..6 {
        say(&services, &mut conversation, &long(n));
    }
    assert!(compress(&services, &mut conversation, 2).is_compaction());
    say(&services, &mut conversation, "with rules");
    say(&services, &mut conversation, "without");
    let hooked: Vec<String> = conversation
        .rows()
        .iter()
        .map(|row| row.text_of(Origin::Hook))
        .filter(|text| !text.is_empty())
        .collect();
    assert_eq!(hooked.len(), 1, "{hooked:?}");
    assert!(hooked[0].starts_with("Rules of this project"));
    assert!(rig.bodies().last().unwrap().to_string().contains("Rules of this project"));
    all_verify(&services);
}

#[test]
fn side_files_go_with_their_sessions_and_commands_know_who_asks() {
    let rig = Rig::new(&[]).conformance("side_files").conformance("whoami");
    let services = rig.services();
    let mut conversation = rig.start(&services);
    let run = |name: &str, conversation: &Conversation, source: Option<&Value>| {
        let call = conversation.command_call();
        let command = TypedCommand { name, typed: name, args: "now" };
        wait(services.tell_command("cli", command, &call));
        let ran = wait(services.plugin_command(name, "now", &call, source));
        ran.map(|answer| answer.unwrap().unwrap())
    };
    assert_eq!(run("nobody-has-this", &conversation, None), None);
    let none = "user local on cli, session (none yet)";
    assert_eq!(run("whoami", &conversation, None).as_deref(), Some(none));
    say(&services, &mut conversation, "hello");
    let id = conversation.id().clone();
    let source = json!({"platform": "telegram", "user_id": "u-admin", "chat_id": "7"});
    let known = format!("user u-admin on cli, session {id}");
    assert_eq!(run("whoami", &conversation, Some(&source)), Some(known));
    assert_eq!(run("wipe", &conversation, None).as_deref(), Some("refused"));
    assert_eq!(run("wipe", &conversation, Some(&source)).as_deref(), Some("wiped"));
    assert_eq!(run("old-style", &conversation, None).as_deref(), Some("got 'now'"));

    let side = rig.path("side-files").join(format!("{id}.txt"));
    assert!(side.exists());
    conversation.release().unwrap();
    services.store.delete_session(DeleteRequest::new(vec![id], DeleteReason::Delete)).unwrap();
    assert_eq!(wait(services.deliver_events(None)).unwrap(), 1);
    assert!(!side.exists());
}

#[test]
fn children_sessions_left_and_commands_are_heard_of() {
    let code = "def hear(name, *fields):\n    return lambda **e: note(name, *[e.get(f) for f in fields])\n\
        def register(ctx):\n    ctx.register_hook('subagent_start', hear('subagent_start', 'parent_session_id', 'child_session_id', 'child_goal'))\n\
        \x20   ctx.register_hook('subagent_stop', hear('subagent_stop', 'child_session_id', 'child_status', 'child_summary', 'tool_call_history'))\n\
        \x20   ctx.register_hook('on_session_end', hear('end', 'session_id', 'completed'))\n\
        \x20   ctx.register_hook('on_session_reset', hear('reset', 'session_id', 'old_session_id', 'reason'))\n\
        \x20   ctx.register_hook('pre_command', hear('command', 'command', 'alias_used', 'args_raw'))\n\
        \x20   ctx.register_hook('on_session_finalize', lambda session_id, reason, **e: {'message': 'BYE ' + reason})\n";
    let script = [
        calls("delegate_task", &json!({"tasks": [{"goal": "look at the settings"}]})),
        calls("read_file", &json!({"path": "config.yaml"})),
        answer("seen"),
        answer("done"),
    ];
    let rig = Rig::new(&script).plugin("hears", code);
    let services = rig.services();
    let options = hermes_agent::StartOptions { delegates: true, ..rig.options() };
    let mut conversation = Conversation::start(&services, options).unwrap();
    say(&services, &mut conversation, "delegate");
    let filter = SessionFilter { delegates: true, ..SessionFilter::default() };
    let sessions = services.store.sessions(&filter).unwrap();
    let child = sessions.iter().find(|info| info.parent.is_some()).unwrap().id.as_str().to_owned();
    let id = conversation.id().as_str().to_owned();
    let next = rig.start(&services);
    wait(next.takes_place_of(&services, conversation.id(), "new"));
    wait(services.tell_command(
        "cli",
        TypedCommand { name: "new", typed: "reset", args: "" },
        &next.command_call(),
    ));
    let said = wait(conversation.finalize(&services, "new"));
    assert_eq!(said, [("hears".to_owned(), "BYE new".to_owned())]);
    let heard = rig.heard();
    assert_eq!(heard[0], json!(["subagent_start", id, child, "look at the settings"]));
    assert_eq!(heard[1], json!(["end", child, true]));
    assert_eq!(
        (&heard[2][0], &heard[2][1], &heard[2][2]),
        (&json!("subagent_stop"), &json!(child), &json!("completed"))
    );
    assert_eq!(heard[2][3], "seen");
    assert_eq!(heard[2][4][0]["tool_name"], "read_file");
    assert_eq!(heard[2][4][0]["status"], "ok");
    assert_eq!(heard[3], json!(["end", id, true]));
    assert_eq!(heard[4], json!(["reset", next.id().as_str(), id, "new"]));
    assert_eq!(heard[5], json!(["command", "new", "reset", ""]));
}

/// Of the shape of the article's plugin: its own pending note, given once from `pre_llm_call`.
const HANDOFF: &str = r#"
PENDING = os.path.join(HOME, "their-pending")
def before(session_id, **event):
    if os.path.exists(PENDING) and open(PENDING).read() != session_id:
        os.remove(PENDING)
        return "THEIR CAPSULE"
def register(ctx):
    ctx.register_hook("pre_llm_call", before)
    ctx.register_command("wrapup", lambda raw_args: "theirs")
"#;

#[test]
fn with_the_articles_own_plugin_the_built_in_handoff_stays_quiet() {
    for (name, theirs) in [("hermes-handoff", true), ("another", false)] {
        let rig = Rig::new(&[]).plugin(name, HANDOFF);
        let services = rig.services();
        let mut first = rig.start(&services);
        for n in 0..3 {
            say(&services, &mut first, &format!("message {n} of the first session"));
        }
        first.release().unwrap();
        let built = wait(services.hand_off(first.id(), None).run());
        assert!(built.capsule.is_some(), "{built:?}");
        std::fs::write(rig.path("their-pending"), first.id().as_str()).unwrap();
        let options =
            hermes_agent::StartOptions { start: hermes_handoff::Start::ByPerson, ..rig.options() };
        let mut second = Conversation::start(&services, options).unwrap();
        say(&services, &mut second, "go on");
        let row = &second.rows()[0];
        assert_eq!(row.text_of(Origin::Capsule).is_empty(), theirs, "{name}");
        assert_eq!(row.text_of(Origin::Hook), "THEIR CAPSULE");
        say(&services, &mut second, "and on");
        let all: String = second.rows().iter().map(|row| row.text_of(Origin::Hook)).collect();
        assert_eq!(all.matches("THEIR CAPSULE").count(), 1);
        all_verify(&services);
    }
}
