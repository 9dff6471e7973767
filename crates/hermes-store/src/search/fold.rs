//! Different spellings of one text: what a terminal was told beside the text, letters put together
//! from pieces, small and full width, capitals, accents.
//!
//! Invariant: two texts that a person reads as the same word come out the same, and what is left
//! out is nothing that anybody reads.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';

/// The text without escapes of a terminal, pieces of letters put together.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let text = without_escapes(text);
    if text.is_ascii() || !text.chars().any(is_piece) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_composed(c, &mut out));
    Cow::Owned(out)
}

/// The text without what colours a terminal, sets its title and the like. What ends such an escape
/// must be there: nothing else is lost.
pub(super) fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.as_bytes().contains(&(ESCAPE as u8)) {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split(ESCAPE).peekable();
    let mut out = String::with_capacity(text.len());
    out.push_str(pieces.next().unwrap_or_default());
    while let Some(piece) = pieces.next() {
        let ended = pieces.peek().is_some_and(|next| next.starts_with('\\'));
        out.push_str(behind_escape(piece, ended));
    }
    Cow::Owned(out)
}

/// What is left of a text that begins behind an escape sign and goes on to the next one, which
/// perhaps ends what this one began.
fn behind_escape(piece: &str, ended: bool) -> &str {
    const fn between(c: char) -> bool {
        matches!(c, ' '..='/')
    }
    if let Some(rest) = piece.strip_prefix('[') {
        let rest = rest.trim_start_matches(|c| matches!(c, '0'..='?')).trim_start_matches(between);
        return rest.strip_prefix(|c| matches!(c, '@'..='~')).unwrap_or(rest);
    }
    if let Some(rest) = piece.strip_prefix([']', 'P', '_', '^']) {
        return match rest.split_once('\u{7}') {
            Some((title, rest)) if !title.contains('\n') => rest,
            _ if ended && !rest.contains('\n') => "",
            _ => rest,
        };
    }
    let rest = piece.trim_start_matches(between);
    rest.strip_prefix(|c| matches!(c, '0'..='~')).unwrap_or(rest)
}

/// Katakana of half the width, from U+FF66.
const HALF_WIDTH: &str = "ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン";

/// A piece of a letter, or a letter of another width.
const fn is_piece(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3099}' | '\u{309a}' | '\u{ff66}'..='\u{ff9f}')
}

fn push_composed(c: char, out: &mut String) {
    let last = out.chars().next_back();
    let joined = match c {
        '\u{ff66}'..='\u{ff9d}' => {
            out.extend(HALF_WIDTH.chars().nth(c as usize - 0xff66));
            return;
        }
        '\u{3099}' | '\u{ff9e}' => last.and_then(voiced),
        '\u{309a}' | '\u{ff9f}' => last.and_then(half_voiced),
        '\u{1161}'..='\u{1175}' | '\u{11a8}'..='\u{11c2}' => {
            last.and_then(|last| syllable(last, c))
        }
        _ => None,
    };
    match joined {
        Some(joined) => {
            out.pop();
            out.push(joined);
        }
        None if matches!(c, '\u{3099}' | '\u{309a}' | '\u{ff9e}' | '\u{ff9f}') => {}
        None => out.push(c),
    }
}

fn voiced(c: char) -> Option<char> {
    const WITH: &str =
        "かきくけこさしすせそたちつてとはひふへほカキクケコサシスセソタチツテトハヒフヘホ";
    match c {
        'う' => Some('ゔ'),
        'ウ' => Some('ヴ'),
        _ if WITH.contains(c) => char::from_u32(c as u32 + 1),
        _ => None,
    }
}

fn half_voiced(c: char) -> Option<char> {
    "はひふへほハヒフヘホ".contains(c).then(|| char::from_u32(c as u32 + 2))?
}

/// A Korean syllable with one more piece (the Unicode standard, section 3.12).
fn syllable(last: char, piece: char) -> Option<char> {
    let (last, piece) = (last as u32, piece as u32);
    match (last, piece) {
        (0x1100..=0x1112, 0x1161..=0x1175) => {
            char::from_u32(0xac00 + ((last - 0x1100) * 21 + piece - 0x1161) * 28)
        }
        (0xac00..=0xd7a3, 0x11a8..=0x11c2) if (last - 0xac00).is_multiple_of(28) => {
            char::from_u32(last + piece - 0x11a7)
        }
        _ => None,
    }
}

/// An apostrophe, a mark on a letter or what only a renderer sees: belongs to the word, is not
/// written.
pub(super) const fn is_silent(c: char) -> bool {
    matches!(
        c,
        '\'' | '\u{2019}'
            | '\u{300}'..='\u{36f}'
            | '\u{ad}'
            // Vowels of Hebrew and Arabic, and the stroke that only makes a word longer.
            | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}'
            | '\u{5c7}' | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}'
            // Joiners, directions, forms of a picture.
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
            | '\u{2066}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
    )
}

/// Appends the lower-case form of a letter without its accent.
pub(super) fn push_folded(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push(c.to_ascii_lowercase());
        return;
    }
    // Full-width forms of ASCII, but for those that may not stand in a token.
    if let '\u{ff01}'..='\u{ff5e}' = c
        && let Some(ascii) = char::from_u32(c as u32 - 0xfee0)
        && !matches!(ascii, '"' | '(' | ')')
    {
        out.push(ascii.to_ascii_lowercase());
        return;
    }
    for lower in c.to_lowercase() {
        match unaccented(lower) {
            Some(letters) => out.push_str(letters),
            None if !is_silent(lower) => out.push(lower),
            None => {}
        }
    }
}

/// The letters under the accents of U+01A0 to U+0233 and of U+1E00 to U+1EFF (Vietnamese among
/// them), as the Unicode character database takes them apart; `-` where there is none.
const ROWS: [(u32, &str); 2] = [
    (
        0x1a0,
        "oo-------------uu----------------------------aaiioouuuuuuuuuu-aaaa----ggkkoooo--j---gg--nn\
         aa----aaaaeeeeiiiioooorrrruuuusstt--hh------aaeeooooooooyy",
    ),
    (
        0x1e00,
        "aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmmmmmmnnnnnnnnoooooooopppp\
         rrrrrrrrssssssssssttttttttuuuuuuuuuuvvvvwwwwwwwwwwxxxxyyzzzzzzhtwy------aaaaaaaaaaaaaaaaaa\
         aaaaaaeeeeeeeeeeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy------",
    ),
];

/// The letters under the accents of the alphabets of Europe and of Vietnamese.
fn unaccented(c: char) -> Option<&'static str> {
    for (first, letters) in ROWS {
        if let Some(at) = (c as u32).checked_sub(first).map(|at| at as usize)
            && let Some(letter) = letters.get(at..=at)
            && letter != "-"
        {
            return Some(letter);
        }
    }
    Some(match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'æ' => "ae",
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => "c",
        'ď' | 'đ' | 'ð' => "d",
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => "e",
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => "g",
        'ĥ' | 'ħ' => "h",
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' | 'ı' => "i",
        'ĵ' => "j",
        'ķ' => "k",
        'ĺ' | 'ļ' | 'ľ' | 'ŀ' | 'ł' => "l",
        'ñ' | 'ń' | 'ņ' | 'ň' => "n",
        'ò'..='ö' | 'ø' | 'ō' | 'ŏ' | 'ő' => "o",
        'œ' => "oe",
        'ŕ' | 'ŗ' | 'ř' => "r",
        'ś' | 'ŝ' | 'ş' | 'š' => "s",
        'ß' => "ss",
        'ţ' | 'ť' | 'ŧ' => "t",
        'þ' => "th",
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => "u",
        'ŵ' => "w",
        'ý' | 'ÿ' | 'ŷ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        'ά' => "α",
        'έ' => "ε",
        'ή' => "η",
        'ί' | 'ϊ' | 'ΐ' => "ι",
        'ό' => "ο",
        'ς' => "σ",
        'ύ' | 'ϋ' | 'ΰ' => "υ",
        'ώ' => "ω",
        'ё' | 'ѐ' => "е",
        'й' | 'ѝ' => "и",
        'ї' => "і",
        'ў' => "у",
        'ѓ' => "г",
        'ќ' => "к",
        'آ' | 'أ' | 'إ' => "ا",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_was_told_is_left_out_and_nothing_else() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("plain [31mtext", "plain [31mtext");
        check("\u{1b}[1;31merror\u{1b}[0m: no \u{1b}[4mfile", "error: no file");
        check("ma\u{1b}[Krk", "mark");
        check("\u{1b}]0;a title\u{7}prompt", "prompt");
        check("\u{1b}]8;;https://e.org\u{1b}\\link\u{1b}]8;;\u{1b}\\ on", "link on");
        check("\u{1b}(Bplain \u{1b}Mup", "plain up");
        check("\u{1b}]0;never ended\nthe next line", "0;never ended\nthe next line");
        check("\u{1b}]0;never ended", "0;never ended");
        check("\u{1b}[31\nline", "\nline");
        check("at the end\u{1b}", "at the end");
        check("\u{1b}[é", "é");
    }

    #[test]
    fn letters_of_pieces_and_of_other_widths_are_put_together() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}", "한국");
        check("か\u{3099}っこう ハ\u{309a}ン", "がっこう パン");
        check("ﾃﾞｰﾀﾍﾞｰｽ", "データベース");
        check("한국 データ", "한국 データ");
    }

    #[test]
    fn both_spellings_of_a_letter_come_out_the_same() {
        let folded = |text: &str| {
            let mut out = String::new();
            text.chars().filter(|c| !is_silent(*c)).for_each(|c| push_folded(c, &mut out));
            out
        };
        for (text, expected) in [
            ("Tiếng Việt đường", "tieng viet duong"),
            ("Tie\u{302}\u{301}ng Vie\u{323}\u{302}t", "tieng viet"),
            ("Čeština ǎ ș ẞ", "cestina a s ss"),
            ("ΑΘΗΝΑΣ Αθήνας", "αθηνασ αθηνασ"),
            ("Ёлка й и\u{306}", "елка и и"),
            ("מַיִם مَرْحَبًا أحمد", "מים مرحبا احمد"),
            ("re\u{feff}ad\u{200d}", "read"),
        ] {
            assert_eq!(folded(text), expected, "{text}");
        }
        for (first, letters) in ROWS {
            assert!(letters.is_ascii() && [148, 256].contains(&letters.len()), "{first:x}");
        }
    }
}
