"""A guest that calls any of two gateways, as behind a load balancer, hears and answers what either has for it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.app import links
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.gateway import linking
from crossclaw.testing import ScriptedProvider
from tests.cluster.linked import SOON_S, Linked, linked, see_each_other, until
from tests.databases import databases
from tests.flows.talking import call
from tests.flows.test_guests import Guest

pytestmark = [pytest.mark.spec("B6", "G5"), pytest.mark.anyio]
RAW = {
    "gateway": {"guests": {"sessions": {"*": ["*"]}}},
    "session": {"agentToAgent": {"maxPingPongTurns": 0}},
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {}


@pytest.fixture
async def pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Linked, Linked]]:
    monkeypatch.setattr(links, "BEAT_S", 0.05)
    monkeypatch.setattr(linking, "CLIENTS_EVERY_S", 0.02)
    url = databases().url(tmp_path / "ledger")
    async with AsyncExitStack() as closing:
        a, b = [
            await closing.enter_async_context(
                linked(tmp_path, url, name, ScriptedProvider(lambda _: "heard"), RAW)
            )
            for name in "ab"
        ]
        await see_each_other(a, b)
        yield a, b


async def sent(where: Linked, text: str) -> str:
    answer = await call(where.gateway, "sessions.send", label="bob", message=text, timeoutSeconds=0)
    return str(answer["runId"])


async def test_a_message_in_hand_of_one_gateway_is_got_and_answered_through_the_other(
    pair: tuple[Linked, Linked],
) -> None:
    a, b = pair
    at_a, at_b = Guest(a.gateway, "bob"), Guest(b.gateway, "bob")
    await at_b.come()
    with anyio.fail_after(SOON_S):
        run_id = await sent(b, "one")
        first = await at_b.wait(5)
        assert (first["runId"], first["message"]) == (run_id, "one")
        await until(lambda: a.gateway.neighbours.has_guest(SessionKey.guest("main", "bob")))
        (row,) = [
            each
            for each in (await call(a.gateway, "sessions.table"))["rows"]
            if "bob" in each["key"]
        ]
        assert row["standing"]["why"] == "the guest bob", "and not that it is away"
        again = await at_a.wait(0)
        assert again == first, "the same one until it is answered"
        spoken = await at_a.call("sessions_send", sessionKey="main", message="hm", timeoutSeconds=0)
        told = await a.gateway.ledger.find_run(spoken["runId"])
        assert told is not None
        assert run_id in told.cause.chain, "what it does belongs to the message that it answers"
        assert await at_a.reply(run_id, "four") == {"runId": run_id, "status": "ok"}
        assert await at_a.reply(run_id, "four") == {"runId": run_id, "status": "ok"}
        with pytest.raises(Invalid, match="answered before"):
            await at_b.reply(run_id, "five")
    run = await b.gateway.ledger.find_run(run_id)
    assert run is not None
    assert (run.status, run.reply) == ("ok", "four")


async def test_a_guest_that_waits_at_one_gateway_hears_what_the_other_has_taken(
    pair: tuple[Linked, Linked],
) -> None:
    a, b = pair
    at_a, at_b = Guest(a.gateway, "bob"), Guest(b.gateway, "bob")
    await at_b.come()
    assert (await at_b.wait(0))["status"] == "nothing"
    heard: list[Any] = []

    async def wait() -> None:
        heard.append(await at_a.wait(SOON_S))

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            key = SessionKey.guest("main", "bob")
            await until(lambda: a.gateway.guests.is_here(key))
            a.gateway.slots.close()  # so that the other one takes it
            run_id = await sent(b, "one")
    assert (heard[0]["runId"], heard[0]["message"]) == (run_id, "one")
    assert "hint" in msgspec.to_builtins(heard[0])
    await at_a.reply(run_id, "two")
