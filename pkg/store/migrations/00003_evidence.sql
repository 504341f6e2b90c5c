-- +goose Up
ALTER TABLE history ADD COLUMN evidence TEXT; -- JSON object; NULL: none was asked for, or to be had

-- An entry that may have been written already is not written twice.
CREATE UNIQUE INDEX history_once ON history (provider, sandbox_id, revision, begun);
