-- The search index. `rowid` is session_no * 2^32 + seq of the row; seq 0 stands for the session's
-- title. The tokens are made in Rust (`search/tokens.rs`), so the index keeps no text: `t` are the
-- words in order, `w` the things that hold several words. What was said is in `talk_index`; what
-- tools returned, tool calls and loaded documents are in `tool_index`, searched only when asked
-- for.
CREATE VIRTUAL TABLE talk_index USING fts5(
    t, w, content='', contentless_delete=1,
    tokenize="ascii tokenchars '!#$%&*+,-./:;<=>?@[\]^_{|}~`'"
);
CREATE VIRTUAL TABLE tool_index USING fts5(
    t, w, content='', contentless_delete=1,
    tokenize="ascii tokenchars '!#$%&*+,-./:;<=>?@[\]^_{|}~`'"
);
