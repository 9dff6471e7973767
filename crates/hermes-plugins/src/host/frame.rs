//! Frames: a JSON text behind a `Content-Length` header, or a line that is a JSON text by itself
//! (for plugins written in a shell).

use std::io::{self, BufRead, Read as _, Write};

/// The longest message taken; longer ones end the connection.
pub(crate) const MOST: usize = 256 * 1024 * 1024;

/// How one side writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Headers and a body.
    Headers,
    /// One line each.
    Lines,
}

/// Reads the next message; None at the end. Both ways of writing are understood.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        if from.by_ref().take(MOST as u64).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            match length {
                Some(length) => {
                    let mut body = vec![0; length];
                    from.read_exact(&mut body)?;
                    return Ok(Some(body));
                }
                None => continue,
            }
        }
        if length.is_none() && text.starts_with(b"{") {
            return Ok(Some(text.to_vec()));
        }
        let header = String::from_utf8_lossy(text);
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            let value: usize = value.trim().parse().map_err(io::Error::other)?;
            if value > MOST {
                return Err(io::Error::other(format!("a message of {value} bytes is too long")));
            }
            length = Some(value);
        }
    }
}

/// Writes one message.
pub(crate) fn write(to: &mut impl Write, framing: Framing, body: &[u8]) -> io::Result<()> {
    match framing {
        Framing::Headers => {
            write!(to, "Content-Length: {}\r\n\r\n", body.len())?;
            to.write_all(body)?;
        }
        // JSON texts made here hold no raw newline.
        Framing::Lines => {
            to.write_all(body)?;
            to.write_all(b"\n")?;
        }
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_are_read_back() {
        let mut bytes = Vec::new();
        write(&mut bytes, Framing::Headers, b"{\"a\":1}").unwrap();
        write(&mut bytes, Framing::Lines, b"{\"b\":2}").unwrap();
        let mut from = &bytes[..];
        assert_eq!(read(&mut from).unwrap().unwrap(), b"{\"a\":1}");
        assert_eq!(read(&mut from).unwrap().unwrap(), b"{\"b\":2}");
        assert!(read(&mut from).unwrap().is_none());
    }

    #[test]
    fn a_length_without_bound_is_refused() {
        let mut from = &b"Content-Length: 99999999999\r\n\r\n"[..];
        assert!(read(&mut from).is_err());
    }
}
