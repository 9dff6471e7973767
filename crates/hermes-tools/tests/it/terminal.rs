//! `terminal`: approvals, bounds, and that nothing is left running.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hermes_core::{RowStatus, ToolOutcome};
use hermes_tools::{ApprovalRequest, Approver, BuiltinTools, Decision};
use serde_json::json;

use crate::rig::{Rig, block_on, case};

fn run(command: &str) -> ToolOutcome {
    Rig::allowing(&[command]).call("terminal", json!({"command": command}))
}

fn check(command: &str, status: RowStatus, text: &str) {
    let outcome = run(command);
    assert_eq!((outcome.status, outcome.text.as_str()), (status, text), "{command}");
}

#[test]
fn a_command_comes_back_with_its_exit_code_and_output() {
    check("echo out; echo err >&2", RowStatus::Complete, "exit code 0\nout\nerr\n");
    check("true", RowStatus::Complete, "exit code 0; no output\n");
    check("echo x; exit 3", RowStatus::Failed, "exit code 3\nx\n");
    check("kill -s KILL $$", RowStatus::Failed, "ended by signal 9; no output\n");
    check("cat; echo end", RowStatus::Complete, "exit code 0\nend\n");
    check("printf 'no end'", RowStatus::Complete, "exit code 0\nno end");
    assert!(run("no-such-program-here").text.contains("exit code 127\n"));
}

#[test]
fn nothing_runs_unasked() {
    let rig = Rig::new();
    let outcome = rig.call("terminal", json!({"command": "touch made"}));
    assert_eq!(outcome.status, RowStatus::Failed);
    assert!(outcome.text.contains("no terminal to ask on"), "{}", outcome.text);
    assert!(outcome.text.contains("approvals.allow in config.yaml"), "{}", outcome.text);
    assert!(!rig.path("work/made").exists());
    assert_eq!(outcome.touched, [rig.path("work").display().to_string()]);

    let denied = Rig::with(|config| {
        config.approvals.allow = vec!["touch made".to_owned()];
        config.approvals.deny = vec!["touch *".to_owned()];
    });
    denied.fails("terminal", json!({"command": "touch made"}), "approvals.deny");
    assert!(!denied.path("work/made").exists());
}

struct Person(AtomicUsize);

impl Approver for Person {
    fn ask<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Pin<Box<dyn Future<Output = Decision> + Send + 'a>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let decision = if request.command.starts_with("touch") {
            Decision::Session
        } else {
            Decision::Deny { why: "the person said no".to_owned() }
        };
        Box::pin(std::future::ready(decision))
    }
}

#[test]
fn a_person_is_asked_once_for_what_they_allow_for_the_session() {
    let person = Arc::new(Person(AtomicUsize::new(0)));
    let mut rig = Rig::new();
    rig.context.approver = Arc::clone(&person) as Arc<dyn Approver>;
    rig.tools = BuiltinTools::new(rig.context.clone());
    rig.ok("terminal", json!({"command": "touch made"}));
    rig.ok("terminal", json!({"command": "touch made"}));
    assert_eq!(person.0.load(Ordering::Relaxed), 1);
    rig.ok("terminal", json!({"command": "touch other"}));
    rig.fails("terminal", json!({"command": "echo x"}), "the person said no");
    let held = rig.tools.session_approvals();
    assert_eq!(held.len(), 2);
    assert!(rig.tools.revoke(&held[0]));
    rig.ok("terminal", json!({"command": "touch made"}));
    assert_eq!(person.0.load(Ordering::Relaxed), 4);
}

/// B112: head, tail, exit code, total size, and everything in a file as it came.
#[test]
fn long_output_is_cut_in_the_middle_and_kept_whole() {
    let script = format!("sh {}", case("B112/big.sh").display());
    let rig = Rig::allowing(&[&script]);
    let outcome = rig.call("terminal", json!({"command": script}));
    let text = &outcome.text;
    assert!(text.starts_with("exit code 3\nline 1 of the build log\n"), "{}", &text[..200]);
    assert!(text.contains("line 200000 of the build log\n"));
    assert!(text.contains("LAST-ERROR\n"));
    assert!(text.len() < 51_000, "{}", text.len());
    assert!(text.contains("bytes in 200001 lines in all"));
    let path = text.split_once("read_file from ").unwrap().1.split_once(" ...]").unwrap().0;
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept.lines().count(), 200_001);
    assert!(kept.contains("line 100000 of the build log\n"));
    // The person saw all of it as it came.
    assert_eq!(rig.heard.text().lines().count(), 200_001);
    // The file can be paged by line.
    let page = rig.ok("read_file", json!({"path": path, "offset": 150_000, "limit": 2}));
    assert!(page.starts_with("150000|line 150000 of the build log\n150001|"), "{page}");
}

/// B112: one line without an end, and control characters.
#[test]
fn odd_output_is_bounded_and_legible() {
    let script = format!("sh {}", case("B112/one_line.sh").display());
    let rig = Rig::allowing(&[&script]);
    let text = rig.ok("terminal", json!({"command": script}));
    assert!(text.len() < 51_000 && text.contains("5000000 bytes in 1 lines"), "{}", text.len());
    let path = text.split_once("read_file from ").unwrap().1.split_once(" ...]").unwrap().0;
    let page = rig.ok("read_file", json!({"path": path, "byte_offset": 4_999_990}));
    assert_eq!(page, "zzzzzzzzzz\n[bytes 4999990-5000000 of 5000000]\n");

    let script = format!("sh {}", case("B112/ansi_nul.sh").display());
    let rig = Rig::allowing(&[&script]);
    let text = rig.ok("terminal", json!({"command": script}));
    assert_eq!(text, "exit code 0\nred ␀ after\nprogress 1\nprogress 2\n");
}

/// Whether a process is there and not merely waiting to be reaped.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < end, "{what} did not happen in time");
        std::thread::yield_now();
    }
}

/// B113: a grandchild that holds the output stream does not hold up the result.
#[test]
#[cfg(target_os = "linux")]
fn what_a_command_leaves_running_ends_with_it() {
    let command = "sleep 300 & echo $! > pid; echo done";
    let rig = Rig::allowing(&[command]);
    let start = Instant::now();
    let text = rig.ok("terminal", json!({"command": command}));
    assert_eq!(
        text,
        "exit code 0; what it had left running in its process group was ended\ndone\n"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    let pid = rig.text("work/pid");
    wait_for("the end of the grandchild", || !lives(&pid));
}

#[test]
#[cfg(target_os = "linux")]
fn the_time_limit_ends_the_whole_group_even_if_it_does_not_listen() {
    let command = "trap '' TERM; (trap '' TERM; echo begun; while :; do sleep 300; done) & \
                   echo $! > pid; wait";
    let rig = Rig::with(|config| {
        config.approvals.allow = vec![command.to_owned()];
        config.terminal.daemon_term_grace_seconds = 0.2;
    });
    let outcome = rig.call("terminal", json!({"command": command, "timeout": 1}));
    assert_eq!(outcome.status, RowStatus::Failed);
    let expected = "timed out after 1 s and was ended with its process group\nbegun\n";
    assert_eq!(outcome.text, expected);
    let pid = rig.text("work/pid");
    wait_for("the end of the grandchild", || !lives(&pid));
}

#[test]
#[cfg(target_os = "linux")]
fn dropping_the_call_ends_the_whole_group() {
    let command = "sleep 300 & echo $! > pid; echo ready; wait";
    let rig = Rig::allowing(&[command]);
    let arguments = json!({"command": command}).to_string();
    block_on(async {
        let call = rig.start("terminal", &arguments);
        tokio::select! {
            outcome = call => panic!("it came back: {outcome:?}"),
            () = async {
                while !rig.heard.text().contains("ready") {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
    });
    let pid = rig.text("work/pid");
    wait_for("the end of the grandchild", || !lives(&pid));
}

#[test]
fn output_without_end_does_not_outrun_the_time_limit() {
    let command = "yes";
    let rig = Rig::with(|config| {
        config.approvals.allow = vec![command.to_owned()];
        config.terminal.daemon_term_grace_seconds = 0.2;
    });
    let start = Instant::now();
    let outcome = rig.call("terminal", json!({"command": command, "timeout": 1}));
    assert!(outcome.text.starts_with("timed out after 1 s"), "{}", &outcome.text[..80]);
    assert!(outcome.text.len() < 51_000 && start.elapsed() < Duration::from_secs(20));
}

#[test]
fn commands_do_not_see_the_secrets_of_the_home() {
    let command = "echo $PLAIN-$ACME_API_KEY-$FROM_DOTENV";
    let env = "export FROM_DOTENV='not-a-secret'\n# x\nOTHER=1\n";
    let rig = Rig::allowing(&[command]);
    rig.put("home/.env", env);
    assert_eq!(rig.ok("terminal", json!({"command": command})), "exit code 0\nseen--\n");
    let rig = Rig::with(|config| {
        config.approvals.allow = vec![command.to_owned()];
        config.terminal.env_passthrough = vec!["FROM_DOTENV".to_owned()];
    });
    rig.put("home/.env", env);
    assert_eq!(
        rig.ok("terminal", json!({"command": command})),
        "exit code 0\nseen--not-a-secret\n"
    );
}

#[test]
fn what_a_key_env_names_is_kept_from_commands_whatever_it_is_called() {
    let command = "echo $PLAIN.";
    let rig = Rig::with(|config| {
        config.approvals.allow = vec![command.to_owned()];
        config.model.key_env = "PLAIN".to_owned();
    });
    assert_eq!(rig.ok("terminal", json!({"command": command})), "exit code 0\n.\n");
    // A `.env` in another encoding has names as well.
    let rig = Rig::allowing(&[command]);
    rig.put("home/.env", b"# caf\xe9\nPLAIN=1\n");
    assert_eq!(rig.ok("terminal", json!({"command": command})), "exit code 0\n.\n");
}

#[test]
fn a_command_runs_where_it_is_told() {
    let rig = Rig::allowing(&["pwd"]);
    std::fs::create_dir(rig.path("work/sub")).unwrap();
    let here = rig.path("work/sub").display().to_string();
    let outcome = rig.call("terminal", json!({"command": "pwd", "workdir": "sub"}));
    assert_eq!(outcome.text, format!("exit code 0\n{here}\n"));
    assert_eq!(outcome.touched, [here]);
    rig.fails("terminal", json!({"command": "pwd", "workdir": "absent"}), "no folder");
}

#[test]
fn a_pipeline_that_ends_by_itself_is_not_called_left_running() {
    let command = "seq 1 100000 | head -n 1; (seq 1 5 | tail -n 1) | cat";
    let rig = Rig::allowing(&[command]);
    for _ in 0..20 {
        assert_eq!(rig.ok("terminal", json!({"command": command})), "exit code 0\n1\n5\n");
    }
}
