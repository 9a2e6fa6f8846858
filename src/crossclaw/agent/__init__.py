"""The agent: a view of the ledger, a model, tools, until there are words."""

__all__ = [
    "before_asking",
    "compaction",
    "execute",
    "flushing",
    "history",
    "loop",
    "meter",
    "origin",
    "permission",
    "prompt",
    "run_setup",
    "session_files",
    "summary",
    "toolbox",
    "transcribing",
    "workspace",
]
