//! A person and an assistant at work, some projects over months, made from a seed. What is settled is
//! said once, in passing; the question comes later and names the project, which the decisive turn
//! does not: it is said where a session begins and now and then in it. Every project has the same
//! kinds of parts, so that the part alone does not decide. Nothing is settled twice for one part of
//! one project.

use std::collections::BTreeSet;

use super::eval::{Asked, Session, Set, pick};
use super::{Chance, START};

/// A kind of thing that is settled. `{s}` is the part of the project, `{d}` what only this turn has,
/// `{p}` the project.
struct Kind {
    said: &'static [&'static str],
    asked: &'static [&'static str],
    parts: &'static [&'static str],
    details: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        said: &[
            "Fine, the {s} moves to {d}, the old one collides with something else.",
            "I changed the {s} to {d} and restarted it, now both run side by side.",
        ],
        asked: &[
            "on which port did we put the {s} of {p}?",
            "what address does the {s} in {p} listen on now?",
        ],
        parts: &["proxy", "metrics endpoint", "debug server", "mail relay", "preview server"],
        details: &["8443", "9107", "127.0.0.1:7070", "5151", "18080"],
    },
    Kind {
        said: &[
            "Found it: the {s} was failing because {d}.",
            "So that is why the {s} broke every night, {d}.",
        ],
        asked: &[
            "why did the {s} of {p} fail?",
            "what turned out to be the cause of the broken {s} in {p}?",
        ],
        parts: &["nightly export", "login test", "invoice job", "thumbnail worker", "deploy hook"],
        details: &[
            "the clock of the runner was an hour off",
            "two processes shared one temporary folder",
            "the certificate had expired",
            "an empty line at the end of the list was read as a name",
        ],
    },
    Kind {
        said: &[
            "{d} will look after the {s} from now on, I only review.",
            "I handed the {s} over to {d} this morning.",
        ],
        asked: &[
            "who is responsible for the {s} in {p} since the handover?",
            "to whom did I give the {s} of {p}?",
        ],
        parts: &["release notes", "style guide", "onboarding page", "pager rota", "licence audit"],
        details: &["Marek", "the platform group", "Ingrid from support", "Tomasz", "Leila"],
    },
    Kind {
        said: &[
            "The customer wants the {s} finished by {d}, no later.",
            "Note that {d} is the last possible date for the {s}.",
        ],
        asked: &[
            "until when must the {s} for {p} be finished?",
            "what was the deadline of the {s} in {p}?",
        ],
        parts: &["accessibility report", "data import", "French translation", "security review"],
        details: &["the 3rd of June", "Whitsun", "the end of the quarter", "next Tuesday noon"],
    },
    Kind {
        said: &[
            "I threw {s} out and took {d}, it builds in half the time.",
            "Let us replace {s} by {d}, I am tired of patching it.",
        ],
        asked: &["what do we use in {p} instead of {s}?", "which library replaced {s} in {p}?"],
        parts: &["moment", "webpack", "lodash", "requests", "jackson", "boost"],
        details: &["esbuild", "a page of our own code", "httpx", "serde", "the standard library"],
    },
    Kind {
        said: &[
            "This finally repaired the {s}: `{d}`.",
            "For the record, `{d}` got the {s} going again.",
        ],
        asked: &[
            "which command did we need in {p} to repair the {s}?",
            "how did we get the {s} of {p} running again?",
        ],
        parts: &["package cache", "local database", "git hooks", "container network", "keyring"],
        details: &["make -C tools reset", "rm -r .cache/v2", "./fix.sh --all", "sync --force now"],
    },
    Kind {
        said: &[
            "With the new index the {s} takes {d}, I can live with that.",
            "Measured it again, {d} for the {s}.",
        ],
        asked: &[
            "how long did the {s} of {p} take after we made it faster?",
            "how fast was the {s} in {p} at the last measurement?",
        ],
        parts: &["full rebuild", "customer list", "cold start", "report page", "bulk upload"],
        details: &["40 ms", "two minutes and a bit", "1.8 s", "under a second", "310 ms"],
    },
    Kind {
        said: &[
            "Please do the {s} with {d} from now on, also where it was done otherwise.",
            "One thing about the {s}: I want {d} there.",
        ],
        asked: &[
            "what did I ask for regarding the {s} in {p}?",
            "how did I want the {s} of {p} to be done?",
        ],
        parts: &["error messages", "commit messages", "date formats", "column names", "log lines"],
        details: &["full sentences", "British spelling", "no abbreviations", "UTC everywhere"],
    },
];

const OPENINGS: &[&str] = &[
    "Back to {p}, where were we?",
    "Today it is {p} again, please read the notes first.",
    "A new day in {p}. Let's see what is left.",
];

const WORK: &[&str] = &[
    "I looked at the {s} and left it as it is for the moment.",
    "All tests pass, except one that was red before.",
    "Can you show me the part of the code that deals with the {s}?",
    "Here it is; the function is longer than I thought.",
    "Should we write a note about the {s} for the others?",
    "I would rather do this in small steps and look after each.",
    "Done. The change is in one file and has a test.",
    "Wait, does this also touch the {s}? I am not sure.",
    "No, that is a different module, nothing depends on it.",
    "Thank you, commit it and go on with the next point.",
    "There was a warning about a missing option, but it runs.",
    "Who else uses the {s}? I remember someone asked for it.",
    "The rest of {p} is not affected.",
    "It is late, let us stop at a point where everything builds.",
];

/// Longer than the conversations that are made from it need.
const PROJECTS: &[&str] = &[
    "harbour",
    "Lantern",
    "mosaic-api",
    "quillpad",
    "Tern",
    "bluebird",
    "granite",
    "osprey-ui",
    "willow",
    "Zephyr",
    "atlas-sync",
    "pebble",
];

/// One in so many turns of work is about a part of something else.
const STRAY: u64 = 8;

fn fill(template: &str, part: &str, detail: &str, project: &str) -> String {
    template.replace("{s}", part).replace("{d}", detail).replace("{p}", project)
}

fn any_part(chance: &Chance) -> &'static str {
    let kind = &KINDS[chance.below(KINDS.len() as u64) as usize];
    pick(chance, kind.parts)
}

/// Projects of 20 sessions each; sessions of different projects take turns.
pub fn make(seed: u64, projects: u64) -> Set {
    let chance = Chance::new(seed ^ 0x6465_736b);
    let mut set = Set::default();
    let mut settled: BTreeSet<(u64, &str)> = BTreeSet::new();
    let mut at = START;
    for week in 0..20 {
        for number in 0..projects {
            let project = PROJECTS[(number % PROJECTS.len() as u64) as usize];
            at = at.plus_millis(3_600_000 + chance.below(7_200_000) as i64);
            let name = format!("desk-{number:02}-{week:02}");
            let length = 14 + chance.below(26);
            let mut facts: Vec<(u64, String)> = Vec::new();
            let mut touched: Vec<&str> = Vec::new();
            for _ in 0..2 {
                let turn = 2 + chance.below(length - 3);
                let kind = &KINDS[chance.below(KINDS.len() as u64) as usize];
                let part = pick(&chance, kind.parts);
                if facts.iter().any(|(taken, _)| *taken == turn) || !settled.insert((number, part))
                {
                    continue;
                }
                let detail = pick(&chance, kind.details);
                let said = fill(pick(&chance, kind.said), part, detail, project);
                set.asked.push(Asked {
                    question: fill(pick(&chance, kind.asked), part, detail, project),
                    session: name.clone(),
                    decisive: said.clone(),
                });
                touched.push(part);
                facts.push((turn, said));
            }
            let work = |chance: &Chance| {
                let part = match touched.as_slice() {
                    [] => any_part(chance),
                    _ if chance.below(STRAY) == 0 => any_part(chance),
                    touched => pick(chance, touched),
                };
                fill(pick(chance, WORK), part, "", project)
            };
            let turns = (0..length)
                .map(|turn| {
                    let fact = facts.iter().find(|(taken, _)| *taken == turn);
                    let text = match fact {
                        Some((_, said)) => said.clone(),
                        None if turn == 0 => fill(pick(&chance, OPENINGS), "", "", project),
                        None => work(&chance),
                    };
                    if chance.below(3) == 0 { format!("{text} {}", work(&chance)) } else { text }
                })
                .collect();
            set.sessions.push(Session { name, at, turns });
        }
    }
    set
}
