//! Finding, keeping and importing what is stored, as a person does it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rig::{Ran, Rig};

/// Says something in a new session; returns its id.
fn talk(rig: &Rig, text: &str) -> String {
    let answer = rig.json(["chat", "-q", text, "--json"]);
    answer["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn past_conversations_are_found_read_and_searched_inside() {
    let rig = Rig::new();
    let first = talk(&rig, "the marmalade is in the cellar");
    let second = talk(&rig, "something else entirely");
    let found = rig.json(["sessions", "search", "marmalade", "--json"]);
    assert_eq!(
        (&found["count"], &found["results"][0]["session_id"]),
        (&1.into(), &first.as_str().into())
    );
    assert!(rig.ok(["sessions", "search", "marmalade"]).contains("cellar"));
    let inside = rig.json(["sessions", "search", "entirely", "--session-id", &second, "--json"]);
    assert_eq!(inside["mode"], "inside");
    let id = found["results"][0]["match_message_id"].to_string();
    let around = rig.ok(["sessions", "search", "--session-id", &first, "--around", &id]);
    assert!(around.contains("marmalade"), "{around}");
    assert!(rig.ok(["sessions", "search"]).contains(&first), "without words the latest are listed");
    assert_eq!(rig.run(["sessions", "search", "nowhere-at-all"]).code, 6);
    let nothing = rig.run(["sessions", "search", "()"]);
    assert!(nothing.stderr.contains("nothing to search for"), "{}", nothing.stderr);
    assert_eq!(rig.run(["sessions", "search", "x", "--after", "soon"]).code, 2);
    let empty = rig.run(["sessions", "search", ""]);
    assert!(empty.stderr.contains("nothing to search for"), "{}", empty.stderr);
    // A word with a dash is never taken for another question.
    let dashed = rig.run(["sessions", "search", "rm", "-rf"]);
    assert!(dashed.code == 2 && dashed.stderr.contains("behind --"), "{}", dashed.stderr);
    talk(&rig, "clean with rm -rf build");
    assert!(rig.ok(["sessions", "search", "--", "rm", "-rf"]).contains("rm -rf build"));
    let link = found["results"][0]["link"].as_str().unwrap();
    assert!(rig.ok(["sessions", "search", "--session-id", link]).contains("marmalade"));
    let user = ["sessions", "search", "marmalade", "--role-filter", "", "--json"];
    assert_eq!(rig.json(user)["count"], 1);
}

#[test]
fn sessions_are_deleted_by_name_and_filter_and_a_dry_run_changes_nothing() {
    let rig = Rig::new();
    let first = talk(&rig, "one");
    let second = talk(&rig, "two");
    let plan = rig.json(["sessions", "delete", &first, "--dry-run", "--json"]);
    assert_eq!(plan["removed"][0]["id"], first.as_str());
    assert!(rig.ok(["sessions", "list"]).contains(&first));
    let receipt =
        rig.json(["sessions", "delete", &first, "--yes", "--json", "--request-id", "r-1"]);
    assert!(receipt["scrubbed_at"].is_number(), "{receipt}");
    let again = rig.json(["sessions", "delete", &first, "--yes", "--json", "--request-id", "r-1"]);
    assert_eq!(again["deleted_at"], receipt["deleted_at"], "a repetition gets the same receipt");
    assert_eq!(rig.run(["sessions", "delete", &first, "--yes"]).code, 6);
    assert_eq!(rig.run(["sessions", "delete", "--yes"]).code, 2, "nothing was named");
    assert_eq!(rig.run(["sessions", "delete", &second]).code, 2, "nobody can be asked");
    rig.ok(["sessions", "prune", "--yes"]);
    assert!(rig.ok(["sessions", "list"]).contains(&second), "it is not old");
    rig.ok(["sessions", "delete", "--source", "cli", "--yes"]);
    rig.ok(["sessions", "sweep", "--yes"]);
    assert_eq!(rig.json(["sessions", "list", "--json"]), Value::Array(vec![]));
}

#[test]
fn sessions_are_named_numbered_branched_archived_and_resumed() {
    let rig = Rig::new();
    let first = talk(&rig, "remember the harbour");
    rig.ok(["sessions", "rename", &first, "Harbour", "plans"]);
    let second = talk(&rig, "another thing");
    let branch = rig.json(["sessions", "branch", "Harbour plans", "--json"]);
    assert_eq!(branch["from"], first.as_str());
    let copy = branch["id"].as_str().unwrap();
    for row in ["0", "99"] {
        let refused = rig.run(["sessions", "branch", "Harbour plans", "--at", row]);
        assert!(refused.code == 6 && refused.stderr.contains("1 to 4"), "{}", refused.stderr);
    }
    let shown = rig.json(["sessions", "show", copy, "--json"]);
    assert_eq!(
        (&shown["parent_session_id"], &shown["parent_kind"]),
        (&first.as_str().into(), &"branch".into())
    );
    // What both have is found once.
    assert_eq!(
        rig.json(["sessions", "search", "remember", "--json", "--role-filter", "user"])["count"],
        1
    );
    // The newest is number 1.
    let list = rig.json(["sessions", "list", "--json"]);
    let third = list[2]["id"].as_str().unwrap();
    let shown = rig.json(["sessions", "show", "3", "--json"]);
    assert_eq!(shown["id"], third);
    let resumed = rig.json(["--resume", "Harbour plans", "chat", "-q", "go on", "--json"]);
    assert_eq!(resumed["session_id"], first.as_str(), "a title names the same session");
    let gone_on = rig.json(["--resume", copy, "chat", "-q", "go on there", "--json"]);
    assert_eq!(gone_on["session_id"], copy);
    rig.ok(["requests", "verify", "--all"]);
    rig.ok(["sessions", "archive", &second]);
    assert!(!rig.ok(["sessions", "list"]).contains(&second));
    rig.ok(["sessions", "unarchive", &second]);
    rig.ok(["sessions", "pin", &second]);
    rig.ok(["sessions", "delete", "--source", "cli", "--yes"]);
    assert!(rig.ok(["sessions", "list"]).contains(&second), "a pinned one is kept");
    rig.ok(["sessions", "check"]);
}

#[test]
fn a_number_or_latest_never_stands_for_another_session_than_the_one_that_was_meant() {
    let rig = Rig::new();
    let first = talk(&rig, "one");
    let other = rig.work().join("other");
    fs::create_dir(&other).unwrap();
    let elsewhere = |args: &[&str]| {
        let mut command = rig.command(args);
        Ran::from(command.current_dir(&other).output().unwrap())
    };
    // The only session of all is not the latest of a folder that has none.
    for args in [
        ["-c", "chat", "-q", "x"].as_slice(),
        &["--resume", "latest", "-z", "x"],
        &["sessions", "delete", "latest", "--yes"],
        &["sessions", "rename", "latest", "x"],
        &["sessions", "branch"],
        &["sessions", "compress", "latest"],
        &["context", "refresh"],
    ] {
        let ran = elsewhere(args);
        assert_eq!(ran.code, 6, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&first), "{args:?}: {}", ran.stderr);
    }
    // It is shown, and said to be of another place.
    let shown = elsewhere(&["sessions", "show", "latest", "--json"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains(&first) && shown.stderr.contains("no session yet"));
    // An id begins with these digits; a number is a place in the list.
    for number in ["0", "2", "20", "202"] {
        assert!(number == "0" || first.starts_with(number));
        let ran = rig.run(["--resume", number, "-z", "x"]);
        assert_eq!(ran.code, 6, "{number}: {}", ran.stderr);
    }
    assert!(rig.ok(["sessions", "list"]).lines().last().unwrap().trim().starts_with("1  "));
    let second = elsewhere(&["chat", "-q", "two", "--json"]);
    let second: Value = serde_json::from_str(&second.stdout).unwrap();
    assert_eq!(rig.json(["sessions", "list", "--here", "--json"])[0]["number"], 2);
    let gone_on = rig.json(["--resume", "2", "chat", "-q", "go on", "--json"]);
    assert_eq!(gone_on["session_id"], first.as_str());
    let gone_on = rig.json(["--resume", "2", "chat", "-q", "go on", "--json"]);
    assert_eq!(gone_on["session_id"], second["session_id"], "what was used last is number 1");
    // A session whose title is a number is that session.
    rig.ok(["sessions", "rename", &first, "7"]);
    assert_eq!(rig.json(["sessions", "show", "7", "--json"])["id"], first.as_str());
}

#[test]
fn a_session_that_was_compacted_into_another_is_gone_on_with_in_that_one() {
    let rig = Rig::new();
    let root = talk(&rig, "the beginning");
    let copy = rig.json(["sessions", "branch", &root, "--json"])["id"].clone();
    let copy = copy.as_str().unwrap();
    // As a home of the Python program has it.
    let export =
        |id: &str| rig.ok(["sessions", "export", "--session-id", id, "--format", "jsonl", "-"]);
    let lines =
        format!("{}{}", export(&root), export(copy).replace("\"branch\"]", "\"compaction\"]"));
    let other = Rig::new();
    other.ok([Path::new("import"), &other.file("lines.jsonl", &lines)]);
    let ran = other.run(["--resume", &root, "chat", "-q", "go on", "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["session_id"], copy);
    assert!(ran.stderr.contains("was compacted into"), "{}", ran.stderr);
    // To look at it is another thing.
    assert_eq!(other.json(["sessions", "show", &root, "--json"])["id"], root.as_str());
}

#[test]
fn a_session_is_exported_for_people_and_comes_back_from_lines() {
    let rig = Rig::new();
    let id = talk(&rig, "token ghp_0123456789abcdefghijABCDEFGHIJ012345");
    let export = |format: &str, more: &[&str]| {
        let mut args = vec!["sessions", "export", "--session-id", &id, "--format", format];
        args.extend(more);
        rig.ok(args)
    };
    assert!(export("html", &[]).starts_with("<!doctype html>"));
    assert!(export("md", &[]).contains("## User"));
    for format in ["jsonl", "md", "html"] {
        assert!(!export(format, &["--redact"]).contains("ghp_0123456789"), "{format}");
    }
    let line = export("jsonl", &[]);
    let other = Rig::new();
    let file = other.file("lines.jsonl", &line);
    let report = other.json([Path::new("import"), &file, Path::new("--json")]);
    assert_eq!(report["sessions"][0], id.as_str());
    assert!(other.ok(["sessions", "list"]).contains(&id));
}

#[test]
fn profiles_have_stores_of_their_own() {
    let rig = Rig::new();
    let own = talk(&rig, "in the default profile");
    rig.ok(["profile", "create", "work"]);
    let theirs = rig.json(["-p", "work", "chat", "-q", "at work", "--json"]);
    let theirs = theirs["session_id"].as_str().unwrap();
    assert!(!rig.ok(["sessions", "list"]).contains(theirs));
    rig.ok(["profile", "use", "work"]);
    let listed = rig.ok(["sessions", "list"]);
    assert!(listed.contains(theirs) && !listed.contains(&own));
    assert!(rig.ok(["-p", "default", "sessions", "list"]).contains(&own));
    // As a process that runs there holds it.
    let lock = rig.home().join("profiles/work/drafts/holder-0-0-0.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = fs::File::create(&lock).unwrap();
    held.try_lock().unwrap();
    for command in [["rename", "work", "job"].as_slice(), &["delete", "work", "--yes"]] {
        let refused = rig.run(["profile"].iter().chain(command));
        assert_eq!(refused.code, 7, "{}", refused.stderr);
        assert!(refused.stderr.contains("in use by process"), "{}", refused.stderr);
    }
    drop(held);
    rig.ok(["profile", "rename", "work", "job"]);
    assert!(rig.ok(["profile", "list"]).contains("* job"));
    assert_eq!(rig.run(["profile", "delete", "job"]).code, 2, "nobody can be asked");
    let planned = rig.ok(["profile", "delete", "job", "--dry-run"]);
    assert!(planned.contains("profiles/job with 1 sessions"), "{planned}");
    assert_eq!(rig.run(["profile", "delete", "default", "--dry-run"]).code, 3);
    rig.ok(["profile", "delete", "job", "--yes"]);
    assert!(rig.ok(["sessions", "list"]).contains(&own));
    assert!(!rig.home().join("profiles/job").exists());
    let unknown = rig.run(["-p", "nobody", "sessions", "list"]);
    assert!(unknown.code != 0 && unknown.stderr.contains("hint:"), "{}", unknown.stderr);
}

#[test]
fn the_store_is_backed_up_restored_repaired_and_optimized() {
    let rig = Rig::new();
    let kept = talk(&rig, "before the backup");
    let backup = rig.ok(["sessions", "backup"]).trim().to_owned();
    let later = talk(&rig, "after the backup");
    assert!(rig.ok(["sessions", "optimize"]).contains("bytes"));
    assert!(rig.ok(["sessions", "repair"]).contains("nothing is wrong"));
    rig.ok(["sessions", "restore", &backup, "--yes"]);
    let listed = rig.ok(["sessions", "list"]);
    assert!(listed.contains(&kept) && !listed.contains(&later));
    rig.ok(["sessions", "check"]);
    let mut bytes = fs::read(rig.home().join("state.db")).unwrap();
    bytes[100..4096].fill(0xa5);
    fs::write(rig.home().join("state.db"), bytes).unwrap();
    let broken = rig.run(["sessions", "repair"]);
    assert!(broken.code != 0 && broken.stderr.contains("hint:"), "{}", broken.stderr);
    assert_eq!(rig.run(["sessions", "check"]).code, 5);
    let beside = rig.run(["chat", "-Q", "-q", "said beside the damaged store"]);
    assert_eq!(beside.code, 0, "{}", beside.stderr);
    assert_eq!(beside.stderr.matches("hermes sessions repair").count(), 1, "{}", beside.stderr);
    assert_ne!(rig.run(["-c", "chat", "-Q", "-q", "go on"]).code, 0, "not in another session");
    let restored = rig.ok(["sessions", "restore", &backup, "--yes"]);
    assert!(restored.contains("state.db.damaged-"), "{restored}");
    let listed = rig.json(["sessions", "list", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(rig.json(["sessions", "search", "damaged", "--json"])["count"], 1);
    rig.ok(["sessions", "check"]);
}

#[test]
fn a_session_whose_prompt_or_tools_no_repair_could_save_goes_on() {
    let rig = Rig::new();
    let id = talk(&rig, "the lighthouse stands on the cape");
    rig.ok(["sessions", "optimize"]);
    let whole = fs::read(rig.home().join("state.db")).unwrap();
    for needle in ["search WORDS", "\"type\":\"function\"", "understand only these"] {
        let mut bytes = whole.clone();
        let found = bytes.windows(needle.len()).position(|window| window == needle.as_bytes());
        let Some(at) = found else { continue };
        bytes[at / 4096 * 4096..][..4096].fill(0xa5);
        fs::write(rig.home().join("state.db"), bytes).unwrap();
        rig.ok(["sessions", "repair"]);
        rig.ok(["sessions", "check"]);
        let went_on = rig.run(["--resume", &id, "chat", "-Q", "-q", "and the boat"]);
        assert_eq!(went_on.code, 0, "{needle}: {}", went_on.stderr);
        rig.ok(["sessions", "check"]);
    }
}

#[cfg(unix)]
#[test]
fn leaving_with_delete_removes_the_session_of_the_conversation() {
    let rig = Rig::new();
    let terminal = crate::terminal::Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("a passing remark");
    terminal.wait_for("a passing remark");
    terminal.wait_for_prompt();
    terminal.line("/exit --delete");
    let (code, screen) = terminal.end();
    assert!(code == 0 && screen.contains("deleted "), "{screen}");
    assert_eq!(rig.json(["sessions", "list", "--json"]), Value::Array(vec![]));
}
