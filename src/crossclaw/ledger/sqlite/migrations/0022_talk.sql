-- What a reply answers and which files go with it; and messages that show a reply while it is written.
ALTER TABLE outbox ADD COLUMN reply_to TEXT;
ALTER TABLE outbox ADD COLUMN files TEXT;
ALTER TABLE delivery_pieces ADD COLUMN file INTEGER;

CREATE TABLE delivery_previews (
    delivery_key    TEXT PRIMARY KEY,
    platform_id     TEXT,
    tried_at        INTEGER NOT NULL
) WITHOUT ROWID;

-- The next message of one chat, without a look at all the others.
CREATE INDEX outbox_of_chat ON outbox (channel, chat, id) WHERE state IN ('pending', 'sending');
