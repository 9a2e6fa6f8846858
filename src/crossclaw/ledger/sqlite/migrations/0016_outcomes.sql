-- How the last run of a session ended, so that a list of sessions can say it without reading their runs.
ALTER TABLE sessions ADD COLUMN last_run_id TEXT;
ALTER TABLE sessions ADD COLUMN last_status TEXT;
ALTER TABLE sessions ADD COLUMN last_error TEXT;
CREATE INDEX sessions_in_trouble ON sessions (updated_at DESC)
    WHERE last_status IN ('error', 'timeout') AND archived_at IS NULL;
UPDATE sessions SET (last_run_id, last_status, last_error) = (newest.run_id, newest.status, substr(newest.error, 1, 400))
    FROM (SELECT key, max(id), run_id, status, error FROM runs
          WHERE ended_at IS NOT NULL AND kind <> 'command' AND NOT (kind IN ('announce', 'compact') AND status = 'ok')
          GROUP BY key) AS newest
    WHERE sessions.key = newest.key;

-- The run that began it all, of every run that followed from another: all that one message led to is found by it.
ALTER TABLE runs ADD COLUMN root TEXT;
UPDATE runs SET root = cause ->> '$.chain[0]' WHERE json_valid(cause);
CREATE INDEX runs_of_root ON runs (root, id) WHERE root IS NOT NULL;

-- Replies that did not arrive, or of which nobody knows.
CREATE INDEX outbox_in_trouble ON outbox (updated_at) WHERE state IN ('uncertain', 'failed');

-- What a person has put out of sight in the list of what needs attention.
CREATE TABLE dismissals (
    name            TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    at              INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX dismissals_age ON dismissals (at);
