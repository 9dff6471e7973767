//! The exam at a size that every run of the tests can afford. The figures may not fall.

use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer, Script};

use super::*;
use crate::Target;
use crate::world::World as Bench;

/// Answered from the capsule alone, in percent, at each length; of three seeds, rounded down.
const FLOORS: [(&str, f64); 2] = [("200", 83.0), ("600", 90.0)];

fn exam(policies: &[CapsulePolicy], seeds: u64, sizes: &[usize]) -> ExamInput<'static> {
    ExamInput {
        sessions: Sessions::Generated { seeds: 0..seeds, sizes: sizes.to_vec() },
        policies: policies.to_vec(),
        services: None,
        answerer: None,
        judge: None,
    }
}

#[test]
fn the_recall_exam_at_a_small_size() {
    let policies = [CapsulePolicy::Deterministic, CapsulePolicy::Newest, CapsulePolicy::Digest];
    let report = run_exam(exam(&policies, 3, &[200, 600])).unwrap();
    let page = report.to_markdown();
    let percent = |policy, group, arm| report.share(policy, group, arm).unwrap().percent();
    for (group, floor) in FLOORS {
        let ours = |arm| percent(CapsulePolicy::Deterministic, Some(group), arm);
        assert!(ours(Arm::Capsule) >= floor, "{page}");
        assert!(ours(Arm::CapsuleAndSearch) >= 96.0, "{page}");
        assert!(ours(Arm::Nothing) == 0.0, "{page}");
        for other in [CapsulePolicy::Newest, CapsulePolicy::Digest] {
            assert!(percent(other, Some(group), Arm::Capsule) < ours(Arm::Capsule), "{page}");
        }
    }
    let (least, most) = report.questions();
    assert!(least >= 15 && most <= 20, "{page}");
    for (policy, _, size) in &report.sizes {
        assert!(size.most_words <= 1_200 && size.most_chars <= 12_000, "{policy:?} {size:?}");
    }
    let ours = report.asked.iter().filter(|it| it.policy == CapsulePolicy::Deterministic);
    let stale: Vec<bool> = ours.filter_map(|asked| asked.stale).collect();
    let stated = stale.iter().filter(|stale| **stale).count();
    assert!(stated * 10 <= stale.len(), "taken back and stated as valid: {page}");
    assert!(svg(&report).ends_with("</svg>\n"));

    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<ExamReport>(&json).unwrap(), report);
    let duel = versus(("", &report, policies[0]), ("", &report, policies[1])).unwrap();
    let (arm, alone) = &duel.arms[0];
    assert_eq!(*arm, Arm::Capsule);
    assert_eq!(alone.won + alone.lost + alone.both + alone.neither, duel.questions);
    assert_eq!(alone.won + alone.lost, duel.decided.len());
    assert!(alone.won > alone.lost && alone.by_chance < 0.01, "{}", duel.to_markdown());
    let back = versus(("", &report, policies[1]), ("", &report, policies[0])).unwrap();
    assert_eq!((back.arms[0].1.won, back.arms[0].1.lost), (alone.lost, alone.won));
    let absent = versus(("x", &report, policies[0]), ("y", &report, CapsulePolicy::Stored));
    assert!(absent.unwrap_err().to_string().contains("no answers of the policy stored"));
}

fn served(script: Option<Script>) -> (RehearsalServer, Bench) {
    let options = RehearsalOptions { script, ..RehearsalOptions::default() };
    let server = Rehearsal::start(options).unwrap();
    let target = Target::Endpoint {
        base_url: server.base_url().clone(),
        model: "talker".to_owned(),
        key_env: None,
    };
    (server, Bench::new(&target).unwrap())
}

fn body(received: &[u8]) -> serde_json::Value {
    serde_json::from_slice(received).unwrap()
}

#[test]
fn a_model_answers_with_what_each_arm_gives_it_and_another_judges() {
    let plain = run_exam(exam(&[CapsulePolicy::Deterministic], 1, &[80])).unwrap();
    // Right from the capsule alone and from the search alone, and nowhere else.
    let mut says: Vec<String> = Vec::new();
    for asked in &plain.asked {
        let right = asked.answer.clone().unwrap();
        let unknown = || "UNKNOWN".to_owned();
        let words = || "a few keywords".to_owned();
        says.extend([right.clone(), words(), unknown(), words(), right, unknown()]);
    }
    let (server, bench) = served(Some(Script::saying(says)));
    let mut input = exam(&[CapsulePolicy::Deterministic], 1, &[80]);
    input.services = Some(bench.services);
    input.answerer = Some("sitter".to_owned());
    let report = run_exam(input).unwrap();
    let hits = |report: &ExamReport, arm| {
        report.share(CapsulePolicy::Deterministic, None, arm).unwrap().percent()
    };
    for (arm, expected) in [
        (Arm::Capsule, 100.0),
        (Arm::CapsuleAndSearch, 0.0),
        (Arm::SearchAlone, 100.0),
        (Arm::Nothing, 0.0),
    ] {
        assert!((hits(&report, arm) - expected).abs() < 0.1, "{arm:?} {}", report.to_markdown());
    }
    assert!(report.answered.contains("answered by sitter"));
    let received = server.received();
    assert_eq!(received.len(), plain.asked.len() * 6);
    for (at, bytes) in received.iter().enumerate() {
        let body = body(bytes);
        assert_eq!(body["model"], "sitter");
        let text = body["messages"].to_string();
        let (capsule, found) = (text.contains("<capsule>"), text.contains("<search_result>"));
        let expected = [
            (true, false),
            (true, false),
            (true, true),
            (false, false),
            (false, true),
            (false, false),
        ];
        // A search that finds nothing gives nothing.
        let (wanted, may_find) = expected[at % 6];
        assert!(capsule == wanted && (!found || may_find), "{at}: {text}");
    }

    let judged = |verdict: &str| {
        let mut says: Vec<String> = Vec::new();
        let (answer, verdict) = (|| "something".to_owned(), || verdict.to_owned());
        for _ in &plain.asked {
            says.extend([answer(), verdict()]);
            says.extend([answer(), answer(), verdict(), answer(), answer(), verdict()]);
            says.extend([answer(), verdict()]);
        }
        let (_server, bench) = served(Some(Script::saying(says)));
        let mut input = exam(&[CapsulePolicy::Deterministic], 1, &[80]);
        input.services = Some(bench.services);
        (input.answerer, input.judge) = (Some("sitter".to_owned()), Some("marker".to_owned()));
        run_exam(input)
    };
    assert!(hits(&judged("Yes.").unwrap(), Arm::Nothing) > 99.9);
    assert!(hits(&judged("no").unwrap(), Arm::Capsule) < 0.1);
    let fault = judged("perhaps").unwrap_err().to_string();
    assert!(fault.contains("wanted yes or no"), "{fault}");
}

#[test]
fn a_model_that_does_not_answer_is_a_fault_and_no_wrong_answer() {
    let text = r#"[{"kind":"any","status":401,"body":{"error":{"message":"no"}},"repeat":100}]"#;
    let script = Script::parse(std::path::Path::new("refusing"), text).unwrap();
    let (_server, bench) = served(Some(script));
    let mut input = exam(&[CapsulePolicy::Deterministic], 1, &[80]);
    input.services = Some(bench.services);
    input.answerer = Some("sitter".to_owned());
    let fault = run_exam(input).unwrap_err().to_string();
    assert!(fault.contains("no usable answer") && fault.contains("401"), "{fault}");
    let mut input = exam(&[CapsulePolicy::Deterministic], 1, &[80]);
    input.answerer = Some("sitter".to_owned());
    assert!(run_exam(input).unwrap_err().to_string().contains("no endpoint for the model sitter"));
}

#[test]
fn the_configured_writer_is_examined_on_a_store_of_the_exams_own() {
    let (_server, bench) = served(None);
    let theirs = bench.services.store.clone();
    let mut input = exam(&[CapsulePolicy::Writer, CapsulePolicy::Deterministic], 1, &[80]);
    input.services = Some(bench.services);
    let report = run_exam(input).unwrap();
    assert_eq!(report.policies(), [CapsulePolicy::Writer, CapsulePolicy::Deterministic]);
    let writer = report.share(CapsulePolicy::Writer, None, Arm::Capsule).unwrap();
    assert!(writer.hits > 0, "{}", report.to_markdown());
    let [written, derived] = report.sizes.as_slice() else { panic!("{:?}", report.sizes) };
    assert_ne!(written.2, derived.2, "two ways of making it");
    assert!(theirs.capsules(None).unwrap().is_empty());
}

#[test]
fn a_persons_sessions_are_only_read_and_their_texts_stay_out_of_the_report() {
    let own_home = World::new().unwrap();
    let planted = generate(11, 120);
    let id = SessionId::new("mine");
    own_home.keep(&id, &planted.rows).unwrap();
    own_home.keep(&SessionId::new("other"), &generate(12, 120).rows).unwrap();
    let redactor = Redactor::default();
    let held = |texts: bool, policy: CapsulePolicy| {
        run_exam(ExamInput {
            sessions: Sessions::Own {
                store: &own_home.store,
                home: &own_home.home,
                ids: vec![id.clone()],
                redactor: &redactor,
                texts,
            },
            policies: vec![policy],
            services: None,
            answerer: None,
            judge: None,
        })
    };
    let report = held(false, CapsulePolicy::Deterministic).unwrap();
    let page = report.to_markdown();
    let (least, most) = report.questions();
    assert!(least >= 15 && most <= 20, "{page}");
    let share = |arm| report.share(CapsulePolicy::Deterministic, Some("mine"), arm).unwrap();
    assert!(share(Arm::CapsuleAndSearch).percent() >= 80.0, "{page}");
    assert!(share(Arm::Capsule).hits > 0 && share(Arm::Nothing).hits == 0, "{page}");
    assert!(own_home.store.capsules(None).unwrap().is_empty(), "nothing was made in it");

    let with_texts = held(true, CapsulePolicy::Deterministic).unwrap();
    let bare = serde_json::to_string(&report).unwrap();
    for asked in &with_texts.asked {
        let (question, answer) = (asked.question.as_ref().unwrap(), asked.answer.as_ref().unwrap());
        assert!(question.contains("____"));
        assert!(!bare.contains(question.as_str()) && !page.contains(answer.as_str()), "{answer}");
    }
    let mut hits = report.asked.iter().zip(&with_texts.asked);
    assert!(hits.all(|(a, b)| a.hits == b.hits));
    let none = held(false, CapsulePolicy::Stored).unwrap_err().to_string();
    assert!(none.contains("hermes handoff build"), "{none}");
}
