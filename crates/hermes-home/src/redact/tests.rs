use super::*;

fn check(text: &str, expected: &str) {
    assert_eq!(redact(text), expected);
    assert_eq!(redact(expected), expected, "masking again changes nothing");
}

#[test]
fn keys_are_known_by_their_shape_and_keep_the_part_that_names_their_kind() {
    check("key sk-test-EEEE5555FFFF6666 end", "key sk-[redacted] end");
    check("ghp_0000testtesttesttesttest", "ghp_[redacted]");
    check("AKIATESTTESTTESTTEST.", "AKIA[redacted].");
    check("a eyJhbGciOiJub25lIn0.eyJ0ZXN0IjoxfQ. b", "a eyJ[redacted] b");
    check("/bot123456789:AAtesttesttesttesttesttesttesttestt/get", "/bot123456789:[redacted]/get");
    check(
        "x -----BEGIN RSA PRIVATE KEY-----\nVEVT\n-----END RSA PRIVATE KEY----- y",
        "x [redacted] y",
    );
}

#[test]
fn values_are_known_by_the_name_before_them() {
    check("OPENAI_API_KEY=abcd-1234 next", "OPENAI_API_KEY=[redacted] next");
    check("export PW_TOKEN='a b c'", "export PW_TOKEN='[redacted]'");
    check(
        r#"{"client_secret": "GOCSPX", "id": "GOCSPX"}"#,
        r#"{"client_secret": "[redacted]", "id": "GOCSPX"}"#,
    );
    check(r#""{\"apiKey\":\"one\\\"two\",\"b\":1}""#, r#""{\"apiKey\":\"[redacted]\",\"b\":1}""#);
    check("model:\n  api_key: plain-word # mine\n", "model:\n  api_key: [redacted] # mine\n");
    check(
        "Authorization: Bearer TESTTOKEN.abc.def\r\nHost: a",
        "Authorization: Bearer [redacted]\r\nHost: a",
    );
    check("curl -H 'x-api-key: abc123def' u", "curl -H 'x-api-key: [redacted]' u");
    check("sent Bearer abc123def456ghi to it", "sent Bearer [redacted] to it");
    check(
        "https://user:p4ss@example.org/x?a=1&token=abcdef#f",
        "https://user:[redacted]@example.org/x?a=1&token=[redacted]#f",
    );
}

#[test]
fn words_ids_and_code_stay() {
    for text in [
        "the word password alone, token count 512, sk-learn, task-force, key: value",
        "max_tokens: 512\ntokenizer: gpt2\nprimary_key: id",
        "let token = next_token(); password = read()",
        "PWD=/home/me/projects TOKEN=$OTHER API_KEY=${KEY} api_key: null",
        "bearer of news, Bearer authentication, https://example.org:8080/a@b?page=2&key=a",
        "sk-learn-is-a-library-for-machine-learning",
        "20260101_120000_ab12cd 123e4567-e89b-12d3-a456-426614174000 12:30:45",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "the line -----BEGIN PRIVATE KEY----- starts a block",
        "git@github.com:owner/repo.git ssh://git@host/x",
        "",
    ] {
        assert!(matches!(redact(text), Cow::Borrowed(_)), "{text} -> {}", redact(text));
    }
}

#[test]
fn known_values_are_masked_wherever_they_stand_and_so_are_their_pieces() {
    let redactor = Redactor::new(["correct horse \"battery\"", "short"]);
    let check = |text: &str, expected: &str| assert_eq!(redactor.redact(text), expected);
    check("a correct horse \"battery\" b short", "a [redacted] b short");
    check(r#"{"t":"correct horse \"battery\""}"#, r#"{"t":"[redacted]"}"#);
    check("ends with correct ho", "ends with [redacted]");
    check("rse \"battery\" begins", "[redacted] begins");
    check("correct", "correct");
    assert!(!format!("{redactor:?}").contains("horse"));
    assert_eq!(Redactor::off().redact("sk-test-EEEE5555FFFF6666"), "sk-test-EEEE5555FFFF6666");
}

#[test]
fn a_stream_holds_back_what_could_be_half_a_secret() {
    let redactor = Redactor::default();
    let text = "hello sk-test-EEEE5555FFFF6666\n-----BEGIN PRIVATE KEY-----\nVEVTVA==\n-----END PRIVATE KEY-----\nbye";
    let expected = redact(text).into_owned();
    for size in 1..12 {
        let mut stream = redactor.stream();
        let mut out = String::new();
        for piece in text.as_bytes().chunks(size) {
            out.push_str(&stream.push(std::str::from_utf8(piece).unwrap()));
        }
        out.push_str(&stream.finish());
        assert_eq!(out, expected);
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_masked_without_panic_and_once_is_enough(text in "(?s)[ -~é\\n\"'\\\\=:?&]{0,80}") {
        let once = redact(&text).into_owned();
        proptest::prop_assert_eq!(redact(&once).into_owned(), once);
    }
}
