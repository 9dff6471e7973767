//! Output of commands as text for the model and the person: UTF-8, without escape sequences,
//! control characters made visible.
//!
//! Works on a stream: a character or escape sequence that is cut by a chunk's end is finished with
//! the next chunk. A carriage return is a line break, so that nothing a program printed is lost.

/// Where the cleaner stands inside an escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// In `ESC [ ...`, up to a final byte.
    Csi,
    /// In `ESC ] ...` and its kin, up to BEL or `ESC \`.
    StringSequence,
    /// After an ESC inside such a text.
    StringEscape,
    /// After a carriage return that may belong to a line feed.
    Return,
}

/// Cleans a stream of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    /// Start of a character whose rest has not come yet; at most three bytes.
    pending: Vec<u8>,
    /// Bytes of the present escape sequence, so that an endless one is given up.
    sequence: usize,
}

/// A sequence longer than this is no sequence.
const MAX_SEQUENCE: usize = 4096;

impl Cleaner {
    /// Cleans a whole text at once.
    pub(crate) fn plain(bytes: &[u8]) -> String {
        let mut cleaner = Self::default();
        let mut text = cleaner.push(bytes);
        cleaner.finish(&mut text);
        text
    }

    /// The clean text of the next chunk.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let mut rest = if self.pending.is_empty() {
            bytes
        } else {
            let mut whole = std::mem::take(&mut self.pending);
            whole.extend_from_slice(bytes);
            joined = whole;
            &joined
        };
        let mut out = String::with_capacity(rest.len());
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.take(text, &mut out);
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.take(std::str::from_utf8(good).unwrap_or_default(), &mut out);
                    let Some(length) = error.error_len() else {
                        self.pending = bad.to_vec();
                        break;
                    };
                    self.take("\u{fffd}", &mut out);
                    rest = bad.get(length..).unwrap_or_default();
                }
            }
        }
        out
    }

    /// Adds what the stream's end leaves open.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if self.state == State::Return {
            out.push('\n');
        }
        self.state = State::Text;
        if !std::mem::take(&mut self.pending).is_empty() {
            out.push('\u{fffd}');
        }
    }

    fn take(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.sequence = if self.state == State::Text { 0 } else { self.sequence + 1 };
            if self.sequence > MAX_SEQUENCE {
                self.state = State::Text;
            }
            if self.state == State::Return {
                self.state = State::Text;
                out.push('\n');
                if c == '\n' {
                    continue;
                }
            }
            self.state = match self.state {
                State::Text | State::Return => match c {
                    '\u{1b}' => State::Escape,
                    '\u{9b}' => State::Csi,
                    '\r' => State::Return,
                    c => {
                        out.push(shown(c));
                        State::Text
                    }
                },
                State::Escape | State::Csi if c == '\n' => {
                    out.push('\n');
                    State::Text
                }
                State::Escape => match c {
                    '[' => State::Csi,
                    ']' | 'P' | 'X' | '^' | '_' => State::StringSequence,
                    // Two-character sequences; some have an intermediate byte.
                    ' '..='/' | '\u{1b}' => State::Escape,
                    _ => State::Text,
                },
                State::Csi => match c {
                    ' '..='?' => State::Csi,
                    '\u{1b}' => State::Escape,
                    _ => State::Text,
                },
                State::StringSequence | State::StringEscape => match c {
                    '\u{7}' | '\u{9c}' => State::Text,
                    '\\' if self.state == State::StringEscape => State::Text,
                    '\u{1b}' => State::StringEscape,
                    _ => State::StringSequence,
                },
            };
        }
    }
}

/// Control characters have pictures of their own.
fn shown(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + c as u32).unwrap_or(c),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' => '\u{fffd}',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_go_and_control_characters_become_visible() {
        for (raw, clean) in [
            (
                "\u{1b}[31mred\u{1b}[0m \0 after\r\nprogress 1\rprogress 2\n",
                "red ␀ after\nprogress 1\nprogress 2\n",
            ),
            ("\u{1b}]0;title\u{7}x\u{1b}]8;;http://a\u{1b}\\y", "xy"),
            ("a\u{1b}(Bb\u{1b}=c", "abc"),
            ("bell\u{7}\tö", "bell␇\tö"),
            ("end\r", "end\n"),
        ] {
            assert_eq!(Cleaner::plain(raw.as_bytes()), clean, "{raw:?}");
        }
        assert_eq!(Cleaner::plain(b"caf\xe9 \xc3"), "caf\u{fffd} \u{fffd}");
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_matter(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let cut = cut.min(bytes.len());
            let mut cleaner = Cleaner::default();
            let mut text = cleaner.push(&bytes[..cut]);
            text.push_str(&cleaner.push(&bytes[cut..]));
            cleaner.finish(&mut text);
            prop_assert_eq!(text, Cleaner::plain(&bytes));
        }
    }
}
