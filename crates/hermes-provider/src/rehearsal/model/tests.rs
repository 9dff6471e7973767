use super::*;
use crate::json;

const TOOLS: &str = r#"[{"type":"function","function":{"name":"read_file"}},{"type":"function","function":{"name":"terminal"}},
    {"type":"function","function":{"name":"memory"}},{"type":"function","function":{"name":"skill_view"}},
    {"type":"function","function":{"name":"write_file"}},{"type":"function","function":{"name":"session_search"}}]"#;

fn ask(messages: &str) -> Answer {
    let body = format!(r#"{{"messages":{messages},"tools":{TOOLS}}}"#);
    let parsed = json::parse(&body).unwrap();
    Asked::read(&parsed.value).answer()
}

fn say(text: &str) -> Answer {
    let mut quoted = String::new();
    write_string(&mut quoted, text);
    ask(&format!(r#"[{{"role":"user","content":{quoted}}}]"#))
}

fn check_call(text: &str, name: &str, arguments: &str) {
    assert_eq!(say(text).calls, [(name.to_owned(), arguments.to_owned())], "{text}");
}

#[test]
fn plain_requests_become_tool_calls() {
    check_call("read notes.txt", "read_file", r#"{"path":"notes.txt"}"#);
    check_call("Please read the file `a b.txt`.", "read_file", r#"{"path":"a b.txt"}"#);
    check_call("read notes.txt.", "read_file", r#"{"path":"notes.txt"}"#);
    check_call("run `ls -la | wc`", "terminal", r#"{"command":"ls -la | wc"}"#);
    check_call(
        "Remember that tea is at 5",
        "memory",
        r#"{"action":"add","target":"memory","content":"tea is at 5"}"#,
    );
    check_call(
        "remember about me I like tea",
        "memory",
        r#"{"action":"add","target":"user","content":"I like tea"}"#,
    );
    check_call("load skill cooking", "skill_view", r#"{"name":"cooking"}"#);
    check_call("search for the needle", "session_search", r#"{"query":"the needle"}"#);
    check_call(
        "write hello to world to out.txt",
        "write_file",
        r#"{"path":"out.txt","content":"hello to world"}"#,
    );
    assert_eq!(say("read a.txt\nread b.txt").calls.len(), 2);
    // Only the first paragraph with a request in it is the person's.
    check_call("hi\n\nrun date\n\nrun whoami", "terminal", r#"{"command":"date"}"#);
}

#[test]
fn everything_else_is_answered_by_saying_that_this_is_no_language_model() {
    let answer = say("How are you?");
    assert!(answer.text.contains("no language model") && answer.text.contains("How are you?"));
    assert_eq!(answer.calls, []);
    let body = r#"{"messages":[{"role":"user","content":"read x"}]}"#;
    let parsed = json::parse(body).unwrap();
    let answer = Asked::read(&parsed.value).answer();
    assert_eq!(answer.text, "I would need the tool read_file, but this request does not offer it.");
}

#[test]
fn it_says_where_a_text_occurs_in_the_request() {
    let messages = r#"[{"role":"system","content":"blue, blue"},{"role":"user","content":"blue?"},
        {"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"terminal","arguments":"{\"command\":\"echo blue\"}"}}]},
        {"role":"tool","tool_call_id":"1","content":"blue"},{"role":"assistant","content":"ok"},
        {"role":"user","content":"what can you see of blue?"}]"#;
    assert_eq!(
        ask(messages).text,
        "I can see \"blue\" in: system (2 times), user, tool call, tool."
    );
    assert_eq!(
        say("what can you see of green").text,
        "I can see nothing of \"green\" in this request but your question."
    );
}

#[test]
fn tool_results_and_summary_requests_are_answered_from_the_text() {
    let messages = r#"[{"role":"user","content":"run date"},{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"terminal","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"1","content":"Mon\n"}]"#;
    assert_eq!(ask(messages).text, "The tool answered with 4 characters, beginning \"Mon\".");
    let messages = r#"[{"role":"system","content":"Write a summary under five headings."},{"role":"user","content":"I like tea"}]"#;
    let text = ask(messages).text;
    assert_eq!(text.matches("## ").count(), 5);
    assert!(text.contains("- I like tea"), "{text}");
}

#[test]
fn it_refuses_what_a_strict_provider_refuses() {
    let call = r#"{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"t","arguments":"{}"}}]}"#;
    let user = r#"{"role":"user","content":"x"}"#;
    let tool = r#"{"role":"tool","tool_call_id":"1","content":"y"}"#;
    for (messages, expected) in [
        (format!("[{user}]"), None),
        (format!("[{user},{call},{tool}]"), None),
        ("[]".to_owned(), Some("at least one")),
        (format!("[{user},{call}]"), Some("without results")),
        (format!("[{user},{call},{user}]"), Some("without results right after")),
        (format!("[{user},{tool}]"), Some("unexpected tool_call_id")),
        (format!("[{user},{user}]"), Some("alternate")),
        (format!("[{user},{}]", call.replace("{}", "{'a'}")), Some("no JSON object")),
    ] {
        let body = format!(r#"{{"messages":{messages}}}"#);
        let parsed = json::parse(&body).unwrap();
        let refusal = Asked::read(&parsed.value).refusal();
        match expected {
            None => assert_eq!(refusal, None, "{messages}"),
            Some(words) => assert!(refusal.as_ref().unwrap().contains(words), "{refusal:?}"),
        }
    }
}

#[test]
fn pieces_join_to_the_text() {
    for text in
        ["", "a", "äöü ".repeat(40).as_str(), &"x".repeat(100), "a b c d e f g h i j k l m n o p q"]
    {
        assert_eq!(pieces(text).concat(), text);
    }
}
