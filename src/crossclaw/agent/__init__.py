"""The agent: a view of the ledger, a model, tools, until there are words."""
