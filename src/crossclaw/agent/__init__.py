"""The agent: shows a model the session's history, runs its tool calls, until it answers in
words."""

__all__ = [
    "compaction",
    "execute",
    "flushing",
    "history",
    "loop",
    "meter",
    "origin",
    "permission",
    "prompt",
    "request_preparation",
    "run_setup",
    "session_files",
    "summary",
    "toolbox",
    "transcribing",
    "workspace",
]
