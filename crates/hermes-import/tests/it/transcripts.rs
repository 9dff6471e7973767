//! Session files of other agents.

use std::path::Path;

use hermes_core::SessionId;
use hermes_home::Home;
use hermes_import::{ImportError, ImportOptions, SourceKind, import};

use crate::rig::Rig;

const CODEX: &str = r#"{"timestamp":"2026-01-02T03:04:05.000Z","type":"session_meta","payload":{"id":"abc-1","cwd":"/work/x","git":{"branch":"main"}}}
{"timestamp":"2026-01-02T03:04:06.000Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}}
{"timestamp":"2026-01-02T03:04:06.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"list the files"}]}}
{"timestamp":"2026-01-02T03:04:07.000Z","type":"event_msg","payload":{"type":"token_count"}}
{"timestamp":"2026-01-02T03:04:07.000Z","type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"look"}],"encrypted_content":"x"}}
{"timestamp":"2026-01-02T03:04:08.000Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"c1"}}
{"timestamp":"2026-01-02T03:04:09.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a.txt"}}
{"timestamp":"2026-01-02T03:04:10.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"one file: a.txt"}]}}
{"timestamp":"2026-01-02T03:04:11.000Z","type":"response_item","payload":{"type":"something_new"}}
{"timestamp":"2026-01-02T03:04"#;

const CLAUDE: &str = r#"{"type":"summary","summary":"Listing files","leafUuid":"u9"}
{"type":"user","sessionId":"s-1","uuid":"u1","parentUuid":null,"cwd":"/work/y","gitBranch":"dev","timestamp":"2026-02-03T04:05:06.000Z","isSidechain":false,"message":{"role":"user","content":"list them"}}
{"type":"assistant","sessionId":"s-1","uuid":"u2","parentUuid":"u1","timestamp":"2026-02-03T04:05:07.000Z","message":{"id":"m1","role":"assistant","model":"big","content":[{"type":"thinking","thinking":"hm"}]}}
{"type":"assistant","sessionId":"s-1","uuid":"u3","parentUuid":"u2","timestamp":"2026-02-03T04:05:08.000Z","message":{"id":"m1","role":"assistant","model":"big","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","sessionId":"s-1","uuid":"u4","parentUuid":"u3","timestamp":"2026-02-03T04:05:09.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"b.txt"}],"is_error":false}]}}
{"type":"assistant","sessionId":"s-1","uuid":"u5","parentUuid":"u4","timestamp":"2026-02-03T04:05:10.000Z","message":{"id":"m2","role":"assistant","model":"big","stop_reason":"end_turn","content":[{"type":"text","text":"b.txt it is"}]}}
{"type":"file-history-snapshot","snapshot":{}}
{"type":"user","isSidechain":true,"sessionId":"s-1","message":{"role":"user","content":"elsewhere"}}
"#;

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn codex_sessions_come_in_and_what_is_unknown_is_counted() {
    let rig = Rig::new();
    rig.put("codex/2026/rollout-1.jsonl", CODEX);
    let report = rig.import(&rig.dir.path().join("codex"));
    assert_eq!(
        (report.kind, report.sessions.as_slice()),
        (SourceKind::Codex, &["codex_abc-1".to_owned()][..])
    );
    assert_eq!(report.left_out["item of kind \"something_new\""], 1);
    assert_eq!(report.left_out["line that is no JSON"], 1);
    assert_eq!(
        rig.said("codex_abc-1"),
        pairs(&[
            ("user", "list the files"),
            ("assistant", ""),
            ("tool", "a.txt"),
            ("assistant", "one file: a.txt"),
        ])
    );
    let value: serde_json::Value = serde_json::from_str(&rig.jsonl("codex_abc-1")).unwrap();
    assert_eq!(value["messages"][1]["tool_calls"][0]["function"]["name"], "shell");
    assert_eq!(value["messages"][1]["reasoning"], "look");
    assert_eq!((&value["cwd"], &value["git_branch"]), (&"/work/x".into(), &"main".into()));
    rig.sound();
}

#[test]
fn claude_sessions_come_in_with_one_row_for_an_answer_in_pieces() {
    let rig = Rig::new();
    rig.put("claude/project/s-1.jsonl", CLAUDE);
    let report = rig.import(&rig.dir.path().join("claude"));
    assert_eq!((report.kind, report.sessions.len()), (SourceKind::Claude, 1));
    assert_eq!(report.left_out["message of a side conversation"], 1);
    assert_eq!(
        rig.said("claude_s-1"),
        pairs(&[
            ("user", "list them"),
            ("assistant", ""),
            ("tool", "b.txt"),
            ("assistant", "b.txt it is")
        ])
    );
    let info = rig.store.session(&SessionId::new("claude_s-1")).unwrap().unwrap();
    assert_eq!((info.title.as_deref(), info.model.as_str()), (Some("Listing files"), "big"));
    rig.sound();
}

#[test]
fn what_is_nothing_is_named_and_any_lines_are_survived() {
    let rig = Rig::new();
    let empty = rig.put("odd/notes.txt", "hello");
    let folder = empty.parent().unwrap();
    let outcome = import(folder, &rig.home, &rig.store, ImportOptions::default());
    assert!(matches!(outcome, Err(ImportError::Unknown { .. })));
    let nowhere =
        import(Path::new("/nowhere"), &Home::at("/nowhere"), &rig.store, ImportOptions::default());
    assert!(nowhere.unwrap_err().to_string().contains("hint:"));
    for kind in [SourceKind::Codex, SourceKind::Claude, SourceKind::Jsonl] {
        let path = rig.put(
            "odd/any.jsonl",
            "null\n[]\n{\"type\":3}\n\"x\"\n{\"id\":5,\"messages\":1}\n{\"payload\":[]}\n{\"type\":\"user\",\"message\":{\"content\":[1,{\"type\":\"image\"}]}}\n{",
        );
        let options = ImportOptions { kind: Some(kind), ..ImportOptions::default() };
        let report = rig.import_with(&path, options);
        assert!(report.sessions.len() <= 1, "{kind:?}");
    }
    rig.sound();
}

#[test]
fn two_files_of_one_id_both_come_in_and_stay_what_they_are() {
    let rig = Rig::new();
    for (folder, text, name) in [("claude", CLAUDE, "other"), ("codex", CODEX, "other")] {
        rig.put(&format!("{folder}/a/s-1.jsonl"), text);
        rig.put(&format!("{folder}/b/{name}.jsonl"), text);
        rig.put(&format!("{folder}/c/{name}.jsonl"), text);
        let source = rig.dir.path().join(folder);
        let report = rig.import(&source);
        assert_eq!(report.sessions.len(), 2, "{report:?}");
        assert!(report.sessions[1].ends_with("_other"), "{report:?}");
        assert_eq!(report.skipped.len(), 1, "{report:?}");
        let again = rig.import(&source);
        assert_eq!((again.sessions.len(), again.already_there), (0, 2));
    }
    rig.sound();
}

#[test]
fn sessions_are_recognised_by_their_first_lines_of_any_age() {
    let check = |text: &str, kind: SourceKind| {
        let rig = Rig::new();
        let path = rig.put("some/session.jsonl", text);
        let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
        assert_eq!(rig.import_with(path.parent().unwrap(), options).kind, kind, "{text}");
    };
    check(r#"{"type":"summary","summary":"x","leafUuid":"y"}"#, SourceKind::Claude);
    check(
        r#"{"id":"x","timestamp":"2026-11-01T09:00:00Z","instructions":null}"#,
        SourceKind::Codex,
    );
    check(r#"{"type":"message","role":"user","content":[]}"#, SourceKind::Codex);
    check("\u{feff}{\"id\":\"x\",\"messages\":[]}", SourceKind::Jsonl);
}

#[test]
fn a_session_that_went_on_since_it_came_in_is_named() {
    let rig = Rig::new();
    let path = rig.put("claude/project/s-1.jsonl", CLAUDE);
    rig.import(&path);
    let later = r#"{"type":"user","sessionId":"s-1","timestamp":"2031-11-01T10:00:00Z","message":{"role":"user","content":"later"}}"#;
    rig.put("claude/project/s-1.jsonl", &format!("{CLAUDE}\n{later}\n"));
    let report = rig.import(&path);
    assert!(report.sessions.is_empty() && report.already_there == 1, "{report:?}");
    assert!(report.left_out.keys().any(|what| what.starts_with("later messages")), "{report:?}");
}
