//! A turn as it is shown on a terminal or in a pipe. The answer goes to stdout, everything else
//! to stderr.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_core::{Event, EventSink, NoticeLevel, RowStatus, TurnOutcome};

use crate::out::{Paint, ellipsis, note, visible};
use crate::progress::{self, Progress};

/// Longest line about a tool, in characters.
const TOOL_CHARS: usize = 100;

/// How much of a turn is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The answer as it streams, tools, notices.
    Everything,
    /// Notices on stderr; the answer is printed when it is whole.
    AnswerOnly,
}

/// Shows the events of a turn.
pub struct Screen {
    show: Show,
    reasoning: bool,
    paint: Paint,
    /// Whether what is written to stdout reaches a terminal.
    to_terminal: bool,
    /// The model that is asked.
    model: String,
    state: Mutex<State>,
    closed: AtomicBool,
    _progress: Progress,
}

#[derive(Default)]
struct State {
    /// Whether the cursor stands behind text of an unfinished line.
    mid_line: bool,
    in_reasoning: bool,
    /// Whether another model may have taken over.
    other_model: bool,
}

impl Screen {
    /// A screen that shows this much of a turn of `model`; `reasoning` says whether the model's
    /// reasoning is shown.
    pub fn new(show: Show, reasoning: bool, model: &str) -> Self {
        Self {
            show,
            reasoning,
            paint: Paint::stderr(),
            to_terminal: io::stdout().is_terminal(),
            model: model.to_owned(),
            state: Mutex::default(),
            closed: AtomicBool::new(false),
            _progress: Progress::start(),
        }
    }

    /// Whether stdout went away while the answer was printed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn text(&self, state: &mut State, text: &str) {
        progress::done();
        if std::mem::take(&mut state.in_reasoning) {
            note("");
        }
        let mut stdout = io::stdout().lock();
        let shown = if self.to_terminal { visible(text) } else { text.into() };
        if stdout.write_all(shown.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
        state.mid_line = !text.ends_with('\n');
    }

    fn reasoning_text(&self, state: &mut State, text: &str) {
        progress::done();
        state.in_reasoning = true;
        let mut stderr = io::stderr().lock();
        let shown = if stderr.is_terminal() { visible(text) } else { text.into() };
        drop(stderr.write_all(self.paint.dim(&shown).as_bytes()));
        drop(stderr.flush());
    }

    /// A line beside the answer.
    fn aside(&self, state: &mut State, text: &str) {
        self.finish_line(state);
        note(text);
    }

    /// Ends a line that text has begun.
    fn finish_line(&self, state: &mut State) {
        if std::mem::take(&mut state.mid_line) {
            self.text(state, "\n");
        }
        if std::mem::take(&mut state.in_reasoning) {
            note("");
        }
    }
}

impl EventSink for Screen {
    fn event(&self, event: Event) {
        let Ok(mut state) = self.state.lock() else { return };
        let state = &mut *state;
        let everything = self.show == Show::Everything;
        match event {
            Event::RequestStarted { .. } => {
                // The line that tells of the wait needs one of its own.
                self.finish_line(state);
                let model = if state.other_model { "the model" } else { &self.model };
                progress::wait_for(format!("waiting for {model}"));
            }
            Event::Text(text) if everything => self.text(state, &text),
            Event::Reasoning(text) if everything && self.reasoning => {
                self.reasoning_text(state, &text);
            }
            Event::AnswerStored { .. } => progress::done(),
            Event::ToolStarted { name, summary, .. } => {
                if everything {
                    let line = format!("· {name} {}", ellipsis(&summary, TOOL_CHARS));
                    self.aside(state, &self.paint.dim(&line));
                }
                progress::wait_for(format!("{name} runs"));
            }
            Event::ToolFinished { name, status, text, .. } => {
                progress::done();
                if everything {
                    let line = format!("  {}", finished(&name, status, &text));
                    let whole = status == RowStatus::Complete;
                    let line = if whole { self.paint.dim(&line) } else { self.paint.yellow(&line) };
                    self.aside(state, &line);
                }
            }
            Event::Retrying { why, attempt, delay_ms } => {
                progress::done();
                let line = format!("{why}; {}", again(attempt, delay_ms));
                self.aside(state, &self.paint.yellow(&line));
            }
            Event::Notice { level, text } => {
                state.other_model = true;
                let line = match level {
                    NoticeLevel::Info => self.paint.dim(&text),
                    NoticeLevel::Warning => self.paint.yellow(&format!("warning: {text}")),
                    NoticeLevel::Error => self.paint.red(&format!("error: {text}")),
                };
                self.aside(state, &line);
            }
            Event::TurnEnded(outcome) => {
                progress::done();
                if std::mem::take(&mut state.mid_line) {
                    self.text(state, "\n");
                }
                if everything && outcome == TurnOutcome::Interrupted {
                    self.aside(state, &self.paint.yellow("stopped; what was said is kept"));
                }
            }
            _ => {}
        }
    }
}

/// When the next attempt is made, as exactly as it is known.
fn again(attempt: u32, delay_ms: u64) -> String {
    match delay_ms {
        0 => format!("asking again at once (attempt {attempt})"),
        ms @ 1..10_000 => {
            let tenths = ms.div_ceil(100);
            format!("asking again in {}.{} s (attempt {attempt})", tenths / 10, tenths % 10)
        }
        ms => format!("asking again in {} s (attempt {attempt})", ms.div_ceil(1000)),
    }
}

/// What came of a tool call, on one line: its result where that is one line, else how it ended
/// and its last line; of a failure the reason.
fn finished(name: &str, status: RowStatus, text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("no result");
    let first = first.strip_prefix(name).and_then(|it| it.strip_prefix(": ")).unwrap_or(first);
    let last = lines.next_back();
    let ended = ["exit code ", "ended", "timed out "].iter().any(|start| first.starts_with(start));
    let told = match (last, status) {
        (Some(last), _) if ended => format!("{first}; {last}"),
        (Some(_), RowStatus::Complete) => format!("{} bytes", text.len()),
        _ => first.to_owned(),
    };
    let told = told.split("; hint: ").next().unwrap_or(&told);
    let told = told.replacen("the person said no", "you said no", 1);
    format!("{name}: {}", ellipsis(&told, TOOL_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_tool_tells_how_it_ended_and_a_failed_one_why() {
        use RowStatus::{Complete, Failed};
        let many = "a\nb\n".repeat(9);
        for (name, status, text, expected) in [
            ("terminal", Complete, "exit code 0\none\ntwo\n", "terminal: exit code 0; two"),
            ("terminal", Failed, "exit code 1; no output\n", "terminal: exit code 1; no output"),
            (
                "terminal",
                Failed,
                "terminal: not run: the person said no; hint: allow it",
                "terminal: not run: you said no",
            ),
            (
                "read_file",
                Failed,
                "read_file: nosuch.txt does not exist; hint: x\nsimilar: a",
                "read_file: nosuch.txt does not exist",
            ),
            ("read_file", Complete, &many, "read_file: 36 bytes"),
            ("x", Complete, "", "x: no result"),
        ] {
            assert_eq!(finished(name, status, text), expected);
        }
        assert!(finished("x", Failed, &"y".repeat(900)).chars().count() < 120);
    }

    #[test]
    fn the_wait_before_an_attempt_is_told_as_it_is() {
        assert_eq!(again(2, 0), "asking again at once (attempt 2)");
        assert_eq!(again(2, 250), "asking again in 0.3 s (attempt 2)");
        assert_eq!(again(3, 12_100), "asking again in 13 s (attempt 3)");
    }
}
