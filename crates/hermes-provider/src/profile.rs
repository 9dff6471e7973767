//! The table of quirks: what is known about endpoints before the first call, and what an error
//! teaches about one.
//!
//! Everything here is data or a pure function of text, so that a wire profile can be stored with
//! a request and the request rebuilt from it.

use hermes_core::{ReasoningReplay, WireProfile};

/// Endpoints that a rule is about, and what is different there. Rules apply in order; a later one
/// wins.
struct Rule {
    /// Provider names or ends of the address's host; either matches. Empty for any place.
    places: &'static [&'static str],
    /// Beginnings of the model's name, after its last `/`. Empty for any model.
    models: &'static [&'static str],
    change: Change,
}

/// A difference from [`WireProfile::default`].
#[derive(Clone, Copy)]
enum Change {
    SystemRole(&'static str),
    Reasoning(ReasoningReplay),
    NoImages,
    NoStreamUsage,
}

/// Sources: the makers' API references, and hermes-agent issues 15717, 14938, 16388, 17212 for
/// reasoning.
static RULES: &[Rule] = &[
    // OpenAI's newer models take their instructions from the developer.
    Rule {
        places: &[
            "openai",
            "openai.com",
            "azure.com",
            "openrouter",
            "openrouter.ai",
            "githubcopilot.com",
        ],
        models: &["gpt-5", "gpt-6", "o1", "o3", "o4", "codex"],
        change: Change::SystemRole("developer"),
    },
    // The first reasoning models knew neither role; `user`-only prompts are not worth a rule.
    Rule {
        places: &["openai", "openai.com", "azure.com", "openrouter", "openrouter.ai"],
        models: &["o1-mini", "o1-preview"],
        change: Change::SystemRole("user"),
    },
    // Thinking mode: 400 without the reasoning of earlier tool calls. Ignored outside of it.
    Rule {
        places: &["deepseek", "deepseek.com"],
        models: &[],
        change: Change::Reasoning(ReasoningReplay::Require),
    },
    Rule { places: &["deepseek", "deepseek.com"], models: &[], change: Change::NoImages },
    Rule {
        places: &["moonshot", "kimi", "kimi-coding", "moonshot.ai", "moonshot.cn", "kimi.com"],
        models: &[
            "kimi-k2-thinking",
            "kimi-k2.5",
            "kimi-k2.6",
            "kimi-k3",
            "kimi-for-coding",
            "kimi-thinking",
        ],
        change: Change::Reasoning(ReasoningReplay::Require),
    },
    Rule {
        places: &["xiaomi", "xiaomimimo.com"],
        models: &["mimo"],
        change: Change::Reasoning(ReasoningReplay::Require),
    },
    // Refuses unknown fields (422), `stream_options` among them, and reports usage unasked.
    Rule { places: &["mistral", "mistral.ai"], models: &[], change: Change::NoStreamUsage },
];

/// What is known about an endpoint before the first call.
pub fn profile_for(provider: &str, base_url: &str, model: &str) -> WireProfile {
    let mut profile = WireProfile::default();
    let provider = provider.to_ascii_lowercase();
    let host = host(base_url);
    let model = model.to_ascii_lowercase();
    let model = model.rsplit('/').next().unwrap_or_default();
    for rule in RULES {
        let place = rule.places.is_empty()
            || rule.places.iter().any(|place| provider == *place || is_host(&host, place));
        let named =
            rule.models.is_empty() || rule.models.iter().any(|start| model.starts_with(start));
        if place && named {
            match rule.change {
                Change::SystemRole(role) => role.clone_into(&mut profile.system_role),
                Change::Reasoning(replay) => profile.reasoning = replay,
                Change::NoImages => profile.images = false,
                Change::NoStreamUsage => profile.stream_usage = false,
            }
        }
    }
    profile
}

/// The body field that bounds the output: OpenAI's own endpoints refuse `max_tokens` for newer
/// models, most others know nothing else.
pub fn output_cap_field(provider: &str, base_url: &str) -> &'static str {
    let host = host(base_url);
    let own = ["openai.com", "azure.com"];
    if provider.eq_ignore_ascii_case("openai") || own.iter().any(|own| is_host(&host, own)) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn host(base_url: &str) -> String {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// Whether `host` is `domain` or below it.
fn is_host(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

/// Streams as such are refused. Whole phrases only: "upstream" and "stream error" are in the words
/// of many a fault that has nothing to do with it.
const STREAM_REFUSED: &[&str] = &[
    "to stream this model",
    "streaming is not",
    "streaming not supported",
    "not support streaming",
    "not support stream",
    "n't support stream",
    "stream is not supported",
    "stream must be false",
    "'stream' is not",
    "`stream` is not",
    "'stream' does not support",
    "parameter: 'stream'",
    "parameter: stream",
];

/// Images as such are refused, not the one that was sent.
const IMAGES_REFUSED: &[&str] = &[
    "not support image",
    "n't support image",
    "not support vision",
    "support image input",
    "image input is not supported",
    "images are not supported",
    "image_url is not supported",
    "image_url' is not",
    "`image_url`, expected `text`",
    "'image_url', expected 'text'",
    "not a multimodal model",
    "not a vision model",
    "not support multimodal",
];

/// Tools as such are refused.
const TOOLS_REFUSED: &[&str] = &[
    "does not support tools",
    "does not support tool",
    "does not support function",
    "support tool use",
    "tools is not supported",
    "tools are not supported",
    "function calling is not",
];

/// What a refusal teaches: the profile to try next and what is different, in words. None if it
/// teaches nothing that the profile does not say already.
pub fn learn(profile: &WireProfile, message: &str) -> Option<(WireProfile, &'static str)> {
    let text = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let refuses = has(&[
        "unsupported",
        "not supported",
        "not support",
        "n't support",
        "unrecognized",
        "unknown",
        "extra input",
        "extra_forbidden",
        "not permitted",
        "not allowed",
        "unexpected",
        "additional propert",
        "invalid",
    ]);
    let mut next = profile.clone();
    let what = if has(&["reasoning_content", "reasoning content"])
        && profile.reasoning == ReasoningReplay::Omit
        && has(&["lack", "missing", "must", "require", "passed back", "pass back", "need"])
    {
        next.reasoning = ReasoningReplay::Require;
        "reasoning is sent back with tool calls"
    } else if has(&["reasoning_content", "reasoning_details", "reasoning content"])
        && profile.reasoning == ReasoningReplay::Require
        && refuses
    {
        next.reasoning = ReasoningReplay::Omit;
        "reasoning is not sent back"
    } else if has(&["stream_options", "include_usage"]) && profile.stream_usage {
        next.stream_usage = false;
        "no usage is asked for in streams"
    } else if profile.stream && has(STREAM_REFUSED) {
        next.stream = false;
        "no stream is asked for"
    } else if has(&["role"]) && has(&["developer"]) && profile.system_role == "developer" {
        "system".clone_into(&mut next.system_role);
        "the prompt has the role system"
    } else if has(&["role"])
        && has(&["'system'", "`system`", "\"system\""])
        && refuses
        && profile.system_role == "system"
    {
        "developer".clone_into(&mut next.system_role);
        "the prompt has the role developer"
    } else if profile.images && has(IMAGES_REFUSED) {
        next.images = false;
        "images are not sent"
    } else if profile.tools && has(TOOLS_REFUSED) {
        next.tools = false;
        "tools are not offered: the model cannot use any"
    } else if !profile.alternate && has(&["roles must alternate", "must alternate"]) {
        next.alternate = true;
        "user and assistant alternate"
    } else {
        return None;
    };
    (next != *profile).then_some((next, what))
}

#[cfg(test)]
mod tests;
