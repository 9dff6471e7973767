//! The sections that are plain lists of settings. Names and defaults are the original's, except
//! where a comment says otherwise.

use super::read::section;

section! {
    /// The agent loop.
    AgentConfig {
        /// Most model calls in one turn; a built-in limit if unset.
        max_turns: Option<u32> = None,
        /// Seconds one run may take.
        run_budget_seconds: Option<f64> = None,
        /// Share of the budget at which the model is warned.
        budget_warning_ratio: Option<f64> = None,
        /// Further attempts at one model call after the first, where it failed for a passing reason.
        api_max_retries: u32 = 3,
        /// Further rounds after all attempts failed.
        auto_recovery_cycles: u32 = 5,
        /// Seconds to wait for the end of a stream that was stopped.
        stream_drain_timeout: f64 = 2.0,
        /// Seconds to wait for an answer to a question.
        clarify_timeout: u64 = 3600,
        /// Seconds without a sign of life after which a turn counts as stalled.
        session_stall_timeout: u64 = 300,
        /// Seconds without data after which a stream of a local model counts as dead.
        local_stream_stale_timeout: u64 = 900,
        /// Seconds a turn at the gateway may take.
        gateway_timeout: u64 = 1800,
        /// How much a reasoning model thinks; empty for its default. (No default in the original's
        /// list.)
        reasoning_effort: String = String::new(),
        /// Whether reasoning is sent back.
        reasoning_echo: bool = false,
        /// `auto`, or whether the model is urged to use its tools.
        tool_use_enforcement: String = "auto".to_owned(),
        /// `auto`, or whether guidance on execution is given.
        execution_guidance: String = "auto".to_owned(),
        /// Whether the prompt speaks of finishing tasks.
        task_completion_guidance: bool = true,
        /// Whether the prompt speaks of parallel tool calls.
        parallel_tool_call_guidance: bool = true,
        /// Whether the prompt speaks of checking results.
        verify_guidance: bool = true,
        /// Most reminders to check.
        max_verify_nudges: u32 = 3,
        /// Whether results are checked before stopping.
        verify_on_stop: bool = false,
        /// Whether the prompt describes the machine.
        environment_probe: bool = true,
        /// The person's own description of the machine.
        environment_hint: String = String::new(),
        /// `auto`, or whether project files are loaded.
        coding_context: String = "auto".to_owned(),
        /// Instructions for work on code.
        coding_instructions: String = String::new(),
        /// How images reach the model.
        image_input_mode: String = "auto".to_owned(),
        /// Groups of tools that are switched off.
        disabled_toolsets: Vec<String> = Vec::new(),
        /// Service tier asked for; empty for none.
        service_tier: String = String::new(),
        /// Verbosity asked for; empty for none.
        text_verbosity: String = String::new(),
    }
    foreign: [
        "agent_cache", "bot_mode_protocol", "build_wait_timeout", "cron_drain_timeout",
        "empty_response_guard", "fast_auto_seconds", "gateway_auto_continue_freshness",
        "gateway_notify_interval", "gateway_startup_restore_drain_timeout",
        "gateway_startup_warmup_timeout", "gateway_timeout_warning", "gateway_turn_lease_timeout",
        "intent_ack_continuation", "reasoning_overrides", "reconnect_attention_after",
        "restart_after_turn_timeout", "restart_drain_timeout",
        "sanitizer_heal_escalation_threshold", "stall_guards", "turn_liveness",
    ]
}

section! {
    /// Where and how commands run.
    TerminalConfig {
        /// Only `local` exists here.
        backend: String = "local".to_owned(),
        /// The working directory; `.` for the one the program was started in.
        cwd: String = ".".to_owned(),
        /// Where temporary files go; empty for the system's place.
        temp_dir: String = String::new(),
        /// Seconds a command may take.
        timeout: u64 = 180,
        /// Seconds between asking a process to end and ending it.
        daemon_term_grace_seconds: f64 = 2.0,
        /// Variables that commands may see although they look like secrets.
        env_passthrough: Vec<String> = Vec::new(),
        /// Which home folder commands see.
        home_mode: String = "auto".to_owned(),
        /// Files read by the shell first.
        shell_init_files: Vec<String> = Vec::new(),
        /// Whether the person's shell start-up file is read.
        auto_source_bashrc: bool = true,
        /// Whether the working directory and variables last between commands.
        persistent_shell: bool = true,
    }
    foreign: [
        "container_cpu", "container_disk", "container_memory", "container_persistent",
        "daytona_image", "degraded_mode", "docker_env", "docker_extra_args", "docker_forward_env",
        "docker_image", "docker_mount_cwd_to_workspace", "docker_network",
        "docker_run_as_host_user", "docker_shared_container_key", "docker_shm_size",
        "docker_snap_compat", "docker_volumes", "font_family", "modal_image", "modal_mode",
        "oneshot_completion_wait_seconds", "singularity_image", "sync_back_max_bytes",
        "vercel_image", "vercel_runtime",
    ]
}

section! {
    /// Memory and user profile.
    MemoryConfig {
        /// Whether the agent has a memory.
        memory_enabled: bool = true,
        /// Whether it keeps a profile of the person.
        user_profile_enabled: bool = true,
        /// Whether what did not fit is offered on request.
        prefetch_spill_enabled: bool = false,
        /// Whether writing needs the person's consent.
        write_approval: bool = false,
        /// Most characters of the memory.
        memory_char_limit: usize = 2200,
        /// Most characters of the profile.
        user_char_limit: usize = 1375,
        /// Turns between reminders to remember; 0 for none.
        nudge_interval: u32 = 10,
        /// A memory provider; empty for the built-in files.
        provider: String = String::new(),
    }
    foreign: []
}

section! {
    /// Looks. A value that is not understood warns and leaves the default.
    DisplayConfig {
        /// Fewer lines.
        compact: bool = false,
        /// The personality in use.
        personality: String = String::new(),
        /// What of a resumed session is shown.
        resume_display: String = "full".to_owned(),
        /// How many exchanges of a resumed session are shown.
        resume_exchanges: usize = 10,
        /// Most characters of a person's message shown on resume.
        resume_max_user_chars: usize = 300,
        /// Most characters of an answer shown on resume.
        resume_max_assistant_chars: usize = 200,
        /// Most lines of an answer shown on resume.
        resume_max_assistant_lines: usize = 3,
        /// What typing during a turn does.
        busy_input_mode: String = "interrupt".to_owned(),
        /// Whether reasoning is shown.
        show_reasoning: bool = true,
        /// Whether it is shown in full.
        reasoning_full: bool = false,
        /// Whether answers are shown as they come. (Off in the original; unset leaves it to the
        /// surface.)
        streaming: Option<bool> = None,
        /// Whether times are shown.
        timestamps: bool = false,
        /// How.
        timestamp_format: String = "%H:%M".to_owned(),
        /// What is done with Markdown in answers.
        final_response_markdown: String = "strip".to_owned(),
        /// Whether what the model says between tool calls is shown.
        interim_assistant_messages: bool = true,
        /// Whether changes to files are shown as differences.
        inline_diffs: bool = true,
        /// Whether writes to memory are told.
        memory_notifications: String = "on".to_owned(),
        /// Whether a turn ends with a line of figures.
        turn_summary: bool = true,
        /// Most characters of a tool call shown; 0 for all.
        tool_preview_length: usize = 0,
        /// Whether costs are shown.
        show_cost: bool = false,
        /// Whether the bell rings when a turn is done.
        bell_on_complete: bool = false,
        /// Colours.
        skin: String = "default".to_owned(),
        /// Language of the surface.
        language: String = "en".to_owned(),
        /// Vi keys in the line editor.
        vim_mode: bool = false,
    }
    foreign: [
        "background_process_notifications", "battery", "bell_on_prompt", "busy_steer_ack_enabled",
        "cli_multiline_shortcuts", "cli_rebuild_scrollback_on_redraw", "cli_refresh_interval",
        "copy_shortcut", "credits_notices", "ephemeral_system_ttl", "file_mutation_verifier",
        "focus_saved_tool_progress", "focus_view", "friendly_tool_labels", "interface",
        "persist_prompts", "persistent_output", "persistent_output_max_lines", "pet", "platforms",
        "reasoning_style", "resume_last_session", "resume_skip_tool_only", "runtime_footer",
        "show_commentary", "spinner_token_flow", "status_bar", "status_phrases",
        "suppress_warning_notifications", "tool_progress", "tool_progress_command",
        "tool_progress_grouping", "tui_agents_nudge", "tui_auto_resume_recent", "tui_native",
        "tui_status_indicator", "turn_completion_explainer", "user_message_preview",
    ]
}

section! {
    /// Limits of a tool result.
    ToolOutputConfig {
        /// Most bytes.
        max_bytes: usize = 50_000,
        /// Most lines.
        max_lines: usize = 2000,
        /// Most characters in a line.
        max_line_length: usize = 2000,
    }
    foreign: []
}

section! {
    /// Skills.
    SkillsConfig {
        /// Further folders to look in.
        external_dirs: Vec<String> = Vec::new(),
        /// Where new skills are written; empty for the home's folder.
        create_dir: String = String::new(),
        /// Whether a project's own skills are found.
        project_discovery: bool = true,
        /// Projects whose skills are trusted.
        trusted_project_dirs: Vec<String> = Vec::new(),
        /// Skills that are loaded in every session.
        auto_load: Vec<String> = Vec::new(),
        /// Whether variables in skills are replaced.
        template_vars: bool = true,
        /// Whether commands in skills run.
        inline_shell: bool = false,
        /// Seconds such a command may take.
        inline_shell_timeout: u64 = 10,
        /// Whether skills that the agent wrote are scanned.
        guard_agent_created: bool = false,
        /// Whether the prompt advises to look at skills.
        tier1_advisory: bool = true,
        /// Whether writing needs the person's consent.
        write_approval: bool = false,
        /// Whether uses are counted.
        ledger: bool = true,
        /// Most bytes of that count.
        ledger_max_bytes: u64 = 5 * 1024 * 1024,
        /// Skills that are switched off. (No default in the original's list.)
        disabled: Vec<String> = Vec::new(),
    }
    foreign: ["config", "platform_disabled"]
}

section! {
    /// Delegated tasks.
    DelegationConfig {
        /// The model; empty for the session's.
        model: String = String::new(),
        /// Its provider.
        provider: String = String::new(),
        /// Its address.
        base_url: String = String::new(),
        /// Its key.
        api_key: Option<secrecy::SecretString> = None,
        /// Its protocol.
        api_mode: String = String::new(),
        /// Most model calls of one task.
        max_iterations: u32 = 250,
        /// Most characters of its report.
        max_summary_chars: usize = 24_000,
        /// Seconds it may take; 0 for no limit.
        child_timeout_seconds: u64 = 0,
        /// How much it thinks.
        reasoning_effort: String = String::new(),
        /// Most tasks at once.
        max_concurrent_children: usize = 10,
        /// How deep tasks may delegate.
        max_spawn_depth: u32 = 1,
        /// Whether tasks that only delegate exist.
        orchestrator_enabled: bool = true,
        /// Most tasks in a one-shot run.
        oneshot_max_children: usize = 2,
        /// Whether commands of tasks run unasked.
        subagent_auto_approve: bool = false,
        /// Whether tasks have the MCP tools.
        inherit_mcp_toolsets: bool = true,
        /// Tokens at which a task's history is compacted; 0 for the session's rule.
        compression_threshold_tokens: u64 = 0,
    }
    foreign: [
        "fallback_providers", "independent_completions", "request_overrides",
        "surface_child_process_notifications",
    ]
}

section! {
    /// Compaction.
    CompressionConfig {
        /// Whether histories are compacted.
        enabled: bool = true,
        /// Share of the context window at which that happens.
        threshold: f64 = 0.5,
        /// Tokens at which that happens, if fewer.
        threshold_tokens: Option<u64> = None,
        /// Share of the threshold that is kept word for word.
        target_ratio: f64 = 0.2,
        /// How the kept tail is chosen.
        tail_mode: String = "lean".to_owned(),
        /// Messages at the end that are always kept.
        protect_last_n: usize = 20,
        /// Messages at the start that are always kept.
        protect_first_n: usize = 3,
        /// Messages of the person in the kept tail, at least.
        min_tail_user_messages: usize = 1,
        /// Attempts at one summary.
        max_attempts: u32 = 3,
        /// What follows a failed summary: `abort` leaves the history as it is, `fallback` puts
        /// one together without a model; empty for what `abort_on_summary_failure` says.
        on_failure: String = String::new(),
        /// Whether a failed summary leaves the history as it is.
        abort_on_summary_failure: bool = false,
        /// Whether the session goes on under its id.
        in_place: bool = true,
        /// Whether a checkpoint must exist first.
        checkpoint_required: bool = false,
        /// Whether progress is told.
        progress_notices: bool = false,
        /// Seconds one summary may take.
        context_timeout_seconds: u64 = 120,
        /// Seconds all attempts may take.
        context_total_ceiling_seconds: u64 = 600,
        /// Tokens above which long tool results are cut early; 0 for never.
        proactive_prune_tokens: u64 = 0,
        /// Characters from which a result counts as long.
        proactive_prune_min_result_chars: usize = 8000,
        /// Tokens that must be won by it.
        proactive_prune_min_reclaim_tokens: u64 = 4096,
        /// Whether single turns are summarised.
        micro_compact: bool = false,
        /// How often.
        micro_compact_every_n_turns: u32 = 1,
        /// Tokens of such summaries from which they are joined.
        micro_compact_defrag_threshold_tokens: u64 = 2000,
        /// Seconds of quiet after which a history is compacted; 0 for never.
        idle_compact_after_seconds: u64 = 0,
        /// Messages above which a history is compacted in any case.
        hygiene_hard_message_limit: usize = 5000,
        /// Seconds such a compaction may take.
        hygiene_timeout_seconds: u64 = 30,
        /// Seconds all its attempts may take.
        hygiene_total_ceiling_seconds: u64 = 600,
        /// Seconds until it is tried again after a failure.
        hygiene_failure_cooldown_seconds: u64 = 300,
        /// Seconds it may hold up a turn.
        hygiene_max_turn_hold_seconds: u64 = 10,
    }
    foreign: [
        "codex_app_server_auto", "codex_gpt55_autoraise", "codex_gpt55_autoraise_notice",
        "codex_responses_compact_threshold", "codex_responses_native", "model_thresholds",
    ]
}

section! {
    /// The context engine.
    ContextConfig {
        /// `compressor` is the built-in one.
        engine: String = "compressor".to_owned(),
    }
    foreign: ["memory_trim"]
}

section! {
    /// The provider's prefix cache.
    PromptCachingConfig {
        /// How long a marked prefix is kept: `5m` or `1h`.
        cache_ttl: String = "5m".to_owned(),
    }
    foreign: []
}

section! {
    /// Safety.
    SecurityConfig {
        /// Whether secrets are masked in logs, exports and what observers receive.
        redact_secrets: bool = true,
        /// Whether tools may fetch addresses of private networks.
        allow_private_urls: bool = false,
        /// Whether files that instruct the agent are protected from its own writes.
        protected_instruction_files: bool = true,
        /// Further such files.
        protected_instruction_extra_patterns: Vec<String> = Vec::new(),
    }
    foreign: [
        "acked_advisories", "allow_data_training_tiers_noninteractive", "allow_lazy_installs",
        "approval", "fake_ip_ranges", "website_blocklist",
    ]
}

section! {
    /// Keeping and listing sessions.
    SessionsConfig {
        /// Whether old sessions are removed by themselves. (The original does; here nothing is
        /// deleted that nobody asked for.)
        auto_prune: bool = false,
        /// Days without use after which.
        retention_days: u32 = 90,
        /// Whether quiet sessions are archived.
        auto_archive: bool = false,
        /// Days after which.
        auto_archive_days: u32 = 3,
        /// Whether sessions of delegated tasks are listed.
        show_subagents: bool = false,
        /// Whether space is given back after removal.
        vacuum_after_prune: bool = true,
        /// Days between that, at least.
        min_vacuum_interval_days: u32 = 30,
        /// Hours between maintenance runs, at least.
        min_interval_hours: u32 = 24,
        /// Whether Chinese, Japanese and Korean text is searched by its characters.
        cjk_fts: bool = true,
        /// Milliseconds from which a search is told to be slow.
        search_slow_ms: u64 = 1000,
        /// Most messages of a session that is resumed.
        max_resume_messages: usize = 20_000,
        /// Most messages of an export.
        max_export_messages: usize = 20_000,
    }
    foreign: ["fts_optimize_notice"]
}

section! {
    /// The process that runs Python plugins.
    PluginHostConfig {
        /// The command that starts it; empty for the interpreter that is found.
        launcher: Vec<String> = Vec::new(),
    }
    foreign: []
}

section! {
    /// Plugins.
    PluginsConfig {
        /// Plugins that are switched on. (No default in the original's list.)
        enabled: Vec<String> = Vec::new(),
        /// Plugins that are switched off. (No default in the original's list.)
        disabled: Vec<String> = Vec::new(),
        /// Settings and grants by plugin. (No default in the original's list.)
        entries: crate::yaml::Datum = crate::yaml::Datum::Map(Vec::new()),
        /// Seconds the callbacks of one event may take.
        hook_callback_timeout: f64 = 30.0,
        /// Seconds loading a plugin may take.
        load_timeout_seconds: f64 = 10.0,
        /// Seconds fetching a plugin may take.
        clone_timeout_seconds: f64 = 300.0,
        /// Hours between looks for updates.
        auto_update_check_hours: f64 = 24.0,
        /// Whether updates are installed unasked.
        auto_apply: bool = false,
        /// How plugins are kept apart.
        isolation: String = "in_process".to_owned(),
        /// The host process.
        host: PluginHostConfig = PluginHostConfig::default(),
    }
    foreign: []
}

section! {
    /// Handing over between sessions.
    HandoffConfig {
        /// Whether the session is closed once its capsule is written.
        close: bool = true,
        /// Whether a capsule is given to the next session.
        inject: bool = true,
        /// Whether turns that must survive word for word are marked first.
        prepass: bool = false,
        /// Compactions of a session from which on a handoff is due; 0 for never. (No default in
        /// the original's list.)
        after_compactions: u32 = 0,
        /// `handoff`: a compaction that came to nothing makes a handoff due; empty for nothing.
        /// (No default in the original's list.)
        on_compaction_failure: String = String::new(),
        /// Whether a handoff that is due is proposed (`propose`) or done (`do`). (No default in
        /// the original's list.)
        when_due: String = "propose".to_owned(),
    }
    foreign: []
}
