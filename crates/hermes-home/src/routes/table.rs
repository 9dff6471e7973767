//! Providers that are known by name.

/// A provider with an endpoint that speaks chat completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinProvider {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Its address.
    pub base_url: &'static str,
    /// The variables that may hold its key, the first found counts.
    pub key_names: &'static [&'static str],
    /// Whether it answers without a key.
    pub keyless: bool,
}

const fn hosted(
    name: &'static str,
    aliases: &'static [&'static str],
    base_url: &'static str,
    key_names: &'static [&'static str],
) -> BuiltinProvider {
    BuiltinProvider { name, aliases, base_url, key_names, keyless: false }
}

const fn local(
    name: &'static str,
    aliases: &'static [&'static str],
    base_url: &'static str,
    key_names: &'static [&'static str],
) -> BuiltinProvider {
    BuiltinProvider { name, aliases, base_url, key_names, keyless: true }
}

/// The providers that are known by name. Where a model is chosen without a provider, the first one
/// whose key is there is taken.
pub const BUILTIN_PROVIDERS: &[BuiltinProvider] = &[
    hosted("openrouter", &[], "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"]),
    hosted("openai", &[], "https://api.openai.com/v1", &["OPENAI_API_KEY"]),
    hosted("anthropic", &["claude"], "https://api.anthropic.com/v1", &["ANTHROPIC_API_KEY"]),
    hosted(
        "gemini",
        &["google"],
        "https://generativelanguage.googleapis.com/v1beta/openai",
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    ),
    hosted("deepseek", &[], "https://api.deepseek.com/v1", &["DEEPSEEK_API_KEY"]),
    hosted("groq", &[], "https://api.groq.com/openai/v1", &["GROQ_API_KEY"]),
    hosted("mistral", &[], "https://api.mistral.ai/v1", &["MISTRAL_API_KEY"]),
    hosted("xai", &["grok"], "https://api.x.ai/v1", &["XAI_API_KEY"]),
    hosted(
        "zai",
        &["z.ai", "glm"],
        "https://api.z.ai/api/paas/v4",
        &["ZAI_API_KEY", "GLM_API_KEY"],
    ),
    hosted(
        "moonshot",
        &["kimi"],
        "https://api.moonshot.ai/v1",
        &["MOONSHOT_API_KEY", "KIMI_API_KEY"],
    ),
    hosted("minimax", &[], "https://api.minimax.io/v1", &["MINIMAX_API_KEY"]),
    hosted(
        "alibaba",
        &["dashscope", "qwen"],
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        &["DASHSCOPE_API_KEY"],
    ),
    hosted("together", &[], "https://api.together.xyz/v1", &["TOGETHER_API_KEY"]),
    hosted("fireworks", &[], "https://api.fireworks.ai/inference/v1", &["FIREWORKS_API_KEY"]),
    hosted("cerebras", &[], "https://api.cerebras.ai/v1", &["CEREBRAS_API_KEY"]),
    hosted("nvidia", &["nim"], "https://integrate.api.nvidia.com/v1", &["NVIDIA_API_KEY"]),
    hosted("huggingface", &["hf"], "https://router.huggingface.co/v1", &["HF_TOKEN"]),
    hosted("novita", &[], "https://api.novita.ai/v3/openai", &["NOVITA_API_KEY"]),
    hosted("ollama-cloud", &[], "https://ollama.com/v1", &["OLLAMA_API_KEY"]),
    local("ollama", &[], "http://127.0.0.1:11434/v1", &[]),
    local("lmstudio", &["lm-studio"], "http://127.0.0.1:1234/v1", &[]),
    local("llamacpp", &["llama.cpp", "llama-cpp"], "http://127.0.0.1:8080/v1", &[]),
    local("vllm", &[], "http://127.0.0.1:8000/v1", &[]),
];

/// The provider of a lower-case name.
pub(super) fn find(name: &str) -> Option<&'static BuiltinProvider> {
    BUILTIN_PROVIDERS.iter().find(|known| known.name == name || known.aliases.contains(&name))
}
