//! Case B117: secrets of every kind, and texts that must stay.

use std::collections::BTreeMap;

use hermes_home::redact::{Redactor, redact};

use crate::case;

#[test]
fn b117_every_secret_is_masked_wherever_it_stands() {
    let secrets: BTreeMap<String, String> =
        serde_json::from_str(&case("B117/secrets.json")).unwrap();
    assert_eq!(secrets.len(), 10);
    // What must not be left of each: the part that lets somebody in.
    let hot = BTreeMap::from([
        ("openai", "EEEE5555"),
        ("github", "testtest"),
        ("aws", "TESTTEST"),
        ("google", "testTEST"),
        ("slack", "testtest"),
        ("jwt", "c2lnbmF0"),
        ("url", "p4ssw0rd"),
        ("bearer", "TESTTOKEN"),
        ("json", "GOCSPX-test"),
        ("pem", "VEVTVA"),
    ]);
    for (name, secret) in &secrets {
        let hot = hot[name.as_str()];
        let escaped = serde_json::to_string(secret).unwrap();
        let twice = serde_json::to_string(&escaped).unwrap();
        for text in [
            secret.clone(),
            format!("before {secret} behind"),
            format!("line\n{secret}\nline"),
            format!("({secret})"),
            format!("{{\"content\": {escaped}, \"n\": 1}}"),
            format!("{{\"body\": {twice}}}"),
            format!("value={secret}"),
        ] {
            let masked = redact(&text);
            assert!(!masked.contains(hot), "{name} in {text:?} -> {masked:?}");
            let redactor = Redactor::default();
            for split in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                let mut stream = redactor.stream();
                let mut out = stream.push(&text[..split]);
                out += &stream.push(&text[split..]);
                out += &stream.finish();
                assert!(!out.contains(hot), "{name} split at {split} of {text:?} -> {out:?}");
            }
        }
    }
}

#[test]
fn b117_ids_digests_and_words_stay() {
    let text = case("B117/must_survive.txt");
    assert_eq!(redact(&text), text);
    let json = serde_json::to_string(&text).unwrap();
    assert_eq!(redact(&json), json);
}

#[test]
fn every_secret_of_the_settings_is_known_to_the_redactor() {
    let folder = tempfile::tempdir().unwrap();
    let config = "model: {default: m, base_url: 'http://h/v1', api_key: plainwordone}\nproviders: {b: {base_url: 'http://b/v1', api_key: plainwordtwo, headers: {x-api-key: plainwordthree}}}\n";
    let home = crate::home_with(folder.path(), config, "OTHER_TOKEN=plainwordfour\n");
    let loaded = crate::loaded(&home).unwrap();
    let text = "plainwordone plainwordtwo plainwordthree plainwordfour plainwordfive";
    let masked = "[redacted] [redacted] [redacted] [redacted] plainwordfive";
    assert_eq!(loaded.redactor().redact(text), masked);
    let home =
        crate::home_with(folder.path(), &format!("{config}security: {{redact_secrets: no}}\n"), "");
    assert_eq!(crate::loaded(&home).unwrap().redactor().redact(text), text);
}

#[test]
fn a_configured_key_is_masked_in_every_form_and_whatever_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let config = "model: {default: m, base_url: 'http://h/v1', key_env: MY_THING}\nproviders: {b: {base_url: 'http://b/v1', api_key: 'q/7\"x'}, c: {base_url: 'http://c/v1', api_key: none}}\n";
    let home = crate::home_with(folder.path(), config, "MY_THING=zq9w\n");
    let redactor = crate::loaded(&home).unwrap().redactor();
    for text in ["zq9w", "enE5dw==", "q/7\"x", "q/7\\\"x", "q%2F7%22x", "cS83Ing="] {
        let masked = redactor.redact(&format!("is {text} .")).into_owned();
        assert!(
            masked == "is [redacted] ."
                || masked == "is [redacted]== ."
                || masked == "is [redacted]= .",
            "{text}: {masked}"
        );
    }
    assert_eq!(redactor.redact("none of it"), "none of it");
}

#[test]
fn variables_that_may_hold_secrets_are_withheld() {
    let folder = tempfile::tempdir().unwrap();
    let config = "model: {default: m, base_url: 'http://h/v1', api_key: cfgkeyvalue}\nfallback_providers: [{model: m, base_url: 'http://h/v1', api_key_env: MY_THING}]\n";
    let home = crate::home_with(folder.path(), config, "");
    // Latin-1, which is no UTF-8.
    std::fs::write(home.env_path(), b"# caf\xe9\nexport ODD=1\n").unwrap();
    let loaded = crate::loaded(&home).unwrap();
    let secrets = hermes_home::Secrets::of(&home, &loaded.config, &crate::vars(&[]));
    for name in [
        "WORK_KEY",
        "GITHUB_TOKEN",
        "HF_TOKEN",
        "AWS_SESSION_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "PGPASSWORD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "github_token",
        "MYSQL_PWD",
        "SENTRY_DSN",
        "GH_PAT",
        "MY_THING",
        "ODD",
    ] {
        assert!(secrets.withholds(name, "x"), "{name}");
    }
    assert!(secrets.withholds("ANYTHING", "cfgkeyvalue"));
    assert!(secrets.withholds("DATABASE_URL", "postgres://me:pw@db/x"));
    for (name, value) in [
        ("PATH", "/bin"),
        ("PWD", "/x"),
        ("OLDPWD", "/x"),
        ("HOME", "/x"),
        ("SSH_AUTH_SOCK", "/x"),
        ("KEYBOARD", "de"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("XAUTHORITY", "/x"),
        ("HTTPS_PROXY", "http://me:pw@proxy:1"),
        ("LANG", "C"),
    ] {
        assert!(!secrets.withholds(name, value), "{name}");
    }
}
