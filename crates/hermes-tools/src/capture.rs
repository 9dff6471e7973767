//! A command's output, bounded: head and tail for the model, everything in a file once something
//! has to be left out.
//!
//! Invariants: memory stays within a few times the limit whatever the command prints; the file
//! holds the bytes as they came; it exists exactly when the shown text leaves something out.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use crate::clean::Cleaner;

/// What may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes.
    pub bytes: usize,
    /// Lines.
    pub lines: usize,
    /// Characters in one line.
    pub line_length: usize,
}

/// Where whole outputs are kept.
pub(crate) trait Outputs {
    /// A new private file.
    fn create(&mut self) -> std::io::Result<(PathBuf, File)>;
}

/// The largest file that is kept; what a runaway command prints after that is counted only.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Takes output as it comes.
pub(crate) struct Capture<'a> {
    limits: Limits,
    outputs: &'a mut (dyn Outputs + Send),
    /// Everything, until it is more than the limit; then its first half stays as the head.
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    breaks: u64,
    ends_in_break: bool,
    file: Option<(PathBuf, File, u64)>,
    trouble: Option<String>,
}

/// What is shown of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Clean text, with a line in place of what was left out.
    pub text: String,
    /// The file with everything, if something was left out.
    pub path: Option<PathBuf>,
    /// Bytes the command printed.
    pub bytes: u64,
    /// Lines the command printed.
    pub lines: u64,
}

impl<'a> Capture<'a> {
    /// Starts with nothing.
    pub(crate) fn new(limits: Limits, outputs: &'a mut (dyn Outputs + Send)) -> Self {
        Self {
            limits,
            outputs,
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            breaks: 0,
            ends_in_break: true,
            file: None,
            trouble: None,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let Some(last) = chunk.last() else { return };
        self.bytes += chunk.len() as u64;
        self.breaks += chunk.split(|byte| *byte == b'\n').count() as u64 - 1;
        self.ends_in_break = *last == b'\n';
        if self.is_over() {
            self.spill(chunk);
            self.keep_tail(chunk);
            return;
        }
        self.head.extend_from_slice(chunk);
        if self.head.len() > self.limits.bytes {
            let whole = std::mem::take(&mut self.head);
            self.spill(&whole);
            let (head, rest) = whole.split_at(self.limits.bytes / 2);
            self.head = head.to_vec();
            self.keep_tail(rest);
        }
    }

    /// Whether head and tail have been told apart.
    fn is_over(&self) -> bool {
        self.file.is_some() || self.trouble.is_some()
    }

    fn keep_tail(&mut self, chunk: &[u8]) {
        let keep = self.limits.bytes.div_ceil(2);
        let chunk = chunk.get(chunk.len().saturating_sub(keep)..).unwrap_or_default();
        self.tail.extend(chunk);
        let surplus = self.tail.len().saturating_sub(keep);
        self.tail.drain(..surplus);
    }

    /// Writes to the file, which is made on first need. A fault is told, never fatal.
    fn spill(&mut self, bytes: &[u8]) {
        if self.trouble.is_some() {
            return;
        }
        if let Err(error) = self.try_spill(bytes) {
            self.trouble = Some(error.to_string());
        }
    }

    fn try_spill(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.file.is_none() {
            let (path, file) = self.outputs.create()?;
            self.file = Some((path, file, 0));
        }
        let Some((_, file, written)) = &mut self.file else { return Ok(()) };
        let room = usize::try_from(MAX_FILE_BYTES - *written).unwrap_or(usize::MAX);
        let kept = bytes.get(..room).unwrap_or(bytes);
        file.write_all(kept)?;
        *written += kept.len() as u64;
        Ok(())
    }

    /// The text to show, after the last byte.
    pub(crate) fn finish(mut self) -> Shown {
        let lines = self.breaks + u64::from(!self.ends_in_break);
        let max_line_length = self.limits.line_length;
        let max_lines = self.limits.lines.max(2);
        let cut = self.is_over();
        let (head, tail) = if cut {
            let head = Cleaner::plain(whole_characters_start(&self.head));
            (head, Cleaner::plain(whole_characters_end(self.tail.make_contiguous())))
        } else {
            (Cleaner::plain(&self.head), String::new())
        };
        let head_lines: Vec<&str> = head.split_inclusive('\n').collect();
        let tail_lines: Vec<&str> = tail.split_inclusive('\n').collect();
        let too_many = !cut && head_lines.len() > max_lines;
        let (start, end) = if cut || too_many {
            let tail = if cut { &tail_lines } else { &head_lines };
            let from = tail.len().saturating_sub(max_lines - max_lines / 2);
            let to = head_lines.len().min(max_lines / 2);
            (head_lines.get(..to), tail.get(from..))
        } else {
            (Some(&*head_lines), None)
        };
        let (start, end) = (start.unwrap_or_default(), end.unwrap_or_default());
        let clipped = start
            .iter()
            .chain(end)
            .any(|line| line.trim_end_matches('\n').chars().count() > max_line_length);
        if !cut && (too_many || clipped) {
            let whole = std::mem::take(&mut self.head);
            self.spill(&whole);
        }

        let path = self.file.as_ref().map(|(path, _, _)| path.clone());
        let mut text: String = start.iter().map(|line| clip(line, max_line_length)).collect();
        if cut || too_many || clipped {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&self.note(lines, path.as_deref()));
        }
        text.extend(end.iter().map(|line| clip(line, max_line_length)));
        Shown { text, path, bytes: self.bytes, lines }
    }

    fn note(&self, lines: u64, path: Option<&std::path::Path>) -> String {
        let size = format!("{} bytes in {lines} lines", self.bytes);
        match (path, &self.trouble) {
            (Some(path), None) if self.bytes > MAX_FILE_BYTES => format!(
                "[... cut: {size} in all; the first {MAX_FILE_BYTES} bytes are in {} ...]\n",
                path.display()
            ),
            (Some(path), None) => format!(
                "[... cut: {size} in all; read the rest with read_file from {} ...]\n",
                path.display()
            ),
            (_, trouble) => format!(
                "[... cut: {size} in all; the rest could not be kept: {} ...]\n",
                trouble.as_deref().unwrap_or("no file")
            ),
        }
    }
}

/// Without the part of a character at its end.
fn whole_characters_start(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        // Invalid bytes in the middle: look at the last character only.
        Err(_) => {
            let from = bytes.len().saturating_sub(4);
            let lead =
                (from..bytes.len()).rev().find(|at| bytes.get(*at).is_some_and(|b| *b >= 0xc0));
            match lead {
                Some(at) if std::str::from_utf8(bytes.get(at..).unwrap_or_default()).is_err() => {
                    bytes.get(..at).unwrap_or(bytes)
                }
                _ => bytes,
            }
        }
        Ok(_) => bytes,
    }
}

/// Without the part of a character at its start.
fn whole_characters_end(bytes: &[u8]) -> &[u8] {
    let skip = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    bytes.get(skip..).unwrap_or(bytes)
}

/// A line, at most so many characters long, with a mark where it was cut.
pub(crate) fn clip(line: &str, max: usize) -> String {
    let (body, end) = match line.strip_suffix('\n') {
        Some(body) => (body, "\n"),
        None => (line, ""),
    };
    match body.char_indices().nth(max) {
        Some((at, _)) => {
            let kept = body.get(..at).unwrap_or(body);
            format!("{kept}…[{} characters in all]{end}", body.chars().count())
        }
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    struct Folder(tempfile::TempDir, u32);

    impl Outputs for Folder {
        fn create(&mut self) -> std::io::Result<(PathBuf, File)> {
            self.1 += 1;
            let path = self.0.path().join(format!("{}.log", self.1));
            let file = File::create(&path)?;
            Ok((path, file))
        }
    }

    struct Nowhere;

    impl Outputs for Nowhere {
        fn create(&mut self) -> std::io::Result<(PathBuf, File)> {
            Err(std::io::Error::other("disk full"))
        }
    }

    const LIMITS: Limits = Limits { bytes: 1000, lines: 20, line_length: 100 };

    fn folder() -> Folder {
        Folder(tempfile::tempdir().unwrap(), 0)
    }

    fn run(bytes: &[u8], chunk: usize, outputs: &mut (dyn Outputs + Send)) -> Shown {
        let mut capture = Capture::new(LIMITS, outputs);
        bytes.chunks(chunk).for_each(|part| capture.push(part));
        capture.finish()
    }

    #[test]
    fn small_output_is_shown_whole_and_leaves_no_file() {
        let shown = run("eins\nzwei\u{1b}[0m\n".as_bytes(), 3, &mut folder());
        assert_eq!(shown, Shown { text: "eins\nzwei\n".into(), path: None, bytes: 14, lines: 2 });
        assert_eq!(run(b"", 1, &mut folder()).lines, 0);
    }

    #[test]
    fn what_is_cut_is_in_the_file_as_it_came() {
        let mut many = String::new();
        for n in 0..50_000 {
            writeln!(many, "line {n} \u{1b}[1mü\u{1b}[0m").unwrap();
        }
        let long = "z".repeat(3000);
        let few = (0..30).fold(String::new(), |all, n| all + &format!("{n}\n"));
        let wide = format!("{}\nend\n", "w".repeat(200));
        for (raw, marks) in [
            (many.as_str(), ["line 0 ü\n", "line 49999 ü\n"]),
            (&long, ["zzz", "zzz"]),
            (&few, ["0\n1\n", "28\n29\n"]),
            (&wide, ["www", "end\n"]),
        ] {
            let mut outputs = folder();
            let shown = run(raw.as_bytes(), 777, &mut outputs);
            for mark in marks {
                assert!(shown.text.contains(mark), "{mark:?} in {}", shown.text);
            }
            let kept = std::fs::read_to_string(shown.path.clone().unwrap()).unwrap();
            assert!(kept == raw, "the file differs from the output");
            assert!(shown.text.contains(&format!(
                "{} bytes in {} lines",
                raw.len(),
                raw.lines().count()
            )));
            assert!(shown.text.len() < LIMITS.bytes + 400, "{}", shown.text.len());
            assert!(shown.text.lines().count() <= LIMITS.lines + 1, "{}", shown.text);
        }
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told() {
        let shown = run(&[b'x'; 5000], 100, &mut Nowhere);
        assert!(shown.text.contains("could not be kept: disk full"), "{}", shown.text);
        assert_eq!((shown.path, shown.bytes), (None, 5000));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_chunks_stay_bounded_and_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..5000), chunk in 1usize..600,
        ) {
            let mut outputs = folder();
            let shown = run(&bytes, chunk, &mut outputs);
            prop_assert!(shown.text.lines().count() <= LIMITS.lines + 2);
            if let Some(path) = shown.path {
                prop_assert_eq!(std::fs::read(path).unwrap(), bytes);
            } else {
                prop_assert_eq!(shown.text, Cleaner::plain(&bytes));
            }
        }
    }
}
