"""What the fake services know about their own models.

A table of its own, on purpose: were it the gateway's catalogue, a wrong row there would agree with itself.
Read 2026-11-15 from platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting and the models'
pages, and from developers.openai.com/api/docs/guides/latest-model and deployment-checklist.
"""

import re
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")

_FIVE = frozenset({"low", "medium", "high", "xhigh", "max"})
_THREE = frozenset({"low", "medium", "high"})
_FOUR = _THREE | {"xhigh"}


class Claude(NamedTuple):
    output: int
    types: frozenset[str]
    """The allowed values of `thinking.type`."""
    unasked: bool
    """Whether it thinks by default."""
    efforts: frozenset[str] = frozenset()
    binds: bool = False


class Gpt(NamedTuple):
    output: int
    efforts: frozenset[str]
    unasked: bool
    chat_tools: str = "yes"


_UNKNOWN_CLAUDE = Claude(8_192, frozenset({"enabled", "disabled"}), unasked=False)
_UNKNOWN_GPT = Gpt(16_384, frozenset(), unasked=False)

CLAUDES: dict[str, Claude] = {
    "claude-3-7-sonnet": Claude(64_000, frozenset({"enabled", "disabled"}), unasked=False),
    "claude-opus-4": Claude(32_000, frozenset({"enabled", "disabled"}), unasked=False),
    "claude-sonnet-4-5": Claude(64_000, frozenset({"enabled", "disabled"}), unasked=False),
    "claude-haiku-4-5": Claude(64_000, frozenset({"enabled", "disabled"}), unasked=False),
    "claude-opus-4-6": Claude(
        128_000, frozenset({"adaptive", "enabled", "disabled"}), False, _THREE | {"max"}
    ),
    "claude-sonnet-4-6": Claude(
        64_000, frozenset({"adaptive", "enabled", "disabled"}), False, _THREE
    ),
    "claude-opus-4-7": Claude(128_000, frozenset({"adaptive", "disabled"}), False, _FIVE),
    "claude-opus-4-8": Claude(128_000, frozenset({"adaptive", "disabled"}), False, _FIVE),
    "claude-opus-5": Claude(128_000, frozenset({"adaptive", "disabled"}), True, _FIVE),
    "claude-sonnet-5": Claude(128_000, frozenset({"adaptive", "disabled"}), True, _FIVE),
    "claude-fable-5": Claude(128_000, frozenset({"adaptive"}), True, _FIVE),
    "claude-fable-5-1": Claude(128_000, frozenset({"adaptive"}), True, _FIVE, binds=True),
    "claude-opus-5-5": Claude(128_000, frozenset({"adaptive"}), True, _FIVE, binds=True),
    "claude-sonnet-5-5": Claude(
        128_000, frozenset({"adaptive", "between_tools"}), True, _FIVE, binds=True
    ),
    "claude-haiku-5-5": Claude(
        128_000, frozenset({"adaptive", "disabled"}), True, _FIVE, binds=True
    ),
}

GPTS: dict[str, Gpt] = {
    "gpt-4o": Gpt(16_384, frozenset(), unasked=False),
    "gpt-4.1": Gpt(32_768, frozenset(), unasked=False),
    "o3": Gpt(100_000, _THREE, unasked=True),
    "o4-mini": Gpt(100_000, _THREE, unasked=True),
    "gpt-5": Gpt(128_000, _THREE | {"minimal"}, unasked=True),
    "gpt-5.1": Gpt(128_000, _THREE | {"none"}, unasked=True),
    "gpt-5.4": Gpt(128_000, _FOUR | {"none"}, True, "unthinking"),
    "gpt-5.5": Gpt(128_000, _FOUR | {"none"}, True, "unthinking"),
    "gpt-5.6": Gpt(128_000, _FIVE | {"none"}, True, "unthinking"),
    "gpt-6-sol": Gpt(128_000, _FIVE | {"none"}, True, "unthinking"),
    "gpt-6-luna": Gpt(128_000, _FIVE | {"none"}, True, "unthinking"),
    "gpt-6-astra": Gpt(128_000, _FIVE, True, "no"),
    "gpt-6.1-sol": Gpt(128_000, _FIVE | {"none"}, True, "no"),
}


def claude(model: str) -> Claude | None:
    """The facts of a Claude; None for servers that imitate the service with models of their own."""
    found = re.search(r"claude-[a-z0-9-]+", model)
    if not found:
        return None
    name = re.sub(r"-\d{8}$", "", found[0])
    return _longest(CLAUDES, name) or _UNKNOWN_CLAUDE


def gpt(model: str) -> Gpt:
    return _longest(GPTS, model) or _UNKNOWN_GPT


def _longest(table: dict[str, _T], name: str) -> _T | None:
    starts = [start for start in table if name.startswith(start)]
    return table[max(starts, key=len)] if starts else None
