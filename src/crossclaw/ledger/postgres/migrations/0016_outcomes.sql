-- How the last run of a session ended, so that a list of sessions can say it without reading their runs.
ALTER TABLE sessions ADD COLUMN last_run_id TEXT COLLATE "C";
ALTER TABLE sessions ADD COLUMN last_status TEXT COLLATE "C";
ALTER TABLE sessions ADD COLUMN last_error TEXT COLLATE "C";
CREATE INDEX sessions_in_trouble ON sessions (updated_at DESC)
    WHERE last_status IN ('error', 'timeout') AND archived_at IS NULL;
UPDATE sessions SET (last_run_id, last_status, last_error) = (newest.run_id, newest.status, substr(newest.error, 1, 400))
    FROM (SELECT DISTINCT ON (key) key, run_id, status, error FROM runs
          WHERE ended_at IS NOT NULL AND kind <> 'command' AND NOT (kind IN ('announce', 'compact') AND status = 'ok')
          ORDER BY key, id DESC) AS newest
    WHERE sessions.key = newest.key;

-- The run that began it all, of every run that followed from another: all that one message led to is found by it.
ALTER TABLE runs ADD COLUMN root TEXT COLLATE "C";
UPDATE runs SET root = (cause::jsonb -> 'chain' ->> 0) WHERE cause LIKE '{%';
CREATE INDEX runs_of_root ON runs (root, id) WHERE root IS NOT NULL;

-- Replies that did not arrive, or of which nobody knows.
CREATE INDEX outbox_in_trouble ON outbox (updated_at) WHERE state IN ('uncertain', 'failed');

-- What a person has put out of sight in the list of what needs attention.
CREATE TABLE dismissals (
    name            TEXT COLLATE "C" PRIMARY KEY,
    agent_id        TEXT COLLATE "C" NOT NULL,
    at              BIGINT NOT NULL
);
CREATE INDEX dismissals_age ON dismissals (at);
