//! Signals during a conversation. Ctrl-C while a turn runs: the first asks the turn to stop, the
//! next one leaves at once. A closed terminal and a request to end stop the turn and leave; at the
//! prompt they leave at once, because nothing is going on.
//!
//! A thread of its own watches, so that leaving works even while the turn's thread is busy. At
//! the prompt the line editor reads Ctrl-C as a key, and no signal comes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use hermes_agent::Cancel;

use crate::exit::Exit;
use crate::out;
use crate::signals::Signals;

/// How long a turn may take to stop when the process has to end.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What goes on.
#[derive(Default)]
struct State {
    /// The running turn and how often it was asked to stop.
    turn: Option<(Cancel, u32)>,
    /// The process is to end, with this code.
    leaving: Option<Exit>,
}

type Running = Arc<Mutex<State>>;

/// Watches for Ctrl-C.
pub struct Interrupts {
    running: Running,
}

impl Interrupts {
    /// Starts to watch. From here on Ctrl-C no longer ends the process by itself.
    ///
    /// # Errors
    /// If the system refuses a signal handler or a thread.
    pub fn watch() -> anyhow::Result<Self> {
        let running = Running::default();
        let runtime = crate::commands::chat::runtime()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::listen().context("signals cannot be watched")?
        };
        let seen = running.clone();
        std::thread::Builder::new()
            .name("interrupts".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    loop {
                        match signals.next().await {
                            Exit::Interrupted => interrupted(&seen),
                            exit => {
                                asked_to_end(&seen, exit);
                                // The turn's thread leaves once the turn has stopped.
                                tokio::time::sleep(LAST_WAIT).await;
                                leave(exit);
                            }
                        }
                    }
                });
            })
            .context("the thread that watches Ctrl-C did not start")?;
        Ok(Self { running })
    }

    /// From now until the guard is dropped Ctrl-C stops this turn.
    pub fn during(&self, cancel: Cancel) -> Turn<'_> {
        set(&self.running, Some((cancel, 0)));
        Turn(self)
    }

    /// The code to leave with, once a signal has asked for it.
    pub fn leaving(&self) -> Option<Exit> {
        self.running.lock().ok().and_then(|running| running.leaving)
    }
}

/// A running turn.
pub struct Turn<'a>(&'a Interrupts);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        set(&self.0.running, None);
    }
}

fn set(running: &Running, turn: Option<(Cancel, u32)>) {
    if let Ok(mut running) = running.lock() {
        running.turn = turn;
    }
}

fn interrupted(running: &Running) {
    let Ok(mut running) = running.lock() else { return };
    match &mut running.turn {
        None => {}
        Some((cancel, asked @ 0)) => {
            cancel.cancel();
            *asked = 1;
        }
        Some(_) => {
            // What was shown is in the draft; the next start makes a row of it.
            out::note("\nleft at once; what was said is kept");
            leave(Exit::Interrupted);
        }
    }
}

/// Stops the turn; without one, leaves.
fn asked_to_end(running: &Running, exit: Exit) {
    let Ok(mut running) = running.lock() else { leave(exit) };
    running.leaving = Some(exit);
    match &mut running.turn {
        Some((cancel, asked)) => {
            cancel.cancel();
            *asked += 1;
        }
        None => leave(exit),
    }
}

fn leave(exit: Exit) -> ! {
    // The line editor may have it in raw mode.
    drop(crossterm::terminal::disable_raw_mode());
    std::process::exit(i32::from(exit.code()));
}
