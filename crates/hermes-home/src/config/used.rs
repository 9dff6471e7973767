//! The settings that are understood and kept, and that nothing in this version reads.
//!
//! Invariant: whoever lets a setting take effect removes it here in the same commit, so that
//! `config set` promises no effect that does not come and hides none that does.

/// Settings without effect; a name stands for everything below it as well.
const WITHOUT_EFFECT: &[&str] = &[
    "agent.auto_recovery_cycles",
    "agent.budget_warning_ratio",
    "agent.clarify_timeout",
    "agent.gateway_timeout",
    "agent.image_input_mode",
    "agent.max_verify_nudges",
    "agent.reasoning_echo",
    "agent.reasoning_effort",
    "agent.run_budget_seconds",
    "agent.service_tier",
    "agent.session_stall_timeout",
    "agent.stream_drain_timeout",
    "agent.text_verbosity",
    "agent.verify_on_stop",
    "approvals.cron_mode",
    "approvals.denial_breaker_threshold",
    "approvals.destructive_slash_confirm",
    "approvals.mcp_reload_confirm",
    "approvals.mode",
    "approvals.single_query_mode",
    "approvals.smart_policy",
    "approvals.unattended_mode",
    "auxiliary",
    "command_allowlist",
    "compression",
    "context",
    "context_file_read_timeout",
    "delegation.api_key",
    "delegation.api_mode",
    "delegation.base_url",
    "delegation.compression_threshold_tokens",
    "delegation.inherit_mcp_toolsets",
    "delegation.max_spawn_depth",
    "delegation.model",
    "delegation.oneshot_max_children",
    "delegation.orchestrator_enabled",
    "delegation.provider",
    "delegation.reasoning_effort",
    "display.bell_on_complete",
    "display.busy_input_mode",
    "display.final_response_markdown",
    "display.inline_diffs",
    "display.interim_assistant_messages",
    "display.language",
    "display.memory_notifications",
    "display.personality",
    "display.reasoning_full",
    "display.resume_max_assistant_lines",
    "display.show_cost",
    "display.skin",
    "display.streaming",
    "display.timestamp_format",
    "display.timestamps",
    "display.tool_preview_length",
    "display.turn_summary",
    "mcp_servers",
    "memory.nudge_interval",
    "memory.prefetch_spill_enabled",
    "memory.provider",
    "personalities",
    "platform_hints",
    "plugins.auto_apply",
    "plugins.auto_update_check_hours",
    "prompt_caching",
    "quick_commands",
    "security.allow_private_urls",
    "security.protected_instruction_extra_patterns",
    "security.protected_instruction_files",
    "sessions.auto_archive",
    "sessions.auto_archive_days",
    "sessions.cjk_fts",
    "sessions.max_export_messages",
    "sessions.max_resume_messages",
    "sessions.min_vacuum_interval_days",
    "sessions.search_slow_ms",
    "sessions.show_subagents",
    "sessions.vacuum_after_prune",
    "skills.guard_agent_created",
    "skills.inline_shell",
    "skills.inline_shell_timeout",
    "skills.ledger",
    "skills.ledger_max_bytes",
    "skills.tier1_advisory",
    "skills.write_approval",
    "terminal.auto_source_bashrc",
    "terminal.backend",
    "terminal.home_mode",
    "terminal.persistent_shell",
    "terminal.shell_init_files",
    "terminal.temp_dir",
    "toolsets",
];

/// Whether this version reads a setting that it knows.
pub(crate) fn takes_effect(key: &str) -> bool {
    !WITHOUT_EFFECT.iter().any(|name| {
        key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn every_name_is_a_setting_and_stands_in_order() {
        let settings = Config::default().settings();
        for name in WITHOUT_EFFECT {
            let known = settings.iter().any(|setting| {
                setting
                    .key
                    .strip_prefix(name)
                    .is_some_and(|it| it.is_empty() || it.starts_with('.'))
            });
            assert!(known, "{name}");
        }
        assert!(WITHOUT_EFFECT.is_sorted());
    }

    #[test]
    fn a_name_covers_what_is_below_it_and_nothing_beside_it() {
        assert!(!takes_effect("sessions.auto_archive") && !takes_effect("context.engine"));
        assert!(takes_effect("sessions.auto_prune"));
        assert!(takes_effect("plugins.enabled") && takes_effect("hooks.pre_tool_call"));
        assert!(takes_effect("context_file_max_chars") && takes_effect("skills.disabled"));
        assert!(takes_effect("model.default") && takes_effect("approvals.deny"));
    }
}
