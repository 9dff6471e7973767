//! The settings: names and defaults of Hermes Agent for what exists here.
//!
//! Invariants: a value that cannot be understood stops the start (settings of looks alone warn);
//! a rule under `approvals` is never dropped silently; unknown keys stay in the file and are
//! reported.

pub(crate) mod approvals;
pub(crate) mod model;
pub(crate) mod read;
mod sections;
pub(crate) mod used;

use std::collections::BTreeMap;

pub use approvals::{ApprovalMode, ApprovalsConfig};
pub use model::{AuxiliaryConfig, AuxiliaryTask, FallbackConfig, ModelConfig, ProviderConfig};
pub use read::{Kind, Setting, UnknownKey};
pub use sections::{
    AgentConfig, CompressionConfig, ContextConfig, DelegationConfig, DisplayConfig, HandoffConfig,
    MemoryConfig, PluginHostConfig, PluginsConfig, PromptCachingConfig, SecurityConfig,
    SessionsConfig, SkillsConfig, TerminalConfig, ToolOutputConfig,
};

use read::section;
use secrecy::SecretString;

use crate::yaml::Datum;

section! {
    /// All settings that are in force.
    Config {
        /// The model and its endpoint.
        model: ModelConfig = ModelConfig::default(),
        /// Endpoints by name.
        providers: BTreeMap<String, ProviderConfig> = BTreeMap::new(),
        /// Endpoints as a list, the original's older form.
        custom_providers: Vec<ProviderConfig> = Vec::new(),
        /// What is asked when the primary endpoint fails, in order.
        fallback_providers: Vec<FallbackConfig> = Vec::new(),
        /// The groups of tools that are offered.
        toolsets: Vec<String> = vec!["hermes-cli".to_owned()],
        /// The agent loop.
        agent: AgentConfig = AgentConfig::default(),
        /// Where and how commands run.
        terminal: TerminalConfig = TerminalConfig::default(),
        /// Memory and user profile.
        memory: MemoryConfig = MemoryConfig::default(),
        /// Looks.
        display: DisplayConfig = DisplayConfig::default(),
        /// Who may run what.
        approvals: ApprovalsConfig = ApprovalsConfig::default(),
        /// Commands that were approved for good.
        command_allowlist: Vec<String> = Vec::new(),
        /// Limits of a tool result.
        tool_output: ToolOutputConfig = ToolOutputConfig::default(),
        /// Most characters of one file read.
        file_read_max_chars: usize = 100_000,
        /// Most characters of one project file in the prompt; by the context window if unset.
        context_file_max_chars: Option<usize> = None,
        /// Seconds to wait for a project file.
        context_file_read_timeout: f64 = 5.0,
        /// Skills.
        skills: SkillsConfig = SkillsConfig::default(),
        /// Delegated tasks.
        delegation: DelegationConfig = DelegationConfig::default(),
        /// Compaction.
        compression: CompressionConfig = CompressionConfig::default(),
        /// The context engine.
        context: ContextConfig = ContextConfig::default(),
        /// The provider's prefix cache.
        prompt_caching: PromptCachingConfig = PromptCachingConfig::default(),
        /// Side tasks and their models.
        auxiliary: AuxiliaryConfig = AuxiliaryConfig::default(),
        /// Safety.
        security: SecurityConfig = SecurityConfig::default(),
        /// IANA name of the person's time zone; empty for the system's.
        timezone: String = String::new(),
        /// Keeping and listing sessions.
        sessions: SessionsConfig = SessionsConfig::default(),
        /// Plugins.
        plugins: PluginsConfig = PluginsConfig::default(),
        /// Hooks of the shell, by event.
        hooks: Datum = Datum::Map(Vec::new()),
        /// Whether new shell hooks run without being asked about.
        hooks_auto_accept: bool = false,
        /// Handing over between sessions.
        handoff: HandoffConfig = HandoffConfig::default(),
        /// MCP servers by name.
        mcp_servers: Datum = Datum::Map(Vec::new()),
        /// Text for the prompt by platform.
        platform_hints: Datum = Datum::Map(Vec::new()),
        /// Personalities by name.
        personalities: Datum = Datum::Map(Vec::new()),
        /// Slash commands of the person's own.
        quick_commands: Datum = Datum::Map(Vec::new()),
    }
    foreign: [
        "_config_version", "attachments", "auth", "bedrock", "bot_desktop", "bot_mode", "browser",
        "checkpoints", "code_execution", "computer_use", "credential_pool_strategies", "cron",
        "curator", "dashboard", "database", "desktop", "discord", "doctor", "fallback",
        "fallback_model", "gateway", "goals", "group_sessions_per_user", "honcho", "human_delay",
        "kanban", "local_runtime", "logging", "loops", "lsp", "matrix", "mattermost",
        "max_concurrent_sessions", "max_live_sessions", "mcp", "mcp_discovery_timeout",
        "mcp_single_query_discovery_timeout", "moa", "model_catalog", "model_overrides",
        "models_dev", "monitoring", "network", "nous", "onboarding", "openrouter",
        "paste_collapse_char_threshold", "paste_collapse_threshold",
        "paste_collapse_threshold_fallback", "platforms", "prefill_messages_file", "privacy",
        "proxy", "runtime", "secrets", "session", "session_store_max_age_days", "slack",
        "streaming", "stt", "telegram", "telemetry", "thread_sessions_per_user",
        "tool_loop_guardrails", "tools", "tts", "updates", "vault", "vertex", "vision", "voice",
        "wake_word", "web", "whatsapp", "x_search",
    ]
}

impl Config {
    /// Every secret in the settings.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = SecretString> {
        let providers = self.providers.values().chain(&self.custom_providers);
        let headers = providers
            .clone()
            .map(|provider| &provider.headers)
            .chain([&self.model.headers])
            .flatten()
            .filter(|(name, _)| crate::redact::is_secret_name(name))
            .map(|(_, value)| SecretString::from(value.clone()));
        let keys = [&self.model.api_key, &self.delegation.api_key]
            .into_iter()
            .chain(providers.map(|provider| &provider.api_key))
            .chain(self.fallback_providers.iter().map(|fallback| &fallback.api_key))
            .chain(self.auxiliary.tasks.values().flat_map(|task| {
                let chain = task.fallback_chain.iter().map(|fallback| &fallback.api_key);
                std::iter::once(&task.api_key).chain(chain)
            }));
        keys.flatten().cloned().chain(headers).collect::<Vec<_>>().into_iter()
    }

    /// The variables that hold keys of endpoints (`key_env`).
    pub(crate) fn key_variables(&self) -> impl Iterator<Item = &str> {
        let providers = self.providers.values().chain(&self.custom_providers);
        std::iter::once(&self.model.key_env)
            .chain(providers.map(|provider| &provider.key_env))
            .chain(self.fallback_providers.iter().map(|fallback| &fallback.key_env))
            .chain(self.auxiliary.tasks.values().flat_map(|task| {
                let chain = task.fallback_chain.iter().map(|fallback| &fallback.key_env);
                std::iter::once(&task.key_env).chain(chain)
            }))
            .map(|name| name.trim())
            .filter(|name| !name.is_empty())
    }

    /// Every setting with its value, by key.
    pub fn settings(&self) -> Vec<Setting> {
        let mut out = Vec::new();
        read::Read::list(self, "", &mut out);
        out
    }
}
