//! Sessions for people: Markdown, and HTML that needs nothing but itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use hermes_core::{Digest, Origin, PartBody, Role, Row, RowStatus, SessionId, Standing};
use hermes_home::redact;
use hermes_store::{SessionInfo, Store};
use serde_json::Value;

use crate::ImportError;

/// How a session is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Markdown.
    Markdown,
    /// One HTML file.
    Html,
}

/// Tool results are cut here in forms for people.
const LONGEST_RESULT: usize = 20_000;

/// Writes a session for people to read; with `redacted`, secrets by their shape are left out.
///
/// # Errors
/// If the session cannot be read or the output cannot be written.
pub fn write_session(
    store: &Store,
    id: &SessionId,
    form: Form,
    redacted: bool,
    out: &mut dyn Write,
) -> Result<(), ImportError> {
    let history = store.history(id)?;
    let Some(info) = store.session(id)? else {
        return Err(fault(id, "it is gone"));
    };
    let page = Page { store, info: &info, redacted };
    let rows: Vec<&Row> =
        history.rows.iter().filter(|row| row.standing == Standing::InOrder).collect();
    let written = match form {
        Form::Markdown => page.markdown(&rows, out),
        Form::Html => page.html(&rows, out),
    };
    written.map_err(|error| fault(id, &error.to_string()))
}

fn fault(id: &SessionId, what: &str) -> ImportError {
    ImportError::Write { session: id.to_string(), what: what.to_owned() }
}

/// The JSON line of a session with secrets left out of every text.
///
/// # Errors
/// If the session cannot be read or the output cannot be written.
pub fn redacted_jsonl(
    store: &Store,
    id: &SessionId,
    out: &mut dyn Write,
) -> Result<(), ImportError> {
    let mut line = Vec::new();
    store.export_jsonl(id, &mut line)?;
    let mut value: Value =
        serde_json::from_slice(&line).map_err(|error| fault(id, &error.to_string()))?;
    let mut renamed = BTreeMap::new();
    for text in texts_of(&value) {
        if let Cow::Owned(clean) = redact::redact(text) {
            renamed.insert(Digest::of(text).to_string(), Digest::of(&clean).to_string());
        }
    }
    redact_value(&mut value, &renamed);
    let written = serde_json::to_writer(&mut *out, &value)
        .map_err(io::Error::from)
        .and_then(|()| out.write_all(b"\n"));
    written.map_err(|error| fault(id, &error.to_string()))
}

/// The texts of a line that are named by their digests.
fn texts_of(line: &Value) -> impl Iterator<Item = &str> {
    let older = line.pointer("/_hermes/texts").and_then(Value::as_array).into_iter().flatten();
    [line.get("system_prompt"), line.get("tool_names")]
        .into_iter()
        .flatten()
        .chain(older)
        .filter_map(Value::as_str)
}

/// A text that is another one without its secrets has another digest, too.
fn redact_value(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(digest) = renamed.get(text) {
                text.clone_from(digest);
            } else if let Cow::Owned(clean) = redact::redact(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_value(item, renamed)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| redact_value(field, renamed));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

struct Page<'a> {
    store: &'a Store,
    info: &'a SessionInfo,
    redacted: bool,
}

impl Page<'_> {
    fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.redacted { redact::redact(text) } else { Cow::Borrowed(text) }
    }

    fn title(&self) -> Cow<'_, str> {
        self.clean(self.info.title.as_deref().unwrap_or(self.info.id.as_str()))
    }

    /// What the head of a page says.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let info = self.info;
        let mut facts = vec![
            ("Session", info.id.to_string()),
            ("Started", info.started_at.to_string()),
            ("Last used", info.last_activity_at.to_string()),
            ("Model", info.model.clone()),
        ];
        facts.extend(info.cwd.clone().map(|cwd| ("Folder", self.clean(&cwd).into_owned())));
        facts.extend(info.git_branch.clone().map(|branch| ("Branch", branch)));
        facts.push(("Messages", info.message_count.to_string()));
        facts
    }

    fn markdown(&self, rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "# {}\n", self.title().replace('\n', " "))?;
        for (name, value) in self.facts() {
            writeln!(out, "- **{name}:** {value}")?;
        }
        for row in rows {
            writeln!(out, "\n## {}\n\n*{}*", heading(row), row.created_at)?;
            for part in shown(row) {
                match &part.body {
                    PartBody::Text { text } if row.role == Role::Tool => {
                        fenced(&self.clean(&cut(text)), "", out)?;
                    }
                    PartBody::Text { text } => {
                        let mark = mark(part.origin);
                        if !mark.is_empty() {
                            writeln!(out, "\n*[{mark}]*")?;
                        }
                        writeln!(out, "\n{}", self.clean(text))?;
                    }
                    PartBody::Reasoning { text, .. } => {
                        let quoted = self.clean(text).replace('\n', "\n> ");
                        writeln!(out, "\n> *Reasoning*\n>\n> {quoted}")?;
                    }
                    PartBody::ToolCall { name, arguments, .. } => {
                        writeln!(out, "\n**Call of `{name}`**")?;
                        fenced(&self.clean(arguments), "json", out)?;
                    }
                    PartBody::Blob { media_type, bytes, .. } => {
                        writeln!(out, "\n*[{media_type}, {bytes} bytes]*")?;
                    }
                    PartBody::Raw { .. } => {}
                }
            }
        }
        Ok(())
    }

    fn html(&self, rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
             name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
             http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'; img-src data:\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n\
             <body>\n<main>\n<h1>{}</h1>\n<dl>",
            escaped(&self.title()),
            escaped(&self.title())
        )?;
        for (name, value) in self.facts() {
            writeln!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value))?;
        }
        writeln!(out, "</dl>")?;
        for row in rows {
            let class = row.role.as_str();
            writeln!(
                out,
                "<section class=\"{class}\">\n<h2>{} <time>{}</time></h2>",
                escaped(&heading(row)),
                row.created_at
            )?;
            for part in shown(row) {
                self.html_part(row, part, out)?;
            }
            writeln!(out, "</section>")?;
        }
        writeln!(out, "</main>\n</body>\n</html>")
    }

    fn html_part(
        &self,
        row: &Row,
        part: &hermes_core::Part,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match &part.body {
            PartBody::Text { text } if row.role == Role::Tool => {
                let text = cut(text);
                let text = self.clean(&text);
                let open = if text.lines().count() <= 12 { " open" } else { "" };
                let lines = text.lines().count();
                let noun = if lines == 1 { "line" } else { "lines" };
                writeln!(
                    out,
                    "<details{open}><summary>{lines} {noun}</summary><pre>{}</pre></details>",
                    escaped(&text)
                )
            }
            PartBody::Text { text } => {
                let mark = mark(part.origin);
                let mark = if mark.is_empty() {
                    String::new()
                } else {
                    format!("<span class=\"mark\">{mark}</span>")
                };
                writeln!(out, "<div class=\"text\">{mark}{}</div>", escaped(&self.clean(text)))
            }
            PartBody::Reasoning { text, .. } => writeln!(
                out,
                "<details class=\"thought\"><summary>Reasoning</summary><div \
                 class=\"text\">{}</div></details>",
                escaped(&self.clean(text))
            ),
            PartBody::ToolCall { name, arguments, .. } => writeln!(
                out,
                "<div class=\"call\"><b>{}</b> <code>{}</code></div>",
                escaped(name),
                escaped(&self.clean(arguments))
            ),
            PartBody::Blob { digest, media_type, bytes } => {
                let image = self.store.blob(digest).ok().flatten();
                match image.filter(|_| media_type.starts_with("image/") && !self.redacted) {
                    Some(image) => {
                        use base64::Engine as _;
                        let data = base64::engine::general_purpose::STANDARD.encode(&image);
                        let kind = escaped(media_type);
                        writeln!(
                            out,
                            "<img alt=\"{kind}, {bytes} bytes\" src=\"data:{kind};base64,{data}\">"
                        )
                    }
                    None => writeln!(
                        out,
                        "<div class=\"mark\">{}, {bytes} bytes</div>",
                        escaped(media_type)
                    ),
                }
            }
            PartBody::Raw { .. } => Ok(()),
        }
    }
}

fn shown(row: &Row) -> impl Iterator<Item = &hermes_core::Part> {
    row.parts.iter().filter(|part| part.standing == Standing::InOrder)
}

fn heading(row: &Row) -> String {
    let who = match (row.role, &row.tool) {
        (Role::User, _) => "User".to_owned(),
        (Role::Assistant, _) => "Assistant".to_owned(),
        (Role::Tool, Some(tool)) => format!("Result of {}", tool.name),
        (Role::Tool, None) => "Result".to_owned(),
        (Role::System, _) => "System".to_owned(),
    };
    match row.status {
        RowStatus::Complete => who,
        RowStatus::Interrupted => format!("{who} (interrupted)"),
        RowStatus::Failed => format!("{who} (failed)"),
    }
}

/// What neither person nor model said is marked.
const fn mark(origin: Origin) -> &'static str {
    match origin {
        Origin::User | Origin::Model | Origin::Tool => "",
        Origin::Hint => "project file",
        Origin::Skill => "skill",
        Origin::Hook => "hook",
        Origin::Memory => "memory",
        Origin::Capsule => "capsule",
        Origin::Summary => "summary",
        Origin::Notice => "notice",
        Origin::Steer => "said while running",
        Origin::Reference => "reference",
    }
}

fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST_RESULT) {
        Some((at, _)) => {
            let left = text.get(at..).unwrap_or_default().chars().count();
            let kept = text.get(..at).unwrap_or(text);
            format!("{kept}\n[... {left} more characters; the JSON lines have them]").into()
        }
        None => Cow::Borrowed(text),
    }
}

/// A fence longer than any inside.
fn fenced(text: &str, language: &str, out: &mut dyn Write) -> io::Result<()> {
    let longest = text.lines().map(|line| line.chars().take_while(|c| *c == '`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    writeln!(out, "\n{fence}{language}\n{text}\n{fence}")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --accent: #7aa7ff; } }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .25rem 1rem;
  margin: 0 0 2rem; padding: .75rem 1rem; background: var(--soft); border-radius: .5rem;
  font-size: .875rem; }
dt { opacity: .65; } dd { margin: 0; overflow-wrap: anywhere; }
section { margin: 0 0 1rem; padding: .75rem 1rem; border: 1px solid var(--line);
  border-radius: .5rem; }
section.user { border-left: 4px solid var(--accent); }
section.tool { background: var(--soft); font-size: .9rem; }
h2 { font-size: .9rem; margin: 0 0 .5rem; }
time { font-weight: 400; opacity: .6; margin-left: .5rem; white-space: nowrap; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.call { font-size: .9rem; margin-top: .5rem; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0 0; font-size: .85rem; }
summary { cursor: pointer; opacity: .7; font-size: .85rem; }
.mark { font-size: .75rem; opacity: .7; border: 1px solid var(--line); border-radius: .25rem;
  padding: 0 .3rem; margin-right: .4rem; }
img { max-width: 100%; }
";
