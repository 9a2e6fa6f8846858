"""Agents are named by a short id that is safe in keys, paths and URLs."""

import re
from typing import Literal

DEFAULT_AGENT_ID = "main"
AGENT_ID_CHARS_MAX = 64  # it becomes a folder name; the longest that every file system takes easily

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]

_WELL_FORMED = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_FOREIGN = re.compile(r"[^a-z0-9_-]+")


def normalize_agent_id(text: str) -> str:
    """The one spelling of an agent's id. Whatever is left empty is the default agent."""
    lowered = text.strip().lower()
    if _WELL_FORMED.fullmatch(lowered):
        return lowered
    cleaned = _FOREIGN.sub("-", lowered).lstrip("-_")[:AGENT_ID_CHARS_MAX]
    return cleaned.rstrip("-") or DEFAULT_AGENT_ID


def is_agent_id(text: str) -> bool:
    return _WELL_FORMED.fullmatch(text) is not None
