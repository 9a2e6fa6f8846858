-- Words of every entry, in the transaction that appends it. The texts themselves stay in `entries`.
CREATE TABLE entries_words (
    id              BIGINT PRIMARY KEY,
    words           TSVECTOR NOT NULL
);
CREATE INDEX entries_words_in ON entries_words USING gin (words);
