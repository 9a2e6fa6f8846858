-- How many runs one root cause has brought about: a person's message, a tick, a hook, a guest, a node.
-- What an open exchange or an open spawn may still begin is added up from their own rows, so nothing
-- has to be given back, and nothing is left reserved by a crash.
CREATE TABLE cascades (
    root            TEXT PRIMARY KEY,              -- the first run
    agent_id        TEXT NOT NULL,                 -- of the run counted last
    runs            INTEGER NOT NULL,              -- the first one included
    at              INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX cascades_age ON cascades (at);

ALTER TABLE exchanges ADD COLUMN root TEXT;
CREATE INDEX exchanges_of_root ON exchanges (root) WHERE state = 'open';

ALTER TABLE spawns ADD COLUMN root TEXT;
ALTER TABLE spawns ADD COLUMN wakes INTEGER NOT NULL DEFAULT 1; -- whether its report may begin a run of the parent
CREATE INDEX spawns_of_root ON spawns (root) WHERE state <> 'over';
CREATE INDEX spawns_living ON spawns (parent_key) WHERE state <> 'over';

-- Cascades that are under way while the store is brought up to date begin their count with what is open.
UPDATE exchanges SET root = coalesce(
    (SELECT cause ->> '$.chain[0]' FROM runs WHERE runs.run_id = exchanges.run_id AND json_valid(cause)), run_id)
    WHERE state = 'open';
UPDATE spawns SET root = coalesce(
    (SELECT cause ->> '$.chain[0]' FROM runs WHERE runs.run_id = spawns.run_id AND json_valid(cause)), run_id)
    WHERE state <> 'over';
