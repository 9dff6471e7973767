//! Files of people as text: whatever their encoding, size or kind, and whoever writes them
//! meanwhile.
//!
//! Invariant: never panics, never blocks on something that is no regular file, reads no more than
//! its limit, and the text it returns holds neither NUL nor a byte order mark.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use hermes_core::Digest;

/// Largest file that is read as context. A larger one is no text that a person wrote for a model.
pub const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024;

/// A file as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// The text, lines ended by `\n`.
    pub text: String,
    /// Digest of the bytes as they were read.
    pub digest: Digest,
    /// The bytes as they were read.
    pub bytes: Vec<u8>,
    /// What the person should know about the reading, in sentences without the file's name.
    pub notes: Vec<String>,
}

/// Why a file gave no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceProblem {
    /// Nothing is there.
    #[error("it does not exist")]
    Missing,
    /// A folder, pipe or device has the name.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is larger than [`MAX_FILE_BYTES`].
    #[error("it has {0} bytes, more than the {MAX_FILE_BYTES} that are read; hint: split it")]
    TooLarge(u64),
    /// A symbolic link leads out of the folder that bounds it.
    #[error("it is a symbolic link out of the project, to {0}; hint: put the file itself there")]
    LeavesRoot(String),
    /// It holds bytes that no text has.
    #[error("it is not text in UTF-8, UTF-16 or Latin-1; hint: save it as UTF-8")]
    Binary,
    /// The system refuses.
    #[error("it cannot be read: {0}")]
    Io(String),
}

impl SourceProblem {
    fn io(error: &io::Error) -> Self {
        match error.kind() {
            // A file where a folder of the path should be is as good as nothing.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Io(error.to_string()),
        }
    }
}

/// Reads the file at `path`.
///
/// # Errors
/// If it gives no text.
pub fn read(path: &Path) -> Result<SourceText, SourceProblem> {
    read_with(path, &mut |path| File::open(path).and_then(|file| read_limited(&file)))
}

/// Reads the file at `path` if it lies inside `root` after symbolic links are followed.
///
/// # Errors
/// If it gives no text, or a link leads out of `root`.
pub fn read_inside(path: &Path, root: &Path) -> Result<SourceText, SourceProblem> {
    let real = fs::canonicalize(path).map_err(|error| SourceProblem::io(&error))?;
    let real_root = fs::canonicalize(root).map_err(|error| SourceProblem::io(&error))?;
    if !real.starts_with(&real_root) {
        return Err(SourceProblem::LeavesRoot(real.display().to_string()));
    }
    read(&real)
}

type Open<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Vec<u8>>;

/// Reads with `open`, again if the file changed meanwhile.
fn read_with(path: &Path, open: Open<'_>) -> Result<SourceText, SourceProblem> {
    /// A file that changes this often is being written all the time.
    const TRIES: usize = 3;
    let mut bytes = Vec::new();
    let mut steady = false;
    for _ in 0..TRIES {
        let before = stamp(path)?;
        bytes = open(path).map_err(|error| SourceProblem::io(&error))?;
        if stamp(path)? == before && bytes.len() as u64 == before.0 {
            steady = true;
            break;
        }
    }
    let digest = Digest::of(&bytes);
    let (text, note) = decode(&bytes)?;
    let mut notes: Vec<String> = note.into_iter().collect();
    if !steady {
        notes.push("it changed while it was read, so the text may be incomplete".to_owned());
    }
    Ok(SourceText { text, digest, bytes, notes })
}

/// Size and time of change, of a regular file that is not too large.
fn stamp(path: &Path) -> Result<(u64, Option<SystemTime>), SourceProblem> {
    let meta = fs::metadata(path).map_err(|error| SourceProblem::io(&error))?;
    if !meta.is_file() {
        return Err(SourceProblem::NotAFile);
    }
    if meta.len() > MAX_FILE_BYTES {
        return Err(SourceProblem::TooLarge(meta.len()));
    }
    Ok((meta.len(), meta.modified().ok()))
}

fn read_limited(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text in `bytes`, and what the person should know about its encoding.
///
/// # Errors
/// If they are no text.
pub fn decode(bytes: &[u8]) -> Result<(String, Option<String>), SourceProblem> {
    let (text, note) = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => (lossy(rest), None),
        [0xff, 0xfe, rest @ ..] => (utf16(rest, u16::from_le_bytes), None),
        [0xfe, 0xff, rest @ ..] => (utf16(rest, u16::from_be_bytes), None),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => (text.to_owned(), None),
            _ => guess(bytes)?,
        },
    };
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    Ok((text.replace(['\u{feff}', '\0'], ""), note))
}

/// The text of bytes that are no UTF-8 and have no mark.
fn guess(bytes: &[u8]) -> Result<(String, Option<String>), SourceProblem> {
    let count = |start: usize| {
        let units = bytes.iter().skip(start).step_by(2);
        units.filter(|byte| **byte == 0).count()
    };
    let (even, odd) = (count(0), count(1));
    if bytes.len().is_multiple_of(2) && even + odd > 0 {
        // In UTF-16 of mostly Latin text, nearly every second byte is NUL.
        let units = bytes.len() / 2;
        let told = |name: &str| Some(format!("it was read as {name} without a byte order mark"));
        if odd * 2 > units && even * 10 < units {
            return Ok((utf16(bytes, u16::from_le_bytes), told("UTF-16 (little endian)")));
        }
        if even * 2 > units && odd * 10 < units {
            return Ok((utf16(bytes, u16::from_be_bytes), told("UTF-16 (big endian)")));
        }
    }
    let text = lossy(bytes);
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0xa0..);
    if even + odd > 0 || bytes.iter().filter(|byte| !printable(byte)).count() * 20 > bytes.len() {
        return Err(SourceProblem::Binary);
    }
    // Text that is nearly UTF-8 has a few bad bytes; Latin-1 has none that make sense.
    let line = line_of_bad_byte(bytes);
    let multibyte = text.chars().any(|c| !c.is_ascii() && c != char::REPLACEMENT_CHARACTER);
    if multibyte {
        return Ok((
            text,
            Some(format!("line {line} holds bytes that are no UTF-8, shown as \u{fffd}")),
        ));
    }
    let latin = bytes.iter().map(|byte| char::from(*byte)).collect();
    Ok((latin, Some(format!("it was read as Latin-1, because line {line} is no UTF-8"))))
}

/// Line, from 1, of the first byte that is no UTF-8.
pub(crate) fn line_of_bad_byte(bytes: &[u8]) -> usize {
    let good = match std::str::from_utf8(bytes) {
        Ok(_) => bytes,
        Err(error) => &bytes[..error.valid_up_to()],
    };
    good.split(|byte| *byte == b'\n').count()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks(2).map(|pair| match *pair {
        [a, b] => unit([a, b]),
        // Half a unit at the end.
        _ => 0xfffd,
    });
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_of_people_give_the_same_text() {
        let check = |bytes: &[u8], expected: &str, noted: bool| {
            let (text, note) = decode(bytes).unwrap();
            assert_eq!((text.as_str(), note.is_some()), (expected, noted), "{note:?}");
        };
        check("é\nb".as_bytes(), "é\nb", false);
        check("\u{feff}é\r\nb".as_bytes(), "é\nb", false);
        let le: Vec<u8> = "ab é\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = "ab é\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        check(&le, "ab é\n", true);
        check(&be, "ab é\n", true);
        check(&[&[0xff, 0xfe], le.as_slice()].concat(), "ab é\n", false);
        check(&[&[0xfe, 0xff], be.as_slice()].concat(), "ab é\n", false);
        check(b"caf\xe9", "café", true);
        check(b"\xc3\xa9 and \xe9", "é and \u{fffd}", true);
        check(b"a\rb", "a\nb", false);
        check(&[0xff, 0xfe, b'a', 0, b'b'], "a\u{fffd}", false);
        assert_eq!(decode(b"\x7fELF\x00\x01\x02\xff\xfe"), Err(SourceProblem::Binary));
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("AGENTS.md");
        std::fs::write(&path, "one").unwrap();
        let mut reads = 0;
        let text = read_with(&path, &mut |path| {
            let bytes = std::fs::read(path)?;
            reads += 1;
            if reads == 1 {
                std::fs::write(path, "longer text")?;
            }
            Ok(bytes)
        });
        assert_eq!(text.unwrap().text, "longer text");
        let text = read_with(&path, &mut |path| {
            let bytes = std::fs::read(path)?;
            std::fs::write(path, format!("x{}", String::from_utf8_lossy(&bytes)))?;
            Ok(bytes)
        });
        assert_eq!(text.unwrap().notes.len(), 1);
    }

    #[test]
    fn folders_and_large_files_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), Err(SourceProblem::NotAFile));
        assert_eq!(read(&folder.path().join("none")), Err(SourceProblem::Missing));
        let path = folder.path().join("big");
        File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert_eq!(read(&path), Err(SourceProblem::TooLarge(MAX_FILE_BYTES + 1)));
    }
}
