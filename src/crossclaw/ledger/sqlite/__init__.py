"""The ledger on SQLite: one writer that commits in groups, readers beside it."""
