//! What a file's bytes say as text.

use std::fmt;

/// How a text is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-8 with a byte order mark.
    Utf8Bom,
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// One byte a character; assumed where nothing else fits.
    Latin1,
    /// No text.
    Binary,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "UTF-8",
            Self::Utf8Bom => "UTF-8 with a byte order mark",
            Self::Utf16Le => "UTF-16 (little-endian)",
            Self::Utf16Be => "UTF-16 (big-endian)",
            Self::Latin1 => "not UTF-8, read as Latin-1",
            Self::Binary => "binary data",
        })
    }
}

/// Reads bytes as text: the text without a byte order mark, its encoding, and how many characters
/// stand for what could not be read. `cut` tells that the bytes end where a limit was, so that half
/// a character at the end is left out and not counted.
pub fn decode(bytes: Vec<u8>, cut: bool) -> (String, Encoding, usize) {
    if let Some(rest) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        let (text, replaced) = utf8(rest.to_vec(), cut);
        return (text, Encoding::Utf8Bom, replaced);
    }
    if let Some(encoding) = utf16_kind(&bytes) {
        let (text, replaced) = utf16(&bytes, encoding, cut);
        return (text, encoding, replaced);
    }
    if bytes.contains(&0) {
        let (text, replaced) = utf8(bytes, cut);
        return (text, Encoding::Binary, replaced);
    }
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return (text, Encoding::Utf8, 0),
        Err(error) => error.into_bytes(),
    };
    let (good, bad) = utf8_evidence(&bytes, cut);
    if bad > 0 && good <= bad {
        return (bytes.iter().map(|&b| char::from(b)).collect(), Encoding::Latin1, 0);
    }
    let (text, replaced) = utf8(bytes, cut);
    (text, Encoding::Utf8, replaced)
}

/// Characters of more than one byte that are well formed, and places that are not.
fn utf8_evidence(bytes: &[u8], cut: bool) -> (usize, usize) {
    let (mut good, mut bad) = (0, 0);
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        let half = cut && chunks.peek().is_none() && is_half(chunk.invalid());
        bad += usize::from(!chunk.invalid().is_empty() && !half);
    }
    (good, bad)
}

/// Whether the bytes begin a character and could have been cut off.
fn is_half(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn utf8(bytes: Vec<u8>, cut: bool) -> (String, usize) {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return (text, 0),
        Err(error) => error.into_bytes(),
    };
    let mut text = String::with_capacity(bytes.len());
    let mut replaced = 0;
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let half = cut && chunks.peek().is_none() && is_half(chunk.invalid());
        if !chunk.invalid().is_empty() && !half {
            text.push(char::REPLACEMENT_CHARACTER);
            replaced += 1;
        }
    }
    (text, replaced)
}

/// By its byte order mark, or by where the zero bytes of ASCII characters stand.
fn utf16_kind(bytes: &[u8]) -> Option<Encoding> {
    /// Bytes that are looked at.
    const LOOKED_AT: usize = 4096;
    match bytes {
        [0xFF, 0xFE, ..] => return Some(Encoding::Utf16Le),
        [0xFE, 0xFF, ..] => return Some(Encoding::Utf16Be),
        _ => {}
    }
    let sample = &bytes[..bytes.len().min(LOOKED_AT) & !1];
    let pairs = sample.len() / 2;
    if pairs < 2 {
        return None;
    }
    let text = |b: u8| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    let count = |test: fn(&[u8]) -> bool| sample.chunks_exact(2).filter(|pair| test(pair)).count();
    let low_first = sample.chunks_exact(2).filter(|p| text(p[0]) && p[1] == 0).count();
    let high_first = sample.chunks_exact(2).filter(|p| p[0] == 0 && text(p[1])).count();
    // A pair of zeros is no character of a text.
    if count(|pair| pair == [0, 0]) > 0 {
        return None;
    }
    if low_first * 10 >= pairs * 4 && high_first == 0 {
        Some(Encoding::Utf16Le)
    } else if high_first * 10 >= pairs * 4 && low_first == 0 {
        Some(Encoding::Utf16Be)
    } else {
        None
    }
}

fn utf16(bytes: &[u8], encoding: Encoding, cut: bool) -> (String, usize) {
    let unit: fn([u8; 2]) -> u16 =
        if encoding == Encoding::Utf16Be { u16::from_be_bytes } else { u16::from_le_bytes };
    let mut units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    if units.first() == Some(&0xFEFF) {
        units.remove(0);
    }
    let half_pair = cut && units.last().is_some_and(|unit| (0xD800..0xDC00).contains(unit));
    if half_pair {
        units.pop();
    }
    let mut replaced = usize::from(bytes.len() % 2 == 1 && !cut);
    let text = char::decode_utf16(units)
        .map(|unit| {
            unit.unwrap_or_else(|_| {
                replaced += 1;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    (text, replaced)
}
