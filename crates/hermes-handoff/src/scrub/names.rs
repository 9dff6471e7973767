//! Names of people: those that the session gives, and those that its words introduce.

use std::collections::BTreeSet;

/// Words that introduce a name, the last one first.
const INTRODUCE: [&[&str]; 20] = [
    &["is", "name"],
    &["am", "i"],
    &["i'm"],
    &["is", "this"],
    &["me", "call"],
    &["named"],
    &["by", "signed"],
    &["contact"],
    &["client"],
    &["patient"],
    &["customer"],
    &["colleague"],
    &["heiße", "ich"],
    &["ist", "name", "mein"],
    &["bin", "ich"],
    &["m'appelle", "je"],
    &["suis", "je"],
    &["llamo", "me"],
    &["es", "nombre", "mi"],
    &["chiamo", "mi"],
];

/// Titles in front of a name.
const TITLES: [&str; 16] = [
    "mr", "mrs", "ms", "miss", "dr", "prof", "sir", "herr", "frau", "m", "mme", "monsieur",
    "madame", "señor", "señora", "don",
];

/// Parts of names that are ordinary words as well.
const PARTICLES: [&str; 22] = [
    "van", "von", "der", "den", "de", "del", "della", "di", "da", "la", "le", "el", "bin", "ibn",
    "al", "the", "and", "und", "y", "of", "zu", "mr",
];

/// Capitalised words that are no names.
const COMMON: [&str; 30] = [
    "i", "the", "a", "an", "it", "we", "you", "he", "she", "they", "my", "our", "your", "this",
    "that", "ok", "yes", "no", "not", "and", "or", "but", "in", "on", "at", "please", "thanks",
    "noted", "done", "here",
];

/// Most words of a name that is introduced.
const MOST: usize = 4;

/// The names that a text introduces: behind `my name is` and its like, behind titles, and pairs of
/// capitalised words inside a sentence.
pub fn declared_names(text: &str) -> Vec<String> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<Word<'_>> = words(line);
        let small: Vec<String> =
            words.iter().map(|word| word.text.to_lowercase().replace('’', "'")).collect();
        for at in 0..words.len() {
            if introduced(&small[..at]) || titled(&words, at) {
                take_run(&words, at, 1, &mut names);
            } else if !words[at].opens {
                take_run(&words, at, 2, &mut names);
            }
        }
    }
    names.into_iter().collect()
}

/// In a language that writes all nouns with a capital, more of the words inside sentences have one,
/// in percent.
const NOUNS_HAVE_CAPITALS: usize = 14;

/// Capitalised words inside sentences that never occur in small letters; none if the texts are in a
/// language that writes its nouns so.
pub fn lone_names<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut capital: BTreeSet<String> = BTreeSet::new();
    let mut small: BTreeSet<String> = BTreeSet::new();
    let (mut all, mut capitals) = (0, 0);
    for line in texts.flat_map(str::lines) {
        for word in words(line).iter().filter(|word| !word.opens) {
            all += 1;
            if word.text.starts_with(char::is_lowercase) {
                small.insert(word.text.to_lowercase());
            } else if word.text.chars().count() > 2 && looks_like_a_name(word.text) {
                capitals += 1;
                capital.insert(word.text.to_owned());
            }
        }
    }
    if capitals * 100 > all * NOUNS_HAVE_CAPITALS && all > 200 {
        return Vec::new();
    }
    capital.into_iter().filter(|word| !small.contains(&word.to_lowercase())).collect()
}

/// Adds the run of capitalised words that begins at `at`, if it has at least `fewest`.
fn take_run(words: &[Word<'_>], at: usize, fewest: usize, names: &mut BTreeSet<String>) {
    let run: Vec<&str> = words[at..]
        .iter()
        .take(MOST + 1)
        .enumerate()
        .take_while(|(nth, word)| {
            (*nth == 0 || !word.opens)
                && (looks_like_a_name(word.text) || (*nth > 0 && is_particle(word.text)))
        })
        .map(|(_, word)| word.text)
        .collect();
    let run: Vec<&str> = match run.iter().rposition(|word| looks_like_a_name(word)) {
        Some(last) => run[..=last].to_vec(),
        None => return,
    };
    if run.len() >= fewest {
        names.insert(run.join(" "));
    }
}

struct Word<'a> {
    text: &'a str,
    /// Whether a sentence or a clause begins with it.
    opens: bool,
}

fn words(line: &str) -> Vec<Word<'_>> {
    let mut all = Vec::new();
    let mut opens = true;
    for token in line.split_whitespace() {
        let text = token.trim_matches(|c: char| !c.is_alphanumeric());
        if text.is_empty() {
            opens |= token.ends_with(['.', '!', '?', ':', '-', '*']);
            continue;
        }
        all.push(Word { text, opens });
        // A title's stop ends no sentence.
        opens = token.ends_with(['.', '!', '?', ':', ',', ';']) && !is_title(text);
    }
    all
}

fn is_title(word: &str) -> bool {
    TITLES.contains(&word.to_lowercase().as_str())
}

fn is_particle(word: &str) -> bool {
    PARTICLES.contains(&word)
}

/// Capitalised, or in a script without capitals.
fn looks_like_a_name(word: &str) -> bool {
    let mut characters = word.chars();
    let Some(first) = characters.next() else { return false };
    let capital = first.is_uppercase() && word.chars().count() >= 2;
    let caseless = first.is_alphabetic() && !first.is_lowercase() && !first.is_uppercase();
    (capital || caseless)
        && word.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '’' | '-' | '.'))
        && !COMMON.contains(&word.to_lowercase().as_str())
}

/// Whether a name comes behind these words, which are in small letters.
fn introduced(before: &[String]) -> bool {
    INTRODUCE.iter().any(|phrase| {
        before.len() >= phrase.len()
            && phrase.iter().zip(before.iter().rev()).all(|(wanted, word)| word == wanted)
    })
}

fn titled(words: &[Word<'_>], at: usize) -> bool {
    at > 0 && is_title(words[at - 1].text)
}

/// Takes names, and each telling part of them, out of a text.
pub(super) fn take(text: &str, names: &[String]) -> String {
    let mut parts: BTreeSet<String> = BTreeSet::new();
    let mut caseless: Vec<&str> = Vec::new();
    for name in names {
        let has_case = name.chars().any(|c| c.is_lowercase() || c.is_uppercase());
        if !has_case {
            caseless.push(name);
            continue;
        }
        for part in name.split(|c: char| !c.is_alphabetic()).filter(|part| !part.is_empty()) {
            let lower = fold(part);
            if lower.chars().count() >= 2 && !is_particle(&lower) && !is_mark(&lower) {
                parts.insert(lower);
            }
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        if !word.is_empty() {
            out.push_str(if is_of(&fold(word), &parts) { MARK } else { word });
            word.clear();
        }
    };
    for character in text.chars() {
        if character.is_alphabetic() {
            word.push(character);
        } else {
            flush(&mut word, &mut out);
            out.push(character);
        }
    }
    flush(&mut word, &mut out);
    for name in caseless {
        let bare: String = name.split_whitespace().collect();
        for form in [name, bare.as_str()] {
            if !form.is_empty() {
                out = out.replace(form, MARK);
            }
        }
    }
    joined(&out)
}

/// Particles in front of a name are part of it: `van [name]`.
const OF_NAMES: [&str; 15] = [
    "van", "von", "der", "den", "de", "del", "della", "di", "da", "la", "le", "el", "bin", "ibn",
    "al",
];

/// Takes particles in front of marks, and makes marks in a row one.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        out.push_str(&rest[..at]);
        loop {
            let before = out.trim_end_matches([' ', '-']);
            // White space and hyphens only: a line break parts names.
            let word_at = before
                .rfind(|c: char| !c.is_alphabetic())
                .map_or(0, |end| end + before[end..].chars().next().map_or(1, char::len_utf8));
            let word = before[word_at..].to_lowercase();
            if before.ends_with(MARK) {
                let end = before.len() - MARK.len();
                out.truncate(end);
            } else if OF_NAMES.contains(&word.as_str()) && before.len() < out.len() {
                out.truncate(word_at);
            } else {
                break;
            }
        }
        out.push_str(MARK);
        rest = &rest[at + MARK.len()..];
    }
    out.push_str(rest);
    out
}

const MARK: &str = "[name]";

/// Words of the marks themselves, which would be taken out of themselves for ever.
pub(super) fn is_mark(word: &str) -> bool {
    matches!(
        word,
        "name"
            | "number"
            | "file"
            | "link"
            | "address"
            | "phone"
            | "card"
            | "removed"
            | "bank"
            | "account"
            | "mail"
    )
}

/// Letters that an ending of a name has at most (`Wilhelminas`, `Nowakowi`).
const ENDING: usize = 2;
/// Letters that a name must have to be known with an ending.
const STEM: usize = 4;

/// Whether a folded word is a part of a name, one with an ending, or two of them in one.
fn is_of(word: &str, parts: &BTreeSet<String>) -> bool {
    if parts.contains(word) {
        return true;
    }
    let letters = word.chars().count();
    word.char_indices().enumerate().skip(2).any(|(before, (at, _))| {
        let (start, end) = word.split_at(at);
        let ends = before >= STEM && letters - before <= ENDING;
        parts.contains(start) && (ends || parts.contains(end))
    })
}

/// Letters with the accented forms that are often written without.
const ACCENTED: [(char, &str); 18] = [
    ('a', "áàâäãåāăąạảấầẩẫậắằẳẵặǎ"),
    ('c', "çćĉċč"),
    ('d', "ďđð"),
    ('e', "éèêëēĕėęěẹẻẽếềểễệ"),
    ('g', "ĝğġģ"),
    ('h', "ĥħ"),
    ('i', "íìîïĩīĭįıịỉǐ"),
    ('k', "ķ"),
    ('l', "ĺļľŀł"),
    ('n', "ñńņňŋ"),
    ('o', "óòôöõøōŏőọỏốồổỗộơớờởỡợǒ"),
    ('r', "ŕŗř"),
    ('s', "śŝşšș"),
    ('t', "ţťŧț"),
    ('u', "úùûüũūŭůűųụủưứừửữựǔ"),
    ('w', "ŵ"),
    ('y', "ýÿŷỳỵỷỹ"),
    ('z', "źżž"),
];

/// Small letters without their accents.
fn fold(word: &str) -> String {
    let bare = |c: char| match c {
        ascii if ascii.is_ascii() => ascii,
        other => ACCENTED
            .iter()
            .find(|(_, forms)| forms.contains(other))
            .map_or(other, |(bare, _)| *bare),
    };
    word.chars().flat_map(char::to_lowercase).map(bare).collect()
}
