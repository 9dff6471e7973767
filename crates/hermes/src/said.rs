//! What is said from the command line: the text of a flag, standard input, or both.
//!
//! Invariants: a terminal is never read here; a pipe that nobody writes to holds nothing up for
//! long; bytes that are no text are refused, not sent.

use std::io::{self, Read as _};
use std::time::Duration;

use anyhow::Context as _;

use crate::exit::{Exit, Failure};
use crate::out;

/// How long the first byte of a pipe is waited for where a text was given besides.
const FIRST_BYTE: Duration = Duration::from_secs(2);

/// From here on the size of standard input is worth a word.
const LARGE: usize = 1_000_000;

/// The message for a flag's `text`: standard input for "-", else the text and, behind an empty
/// line, what was piped in.
///
/// # Errors
/// If standard input cannot be read or is no text.
pub fn message(text: &str) -> anyhow::Result<String> {
    if text == "-" {
        return piped();
    }
    match stdin::offers(FIRST_BYTE) {
        stdin::Offer::Nothing => Ok(text.to_owned()),
        stdin::Offer::Silent => {
            out::note(format!(
                "warning: nothing came on standard input within {} s, so it was not read\nhint: \
                 < /dev/null says that there is nothing to read",
                FIRST_BYTE.as_secs()
            ));
            Ok(text.to_owned())
        }
        stdin::Offer::Text => Ok(joined(text, &piped()?)),
    }
}

/// Standard input as one message.
///
/// # Errors
/// If it cannot be read or is no text.
pub fn piped() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).context("standard input cannot be read")?;
    let text = decoded(&bytes)?;
    if bytes.len() > LARGE {
        out::note(format!(
            "warning: standard input has {:.1} MB, about {} tokens; all of it is sent",
            bytes.len() as f64 / 1e6,
            hermes_context::estimate_tokens(&text)
        ));
    }
    Ok(text)
}

fn joined(text: &str, piped: &str) -> String {
    if piped.trim().is_empty() { text.to_owned() } else { format!("{text}\n\n{piped}") }
}

fn decoded(bytes: &[u8]) -> anyhow::Result<String> {
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "standard input is no text: byte {at} of {} is zero; hint: an image goes with \
                 --image FILE; of other files name the path, and the model can read them",
                bytes.len()
            ),
        )
        .into());
    }
    let text = String::from_utf8_lossy(bytes);
    if text.len() != bytes.len() || text.as_bytes() != bytes {
        out::note("warning: standard input is not all UTF-8; what is not was replaced by U+FFFD");
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(unix)]
mod stdin {
    use std::io;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{FileType, fstat};

    /// What standard input has to offer.
    pub enum Offer {
        /// It is neither a pipe nor a file, or it is closed.
        Nothing,
        /// It is a pipe, and nothing has come.
        Silent,
        /// There is something to read, or its end.
        Text,
    }

    /// Looks, and waits no longer than `bound`.
    pub fn offers(bound: Duration) -> Offer {
        let stdin = io::stdin();
        match fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile) => return Offer::Text,
            Ok(FileType::Fifo) => {}
            _ => return Offer::Nothing,
        }
        let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
        let bound = Timespec {
            tv_sec: i64::try_from(bound.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(bound.subsec_nanos()),
        };
        match poll(&mut waiting, Some(&bound)) {
            Ok(0) => Offer::Silent,
            Ok(_) => Offer::Text,
            Err(_) => Offer::Nothing,
        }
    }
}

#[cfg(not(unix))]
mod stdin {
    use std::time::Duration;

    /// What standard input has to offer.
    #[expect(dead_code, reason = "what pipes hold cannot be seen here without reading them")]
    pub enum Offer {
        /// Nothing is known of it.
        Nothing,
        /// It is a pipe, and nothing has come.
        Silent,
        /// There is something to read, or its end.
        Text,
    }

    /// Standard input beside a text is not read on this system.
    pub fn offers(_bound: Duration) -> Offer {
        Offer::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_text_follows_the_text_behind_an_empty_line() {
        assert_eq!(joined("review this", "a\nb"), "review this\n\na\nb");
        assert_eq!(joined("review this", " \n"), "review this");
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_a_hint() {
        let error = decoded(b"\x7fELF\0\x01").unwrap_err().to_string();
        assert!(error.contains("byte 4 of 6") && error.contains("hint: "), "{error}");
        assert_eq!(decoded("grün\r\n\n".as_bytes()).unwrap(), "grün");
    }
}
