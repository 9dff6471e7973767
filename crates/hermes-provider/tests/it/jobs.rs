//! Jobs beside the conversation: who is asked, how often, and what the ledger says of it.

use std::path::Path;
use std::time::Duration;

use hermes_core::{
    AttemptOutcome, ErrorClass, GenerationNo, ScriptedEnv, Seq, SessionId, Task, Timestamp, TurnNo,
};
use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer, Script};
use hermes_provider::{
    Backoff, Candidate, Client, Job, JobAnswer, JobError, JobPlace, JobPrompt, JobSlots,
};

use crate::rig::{Ledger, endpoint};

fn server(script: &str) -> RehearsalServer {
    let script = Script::parse(Path::new("script.json"), script).unwrap();
    Rehearsal::start(RehearsalOptions { script: Some(script), ..RehearsalOptions::default() })
        .unwrap()
}

fn candidate(server: &RehearsalServer, explicit: bool) -> Candidate {
    Candidate { endpoint: endpoint(&server.base_url()), window: Some(32_000), explicit }
}

fn run(candidates: &[Candidate]) -> (Result<JobAnswer, JobError>, Ledger) {
    run_for(candidates, Duration::from_secs(20))
}

fn run_for(candidates: &[Candidate], timeout: Duration) -> (Result<JobAnswer, JobError>, Ledger) {
    let env = ScriptedEnv::new(Timestamp(1_796_032_560_000_000), 1000, 7);
    let session = SessionId::new("20261130_095600_abcdef");
    let client = Client::new();
    let mut ledger = Ledger::default();
    let prompt = |candidate: &Candidate| JobPrompt {
        system: "You write titles.".to_owned(),
        user: format!("window {:?}", candidate.window),
    };
    let job = Job {
        task: "title_generation",
        candidates,
        prompt: &prompt,
        place: JobPlace {
            session: &session,
            turn: TurnNo(3),
            generation: GenerationNo(2),
            cut: Seq(9),
            compactions: 1,
            renderer: 1,
        },
        retries: 2,
        backoff: Backoff::quick(),
        timeout,
        env: &env,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = client.job(&job, &mut ledger);
    // A job may be done on another thread.
    let run: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(run);
    let result = runtime.block_on(run);
    (result, ledger)
}

const SAYS: &str = r#"[{"kind":"any","say":"A title"}]"#;

fn status(code: u16, times: u32) -> String {
    format!(
        r#"[{{"kind":"any","status":{code},"body":{{"error":{{"message":"no"}}}},"repeat":{times}}}]"#
    )
}

#[test]
fn an_answer_is_in_the_ledger_under_its_task_with_its_body() {
    let one = server(SAYS);
    let (answer, ledger) = run(&[candidate(&one, false)]);
    assert_eq!(answer.unwrap().text, "A title");
    let (attempt, _) = ledger.started.first().unwrap();
    assert_eq!(attempt.task, Task::Auxiliary("title_generation".into()));
    assert_eq!(attempt.kept_body.as_deref(), Some(one.received().first().unwrap().as_slice()));
    assert_eq!((attempt.generation, attempt.cut), (GenerationNo(2), Seq(9)));
    assert_eq!(ledger.failed.first().unwrap().outcome, AttemptOutcome::Ok);
}

#[test]
fn a_passing_fault_is_tried_again_and_the_attempts_are_numbered_through() {
    let first = server(&status(503, 9));
    let second = server(SAYS);
    let (answer, ledger) = run(&[candidate(&first, true), candidate(&second, false)]);
    let answer = answer.unwrap();
    assert_eq!((answer.candidate, answer.failures.len()), (1, 1));
    let numbers: Vec<u32> = ledger.started.iter().map(|(attempt, _)| attempt.attempt).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    for pair in ledger.started.windows(2) {
        assert_eq!(pair[1].0.retries.as_ref(), Some(&pair[0].0.id));
    }
    assert_eq!(ledger.failed.len(), 4, "every attempt has an end");
}

#[test]
fn every_candidate_that_answers_401_is_named_in_one_sentence() {
    let first = server(&status(401, 9));
    let second = server(&status(401, 9));
    let (answer, ledger) = run(&[candidate(&first, false), candidate(&second, false)]);
    let error = answer.unwrap_err();
    assert_eq!(error.class(), Some(ErrorClass::Auth));
    assert!(error.to_string().starts_with("every candidate answered 401 ("), "{error}");
    assert_eq!(ledger.started.len(), 2, "a refused key is not tried again");
}

#[test]
fn a_refused_key_of_the_tasks_own_place_is_not_answered_by_the_conversations() {
    let own = server(&status(401, 9));
    let main = server(SAYS);
    let (answer, _) = run(&[candidate(&own, true), candidate(&main, false)]);
    assert!(matches!(answer, Err(JobError::Failed(failures)) if failures.len() == 1));
    assert!(main.received().is_empty());
}

#[test]
fn a_broken_stream_is_tried_again_because_nobody_saw_it() {
    let broken = r#"{"kind":"any","headers":{"content-type":"text/event-stream"},"body":"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n","then":"reset"}"#;
    let one = server(&format!(r#"[{broken},{{"kind":"any","say":"whole"}}]"#));
    let (answer, ledger) = run(&[candidate(&one, false)]);
    assert_eq!(answer.unwrap().text, "whole");
    assert_eq!(ledger.failed.first().unwrap().error_class, Some(ErrorClass::Disconnected));
}

#[test]
fn a_place_that_takes_too_long_is_ended_in_the_ledger_and_not_asked_again() {
    let slow = server(r#"[{"kind":"any","then":{"hang_ms":20000},"repeat":5}]"#);
    let quick = server(SAYS);
    let candidates = [candidate(&slow, false), candidate(&quick, false)];
    let (answer, ledger) = run_for(&candidates, Duration::from_millis(80));
    assert_eq!(answer.unwrap().candidate, 1);
    assert_eq!(slow.received().len(), 1);
    let end = ledger.failed.first().unwrap();
    assert_eq!((end.outcome, end.error_class), (AttemptOutcome::Error, Some(ErrorClass::Timeout)));
}

#[test]
fn an_answer_without_text_is_no_answer() {
    let empty = server(r#"[{"kind":"any","say":"  ","repeat":9}]"#);
    let (answer, ledger) = run(&[candidate(&empty, false)]);
    assert_eq!(answer.unwrap_err().class(), Some(ErrorClass::Malformed));
    assert!(ledger.failed.iter().all(|end| end.outcome == AttemptOutcome::Error));
}

#[test]
fn nobody_to_ask_and_a_ledger_that_refuses_are_said_and_nothing_is_sent() {
    let (answer, _) = run(&[]);
    assert!(matches!(answer, Err(JobError::NoCandidate(_))));
}

#[test]
fn a_task_has_no_more_slots_than_it_may_have() {
    let slots = JobSlots::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let first = slots.take("compression", Some(1)).await;
        assert!(first.is_some());
        let second = slots.take("compression", Some(1));
        assert!(tokio::time::timeout(Duration::from_millis(5), second).await.is_err());
        assert!(slots.take("title_generation", Some(1)).await.is_some());
        assert!(slots.take("compression", None).await.is_none(), "unbounded");
        drop(first);
        assert!(slots.take("compression", Some(1)).await.is_some());
    });
}
