use serde_json::{Value, json};

use super::settings::split;
use super::{Ran, ShellHook};
use crate::outcome::Said;
use crate::shell::parse;

fn hooks(yaml: &str) -> super::Settings {
    let document = hermes_home::yaml::parse(yaml).unwrap();
    let datum = hermes_home::yaml::Datum::of(document.root.as_ref().unwrap());
    parse(&datum, Some("/home/me"), &|_| None)
}

fn hook(event: &str, more: &str) -> ShellHook {
    let yaml = format!("{event}:\n  - command: ~/a.sh\n{more}");
    let mut settings = hooks(&yaml);
    assert!(settings.problems.is_empty(), "{:?}", settings.problems);
    settings.hooks.remove(0)
}

fn ended(code: i32, out: &str, err: &str) -> Ran {
    Ran::Ended { code: Some(code), out: out.into(), err: err.into() }
}

#[test]
fn commands_are_split_like_a_shell_does_without_running_one() {
    let check = |command: &str, wanted: &[&str]| {
        assert_eq!(split(command, Some("/home/me")).unwrap(), wanted, "{command}");
    };
    check("~/x.sh a  b", &["/home/me/x.sh", "a", "b"]);
    check(r#"x "a b" 'c "d"' e\ f """#, &["x", "a b", "c \"d\"", "e f", ""]);
    check("x $HOME; rm ~", &["x", "$HOME;", "rm", "/home/me"]);
    assert!(split("x 'a", None).is_err());
    assert!(split("  ", None).is_err());
}

#[test]
fn what_is_not_understood_is_refused_when_the_settings_are_read() {
    let settings = hooks(
        "no_such_hook:\n  - command: a\n\
         pre_tool_call:\n  - command: a\n    matcher: '('\n  - matcher: x\n\
         pre_llm_call:\n  - command: a\n    matcher: terminal\n\
         transform_api_error_classification:\n  - command: a\n\
         post_tool_call:\n  - command: a\n    timeout: soon\n\
         on_session_start:\n  - command: a\n    timeout: 9999\n",
    );
    assert_eq!(settings.hooks.len(), 1);
    assert_eq!(settings.hooks[0].timeout.as_secs(), 300);
    assert_eq!(settings.problems.len(), 6, "{:#?}", settings.problems);
}

#[test]
fn a_matcher_must_fit_the_whole_name_of_the_tool() {
    let hook = hook("pre_tool_call", "    matcher: term.*\n");
    let wants = |tool: &str| hook.wants(&crate::Payload::default().text("tool_name", tool));
    assert!(wants("terminal") && !wants("my_terminal"));
}

#[test]
fn exit_code_2_blocks_a_tool_with_the_best_text_there_is() {
    let hook = hook("pre_tool_call", "");
    let message = |ran: &Ran| match hook.judge(ran) {
        Said::Value(value) => value["message"].as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(message(&ended(2, r#"{"reason": "because"}"#, "noise")), "because");
    assert_eq!(message(&ended(2, "", "from stderr\n")), "from stderr");
    assert_eq!(message(&ended(2, "", "")), "blocked by the hook ~/a.sh");
}

#[test]
fn every_directive_that_an_event_allows_can_be_expressed() {
    let check = |event: &str, out: &str, wanted: Value| {
        assert_eq!(hook(event, "").judge(&ended(0, out, "")), Said::Value(wanted), "{event}");
    };
    check("pre_llm_call", r#"{"context": "c"}"#, json!("c"));
    check("transform_tool_result", r#"{"text": "REWRITTEN"}"#, json!("REWRITTEN"));
    check("transform_llm_output", r#"{"text": "REWRITTEN"}"#, json!("REWRITTEN"));
    check("pre_gateway_dispatch", r#"{"action": "skip"}"#, json!({"action": "skip"}));
    check("post_gateway_admission", r#"{"action": "handled"}"#, json!({"action": "handled"}));
    check(
        "pre_verify",
        r#"{"decision": "block", "reason": "r"}"#,
        json!({"decision": "block", "reason": "r"}),
    );
    check("on_session_finalize", r#"{"message": "m"}"#, json!({"message": "m"}));
    check(
        "pre_tool_call",
        r#"{"action": "modify", "args": {"a": 1}}"#,
        json!({"action": "modify", "args": {"a": 1}}),
    );
}

#[test]
fn another_programs_word_for_no_objection_asks_nobody() {
    let said = hook("pre_tool_call", "").judge(&ended(0, r#"{"decision": "approve"}"#, ""));
    assert_eq!(said, Said::Nothing);
}

#[test]
fn b064_what_is_no_answer_changes_nothing() {
    for (code, out) in [(0, r#"{"text": "#), (0, ""), (3, ""), (0, "REWRITTEN")] {
        let said = hook("transform_tool_result", "").judge(&ended(code, out, ""));
        assert_eq!(said, Said::Nothing, "{code} {out}");
    }
}

#[test]
fn a_guard_that_must_not_fail_blocks_on_every_failure() {
    let hook = hook("pre_tool_call", "    fail_closed: true\n");
    for ran in [Ran::NotStarted("no such file".into()), ended(1, "", ""), ended(0, "text", "")] {
        assert!(matches!(hook.judge(&ran), Said::Value(_)), "{ran:?}");
    }
    assert_eq!(hook.judge(&Ran::TimedOut), Said::TimedOut);
    assert_eq!(hook.judge(&ended(0, "{}", "")), Said::Nothing);
}
