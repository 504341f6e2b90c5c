-- Times are nanoseconds since 1970, UTC; NULL is no time. There is no way down:
-- an older reaperd refuses a newer state.

-- +goose Up
CREATE TABLE pulses (
    provider    TEXT NOT NULL,
    id          TEXT NOT NULL,
    revision    TEXT NOT NULL,
    first_seen  INTEGER,
    last_seen   INTEGER,
    state       TEXT NOT NULL,
    state_since INTEGER,
    up_since    INTEGER,
    last_beat   INTEGER,
    told        TEXT, -- JSON list of texts; NULL: nothing
    PRIMARY KEY (provider, id, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
    id             INTEGER PRIMARY KEY AUTOINCREMENT, -- pages count on it never being used again
    provider       TEXT NOT NULL,
    kind           TEXT NOT NULL,
    sandbox_id     TEXT NOT NULL,
    instance_id    TEXT NOT NULL,
    name           TEXT NOT NULL,
    image          TEXT NOT NULL,
    revision       TEXT NOT NULL,
    tags           TEXT, -- JSON object of texts; NULL: not told
    policy         TEXT NOT NULL,
    reason         TEXT NOT NULL,
    action         TEXT NOT NULL,
    ordered_by     TEXT NOT NULL,
    due            INTEGER,
    begun          INTEGER NOT NULL,
    ended          INTEGER, -- NULL: an intent, not resolved yet
    outcome        TEXT NOT NULL,
    error          TEXT NOT NULL,
    uptime_seconds REAL NOT NULL,
    cost_dollars   REAL NOT NULL,
    attempt        INTEGER NOT NULL
) STRICT;

CREATE INDEX history_unresolved ON history (provider) WHERE ended IS NULL;
CREATE INDEX history_begun ON history (begun);
CREATE INDEX history_sandbox_id ON history (sandbox_id);
CREATE INDEX history_instance_id ON history (instance_id);
CREATE INDEX history_name ON history (name);

CREATE TABLE protections (
    provider     TEXT NOT NULL,
    id           TEXT NOT NULL,
    revision     TEXT NOT NULL,
    protected_by TEXT NOT NULL,
    why          TEXT NOT NULL,
    since        INTEGER,
    until        INTEGER,
    PRIMARY KEY (provider, id)
) STRICT, WITHOUT ROWID;

-- Each time that an earlier file was damaged and set aside.
CREATE TABLE losses (
    lost_at  INTEGER,
    aside    TEXT NOT NULL,
    accepted INTEGER NOT NULL DEFAULT 0
) STRICT;
