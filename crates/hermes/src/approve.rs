//! Asking the person before a command runs. Without a terminal on both sides the answer is no.
//!
//! Invariants: only what is typed after the question answers it; a question that is no longer
//! asked (the turn was stopped) takes no line away from whoever reads the keyboard next.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use hermes_tools::{ApprovalRequest, Approver, Decision, DenyAll};

use crate::out::{Paint, visible};
use crate::progress::Question;

/// The approver for this process: the person where there is one at a terminal.
pub fn approver() -> Arc<dyn Approver> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        Arc::new(AtTerminal)
    } else {
        Arc::new(DenyAll)
    }
}

struct AtTerminal;

impl Approver for AtTerminal {
    fn ask<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        let question = question(request);
        Box::pin(async move {
            // A thread of its own: reading a line blocks, and the turn must stay stoppable.
            let (send, receive) = tokio::sync::oneshot::channel();
            let given_up = Arc::new(AtomicBool::new(false));
            let seen = given_up.clone();
            let thread = std::thread::spawn(move || {
                let answer = answer(&question, &|| seen.load(Ordering::Relaxed));
                // Nobody waits for the answer once the turn was stopped.
                drop(send.send(answer));
            });
            let _question = Question::begin();
            let _asking = Asking { given_up, thread: Some(thread) };
            match receive.await {
                Ok(Ok(line)) => decide(&line),
                Ok(Err(error)) => {
                    Decision::Deny { why: format!("the answer could not be read: {error}") }
                }
                Err(_) => Decision::Deny { why: "no answer".to_owned() },
            }
        })
    }
}

fn question(request: &ApprovalRequest) -> String {
    let paint = Paint::stderr();
    format!(
        "\n{} in {}\n  {}\n{}\n[o]nce, for this [s]ession, [d]eny: ",
        paint.bold("Run this command?"),
        visible(&request.cwd.display().to_string()),
        visible(&request.shown()).replace('\n', "\n  "),
        paint.dim(&visible(&request.reason)),
    )
}

/// A question that waits for its answer. Dropped, it stops to listen before anything else does.
struct Asking {
    given_up: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take().filter(|_| keyboard::STOPS) {
            drop(thread.join());
        }
    }
}

/// Only a clear yes is a yes.
fn decide(answer: &str) -> Decision {
    match answer.trim().to_ascii_lowercase().as_str() {
        "o" | "once" | "y" | "yes" => Decision::Once,
        "s" | "session" => Decision::Session,
        _ => Decision::Deny { why: "the person said no".to_owned() },
    }
}

/// Asks, and reads what is typed after the question, until it is given up.
///
/// # Errors
/// If it is given up, or the terminal cannot be read.
pub fn answer(question: &str, given_up: &dyn Fn() -> bool) -> io::Result<String> {
    keyboard::read_answer(question, given_up)
}

fn ask(question: &str) {
    let mut stderr = io::stderr();
    // Without a stderr there is no answer either.
    drop(stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()));
}

#[cfg(unix)]
mod keyboard {
    use std::io;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::termios::{QueueSelector, tcflush};

    /// Whether a reader ends when it is given up.
    pub const STOPS: bool = true;

    /// How often a waiting reader looks whether it is still wanted.
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

    /// Reads one line, straight from the terminal: a buffer would keep what comes behind it.
    pub fn read_answer(question: &str, given_up: &dyn Fn() -> bool) -> io::Result<String> {
        let stdin = io::stdin();
        // What was typed before the question is no answer to it.
        tcflush(&stdin, QueueSelector::IFlush)?;
        super::ask(question);
        loop {
            if given_up() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut waiting, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let mut line = [0; 1024];
            let count = rustix::io::read(&stdin, &mut line)?;
            return Ok(String::from_utf8_lossy(&line[..count]).into_owned());
        }
    }
}

#[cfg(not(unix))]
mod keyboard {
    use std::io::{self, BufRead as _};

    /// Whether a reader ends when it is given up.
    pub const STOPS: bool = false;

    /// Reads one line.
    pub fn read_answer(question: &str, _given_up: &dyn Fn() -> bool) -> io::Result<String> {
        super::ask(question);
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_a_clear_yes_denies() {
        for yes in ["o", "Once\n", " y ", "YES"] {
            assert!(matches!(decide(yes), Decision::Once), "{yes:?}");
        }
        assert!(matches!(decide("s\n"), Decision::Session));
        for no in ["", "\n", "d", "no", "yess", "always", "o s"] {
            assert!(matches!(decide(no), Decision::Deny { .. }), "{no:?}");
        }
    }

    #[test]
    fn a_command_cannot_repaint_its_question() {
        let question = question(&ApprovalRequest {
            command: "rm x\u{1b}[2K\rls\n\tok".to_owned(),
            cwd: "/work\u{202e}".into(),
            reason: "why\u{9b}".to_owned(),
        });
        assert!(question.contains("rm x\\u001b[2K\\u000dls\n  \tok"), "{question}");
        assert!(question.contains("/work\\u202e") && question.contains("why\\u009b"));
    }
}
