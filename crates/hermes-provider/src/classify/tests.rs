use ErrorClass::{
    Auth, BadRequest, ContentFilter, ContextOverflow, Malformed, NotFound, OutputOverflow, Quota,
    RateLimit, Server, Timeout,
};
use proptest::prelude::*;

use super::*;

fn check(status: u16, body: &str, expected: ErrorClass) {
    let status = (status > 0).then_some(status);
    let found = classify(status, body.as_bytes(), None);
    assert_eq!(found.class, expected, "{status:?} {body}: {found:?}");
}

#[test]
fn b101_only_an_input_that_does_not_fit_is_a_reason_to_compact() {
    let text = include_str!("../../tests/cases/B101/errors.json");
    let parsed = json::parse(text).unwrap();
    let want = [
        ("output_cap", OutputOverflow, Some(98_304)),
        ("output_eq_window", OutputOverflow, Some(40_960)),
        ("input_too_long", ContextOverflow, Some(200_000)),
        ("bare", ContextOverflow, None),
        ("code_only", ContextOverflow, None),
        ("not_overflow", BadRequest, None),
    ];
    assert_eq!(parsed.value.items().len(), want.len());
    for (case, (name, class, window)) in parsed.value.items().iter().zip(want) {
        assert_eq!(case.get("name").and_then(Value::as_str), Some(name));
        let body = case.get("body").unwrap().raw.as_bytes();
        let found = classify(Some(400), body, None);
        assert_eq!((found.class, found.limits.window), (class, window), "{name}: {found:?}");
        if name == "output_cap" {
            let limits = found.limits;
            assert_eq!((limits.input, limits.output), (Some(65_537), Some(32_768)));
            assert!(limits.input_is_lower_bound);
        }
    }
}

#[test]
fn overflow_in_the_words_of_other_servers() {
    for (text, class, window, input, output) in [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (5000 in the messages, 4000 in the completion). Please reduce the length",
            OutputOverflow,
            Some(8192),
            Some(5000),
            Some(4000),
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8500 in the messages, 500 in the completion).",
            ContextOverflow,
            Some(8192),
            Some(8500),
            Some(500),
        ),
        (
            "This model's maximum context length is 128,000 tokens. However, your messages resulted in 130,001 tokens.",
            ContextOverflow,
            Some(128_000),
            Some(130_001),
            None,
        ),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
            OutputOverflow,
            Some(200_000),
            Some(188_240),
            Some(21_333),
        ),
        (
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for x",
            OutputOverflow,
            None,
            None,
            Some(100_000),
        ),
        (
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
            OutputOverflow,
            None,
            None,
            Some(100_000),
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 32768. This model's maximum context length is 40960 tokens and your request has 12000 input tokens (32768 > 40960 - 12000).",
            OutputOverflow,
            Some(40_960),
            Some(12_000),
            Some(32_768),
        ),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ContextOverflow,
            Some(1_048_576),
            Some(1_200_000),
            None,
        ),
        (
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 180000 tokens (170000 of text input, 2000 of tool input, 8000 in the output).",
            ContextOverflow,
            Some(131_072),
            Some(170_000),
            Some(8000),
        ),
        (
            "the request exceeds the available context size (4096 tokens), try increasing it",
            ContextOverflow,
            Some(4096),
            None,
            None,
        ),
        (
            "Trying to keep the first 6000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
            ContextOverflow,
            Some(4096),
            None,
            None,
        ),
        (
            "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
            ContextOverflow,
            Some(131_072),
            None,
            None,
        ),
        ("Input is too long for requested model.", ContextOverflow, None, None, None),
        ("max_tokens must be at least 1, got -512.", ContextOverflow, None, None, None),
        ("Range of max_tokens should be [1, 8192]", OutputOverflow, None, None, None),
    ] {
        let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", text.replace('"', "'"));
        let found = classify(Some(400), body.as_bytes(), None);
        let limits = found.limits;
        assert_eq!(
            (found.class, limits.window, limits.input, limits.output),
            (class, window, input, output),
            "{text}"
        );
    }
    for (text, cap) in [
        ("max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens", 8192),
        (
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            16_384,
        ),
        ("Range of max_tokens should be [1, 8192]", 8192),
    ] {
        assert_eq!(
            classify(Some(400), text.as_bytes(), None).limits.output_cap,
            Some(cap),
            "{text}"
        );
    }
    let fields = r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#;
    let found = classify(Some(400), fields.as_bytes(), None);
    assert_eq!(found.class, ContextOverflow);
    assert_eq!((found.limits.window, found.limits.input), (Some(4096), Some(5000)));
}

#[test]
fn every_dialect_has_its_class() {
    check(
        401,
        r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
        Auth,
    );
    check(403, r#"{"detail":"Forbidden"}"#, Auth);
    check(403, "<html><title>Attention Required!</title></html>", Server);
    check(
        403,
        r#"{"error":{"message":"Your input was flagged","code":403,"metadata":{"reasons":["x"]}}}"#,
        ContentFilter,
    );
    check(
        400,
        r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
        Auth,
    );
    check(402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, Quota);
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","code":"insufficient_quota"}}"#,
        Quota,
    );
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota. Please retry in 31.5s."}}"#,
        RateLimit,
    );
    check(
        429,
        r#"{"error":{"message":"Rate limit reached for x. Please try again in 20ms."}}"#,
        RateLimit,
    );
    check(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
        Quota,
    );
    check(
        404,
        r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
        NotFound,
    );
    check(404, r#"{"error":"model \"x\" not found, try pulling it first"}"#, NotFound);
    check(400, r#"{"error":{"message":"x is not a valid model ID","code":400}}"#, NotFound);
    check(404, "404 page not found", NotFound);
    check(413, "", ContextOverflow);
    check(
        400,
        r#"{"object":"error","message":"[{'loc': 'x'}]","type":"BadRequestError","code":400}"#,
        BadRequest,
    );
    check(
        422,
        r#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
        BadRequest,
    );
    check(
        400,
        r#"{"error":{"message":"The response was filtered","code":"content_filter"}}"#,
        ContentFilter,
    );
    check(500, r#"{"error":{"message":"boom"}}"#, Server);
    check(
        500,
        r#"{"error":{"code":500,"message":"Conversation roles must alternate user/assistant","type":"server_error"}}"#,
        BadRequest,
    );
    check(
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        Server,
    );
    check(
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Server,
    );
    check(408, "", Timeout);
    check(308, "", NotFound);
    check(0, r#"{"error":{"message":"upstream failed","code":502}}"#, Server);
    check(0, r#"{"error":{"message":"slow down","code":429}}"#, RateLimit);
    check(
        0,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Server,
    );
    check(
        0,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 5 tokens > 4 maximum\"}}"}}}"#,
        ContextOverflow,
    );
    check(200, "", Malformed);
    check(200, "<html>gateway error</html>", Malformed);
    check(502, "<html>gateway error</html>", Server);
}

#[test]
fn b019_a_broken_pair_is_no_credential_fault() {
    let file = include_str!("../../tests/cases/B019/bad_request.http.json");
    let parsed = json::parse(file).unwrap();
    let found = classify(Some(400), parsed.value.get("body").unwrap().raw.as_bytes(), None);
    assert_eq!(found.class, BadRequest);
    assert!(found.message.starts_with("messages.1: unexpected tool_use_id"), "{}", found.message);
}

#[test]
fn messages_are_the_servers_words_or_say_what_came_instead() {
    for (body, expected) in [
        (
            r#"{"error":{"message":"a\n b","metadata":{"raw":"upstream says"}}}"#,
            "a b: upstream says",
        ),
        (r#"{"detail":[{"loc":["body","x"],"msg":"bad"}]}"#, r#"bad ["body","x"]"#),
        (r#"{"error":{"code":"odd"}}"#, "no message, code odd"),
        ("", "an empty body"),
        (
            "<!DOCTYPE html><title>Bad gateway</title>",
            "an HTML page instead of JSON (\"Bad gateway\")",
        ),
        ("upstream error", "text instead of JSON: upstream error"),
        ("{\"x\":1}", "{\"x\":1}"),
    ] {
        assert_eq!(classify(Some(500), body.as_bytes(), None).message, expected, "{body}");
    }
}

#[test]
fn waits_are_found_in_headers_text_and_fields() {
    let wait = |text: &str| classify(Some(429), text.as_bytes(), None).retry_after;
    assert_eq!(
        wait(r#"{"error":{"message":"try again in 1.5s"}}"#),
        Some(Duration::from_millis(1500))
    );
    assert_eq!(
        wait(r#"{"error":{"message":"try again in 250ms."}}"#),
        Some(Duration::from_millis(250))
    );
    assert_eq!(wait(r#"{"error":{"message":"try again in 2m"}}"#), Some(Duration::from_mins(2)));
    assert_eq!(
        wait(r#"{"error":{"message":"x","details":[{"@type":"RetryInfo","retryDelay":"34s"}]}}"#),
        Some(Duration::from_secs(34))
    );
    assert_eq!(wait("{}"), None);
    let header = Some(Duration::from_secs(1));
    assert_eq!(classify(Some(429), b"try again in 9s", header).retry_after, header);
}

proptest! {
    #[test]
    fn any_body_has_a_class(status in 0u16..700, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let found = classify(Some(status), &body, None);
        prop_assert!(!found.message.is_empty());
    }

    #[test]
    fn any_words_about_sizes_have_a_class(text in "(max_tokens|context length| is|[0-9]{1,25}|,| > | \\+ |é| output tokens| input tokens| got -|too large: )*") {
        let body = format!("{{\"error\":{{\"message\":\"{text}\"}}}}");
        classify(Some(400), body.as_bytes(), None);
    }
}
