//! English stems after Porter ("An algorithm for suffix stripping", Program 14(3), 1980), with his
//! later departures for `-logi` and `-bli`. Words of other languages pass through the same rules:
//! question and message are treated alike, which is all that a search needs.

/// Longer words have no suffix that matters.
const LONGEST: usize = 40;

/// A word in the making: its letters up to `end`.
struct Stemmer {
    letters: [u8; LONGEST],
    end: usize,
}

/// Appends the stem of a lower-case word to `out`; a word that is not plain ASCII letters, or very
/// short, is appended as it is.
pub(super) fn push_stem(word: &str, out: &mut String) {
    let bytes = word.as_bytes();
    if !(3..=LONGEST).contains(&bytes.len()) || !bytes.iter().all(u8::is_ascii_lowercase) {
        out.push_str(word);
        return;
    }
    let mut letters = [0; LONGEST];
    letters[..bytes.len()].copy_from_slice(bytes);
    let mut stemmer = Stemmer { letters, end: bytes.len() };
    stemmer.run();
    out.extend(stemmer.word().iter().map(|letter| char::from(*letter)));
}

/// Suffix, what takes its place.
type Rule = (&'static str, &'static str);

const STEP_2: &[Rule] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];

const STEP_3: &[Rule] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

impl Stemmer {
    fn word(&self) -> &[u8] {
        self.letters.get(..self.end).unwrap_or_default()
    }

    fn is_consonant(&self, at: usize) -> bool {
        match self.letters[at] {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => at == 0 || !self.is_consonant(at - 1),
            _ => true,
        }
    }

    /// How many times a vowel is followed by a consonant in the first `end` letters.
    fn measure(&self, end: usize) -> usize {
        (1..end).filter(|at| self.is_consonant(*at) && !self.is_consonant(at - 1)).count()
    }

    fn has_vowel(&self, end: usize) -> bool {
        (0..end).any(|at| !self.is_consonant(at))
    }

    fn ends_double(&self) -> bool {
        self.end >= 2
            && self.letters[self.end - 1] == self.letters[self.end - 2]
            && self.is_consonant(self.end - 1)
    }

    /// Consonant, vowel, consonant other than w, x, y, at the end of the first `end` letters.
    fn ends_cvc(&self, end: usize) -> bool {
        end >= 3
            && self.is_consonant(end - 3)
            && !self.is_consonant(end - 2)
            && self.is_consonant(end - 1)
            && !matches!(self.letters[end - 1], b'w' | b'x' | b'y')
    }

    /// Where the suffix begins, if the word ends with it. Its two ends are looked at first: that
    /// settles nearly all of the seventy that are tried on every word.
    fn suffix(&self, suffix: &str) -> Option<usize> {
        let suffix = suffix.as_bytes();
        let at = self.end.checked_sub(suffix.len())?;
        let ends = self.letters.get(self.end.checked_sub(1)?) == suffix.last()
            && self.letters.get(at) == suffix.first();
        (ends && self.letters.get(at..self.end) == Some(suffix)).then_some(at)
    }

    fn set(&mut self, from: usize, ending: &str) {
        let end = from + ending.len();
        if let Some(place) = self.letters.get_mut(from..end) {
            place.copy_from_slice(ending.as_bytes());
            self.end = end;
        }
    }

    /// The first suffix that fits decides, whether or not its condition holds.
    fn replace(&mut self, rules: &[Rule]) {
        let longest = rules
            .iter()
            .filter_map(|rule| self.suffix(rule.0).map(|at| (at, rule.1)))
            .min_by_key(|(at, _)| *at);
        if let Some((at, ending)) = longest
            && self.measure(at) > 0
        {
            self.set(at, ending);
        }
    }

    fn run(&mut self) {
        self.plurals();
        self.past_and_progressive();
        if let Some(at) = self.suffix("y")
            && self.has_vowel(at)
        {
            self.set(at, "i");
        }
        self.replace(STEP_2);
        self.replace(STEP_3);
        self.last_suffix();
        self.tidy();
    }

    fn plurals(&mut self) {
        if let Some(at) = self.suffix("sses") {
            self.set(at, "ss");
        } else if let Some(at) = self.suffix("ies") {
            self.set(at, "i");
        } else if self.suffix("ss").is_none()
            && let Some(at) = self.suffix("s")
            && at >= 2
        {
            self.set(at, "");
        }
    }

    fn past_and_progressive(&mut self) {
        if let Some(at) = self.suffix("eed") {
            if self.measure(at) > 0 {
                self.set(at, "ee");
            }
            return;
        }
        let at = self.suffix("ed").or_else(|| self.suffix("ing"));
        let Some(at) = at.filter(|at| self.has_vowel(*at)) else { return };
        self.set(at, "");
        if ["at", "bl", "iz"].iter().any(|end| self.suffix(end).is_some()) {
            self.set(self.end, "e");
        } else if self.ends_double() && !matches!(self.letters[self.end - 1], b'l' | b's' | b'z') {
            self.end -= 1;
        } else if self.measure(self.end) == 1 && self.ends_cvc(self.end) {
            self.set(self.end, "e");
        }
    }

    fn last_suffix(&mut self) {
        let longest = STEP_4.iter().filter_map(|suffix| self.suffix(suffix)).min();
        let Some(at) = longest.filter(|at| self.measure(*at) > 1) else { return };
        let is_ion = self.end - at == 3 && self.suffix("ion").is_some();
        if !is_ion || (at > 0 && matches!(self.letters[at - 1], b's' | b't')) {
            self.set(at, "");
        }
    }

    fn tidy(&mut self) {
        if let Some(at) = self.suffix("e") {
            let measure = self.measure(at);
            if measure > 1 || (measure == 1 && !self.ends_cvc(at)) {
                self.set(at, "");
            }
        }
        if self.ends_double() && self.letters[self.end - 1] == b'l' && self.measure(self.end) > 1 {
            self.end -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_family_share_a_stem() {
        let check = |word: &str, expected: &str| {
            let mut out = String::new();
            push_stem(word, &mut out);
            assert_eq!(out, expected, "{word}");
        };
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("cats", "cat"),
            ("agreed", "agre"),
            ("feed", "feed"),
            ("plastered", "plaster"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("hopping", "hop"),
            ("filing", "file"),
            ("failing", "fail"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("conditional", "condit"),
            ("digitizer", "digit"),
            ("vietnamization", "vietnam"),
            ("hopefulness", "hope"),
            ("triplicate", "triplic"),
            ("electrical", "electr"),
            ("goodness", "good"),
            ("revival", "reviv"),
            ("adoption", "adopt"),
            ("replacement", "replac"),
            ("probate", "probat"),
            ("rate", "rate"),
            ("controll", "control"),
            ("roll", "roll"),
            ("is", "is"),
            ("as", "as"),
            ("straße", "straße"),
            ("deploying", "deploi"),
            ("deployed", "deploi"),
        ] {
            check(word, expected);
        }
    }

    #[test]
    fn no_word_is_too_long_or_too_odd() {
        for word in ["", "s", "ss", "ing", "eed", "yyyyy", &"s".repeat(200), &"ing".repeat(13)] {
            push_stem(word, &mut String::new());
        }
    }
}
