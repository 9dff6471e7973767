-- Capsules: what a session hands to the next one in its conversation, and what became of each.
--
-- The state is decided here alone. `body` is the text as it was written, kept while the capsule is
-- pending; once it is delivered, the text is a part of the row that received it.
CREATE TABLE capsule (
    capsule_no INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    lane TEXT,                              -- NULL: handed on by its id alone
    session_id TEXT NOT NULL,               -- the session that it is about
    from_seq INTEGER NOT NULL,
    to_seq INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body TEXT,
    facts TEXT NOT NULL,                    -- JSON of whoever built it
    status TEXT NOT NULL,
    reason TEXT,
    confidential INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    published INTEGER NOT NULL DEFAULT 0,   -- 1: its files were written at least once
    state TEXT NOT NULL,                    -- pending, delivered, expired, discarded, superseded
    settled_at INTEGER,
    settled_why TEXT,
    taken_by TEXT,                          -- the session that received it
    taken_row INTEGER,
    taken_digest BLOB                       -- of the text as delivered; differs after an edit
);
CREATE UNIQUE INDEX capsule_pending ON capsule(lane) WHERE state = 'pending';
CREATE INDEX capsule_session ON capsule(session_id);
