-- Whether a group is answered always or when it mentions us, where somebody has said so in it.
ALTER TABLE sessions ADD COLUMN group_activation TEXT;

-- Who asks to talk to a chat account directly, and who may; and what was said in groups before somebody called us.
CREATE TABLE pairing_requests (
    channel         TEXT NOT NULL,
    account_id      TEXT NOT NULL,
    sender          TEXT NOT NULL,
    code            TEXT NOT NULL UNIQUE,
    sender_name     TEXT,
    created_at      INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    PRIMARY KEY (channel, account_id, sender)
) WITHOUT ROWID;

CREATE TABLE paired_senders (
    channel         TEXT NOT NULL,
    account_id      TEXT NOT NULL,
    sender          TEXT NOT NULL,
    sender_name     TEXT,
    approved_at     INTEGER NOT NULL,
    approved_by     TEXT NOT NULL,
    PRIMARY KEY (channel, account_id, sender)
) WITHOUT ROWID;

CREATE TABLE heard_messages (
    id              INTEGER PRIMARY KEY,
    channel         TEXT NOT NULL,
    account_id      TEXT NOT NULL,
    chat            TEXT NOT NULL,
    thread_id       TEXT NOT NULL,
    message_id      TEXT NOT NULL,
    sender          TEXT NOT NULL,
    sender_name     TEXT,
    text            TEXT NOT NULL,
    at              INTEGER NOT NULL,
    UNIQUE (channel, account_id, chat, thread_id, message_id)
);
