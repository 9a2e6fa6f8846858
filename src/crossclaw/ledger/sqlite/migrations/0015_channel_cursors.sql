-- How far each account of a chat platform has read there: an offset, a token to go on with.
CREATE TABLE channel_cursors (
    channel         TEXT NOT NULL,
    account_id      TEXT NOT NULL,
    name            TEXT NOT NULL,
    value           TEXT NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (channel, account_id, name)
) WITHOUT ROWID;
