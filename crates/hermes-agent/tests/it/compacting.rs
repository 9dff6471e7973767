//! Compaction in a session, through sockets and a store: what it changes, what it leaves, what it
//! says when it comes to nothing.

use std::sync::Mutex;

use hermes_agent::compact::{compaction_status, session_views};
use hermes_agent::{Cancel, CompressOptions, Conversation, Services, UserInput, inspect};
use hermes_compaction::views::Class;
use hermes_compaction::{Log, Method, Outcome, Reason};
use hermes_core::{Event, EventSink, NoticeLevel, OutboxEvent, SessionId, TurnOutcome};
use hermes_store::{RequestFilter, Store};

use crate::bench::{Bench, say, say_to};

/// A bench whose model has a window of so many tokens.
pub fn bench(script: Option<&str>, window: u64, more: &str) -> Bench {
    let bench = Bench::new(script);
    let path = bench.folder.path().join("config.yaml");
    let config = std::fs::read_to_string(&path).unwrap();
    let config = config.replacen("model:\n", &format!("model:\n  context_length: {window}\n"), 1);
    std::fs::write(&path, format!("{config}{more}")).unwrap();
    bench
}

/// Hears notices.
#[derive(Default)]
pub struct Ear(Mutex<Vec<(NoticeLevel, String)>>);

impl Ear {
    pub fn notices(&self) -> Vec<(NoticeLevel, String)> {
        self.0.lock().unwrap().clone()
    }

    pub fn warnings(&self) -> Vec<String> {
        let warned =
            |(level, text): (NoticeLevel, String)| (level == NoticeLevel::Warning).then_some(text);
        self.notices().into_iter().filter_map(warned).collect()
    }
}

impl EventSink for Ear {
    fn event(&self, event: Event) {
        if let Event::Notice { level, text } = event {
            self.0.lock().unwrap().push((level, text));
        }
    }
}

pub fn compress(services: &Services, conversation: &mut Conversation, keep: Option<usize>) -> Log {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = CompressOptions { keep, focus: None };
    let (ear, cancel) = (Ear::default(), Cancel::default());
    runtime.block_on(conversation.compress(services, &options, &ear, &cancel)).unwrap()
}

/// A message long enough that a summary of several is worth it.
pub fn long(n: usize) -> String {
    let words = ["harbour", "lantern", "orchard", "granite", "violin", "meadow", "copper"];
    let filler: Vec<String> = (0..60)
        .map(|at| format!("{}{}", words[(n + at) % words.len()], (n * 7 + at) % 13))
        .collect();
    format!("message {n} about case-{n:03}: {}", filler.join(" "))
}

pub fn talk(services: &Services, conversation: &mut Conversation, turns: std::ops::Range<usize>) {
    for n in turns {
        let report = say(services, conversation, UserInput::text(long(n)));
        assert_eq!(report.outcome, TurnOutcome::Answered);
    }
}

pub fn events(store: &Store) -> usize {
    let claimed = store.claim_events(None, 10_000).unwrap();
    claimed.iter().filter(|it| matches!(it.event, OutboxEvent::PostCompaction(_))).count()
}

fn bodies(bench: &Bench) -> Vec<String> {
    bench.server.received().into_iter().map(|body| String::from_utf8(body).unwrap()).collect()
}

/// All that is said about the next request.
pub fn next(services: &Services, conversation: &Conversation) -> String {
    serde_json::to_string(&inspect::next(services, conversation, "go on").unwrap()).unwrap()
}

#[test]
fn here_2_of_28_rows_keeps_the_tail_active_and_loses_nothing() {
    let bench = bench(None, 32_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..14);
    let id = conversation.id().clone();
    let before = services.store.history(&id).unwrap();
    assert_eq!(before.rows.len(), 28);

    let log = compress(&services, &mut conversation, Some(2));
    assert!(log.is_compaction(), "{}", log.line());
    assert_eq!((log.rows_before, log.rows_after, log.method), (28, 5, Some(Method::Model)));
    assert_eq!(*conversation.id(), id);
    let after = services.store.history(&id).unwrap();
    assert_eq!(after.rows[..28], before.rows[..], "no row changed");
    assert_eq!(after.rows.len(), 29);
    let (counts, classes) = session_views(&services.store, &id).unwrap();
    assert_eq!((counts.stored, counts.active, counts.compacted), (28, 4, 24));
    assert_eq!((counts.live, counts.summaries, counts.sent), (5, 1, Some(27)));
    let live: Vec<u64> =
        classes.iter().filter(|(_, class)| *class == Class::Live).map(|(seq, _)| seq.0).collect();
    assert_eq!(live.len(), 5);

    talk(&services, &mut conversation, 14..15);
    let sent = bodies(&bench).pop().unwrap();
    assert!(sent.contains("message 12 about") && sent.contains("message 13 about"));
    assert!(!sent.contains(&long(3)) && sent.contains("case-003"), "only in the summary");
    let info = services.store.session(&id).unwrap().unwrap();
    assert_eq!(info.compactions, 1);
    assert_eq!(events(&services.store), 1);
    let job = services.store.requests(&RequestFilter::default()).unwrap();
    let job = job.iter().find(|it| it.attempt.task.as_str() == "compression").unwrap();
    assert!(job.has_kept_body);
}

#[test]
fn compaction_reads_memory_and_profile_again_and_nothing_else() {
    let bench = bench(None, 32_000, "");
    let services = bench.services();
    std::fs::create_dir_all(services.home.memories_dir()).unwrap();
    std::fs::write(services.home.user_path(), "likes AMBER").unwrap();
    std::fs::write(services.home.soul_path(), "Identity OLDSOUL.").unwrap();
    std::fs::write(bench.folder.path().join("AGENTS.md"), "Rule OLDRULE.").unwrap();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..8);
    let prompt = conversation.snapshot().digest;
    std::fs::write(services.home.user_path(), "likes COBALT").unwrap();
    std::fs::write(services.home.soul_path(), "Identity NEWSOUL.").unwrap();
    std::fs::write(bench.folder.path().join("AGENTS.md"), "Rule NEWRULE.").unwrap();
    let id = conversation.id().clone();
    assert!(compress(&services, &mut conversation, Some(1)).is_compaction());
    assert_eq!(*conversation.id(), id, "the session stays");
    assert_ne!(conversation.snapshot().digest, prompt);
    talk(&services, &mut conversation, 8..9);
    let sent = bodies(&bench).pop().unwrap();
    assert!(sent.contains("likes COBALT") && !sent.contains("AMBER"));
    assert!(sent.contains("OLDSOUL") && sent.contains("OLDRULE"));
    assert!(!sent.contains("NEWSOUL") && !sent.contains("NEWRULE"));

    // Nothing changed since: the prompt stays as it is, byte for byte.
    let prompt = conversation.snapshot().digest;
    talk(&services, &mut conversation, 9..13);
    assert!(compress(&services, &mut conversation, Some(1)).is_compaction());
    assert_eq!(conversation.snapshot().digest, prompt);

    // The undo brings the prompt of before back with the rows.
    conversation.undo_compaction(&services, None).unwrap();
    conversation.undo_compaction(&services, None).unwrap();
    talk(&services, &mut conversation, 13..14);
    let sent = bodies(&bench).pop().unwrap();
    assert!(sent.contains("likes AMBER") && sent.contains(&long(2)));
}

#[test]
fn an_undo_gives_the_next_request_back_byte_for_byte() {
    let bench = bench(None, 32_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..10);
    let before = next(&services, &conversation);
    assert!(compress(&services, &mut conversation, None).is_compaction());
    assert_ne!(next(&services, &conversation), before);
    let undone = conversation.undo_compaction(&services, None).unwrap();
    assert_eq!(undone.rows.1, 20);
    assert_eq!(next(&services, &conversation), before);
    let id = conversation.id().clone();
    conversation.release().unwrap();
    let resumed = bench.resume(&services, &id);
    assert_eq!(next(&services, &resumed), before, "and after a restart");
    assert!(!compaction_status(&services.store, &id).unwrap().attempts[0].in_force);
    assert!(conversation.undo_compaction(&services, None).is_err(), "only once");
}

#[test]
fn what_was_taken_back_in_between_stays_taken_back_when_a_compaction_is_undone() {
    let bench = bench(None, 32_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..10);
    let body = |conversation: &Conversation| {
        let next = inspect::next(&services, conversation, "go on").unwrap();
        (next.prompt_digest, next.history_digest, next.body_bytes)
    };
    let before = body(&conversation);
    assert!(compress(&services, &mut conversation, Some(2)).is_compaction());
    assert_ne!(body(&conversation), before);
    talk(&services, &mut conversation, 10..11);
    conversation.rewind(&services, 1, &hermes_core::NullSink).unwrap();
    conversation.undo_compaction(&services, None).unwrap();
    assert_eq!(body(&conversation), before);
    let (counts, _) = session_views(&services.store, conversation.id()).unwrap();
    assert_eq!((counts.active, counts.hidden, counts.compacted), (20, 2, 0));
}

const LIMIT: u64 = 9_000;

#[test]
fn a_history_that_grows_too_long_is_compacted_before_a_request() {
    let bench = bench(None, LIMIT, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..60);
    let status = compaction_status(&services.store, conversation.id()).unwrap();
    let done = status.compactions().count();
    assert!((2..20).contains(&done), "{done} compactions");
    assert_eq!(events(&services.store), done);
    assert!(status.compactions().all(|it| it.log.reason == Reason::PreApi));
    for request in services.store.requests(&RequestFilter::default()).unwrap() {
        let input = request.end.unwrap().usage.input.unwrap();
        assert!(input < LIMIT, "{input} tokens were sent");
    }
}

#[test]
fn a_tool_result_that_makes_the_history_too_long_is_followed_by_a_compaction_that_says_so() {
    let bench = bench(None, LIMIT, "");
    let services = bench.services();
    let options = hermes_agent::StartOptions { tools: None, ..bench.options() };
    let mut conversation = Conversation::start(&services, options).unwrap();
    for round in 0..12 {
        let name = format!("notes{round}.txt");
        let lines: Vec<String> = (0..12).map(|line| format!("{} {}", line, long(line))).collect();
        std::fs::write(bench.options().workspace.cwd.join(&name), lines.join("\n")).unwrap();
        say(&services, &mut conversation, UserInput::text(format!("read {name}")));
    }
    let status = compaction_status(&services.store, conversation.id()).unwrap();
    let reasons: Vec<Reason> = status.compactions().map(|it| it.log.reason).collect();
    assert!(reasons.contains(&Reason::PostTool), "{reasons:?}");
    assert_eq!(events(&services.store), reasons.len());
}

/// A script that answers every request with this status.
fn always(status: u16, headers: &str) -> String {
    format!(
        r#"[{{"kind":"any","status":{status},"headers":{{{headers}}},"body":{{"error":{{"message":"not today"}}}},"repeat":1000}}]"#
    )
}

/// A helper of its own beside the conversation's model.
fn helper(server: &hermes_provider::rehearsal::RehearsalServer, more: &str) -> String {
    format!(
        "auxiliary:\n  compression:\n    provider: custom\n    model: helper\n    base_url: {}\n{more}",
        server.base_url()
    )
}

pub fn server(script: &str) -> hermes_provider::rehearsal::RehearsalServer {
    use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, Script};
    let script = Script::parse(std::path::Path::new("script.json"), script).unwrap();
    Rehearsal::start(RehearsalOptions { script: Some(script), ..RehearsalOptions::default() })
        .unwrap()
}

#[test]
fn b012_every_candidate_that_answers_401_is_told_at_once_and_stays_visible() {
    let own = server(&always(401, ""));
    let bench = bench(None, LIMIT, &helper(&own, ""));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..10);
    let before = services.store.history(conversation.id()).unwrap();
    let next_before = next(&services, &conversation);
    let log = compress(&services, &mut conversation, Some(1));
    let Outcome::Rejected(why) = &log.outcome else { panic!("{log:?}") };
    assert!(why.to_string().contains("helper answered 401"), "{why}");
    assert_eq!(services.store.history(conversation.id()).unwrap(), before);
    assert_eq!(next(&services, &conversation), next_before);
    let status = compaction_status(&services.store, conversation.id()).unwrap();
    assert!(status.trouble().unwrap().contains("401"));
    assert!(status.memory.cooldown.is_some());
    assert_eq!(events(&services.store), 0, "nothing took effect, nothing fires");
    let failing = services.store.failing_compactions(hermes_core::Timestamp(0)).unwrap();
    assert_eq!(failing.len(), 1);
    let attempt = services.store.requests(&RequestFilter::default()).unwrap();
    let attempt = attempt.iter().find(|it| it.attempt.task.as_str() == "compression").unwrap();
    assert_eq!(attempt.end.as_ref().unwrap().http_status, Some(401));
}

#[test]
fn b006_a_pause_that_the_provider_asks_for_is_kept_over_turns_and_restarts() {
    let own = server(&always(429, r#""retry-after":"600""#));
    let bench = bench(
        Some(r#"[{"kind":"main","say":"fine","repeat":200}]"#),
        LIMIT,
        &format!("{}compression:\n  on_failure: abort\n", helper(&own, "")),
    );
    let services = bench.services();
    // Nobody but the helper may be asked.
    let mut conversation = bench.start(&services);
    let ear = Ear::default();
    let mut asked = None;
    for n in 0..90 {
        let report = say_to(&services, &mut conversation, UserInput::text(long(n)), &ear);
        assert!(!matches!(report.outcome, TurnOutcome::Interrupted));
        if asked.is_none() && !own.received().is_empty() {
            asked = Some(n);
        }
        if asked.is_some_and(|at| n >= at + 5) {
            break;
        }
        if n % 3 == 0 {
            conversation.release().unwrap();
        }
    }
    assert!(asked.is_some());
    assert_eq!(own.received().len(), 1, "one summary request in 600 s");
}

#[test]
fn b001_a_summary_that_fails_leaves_everything_and_the_turn_goes_on() {
    let own = server(&always(401, ""));
    let bench = bench(
        Some(r#"[{"kind":"main","say":"fine","repeat":500}]"#),
        LIMIT,
        &format!("{}compression:\n  on_failure: abort\n", helper(&own, "")),
    );
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let ear = Ear::default();
    let mut n = 0;
    while own.received().is_empty() {
        say_to(&services, &mut conversation, UserInput::text(long(n)), &ear);
        n += 1;
        assert!(n < 60, "never tried");
    }
    let report = say_to(&services, &mut conversation, UserInput::text("still there?"), &ear);
    assert_eq!(report.outcome, TurnOutcome::Answered);
    let sent = bodies(&bench).pop().unwrap();
    assert!((0..n).all(|n| sent.contains(&long(n))), "every message is still in the request");
    assert!(ear.warnings().iter().any(|text| text.contains("401")), "{:?}", ear.notices());
}

#[test]
fn b002_a_summary_cut_half_way_is_never_a_summary() {
    let cut = r#"[{"kind":"summary","headers":{"content-type":"text/event-stream"},"body":"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half of it\"}}]}\n\n","then":"close","repeat":50}]"#;
    let own = server(cut);
    let bench = bench(None, 32_000, &helper(&own, ""));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..8);
    // The conversation's own model takes over after the helper's broken streams.
    let log = compress(&services, &mut conversation, Some(1));
    assert!(log.is_compaction());
    assert!(log.model.unwrap().ends_with("rehearsal"), "the conversation's own endpoint wrote it");
    assert_eq!(own.received().len(), 3, "a broken stream is tried again, twice");
    let view = serde_json::to_string(&services.store.history(conversation.id()).unwrap().rows);
    assert!(!view.unwrap().contains("half of it"));
}

#[test]
fn b001_a_fallback_has_every_request_and_says_what_it_is() {
    let broken = r#"[{"kind":"any","status":500,"body":{"error":{"message":"no"}},"repeat":100}]"#;
    let own = server(broken);
    // The main model's answer to a request for a summary is no summary.
    let main: Vec<String> =
        (0..8).map(|n| format!(r#"{{"kind":"main","say":"answer {n}"}}"#)).collect();
    let main = format!("[{},{}]", main.join(","), r#"{"kind":"summary","say":"I cannot."}"#);
    let bench = bench(Some(&main), 32_000, &helper(&own, ""));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..8);
    let log = compress(&services, &mut conversation, Some(1));
    assert!(log.is_compaction(), "{}", log.line());
    assert_eq!(log.method, Some(Method::DeterministicFallback));
    assert!(log.fallback_because.is_some() && log.coverage.is_some());
    talk(&services, &mut conversation, 8..9);
    let sent = bodies(&bench).pop().unwrap();
    assert!(sent.contains("No model wrote this record"));
    for n in 0..8 {
        assert!(sent.contains(&format!("case-{n:03}")), "case {n}");
    }
    assert_eq!(events(&services.store), 1, "a fallback took effect");
}

#[test]
fn a_request_refused_as_too_large_is_made_smaller_and_sent_again() {
    for refusal in [
        r#"{"kind":"main","status":413,"body":"Payload Too Large"}"#,
        r#"{"kind":"main","status":400,"body":{"error":{"message":"This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.","code":"context_length_exceeded"}}}"#,
    ] {
        let says: Vec<String> =
            (0..10).map(|n| format!(r#"{{"kind":"main","say":"answer {n}"}}"#)).collect();
        let bench = bench(Some(&format!("[{},{refusal}]", says.join(","))), 32_000, "");
        let services = bench.services();
        let mut conversation = bench.start(&services);
        talk(&services, &mut conversation, 0..10);
        let report = say(&services, &mut conversation, UserInput::text("the last one"));
        assert_eq!(report.outcome, TurnOutcome::Answered, "{refusal}");
        let sent = bodies(&bench);
        let (refused, last) = (&sent[10], sent.last().unwrap());
        assert!(last.len() < refused.len());
        assert!(last.contains("the last one"));
        let status = compaction_status(&services.store, conversation.id()).unwrap();
        assert_eq!(status.compactions().next().unwrap().log.reason, Reason::Overflow);
        assert_eq!(events(&services.store), 1);
    }
}

#[test]
fn after_a_413_images_become_pointers_and_only_those_of_the_newest_message_stay() {
    let script = r#"[{"kind":"main","say":"a relay"},{"kind":"main","say":"a lantern"},{"kind":"main","status":413,"body":"Payload Too Large"},{"kind":"main","say":"both","repeat":9}]"#;
    let bench = bench(Some(script), 200_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let image = |byte: u8| hermes_agent::Image {
        media_type: "image/png".to_owned(),
        bytes: [&b"\x89PNG\r\n\x1a\n"[..], &[byte; 3_000]].concat(),
    };
    for (byte, text) in [(1, "what is this?"), (2, "and this?"), (3, "which of the three is it?")] {
        let input = UserInput { images: vec![image(byte)], ..UserInput::text(text) };
        let report = say(&services, &mut conversation, input);
        assert_eq!(report.outcome, TurnOutcome::Answered, "{text}");
    }
    let images = |body: &String| body.matches("data:image/png").count();
    let sent = bodies(&bench);
    assert_eq!(sent.iter().take(3).map(images).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(images(sent.last().unwrap()), 1, "that of the newest message");
    let status = compaction_status(&services.store, conversation.id()).unwrap();
    assert_eq!(status.compactions().next().unwrap().log.reason, Reason::Overflow);
    // Nothing is lost: an undo shows them again.
    conversation.undo_compaction(&services, None).unwrap();
    say(&services, &mut conversation, UserInput::text("once more"));
    assert_eq!(images(bodies(&bench).last().unwrap()), 3);
}

#[test]
fn b014_a_cancelled_and_a_finished_task_do_not_come_back_through_any_compaction() {
    // A helper that insists on the cancelled task, and claims that it was wanted.
    let insists = r###"{"kind":"summary","say":"## Goal\n- the person wants all translation files migrated [r1]\n## Done\n- looked at the disk [r3]\n## Open\n- migrate the remaining translation files to the new layout [r1]\nEND OF RECORD","repeat":9}"###;
    let own = server(&format!("[{insists}]"));
    let script = r#"[{"kind":"main","say":"Migrated two of forty files."},{"kind":"main","say":"Stopped."},{"kind":"main","say":"The disk is half full.","repeat":60}]"#;
    let bench = bench(Some(script), 32_000, &helper(&own, ""));
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let filler = long(1);
    for text in [
        format!("Migrate all translation files to the new layout. {filler}"),
        format!("Stop the migration of the translation files. {filler}"),
        format!("Check how full the disk is. {filler}"),
    ] {
        say(&services, &mut conversation, UserInput::text(text));
    }
    talk(&services, &mut conversation, 4..9);
    for round in 0..2 {
        let log = compress(&services, &mut conversation, Some(1));
        assert!(log.is_compaction(), "{}", log.line());
        let number = 20 + round * 4;
        say(&services, &mut conversation, UserInput::text("How full is /var?"));
        let sent: serde_json::Value = serde_json::from_str(&bodies(&bench).pop().unwrap()).unwrap();
        let messages = sent["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        assert_eq!(
            (last["role"].as_str(), last["content"].as_str()),
            (Some("user"), Some("How full is /var?"))
        );
        let record = messages
            .iter()
            .filter_map(|message| message["content"].as_str())
            .find(|text| text.contains("## Open"))
            .unwrap();
        let (_, open) = record.split_once("## Open").unwrap();
        let open = open.split("\n## ").next().unwrap().split("Derived from").next().unwrap();
        assert!(!open.contains("translation"), "round {round}: {open}");
        assert!(record.contains("CANCELLED by the person"), "{record}");
        talk(&services, &mut conversation, number..number + 4);
    }
}

#[test]
fn b017_a_rule_of_the_project_is_in_every_request_whatever_is_compacted() {
    let bench = bench(None, 32_000, "");
    let services = bench.services();
    let rule = "Every answer ends with the word COBALT-RULE-7.";
    std::fs::write(bench.folder.path().join("AGENTS.md"), rule).unwrap();
    let mut conversation = bench.start(&services);
    for pass in 0..2 {
        talk(&services, &mut conversation, pass * 8..pass * 8 + 8);
        assert!(compress(&services, &mut conversation, Some(1)).is_compaction());
    }
    talk(&services, &mut conversation, 16..17);
    let main: Vec<String> =
        bodies(&bench).into_iter().filter(|body| body.contains("AGENTS.md")).collect();
    assert_eq!(main.len(), 17, "two of the requests were for summaries");
    assert!(main.iter().all(|body| body.matches(rule).count() == 1));
}

/// An answer of a model that counts so many tokens, whatever it was sent.
fn counted(message: &str, tokens: u64, times: u32) -> String {
    format!(
        r#"{{"kind":"main","body":{{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant",{message}}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{tokens},"completion_tokens":9,"total_tokens":{}}}}},"repeat":{times}}}"#,
        tokens + 9
    )
}

/// A script of one such answer.
fn counting(tokens: u64) -> String {
    format!("[{}]", counted(r#""content":"fine""#, tokens, 200))
}

#[test]
fn b007_the_provider_s_count_holds_and_no_estimate_starts_a_compaction() {
    let bench = bench(Some(&counting(3_000)), LIMIT, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..60);
    let last = bodies(&bench).pop().unwrap();
    assert!(last.len() as u64 / 4 > LIMIT, "an estimate says that it does not fit");
    let status = compaction_status(&services.store, conversation.id()).unwrap();
    assert_eq!(status.attempts.len(), 0, "{:?}", status.attempts);
}

#[test]
fn b004_a_pass_that_does_not_help_is_tried_twice_and_then_said_to_be_of_no_use() {
    // Prompt and tools alone are above the threshold: whatever the provider is sent, it counts more.
    let bench = bench(Some(&counting(8_000)), LIMIT, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    let ear = Ear::default();
    for n in 0..14 {
        let report = say_to(&services, &mut conversation, UserInput::text(long(n)), &ear);
        assert_eq!(report.outcome, TurnOutcome::Answered);
    }
    let status = compaction_status(&services.store, conversation.id()).unwrap();
    let tried = status.attempts.iter().filter(|it| !matches!(it.log.outcome, Outcome::Deferred(_)));
    assert!((1..=2).contains(&tried.count()), "{:?}", status.attempts);
    assert!(status.memory.ineffective >= 2, "{:?}", status.memory);
    let asked = services.store.requests(&RequestFilter::default()).unwrap();
    let asked = asked.iter().filter(|it| it.attempt.task.as_str() == "compression").count();
    assert!(asked <= 2, "{asked} requests for summaries");
    assert!(
        ear.warnings().iter().any(|text| text.contains("did not bring")),
        "{:?}",
        ear.notices()
    );
    assert!(status.trouble().is_some(), "and it stays visible");
}

#[test]
fn two_hundred_compactions_add_at_most_two_rows_each() {
    let bench = bench(None, 64_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..4);
    let mut done = 0;
    let mut said = 4;
    while done < 200 {
        talk(&services, &mut conversation, said..said + 1);
        said += 1;
        done += usize::from(compress(&services, &mut conversation, Some(1)).is_compaction());
        assert!(said < 900, "{done} compactions after {said} turns");
    }
    let id = conversation.id().clone();
    let rows = services.store.history(&id).unwrap().rows.len();
    assert!(rows <= said * 2 + 2 * done, "{rows} rows, {said} exchanges, {done} compactions");
    assert_eq!(events(&services.store), done);
    assert_eq!(services.store.session(&id).unwrap().unwrap().compactions as usize, done);
}

#[test]
fn what_was_compacted_can_be_recalled_by_row_and_by_words() {
    use hermes_compaction::recall::Query;
    let script = r#"[{"kind":"main","say":"noted","repeat":9}]"#;
    let bench = bench(Some(script), 32_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(
        &services,
        &mut conversation,
        UserInput::text("The vault code of the museum is 77-Q-1204."),
    );
    talk(&services, &mut conversation, 0..8);
    assert!(compress(&services, &mut conversation, Some(1)).is_compaction());
    let found = conversation.recall(&Query::parse("r1").unwrap(), 0).unwrap();
    assert_eq!(found[0].text, "The vault code of the museum is 77-Q-1204.");
    let found = conversation.recall(&Query::parse("vault museum").unwrap(), 0).unwrap();
    assert!(found[0].text.contains("77-Q-1204"));
}

#[test]
fn the_model_recalls_by_a_tool_of_its_own() {
    let script = r#"[{"kind":"main","say":"noted"},{"kind":"main","call":{"name":"recall","arguments":"{\"query\":\"r1\"}"}},{"kind":"main","say":"it was that"}]"#;
    let bench = bench(Some(script), 32_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    say(&services, &mut conversation, UserInput::text("The code is 77-Q-1204."));
    say(&services, &mut conversation, UserInput::text("what was the code?"));
    let sent = bodies(&bench).pop().unwrap();
    assert_eq!(sent.matches("The code is 77-Q-1204.").count(), 2);
}

#[test]
fn another_process_that_holds_the_session_is_no_silent_loss() {
    let bench = bench(None, 32_000, "");
    let services = bench.services();
    let mut conversation = bench.start(&services);
    talk(&services, &mut conversation, 0..6);
    let id: SessionId = conversation.id().clone();
    conversation.release().unwrap();
    // Another holder compacts; this one sees it when it takes the lease again.
    let others = bench.services();
    let mut other = bench.resume(&others, &id);
    assert!(compress(&others, &mut other, Some(1)).is_compaction());
    let refused = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = CompressOptions::default();
        let cancel = Cancel::default();
        runtime.block_on(conversation.compress(&services, &options, &Ear::default(), &cancel))
    };
    assert!(refused.is_err(), "held by the other");
    other.release().unwrap();
    talk(&services, &mut conversation, 6..10);
    let log = compress(&services, &mut conversation, Some(1));
    assert!(log.is_compaction());
    let status = compaction_status(&services.store, &id).unwrap();
    assert_eq!(status.attempts.iter().map(|it| it.no).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(services.store.session(&id).unwrap().unwrap().compactions, 2);
}
