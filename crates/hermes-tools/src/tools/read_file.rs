//! `read_file`: a page of a text file, with line numbers.

use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use hermes_core::{Digest, ToolSink};

use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome, touching};
use crate::capture::clip;
use crate::paths::Located;
use crate::textfile::{self, Content};

pub(super) const TOOL: Tool = Tool {
    name: "read_file",
    json: concat!(
        r#"{"type":"function","function":{"name":"read_file","description":"#,
        r#""Read a text file. Lines come as N|content; a long file comes in pages, go on with offset. A file must be read whole before write_file may replace it.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""path":{"type":"string"},"#,
        r#""offset":{"type":"integer","description":"first line, from 1"},"#,
        r#""limit":{"type":"integer","description":"lines, default 2000"},"#,
        r#""byte_offset":{"type":"integer","description":"for very long lines: start at this byte; limit then counts bytes"}},"#,
        r#""required":["path"]}}}"#,
    ),
    params: &[
        Param::required("path", Kind::Text),
        Param::optional("offset", Kind::Whole(1)),
        Param::optional("limit", Kind::Whole(1)),
        Param::optional("byte_offset", Kind::Whole(0)),
    ],
    offered: |_| true,
    run,
};

/// Lines of a page, unless the call says otherwise.
const DEFAULT_LINES: usize = 2000;
/// Bytes of a page, unless the call says otherwise.
const DEFAULT_BYTES: usize = 20_000;
/// Files up to this size are read whole: any encoding, and a digest of the content.
const WHOLE_BYTES: u64 = 32 << 20;
/// What is looked at of larger ones to tell text from other data.
const SAMPLE_BYTES: u64 = 64 << 10;

fn run<'a>(bench: &'a Arc<Workbench>, args: Args, _sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(async move {
        let at = match bench.paths.locate(args.need("path")) {
            Ok(at) => at,
            Err(why) => return outcome(Err(format!("read_file: {why}"))),
        };
        let written = at.written.clone();
        let job = Arc::clone(bench);
        // Disks may be slow; the conversation is not to hang with them.
        let read = tokio::task::spawn_blocking(move || read(&job, &at, &args)).await;
        let read = read.unwrap_or_else(|e| Err(format!("the read did not finish: {e}")));
        touching(outcome(read.map_err(|why| format!("read_file: {why}"))), &written)
    })
}

/// What the caller wants to see.
struct Wanted {
    offset: usize,
    limit: usize,
    max_chars: usize,
    max_line: usize,
}

fn read(bench: &Workbench, at: &Located, args: &Args) -> Result<String, String> {
    let shown = &at.shown;
    if let Some(why) = bench.paths.read_refusal(&at.real) {
        return Err(format!("{shown} may not be read: {why}"));
    }
    let meta = regular(at)?;
    let mut file = File::open(&at.real).map_err(|e| format!("{shown}: {e}"))?;
    let max_chars = bench.config.file_read_max_chars.max(1000);
    let masked = bench.paths.is_masked(&at.real);
    if masked && (meta.len() > WHOLE_BYTES || args.whole("byte_offset").is_some()) {
        return Err(format!(
            "{shown} may hold secrets and is shown masked, in lines of a file up to {WHOLE_BYTES} \
             bytes only"
        ));
    }
    if let Some(start) = args.whole("byte_offset") {
        let limit = args.whole("limit").unwrap_or(DEFAULT_BYTES).min(max_chars);
        return bytes_page(&mut file, start, limit).map_err(|e| format!("{shown}: {e}"));
    }
    let wanted = Wanted {
        offset: args.whole("offset").unwrap_or(1),
        limit: args.whole("limit").unwrap_or(DEFAULT_LINES),
        max_chars,
        max_line: bench.limits().line_length,
    };
    if meta.len() > WHOLE_BYTES {
        return large(file, meta.len(), &wanted, shown);
    }
    let mut bytes = Vec::new();
    file.take(WHOLE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| format!("{shown}: {e}"))?;
    let (text, encoding) = match textfile::decode(&bytes) {
        Content::Text { text, encoding } => (text, encoding),
        Content::Binary(kind) => {
            return Err(format!(
                "{shown} is no text: {kind}, {} bytes; hint: use a command that understands it",
                bytes.len()
            ));
        }
    };

    let text = if masked { bench.secrets().redactor().redact(&text).into_owned() } else { text };

    let mut page = Page::new(&wanted);
    let total = text.lines().count();
    for line in text.lines().skip(wanted.offset - 1) {
        if !page.take(line) {
            break;
        }
    }
    if total > 0 && page.shown == 0 && wanted.offset > total {
        return Err(format!("{shown} has {total} lines, none from {} on", wanted.offset));
    }
    let last = wanted.offset + page.shown - 1;
    // What was masked was not seen as it is, and must not be written back.
    if page.clipped == 0 && !masked {
        bench.reads.saw(&at.real, Digest::of(&bytes), wanted.offset, last, last >= total);
    }
    let mut out = page.finish();
    if text.is_empty() {
        out.push_str("[the file is empty]\n");
    } else if last < total {
        let _ = writeln!(
            out,
            "[lines {}-{last} of {total}; go on with offset={}]",
            wanted.offset,
            last + 1
        );
    }
    for note in notes(&text, encoding) {
        let _ = writeln!(out, "[{note}]");
    }
    Ok(out)
}

/// What the lines do not show but an edit must respect.
fn notes(text: &str, encoding: textfile::Encoding) -> Vec<String> {
    let mut notes: Vec<String> = encoding.note().map(str::to_owned).into_iter().collect();
    let breaks = text.matches('\n').count();
    let crlf = text.matches("\r\n").count();
    if crlf > 0 && crlf == breaks {
        notes.push("line ends: CRLF, kept by patch".to_owned());
    } else if crlf > 0 {
        notes.push(format!("line ends: {crlf} CRLF, {} LF", breaks - crlf));
    }
    let nuls = text.matches('\0').count();
    if nuls > 0 {
        notes.push(format!("{nuls} NUL characters, shown as ␀"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        notes.push("no line break at the end".to_owned());
    }
    notes
}

/// The file's metadata, if it is a regular file.
pub(super) fn regular(at: &Located) -> Result<Metadata, String> {
    let shown = &at.shown;
    let meta = std::fs::metadata(&at.real).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{shown} does not exist{}", similar_names(&at.real))
        }
        _ => format!("{shown}: {e}"),
    })?;
    if meta.is_file() {
        return Ok(meta);
    }
    let what = if meta.is_dir() {
        "a folder; hint: list it with search_files, target \"files\""
    } else {
        special(&meta)
    };
    Err(format!("{shown} is {what}"))
}

#[cfg(unix)]
fn special(meta: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = meta.file_type();
    if kind.is_fifo() {
        "a named pipe, not a file"
    } else if kind.is_socket() {
        "a socket, not a file"
    } else {
        "a device, not a file"
    }
}

#[cfg(not(unix))]
fn special(_meta: &Metadata) -> &'static str {
    "not a file"
}

/// Names in the same folder that look like the one that is missing.
fn similar_names(path: &Path) -> String {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return String::new();
    };
    let wanted = name.to_string_lossy().to_lowercase();
    let stem = wanted.split('.').next().unwrap_or(&wanted).to_owned();
    let Ok(entries) = std::fs::read_dir(folder) else { return String::new() };
    let mut near: Vec<String> = entries
        .flatten()
        .take(2000)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            let name = name.to_lowercase();
            name == wanted || (!stem.is_empty() && name.split('.').next() == Some(&stem))
        })
        .collect();
    near.sort();
    near.truncate(5);
    if near.is_empty() { String::new() } else { format!("; hint: there is {}", near.join(", ")) }
}

/// Lines as they are shown.
struct Page<'a> {
    wanted: &'a Wanted,
    out: String,
    chars: usize,
    shown: usize,
    clipped: usize,
}

impl<'a> Page<'a> {
    fn new(wanted: &'a Wanted) -> Self {
        Self { wanted, out: String::new(), chars: 0, shown: 0, clipped: 0 }
    }

    /// Adds a line; false when it does not fit any more.
    fn take(&mut self, line: &str) -> bool {
        if self.shown >= self.wanted.limit {
            return false;
        }
        let line = line.replace('\0', "␀");
        let number = self.wanted.offset + self.shown;
        let clipped = clip(&line, self.wanted.max_line);
        let entry = format!("{number}|{clipped}\n");
        let chars = entry.chars().count();
        if self.shown > 0 && self.chars + chars > self.wanted.max_chars {
            return false;
        }
        self.clipped += usize::from(clipped.len() != line.len());
        self.chars += chars;
        self.shown += 1;
        self.out.push_str(&entry);
        true
    }

    fn finish(mut self) -> String {
        if self.clipped > 0 {
            let _ = writeln!(
                self.out,
                "[{} lines are longer than {} characters; read on in them with byte_offset]",
                self.clipped, self.wanted.max_line
            );
        }
        self.out
    }
}

/// A page of a file that is too large to be held: UTF-8 only, and it never counts as read.
fn large(mut file: File, size: u64, wanted: &Wanted, shown: &str) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("{shown}: {e}");
    let mut sample = Vec::new();
    file.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample).map_err(failed)?;
    if !textfile::sample_is_text(&sample) {
        return Err(format!("{shown} is no text: {}, {size} bytes", textfile::kind(&sample)));
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut page = Page::new(wanted);
    let mut number = 0;
    loop {
        number += 1;
        let keep = if number < wanted.offset { 0 } else { wanted.max_line * 4 + 4 };
        let Some(line) = bounded_line(&mut reader, keep).map_err(failed)? else { break };
        if number < wanted.offset {
            continue;
        }
        if !page.take(&String::from_utf8_lossy(&line)) {
            break;
        }
    }
    if page.shown == 0 {
        return Err(format!("{shown} has {} lines, none from {} on", number - 1, wanted.offset));
    }
    let next = wanted.offset + page.shown;
    let mut out = page.finish();
    let _ = writeln!(out, "[a page of {size} bytes; go on with offset={next}]");
    Ok(out)
}

/// The next line, at most `keep` bytes of it; None at the end.
fn bounded_line(reader: &mut BufReader<File>, keep: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = keep.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(part.get(..room).unwrap_or_default());
        let used = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
    }
}

/// Bytes from `start` on, as text, whole characters only.
fn bytes_page(file: &mut File, start: usize, limit: usize) -> std::io::Result<String> {
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(start as u64))?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes)?;
    let mut end = bytes.len();
    if let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
        && (start + end) < usize::try_from(size).unwrap_or(usize::MAX)
    {
        end = error.valid_up_to();
    }
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).replace('\0', "␀");
    let stop = start + end;
    let more = if (stop as u64) < size {
        format!("; go on with byte_offset={stop}")
    } else {
        String::new()
    };
    Ok(format!("{text}\n[bytes {start}-{stop} of {size}{more}]\n"))
}
