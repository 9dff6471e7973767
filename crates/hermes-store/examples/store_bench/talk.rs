//! Long conversations of two people over weeks, made from a seed, with questions about decisive
//! turns. The question never repeats the turn's sentence: verbs change their form or are replaced,
//! the order differs, only some of the words are shared. Small talk about the subjects of a session
//! stands all around in it and now and then in other sessions, and the same subjects come up between
//! other people, so that the subject alone does not decide. Nobody has two facts of one kind about
//! one subject.

use std::collections::BTreeSet;

use super::eval::{Asked, Session, Set, pick};
use super::{Chance, START};

/// A kind of decisive turn: how it is said, how it is asked for. `{s}` is the subject, `{d}` the
/// detail that only this turn has, `{w}` who said it.
struct Kind {
    said: &'static [&'static str],
    asked: &'static [&'static str],
    subjects: &'static [&'static str],
    details: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        said: &[
            "Guess what, I finally signed up for the {s} class, it starts on {d}.",
            "I enrolled in a {s} course yesterday! First lesson is {d}.",
        ],
        asked: &[
            "When does the {s} class of {w} start?",
            "What day were the {s} lessons going to begin for {w}?",
        ],
        subjects: &["pottery", "salsa", "Spanish", "sailing", "photography", "archery", "welding"],
        details: &["Monday", "the 14th", "next Saturday", "Thursday evening", "the first of May"],
    },
    Kind {
        said: &[
            "We adopted a {s} from the shelter and the kids named it {d}.",
            "So there's a new {s} at home. {d} sleeps on my keyboard already.",
        ],
        asked: &[
            "What name did the children of {w} give the {s}?",
            "How is the {s} called that {w} adopted from the shelter?",
        ],
        subjects: &["kitten", "puppy", "rabbit", "parrot", "tortoise", "hamster"],
        details: &["Biscuit", "Pepper", "Captain", "Noodle", "Juniper", "Waffles"],
    },
    Kind {
        said: &[
            "The {s} broke down again, the mechanic wants {d} for it.",
            "Repairing the {s} will cost me {d}, can you believe it?",
        ],
        asked: &[
            "How much was the repair of the {s} going to cost {w}?",
            "What did the mechanic ask {w} for fixing the broken {s}?",
        ],
        subjects: &["dishwasher", "motorbike", "boiler", "van", "lawnmower", "espresso machine"],
        details: &["300 dollars", "a thousand", "85 euros", "almost 450", "twice its price"],
    },
    Kind {
        said: &[
            "I'm flying to {s} in spring to see my {d}.",
            "Booked the tickets to {s}! Visiting my {d} there.",
        ],
        asked: &["Who was {w} planning to visit in {s}?", "Why did {w} book a flight to {s}?"],
        subjects: &["Lisbon", "Kyoto", "Oslo", "Montreal", "Accra", "Tallinn", "Valparaiso"],
        details: &[
            "cousin",
            "old roommate",
            "godmother",
            "chess partner",
            "aunt",
            "thesis advisor",
        ],
    },
    Kind {
        said: &[
            "My doctor says no more {s}, so I switched to {d}.",
            "Since the check-up I replaced {s} with {d}.",
        ],
        asked: &[
            "What does {w} have now instead of {s}?",
            "With what did {w} replace {s} after seeing the doctor?",
        ],
        subjects: &["coffee", "butter", "white bread", "energy drinks", "red meat", "chocolate"],
        details: &["rooibos", "olive oil", "lentils", "barley tea", "carob", "oat flakes"],
    },
    Kind {
        said: &[
            "The team picked {d} for the {s} migration, decision is final.",
            "After the meeting we're going with {d} for {s}.",
        ],
        asked: &[
            "Which option was decided on for the {s} migration at the work of {w}?",
            "What did the team of {w} choose for {s}?",
        ],
        subjects: &["billing", "authentication", "data warehouse", "mobile", "logging"],
        details: &["Postgres", "a rewrite in Rust", "the vendor", "Kafka", "feature flags", "SSO"],
    },
    Kind {
        said: &[
            "I finished reading {s} last night; the part about {d} stayed with me.",
            "That book, {s}? Loved it, mostly because of {d}.",
        ],
        asked: &[
            "What did {w} like about the book {s}?",
            "Which part of {s} stayed with {w} after finishing it?",
        ],
        subjects: &["The Salt Road", "Quiet Engines", "Northern Lamps", "A House of Maps"],
        details: &["the lighthouse", "the twins", "the long winter", "the letters", "the trial"],
    },
    Kind {
        said: &[
            "My sister's wedding will be at the {s}, and I have to give a speech about {d}.",
            "They chose the {s} for the wedding. I'm preparing a toast on {d}.",
        ],
        asked: &[
            "What was the wedding speech of {w} going to be about?",
            "Where was the wedding for which {w} prepared a toast?",
        ],
        subjects: &["botanical garden", "old mill", "harbour hall", "vineyard", "town library"],
        details: &["patience", "their first trip", "burnt pancakes", "second chances"],
    },
];

const SMALL_TALK: &[&str] = &[
    "How was your week? Mine was quite busy with work and errands.",
    "I keep thinking about {s}, there is always something new with it.",
    "That sounds great! Tell me more about it when you have the time.",
    "Honestly {s} is on my mind a lot lately, but nothing is settled.",
    "We should talk about {s} some time, my friends never stop asking.",
    "The weather was awful, so we stayed inside and played cards.",
    "Work has been fine, a lot of meetings and not much sleep.",
    "My neighbour also mentioned {s} the other day, funny coincidence.",
    "I cooked something new last night and it turned out rather well.",
    "Did you get to rest on the weekend? You sounded tired last time.",
    "You know me, I can never decide anything about {s} quickly.",
    "Thanks for listening, it really helps to talk these things through.",
    "Yes, of course, I remember you told me about {s} once before.",
    "Let's plan a call again next week, same time works for me.",
];

const NAMES: &[&str] = &[
    "Anna", "Ben", "Carla", "David", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira",
    "Liam", "Mira", "Noah", "Olga", "Pavel", "Quinn", "Rosa", "Sven", "Tara", "Umar", "Vera",
    "Wim", "Yara",
];

fn fill(template: &str, subject: &str, detail: &str, who: &str) -> String {
    template.replace("{s}", subject).replace("{d}", detail).replace("{w}", who)
}

fn any_subject(chance: &Chance) -> &'static str {
    let kind = &KINDS[chance.below(KINDS.len() as u64) as usize];
    kind.subjects[chance.below(kind.subjects.len() as u64) as usize]
}

/// One in so many turns of small talk is about another session's subject.
const STRAY: u64 = 12;

/// Conversations of two people, 20 sessions each.
pub fn make(seed: u64, conversations: u64) -> Set {
    let chance = Chance::new(seed);
    let mut set = Set::default();
    for conversation in 0..conversations {
        let people: [&str; 2] =
            [0, 1].map(|n| NAMES[((conversation * 2 + n) % NAMES.len() as u64) as usize]);
        let mut used: BTreeSet<(usize, &str)> = BTreeSet::new();
        let mut at = START;
        for week in 0..20 {
            at = at.plus_millis(3 * 86_400_000 + chance.below(4 * 86_400_000) as i64);
            let name = format!("talk-{conversation:02}-{week:02}");
            let length = 16 + chance.below(16);
            let mut facts: Vec<(u64, String)> = Vec::new();
            let mut topics: Vec<&str> = Vec::new();
            for _ in 0..3 {
                let turn = 2 + chance.below(length - 3);
                let number = chance.below(KINDS.len() as u64) as usize;
                let kind = &KINDS[number];
                let subject = pick(&chance, kind.subjects);
                if facts.iter().any(|(taken, _)| *taken == turn) || !used.insert((number, subject))
                {
                    continue;
                }
                let who = people[(turn % 2) as usize];
                let detail = pick(&chance, kind.details);
                let said = fill(pick(&chance, kind.said), subject, detail, who);
                set.asked.push(Asked {
                    question: fill(pick(&chance, kind.asked), subject, detail, who),
                    session: name.clone(),
                    decisive: said.clone(),
                });
                topics.push(subject);
                facts.push((turn, said));
            }
            let small = |chance: &Chance| {
                let subject = match topics.as_slice() {
                    [] => any_subject(chance),
                    _ if chance.below(STRAY) == 0 => any_subject(chance),
                    topics => pick(chance, topics),
                };
                fill(pick(chance, SMALL_TALK), subject, "", "")
            };
            let mut turns: Vec<String> = Vec::new();
            for turn in 0..length {
                let fact = facts.iter().find(|(taken, _)| *taken == turn);
                let mut text = fact.map_or_else(|| small(&chance), |(_, said)| said.clone());
                if chance.below(3) == 0 {
                    text = format!("{text} {}", small(&chance));
                }
                turns.push(format!("{}: {text}", people[(turn % 2) as usize]));
            }
            set.sessions.push(Session { name, at, turns });
        }
    }
    set
}
