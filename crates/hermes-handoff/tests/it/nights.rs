//! The nightly closer's choice and report.

use std::collections::BTreeSet;

use hermes_core::{Lane, SessionId, Timestamp, Usage};
use hermes_handoff::nightly::{NightReport, Planned, Skipped, Terms, closes, select};
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

fn plan(sessions: &[SessionInfo]) -> hermes_handoff::nightly::NightPlan {
    select(sessions, &BTreeSet::new(), START, Terms::default())
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
    let named = |name: &str, alongside: &[&str]| Planned {
        session: id(name),
        alongside: alongside.iter().map(|name| id(name)).collect(),
    };
    assert_eq!(
        night.builds,
        [named("b1", &[]), named("a2", &["a3", "a1"]), named("c1", &[]), named("c2", &[])]
    );
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
    ];
    let waiting: BTreeSet<SessionId> = [id("waiting")].into();
    let night = select(&sessions, &waiting, START, Terms::default());
    assert!(night.builds.is_empty());
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
    let night = plan(&sessions);
    assert_eq!(night.builds.len(), 40);
    assert_eq!(night.builds[0].session, id("s00"));
    assert_eq!(night.skipped.len(), 10);
    assert!(night.skipped.iter().all(|(_, why)| *why == Skipped::OverLimit));
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
    assert!(closes(Status::Fallback) && closes(Status::Ok) && !closes(Status::Busy));
}
