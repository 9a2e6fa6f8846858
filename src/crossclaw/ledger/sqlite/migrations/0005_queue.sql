-- Messages that came while their session was busy: when a batch of them may begin, and which run
-- answers a message that got none of its own.
ALTER TABLE runs ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN merged_into TEXT;
CREATE INDEX runs_merged ON runs (merged_into) WHERE merged_into IS NOT NULL AND ended_at IS NULL;
ALTER TABLE sessions ADD COLUMN queue_mode TEXT;
