//! Cutting a capsule to its cap: in the middle, with a mark, never at the end.
//!
//! Invariants: the result has at most the cap's characters, and exactly that many if something was
//! cut; headings stay as long as there is room for them; Pointers and Next stay whole unless they
//! alone take more than their share.

use crate::section::{Body, NOTHING, Section, balanced};

/// Stands where something was cut. No line break behind it: the rest of a cut line must not be taken
/// for a line of its own.
pub const TRIM_MARK: &str = "\n[... cut in the middle to fit; the session holds the rest ...] ";

/// Share of the cap, in percent, up to which Pointers and Next together are left whole.
const TAIL_SHARE: usize = 60;

/// A body cut to a cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// The five sections as text.
    pub text: String,
    /// How many characters it had over the cap; 0 if nothing was cut.
    pub over: usize,
}

/// Cuts `body` to `cap` characters.
pub fn trim(body: &Body, cap: usize) -> Trimmed {
    let whole = body.render();
    let total = whole.chars().count();
    if total <= cap {
        return Trimmed { text: whole, over: 0 };
    }
    let over = total - cap;
    // Headings, their line breaks and the blank lines between sections.
    let lengths = Section::ALL.map(|section| text_of(body, section).chars().count());
    let frame = total - lengths.iter().sum::<usize>();
    let Some(room) = cap.checked_sub(frame) else {
        return Trimmed { text: cut_middle(&whole, cap), over };
    };
    let allowed = share_out(lengths, room, cap);
    let mut out = String::with_capacity(whole.len());
    for (section, allowed) in Section::ALL.into_iter().zip(allowed) {
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str("## ");
        out.push_str(section.heading());
        out.push('\n');
        out.push_str(&balanced(&cut_middle(text_of(body, section), allowed)));
    }
    Trimmed { text: out, over }
}

fn text_of(body: &Body, section: Section) -> &str {
    match body.get(section) {
        "" => NOTHING,
        text => text,
    }
}

/// How many characters each section may have; together exactly `room`.
fn share_out(lengths: [usize; 5], room: usize, cap: usize) -> [usize; 5] {
    let [head @ .., pointers, next] = lengths;
    let tail_room = if pointers + next > cap * TAIL_SHARE / 100 {
        (cap * TAIL_SHARE / 100).min(room)
    } else {
        (pointers + next).min(room)
    };
    let [pointers, next] = level([pointers, next], tail_room);
    let [a, b, c] = level(head, room - tail_room);
    // What the head does not need goes back to the tail.
    let left = room - a - b - c;
    let [pointers, next] = match left.checked_sub(pointers + next) {
        None | Some(0) => [pointers, next],
        Some(_) => level([lengths[3], lengths[4]], left),
    };
    [a, b, c, pointers, next]
}

/// Cuts the longest first, so that together they have `room`; what is shorter than the level stays.
fn level<const N: usize>(lengths: [usize; N], room: usize) -> [usize; N] {
    let mut order: [usize; N] = std::array::from_fn(|index| index);
    order.sort_by_key(|index| lengths[*index]);
    let mut out = [0; N];
    let mut left = room;
    for (place, index) in order.into_iter().enumerate() {
        let share = left / (N - place);
        out[index] = lengths[index].min(share);
        if place + 1 == N {
            out[index] = lengths[index].min(left);
        }
        left -= out[index];
    }
    out
}

/// The beginning and the end of a text with the mark between them: exactly `max` characters, if it
/// has more.
pub(crate) fn cut_middle(text: &str, max: usize) -> String {
    let total = text.chars().count();
    if total <= max {
        return text.to_owned();
    }
    let mark = TRIM_MARK.chars().count();
    let Some(keep) = max.checked_sub(mark) else {
        return text.chars().take(max).collect();
    };
    let tail = keep / 2;
    let head = keep - tail;
    let head_end = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(total - tail).map_or(text.len(), |(at, _)| at);
    format!("{}{TRIM_MARK}{}", &text[..head_end], &text[tail_start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::read;

    fn body(lengths: [usize; 5]) -> Body {
        let mut body = Body::default();
        for (section, length) in Section::ALL.into_iter().zip(lengths) {
            body.set(
                section,
                &section
                    .heading()
                    .chars()
                    .cycle()
                    .filter(|c| *c != ' ')
                    .take(length)
                    .collect::<String>(),
            );
        }
        body
    }

    #[test]
    fn a_capsule_of_12564_characters_is_cut_to_exactly_12000() {
        let frame = body([0; 5]).render().chars().count() - 5 * NOTHING.len();
        let long = body([900, 7_000, 12_564 - frame - 900 - 7_000 - 1_500 - 800, 1_500, 800]);
        assert_eq!(long.render().chars().count(), 12_564);
        let trimmed = trim(&long, 12_000);
        assert_eq!((trimmed.text.chars().count(), trimmed.over), (12_000, 564));
        let after = read(&trimmed.text);
        assert!(after.is_whole());
        for kept in [Section::WorkingOn, Section::Pointers, Section::Next] {
            assert_eq!(after.body.get(kept), long.get(kept));
        }
        assert!(after.body.get(Section::State).contains(TRIM_MARK.trim()));
        assert!(after.body.get(Section::State).ends_with("State"), "the end is kept");
    }

    #[test]
    fn pointers_and_next_are_cut_only_beyond_their_share() {
        let long = body([500, 500, 500, 9_000, 4_000]);
        let trimmed = trim(&long, 12_000);
        assert_eq!(trimmed.text.chars().count(), 12_000);
        let after = read(&trimmed.text);
        assert!(after.is_whole());
        for section in [Section::WorkingOn, Section::State, Section::Decisions, Section::Next] {
            assert_eq!(after.body.get(section), long.get(section), "{section:?}");
        }
        assert!(after.body.get(Section::Pointers).contains("cut in the middle"));
        let short = body([10, 10, 10, 10, 10]);
        assert_eq!(trim(&short, 12_000), Trimmed { text: short.render(), over: 0 });
        assert_eq!(trim(&body([9, 9_999, 9, 9, 9]), 20).text.chars().count(), 20);
    }
}
