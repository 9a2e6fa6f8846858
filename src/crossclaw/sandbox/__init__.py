"""Sandbox: where a session's files are and its programs run."""

__all__ = [
    "bubblewrap",
    "contract",
    "environment",
    "files",
    "host",
    "masked",
    "places",
    "programs",
    "quota",
    "resolving",
]
