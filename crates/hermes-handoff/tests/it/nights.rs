//! The nightly closer's choice and report.

use std::collections::BTreeMap;

use hermes_core::{Lane, SessionId, Timestamp, Usage};
use hermes_handoff::nightly::{
    MOST_BUILDS, NightPlan, NightReport, Planned, Skipped, Terms, closes, select, share,
};
use hermes_handoff::{BuildResult, Status};
use hermes_store::{ParentKind, SessionInfo};

use crate::support::{HOUR, START, id};

fn info(name: &str, lane: Option<&str>, messages: u64, hours_ago: i64) -> SessionInfo {
    SessionInfo {
        id: id(name),
        source: "telegram".to_owned(),
        lane: lane.map(Lane::from_key),
        cwd: None,
        git_root: None,
        git_branch: None,
        model: String::new(),
        provider: String::new(),
        base_url: None,
        parent: None,
        title: None,
        started_at: START.plus_millis(-hours_ago * HOUR - 1),
        ended_at: None,
        end_reason: None,
        last_activity_at: START.plus_millis(-hours_ago * HOUR),
        message_count: messages,
        tool_call_count: 0,
        api_calls: 0,
        usage: Usage::default(),
        compactions: 0,
        archived: false,
        spooled: false,
    }
}

fn plan(sessions: &[SessionInfo]) -> NightPlan {
    select(sessions, &BTreeMap::new(), START, Terms::default())
}

#[test]
fn one_capsule_a_conversation_from_its_newest_session() {
    let night = plan(&[
        info("a1", Some("t:1"), 9, 30),
        info("a2", Some("t:1"), 9, 2),
        info("a3", Some("t:1"), 9, 50),
        info("b1", Some("t:2"), 6, 1),
        info("c1", None, 9, 3),
        info("c2", None, 9, 4),
    ]);
    let named = |name: &str, alongside: &[&str], hours_ago: i64| Planned {
        session: id(name),
        alongside: alongside.iter().map(|name| id(name)).collect(),
        active_at: START.plus_millis(-hours_ago * HOUR),
    };
    assert_eq!(
        night.builds,
        [
            named("b1", &[], 1),
            named("a2", &["a3", "a1"], 2),
            named("c1", &[], 3),
            named("c2", &[], 4)
        ]
    );
}

#[test]
fn a_few_words_in_a_newer_session_do_not_cost_the_longer_one_its_capsule() {
    let sessions = [
        info("oldest", Some("t:1"), 3, 60),
        info("long", Some("t:1"), 40, 20),
        info("hello", Some("t:1"), 2, 1),
    ];
    let night = plan(&sessions);
    assert_eq!(night.builds.len(), 1, "{night:?}");
    assert_eq!(
        (&night.builds[0].session, &night.builds[0].alongside[..]),
        (&id("long"), &[id("oldest")][..])
    );
    assert_eq!(night.skipped, [(id("hello"), Skipped::TooShort)]);
    // A newer capsule is not superseded by an older one.
    let waiting: BTreeMap<SessionId, Timestamp> = [(id("hello"), START)].into();
    let night = select(&sessions, &waiting, START, Terms::default());
    assert!(night.builds.is_empty() && night.skipped.contains(&(id("long"), Skipped::HasCapsule)));
}

#[test]
fn what_is_left_out_is_said_with_its_reason() {
    let mut closed = info("closed", Some("t:1"), 9, 1);
    closed.ended_at = Some(Timestamp(1));
    let mut child = info("child", Some("t:2"), 9, 1);
    child.parent = Some((id("closed"), ParentKind::Delegate));
    let mut cron = info("other", Some("t:3"), 9, 1);
    cron.source = "cron".to_owned();
    let sessions = [
        closed,
        child,
        cron,
        info("cron_daily_1", Some("t:4"), 9, 1),
        info("short", Some("t:5"), 5, 1),
        info("idle", Some("t:6"), 9, 73),
        info("waiting", Some("t:7"), 9, 1),
        info("gone on since", Some("t:8"), 9, 1),
    ];
    let since = |hours: i64| START.plus_millis(-hours * HOUR);
    let waiting: BTreeMap<SessionId, Timestamp> =
        [(id("waiting"), since(1)), (id("gone on since"), since(2))].into();
    let night = select(&sessions, &waiting, START, Terms::default());
    let built: Vec<&str> = night.builds.iter().map(|it| it.session.as_str()).collect();
    assert_eq!(built, ["gone on since"]);
    let mut why: Vec<(&str, Skipped)> =
        night.skipped.iter().map(|(id, why)| (id.as_str(), *why)).collect();
    why.sort_by_key(|(name, _)| *name);
    assert_eq!(
        why,
        [
            ("child", Skipped::Delegated),
            ("closed", Skipped::Closed),
            ("cron_daily_1", Skipped::Scheduled),
            ("idle", Skipped::Idle),
            ("other", Skipped::Scheduled),
            ("short", Skipped::TooShort),
            ("waiting", Skipped::HasCapsule),
        ]
    );
}

#[test]
fn the_most_recently_active_come_first_when_the_night_is_full() {
    let sessions: Vec<SessionInfo> =
        (0..50).map(|n| info(&format!("s{n:02}"), Some(&format!("t:{n}")), 9, n)).collect();
    let mut nights = [("default".to_owned(), plan(&sessions))];
    share(&mut nights, MOST_BUILDS);
    let [(_, night)] = &nights;
    assert_eq!(night.builds.len(), 40);
    assert_eq!(night.builds[0].session, id("s00"));
    assert_eq!(night.skipped.len(), 10);
    assert!(night.skipped.iter().all(|(_, why)| *why == Skipped::OverLimit));
}

#[test]
fn the_night_is_shared_by_all_profiles_and_the_most_recent_come_first() {
    let of = |name: &str, hours: &[i64]| {
        let sessions: Vec<SessionInfo> = hours
            .iter()
            .map(|hour| info(&format!("s{hour}"), Some(&format!("t:{hour}")), 9, *hour))
            .collect();
        (name.to_owned(), plan(&sessions))
    };
    // Both profiles have a session of the same id.
    let mut nights = [of("default", &[1, 4, 9]), of("work", &[2, 4, 30])];
    share(&mut nights, 4);
    let built = |at: usize| -> Vec<&str> {
        nights[at].1.builds.iter().map(|it| it.session.as_str()).collect()
    };
    assert_eq!((built(0), built(1)), (vec!["s1", "s4"], vec!["s2", "s4"]));
    for (_, night) in &nights {
        assert_eq!(night.skipped.len(), 1, "{night:?}");
        assert_eq!(night.skipped[0].1, Skipped::OverLimit);
    }
    share(&mut nights, 0);
    assert!(nights.iter().all(|(_, night)| night.builds.is_empty()));
}

#[test]
fn the_report_tells_a_fallback_night_from_a_good_one() {
    let result = |status, reason: Option<&str>| BuildResult {
        status,
        reason: reason.map(str::to_owned),
        lane: Some("t:1".to_owned()),
        session_id: id("a"),
        messages: 9,
        chars: 1,
        words: 1,
        writer: None,
        prepass: "none".to_owned(),
        path: None,
        capsule: None,
        hint: None,
    };
    let mut report = NightReport::default();
    assert_eq!((report.exit_code(), report.text().as_str()), (0, "nothing was due\n"));
    report.add("default", result(Status::Ok, None), vec![id("a"), id("b")]);
    assert_eq!(report.exit_code(), 0);
    let mut short = report.clone();
    short.add("default", result(Status::TooShort, Some("it has 3 messages")), vec![]);
    assert_eq!(short.exit_code(), 0, "that there is nothing to hand over is no fault");
    report.add("default", result(Status::Fallback, Some("the writer failed")), vec![id("c")]);
    assert_eq!(report.exit_code(), 8);
    report.add("work", result(Status::WriteFailed, Some("disk full")), vec![]);
    assert_eq!(report.exit_code(), 1);
    assert_eq!(
        report.text(),
        "ok default t:1 a: 9 messages, 2 closed\n\
         fallback default t:1 a: 9 messages, 1 closed, the writer failed\n\
         write_failed work t:1 a: 9 messages, 0 closed, disk full\n\
         1 fallback, 1 ok, 1 write_failed\n"
    );
    let mut broken = NightReport::default();
    broken.add("default", result(Status::Ok, None), vec![id("a")]);
    broken.add_problem("work", "config.yaml:3: cannot\nbe read".to_owned());
    assert_eq!(broken.exit_code(), 1);
    assert!(broken.text().ends_with("failed work: config.yaml:3: cannot be read\n1 ok\n"));
    assert!(closes(Status::Fallback) && closes(Status::Ok) && !closes(Status::Busy));
}
