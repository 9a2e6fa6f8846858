"""The agent: a view of the ledger, a model, tools, until there are words."""

__all__ = [
    "compaction",
    "describing",
    "execute",
    "flushing",
    "history",
    "loop",
    "meter",
    "origin",
    "permission",
    "pictures",
    "prompt",
    "run_setup",
    "summary",
    "toolbox",
]
