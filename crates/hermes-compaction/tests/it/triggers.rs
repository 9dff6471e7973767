//! Triggers beside the named cases.

use hermes_compaction::{
    Decision, Deferral, Kind, Log, Memory, Method, Outcome, Policy, Reason, Rejection, Situation,
    Stage, decide,
};
use hermes_core::{ErrorClass, GenerationNo, SessionId, Tokens};

use crate::world::now;

fn at(policy: &Policy, tokens: u64) -> Situation<'_> {
    Situation {
        policy,
        sizes: policy.sizes(200_000, 0),
        tokens: Tokens::exact(tokens),
        calls_in_flight: 0,
        now: now(),
    }
}

#[test]
fn only_a_person_compacts_where_compaction_is_switched_off() {
    let policy = Policy { enabled: false, ..Policy::default() };
    let memory = Memory::default();
    assert_eq!(decide(&memory, Reason::PreApi, at(&policy, 199_000)), Decision::Nothing);
    assert!(matches!(
        decide(&memory, Reason::Manual, at(&policy, 100)),
        Decision::Start { kind: Kind::Summarize, model: true }
    ));
}

#[test]
fn failures_wait_longer_each_time_and_a_success_starts_over() {
    let policy = Policy::default();
    let mut memory = Memory::default();
    let pause = |memory: &Memory| {
        memory.cooldown.as_ref().map(|cooldown| cooldown.until.millis_since(now()) / 1_000)
    };
    for expected in [60, 300, 900, 900] {
        memory.failed(&Rejection::Truncated, Some(ErrorClass::Timeout), None, now());
        assert_eq!(pause(&memory), Some(expected));
    }
    memory.committed(Kind::Summarize, Reason::PreApi, Tokens::exact(1), 9, &policy);
    assert_eq!((pause(&memory), memory.failures), (None, 0));
    memory.failed(&Rejection::Truncated, Some(ErrorClass::Auth), Some(5), now());
    assert_eq!(pause(&memory), Some(600));
    memory.failed(&Rejection::Truncated, Some(ErrorClass::RateLimit), Some(u64::MAX), now());
    assert_eq!(pause(&memory), Some(120), "an absurd wish is not followed");
}

#[test]
fn a_proactive_prune_waits_until_the_history_has_grown_again() {
    let policy = Policy { proactive_prune_tokens: 20_000, ..Policy::default() };
    let mut memory = Memory::default();
    let decide =
        |memory: &Memory, tokens| decide(memory, Reason::ProactivePrune, at(&policy, tokens));
    let start = Decision::Start { kind: Kind::PruneToolResults, model: false };
    assert_eq!(decide(&memory, 19_999), Decision::Nothing);
    assert_eq!(decide(&memory, 20_000), start);
    let after = Tokens::exact(14_000);
    memory.committed(Kind::PruneToolResults, Reason::ProactivePrune, after, 6_000, &policy);
    assert_eq!(decide(&memory, 33_999), Decision::Nothing);
    assert_eq!(decide(&memory, 34_000), start);
}

#[test]
fn a_larger_window_lets_automatic_passes_begin_again() {
    let policy = Policy::default();
    let mut memory = Memory::default();
    memory.refused(policy.sizes(200_000, 0));
    memory.refused(policy.sizes(200_000, 0));
    let small = decide(&memory, Reason::PreApi, at(&policy, 190_000));
    assert!(matches!(small, Decision::Deferred(Deferral::Ineffective { passes: 2 })));
    let mut large = at(&policy, 390_000);
    large.sizes = policy.sizes(400_000, 0);
    assert!(matches!(decide(&memory, Reason::PreApi, large), Decision::Start { .. }));
}

#[test]
fn the_states_follow_each_other_in_one_order_only() {
    use Stage::{Committed, Generating, Planned, Requested, Validated};
    let rejected = || Stage::Rejected(Rejection::Truncated);
    assert!(Requested.may_become(&Planned));
    assert!(Planned.may_become(&Generating));
    assert!(Generating.may_become(&Validated));
    assert!(Validated.may_become(&Committed));
    for stage in [Requested, Planned, Generating, Validated] {
        assert!(stage.may_become(&rejected()));
        assert!(!Committed.may_become(&stage) && !rejected().may_become(&stage));
        assert!(stage == Validated || !stage.may_become(&Committed));
    }
}

#[test]
fn only_what_took_effect_is_a_compaction_and_fires_its_event() {
    let log = |outcome| Log {
        at: now(),
        kind: Kind::Summarize,
        reason: Reason::PreApi,
        method: Some(Method::Model),
        rows_before: 28,
        rows_after: 13,
        before: Some(Tokens::exact(100_000)),
        after: Some(Tokens::estimated(20_000)),
        model: Some("m".to_owned()),
        millis: 1_200,
        coverage: None,
        fallback_because: None,
        outcome,
    };
    let session = SessionId::new("s");
    let committed = log(Outcome::Committed { generation: GenerationNo(3), summary: None });
    let event = committed.event(&session).unwrap();
    assert_eq!(event.messages_removed, Some(15));
    assert_eq!((event.kind.as_str(), event.reason.as_str()), ("summarize", "pre_api"));
    assert_eq!(
        committed.line(),
        "summarize (pre_api, model): 28 -> 13 rows, 100000 -> ~20000 tokens, generation 3"
    );
    for outcome in [
        Outcome::Rejected(Rejection::Truncated),
        Outcome::Deferred(Deferral::Ineffective { passes: 2 }),
    ] {
        let log = log(outcome);
        assert_eq!(log.event(&session), None);
        let json = serde_json::to_string(&log).unwrap();
        assert_eq!(serde_json::from_str::<Log>(&json).unwrap(), log);
    }
}
