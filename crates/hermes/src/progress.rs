//! The line that says what is waited for: on a terminal, after a second without a sign of life.
//!
//! Invariants: it stands on stderr, on a line of its own, and is taken away before anything else
//! is printed; nothing is drawn while a question waits for its answer; in a pipe it is silent.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::out::{Paint, ellipsis, visible};

/// How long a wait may take before it is told, and how often it is told again.
const TICK: Duration = Duration::from_secs(1);

/// A terminal has one line for this, so the process has one state.
static STATE: Mutex<State> = Mutex::new(State { wait: None, drawn: false, questions: 0, users: 0 });
static CHANGED: Condvar = Condvar::new();

struct State {
    /// What is waited for, and since when.
    wait: Option<(String, Instant)>,
    /// Whether the line stands on the terminal.
    drawn: bool,
    /// Questions that wait for their answer.
    questions: usize,
    /// Turns that run.
    users: usize,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws the line from time to time until it is dropped.
pub struct Progress(Option<std::thread::JoinHandle<()>>);

impl Progress {
    /// Starts; does nothing where stderr is no terminal.
    pub fn start() -> Self {
        if !io::stderr().is_terminal() {
            return Self(None);
        }
        state().users += 1;
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(run);
        if thread.is_err() {
            state().users -= 1;
        }
        Self(thread.ok())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(thread) = self.0.take() else { return };
        let mut state = state();
        state.users -= 1;
        state.wait = None;
        erase(&mut state);
        drop(state);
        CHANGED.notify_all();
        drop(thread.join());
    }
}

fn run() {
    let mut state = state();
    while state.users > 0 {
        let left = match &state.wait {
            Some((what, since)) if state.questions == 0 && since.elapsed() >= TICK => {
                draw(what, since.elapsed());
                state.drawn = true;
                TICK
            }
            Some((_, since)) => TICK.saturating_sub(since.elapsed()).max(TICK / 20),
            None => Duration::from_hours(1),
        };
        state = CHANGED.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn draw(what: &str, since: Duration) {
    let room = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
    let text = format!("{what} ... {} s (Ctrl-C stops)", since.as_secs());
    let text = ellipsis(&visible(&text), room.saturating_sub(1));
    let mut stderr = io::stderr().lock();
    drop(write!(stderr, "\r\x1b[K{}", Paint::stderr().dim(&text)).and_then(|()| stderr.flush()));
}

fn erase(state: &mut State) {
    if std::mem::take(&mut state.drawn) {
        let mut stderr = io::stderr().lock();
        drop(stderr.write_all(b"\r\x1b[K").and_then(|()| stderr.flush()));
    }
}

/// From now on `what` is waited for.
pub fn wait_for(what: String) {
    state().wait = Some((what, Instant::now()));
    CHANGED.notify_all();
}

/// It came, or is no longer waited for.
pub fn done() {
    let mut state = state();
    state.wait = None;
    erase(&mut state);
}

/// Makes room for something to be printed.
pub fn step_aside() {
    erase(&mut state());
}

/// A question to the person: nothing is drawn until it is dropped.
pub struct Question(());

impl Question {
    /// Makes room.
    pub fn begin() -> Self {
        let mut state = state();
        state.questions += 1;
        erase(&mut state);
        Self(())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut state = state();
        state.questions -= 1;
        // The person's time is not the command's.
        if let Some((_, since)) = &mut state.wait {
            *since = Instant::now();
        }
    }
}
