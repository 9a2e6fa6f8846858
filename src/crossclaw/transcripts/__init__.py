"""Transcripts: the people's copy of what the ledger holds, one JSONL file a session id."""

__all__ = [
    "exporter",
    "foreign",
    "jsonl",
]
