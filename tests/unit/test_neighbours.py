"""Neighbours: what is known of the clients of other gateways, and questions to them."""

import anyio
import msgspec
import pytest

from crossclaw.domain.errors import Busy, Forbidden
from crossclaw.gateway.link_proof import LIFE_MS, UsedTickets
from crossclaw.gateway.linking import LinkReader, LinkWriter
from crossclaw.ledger.gateways import SharingGateway
from crossclaw.runs.neighbours import (
    ConnectedClients,
    Neighbour,
    NeighbourLost,
    NeighbourRefused,
    Neighbours,
    NeighbourUnreached,
)
from crossclaw.testing import VirtualLoop

PHONE = ConnectedClients(
    presence=[{"host": "gateway", "reason": "self", "mode": "gateway", "version": "9", "ts": 1}],
    nodes=[{"nodeId": "phone", "commands": ["snap"]}],
    devices=["d1"],
)


def other(name: str = "b", *roles: str) -> SharingGateway:
    return SharingGateway(
        gateway_id=name, incarnation=f"{name}1", joined_at=1, left_ms=3_000, roles=roles
    )


def test_what_a_neighbour_told_is_forgotten_with_its_link_and_with_itself() -> None:
    known, changes = Neighbours(), list[int]()
    known.listen_to_others(lambda: changes.append(1))
    known.note_clients("b1", PHONE)
    assert not known.nodes(), "nobody of that name shares the ledger"
    known.settle([other("b", "cron")])
    known.note_clients("b1", PHONE)
    known.note_clients("b1", PHONE)
    assert len(changes) == 1, "nothing new is no news"
    where, node = known.nodes()["phone"]
    assert (where.name, node["commands"], known.devices()) == ("b", ["snap"], {"d1"})
    (shown,) = known.presence()
    assert (shown["host"], shown["text"]) == ("b", "Gateway b: crossclaw 9")
    assert known.find_holder("cron") is where
    assert known.find_holder("upkeep") is None
    known.note_clients("b1", ConnectedClients())
    assert not known.nodes()
    known.note_clients("b1", PHONE)
    known.settle([])
    assert not known.nodes()
    assert len(changes) == 4


async def test_a_question_to_a_neighbour_that_goes_ends_and_says_what_is_not_known() -> None:
    known, times = Neighbours(), list[bytes]()
    known.settle([other()])
    (neighbour,) = known

    async def carry(_neighbour: Neighbour, question: bytes, _timeout_s: float) -> bytes:
        times.append(question)
        await anyio.sleep_forever()
        raise AssertionError

    with pytest.raises(NeighbourUnreached, match=r"gateway b .* nothing was done"):
        await known.ask(neighbour, "x", None, dict)
    known.begin_asking(carry)
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(NeighbourLost, match="not known whether it was done"):
                await known.ask(neighbour, "x", None, dict)

        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        known.settle([])
    assert len(times) == 1, "and it is not asked again"


async def test_a_refusal_keeps_its_code_and_a_gateway_that_closes_answers_nothing() -> None:
    asked, answering = Neighbours(), Neighbours()
    asked.settle([other()])
    (neighbour,) = asked

    async def carry(_neighbour: Neighbour, question: bytes, _timeout_s: float) -> bytes:
        said = await answering.answer_one(question)
        assert said is not None
        return said

    async def refuse(body: dict[str, str]) -> None:
        raise Forbidden("not that") if body["what"] == "that" else Busy("later")

    asked.begin_asking(carry)
    answering.begin_answering({"do": refuse})
    for what, code, retryable in (("that", "FORBIDDEN", False), ("else", "UNAVAILABLE", True)):
        with pytest.raises(NeighbourRefused) as refused:
            await asked.ask(neighbour, "do", {"what": what}, dict)
        assert (refused.value.code, refused.value.retryable) == (code, retryable)
    with pytest.raises(NeighbourRefused, match="does not know requests of the kind"):
        await asked.ask(neighbour, "what?", None, dict)

    async def wait(_body: None) -> None:
        await anyio.sleep_forever()

    answering.begin_answering({"wait": wait})
    async with anyio.create_task_group() as tasks:

        async def hear() -> None:
            assert await answering.answer_one(b'{"kind":"wait"}') is None

        tasks.start_soon(hear)
        await anyio.wait_all_tasks_blocked()
        answering.close()


def test_a_ticket_is_used_once_and_remembered_as_long_as_it_would_be_taken() -> None:
    used = UsedTickets()
    assert used.use("t", 0)
    assert not used.use("t", 2 * LIFE_MS)
    assert used.use("u", 2 * LIFE_MS + 1)
    assert list(used._used) == ["u"], "older ones are not kept"


def test_many_that_come_at_once_are_few_lines_of_a_link() -> None:
    told: list[ConnectedClients] = []
    writer = LinkWriter(lambda: PHONE)
    reader = LinkReader(None, told.append)  # type: ignore[arg-type]

    async def come() -> None:
        lines = b""
        for _ in range(100):
            writer.send_clients()
            lines += await writer.take(2.0)
            await anyio.sleep(0.01)
        await anyio.sleep(2)
        lines += await writer.take(2.0)
        for line in lines.splitlines():
            if line:
                assert await reader.read(line) is None

    loop = VirtualLoop()
    try:
        loop.run_until_complete(come())
    finally:
        loop.close()
    assert 2 <= len(told) <= 4
    assert told[-1] == msgspec.convert(msgspec.to_builtins(PHONE), ConnectedClients)
