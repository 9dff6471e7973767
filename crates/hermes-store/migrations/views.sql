-- Views for plugins and scripts that read the file. They hold nothing, so they are no numbered step:
-- every migration drops them before its steps and makes them anew after.

CREATE VIEW sessions_resolved AS
SELECT
    s.*,
    (SELECT t.body FROM gen g JOIN text t ON t.digest = g.prompt
      WHERE g.session_no = s.session_no ORDER BY g.n DESC LIMIT 1) AS resolved_system_prompt,
    (SELECT t.body FROM gen g JOIN text t ON t.digest = g.tools
      WHERE g.session_no = s.session_no ORDER BY g.n DESC LIMIT 1) AS resolved_tools
FROM sessions s;

-- `content` holds what was said: text of user, model, tool, hint, skill, summary, steer and
-- reference parts. What the runtime put in (notice, capsule, memory, hook) shows in `api_content`.
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
           AND p.origin NOT IN (5, 6, 7, 9)
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
    (SELECT CASE WHEN max(p.origin IN (5, 6, 7, 9)) = 1
         THEN group_concat(p.value, char(10, 10)) END
     FROM (SELECT * FROM part p WHERE p.row_key = (r.session_no << 32) + r.seq
           AND p.kind = 0 AND p.standing = 0
           ORDER BY p.slot, p.key) p)
        AS api_content,
    CAST(NULL AS TEXT) AS display_kind,
    CAST(NULL AS TEXT) AS display_metadata,
    s.id || ':' || r.seq AS message_uid
FROM row r JOIN sessions s ON s.session_no = r.session_no;
