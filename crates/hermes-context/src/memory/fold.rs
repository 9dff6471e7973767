//! Typography folded away: what a model types for what a person pasted.

use std::ops::Range;

/// A text with its dashes, quotes, dots and white space made plain, and where each character of it
/// came from.
pub(super) struct Folded {
    pub(super) text: String,
    /// For each byte of `text` the range of the original it stands for.
    origin: Vec<Range<usize>>,
}

impl Folded {
    pub(super) fn of(original: &str) -> Self {
        let mut folded = Self { text: String::new(), origin: Vec::new() };
        for (at, character) in original.char_indices() {
            let range = at..at + character.len_utf8();
            match character {
                '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => folded.run('-', range),
                '\u{2018}'..='\u{201b}' | '\u{2032}' => folded.push('\'', range),
                '\u{201c}'..='\u{201f}' | '\u{2033}' | '«' | '»' => folded.push('"', range),
                '…' => {
                    for _ in 0..3 {
                        folded.push('.', range.clone());
                    }
                }
                character if character.is_whitespace() => folded.run(' ', range),
                character => folded.push(character, range),
            }
        }
        folded
    }

    fn push(&mut self, character: char, range: Range<usize>) {
        self.text.push(character);
        self.origin.resize(self.text.len(), range);
    }

    /// Several of these in a row count as one.
    fn run(&mut self, character: char, range: Range<usize>) {
        if self.text.ends_with(character) {
            if let Some(last) = self.origin.last_mut() {
                last.end = range.end;
            }
        } else {
            self.push(character, range);
        }
    }

    /// The range of the original behind a range of the folded text.
    pub(super) fn original(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self.origin.get(range.start)?;
        let last = self.origin.get(range.end.checked_sub(1)?)?;
        Some(first.start..last.end)
    }
}
