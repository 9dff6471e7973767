//! `hermes lab recall --capsule`: the recall exam, and two reports of it set against each other.

use std::path::Path;

use hermes_core::SessionId;
use hermes_lab::exam::{
    CapsulePolicy, ExamInput, ExamReport, Sessions, Versus, run_exam, svg, versus,
};
use hermes_store::{OpenMode, Store};

use super::{given_or, write};
use crate::app::App;
use crate::cli::Talk;
use crate::cli::lab::{Policy, Recall};
use crate::exit::{Exit, Failure};
use crate::out;

/// Messages of made-up conversations.
const SIZES: [usize; 3] = [200, 1_000, 5_000];

const fn policy(word: Policy) -> CapsulePolicy {
    match word {
        Policy::Deterministic => CapsulePolicy::Deterministic,
        Policy::Newest => CapsulePolicy::Newest,
        Policy::Digest => CapsulePolicy::Digest,
        Policy::Writer => CapsulePolicy::Writer,
        Policy::Stored => CapsulePolicy::Stored,
    }
}

/// Holds the exam, or compares two.
///
/// # Errors
/// If a session does not exist, a model does not answer, or a report cannot be read.
pub fn run(talk: Talk, flags: &Recall) -> anyhow::Result<Exit> {
    if let [a, b] = flags.compare.as_slice() {
        let found = compare(a, b)?;
        if flags.json {
            out::json(&found)?;
        } else {
            print_versus(&found)?;
        }
        return Ok(Exit::Ok);
    }
    let mut policies: Vec<CapsulePolicy> = Vec::new();
    for word in &flags.policy {
        if !policies.contains(&policy(*word)) {
            policies.push(policy(*word));
        }
    }
    let report = examine(talk, flags, policies.clone())?;
    let mut duels = Vec::new();
    for other in policies.iter().skip(1) {
        duels.push(versus(("", &report, policies[0]), ("", &report, *other))?);
    }
    let folder = &flags.out;
    let mut page = report.to_markdown();
    for duel in &duels {
        page.push('\n');
        page.push_str(&duel.to_markdown());
    }
    write(folder, "exam.json", &serde_json::to_string_pretty(&report)?)?;
    write(folder, "exam.md", &page)?;
    write(folder, "exam.svg", &svg(&report))?;
    if flags.json {
        out::json(&report)?;
    } else {
        print(&report)?;
        for duel in &duels {
            print_versus(duel)?;
        }
    }
    out::note(format!("written: {}/exam.md, .json and .svg", folder.display()));
    Ok(Exit::Ok)
}

fn examine(talk: Talk, flags: &Recall, policies: Vec<CapsulePolicy>) -> anyhow::Result<ExamReport> {
    let asks = flags.answerer.is_some() || policies.contains(&CapsulePolicy::Writer);
    let (answerer, judge) = (flags.answerer.clone(), flags.judge.clone());
    if flags.sessions.is_empty() && policies.contains(&CapsulePolicy::Stored) {
        let text = "capsules that were made are of your own sessions; hint: add --sessions ID";
        return Err(Failure::new(Exit::Usage, text).into());
    }
    let app = (asks || !flags.sessions.is_empty()).then(|| App::new(talk)).transpose()?;
    let store = match &app {
        Some(app) if !flags.sessions.is_empty() => Some(app.store(OpenMode::ReadOnly)?),
        _ => None,
    };
    let mut services = None;
    let mut redactor = hermes_home::redact::Redactor::default();
    if let Some(app) = &app {
        let loaded = app.config()?;
        redactor = loaded.redactor();
        if asks {
            let store = app.store(OpenMode::ReadWrite)?;
            services = Some(app.services(loaded, store, None)?);
        }
    }
    let sessions = match (&app, &store) {
        (Some(app), Some(store)) => Sessions::Own {
            ids: resolved(app, store, &flags.sessions)?,
            store,
            home: &app.home,
            redactor: &redactor,
            texts: flags.texts,
        },
        _ => Sessions::Generated {
            seeds: flags.first_seed..flags.first_seed + flags.seeds,
            sizes: given_or(flags.messages.clone(), &SIZES),
        },
    };
    Ok(run_exam(ExamInput { sessions, policies, services, answerer, judge })?)
}

fn resolved(app: &App, store: &Store, references: &[String]) -> anyhow::Result<Vec<SessionId>> {
    references.iter().map(|reference| Ok(app.session(store, reference)?.id)).collect()
}

fn compare(a: &str, b: &str) -> anyhow::Result<Versus> {
    let (one, other) = (read(a)?, read(b)?);
    Ok(versus((one.0, &one.1, one.2), (other.0, &other.1, other.2))?)
}

/// A report with its path and the policy that is meant: the one behind the colon, else the first.
fn read(reference: &str) -> anyhow::Result<(&str, ExamReport, CapsulePolicy)> {
    let named = reference
        .rsplit_once(':')
        .and_then(|(path, word)| Some((path, CapsulePolicy::of_word(word)?)));
    let name = named.map_or(reference, |(path, _)| path);
    let path = Path::new(name);
    let file = if path.is_dir() { path.join("exam.json") } else { path.to_owned() };
    let report = ExamReport::read(&file)?;
    let first = report.policies().first().copied();
    let policy = named.map(|(_, policy)| policy).or(first);
    Ok((name, report, policy.unwrap_or(CapsulePolicy::Deterministic)))
}

fn print(report: &ExamReport) -> anyhow::Result<()> {
    let (head, foot) = report.notes();
    out::line(format!("{head}\n"))?;
    out::table(&ExamReport::HEAD, report.rows(), "no session was examined")?;
    out::line(format!("\n{foot}\n"))?;
    out::table(&ExamReport::KINDS_HEAD, report.kinds(), "no question was asked")
}

fn print_versus(versus: &Versus) -> anyhow::Result<()> {
    out::line(format!("\n{}", versus.head()))?;
    out::table(&Versus::HEAD, versus.rows(), "no arm is in both")
}
