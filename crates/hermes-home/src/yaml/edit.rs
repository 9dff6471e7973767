//! Setting one value in a YAML text and leaving every other byte alone.
//!
//! The edit is made by lines and byte ranges of the parsed tree; then the result is parsed again
//! and compared. Invariants: no other key's value changes, every comment stays, and an edit that
//! cannot keep both is refused.

use std::ops::Range;

use super::{Datum, Document, Entry, Node, Value, YamlError, parse};

/// Why a value was not set. The text is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is not YAML that can be trusted.
    #[error(transparent)]
    Broken(#[from] YamlError),
    /// The edit cannot be made safely.
    #[error("{why}\nhint: {hint}")]
    Refused {
        /// Why.
        why: String,
        /// What to do.
        hint: String,
    },
}

fn refuse<T>(why: impl Into<String>) -> Result<T, EditError> {
    Err(EditError::Refused {
        why: why.into(),
        hint: "change this part of the file in an editor".to_owned(),
    })
}

/// The text with the value at `path` set. Missing mappings on the way are made; a number in the
/// path names an item of a list that is there.
///
/// # Errors
/// If the text cannot be parsed, or the value cannot be set without touching anything else.
pub fn set_value(text: &str, path: &[String], value: &Datum) -> Result<String, EditError> {
    if path.is_empty() {
        return refuse("no key is named");
    }
    let document = parse(text)?;
    let editor = Editor {
        text,
        document: &document,
        newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
    };
    let edited = editor.edit(path, value)?;
    let Ok(after) = parse(&edited) else {
        return refuse("the file would no longer be readable");
    };
    verify(text, &document, &edited, &after, path, value)?;
    Ok(edited)
}

struct Editor<'a> {
    text: &'a str,
    document: &'a Document,
    newline: &'static str,
}

/// What holds the node that is being looked at.
#[derive(Clone, Copy)]
enum Owner<'a> {
    Root,
    Entry(&'a Entry),
    Item,
}

impl Editor<'_> {
    fn edit(&self, path: &[String], value: &Datum) -> Result<String, EditError> {
        let Some(mut node) = self.document.root.as_ref() else {
            return Ok(self.insert_lines(
                self.text.len(),
                &self.lines(&path[0], &wrap(&path[1..], value), 0),
            ));
        };
        let mut owner = Owner::Root;
        let mut in_flow = false;
        for (depth, segment) in path.iter().enumerate() {
            if node.aliased {
                return refuse(
                    "the value is written elsewhere in the file and used here through an alias",
                );
            }
            match &node.value {
                Value::Map { entries, flow } => {
                    in_flow |= *flow;
                    let found = entries.iter().find(|entry| entry.key == *segment && !entry.merged);
                    let Some(entry) = found else {
                        let rest = wrap(&path[depth + 1..], value);
                        return self.insert(node, entries, in_flow, segment, &rest);
                    };
                    owner = Owner::Entry(entry);
                    node = &entry.value;
                }
                Value::List { items, flow } => {
                    in_flow |= *flow;
                    let item = segment.parse::<usize>().ok().and_then(|index| items.get(index));
                    let Some(item) = item else {
                        return refuse(format!(
                            "the list has {} items and no item {segment}",
                            items.len()
                        ));
                    };
                    owner = Owner::Item;
                    node = item;
                }
                Value::Scalar { .. } if node.is_null() => {
                    return self.replace(node, owner, in_flow, &wrap(&path[depth..], value));
                }
                Value::Scalar { .. } => {
                    return refuse(format!(
                        "{} is a single value; setting {segment} below it would remove it",
                        path[..depth].join(".")
                    ));
                }
            }
        }
        if matches!(node.value, Value::Map { .. }) && !matches!(value, Datum::Map(_)) {
            return refuse(
                "it is a mapping; setting it to a single value would remove what is in it",
            );
        }
        self.replace(node, owner, in_flow, value)
    }

    /// Puts a value in the place of another.
    fn replace(
        &self,
        node: &Node,
        owner: Owner<'_>,
        in_flow: bool,
        value: &Datum,
    ) -> Result<String, EditError> {
        if Datum::of(node) == *value {
            return Ok(self.text.to_owned());
        }
        if node.anchored {
            return refuse("the value has an anchor, and other places of the file may use it");
        }
        let entry = match owner {
            Owner::Entry(entry) => entry,
            Owner::Item if !node.range.is_empty() && is_inline(node) => {
                return self.splice(node.range.clone(), &value.to_yaml());
            }
            Owner::Item | Owner::Root => return refuse("it is not a value of a mapping"),
        };
        let Some(colon) = self.colon(entry) else {
            return refuse("the key is not written in the form \"key: value\"");
        };
        let indent = entry.key_at.column as usize - 1;
        let is_block = !node.aliased
            && matches!(
                node.value,
                Value::List { flow: false, .. } | Value::Map { flow: false, .. }
            );
        // What the old value takes: [from, to) directly, and whole lines below it.
        let (inline, lines) = if is_block {
            let end = self.last_line_end(node);
            let start = self.line_start(first_byte(node));
            if start <= entry.key_range.end {
                return refuse("the value begins in the line of its key");
            }
            (colon..colon, start..end)
        } else if let Some(end) = self.block_scalar_end(colon, node) {
            (colon..end, end..end)
        } else if node.range.is_empty() {
            (colon..colon, colon..colon)
        } else {
            (node.range.clone(), node.range.end..node.range.end)
        };
        for range in [&inline, &lines] {
            if self.has_comment(range) {
                return refuse("there are comments inside the old value, which would be lost");
            }
        }
        let line_end = self.line_end(inline.end);
        let tail = &self.text[inline.end..line_end];
        let tail_free = tail.trim().is_empty() || tail.trim_start().starts_with('#');
        let mut out = String::with_capacity(self.text.len() + 64);
        if wants_lines(value) && !in_flow && tail_free {
            out.push_str(self.text[..inline.start].trim_end_matches([' ', '\t']));
            out.push_str(if tail.trim().is_empty() { "" } else { " " });
            out.push_str(tail.trim());
            let rest = if is_block { lines.end } else { line_end };
            let between = if is_block { &self.text[line_end..lines.start] } else { "" };
            out.push_str(between);
            let body = self.body(value, indent + 2);
            if !out.ends_with('\n') {
                out.push_str(self.newline);
            }
            out.push_str(&body);
            let rest = &self.text[rest..];
            if is_block {
                out.push_str(rest);
            } else {
                out.push_str(
                    rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or(rest),
                );
            }
            return Ok(out);
        }
        out.push_str(&self.text[..inline.start]);
        if inline.start == colon {
            out.push(' ');
        }
        out.push_str(&value.to_yaml());
        if is_block {
            out.push_str(&self.text[inline.end..lines.start]);
            out.push_str(&self.text[lines.end..]);
        } else {
            out.push_str(&self.text[inline.end..]);
        }
        Ok(out)
    }

    /// Adds an entry to a mapping.
    fn insert(
        &self,
        node: &Node,
        entries: &[Entry],
        in_flow: bool,
        key: &str,
        value: &Datum,
    ) -> Result<String, EditError> {
        let own = entries.iter().filter(|entry| !entry.merged);
        if in_flow {
            let brace = node.range.end.saturating_sub(1);
            if self.text.get(brace..node.range.end) != Some("}") {
                return refuse("the braces of the mapping are not where they should be");
            }
            let content = self.text[..brace].trim_end();
            if self.has_comment(&(content.len()..brace)) || self.in_comment(content.len()) {
                return refuse("there are comments inside the braces");
            }
            let comma = match content.chars().next_back() {
                Some('{') => "",
                Some(',') => " ",
                _ => ", ",
            };
            let text = format!("{comma}{}: {}", key_text(key), value.to_yaml());
            return self.splice(content.len()..content.len(), &text);
        }
        let Some(first) = own.clone().next() else {
            return refuse("the mapping has no keys of its own to stand beside");
        };
        let indent = first.key_at.column as usize - 1;
        let at = self.last_line_end(node);
        Ok(self.insert_lines(at, &self.lines(key, value, indent)))
    }

    /// The lines of an entry.
    fn lines(&self, key: &str, value: &Datum, indent: usize) -> String {
        let key = key_text(key);
        let pad = " ".repeat(indent);
        if wants_lines(value) {
            format!("{pad}{key}:{}{}", self.newline, self.body(value, indent + 2))
        } else {
            format!("{pad}{key}: {}{}", value.to_yaml(), self.newline)
        }
    }

    /// The lines of a list or mapping.
    fn body(&self, value: &Datum, indent: usize) -> String {
        let pad = " ".repeat(indent);
        match value {
            Datum::List(items) => items.iter().fold(String::new(), |lines, item| {
                lines + &pad + "- " + &item.to_yaml() + self.newline
            }),
            Datum::Map(entries) => {
                entries.iter().map(|(key, value)| self.lines(key, value, indent)).collect()
            }
            other => format!("{pad}{}{}", other.to_yaml(), self.newline),
        }
    }

    fn insert_lines(&self, at: usize, lines: &str) -> String {
        let (before, behind) = self.text.split_at(at);
        let gap = if before.is_empty() || before.ends_with('\n') { "" } else { self.newline };
        format!("{before}{gap}{lines}{behind}")
    }

    fn splice(&self, range: Range<usize>, text: &str) -> Result<String, EditError> {
        if self.has_comment(&range) {
            return refuse("there are comments inside the old value, which would be lost");
        }
        Ok(format!("{}{text}{}", &self.text[..range.start], &self.text[range.end..]))
    }

    /// The byte behind the colon of an entry.
    fn colon(&self, entry: &Entry) -> Option<usize> {
        let rest = &self.text[entry.key_range.end..];
        let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest[spaces..].starts_with(':').then_some(entry.key_range.end + spaces + 1)
    }

    /// Where a `|` or `>` text ends, if the value is one.
    fn block_scalar_end(&self, colon: usize, node: &Node) -> Option<usize> {
        if !matches!(node.value, Value::Scalar { plain: false, .. }) || node.aliased {
            return None;
        }
        let header = self.text.get(colon..node.range.start)?;
        let marked = header.trim_start().starts_with(['|', '>']) && header.contains('\n');
        let content = self.text[..node.range.end].trim_end();
        marked.then_some(content.len().max(colon))
    }

    fn has_comment(&self, range: &Range<usize>) -> bool {
        self.document.comments.iter().any(|comment| range.contains(&comment.start))
    }

    fn in_comment(&self, at: usize) -> bool {
        self.document.comments.iter().any(|comment| comment.start < at && at <= comment.end)
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// The end of the line that `at` stands in, before its line end.
    fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        if self.text[at..end].ends_with('\r') { end - 1 } else { end }
    }

    /// The start of the line behind the last line of a block list or mapping.
    fn last_line_end(&self, node: &Node) -> usize {
        // A `|` text takes its line end, and blank lines that follow it, with it.
        let end = self.text[..node.end()].trim_end_matches(['\n', '\r', ' ', '\t']).len();
        self.text[end..].find('\n').map_or(self.text.len(), |newline| end + newline + 1)
    }
}

/// The first byte of a block list or mapping.
fn first_byte(node: &Node) -> usize {
    match &node.value {
        Value::Map { entries, .. } => entries
            .iter()
            .filter(|entry| !entry.merged)
            .map(|entry| entry.key_range.start)
            .fold(node.range.start, usize::min),
        Value::List { .. } | Value::Scalar { .. } => node.range.start,
    }
}

/// Whether the value stands in one piece that can be cut out.
fn is_inline(node: &Node) -> bool {
    node.aliased
        || match &node.value {
            Value::Scalar { .. } => true,
            Value::List { flow, .. } | Value::Map { flow, .. } => *flow,
        }
}

/// Whether a value is written as lines below its key.
fn wants_lines(value: &Datum) -> bool {
    const SHORT: usize = 60;
    match value {
        Datum::Map(entries) => !entries.is_empty(),
        Datum::List(items) => {
            !items.is_empty()
                && (value.to_yaml().len() > SHORT
                    || items.iter().any(|item| matches!(item, Datum::Map(_) | Datum::List(_))))
        }
        _ => false,
    }
}

fn key_text(key: &str) -> String {
    Datum::Text(key.to_owned()).to_yaml()
}

/// The value inside mappings of the given keys.
fn wrap(keys: &[String], value: &Datum) -> Datum {
    keys.iter().rev().fold(value.clone(), |inner, key| Datum::Map(vec![(key.clone(), inner)]))
}

/// Compares the two texts: the value is there, every other value and every comment is as it was.
fn verify(
    before_text: &str,
    before: &Document,
    after_text: &str,
    after: &Document,
    path: &[String],
    value: &Datum,
) -> Result<(), EditError> {
    let found = after.root.as_ref().and_then(|root| root.find(path)).map(Datum::of);
    if found.as_ref() != Some(value) {
        return refuse("the value would not read back as it was given");
    }
    let others = |document: &Document| {
        let mut leaves = Vec::new();
        if let Some(root) = &document.root {
            collect(root, &mut Vec::new(), path, &mut leaves);
        }
        leaves.sort_by(|a, b| a.0.cmp(&b.0));
        leaves
    };
    if others(before) != others(after) {
        return refuse("the values of other keys would change");
    }
    let comments = |text: &str, document: &Document| -> Vec<String> {
        document.comments.iter().map(|range| text[range.clone()].to_owned()).collect()
    };
    if comments(before_text, before) != comments(after_text, after) {
        return refuse("comments would be lost");
    }
    Ok(())
}

/// Every value outside `target`; mappings that are empty or nothing above it count as absent.
fn collect(
    node: &Node,
    at: &mut Vec<String>,
    target: &[String],
    out: &mut Vec<(Vec<String>, Datum)>,
) {
    if at.as_slice() == target {
        return;
    }
    let above = target.starts_with(at);
    match &node.value {
        Value::Map { entries, .. } if !entries.is_empty() => {
            for entry in entries {
                at.push(entry.key.clone());
                collect(&entry.value, at, target, out);
                at.pop();
            }
        }
        Value::List { items, .. } if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                at.push(index.to_string());
                collect(item, at, target, out);
                at.pop();
            }
        }
        Value::Map { .. } if above => {}
        _ if above && node.is_null() => {}
        _ => out.push((at.clone(), Datum::of(node))),
    }
}
