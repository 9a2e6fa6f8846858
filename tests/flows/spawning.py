"""A model that spawns, works and announces, and short ways to see what became of it."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse, UserMessage
from crossclaw.domain.spawns import Spawn
from crossclaw.providers.contract import ModelRequest, TellPiece, UserTurn
from crossclaw.testing import ScriptedProvider, instructions_of

MAIN = SessionKey.main("main")
Answer = str | list[ToolUse] | Exception | Callable[[ModelRequest], Any]


class Family(ScriptedProvider):
    """Only the child takes its time."""

    child_s = 0.0

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        if "You are a sub-agent" in instructions_of(request):
            await anyio.sleep(self.child_s)
        return await super().complete(request, tell)


def family(
    work: Answer = "forty-two",
    announce: Answer = "Result: it is 42\nNotes: quick",
    arguments: dict[str, Any] | None = None,
    child_s: float = 0.0,
) -> ScriptedProvider:
    """The parent spawns when it is told `go`; the child works; then it is asked to announce."""

    def answer(request: ModelRequest) -> Any:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        words = [block.text for block in last.content if isinstance(block, Text)]
        if "reported to your parent" in instructions_of(request):
            return announce(request) if callable(announce) else announce
        if "You are a sub-agent" in instructions_of(request):
            return work(request) if callable(work) else work
        if words and words[-1] == "go":
            asked = {"task": "find the answer", **(arguments or {})}
            return [ToolUse(f"c{len(request.turns)}", "sessions_spawn", asked)]
        return "ok"

    model = Family(answer)
    model.child_s = child_s
    return model


def config_of(raw: dict[str, Any] | None = None) -> Config:
    agents: dict[str, Any] = {"list": [{"id": "main"}, {"id": "helper"}]}
    whole: dict[str, Any] = {"agents": agents}
    for name, value in (raw or {}).items():
        whole[name] = {**whole.get(name, {}), **value}
    return msgspec.convert(whole, Config)


async def children(gateway: Gateway, parent: SessionKey = MAIN) -> list[Spawn]:
    return await gateway.ledger.list_spawns(parent)


async def reported(gateway: Gateway, parent: SessionKey = MAIN) -> Spawn:
    """The first child, when its end has been reported."""
    for _ in range(500):
        found = await children(gateway, parent)
        if found and found[0].state == "over":
            return found[0]
        await anyio.sleep(1)
    raise AssertionError("the child's end is never reported")


async def announces_in(gateway: Gateway, key: SessionKey = MAIN) -> list[str]:
    """What sub-agents reported into a session's transcript."""
    session = await gateway.ledger.find_session(key)
    assert session is not None
    entries = await gateway.ledger.list_entries(session.session_id, limit=200)
    messages = [entry.message for entry in entries]
    return [
        str(message.content)
        for message in messages
        if isinstance(message, UserMessage)
        and message.provenance is not None
        and message.provenance.kind == "announce"
    ]
