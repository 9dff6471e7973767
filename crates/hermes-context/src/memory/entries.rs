//! The format: entries between lines of `§`.
//!
//! Invariant: every entry that `parse` finds comes back from `to_bytes` with the bytes it had,
//! whatever they are; only separators and empty places between them are written anew.

use std::borrow::Cow;

use super::notes::EntryNote;
use crate::source_text;

const SEPARATOR: &[u8] = "§".as_bytes();
const MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its text, white space around it removed, lines ended by `\n`.
    pub text: String,
    /// Its bytes in the file.
    pub(super) raw: Vec<u8>,
    /// Who wrote it and when, where that is known.
    pub note: Option<EntryNote>,
}

impl Entry {
    pub(super) fn new(text: &str, newline: &str) -> Self {
        let raw = text.replace('\n', newline).into_bytes();
        Self { text: text.to_owned(), raw, note: None }
    }
}

/// A file taken apart.
pub(super) struct Entries {
    pub(super) list: Vec<Entry>,
    mark: bool,
    pub(super) newline: &'static str,
    end_newline: bool,
    /// Line of the first byte that is no UTF-8.
    pub(super) bad_line: Option<usize>,
    /// Whether it can be read but not written.
    pub(super) utf16: bool,
}

impl Entries {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let utf16 = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
        let bytes: Cow<'_, [u8]> = if utf16 {
            Cow::Owned(
                source_text::decode(bytes).map(|(text, _)| text.into_bytes()).unwrap_or_default(),
            )
        } else {
            Cow::Borrowed(bytes)
        };
        let mark = bytes.starts_with(MARK);
        let body = if mark { &bytes[MARK.len()..] } else { &bytes[..] };
        let newline = if body.windows(2).any(|pair| pair == b"\r\n") { "\r\n" } else { "\n" };
        let bad_line =
            std::str::from_utf8(body).is_err().then(|| source_text::line_of_bad_byte(body));
        let mut parsed =
            Self { list: Vec::new(), mark, newline, end_newline: false, bad_line, utf16 };
        let mut pieces = pieces(body);
        if let Some(last) = pieces.last_mut() {
            parsed.end_newline = last.ends_with(newline.as_bytes());
            if parsed.end_newline {
                *last = &last[..last.len() - newline.len()];
            }
        }
        for piece in pieces {
            let text = String::from_utf8_lossy(piece).replace("\r\n", "\n");
            let text = text.trim().replace(['\0', '\u{feff}'], "\u{fffd}");
            if !text.is_empty() {
                parsed.list.push(Entry { text, raw: piece.to_vec(), note: None });
            }
        }
        parsed
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = if self.mark { MARK.to_vec() } else { Vec::new() };
        for (index, entry) in self.list.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(self.newline.as_bytes());
                out.extend_from_slice(SEPARATOR);
                out.extend_from_slice(self.newline.as_bytes());
            }
            out.extend_from_slice(&entry.raw);
        }
        if self.end_newline {
            out.extend_from_slice(self.newline.as_bytes());
        }
        out
    }

    /// Characters, one separator between two entries included.
    pub(super) fn used(&self) -> usize {
        let texts: usize = self.list.iter().map(|entry| entry.text.chars().count()).sum();
        texts + 3 * self.list.len().saturating_sub(1)
    }
}

/// The bytes between separator lines, without the line ends around these.
fn pieces(body: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        if is_separator(line) {
            pieces.push(without_newline(&body[start..at]));
            start = at + line.len();
        }
        at += line.len();
    }
    pieces.push(&body[start..]);
    pieces
}

pub(super) fn is_separator(line: &[u8]) -> bool {
    line.trim_ascii() == SEPARATOR
}

fn without_newline(piece: &[u8]) -> &[u8] {
    let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
    piece.strip_suffix(b"\r").unwrap_or(piece)
}
