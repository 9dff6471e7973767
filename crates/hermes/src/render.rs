//! A turn as it is shown on a terminal or in a pipe. The answer goes to stdout, everything else
//! to stderr.

use std::io::{self, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_core::{Event, EventSink, NoticeLevel, RowStatus, TurnOutcome};

use crate::out::{Paint, ellipsis, note};

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
    state: Mutex<State>,
    closed: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Whether the cursor stands behind text of an unfinished line.
    mid_line: bool,
    in_reasoning: bool,
}

impl Screen {
    /// A screen that shows this much; `reasoning` says whether the model's reasoning is shown.
    pub fn new(show: Show, reasoning: bool) -> Self {
        Self {
            show,
            reasoning,
            paint: Paint::stderr(),
            state: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether stdout went away while the answer was printed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn text(&self, state: &mut State, text: &str) {
        if state.in_reasoning {
            state.in_reasoning = false;
            note("");
        }
        let mut stdout = io::stdout().lock();
        if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
        state.mid_line = !text.ends_with('\n');
    }

    fn reasoning_text(&self, state: &mut State, text: &str) {
        state.in_reasoning = true;
        let mut stderr = io::stderr().lock();
        drop(stderr.write_all(self.paint.dim(text).as_bytes()));
        drop(stderr.flush());
    }

    /// A line beside the answer.
    fn aside(&self, state: &mut State, text: &str) {
        if std::mem::take(&mut state.mid_line) {
            self.text(state, "\n");
        }
        if std::mem::take(&mut state.in_reasoning) {
            note("");
        }
        note(text);
    }
}

impl EventSink for Screen {
    fn event(&self, event: Event) {
        let Ok(mut state) = self.state.lock() else { return };
        let state = &mut *state;
        let everything = self.show == Show::Everything;
        match event {
            Event::Text(text) if everything => self.text(state, &text),
            Event::Reasoning(text) if everything && self.reasoning => {
                self.reasoning_text(state, &text);
            }
            Event::ToolStarted { name, summary, .. } if everything => {
                let line = format!("· {name} {}", ellipsis(&summary, 100));
                self.aside(state, &self.paint.dim(&line));
            }
            Event::ToolFinished { name, status, bytes, .. } if everything => {
                let line = match status {
                    RowStatus::Complete => self.paint.dim(&format!("  {name}: {bytes} bytes")),
                    RowStatus::Failed => self.paint.yellow(&format!("  {name}: failed")),
                    RowStatus::Interrupted => self.paint.yellow(&format!("  {name}: stopped")),
                };
                self.aside(state, &line);
            }
            Event::Retrying { why, attempt, delay_ms } => {
                let line = format!("{why}; attempt {attempt} in {} s", delay_ms.div_ceil(1000));
                self.aside(state, &self.paint.yellow(&line));
            }
            Event::Notice { level, text } => {
                let line = match level {
                    NoticeLevel::Info => self.paint.dim(&text),
                    NoticeLevel::Warning => self.paint.yellow(&format!("warning: {text}")),
                    NoticeLevel::Error => self.paint.red(&format!("error: {text}")),
                };
                self.aside(state, &line);
            }
            Event::TurnEnded(outcome) => {
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
