//! A command as a rule should see it: without escape sequences and invisible characters, and with
//! look-alikes of other scripts in their plain form. Used for matching only, never for running.

use std::fmt::Write as _;

use crate::clean::Cleaner;

/// Characters that look like the plain one beside them.
const LOOK_ALIKES: &[(char, &str)] = &[
    ('/', "\u{2044}\u{2215}\u{29f8}\u{ff0f}\u{2571}"),
    ('-', "\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2015}\u{2212}\u{fe58}\u{fe63}"),
    ('*', "\u{2217}\u{204e}\u{66d}\u{2731}"),
    ('~', "\u{2dc}\u{223c}\u{301c}"),
    ('\'', "\u{2018}\u{2019}\u{2032}"),
    ('"', "\u{201c}\u{201d}\u{2033}"),
    (';', "\u{37e}"),
    ('|', "\u{2223}\u{1c0}\u{2502}"),
    ('a', "\u{430}\u{3b1}\u{251}"),
    ('b', "\u{184}"),
    ('c', "\u{441}\u{3f2}"),
    ('d', "\u{501}\u{217e}"),
    ('e', "\u{435}\u{451}"),
    ('f', "\u{192}"),
    ('g', "\u{261}"),
    ('h', "\u{4bb}"),
    ('i', "\u{456}\u{131}\u{3b9}"),
    ('j', "\u{458}"),
    ('k', "\u{43a}\u{3ba}"),
    ('l', "\u{4cf}\u{217c}"),
    ('m', "\u{43c}\u{217f}"),
    ('n', "\u{3b7}"),
    ('o', "\u{43e}\u{3bf}"),
    ('p', "\u{440}\u{3c1}"),
    ('q', "\u{51b}"),
    ('r', "\u{433}\u{1d26}"),
    ('s', "\u{455}"),
    ('t', "\u{442}\u{3c4}"),
    ('u', "\u{3c5}\u{28b}"),
    ('v', "\u{475}\u{3bd}"),
    ('w', "\u{51d}\u{3c9}"),
    ('x', "\u{445}\u{3c7}"),
    ('y', "\u{443}\u{3b3}"),
    ('z', "\u{1d22}"),
];

/// The command as rules see it.
pub(super) fn normalise(command: &str) -> String {
    // A backslash before a line break joins the lines, as the shell does.
    let joined = command.replace("\\\r\n", "").replace("\\\n", "");
    let mut plain = String::with_capacity(joined.len());
    for c in Cleaner::plain(joined.as_bytes()).chars() {
        let folded = fold(c);
        if !is_invisible(folded) {
            plain.push(folded);
        }
    }
    plain
}

/// One character in its plain form.
fn fold(c: char) -> char {
    match c {
        '\n' | '\t' | ' '..='~' => c,
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        c if c.is_whitespace() => ' ',
        c => LOOK_ALIKES.iter().find(|(_, like)| like.contains(c)).map_or(c, |(plain, _)| *plain),
    }
}

/// Whether nothing is drawn for it, or the order of what is drawn changes.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        | '\u{2400}'..='\u{2421}')
        || (c.is_control() && c != '\n' && c != '\t')
}

/// Whether a terminal would not show the command as it is.
pub(super) fn hides(command: &str) -> bool {
    command.chars().any(is_invisible)
}

/// The command with such characters spelt out.
pub(super) fn visible(command: &str) -> String {
    let mut shown = String::with_capacity(command.len());
    for c in command.chars() {
        if is_invisible(c) {
            // Writing to a String does not fail.
            // As everything else that is shown on a terminal, with four digits where they suffice.
            let _ = write!(shown, "\\u{:04x}", c as u32);
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disguises_come_off() {
        for (disguised, plain) in [
            ("rm -rf x", "rm -rf x"),
            ("\u{1b}[31mrm\u{1b}[0m -rf x", "rm -rf x"),
            ("r\u{200b}m -rf x", "rm -rf x"),
            ("ｒｍ\u{3000}－ｒｆ x", "rm -rf x"),
            ("rm \u{2013}rf \u{2215}x", "rm -rf /x"),
            ("\u{441}url x", "curl x"),
            ("r\\\nm x", "rm x"),
            ("echo grün", "echo grün"),
        ] {
            assert_eq!(normalise(disguised), plain, "{disguised:?}");
        }
    }

    #[test]
    fn hidden_characters_are_spelt_out_for_the_person() {
        assert_eq!(visible("ls\u{202e}\u{1b}[2K x"), "ls\\u202e\\u001b[2K x");
        assert!(hides("ls\u{202e}") && !hides("ls -la\n\tmöwe"));
    }
}
