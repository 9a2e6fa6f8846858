-- What each tool of an MCP server said of itself when it was first seen, or when the owner agreed to another text.
-- What it says now, where that is something else, waits beside it.
CREATE TABLE agreed_tools (
    server          TEXT NOT NULL,
    tool            TEXT NOT NULL,
    digest          TEXT NOT NULL,
    words           TEXT NOT NULL,
    seen_at         INTEGER NOT NULL,
    new_digest      TEXT,
    new_words       TEXT,
    PRIMARY KEY (server, tool)
) WITHOUT ROWID;
CREATE INDEX agreed_tools_held ON agreed_tools (server) WHERE new_digest IS NOT NULL;
