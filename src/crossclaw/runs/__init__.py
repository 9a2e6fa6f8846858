"""Runs: accepted once, executed in order, ended once, whatever crashes when."""

__all__ = [
    "approvals",
    "claiming",
    "context",
    "feed",
    "handling",
    "lanes",
    "lease",
    "neighbours",
    "roles",
    "run_store",
    "slots",
    "sweep",
    "waits",
]
