//! The home's `.env`: `NAME=value` lines.
//!
//! Invariant: parsing never fails; a line that is not understood is a problem with its number, and
//! the rest is read.

use std::fmt;

use crate::vars::is_name;

/// One variable.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvEntry {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The line that it starts in, from 1.
    pub line: u32,
}

impl fmt::Debug for EnvEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=[{} bytes] (line {})", self.name, self.value.len(), self.line)
    }
}

/// Something odd in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvProblem {
    /// The line, from 1.
    pub line: u32,
    /// What is odd; never a value.
    pub what: String,
    /// What to do.
    pub hint: String,
}

/// The variables of a `.env`, each once; the last line with a name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotEnv {
    /// The variables.
    pub entries: Vec<EnvEntry>,
    /// What was odd.
    pub problems: Vec<EnvProblem>,
}

impl DotEnv {
    /// Reads the text of a `.env`: `export`, quotes (single: as they stand; double: with `\n`, `\t`,
    /// `\r`, `\"`, `\\` and `\$`, over several lines too), comments, a byte order mark and either
    /// kind of line end.
    pub fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rest = text;
        let mut line = 1;
        while !rest.is_empty() {
            let used = parsed.statement(rest, line);
            line += rest[..used].matches('\n').count() as u32;
            rest = &rest[used..];
        }
        parsed
    }

    /// Reads one statement and returns how many bytes it took, its line end included.
    fn statement(&mut self, text: &str, line: u32) -> usize {
        let line_end = text.find('\n').unwrap_or(text.len());
        let after = (line_end + 1).min(text.len());
        let content = text[..line_end].trim();
        if content.is_empty() || content.starts_with('#') {
            return after;
        }
        let assignment = content
            .strip_prefix("export")
            .filter(|rest| rest.starts_with([' ', '\t']))
            .map_or(content, str::trim_start);
        let Some((name, value)) = assignment.split_once('=') else {
            self.problem(
                line,
                "there is no \"=\" in this line",
                "write NAME=value, or begin the line with #",
            );
            return after;
        };
        let name = name.trim_end();
        if !is_name(name) {
            self.problem(
                line,
                "what stands before \"=\" is not a name",
                "use letters, digits and underscores, with no digit first",
            );
            return after;
        }
        let value = value.trim_start();
        let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            self.push(name, unquoted(value), line);
            return after;
        };
        // A quoted value may go on over the following lines.
        let start = value.as_ptr() as usize - text.as_ptr() as usize + 1;
        let Some((value, length)) = quoted(&text[start..], quote) else {
            self.problem(line, "the quote is not closed", "close it; this line was left out");
            return after;
        };
        let behind = start + length;
        let end = text[behind..].find('\n').map_or(text.len(), |at| behind + at);
        let tail = text[behind..end].trim();
        if !tail.is_empty() && !tail.starts_with('#') {
            self.problem(
                line,
                "something follows the closing quote; it is left out",
                "remove it, or put all of the value in quotes",
            );
        }
        self.push(name, value, line);
        (end + 1).min(text.len())
    }

    fn push(&mut self, name: &str, value: String, line: u32) {
        let value = if is_credential(name) && !value.is_ascii() {
            self.problem(
                line,
                &format!(
                    "{name} holds characters outside ASCII, which no key has; they are left out"
                ),
                "copy the key again",
            );
            value.chars().filter(char::is_ascii).collect::<String>().trim().to_owned()
        } else {
            value
        };
        if let Some(known) = self.entries.iter_mut().find(|entry| entry.name == name) {
            let what = format!("{name} stands in line {} too; this line counts", known.line);
            (known.value, known.line) = (value, line);
            self.problem(line, &what, "keep one of the two");
        } else {
            self.entries.push(EnvEntry { name: name.to_owned(), value, line });
        }
    }

    fn problem(&mut self, line: u32, what: &str, hint: &str) {
        self.problems.push(EnvProblem { line, what: what.to_owned(), hint: hint.to_owned() });
    }
}

/// Names whose values are keys (the original strips these to ASCII).
fn is_credential(name: &str) -> bool {
    ["_API_KEY", "_TOKEN", "_SECRET", "_KEY"].iter().any(|suffix| name.ends_with(suffix))
}

/// A value without quotes: a `#` behind white space begins a comment.
fn unquoted(value: &str) -> String {
    let mut end = value.len();
    for (at, _) in value.match_indices('#') {
        if at == 0 || value[..at].ends_with([' ', '\t']) {
            end = at;
            break;
        }
    }
    value[..end].trim_end().to_owned()
}

/// The value up to the closing quote and the bytes that it took, the quote included.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((value, at + c.len_utf8())),
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                c @ ('"' | '\\' | '$') => value.push(c),
                // Not an escape: a Windows path, say.
                c => value.extend(['\\', c]),
            },
            '\r' if text[at..].starts_with("\r\n") => {}
            c => value.push(c),
        }
    }
    None
}

/// The text with a variable set: in its line if it has one, else in a new last line.
pub(crate) fn set(text: &str, name: &str, value: &str) -> String {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let line = format!("{name}={}", write_value(value));
    let parsed = DotEnv::parse(text);
    let Some(entry) = parsed.entries.iter().find(|entry| entry.name == name) else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
        return format!("{text}{gap}{line}{newline}");
    };
    let start =
        text.split_inclusive('\n').take(entry.line as usize - 1).map(str::len).sum::<usize>();
    let used = DotEnv::default().statement(&text[start..], entry.line);
    let old = &text[start..start + used];
    let end = if old.ends_with('\n') { newline } else { "" };
    format!("{}{line}{end}{}", &text[..start], &text[start + used..])
}

/// A value as it is written: in quotes where it would not read back without.
fn write_value(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@+=,%~".contains(c);
    if value.chars().all(plain) {
        return value.to_owned();
    }
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' | '\\' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
