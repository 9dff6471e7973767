//! Tool calls between plugins: guards, agreement, changed arguments and results.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use hermes_agent::Conversation;
use hermes_core::{Origin, RowStatus};
use hermes_tools::{ApprovalRequest, Approver, Decision};
use serde_json::{Value, json};

use super::rig::{Rig, all_verify, answer, calls, say};

fn writes() -> Value {
    calls("write_file", &json!({"path": "made.txt", "content": "made"}))
}

/// A session in which the model writes a file, with a guard of this code.
fn guarded(rig: &Rig) -> (Conversation, String) {
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "write it");
    let row = conversation.rows().iter().find(|row| row.tool.is_some()).unwrap();
    let (status, text) = (row.status, row.text_of(Origin::Tool));
    assert_eq!(status == RowStatus::Complete, rig.path("made.txt").exists(), "{text}");
    all_verify(&services);
    (conversation, text)
}

#[test]
fn a_guard_that_blocks_raises_hangs_or_dies_keeps_the_tool_from_running_and_the_model_is_told() {
    for (body, limit, told) in [
        ("return {'action': 'block', 'message': 'BECAUSE'}", 30.0, "BECAUSE"),
        ("raise KeyError('BECAUSE')", 30.0, "BECAUSE"),
        ("os._exit(3)", 30.0, "is gone"),
        ("import time; time.sleep(600)", 0.5, "timed out"),
        ("os.kill(os.getpid(), 9)", 30.0, "is gone"),
    ] {
        let code = format!(
            "def guard(tool_name, args, **rest):\n    {body}\n\
             def hear(tool_name, status, error_type, **rest):\n    note('post', tool_name, status, error_type)\n\
             def register(ctx):\n    ctx.register_hook('pre_tool_call', guard)\n    ctx.register_hook('post_tool_call', hear)\n"
        );
        let rig = Rig::new(&[writes(), answer("so be it")]).plugin("guard", &code).limit(limit);
        let (_conversation, text) = guarded(&rig);
        assert!(!rig.path("made.txt").exists(), "{body}");
        assert!(text.starts_with("Not run: ") && text.contains(told), "{body}: {text}");
        let second = rig.bodies()[1].to_string();
        assert!(second.contains("Not run: blocked by the plugin guard"), "{body}: {second}");
        assert_eq!(rig.heard(), [json!(["post", "write_file", "blocked", "plugin_block"])]);
    }
}

#[test]
fn a_guard_whose_plugin_does_not_load_any_more_still_keeps_tools_from_running() {
    let good = "def register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **e: None)\n";
    let script = [writes(), answer("one"), writes(), answer("two")];
    let rig = Rig::new(&script).plugin("guard", good);
    guarded(&rig);
    std::fs::remove_file(rig.path("made.txt")).unwrap();
    rig.rewrite("guard", "raise RuntimeError('no')\n");
    let (_conversation, text) = guarded(&rig);
    assert!(!rig.path("made.txt").exists());
    assert!(text.contains("the plugin is not loaded"), "{text}");
}

#[test]
fn a_shell_guard_blocks_by_its_exit_code() {
    let rig = Rig::new(&[writes(), answer("so be it")]).settings(
        "hooks:\n  pre_tool_call:\n    - command: sh guard.sh\n      matcher: write_file\n",
    );
    std::fs::write(rig.path("guard.sh"), "echo NOT-THIS >&2\nexit 2\n").unwrap();
    let (_conversation, text) = guarded(&rig);
    assert!(!rig.path("made.txt").exists() && text.contains("NOT-THIS"), "{text}");
}

#[test]
fn a_shell_hook_gets_no_secret_of_the_home_whatever_its_name_is() {
    let rig = Rig::new(&[answer("one")])
        .settings(
            "hooks:\n  on_session_start:\n    - command: sh -c 'env > seen'\n      env: [NAMED]\n",
        )
        .variable("WEATHER", "rain")
        .variable("NAMED", "wind")
        .variable("PLAIN", "plain")
        // The key of the settings, under a name that says nothing.
        .variable("GREETING", "test-not-a-key");
    std::fs::write(rig.path(".env"), "WEATHER=rain\nNAMED=wind\n").unwrap();
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "hello");
    let seen = std::fs::read_to_string(rig.path("seen")).unwrap();
    let has = |line: &str| seen.lines().any(|found| found == line);
    assert!(has("PLAIN=plain") && has("NAMED=wind"), "{seen}");
    assert!(!seen.contains("WEATHER") && !seen.contains("GREETING"), "{seen}");
}

/// Answers every question the same way and keeps it.
struct Says(Decision, Mutex<Vec<ApprovalRequest>>);

impl Approver for Says {
    fn ask<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        self.1.lock().unwrap().push(request.clone());
        Box::pin(ready(self.0.clone()))
    }
}

#[test]
fn a_plugin_that_wants_agreement_gets_it_from_the_person_once_a_session() {
    let code = "def guard(tool_name, **rest):\n    return {'action': 'approve', 'message': 'RISKY', 'rule_key': 'writes'}\n\
        def register(ctx):\n    ctx.register_hook('pre_tool_call', guard)\n\
        \x20   for name in ('pre_approval_request', 'post_approval_response', 'on_human_input_request', 'on_human_input_resolved'):\n\
        \x20       ctx.register_hook(name, (lambda n: lambda **e: note(n, e.get('choice'), e.get('outcome'), e.get('tool_call_id')))(name))\n";
    for (decision, runs, asked) in [
        (Decision::Session, true, 1),
        (Decision::Once, true, 2),
        (Decision::Deny { why: "NEVER".to_owned() }, false, 2),
    ] {
        let script = [writes(), answer("one"), writes(), answer("two")];
        let rig = Rig::new(&script).plugin("guard", code);
        let services = rig.services();
        let says = Arc::new(Says(decision, Mutex::default()));
        let options = rig.options_asking(says.clone());
        let mut conversation = Conversation::start(&services, options).unwrap();
        say(&services, &mut conversation, "write it");
        say(&services, &mut conversation, "again");
        assert_eq!(rig.path("made.txt").exists(), runs);
        let requests = says.1.lock().unwrap();
        assert_eq!(requests.len(), asked);
        assert!(requests[0].reason.contains("RISKY") && requests[0].command.contains("made.txt"));
        let names = rig.names();
        let once = [
            "pre_approval_request",
            "on_human_input_request",
            "post_approval_response",
            "on_human_input_resolved",
        ];
        assert_eq!(names.chunks(4).collect::<Vec<_>>(), vec![once; asked]);
        assert_eq!(rig.heard()[0][3], "call-write_file");
        if !runs {
            assert!(rig.bodies()[1].to_string().contains("NEVER"));
        }
    }
}

#[test]
fn arguments_that_plugins_change_are_run_checked_and_told() {
    let code = "def guard(tool_name, args, **rest):\n    if args['path'] == 'made.txt':\n        return {'action': 'modify', 'args': {'content': 'CHANGED'}}\n    return {'action': 'modify', 'args': {'content': 7}}\n\
        def request(args, original_args, **rest):\n    note('request', original_args['content'])\n    return {'args': {**args, 'content': args['content'] + '!'}}\n\
        def hear(args, middleware_trace, result, status, duration_ms, **rest):\n    note('post', args, len(middleware_trace), status)\n\
        def register(ctx):\n    ctx.register_hook('pre_tool_call', guard)\n    ctx.register_middleware('tool_request', request)\n    ctx.register_hook('post_tool_call', hear)\n";
    let other = calls("write_file", &json!({"path": "other.txt", "content": "x"}));
    let rig = Rig::new(&[writes(), other, answer("done")]).plugin("guard", code);
    let (conversation, text) = guarded(&rig);
    assert_eq!(std::fs::read_to_string(rig.path("made.txt")).unwrap(), "CHANGED", "{text}");
    assert!(!rig.path("other.txt").exists(), "what does not fit the tool is not run");
    let rows: Vec<_> = conversation.rows().iter().filter(|row| row.tool.is_some()).collect();
    assert!(rows[0].text_of(Origin::Notice).contains("CHANGED"));
    assert!(rows[1].text_of(Origin::Tool).contains("do not fit"));
    let heard = rig.heard();
    assert_eq!(heard[0], json!(["request", "made"]));
    assert_eq!(heard[1], json!(["post", {"path": "made.txt", "content": "CHANGED"}, 1, "ok"]));
}

#[test]
fn results_and_outputs_are_heard_as_they_were_and_stored_as_they_became() {
    let code = "def hear(result, status, **rest):\n    note('post', result, status)\n\
        def output(output, returncode, command, **rest):\n    note('output', output.strip(), returncode, command)\n    return output.replace('hi', 'HO')\n\
        def result(result, **rest):\n    return result + ' RESULT'\n\
        def around(args, next_call, **rest):\n    note('before', args)\n    text = next_call(args)\n    return text + ' AROUND'\n\
        def register(ctx):\n    ctx.register_hook('post_tool_call', hear)\n    ctx.register_hook('transform_terminal_output', output)\n\
        \x20   ctx.register_hook('transform_tool_result', result)\n    ctx.register_middleware('tool_execution', around)\n";
    let run = calls("terminal", &json!({"command": "echo hi"}));
    let rig = Rig::new(&[run, answer("done")])
        .plugin("changes", code)
        .settings("approvals:\n  allow: ['echo hi']\n");
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "run it");
    let row = conversation.rows().iter().find(|row| row.tool.is_some()).unwrap();
    let text = row.text_of(Origin::Tool);
    assert!(text.contains("exit code 0") && text.contains("HO"), "{text}");
    assert!(text.contains("AROUND") && text.ends_with(" RESULT"), "{text}");
    let heard = rig.heard();
    assert_eq!(heard[0], json!(["before", {"command": "echo hi"}]));
    assert_eq!(&heard[1].as_array().unwrap()[2..], &[json!(0), json!("echo hi")]);
    assert_eq!(heard[2][2], "ok");
    assert!(!heard[2][1].as_str().unwrap().contains("RESULT"), "observers hear what it was");
    all_verify(&services);
}
