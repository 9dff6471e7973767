//! Made-up conversations with planted facts.
//!
//! Each fact is about a thing of its own (two words); what is said of it has an exact value. The
//! conversation around it speaks of the same words in other pairs, mentions the thing itself
//! without saying anything, and is full of values of the same shapes. A question asks for the value
//! as a person would who does not have the statement before them: in words of its own, and the two
//! words of the name put together in another way, so that the two share no words that stand side by
//! side.
//!
//! Invariant: a function of its seed and sizes alone; it knows nothing of how anything is
//! extracted.

use std::sync::Arc;

use hermes_core::{
    Origin, Part, PartBody, Role, Row, RowStatus, Seq, Standing, Timestamp, ToolLink, TurnNo, slot,
};

use super::chance::Chance;
use super::words::{ADJECTIVES, ERRORS, EXTENSIONS, MONTHS, NOUNS, VERBS};

/// What a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// A name or number of a thing.
    Identifier,
    /// A path.
    Path,
    /// An error as it was printed.
    Error,
    /// A number or an amount.
    Number,
    /// A date.
    Date,
    /// A decision with its reason.
    Decision,
    /// A rule.
    Constraint,
    /// Something that was said and then taken back.
    Reversal,
    /// Something that is still to be done.
    OpenTask,
}

impl FactKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Identifier,
        Self::Path,
        Self::Error,
        Self::Number,
        Self::Date,
        Self::Decision,
        Self::Constraint,
        Self::Reversal,
        Self::OpenTask,
    ];

    /// The word in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identifier => "identifier",
            Self::Path => "path",
            Self::Error => "error text",
            Self::Number => "number",
            Self::Date => "date",
            Self::Decision => "decision",
            Self::Constraint => "constraint",
            Self::Reversal => "reversal",
            Self::OpenTask => "open task",
        }
    }
}

/// Who states a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Teller {
    /// The person.
    Person,
    /// The model.
    Model,
    /// A tool's result.
    Tool,
}

/// A planted fact.
#[derive(Clone, Debug)]
pub struct Fact {
    /// What it is.
    pub kind: FactKind,
    /// The name of the thing it is about.
    pub topic: String,
    /// Who states it.
    pub teller: Teller,
    /// Texts that must all be there for it to be known.
    pub keys: Vec<String>,
    /// What was said before and no longer holds.
    pub outdated: Option<String>,
    /// The question.
    pub question: String,
    /// The rows that state it.
    pub rows: Vec<Seq>,
}

/// A conversation with what was planted in it.
#[derive(Clone, Debug)]
pub struct Planted {
    /// The rows.
    pub rows: Vec<Row>,
    /// The facts.
    pub facts: Vec<Fact>,
}

/// When the made-up conversations begin.
const START: Timestamp = Timestamp(1_796_032_560_000_000);

/// Writes a conversation of about `messages` messages with 15 to 20 facts.
pub fn generate(seed: u64, messages: usize) -> Planted {
    let mut writer =
        Writer { chance: Chance::new(seed), rows: Vec::new(), seq: 0, turn: 0, calls: 0 };
    let count = writer.chance.within(15, 20);
    let topics = writer.topics(count);
    let mut planned: Vec<(usize, Saying)> = Vec::new();
    let mut facts: Vec<Fact> = Vec::new();
    let last = messages * 95 / 100;
    for (number, topic) in topics.iter().enumerate() {
        let kind = FactKind::ALL[number % FactKind::ALL.len()];
        let fact = writer.fact(kind, *topic);
        let at = writer.chance.within(messages / 100, last);
        if let Some(first) = &fact.first {
            let before = writer.chance.below(at.max(1));
            planned.push((before, Saying { fact: None, teller: fact.teller, text: first.clone() }));
        }
        planned.push((at, Saying { fact: Some(number), teller: fact.teller, text: fact.text }));
        for _ in 0..writer.chance.within(1, 3) {
            // The thing is mentioned, and nothing is said of it.
            let at = writer.chance.below(messages);
            let name = writer.said(*topic);
            let text = writer.mention(&name);
            let teller = *writer.chance.pick(&[Teller::Person, Teller::Model]);
            planned.push((at, Saying { fact: None, teller, text }));
        }
        facts.push(Fact {
            kind,
            topic: fact.name,
            teller: fact.teller,
            keys: fact.keys,
            outdated: fact.outdated,
            question: fact.question,
            rows: Vec::new(),
        });
    }
    planned.sort_by_key(|(at, _)| *at);
    let mut queue = planned.into_iter().peekable();
    while writer.rows.len() < messages {
        let mut due: Vec<Saying> = Vec::new();
        while let Some((_, saying)) = queue.next_if(|(at, _)| *at <= writer.rows.len()) {
            due.push(saying);
        }
        for (number, row) in writer.exchange(due) {
            facts[number].rows.push(row);
        }
    }
    Planted { rows: writer.rows, facts }
}

/// Something that is to be said, and the fact it states.
struct Saying {
    fact: Option<usize>,
    teller: Teller,
    text: String,
}

/// A fact in words.
struct Worded {
    teller: Teller,
    /// The name of the thing, as it is said.
    name: String,
    text: String,
    /// What was said before it.
    first: Option<String>,
    keys: Vec<String>,
    outdated: Option<String>,
    question: String,
}

/// What a fact is about.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Thing(&'static str, &'static str);

impl Thing {
    /// Ways to name it, each with other words side by side.
    fn forms(self) -> [String; 6] {
        let Self(a, b) = self;
        [
            format!("{a} {b}"),
            format!("{b} of the {a}"),
            format!("{b} at the {a}"),
            format!("{b} we have near the {a}"),
            format!("{b}, I mean the one by the {a},"),
            format!("{b} that belongs with the {a}"),
        ]
    }
}

struct Writer {
    chance: Chance,
    rows: Vec<Row>,
    seq: u64,
    turn: u32,
    calls: u32,
}

impl Writer {
    /// Pairs of words, none twice.
    fn topics(&mut self, count: usize) -> Vec<Thing> {
        let mut out: Vec<Thing> = Vec::new();
        while out.len() < count {
            let (a, b) = (*self.chance.pick(&NOUNS), *self.chance.pick(&NOUNS));
            let topic = Thing(a, b);
            if a != b && !out.contains(&topic) && !out.contains(&Thing(b, a)) {
                out.push(topic);
            }
        }
        out
    }

    /// A thing as it is named in passing.
    fn said(&mut self, topic: Thing) -> String {
        let at = if self.chance.percent(60) { 0 } else { self.chance.within(1, 2) };
        topic.forms()[at].clone()
    }

    /// The same thing as somebody names it who asks for it later: never as it was said.
    fn asked(&mut self, topic: Thing, said: &str) -> String {
        let forms: Vec<String> = topic.forms().into_iter().filter(|form| form != said).collect();
        self.chance.pick(&forms).clone()
    }

    fn identifier(&mut self) -> String {
        let digits = "0123456789";
        let hex = "0123456789abcdef";
        let upper = "ABCDEFGHJKLMNPQRSTUVWXYZ";
        match self.chance.below(7) {
            0 => format!("{}-{}", self.chance.token(upper, 3), self.chance.token(digits, 4)),
            1 => self.chance.token(hex, 12),
            2 => format!("usr_{}", self.chance.token("abcdefghjkmnpqrstuvwxyz23456789", 8)),
            3 => format!("#{}", self.chance.within(1_000, 99_999)),
            4 => {
                let (a, b) = (self.chance.token(hex, 8), self.chance.token(hex, 4));
                format!("{a}-{b}-{}", self.chance.token(hex, 12))
            }
            5 => format!(
                "v{}.{}.{}",
                self.chance.below(9),
                self.chance.below(40),
                self.chance.below(99)
            ),
            _ => format!("{}{}", self.chance.pick(&NOUNS), self.chance.within(100, 9_999)),
        }
    }

    fn path(&mut self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for _ in 0..self.chance.within(1, 3) {
            parts.push((*self.chance.pick(&NOUNS)).to_owned());
        }
        let name = format!(
            "{}_{}.{}",
            self.chance.pick(&ADJECTIVES),
            self.chance.within(2, 999),
            self.chance.pick(&EXTENSIONS)
        );
        parts.push(name);
        let root = if self.chance.percent(50) { "/" } else { "" };
        format!("{root}{}", parts.join("/"))
    }

    fn number(&mut self) -> String {
        match self.chance.below(4) {
            0 => self.chance.within(1_025, 65_535).to_string(),
            1 => format!(
                "EUR {},{:03}.{:02}",
                self.chance.within(1, 98),
                self.chance.below(1_000),
                self.chance.below(100)
            ),
            2 => format!("{} ms", self.chance.within(11, 4_999)),
            _ => format!("{}.{} %", self.chance.within(1, 97), self.chance.below(10)),
        }
    }

    fn date(&mut self) -> String {
        let (day, month) = (self.chance.within(1, 28), self.chance.below(12));
        let year = self.chance.within(2024, 2029);
        match self.chance.below(3) {
            0 => format!("{year}-{:02}-{day:02}", month + 1),
            1 => format!("{day} {} {year}", MONTHS[month]),
            _ => format!("{day:02}.{:02}.{year}", month + 1),
        }
    }

    fn error(&mut self) -> String {
        let name = *self.chance.pick(&ERRORS);
        format!(
            "{name}: {} {} {} at offset {}",
            self.chance.pick(&ADJECTIVES),
            self.chance.pick(&NOUNS),
            self.chance.pick(&VERBS),
            self.chance.within(100, 99_999)
        )
    }

    /// Words for one fact about `thing`.
    fn fact(&mut self, kind: FactKind, thing: Thing) -> Worded {
        let topic = self.said(thing);
        let asked = self.asked(thing, &topic);
        let spoken = [Teller::Person, Teller::Model];
        let any = [Teller::Person, Teller::Model, Teller::Tool];
        let mut worded = Worded {
            teller: *self.chance.pick(&any),
            name: topic.clone(),
            text: String::new(),
            first: None,
            keys: Vec::new(),
            outdated: None,
            question: String::new(),
        };
        match kind {
            FactKind::Identifier => {
                let value = self.identifier();
                worded.text = match self.chance.below(4) {
                    0 => format!("The {topic} runs under {value} since this morning."),
                    1 => format!("{topic}: registered as {value}"),
                    2 => format!("For the {topic} they gave us {value}."),
                    _ => format!("{value} is what the {topic} answers to."),
                };
                worded.question = self.ask(&[
                    format!("By which designation is the {asked} known?"),
                    format!("Can you tell me the label of the {asked}?"),
                    format!("Which code identifies the {asked}?"),
                ]);
                worded.keys = vec![value];
            }
            FactKind::Path => {
                let value = self.path();
                worded.text = match self.chance.below(3) {
                    0 => format!("The {topic} lives in {value}."),
                    1 => format!("{topic} -> {value}"),
                    _ => format!("You will find everything about the {topic} in {value}."),
                };
                worded.question = self.ask(&[
                    format!("Which file holds the {asked}?"),
                    format!("Where do I look for the {asked} on disk?"),
                    format!("Under which path is the {asked} kept?"),
                ]);
                worded.keys = vec![value];
            }
            FactKind::Error => {
                let value = self.error();
                worded.teller = *self.chance.pick(&[Teller::Tool, Teller::Tool, Teller::Person]);
                worded.text = match self.chance.below(2) {
                    0 => format!("{topic} stopped with {value}"),
                    _ => format!("when starting the {topic}: {value}"),
                };
                worded.question = self.ask(&[
                    format!("How did the {asked} break?"),
                    format!("What went wrong with the {asked}?"),
                    format!("Which message was printed about the {asked}?"),
                ]);
                worded.keys = vec![value];
            }
            FactKind::Number => {
                let value = self.number();
                worded.text = match self.chance.below(3) {
                    0 => format!("The {topic} came out at {value}."),
                    1 => format!("{topic} = {value}"),
                    _ => format!("We measured {value} for the {topic}."),
                };
                worded.question = self.ask(&[
                    format!("What figure was noted for the {asked}?"),
                    format!("How much was it for the {asked}?"),
                    format!("Remind me of the value of the {asked}, please."),
                ]);
                worded.keys = vec![value];
            }
            FactKind::Date => {
                let value = self.date();
                worded.text = match self.chance.below(3) {
                    0 => format!("The {topic} is due on {value}."),
                    1 => format!("{topic}: {value}"),
                    _ => format!("They moved the {topic} to {value}."),
                };
                worded.question = self.ask(&[
                    format!("When is the day of the {asked}?"),
                    format!("By what date does the {asked} have to be there?"),
                    format!("For which day is the {asked} planned?"),
                ]);
                worded.keys = vec![value];
            }
            FactKind::Decision => {
                worded.teller = *self.chance.pick(&spoken);
                let (what, why) = (self.identifier(), self.identifier());
                let noun = *self.chance.pick(&NOUNS);
                worded.text = match self.chance.below(3) {
                    0 => format!(
                        "We go with {what} for the {topic} because the {noun} cannot read {why}."
                    ),
                    1 => format!(
                        "Let us take {what} for the {topic}; {why} is too slow for the {noun}."
                    ),
                    _ => format!("The {topic} will be built on {what}, since {why} has no {noun}."),
                };
                worded.question = self.ask(&[
                    format!("What was chosen for the {asked}, and on what grounds?"),
                    format!("Why did we settle as we did about the {asked}?"),
                    format!("Which option won for the {asked}, and which lost?"),
                ]);
                worded.keys = vec![what, why];
            }
            FactKind::Constraint => {
                worded.teller = Teller::Person;
                let (path, number) = (self.path(), self.number());
                let (text, keys) = match self.chance.below(4) {
                    0 => (format!("Do not touch {path} while the {topic} is open."), vec![path]),
                    1 => (format!("The {topic} must stay below {number}."), vec![number]),
                    2 => (
                        format!("Never restart the {topic} without asking me about {path}."),
                        vec![path],
                    ),
                    _ => (
                        format!("Whatever you do with the {topic}, {path} stays as it is."),
                        vec![path],
                    ),
                };
                worded.text = text;
                worded.question = self.ask(&[
                    format!("Which condition applies to the {asked}?"),
                    format!("What am I supposed to respect around the {asked}?"),
                    format!("Is there a restriction on the {asked}?"),
                ]);
                worded.keys = keys;
            }
            FactKind::Reversal => {
                worded.teller = *self.chance.pick(&spoken);
                let (old, new) = (self.identifier(), self.identifier());
                let before = self.said(thing);
                worded.first = Some(match self.chance.below(2) {
                    0 => format!("Use {old} for the {before}."),
                    _ => format!("The {before} gets {old}."),
                });
                worded.text = match self.chance.below(4) {
                    0 => format!("Correction: the {topic} gets {new}, not {old}."),
                    1 => format!("I was wrong about the {topic}: it is {new} instead of {old}."),
                    2 => format!("Forget what I said about the {topic}, use {new}."),
                    _ => format!("No, the {topic} should have {new} after all."),
                };
                worded.question = self.ask(&[
                    format!("Which one finally counts for the {asked}?"),
                    format!("What is the present choice regarding the {asked}?"),
                    format!("What holds today where the {asked} is concerned?"),
                ]);
                worded.keys = vec![new];
                worded.outdated = Some(old);
            }
            FactKind::OpenTask => {
                worded.teller = *self.chance.pick(&spoken);
                let value = self.path();
                worded.text = match self.chance.below(3) {
                    0 => format!("Still missing: a test in {value} for the {topic}."),
                    1 => format!("Later we have to clean up {value} for the {topic}."),
                    _ => {
                        format!("Once this is done, somebody needs to port {value} to the {topic}.")
                    }
                };
                worded.question = self.ask(&[
                    format!("What remains to be finished around the {asked}?"),
                    format!("Is anything left to do concerning the {asked}?"),
                    format!("Which work is outstanding on the {asked}?"),
                ]);
                worded.keys = vec![value];
            }
        }
        worded
    }

    fn ask(&mut self, ways: &[String]) -> String {
        self.chance.pick(ways).clone()
    }

    fn mention(&mut self, topic: &str) -> String {
        match self.chance.below(4) {
            0 => format!("I had another look at the {topic}, nothing new there."),
            1 => format!("The {topic} looks the same as yesterday."),
            2 => format!("Somebody asked about the {topic} again."),
            _ => format!("Let us leave the {topic} aside for now."),
        }
    }

    /// A sentence that says nothing of any thing.
    fn sentence(&mut self) -> String {
        let (a, b) = (*self.chance.pick(&NOUNS), *self.chance.pick(&NOUNS));
        let (verb, how) = (*self.chance.pick(&VERBS), *self.chance.pick(&ADJECTIVES));
        match self.chance.below(9) {
            0 => format!("The {how} {a} {verb} the {b}."),
            1 => format!("Then the {a} {verb} a {how} {b}."),
            2 => format!("I think the {a} is {how} enough."),
            3 => format!("In {} the {a} {verb} the {b}.", self.path()),
            4 => format!("It took {} until the {a} was {how}.", self.number()),
            5 => format!("{} {verb} the {b}, as it should.", self.identifier()),
            6 => format!("On {} the {a} was {how}.", self.date()),
            7 => format!("Why is the {a} {how}?"),
            _ => format!("That {verb} the {a} and the {b}."),
        }
    }

    fn paragraph(&mut self, sentences: usize) -> String {
        (0..sentences).map(|_| self.sentence()).collect::<Vec<_>>().join(" ")
    }

    /// Lines as tools print them.
    fn printed(&mut self, lines: usize) -> Vec<String> {
        (0..lines)
            .map(|_| match self.chance.below(6) {
                0 => format!(
                    "{} INFO {} {}",
                    self.date(),
                    self.chance.pick(&NOUNS),
                    self.identifier()
                ),
                1 => format!("{}: ok", self.path()),
                2 => format!("{} = {}", self.chance.pick(&NOUNS), self.number()),
                3 => format!(
                    "    let {} = {}();",
                    self.chance.pick(&NOUNS),
                    self.chance.pick(&VERBS)
                ),
                4 => format!(
                    "warning: {} {}",
                    self.chance.pick(&ADJECTIVES),
                    self.chance.pick(&NOUNS)
                ),
                _ => self.sentence(),
            })
            .collect()
    }

    /// One exchange: what the person says, what tools return, what the model answers. Gives the
    /// rows of the facts that were stated.
    fn exchange(&mut self, due: Vec<Saying>) -> Vec<(usize, Seq)> {
        self.turn += 1;
        let mut stated = Vec::new();
        let (mut person, mut tool, mut model) = (Vec::new(), Vec::new(), Vec::new());
        for saying in due {
            match saying.teller {
                Teller::Person => person.push(saying),
                Teller::Tool => tool.push(saying),
                Teller::Model => model.push(saying),
            }
        }
        let sentences = self.chance.within(1, 3);
        let mut text = vec![self.paragraph(sentences)];
        text.extend(person.iter().map(|saying| saying.text.clone()));
        let ask = self.chance.pick(&NOUNS).to_string();
        text.push(format!("Please look at the {ask}."));
        let row = self.row(Role::User, Origin::User, text.join(" "));
        stated.extend(person.iter().filter_map(|saying| Some((saying.fact?, row))));

        let rounds =
            if tool.is_empty() { self.chance.below(3) } else { 1.max(self.chance.below(3)) };
        for round in 0..rounds {
            let name = *self.chance.pick(&["terminal", "read_file", "search_files"]);
            self.calls += 1;
            let call = format!("call_{}", self.calls);
            let argument = match name {
                "terminal" => format!("{{\"command\":\"cat {}\"}}", self.path()),
                "read_file" => format!("{{\"path\":\"{}\"}}", self.path()),
                _ => format!("{{\"pattern\":\"{}\"}}", self.chance.pick(&NOUNS)),
            };
            self.call(&call, name, &argument);
            let count = self.chance.within(3, 30);
            let mut lines = self.printed(count);
            let mut here = Vec::new();
            if round == 0 {
                for saying in &tool {
                    let at = self.chance.below(lines.len());
                    lines.insert(at, saying.text.clone());
                    here.extend(saying.fact);
                }
            }
            let row = self.row(Role::Tool, Origin::Tool, lines.join("\n"));
            let link = ToolLink { call_id: call.as_str().into(), name: name.into() };
            if let Some(stored) = self.rows.last_mut() {
                stored.tool = Some(link);
            }
            stated.extend(here.into_iter().map(|number| (number, row)));
        }
        let sentences = self.chance.within(1, 6);
        let mut text = vec![self.paragraph(sentences)];
        for saying in &model {
            let at = self.chance.below(text.len() + 1);
            text.insert(at, saying.text.clone());
        }
        let row = self.row(Role::Assistant, Origin::Model, text.join(" "));
        stated.extend(model.iter().filter_map(|saying| Some((saying.fact?, row))));
        stated
    }

    fn seq(&mut self) -> Seq {
        self.seq += 1;
        Seq(self.seq)
    }

    fn row(&mut self, role: Role, origin: Origin, text: String) -> Seq {
        let seq = self.seq();
        let at = START.plus_millis(i64::try_from(seq.0 * 20_000).unwrap_or_default());
        self.rows.push(Row {
            seq,
            turn: TurnNo(self.turn),
            role,
            standing: Standing::InOrder,
            status: RowStatus::Complete,
            created_at: at,
            tool: None,
            finish_reason: None,
            parts: vec![part(seq, seq, slot::BODY, origin, PartBody::text(text), at)],
        });
        seq
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let row = self.row(Role::Assistant, Origin::Model, String::new());
        let seq = self.seq();
        let body = PartBody::ToolCall {
            id: id.into(),
            name: name.into(),
            arguments: Arc::from(arguments),
        };
        if let Some(stored) = self.rows.last_mut() {
            let call = part(seq, row, slot::CALLS, Origin::Model, body, stored.created_at);
            stored.parts = vec![Part { seq: row, ..call }];
        }
    }
}

fn part(seq: Seq, row: Seq, slot: u16, origin: Origin, body: PartBody, at: Timestamp) -> Part {
    Part { seq, row, slot, origin, standing: Standing::InOrder, created_at: at, label: None, body }
}
