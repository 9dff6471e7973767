//! The system prompt's bytes change only at a documented event.

use std::collections::{BTreeMap, BTreeSet};

use hermes_agent::Conversation;
use hermes_agent::inspect::{Inspector, Verdict};
use hermes_core::Digest;
use hermes_store::RequestFilter;
use proptest::prelude::*;

use crate::world::World;

/// Kinds of sources with the file of each.
const SOURCES: [(&str, &str); 5] = [
    ("identity", "SOUL.md"),
    ("memory", "memories/MEMORY.md"),
    ("user", "memories/USER.md"),
    ("project", "work/AGENTS.md"),
    ("skills", "skills/ops/deploy/SKILL.md"),
];

#[derive(Clone, Debug)]
enum Step {
    Edit(usize),
    Turn,
    ReadBelow,
    Resume,
    /// From another folder, and back at the next resume.
    Elsewhere,
    Refresh(Option<usize>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..SOURCES.len()).prop_map(Step::Edit),
        3 => Just(Step::Turn),
        1 => Just(Step::ReadBelow),
        2 => Just(Step::Resume),
        1 => Just(Step::Elsewhere),
        2 => proptest::option::of(0..SOURCES.len()).prop_map(Step::Refresh),
    ]
}

/// The system message of a body, as its raw JSON text.
fn system(body: &[u8]) -> Digest {
    let text = std::str::from_utf8(body).unwrap();
    let start = text.find("{\"role\":\"system\"").unwrap();
    let end = text[start..].find("},{\"role\":").unwrap();
    Digest::of(&text[start..start + end])
}

/// What a prompt is made of: the version of each source, and the working directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Made {
    versions: [u32; SOURCES.len()],
    elsewhere: bool,
}

fn run(steps: &[Step]) {
    let world = World::new(None);
    let mut conversation = world.start();
    let mut disk = [0; SOURCES.len()];
    let mut held = Made { versions: disk, elsewhere: false };
    let mut stored = held.clone();
    // The same sources give the same bytes, other sources give others.
    let mut prompts: BTreeMap<Made, Digest> = BTreeMap::new();
    for (version, step) in (1..).zip(std::iter::once(&Step::Turn).chain(steps)) {
        match step {
            Step::Edit(at) => {
                let (kind, path) = SOURCES[*at];
                let text = match kind {
                    "skills" => format!("---\nname: deploy\ndescription: D{version}.\n---\nb\n"),
                    _ => format!("edit {version}\n"),
                };
                world.put(path, &text);
                disk[*at] = version;
            }
            Step::Turn | Step::ReadBelow => {
                let text =
                    if matches!(step, Step::Turn) { "hello" } else { "read backend/probe.txt" };
                let before = world.bench.server.received().len();
                world.say(&mut conversation, text);
                stored = held.clone();
                for body in &world.bench.server.received()[before..] {
                    let prompt = system(body);
                    let known = *prompts.entry(held.clone()).or_insert(prompt);
                    assert_eq!(prompt, known, "{step:?} of {steps:?}");
                }
                let different: BTreeSet<&Digest> = prompts.values().collect();
                assert_eq!(different.len(), prompts.len(), "{step:?} of {steps:?}");
            }
            Step::Resume | Step::Elsewhere => {
                let elsewhere = matches!(step, Step::Elsewhere);
                let id = conversation.id().clone();
                conversation.release().unwrap();
                drop(conversation);
                let info = world.services.store.session(&id).unwrap().unwrap();
                let folder = world.path(if elsewhere { "work/backend" } else { "work" });
                let options = World::options_in(&folder);
                conversation = Conversation::resume(&world.services, &info, options).unwrap();
                let moved = stored.elsewhere != elsewhere;
                assert_eq!(conversation.resume_report().rebuilt_because.is_some(), moved);
                held = if moved { Made { versions: disk, elsewhere } } else { stored.clone() };
            }
            Step::Refresh(which) => {
                let names: Vec<String> = which.iter().map(|at| SOURCES[*at].0.to_owned()).collect();
                let report = conversation.refresh(&world.services, &names).unwrap();
                let mut fresh = held.clone();
                for (at, version) in disk.iter().enumerate() {
                    if which.is_none_or(|wanted| wanted == at) {
                        fresh.versions[at] = *version;
                    }
                }
                let changed = fresh != held;
                assert_eq!(report.generation.is_some(), changed, "{step:?} of {steps:?}");
                held = fresh;
                if changed {
                    stored = held.clone();
                }
            }
        }
    }
    let mut inspector = Inspector::new(&world.services.store);
    for request in world.services.store.requests(&RequestFilter::default()).unwrap() {
        assert_eq!(inspector.verify(&request), Verdict::Verified);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prompts_change_at_refresh_and_identity_alone(steps in prop::collection::vec(step(), 1..24)) {
        run(&steps);
    }
}
