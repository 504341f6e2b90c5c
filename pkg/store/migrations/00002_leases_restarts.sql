-- +goose Up
CREATE TABLE leases (
    key        TEXT PRIMARY KEY,
    ttl        INTEGER NOT NULL, -- nanoseconds
    created    INTEGER,
    renewed    INTEGER,
    released   INTEGER,
    forgotten  INTEGER,
    changed_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How often the engine itself had restarted it, and since when it ran, both at
-- its last sight.
ALTER TABLE pulses ADD COLUMN restarts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pulses ADD COLUMN started INTEGER;
