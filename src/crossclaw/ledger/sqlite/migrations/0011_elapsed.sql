-- When the gateway last looked around: what the wall clock says beyond the time that has really passed since
-- then is no reason to put anything away.
CREATE TABLE marks (
    name            TEXT PRIMARY KEY,
    at              INTEGER NOT NULL
) WITHOUT ROWID;
