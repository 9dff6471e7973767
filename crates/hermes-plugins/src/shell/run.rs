//! Runs one shell hook: in a process group of its own, fed and read at the same time, bounded in
//! time and in what it may print.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// The most that is read of each stream; the rest is read and dropped.
const MOST: usize = 1 << 20;
/// After the program has ended: how long to wait for the rest of its output, which a process that
/// it left running may hold open.
const DRAIN: Duration = Duration::from_millis(200);

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It could not be started.
    NotStarted(String),
    /// It was ended because its time was up.
    TimedOut,
    /// It ended.
    Ended {
        /// Its exit code; None after a signal.
        code: Option<i32>,
        /// What it printed.
        out: String,
        /// What it printed as errors.
        err: String,
    },
}

/// Ends a whole process group when it is dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(pid) =
            self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            // It may be gone already.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Runs a program with `input` on its standard input.
pub(crate) async fn run(
    argv: &[String],
    input: &str,
    cwd: &Path,
    env: &[(String, String)],
    limit: Duration,
) -> Ran {
    let Some((program, rest)) = argv.split_first() else {
        return Ran::NotStarted("there is no program".to_owned());
    };
    let mut command = Command::new(program);
    command
        .args(rest)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ran::NotStarted(format!("{program}: {error}")),
    };
    let group = Group(child.id());
    let input_pipe = child.stdin.take();
    let feed = async {
        if let Some(mut pipe) = input_pipe {
            // A program need not read what it is told.
            drop(pipe.write_all(input.as_bytes()).await);
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = {
        let reading = async {
            tokio::join!(take(stdout, &mut out), take(stderr, &mut err), feed);
        };
        let mut reading = std::pin::pin!(reading);
        let mut read = false;
        let end = tokio::time::Instant::now() + limit;
        loop {
            tokio::select! {
                () = &mut reading, if !read => read = true,
                status = child.wait() => {
                    if !read {
                        drop(tokio::time::timeout(DRAIN, &mut reading).await);
                    }
                    break Some(status);
                }
                () = tokio::time::sleep_until(end) => break None,
            }
        }
    };
    drop(group);
    match ended {
        None => Ran::TimedOut,
        Some(Err(error)) => Ran::NotStarted(error.to_string()),
        Some(Ok(status)) => Ran::Ended {
            code: status.code(),
            out: String::from_utf8_lossy(&out).into_owned(),
            err: String::from_utf8_lossy(&err).into_owned(),
        },
    }
}

async fn take(from: Option<impl tokio::io::AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; 16 * 1024];
    while let Ok(count) = from.read(&mut piece).await {
        if count == 0 {
            break;
        }
        let room = MOST.saturating_sub(into.len()).min(count);
        into.extend_from_slice(&piece[..room]);
    }
}
