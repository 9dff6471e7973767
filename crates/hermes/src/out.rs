//! What people and scripts read: errors, tables, JSON. The only place that writes to stdout.

use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

/// Prints `text` to stdout as it stands.
///
/// # Errors
/// If stdout is closed.
pub fn raw(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref())?;
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

/// Prints a table; `empty` stands in its place when there is no row.
///
/// # Errors
/// If stdout is closed.
pub fn table(head: &[&str], rows: Vec<Vec<String>>, empty: &str) -> anyhow::Result<()> {
    if rows.is_empty() {
        return line(empty);
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(head.to_vec());
    table.add_rows(rows);
    for text in table.to_string().lines() {
        line(text.trim_end())?;
    }
    Ok(())
}

/// Says something to the person beside the answer.
pub fn note(text: impl AsRef<str>) {
    // Nobody is left to tell when stderr is closed.
    drop(writeln!(io::stderr(), "{}", text.as_ref()));
}

/// Prints an error with its causes and its hint on a line of its own.
pub fn error(error: &anyhow::Error) {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Transparent wrappers repeat their cause.
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    note(format!("error: {}", text.replace("; hint: ", "\nhint: ")));
}

/// Whether the reader of our output went away, which is no failure of ours.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

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
