-- A reply that is longer than one message of its platform is sent in pieces, each of which arrives once.
ALTER TABLE outbox ADD COLUMN tried_at INTEGER;

CREATE TABLE delivery_pieces (
    delivery_id     INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    count           INTEGER NOT NULL,
    text            TEXT NOT NULL,
    formatted       TEXT NOT NULL,
    state           TEXT NOT NULL,
    tried_at        INTEGER,
    platform_id     TEXT,
    PRIMARY KEY (delivery_id, number)
) WITHOUT ROWID;
