//! Confidential lanes: nothing that was said by name or number gets into a file or a log.

use hermes_core::{Digest, Lane};
use hermes_handoff::capsule::status_line;
use hermes_handoff::prepass::Recency;
use hermes_handoff::scrub::{Mechanical, ScrubError, Scrubber, Secrets};
use hermes_handoff::writer::{Writer, WriterError, WriterFault};
use hermes_handoff::{Build, BuildResult, Confidential, Handoffs, Status, build};
use hermes_home::redact::Redactor;

use crate::support::*;
use crate::writers::Heard;

fn confidential<W: Writer>(
    handoffs: &Handoffs,
    session: &hermes_core::SessionId,
    scrubber: Option<&dyn Scrubber>,
    names: &[String],
    writer: &W,
) -> BuildResult {
    let redactor = Redactor::default();
    let what = Build {
        session,
        lane: None,
        focus: None,
        prepass: &Recency { turns: 16 },
        redactor: &redactor,
        confidential: Some(Confidential { scrubber, names }),
    };
    run(build(handoffs, what, writer))
}

#[test]
fn the_variable_or_the_file_makes_lanes_confidential() {
    let world = World::new();
    let handoffs = world.handoffs();
    for (variable, expected) in [
        (None, false),
        (Some("1"), true),
        (Some("0"), false),
        (Some(""), false),
        (Some("yes"), true),
    ] {
        assert_eq!(handoffs.is_confidential(variable), expected, "{variable:?}");
    }
    std::fs::create_dir_all(handoffs.folder()).unwrap();
    std::fs::write(handoffs.folder().join("CONFIDENTIAL"), "").unwrap();
    assert!(handoffs.is_confidential(None));
}

#[test]
fn without_a_scrubber_it_is_refused_and_nothing_is_on_disk() {
    let world = World::new();
    let handoffs = world.handoffs();
    let session = talked(&world.store(), "old", &TALK);
    let result = confidential(&handoffs, &session, None, &[], &saying(GOOD));
    assert_eq!(result.status, Status::ConfidentialUnsupported);
    assert_eq!(result.reason.as_deref(), Some("no_scrub"));
    assert_eq!(world.everything(), "");
    assert!(handoffs.list().unwrap().is_empty());
}

#[test]
fn a_scrub_that_fails_refuses() {
    struct Unsure;
    impl Scrubber for Unsure {
        fn scrub(&self, _: &str, _: &Secrets) -> Result<String, ScrubError> {
            Err(ScrubError("a name"))
        }
    }
    let world = World::new();
    let handoffs = world.handoffs();
    let session = talked(&world.store(), "old", &TALK);
    let result = confidential(&handoffs, &session, Some(&Unsure), &[], &saying(GOOD));
    assert_eq!(result.status, Status::ScrubFailed);
    assert!(!world.everything().contains("parser"));
    assert!(handoffs.list().unwrap().is_empty());
}

#[test]
fn the_breadcrumb_is_scrubbed_and_a_failed_writer_leaves_the_fixed_capsule() {
    let world = World::new();
    let handoffs = world.handoffs();
    let session = talked(&world.store(), "old", &TALK);
    let writer = saying(GOOD);
    let result = confidential(&handoffs, &session, Some(&Mechanical), &[], &writer);
    assert_eq!((result.status, result.prepass.as_str()), (Status::Ok, "none"));
    let asked = writer.asked.lock().unwrap()[0].clone();
    assert!(!asked.user.contains("[r1]") && !asked.user.contains("KEEP VERBATIM"));
    assert!(asked.system.contains("400 words"));
    let file = std::fs::read_to_string(result.path.as_ref().unwrap()).unwrap();
    assert_eq!(file.lines().filter(|line| line.starts_with("## ")).count(), 5, "{file}");
    assert!(!file.contains("parser.rs") && !file.contains("[r1]") && !file.contains("Recovery"));
    let failed = failing(WriterError { fault: WriterFault::Timeout, detail: TALK[2].to_owned() });
    let heard = Heard::default();
    let result =
        heard.during(|| confidential(&handoffs, &session, Some(&Mechanical), &[], &failed));
    assert_eq!((result.status, result.writer.as_deref()), (Status::Fallback, Some("fixed")));
    let file = std::fs::read_to_string(result.path.as_ref().unwrap()).unwrap();
    assert!(status_line(&file).unwrap().contains("did not answer in time"), "{file}");
    assert!(file.contains("Ask the person what the task is."), "{file}");
    for said in ["parser", "comments"] {
        assert!(!file.contains(said) && !heard.text().contains(said), "{said}");
    }
}

#[test]
fn a_lane_that_becomes_confidential_leaves_no_open_capsule_behind() {
    let world = World::new();
    let handoffs = world.handoffs();
    let session = talked(&world.store(), "old", &TALK);
    let open = built(&handoffs, &session, &saying(GOOD)).path.unwrap();
    assert!(open.exists());
    confidential(&handoffs, &session, Some(&Mechanical), &[], &saying(GOOD));
    assert!(!open.exists());
    assert!(!world.everything().contains("parser.rs"), "{}", world.everything());
    assert_eq!(handoffs.reconcile().unwrap(), vec![]);
}

#[test]
fn the_narrower_read_is_kept() {
    let world = World::new();
    let handoffs = world.handoffs();
    let long = "word ".repeat(900);
    let said: Vec<&str> = (0..20).map(|_| long.as_str()).collect();
    let session = talked(&world.store(), "old", &said);
    let writer = saying(GOOD);
    confidential(&handoffs, &session, Some(&Mechanical), &[], &writer);
    let asked = writer.asked.lock().unwrap()[0].user.chars().count();
    assert!((20_000..25_000).contains(&asked), "{asked}");
}

/// Small numbers from a seed.
struct Dice(u64, u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.1 += 1;
        let digest = Digest::of(format!("{} {}", self.0, self.1));
        let bytes: [u8; 8] = digest.as_bytes()[..8].try_into().unwrap();
        (u64::from_le_bytes(bytes) % sides as u64) as usize
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }

    fn digits(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b'0' + self.roll(10) as u8)).collect()
    }
}

const FIRST: [&str; 14] = [
    "Marguerite",
    "Tobias",
    "Anneliese",
    "Oluwaseun",
    "Zoë",
    "Jean-Luc",
    "Siobhan",
    "Dmitri",
    "Xiomara",
    "Håkon",
    "Priya",
    "Ludovico",
    "Wanjiru",
    "Brónagh",
];
const LAST: [&str; 14] = [
    "Falkenhayn",
    "Okonkwo",
    "O'Sullivan",
    "Lindqvist",
    "Vasquez",
    "Przybylski",
    "Nakamura",
    "Van Houten",
    "Ashgrove",
    "Benedetti",
    "Kowalczyk",
    "Thistlewood",
    "Mbeki",
    "Sørensen",
];
const STREETS: [&str; 6] = [
    "12 Baker Street",
    "Hauptstraße 5",
    "221 Elm Avenue",
    "Calle Mayor 37",
    "Rosenweg 9",
    "7 Long Acre Lane",
];

/// A session's secrets with the talk that holds them.
struct Talk {
    said: Vec<String>,
    declared: Vec<String>,
    secret: Vec<String>,
    chat: String,
}

fn card(dice: &mut Dice) -> String {
    let mut digits: Vec<u8> = (0..15).map(|_| dice.roll(10) as u8).collect();
    digits[0] = 4;
    // The check digit makes the sum a multiple of ten.
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let doubled = u32::from(*digit) * if at % 2 == 0 { 2 } else { 1 };
            if doubled > 9 { doubled - 9 } else { doubled }
        })
        .sum();
    digits.push(((10 - sum % 10) % 10) as u8);
    let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
    [&text[..4], &text[4..8], &text[8..12], &text[12..]].join(" ")
}

fn iban(dice: &mut Dice) -> String {
    let account = dice.digits(18);
    let rest = format!("{account}131400")
        .bytes()
        .fold(0u32, |rest, digit| (rest * 10 + u32::from(digit - b'0')) % 97);
    format!("DE{:02}{account}", 98 - rest)
}

fn talk(seed: u64) -> Talk {
    let mut dice = Dice(seed, 0);
    let (me, you) = (
        format!("{} {}", dice.of(&FIRST), dice.of(&LAST)),
        format!("{} {}", dice.of(&FIRST), dice.of(&LAST)),
    );
    let street = dice.of(&STREETS).to_owned();
    let mail = format!("{}.{}@mail{}.example", "kontakt", dice.digits(3), dice.digits(2));
    let phone = format!("+49 {} {} {}", dice.digits(3), dice.digits(4), dice.digits(3));
    let (card, iban) = (card(&mut dice), iban(&mut dice));
    let contract = format!("{}-{}", dice.of(&["KV", "INV", "CASE"]), dice.digits(6));
    let account = format!("{} {} {}", dice.digits(3), dice.digits(3), dice.digits(4));
    let link = format!("https://portal.example/{}/view?id={}", dice.digits(4), dice.digits(5));
    let file = format!(
        "{}_{}.{}",
        dice.of(&["settlement", "diagnosis", "payroll"]),
        dice.digits(2),
        dice.of(&["pdf", "xlsx", "docx"])
    );
    let folder = format!("/srv/shared/{}/{file}", dice.of(&["clients", "patients"]));
    let said = vec![
        format!("My name is {me} and I live at {street}."),
        "Noted.".to_owned(),
        format!("Please answer Dr. {you}, {mail}, phone {phone}."),
        format!("I wrote to {you} about it."),
        format!("The contract is {contract}, account {account}, card {card}, IBAN {iban}."),
        format!("I opened {link} and {folder}."),
        format!("Compare {file} with the letter and tell me what is missing."),
        "Two pages are missing.".to_owned(),
    ];
    let secret = vec![street, mail, phone, card, iban, contract, account, link, folder, file];
    // The chat is told by a number, too.
    let chat = format!("+49170{}", dice.digits(7));
    Talk { said, declared: vec![me, you], secret, chat }
}

/// Pieces of a secret that must not be found: names part by part, numbers in groups.
fn pieces(talk: &Talk) -> Vec<String> {
    let mut all: Vec<String> = talk
        .declared
        .iter()
        .flat_map(|name| name.split([' ', '-', '\'']).map(str::to_owned).collect::<Vec<_>>())
        .filter(|part| part.chars().count() > 2)
        .collect();
    for secret in &talk.secret {
        all.push(secret.clone());
        all.push(secret.replace([' ', '-'], ""));
        all.extend(
            secret
                .split(|c: char| !c.is_alphanumeric())
                .filter(|part| part.chars().filter(char::is_ascii_digit).count() >= 4)
                .map(str::to_owned),
        );
    }
    all.push(talk.chat.clone());
    all.push(talk.chat[1..].to_owned());
    let street = &talk.secret[0];
    all.extend(street.split(' ').filter(|word| word.len() > 4).map(str::to_owned));
    all
}

/// Nothing of the talk in any file of the folder, its names included, in the store's own rows of
/// capsules, or in what was logged.
fn assert_silent(world: &World, talk: &Talk, heard: &Heard, what: &str) {
    let mut everything = world.everything();
    everything.push_str(&heard.text());
    // The moment it was built may share four digits with a secret.
    let lower = everything.to_lowercase().replace("2026-11-30t09:56", "");
    for piece in pieces(talk) {
        let piece = piece.to_lowercase();
        // Digits inside a digest or a moment are no find.
        let is_found = |at: usize| {
            let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !piece.bytes().all(|b| b.is_ascii_digit())
                || !inside(lower[..at].chars().next_back())
                    && !inside(lower[at + piece.len()..].chars().next())
        };
        let found = lower.match_indices(&piece).any(|(at, _)| is_found(at));
        assert!(!found, "{what}: {piece}\n{everything}");
    }
}

type Answer = Box<dyn Fn() -> Result<String, WriterError> + Send + Sync>;

/// `HERMES_CONFIDENTIAL_SESSIONS=200 cargo test -p hermes-handoff generated_sessions` is the full
/// number.
fn sessions() -> u64 {
    std::env::var("HERMES_CONFIDENTIAL_SESSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

#[test]
fn nothing_of_generated_sessions_gets_out_whatever_the_writer_does() {
    // One world for all: a store takes longer to make than a capsule.
    let world = World::new();
    let (store, handoffs) = (world.store(), world.handoffs());
    let mut refused = 0;
    for seed in 0..sessions() {
        let talk = talk(seed);
        let said: Vec<&str> = talk.said.iter().map(String::as_str).collect();
        let mut start = init(&format!("old{seed}"));
        start.lane = Some(Lane::from_key(format!("signal:{}", talk.chat)));
        let session = talked_as(&store, start, &said);
        let all = talk.said.join(" ");
        let lines = format!("- {}\n", talk.said.join("\n- "));
        let leaky = format!(
            "## Working on\n{all}\n## State\n{lines}## Decisions\n- {}\n## Pointers\n- {}\n\
             ## Next\n- Ask {} to write to {}; then {} and {}.",
            talk.declared.join(" and ").to_uppercase(),
            talk.secret.join(", "),
            talk.declared[0],
            talk.declared[1].to_lowercase(),
            talk.secret[9].split('.').next().unwrap(),
            talk.secret[4].replace(' ', ""),
        );
        let good = "## Working on\nA comparison of two documents.\n## State\nTwo pages are missing.\n\
                    ## Decisions\nnone\n## Pointers\nnone\n## Next\nAsk for the missing pages.";
        let failed = WriterError { fault: WriterFault::Other, detail: all.clone() };
        let answers: [(&str, Answer, &[Status]); 3] = [
            ("behaves", Box::new(move || Ok(good.to_owned())), &[Status::Ok]),
            ("leaks", Box::new(move || Ok(leaky.clone())), &[Status::Ok, Status::ScrubFailed]),
            ("fails", Box::new(move || Err(failed.clone())), &[Status::Fallback]),
        ];
        // Every other session declares its names in its words alone.
        let names = if seed % 2 == 0 { talk.declared.clone() } else { Vec::new() };
        for (what, answer, expected) in answers {
            let heard = Heard::default();
            let result = heard.during(|| {
                let writer = Scripted::new(answer);
                confidential(&handoffs, &session, Some(&Mechanical), &names, &writer)
            });
            assert!(expected.contains(&result.status), "{what}: {result:?}");
            refused += usize::from(result.status == Status::ScrubFailed);
            assert_silent(&world, &talk, &heard, what);
            let file = result.path.as_ref().map(std::fs::read_to_string);
            if let (true, Some(Ok(file))) = (what == "behaves", file) {
                assert!(file.contains("Two pages are missing."), "{file}");
            }
        }
        // Kept small: the folder is read anew for every check.
        for entry in std::fs::read_dir(handoffs.folder()).unwrap().flatten() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    // A refusal is safe, but of no use to anybody.
    assert!(refused * 20 <= sessions() as usize, "{refused} breadcrumbs were refused");
}
