//! Server-sent events from bytes, after the WHATWG standard, with what servers do besides.
//!
//! Bytes may be cut anywhere, also inside a line end or a character. Lines end with LF, CR or
//! CRLF. A blank line ends an event; so does the end of the stream, because many servers forget
//! the last blank line. A byte order mark at the start, comments, unknown fields and events
//! without data are skipped. Bytes that are no UTF-8 become U+FFFD and are noted.

/// One event that carried data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's type; empty where none was given.
    pub name: String,
    /// The data lines, joined by LF.
    pub data: String,
}

/// Turns bytes into events.
#[derive(Clone, Debug)]
pub struct SseParser {
    line: Vec<u8>,
    name: String,
    data: Option<Vec<u8>>,
    /// The last byte was CR: a LF right after it belongs to the same line end.
    after_cr: bool,
    at_start: bool,
    limit: usize,
    /// An oversized event is being skipped, up to its blank line.
    skipping: bool,
    /// Bytes of the present line, skipped ones included.
    line_length: usize,
    problems: Vec<String>,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::new(Self::LIMIT)
    }
}

impl SseParser {
    /// The largest event, in bytes. An image in base64 fits; a server that never ends a line does
    /// not fill the memory.
    pub const LIMIT: usize = 32 << 20;

    /// A parser that gives up on events larger than `limit` bytes: they are skipped and noted.
    pub const fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            name: String::new(),
            data: None,
            after_cr: false,
            at_start: true,
            limit,
            skipping: false,
            line_length: 0,
            problems: Vec::new(),
        }
    }

    /// Takes the next bytes, gives every event that they complete to `on`.
    pub fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(SseEvent)) {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            if let Some(tail) = rest.strip_prefix(b"\n") {
                rest = tail;
            }
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = rest.split_at(at);
            self.extend(head);
            self.end_line(on);
            rest = match tail {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.extend(rest);
    }

    /// The stream is over: a last line and event without their ends are taken as ended.
    pub fn finish(&mut self, on: &mut dyn FnMut(SseEvent)) {
        if !self.line.is_empty() {
            self.end_line(on);
        }
        self.dispatch(on);
    }

    /// What was odd so far; empties the list.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    fn note(&mut self, problem: &str) {
        if !self.problems.iter().any(|known| known == problem) {
            self.problems.push(problem.to_owned());
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.line_length += bytes.len();
        if self.skipping {
            return;
        }
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held + bytes.len() > self.limit {
            self.skipping = true;
            self.line = Vec::new();
            self.data = None;
            self.name = String::new();
            self.note("an event was larger than the limit and was skipped");
            return;
        }
        self.line.extend_from_slice(bytes);
    }

    fn end_line(&mut self, on: &mut dyn FnMut(SseEvent)) {
        let length = std::mem::take(&mut self.line_length);
        if self.skipping {
            self.skipping = length > 0;
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with("\u{feff}".as_bytes()) {
            line.drain(..3);
        }
        if line.is_empty() {
            self.dispatch(on);
        } else {
            let (field, value) = match line.iter().position(|byte| *byte == b':') {
                Some(at) => {
                    let (field, value) = line.split_at(at);
                    let value = value.get(1..).unwrap_or_default();
                    (field, value.strip_prefix(b" ").unwrap_or(value))
                }
                None => (line.as_slice(), &b""[..]),
            };
            match field {
                b"data" => match &mut self.data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => self.data = Some(value.to_vec()),
                },
                b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
                // Comments, `id`, `retry`, and what servers make up.
                _ => {}
            }
        }
        // Keep the buffer for the next line.
        line.clear();
        if line.capacity() <= 64 << 10 {
            self.line = line;
        }
    }

    fn dispatch(&mut self, on: &mut dyn FnMut(SseEvent)) {
        let name = std::mem::take(&mut self.name);
        let Some(data) = self.data.take() else { return };
        let data = String::from_utf8(data).unwrap_or_else(|error| {
            self.note("bytes that are no UTF-8 were replaced");
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        on(SseEvent { name, data });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(chunks: &[&[u8]], limit: usize) -> (Vec<SseEvent>, Vec<String>) {
        let mut parser = SseParser::new(limit);
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk, &mut |event| events.push(event));
        }
        parser.finish(&mut |event| events.push(event));
        (events, parser.take_problems())
    }

    fn check(text: &str, expected: &[&str]) {
        let bytes = text.as_bytes();
        let data = |found: Vec<SseEvent>| found.into_iter().map(|e| e.data).collect::<Vec<_>>();
        assert_eq!(data(events(&[bytes], 1000).0), expected, "{text:?}");
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(data(events(&[head, tail], 1000).0), expected, "{text:?} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(data(events(&single, 1000).0), expected, "{text:?} byte by byte");
    }

    #[test]
    fn line_ends_comments_and_missing_spaces_are_all_the_same() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data:a\r\n\r\ndata:b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check(": ping\n\ndata: a\n: inside\n\n\n\n", &["a"]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("event: message\nid: 1\nretry: 5\nwhatever\ndata: {\ndata:  é}\n\n", &["{\n é}"]);
        check("data\n\n", &[""]);
        check("event: x\n\ndata: a\n\n", &["a"]);
        check("", &[]);
    }

    #[test]
    fn the_end_of_the_stream_ends_the_last_event() {
        check("data: a", &["a"]);
        check("data: a\n", &["a"]);
        check("data: a\r\n", &["a"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_noted() {
        let (found, problems) = events(&[b"data: a\xffb\n\n"], 1000);
        assert_eq!(found[0].data, "a\u{fffd}b");
        assert_eq!(problems, ["bytes that are no UTF-8 were replaced"]);
    }

    #[test]
    fn an_oversized_event_is_skipped_and_the_next_one_is_not() {
        let long = format!("event: error\ndata: {}\n\ndata: next\n\n", "x".repeat(100));
        for step in [1, 7, 1000] {
            let chunks: Vec<&[u8]> = long.as_bytes().chunks(step).collect();
            let (found, problems) = events(&chunks, 50);
            assert_eq!(found.len(), 1, "{step}");
            assert_eq!((&*found[0].name, &*found[0].data), ("", "next"));
            assert_eq!(problems.len(), 1);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_the_same_events_however_they_are_cut(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd')], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..6),
        ) {
            let whole = events(&[&bytes], 1 << 20);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts {
                chunks.push(&bytes[start..cut]);
                start = cut;
            }
            prop_assert_eq!(events(&chunks, 1 << 20), whole);
        }
    }
}
