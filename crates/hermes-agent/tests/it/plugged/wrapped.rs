//! Middleware around requests to the model.

use hermes_agent::inspect::Inspector;
use hermes_agent::{Cancel, Services, TurnReport, UserInput};
use hermes_core::{NullSink, Origin, Row, TurnOutcome};
use hermes_store::{RequestFilter, RequestRecord};
use serde_json::{Value, json};

use super::rig::{Rig, all_verify, answer, calls, refuses, say, wait};

/// An answer of a plugin, as an object of a provider's library.
const RESPONSE: &str = "
from types import SimpleNamespace as NS
def response(text):
    message = NS(role='assistant', content=text, tool_calls=None, refusal=None)
    usage = NS(prompt_tokens=0, completion_tokens=0, total_tokens=0)
    return NS(id='mine', model='none', choices=[NS(index=0, finish_reason='stop', message=message)], usage=usage)
";

fn wraps(name: &str, body: &str) -> (String, String) {
    let code = format!(
        "{RESPONSE}\ndef wrap(*, request=None, next_call=None, **context):\n    {body}\n\
         def register(ctx):\n    ctx.register_middleware('llm_execution', wrap)\n"
    );
    (name.to_owned(), code)
}

struct Ran {
    rig: Rig,
    services: Services,
    report: TurnReport,
}

impl Ran {
    fn rows(&self) -> Vec<Row> {
        self.rig.resume(&self.services, &self.report.session).rows().to_vec()
    }

    fn requests(&self) -> Vec<RequestRecord> {
        self.services.store.requests(&RequestFilter::default()).unwrap()
    }
}

/// One turn with these plugins.
fn run(script: &[Value], limit: f64, plugins: &[(&str, &str)]) -> Ran {
    let mut rig = Rig::new(script).limit(limit);
    for (name, body) in plugins {
        let (name, code) = wraps(name, body);
        rig = rig.plugin(&name, &code);
    }
    let services = rig.services();
    let mut conversation = rig.start(&services);
    let report = say(&services, &mut conversation, "hello");
    drop(conversation);
    Ran { rig, services, report }
}

#[test]
fn a_request_that_is_let_through_is_an_ordinary_one_and_its_response_is_seen() {
    let body = "answer = next_call(request)\n    note(request['messages'][-1]['content'], context['model'], answer.choices[0].message.content, answer.usage.prompt_tokens, answer.choices[0].finish_reason)\n    return answer";
    let ran = run(&[answer("one")], 30.0, &[("sees", body)]);
    assert_eq!((&ran.report.outcome, ran.report.answer.as_str()), (&TurnOutcome::Answered, "one"));
    let heard = ran.rig.heard();
    assert_eq!(heard.len(), 1);
    assert_eq!((&heard[0][0], &heard[0][2]), (&json!("hello"), &json!("one")));
    assert_eq!((&heard[0][3], &heard[0][4]), (&json!(100), &json!("stop")));
    let requests = ran.requests();
    assert!(!requests[0].has_kept_body, "nothing was changed");
    assert_eq!(requests[0].end.as_ref().unwrap().usage.input, Some(100));
    let rows = ran.rows();
    assert_eq!(rows[1].text_of(Origin::Model), "one");
    all_verify(&ran.services);
}

#[test]
fn a_request_that_is_let_through_changed_is_kept_as_it_was_sent() {
    let body = "return next_call({**request, 'temperature': 0.25})";
    let ran = run(&[answer("one")], 30.0, &[("cool", body)]);
    assert_eq!(ran.rig.bodies()[0]["temperature"], 0.25);
    let requests = ran.requests();
    assert!(requests[0].has_kept_body);
    let body = Inspector::new(&ran.services.store).body(&requests[0]).unwrap();
    assert!(body == ran.rig.bench.server.received()[0][..]);
    assert_eq!(ran.rows()[1].text_of(Origin::Model), "one", "the answer is the model's");
    all_verify(&ran.services);
}

#[test]
fn an_answer_of_a_plugin_is_stored_as_its_own_and_no_request_is_made_up() {
    let body = "return response('not today') if len(request['messages']) < 3 else next_call()";
    let mut rig = Rig::new(&[answer("two")]);
    let (name, code) = wraps("gate", body);
    rig = rig.plugin(&name, &code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    let report = say(&services, &mut conversation, "hello");
    assert_eq!((report.outcome, report.answer.as_str()), (TurnOutcome::Answered, "not today"));
    assert!(report.requests.is_empty());
    assert!(services.store.requests(&RequestFilter::default()).unwrap().is_empty());
    assert!(rig.bodies().is_empty());
    let part = conversation.rows()[1].parts[0].clone();
    assert_eq!((part.origin, part.label.as_deref()), (Origin::Hook, Some("gate")));
    // The next request holds it, and says whose it is.
    let report = say(&services, &mut conversation, "and now?");
    assert_eq!(report.answer, "two");
    let shown = rig.bodies()[0]["messages"][2]["content"].as_str().unwrap().to_owned();
    assert!(shown.contains("gate") && shown.contains("not today"), "{shown}");
    assert_eq!(conversation.rows()[3].text_of(Origin::Model), "two");
    all_verify(&services);
}

#[test]
fn an_answer_that_a_plugin_changed_is_labelled_and_the_request_stays_the_models() {
    let body = "answer = next_call(request)\n    answer.choices[0].message.content = answer.choices[0].message.content.upper()\n    return answer";
    let ran = run(&[answer("softly")], 30.0, &[("loud", body)]);
    assert_eq!(ran.report.answer, "SOFTLY");
    let rows = ran.rows();
    assert_eq!(rows[1].text_of(Origin::Hook), "SOFTLY");
    assert_eq!(rows[1].parts[0].label.as_deref(), Some("loud"));
    let requests = ran.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].end.as_ref().unwrap().response, Some(rows[1].seq));
    all_verify(&ran.services);
}

#[test]
fn a_second_call_of_next_raises_as_in_the_original_and_the_request_is_made_once() {
    let body = "first = next_call(request)\n    try:\n        return next_call(request)\n    except RuntimeError as error:\n        note('twice', str(error))\n        return first";
    let ran = run(&[answer("one"), answer("two")], 30.0, &[("again", body)]);
    assert_eq!(ran.report.answer, "one");
    assert_eq!(ran.rig.heard(), [json!(["twice", "next_call can be called once"])]);
    assert_eq!((ran.requests().len(), ran.rig.bodies().len()), (1, 1));
}

#[test]
fn each_attempt_goes_through_and_a_plugin_may_answer_when_the_model_cannot() {
    let body = "try:\n        return next_call(request)\n    except Exception as error:\n        note('failed', context['retry_count'])\n        if context['retry_count']:\n            return {'choices': [{'message': {'role': 'assistant', 'content': 'in its place'}}]}\n        raise";
    let busy = refuses(503, "busy");
    let ran = run(&[busy.clone(), busy, answer("never")], 30.0, &[("stands_in", body)]);
    assert_eq!(
        (&ran.report.outcome, ran.report.answer.as_str()),
        (&TurnOutcome::Answered, "in its place")
    );
    assert_eq!(ran.rig.heard(), [json!(["failed", 0]), json!(["failed", 1])]);
    let requests = ran.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        let end = request.end.as_ref().unwrap();
        assert_eq!((end.http_status, end.response), (Some(503), None));
    }
    assert_eq!(ran.rows()[1].text_of(Origin::Hook), "in its place");
    all_verify(&ran.services);
}

#[test]
fn middleware_that_raises_or_gives_no_answer_is_passed_over() {
    let cases = [
        "raise ValueError('no')",
        "answer = next_call(request)\n    raise ValueError('late')",
        "return 'just words'",
        "return None",
        "next_call(request)\n    return {'odd': 1}",
        "next_call('no request')",
        "os._exit(3)",
    ];
    for body in cases {
        let ran = run(&[answer("one")], 30.0, &[("fails", body)]);
        assert_eq!(
            (&ran.report.outcome, ran.report.answer.as_str()),
            (&TurnOutcome::Answered, "one"),
            "{body}"
        );
        assert_eq!((ran.requests().len(), ran.rig.bodies().len()), (1, 1), "{body}");
        assert_eq!(ran.rows()[1].text_of(Origin::Model), "one", "{body}");
        all_verify(&ran.services);
    }
}

#[test]
fn middleware_that_hangs_is_left_after_its_own_time_before_and_after_the_request() {
    let cases = [
        "import time; note('asked'); time.sleep(600)",
        "answer = next_call(request)\n    import time; note('asked'); time.sleep(600)",
    ];
    for body in cases {
        // Twenty times as long.
        let script = [calls("read_file", &json!({"path": "config.yaml"})), answer("one")];
        let began = std::time::Instant::now();
        let ran = run(&script, 0.1, &[("hangs", body)]);
        assert_eq!(ran.report.answer, "one", "{body}");
        assert!(began.elapsed() < std::time::Duration::from_mins(5), "{body}");
        // It is left out of the second request.
        assert_eq!(ran.rig.names(), ["asked"], "{body}");
        assert_eq!((ran.requests().len(), ran.rig.bodies().len()), (2, 2), "{body}");
        all_verify(&ran.services);
    }
}

#[test]
fn a_refusal_of_a_plugin_ends_the_turn_and_sends_nothing() {
    let body = "from hermes_cli.middleware import LLMExecutionBlocked; raise LLMExecutionBlocked('the budget is spent')";
    let ran = run(&[answer("never")], 30.0, &[("budget", body)]);
    let TurnOutcome::Failed(why) = &ran.report.outcome else { panic!("{:?}", ran.report) };
    assert!(why.contains("budget refuses the request: the budget is spent"), "{why}");
    assert!(ran.requests().is_empty() && ran.rig.bodies().is_empty());
}

#[test]
fn middleware_is_wrapped_from_the_outside_in_and_the_last_word_has_its_name() {
    let inner = "answer = next_call({**request, 'top_p': 0.5})\n    answer.choices[0].message.content += ' b'\n    return answer";
    let outer = "answer = next_call({**request, 'temperature': 0.5})\n    answer.choices[0].message.content += ' a'\n    return answer";
    let ran = run(&[answer("one")], 30.0, &[("a", outer), ("b", inner)]);
    assert_eq!(ran.report.answer, "one b a");
    assert_eq!(ran.rows()[1].parts[0].label.as_deref(), Some("a"));
    let sent = &ran.rig.bodies()[0];
    assert_eq!((&sent["temperature"], &sent["top_p"]), (&json!(0.5), &json!(0.5)));
    all_verify(&ran.services);
}

#[test]
fn a_turn_can_be_stopped_while_middleware_hangs_and_the_next_one_runs() {
    let (name, code) = wraps(
        "hangs",
        "first = not os.path.exists(os.path.join(HOME, 'heard'))\n    note('asked')\n    import time; time.sleep(600 if first else 0)\n    return next_call()",
    );
    let rig = Rig::new(&[answer("one")]).plugin(&name, &code);
    let services = rig.services();
    let mut conversation = rig.start(&services);
    let cancel = Cancel::default();
    let report = wait(async {
        let input = UserInput::text("hello");
        let turn = conversation.turn(&services, input, &NullSink, &cancel);
        let stop = async {
            while rig.names().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            cancel.cancel();
        };
        tokio::join!(turn, stop).0.unwrap()
    });
    assert_eq!(report.outcome, TurnOutcome::Interrupted);
    assert!(services.store.requests(&RequestFilter::default()).unwrap().is_empty());
    assert_eq!(say(&services, &mut conversation, "again").answer, "one");
    all_verify(&services);
}
