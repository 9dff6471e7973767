//! The experiment about context: 16 turns in two sessions, a profile that is edited between them,
//! a nested project file, a skill, a delegated task.

use std::collections::BTreeMap;

use hermes_agent::inspect::{Inspector, context};
use hermes_agent::{Cancel, Conversation, UserInput};
use hermes_core::{Digest, NullSink, Origin, SessionId, TurnOutcome};
use hermes_store::{ParentKind, RequestFilter, SessionFilter};
use tokio::runtime::Runtime;

use crate::seen::{self, Seen};
use crate::world::{AMBER, BASALT, CEDAR, COBALT, GRANITE, HERON, WILLOW, World};
use crate::{
    FORMAT, FORMAT_VERSION, Finding, FindingVerdict, LabError, PUBLISHED, Receipt, SessionFacts,
};

/// What the experiment asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The built-in rehearsal provider.
    Rehearsal,
    /// A server that speaks the chat-completions wire.
    Endpoint {
        /// Its address, up to and with `/v1`.
        base_url: String,
        /// The model.
        model: String,
        /// The variable that holds the key.
        key_env: Option<String>,
    },
}

/// A turn of session A that the rehearsal provider answers without its cache.
const FORGET: &str = "forget your cache, then say hello";

/// Runs the experiment.
///
/// # Errors
/// If the temporary folder cannot be made, or a turn gets no answer.
pub fn run_context(target: &Target) -> Result<Receipt, LabError> {
    let mut run = Run::new(target)?;
    let facts = run.carry_out()?;
    run.receipt(target, &facts)
}

/// The experiment while it runs.
struct Run {
    world: World,
    runtime: Runtime,
    turns: u32,
    /// The turn of every request, in order.
    turn_of: Vec<u32>,
    names: BTreeMap<SessionId, (String, u32)>,
}

/// What cannot be read from the requests alone.
#[derive(Debug, Default)]
struct Facts {
    /// Skills that the context report attributes: bytes in the index, loaded texts.
    skills: (usize, usize),
    /// Nested project files that are parts of their own with a causing call, by session.
    hints: BTreeMap<String, usize>,
    /// Turn in which the provider was asked to forget.
    forgot: u32,
    edited: (u32, u32),
}

impl Run {
    fn new(target: &Target) -> Result<Self, LabError> {
        let world = World::new(target)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| LabError::Io { path: world.folder().to_owned(), source })?;
        Ok(Self { world, runtime, turns: 0, turn_of: Vec::new(), names: BTreeMap::new() })
    }

    fn carry_out(&mut self) -> Result<Facts, LabError> {
        let mut facts = Facts::default();
        let mut a = self.world.start()?;
        self.say("A", &mut a, "say hello")?;
        self.say("A", &mut a, "say hello again")?;
        facts.edited.0 = self.turns;
        self.world.edit_profile(COBALT)?;
        self.say("A", &mut a, "say hello once more")?;
        self.say("A", &mut a, "read backend/probe.txt")?;
        self.say("A", &mut a, &format!("what can you see of {BASALT}"))?;
        self.say("A", &mut a, "load skill lab-skill")?;
        self.say("A", &mut a, &format!("what can you see of {CEDAR}"))?;
        facts.skills = self.attributed(&a)?;
        let goal = format!("delegate repeat the word of the task knowing the word is {HERON}");
        self.say("A", &mut a, &goal)?;
        facts.forgot = self.say("A", &mut a, FORGET)?;
        self.say("A", &mut a, "say goodbye")?;

        let mut b = self.world.start()?;
        self.say("B", &mut b, "say hello")?;
        facts.edited.1 = self.turns;
        self.world.edit_profile(AMBER)?;
        self.say("B", &mut b, "say hello again")?;
        self.say("B", &mut b, "read backend/probe.txt")?;
        self.say("B", &mut b, &format!("what can you see of {BASALT}"))?;
        self.say("B", &mut b, "load skill lab-skill")?;
        self.say("B", &mut b, "say goodbye")?;
        for (name, conversation) in [("A", a), ("B", b)] {
            facts.hints.insert(name.to_owned(), hints(&conversation));
        }
        Ok(facts)
    }

    /// One turn; gives its number.
    fn say(
        &mut self,
        name: &str,
        conversation: &mut Conversation,
        text: &str,
    ) -> Result<u32, LabError> {
        self.turns += 1;
        let services = &self.world.services;
        let cancel = Cancel::default();
        let turn = conversation.turn(services, UserInput::text(text), &NullSink, &cancel);
        let report = self.runtime.block_on(turn)?;
        match report.outcome {
            TurnOutcome::Answered => {}
            other => {
                return Err(LabError::NoAnswer { turn: self.turns, why: format!("{other:?}") });
            }
        }
        conversation.release()?;
        self.names.entry(conversation.id().clone()).or_insert_with(|| (name.to_owned(), 0)).1 += 1;
        let sent = services.store.requests(&RequestFilter::default())?.len();
        self.turn_of.resize(sent, self.turns);
        self.name_children(name)?;
        Ok(self.turns)
    }

    fn name_children(&mut self, parent: &str) -> Result<(), LabError> {
        let filter = SessionFilter { delegates: true, ..SessionFilter::default() };
        for info in self.world.services.store.sessions(&filter)? {
            if matches!(info.parent, Some((_, ParentKind::Delegate))) {
                self.names.entry(info.id).or_insert_with(|| (format!("{parent}/child"), 1));
            }
        }
        Ok(())
    }

    /// What the context report says of the skills: bytes in the index, loaded texts.
    fn attributed(&self, conversation: &Conversation) -> Result<(usize, usize), LabError> {
        let store = &self.world.services.store;
        let Some(info) = store.session(conversation.id())? else { return Ok((0, 0)) };
        let report = context(&mut Inspector::new(store), &info, None)?;
        let share = report.skills.iter().find(|share| share.name == "lab-skill");
        Ok(share.map_or((0, 0), |share| (share.index_bytes, share.loaded.len())))
    }

    fn receipt(&self, target: &Target, facts: &Facts) -> Result<Receipt, LabError> {
        let store = &self.world.services.store;
        let turn_of = |index: usize| self.turn_of.get(index).copied().unwrap_or_default();
        let name_of = |id: &SessionId| self.names.get(id).map_or("?", |(name, _)| name).to_owned();
        let seen = seen::all(store, self.world.folder(), &turn_of, &name_of)?;
        let class = match target {
            Target::Rehearsal => "rehearsed",
            Target::Endpoint { .. } => "live",
        };
        let mut findings: Vec<Finding> = Vec::new();
        for published in PUBLISHED {
            let found = match published.id {
                "P1" => p1(&seen, facts),
                "P2" => p2(&seen, facts),
                "P5" => p5(&seen, facts),
                "P6" => p6(&seen),
                "P7" => p7(facts),
                "P8" => p8(&seen, facts),
                "P11" => p11(&seen),
                _ => Found { verdict: FindingVerdict::NotRun, ..Found::default() },
            };
            let ran = found.verdict != FindingVerdict::NotRun;
            findings.push(Finding {
                id: published.id.to_owned(),
                class: if ran { class } else { "not run" }.to_owned(),
                verdict: found.verdict,
                better: found.better,
                facts: found.facts,
            });
        }
        let mut sessions = Vec::new();
        for (id, (name, turns)) in &self.names {
            let history = store.history(id)?;
            let info = store.session(id)?;
            let live = info.as_ref().map_or(0, |info| info.message_count);
            sessions.push(SessionFacts {
                name: name.clone(),
                turns: *turns,
                live_rows: live,
                other_rows: (history.rows.len() as u64).saturating_sub(live),
                compactions: info.as_ref().map_or(0, |info| info.compactions),
                same_id: info.is_some(),
            });
        }
        sessions.sort_by(|a, b| a.name.cmp(&b.name));
        let model = self.world.services.primary().map(|choice| choice.model).unwrap_or_default();
        Ok(Receipt {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            experiment: "context".to_owned(),
            program: concat!("hermes ", env!("CARGO_PKG_VERSION")).to_owned(),
            os: std::env::consts::OS.to_owned(),
            class: class.to_owned(),
            model,
            turns: self.turns,
            calls: u32::try_from(seen.len()).unwrap_or(u32::MAX),
            verified: u32::try_from(seen.iter().filter(|it| it.verified).count())
                .unwrap_or(u32::MAX),
            kept_from_profile: self.world.refused(),
            sessions,
            requests: seen.into_iter().map(|seen| seen.facts).collect(),
            findings,
        })
    }
}

/// Nested project files that are parts of their own, on the row of the call that caused them.
fn hints(conversation: &Conversation) -> usize {
    let rows = conversation.rows().iter().filter(|row| row.tool.is_some());
    rows.flat_map(|row| &row.parts).filter(|part| part.origin == Origin::Hint).count()
}

/// What a finding rests on.
struct Found {
    verdict: FindingVerdict,
    better: Option<String>,
    facts: BTreeMap<String, String>,
}

impl Default for Found {
    fn default() -> Self {
        Self { verdict: FindingVerdict::Differs, better: None, facts: BTreeMap::new() }
    }
}

impl Found {
    fn fact(mut self, name: &str, value: &dyn ToString) -> Self {
        self.facts.insert(name.to_owned(), value.to_string());
        self
    }

    fn agrees_if(mut self, holds: bool) -> Self {
        self.verdict = if holds { FindingVerdict::Agrees } else { FindingVerdict::Differs };
        self
    }
}

/// The requests of a session, those after `turn` only.
fn after<'a>(seen: &'a [Seen], session: &str, turn: u32) -> Vec<&'a Seen> {
    let of = |it: &&Seen| it.facts.session == session && it.facts.turn > turn;
    seen.iter().filter(of).collect()
}

fn digests(seen: &[&Seen]) -> usize {
    let all: std::collections::BTreeSet<Digest> = seen.iter().map(|it| it.prompt).collect();
    all.len()
}

fn p1(seen: &[Seen], facts: &Facts) -> Found {
    let edited = after(seen, "A", facts.edited.0);
    let all = after(seen, "A", 0);
    let old = edited.iter().filter(|it| it.holds(AMBER, "prompt")).count();
    let new = edited.iter().filter(|it| it.holds_anywhere(COBALT)).count();
    Found::default()
        .fact("requests after the edit", &edited.len())
        .fact("with the old profile", &old)
        .fact("with the new profile", &new)
        .fact("prompt digests in the session", &digests(&all))
        .agrees_if(!edited.is_empty() && old == edited.len() && new == 0 && digests(&all) == 1)
}

fn p2(seen: &[Seen], facts: &Facts) -> Found {
    let all = after(seen, "B", 0);
    let edited = after(seen, "B", facts.edited.1);
    let new = all.iter().filter(|it| it.holds(COBALT, "prompt")).count();
    let old = all.iter().filter(|it| it.holds_anywhere(AMBER)).count();
    Found::default()
        .fact("requests", &all.len())
        .fact("of these after the edit back", &edited.len())
        .fact("with the new profile", &new)
        .fact("with the old profile", &old)
        .fact("prompt digests in the session", &digests(&all))
        .agrees_if(!edited.is_empty() && new == all.len() && old == 0 && digests(&all) == 1)
}

fn p5(seen: &[Seen], facts: &Facts) -> Found {
    let mut found = Found::default();
    let mut holds = true;
    for name in ["A", "B"] {
        let all = after(seen, name, 0);
        let root = all.iter().all(|it| it.holds(GRANITE, "prompt"));
        let nested_in_prompt = all.iter().any(|it| it.holds(BASALT, "prompt"));
        let before = all.iter().take_while(|it| !it.holds_anywhere(BASALT)).count();
        let with = all.iter().filter(|it| it.holds(BASALT, "tool")).count();
        holds &= root && !nested_in_prompt && before > 0 && with > 0;
        holds &= before + with == all.len() && digests(&all) == 1;
        found = found
            .fact(&format!("{name}: requests before the nested rule"), &before)
            .fact(&format!("{name}: requests with it in a tool result"), &with)
            .fact(&format!("{name}: nested rule in the prompt"), &nested_in_prompt);
    }
    let own = facts.hints.values().all(|count| *count == 1);
    if own {
        found.better = Some(
            "the nested file is a part of its own, once, on the row of the call that caused it"
                .to_owned(),
        );
    }
    found.agrees_if(holds)
}

fn p6(seen: &[Seen]) -> Found {
    let mut found = Found::default();
    let mut holds = true;
    for name in ["A", "B"] {
        let all = after(seen, name, 0);
        let described = all.iter().all(|it| it.holds(WILLOW, "prompt"));
        let in_prompt = all.iter().any(|it| it.holds(CEDAR, "prompt"));
        let before = all.iter().take_while(|it| !it.holds_anywhere(CEDAR)).count();
        let with = all.iter().filter(|it| it.holds(CEDAR, "tool")).count();
        holds &= described && !in_prompt && before > 0 && with > 0 && digests(&all) == 1;
        found = found
            .fact(&format!("{name}: description in every prompt"), &described)
            .fact(&format!("{name}: body in the prompt"), &in_prompt)
            .fact(&format!("{name}: requests with the body in a tool result"), &with);
    }
    found.agrees_if(holds)
}

fn p7(facts: &Facts) -> Found {
    let (index, loaded) = facts.skills;
    let mut found = Found::default()
        .fact("bytes of the index attributed", &index)
        .fact("loaded texts attributed", &loaded);
    // Published was a fault: nothing attributed.
    found.verdict = match (index > 0, loaded > 0) {
        (true, true) => FindingVerdict::Better,
        (false, false) => FindingVerdict::Agrees,
        _ => FindingVerdict::Differs,
    };
    if found.verdict == FindingVerdict::Better {
        found.better = Some("index line and loaded text are attributed to the skill".to_owned());
    }
    found
}

fn p8(seen: &[Seen], facts: &Facts) -> Found {
    let a = after(seen, "A", 0);
    let fresh = a.first().and_then(|it| it.cache_read);
    let hits = a.iter().skip(1).filter(|it| it.cache_read.is_some_and(|n| n > 0)).count();
    let forgot: Vec<&&Seen> = a.iter().filter(|it| it.facts.turn == facts.forgot).collect();
    let miss = forgot.iter().any(|it| it.cache_read == Some(0));
    let figure = |it: Option<u64>| it.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    let found = Found::default()
        .fact("cached tokens of the fresh request", &figure(fresh))
        .fact("later requests with cached tokens", &hits)
        .fact("a miss under an unchanged prompt", &miss)
        .fact("prompt digests in the session", &digests(&a));
    if a.iter().all(|it| it.cache_read.is_none()) {
        // The provider reports no cache figures: unknown stays unknown.
        return Found { verdict: FindingVerdict::NotRun, ..found };
    }
    let holds = fresh == Some(0) && hits > 0 && digests(&a) == 1;
    found.agrees_if(holds)
}

fn p11(seen: &[Seen]) -> Found {
    let children: Vec<&Seen> =
        seen.iter().filter(|it| it.facts.session.ends_with("/child")).collect();
    let parent = after(seen, "A", 0);
    let own = children.iter().all(|child| {
        parent.iter().all(|it| it.prompt != child.prompt && it.session != child.session)
    });
    let task = children.iter().all(|it| it.holds(HERON, "prompt"));
    let profile = children.iter().any(|it| it.holds_anywhere(AMBER) || it.holds_anywhere(COBALT));
    let transcript =
        children.iter().any(|it| it.holds_anywhere(BASALT) || it.holds_anywhere(CEDAR));
    Found::default()
        .fact("requests of the child", &children.len())
        .fact("own prompt", &own)
        .fact("task context in its prompt", &task)
        .fact("profile in its requests", &profile)
        .fact("parent's transcript in its requests", &transcript)
        .agrees_if(!children.is_empty() && own && task && !profile && !transcript)
}
