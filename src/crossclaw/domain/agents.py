"""Agents are named by a short id that is safe in keys, paths and URLs."""

import re
from typing import Literal
from unicodedata import combining, normalize

DEFAULT_AGENT_ID = "main"
AGENTS_REMEMBERED = 1_024  # with what was found out about each; far more than anybody configures
AGENT_ID_CHARS_MAX = 64  # it becomes a folder name; the longest that every file system takes easily

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]

_WELL_FORMED = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_FOREIGN = re.compile(r"[^a-z0-9_-]+")


def normalize_agent_id(text: str) -> str:
    """The one spelling of an agent's id. An empty one means the default agent."""
    lowered = text.strip().lower()
    if _WELL_FORMED.fullmatch(lowered):
        return lowered
    cleaned = _FOREIGN.sub("-", lowered).lstrip("-_")[:AGENT_ID_CHARS_MAX]
    return cleaned.rstrip("-") or DEFAULT_AGENT_ID


def suggest_agent_id(text: str) -> str | None:
    """An id that reads like the text: `ünï` is `uni`. None if no letter of it can stand in an id."""
    plain = normalize("NFKD", text.replace("ß", "ss"))
    cleaned = _FOREIGN.sub("-", "".join(c for c in plain if not combining(c)).lower())
    return cleaned.strip("-_")[:AGENT_ID_CHARS_MAX].rstrip("-_") or None


def is_agent_id(text: str) -> bool:
    return _WELL_FORMED.fullmatch(text) is not None
