//! The nightly closer: which conversations get a capsule while nobody is there, and the report.
//!
//! Pure: the caller builds and closes. Invariants: one capsule for a conversation, from its newest
//! session that is long enough; the capsule comes before the close, and without one nothing is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use hermes_core::{SessionId, Timestamp};
use hermes_store::SessionInfo;
use serde::Serialize;

use crate::result::{BuildResult, Status};

/// Which sessions come into question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// At least this many messages.
    pub least_messages: u64,
    /// Active within this many milliseconds.
    pub active_within_millis: i64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { least_messages: 6, active_within_millis: 3 * 24 * 3600 * 1000 }
    }
}

/// Builds of one night, over all profiles.
pub const MOST_BUILDS: usize = 40;

/// A conversation that gets a capsule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Its newest session that is long enough.
    pub session: SessionId,
    /// Its older sessions that are still open, closed alongside.
    pub alongside: Vec<SessionId>,
    /// When it was active last.
    pub active_at: Timestamp,
}

/// Why a session gets none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// It is closed.
    Closed,
    /// It is a scheduled one.
    Scheduled,
    /// It is a delegated child.
    Delegated,
    /// It has too few messages.
    TooShort,
    /// It was not active lately.
    Idle,
    /// A capsule about it waits already, and nothing was said since.
    HasCapsule,
    /// The night's number is used up.
    OverLimit,
}

/// The plan of a night.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NightPlan {
    /// What is built, the most recently active first.
    pub builds: Vec<Planned>,
    /// What is not, and why.
    pub skipped: Vec<(SessionId, Skipped)>,
}

/// Whether a session is the scheduler's, by its surface or its name.
pub fn is_scheduled(info: &SessionInfo) -> bool {
    info.source == "cron" || info.id.as_str().starts_with("cron_")
}

/// Plans a night. `waiting` are sessions about which a capsule is pending, and since when.
pub fn select(
    sessions: &[SessionInfo],
    waiting: &BTreeMap<SessionId, Timestamp>,
    now: Timestamp,
    terms: Terms,
) -> NightPlan {
    let mut plan = NightPlan::default();
    let mut lanes: BTreeMap<String, Vec<&SessionInfo>> = BTreeMap::new();
    for info in sessions {
        let delegate = matches!(info.parent, Some((_, hermes_store::ParentKind::Delegate)));
        let why = if info.ended_at.is_some() || info.archived {
            Skipped::Closed
        } else if is_scheduled(info) {
            Skipped::Scheduled
        } else if delegate {
            Skipped::Delegated
        } else {
            // A session without a lane is a conversation of its own.
            let lane = match &info.lane {
                Some(lane) => format!("lane {}", lane.key()),
                None => format!("session {}", info.id),
            };
            lanes.entry(lane).or_default().push(info);
            continue;
        };
        plan.skipped.push((info.id.clone(), why));
    }
    for mut of_lane in lanes.into_values() {
        of_lane.sort_by_key(|info| (info.last_activity_at, info.started_at));
        let idle = |info: &SessionInfo| {
            now.millis_since(info.last_activity_at) > terms.active_within_millis
        };
        let short = |info: &SessionInfo| info.message_count < terms.least_messages;
        let fits = |info: &&SessionInfo| !short(info) && !idle(info);
        // A few words in a newer session do not cost the longer one before it its capsule.
        let newest = of_lane.iter().rposition(fits).unwrap_or(of_lane.len() - 1);
        let (alongside, from) = of_lane.split_at(newest);
        let [newest, newer @ ..] = from else { continue };
        plan.skipped.extend(newer.iter().map(|info| (info.id.clone(), Skipped::TooShort)));
        let has_capsule = |info: &&SessionInfo| {
            waiting.get(&info.id).is_some_and(|built| info.last_activity_at <= *built)
        };
        let why = if from.iter().any(has_capsule) {
            Skipped::HasCapsule
        } else if short(newest) {
            Skipped::TooShort
        } else if idle(newest) {
            Skipped::Idle
        } else {
            plan.builds.push(Planned {
                session: newest.id.clone(),
                alongside: alongside.iter().map(|info| info.id.clone()).collect(),
                active_at: newest.last_activity_at,
            });
            continue;
        };
        plan.skipped.push((newest.id.clone(), why));
    }
    plan.builds
        .sort_by(|a, b| b.active_at.cmp(&a.active_at).then_with(|| a.session.cmp(&b.session)));
    plan
}

/// Leaves the `most` builds that were active most recently, of all profiles together.
pub fn share(plans: &mut [(String, NightPlan)], most: usize) {
    let mut all: Vec<(Timestamp, String, SessionId)> = plans
        .iter()
        .flat_map(|(profile, plan)| plan.builds.iter().map(move |it| (profile, it)))
        .map(|(profile, it)| (it.active_at, profile.clone(), it.session.clone()))
        .collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1, &a.2).cmp(&(&b.1, &b.2))));
    let over: BTreeSet<(String, SessionId)> =
        all.into_iter().skip(most).map(|(_, profile, session)| (profile, session)).collect();
    for (profile, plan) in plans {
        let is_over = |it: &Planned| over.contains(&(profile.clone(), it.session.clone()));
        let left = plan.builds.iter().filter(|it| is_over(it)).map(|it| it.session.clone());
        plan.skipped.extend(left.map(|session| (session, Skipped::OverLimit)));
        plan.builds.retain(|it| !is_over(it));
    }
}

/// Whether a session is closed after a build of this status: a fallback counts, a failure leaves it
/// open, because losing the thread is worse than a large context.
pub const fn closes(status: Status) -> bool {
    status.is_built()
}

/// What a night came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NightReport {
    /// One for each conversation.
    pub lines: Vec<NightLine>,
    /// Builds by status.
    pub counts: BTreeMap<&'static str, usize>,
    /// Profiles that could not be used, or not to the end.
    pub problems: Vec<NightProblem>,
}

/// A profile that could not be used, or not to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NightProblem {
    /// The profile.
    pub profile: String,
    /// Why.
    pub why: String,
}

impl NightProblem {
    /// What a person is told.
    pub fn line(&self) -> String {
        let why = self.why.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("failed {}: {why}", self.profile)
    }
}

/// What became of one conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NightLine {
    /// The profile.
    pub profile: String,
    /// The build.
    pub result: BuildResult,
    /// Sessions that were closed.
    pub closed: Vec<SessionId>,
}

impl NightReport {
    /// Adds a build.
    pub fn add(&mut self, profile: &str, result: BuildResult, closed: Vec<SessionId>) {
        *self.counts.entry(result.status.word()).or_default() += 1;
        self.lines.push(NightLine { profile: profile.to_owned(), result, closed });
    }

    /// Adds what kept a profile from its capsules.
    pub fn add_problem(&mut self, profile: &str, why: String) {
        self.problems.push(NightProblem { profile: profile.to_owned(), why });
    }

    /// 0 if every capsule was written by a model (or none was due), 8 if one was made without, 1 if
    /// one could not be made at all or a profile could not be used.
    pub fn exit_code(&self) -> u8 {
        if !self.problems.is_empty() {
            return 1;
        }
        self.lines.iter().map(|line| line.result.status).fold(0, |code, status| {
            match (code, status.exit_code()) {
                // Little was said among many results of tools: nothing failed.
                _ if status == Status::TooShort => code,
                (1, _) | (_, 1) => 1,
                (8, _) | (_, 8) => 8,
                _ => 0,
            }
        })
    }

    /// The report for a person.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for NightLine { profile, result, closed } in &self.lines {
            let lane = result.lane.as_deref().unwrap_or("(no lane)");
            let _ = write!(out, "{} {profile} {lane} {}", result.status.word(), result.session_id);
            let _ = write!(out, ": {} messages, {} closed", result.messages, closed.len());
            if let Some(reason) = &result.reason {
                let _ = write!(out, ", {reason}");
            }
            out.push('\n');
        }
        for problem in &self.problems {
            out.push_str(&problem.line());
            out.push('\n');
        }
        let counts: Vec<String> =
            self.counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
        let counts = match (counts.is_empty(), self.problems.is_empty()) {
            (true, true) => "nothing was due".to_owned(),
            (true, false) => "nothing was built".to_owned(),
            (false, _) => counts.join(", "),
        };
        let _ = writeln!(out, "{counts}");
        out
    }
}
