//! Texts as sentences: lines, and inside a line what ends with a full stop and a space.

/// Bytes at which a sentence may end: stops, line ends, the last bytes of 。 ！ ？ in UTF-8.
const STOPS: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    let stops = b".!?\n\x82\x81\x9f";
    while at < stops.len() {
        table[stops[at] as usize] = true;
        at += 1;
    }
    table
};

/// Calls `found` with every sentence of `text` and where it begins, in order.
pub(crate) fn each<'a>(text: &'a str, mut found: impl FnMut(&'a str)) {
    let bytes = text.as_bytes();
    // Where the line and the sentence begin.
    let (mut line, mut start) = (0, 0);
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(|byte| STOPS[usize::from(*byte)]) {
        at += step;
        let ends = match bytes[at] {
            b'\n' => {
                line = at + 1;
                true
            }
            b'.' | b'!' | b'?' => {
                bytes.get(at + 1) == Some(&b' ') && !is_short_word(&text[line..at])
            }
            0x82 => bytes[..=at].ends_with("。".as_bytes()),
            0x81 => bytes[..=at].ends_with("！".as_bytes()),
            _ => bytes[..=at].ends_with("？".as_bytes()),
        };
        at += 1;
        if ends {
            emit(&text[start..at], &mut found);
            start = at;
        }
    }
    emit(&text[start..], &mut found);
}

fn emit<'a>(sentence: &'a str, found: &mut impl FnMut(&'a str)) {
    let sentence = sentence.trim();
    if !sentence.is_empty() {
        found(sentence);
    }
}

/// Whether the text ends with an abbreviation or a list number: a word of one or two letters.
fn is_short_word(before: &str) -> bool {
    let word = before.rsplit([' ', '(', '.']).next().unwrap_or_default();
    let numbered = before.trim().bytes().all(|byte| byte.is_ascii_digit());
    numbered || (word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_stops_lines_and_ideographic_marks() {
        let check = |text: &str, expected: &[&str]| {
            let mut all = Vec::new();
            each(text, |sentence| all.push(sentence));
            assert_eq!(all, expected, "{text}");
        };
        check("Use v1.2. Then e. g. stop! Ok? Yes", &["Use v1.2.", "Then e. g. stop!", "Ok? Yes"]);
        check("a\n\n b", &["a", "b"]);
        check("中止する。次へ！はい", &["中止する。", "次へ！", "はい"]);
        check("", &[]);
    }
}
