//! `hermes handoff nightly`: capsules for the conversations of all profiles while nobody is there.
//!
//! Invariants: a dry run writes nothing; a profile that cannot be used is told and keeps no other
//! from its capsules; a session is closed only once its capsule is there.

use std::collections::BTreeMap;

use hermes_agent::Services;
use hermes_agent::handoff::close_session;
use hermes_core::{SessionId, Timestamp};
use hermes_handoff::nightly::{
    NightPlan, NightReport, Planned, Skipped, Terms, closes, select, share,
};
use hermes_handoff::{BuildResult, Policy};
use hermes_store::{CapsuleState, OpenMode, SessionFilter, Store};
use tokio::runtime::Runtime;

use crate::app::App;
use crate::commands::{chat, handoff};
use crate::exit::Exit;
use crate::{out, plugged};

/// Carries out the command: all profiles, or the one that `-p` names.
///
/// # Errors
/// If the runtime does not start or stdout is closed.
pub fn run(app: &App, dry_run: bool, limit: usize, as_json: bool) -> anyhow::Result<Exit> {
    let names = match &app.talk.profile {
        Some(_) => vec![app.home.profile().to_owned()],
        None => app.home.profiles(),
    };
    let mut report = NightReport::default();
    let mut plans: Vec<(String, NightPlan)> = Vec::new();
    for name in names {
        match app.of_profile(&name).and_then(|app| plan(&app, dry_run)) {
            Ok(Some(plan)) => plans.push((name, plan)),
            Ok(None) => {}
            Err(error) => report.add_problem(&name, format!("{error:#}")),
        }
    }
    share(&mut plans, limit);
    if dry_run {
        print_plans(&plans, &report, as_json)?;
        return Ok(exit_of(&report));
    }
    let runtime = chat::runtime()?;
    for (name, plan) in plans {
        let told = |report: &mut NightReport, error: anyhow::Error| {
            report.add_problem(&name, format!("{error:#}"));
        };
        let app = match app.of_profile(&name) {
            Ok(app) => app,
            Err(error) => {
                told(&mut report, error);
                continue;
            }
        };
        if let Some(first) = plan.builds.first()
            && let Err(error) = try_writer(&app, &name, &first.session, &runtime)
        {
            told(&mut report, error);
        }
        for planned in plan.builds {
            if let Err(error) = build(&app, &name, planned, &runtime, &mut report) {
                told(&mut report, error);
            }
        }
    }
    if as_json {
        out::json(&report)?;
    } else {
        out::raw(report.text())?;
    }
    Ok(exit_of(&report))
}

fn exit_of(report: &NightReport) -> Exit {
    match report.exit_code() {
        0 => Exit::Ok,
        1 => Exit::Failure,
        _ => Exit::Fallback,
    }
}

/// What is due in a profile; None if there is nothing to look at, or a plugin sees to it.
fn plan(app: &App, dry_run: bool) -> anyhow::Result<Option<NightPlan>> {
    if !app.home.store_path().exists() {
        return Ok(None);
    }
    let loaded = app.config()?;
    if !Policy::of(&loaded.config).active {
        out::note(format!(
            "profile {}: the plugin hermes-handoff is enabled and closes sessions itself",
            app.home.profile()
        ));
        return Ok(None);
    }
    let store = app.store(if dry_run { OpenMode::ReadOnly } else { OpenMode::ReadWrite })?;
    if !dry_run {
        handoff::reconcile(&handoff::handoffs(app, &store));
    }
    let plan = plan_of(app, &store);
    store.close();
    plan.map(Some)
}

fn plan_of(app: &App, store: &Store) -> anyhow::Result<NightPlan> {
    let sessions = store.sessions(&SessionFilter::default())?;
    let pending = store.capsules(Some(CapsuleState::Pending))?;
    let waiting: BTreeMap<SessionId, Timestamp> =
        pending.into_iter().map(|it| (it.session, it.created_at)).collect();
    Ok(select(&sessions, &waiting, app.env.now(), Terms::default()))
}

/// Asks a profile's writer for a tiny answer before the first build, so that the log of a night
/// begins with what is wrong.
fn try_writer(
    app: &App,
    profile: &str,
    session: &SessionId,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    let services = handoff::services(app, Some(session))?;
    match runtime.block_on(services.try_capsule_writer()) {
        Ok(model) => out::note(format!("{profile}: the writer answers: {model}")),
        Err(error) => out::note(format!(
            "warning: {profile}: the writer does not answer: {}; hint: {}",
            services.redactor.redact(&error.to_string()),
            error.fault.hint()
        )),
    }
    services.store.close();
    Ok(())
}

fn build(
    app: &App,
    profile: &str,
    planned: Planned,
    runtime: &Runtime,
    report: &mut NightReport,
) -> anyhow::Result<()> {
    let services = handoff::plugged_services(app, Some(&planned.session))?;
    let result = runtime.block_on(services.hand_off(&planned.session, None).run());
    let (result, closed) = close_all(&services, result, planned.alongside);
    plugged::over(&services)?;
    services.store.close();
    report.add(profile, result, closed);
    Ok(())
}

fn print_plans(
    plans: &[(String, NightPlan)],
    report: &NightReport,
    as_json: bool,
) -> anyhow::Result<()> {
    if as_json {
        let plans: BTreeMap<&str, &NightPlan> =
            plans.iter().map(|(name, plan)| (name.as_str(), plan)).collect();
        out::json(&serde_json::json!({ "profiles": plans, "problems": report.problems }))?;
        return Ok(());
    }
    let mut counts: BTreeMap<&Skipped, usize> = BTreeMap::new();
    for (name, plan) in plans {
        for planned in &plan.builds {
            let older = planned.alongside.len();
            out::line(format!(
                "would build {name} {} and close it with {older} older",
                planned.session
            ))?;
        }
        for (_, why) in &plan.skipped {
            *counts.entry(why).or_default() += 1;
        }
    }
    for (why, count) in counts {
        let why = serde_json::to_value(why)?;
        out::line(format!("would leave {count}: {}", why.as_str().unwrap_or_default()))?;
    }
    if plans.iter().all(|(_, plan)| plan.builds.is_empty()) {
        out::line("nothing is due")?;
    }
    for problem in &report.problems {
        out::line(problem.line())?;
    }
    Ok(())
}

/// Ends the sessions of a conversation whose capsule is built.
fn close_all(
    services: &Services,
    result: BuildResult,
    alongside: Vec<SessionId>,
) -> (BuildResult, Vec<SessionId>) {
    if !closes(result.status) {
        return (result, Vec::new());
    }
    let (result, ended) = handoff::finished(services, result);
    let mut closed: Vec<SessionId> = ended.then(|| result.session_id.clone()).into_iter().collect();
    for id in alongside {
        match close_session(&services.store, &*services.env, &id) {
            Ok(()) => closed.push(id),
            Err(error) => out::note(format!("warning: session {id} stays open: {error}")),
        }
    }
    (result, closed)
}
