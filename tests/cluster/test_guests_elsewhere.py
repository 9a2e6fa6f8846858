"""A guest that calls any of two gateways, as behind a load balancer, hears and answers what either has for it."""

from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from tests.cluster.linked import Linked, until
from tests.ending import SOON_S
from tests.flows.talking import call
from tests.flows.test_guests import Guest

pytestmark = [pytest.mark.spec("B6", "G5"), pytest.mark.anyio]


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


async def test_a_guest_hears_what_its_own_gateway_has_taken_before_its_time_is_over(
    pair: tuple[Linked, Linked],
) -> None:
    a, b = pair
    at_b = Guest(b.gateway, "bob")
    await at_b.come()
    heard: list[Any] = []

    async def wait() -> None:
        heard.append(await at_b.wait(10 * SOON_S))

    a.gateway.slots.close()  # so that the guest's own one takes it
    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await until(lambda: b.gateway.guests.is_here(SessionKey.guest("main", "bob")))
            run_id = await sent(b, "one")
    assert (heard[0]["runId"], heard[0]["message"]) == (run_id, "one")
    await at_b.reply(run_id, "two")
