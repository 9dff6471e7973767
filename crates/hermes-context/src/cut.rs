//! Cutting a long text to a limit: head and tail stay, and the cut says what it left out and how
//! to read it.
//!
//! Invariant: cuts fall on line ends (on characters where one line is longer than the limit), and
//! the result is never longer than the limit plus the marker.

/// A text that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Head, marker and tail.
    pub text: String,
    /// Characters of the original that are in it.
    pub kept: u64,
    /// Characters of the original.
    pub total: u64,
    /// First and last line that are left out, from 1.
    pub lines: (usize, usize),
}

/// Headings named in the marker at most.
const MAX_HEADINGS: usize = 15;

/// Cuts `text` to about `limit` characters; None if it fits. `path` is what the marker tells the
/// model to read.
pub fn cut(text: &str, limit: usize, path: &str) -> Option<Cut> {
    let total = text.chars().count();
    if total <= limit {
        return None;
    }
    // The head carries a file's purpose, the tail its newest rules.
    let head_end = floor_line(text, byte_at(text, limit * 7 / 10));
    let tail_start = ceil_line(text, byte_at(text, total - limit * 2 / 10)).max(head_end);
    let (head, middle, tail) =
        (&text[..head_end], &text[head_end..tail_start], &text[tail_start..]);

    let first = 1 + head.matches('\n').count();
    let last =
        (first + middle.matches('\n').count()).saturating_sub(usize::from(middle.ends_with('\n')));
    let left_out = middle.chars().count();
    let mut marker = format!(
        "[{left_out} of {total} characters are left out here: lines {first} to {last} of {path}; \
         read them from the file when they matter."
    );
    let headings: Vec<&str> =
        middle.lines().filter(|line| is_heading(line)).map(str::trim).collect();
    if !headings.is_empty() {
        let shown: Vec<&str> = headings.iter().take(MAX_HEADINGS).copied().collect();
        marker.push_str(" Headings there: ");
        marker.push_str(&shown.join("; "));
        if headings.len() > MAX_HEADINGS {
            marker.push_str("; and more");
        }
        marker.push('.');
    }
    marker.push(']');

    let mut out = String::with_capacity(head.len() + marker.len() + tail.len() + 2);
    out.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&marker);
    if !tail.is_empty() {
        out.push('\n');
        out.push_str(tail);
    }
    let kept = (total - left_out) as u64;
    Some(Cut { text: out, kept, total: total as u64, lines: (first, last) })
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    (1..=6).contains(&level) && rest.starts_with(' ') && line.len() < 120
}

/// Byte position of the `n`th character.
fn byte_at(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// The last line start at or before `at`; `at` itself where the line began too long ago.
fn floor_line(text: &str, at: usize) -> usize {
    match text[..at].rfind('\n') {
        Some(end) if end + 1 > at / 2 => end + 1,
        _ => at,
    }
}

/// The first line start at or after `at`; `at` itself where the line ends too late.
fn ceil_line(text: &str, at: usize) -> usize {
    if at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n') {
        return at;
    }
    let rest = &text[at..];
    match rest.find('\n') {
        Some(end) if end < rest.len() / 2 => at + end + 1,
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_marker_names_lines_headings_and_sizes() {
        let mut text = String::from("# Top\n");
        for line in 0..20 {
            writeln!(text, "- rule {line:02} of the house").unwrap();
            if line == 10 {
                text.push_str("## Middle\n");
            }
        }
        assert_eq!(cut(&text, 1000, "A.md"), None);
        let cut = cut(&text, 240, "A.md").unwrap();
        assert!(cut.text.starts_with("# Top\n- rule 00"), "{}", cut.text);
        assert!(cut.text.ends_with("- rule 19 of the house\n"), "{}", cut.text);
        assert!(cut.text.contains("Headings there: ## Middle."), "{}", cut.text);
        let (first, last) = cut.lines;
        assert!(cut.text.contains(&format!("lines {first} to {last} of A.md")), "{}", cut.text);
        let lines: Vec<&str> = text.lines().collect();
        assert!(!cut.text.contains(lines[first - 1]) && !cut.text.contains(lines[last - 1]));
        assert!(cut.text.contains(lines[first - 2]) && cut.text.contains(lines[last]));
    }

    proptest! {
        #[test]
        fn any_text_is_cut_to_its_limit_without_losing_count(
            text in "[a规\u{1f600}# \n]{0,400}",
            limit in 0usize..300,
        ) {
            let total = text.chars().count();
            match cut(&text, limit, "p") {
                None => prop_assert!(total <= limit),
                Some(cut) => {
                    prop_assert!(cut.kept as usize <= limit);
                    prop_assert_eq!(cut.total as usize, total);
                }
            }
        }
    }
}
