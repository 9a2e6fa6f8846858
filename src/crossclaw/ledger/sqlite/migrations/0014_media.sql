-- Pictures and files that people and tools have sent: once each, by what they are. Messages name them by their hash.
CREATE TABLE media (
    id              INTEGER PRIMARY KEY,
    sha256          TEXT NOT NULL UNIQUE,
    media_type      TEXT NOT NULL,                 -- as the first who sent it said
    size            INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    data            BLOB NOT NULL
);

-- Who names them: a transcript (its session id), a message that waits (`run:` and its run's id), a delivery.
-- What nobody names any more is removed with its last name.
CREATE TABLE media_uses (
    id              INTEGER PRIMARY KEY,
    agent_id        TEXT NOT NULL,
    holder          TEXT NOT NULL,
    sha256          TEXT NOT NULL,
    UNIQUE (holder, sha256)
);
CREATE INDEX media_uses_of ON media_uses (sha256);

-- What a model has said about a picture, for models that cannot look at it: nobody pays for it twice.
CREATE TABLE media_words (
    sha256          TEXT PRIMARY KEY,
    words           TEXT NOT NULL,
    model           TEXT NOT NULL,
    at              INTEGER NOT NULL
) WITHOUT ROWID;
