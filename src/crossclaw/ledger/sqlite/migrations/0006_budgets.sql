-- What a model call under way may take (a run makes one at a time), on its run's account and on those around it. A row counts
-- only while its run still holds the claim it was made under, so nothing is left behind by a crash.
CREATE TABLE reservations (
    account_id      TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    agent_id        TEXT NOT NULL,
    epoch           INTEGER NOT NULL,
    tokens          INTEGER NOT NULL,
    cost            REAL NOT NULL,
    PRIMARY KEY (account_id, run_id)
) WITHOUT ROWID;
CREATE INDEX reservations_of_run ON reservations (run_id);
CREATE INDEX runs_on_account ON runs (key, id) WHERE account_id IS NOT NULL;

-- Sums that a crash could falsify; the rows above are added up instead.
ALTER TABLE accounts DROP COLUMN tokens_reserved;
ALTER TABLE accounts DROP COLUMN cost_reserved;
