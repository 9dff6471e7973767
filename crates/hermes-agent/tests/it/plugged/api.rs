//! Requests to models, as plugins hear and change them.

use hermes_agent::inspect::Inspector;
use hermes_core::TurnOutcome;
use hermes_store::RequestFilter;
use serde_json::json;

use super::rig::{Rig, all_verify, answer, calls, refuses, say, wait};

const HEARS: &str = r#"
def before(request_messages, system_prompt, api_call_count, retry_count, message_count, user_message, **rest):
    note("before", len(request_messages), len(system_prompt) > 100, api_call_count, retry_count, user_message, message_count)
def after(assistant_message, usage, finish_reason, api_request_id, **rest):
    note("after", assistant_message.content, usage["total_tokens"], finish_reason)
def error(status_code, retryable, reason, error, **rest):
    note("error", status_code, retryable, reason, error["type"])
def tool(api_request_id, **rest):
    note("tool", bool(api_request_id))
def register(ctx):
    ctx.register_hook("pre_api_request", before)
    ctx.register_hook("post_api_request", after)
    ctx.register_hook("api_request_error", error)
    ctx.register_hook("post_tool_call", tool)
"#;

#[test]
fn every_attempt_at_a_request_is_heard_of_before_and_after() {
    let read = calls("read_file", &json!({"path": "config.yaml"}));
    let script = [refuses(503, "busy"), read, answer("done")];
    let rig = Rig::new(&script).plugin("hears", HEARS);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    assert_eq!(say(&services, &mut conversation, "read it").outcome, TurnOutcome::Answered);
    wait(services.close_plugins());
    assert_eq!(
        rig.heard(),
        [
            json!(["before", 1, true, 1, 0, "read it", 2]),
            json!(["error", 503, true, "server_error", "server"]),
            json!(["before", 1, true, 1, 1, "read it", 2]),
            json!(["after", "", 120, "tool_calls"]),
            json!(["tool", true]),
            json!(["before", 3, true, 2, 0, "read it", 4]),
            json!(["after", "done", 120, "stop"]),
        ]
    );
    all_verify(&services);
}

#[test]
fn a_request_that_middleware_changes_is_kept_as_it_was_sent_and_proved() {
    let code = "def request(request, original_request, **rest):\n    return {'request': {**request, 'temperature': 0.25}, 'reason': 'cooler'}\n\
        def before(middleware_trace, **rest):\n    note('trace', [entry['reason'] for entry in middleware_trace])\n\
        def register(ctx):\n    ctx.register_middleware('llm_request', request)\n    ctx.register_hook('pre_api_request', before)\n";
    let rig = Rig::new(&[answer("one")]).plugin("cool", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    assert_eq!(say(&services, &mut conversation, "hello").outcome, TurnOutcome::Answered);
    assert_eq!(rig.bodies()[0]["temperature"], 0.25);
    wait(services.close_plugins());
    assert_eq!(rig.heard(), [json!(["trace", ["cooler"]])]);
    let request = services.store.requests(&RequestFilter::default()).unwrap().remove(0);
    assert!(request.has_kept_body);
    let mut inspector = Inspector::new(&services.store);
    assert!(inspector.body(&request).unwrap() == rig.bench.server.received()[0][..]);
    all_verify(&services);
}

#[test]
fn a_plugin_can_say_what_a_failure_is() {
    let code = "def classify(status_code, error, **rest):\n    note('class', status_code, str(error))\n    return {'reason': 'overloaded', 'message': 'BUSY'}\n\
        def register(ctx):\n    ctx.register_hook('transform_api_error_classification', classify)\n";
    let script = [refuses(400, "odd words"), answer("after all")];
    let rig = Rig::new(&script).plugin("knows", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    let report = say(&services, &mut conversation, "hello");
    assert_eq!((report.outcome, report.answer.as_str()), (TurnOutcome::Answered, "after all"));
    assert_eq!(rig.heard(), [json!(["class", 400, "HTTP 400: odd words"])]);
    let first = services.store.requests(&RequestFilter::default()).unwrap().remove(0);
    assert_eq!(first.end.unwrap().error.as_deref(), Some("BUSY"));
}

#[test]
fn an_answer_is_heard_while_it_arrives_and_changed_before_it_is_stored() {
    let code = "def change(response_text, **rest):\n    return response_text.upper()\n\
        def hear(name):\n    return lambda **e: note(name, e.get('delta'), e.get('final_text'), e.get('finished'))\n\
        def register(ctx):\n    ctx.register_hook('transform_llm_output', change)\n\
        \x20   for name in ('on_stream_start', 'on_stream_delta', 'on_stream_end'):\n        ctx.register_hook(name, hear(name))\n\
        \x20   ctx.register_hook('post_llm_call', lambda assistant_response, **e: note('answer', assistant_response))\n";
    let rig = Rig::new(&[answer("softly said"), answer("more")]).plugin("loud", code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    let report = say(&services, &mut conversation, "hello");
    assert_eq!(report.answer, "SOFTLY SAID");
    say(&services, &mut conversation, "go on");
    assert_eq!(rig.bodies()[1]["messages"][2]["content"], "SOFTLY SAID");
    all_verify(&services);
    let of = |name: &str| -> Vec<serde_json::Value> {
        rig.heard().into_iter().filter(|line| line[0] == name).collect()
    };
    assert_eq!(of("answer"), [json!(["answer", "SOFTLY SAID"]), json!(["answer", "MORE"])]);
    // Nobody waits for these.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while of("on_stream_end").len() < 2 {
        assert!(std::time::Instant::now() < end, "{:?}", rig.heard());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(of("on_stream_end")[0], json!(["on_stream_end", null, "softly said", true]));
    assert_eq!(of("on_stream_start").len(), 2);
    assert!(!of("on_stream_delta").is_empty());
}

#[test]
fn a_plugin_says_whether_a_failure_is_tried_again_or_made_smaller() {
    let run = |answers: &str, script: &[serde_json::Value]| {
        let code = format!(
            "def register(ctx):\n    ctx.register_hook('transform_api_error_classification', lambda **e: {answers})\n\
             \x20   ctx.register_hook('api_request_error', lambda retryable, **e: note(retryable))\n"
        );
        let rig = Rig::new(script).plugin("knows", &code);
        let services = rig.services();
        let mut conversation = rig.start(&services);
        let outcome = say(&services, &mut conversation, "hello").outcome;
        // Nobody waits for observers of requests before the end.
        wait(services.close_plugins());
        (outcome, rig.bodies().len(), rig.heard())
    };
    let busy = refuses(503, "busy");
    let (outcome, sent, heard) =
        run("{'reason': 'server_error', 'retryable': False}", &[busy.clone(), answer("never")]);
    assert!(matches!(outcome, TurnOutcome::Failed(_)), "{outcome:?}");
    assert_eq!((sent, heard), (1, vec![json!([false])]));
    let odd = refuses(400, "odd words");
    let (outcome, sent, heard) =
        run("{'reason': 'format_error', 'retryable': True}", &[odd, answer("after all")]);
    assert_eq!((outcome, sent, heard), (TurnOutcome::Answered, 2, vec![json!([true])]));
    let (outcome, _, _) = run("{'reason': 'server_error', 'should_compress': True}", &[busy]);
    let TurnOutcome::Failed(why) = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("It could not be made smaller"), "{why}");
}
