//! The signals that ask this process to end: Ctrl-C, a closed terminal (SIGHUP), `kill` (SIGTERM).
//! All of them stop a turn the same way, so that what was said is kept and a running command ends
//! with its process group; the exit code tells them apart.

use std::io;

use crate::exit::Exit;

/// Listens for them. From then on they no longer end the process by themselves.
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// None where the process was started to outlive its terminal (`nohup`).
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Signals {
    /// Starts to listen; to be called inside a runtime.
    ///
    /// # Errors
    /// If the system refuses a handler.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Starts to listen; to be called inside a runtime.
    ///
    /// # Errors
    /// If the system refuses a handler.
    #[cfg(windows)]
    pub fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: tokio::signal::windows::ctrl_c()? })
    }

    /// Waits for the next one; the exit code that belongs to it. Cancel-safe.
    #[cfg(unix)]
    pub async fn next(&mut self) -> Exit {
        let hangup = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = hangup => Exit::HungUp,
        }
    }

    /// Waits for the next one; the exit code that belongs to it. Cancel-safe.
    #[cfg(windows)]
    pub async fn next(&mut self) -> Exit {
        self.interrupt.recv().await;
        Exit::Interrupted
    }
}

/// Whether SIGHUP was ignored when this process started, as far as the system tells (Linux does).
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
