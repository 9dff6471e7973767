//! Signals that ask the process to end, and what is left of the turn and of the running command.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hermes_provider::rehearsal::{RehearsalServer, Script};
use serde_json::{Value, json};

use crate::rig::{Rig, serve};
use crate::terminal::Terminal;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells its process and waits.
const COMMAND: &str = "echo $$ > pid; sleep 600";

fn rig() -> (Rig, RehearsalServer) {
    let script = json!([
        {"say": "Wait for it.", "call": {"name": "terminal", "arguments": {"command": COMMAND}}},
        {"say": "Not reached."},
    ]);
    let server = serve(Some(Script::parse(Path::new("script.json"), &script.to_string()).unwrap()));
    let rig = Rig::new();
    rig.endpoint(&server, &format!("approvals:\n  allow: ['{COMMAND}']\n"));
    (rig, server)
}

/// The process of the command, once it runs.
fn command_of(rig: &Rig) -> u32 {
    eventually("the command runs", || {
        std::fs::read_to_string(rig.work().join("pid")).ok()?.trim().parse().ok()
    })
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited for this in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn send(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

fn is_gone(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A zombie that nobody has reaped does nothing any more.
    stat.is_empty() || stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"))
}

fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1)
}

fn check_kept(rig: &Rig) {
    let export: Value =
        serde_json::from_str(&rig.ok(["sessions", "export", "--session-id", "latest"])).unwrap();
    let text = export["messages"].to_string();
    assert!(text.contains("a message to keep") && text.contains("Wait for it."), "{text}");
}

fn code_of(mut child: Child) -> Option<i32> {
    eventually("the process ends", || child.try_wait().unwrap()).code()
}

#[test]
fn a_signal_stops_the_turn_ends_the_command_and_has_its_exit_code() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129), ("-INT", 130)] {
        // Under `nohup` the tests' children ignore it as well.
        if signal == "-HUP" && ignores_hangup() {
            continue;
        }
        let (rig, _server) = rig();
        let child = rig
            .command(["chat", "-q", "a message to keep"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let command = command_of(&rig);
        send(signal, child.id());
        assert_eq!(code_of(child), Some(code), "{signal}");
        eventually("the command ends", || is_gone(command).then_some(()));
        check_kept(&rig);
    }
}

#[test]
fn a_signal_ends_the_conversation_in_a_turn_and_at_the_prompt() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let (rig, _server) = rig();
        let terminal = Terminal::start(&rig, &[]);
        terminal.wait_for_prompt();
        terminal.line("a message to keep");
        let command = command_of(&rig);
        send(signal, terminal.process());
        assert_eq!(terminal.end().0, code, "{signal} in a turn");
        eventually("the command ends", || is_gone(command).then_some(()));
        check_kept(&rig);

        let terminal = Terminal::start(&rig, &[]);
        terminal.wait_for_prompt();
        send(signal, terminal.process());
        assert_eq!(terminal.end().0, code, "{signal} at the prompt");
    }
}

#[test]
fn a_process_that_is_to_outlive_its_terminal_does() {
    let (rig, _server) = rig();
    let plain = rig.command(["chat", "-q", "a message to keep"]);
    let mut nohup = Command::new("nohup");
    nohup.arg(plain.get_program()).args(plain.get_args()).env_clear().current_dir(rig.work());
    nohup.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = nohup.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    command_of(&rig);
    send("-HUP", child.id());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None);
    send("-TERM", child.id());
    assert_eq!(code_of(child), Some(143));
}
