//! Files as text: which encoding they have, and back again byte for byte.
//!
//! Invariant: a file is decoded only if encoding the text again gives the same bytes, so that an
//! edit changes nothing but what it names. The whole file decides whether it is text, never a
//! sample that might cut a character in two.

use encoding_rs::WINDOWS_1252;

/// How a text file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-8 with a byte order mark.
    Utf8Bom,
    /// UTF-16, little end first, with a byte order mark.
    Utf16Le,
    /// UTF-16, big end first, with a byte order mark.
    Utf16Be,
    /// Windows-1252, a superset of printable Latin-1; a guess.
    Windows1252,
}

impl Encoding {
    /// What to tell the model; None for plain UTF-8.
    pub(crate) const fn note(self) -> Option<&'static str> {
        match self {
            Self::Utf8 => None,
            Self::Utf8Bom => Some("encoding: UTF-8 with byte order mark, kept by patch"),
            Self::Utf16Le => Some("encoding: UTF-16 (little endian), kept by patch"),
            Self::Utf16Be => Some("encoding: UTF-16 (big endian), kept by patch"),
            Self::Windows1252 => Some("encoding: not UTF-8, read as Windows-1252, kept by patch"),
        }
    }
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Text.
    Text {
        /// The text, without a byte order mark.
        text: String,
        /// How it is stored.
        encoding: Encoding,
    },
    /// Anything else; what kind of it.
    Binary(&'static str),
}

/// How well-known kinds of files begin.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x7fELF", "ELF program or library"),
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"RIFF", "RIFF media (WebP, WAV or AVI)"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive or office document"),
    (b"\x1f\x8b", "gzip archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"\xfd7zXZ\0", "XZ archive"),
    (b"BZh", "bzip2 archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\0asm", "WebAssembly module"),
    (b"\xca\xfe\xba\xbe", "Java class or universal Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"MZ", "Windows program"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"!<arch>\n", "static library"),
];

/// Reads bytes as text if they are text.
pub(crate) fn decode(bytes: &[u8]) -> Content {
    let text = |text: String, encoding| match encode(&text, encoding) {
        Ok(again) if again == bytes => Content::Text { text, encoding },
        _ => Content::Binary(kind(bytes)),
    };
    if let Some(rest) = bytes.strip_prefix(b"\xef\xbb\xbf") {
        return match std::str::from_utf8(rest) {
            Ok(rest) => text(rest.to_owned(), Encoding::Utf8Bom),
            Err(_) => Content::Binary(kind(bytes)),
        };
    }
    for (mark, encoding, codec) in [
        (b"\xff\xfe", Encoding::Utf16Le, encoding_rs::UTF_16LE),
        (b"\xfe\xff", Encoding::Utf16Be, encoding_rs::UTF_16BE),
    ] {
        if let Some(rest) = bytes.strip_prefix(mark) {
            return match codec.decode_without_bom_handling_and_without_replacement(rest) {
                Some(rest) => text(rest.into_owned(), encoding),
                None => Content::Binary(kind(bytes)),
            };
        }
    }
    match std::str::from_utf8(bytes) {
        Ok(valid) if looks_binary(bytes) => {
            let _ = valid;
            Content::Binary(kind(bytes))
        }
        Ok(valid) => Content::Text { text: valid.to_owned(), encoding: Encoding::Utf8 },
        Err(_) if bytes.iter().any(|byte| is_odd(*byte) || *byte == 0) || has_magic(bytes) => {
            Content::Binary(kind(bytes))
        }
        Err(_) => {
            let (decoded, _) = WINDOWS_1252.decode_without_bom_handling(bytes);
            text(decoded.into_owned(), Encoding::Windows1252)
        }
    }
}

/// The bytes of `text`, or what cannot be stored in this encoding.
pub(crate) fn encode(text: &str, encoding: Encoding) -> Result<Vec<u8>, String> {
    match encoding {
        Encoding::Utf8 => Ok(text.as_bytes().to_vec()),
        Encoding::Utf8Bom => Ok([b"\xef\xbb\xbf", text.as_bytes()].concat()),
        Encoding::Utf16Le => {
            Ok([0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect())
        }
        Encoding::Utf16Be => {
            Ok([0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect())
        }
        Encoding::Windows1252 => {
            let (bytes, _, unmapped) = WINDOWS_1252.encode(text);
            if unmapped {
                return Err("the new text has characters that the file's encoding \
                            (Windows-1252) does not have"
                    .to_owned());
            }
            Ok(bytes.into_owned())
        }
    }
}

/// What kind of binary file it is.
pub(crate) fn kind(bytes: &[u8]) -> &'static str {
    MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map_or("binary data", |(_, kind)| kind)
}

fn has_magic(bytes: &[u8]) -> bool {
    MAGIC.iter().any(|(magic, _)| magic.len() > 2 && bytes.starts_with(magic))
}

/// Valid UTF-8 that is no text all the same: one byte in ten or more is a control character.
fn looks_binary(bytes: &[u8]) -> bool {
    let odd = bytes.iter().filter(|byte| is_odd(**byte) || **byte == 0).count();
    odd > 0 && (odd * 10 > bytes.len() || has_magic(bytes))
}

/// Control characters that no text uses.
const fn is_odd(byte: u8) -> bool {
    matches!(byte, 1..=6 | 0xe..=0x1a | 0x1c..=0x1f | 0x7f)
}

/// Whether a sample of a file that is too large to be read whole looks like UTF-8 text. A
/// character that the sample's end cuts does not count against it.
pub(crate) fn sample_is_text(sample: &[u8]) -> bool {
    let whole = match std::str::from_utf8(sample) {
        Ok(_) => sample,
        Err(error) if error.error_len().is_none() => {
            sample.get(..error.valid_up_to()).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !looks_binary(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_encoding_is_recognised_and_restored() {
        let utf16 = |text: &str, encoding| encode(text, encoding).unwrap();
        for (bytes, text, encoding) in [
            (b"plain\n".to_vec(), "plain\n", Encoding::Utf8),
            ("grün".as_bytes().to_vec(), "grün", Encoding::Utf8),
            (b"\xef\xbb\xbfmark".to_vec(), "mark", Encoding::Utf8Bom),
            (utf16("a😀\r\n", Encoding::Utf16Le), "a😀\r\n", Encoding::Utf16Le),
            (utf16("a😀", Encoding::Utf16Be), "a😀", Encoding::Utf16Be),
            (b"caf\xe9 \x80".to_vec(), "café €", Encoding::Windows1252),
            (b"hello\0world\n".to_vec(), "hello\0world\n", Encoding::Utf8),
            (b"\x1b[1mlog\x1b[0m\n".to_vec(), "\x1b[1mlog\x1b[0m\n", Encoding::Utf8),
            (vec![], "", Encoding::Utf8),
        ] {
            assert_eq!(decode(&bytes), Content::Text { text: text.to_owned(), encoding });
            assert_eq!(encode(text, encoding).unwrap(), bytes);
        }
        assert!(encode("日本", Encoding::Windows1252).is_err());
    }

    #[test]
    fn binary_files_are_named_by_their_kind() {
        for (bytes, kind) in [
            (&b"\x7fELF\x02\x01\x01\0\xff\xfe\x80"[..], "ELF program or library"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\x0d", "PNG image"),
            (b"%PDF-1.7\n\xe2\xe3\xcf\xd3", "PDF document"),
            (b"\0\x01\x02\x03\xff", "binary data"),
            (b"\x01\x02\x03\x04\x05", "binary data"),
            (b"\xff\xfea", "binary data"),
        ] {
            assert_eq!(decode(bytes), Content::Binary(kind));
        }
    }

    #[test]
    fn a_sample_that_cuts_a_character_is_still_text() {
        let text = format!("{}日", "a".repeat(999));
        for cut in 995..=text.len() {
            assert!(sample_is_text(&text.as_bytes()[..cut]), "cut at {cut}");
        }
        assert!(!sample_is_text(b"ab\xffcd"));
    }

    proptest! {
        #[test]
        fn whatever_is_decoded_can_be_written_back_unchanged(
            bytes in proptest::collection::vec(any::<u8>(), 0..200)
        ) {
            if let Content::Text { text, encoding } = decode(&bytes) {
                prop_assert_eq!(encode(&text, encoding).unwrap(), bytes);
            }
        }
    }
}
