-- Views for plugins and scripts that read the file. They hold nothing, so they are no numbered step:
-- every migration drops them before its steps and makes them anew after.

-- Every prompt and tool array under its digest, as `system_prompt_hash` and `tool_names` name them.
CREATE VIEW system_prompts AS
SELECT lower(hex(digest)) AS hash, body AS prompt FROM text;

CREATE VIEW sessions_resolved AS
SELECT
    s.id, s.source, s.created_source, s.user_id, s.session_key, s.chat_id, s.chat_type, s.thread_id,
    s.display_name, s.origin_json, s.expiry_finalized, s.model, s.model_config,
    s.system_prompt_hash, s.parent_session_id, s.started_at, s.ended_at, s.end_reason,
    s.message_count, s.tool_call_count, s.input_tokens, s.output_tokens, s.cache_read_tokens,
    s.cache_write_tokens, s.reasoning_tokens, s.cwd, s.git_branch, s.git_repo_root,
    s.git_metadata_generation, s.billing_provider, s.billing_base_url, s.billing_mode,
    s.estimated_cost_usd, s.actual_cost_usd, s.cost_status, s.cost_source, s.pricing_version,
    s.title, s.title_source, s.last_activity_at, s.last_activity_description,
    s.last_activity_provenance, s.api_call_count, s.handoff_state, s.handoff_platform,
    s.handoff_error, s.compression_failure_cooldown_until, s.compression_failure_error,
    s.compression_fallback_streak, s.compression_ineffective_count, s.compression_overload_streak,
    s.compression_recovery_deadline, s.profile_name, s.transport_profile, s.rewind_count,
    s.archived, s.auto_archived, s.pinned, s.hidden, s.last_read_at, s.tool_names, s.session_no,
    s.lane, s.parent_kind, s.compactions, s.op_reach, s.cut_reach,
    (SELECT t.body FROM gen g JOIN text t ON t.digest = g.prompt
      WHERE g.session_no = s.session_no ORDER BY g.n DESC LIMIT 1) AS system_prompt,
    (SELECT t.body FROM gen g JOIN text t ON t.digest = g.prompt
      WHERE g.session_no = s.session_no ORDER BY g.n DESC LIMIT 1) AS resolved_system_prompt,
    (SELECT t.body FROM gen g JOIN text t ON t.digest = g.tools
      WHERE g.session_no = s.session_no ORDER BY g.n DESC LIMIT 1) AS resolved_tools
FROM sessions s;

-- `content` holds what was said: text of user, model, tool, hint, skill, summary, steer and
-- reference parts, and what a plugin answered in the model's place. What the runtime or a plugin put in
-- beside it (notice, capsule, memory, hook) shows in `api_content`.
-- Aggregates run over ordered sub-selects, because ORDER BY inside an aggregate needs SQLite 3.44 and
-- other programs read this view with what their system has.
CREATE VIEW messages AS
SELECT
    r.id AS id,
    s.id AS session_id,
    CASE r.role WHEN 0 THEN 'system' WHEN 1 THEN 'user' WHEN 2 THEN 'assistant' ELSE 'tool' END
        AS role,
    (SELECT CASE
         WHEN max(p.kind) = 4 THEN char(0) || 'json:' || json_group_array(
             CASE p.kind
                 WHEN 4 THEN json_object(
                     'type', 'image_url',
                     'image_url', json_object('url', 'blob:sha256:' || lower(hex(p.value))),
                     'media_type', p.name, 'bytes', p.ref)
                 ELSE json_object('type', 'text', 'text', p.value)
             END)
         WHEN substr(CAST(group_concat(p.value, char(10, 10)) AS BLOB), 1, 6)
              = x'006a736f6e3a'
         THEN char(0) || 'json:'
              || json_quote(group_concat(p.value, char(10, 10)))
         ELSE group_concat(p.value, char(10, 10))
     END
     FROM (SELECT * FROM part p WHERE p.row_key = (r.session_no << 32) + r.seq
           AND p.kind IN (0, 4) AND p.standing = 0
           AND (p.origin NOT IN (5, 6, 7, 9) OR (p.origin = 5 AND r.role = 2))
           ORDER BY p.slot, p.key) p) AS content,
    r.call_id AS tool_call_id,
    (SELECT nullif(json_group_array(
         json_object('id', p.ref, 'type', 'function',
                     'function', json_object('name', p.name, 'arguments', p.value))), '[]')
     FROM (SELECT * FROM part p WHERE p.row_key = (r.session_no << 32) + r.seq
           AND p.kind = 3 AND p.standing = 0
           ORDER BY p.slot, p.key) p)
        AS tool_calls,
    r.tool_name AS tool_name,
    CASE WHEN r.role = 3 AND r.status = 1 THEN 'unknown' END AS effect_disposition,
    r.created_at / 1000000.0 AS timestamp,
    CAST(NULL AS INTEGER) AS token_count,
    r.finish_reason AS finish_reason,
    (SELECT group_concat(p.value, char(10, 10))
     FROM (SELECT * FROM part p WHERE p.row_key = (r.session_no << 32) + r.seq
           AND p.kind = 1 AND p.standing = 0
           ORDER BY p.slot, p.key) p)
        AS reasoning,
    (SELECT group_concat(p.value, char(10, 10))
     FROM (SELECT * FROM part p WHERE p.row_key = (r.session_no << 32) + r.seq
           AND p.kind = 1 AND p.standing = 0
           AND p.name = 'reasoning_content'
           ORDER BY p.slot, p.key) p) AS reasoning_content,
    (SELECT p.value FROM part p
     WHERE p.row_key = (r.session_no << 32) + r.seq AND p.kind = 2 AND p.standing = 0
       AND p.name = 'reasoning_details' ORDER BY p.slot, p.key LIMIT 1) AS reasoning_details,
    (SELECT p.value FROM part p
     WHERE p.row_key = (r.session_no << 32) + r.seq AND p.kind = 2 AND p.standing = 0
       AND p.name = 'codex_reasoning_items' ORDER BY p.slot, p.key LIMIT 1)
        AS codex_reasoning_items,
    (SELECT p.value FROM part p
     WHERE p.row_key = (r.session_no << 32) + r.seq AND p.kind = 2 AND p.standing = 0
       AND p.name = 'codex_message_items' ORDER BY p.slot, p.key LIMIT 1) AS codex_message_items,
    CAST(NULL AS TEXT) AS platform_message_id,
    0 AS observed,
    r.standing AS _compressed_summary,
    r.active AS active,
    r.compacted AS compacted,
    (SELECT CASE WHEN max(p.origin IN (6, 7, 9) OR (p.origin = 5 AND r.role <> 2)) = 1
         THEN group_concat(p.value, char(10, 10)) END
     FROM (SELECT * FROM part p WHERE p.row_key = (r.session_no << 32) + r.seq
           AND p.kind = 0 AND p.standing = 0
           ORDER BY p.slot, p.key) p)
        AS api_content,
    CAST(NULL AS TEXT) AS display_kind,
    CAST(NULL AS TEXT) AS display_metadata,
    s.id || ':' || r.seq AS message_uid
FROM row r JOIN sessions s ON s.session_no = r.session_no;
