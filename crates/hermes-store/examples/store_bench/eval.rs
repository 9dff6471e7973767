//! How well questions find what was said: writes a set of conversations into a store, asks its
//! questions as they are, and reports where the right session and the decisive turn come.
//!
//! Two sets: `talk`, two people over weeks, and `desk`, a person and an assistant at work. Both come
//! from a seed. Ranking may be developed on some seeds only; what is reported comes from others.

use hermes_core::Timestamp;
use hermes_store::{Record, SearchRequest, Store};

use super::{Chance, begin, row, store};

/// A question with what answers it.
pub struct Asked {
    pub question: String,
    pub session: String,
    pub decisive: String,
}

/// One session: who begins is the person, every other turn is the model's.
pub struct Session {
    pub name: String,
    pub at: Timestamp,
    pub turns: Vec<String>,
}

/// Sessions and questions about them.
#[derive(Default)]
pub struct Set {
    pub sessions: Vec<Session>,
    pub asked: Vec<Asked>,
}

impl Set {
    /// As people type: nothing tells a name from another word.
    fn in_small_letters(&self) -> Self {
        let asked = self.asked.iter().map(|asked| Asked {
            question: asked.question.to_lowercase(),
            session: asked.session.clone(),
            decisive: asked.decisive.clone(),
        });
        Self { sessions: Vec::new(), asked: asked.collect() }
    }
}

pub fn pick<'a>(chance: &Chance, from: &'a [&'a str]) -> &'a str {
    from[chance.below(from.len() as u64) as usize]
}

/// Writes the set, asks the questions, prints the shares.
pub fn run(name: &str, seed: u64, set: &Set) {
    let folder = std::env::temp_dir().join(format!("store-eval-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = store(&folder);
    for session in &set.sessions {
        let mut writer = begin(&store, &session.name, session.at);
        let mut batch: Vec<Record> = Vec::new();
        for (turn, said) in session.turns.iter().enumerate() {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            let moment = Timestamp(session.at.0 + turn as i64 * 40_000_000);
            batch.push(row(writer.next_seq(), role, said, moment));
        }
        let _where = writer.commit(batch).unwrap();
        writer.release().unwrap();
    }
    report(&store, name, seed, set);
    report(&store, &format!("{name} in small letters"), seed, &set.in_small_letters());
    store.close();
    std::fs::remove_dir_all(&folder).unwrap();
}

fn report(store: &Store, name: &str, seed: u64, set: &Set) {
    let mut at_most = [0_usize; 4];
    let mut shown = 0_usize;
    for asked in &set.asked {
        let mut request = SearchRequest::new(asked.question.as_str());
        request.limit = 10;
        let answer = store.search(&request).unwrap();
        let place = answer.results.iter().position(|result| result.session_id == asked.session);
        for (count, bound) in at_most.iter_mut().zip([1, 3, 5, 10]) {
            *count += usize::from(place.is_some_and(|place| place < bound));
        }
        let answer = store.search(&SearchRequest::new(asked.question.as_str())).unwrap();
        let decisive = answer
            .results
            .iter()
            .filter(|result| result.session_id == asked.session)
            .flat_map(|result| {
                result.messages.iter().chain(&result.bookend_start).chain(&result.bookend_end)
            })
            .any(|message| message.content.contains(&asked.decisive));
        shown += usize::from(decisive);
        if std::env::var_os("HERMES_BENCH_MISSES").is_some() && !decisive {
            println!("missed: {} ({place:?}) <- {}", asked.question, asked.decisive);
        }
    }
    let share = |count: usize| count as f64 / set.asked.len().max(1) as f64 * 100.0;
    println!(
        "{name}, seed {seed}: {} sessions, {} turns, {} questions; right session in the first 1, 3, \
         5, 10: {:.1} %, {:.1} %, {:.1} %, {:.1} %; decisive turn in the default answer: {:.1} %",
        set.sessions.len(),
        set.sessions.iter().map(|session| session.turns.len()).sum::<usize>(),
        set.asked.len(),
        share(at_most[0]),
        share(at_most[1]),
        share(at_most[2]),
        share(at_most[3]),
        share(shown)
    );
}
