"""sessions.explain: why something between two sessions is allowed or not. An addition of ours."""

from typing import Any

from crossclaw.door.registry import Method
from crossclaw.sessions.explain import Explaining, ExplainParams, ExplainResult


def explain_methods(explaining: Explaining) -> list[Method[Any]]:
    return [
        Method(
            name="sessions.explain",
            params=ExplainParams,
            result=ExplainResult,
            scope="operator.read",
            effect="read",
            handle=explaining.explain,
            summary="Whether one session may see, read, send to, spawn or deliver to another, and why. "
            "Ours, not OpenClaw's.",
        )
    ]
