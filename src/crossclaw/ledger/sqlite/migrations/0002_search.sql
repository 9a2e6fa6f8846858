-- Words of every entry, in the transaction that appends it. The texts themselves stay in `entries`;
-- automatic merging is off because the writer merges when it has nothing else to do.
CREATE VIRTUAL TABLE entries_words USING fts5 (
    words,
    content = '',
    contentless_delete = 1,
    tokenize = "unicode61 remove_diacritics 2"
);
