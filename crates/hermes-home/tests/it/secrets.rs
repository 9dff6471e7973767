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
