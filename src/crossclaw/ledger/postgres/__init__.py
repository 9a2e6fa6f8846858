"""The ledger on PostgreSQL: the same rules, driven over the network."""
