"""A credential that has ended is noticed at each step by itself, also where nobody was told of the end."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.errors import CredentialEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolUse
from crossclaw.door.principal import Principal, person_principal
from crossclaw.ledger.operations import NewDelivery, PutDelivery
from crossclaw.testing import MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import OWNER, call, say
from tests.flows.tools import Counting

pytestmark = pytest.mark.spec("B3")

ENDED = "the credential that this came by was revoked, removed or changed"
THIEF = person_principal("device:x", {"operator.admin"}, [CredentialRef("device:x", 1)])


def end_silently(gateway: Gateway) -> None:
    """Without telling anybody who listens: each step has to look."""
    gateway.credentials._epochs.pop("device:x", None)


async def begin(
    gateway: Gateway, who: Principal = THIEF, run_id: str = "r1", key: str = "main"
) -> None:
    asked = {"sessionKey": key, "message": "go", "idempotencyKey": run_id}
    await call(gateway, "chat.send", who, **asked)


async def test_no_call_is_dispatched(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        with pytest.raises(CredentialEnded):
            await begin(gateway)
        assert await gateway.run_store.find("r1") is None, "nothing was done before it was refused"


async def test_no_answer_is_given_to_a_call_that_waited(tmp_path: Path) -> None:
    model = ScriptedProvider(["done"], delay_s=5)
    async with open_gateway(tmp_path, model) as gateway:
        gateway.credentials.put("device:x", 1)
        await begin(gateway)
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await anyio.sleep(1)
                end_silently(gateway)

            tasks.start_soon(end)
            with pytest.raises(CredentialEnded):
                await call(gateway, "agent.wait", THIEF, runId="r1", timeoutMs=60_000)


async def test_no_queued_run_begins(tmp_path: Path) -> None:
    """Nor one that would ask no model: a guest's waits for its guest."""
    model, guest = ScriptedProvider(["first"], delay_s=5), "agent:main:mcp:bob"
    async with open_gateway(tmp_path, model) as gateway:
        gateway.credentials.put("device:x", 1)
        await begin(gateway, OWNER, "r0")
        await begin(gateway, OWNER, "g0", guest)
        await begin(gateway)
        await begin(gateway, THIEF, "g1", guest)
        end_silently(gateway)
        runs = [await gateway.run_store.wait(each, timeout_s=600) for each in ("r1", "g1")]

    assert [(run.status, run.error) for run in runs if run] == [("aborted", ENDED)] * 2
    assert len(model.seen) == 1


@pytest.mark.parametrize("at", ["tool", "model"])
async def test_neither_a_tool_nor_a_model_is_called(tmp_path: Path, at: str) -> None:
    gateways: list[Gateway] = []

    def ends(_request: Any = None) -> Any:
        end_silently(gateways[0])
        return ToolUse("c1", "count", {})

    count = Counting("count", before=lambda: None if at == "tool" else ends() and None)
    model = ScriptedProvider([ends if at == "tool" else ToolUse("c1", "count", {}), "never"])
    async with open_gateway(tmp_path, model, tools=[count]) as gateway:
        gateways.append(gateway)
        gateway.credentials.put("device:x", 1)
        await begin(gateway)
        run = await gateway.run_store.wait("r1", timeout_s=60)

    assert run is not None
    assert (run.status, run.error) == ("aborted", ENDED)
    assert (count.calls, len(model.seen)) == ((0, 1) if at == "tool" else (1, 1))


async def test_nothing_is_delivered(tmp_path: Path) -> None:
    chat = MemoryChannel()
    async with open_gateway(tmp_path, ScriptedProvider(["hi"]), channels=[chat]) as gateway:
        await say(gateway, "main", "hello", "r0")
        new = NewDelivery(
            delivery_key="d1",
            key=SessionKey.main("main"),
            address=Address("memory", "ana"),
            text="late words",
            authority=Authority(made_by=frozenset({CredentialRef("device:x", 1)})),
        )
        await gateway.ledger.do(PutDelivery(new=new, at=1))
        gateway.outbox.wake()
        await anyio.sleep(60)
        found = await gateway.ledger.find_delivery("d1")

    assert found is not None
    assert (found.state, chat.sent) == ("failed", [])
    assert chat.tries == 0
