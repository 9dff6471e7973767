//! Measures the store: rows written a second, bytes on disk, time of a search, and how well
//! questions find what was said. `bench/search.sh` runs it beside Hermes Agent.
//!
//! ```text
//! store_bench generate ROWS SESSIONS         messages as JSON lines
//! store_bench questions                      questions of every kind about them
//! store_bench fill FOLDER BATCH < MESSAGES   writes them, BATCH rows a transaction
//! store_bench ask FOLDER QUESTIONS RUNS      times the questions
//! store_bench grow FOLDER ROWS               single-row transactions, their median as it grows
//! store_bench renew FOLDER                   until an older index is renewed, with searches meanwhile
//! store_bench eval SEED CONVERSATIONS        how well questions find decisive turns
//! ```

#![expect(clippy::print_stdout, reason = "a measuring program")]
#![expect(clippy::unwrap_used, reason = "a measuring program stops at the first fault")]

mod desk;
mod eval;
mod renew;
mod talk;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hermes_core::{
    Cause, Digest, Env, Generation, GenerationNo, Origin, Part, PartBody, Role, Row, RowStatus,
    ScriptedEnv, Seq, SessionId, Standing, Timestamp, TurnNo, slot,
};
use hermes_store::{
    OpenMode, Record, SearchRequest, SessionInit, SessionWriter, Store, StorePaths,
};
use serde::{Deserialize, Serialize};

const START: Timestamp = Timestamp(1_767_225_600_000_000);

#[derive(Serialize, Deserialize)]
struct Line {
    session: String,
    role: String,
    content: String,
    timestamp: f64,
}

#[derive(Serialize, Deserialize)]
struct Asked {
    kind: String,
    query: String,
}

/// The same words on every machine (SplitMix64).
struct Chance(ScriptedEnv);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(ScriptedEnv::new(Timestamp(0), 0, seed))
    }

    fn next(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.random(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn share(&self) -> f64 {
        self.below(1_000_000) as f64 / 1e6
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize| args.get(at).cloned().unwrap_or_default();
    let number = |at: usize| text(at).parse::<u64>().unwrap_or(0);
    match text(0).as_str() {
        "generate" => generate(number(1), number(2)),
        "questions" => questions(),
        "fill" => fill(Path::new(&text(1)), number(2) as usize),
        "ask" => ask(Path::new(&text(1)), Path::new(&text(2)), number(3)),
        "grow" => grow(Path::new(&text(1)), number(2)),
        "renew" => renew::run(Path::new(&text(1))),
        "eval" => {
            eval::run("talk", number(1), &talk::make(number(1), number(2)));
            eval::run("desk", number(1), &desk::make(number(1), number(2)));
        }
        other => println!("unknown: {other:?}; see the head of store_bench.rs"),
    }
}

fn store(folder: &Path) -> Store {
    let paths = StorePaths {
        db: folder.join("state.db"),
        spool_dir: folder.join("spool"),
        drafts_dir: folder.join("drafts"),
    };
    let env: Arc<dyn Env> = Arc::new(ScriptedEnv::new(START.plus_millis(90 * 86_400_000), 1, 3));
    Store::open(paths, env, OpenMode::ReadWrite).unwrap()
}

fn begin(store: &Store, name: &str, at: Timestamp) -> SessionWriter {
    let init = SessionInit {
        id: SessionId::new(name),
        source: "cli".to_owned(),
        lane: None,
        cwd: None,
        git_root: None,
        git_branch: None,
        model: "m".to_owned(),
        provider: "p".to_owned(),
        base_url: None,
        parent: None,
        title: None,
        started_at: at,
    };
    let opening = vec![
        Record::Text { text: "prompt".into() },
        Record::Text { text: "[]".into() },
        Record::Generation(Generation {
            n: GenerationNo(0),
            parent: None,
            cause: Cause::Start,
            created_at: at,
            prompt: Digest::of("prompt"),
            tools: Digest::of("[]"),
            ops: vec![],
        }),
    ];
    store.create_session(init, opening).unwrap()
}

fn row(seq: Seq, role: &str, text: &str, at: Timestamp) -> Record {
    let (role, origin) = match role {
        "assistant" => (Role::Assistant, Origin::Model),
        _ => (Role::User, Origin::User),
    };
    Record::Row(Row {
        seq,
        turn: TurnNo(1),
        role,
        standing: Standing::InOrder,
        status: RowStatus::Complete,
        created_at: at,
        tool: None,
        finish_reason: None,
        parts: vec![Part {
            seq,
            row: seq,
            slot: slot::BODY,
            origin,
            standing: Standing::InOrder,
            created_at: at,
            label: None,
            body: PartBody::text(text),
        }],
    })
}

/// A made-up word: the same number gives the same word.
fn word(number: u64) -> String {
    const CONSONANTS: &[u8] = b"bcdfghklmnprstvz";
    const VOWELS: &[u8] = b"aeiou";
    let mut rest = number + 1;
    let mut out = String::new();
    while rest > 0 {
        out.push(char::from(CONSONANTS[(rest % 16) as usize]));
        out.push(char::from(VOWELS[(rest / 16 % 5) as usize]));
        rest /= 80;
    }
    out.push('x');
    out
}

/// Message number `n`: words by Zipf's law, and planted ones of known frequency.
fn message(chance: &Chance, n: u64) -> String {
    let words = 24 + chance.below(93);
    let mut out = String::new();
    for at in 0..words {
        if at > 0 {
            out.push(' ');
        }
        let rank = (20_000.0_f64.powf(chance.share()) - 1.0) as u64;
        out.push_str(&word(rank));
    }
    if n.is_multiple_of(5) {
        out.push_str(" everyfifth");
    }
    if n % 100 == 7 {
        out.push_str(" everyhundredth");
    }
    if n % 400 == 9 {
        out.push_str(" orange lighthouse keeper");
    }
    if n % 20_000 == 11 {
        out.push_str(" planted");
        out.push_str(&(n / 20_000).to_string());
    }
    out
}

fn generate(rows: u64, sessions: u64) {
    let chance = Chance::new(42);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let each = rows.div_ceil(sessions.max(1));
    for n in 0..rows {
        let line = Line {
            session: format!("20260101_000000_{:06x}", n / each),
            role: if n % 2 == 0 { "user" } else { "assistant" }.to_owned(),
            content: message(&chance, n),
            timestamp: START.as_seconds_f64() + n as f64 * 20.0,
        };
        serde_json::to_writer(&mut out, &line).unwrap();
        out.write_all(b"\n").unwrap();
    }
    out.flush().unwrap();
}

/// Questions whose words have known frequencies.
fn questions() {
    let mut asked: Vec<Asked> = Vec::new();
    let mut add = |kind: &str, query: String| {
        asked.push(Asked { kind: kind.to_owned(), query });
    };
    for n in 0..10 {
        add("rare", format!("planted{n}"));
        add("rare", word(8000 + n));
    }
    add("1 %", "everyhundredth".to_owned());
    for n in [60, 70, 80, 90] {
        add("1 %", word(n));
    }
    add("20 %", "everyfifth".to_owned());
    for n in 2..6 {
        add("20 %", word(n));
    }
    for n in [50, 100, 200, 300, 1000] {
        add("two words", format!("{} {}", word(n), word(n + 7)));
    }
    add("two words", "everyfifth everyhundredth".to_owned());
    add("phrase", "\"orange lighthouse keeper\"".to_owned());
    add("phrase", "\"lighthouse keeper\"".to_owned());
    add("no hit", "qqqqzzzz".to_owned());
    println!("{}", serde_json::to_string(&asked).unwrap());
}

fn fill(folder: &Path, batch: usize) {
    std::fs::create_dir_all(folder).unwrap();
    let store = store(folder);
    let mut writer: Option<SessionWriter> = None;
    let mut pending: Vec<Record> = Vec::new();
    let (mut rows, mut transactions) = (0_u64, 0_u64);
    let mut spent = std::time::Duration::ZERO;
    let mut commit = |writer: &mut Option<SessionWriter>, pending: &mut Vec<Record>| {
        if let Some(writer) = writer
            && !pending.is_empty()
        {
            let begun = Instant::now();
            rows += pending.len() as u64;
            transactions += 1;
            let _where = writer.commit(std::mem::take(pending)).unwrap();
            spent += begun.elapsed();
        }
    };
    for line in io::stdin().lock().lines() {
        let line: Line = serde_json::from_str(&line.unwrap()).unwrap();
        let at = Timestamp((line.timestamp * 1e6) as i64);
        if writer.as_ref().is_none_or(|writer| writer.id().as_str() != line.session) {
            commit(&mut writer, &mut pending);
            if let Some(writer) = writer.take() {
                writer.release().unwrap();
            }
            writer = Some(begin(&store, &line.session, at));
        }
        if let Some(writer) = &mut writer {
            let seq = writer.next_seq();
            pending.push(row(seq, &line.role, &line.content, at));
        }
        if pending.len() >= batch {
            commit(&mut writer, &mut pending);
        }
    }
    commit(&mut writer, &mut pending);
    // Closing counts: rows that are not in the search index yet come into it now.
    let begun = Instant::now();
    drop(writer);
    store.close();
    spent += begun.elapsed();
    let seconds = spent.as_secs_f64();
    println!(
        "{{\"rows\":{rows},\"transactions\":{transactions},\"seconds\":{seconds:.3},\
         \"rows_per_s\":{:.0},\"bytes\":{}}}",
        rows as f64 / seconds,
        size(folder)
    );
}

fn size(folder: &Path) -> u64 {
    ["state.db", "state.db-wal"]
        .iter()
        .filter_map(|name| std::fs::metadata(folder.join(name)).ok())
        .map(|meta| meta.len())
        .sum()
}

fn ask(folder: &Path, questions: &Path, runs: u64) {
    let store = store(folder);
    let questions: Vec<Asked> =
        serde_json::from_str(&std::fs::read_to_string(questions).unwrap()).unwrap();
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for run in 0..=runs {
        for asked in &questions {
            let begun = Instant::now();
            let answer = store.search(&SearchRequest::new(asked.query.as_str())).unwrap();
            let json = serde_json::to_string(&answer).unwrap();
            let took = begun.elapsed().as_secs_f64() * 1000.0;
            assert!(!json.is_empty());
            if run > 0 {
                times.entry(asked.kind.clone()).or_default().push(took);
                *found.entry(asked.kind.clone()).or_default() += answer.count.min(1);
            }
        }
    }
    for (kind, mut times) in times {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        println!(
            "{{\"kind\":\"{kind}\",\"p50\":{:.3},\"p95\":{:.3},\"found\":{:.2}}}",
            at(0.5),
            at(0.95),
            found[&kind] as f64 / times.len() as f64
        );
    }
}

/// Fills the store and stops at five levels to time single-row transactions there.
fn grow(folder: &Path, rows: u64) {
    const LEVELS: u64 = 4;
    const SAMPLE: u64 = 1_000;
    std::fs::create_dir_all(folder).unwrap();
    let store = store(folder);
    let chance = Chance::new(42);
    let mut done = 0;
    for level in 0..=LEVELS {
        while done < rows * level / LEVELS {
            let mut writer = begin(&store, &format!("grow-{done}"), START);
            let mut batch = Vec::new();
            for n in 0..100 {
                let seq = writer.next_seq();
                batch.push(row(seq, "user", &message(&chance, done + n), START));
            }
            let _where = writer.commit(batch).unwrap();
            writer.release().unwrap();
            done += 100;
        }
        let mut writer = begin(&store, &format!("sample-{level}"), START);
        let mut times = Vec::new();
        for n in 0..SAMPLE {
            let seq = writer.next_seq();
            let record = row(seq, "user", &message(&chance, n), START);
            let begun = Instant::now();
            let _where = writer.commit(vec![record]).unwrap();
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        writer.release().unwrap();
        times.sort_by(f64::total_cmp);
        println!("{{\"rows\":{done},\"median_ms\":{:.3}}}", times[times.len() / 2]);
    }
    store.close();
    println!("{{\"bytes\":{}}}", size(folder));
}
