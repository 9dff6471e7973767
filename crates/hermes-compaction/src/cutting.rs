//! Cutting texts without cutting characters.

use std::fmt::Write as _;

/// At most `max` characters of `text`; where something is left out, its end is `…`.
pub(crate) fn short(text: &str, max: usize) -> String {
    if text.char_indices().nth(max).is_none() {
        return text.to_owned();
    }
    let keep = text.char_indices().nth(max.saturating_sub(1)).map_or(0, |(at, _)| at);
    format!("{}…", text[..keep].trim_end())
}

/// The first line that says something, white space made single, at most `max` characters.
pub(crate) fn line(text: &str, max: usize) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    short(&first.split_whitespace().collect::<Vec<_>>().join(" "), max)
}

/// All of it on one line, at most `max` characters.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max * 2));
    for (count, word) in text.split_whitespace().enumerate() {
        if out.len() > max * 4 {
            break;
        }
        if count > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
    short(&out, max)
}

/// Start and end of a text of more than `max` characters, with a mark that tells how many are
/// missing; a third of the room goes to the end.
pub(crate) fn middle_out(text: &str, max: usize) -> String {
    // A text has at least as many bytes as characters.
    if text.len() <= max {
        return text.to_owned();
    }
    let total = text.chars().count();
    if total <= max {
        return text.to_owned();
    }
    let tail = max / 3;
    let head = max - tail;
    let from = total - tail;
    let head_end = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
    let mut out = String::with_capacity(head_end + text.len() - tail_start + 48);
    out.push_str(&text[..head_end]);
    let _ = write!(out, "\n[... {} characters left out ...]\n", total - max);
    out.push_str(&text[tail_start..]);
    out
}

/// A size for a person.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_fall_between_characters_and_say_what_is_missing() {
        assert_eq!(short("äöü", 3), "äöü");
        assert_eq!(short("äöüß", 3), "äö…");
        assert_eq!(short("", 0), "");
        assert_eq!(line("\n  a   b \nc", 9), "a b");
        assert_eq!(one_line("a\n b", 9), "a b");
        assert_eq!(middle_out("漢字漢字", 4), "漢字漢字");
        assert_eq!(middle_out("abcdefghi", 6), "abcd\n[... 3 characters left out ...]\nhi");
        assert_eq!(size(18_249), "18.2 kB");
    }
}
