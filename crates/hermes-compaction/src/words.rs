//! Words of a text as hashes, for comparing texts without allocating: letters and digits in lower
//! case, plural and tense endings cut, ideographs and kana as pairs.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Where every hash begins, and what spreads its bits: odd numbers without a pattern.
const SEED: u64 = 0x2d35_8dcc_aa6c_78a5;
const SPREAD: u64 = 0x8bb8_4b93_962e_acc9;

/// Multiplies and folds the upper half of the product onto the lower.
const fn mix(number: u64) -> u64 {
    let product = number as u128 * SPREAD as u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// The bit that makes ASCII letters small and leaves digits as they are, in every byte.
const SMALL: u64 = 0x2020_2020_2020_2020;

/// The hash of some bytes, eight at a time, with the bits of `fold` set in each.
fn hash(bytes: &[u8], fold: u64) -> u64 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut state = SEED ^ bytes.len() as u64;
    for eight in eights {
        state = mix(state ^ (u64::from_le_bytes(*eight) | fold));
    }
    // The pieces of a rest may overlap: with its length they still tell it.
    let four = |at: usize| {
        rest.get(at..at + 4)
            .and_then(|four| four.first_chunk::<4>())
            .map_or(0, |four| u64::from(u32::from_le_bytes(*four)))
    };
    match *rest {
        [] => mix(state),
        [a] => mix(state ^ (u64::from(a) | fold & 0xff)),
        [a, b] => mix(state ^ (u64::from(a) | u64::from(b) << 8 | fold & 0xffff)),
        [a, b, c] => {
            let three = u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16;
            mix(state ^ (three | fold & 0xff_ffff))
        }
        _ => mix(state ^ (four(0) | four(rest.len() - 4) << 32 | fold)),
    }
}

/// Passes on a number that is a hash already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = mix(self.0 ^ hash(bytes, 0));
    }

    fn write_u8(&mut self, _: u8) {
        // The mark behind a text, which keeps pairs of texts apart; there are none here.
    }

    fn write_u64(&mut self, number: u64) {
        // The low bits choose the bucket, the high ones the tag.
        self.0 = number ^ (number >> 29);
    }
}

/// A set of words.
pub(crate) type WordSet = HashSet<u64, BuildHasherDefault<AsIs>>;
/// Something for each word.
pub(crate) type WordMap<V> = HashMap<u64, V, BuildHasherDefault<AsIs>>;
/// Something for each text, looked up by eight bytes at a time.
pub(crate) type TextMap<'a, V> = HashMap<&'a str, V, BuildHasherDefault<AsIs>>;

/// Scripts that write words without spaces.
const fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{2e80}'..='\u{2fdf}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Calls `found` with every word of `text`, in order, common ones included.
pub(crate) fn each_word(text: &str, mut found: impl FnMut(u64)) {
    each_word_kind(text, |word, _| found(word));
}

/// ASCII letters and digits, by byte.
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const KINDS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 128 {
        let byte = at as u8;
        if byte.is_ascii_alphabetic() {
            table[at] = LETTER;
        } else if byte.is_ascii_digit() {
            table[at] = DIGIT;
        }
        at += 1;
    }
    table
};

/// The same, and whether the word holds a digit.
pub(crate) fn each_word_kind(text: &str, found: impl FnMut(u64, bool)) {
    read_words::<true>(text, found);
}

/// The same; what holds a digit is counted, not told: its number is 0.
pub(crate) fn each_plain_word(text: &str, found: impl FnMut(u64, bool)) {
    read_words::<false>(text, found);
}

fn read_words<const ALL: bool>(text: &str, mut found: impl FnMut(u64, bool)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let mut seen = 0;
        while let Some(byte) = bytes.get(at) {
            let kind = KINDS[usize::from(*byte)];
            if kind == 0 {
                break;
            }
            seen |= kind;
            at += 1;
        }
        if bytes.get(at).is_some_and(|byte| !byte.is_ascii()) {
            at = wide_words(text, start, &mut found);
            continue;
        }
        if at > start {
            let digits = seen & DIGIT != 0;
            let word = &bytes[start..at.min(start + Word::LONGEST)];
            match (digits, ALL) {
                (false, _) => found(hash(stem(word), SMALL), false),
                (true, true) => found(hash(word, SMALL), true),
                (true, false) => found(0, true),
            }
        }
        at += 1;
    }
}

/// Reads words with other characters than ASCII, from `start` to the next ASCII character that
/// belongs to no word. Returns where that is.
fn wide_words(text: &str, start: usize, found: &mut impl FnMut(u64, bool)) -> usize {
    let mut word = Word::default();
    let mut before: Option<char> = None;
    let mut at = start;
    for character in text[start..].chars() {
        if character.is_ascii() {
            before = None;
            if !character.is_ascii_alphanumeric() {
                break;
            }
            word.push(character.to_ascii_lowercase() as u8);
        } else if is_unspaced(character) {
            word.end(found);
            if let Some(before) = before {
                found(
                    mix(u64::from(u32::from(before)) << 32 | u64::from(u32::from(character))),
                    false,
                );
            }
            before = Some(character);
        } else if character.is_alphanumeric() {
            before = None;
            for lower in character.to_lowercase() {
                for byte in lower.encode_utf8(&mut [0; 4]).bytes() {
                    word.push(byte);
                }
            }
        } else {
            before = None;
            word.end(found);
        }
        at += character.len_utf8();
    }
    word.end(found);
    at
}

/// A word that is being read, in lower case. Of very long ones only the start counts.
struct Word {
    bytes: [u8; Self::LONGEST],
    length: usize,
    digits: bool,
}

impl Default for Word {
    fn default() -> Self {
        Self { bytes: [0; Self::LONGEST], length: 0, digits: false }
    }
}

impl Word {
    const LONGEST: usize = 96;

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
            self.digits |= byte.is_ascii_digit();
        }
    }

    fn end(&mut self, found: &mut impl FnMut(u64, bool)) {
        if self.length > 0 {
            let word = &self.bytes[..self.length];
            found(hash(if self.digits { word } else { stem(word) }, 0), self.digits);
            self.length = 0;
            self.digits = false;
        }
    }
}

/// Cuts the endings that English, and often enough its neighbours, put to words of at least five
/// letters. Words with digits stay as they are.
fn stem(word: &[u8]) -> &[u8] {
    let [.., _, d, c, b, a] = word else { return word };
    // From the end, in small letters.
    let [a, b, c, d] = [a, b, c, d].map(u8::to_ascii_lowercase);
    let cut = match (d, c, b, a) {
        (b'i', b'o', b'n', b's') if word.len() >= 7 => 4,
        (_, b'i', b'n', b'g') | (_, b'i', b'o', b'n') | (_, b'i', b'e', b's')
            if word.len() >= 6 =>
        {
            3
        }
        (_, _, b'e', b'd' | b's') => 2,
        (_, _, _, b's' | b'e' | b'y') => 1,
        _ => 0,
    };
    &word[..word.len() - cut]
}

/// Words that say nothing about what a text is about.
const COMMON: &str = "a an and are as at be been but by can could did do does for from had has have \
    how i if in into is it its just me my no not now of on or our out please so some than that the \
    their them then there these they this to up us was we were what when where which who why will \
    with would you your der die das und ist ein eine nicht mit von zu den dem auf für im es ich sie \
    le la les et un une des est en du pour que qui dans el los las y de por con para una \
    don t s ll re ve m ok yes thanks";

/// The set of common words.
pub(crate) fn common() -> &'static WordSet {
    static SET: std::sync::OnceLock<WordSet> = std::sync::OnceLock::new();
    SET.get_or_init(|| {
        let mut set = WordSet::default();
        each_word(COMMON, |word| {
            set.insert(word);
        });
        set
    })
}

/// The words of a text that say something, each once.
pub(crate) fn content(text: &str) -> WordSet {
    let common = common();
    let mut set = WordSet::default();
    each_word(text, |word| {
        if !common.contains(&word) {
            set.insert(word);
        }
    });
    set
}

/// The hash of one word given as text; None unless it is exactly one.
pub(crate) fn hash_word(text: &str) -> Option<u64> {
    let mut all = Vec::new();
    each_word(text, |word| all.push(word));
    match all[..] {
        [word] => Some(word),
        _ => None,
    }
}

/// One number for two words in this order.
pub(crate) const fn pair(first: u64, second: u64) -> u64 {
    (first.rotate_left(21) ^ second).wrapping_mul(SPREAD)
}

/// The share of `of`'s words that `within` has too; 0 if `of` has none.
pub(crate) fn share(of: &WordSet, within: &WordSet) -> f64 {
    if of.is_empty() {
        return 0.0;
    }
    of.iter().filter(|word| within.contains(word)).count() as f64 / of.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_cut_from_words_of_five_letters_on() {
        let check = |word: &str, expected: &str| {
            assert_eq!(std::str::from_utf8(stem(word.as_bytes())).unwrap(), expected, "{word}");
        };
        check("versions", "vers");
        check("unions", "union");
        check("deploying", "deploy");
        check("being", "being");
        check("ponies", "pon");
        check("cries", "cri");
        check("moved", "mov");
        check("boxes", "box");
        check("ports", "port");
        check("Cached", "Cach");
        check("store", "stor");
        check("rely", "rely");
        check("jetty", "jett");
        check("harbour", "harbour");
        check("", "");
    }

    #[test]
    fn a_word_is_the_same_alone_and_beside_other_scripts() {
        let all = |text: &str| {
            let mut found = Vec::new();
            each_word_kind(text, |word, digits| found.push((word, digits)));
            found
        };
        for word in
            ["a", "To", "FOR", "four", "Seven77", "harbours", "configuration", "x1y2z3w4v5u6t7s8r9"]
        {
            let alone = all(word);
            assert_eq!(alone.len(), 1, "{word}");
            assert_eq!(all(&word.to_lowercase()), alone, "{word}");
            // What follows is read by the slower way.
            assert_eq!(all(&format!("{word}“quoted")).first(), alone.first(), "{word}");
            assert_eq!(all(&format!("„{word}“")), alone, "{word}");
            assert_ne!(all(&format!("{word}é")), alone, "{word}");
        }
        assert_eq!(all("ÉTÉ"), all("été"));
        assert_eq!(all("Straße 12").len(), 2);
        assert_ne!(all("ab"), all("abc"));
        let long = "a".repeat(200);
        assert_eq!(
            all(&long),
            all(&format!("{long}b")),
            "only the start of a very long word counts"
        );
    }

    #[test]
    fn words_meet_across_case_endings_and_scripts() {
        assert_eq!(content("Deploying the SERVERS"), content("deployed server"));
        assert_eq!(content("the and of"), WordSet::default());
        assert!(share(&content("検索"), &content("全文検索エンジン")) > 0.99);
        assert!(share(&content("port 8080"), &content("port 8081")) < 0.6);
    }
}
