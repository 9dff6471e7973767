//! `terminal`: a command, once the guard lets it through.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::{RowStatus, ToolOutcome, ToolSink};

use super::{Running, Tool};
use crate::args::{Args, Kind, Param};
use crate::bench::{Workbench, outcome, touching};
use crate::capture::{Capture, Shown};
use crate::clean::Cleaner;
use crate::process::{self, Ended, Finished, Spec};

pub(super) const TOOL: Tool = Tool {
    name: "terminal",
    json: concat!(
        r#"{"type":"function","function":{"name":"terminal","description":"#,
        r#""Run a shell command (sh -c) and wait for it. No input; every call starts in the working directory; its process group is ended with it. A person may have to approve it. Long output is cut in the middle and kept in a file.","#,
        r#""parameters":{"type":"object","properties":{"#,
        r#""command":{"type":"string"},"#,
        r#""timeout":{"type":"integer","description":"seconds"},"#,
        r#""workdir":{"type":"string"}},"#,
        r#""required":["command"]}}}"#,
    ),
    params: &[
        Param::required("command", Kind::Text),
        Param::optional("timeout", Kind::Whole(1)),
        Param::optional("workdir", Kind::Text),
    ],
    offered: |_| true,
    run,
};

/// The longest a call may ask for, in seconds.
const MAX_TIMEOUT: u64 = 3600;

fn run<'a>(bench: &'a Arc<Workbench>, args: Args, sink: &'a dyn ToolSink) -> Running<'a> {
    Box::pin(async move {
        let at = match bench.paths.locate(args.text("workdir").unwrap_or(".")) {
            Ok(at) => at,
            Err(why) => return outcome(Err(format!("terminal: {why}"))),
        };
        if !at.real.is_dir() {
            return outcome(Err(format!("terminal: the workdir {} is no folder", at.shown)));
        }
        let command = args.need("command");
        if let Err(refused) = bench.guard.check(command, &at.real).await {
            return touching(outcome(Err(format!("terminal: {refused}"))), &at.written);
        }
        let seconds = args.whole("timeout").map_or(bench.config.terminal.timeout, |s| s as u64);
        let timeout = Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT));
        let grace = bench.config.terminal.daemon_term_grace_seconds.clamp(0.0, 60.0);
        let spec = Spec {
            command,
            cwd: &at.real,
            env: bench.child_env(),
            timeout,
            grace: Duration::from_secs_f64(grace),
        };
        let mut outputs = bench.outputs.clone();
        let mut capture = Capture::new(bench.limits(), &mut outputs);
        let mut cleaner = Cleaner::default();
        let finished = process::run(spec, &mut |bytes| {
            capture.push(bytes);
            let text = cleaner.push(bytes);
            if !text.is_empty() {
                sink.output(&text);
            }
        })
        .await;
        let done = match finished {
            Ok(finished) => report(finished, &capture.finish(), timeout),
            Err(error) => outcome(Err(format!("terminal: the command could not be run: {error}"))),
        };
        touching(done, &at.written)
    })
}

/// The result: how it ended first, then what it printed.
fn report(finished: Finished, shown: &Shown, timeout: Duration) -> ToolOutcome {
    let mut text = match finished.ended {
        Ended::Exit(code) => format!("exit code {code}"),
        Ended::Signal(number) => format!("ended by signal {number}"),
        Ended::TimedOut => {
            format!("timed out after {} s and was ended with its process group", timeout.as_secs())
        }
        Ended::Unknown => "ended; its exit code is unknown".to_owned(),
    };
    if finished.left_running {
        text.push_str("; what it had left running in its process group was ended");
    }
    if shown.bytes == 0 {
        text.push_str("; no output");
    }
    let _ = write!(text, "\n{}", shown.text);
    let status = match finished.ended {
        Ended::Exit(0) => RowStatus::Complete,
        _ => RowStatus::Failed,
    };
    ToolOutcome { status, ..ToolOutcome::ok(text) }
}
