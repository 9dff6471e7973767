//! Two processes that write one file.

use std::process::Command;

use hermes_core::RowStatus;
use serde_json::json;

use crate::rig::Rig;

const CHILD: &str = "HERMES_TOOLS_TEST_FOLDER";
const ROUNDS: usize = 20;

/// Each adds its lines to what it has read, and tries again when it is told that the file changed.
#[test]
fn no_line_is_lost_when_two_processes_write_one_file() {
    if let Ok(folder) = std::env::var(CHILD) {
        add_lines(&folder);
        return;
    }
    let rig = Rig::new();
    rig.put("work/log.txt", "");
    let spawn = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "two_processes::no_line_is_lost_when_two_processes_write_one_file"])
            .env(CHILD, rig.path(""))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let children = [spawn(), spawn()];
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = rig.text("work/log.txt");
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 * ROUNDS, "{text}");
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 2 * ROUNDS);
}

fn add_lines(folder: &str) {
    let rig = Rig::at(folder.as_ref(), |_| {});
    for round in 0..ROUNDS {
        loop {
            let shown = rig.read("log.txt");
            let lines = shown.lines().filter_map(|line| Some(line.split_once('|')?.1));
            let own = format!("{} {round}", std::process::id());
            let text = lines.chain([&*own, ""]).collect::<Vec<_>>().join("\n");
            let outcome = rig.call("write_file", json!({"path": "log.txt", "content": text}));
            if outcome.status == RowStatus::Complete {
                break;
            }
            assert!(outcome.text.contains("changed since it was read"), "{}", outcome.text);
        }
    }
}
