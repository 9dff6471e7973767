//! Where the texts came from that the model has read in the present turn, so that what it saves is
//! not taken for the person's word (hermes-agent: rules planted in files that became memory).
//!
//! Invariant: a text counts as the person's only if the person said it in this turn, word for word
//! but for white space and case.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sources named in one entry at most.
const MAX_NAMED: usize = 3;

/// What was said and read in the present turn. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct TurnSources(Arc<Mutex<Turn>>);

#[derive(Debug, Default)]
struct Turn {
    said: String,
    read: Vec<String>,
}

impl TurnSources {
    /// A turn begins with these words of the person.
    pub fn begin(&self, said: &str) {
        let mut turn = self.lock();
        turn.said = folded(said);
        turn.read.clear();
    }

    /// The model was given a text that nobody in this conversation said, such as
    /// `read from report.txt`.
    pub fn add(&self, source: impl Into<String>) {
        let source = source.into();
        let mut turn = self.lock();
        if !turn.read.contains(&source) {
            turn.read.push(source);
        }
    }

    /// Where `text` may come from, if anything but the person's own words was read in this turn.
    pub fn of(&self, text: &str) -> Option<String> {
        let turn = self.lock();
        if turn.read.is_empty() || turn.said.contains(&folded(text)) {
            return None;
        }
        let mut named: Vec<&str> = turn.read.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = turn.read.len().saturating_sub(MAX_NAMED);
        let tail = format!("{more} more");
        if more > 0 {
            named.push(&tail);
        }
        Some(format!("saved after: {}", named.join(", ")))
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn folded(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_person_said_in_this_turn_is_the_persons() {
        let sources = TurnSources::default();
        sources.begin("Remember that I  like tea, then read report.txt");
        assert_eq!(sources.of("anything"), None, "nothing was read yet");
        sources.add("read from report.txt");
        sources.add("read from report.txt");
        assert_eq!(sources.of("i like TEA"), None);
        assert_eq!(sources.of("deploy on fridays").unwrap(), "saved after: read from report.txt");
        for number in 0..4 {
            sources.add(format!("read from {number}.txt"));
        }
        assert!(sources.of("x y").unwrap().ends_with("read from 1.txt, 2 more"));
        sources.begin("next");
        assert_eq!(sources.of("deploy on fridays"), None);
    }
}
