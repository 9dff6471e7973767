use proptest::prelude::*;

use super::*;

fn strict(text: &str) -> String {
    parse(text).map_or_else(|error| format!("error: {error}"), |p| p.value.to_strict())
}

#[test]
fn raw_text_survives_as_it_came() {
    let text = r#"{"b":1e5,"a":123456789012345678901234567890,"c":"\u00e9\/","b2":-0.0}"#;
    let parsed = parse(text).unwrap();
    assert_eq!(parsed.value.raw, text);
    assert_eq!(parsed.problems, []);
    assert_eq!(
        parsed.value.to_strict(),
        r#"{"b":1e5,"a":123456789012345678901234567890,"c":"é/","b2":-0.0}"#
    );
}

#[test]
fn one_bad_character_does_not_lose_the_value() {
    for (text, expected, what) in [
        ("\u{feff}{\"a\":1}", r#"{"a":1}"#, Oddity::ByteOrderMark),
        ("{\"a\":\"x\ny\"}", r#"{"a":"x\ny"}"#, Oddity::RawControl),
        (r#"{"a":[1,],}"#, r#"{"a":[1]}"#, Oddity::TrailingComma),
        (r#"{"a":"\ud800"}"#, "{\"a\":\"\u{fffd}\"}", Oddity::LoneSurrogate),
        (r#"{"a":"\d+"}"#, r#"{"a":"\\d+"}"#, Oddity::BadEscape),
        (r#"{"a":"\u12g4"}"#, r#"{"a":"\\u12g4"}"#, Oddity::BadEscape),
        (r#"{"a":NaN}"#, r#"{"a":null}"#, Oddity::NotANumber),
        (r#"{"a":-Infinity}"#, r#"{"a":null}"#, Oddity::NotANumber),
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#, Oddity::DuplicateKey),
    ] {
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.value.to_strict(), expected, "{text}");
        assert!(parsed.problems.iter().any(|p| p.what == what), "{text}: {:?}", parsed.problems);
    }
}

#[test]
fn every_prefix_of_a_value_is_known_to_be_cut_and_other_faults_are_not() {
    let text = r#"{"a": [true, null, -1.5e+3, "x\n\u00e9\ud83d\ude00"], "b": {"c": "d"}}"#;
    for end in 0..text.len() {
        let error = parse(&text[..end]).unwrap_err();
        assert!(error.at_end, "{} {error}", &text[..end]);
    }
    for (text, position) in [
        (r#"{"action": listt_windows"}"#, 11),
        (r"{'path':'a.txt'}", 1),
        (r#"{"a":1}{"b":2}"#, 7),
        (r#"{"a" 1}"#, 5),
        (r"[1 2]", 3),
        (r"nullx", 4),
        (r"01", 1),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.position, error.at_end), (position, false), "{text}: {error}");
    }
}

#[test]
fn nesting_is_bounded() {
    assert_eq!(strict(&"[".repeat(100_000)), "error: nested too deeply at byte 128");
    let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
    assert_eq!(strict(&deep), deep);
}

#[test]
fn counts_are_read_in_every_spelling() {
    for (text, expected) in [
        ("13", Some(13)),
        ("13.0", Some(13)),
        ("1e3", Some(1000)),
        ("\"13\"", Some(13)),
        ("-1", None),
        ("1.5", None),
        ("null", None),
    ] {
        assert_eq!(parse(text).unwrap().value.as_u64(), expected, "{text}");
    }
}

#[test]
fn a_surrogate_pair_split_between_fragments_is_one_character() {
    let join = |fragments: &[&str]| {
        let mut joiner = Joiner::default();
        let mut text = String::new();
        for fragment in fragments {
            text += &joiner.push(&parse(fragment).unwrap().value);
        }
        text + joiner.finish()
    };
    assert_eq!(join(&[r#""a\ud83d""#, r#""\ude00b""#]), "a😀b");
    assert_eq!(join(&[r#""a\ud83d""#, r#""""#, r#""\ude00b""#]), "a😀b");
    assert_eq!(join(&[r#""a\ud83d""#, r#""b""#]), "a\u{fffd}b");
    assert_eq!(join(&[r#""a\ud83d""#]), "a\u{fffd}");
    assert_eq!(join(&[r#""a\\ud83d""#, r#""\ude00""#]), "a\\ud83d\u{fffd}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_a_panic(text in "\\PC*|[\\[\\]{}\",:\\\\u0-9a-fN. \n-]{0,60}") {
        if let Ok(parsed) = parse(&text) {
            // What was read can be written and read again, without problems.
            let strict = parsed.value.to_strict();
            let again = parse(&strict).unwrap();
            prop_assert!(again.problems.iter().all(|p| p.what == Oddity::DuplicateKey));
            prop_assert_eq!(again.value.to_strict(), strict);
        }
    }

    #[test]
    fn escaped_text_is_read_back_by_us_and_by_serde(text in any::<String>()) {
        let mut out = String::new();
        write_string(&mut out, &text);
        let parsed = parse(&out).unwrap();
        prop_assert_eq!(parsed.value.as_str(), Some(&*text));
        prop_assert!(parsed.problems.is_empty());
        prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
    }

    #[test]
    fn what_serde_writes_is_read_without_problems(text in any::<Vec<(String, Option<f64>)>>()) {
        let json = serde_json::to_string(&text).unwrap();
        let parsed = parse(&json).unwrap();
        prop_assert!(parsed.problems.is_empty());
        prop_assert_eq!(parsed.value.raw, &json);
    }
}
