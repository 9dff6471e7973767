-- Attempts at compacting a session, those that came to nothing included, and what the session
-- remembers about them (cooldown, passes that did not help). What is in `log` and `state` is known
-- to the crate that compacts.
CREATE TABLE compaction (
    session_no INTEGER NOT NULL,
    no INTEGER NOT NULL,                    -- 1, 2, 3 ... in the session
    at INTEGER NOT NULL,
    generation INTEGER,                     -- the one it made; NULL: it came to nothing
    log TEXT NOT NULL,
    PRIMARY KEY (session_no, no)
) WITHOUT ROWID;
CREATE TABLE compaction_state (
    session_no INTEGER PRIMARY KEY,
    state TEXT NOT NULL
);
