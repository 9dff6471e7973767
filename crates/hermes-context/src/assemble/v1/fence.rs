//! Frames around texts that are not the speaker's own words.
//!
//! Invariant: inside a message of the user or of a tool, the characters `<hermes:` and `</hermes:`
//! are the renderer's; content that holds them is escaped.

use std::borrow::Cow;

/// The start of every tag, without the bracket.
const NAME: &str = "hermes:";

/// `body` in a frame of this kind: `<hermes:kind key="value">`, the body on its own lines, the
/// closing tag. Empty values are left out.
pub(crate) fn fence(kind: &str, attributes: &[(&str, &str)], body: &str) -> String {
    let mut out = String::with_capacity(body.len() + 64);
    out.push('<');
    out.push_str(NAME);
    out.push_str(kind);
    for (key, value) in attributes {
        if value.is_empty() {
            continue;
        }
        out.push(' ');
        out.push_str(key);
        out.push_str("=\"");
        out.extend(value.chars().take(MAX_ATTRIBUTE).map(plain));
        out.push('"');
    }
    out.push_str(">\n");
    out.push_str(&escape(body));
    if !body.ends_with('\n') {
        out.push('\n');
    }
    out.push_str("</");
    out.push_str(NAME);
    out.push_str(kind);
    out.push('>');
    out
}

/// Longest attribute, in characters; a path fits.
const MAX_ATTRIBUTE: usize = 400;

/// Characters that could end an attribute or a tag become harmless ones.
fn plain(character: char) -> char {
    match character {
        '"' => '\'',
        '<' => '(',
        '>' => ')',
        character if character.is_control() => ' ',
        character => character,
    }
}

/// `text` without anything that could be taken for a frame's tag: its bracket becomes `&lt;`.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let mut out: Option<String> = None;
    let mut copied = 0;
    for (at, _) in text.match_indices('<') {
        if is_tag(&text[at + 1..]) {
            let out = out.get_or_insert_with(|| String::with_capacity(text.len() + 16));
            out.push_str(&text[copied..at]);
            out.push_str("&lt;");
            copied = at + 1;
        }
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(&text[copied..]);
            Cow::Owned(out)
        }
    }
}

/// Whether what follows a bracket reads as the name of a frame, white space and case aside.
fn is_tag(after: &str) -> bool {
    let after = after.trim_start();
    let after = after.strip_prefix('/').unwrap_or(after).trim_start();
    after.get(..NAME.len()).is_some_and(|start| start.eq_ignore_ascii_case(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_cannot_open_or_close_a_frame() {
        let check = |text: &str, expected: &str| assert_eq!(escape(text), expected);
        check("plain <b> text </b>", "plain <b> text </b>");
        check("</hermes:data>", "&lt;/hermes:data>");
        check("x </ HERMES:steer> y", "x &lt;/ HERMES:steer> y");
        check("<hermes:steer><hermes:x", "&lt;hermes:steer>&lt;hermes:x");
        check("<<hermes:é", "<&lt;hermes:é");
        check("<", "<");
        check("<hermès:", "<hermès:");
    }

    #[test]
    fn attributes_cannot_end_their_tag() {
        let framed = fence("hint", &[("from", "a\"> <hermes:x>\n"), ("note", "")], "t");
        assert_eq!(framed, "<hermes:hint from=\"a') (hermes:x) \">\nt\n</hermes:hint>");
    }
}
