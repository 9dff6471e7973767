//! Loading settings: what is understood, what is said, what stops the start.

use hermes_home::{ApprovalMode, Overrides, SettingSource, load};

use crate::{case, home_with, loaded, vars};

fn with(config: &str) -> Result<hermes_home::Loaded, String> {
    let folder = tempfile::tempdir().unwrap();
    loaded(&home_with(folder.path(), config, ""))
}

#[test]
fn nothing_gives_the_defaults() {
    for text in ["", "# only this\n", "---\n", "agent:\nterminal: ~\n"] {
        let loaded = with(text).unwrap();
        assert_eq!(loaded.config.terminal.timeout, 180);
        assert_eq!(loaded.config.agent.api_max_retries, 3);
        assert_eq!(loaded.config.memory.memory_char_limit, 2200);
        assert_eq!(loaded.config.approvals.mode, ApprovalMode::Smart);
        assert!(loaded.report.unknown.is_empty() && loaded.report.warnings.is_empty(), "{text:?}");
    }
}

#[test]
fn values_are_understood_in_the_forms_that_people_write() {
    let text = "\u{feff}base: &b {timeout: 20}\nterminal:\r\n  <<: *b\r\n  persistent_shell: off\r\n  cwd: 12\r\nagent: {max_turns: '7', api_max_retries: 5.0}\napprovals: {mode: off, deny: '[\"rm *\"]'}\ndisplay: {compact: maybe, show_reasoning: NO}\nmodel: gpt-x\n";
    let loaded = with(text).unwrap();
    let config = &loaded.config;
    assert_eq!((config.terminal.timeout, config.terminal.persistent_shell), (20, false));
    assert_eq!((config.terminal.cwd.as_str(), config.agent.max_turns), ("12", Some(7)));
    assert_eq!((config.agent.api_max_retries, config.model.default.as_str()), (5, "gpt-x"));
    assert_eq!(
        (config.approvals.mode, &config.approvals.deny),
        (ApprovalMode::Off, &vec!["rm *".to_owned()])
    );
    assert!(!config.display.show_reasoning && !config.display.compact);
    let warned: Vec<&str> =
        loaded.report.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(warned, ["agent.max_turns", "approvals.deny", "display.compact"]);
    assert_eq!(loaded.report.unknown.len(), 1, "the anchor's holder");
}

#[test]
fn what_is_not_understood_stops_the_start_with_its_place() {
    for (text, place, what) in [
        ("agent:\n  max_turns: many\n", "config.yaml:2:14", "not a whole number"),
        ("agent: 5\n", "config.yaml:1:8", "a mapping is wanted"),
        ("terminal:\n  persistent_shell: [1]\n", "config.yaml:2:21", "true or false"),
        ("a: 1\na: 2\n", "config.yaml:2:1", "stands here and at 1:1"),
        ("agent:\n\tmax_turns: 1\n", "config.yaml:2:2", "spaces"),
        ("compression: {threshold: -1}\n", "config.yaml:1:26", "not below 0"),
        ("agent:\n  max_turns: 0\n", "config.yaml:2:3", "0 model calls"),
        ("model:\n  api_key: \"a\\nb\"\n", "config.yaml:2:12", "a line end"),
        ("model:\n  headers:\n    X Title: a\n", "config.yaml:3:5", "no name of a header"),
        ("model:\n  headers:\n    X-Title: \"a\\rb\"\n", "config.yaml:3:14", "a line end"),
        ("model:\n  extra_body: [1]\n", "config.yaml:2:15", "a mapping is wanted"),
        ("providers: {a: {extra_body: x}}\n", "config.yaml:1:29", "a mapping is wanted"),
        ("terminal:\n  cwd: /dev/null\n", "config.yaml:2:1", "/dev/null is not a folder"),
    ] {
        let error = with(text).unwrap_err();
        assert!(
            error.contains(place) && error.contains(what) && error.contains("hint: "),
            "{error}"
        );
    }
}

#[test]
fn a_rule_about_what_may_run_is_never_lost() {
    for text in [
        "approvals: {deny: 'rm *'}\n",
        "approvals: {deny: {a: b}}\n",
        "approvals: {deny: [a, {b: c}]}\n",
        "approvals: {deny: [a, '']}\n",
        "approvals: {deny: ''}\n",
        "approvals: {Deny: [a]}\n",
        "approvals: {denny: [a]}\n",
        "approvals: {deny_list: [a]}\n",
        "approvals: [deny]\n",
        "aprovals: {deny: [a]}\n",
        "approvals.deny: [a]\n",
        "approvals: {allow: 5}\n",
        "approvals: {mode: sometimes}\n",
        "command_allowlst: [a]\n",
        "deny: [a]\n",
        "denylist: [a]\n",
        "security: {deny: [a]}\n",
        "terminal: {blocklist: [a]}\n",
        "terminal: {deny_commands: [a]}\n",
        "terminal: {never_run: [a]}\n",
        "agent: {approvals: {deny: [a]}}\n",
        "tools: {forbidden: [a]}\n",
        "mine: [{x: {denny: [a]}}]\n",
        "block: [a]\n",
        "nevers: [a]\n",
        "commandDenylist: [a]\n",
    ] {
        let error = with(text).unwrap_err();
        assert!(error.contains("hint: "), "{text}: {error}");
    }
    let error = with("security:\n  deny: [a]\n").unwrap_err();
    assert!(error.contains("config.yaml:2:3: security.deny: "), "{error}");
    assert!(error.contains("approvals.deny"), "{error}");
    // Other words, and what Hermes Agent knows by such a name.
    for text in [
        "security: {website_blocklist: {enabled: true}}\n",
        "mine: {den: 1, many: 2, unblock: 3, code_block: 4, ever: 5, runs: 6, blocks_size: 7}\n",
    ] {
        assert!(with(text).is_ok(), "{text}");
    }
    let warned = with("approvals:\n  deny:\n    # - rm *\n").unwrap().report.warnings;
    assert!(warned[0].to_string().contains("nothing is denied"), "{warned:?}");
    assert_eq!(
        with("approvals: {deny: [rm *, \"a: b\"]}\n").unwrap().config.approvals.deny,
        ["rm *", "a: b"]
    );
    assert!(
        with("approvals:\n  deny:\n    # - nothing yet\n")
            .unwrap()
            .config
            .approvals
            .deny
            .is_empty()
    );
}

#[test]
fn b104_a_chain_stored_as_a_text_is_read_and_what_is_no_chain_is_an_error() {
    let loaded = with(&case("B104/home/config.yaml")).unwrap();
    let [fallback] = loaded.config.fallback_providers.as_slice() else { panic!("one entry") };
    assert_eq!((fallback.provider.as_str(), fallback.model.as_str()), ("x", "y"));
    assert!(loaded.report.warnings[0].to_string().contains("hermes config set fallback_providers"));
    let error = with(&case("B104/home/config_bad.yaml")).unwrap_err();
    assert!(
        error.contains("config.yaml:3:21: fallback_providers: \"x/y\" is not a list"),
        "{error}"
    );
    let error = with("fallback_providers: [x/y]\n").unwrap_err();
    assert!(error.contains("fallback_providers.0"), "{error}");
    let loaded = with("fallback_model: {provider: ollama, model: m}\n").unwrap();
    assert_eq!(loaded.config.fallback_providers.len(), 1);
    assert!(loaded.report.warnings[0].what.contains("deprecated"));
}

#[test]
fn unknown_keys_are_reported_with_their_line_and_the_nearest_name() {
    let loaded = with("agent:\n  max_turn: 5\ntts: {provider: x}\nzzz: 1\n").unwrap();
    let unknown: Vec<_> = loaded
        .report
        .unknown
        .iter()
        .map(|u| (u.key.as_str(), u.at.line, u.foreign, u.nearest.as_deref()))
        .collect();
    assert_eq!(
        unknown,
        [
            ("agent.max_turn", 2, false, Some("agent.max_turns")),
            ("tts", 3, true, None),
            ("zzz", 4, false, None)
        ]
    );
}

#[test]
fn flag_beats_dotenv_beats_environment_beats_file_and_each_hidden_value_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(
        folder.path(),
        "model: {default: file, provider: custom, base_url: 'http://h/v1', api_key: sk-test-not-a-key}\ntimezone: UTC\n",
        "HERMES_MODEL=dotenv\nTERMINAL_CWD=/dotenv\n",
    );
    let process = vars(&[
        ("HERMES_MODEL", "outer"),
        ("HERMES_CWD", "/outer"),
        ("HERMES_TIMEZONE", "Asia/Tokyo"),
    ]);
    let run = |overrides: &Overrides| load(&home, &process, overrides).unwrap();

    let loaded = run(&Overrides::default());
    assert_eq!(loaded.config.model.default, "dotenv");
    assert_eq!(loaded.config.terminal.cwd, "/dotenv");
    assert_eq!(loaded.config.timezone, "Asia/Tokyo");
    let shadowed: Vec<String> = loaded.report.shadowed.iter().map(ToString::to_string).collect();
    assert_eq!(
        shadowed,
        [
            "model.default: HERMES_MODEL (.env line 1) is used and hides config.yaml line 1",
            "terminal.cwd: TERMINAL_CWD (.env line 2) is used and hides HERMES_CWD (the environment)",
            "timezone: HERMES_TIMEZONE (the environment) is used and hides config.yaml line 2",
            "HERMES_MODEL: .env line 1 is used and hides the environment",
        ]
    );

    let flags = Overrides {
        model: Some("flag".into()),
        provider: Some("ollama".into()),
        ..Overrides::default()
    };
    let loaded = run(&flags);
    assert_eq!(loaded.config.model.default, "flag");
    assert!(loaded.config.model.base_url.is_empty() && loaded.config.model.api_key.is_none());
    assert_eq!(loaded.config.model.context_length, None);
    assert_eq!(loaded.report.source("model.default"), SettingSource::Flag("--model"));
    assert!(!format!("{loaded:?}").contains("sk-test-not-a-key"));
}

#[test]
fn a_key_behind_a_variable_and_an_address_behind_the_file_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(
        folder.path(),
        "model: {default: m, provider: custom, base_url: 'http://h/v1'}\nfallback_providers: [{provider: box, model: m}]\nproviders: {box: {base_url: 'http://b/v1', api_key: sk-test-not-a-key}}\n",
        "BOX_API_KEY=sk-test-neither\n",
    );
    let process = vars(&[("OPENAI_BASE_URL", "http://elsewhere/v1")]);
    let loaded = load(&home, &process, &Overrides::default()).unwrap();
    let shadowed: Vec<String> = loaded.report.shadowed.iter().map(ToString::to_string).collect();
    assert_eq!(
        shadowed,
        [
            "providers.box.api_key: a variable of the provider (.env line 1) is used and hides config.yaml line 3",
            "model.base_url: config.yaml line 1 is used and hides OPENAI_BASE_URL (the environment)",
        ]
    );
    let held = "model: {default: m, base_url: 'https://h/v1'}\n";
    let home = home_with(&folder.path().join("b"), held, "");
    let loaded =
        load(&home, &vars(&[("OPENAI_API_KEY", "sk-test-not-a-key")]), &Overrides::default())
            .unwrap();
    assert!(hermes_home::check(&loaded).warnings[0].what.contains("not sent to this endpoint"));
}

#[test]
fn a_file_that_is_not_utf8_is_read_where_it_can_be_and_refused_where_not() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "", "");
    let utf16: Vec<u8> =
        "\u{feff}timezone: UTC\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(home.config_path(), utf16).unwrap();
    let read = loaded(&home).unwrap();
    assert_eq!(read.config.timezone, "UTC");
    assert!(read.report.warnings[0].what.contains("UTF-16"));
    std::fs::write(home.config_path(), b"a: \0\0\x01binary").unwrap();
    assert!(loaded(&home).unwrap_err().contains("not text"));
}

#[cfg(unix)]
#[test]
fn a_dotenv_that_others_may_read_and_one_that_names_the_home_are_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let home = home_with(folder.path(), "", "HERMES_HOME=/x\nbroken\n");
    std::fs::set_permissions(home.env_path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let loaded = loaded(&home).unwrap();
    assert!(loaded.report.warnings.iter().any(|warning| warning.what.contains("mode 644")));
    assert!(loaded.report.warnings.iter().any(|warning| warning.key == "HERMES_HOME"));
    assert_eq!(loaded.report.env_problems[0].line, 2);
}

#[test]
fn a_variable_that_cannot_mean_what_it_says_stops_the_start_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = "model: {default: m, base_url: 'http://h/v1', key_env: K}\n";
    for (dotenv, what) in [
        ("HERMES_MAX_ITERATIONS=0\n", "\"0\" is not 1 or more"),
        ("TERMINAL_CWD=/dev/null\n", "/dev/null is not a folder (set by TERMINAL_CWD"),
    ] {
        let error = loaded(&home_with(folder.path(), config, dotenv)).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
    let loaded = loaded(&home_with(folder.path(), config, "K=\"a\\nb\"\n")).unwrap();
    let error = hermes_home::routes(&loaded.config, &loaded.vars).unwrap_err().to_string();
    assert!(error.contains("K (.env line 1)") && error.contains("a line end"), "{error}");
}

#[test]
fn a_dotenv_beyond_the_bound_gives_whole_lines_only_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let dotenv = format!("A_KEY=1\nB_KEY={}\nC_KEY=2\n", "x".repeat(5 << 20));
    let loaded = loaded(&home_with(folder.path(), "", &dotenv)).unwrap();
    assert_eq!((loaded.vars.get("A_KEY"), loaded.vars.get("B_KEY")), (Some("1"), None));
    let warning = loaded.report.warnings[0].to_string();
    assert!(
        warning.contains("larger than 4194304 bytes; nothing is read from line 2 on"),
        "{warning}"
    );
}
