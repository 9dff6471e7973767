//! The five sections of a capsule: their text, how it is read from an answer or a file, and how it
//! is written.
//!
//! Invariants: reading never fails and never panics; what [`Body::render`] writes is read back as
//! it was; no line of a section begins as a heading of a section does, so that counting headings
//! counts sections; a section holds no control characters, so that a file of them is text to every
//! tool.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What the person wants to reach.
    WorkingOn,
    /// Where the work stands.
    State,
    /// What was decided, ruled out or corrected.
    Decisions,
    /// Files, commands, exact values.
    Pointers,
    /// What is still asked for.
    Next,
}

impl Section {
    /// All sections in their order.
    pub const ALL: [Self; 5] =
        [Self::WorkingOn, Self::State, Self::Decisions, Self::Pointers, Self::Next];

    /// Its heading.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::WorkingOn => "Working on",
            Self::State => "State",
            Self::Decisions => "Decisions",
            Self::Pointers => "Pointers",
            Self::Next => "Next",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::WorkingOn => 0,
            Self::State => 1,
            Self::Decisions => 2,
            Self::Pointers => 3,
            Self::Next => 4,
        }
    }
}

/// The beginning of the status line of a capsule's file.
pub(crate) const STATUS: &str = "capsule-status: ";

/// The heading of the block that no model writes.
pub(crate) const RECOVERY: &str = "Recovery";

/// What an empty section says.
pub(crate) const NOTHING: &str = "none";

/// The texts of the five sections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body([String; 5]);

impl Body {
    /// A section's text.
    pub fn get(&self, section: Section) -> &str {
        &self.0[section.index()]
    }

    /// Replaces a section's text.
    pub fn set(&mut self, section: Section, text: &str) {
        self.0[section.index()] = clean(text);
    }

    /// Adds a line to a section.
    pub fn add_line(&mut self, section: Section, line: &str) {
        let text = &mut self.0[section.index()];
        if text.is_empty() || is_nothing(text) {
            text.clear();
        } else {
            text.push('\n');
        }
        let line = clean(line);
        text.push_str(&line);
    }

    /// The five sections as they stand in the file, without a line break at the end.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for section in Section::ALL {
            if !out.is_empty() {
                out.push_str("\n\n");
            }
            out.push_str("## ");
            out.push_str(section.heading());
            out.push('\n');
            let text = self.get(section);
            out.push_str(if text.is_empty() { NOTHING } else { text });
        }
        out
    }

    /// Characters that say something.
    pub fn content_chars(&self) -> usize {
        self.0.iter().filter(|text| !is_nothing(text)).map(|text| text.chars().count()).sum()
    }

    /// Applies `change` to each section's text.
    #[must_use]
    pub fn map(&self, mut change: impl FnMut(Section, &str) -> String) -> Self {
        let mut out = Self::default();
        for section in Section::ALL {
            out.set(section, &change(section, self.get(section)));
        }
        out
    }
}

/// Words of a text.
pub fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

fn is_nothing(text: &str) -> bool {
    let word = text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    matches!(word.as_str(), "" | "none" | "n/a" | "nothing")
}

/// A text without control characters but line feeds and tabs; other breaks of lines become spaces.
pub(crate) fn legible(text: &str) -> Cow<'_, str> {
    const BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    // The first bytes of all of them; most texts have none.
    let may_be =
        |b: u8| (b < b' ' && !matches!(b, b'\n' | b'\t')) || matches!(b, 0x7f | 0xc2 | 0xe2);
    let looks_plain = !text.bytes().any(may_be);
    if looks_plain || !text.contains(|c| is_control(c) || BREAKS.contains(&c)) {
        return Cow::Borrowed(text);
    }
    let plain = text.replace("\r\n", "\n").replace(BREAKS, " ");
    Cow::Owned(plain.replace(is_control, ""))
}

/// A section's text: no blank lines at its ends, and no line that looks like a section's heading.
fn clean(text: &str) -> String {
    let text = legible(text);
    let mut out = String::with_capacity(text.len());
    for line in text.trim_matches(['\n', ' ', '\t']).lines() {
        if !out.is_empty() {
            out.push('\n');
        }
        // Nor the file's status line.
        if heading_of(line).is_some() || line.starts_with("## ") || line.starts_with(STATUS) {
            out.push_str("- ");
            out.push_str(line.trim_start_matches(['#', ' ', '*']));
        } else {
            out.push_str(line);
        }
    }
    // What was cleaned may begin or end with white space of another kind.
    balanced(out.trim())
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// A text whose fenced blocks are closed, so that none reaches into the next section: a fence that
/// has no partner is made harmless. As long as before.
pub(crate) fn balanced(text: &str) -> String {
    let fences = text.lines().filter(|line| is_fence(line)).count();
    if fences.is_multiple_of(2) {
        return text.to_owned();
    }
    let at = text
        .lines()
        .rfind(|line| is_fence(line))
        .map_or(0, |line| line.as_ptr() as usize - text.as_ptr() as usize);
    format!("{}{}", &text[..at], text[at..].replacen("```", "'''", 1))
}

/// What a heading names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading {
    Section(Section),
    Recovery,
}

/// Reads `## Working on`, `**Working on:**` and the like; other headings are text.
fn heading_of(line: &str) -> Option<Heading> {
    let line = line.trim();
    let name = if let Some(rest) = line.strip_prefix('#') {
        let rest = rest.trim_start_matches('#');
        rest.starts_with([' ', '\t']).then_some(rest)?
    } else {
        line.strip_prefix("**")?.trim_end_matches(':').strip_suffix("**")?
    };
    let name = name.trim().trim_matches(['*', ':', ' ']);
    // `1. Working on`
    let name = match name.split_once(['.', ')']) {
        Some((number, rest))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            rest.trim()
        }
        _ => name,
    };
    if name.eq_ignore_ascii_case(RECOVERY) {
        return Some(Heading::Recovery);
    }
    Section::ALL
        .into_iter()
        .find(|section| name.eq_ignore_ascii_case(section.heading()))
        .map(Heading::Section)
}

/// What was read of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// What stands before the first heading.
    pub head: String,
    /// The sections' texts; of a heading that comes twice, both.
    pub body: Body,
    /// The headings in the order in which they came.
    pub headings: Vec<Section>,
    /// The block below the sections.
    pub recovery: Option<String>,
}

impl Read {
    /// Whether each heading is there once, in order.
    pub fn is_whole(&self) -> bool {
        self.headings == Section::ALL
    }
}

/// Reads an answer or a file.
pub fn read(text: &str) -> Read {
    let text = unfenced(text);
    let mut out = Read::default();
    let mut here: Option<Heading> = None;
    let mut pieces: [String; 5] = Default::default();
    let mut fence = false;
    // A fence without a partner would swallow all that follows.
    let closed = text.lines().filter(|line| is_fence(line)).count().is_multiple_of(2);
    for line in text.lines() {
        if closed && is_fence(line) {
            fence = !fence;
        }
        if !fence && let Some(heading) = heading_of(line) {
            here = Some(heading);
            match heading {
                Heading::Section(section) => out.headings.push(section),
                Heading::Recovery => {
                    out.recovery.get_or_insert_default();
                }
            }
            continue;
        }
        let target = match here {
            None => &mut out.head,
            Some(Heading::Section(section)) => &mut pieces[section.index()],
            Some(Heading::Recovery) => out.recovery.get_or_insert_default(),
        };
        target.push_str(line);
        target.push('\n');
    }
    for (section, piece) in Section::ALL.into_iter().zip(pieces) {
        let piece = clean(&piece);
        out.body.set(section, if piece == NOTHING { "" } else { &piece });
    }
    out.head = out.head.trim().to_owned();
    if let Some(recovery) = &mut out.recovery {
        *recovery = recovery.trim().to_owned();
    }
    out
}

/// A text that is one fenced block as a whole, without its fence.
fn unfenced(text: &str) -> &str {
    let trimmed = text.trim();
    let Some(rest) = trimmed.strip_prefix("```") else { return text };
    let Some((_, inner)) = rest.split_once('\n') else { return text };
    match inner.trim_end().strip_suffix("```") {
        Some(inner) if inner.matches("```").count().is_multiple_of(2) => inner,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "## Working on\nthe parser\n\n## State\n- half done\n\n## Decisions\nnone\n\n\
                        ## Pointers\nsrc/a.rs\n\n## Next\ntest it";

    #[test]
    fn a_rendered_body_is_read_back() {
        let read = read(GOOD);
        assert!(read.is_whole());
        assert_eq!(read.body.get(Section::WorkingOn), "the parser");
        assert_eq!(read.body.get(Section::Decisions), "");
        assert_eq!(read.body.render(), GOOD);
        assert_eq!(read.recovery, None);
    }

    #[test]
    fn headings_are_known_in_the_forms_that_models_use() {
        let loose = "Here it is:\n# Working On:\na\n**State**\nb\n### 3. decisions\nc\n\
                     ## **Pointers**\n```\n## Next\n```\n## Details\nd\n**Next:**\ne\n## Recovery\nmine";
        let read = read(loose);
        assert!(read.is_whole(), "{read:?}");
        assert_eq!(read.head, "Here it is:");
        assert_eq!(read.body.get(Section::Pointers), "```\n- Next\n```\n- Details\nd");
        assert_eq!(read.recovery.as_deref(), Some("mine"));
        let whole = read.body.render();
        assert_eq!(whole.lines().filter(|line| line.starts_with("## ")).count(), 5, "{whole}");
        let fenced = format!("```markdown\n{GOOD}\n```");
        assert_eq!(super::read(&fenced).body, super::read(GOOD).body);
    }

    #[test]
    fn control_characters_and_headings_hidden_behind_them_do_not_reach_a_file() {
        let hostile = "a\0b \u{1b}[31mred\u{1b}[0m\r\n\u{1b}## Next\nx\r## State\u{2028}## Next\u{7}\n\
                       #\0# Recovery\n\ttab\n漢字 \u{feff}";
        let mut body = Body::default();
        body.set(Section::State, hostile);
        body.add_line(Section::Next, "- \u{9b}31m\0ok");
        let text = body.render();
        assert_eq!(text.lines().filter(|line| line.starts_with("##")).count(), 5, "{text}");
        assert!(!text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')), "{text:?}");
        for kept in ["ab [31mred", "- Next\nx ## State ## Next\n- Recovery\n\ttab\n漢字", "- 31mok"]
        {
            assert!(text.contains(kept), "{kept:?}: {text:?}");
        }
        assert_eq!(read(&text).body, body);
    }

    #[test]
    fn headings_that_miss_or_change_places_are_told() {
        assert!(!read("## State\na\n## Working on\nb").is_whole());
        assert!(!read(&GOOD.replace("## Next", "## Then")).is_whole());
        assert!(!read(&format!("{GOOD}\n## Next\nmore")).is_whole());
        assert!(!read("").is_whole());
    }
}
