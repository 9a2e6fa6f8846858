"""Transcripts: a copy for people of what the ledger stores, one JSONL file for each session id."""

__all__ = [
    "exporter",
    "foreign",
    "jsonl",
]
