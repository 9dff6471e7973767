//! How a text becomes tokens, for the index and for questions alike.
//!
//! A *word* is a run of letters and digits, cut where letters meet digits or a capital follows a
//! small letter, lower case, without accents, stemmed. Scripts without spaces give one word a
//! character. Words stand in the order of the text, so that a phrase is a sequence of them.
//!
//! A *whole* is what a person would call one thing though it has several words: `src/main.py`,
//! `sp_new1`, `8.8.8.8`, `C++`, a pair of neighbouring characters of a script without spaces.
//!
//! Invariant: no token holds a white space, a quote or a parenthesis, so that any token can stand
//! between double quotes in a question to the index.

use super::fold::{is_silent, plain, push_folded};
use super::stem::push_stem;

/// The number of the rules by which texts become tokens ([`super::stem`] and [`super::fold`] among
/// them) and by which texts are chosen (`index.rs`). It goes up with every change to what they give:
/// then what was indexed by older rules is renewed (`renew.rs`).
pub(super) const TOKENS: u32 = 2;

/// Longer tokens are cut: nobody types them.
const LONGEST: usize = 72;

/// A word with more pieces than this (a digest, base64) stays in one piece.
const MOST_PIECES: usize = 6;

/// The tokens of a text, each list joined by spaces as the index takes it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    /// Words in order.
    pub(super) words: String,
    /// Wholes.
    pub(super) wholes: String,
}

/// Receives tokens.
pub(super) trait Sink {
    /// The next word.
    fn word(&mut self, token: &str);
    /// A whole.
    fn whole(&mut self, token: &str);
    /// Whether any word that begins with this byte matters. One that does not is passed over: a stem
    /// begins as its word does.
    fn wants(&self, _first: u8) -> bool {
        true
    }
    /// The next word is one that does not matter.
    fn other(&mut self) {}
}

impl Sink for Tokens {
    fn word(&mut self, token: &str) {
        push(&mut self.words, token);
    }

    fn whole(&mut self, token: &str) {
        push(&mut self.wholes, token);
    }
}

fn push(list: &mut String, token: &str) {
    if !list.is_empty() {
        list.push(' ');
    }
    list.push_str(token);
}

/// Tokens of a text.
pub(super) fn tokens_of(text: &str) -> Tokens {
    let mut tokens = Tokens::default();
    Tokenizer::default().run(text, &mut tokens);
    tokens
}

/// What kind of character it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A letter or digit of a script with spaces.
    Word,
    /// A character that stands for itself: scripts without spaces, pictures.
    Single,
    /// Belongs to the word and is not written.
    Silent,
    /// Anything else.
    Other,
}

fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Word,
        _ if is_silent(c) => Class::Silent,
        _ if c.is_ascii() => Class::Other,
        // Thai to Myanmar, Khmer; kana, Han, Hangul; pictures.
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}' => Class::Single,
        _ if is_picture(c) => Class::Single,
        _ if c.is_alphanumeric() => Class::Word,
        _ => Class::Other,
    }
}

const fn is_picture(c: char) -> bool {
    matches!(c, '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a pair of these makes a whole; pictures do not.
fn pairs(c: char) -> bool {
    class(c) == Class::Single && !is_picture(c)
}

/// Punctuation that belongs to the sentence and not to the thing, at its beginning and its end.
const fn is_wrapping(c: char, at_start: bool) -> bool {
    match c {
        '('
        | ')'
        | '['
        | ']'
        | '{'
        | '}'
        | '<'
        | '>'
        | '"'
        | '\''
        | '`'
        | '*'
        | ','
        | ';'
        | ':'
        | '!'
        | '?'
        | '|'
        | '='
        | '~'
        | '\u{2018}'..='\u{201f}'
        | '\u{2026}' => true,
        '.' | '/' | '-' | '\\' | '&' => !at_start,
        _ => false,
    }
}

/// What cuts a long thing into smaller things.
const fn is_joint(c: char) -> bool {
    matches!(
        c,
        '/' | '\\'
            | '?'
            | '&'
            | '='
            | ','
            | ';'
            | '|'
            | '('
            | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '"'
            | '<'
            | '>'
            | '`'
    )
}

/// Cuts texts; its buffers are used again from one chunk to the next.
#[derive(Default)]
pub(super) struct Tokenizer {
    raw: Vec<char>,
    folded: String,
    token: String,
}

impl Tokenizer {
    /// Gives the tokens of `text` to `sink`.
    pub(super) fn run(&mut self, text: &str, sink: &mut impl Sink) {
        for chunk in plain(text).split(|c: char| c.is_whitespace() || c.is_control()) {
            if !chunk.is_empty() {
                self.chunk(chunk, sink);
            }
        }
    }

    /// A run without white space.
    fn chunk(&mut self, chunk: &str, sink: &mut impl Sink) {
        if chunk.bytes().all(|b| b.is_ascii_lowercase()) {
            self.plain(chunk, sink);
            return;
        }
        self.words(chunk, sink);
        let inner = chunk
            .trim_start_matches(|c| is_wrapping(c, true))
            .trim_end_matches(|c| is_wrapping(c, false));
        if self.whole(inner, sink) && inner.contains(is_joint) {
            for piece in inner.split(is_joint) {
                let piece = piece.trim_matches(|c| is_wrapping(c, false));
                self.whole(piece, sink);
            }
        }
    }

    /// The most frequent case: small letters only.
    fn plain(&mut self, word: &str, sink: &mut impl Sink) {
        if !word.bytes().next().is_some_and(|first| sink.wants(first)) {
            sink.other();
            return;
        }
        self.token.clear();
        push_stem(cut(word), &mut self.token);
        sink.word(&self.token);
    }

    /// A whole, if the thing is more than one word; false for what has no other character in it.
    fn whole(&mut self, thing: &str, sink: &mut impl Sink) -> bool {
        let mut words = false;
        let mut others = false;
        for c in thing.chars() {
            match class(c) {
                Class::Word => words = true,
                Class::Other => others = true,
                Class::Single => return false,
                Class::Silent => {}
            }
        }
        if !words || !others {
            return false;
        }
        self.token.clear();
        for c in thing.chars() {
            if !matches!(c, '"' | '\'' | '(' | ')' | '\u{2019}') {
                push_folded(c, &mut self.token);
            }
        }
        if self.token.len() <= LONGEST && !self.token.is_empty() {
            sink.whole(&self.token);
        }
        true
    }

    /// The words of a chunk.
    fn words(&mut self, chunk: &str, sink: &mut impl Sink) {
        let mut before: Option<char> = None;
        self.raw.clear();
        for c in chunk.chars() {
            match class(c) {
                Class::Word => {
                    self.raw.push(c);
                    before = None;
                }
                Class::Silent => {}
                Class::Single => {
                    self.end_word(sink);
                    self.single(c, before, sink);
                    before = Some(c);
                }
                Class::Other => {
                    self.end_word(sink);
                    before = None;
                }
            }
        }
        self.end_word(sink);
    }

    fn single(&mut self, c: char, before: Option<char>, sink: &mut impl Sink) {
        self.token.clear();
        self.token.push(c);
        sink.word(&self.token);
        if let Some(before) = before.filter(|before| pairs(*before) && pairs(c)) {
            self.token.insert(0, before);
            sink.whole(&self.token);
        }
    }

    fn end_word(&mut self, sink: &mut impl Sink) {
        if self.raw.is_empty() {
            return;
        }
        let raw = std::mem::take(&mut self.raw);
        let seams: Vec<usize> =
            (1..raw.len()).filter(|at| is_seam(raw[at - 1], raw[*at])).collect();
        if seams.is_empty() || seams.len() >= MOST_PIECES {
            self.piece(&raw, sink);
        } else {
            let mut from = 0;
            for to in seams.iter().copied().chain([raw.len()]) {
                self.piece(&raw[from..to], sink);
                from = to;
            }
            self.folded.clear();
            for c in &raw {
                push_folded(*c, &mut self.folded);
            }
            self.token.clear();
            push_stem(cut(&self.folded), &mut self.token);
            sink.whole(&self.token);
        }
        self.raw = raw;
        self.raw.clear();
    }

    fn piece(&mut self, letters: &[char], sink: &mut impl Sink) {
        self.folded.clear();
        for c in letters {
            push_folded(*c, &mut self.folded);
        }
        let Some(first) = self.folded.bytes().next() else { return };
        if !sink.wants(first) {
            sink.other();
            return;
        }
        self.token.clear();
        push_stem(cut(&self.folded), &mut self.token);
        sink.word(&self.token);
    }
}

/// Whether a word is cut between these two.
fn is_seam(before: char, after: char) -> bool {
    before.is_numeric() != after.is_numeric() || (before.is_lowercase() && after.is_uppercase())
}

fn cut(word: &str) -> &str {
    if word.len() <= LONGEST {
        return word;
    }
    let end = (0..=LONGEST).rev().find(|at| word.is_char_boundary(*at)).unwrap_or(0);
    word.get(..end).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_become_words_and_wholes() {
        let check = |text: &str, words: &str, wholes: &str| {
            let tokens = tokens_of(text);
            assert_eq!((&*tokens.words, &*tokens.wholes), (words, wholes), "{text}");
        };
        check("The cats were running.", "the cat were run", "");
        check("src/main.py", "src main py", "src/main.py main.py");
        check("don't Anna's", "dont anna", "");
        check("sp_new1", "sp new 1", "new1 sp_new1");
        check("fooBar v2.1.3", "foo bar v 2 1 3", "foobar v2 v2.1.3");
        check("(C++), #123 $5 50% .env", "c 123 5 50 env", "c++ #123 $5 50% .env");
        check("mail alice@example.com!", "mail alic exampl com", "alice@example.com");
        check("数据库 hello", "数 据 库 hello", "数据 据库");
        check("Größe CAFÉ ＡＢＣ", "gross cafe abc", "");
        check("😀 ok", "😀 ok", "");
        check("", "", "");
        check("-- ** ()", "", "");
        let hex = "a3f9c1d2e4b5a6978812";
        assert_eq!(tokens_of(hex).words, hex);
    }

    #[test]
    fn a_bracket_of_full_width_in_a_name_cannot_end_a_question() {
        for text in ["\u{ff08}\u{1e950}", "Ａ（１）", "＂Ａ＂１"] {
            let tokens = tokens_of(text);
            assert!(!tokens.wholes.contains(['"', '(', ')']), "{text}: {tokens:?}");
            assert!(!tokens.words.contains(['"', '(', ')']), "{text}: {tokens:?}");
        }
        assert_eq!(tokens_of("Ｃ＋＋１").wholes, tokens_of("C++1").wholes);
    }

    /// Where this fails, texts become other tokens than before: then `TOKENS` goes up, so that what
    /// is indexed in the stores of people is renewed, and the digest becomes that of the new ones.
    #[test]
    fn other_tokens_have_another_number() {
        const TEXT: &str = "The cats' relational conditions were hoping, hopped, agreed; flies died.
            Generalizations oscillate; controlling decisiveness, formality, sensitivities, triplicate.
            fooBar HTTPServer2 snake_case_name src/main.rs v2.1.3 C++ #42 $5 50% .env 8.8.8.8:443
            alice@example.com don't O\u{2019}Neil Größe CAFÉ łódź ΑΘΗΝΑ Привет מים مرحبا
            ＡＢＣ（１）＂x＂ 数据库查询 カタカナ 한국어 ภาษาไทย 😀✂ e\u{301}te\u{ad}r soft\u{200b}ware
            a3f9c1d2e4b5a6978812 aGVsbG8gd29ybGQhIQ== https://example.org/a-b?q=1&r=two \"quoted\"
            Ti\u{1ebf}ng Vi\u{1ec7}t \u{1112}\u{1161}\u{11ab} か\u{3099} ﾃﾞ Αθήνας ёж й مَرحبا \u{feff}x \u{1b}[31mred\u{1b}[0m";
        let tokens = tokens_of(TEXT);
        let digest = hermes_core::Digest::of(format!("{}\n{}", tokens.words, tokens.wholes));
        assert_eq!((TOKENS, &*digest.short()), (2, "9b50439dc115"));
    }

    proptest! {
        #[test]
        fn any_text_gives_tokens_that_can_be_asked_for(text in "\\PC{0,60}") {
            let tokens = tokens_of(&text);
            for list in [&tokens.words, &tokens.wholes] {
                prop_assert!(!list.contains(['"', '(', ')', '\0']));
                for token in list.split(' ').filter(|token| !token.is_empty()) {
                    prop_assert!(!token.contains(char::is_whitespace));
                    prop_assert!(token.len() <= LONGEST + 8, "{token}");
                }
            }
        }
    }
}
