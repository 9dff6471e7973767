//! kill -9 at random points: what was acknowledged or shown is there, every request still
//! verifies, the session resumes.
//!
//! `HERMES_TEST_KILLS` sets the number of kills and `HERMES_TEST_SEED` their points;
//! `bench/kill9.sh` runs the full size.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hermes_core::{Env as _, ScriptedEnv, Timestamp};
use hermes_provider::rehearsal::{RehearsalServer, Script};
use serde_json::{Value, json};

use crate::rig::{Rig, serve};

const DEFAULT_KILLS: u64 = 12;
/// Longest time until a kill. A whole turn of the script takes about half of it, so that kills
/// fall before, into and after the stream.
const LATEST_KILL_MS: u64 = 260;

#[test]
fn kill9_loses_nothing_that_was_stored_or_shown() {
    let kills = setting("HERMES_TEST_KILLS", DEFAULT_KILLS);
    let seed = setting("HERMES_TEST_SEED", 20_261_130);
    println!("seed {seed}");
    let rig = Rig::new();
    let server = serve(Some(slow_script()));
    rig.endpoint(&server, "");
    let chance = ScriptedEnv::new(Timestamp(0), 0, seed);

    let session = first_turn(&rig);
    let mut said = Vec::new();
    let mut mid_stream = 0;
    for kill in 0..kills {
        let message = format!("message number {kill}");
        let mut random = [0; 8];
        chance.random(&mut random);
        let after = Duration::from_millis(u64::from_le_bytes(random) % LATEST_KILL_MS);
        let (shown, whole) = say_and_kill(&rig, &session, &message, after);
        mid_stream += u64::from(!shown.is_empty() && !whole);
        check(&rig, &server, &session, &shown, &mut said, &message);
    }
    println!("{kills} kills, {mid_stream} of them in mid-stream");
    assert!(mid_stream > 0, "no kill fell into a stream; the script is too fast or too slow");

    let last = rig.json(["chat", "--json", "--resume", &session, "-q", "the last word"]);
    assert_eq!(last["outcome"], "answered", "{last}");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Replies that stream ten pieces over about 100 ms each.
fn slow_script() -> Script {
    let entries = json!([{
        "kind": "any",
        "repeat": 1_000_000,
        "delay_ms": 12,
        "chunks": [12],
        "say": "piece one, piece two, piece three, piece four, piece five, piece six, piece \
                seven, piece eight, the end."
    }]);
    Script::parse(std::path::Path::new("script.json"), &entries.to_string()).unwrap()
}

fn first_turn(rig: &Rig) -> String {
    let first = rig.json(["chat", "--json", "-q", "the first word"]);
    first["session_id"].as_str().unwrap().to_owned()
}

/// Starts a turn and kills its process after `after`. What it had printed, and whether the turn
/// was over by itself.
fn say_and_kill(rig: &Rig, session: &str, message: &str, after: Duration) -> (String, bool) {
    let mut child = rig
        .command(["chat", "--resume", session, "-q", message])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + after;
    let mut over = false;
    while Instant::now() < until && !over {
        over = child.try_wait().unwrap().is_some();
        std::thread::sleep(Duration::from_millis(1));
    }
    // SIGKILL; an error means that it is over already.
    child.kill().ok();
    child.wait().unwrap();
    let mut shown = String::new();
    child.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    (shown.trim_end().to_owned(), over)
}

fn check(
    rig: &Rig,
    server: &RehearsalServer,
    session: &str,
    shown: &str,
    said: &mut Vec<String>,
    message: &str,
) {
    let export: Value =
        serde_json::from_str(&rig.ok(["sessions", "export", "--session-id", session])).unwrap();
    let messages = export["messages"].as_array().unwrap();
    let text = |value: &Value| value["content"].as_str().unwrap_or_default().to_owned();
    let of = |role: &str| -> Vec<String> {
        messages.iter().filter(|m| m["role"] == role).map(text).collect()
    };
    let users = of("user");
    // The request reached the server, so its message must be stored.
    let asked =
        server.received().iter().any(|body| String::from_utf8_lossy(body).contains(message));
    let stored = users.iter().any(|user| user.contains(message));
    assert!(stored || !asked, "\"{message}\" was sent to the model and is not stored");
    if stored {
        said.push(message.to_owned());
    }
    for earlier in said.iter() {
        let count = users.iter().filter(|user| user.ends_with(earlier.as_str())).count();
        assert_eq!(count, 1, "\"{earlier}\" is stored {count} times");
    }
    if !shown.is_empty() {
        let kept = of("assistant").last().cloned().unwrap_or_default();
        assert!(kept.starts_with(shown), "shown: {shown:?}, stored: {kept:?}");
    }
    let times: Vec<f64> = messages.iter().map(|m| m["timestamp"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "rows changed their time: {times:?}");
    let ran = rig.run(["requests", "verify", "--all"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}
