//! The recall exam: what the next session can still answer about a session that was handed over.
//!
//! Each session is asked 15 to 20 questions, whatever its length. They are answered from the capsule
//! alone, from the capsule and one search, from one search alone, and from nothing. Without a model
//! an answer counts if the exact value stands there beside the name of the thing that the question
//! asks about; with one it answers, and a second one may judge.
//!
//! Invariants: the capsule is made by the product's own build and the search is the product's own
//! tool, called as the Recovery block says, with words of the question alone; questions are chosen
//! by nothing that chooses what a capsule holds; what a report holds of a person's own sessions are
//! counts and hits, and texts only where they are asked for; a model that does not answer is a
//! fault, not a wrong answer.

mod answer;
mod cloze;
mod plot;
mod policy;
mod question;
mod report;
mod versus;
mod world;

use hermes_agent::Services;
use hermes_core::{Row, SessionId};
use hermes_handoff::source::Source;
use hermes_home::Home;
use hermes_home::redact::Redactor;
use hermes_store::Store;

pub use plot::svg;
pub use policy::CapsulePolicy;
pub use question::Question;
pub use report::{Arm, ArmScore, Asked, ExamReport, FORMAT, PUBLISHED, Size};
pub use versus::{Duel, Versus, versus};

use crate::LabError;
use crate::recall::{asserts, generate};
use answer::Models;
use policy::Shop;
use world::{Desk, World, found_texts, session_of};

/// What is examined.
pub enum Sessions<'a> {
    /// Made-up conversations: seeds, and messages of each.
    Generated {
        /// The seeds.
        seeds: std::ops::Range<u64>,
        /// Messages of a conversation.
        sizes: Vec<usize>,
    },
    /// A person's own.
    Own {
        /// The store. It is only read.
        store: &'a Store,
        /// The home that it is in, for the search.
        home: &'a Home,
        /// Which of its sessions.
        ids: Vec<SessionId>,
        /// Masks secrets in questions and capsules.
        redactor: &'a Redactor,
        /// Whether questions and answers go into the report.
        texts: bool,
    },
}

/// An exam.
pub struct ExamInput<'a> {
    /// What is examined.
    pub sessions: Sessions<'a>,
    /// What the next session is given.
    pub policies: Vec<CapsulePolicy>,
    /// The configured models, for the policy `writer` and for those that answer and judge.
    pub services: Option<Services>,
    /// The model that answers; without one texts are looked through.
    pub answerer: Option<String>,
    /// The model that judges the answers.
    pub judge: Option<String>,
}

/// A session with its questions.
struct Paper {
    id: SessionId,
    /// What it is counted under: the messages that were asked for, or the session.
    group: String,
    questions: Vec<Question>,
}

/// Holds the exam.
///
/// # Errors
/// If a session cannot be read, a capsule cannot be made, or a model does not answer.
pub fn run_exam(input: ExamInput<'_>) -> Result<ExamReport, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| LabError::Io { path: std::env::temp_dir(), source })?;
    let ExamInput { sessions, policies, services, answerer, judge } = input;
    let mut report = ExamReport::new(&sessions, answerer.as_deref(), judge.as_deref());
    let mut services = services;
    match sessions {
        Sessions::Generated { seeds, sizes } => {
            for messages in sizes {
                let world = World::new()?;
                let mut papers = Vec::new();
                for seed in seeds.clone() {
                    papers.push(generated(&world, seed, messages)?);
                }
                let mut hall = Hall { world: &world, own: None, texts: true, policies: &policies };
                let models =
                    Models::new(services.as_mut(), &world, answerer.as_ref(), judge.as_ref())?;
                runtime.block_on(hall.hold(&papers, models, &world.desk(), &mut report))?;
            }
        }
        Sessions::Own { store, home, ids, redactor, texts } => {
            let world = World::new()?;
            let mut papers = Vec::new();
            for id in ids {
                papers.push(own(&world, store, id, redactor)?);
            }
            let mut hall = Hall { world: &world, own: Some(store), texts, policies: &policies };
            let models = Models::new(services.as_mut(), &world, answerer.as_ref(), judge.as_ref())?;
            let desk = world.desk_in(home);
            runtime.block_on(hall.hold(&papers, models, &desk, &mut report))?;
        }
    }
    report.finish();
    Ok(report)
}

/// Writes a conversation and its questions; the same as in the gate of compaction.
fn generated(world: &World, seed: u64, messages: usize) -> Result<Paper, LabError> {
    let planted = generate(seed * 7_919 + messages as u64, messages);
    let id = SessionId::new(format!("made-up-{messages}-{seed}"));
    world.keep(&id, &planted.rows)?;
    // What is planned behind the end of a short conversation was never said.
    let said = planted.facts.iter().filter(|fact| !fact.rows.is_empty());
    let questions = said.map(Question::of_fact).collect();
    Ok(Paper { id, group: messages.to_string(), questions })
}

/// Copies a session as a capsule's builder sees it, and derives questions from it.
fn own(
    world: &World,
    store: &Store,
    id: SessionId,
    redactor: &Redactor,
) -> Result<Paper, LabError> {
    let source = Source::load(store, &id, redactor)?.ok_or_else(|| LabError::NoCapsule {
        session: id.to_string(),
        why: "it is gone".to_owned(),
    })?;
    let rows: Vec<Row> = source.rows;
    world.keep(&id, &rows)?;
    let questions = cloze::questions(&rows);
    Ok(Paper { group: id.to_string(), id, questions })
}

/// Where an exam is held.
struct Hall<'a> {
    world: &'a World,
    own: Option<&'a Store>,
    texts: bool,
    policies: &'a [CapsulePolicy],
}

impl Hall<'_> {
    async fn hold(
        &mut self,
        papers: &[Paper],
        models: Models<'_>,
        desk: &Desk,
        report: &mut ExamReport,
    ) -> Result<(), LabError> {
        let shop = Shop { world: self.world, services: models.services(), own: self.own };
        for paper in papers {
            // What does not depend on the capsule's text is found once.
            let mut found: Vec<(String, String)> = Vec::new();
            let made = self.world.capsule(&paper.id).await?;
            let session = session_of(&made).ok_or_else(|| LabError::NoCapsule {
                session: paper.id.to_string(),
                why: "its Recovery block names no session".to_owned(),
            })?;
            for question in &paper.questions {
                let query = question.query();
                let inside = desk.search(&query, Some(session)).await?;
                let everywhere = desk.search(&query, None).await?;
                found.push((found_texts(&inside), found_texts(&everywhere)));
            }
            for policy in self.policies {
                let capsule = shop.text(*policy, &paper.id).await?;
                report.took(*policy, &paper.group, &capsule);
                for (number, question) in paper.questions.iter().enumerate() {
                    let (inside, everywhere) = &found[number];
                    let hits = if models.answers() {
                        models.sit(question, &capsule, session, desk).await?
                    } else {
                        let capsule = question.is_answered_by(&capsule);
                        let inside = question.is_answered_by(inside);
                        vec![
                            (Arm::Capsule, capsule),
                            (Arm::CapsuleAndSearch, capsule || inside),
                            (Arm::SearchInside, inside),
                            (Arm::SearchAlone, question.is_answered_by(everywhere)),
                            (Arm::Nothing, question.is_answered_by("")),
                        ]
                    };
                    let stale = question
                        .outdated
                        .as_ref()
                        .map(|old| asserts(&capsule, old, &question.keys));
                    report.asked.push(Asked {
                        session: paper.id.to_string(),
                        number,
                        policy: *policy,
                        group: paper.group.clone(),
                        kind: question.kind.clone(),
                        question: self.texts.then(|| question.text.clone()),
                        answer: self.texts.then(|| question.keys.join(" / ")),
                        hits: hits.into_iter().collect(),
                        stale,
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
