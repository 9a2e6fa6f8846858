"""Answer limits: how many tokens an answer may take, thinking included.

On every service thinking counts against the limit of the answer. A limit that leaves no room for it
brings an empty answer that was paid for; one that is never reached costs nothing.
"""

from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.models import ModelFacts
from crossclaw.providers.contract import THINKING_TOKENS, ModelRequest

_FREE: dict[ThinkingLevel, int] = {
    "off": 12_000,  # for models that cannot stop thinking
    "minimal": 12_000,
    "low": 16_000,
    "medium": 32_000,
    "high": 48_000,
    "xhigh": 64_000,
}
"""Tokens for models that decide themselves how much they think: what they were seen to take, and
half as much again."""

MORE = 4
MORE_LEAST = 32_000
"""The least tokens to think after an answer that was cut before its first word."""


def thinking_tokens(facts: ModelFacts, level: ThinkingLevel, *, more: bool = False) -> int:
    """Tokens that thinking may take beside the text."""
    room = _usual_room(facts, level)
    if more:
        room = max(room * MORE, MORE_LEAST)
    return room


def _usual_room(facts: ModelFacts, level: ThinkingLevel) -> int:
    if level == "off":
        return _FREE["off"] if facts.always_thinks else 0
    if facts.thinking in ("effort", "level"):
        return _FREE[level]
    if facts.thinking == "none":
        return 0
    return THINKING_TOKENS[level]


def answer_limit(request: ModelRequest, facts: ModelFacts) -> int:
    """The limit to send. If a model cannot write so much, the text keeps its share first."""
    wanted = request.output_tokens_max + thinking_tokens(
        facts, request.thinking, more=request.more_room
    )
    return min(wanted, facts.output) if facts.output else wanted


def thinking_budget(request: ModelRequest, facts: ModelFacts) -> int:
    """The thinking budget for models that take a number: less than the limit, at least what the
    services accept."""
    limit = answer_limit(request, facts)
    return max(1_024, min(THINKING_TOKENS[request.thinking], limit - 1_024))
