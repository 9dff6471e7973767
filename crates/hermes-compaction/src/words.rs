//! Words of a text as hashes, for comparing texts without allocating: letters and digits in lower
//! case, plural and tense endings cut, ideographs and kana as pairs.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Passes on a number that is a hash already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
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

fn feed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

fn feed_char(hash: u64, character: char) -> u64 {
    feed(hash, character.encode_utf8(&mut [0; 4]).as_bytes())
}

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

/// The same, and whether the word holds a digit.
pub(crate) fn each_word_kind(text: &str, mut found: impl FnMut(u64, bool)) {
    let bytes = text.as_bytes();
    let mut word = Word::default();
    let mut before: Option<char> = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii() {
            before = None;
            at += 1;
            if byte.is_ascii_alphanumeric() {
                word.push(byte.to_ascii_lowercase());
            } else {
                word.end(&mut found);
            }
            continue;
        }
        let Some(character) = text[at..].chars().next() else { break };
        at += character.len_utf8();
        if is_unspaced(character) {
            word.end(&mut found);
            if let Some(before) = before {
                found(feed_char(feed_char(OFFSET, before), character), false);
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
            word.end(&mut found);
        }
    }
    word.end(&mut found);
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
            found(feed(OFFSET, if self.digits { word } else { stem(word) }), self.digits);
            self.length = 0;
            self.digits = false;
        }
    }
}

/// Cuts the endings that English, and often enough its neighbours, put to words of at least five
/// letters. Words with digits stay as they are.
fn stem(word: &[u8]) -> &[u8] {
    const ENDINGS: [&[u8]; 9] = [b"ions", b"ing", b"ion", b"ies", b"ed", b"es", b"s", b"e", b"y"];
    if word.len() < 5 {
        return word;
    }
    for ending in ENDINGS {
        if word.len() >= ending.len() + 3 && word.ends_with(ending) {
            return &word[..word.len() - ending.len()];
        }
    }
    word
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
    (first.rotate_left(21) ^ second).wrapping_mul(PRIME)
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
    fn words_meet_across_case_endings_and_scripts() {
        assert_eq!(content("Deploying the SERVERS"), content("deployed server"));
        assert_eq!(content("the and of"), WordSet::default());
        assert!(share(&content("検索"), &content("全文検索エンジン")) > 0.99);
        assert!(share(&content("port 8080"), &content("port 8081")) < 0.6);
    }
}
