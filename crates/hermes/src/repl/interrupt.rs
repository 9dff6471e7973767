//! Ctrl-C while a turn runs: the first asks the turn to stop, the next one leaves at once.
//!
//! A thread of its own watches, so that leaving works even while the turn's thread is busy. At
//! the prompt the line editor reads Ctrl-C as a key, and no signal comes.

use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use hermes_agent::Cancel;

use crate::exit::Exit;
use crate::out;

/// The running turn and how often it was asked to stop.
type Running = Arc<Mutex<Option<(Cancel, u32)>>>;

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
            listen().context("Ctrl-C cannot be watched")?
        };
        let seen = running.clone();
        std::thread::Builder::new()
            .name("interrupts".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    while signals.recv().await.is_some() {
                        interrupted(&seen);
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
}

/// A running turn.
pub struct Turn<'a>(&'a Interrupts);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        set(&self.0.running, None);
    }
}

fn set(running: &Running, value: Option<(Cancel, u32)>) {
    if let Ok(mut running) = running.lock() {
        *running = value;
    }
}

fn interrupted(running: &Running) {
    let Ok(mut running) = running.lock() else { return };
    match &mut *running {
        None => {}
        Some((cancel, 0)) => {
            cancel.cancel();
            *running = Some((cancel.clone(), 1));
        }
        Some(_) => {
            // What was shown is in the draft; the next start makes a row of it.
            out::note("\nleft at once; what was said is kept");
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
    }
}

#[cfg(unix)]
fn listen() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn listen() -> std::io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}
