//! What people and scripts read: errors, tables, JSON. The only place that writes to stdout.
//!
//! Invariant: no text of a model, a tool or a file steers the terminal. Control and direction
//! characters are shown escaped there, whatever they came in; in a pipe every byte stays.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::progress;

/// Prints `text` to stdout: to a terminal harmless, else as it stands.
///
/// # Errors
/// If stdout is closed.
pub fn raw(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let bytes = text.as_ref();
    progress::step_aside();
    let mut stdout = io::stdout().lock();
    if stdout.is_terminal() {
        let text = String::from_utf8_lossy(bytes);
        stdout.write_all(harmless(&text, Paint::stdout()).as_bytes())?;
    } else {
        stdout.write_all(bytes)?;
    }
    stdout.flush()?;
    Ok(())
}

/// Prints one line to stdout.
///
/// # Errors
/// If stdout is closed.
pub fn line(text: impl AsRef<str>) -> anyhow::Result<()> {
    raw(format!("{}\n", text.as_ref()))
}

/// Prints a value as indented JSON.
///
/// # Errors
/// If stdout is closed.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Prints a table; `empty` stands in its place when there is no row. On a terminal that is too
/// narrow for it each row becomes a block of lines, so that no id is broken.
///
/// # Errors
/// If stdout is closed.
pub fn table(head: &[&str], rows: Vec<Vec<String>>, empty: &str) -> anyhow::Result<()> {
    if rows.is_empty() {
        return line(empty);
    }
    let room = io::stdout().is_terminal().then(crossterm::terminal::size).and_then(Result::ok);
    for text in laid_out(head, rows, room.map(|(columns, _)| usize::from(columns))) {
        line(text)?;
    }
    Ok(())
}

fn laid_out(head: &[&str], rows: Vec<Vec<String>>, room: Option<usize>) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head.to_vec());
    table.add_rows(&rows);
    // A space stands on each side of a cell.
    let width: usize =
        table.column_max_content_widths().iter().map(|width| usize::from(*width) + 2).sum();
    if room.is_none_or(|room| width <= room) {
        return table.to_string().lines().map(|text| text.trim_end().to_owned()).collect();
    }
    let names = head.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in rows {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let cells = head.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        lines.extend(cells.map(|(name, cell)| format!("{name:<names$}  {cell}")));
    }
    lines
}

/// Says something to the person beside the answer.
pub fn note(text: impl AsRef<str>) {
    progress::step_aside();
    let text = text.as_ref();
    let mut stderr = io::stderr().lock();
    let text =
        if stderr.is_terminal() { harmless(text, Paint::stderr()) } else { Cow::Borrowed(text) };
    // Nobody is left to tell when stderr is closed.
    drop(writeln!(stderr, "{text}"));
}

/// Prints an error with its causes and its hint on a line of its own.
pub fn error(error: &anyhow::Error) {
    note(format!("error: {}", crate::hint::told(error)));
}

/// Whether the reader of our output went away, which is no failure of ours.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// `text` with what would steer a terminal shown instead: control characters but for line ends and
/// tabs, and the characters that turn the direction of writing. Looks at one character at a time,
/// so that no sequence gets through in pieces.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.replace("\r\n", "\n").chars() {
        if steers(c) {
            // As JSON writes it, so that JSON stays JSON on a terminal; all of them have four digits.
            // Writing to a string cannot fail.
            fmt::Write::write_fmt(&mut shown, format_args!("\\u{:04x}", u32::from(c))).ok();
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn steers(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// [`visible`], but for the colours that [`Paint`] itself puts in.
fn harmless(text: &str, paint: Paint) -> Cow<'_, str> {
    if !paint.is_on() || !text.contains('\x1b') {
        return visible(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        shown.push_str(&visible(&rest[..at]));
        rest = &rest[at..];
        let ours = CODES.iter().find_map(|code| {
            let behind = rest.strip_prefix("\x1b[")?.strip_prefix(code)?;
            behind.starts_with('m').then_some(3 + code.len())
        });
        let end = ours.unwrap_or(1);
        let part = &rest[..end];
        shown.push_str(&if ours.is_some() { Cow::Borrowed(part) } else { visible(part) });
        rest = &rest[end..];
    }
    shown.push_str(&visible(rest));
    Cow::Owned(shown)
}

/// Every code that [`Paint`] uses, and the one that ends them.
const CODES: &[&str] = &["0", "1", "2", "31", "32", "33"];

/// Colours for one stream: off in a pipe and under `NO_COLOR`.
#[derive(Clone, Copy, Debug)]
pub struct Paint(bool);

impl Paint {
    /// For stderr.
    pub fn stderr() -> Self {
        Self(wanted() && io::stderr().is_terminal())
    }

    /// For stdout.
    pub fn stdout() -> Self {
        Self(wanted() && io::stdout().is_terminal())
    }

    /// For tests: never any.
    #[cfg(test)]
    pub const fn off() -> Self {
        Self(false)
    }

    /// Whether colours are on.
    pub const fn is_on(self) -> bool {
        self.0
    }

    /// Less important text.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// More important text.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Something is wrong.
    pub fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Something holds.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Something to look at.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The `NO_COLOR` convention: any non-empty value switches colours off.
fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// `text` on one line of at most `width` characters.
pub fn ellipsis(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(width) {
        Some(_) => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            format!("{kept}…")
        }
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_shown_and_everything_else_stays() {
        for (text, expected) in [
            ("plain\n\ttext äöü 漢", "plain\n\ttext äöü 漢"),
            ("\u{1b}]52;c;aGk=\u{7}", "\\u001b]52;c;aGk=\\u0007"),
            ("one\r\ntwo\rthree", "one\ntwo\\u000dthree"),
            ("c1 \u{9b}2J del \u{7f}", "c1 \\u009b2J del \\u007f"),
            ("ab\u{202e}cd\u{2066}", "ab\\u202ecd\\u2066"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }

    #[test]
    fn a_table_that_does_not_fit_becomes_blocks_and_breaks_no_cell() {
        let rows = || vec![vec!["20261130_114131_abcdef".to_owned(), "a title".to_owned()]; 2];
        let head = ["session", "title"];
        assert_eq!(laid_out(&head, rows(), Some(80)).len(), 3);
        assert_eq!(laid_out(&head, rows(), None).len(), 3);
        let block = ["session  20261130_114131_abcdef", "title    a title"];
        let [one, two] = block;
        assert_eq!(laid_out(&head, rows(), Some(30)), [one, two, "", one, two]);
    }

    #[test]
    fn our_own_colours_pass_and_no_other_sequence_does() {
        let text = format!("{} \x1b[2J\x1b[8mx\x1b[1;1H\x1b", Paint(true).red("bad"));
        let shown = "\x1b[31mbad\x1b[0m \\u001b[2J\\u001b[8mx\\u001b[1;1H\\u001b";
        assert_eq!(harmless(&text, Paint(true)), shown);
        assert!(!harmless(&text, Paint(false)).contains('\x1b'));
    }
}
