//! Reasoning inside the content: `<think>...</think>` at its very beginning.
//!
//! Only there: further in, the tag is text that somebody wrote about. A tag may be cut anywhere.

use super::Fragment;

const OPEN: [&str; 2] = ["<think>", "<thinking>"];
const CLOSE: [&str; 2] = ["</think>", "</thinking>"];

/// Sends text one way and thinking the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Splitter {
    state: State,
    /// Text whose side is not clear yet.
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing but blanks so far.
    #[default]
    Start,
    /// Inside the tags.
    Thinking,
    /// Behind them, nothing but blanks so far.
    Behind,
    /// In the answer.
    Text,
}

impl Splitter {
    pub(super) fn push(&mut self, text: &str, on: &mut dyn FnMut(Fragment<'_>)) {
        if self.state == State::Text && self.held.is_empty() {
            on(Fragment::Text(text));
            return;
        }
        self.held.push_str(text);
        loop {
            let before = self.state;
            self.step(on);
            if self.state == before {
                return;
            }
        }
    }

    pub(super) fn finish(&mut self, on: &mut dyn FnMut(Fragment<'_>)) {
        let held = std::mem::take(&mut self.held);
        match self.state {
            State::Thinking => on(Fragment::Reasoning(&held)),
            State::Start | State::Behind | State::Text => on(Fragment::Text(&held)),
        }
    }

    fn step(&mut self, on: &mut dyn FnMut(Fragment<'_>)) {
        match self.state {
            State::Start => {
                let text = self.held.trim_start();
                if let Some(rest) = OPEN.iter().find_map(|tag| text.strip_prefix(tag)) {
                    self.held = rest.to_owned();
                    self.state = State::Thinking;
                } else if !text.is_empty() && !OPEN.iter().any(|tag| tag.starts_with(text)) {
                    self.state = State::Text;
                }
            }
            State::Thinking => {
                let found = CLOSE
                    .iter()
                    .filter_map(|tag| self.held.find(tag).map(|at| (at, tag.len())))
                    .min();
                if let Some((at, length)) = found {
                    on(Fragment::Reasoning(self.held.get(..at).unwrap_or_default()));
                    self.held = self.held.get(at + length..).unwrap_or_default().to_owned();
                    self.state = State::Behind;
                } else {
                    // Everything but what may be the beginning of the closing tag.
                    let keep = self
                        .held
                        .rfind('<')
                        .filter(|at| {
                            let tail = self.held.get(*at..).unwrap_or_default();
                            CLOSE.iter().any(|tag| tag.starts_with(tail))
                        })
                        .unwrap_or(self.held.len());
                    let tail = self.held.split_off(keep);
                    on(Fragment::Reasoning(&self.held));
                    self.held = tail;
                }
            }
            State::Behind => {
                self.held = self.held.trim_start().to_owned();
                if !self.held.is_empty() {
                    self.state = State::Text;
                }
            }
            State::Text => {
                on(Fragment::Text(&self.held));
                self.held.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: (&str, &str)) {
        for cut in 0..=text.len() {
            let mut splitter = Splitter::default();
            let (mut said, mut thought) = (String::new(), String::new());
            let mut on = |fragment: Fragment<'_>| match fragment {
                Fragment::Text(text) => said.push_str(text),
                Fragment::Reasoning(text) => thought.push_str(text),
            };
            splitter.push(&text[..cut], &mut on);
            splitter.push(&text[cut..], &mut on);
            splitter.finish(&mut on);
            assert_eq!((thought.as_str(), said.as_str()), expected, "{text:?} cut at {cut}");
        }
    }

    #[test]
    fn thinking_at_the_beginning_is_set_apart_wherever_it_is_cut() {
        check("<think>a < b</think>\n\nanswer", ("a < b", "answer"));
        check("\n<thinking>a</thinking>b", ("a", "b"));
        check("<think>never closed </thi", ("never closed </thi", ""));
        check("<think></think>x", ("", "x"));
        check("<thin air", ("", "<thin air"));
        check("say <think>x</think>", ("", "say <think>x</think>"));
        check("<think>a</think>b <think>c</think>", ("a", "b <think>c</think>"));
        check("  plain", ("", "  plain"));
    }
}
