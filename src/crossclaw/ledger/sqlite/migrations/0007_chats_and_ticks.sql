-- Whether somebody named the chat: then its kind is known only as far as its name or a session tells.
ALTER TABLE outbox ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
UPDATE outbox SET named = 1 WHERE run_id IS NULL AND state IN ('pending', 'sending');

-- Ticks under way are few among all that are kept; they are counted for every job that is due.
CREATE INDEX ticks_running ON job_slots (run_id) WHERE status = 'running';

-- The rest of what `/queue` says for one session.
ALTER TABLE sessions ADD COLUMN queue_debounce_ms INTEGER;
ALTER TABLE sessions ADD COLUMN queue_cap INTEGER;
ALTER TABLE sessions ADD COLUMN queue_drop TEXT;
