//! The conversation on a terminal, as a person sees it.

use hermes_provider::rehearsal::{RehearsalServer, Script};
use serde_json::Value;

use crate::rig::{Rig, serve};
use crate::terminal::Terminal;

/// The screen with ids, paths and versions made equal for every run.
fn settled(rig: &Rig, screen: &str) -> String {
    let root = rig.work().parent().unwrap().to_string_lossy().into_owned();
    let text = screen.replace(&root, "ROOT");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Asserts a screen against its snapshot.
macro_rules! screen {
    ($rig:expr, $screen:expr, @$expected:literal) => {{
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"\d{8}_\d{6}_[0-9a-f]{6}", "SESSION");
        settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME");
        settings.add_filter(r"hermes \d+\.\d+\.\d+", "hermes VERSION");
        settings.add_filter(r"\d+ tools", "N tools");
        settings.bind(|| insta::assert_snapshot!(settled($rig, &$screen), @$expected));
    }};
}

fn scripted(text: &str) -> RehearsalServer {
    serve(Some(Script::parse(std::path::Path::new("script.json"), text).unwrap()))
}

/// A server whose first answer stops in the middle and stays silent.
fn hanging(rig: &Rig) -> RehearsalServer {
    let chunk = |text: &str| {
        format!(
            "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
        )
    };
    let stream = chunk("The first half of ") + &chunk("a long answer");
    let script = rig.file("../script.json", r#"[{"file":"half.sse","hang_ms":600000}]"#);
    rig.file("../half.sse", &stream);
    serve(Some(Script::load(&script).unwrap()))
}

fn sessions(rig: &Rig) -> Vec<Value> {
    rig.json(["sessions", "list", "--json"]).as_array().unwrap().clone()
}

#[test]
fn the_banner_says_where_it_works_with_what_and_what_was_loaded_and_left_out() {
    let rig = Rig::new();
    rig.file(".git/HEAD", "ref: refs/heads/main\n");
    rig.file("AGENTS.md", "Be brief.\n");
    rig.file("CLAUDE.md", "Be long.\n");
    let terminal = Terminal::start(&rig, &[]);
    let screen = terminal.wait_for_prompt();
    screen!(&rig, screen, @r"
    hermes VERSION session SESSION
      folder  ROOT/work (git root, branch main)
      model   rehearsal: no language model, fixed replies only (hint: hermes setup)
      loaded  AGENTS.md, N tools
              CLAUDE.md not loaded: AGENTS.md comes first
      /help lists commands and keys; Ctrl-D leaves

    >
    ");
    terminal.send("\x04");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    assert!(!screen.contains("is stored"), "{screen}");
    assert_eq!(sessions(&rig).len(), 0, "nothing was said");
}

#[test]
fn a_turn_streams_its_answer_and_leaving_says_how_to_come_back() {
    let rig = Rig::new();
    let server = scripted(r#"[{"say":"It is noon."}, {"say":"Still noon."}]"#);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("What time is it?");
    terminal.wait_for("It is noon.");
    terminal.wait_for_prompt();
    let id = sessions(&rig)[0]["id"].as_str().unwrap().to_owned();
    // The session is given back while the person thinks.
    rig.ok(["chat", "--resume", &id, "-q", "And now?"]);
    terminal.line("/exit");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0);
    assert!(screen.contains(&format!("hermes --resume {id}")), "{screen}");
    screen!(&rig, screen, @r"
    hermes VERSION session SESSION
      folder  ROOT/work (no git)
      model   scripted, provider custom, window 200000 tokens
      loaded  N tools
      /help lists commands and keys; Ctrl-D leaves

    > What time is it?
    It is noon.

    > /exit
    session SESSION is stored (hermes --resume SESSION goes on with it)
    ");
}

#[test]
fn ctrl_c_stops_the_answer_and_what_was_shown_is_kept() {
    let rig = Rig::new();
    let server = hanging(&rig);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("tell me everything");
    terminal.wait_for("a long answer");
    terminal.send("\x03");
    terminal.wait_for("what was said is kept");
    terminal.wait_for_prompt();
    // The conversation goes on.
    terminal.line("hello");
    terminal.wait("the next answer", |screen| {
        screen.lines().rev().skip_while(|line| line.trim().is_empty() || line.trim() == ">").count()
            > screen.lines().position(|line| line.contains("> hello")).unwrap_or(usize::MAX)
    });
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    let id = sessions(&rig)[0]["id"].as_str().unwrap().to_owned();
    let shown = rig.json(["sessions", "show", &id, "--json"]);
    let rows = shown["message_list"].as_array().unwrap();
    assert_eq!(rows[1]["status"], "interrupted", "{rows:#?}");
    assert_eq!(rows[1]["parts"][0]["body"]["text"], "The first half of a long answer");
    rig.ok(["requests", "verify", "--all"]);
}

#[test]
fn ctrl_c_at_the_prompt_clears_the_line_and_nothing_is_sent() {
    let rig = Rig::new();
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.send("never sent");
    terminal.wait_for("> never sent");
    terminal.send("\x03");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sessions(&rig).len(), 0);
}

#[test]
fn tab_completes_a_command_and_an_unknown_one_names_the_nearest() {
    let rig = Rig::new();
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.send("/us");
    terminal.wait_for("/usage");
    terminal.send("\t");
    terminal.send("\r");
    terminal.wait_for("nothing was sent in this session yet");
    terminal.wait_for_prompt();
    terminal.line("/hlep");
    terminal.wait_for("did you mean /help?");
    terminal.wait_for_prompt();
    terminal.line("/help");
    let screen = terminal.wait_for("// sends a message");
    assert!(screen.contains("/title [TEXT]"), "{screen}");
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn several_lines_make_one_message_and_a_pasted_backslash_stays() {
    let rig = Rig::new();
    let server = serve(None);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.send("one\\\r");
    terminal.send("two\x1b\r");
    terminal.send("\x1b[200~make \\\r  this\x1b[201~");
    terminal.wait_for("this");
    terminal.send("\r");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    let body: Value = serde_json::from_slice(&server.received()[0]).unwrap();
    let said = body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(said, "one\ntwo\nmake \\\n  this");
    let history = std::fs::read_to_string(rig.home().join("history.txt")).unwrap();
    assert_eq!(history.lines().count(), 1, "{history}");
}

#[cfg(unix)]
#[test]
fn the_history_is_private_and_leaves_out_lines_that_begin_with_a_space() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("/usage");
    terminal.wait_for("nothing was sent");
    terminal.wait_for_prompt();
    terminal.line(" /etc is quiet");
    terminal.wait_for("quiet\n");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    let path = rig.home().join("history.txt");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "/usage\n");
}

#[test]
fn a_title_given_before_the_first_message_is_kept_when_the_model_fails() {
    let rig = Rig::new();
    let server = scripted(r#"[{"status":401}]"#);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("/title First things");
    terminal.wait_for("stored with the first message");
    terminal.line("Question one?");
    terminal.wait_for("error:");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sessions(&rig)[0]["title"], "First things");
}

#[test]
fn title_new_sessions_and_resume_move_between_sessions() {
    let rig = Rig::new();
    let server = scripted(r#"[{"say":"Answer one."}, {"say":"Answer two."}]"#);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("/title");
    terminal.wait_for("this session has no title");
    terminal.line("/title First things");
    terminal.wait_for("stored with the first message");
    terminal.line("Question one?");
    terminal.wait_for("Answer one.");
    terminal.wait_for_prompt();
    terminal.line("/new Second things");
    terminal.wait_for("title: Second things");
    terminal.line("Question two?");
    terminal.wait_for("Answer two.");
    terminal.wait_for_prompt();
    terminal.line("/sessions");
    terminal.wait("both titles in the list", |screen| {
        screen.contains("1*") && screen.contains("First things")
    });
    terminal.wait_for_prompt();
    terminal.line("/resume 9");
    terminal.wait_for("no session has the number 9");
    terminal.wait_for_prompt();
    terminal.line("/resume 2");
    let screen = terminal.wait("the exchange of the first session", |screen| {
        screen.matches("Answer one.").count() == 2
    });
    assert!(screen.contains("> Question one?"), "{screen}");
    terminal.wait_for_prompt();
    terminal.line("/title");
    terminal.wait("its title", |screen| screen.lines().any(|line| line.trim() == "First things"));
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    let titles: Vec<_> = sessions(&rig).iter().map(|it| it["title"].clone()).collect();
    assert_eq!(titles, ["Second things", "First things"]);
}

#[test]
fn usage_and_context_show_what_the_provider_reported_and_what_was_sent() {
    let rig = Rig::new();
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("hello");
    terminal.wait("an answer", |screen| screen.lines().filter(|it| !it.is_empty()).count() > 7);
    terminal.wait_for_prompt();
    terminal.line("/usage");
    let screen = terminal.wait_for("reasoning");
    assert!(screen.contains("1 requests answered"), "{screen}");
    terminal.wait_for_prompt();
    terminal.line("/context");
    terminal.wait_for("history digest");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_command_runs_only_after_a_clear_yes() {
    let rig = Rig::new();
    let call = |name: &str| {
        format!(r#"{{"call":{{"name":"terminal","arguments":{{"command":"touch {name}"}}}}}}"#)
    };
    let script = format!(
        r#"[{}, {{"say":"Not run."}}, {}, {{"say":"It ran."}}]"#,
        call("no.txt"),
        call("yes.txt")
    );
    let server = scripted(&script);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("first");
    terminal.wait_for("[d]eny:");
    terminal.line("");
    terminal.wait_for("Not run.");
    terminal.wait_for_prompt();
    terminal.line("second");
    terminal.wait("the second question", |screen| screen.matches("[d]eny:").count() == 2);
    terminal.line("o");
    terminal.wait_for("It ran.");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    assert!(!rig.work().join("no.txt").exists());
    assert!(rig.work().join("yes.txt").exists());
}

#[test]
fn ctrl_c_at_a_question_stops_the_turn_and_the_prompt_reads_the_next_line() {
    let rig = Rig::new();
    let server = scripted(
        r#"[{"call":{"name":"terminal","arguments":{"command":"touch never.txt"}}},
            {"say":"Hello again."}]"#,
    );
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("go");
    terminal.wait_for("[d]eny:");
    terminal.send("\x03");
    terminal.wait_for("what was said is kept");
    terminal.wait_for_prompt();
    terminal.line("hello");
    terminal.wait_for("Hello again.");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
    assert!(!rig.work().join("never.txt").exists());
}

#[test]
fn a_failing_model_is_told_with_a_hint_and_the_conversation_goes_on() {
    let rig = Rig::new();
    let server = scripted(
        r#"[{"status":401,"body":{"error":{"message":"bad key"}}}, {"say":"Now it works."}]"#,
    );
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("hello");
    terminal.wait_for("bad key");
    terminal.wait_for_prompt();
    terminal.line("hello?");
    terminal.wait_for("Now it works.");
    terminal.wait_for_prompt();
    terminal.send("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn without_a_terminal_for_the_output_it_says_what_to_use_instead() {
    let rig = Rig::new();
    let terminal = Terminal::start(&rig, &["chat", "--json"]);
    let (code, screen) = terminal.end();
    assert_eq!(code, 2);
    assert!(screen.contains("-q TEXT"), "{screen}");
}

#[test]
fn a_model_cannot_steer_the_terminal() {
    let rig = Rig::new();
    let server = scripted(r#"[{"say":"\u001b]52;c;aGk=\u0007\u001b[2J\u001b[1;1Hfake\u202e"}]"#);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("hello");
    terminal.wait_for(r"\u001b]52;c;aGk=\u0007\u001b[2J\u001b[1;1Hfake\u202e");
    terminal.wait_for_prompt();
    let screen = terminal.wait_for("/help lists commands");
    assert!(screen.contains("> hello"), "{screen}");
    // What is stored is shown the same way, and a pipe gets every byte.
    let shown = Terminal::start(&rig, &["sessions", "show", "latest"]);
    let (_, screen) = shown.end();
    assert!(screen.contains(r"\u001b[1;1Hfake"), "{screen}");
    assert!(rig.ok(["sessions", "show", "latest"]).contains("\u{1b}[2J"));
}

#[test]
fn a_failed_tool_says_why_on_one_line() {
    let rig = Rig::new();
    let server = scripted(
        r#"[{"call":{"name":"read_file","arguments":{"path":"nosuch.txt"}}}, {"say":"No."}]"#,
    );
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("read it");
    terminal.wait_for("  read_file: nosuch.txt does not exist");
    terminal.wait_for("No.");
}

#[test]
fn a_long_wait_is_told_and_its_line_goes_away() {
    let rig = Rig::new();
    let server = scripted(r#"[{"say":"late","delay_ms":600000}]"#);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("hello");
    terminal.wait_for("waiting for scripted ... 1 s (Ctrl-C stops)");
    terminal.send("\x03");
    terminal.wait_for("what was said is kept");
    let screen = terminal.wait_for_prompt();
    assert!(!screen.contains("waiting for"), "{screen}");
}

#[test]
fn what_other_processes_did_to_the_session_is_said() {
    let rig = Rig::new();
    let server = scripted(r#"[{"say":"One."}, {"say":"Two."}, {"say":"Three."}]"#);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("count the boats");
    terminal.wait_for("One.");
    terminal.wait_for_prompt();
    let id = sessions(&rig)[0]["id"].as_str().unwrap().to_owned();
    rig.ok(["chat", "--resume", &id, "-q", "from elsewhere"]);
    terminal.line("go on");
    terminal.wait_for("2 messages were added to this session by another process");
    terminal.wait_for("Three.");
    terminal.wait_for_prompt();
    // A session without a title is listed by how it begins.
    terminal.line("/sessions");
    terminal.wait("its first words", |screen| screen.matches("count the boats").count() == 2);
    rig.ok(["sessions", "delete", &id, "--yes"]);
    terminal.line("and now?");
    terminal.wait_for("was deleted by another process");
    terminal.wait_for("hint: /new");
    assert_eq!(server.received().len(), 3);
}

#[test]
fn a_turn_that_a_crash_broke_off_is_told_when_the_session_is_taken_up() {
    let rig = Rig::new();
    let server = hanging(&rig);
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("tell me everything");
    terminal.wait_for("a long answer");
    drop(terminal);
    let terminal = Terminal::start(&rig, &["-c"]);
    terminal.wait_for("the last turn broke off at 2");
    terminal.wait_for_prompt();
}

#[test]
fn a_line_typed_while_the_answer_runs_is_sent_and_several_wait_to_be_looked_at() {
    let rig = Rig::new();
    let server = scripted(
        r#"[{"say":"the first answer","delay_ms":700},{"say":"the second answer","delay_ms":700}]"#,
    );
    rig.endpoint(&server, "");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("one");
    terminal.wait_for("> one\n");
    // The turn runs: the terminal collects these by itself.
    terminal.line("/title while it ran");
    terminal.wait_for("the first answer");
    terminal.wait_for("> /title while it ran");
    terminal.wait_for("title:");
    terminal.wait_for_prompt();
    terminal.line("two");
    terminal.wait_for("> two\n");
    terminal.send("/us\rage");
    terminal.wait_for("the second answer");
    // Two lines, the second without its end: a draft that one can still change.
    let screen = terminal.wait_for("> /us\n  age");
    assert!(!screen.contains("unknown command"), "{screen}");
    terminal.send("\x03");
    terminal.wait_for_prompt();
    // What was sent ahead is in the history; the draft that was given up is not.
    terminal.send("\x1b[A\x1b[A");
    terminal.wait("the line from the history", |screen| {
        screen.lines().last().is_some_and(|it| it.trim() == "> /title while it ran")
    });
    terminal.send("\x03");
    terminal.wait_for_prompt();
    terminal.line("/exit");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_session_gets_a_title_beside_the_conversation_where_the_settings_ask_for_one() {
    let rig = Rig::new();
    let server = scripted(r#"[{"say":"Port 8080 it is."},{"say":"Ports of the harbour relay"}]"#);
    rig.endpoint(&server, "auxiliary:\n  title:\n    enabled: true\n");
    let terminal = Terminal::start(&rig, &[]);
    terminal.wait_for_prompt();
    terminal.line("Which port does the relay get?");
    terminal.wait_for("Port 8080 it is.");
    terminal.wait_for_prompt();
    terminal.line("/exit");
    // It is waited for a moment on the way out.
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sessions(&rig)[0]["title"], "Ports of the harbour relay");
    let requests = rig.json(["requests", "list", "--json"]);
    let tasks = requests.as_array().unwrap().iter().map(|it| it["task"].as_str().unwrap());
    assert!(tasks.clone().any(|task| task == "title"), "{requests}");
    rig.ok(["requests", "verify", "--all"]);
}
