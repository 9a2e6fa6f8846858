"""Short ways for flow tests to act as a client and as an agent."""

from typing import Any

import msgspec

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.messages import ToolResultMessage
from crossclaw.domain.runs import Run
from crossclaw.door.principal import Principal, person_principal
from crossclaw.door.registry import Caller, TwoAnswers

OWNER = person_principal("owner", {"operator.admin"})


def two_agents(**session: Any) -> Config:
    raw = {"agents": {"list": [{"id": "main"}, {"id": "librarian"}]}, "session": session}
    return msgspec.convert(raw, Config)


async def call(gateway: Gateway, method: str, principal: Principal = OWNER, **params: Any) -> Any:
    """A client's call: the last answer, as it would be on the wire."""
    answer = await gateway.door.dispatch(Caller(principal=principal), method, params)
    if isinstance(answer, TwoAnswers):
        answer = await answer.later()
    return msgspec.json.decode(msgspec.json.encode(answer))


async def say(gateway: Gateway, key: str, text: str, run_id: str) -> Run:
    """Talk with a session and wait for the end of the run."""
    await call(gateway, "chat.send", sessionKey=key, message=text, idempotencyKey=run_id)
    run = await gateway.run_store.wait(run_id, timeout_s=3600)
    assert run is not None
    return run


async def results_of(gateway: Gateway, run: Run) -> list[Any]:
    """What the tools answered in a run."""
    entries = await gateway.ledger.list_entries(run.session_id, limit=100)
    messages = [entry.message for entry in entries if entry.run_id == run.run_id]
    return [message.content for message in messages if isinstance(message, ToolResultMessage)]
