-- Words of every entry, in the transaction that appends it. The texts themselves stay in `entries`.
CREATE VIRTUAL TABLE entries_words USING fts5 (
    words,
    content = '',
    contentless_delete = 1,
    tokenize = "unicode61 remove_diacritics 2"
);
