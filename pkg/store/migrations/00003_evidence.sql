-- +goose Up
ALTER TABLE history ADD COLUMN evidence TEXT; -- JSON object; NULL: none was asked for, or to be had

-- By which clock the times of a row are: the run of the machine, and what its wall
-- clock showed at the start of that. NULL: nobody can say.
ALTER TABLE pulses ADD COLUMN boot TEXT;
ALTER TABLE pulses ADD COLUMN zero INTEGER;
ALTER TABLE leases ADD COLUMN boot TEXT;
ALTER TABLE leases ADD COLUMN zero INTEGER;

-- An entry that may have been written already is not written twice.
CREATE UNIQUE INDEX history_once ON history (provider, sandbox_id, revision, begun);
