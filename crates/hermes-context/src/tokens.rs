//! Estimates of token counts, from the text alone.
//!
//! An exact vocabulary would cost tens of milliseconds and megabytes on the hot path; estimates
//! are anchored on the provider's own figures elsewhere.

/// About how many tokens `text` is: four ASCII bytes, one ideograph, kana or hangul syllable, or
/// four UTF-8 bytes of any other script each count as one. 0 only for the empty text.
pub fn estimate_tokens(text: &str) -> u64 {
    // Most texts are: a look at words of bytes is ten times as fast as the count below.
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(4);
    }
    let mut ascii = 0u64;
    let mut wide = 0u64;
    let mut other = 0u64;
    // ASCII runs are the common case and need no decoding.
    for chunk in text.as_bytes().chunk_by(|a, b| a.is_ascii() == b.is_ascii()) {
        if chunk.first().is_some_and(u8::is_ascii) {
            ascii += chunk.len() as u64;
            continue;
        }
        for character in std::str::from_utf8(chunk).unwrap_or_default().chars() {
            if is_wide(character) {
                wide += 1;
            } else {
                other += character.len_utf8() as u64;
            }
        }
    }
    ascii.div_ceil(4) + wide + other.div_ceil(4)
}

/// Scripts in which a character is commonly a token of its own.
const fn is_wide(character: char) -> bool {
    matches!(character,
        '\u{1100}'..='\u{11ff}'     // hangul jamo
        | '\u{2e80}'..='\u{30ff}'   // radicals, CJK punctuation, kana
        | '\u{3130}'..='\u{318f}'   // hangul compatibility jamo
        | '\u{31f0}'..='\u{31ff}'   // kana extensions
        | '\u{3400}'..='\u{9fff}'   // ideographs
        | '\u{ac00}'..='\u{d7af}'   // hangul syllables
        | '\u{f900}'..='\u{faff}'   // compatibility ideographs
        | '\u{ff00}'..='\u{ffef}'   // full and half width forms
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_weighed_apart_and_only_the_empty_text_is_free() {
        let check =
            |text: &str, expected: u64| assert_eq!(estimate_tokens(text), expected, "{text}");
        check("", 0);
        check("a", 1);
        check("abcdefgh", 2);
        check("漢字かな", 4);
        check("한국어", 3);
        // Ten Cyrillic letters are twenty bytes.
        check("приветмиру", 5);
        check("ab漢cd", 2);
    }
}
