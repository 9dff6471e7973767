//! A command in a process group of its own, so that it can be ended with everything it started.
//!
//! The rule: whatever a command leaves running when its shell ends is ended with it, by a request
//! (TERM) and after a grace by force (KILL). The same after the time limit. If the caller stops
//! waiting, by force at once, because nobody is left to wait out the grace. Processes that leave
//! the group on purpose (`setsid`) are not followed.
//!
//! One stream carries output and errors in the order in which they were written. A descendant that
//! keeps the stream open cannot hold up the result.
//!
//! This module is the seam for systems without process groups; there [`run`] refuses.

use std::path::Path;
use std::time::Duration;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec<'a> {
    /// Text for `sh -c`.
    pub command: &'a str,
    /// Where.
    pub cwd: &'a Path,
    /// The whole environment.
    pub env: &'a [(String, String)],
    /// When to end it.
    pub timeout: Duration,
    /// How long after TERM until KILL.
    pub grace: Duration,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// By the time limit.
    TimedOut,
    /// The system does not say.
    Unknown,
}

/// A finished command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// How its shell ended.
    pub ended: Ended,
    /// Whether processes it had left running were ended.
    pub left_running: bool,
}

#[cfg(unix)]
pub(crate) use self::unix::run;

#[cfg(unix)]
mod unix {
    use std::os::fd::OwnedFd;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{ExitStatus, Stdio};
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
    use tokio::io::AsyncReadExt as _;
    use tokio::net::unix::pipe::Receiver;
    use tokio::process::{Child, Command};
    use tokio::time::{Instant, sleep, timeout, timeout_at};

    use super::{Ended, Finished, Spec};

    /// After the shell has ended: silence for so long means that nothing more is coming.
    const QUIET: Duration = Duration::from_millis(100);
    /// After the shell has ended: at most so long until its group is ended.
    const DRAIN: Duration = Duration::from_secs(1);
    /// How often to look whether a group is gone.
    const LOOK: Duration = Duration::from_millis(10);

    /// The group of a running command. Ends it by force unless it was let go.
    struct Group(Option<Pid>);

    impl Group {
        fn signal(&self, signal: Signal) {
            if let Some(pid) = self.0 {
                // It may be gone already.
                let _ = kill_process_group(pid, signal);
            }
        }

        fn lives(&self) -> bool {
            self.0.is_some_and(|pid| test_kill_process_group(pid).is_ok())
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            self.signal(Signal::KILL);
        }
    }

    /// Runs a command to its end and hands its output on as it comes.
    pub(crate) async fn run(
        spec: Spec<'_>,
        on: &mut (dyn FnMut(&[u8]) + Send),
    ) -> std::io::Result<Finished> {
        let (reader, writer) = std::io::pipe()?;
        let errors = writer.try_clone()?;
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(spec.command)
            .current_dir(spec.cwd)
            .env_clear()
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::from(writer))
            .stderr(Stdio::from(errors))
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        // This side's copies of the pipe's writing end must go, or its end is never seen.
        drop(command);
        let mut group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let mut stream =
            Stream { pipe: Receiver::from_owned_fd(OwnedFd::from(reader))?, open: true };
        let deadline = Instant::now() + spec.timeout;

        // Until the shell ends; a closed stream alone does not mean that it has.
        let status = loop {
            tokio::select! {
                () = stream.next(on), if stream.open => {}
                status = child.wait() => break Some(status?),
                () = tokio::time::sleep_until(deadline) => break None,
            }
            // Output without end must not starve the time limit.
            if Instant::now() >= deadline {
                break None;
            }
        };

        if let Some(status) = status {
            let end = Instant::now() + DRAIN;
            while stream.open && Instant::now() < end {
                let quiet = (Instant::now() + QUIET).min(end);
                if timeout_at(quiet, stream.next(on)).await.is_err() {
                    break;
                }
            }
            // What is about to end by itself is not called left running.
            let end = Instant::now() + QUIET;
            while group.lives() && Instant::now() < end {
                sleep(LOOK / 4).await;
            }
            let left_running = group.lives();
            if left_running {
                end_group(&group, &mut child, &mut stream, spec.grace, on).await;
            }
            // Its number may be given to others from now on.
            group.0 = None;
            return Ok(Finished { ended: ended(status), left_running });
        }

        end_group(&group, &mut child, &mut stream, spec.grace, on).await;
        // Reaps the shell; after KILL this takes no time.
        drop(timeout(DRAIN, child.wait()).await);
        group.0 = None;
        Ok(Finished { ended: Ended::TimedOut, left_running: false })
    }

    /// TERM, then after the grace KILL; meanwhile the stream is read on.
    async fn end_group(
        group: &Group,
        child: &mut Child,
        stream: &mut Stream,
        grace: Duration,
        on: &mut (dyn FnMut(&[u8]) + Send),
    ) {
        group.signal(Signal::TERM);
        let end = Instant::now() + grace;
        while Instant::now() < end {
            // Its own dead shell would keep the group alive.
            drop(child.try_wait());
            if !group.lives() {
                break;
            }
            if stream.open {
                let _ = timeout(LOOK, stream.next(on)).await;
            } else {
                sleep(LOOK).await;
            }
        }
        group.signal(Signal::KILL);
        let end = Instant::now() + QUIET;
        while stream.open && Instant::now() < end {
            if timeout_at(end, stream.next(on)).await.is_err() {
                break;
            }
        }
    }

    /// The reading end of the command's output.
    struct Stream {
        pipe: Receiver,
        open: bool,
    }

    impl Stream {
        /// Hands the next piece on. Cancel-safe: a read that is given up has taken nothing.
        async fn next(&mut self, on: &mut (dyn FnMut(&[u8]) + Send)) {
            let mut piece = [0; 8 * 1024];
            match self.pipe.read(&mut piece).await {
                Ok(0) | Err(_) => self.open = false,
                Ok(count) => on(piece.get(..count).unwrap_or_default()),
            }
        }
    }

    fn ended(status: ExitStatus) -> Ended {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exit(code),
            (None, Some(signal)) => Ended::Signal(signal),
            (None, None) => Ended::Unknown,
        }
    }
}

/// Refuses: there is no group to end here.
#[cfg(not(unix))]
pub(crate) async fn run(
    _spec: Spec<'_>,
    _on: &mut (dyn FnMut(&[u8]) + Send),
) -> std::io::Result<Finished> {
    Err(std::io::Error::new(
        std::io::ErrorKind::Unsupported,
        "commands are not supported on this system yet",
    ))
}
