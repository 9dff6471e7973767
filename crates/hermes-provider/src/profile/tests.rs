use super::*;

fn check(provider: &str, base_url: &str, model: &str, expected: impl FnOnce(&mut WireProfile)) {
    let mut wanted = WireProfile::default();
    expected(&mut wanted);
    assert_eq!(profile_for(provider, base_url, model), wanted, "{provider} {base_url} {model}");
}

#[test]
fn known_endpoints_have_their_quirks_and_unknown_ones_none() {
    let developer = |p: &mut WireProfile| p.system_role = "developer".into();
    let require = |p: &mut WireProfile| p.reasoning = ReasoningReplay::Require;
    check("custom", "http://127.0.0.1:11434/v1", "qwen3", |_| {});
    check("custom", "http://127.0.0.1:8000/v1", "gpt-5-clone", |_| {});
    check("openai", "https://api.openai.com/v1", "gpt-5.2-codex", developer);
    check("openrouter", "https://openrouter.ai/api/v1", "openai/gpt-5", developer);
    check("openai", "https://api.openai.com/v1", "gpt-4o", |_| {});
    check("x", "https://api.deepseek.com:443/v1", "deepseek-chat", |p| {
        require(p);
        p.images = false;
    });
    check("kimi", "https://api.moonshot.ai/v1", "kimi-k2.5", require);
    check("kimi", "https://api.moonshot.ai/v1", "kimi-latest", |_| {});
    check("mistral", "https://api.mistral.ai/v1", "devstral", |p| p.stream_usage = false);
    check("x", "https://notdeepseek.com/v1", "m", |_| {});
    assert_eq!(output_cap_field("x", "https://api.openai.com/v1"), "max_completion_tokens");
    assert_eq!(output_cap_field("x", "http://localhost:1/v1"), "max_tokens");
}

#[test]
fn refusals_teach_what_to_change_and_nothing_twice() {
    let plain = WireProfile::default();
    let require = WireProfile { reasoning: ReasoningReplay::Require, ..plain.clone() };
    let developer = WireProfile { system_role: "developer".into(), ..plain.clone() };
    for (profile, message, expected) in [
        (
            &plain,
            "assistant message with tool_calls lacks reasoning_content (thinking mode)",
            &require,
        ),
        (
            &plain,
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            &require,
        ),
        (
            &plain,
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            &require,
        ),
        (&require, "messages.2.reasoning_content: Extra inputs are not permitted", &plain),
        (&require, "property 'reasoning_content' is unsupported", &plain),
        (
            &plain,
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            &developer,
        ),
        (
            &developer,
            "'developer' is not one of ['system', 'assistant', 'user'] - 'messages.0.role'",
            &plain,
        ),
    ] {
        let (next, _) = learn(profile, message).unwrap_or_else(|| panic!("{message}"));
        assert_eq!(&next, expected, "{message}");
        assert_eq!(learn(&next, message), None, "{message}");
    }
    let learned = |message: &str| learn(&plain, message).map(|(next, _)| next);
    assert!(
        !learned("Unrecognized request argument supplied: stream_options").unwrap().stream_usage
    );
    assert!(!learned("Your organization must be verified to stream this model.").unwrap().stream);
    assert!(!learned("registry.ollama.ai/library/x:latest does not support tools").unwrap().tools);
    assert!(
        !learned("image input is not supported - hint: you may need the mmproj").unwrap().images
    );
    assert!(!learned("No endpoints found that support image input").unwrap().images);
    assert!(!learned("unknown variant `image_url`, expected `text`").unwrap().images);
    for message in [
        "",
        "max_tokens: must be at least 1",
        "image is too large: maximum size is 5 MB",
        "messages.1: unexpected tool_use_id found in tool_result blocks: toolu_x",
        "Incorrect API key provided",
        "upstream error: unexpected end of stream",
        "Invalid image data: unsupported format",
        "The system is in an unknown state; your role does not allow this",
    ] {
        assert_eq!(learned(message), None, "{message}");
    }
}
