-- Tool calls that need a person's yes: what is to be run exactly as it is shown, and the one answer.
CREATE TABLE approvals (
    id              INTEGER PRIMARY KEY,
    approval_id     TEXT NOT NULL UNIQUE,
    run_id          TEXT NOT NULL,
    tool_use_id     TEXT NOT NULL,
    agent_id        TEXT NOT NULL,
    key             TEXT NOT NULL,
    wish            TEXT NOT NULL,                 -- JSON
    agents          TEXT NOT NULL,                 -- JSON: for whom it would be allowed for good
    authority       TEXT NOT NULL,                 -- of the run
    asked_at        INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    status          TEXT NOT NULL,                 -- waiting, allow-once, allow-always, deny, timeout, withdrawn
    answered_at     INTEGER,
    answered_by     TEXT,
    makers          TEXT NOT NULL,                 -- JSON: the credentials that the answer came by
    UNIQUE (run_id, tool_use_id)
);
CREATE INDEX approvals_waiting ON approvals (run_id) WHERE status = 'waiting';
CREATE INDEX approvals_of_session ON approvals (key);

-- What was allowed for good, each for one agent, and rules that came with an import.
CREATE TABLE grants (
    id              INTEGER PRIMARY KEY,
    grant_id        TEXT NOT NULL UNIQUE,
    agent_id        TEXT NOT NULL,
    tool            TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    program         TEXT,
    pattern         INTEGER NOT NULL,
    arguments       TEXT,                          -- JSON; NULL: whatever they are
    digest          TEXT,
    rule            TEXT,                          -- JSON: security and ask
    granted_by      TEXT NOT NULL,
    makers          TEXT NOT NULL                  -- JSON
);
CREATE INDEX grants_of ON grants (agent_id, created_at);
