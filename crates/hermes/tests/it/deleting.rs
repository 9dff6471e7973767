//! Every way to delete that a person has, in every situation: what goes, what is told, once.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use hermes_core::{
    Cause, Digest, Env, Generation, GenerationNo, Origin, Part, PartBody, Role, Row, RowStatus,
    Seq, SessionId, Standing, Timestamp, TurnNo, slot,
};
use hermes_home::SystemEnv;
use hermes_store::{
    ArchiveRequest, OpenMode, ParentKind, Record, SessionFilter, SessionInit, SessionPatch, Store,
    StorePaths,
};
use serde_json::Value;

use crate::rig::{Ran, Rig};
use crate::terminal::Terminal;

/// Long ago, for what goes by age.
const OLD: Timestamp = Timestamp(1_700_000_000_000_000);

fn store_in(folder: &Path) -> Store {
    let env: Arc<dyn Env> = Arc::new(SystemEnv::new(""));
    let paths = StorePaths {
        db: folder.join("state.db"),
        spool_dir: folder.join("spool"),
        drafts_dir: folder.join("drafts"),
    };
    Store::open(paths, env, OpenMode::ReadWrite).unwrap()
}

fn said(text: &str) -> Record {
    let part = Part {
        seq: Seq(1),
        row: Seq(1),
        slot: slot::BODY,
        origin: Origin::User,
        standing: Standing::InOrder,
        created_at: OLD,
        label: None,
        body: PartBody::text(text),
    };
    Record::Row(Row {
        seq: Seq(1),
        turn: TurnNo(1),
        role: Role::User,
        standing: Standing::InOrder,
        status: RowStatus::Complete,
        created_at: OLD,
        tool: None,
        finish_reason: None,
        parts: vec![part],
    })
}

/// An old session of the working folder, with a line or without any.
fn make(rig: &Rig, name: &str, empty: bool, parent: Option<(&str, ParentKind)>) {
    let store = store_in(&rig.home());
    let init = SessionInit {
        id: SessionId::new(name),
        source: "cli".to_owned(),
        lane: None,
        cwd: Some(rig.work().display().to_string()),
        git_root: None,
        git_branch: None,
        model: "rehearsal".to_owned(),
        provider: "rehearsal".to_owned(),
        base_url: None,
        parent: parent.map(|(parent, kind)| (SessionId::new(parent), kind)),
        title: (!empty).then(|| format!("doomed {name}")),
        started_at: OLD,
    };
    let mut records = vec![Record::Patch(SessionPatch {
        ended: Some(hermes_store::Ended { at: OLD, reason: "cli_close".to_owned() }),
        ..SessionPatch::default()
    })];
    if !empty {
        records.extend(["You are a test.", "[]"].map(|text| Record::Text { text: text.into() }));
        records.push(Record::Generation(Generation {
            n: GenerationNo(0),
            parent: None,
            cause: Cause::Start,
            created_at: OLD,
            prompt: Digest::of("You are a test."),
            tools: Digest::of("[]"),
            ops: vec![],
        }));
        records.push(said(&format!("zebrafish of {name}")));
    }
    store.create_session(init, records).unwrap().release().unwrap();
}

/// A hook that writes down what it hears of deletions.
fn listen(rig: &Rig) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = rig.home().join("heard.sh");
    let out = rig.home().join("heard.jsonl");
    fs::write(&path, format!("#!/bin/sh\ncat >> '{0}'; echo >> '{0}'\n", out.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    rig.config(&format!(
        "hooks_auto_accept: true\nhooks:\n  on_session_delete:\n    - command: {}\n",
        path.display()
    ));
}

fn heard(rig: &Rig) -> Vec<Value> {
    let text = fs::read_to_string(rig.home().join("heard.jsonl")).unwrap_or_default();
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn left(rig: &Rig) -> BTreeSet<String> {
    let filter = SessionFilter { archived: true, delegates: true, ..SessionFilter::default() };
    let sessions = store_in(&rig.home()).sessions(&filter).unwrap();
    sessions.iter().map(|info| info.id.to_string()).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    One,
    Many,
    WithChildren,
    Archived,
    Running,
    Retried,
}

/// A way to delete.
struct Entry {
    name: &'static str,
    reason: &'static str,
    empty: bool,
    /// Those in use are left instead of refused.
    sweeps: bool,
    way: Way,
}

enum Way {
    /// A command; NAMES stands for the sessions.
    Command(&'static [&'static str]),
    /// `/sessions delete` in a conversation.
    Browse,
    /// `/exit --delete` in a conversation with the session.
    Exit,
}

const ENTRIES: [Entry; 8] = [
    Entry {
        name: "by name",
        reason: "delete",
        empty: false,
        sweeps: false,
        way: Way::Command(&["sessions", "delete", "NAMES"]),
    },
    Entry {
        name: "by filter",
        reason: "delete",
        empty: false,
        sweeps: true,
        way: Way::Command(&["sessions", "delete", "--title", "doomed", "--include-archived"]),
    },
    Entry { name: "browse", reason: "delete", empty: false, sweeps: false, way: Way::Browse },
    Entry { name: "exit", reason: "delete", empty: false, sweeps: false, way: Way::Exit },
    Entry {
        name: "sweep",
        reason: "empty_sweep",
        empty: true,
        sweeps: true,
        way: Way::Command(&["sessions", "sweep"]),
    },
    Entry {
        name: "ghosts",
        reason: "ghost_prune",
        empty: true,
        sweeps: true,
        way: Way::Command(&["sessions", "sweep", "--ghosts"]),
    },
    Entry {
        name: "prune",
        reason: "prune",
        empty: false,
        sweeps: true,
        way: Way::Command(&[
            "sessions",
            "prune",
            "--include-archived",
            "--older-than",
            "90",
            "--title",
            "doomed",
        ]),
    },
    Entry {
        name: "profile repair",
        reason: "profile_repair",
        empty: false,
        sweeps: false,
        way: Way::Command(&["sessions", "move", "NAMES", "--to", "work"]),
    },
];

fn command(rig: &Rig, template: &[&str], names: &[&str], more: &[&str]) -> Ran {
    let args = template.iter().flat_map(|word| match *word {
        "NAMES" => names.to_vec(),
        word => vec![word],
    });
    rig.run(args.chain(more.iter().copied()))
}

/// Deletes in a conversation; what was on the screen.
fn at_the_terminal(rig: &Rig, way: &Way, names: &[&str]) -> String {
    if matches!(way, Way::Exit) {
        let terminal = Terminal::start(rig, &["--resume", names[0]]);
        terminal.wait_for_prompt();
        terminal.line("/exit --delete");
        return terminal.end().1;
    }
    let terminal = Terminal::start(rig, &[]);
    terminal.wait_for_prompt();
    terminal.line(&format!("/sessions delete {}", names.join(" ")));
    let screen = terminal.wait("a question or an error", |screen| {
        screen.contains("[y/N]") || screen.contains("error:")
    });
    if screen.contains("[y/N]") {
        terminal.send("y\r");
        terminal.wait_for("ledger rows keep");
    }
    let screen = terminal.wait_for_prompt();
    terminal.send("\x04");
    terminal.end();
    screen
}

fn check(entry: &Entry, situation: Situation) {
    let place = format!("{}, {situation:?}", entry.name);
    let many = situation == Situation::Many;
    let in_a_terminal = !matches!(entry.way, Way::Command(_));
    let impossible = (matches!(entry.way, Way::Exit) && (many || situation == Situation::Running))
        // A conversation takes no id of a request.
        || (in_a_terminal && situation == Situation::Retried)
        // The sweep of empty sessions leaves archived ones.
        || (entry.name == "sweep" && situation == Situation::Archived);
    if impossible {
        return;
    }
    let rig = Rig::new();
    listen(&rig);
    rig.ok(["profile", "create", "work"]);
    make(&rig, "keeper", false, None);
    store_in(&rig.home())
        .set_title(&SessionId::new("keeper"), Some("kept"), hermes_store::TitleSource::User)
        .unwrap();
    let names: &[&str] = if many { &["one", "two"] } else { &["one"] };
    for name in names {
        make(&rig, name, entry.empty, None);
    }
    let mut expected: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut kept = BTreeSet::from(["keeper".to_owned()]);
    if situation == Situation::WithChildren {
        make(&rig, "tip", false, Some(("one", ParentKind::Compaction)));
        make(&rig, "helper", false, Some(("one", ParentKind::Delegate)));
        make(&rig, "branch", false, Some(("one", ParentKind::Branch)));
        let store = store_in(&rig.home());
        store
            .set_title(&SessionId::new("branch"), Some("kept too"), hermes_store::TitleSource::User)
            .unwrap();
        expected.extend(["tip".to_owned(), "helper".to_owned()]);
        kept.insert("branch".to_owned());
        if entry.empty {
            // They have children that say something.
            kept.append(&mut expected);
        }
    }
    let folder = rig.home().join("sessions");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("one.json"), "{}").unwrap();
    if situation == Situation::Archived {
        let request = ArchiveRequest {
            automatic: true,
            ..ArchiveRequest::new(vec![SessionId::new("one")], true)
        };
        store_in(&rig.home()).archive(request).unwrap();
    }
    let running = (situation == Situation::Running)
        .then(|| store_in(&rig.home()).open_session(&SessionId::new("one")).unwrap());
    let Way::Command(template) = entry.way else {
        let screen = at_the_terminal(&rig, &entry.way, names);
        if running.is_some() {
            assert!(screen.contains("is in use by process"), "{place}: {screen}");
            assert!(left(&rig).contains("one") && heard(&rig).is_empty(), "{place}");
        } else {
            gone(&rig, entry, &expected, &kept, &place);
        }
        return;
    };
    let planned = command(&rig, template, names, &["--dry-run", "--json"]);
    if running.is_some() && !entry.sweeps {
        assert_eq!(planned.code, 7, "{place}: {}", planned.stderr);
        let refused = command(&rig, template, names, &["--yes", "--json"]);
        assert_eq!((refused.code, &*refused.stdout), (7, ""), "{place}: {}", refused.stderr);
        assert!(refused.stderr.contains("is in use by process"), "{place}: {}", refused.stderr);
        assert!(left(&rig).contains("one") && heard(&rig).is_empty(), "{place}");
        drop(running);
        assert_eq!(command(&rig, template, names, &["--yes"]).code, 0, "{place}");
        return gone(&rig, entry, &expected, &kept, &place);
    }
    assert_eq!(planned.code, 0, "{place}: {}", planned.stderr);
    assert!(left(&rig).is_superset(&expected) && heard(&rig).is_empty(), "{place}");
    let done = command(&rig, template, names, &["--yes", "--json", "--request-id", "r"]);
    assert_eq!(done.code, 0, "{place}: {}", done.stderr);
    let receipt: Value = serde_json::from_str(&done.stdout).unwrap();
    let removed = |receipt: &Value| -> BTreeSet<String> {
        let removed = receipt["removed"].as_array().unwrap();
        removed.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    if running.is_some() {
        assert_eq!(receipt["skipped"][0], "one", "{place}");
        assert!(removed(&receipt).is_empty() && heard(&rig).is_empty(), "{place}");
        assert!(left(&rig).contains("one"), "{place}");
        return;
    }
    assert_eq!(removed(&receipt), expected, "{place}");
    assert_eq!(removed(&serde_json::from_str(&planned.stdout).unwrap()), expected, "{place}");
    if expected.is_empty() {
        assert_eq!((left(&rig), heard(&rig)), (kept, vec![]), "{place}");
        return;
    }
    assert!(receipt["scrubbed_at"].is_number(), "{place}: {receipt}");
    if situation == Situation::WithChildren {
        assert_eq!(receipt["remaining"][0]["id"], "branch", "{place}");
    }
    if situation == Situation::Retried {
        // Another one that would be chosen by now.
        make(&rig, "late", entry.empty, None);
        kept.insert("late".to_owned());
        let again = command(&rig, template, names, &["--yes", "--json", "--request-id", "r"]);
        assert_eq!(again.code, 0, "{place}: {}", again.stderr);
        assert_eq!(again.stdout, done.stdout, "{place}");
    }
    gone(&rig, entry, &expected, &kept, &place);
}

/// What is there no more, what is there still, and what was told of it.
fn gone(
    rig: &Rig,
    entry: &Entry,
    expected: &BTreeSet<String>,
    kept: &BTreeSet<String>,
    place: &str,
) {
    assert_eq!(&left(rig), kept, "{place}");
    let heard = heard(rig);
    let [event] = heard.as_slice() else { panic!("{place}: {heard:?}") };
    let extra = &event["extra"];
    assert_eq!(extra["reason"], entry.reason, "{place}: {event}");
    assert_eq!(extra["profile"], "default", "{place}: {event}");
    let listed = extra["deleted_ids"].as_array().map_or(0, Vec::len);
    assert_eq!(listed, if expected.len() > 1 { expected.len() } else { 0 }, "{place}: {event}");
    let folder = rig.home().join("sessions");
    assert_eq!(extra["sessions_dir"], folder.display().to_string(), "{place}: {event}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "{place}");
    let found = rig.run(["sessions", "search", "zebrafish one", "--json"]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap_or_default();
    let results = found["results"].as_array().cloned().unwrap_or_default();
    assert!(results.iter().all(|it| it["session_id"] != "one"), "{place}: {found}");
    let bytes = fs::read(rig.home().join("state.db")).unwrap();
    let needle = b"zebrafish of one";
    assert!(!bytes.windows(needle.len()).any(|window| window == needle), "{place}");
    rig.ok(["sessions", "check"]);
    let there = store_in(&rig.home().join("profiles/work"));
    for name in expected {
        let copied = there.session(&SessionId::new(name.as_str())).unwrap().is_some();
        assert_eq!(copied, entry.reason == "profile_repair", "{place}: {name}");
    }
}

fn check_all(entries: &[Entry]) {
    for entry in entries {
        for situation in [
            Situation::One,
            Situation::Many,
            Situation::WithChildren,
            Situation::Archived,
            Situation::Running,
            Situation::Retried,
        ] {
            check(entry, situation);
        }
    }
}

#[test]
fn every_way_to_name_what_is_deleted_does_the_same_in_every_situation() {
    check_all(&ENTRIES[..4]);
}

#[test]
fn every_sweep_and_every_move_does_the_same_in_every_situation() {
    check_all(&ENTRIES[4..]);
}

#[test]
fn the_list_of_a_conversation_is_leafed_through_and_deleted_from_after_a_yes() {
    let rig = Rig::new();
    for n in 1..=12 {
        make(&rig, &format!("old{n}"), false, None);
    }
    make(&rig, "child", false, Some(("old1", ParentKind::Delegate)));
    let terminal = Terminal::start(&rig, &["--resume", "old12"]);
    terminal.wait_for_prompt();
    terminal.line("/sessions");
    terminal.wait_for("/sessions more lists the next");
    terminal.wait_for_prompt();
    terminal.line("/sessions more");
    terminal.wait("the last one", |screen| {
        screen.lines().any(|line| line.trim_end().ends_with("doomed old1"))
    });
    terminal.wait_for_prompt();
    for (said, answer) in [
        ("13", "no session has the number 13"),
        ("0", "no session has the number 0"),
        ("--all 1", "takes --dry-run and --with-derived, not --all"),
        ("old12", "is the one that you are in"),
        ("old1 nobody", "no session \"nobody\""),
    ] {
        terminal.line(&format!("/sessions delete {said}"));
        terminal.wait_for(answer);
        terminal.wait_for_prompt();
    }
    terminal.line("/sessions delete --dry-run 12");
    terminal.wait_for("2 sessions with 2 messages");
    terminal.wait_for_prompt();
    let ask = |line: &str| {
        terminal.line(line);
        terminal
            .wait("the question", |screen| screen.trim_end().ends_with("Delete for good? [y/N]"));
    };
    ask("/sessions delete doomed old1");
    terminal.send("n\r");
    terminal.wait_for("nothing was deleted");
    terminal.wait_for_prompt();
    // Ctrl-C is a no too, and the conversation goes on.
    ask("/sessions delete 12");
    terminal.send("\x03");
    terminal.wait_for_prompt();
    assert_eq!(left(&rig).len(), 13);
    ask("/sessions delete 12 \"doomed old2\"");
    terminal.send("y\r");
    terminal.wait_for("deleted child");
    terminal.wait_for_prompt();
    // The numbers of the list stay what they were.
    terminal.line("/sessions delete 12");
    terminal.wait_for("session old1 was deleted");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    let left = left(&rig);
    assert_eq!(left.len(), 10);
    assert!(["old1", "old2", "child"].iter().all(|name| !left.contains(*name)));
}

#[test]
fn a_moved_session_goes_on_in_its_profile_and_every_request_still_verifies() {
    let rig = Rig::new();
    let talk = |text: &str| -> String {
        let turn = rig.json(["chat", "--json", "-q", text]);
        turn["session_id"].as_str().unwrap().to_owned()
    };
    let id = talk("run echo marmalade");
    rig.json(["chat", "--json", "--resume", &id, "-q", "delegate look at the jars"]);
    for n in 0..4 {
        let long = format!("look at part {n}: {}", "the jars stand on the shelf ".repeat(60));
        rig.json(["chat", "--json", "--resume", &id, "-q", &long]);
    }
    rig.ok(["sessions", "compress", &id, "--here", "1"]);
    rig.json(["chat", "--json", "--resume", &id, "-q", "and now?"]);
    rig.ok(["handoff", "build", "--session-id", &id]);
    let other = talk("something else");
    rig.ok(["profile", "create", "work"]);
    let count = |args: &[&str]| {
        let verdicts: Value = serde_json::from_str(&rig.ok(args)).unwrap();
        let all = verdicts.as_array().unwrap().clone();
        let of = |verdict: &str| all.iter().filter(|it| it["verdict"] == verdict).count();
        (of("verified"), of("deleted"), all.len())
    };
    let (before, _, all) = count(&["requests", "verify", "--all", "--json"]);
    assert_eq!(before, all);
    let asked = rig.run(["sessions", "move", &id, "--to", "work"]);
    assert_eq!(asked.code, 2, "nobody can be asked: {}", asked.stderr);
    let moved = rig.ok(["sessions", "move", &id, "--to", "work", "--yes"]);
    assert!(moved.contains(&format!("moved {id} to profile work")), "{moved}");
    let (verified, deleted, _) = count(&["requests", "verify", "--all", "--json"]);
    let (there, _, all) = count(&["-p", "work", "requests", "verify", "--all", "--json"]);
    assert_eq!((there, verified + there, deleted), (all, before, all));
    assert!(all > 3, "the requests of the delegated child and of the summary as well");
    // The capsule that waited for the next conversation waits there.
    assert!(rig.ok(["handoff", "list"]).contains("no capsule"));
    assert!(rig.ok(["-p", "work", "handoff", "show"]).contains("Working on"));
    rig.ok(["-p", "work", "handoff", "verify"]);
    let gone_on = rig.json(["-p", "work", "chat", "--json", "--resume", &id, "-q", "go on"]);
    assert_eq!(gone_on["session_id"], id.as_str());
    rig.ok(["-p", "work", "requests", "verify", "--all"]);
    let asked = rig.run(["--resume", &id, "chat", "-q", "go on"]);
    assert_eq!(asked.code, 6, "{}", asked.stderr);
    assert!(asked.stderr.contains("was moved to profile work"), "{}", asked.stderr);
    for (args, code) in [
        (["sessions", "move", &other, "--to", "nobody"].as_slice(), 3),
        (&["sessions", "move", &other, "--to", "default"], 1),
        (&["sessions", "move", "--to", "work"], 2),
        (&["sessions", "move", &other], 2),
        (&["sessions", "move", "nobody", "--to", "work", "--yes"], 6),
    ] {
        let ran = rig.run(args);
        assert!(
            ran.code == code && ran.stderr.contains("error:"),
            "{args:?}: {} {}",
            ran.code,
            ran.stderr
        );
    }
    rig.ok(["sessions", "check"]);
    rig.ok(["-p", "work", "sessions", "check"]);
}

#[test]
fn sessions_that_say_whose_they_are_are_found_and_moved_there() {
    let rig = Rig::new();
    let line = |id: &str, owner: &str| {
        format!(
            "{{\"id\":\"{id}\",\"source\":\"cli\",\"started_at\":1700000000.5,\"profile_name\":\
             \"{owner}\",\"messages\":[{{\"role\":\"user\",\"content\":\"of {owner}\",\
             \"timestamp\":1700000001.5}}]}}\n"
        )
    };
    let lines =
        line("a", "work") + &line("b", "home") + &line("c", "nobody") + &line("d", "default");
    let file = rig.file("lines.jsonl", &lines);
    rig.ok(["import", file.to_str().unwrap()]);
    for name in ["work", "home"] {
        rig.ok(["profile", "create", name]);
    }
    let planned = rig.json(["sessions", "move", "--misplaced", "--dry-run", "--json"]);
    let to = |receipts: &Value| -> Vec<(String, String)> {
        let all = receipts.as_array().unwrap().iter();
        all.map(|it| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&it["removed"][0]["id"]), text(&it["moved"]["profile"]))
        })
        .collect()
    };
    let expected =
        [("b", "home"), ("a", "work")].map(|(id, to)| (id.to_owned(), to.to_owned())).to_vec();
    assert_eq!(to(&planned), expected);
    assert_eq!(left(&rig).len(), 4);
    let without = rig.run(["sessions", "move", "--misplaced", "--yes", "--request-id", "r"]);
    assert_eq!(without.code, 2, "one receipt a request: {}", without.stderr);
    let move_home = ["sessions", "move", "--misplaced", "--to", "home", "--yes", "--json"];
    let move_home = [move_home.as_slice(), &["--request-id", "r"]].concat();
    let once = rig.json(move_home.clone());
    assert_eq!(to(&once), expected[..1]);
    assert_eq!(rig.json(move_home), once, "a repetition gets the same receipt");
    assert_eq!(
        to(&rig.json(["sessions", "move", "--misplaced", "--yes", "--json"])),
        expected[1..]
    );
    assert_eq!(left(&rig), BTreeSet::from(["c".to_owned(), "d".to_owned()]));
    assert_eq!(
        rig.json(["sessions", "move", "--misplaced", "--yes", "--json"]),
        Value::Array(vec![])
    );
    for (profile, id) in [("work", "a"), ("home", "b")] {
        assert!(rig.ok(["-p", profile, "sessions", "list"]).contains(id));
        let again = rig.json(["-p", profile, "sessions", "move", "--misplaced", "--yes", "--json"]);
        assert_eq!(again, Value::Array(vec![]), "it is at home there");
    }
}

#[test]
fn old_sessions_go_by_themselves_only_where_the_settings_ask_for_it_and_once_a_day() {
    let rig = Rig::new();
    listen(&rig);
    for name in ["old", "pinned", "looked at"] {
        make(&rig, name, false, None);
    }
    rig.ok(["sessions", "pin", "pinned"]);
    assert_eq!(rig.ok(["config", "get", "sessions.auto_prune"]).trim(), "false");
    rig.ok(["-z", "hello"]);
    assert!(left(&rig).contains("old"), "nothing goes by itself");
    rig.ok(["config", "set", "sessions.auto_prune", "true"]);
    let terminal = Terminal::start(&rig, &["--resume", "looked at"]);
    terminal.wait_for_prompt();
    terminal.send("\x04");
    let (code, screen) = terminal.end();
    assert!(
        code == 0 && screen.contains("1 sessions not used for 90 days were removed"),
        "{screen}"
    );
    let kept = left(&rig);
    assert!(!kept.contains("old") && kept.contains("pinned") && kept.contains("looked at"));
    let heard = heard(&rig);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0]["extra"]["reason"], "prune");
    make(&rig, "another", false, None);
    rig.ok(["-z", "hello"]);
    assert!(left(&rig).contains("another"), "it is looked for once a day");
}

#[test]
fn nothing_that_was_said_or_printed_is_left_in_the_home() {
    let rig = Rig::new();
    rig.config("approvals:\n  allow: ['cat big.txt']\n");
    rig.file("big.txt", &"a zebrafish in every line\n".repeat(40_000));
    let turn = rig.json(["chat", "--json", "-q", "run cat big.txt"]);
    let id = turn["session_id"].as_str().unwrap();
    let outputs = rig.home().join("outputs");
    assert_eq!(fs::read_dir(&outputs).unwrap().count(), 1);
    rig.json(["chat", "--json", "--resume", id, "-q", "the zebrafish again"]);
    rig.ok(["handoff", "build", "--session-id", id]);
    let receipt = rig.json(["sessions", "delete", id, "--yes", "--json"]);
    assert_eq!(receipt["files"].as_array().unwrap().len(), 1, "{receipt}");
    let mut folders = vec![rig.home()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = fs::read(entry.path()).unwrap();
            let found = bytes.windows(9).any(|window| window == b"zebrafish");
            assert!(!found, "{}", entry.path().display());
        }
    }
}
