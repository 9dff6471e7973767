-- Schema version 1.
--
-- The truth is in `row`, `part`, `gen`, `text`, `blob`, `manifest`, `wire_profile` and `request`.
-- `sessions` is a real table and `messages` a view: both keep the names, columns and types that
-- programs written for Hermes Agent read. Columns below "own" are this project's.
--
-- Times are microseconds since the epoch, but for the epoch-second REALs of `sessions` and
-- `messages`. Digests are the 32 raw bytes. A session is `session_no` inside the file and its id
-- everywhere else; numbers are never used again.

CREATE TABLE sessions (
    id TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    created_source TEXT,
    user_id TEXT,
    session_key TEXT,
    chat_id TEXT,
    chat_type TEXT,
    thread_id TEXT,
    display_name TEXT,
    origin_json TEXT,
    expiry_finalized INTEGER DEFAULT 0,
    model TEXT,
    model_config TEXT,
    system_prompt TEXT,
    system_prompt_hash TEXT,
    parent_session_id TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT,
    message_count INTEGER DEFAULT 0,
    tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    cwd TEXT,
    git_branch TEXT,
    git_repo_root TEXT,
    git_metadata_generation INTEGER NOT NULL DEFAULT 0,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    cost_status TEXT,
    cost_source TEXT,
    pricing_version TEXT,
    title TEXT,
    title_source TEXT,
    last_activity_at REAL,
    last_activity_description TEXT,
    last_activity_provenance TEXT,
    api_call_count INTEGER DEFAULT 0,
    handoff_state TEXT,
    handoff_platform TEXT,
    handoff_error TEXT,
    compression_failure_cooldown_until REAL,
    compression_failure_error TEXT,
    compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
    compression_ineffective_count INTEGER NOT NULL DEFAULT 0,
    compression_overload_streak INTEGER NOT NULL DEFAULT 0,
    compression_recovery_deadline REAL,
    profile_name TEXT,
    transport_profile TEXT,
    rewind_count INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    auto_archived INTEGER NOT NULL DEFAULT 0,
    pinned INTEGER NOT NULL DEFAULT 0,
    hidden INTEGER NOT NULL DEFAULT 0,
    last_read_at REAL,
    tool_names TEXT,
    -- own
    session_no INTEGER PRIMARY KEY AUTOINCREMENT,
    lane TEXT,
    parent_kind TEXT,                       -- compaction, delegate, branch, reset
    compactions INTEGER NOT NULL DEFAULT 0,
    op_reach INTEGER NOT NULL DEFAULT 0,    -- highest seq that any operation names
    cut_reach INTEGER NOT NULL DEFAULT 0    -- highest cut of any request
);
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id)
    WHERE parent_session_id IS NOT NULL;
CREATE INDEX idx_sessions_activity ON sessions(last_activity_at);
CREATE INDEX idx_sessions_lane ON sessions(lane, last_activity_at) WHERE lane IS NOT NULL;

-- A message. Immutable but for the two flags and, for a summary, its id. The id goes up in steps
-- of 1024 in the order in which rows come; the 1023 ids after a row belong to its session, so that
-- a summary takes one below its tail.
CREATE TABLE row (
    id INTEGER PRIMARY KEY,
    session_no INTEGER NOT NULL REFERENCES sessions(session_no),
    seq INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    role INTEGER NOT NULL,                  -- 0 system, 1 user, 2 assistant, 3 tool
    standing INTEGER NOT NULL,              -- 0 in order, 1 brought in by an operation
    status INTEGER NOT NULL,                -- 0 complete, 1 interrupted, 2 failed
    active INTEGER NOT NULL,
    compacted INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    call_id TEXT,
    tool_name TEXT,
    finish_reason TEXT
);
CREATE UNIQUE INDEX row_seq ON row(session_no, seq);

-- A piece of a message. `key` is session_no * 2^32 + seq, `row_key` the same of its row, so that a
-- session's parts lie together and one range reads them.
CREATE TABLE part (
    key INTEGER PRIMARY KEY,
    row_key INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    standing INTEGER NOT NULL,
    kind INTEGER NOT NULL,                  -- 0 text, 1 reasoning, 2 raw field, 3 tool call, 4 blob
    created_at INTEGER,                     -- NULL: when its row was
    label TEXT,
    name TEXT,                              -- field, tool or media type
    ref,                                    -- call id, or size of a blob
    value                                   -- text, raw JSON, arguments, or digest of a blob
);
CREATE INDEX part_row ON part(row_key);

CREATE TABLE gen (
    session_no INTEGER NOT NULL REFERENCES sessions(session_no),
    n INTEGER NOT NULL,
    parent INTEGER,
    cause TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    prompt BLOB NOT NULL,
    tools BLOB NOT NULL,
    ops TEXT NOT NULL,
    PRIMARY KEY (session_no, n)
) WITHOUT ROWID;

CREATE TABLE manifest (
    session_no INTEGER NOT NULL REFERENCES sessions(session_no),
    n INTEGER NOT NULL,
    blocks BLOB NOT NULL,                   -- JSON, zstd
    UNIQUE (session_no, n)
);

-- Prompts and tool arrays, each once; `text_use` says which sessions keep one alive.
CREATE TABLE text (
    text_no INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    body TEXT NOT NULL
);
CREATE TABLE text_use (
    session_no INTEGER NOT NULL REFERENCES sessions(session_no),
    text_no INTEGER NOT NULL REFERENCES text(text_no),
    PRIMARY KEY (session_no, text_no)
) WITHOUT ROWID;
CREATE INDEX text_use_text ON text_use(text_no);

CREATE TABLE blob (
    blob_no INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    media_type TEXT NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE blob_use (
    session_no INTEGER NOT NULL REFERENCES sessions(session_no),
    blob_no INTEGER NOT NULL REFERENCES blob(blob_no),
    PRIMARY KEY (session_no, blob_no)
) WITHOUT ROWID;
CREATE INDEX blob_use_blob ON blob_use(blob_no);

CREATE TABLE wire_profile (
    digest BLOB PRIMARY KEY,
    json TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE learned_profile (
    endpoint TEXT PRIMARY KEY,
    digest BLOB NOT NULL REFERENCES wire_profile(digest),
    learned_at INTEGER NOT NULL
) WITHOUT ROWID;

-- The ledger: one row an attempt. It outlives its session, so it refers to none by foreign key;
-- the id of a deleted session is in `tombstone`.
CREATE TABLE request (
    request_no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session_no INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    retries TEXT,
    task TEXT NOT NULL,
    wire TEXT NOT NULL,
    provider TEXT NOT NULL,
    base_url TEXT NOT NULL,
    model TEXT NOT NULL,
    params TEXT NOT NULL,
    prompt BLOB NOT NULL,
    tools BLOB NOT NULL,
    history BLOB NOT NULL,
    body BLOB NOT NULL,
    body_bytes INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    cut INTEGER NOT NULL,
    compactions INTEGER NOT NULL,
    wire_profile BLOB NOT NULL,
    renderer INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    outcome TEXT,                           -- NULL while it runs, or if its process died
    first_byte_at INTEGER,
    ended_at INTEGER,
    http_status INTEGER,
    error_class TEXT,
    error TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cache_read_tokens INTEGER,
    cache_write_tokens INTEGER,
    reasoning_tokens INTEGER,
    served_model TEXT,
    finish_reason TEXT,
    response INTEGER
);
CREATE INDEX request_session ON request(session_no, id);

-- Bodies that are no function of stored rows; deleted with the session.
CREATE TABLE body (
    request_no INTEGER PRIMARY KEY REFERENCES request(request_no),
    bytes BLOB NOT NULL                     -- zstd
);

-- Events that must be heard, written in the transaction that makes them true.
CREATE TABLE outbox (
    event_no INTEGER PRIMARY KEY AUTOINCREMENT,
    event TEXT NOT NULL,
    session_id TEXT NOT NULL,
    payload TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    lease_token TEXT,
    lease_expires INTEGER,
    delivered_at INTEGER
);
CREATE INDEX outbox_pending ON outbox(event_no) WHERE delivered_at IS NULL;

-- Who holds a session. The row stays when the lease is given back, for its epoch.
CREATE TABLE lease (
    session_no INTEGER PRIMARY KEY REFERENCES sessions(session_no),
    epoch INTEGER NOT NULL,
    token TEXT,
    host TEXT,
    pid INTEGER,
    since INTEGER,
    expires INTEGER
);

-- Side files and drafts already taken in, so that a crash before their removal repeats nothing.
CREATE TABLE intake (
    token TEXT PRIMARY KEY,
    session_no INTEGER NOT NULL,
    frames INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tombstone (
    session_no INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    root_id TEXT NOT NULL,                  -- the session whose deletion took this one along
    parent_session_id TEXT,
    parent_kind TEXT,
    source TEXT NOT NULL,
    rows INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    content_digest BLOB NOT NULL,
    UNIQUE (session_id, epoch)
);

CREATE TABLE receipt (
    receipt_no INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL,
    request_digest BLOB NOT NULL,
    epochs TEXT NOT NULL,                   -- deletion epoch of each session asked for, JSON
    created_at INTEGER NOT NULL,
    json TEXT NOT NULL
);
CREATE INDEX receipt_request ON receipt(request_id);

CREATE TABLE state_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
