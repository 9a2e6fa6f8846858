-- How far each transcript of another store has come in. Written in the step that stores its entries,
-- so an import that was cut off goes on where it stopped, and one that is done changes nothing.
CREATE TABLE imports (
    session_id      TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    path            TEXT NOT NULL,
    size            INTEGER NOT NULL DEFAULT 0,    -- of the file, when it was last read to its end
    bytes           INTEGER NOT NULL DEFAULT 0,    -- read so far
    lines           INTEGER NOT NULL DEFAULT 0,
    entries         INTEGER NOT NULL DEFAULT 0,
    at              INTEGER NOT NULL
) WITHOUT ROWID;
