//! A handoff capsule as the rehearsal model writes it: quotations of the dialogue it was given,
//! under the headings that are asked for. No language model, and no judgement.

use crate::json::write_string;

/// Turns that are quoted under one heading at most.
const QUOTED: usize = 24;
/// Characters of a quotation.
const CHARS: usize = 160;

/// A capsule, if `user` asks for one.
pub(super) fn write(user: &str) -> Option<String> {
    if !user.contains("handoff capsule") || !user.contains("five headings") {
        return None;
    }
    let dialogue = between(user, "<dialogue>\n", "</dialogue>")?;
    let earlier = between(user, "<earlier_capsule>\n", "\n</earlier_capsule>").unwrap_or_default();
    let turns: Vec<Turn<'_>> = dialogue.lines().filter_map(Turn::read).collect();
    let quoted = |person: bool| {
        let lines: Vec<String> =
            turns.iter().filter(|turn| turn.person == person).map(Turn::quote).collect();
        lines[lines.len().saturating_sub(QUOTED)..].join("\n")
    };
    let last = turns.iter().rfind(|turn| turn.person).map_or_else(none, Turn::quote);
    let mut state = quoted(false);
    for line in earlier.lines().filter(|line| line.starts_with("- ") && *line != "- none") {
        state.push('\n');
        state.push_str(line);
    }
    let sections = [
        ("Working on", last.clone()),
        ("State", state.trim().to_owned()),
        ("Decisions", none()),
        ("Pointers", quoted(true)),
        ("Next", last),
    ];
    let mut out = String::new();
    for (heading, text) in sections {
        let text = if text.is_empty() { none() } else { text };
        for piece in ["## ", heading, "\n", &text, "\n\n"] {
            out.push_str(piece);
        }
    }
    Some(out.trim_end().to_owned())
}

/// The session that the Recovery block in `text` names.
pub(super) fn session(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("session_search(query=\"2 to 5 keywords\", session_id=\"")?;
    Some(rest.split_once('"')?.0)
}

/// The arguments of the block's first call.
pub(super) fn search(session: &str, words: &str) -> String {
    let mut out = String::from("{\"query\":");
    write_string(&mut out, words);
    out.push_str(",\"session_id\":");
    write_string(&mut out, session);
    out.push('}');
    out
}

/// The arguments of the block's call that reads around the first hit in `result`.
pub(super) fn around(session: &str, result: &str) -> Option<String> {
    let (_, rest) = result.split_once("\"match_message_id\":")?;
    let id: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    let mut out = String::from("{\"session_id\":");
    write_string(&mut out, session);
    out.push_str(",\"around_message_id\":");
    out.push_str(&id);
    out.push('}');
    (!id.is_empty()).then_some(out)
}

fn none() -> String {
    "- none".to_owned()
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.rsplit_once(end)?.0)
}

/// A turn of the dialogue: `[r12] PERSON: text`.
struct Turn<'t> {
    row: &'t str,
    person: bool,
    text: &'t str,
}

impl<'t> Turn<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let (row, rest) = match line.strip_prefix("[r") {
            Some(rest) => rest.split_once("] ")?,
            // Of a confidential session the rows are not shown.
            None => ("", line),
        };
        let (who, text) = rest.split_once(": ")?;
        let person = who.starts_with("PERSON");
        (person || who.starts_with("MODEL")).then_some(Self { row, person, text })
    }

    fn quote(&self) -> String {
        let text: String = self.text.chars().take(CHARS).collect();
        if self.row.is_empty() {
            format!("- \"{text}\"")
        } else {
            format!("- \"{text}\" [r{}]", self.row)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capsule_quotes_the_dialogue_under_the_five_headings() {
        let asked = "<earlier_capsule>\n## State\n- from before\n</earlier_capsule>\n\n\
                     <dialogue>\n[r1] PERSON: use port 8443\n[r2] MODEL: done\n[r5] PERSON: and \
                     test it\n</dialogue>\n\nWrite the handoff capsule of this dialogue under the \
                     five headings now.";
        let capsule = write(asked).unwrap();
        assert_eq!(
            capsule,
            "## Working on\n- \"and test it\" [r5]\n\n## State\n- \"done\" [r2]\n- from before\n\n\
             ## Decisions\n- none\n\n## Pointers\n- \"use port 8443\" [r1]\n- \"and test it\" [r5]\
             \n\n## Next\n- \"and test it\" [r5]"
        );
        assert_eq!(write("five headings of a handoff capsule"), None, "there is no dialogue");
    }
}
