//! The YAML header of a Markdown file.
//!
//! Invariant: one parser for every reader in the program; line endings, byte order marks and
//! blanks after the fence make no difference (texts come through `source_text`, which takes the
//! first two away), and no length is assumed.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// What a skill's header may say. Unknown keys are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Frontmatter {
    /// Its name; the folder's name if it gives none.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Operating systems it is for; all if empty.
    pub platforms: Words,
    /// Tags.
    pub tags: Words,
    /// Skills that go with it.
    pub related_skills: Words,
    /// The block with this program's own keys.
    pub metadata: Option<Metadata>,
}

/// The `metadata` key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The `metadata.hermes` key.
    pub hermes: Option<HermesKeys>,
}

/// The `metadata.hermes` key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HermesKeys {
    /// Tags.
    pub tags: Words,
    /// Skills that go with it.
    pub related_skills: Words,
    /// Tools without which it is not offered.
    pub requires_tools: Words,
    /// Tools with which it is not offered, because they do its work.
    pub fallback_for_tools: Words,
    /// Surfaces it is for; all if empty.
    pub session_platforms: Words,
}

/// A list of words, also when it is written as one word or separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word or a list of words")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Ok(Words(words.map(ToOwned::to_owned).collect()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Words, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Words, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Words, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Words, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Words, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = seq.next_element::<String>()? {
            let word = word.trim();
            if !word.is_empty() {
                words.push(word.to_owned());
            }
        }
        Ok(Words(words))
    }
}

/// A header that is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The file holds nothing.
    #[error("it is empty; hint: begin it with a header between two lines of ---")]
    NoContent,
    /// The first line is no fence.
    #[error("line 1 is not ---; hint: put the header between two lines of ---")]
    NotOpened,
    /// No second fence follows.
    #[error("the header that begins in line 1 is not closed; hint: end it with a line of ---")]
    NotClosed,
    /// The YAML is broken.
    #[error("the header is no valid YAML: {0}")]
    Yaml(String),
}

/// Splits `text` into the YAML of its header and the body after it. A later `---` belongs to the
/// body.
///
/// # Errors
/// If there is no whole header.
pub fn split(text: &str) -> Result<(&str, &str), HeaderError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(HeaderError::NoContent);
    }
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Err(HeaderError::NotOpened);
    }
    let mut at = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Ok((&text[first.len()..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    Err(HeaderError::NotClosed)
}

/// Reads the YAML of a header. A key of a shape that nobody expects does not cost the others.
///
/// # Errors
/// If it is no valid YAML mapping.
pub fn parse(yaml: &str) -> Result<Frontmatter, HeaderError> {
    /// What every skill has, whatever else its header holds.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Core {
        name: Option<String>,
        description: Option<String>,
        platforms: Words,
    }

    if yaml.trim().is_empty() {
        return Ok(Frontmatter::default());
    }
    match serde_saphyr::from_str(yaml) {
        Ok(front) => Ok(front),
        Err(first) => match serde_saphyr::from_str::<Core>(yaml) {
            Ok(Core { name, description, platforms }) => {
                Ok(Frontmatter { name, description, platforms, ..Frontmatter::default() })
            }
            Err(_) => Err(HeaderError::Yaml(one_line(&first.to_string()))),
        },
    }
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_split_at_their_first_closing_fence() {
        let check = |text: &str, expected: Result<(&str, &str), HeaderError>| {
            assert_eq!(split(text), expected, "{text:?}");
        };
        check("---\na: b\n---\nbody\n---\nmore", Ok(("a: b\n", "body\n---\nmore")));
        check("--- \t\na: b\n---  \n", Ok(("a: b\n", "")));
        check("---\n---", Ok(("", "")));
        check("", Err(HeaderError::NoContent));
        check("a: b\n---\n", Err(HeaderError::NotOpened));
        check("---\na: b\n", Err(HeaderError::NotClosed));
    }

    #[test]
    fn lists_words_and_odd_shapes_are_read() {
        let check = |yaml: &str, name: Option<&str>, platforms: &[&str]| {
            let front = parse(yaml).unwrap();
            assert_eq!(front.name.as_deref(), name, "{yaml}");
            assert_eq!(front.platforms.0, platforms, "{yaml}");
        };
        check("name: a\nplatforms: [macos, linux]", Some("a"), &["macos", "linux"]);
        check("name: 1.0\nplatforms: macos, linux", Some("1.0"), &["macos", "linux"]);
        check("name: yes\nplatforms:", Some("yes"), &[]);
        check("name: a\nmetadata: text\nplatforms: [linux]", Some("a"), &["linux"]);
        check("name: a\nmetadata:\n  hermes: [x]\n", Some("a"), &[]);
        check("unknown: {a: [1, {b: c}]}", None, &[]);
        assert!(matches!(parse("a: [b"), Err(HeaderError::Yaml(_))));
        assert!(matches!(parse("- a\n- b"), Err(HeaderError::Yaml(_))));
    }
}
