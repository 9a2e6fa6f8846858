"""Places at a model: what a person watches, what the gateway does by itself, and what programs elsewhere began."""

from pathlib import Path

import msgspec
import pytest

from crossclaw.config.hooks import HooksConfig
from crossclaw.domain.authority import HOOKS, Authority, CredentialRef
from crossclaw.door.principal import person_principal
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import call, say, two_agents
from tests.flows.test_compaction import LONG, is_summary, small

HOOK = msgspec.structs.replace(
    person_principal("hook", {"hook"}, owner=False),
    authority=Authority(made_by=frozenset({CredentialRef(HOOKS)})),
)


class Noting(RehearsalProvider):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, tell: TellPiece):  # type: ignore[no-untyped-def]
        self.asked.append(request)
        return await super().complete(request, tell)


@pytest.mark.spec("B4")
async def test_what_a_hook_brings_about_stands_with_the_hook(tmp_path: Path) -> None:
    sends = '{"agentId": "librarian", "message": "say: REPLY_SKIP", "timeoutSeconds": 60}'
    model = Noting()
    async with open_gateway(tmp_path, model, config=two_agents()) as gateway:
        gateway.door.credentials.put(HOOKS, 1)
        begun = await call(
            gateway, "hooks.agent", HOOK, message=f"tool: sessions_send {sends}\nthen:\nsay: told"
        )
        await gateway.run_store.wait(begun["runId"], timeout_s=3_600)
        of_hook = len(model.asked)
        await say(gateway, "main", "say: hello", "r1")

    assert of_hook >= 3  # the hook's own two, and the one that it sent to
    stands = [(request.patient, request.outside) for request in model.asked]
    assert stands == [(True, True)] * (len(stands) - 1) + [(False, False)]


@pytest.mark.spec("M5")
async def test_a_summary_stands_where_its_run_stands(tmp_path: Path) -> None:
    model, hooks = Noting(), msgspec.convert({"allowRequestSessionKey": True}, HooksConfig)
    config = msgspec.structs.replace(small(), hooks=hooks)
    async with open_gateway(tmp_path, model, config=config) as gateway:
        gateway.door.credentials.put(HOOKS, 1)
        for number in range(6):
            await say(gateway, "main", f"say: turn {number}", f"r{number}")
        await call(gateway, "sessions.compact", key="main")
        for _turn in range(6):
            asked = {"message": f"say: {LONG * 6}", "sessionKey": "hook:x"}
            begun = await call(gateway, "hooks.agent", HOOK, **asked)
            await gateway.run_store.wait(begun["runId"], timeout_s=3_600)

    summaries = [request for request in model.asked if is_summary(request)]
    stands = [(request.patient, request.outside) for request in summaries]
    assert stands[0] == (False, False)
    assert len(stands) > 1
    assert set(stands[1:]) == {(True, True)}
