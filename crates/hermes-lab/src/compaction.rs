//! The experiment about compaction: what is refreshed by it and what is not, what becomes of 28
//! rows, of a loaded skill, of a summary that fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use hermes_agent::compact::session_views;
use hermes_agent::{Cancel, CompressOptions, Conversation, UserInput, inspect};
use hermes_compaction::views::Counts;
use hermes_compaction::{Log, Method, Outcome};
use hermes_core::{NullSink, TurnOutcome};
use hermes_provider::rehearsal::{Rehearsal, RehearsalOptions, RehearsalServer, Script};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::world::{AMBER, CEDAR, COBALT, GRANITE, World};
use crate::{Finding, FindingVerdict, LabError, Target};

/// The views of one session at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ViewsAt {
    /// When.
    pub moment: &'static str,
    /// The numbers.
    pub counts: Counts,
}

/// What the experiment found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompactionReceipt {
    /// What was asked.
    pub provider: &'static str,
    /// The findings.
    pub findings: Vec<Finding>,
    /// The views of the session of 28 rows.
    pub views: Vec<ViewsAt>,
    /// Rows that were active and compacted after `/compress here 2` of 28 rows: as published of
    /// the original, and here.
    pub counts_p9: [(&'static str, u64, u64); 2],
}

/// Exchanges of the session that is compacted.
const EXCHANGES: usize = 14;

/// Runs the experiment against the rehearsal provider.
///
/// # Errors
/// If the temporary folder cannot be made, or a turn gets no answer.
pub fn run_compaction() -> Result<CompactionReceipt, LabError> {
    let mut run = Run::new()?;
    let (refresh, carried, tail, views, counts) = run.refresh_and_tail()?;
    let skill = Run::new()?.skill()?;
    let failure = Run::new()?.failure()?;
    Ok(CompactionReceipt {
        provider: "rehearsal",
        findings: vec![refresh, carried, tail, skill, failure],
        views,
        counts_p9: [("published", 12, 28), ("here", counts.active, counts.compacted)],
    })
}

struct Run {
    world: World,
    runtime: Runtime,
    said: u32,
}

/// What is found of the session of 28 rows.
type Found = (Finding, Finding, Finding, Vec<ViewsAt>, Counts);

impl Run {
    fn new() -> Result<Self, LabError> {
        let world = World::new(&Target::Rehearsal)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| LabError::Io { path: world.folder().to_owned(), source })?;
        Ok(Self { world, runtime, said: 0 })
    }

    fn say(&mut self, conversation: &mut Conversation, text: &str) -> Result<(), LabError> {
        self.said += 1;
        let cancel = Cancel::default();
        let turn =
            conversation.turn(&self.world.services, UserInput::text(text), &NullSink, &cancel);
        match self.runtime.block_on(turn)?.outcome {
            TurnOutcome::Answered => Ok(()),
            other => Err(LabError::NoAnswer { turn: self.said, why: format!("{other:?}") }),
        }
    }

    fn compress(&self, conversation: &mut Conversation, keep: usize) -> Result<Log, LabError> {
        let options = CompressOptions { keep: Some(keep), focus: None };
        let cancel = Cancel::default();
        let services = &self.world.services;
        Ok(self.runtime.block_on(conversation.compress(services, &options, &NullSink, &cancel))?)
    }

    fn filled(&mut self) -> Result<Conversation, LabError> {
        let mut conversation = self.world.start()?;
        for number in 0..EXCHANGES {
            let text = format!("exchange {number}: {}", "a sentence that fills a row. ".repeat(20));
            self.say(&mut conversation, &text)?;
        }
        Ok(conversation)
    }

    fn last_body(&self) -> String {
        let bodies = self.world.services.rehearsal_received();
        bodies.last().map(|body| String::from_utf8_lossy(body).into_owned()).unwrap_or_default()
    }

    fn views(&self, moment: &'static str, of: &Conversation) -> Result<ViewsAt, LabError> {
        let (counts, _) = session_views(&self.world.services.store, of.id())?;
        Ok(ViewsAt { moment, counts })
    }

    /// P3, P4 and P9.
    fn refresh_and_tail(&mut self) -> Result<Found, LabError> {
        let mut conversation = self.filled()?;
        let id = conversation.id().clone();
        let mut views = vec![self.views("28 rows", &conversation)?];
        let rows = self.world.services.store.history(&id)?.rows;
        let prompt = conversation.snapshot().digest;
        self.world.edit_profile(COBALT)?;
        put(self.world.folder(), "repo/AGENTS.md", "The rule of this project is OTHER.\n")?;
        let log = self.compress(&mut conversation, 2)?;
        views.push(self.views("after /compress here 2", &conversation)?);
        let counts = views[1].counts;
        let after = self.world.services.store.history(&id)?.rows;
        let kept = after.get(..rows.len()) == Some(&rows[..]);
        self.say(&mut conversation, "say hello")?;
        views.push(self.views("after the next exchange", &conversation)?);
        let body = self.last_body();
        let new_prompt = conversation.snapshot().digest != prompt;
        let refreshed = body.contains(COBALT) && !body.contains(AMBER);
        let same_session = *conversation.id() == id;
        let p3 = finding(
            "P3",
            agrees(log.is_compaction() && new_prompt && refreshed && same_session),
            None,
            &[
                ("same session", same_session),
                ("new prompt digest", new_prompt),
                ("new profile in the next request", refreshed),
            ],
        );
        let carried = body.contains(GRANITE) && !body.contains("OTHER");
        let p4 = finding("P4", agrees(carried), None, &[("project rule carried over", carried)]);
        let tail = (EXCHANGES - 2..EXCHANGES).all(|n| body.contains(&format!("exchange {n}:")));
        let better = kept && tail && counts.active == 4 && counts.compacted == 24;
        let mut p9 = finding(
            "P9",
            if better { FindingVerdict::Better } else { FindingVerdict::Differs },
            Some("the rows of the recent tail stay active"),
            &[("every row as it was", kept), ("recent tail in the next request", tail)],
        );
        for (name, value) in [
            ("active rows", counts.active),
            ("compacted rows", counts.compacted),
            ("live rows", counts.live),
        ] {
            p9.facts.insert(name.to_owned(), value.to_string());
        }
        let before = inspect_digest(self, &conversation)?;
        let undone = conversation.undo_compaction(&self.world.services, None).is_ok();
        views.push(self.views("after --undo", &conversation)?);
        let changed = inspect_digest(self, &conversation)? != before;
        p9.facts.insert("undone".to_owned(), (undone && changed).to_string());
        Ok((p3, p4, p9, views, counts))
    }

    /// P10.
    fn skill(&mut self) -> Result<Finding, LabError> {
        let text = format!(
            "---\nname: lab-skill\ndescription: A skill of the lab.\n---\nThe word of this skill is \
             {CEDAR}.\n{}",
            "A line of a long skill.\n".repeat(80)
        );
        put(self.world.folder(), "home/skills/lab-skill/SKILL.md", &text)?;
        let mut conversation = self.world.start()?;
        self.say(&mut conversation, "load skill lab-skill")?;
        self.say(&mut conversation, "say hello")?;
        let loaded = self.last_body().contains(CEDAR);
        for number in 0..6 {
            let text = format!("exchange {number}: {}", "a sentence that fills a row. ".repeat(20));
            self.say(&mut conversation, &text)?;
        }
        let log = self.compress(&mut conversation, 1)?;
        self.say(&mut conversation, "say hello again")?;
        let body = self.last_body();
        let reduced = log.is_compaction() && !body.contains(&format!("is {CEDAR}"));
        let named = body.contains("lab-skill");
        self.say(&mut conversation, "load skill lab-skill")?;
        let again = self.last_body().contains(&format!("is {CEDAR}"));
        Ok(finding(
            "P10",
            agrees(loaded && reduced && named && again),
            None,
            &[
                ("body loaded", loaded),
                ("body reduced by the compaction", reduced),
                ("skill still named", named),
                ("body loaded again", again),
            ],
        ))
    }

    /// P12: the same failing helper under both policies.
    fn failure(&mut self) -> Result<Finding, LabError> {
        let mut conversation = self.filled()?;
        let id = conversation.id().clone();
        let failing = failing()?;
        let endpoints = self.world.services.endpoints.clone();
        for endpoint in &mut self.world.services.endpoints {
            endpoint.base_url = failing.base_url().into();
        }
        self.policy("abort");
        self.world.services.backoff = hermes_provider::Backoff::quick();
        let before = self.world.services.store.history(&id)?;
        let aborted = self.compress(&mut conversation, 2)?;
        let kept = self.world.services.store.history(&id)? == before;
        let said =
            matches!(&aborted.outcome, Outcome::Rejected(why) if why.to_string().contains("500"));
        self.policy("fallback");
        let fallback = self.compress(&mut conversation, 2)?;
        let marked = fallback.method == Some(Method::DeterministicFallback)
            && fallback.fallback_because.is_some()
            && fallback.coverage.is_some();
        self.world.services.endpoints = endpoints;
        self.say(&mut conversation, "say hello")?;
        let told = self.last_body().contains("No model wrote this record");
        Ok(finding(
            "P12",
            agrees(kept && said && marked && told),
            None,
            &[
                ("abort keeps everything", kept),
                ("abort says why", said),
                ("fallback is marked and has its coverage", marked),
                ("the model is told that no model wrote it", told),
            ],
        ))
    }

    fn policy(&mut self, word: &str) {
        let mut config = (*self.world.services.config).clone();
        word.clone_into(&mut config.compression.on_failure);
        self.world.services.config = Arc::new(config);
    }
}

fn inspect_digest(run: &Run, conversation: &Conversation) -> Result<String, LabError> {
    Ok(inspect::next(&run.world.services, conversation, "say hello")?.history_digest)
}

/// A server that answers 500 to everything.
fn failing() -> Result<RehearsalServer, LabError> {
    let text = r#"[{"kind":"any","status":500,"body":{"error":{"message":"no"}},"repeat":1000}]"#;
    let script = Script::parse(Path::new("failing"), text).ok();
    let options = RehearsalOptions { script, ..RehearsalOptions::default() };
    Rehearsal::start(options).map_err(|error| LabError::Agent(error.into()))
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), LabError> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|source| LabError::Io { path, source })
}

const fn agrees(does: bool) -> FindingVerdict {
    if does { FindingVerdict::Agrees } else { FindingVerdict::Differs }
}

fn finding(
    id: &str,
    verdict: FindingVerdict,
    better: Option<&str>,
    facts: &[(&str, bool)],
) -> Finding {
    Finding {
        id: id.to_owned(),
        class: "rehearsed".to_owned(),
        verdict,
        better: better.map(str::to_owned),
        facts: facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string()))
            .collect::<BTreeMap<_, _>>(),
    }
}

impl CompactionReceipt {
    /// The receipt as a page.
    pub fn to_markdown(&self) -> String {
        let mut out = String::from(
            "# Compaction\n\n| finding | verdict | what it rests on |\n|---|---|---|\n",
        );
        for finding in &self.findings {
            let facts: Vec<String> =
                finding.facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            let better = finding.better.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            let _ = writeln!(
                out,
                "| {} | {}{better} | {} |",
                finding.id,
                finding.verdict.word(),
                facts.join("; ")
            );
        }
        let _ = writeln!(
            out,
            "\n| moment | stored | active | compacted | taken back | summaries in force | live | \
             sent last |\n|---|---|---|---|---|---|---|---|"
        );
        for ViewsAt { moment, counts } in &self.views {
            let sent = counts.sent.map_or_else(|| "-".to_owned(), |it| it.to_string());
            let _ = writeln!(
                out,
                "| {moment} | {} | {} | {} | {} | {} | {} | {sent} |",
                counts.stored,
                counts.active,
                counts.compacted,
                counts.hidden,
                counts.summaries,
                counts.live
            );
        }
        let _ = writeln!(
            out,
            "\n| /compress here 2 of 28 rows | active after | marked compacted |\n|---|---|---|"
        );
        for (who, active, compacted) in self.counts_p9 {
            let _ = writeln!(out, "| {who} | {active} | {compacted} |");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_about_compaction_is_reproduced_or_done_better() {
        let receipt = run_compaction().unwrap();
        let page = receipt.to_markdown();
        for finding in &receipt.findings {
            let wanted =
                if finding.id == "P9" { FindingVerdict::Better } else { FindingVerdict::Agrees };
            assert_eq!(finding.verdict, wanted, "{page}");
        }
        assert_eq!(receipt.counts_p9, [("published", 12, 28), ("here", 4, 24)]);
        assert_eq!(receipt.views.last().unwrap().counts.compacted, 0, "{page}");
        assert!(!page.contains(AMBER) && !page.contains(CEDAR), "no markers' context");
    }
}
