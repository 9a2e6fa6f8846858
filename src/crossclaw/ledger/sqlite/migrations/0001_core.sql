-- The whole schema of the house. The agent id is in every table, so that a distributed engine can
-- place whole agents. Times are milliseconds since 1970. JSON columns hold the domain's own types.

CREATE TABLE sessions (
    id              INTEGER PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    key             TEXT NOT NULL UNIQUE,
    session_id      TEXT NOT NULL UNIQUE,
    kind            TEXT NOT NULL,
    chat_type       TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    archived_at     INTEGER,
    channel         TEXT,
    display_name    TEXT,
    label           TEXT,
    spawned_by      TEXT,                          -- the parent's key
    authority       TEXT NOT NULL DEFAULT '{}',
    last_channel    TEXT,
    last_to         TEXT,
    last_account_id TEXT,
    last_thread_id  TEXT,
    model           TEXT,
    thinking        TEXT,
    verbose         TEXT,
    send_policy     TEXT,
    overrides       TEXT NOT NULL DEFAULT '{}',    -- what else sessions.patch may set
    input_tokens    INTEGER NOT NULL DEFAULT 0,
    output_tokens   INTEGER NOT NULL DEFAULT 0,
    total_tokens    INTEGER NOT NULL DEFAULT 0,
    context_tokens  INTEGER,
    cost_usd        REAL NOT NULL DEFAULT 0,
    compactions     INTEGER NOT NULL DEFAULT 0,
    system_sent     INTEGER NOT NULL DEFAULT 0,
    aborted_last_run INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sessions_newest ON sessions (updated_at DESC) WHERE archived_at IS NULL;
CREATE INDEX sessions_newest_of_agent ON sessions (agent_id, updated_at DESC) WHERE archived_at IS NULL;
CREATE INDEX sessions_children ON sessions (spawned_by, updated_at DESC) WHERE spawned_by IS NOT NULL;
CREATE INDEX sessions_label ON sessions (label, agent_id) WHERE label IS NOT NULL;

-- One row an epoch of a session: a reset begins a new one, the old one stays readable.
CREATE TABLE transcripts (
    session_id      TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    key             TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    closed_at       INTEGER,
    last_seq        INTEGER NOT NULL DEFAULT 0,
    exported_seq    INTEGER NOT NULL DEFAULT 0,
    exported_bytes  INTEGER NOT NULL DEFAULT 0,
    compressed_at   INTEGER
) WITHOUT ROWID;
CREATE INDEX transcripts_of_key ON transcripts (key, created_at);
CREATE INDEX transcripts_behind ON transcripts (session_id) WHERE exported_seq < last_seq;

CREATE TABLE entries (
    id              INTEGER PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    seq             INTEGER NOT NULL,
    entry_id        TEXT NOT NULL,
    run_id          TEXT,
    at              INTEGER NOT NULL,
    type            TEXT NOT NULL,
    role            TEXT,
    provenance      TEXT,                          -- kind of source; the whole is in the body
    source_session  TEXT,
    pinned          INTEGER NOT NULL DEFAULT 0,
    body            BLOB NOT NULL
);
CREATE UNIQUE INDEX entries_in_order ON entries (session_id, seq);

CREATE TABLE runs (
    id              INTEGER PRIMARY KEY,           -- the order within every lane
    agent_id        TEXT NOT NULL,
    run_id          TEXT NOT NULL UNIQUE,
    key             TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    kind            TEXT NOT NULL,
    status          TEXT NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 0,    -- claims since the last progress
    epoch           INTEGER NOT NULL DEFAULT 0,    -- all claims; the fence
    owner           TEXT,                          -- who runs it; NULL unless running or waiting
    plan            TEXT NOT NULL,
    authority       TEXT NOT NULL,
    cause           TEXT NOT NULL,
    hops            INTEGER NOT NULL DEFAULT 0,
    exchange_id     TEXT,
    account_id      TEXT,                          -- the budget it spends from
    created_at      INTEGER NOT NULL,
    started_at      INTEGER,
    ended_at        INTEGER,                       -- NULL while it is open
    reply           TEXT,
    error           TEXT
);
CREATE INDEX runs_open ON runs (key, id) WHERE ended_at IS NULL;
CREATE INDEX runs_taken ON runs (owner) WHERE owner IS NOT NULL;
CREATE INDEX runs_of_exchange ON runs (exchange_id) WHERE exchange_id IS NOT NULL;

-- Accepted and not yet in a transcript. A row leaves when its message has entered one.
CREATE TABLE inbox (
    run_id          TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    key             TEXT NOT NULL,
    at              INTEGER NOT NULL,
    message         BLOB NOT NULL,
    authority       TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE tool_calls (
    run_id          TEXT NOT NULL,
    tool_use_id     TEXT NOT NULL,
    agent_id        TEXT NOT NULL,
    name            TEXT NOT NULL,
    started_at      INTEGER NOT NULL,
    PRIMARY KEY (run_id, tool_use_id)
) WITHOUT ROWID;

CREATE TABLE waits (
    run_id          TEXT NOT NULL,
    target_run_id   TEXT NOT NULL,
    agent_id        TEXT NOT NULL,
    key             TEXT NOT NULL,
    target_key      TEXT NOT NULL,
    begun_at        INTEGER NOT NULL,
    PRIMARY KEY (run_id, target_run_id)
) WITHOUT ROWID;
CREATE INDEX waits_by_key ON waits (key);
CREATE INDEX waits_by_target ON waits (target_run_id);

-- A send and the rounds that follow it.
CREATE TABLE exchanges (
    exchange_id     TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    requester_key   TEXT,
    target_key      TEXT NOT NULL,
    run_id          TEXT NOT NULL UNIQUE,
    state           TEXT NOT NULL,
    turn            INTEGER NOT NULL DEFAULT 0,
    turns_max       INTEGER NOT NULL,
    request         TEXT NOT NULL,
    first_reply     TEXT,
    latest_reply    TEXT,
    announce        TEXT,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER
) WITHOUT ROWID;

-- A sub-agent: who asked for it, what it was to do, how it ended.
CREATE TABLE spawns (
    child_key       TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    parent_key      TEXT NOT NULL,
    run_id          TEXT NOT NULL UNIQUE,
    task            TEXT NOT NULL,
    label           TEXT,
    cleanup         TEXT NOT NULL,
    reply_to        TEXT,
    state           TEXT NOT NULL,
    outcome         TEXT,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    announced_at    INTEGER
) WITHOUT ROWID;
CREATE INDEX spawns_of_parent ON spawns (parent_key, created_at);

CREATE TABLE outbox (
    id              INTEGER PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    delivery_key    TEXT NOT NULL UNIQUE,
    key             TEXT NOT NULL,
    run_id          TEXT,
    channel         TEXT NOT NULL,
    account_id      TEXT,
    chat            TEXT NOT NULL,
    thread_id       TEXT,
    text            TEXT NOT NULL,
    state           TEXT NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 0,
    not_before      INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    platform_id     TEXT,
    error           TEXT,
    authority       TEXT NOT NULL
);
CREATE INDEX outbox_open ON outbox (id) WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_of_session ON outbox (key, id);

CREATE TABLE timers (
    timer_key       TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    kind            TEXT NOT NULL,
    due_at          INTEGER NOT NULL,
    payload         TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX timers_due ON timers (due_at);

CREATE TABLE jobs (
    job_id          TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    spec            TEXT NOT NULL,
    enabled         INTEGER NOT NULL,
    next_at         INTEGER,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX jobs_due ON jobs (next_at) WHERE enabled AND next_at IS NOT NULL;

-- One row a due tick: the primary key is why a tick runs once.
CREATE TABLE job_slots (
    job_id          TEXT NOT NULL,
    slot_at         INTEGER NOT NULL,
    agent_id        TEXT NOT NULL,
    run_id          TEXT,
    status          TEXT NOT NULL,
    summary         TEXT,
    ended_at        INTEGER,
    PRIMARY KEY (job_id, slot_at)
) WITHOUT ROWID;

CREATE TABLE dedupe (
    scope           TEXT NOT NULL,
    key             TEXT NOT NULL,
    agent_id        TEXT NOT NULL,
    digest          TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    at              INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE INDEX dedupe_age ON dedupe (at);

-- What a run and all it causes may spend, has reserved and has spent.
CREATE TABLE accounts (
    account_id      TEXT PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    parent_id       TEXT,
    tokens_max      INTEGER,
    tokens_reserved INTEGER NOT NULL DEFAULT 0,
    tokens_spent    INTEGER NOT NULL DEFAULT 0,
    cost_max        REAL,
    cost_reserved   REAL NOT NULL DEFAULT 0,
    cost_spent      REAL NOT NULL DEFAULT 0,
    ends_at         INTEGER
) WITHOUT ROWID;

-- Only digests of secrets; the epoch ends what an older one began.
CREATE TABLE credentials (
    credential_id   TEXT PRIMARY KEY,
    agent_id        TEXT,
    kind            TEXT NOT NULL,
    subject         TEXT NOT NULL,
    digest          TEXT NOT NULL,
    role            TEXT NOT NULL,
    scopes          TEXT NOT NULL,
    epoch           INTEGER NOT NULL DEFAULT 1,
    created_at      INTEGER NOT NULL,
    used_at         INTEGER,
    revoked_at      INTEGER,
    details         TEXT NOT NULL DEFAULT '{}'
) WITHOUT ROWID;
CREATE INDEX credentials_of_subject ON credentials (subject, kind);

CREATE TABLE audit (
    id              INTEGER PRIMARY KEY,
    at              INTEGER NOT NULL,
    agent_id        TEXT NOT NULL,
    principal       TEXT NOT NULL,
    action          TEXT NOT NULL,
    target          TEXT NOT NULL,
    allowed         INTEGER NOT NULL,
    reason          TEXT NOT NULL
);
CREATE INDEX audit_age ON audit (at);
