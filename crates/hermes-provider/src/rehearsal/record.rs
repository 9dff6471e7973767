//! The record of a conversation as the rehearsal model writes it: quotations of the rows it was
//! given, under the headings that are asked for. No language model, and no judgement.

/// The mark by which a request for a record is known.
const END: &str = "END OF RECORD";
/// Rows that are quoted at most.
const QUOTED: usize = 24;
/// Items of one heading at most.
const ITEMS: usize = 40;

/// A record, if `user` asks for one.
pub(super) fn write(user: &str) -> Option<String> {
    if !user.contains(END) {
        return None;
    }
    let source = between(user, "<source>", "</source>")?;
    let previous = between(user, "<previous_record>", "</previous_record>").unwrap_or_default();
    let rows: Vec<(&str, &str, &str)> = source.lines().filter_map(row).collect();
    let said = || rows.iter().filter(|(_, who, _)| *who == "person");
    let quote = |(row, _, text): &(&str, &str, &str)| format!("- \"{}\" [{row}]", head(text));

    let mut goal: Vec<String> = Vec::new();
    goal.extend(said().next_back().map(quote));
    let spoken: Vec<&(&str, &str, &str)> =
        rows.iter().filter(|(_, who, _)| *who != "person").collect();
    let step = spoken.len().div_ceil(QUOTED).max(1);
    let done = spoken
        .iter()
        .step_by(step)
        .map(|(row, who, text)| format!("- {who}: {} [{row}]", head(text)))
        .collect::<Vec<_>>();
    let asked: Vec<String> = {
        let all: Vec<_> = said().collect();
        let step = all.len().div_ceil(QUOTED).max(1);
        all.iter().step_by(step).map(|row| quote(row)).collect()
    };
    let mut out = String::new();
    for (heading, fresh) in [("Goal", goal), ("Done", done), ("Facts and values", asked)] {
        out.push_str("## ");
        out.push_str(heading);
        out.push('\n');
        let mut items = Vec::new();
        if heading != "Goal" {
            items = items_under(previous, heading);
        }
        items.extend(fresh);
        let from = items.len().saturating_sub(ITEMS);
        for item in &items[from..] {
            out.push_str(item);
            out.push('\n');
        }
        out.push('\n');
    }
    out.push_str("## Open\n- none\n\n");
    out.push_str(END);
    Some(out)
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.rsplit_once(end).map_or(rest, |(inside, _)| inside))
}

/// Reference, speaker and text of a line such as `[r12 person] text`.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_prefix('[')?;
    let (front, text) = rest.split_once("] ")?;
    let (row, who) = front.split_once(' ')?;
    let is_row = row.strip_prefix('r').is_some_and(|it| it.bytes().all(|b| b.is_ascii_digit()));
    (is_row && !text.trim().is_empty()).then_some((row, who, text))
}

fn items_under(record: &str, heading: &str) -> Vec<String> {
    let mut inside = false;
    let mut out = Vec::new();
    for line in record.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            inside = name.trim() == heading;
        } else if inside && line.starts_with("- ") && line != "- none" {
            out.push(line.to_owned());
        }
    }
    out
}

/// The beginning of a text, on one line and without what would be read as a reference.
fn head(text: &str) -> String {
    let short: String = text.chars().take(160).map(|c| if c == '"' { '\'' } else { c }).collect();
    short.split_whitespace().collect::<Vec<_>>().join(" ").replace(['[', ']'], "|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_quotes_its_rows_and_takes_the_previous_one_up() {
        let user = "<previous_record>## Done\n- model: began [r1]\n</previous_record>\n\n<source>\n[r2 \
                    person] read \"x\"\n[r3 model calls read_file] {}\n[r4 read_file result] text \
                    [1]\n</source>\n\nWrite the record now. Last line: END OF RECORD";
        assert_eq!(
            write(user).unwrap(),
            "## Goal\n- \"read 'x'\" [r2]\n\n## Done\n- model: began [r1]\n- model calls read_file: \
             {} [r3]\n- read_file result: text |1| [r4]\n\n## Facts and values\n- \"read 'x'\" \
             [r2]\n\n## Open\n- none\n\nEND OF RECORD"
        );
        assert_eq!(write("what is an END OF RECORD mark?"), None);
    }
}
