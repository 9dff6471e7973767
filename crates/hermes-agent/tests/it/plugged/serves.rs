//! What plugins offer to a conversation, and what they may ask of it.

use hermes_agent::inspect::{Inspector, Verdict};
use hermes_core::{Origin, RowStatus};
use hermes_store::{ParentKind, RequestFilter};
use serde_json::json;

use super::rig::{Rig, all_verify, answer, calls, say, wait};

#[test]
fn a_tool_of_a_plugin_is_offered_and_run_and_may_run_the_programs_tools() {
    let code = "def count(args, session_id=None):\n    text = CTX.dispatch_tool('read_file', {'path': args['path']})\n    return f\"{len(text) > 10} {'agent:' in text} {session_id}\"\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n\
        \x20   ctx.register_tool('count', 'files', {'name': 'count', 'parameters': {'type': 'object', 'properties': {'path': {'type': 'string'}}, 'required': ['path']}}, count, description='Counts')\n\
        \x20   ctx.register_tool('read_file', 'files', {'name': 'read_file'}, count)\n";
    let script = [
        calls("count", &json!({"path": "config.yaml"})),
        calls("count", &json!({"path": 7})),
        answer("done"),
    ];
    let rig = Rig::new(&script).plugin("counts", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "count it");
    let tools = rig.bodies()[0]["tools"].as_array().unwrap().clone();
    let named = |name: &str| tools.iter().filter(|tool| tool["function"]["name"] == name).count();
    assert_eq!((named("count"), named("read_file")), (1, 1));
    let rows: Vec<_> = conversation.rows().iter().filter(|row| row.tool.is_some()).collect();
    let text = rows[0].text_of(Origin::Tool);
    assert_eq!(text, format!("True True {}", conversation.id()));
    assert_eq!(rows[1].status, RowStatus::Failed, "its arguments do not fit its definition");
    all_verify(&services);
}

#[test]
fn a_plugin_asks_a_model_in_a_turn_and_the_request_is_in_the_ledger() {
    let code = "def before(user_message, **rest):\n\
        \x20   answer = CTX.llm.complete([{'role': 'system', 'content': 'SYSTEM'}, {'role': 'user', 'content': 'q ' + user_message}], max_tokens=17)\n\
        \x20   from agent.auxiliary_client import call_llm\n\
        \x20   other = call_llm('plugin', messages=[{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}, {'role': 'user', 'content': 'c'}])\n\
        \x20   return answer.text + ' ' + other.choices[0].message.content + ' ' + str(answer.usage.total_tokens)\n\
        def aux(name):\n    return lambda aux_task, session_id, **e: note(name, aux_task)\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n    ctx.register_hook('pre_llm_call', before)\n\
        \x20   for name in ('pre_auxiliary_call', 'post_auxiliary_call'):\n        ctx.register_hook(name, aux(name))\n";
    let script = [answer("HELPED"), answer("TWICE"), answer("one")];
    let rig = Rig::new(&script).plugin("asks", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    assert_eq!(say(&services, &mut conversation, "hello").answer, "one");
    let bodies = rig.bodies();
    assert_eq!(bodies[0]["max_tokens"], 17);
    assert_eq!(bodies[0]["messages"][0]["content"], "SYSTEM");
    assert_eq!(bodies[1]["messages"].as_array().unwrap().len(), 3);
    assert!(bodies[2]["messages"][1].to_string().contains("HELPED TWICE 120"));
    let pair =
        |task: &str| [json!(["pre_auxiliary_call", task]), json!(["post_auxiliary_call", task])];
    assert_eq!(rig.heard(), [pair("plugin"), pair("plugin")].concat());

    let store = &services.store;
    let requests = store.requests(&RequestFilter::default()).unwrap();
    let theirs: Vec<_> =
        requests.iter().filter(|it| it.attempt.task.as_str() == "plugin").collect();
    assert_eq!(theirs.len(), 2);
    let child = store.session(&theirs[0].attempt.session).unwrap().unwrap();
    assert_eq!(child.parent, Some((conversation.id().clone(), ParentKind::Delegate)));
    for request in theirs {
        assert!(request.has_kept_body && request.end.is_some());
        assert_eq!(Inspector::new(store).verify(request), Verdict::Verified);
    }
    wait(services.close_plugins());
}

#[test]
fn a_plugin_may_not_choose_a_model_unasked() {
    let code = "def before(**rest):\n    try:\n        CTX.llm.complete('hi', model='other')\n    except PermissionError as error:\n        return type(error).__name__\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n    ctx.register_hook('pre_llm_call', before)\n";
    let rig = Rig::new(&[answer("one")]).plugin("asks", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "hello");
    assert!(rig.bodies()[0].to_string().contains("PluginLlmTrustError"));
}

#[test]
fn a_message_that_a_plugin_puts_into_the_conversation_waits_to_be_taken_up() {
    let code = "def done(**rest):\n    note('took', ctx_of().inject_message('go on'), ctx_of().inject_message('mind this', role='system'), ctx_of().inject_message('x', session_key='other'))\n\
        def ctx_of():\n    return CTX\n\
        def register(ctx):\n    global CTX\n    CTX = ctx\n    ctx.register_hook('post_llm_call', done)\n";
    let rig = Rig::new(&[answer("one")]).plugin("puts", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "hello");
    let plugged = services.plugged().unwrap();
    wait(plugged.message_arrives());
    assert_eq!(plugged.take_message().as_deref(), Some("go on"));
    assert_eq!(plugged.take_message().as_deref(), Some("[system] mind this"));
    assert_eq!(plugged.take_message(), None);
    assert_eq!(rig.heard(), [json!(["took", true, true, false])]);
}

#[test]
fn a_turn_that_changed_files_is_sent_on_by_a_plugin_at_most_three_times() {
    let code = "def verify(attempt, changed_paths, final_response, **rest):\n    note('verify', attempt, [os.path.basename(p) for p in changed_paths], final_response)\n    return {'decision': 'block', 'reason': f'CHECK {attempt}'}\n\
        def register(ctx):\n    ctx.register_hook('pre_verify', verify)\n";
    let write = calls("write_file", &json!({"path": "made.txt", "content": "x"}));
    let script = [write, answer("a"), answer("b"), answer("c"), answer("d"), answer("not a file")];
    let rig = Rig::new(&script).plugin("checks", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    assert_eq!(say(&services, &mut conversation, "write it").answer, "d");
    assert_eq!(say(&services, &mut conversation, "just talk").answer, "not a file");
    let heard = rig.heard();
    assert_eq!(heard.len(), 3);
    assert_eq!(heard[2], json!(["verify", 2, ["made.txt"], "c"]));
    assert!(rig.bodies()[2].to_string().contains("CHECK 0"));
    all_verify(&services);
}

#[test]
fn a_skill_of_a_plugin_is_in_the_prompts_index_and_loaded_by_its_whole_name() {
    let code = "def register(ctx):\n    from pathlib import Path\n    folder = Path(HOME, 'theirs')\n    folder.mkdir(exist_ok=True)\n\
        \x20   (folder / 'SKILL.md').write_text('---\\nname: tidy\\ndescription: x\\n---\\nBODY-1\\n')\n\
        \x20   ctx.register_skill('tidy', folder / 'SKILL.md', description='INDEX-1 of it')\n";
    let view = |name: &str| calls("skill_view", &json!({"name": name}));
    let rig = Rig::new(&[view("brings:tidy"), answer("one"), answer("two")]).plugin("brings", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    say(&services, &mut conversation, "load it");
    let block = conversation.blocks().iter().find(|it| it.id == "plugin:skills.brings").unwrap();
    assert_eq!(block.source.to_string(), "plugin brings");
    assert!(conversation.snapshot().text.contains("brings:tidy: INDEX-1 of it"));
    let row = conversation.rows().iter().find(|row| row.tool.is_some()).unwrap();
    assert!(row.text_of(Origin::Skill).contains("BODY-1"), "{row:?}");
    let input = hermes_agent::UserInput {
        skills: vec!["brings:tidy".to_owned()],
        ..hermes_agent::UserInput::text("again")
    };
    crate::bench::say(&services, &mut conversation, input);
    let said = conversation.rows().iter().rfind(|row| row.role == hermes_core::Role::User).unwrap();
    assert!(said.text_of(Origin::Skill).contains("BODY-1"));
    all_verify(&services);
}
