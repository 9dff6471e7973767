//! YAML as people write it, read into a tree that knows where each value stands.
//!
//! The tree keeps scalars as text: whether `off` is a word or a boolean is decided by the setting
//! that reads it, not by the parser. Anchors and merge keys are resolved; duplicate keys, tabs and
//! second documents are errors with a place.
//!
//! Invariant: every byte range in the tree is a range of the text that was parsed, and a node that
//! came through an alias or a merge key says so, because it must not be edited in place.

mod datum;
mod edit;

use std::collections::HashMap;
use std::ops::Range;

use serde_saphyr::granit_parser::{
    Event, Parser, ScalarStyle, Span, StrInput, StructureStyle, Tag,
};

pub use datum::Datum;
pub(crate) use datum::{boolean, is_null, scalar_datum};
pub use edit::{EditError, set_value};

use crate::Place;

/// Nodes a document may have once its aliases are resolved; stops alias bombs.
const MAX_NODES: usize = 200_000;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it starts.
    pub at: Place,
    /// Its bytes in the text, without what follows it; empty where nothing is written.
    pub range: Range<usize>,
    /// Whether it was written elsewhere and stands here through an alias.
    pub aliased: bool,
    /// Whether it carries an anchor.
    pub anchored: bool,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub enum Value {
    /// A scalar as text. `plain` tells that it was written without quotes.
    Scalar {
        /// The text, escapes resolved.
        text: String,
        /// Whether it was written without quotes and without a string tag.
        plain: bool,
    },
    /// A list.
    List {
        /// Its items.
        items: Vec<Node>,
        /// Whether it is written in brackets.
        flow: bool,
    },
    /// A mapping, in file order; merged entries come last.
    Map {
        /// Its entries.
        entries: Vec<Entry>,
        /// Whether it is written in braces.
        flow: bool,
    },
}

/// One entry of a mapping.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_at: Place,
    /// The bytes of the key, quotes included.
    pub key_range: Range<usize>,
    /// The value.
    pub value: Node,
    /// Whether it came through a merge key (`<<`).
    pub merged: bool,
}

/// A parsed text.
#[derive(Clone, Debug)]
pub struct Document {
    /// The top node; None when the text holds no value.
    pub root: Option<Node>,
    /// The bytes of every comment, `#` included.
    pub comments: Vec<Range<usize>>,
}

/// Why a text is not YAML that can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}\nhint: {hint}")]
pub struct YamlError {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: String,
}

impl Node {
    /// Whether it is nothing, `null` or `~`.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if is_null(text))
    }

    /// Whether it is a text of nothing but white space.
    pub fn is_empty_text(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: false } if text.trim().is_empty())
    }

    /// The entry of a mapping.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map { entries, .. } => entries.iter().find(|entry| entry.key == key),
            Value::Scalar { .. } | Value::List { .. } => None,
        }
    }

    /// The node at a path of keys and list indexes.
    pub fn find(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |node, segment| match &node.value {
            Value::Map { .. } => node.get(segment).map(|entry| &entry.value),
            Value::List { items, .. } => {
                segment.parse::<usize>().ok().and_then(|index| items.get(index))
            }
            Value::Scalar { .. } => None,
        })
    }

    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { .. } => "a single value",
            Value::List { .. } => "a list",
            Value::Map { .. } => "a mapping",
        }
    }

    /// The last byte of the node or of anything in it.
    fn end(&self) -> usize {
        match &self.value {
            _ if self.aliased => self.range.end,
            Value::Scalar { .. }
            | Value::List { flow: true, .. }
            | Value::Map { flow: true, .. } => self.range.end,
            Value::List { items, .. } => items
                .iter()
                .filter(|item| !item.aliased)
                .map(Self::end)
                .fold(self.range.end, usize::max),
            Value::Map { entries, .. } => entries
                .iter()
                .filter(|entry| !entry.merged)
                .map(|entry| entry.key_range.end.max(entry.value.end()))
                .fold(self.range.end, usize::max),
        }
    }
}

/// Parses a text that holds at most one document.
///
/// # Errors
/// With the place, if the text is not YAML, has duplicate keys, a second document, a tag that is
/// not understood, or grows beyond bounds through its aliases.
pub fn parse(text: &str) -> Result<Document, YamlError> {
    let mut builder = Builder {
        text,
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        comments: Vec::new(),
        count: 0,
    };
    let mut root = None;
    let mut documents = 0;
    while let Some((event, span)) = builder.next()? {
        match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    return Err(error(
                        place(&span),
                        "a second document starts here".to_owned(),
                        "keep one document in the file: remove the line \"---\"",
                    ));
                }
            }
            Event::StreamStart | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            event => root = Some(builder.node(event, &span)?),
        }
    }
    Ok(Document { root, comments: builder.comments })
}

struct Builder<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    comments: Vec<Range<usize>>,
    count: usize,
}

impl<'a> Builder<'a> {
    /// The next event that is not a comment.
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        loop {
            match self.parser.next_event() {
                None => return Ok(None),
                Some(Ok((Event::Comment(..), span))) => self.comments.push(bytes(&span)),
                Some(Ok(pair)) => return Ok(Some(pair)),
                Some(Err(scan)) => {
                    let mark = scan.marker();
                    let at = Place { line: mark.line() as u32, column: mark.col() as u32 + 1 };
                    return Err(explain(self.text, at, &scan.to_string()));
                }
            }
        }
    }

    fn must_next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        self.next()?.ok_or_else(|| {
            error(Place::default(), "the text ends too early".to_owned(), "complete the file")
        })
    }

    fn node(&mut self, event: Event<'a>, span: &Span) -> Result<Node, YamlError> {
        self.grow(span, 1)?;
        let at = place(span);
        let (value, anchor, range) = match event {
            Event::Scalar(content, style, anchor, tag) => {
                let string_tag = check_tag(tag.as_deref(), at)?;
                // The parser writes an absent value as `~` of no length.
                let absent = bytes(span).is_empty() && style == ScalarStyle::Plain;
                let text = if absent { String::new() } else { content.into_owned() };
                let plain = style == ScalarStyle::Plain && !string_tag;
                (Value::Scalar { text, plain }, anchor, bytes(span))
            }
            Event::SequenceStart(style, anchor, tag) => {
                check_tag(tag.as_deref(), at)?;
                let (items, end) = self.list()?;
                let flow = style == StructureStyle::Flow;
                let end = if flow { end } else { bytes(span).end };
                (Value::List { items, flow }, anchor, bytes(span).start..end)
            }
            Event::MappingStart(style, anchor, tag) => {
                check_tag(tag.as_deref(), at)?;
                let (entries, end) = self.map()?;
                let flow = style == StructureStyle::Flow;
                let end = if flow { end } else { bytes(span).end };
                (Value::Map { entries, flow }, anchor, bytes(span).start..end)
            }
            Event::Alias(id) => {
                let mut node = self.anchors.get(&id).cloned().ok_or_else(|| {
                    error(
                        at,
                        "this alias refers to the value that it stands in".to_owned(),
                        "write the value out",
                    )
                })?;
                self.grow(span, weight(&node))?;
                node.at = at;
                node.range = bytes(span);
                node.aliased = true;
                return Ok(node);
            }
            other => {
                return Err(error(at, format!("unexpected {other:?}"), "write the value out"));
            }
        };
        let node = Node { value, at, range, aliased: false, anchored: anchor != 0 };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self) -> Result<(Vec<Node>, usize), YamlError> {
        let mut items = Vec::new();
        loop {
            match self.must_next()? {
                (Event::SequenceEnd, span) => return Ok((items, bytes(&span).end)),
                (event, span) => items.push(self.node(event, &span)?),
            }
        }
    }

    fn map(&mut self) -> Result<(Vec<Entry>, usize), YamlError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merges: Vec<Node> = Vec::new();
        let mut places: HashMap<String, Place> = HashMap::new();
        loop {
            let (event, span) = self.must_next()?;
            if event == Event::MappingEnd {
                merge(&mut entries, merges)?;
                return Ok((entries, bytes(&span).end));
            }
            let key_node = self.node(event, &span)?;
            let Value::Scalar { text: key, plain } = key_node.value else {
                return Err(error(
                    key_node.at,
                    "a key must be a single word or text".to_owned(),
                    "a list or mapping cannot be a key; put the key in quotes if it is text",
                ));
            };
            let (event, span) = self.must_next()?;
            let value = self.node(event, &span)?;
            if plain && key == "<<" {
                merges.push(value);
                continue;
            }
            if let Some(first) = places.insert(key.clone(), key_node.at) {
                return Err(error(
                    key_node.at,
                    format!("the key \"{key}\" stands here and at {first}"),
                    "keep one of the two; nothing was read, because the file does not say which one counts",
                ));
            }
            entries.push(Entry {
                key,
                key_at: key_node.at,
                key_range: key_node.range,
                value,
                merged: false,
            });
        }
    }

    fn grow(&mut self, span: &Span, by: usize) -> Result<(), YamlError> {
        self.count += by;
        if self.count > MAX_NODES {
            return Err(error(
                place(span),
                format!("the text has more than {MAX_NODES} values with its aliases resolved"),
                "make it smaller",
            ));
        }
        Ok(())
    }
}

/// Adds the entries of merge keys: what is written out wins, then the earlier merge.
fn merge(entries: &mut Vec<Entry>, merges: Vec<Node>) -> Result<(), YamlError> {
    for node in merges {
        let at = node.at;
        let sources = match node.value {
            Value::Map { entries, .. } => vec![entries],
            Value::List { items, .. } => items
                .into_iter()
                .map(|item| match item.value {
                    Value::Map { entries, .. } => Ok(entries),
                    Value::Scalar { .. } | Value::List { .. } => Err(merge_error(item.at)),
                })
                .collect::<Result<_, _>>()?,
            Value::Scalar { .. } => return Err(merge_error(at)),
        };
        for entry in sources.into_iter().flatten() {
            if !entries.iter().any(|known| known.key == entry.key) {
                entries.push(Entry { merged: true, ..entry });
            }
        }
    }
    Ok(())
}

fn merge_error(at: Place) -> YamlError {
    error(
        at,
        "a merge key (<<) needs a mapping or a list of mappings".to_owned(),
        "write `<<: *name` where &name marks a mapping",
    )
}

/// Whether the tag says that the scalar is a string.
fn check_tag(tag: Option<&Tag>, at: Place) -> Result<bool, YamlError> {
    match tag {
        None => Ok(false),
        Some(tag) => match tag.core_suffix() {
            Some(suffix) => Ok(suffix == "str"),
            None => Err(error(
                at,
                format!("the tag {} is not understood", tag.original()),
                "remove the tag and write the value itself",
            )),
        },
    }
}

fn weight(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::List { items, .. } => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Map { entries, .. } => {
            1 + entries.iter().map(|entry| 1 + weight(&entry.value)).sum::<usize>()
        }
    }
}

fn bytes(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or_default()
}

fn place(span: &Span) -> Place {
    Place { line: span.start.line() as u32, column: span.start.col() as u32 + 1 }
}

fn error(place: Place, what: String, hint: &str) -> YamlError {
    YamlError { place, what, hint: hint.to_owned() }
}

/// The parser's complaint with a hint for the mistakes that people make.
fn explain(text: &str, at: Place, complaint: &str) -> YamlError {
    // The parser repeats the position behind its message.
    let what = complaint.split(" at char ").next().unwrap_or(complaint).to_owned();
    let line = text.lines().nth(at.line.saturating_sub(1) as usize).unwrap_or_default();
    let indent = &line[..line.len() - line.trim_start().len()];
    let hint = if indent.contains('\t') {
        "indent with spaces; YAML does not allow tabs there"
    } else if what.contains("quote") {
        "close the quote, or double a ' inside '...'"
    } else if what.contains("unknown anchor") {
        "put a text that starts with * in quotes"
    } else if what.contains("unexpected character") {
        "put the value in quotes; it starts with a character that YAML reserves"
    } else if what.contains("mapping values are not allowed") {
        "check the indentation, and put a value that contains \": \" in quotes"
    } else if what.contains("expected ':'") {
        "every line of a mapping needs \"key: value\"; check the indentation of this line"
    } else {
        "check the brackets, quotes and indentation around this place"
    };
    error(at, what, hint)
}

#[cfg(test)]
mod tests;
