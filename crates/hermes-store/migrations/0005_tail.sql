-- Rows enter the search index some time after they are committed. `indexed_through` is the highest
-- id of a row that is in it; the few rows above it are searched by themselves. What is there when
-- this step runs is in the index already.
INSERT OR REPLACE INTO state_meta (key, value)
SELECT 'indexed_through', ifnull(max(id), 0) FROM row;
