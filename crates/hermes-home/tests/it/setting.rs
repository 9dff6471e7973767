//! `config set`, `get`, `show` and `check`.

use std::fs;

use hermes_home::yaml::{Datum, parse, set_value};
use hermes_home::{Home, Vars, check, get, set, show};
use proptest::prelude::*;

use crate::{home_with, loaded};

fn set_in(home: &Home, key: &str, value: &str) -> Result<hermes_home::ConfigReceipt, String> {
    set(home, &Vars::default(), key, value).map_err(|error| error.to_string())
}

fn text(home: &Home) -> String {
    fs::read_to_string(home.config_path()).unwrap()
}

#[test]
fn b104_a_list_given_as_text_is_stored_as_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), &crate::case("B104/home/config.yaml"), "");
    let receipt = set_in(&home, "fallback_providers", r#"[{"provider":"x","model":"z"}]"#).unwrap();
    assert!(receipt.changed && receipt.used && receipt.sentence.contains("next start"));
    assert_eq!(
        text(&home),
        "model:\n  default: scripted\nfallback_providers:\n  - {provider: x, model: z}\n"
    );
    assert_eq!(loaded(&home).unwrap().config.fallback_providers[0].model, "z");
    assert!(loaded(&home).unwrap().report.warnings.is_empty());
}

#[test]
fn a_value_takes_the_form_that_its_setting_needs() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "", "");
    for (key, value) in [
        ("model.default", "5"),
        ("model.context_length", "5"),
        ("terminal.persistent_shell", "on"),
        ("approvals.mode", "off"),
        ("approvals.deny", "[rm *]"),
        ("timezone", "Europe/Berlin"),
        ("providers.work.base_url", "http://h/v1"),
        ("providers.work.api_key", "12345678"),
        ("own.thing", "a: b # c"),
    ] {
        set_in(&home, key, value).unwrap();
    }
    assert_eq!(
        text(&home),
        "model:\n  default: \"5\"\n  context_length: 5\nterminal:\n  persistent_shell: true\napprovals:\n  mode: \"off\"\n  deny: [\"rm *\"]\ntimezone: Europe/Berlin\nproviders:\n  work:\n    base_url: \"http://h/v1\"\n    api_key: \"12345678\"\nown:\n  thing: \"a: b # c\"\n"
    );
    let again = set_in(&home, "timezone", "Europe/Berlin").unwrap();
    assert!(!again.changed && again.sentence.contains("nothing changed"));
    assert!(!set_in(&home, "own.thing", "x").unwrap().used);
}

#[test]
fn the_model_as_a_word_grows_into_a_mapping_and_a_word_does_not_undo_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "# mine\nmodel: one # this\n", "");
    set_in(&home, "model.provider", "ollama").unwrap();
    assert_eq!(text(&home), "# mine\nmodel: # this\n  default: one\n  provider: ollama\n");
    set_in(&home, "model", "two").unwrap();
    let config = loaded(&home).unwrap().config;
    assert_eq!((config.model.default.as_str(), config.model.provider.as_str()), ("two", "ollama"));
}

#[test]
fn a_file_that_is_broken_or_would_be_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    for (before, key, value, why) in [
        ("a: 1\na: 2\n", "b", "1", "stands here"),
        ("agent: {max_turns: many}\n", "timezone", "UTC", "whole number"),
        ("agent: {}\n", "agent.max_turns", "many", "whole number"),
        ("agent: {}\n", "approvals.deny", "rm", "not a list"),
        ("agent: {}\n", "approvals.deni", "[rm]", "could be a rule"),
        ("agent: {max_turns: 1}\n", "agent", "x", "mapping"),
        ("agent: {}\n", "fallback_providers", "[a", "not a list"),
        ("agent: {}\n", "", "x", "no setting"),
        ("agent: {}\n", "a..b", "x", "no setting"),
    ] {
        let home = home_with(folder.path(), before, "");
        let error = set_in(&home, key, value).unwrap_err();
        assert!(error.contains(why) && error.contains("hint: "), "{key}: {error}");
        assert_eq!(text(&home), before);
    }
}

#[test]
fn the_mark_and_line_ends_of_a_file_are_kept_and_other_encodings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "\u{feff}# top\r\nterminal:\r\n  timeout: 5\r\n", "");
    set_in(&home, "terminal.cwd", "/x").unwrap();
    assert_eq!(text(&home), "\u{feff}# top\r\nterminal:\r\n  timeout: 5\r\n  cwd: /x\r\n");
    let wide: Vec<u8> = "\u{feff}a: 1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(home.config_path(), &wide).unwrap();
    assert!(set_in(&home, "a", "2").unwrap_err().contains("UTF-16"));
    assert_eq!(fs::read(home.config_path()).unwrap(), wide);
}

#[test]
fn a_receipt_says_when_the_model_sees_it_and_what_hides_it() {
    use hermes_core::Refresh;
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "", "");
    let process = crate::vars(&[("HERMES_MODEL", "outer")]);
    let receipt = set(&home, &Vars::of_process(&process), "model.default", "x").unwrap();
    assert_eq!(receipt.hidden_by.unwrap().to_string(), "HERMES_MODEL (the environment)");
    assert_eq!(receipt.reaches_model, Refresh::NextSession);
    let receipt = set_in(&home, "memory.memory_char_limit", "1000").unwrap();
    assert!(receipt.reaches_model == Refresh::NextSession && receipt.sentence.contains("/refresh"));
    assert_eq!(set_in(&home, "terminal.timeout", "5").unwrap().reaches_model, Refresh::Never);
}

#[test]
fn secrets_go_to_the_dotenv_and_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "", "# keys\nA=1\n");
    let receipt = set_in(&home, "WORK_API_KEY", "sk-test-not-a-key").unwrap();
    assert!(!format!("{receipt:?}").contains("not-a-key"));
    assert_eq!(
        fs::read_to_string(home.env_path()).unwrap(),
        "# keys\nA=1\nWORK_API_KEY=sk-test-not-a-key\n"
    );
    let receipt = set_in(&home, "model.api_key", "sk-test-not-a-key").unwrap();
    assert!(!format!("{receipt:?}").contains("not-a-key"));
    let loaded = loaded(&home).unwrap();
    let all = format!("{:?}{:?}", show(&loaded, false), get(&home, &loaded, "model").unwrap());
    assert!(all.contains("[set]") && !all.contains("not-a-key"));
}

#[test]
fn get_finds_settings_sections_foreign_keys_and_suggests_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(
        folder.path(),
        "tts: {provider: edge, api_key: hidden-value}\nterminal: {timeout: 5}\n",
        "",
    );
    let loaded = loaded(&home).unwrap();
    let value = |key: &str| {
        get(&home, &loaded, key)
            .map(|found| {
                found
                    .iter()
                    .map(|s| format!("{} ({})", s.value, s.source))
                    .collect::<Vec<_>>()
                    .join(", ")
            })
            .map_err(|error| error.to_string())
    };
    assert_eq!(value("terminal.timeout").unwrap(), "5 (config.yaml line 2)");
    assert_eq!(value("agent.api_max_retries").unwrap(), "3 (default)");
    assert!(value("compression").unwrap().contains("0.5 (default)"));
    assert_eq!(value("tts.provider").unwrap(), "edge (config.yaml line 1)");
    assert!(!value("tts").unwrap().contains("hidden-value"));
    assert!(value("terminal.timeot").unwrap_err().contains("did you mean terminal.timeout?"));
}

#[test]
fn check_lists_what_is_odd_and_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(
        folder.path(),
        "model: {default: m, provider: ollama}\nagent: {max_turns: '3'}\ntypo: 1\ntimezone: Mars/Base\nfallback_providers: [{provider: openai, model: x}]\n",
        "oops\n",
    );
    let found = check(&loaded(&home).unwrap());
    assert!(!found.is_clean());
    let keys: Vec<&str> = found.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(keys, ["agent.max_turns", "", "timezone"]);
    assert_eq!(found.unknown[0].key, "typo");
    assert_eq!(found.chain[0].problem, None);
    assert!(found.chain[1].problem.as_ref().unwrap().contains("OPENAI_API_KEY"));
}

#[test]
fn two_writers_at_once_both_get_through() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "# top\n", "");
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let home = &home;
            scope.spawn(move || {
                for n in 0..5 {
                    set_in(home, &format!("w{writer}.n{n}"), "1").unwrap();
                }
            });
        }
    });
    let document = parse(&text(&home)).unwrap();
    let Datum::Map(entries) = Datum::of(&document.root.unwrap()) else { panic!("a mapping") };
    assert!(
        entries.iter().all(|(_, value)| matches!(value, Datum::Map(inner) if inner.len() == 5))
    );
    assert_eq!(entries.len(), 2);
}

fn joined(parts: Vec<String>, write: impl Fn(usize, String) -> String) -> String {
    parts.into_iter().enumerate().map(|(n, part)| write(n, part)).collect::<Vec<_>>().concat()
}

/// A YAML text with comments, and values in several styles.
fn any_text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "[a-z]{1,6}",
        "[0-9]{1,4}",
        Just("yes".to_owned()),
        Just("~".to_owned()),
        Just(String::new()),
        "'[a-z #:]{0,8}'",
        "\"[a-z #:]{0,8}\"",
    ];
    let comment = prop_oneof![Just(String::new()), "  # [a-z: -]{0,8}"];
    let line = (scalar, comment).prop_map(|(value, comment)| format!("{value}{comment}"));
    let block = prop_oneof![
        line.clone().prop_map(|line| format!(" {line}\n")),
        prop::collection::vec(line.clone(), 1..3).prop_map(|lines| {
            let items = joined(lines, |_, line| format!("  - {line}\n"));
            format!("\n{items}")
        }),
        prop::collection::vec(line, 1..4).prop_map(|lines| {
            let entries = joined(lines, |n, line| format!("  k{n}: {line}\n  # about k{n}\n"));
            format!("\n{entries}")
        }),
        Just(" {k0: a, k1: [b, c]}\n".to_owned()),
        Just(" |\n  text # no comment\n\n  more\n".to_owned()),
    ];
    (prop::collection::vec(block, 0..4), any::<bool>()).prop_map(|(blocks, windows)| {
        let text = joined(blocks, |n, block| format!("# block {n}\ns{n}:{block}\n"));
        if windows { text.replace('\n', "\r\n") } else { text }
    })
}

fn any_value() -> impl Strategy<Value = Datum> {
    let scalar = prop_oneof![
        Just(Datum::Null),
        any::<bool>().prop_map(Datum::Bool),
        (0..10_000i32).prop_map(|n| Datum::Number(n.to_string())),
        "[ -~é\\n\\t\u{85}\u{2028}]{0,12}".prop_map(Datum::Text),
        prop_oneof![
            Just("yes"),
            Just("Null"),
            Just("0x1f"),
            Just("1e5"),
            Just("-"),
            Just("a: b"),
            Just("#x"),
            Just(" lead")
        ]
        .prop_map(|text| Datum::Text(text.to_owned())),
    ];
    scalar.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Datum::List),
            prop::collection::btree_map("[a-z.# ]{1,5}", inner, 0..3)
                .prop_map(|map| Datum::Map(map.into_iter().collect())),
        ]
    })
}

fn any_path() -> impl Strategy<Value = Vec<String>> {
    let first = prop_oneof![Just("s0".to_owned()), Just("s1".to_owned()), Just("new".to_owned())];
    let next = prop_oneof![Just("k0".to_owned()), Just("k1".to_owned()), "[a-z.: ]{1,5}"];
    (first, prop::collection::vec(next, 0..3)).prop_map(|(first, rest)| {
        let mut path = vec![first];
        path.extend(rest);
        path
    })
}

/// Every value of a text but the one at `path`.
fn others(text: &str, path: &[String]) -> Vec<(String, String)> {
    fn walk(
        node: &hermes_home::yaml::Node,
        at: &str,
        target: &str,
        out: &mut Vec<(String, String)>,
    ) {
        use hermes_home::yaml::Value;
        if at == target {
            return;
        }
        match &node.value {
            Value::Map { entries, .. } => {
                for entry in entries {
                    walk(&entry.value, &format!("{at}/{}", entry.key), target, out);
                }
            }
            _ if target.starts_with(&format!("{at}/")) && node.is_null() => {}
            _ => out.push((at.to_owned(), Datum::of(node).to_json())),
        }
    }
    let mut out = Vec::new();
    if let Some(root) = parse(text).unwrap().root {
        walk(&root, "", &format!("/{}", path.join("/")), &mut out);
    }
    out.sort();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_set_is_read_back_and_nothing_else_changes(
        before in any_text(), path in any_path(), value in any_value(),
    ) {
        let Ok(after) = set_value(&before, &path, &value) else { return Ok(()) };
        let document = parse(&after).unwrap();
        let found = document.root.as_ref().and_then(|root| root.find(&path)).map(Datum::of);
        prop_assert_eq!(found.as_ref(), Some(&value), "{}", after);
        prop_assert_eq!(others(&before, &path), others(&after, &path), "{}", after);
        let comments = |text: &str| text.lines().filter(|line| line.trim_start().starts_with("# ")).count();
        prop_assert_eq!(comments(&before), comments(&after));
        // Setting it again changes nothing.
        prop_assert_eq!(set_value(&after, &path, &value).unwrap(), after);
    }

    #[test]
    fn a_new_key_can_be_set_in_every_text(before in any_text(), value in any_value()) {
        let path = ["new".to_owned(), "key".to_owned()];
        prop_assert!(set_value(&before, &path, &value).is_ok(), "{}", before);
    }
}

#[test]
fn variables_are_told_with_their_place_and_the_home_is_not_set_from_inside_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = crate::home_with(folder.path(), "", "\nMY_TOKEN=not-a-key\n");
    let loaded = crate::loaded(&home).unwrap();
    let found = hermes_home::get(&home, &loaded, "MY_TOKEN").unwrap();
    assert_eq!(
        (found[0].value.to_string(), found[0].source.to_string()),
        ("[set]".to_owned(), ".env line 2".to_owned())
    );
    let error = hermes_home::get(&home, &loaded, "OTHER_TOKEN").unwrap_err().to_string();
    assert!(error.contains("OTHER_TOKEN is not set") && error.contains("hint: "), "{error}");
    let error = hermes_home::set(&home, &loaded.vars, "HERMES_HOME", "/x").unwrap_err().to_string();
    assert!(error.contains("cannot be chosen by a file inside it"), "{error}");
    assert!(!std::fs::read_to_string(home.env_path()).unwrap().contains("HERMES_HOME"));
}

#[test]
fn a_problem_of_a_whole_file_has_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let home = crate::home_with(folder.path(), "", "");
    std::fs::write(home.config_path(), b"\xff\xfea\0:\0 \0b\0\n\0").unwrap();
    let warning = crate::loaded(&home).unwrap().report.warnings[0].to_string();
    assert!(warning.contains("config.yaml: the file is") && !warning.contains(":0:0"), "{warning}");
}
