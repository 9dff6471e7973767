//! Words by which people and models mark decisions, rules, corrections, open points and errors.
//!
//! They only decide what is likely to be worth keeping; nothing is asserted because of them.

use std::sync::OnceLock;

use crate::words::{WordMap, each_plain_word, hash_word, pair};

/// What a sentence is, as far as its words tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cue {
    /// Nothing in particular.
    #[default]
    None,
    /// Something failed.
    Problem,
    /// Something is still to be done.
    Open,
    /// Something was decided, with or without its reason.
    Decision,
    /// Something must or must not be.
    Rule,
    /// Something said before no longer holds.
    Correction,
}

impl Cue {
    pub(crate) const fn weight(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Problem => 0.7,
            Self::Open => 1.8,
            Self::Decision | Self::Rule => 2.0,
            Self::Correction => 2.6,
        }
    }
}

/// Single words and pairs of words, by what they mark.
const WORDS: [(Cue, &str); 5] = [
    (
        Cue::Correction,
        "correction actually instead no+longer changed+to changed+from scratch+that was+wrong \
         is+wrong not+anymore any+more supersedes replaces reverted overrule overruled retract \
         moved+to switched+to forget \
         disregard ignore+what never+mind nevermind mistaken misspoke my+mistake i+meant revised \
         on+reflection second+thought second+thoughts after+all turns+out rather+than take+back \
         took+back taken+back withdraw withdrawn void obsolete outdated vergiss sondern \
         zurückgenommen widerrufen oublie olvida korrektur stattdessen doch+nicht nicht+mehr geändert plutôt \
         ne+plus en+lugar ya+no 訂正 更正",
    ),
    (
        Cue::Rule,
        "must mustn never always forbidden required require mandatory at+most at+least no+more \
         not+allowed may+not should+not shouldn do+not don only+use only+if under+no constraint \
         policy limit prohibited muss müssen darf+nicht niemals immer verboten höchstens \
         mindestens doit jamais toujours interdit debe nunca siempre prohibido 必ず 禁止",
    ),
    (
        Cue::Decision,
        "decided decide decision agreed agree we+will we+ll let+s go+with going+with chose chosen \
         choose settled prefer preference because rationale opted entschieden entscheidung \
         beschlossen weil décidé décision parce+que decidido decisión porque 決定",
    ),
    (
        Cue::Open,
        "todo to+do still+need still+open remaining pending remember+to follow+up not+yet \
         later unfinished outstanding backlog need+to needs+to unresolved noch+offen ausstehend \
         à+faire pendiente 未完",
    ),
    (
        Cue::Problem,
        "error failed failure panic panicked exception traceback fatal denied refused timeout \
         aborted crash crashed fehler fehlgeschlagen erreur échoué fallo エラー",
    ),
];

/// The table, built once.
pub(crate) struct Cues {
    /// A bit for each part of the hashes that `words` may hold: few words pass.
    hint: [u64; HINTS / 64],
    words: WordMap<Known>,
    pairs: WordMap<Cue>,
}

/// Bits of the first look.
const HINTS: usize = 8_192;

/// What is known of a single word.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    cue: Cue,
    /// Whether a pair begins with it.
    begins: bool,
    corrects: bool,
}

/// What was read of one sentence.
pub(crate) struct Marks {
    pub(crate) cue: Cue,
    pub(crate) reverses: bool,
    /// Equal for sentences that differ in their values only.
    pub(crate) template: u64,
}

impl Cues {
    pub(crate) fn get() -> &'static Self {
        static TABLE: OnceLock<Cues> = OnceLock::new();
        TABLE.get_or_init(Self::build)
    }

    fn build() -> Self {
        let mut words: WordMap<Known> = WordMap::default();
        let mut pairs = WordMap::default();
        for (cue, list) in WORDS {
            for entry in list.split_whitespace() {
                let Some((first, second)) = entry.split_once('+') else {
                    let Some(word) = hash_word(entry) else { continue };
                    let known = words.entry(word).or_default();
                    if known.cue == Cue::None {
                        known.cue = cue;
                    }
                    known.corrects |= cue == Cue::Correction;
                    continue;
                };
                if let (Some(a), Some(b)) = (hash_word(first), hash_word(second)) {
                    pairs.entry(pair(a, b)).or_insert(cue);
                    words.entry(a).or_default().begins = true;
                }
            }
        }
        let mut hint = [0; HINTS / 64];
        for word in words.keys() {
            let (place, bit) = Self::place(*word);
            hint[place] |= bit;
        }
        Self { hint, words, pairs }
    }

    const fn place(word: u64) -> (usize, u64) {
        let bit = (word >> 32) as usize % HINTS;
        (bit / 64, 1 << (bit % 64))
    }

    fn known(&self, word: u64) -> Known {
        let (place, bit) = Self::place(word);
        if self.hint[place] & bit == 0 {
            return Known::default();
        }
        self.words.get(&word).copied().unwrap_or_default()
    }

    /// Reads one sentence; its words without digits are added to `words`.
    pub(crate) fn read(&self, sentence: &str, words: &mut Vec<u64>) -> Marks {
        let mut cue = Cue::None;
        // The word before, if a pair may begin with it.
        let mut before = None;
        let mut template = 0u64;
        each_plain_word(sentence, |word, digits| {
            // Nothing with a digit marks anything, nor is it part of what a sentence is like.
            if digits {
                before = None;
                return;
            }
            let known = self.known(word);
            if let Some(both) = before.and_then(|before| self.pairs.get(&pair(before, word))) {
                cue = cue.max(*both);
            }
            cue = cue.max(known.cue);
            template = pair(template, word);
            words.push(word);
            before = known.begins.then_some(word);
        });
        Marks { cue, reverses: cue == Cue::Correction, template }
    }

    pub(crate) fn is_correction(&self, word: u64) -> bool {
        self.known(word).corrects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_are_read_in_several_languages() {
        let check = |text: &str, expected: Cue| {
            assert_eq!(Cues::get().read(text, &mut Vec::new()).cue, expected, "{text}");
        };
        check("We decided to use Postgres because of its JSON support.", Cue::Decision);
        check("Never push to main.", Cue::Rule);
        check("Das darf nicht gelöscht werden.", Cue::Rule);
        check("Correction: the port is 9090.", Cue::Correction);
        check("The region is no longer eu-west-1.", Cue::Correction);
        check("The remaining pages are pending.", Cue::Open);
        check("build failed with E0433", Cue::Problem);
        check("The sky is blue.", Cue::None);
    }

    #[test]
    fn sentences_that_differ_in_values_share_a_template() {
        let read = |text: &str| Cues::get().read(text, &mut Vec::new()).template;
        assert_eq!(read("record fact F01 = 37"), read("record fact F02 = 74"));
        assert_ne!(read("record fact F01 = 37"), read("drop fact F02 = 74"));
    }
}
